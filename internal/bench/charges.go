package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ponte-pay/ponte/internal/clock"
)

const (
	chargeConnections = 64
	payConnections    = 32
	chargesPaid       = 20_000 // at most; enough to see a rate
	settleTimeMax     = 2 * time.Minute

	chargesPostgresMin = 1.0 // times TPC-B
	chargesSQLiteMin   = 1.5
	settleMin          = 0.6 // of creations
	chargeP99Max       = 100 * time.Millisecond
)

// creations measures charges over HTTP against a bank in a process of its own, then pays them all and waits until the
// last is in the balance. It returns creations a second.
func (r *run) creations(ctx context.Context, name, database string, tpcb, ratioMin float64) error {
	r.Progress("POST /v1/charges on %s", name)
	folder := r.path("charges-" + name)
	bank, bankURL, err := r.start(ctx, "simulator", folder)
	if err != nil {
		return err
	}
	defer stop(bank)
	where := []string{"--data=" + folder}
	if database != "" {
		where = append(where, "--database="+database)
	}
	key, err := r.newKey(ctx, where...)
	if err != nil {
		return err
	}
	server, base, err := r.start(ctx, "serve", folder, append(where, "--simulator="+bankURL)...)
	if err != nil {
		return err
	}
	defer stop(server)

	var made atomic.Int64
	var mu sync.Mutex
	var txids []string
	address := base[len("http://"):]
	created, err := hammer(ctx, r.duration(), traffic{
		address: address, connections: chargeConnections, want: "HTTP/1.1 201",
		next: func() []byte {
			n := made.Add(1)
			body := fmt.Sprintf(`{"amount":10.00,"external_id":"bench-%d"}`, n)
			return fmt.Appendf(nil, "POST /v1/charges HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nIdempotency-Key: bench-key-%d\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
				address, key, n, len(body), body)
		},
		each: func(body []byte) {
			_, rest, _ := bytes.Cut(body, []byte(`"txid":"`))
			txid, _, found := bytes.Cut(rest, []byte(`"`))
			mu.Lock()
			defer mu.Unlock()
			if found && len(txids) < chargesPaid {
				txids = append(txids, string(txid))
			}
		},
	})
	if err != nil {
		return err
	}
	r.compare(name+": charges created", created.rate, "pgbench TPC-B", tpcb, ratioMin)
	r.limit(name+": p99 of a creation", created.p99.Seconds()*1000, "ms", float64(chargeP99Max.Milliseconds()))
	r.Progress("paying %d charges of one account on %s", len(txids), name)
	rate, err := r.settle(ctx, bankURL, base, key, txids)
	if err != nil {
		return err
	}
	r.compare(name+": charges settled by callbacks", rate, "creations", created.rate, settleMin)
	if memory, ok := residentMegabytes(server.Process.Pid); ok {
		r.plainUnit(fmt.Sprintf("%s: memory after %d charges", name, created.answers), memory, "MB")
	}
	return nil
}

// settle pays charges as fast as the bank takes it and returns how many a second reached the balance.
func (r *run) settle(ctx context.Context, bankURL, base, key string, txids []string) (float64, error) {
	c := clock.New(nil)
	var at atomic.Int64
	address := bankURL[len("http://"):]
	started := c.Real()
	_, err := hammer(ctx, settleTimeMax, traffic{
		address: address, connections: payConnections, want: "HTTP/1.1 200",
		next: func() []byte {
			n := at.Add(1) - 1
			if n >= int64(len(txids)) {
				return nil
			}
			body := `{"txid":"` + txids[n] + `"}`
			return fmt.Appendf(nil, "POST /sim/pix/pay HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", address, len(body), body)
		},
	})
	if err != nil {
		return 0, err
	}
	want := fmt.Appendf(nil, `"available_balance":%d.00`, 10*len(txids))
	err = poll(ctx, settleTimeMax, func() bool {
		body, err := get(ctx, base+"/v1/balance", key)
		return err == nil && bytes.Contains(body, want)
	}, "the payments are not all in the balance")
	return float64(len(txids)) / c.RealSince(started).Seconds(), err
}

func get(ctx context.Context, url, key string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+key)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return io.ReadAll(io.LimitReader(response.Body, megabyte))
}

// start starts a ponte process on a free port and waits until it answers.
func (r *run) start(ctx context.Context, command, folder string, args ...string) (*exec.Cmd, string, error) {
	port, err := freePort(ctx)
	if err != nil {
		return nil, "", err
	}
	address := "127.0.0.1:" + strconv.Itoa(port)
	line := append([]string{command, "--data=" + filepath.Join(folder, command), "--listen=" + address, "--log-level=warn"}, args...)
	ready := "/sim/clock"
	if command == "serve" {
		line, ready = append(line, "--admin-listen=off"), "/readyz"
	}
	process := exec.CommandContext(ctx, r.Binary, line...)
	process.Cancel = func() error { return process.Process.Signal(syscall.SIGTERM) }
	if err := process.Start(); err != nil {
		return nil, "", err
	}
	if err := waitReady(ctx, address, ready); err != nil {
		stop(process)
		return nil, "", err
	}
	return process, "http://" + address, nil
}

func stop(process *exec.Cmd) {
	_ = process.Process.Signal(syscall.SIGTERM)
	_ = process.Wait()
}

// tpcb measures what pgbench gets in its own mix, with as many clients as we have connections to the database.
func (r *run) tpcb(ctx context.Context, pgbench, url string) (float64, error) {
	if _, err := command(ctx, pgbench, "-i", "-q", "-s", "10", url); err != nil {
		return 0, err
	}
	out, err := command(ctx, pgbench, "-n", "-M", "prepared", "-c", strconv.Itoa(creditors), "-j", "2", "-T", strconv.Itoa(r.Seconds), url)
	if err != nil {
		return 0, err
	}
	found := tps.FindSubmatch(out)
	if found == nil {
		return 0, fmt.Errorf("bench: pgbench told no rate: %s", out)
	}
	return strconv.ParseFloat(string(found[1]), 64)
}
