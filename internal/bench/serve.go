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
	server := exec.CommandContext(ctx, r.Binary, "serve", data, "--listen="+address, "--admin-listen=off", "--log-level=warn")
	server.Cancel = func() error { return server.Process.Signal(syscall.SIGTERM) }
	if err := server.Start(); err != nil {
		return err
	}
	defer func() {
		_ = server.Process.Signal(syscall.SIGTERM)
		_ = server.Wait()
	}()
	if err := waitReady(ctx, address); err != nil {
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
	r.compare("SQLite: GET /v1/balance", rate, "/s", "an empty handler", empty, 0)
	last := &r.report.Rows[len(r.report.Rows)-1]
	last.Goal, last.Reached = fmt.Sprintf("at least %d/s", balanceRateMin), rate >= balanceRateMin
	return nil
}

// newKey makes an account whose key may be used as often as we like.
func (r *run) newKey(ctx context.Context, data string) (string, error) {
	out, err := exec.CommandContext(ctx, r.Binary, "account", "create", "--name=bench", "--json", data).Output()
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
	_, err = command(ctx, r.Binary, "account", "set", made.Account, "rate_limit=1000000", data)
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

// load sends one request over and over on several connections and returns answers a second. It reads no more of an
// answer than it must, so that the machine's time goes into the server.
func (r *run) load(ctx context.Context, address, request string) (float64, error) {
	c := clock.New(nil)
	ctx, stop := context.WithTimeout(ctx, r.duration())
	defer stop()
	var answers atomic.Int64
	failures := make(chan error, connections)
	started := c.Real()
	var wg sync.WaitGroup
	for range connections {
		wg.Go(func() {
			if err := hammer(ctx, address, []byte(request), &answers); err != nil && ctx.Err() == nil {
				failures <- err
				stop()
			}
		})
	}
	wg.Wait()
	select {
	case err := <-failures:
		return 0, err
	default:
		return float64(answers.Load()) / c.RealSince(started).Seconds(), nil
	}
}

func hammer(ctx context.Context, address string, request []byte, answers *atomic.Int64) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	in := bufio.NewReader(conn)
	for {
		if _, err := conn.Write(request); err != nil {
			return err
		}
		if err := readAnswer(in); err != nil {
			return err
		}
		answers.Add(1)
	}
}

// readAnswer reads one answer and fails unless it is 200.
func readAnswer(in *bufio.Reader) error {
	status, err := in.ReadSlice('\n')
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(status, []byte("HTTP/1.1 200")) {
		return fmt.Errorf("bench: answered %s", bytes.TrimSpace(status))
	}
	length := -1
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			break
		}
		if value, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if length, err = strconv.Atoi(string(value)); err != nil {
				return err
			}
		}
	}
	if length < 0 {
		return errors.New("bench: an answer without Content-Length")
	}
	_, err = in.Discard(length)
	return err
}

func waitReady(ctx context.Context, address string) error {
	return poll(ctx, serveStartMax, func() bool {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", nil)
		if err != nil {
			return false
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK
	}, "ponte serve is not ready")
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
