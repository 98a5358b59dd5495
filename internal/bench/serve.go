package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ponte-pay/ponte/internal/clock"
)

const (
	serveStartMax = 20 * time.Second
	connections   = 32
	megabyte      = 1 << 20
)

// serve measures a real `ponte serve` from outside: how large it is, how soon it is there, and how many authenticated
// balances it tells.
func (r *run) serve(ctx context.Context) error {
	info, err := os.Stat(r.Binary)
	if err != nil {
		return err
	}
	r.limit("size of the binary", float64(info.Size())/megabyte, "MB", binaryMegabyteMax)

	r.Progress("start of ponte serve")
	data := "--data=" + r.path("serve")
	key, err := r.newKey(ctx, data)
	if err != nil {
		return err
	}
	port, err := freePort(ctx)
	if err != nil {
		return err
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	c := clock.New(nil)
	started := c.Real()
	server := exec.CommandContext(ctx, r.Binary, "serve", data, "--listen="+address, "--admin-listen=off", "--simulator-listen=127.0.0.1:0", "--log-level=warn")
	server.Cancel = func() error { return server.Process.Signal(syscall.SIGTERM) }
	if err := server.Start(); err != nil {
		return err
	}
	defer func() {
		_ = server.Process.Signal(syscall.SIGTERM)
		_ = server.Wait()
	}()
	if err := waitReady(ctx, address, "/readyz"); err != nil {
		return err
	}
	r.limit("start to ready on SQLite", c.RealSince(started).Seconds(), "s", readySecondsMax)
	if idle, ok := residentMegabytes(server.Process.Pid); ok {
		r.limit("memory when idle", idle, "MB", idleMegabyteMax)
	}

	r.Progress("an empty HTTP handler")
	empty, err := r.emptyHandler(ctx)
	if err != nil {
		return err
	}
	r.Progress("GET /v1/balance")
	request := "GET /v1/balance HTTP/1.1\r\nHost: " + address + "\r\nAuthorization: Bearer " + key + "\r\n\r\n"
	rate, err := r.load(ctx, address, request)
	if err != nil {
		return err
	}
	r.plain("empty HTTP handler", empty)
	r.compare("SQLite: GET /v1/balance", rate, "an empty handler", empty, 0)
	last := &r.report.Rows[len(r.report.Rows)-1]
	last.Goal, last.Reached = fmt.Sprintf("at least %d/s", balanceRateMin), rate >= balanceRateMin
	return nil
}

// newKey makes an account whose key may be used as often as we like.
func (r *run) newKey(ctx context.Context, where ...string) (string, error) {
	out, err := exec.CommandContext(ctx, r.Binary, append([]string{"account", "create", "--name=bench", "--json"}, where...)...).Output()
	if err != nil {
		return "", err
	}
	var made struct {
		Account string `json:"account_id"`
		Key     string `json:"api_key"`
	}
	if err := json.Unmarshal(out, &made); err != nil {
		return "", err
	}
	_, err = command(ctx, r.Binary, append([]string{"account", "set", made.Account, "rate_limit=1000000"}, where...)...)
	return made.Key, err
}

func (r *run) emptyHandler(ctx context.Context) (float64, error) {
	var c net.ListenConfig
	l, err := c.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	server := &http.Server{
		ReadHeaderTimeout: time.Second,
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") }),
	}
	go server.Serve(l) //nolint:errcheck // it ends when it is closed
	defer server.Close()
	return r.load(ctx, l.Addr().String(), "GET / HTTP/1.1\r\nHost: bench\r\n\r\n")
}

// load sends one request over and over on several connections and returns answers a second.
func (r *run) load(ctx context.Context, address, request string) (float64, error) {
	fixed := []byte(request)
	result, err := hammer(ctx, r.duration(), traffic{
		address: address, connections: connections,
		next: func() []byte { return fixed }, want: "HTTP/1.1 200",
	})
	return result.rate, err
}

// traffic is what a load generator sends.
type traffic struct {
	address     string
	connections int
	next        func() []byte     // the next request; nil ends its connection
	want        string            // what every answer begins with
	each        func(body []byte) // looks at the body; nil for none
}

// flow is how it went.
type flow struct {
	answers int64
	rate    float64       // answers a second
	p99     time.Duration // the time that one in a hundred answers took longer than
}

// hammer sends traffic for as long as said, or until there is no more. It reads no more of an answer than it must, so that
// the machine's time goes into the server.
func hammer(ctx context.Context, limit time.Duration, t traffic) (flow, error) {
	c := clock.New(nil)
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	var answers atomic.Int64
	failures := make(chan error, t.connections)
	took := make([][]time.Duration, t.connections)
	started := c.Real()
	var wg sync.WaitGroup
	for i := range t.connections {
		wg.Go(func() {
			if err := t.connection(ctx, c, &answers, &took[i]); err != nil && ctx.Err() == nil {
				failures <- err
				stop()
			}
		})
	}
	wg.Wait()
	all := slices.Sorted(slices.Values(slices.Concat(took...)))
	f := flow{answers: answers.Load(), rate: float64(answers.Load()) / c.RealSince(started).Seconds()}
	if len(all) > 0 {
		f.p99 = all[len(all)*99/100]
	}
	select {
	case err := <-failures:
		return f, err
	default:
		return f, nil
	}
}

func (t traffic) connection(ctx context.Context, c *clock.Clock, answers *atomic.Int64, took *[]time.Duration) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", t.address)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	in := bufio.NewReaderSize(conn, 16<<10)
	for {
		request := t.next()
		if request == nil {
			return nil
		}
		asked := c.Real()
		if _, err := conn.Write(request); err != nil {
			return err
		}
		if err := readAnswer(in, t.want, t.each); err != nil {
			return err
		}
		*took = append(*took, c.RealSince(asked))
		answers.Add(1)
	}
}

// readAnswer reads one answer and fails unless it begins as wanted.
func readAnswer(in *bufio.Reader, want string, each func([]byte)) error {
	status, err := in.ReadSlice('\n')
	if err != nil {
		return err
	}
	refused := !bytes.HasPrefix(status, []byte(want))
	line := string(bytes.TrimSpace(status))
	length := -1
	for {
		header, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		header = bytes.TrimSpace(header)
		if len(header) == 0 {
			break
		}
		if value, ok := bytes.CutPrefix(header, []byte("Content-Length: ")); ok {
			if length, err = strconv.Atoi(string(value)); err != nil {
				return err
			}
		}
	}
	if length < 0 {
		return errors.New("bench: an answer without Content-Length")
	}
	if !refused && each == nil {
		_, err = in.Discard(length)
		return err
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(in, body); err != nil {
		return err
	}
	if refused {
		return fmt.Errorf("bench: answered %s: %.300s", line, body)
	}
	each(body)
	return nil
}

func waitReady(ctx context.Context, address, path string) error {
	return poll(ctx, serveStartMax, func() bool {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
		if err != nil {
			return false
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK
	}, address+" is not ready")
}

func poll(ctx context.Context, limit time.Duration, done func() bool, complaint string) error {
	c := clock.New(nil)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for !done() {
		if c.Wait(ctx, 5*time.Millisecond) != nil {
			return fmt.Errorf("bench: %s after %v", complaint, limit)
		}
	}
	return nil
}

// residentMegabytes returns a process's memory where the system tells it.
func residentMegabytes(pid int) (float64, bool) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kilobytes, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			return kilobytes / 1024, err == nil
		}
	}
	return 0, false
}
