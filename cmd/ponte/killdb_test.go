package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/bench"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/testkit"
)

const (
	databaseKillsVariable = "PONTE_DATABASE_KILLS" // how often the database is killed
	databaseKillsDefault  = 1

	witnesses       = 8
	witnessWithin   = 300 * time.Millisecond // of load before a kill, at most
	witnessLeast    = 40                     // answers before a kill
	witnessPause    = 50 * time.Millisecond  // after a request that was not answered
	databaseBackMax = time.Minute
	plantedTries    = 5
)

// witness sends the requests of ponte bench and remembers every one that was answered 201.
type witness struct {
	*till
	answered map[string]string // external_id of what was made, by its path
}

func newWitness(key, server string) *witness {
	client := &http.Client{Timeout: sendTimeMax, Transport: &http.Transport{MaxIdleConnsPerHost: witnesses}}
	w := &witness{till: &till{key: key, client: client}, answered: map[string]string{}}
	w.server.Store(&server)
	return w
}

// ask sends charges and payouts in turn. Whatever is not answered, or not with 201, is forgotten: nothing was promised.
func (w *witness) ask(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-w.closing:
			return
		default:
		}
		n := w.numbers.Add(1)
		path, body := "/v1/charges", fmt.Sprintf(`{"amount":10.00,"external_id":"bench-%d"}`, n)
		if n%2 == 0 {
			path, body = "/v1/payouts", fmt.Sprintf(`{"amount":2.00,"pix_key":"person-%d@example.org","external_id":"bench-%d"}`, n, n)
		}
		status, answer, err := w.send(ctx, http.MethodPost, path, fmt.Sprintf("bench-key-%d", n), body)
		if err != nil || status != http.StatusCreated {
			_ = testkit.Real.Wait(ctx, witnessPause)
			continue
		}
		var made struct {
			ID string `json:"id"`
		}
		_ = json.Unmarshal(answer, &made) // what cannot be read has no id, and is then missing
		w.mu.Lock()
		w.answered[path+"/"+made.ID] = fmt.Sprintf("bench-%d", n)
		w.mu.Unlock()
	}
}

func (w *witness) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.answered)
}

// during asks from many sides at once, and calls kill in the middle of it. They go on asking until it returns.
func (w *witness) during(t *testing.T, kill func()) {
	t.Helper()
	w.closing = make(chan struct{})
	var asking sync.WaitGroup
	for range witnesses {
		asking.Go(func() { w.ask(t.Context()) })
	}
	before := w.count()
	if err := testkit.Real.Wait(t.Context(), rand.N(witnessWithin)); err != nil {
		t.Fatal(err)
	}
	testkit.Within(t, databaseBackMax, "answers", func() bool { return w.count() >= before+witnessLeast })
	kill()
	close(w.closing)
	asking.Wait()
}

// missing returns what was answered and is not there.
func (w *witness) missing(t *testing.T) (lost []string) {
	t.Helper()
	paths := make(chan string)
	var mu sync.Mutex
	var looking sync.WaitGroup
	for range witnesses {
		looking.Go(func() {
			for path := range paths {
				status, answer, err := w.look(t.Context(), path)
				var found chargeJSON
				if err == nil {
					err = json.Unmarshal(answer, &found)
				}
				if err != nil || status != http.StatusOK || found.ExternalID == nil || *found.ExternalID != w.answered[path] {
					mu.Lock()
					lost = append(lost, fmt.Sprintf("%s: %d %.200s %v", path, status, answer, err))
					mu.Unlock()
				}
			}
		})
	}
	for _, path := range slices.Sorted(maps.Keys(w.answered)) {
		paths <- path
	}
	close(paths)
	looking.Wait()
	return lost
}

// look asks for what was made until it is told: a server that is not available says nothing about it.
func (w *witness) look(ctx context.Context, path string) (status int, answer []byte, err error) {
	began := testkit.Real.Real()
	for {
		status, answer, err = w.send(ctx, http.MethodGet, path, "", "")
		if (err == nil && status != http.StatusServiceUnavailable) || testkit.Real.RealSince(began) > databaseBackMax {
			return status, answer, err
		}
		if err := testkit.Real.Wait(ctx, witnessPause); err != nil {
			return 0, nil, err
		}
	}
}

// back waits until the server serves again.
func (w *witness) back(t *testing.T) {
	t.Helper()
	testkit.Within(t, databaseBackMax, "the server to be ready again", func() bool {
		status, _, err := w.send(t.Context(), http.MethodGet, "/readyz", "", "")
		return err == nil && status == http.StatusOK
	})
}

// check fails the test unless everything that was answered is there and all adds up.
func (w *witness) check(t *testing.T, in *installation) {
	t.Helper()
	lost := w.missing(t)
	t.Logf("%d requests of %d were answered 201", len(w.answered), w.numbers.Load())
	if len(lost) > 0 {
		t.Errorf("%d of %d answered requests are lost, such as %s", len(lost), len(w.answered), lost[0])
	}
	var audit auditResult
	in.json(t, &audit, "audit")
	if len(audit.Problems) > 0 {
		t.Errorf("%+v", audit)
	}
}

// witness starts a bank and a server with an account that has money.
func (in *installation) witness(t *testing.T) (w *witness, p *process, bank string) {
	t.Helper()
	world := install(t, "", "--data", t.TempDir()).launch(t, "simulator", "--listen", "127.0.0.1:0")
	world.ready(t, simulating)
	p = in.serve(t, "--simulator", world.url)
	account, key := in.account(t, "bench")
	for _, args := range [][]string{
		{"account", "set", account, "rate_limit=1000000"},
		{"account", "adjust", account, "--currency", "BRL", "--amount", "1000000", "--reason", "bench"},
	} {
		if r := in.call(t, args...); r.status != 0 {
			t.Fatalf("%v: %s", args, r.stderr)
		}
	}
	return newWitness(key, p.url), p, world.url
}

// TestKillPostgresUnderLoad kills a PostgreSQL with all its processes, while it is asked for charges and payouts, and starts
// it again: what was answered is there, and the server, which was not restarted, serves.
func TestKillPostgresUnderLoad(t *testing.T) {
	t.Parallel()
	folder, err := os.MkdirTemp("", "ponte-killed-") //nolint:usetesting // PostgreSQL's own user cannot enter t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	database, err := bench.StartPostgres(t.Context(), filepath.Join(folder, "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = database.Stop() }) // it may be down
	in := install(t, database.URL, "--data", filepath.Join(t.TempDir(), "data"), "--database", database.URL)
	w, _, _ := in.witness(t)
	wantSettings(t, in, map[string]any{"SHOW fsync": "on", "SHOW synchronous_commit": "on", "SHOW full_page_writes": "on"})
	crash := func() {
		if err := errors.Join(database.Kill(), database.Start(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	for range number(t, databaseKillsVariable, databaseKillsDefault) {
		w.during(t, crash)
		w.back(t)
	}
	w.check(t, in)

	// A test that finds nothing may be blind: commits that do not wait for the disk are lost, and that must show, unless
	// something else happened to flush the log just before.
	for range plantedTries {
		if err := errors.Join(database.Stop(), database.Start(t.Context(), "synchronous_commit=off", "wal_writer_delay=10s",
			"wal_writer_flush_after=1GB", "bgwriter_lru_maxpages=0", "autovacuum=off")); err != nil {
			t.Fatal(err)
		}
		w.back(t)
		w.during(t, crash)
		w.back(t)
		if len(w.missing(t)) > 0 {
			return
		}
	}
	t.Error("nothing was lost although commits waited for nothing: the test finds nothing")
}

// TestKillServerUnderLoad is the same where the database is in the server: on SQLite.
func TestKillServerUnderLoad(t *testing.T) {
	t.Parallel()
	in := onSQLite(t)
	w, p, bank := in.witness(t)
	wantSettings(t, in, map[string]any{"PRAGMA synchronous": int64(2), "PRAGMA journal_mode": "wal"}) // 2 is FULL
	for range number(t, databaseKillsVariable, databaseKillsDefault) {
		w.during(t, func() { p.signal(t, syscall.SIGKILL) })
		p.wait(t)
		p = in.serve(t, "--simulator", bank)
		w.server.Store(&p.url)
	}
	w.check(t, in)
	p.stop(t)
}

// wantSettings fails the test unless the database keeps what is committed, in sessions as the server has them. A kill cannot
// tell: what a killed process has written, the kernel still has.
func wantSettings(t *testing.T, in *installation, want map[string]any) {
	t.Helper()
	db, err := sqldb.Open(t.Context(), in.database)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for sql, value := range want {
		err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			got, err := sqldb.One(ctx, tx, sqldb.Scalar[any], sql)
			if err == nil && got != value {
				t.Errorf("%s: %v, want %v", sql, got, value)
			}
			return err
		})
		if err != nil {
			t.Errorf("%s: %v", sql, err)
		}
	}
}
