package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/app"
	"github.com/ponte-pay/ponte/internal/config"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/testkit"
)

// killsVariable says how often the server is killed; by hand that may be often.
const (
	killsVariable = "PONTE_KILLS"
	killsDefault  = 4
)

var simulating = regexp.MustCompile(`The simulators are running at (http://127\.0\.0\.1:\d+)\n`)

// till makes charges and has them paid, whatever becomes of the server meanwhile.
type till struct {
	world  *testkit.World
	key    string
	server atomic.Pointer[string] // its URL
	client *http.Client

	numbers atomic.Int64
	closing chan struct{} // closed when no new charge is to be begun
	mu      sync.Mutex
	made    map[string]string // ids of charges by their external_id
}

const (
	tills       = 6
	stuckAfter  = 130 * time.Second // a lease, and some time to notice
	sendTimeMax = 20 * time.Second
	tryAgain    = 10 * time.Millisecond
	killAfter   = 30 * time.Millisecond  // of serving, at least
	killWithin  = 400 * time.Millisecond // after that
)

type chargeJSON struct {
	ID         string      `json:"id"`
	ExternalID *string     `json:"external_id"`
	Amount     json.Number `json:"amount"`
	Status     string      `json:"status"`
	TxID       string      `json:"txid"`
	EndToEndID *string     `json:"end_to_end_id"`
	Pix        struct {
		CopyPaste string `json:"copy_paste"`
	} `json:"pix"`
}

// run makes one charge after the other, and pays most of them.
func (k *till) run(ctx context.Context) error {
	for {
		select {
		case <-k.closing:
			return nil
		default:
		}
		n := k.numbers.Add(1)
		c, err := k.make(ctx, n)
		if err != nil {
			return err
		}
		if n%5 == 0 {
			continue // nobody pays it
		}
		pay, err := json.Marshal(map[string]any{"copy_paste": c.Pix.CopyPaste, "callback": n%4 != 0})
		if err != nil {
			return err
		}
		if status, answer, err := k.world.Try(ctx, http.MethodPost, "/sim/pix/pay", string(pay)); err != nil || status != http.StatusOK {
			return fmt.Errorf("pay: %d %s, %w", status, answer, err)
		}
		if n%3 == 0 { // somebody looks while it is being paid; who looks at a dead server sees nothing
			_, _, _ = k.send(ctx, http.MethodGet, "/v1/charges/"+c.ID, "", "")
		}
	}
}

// send sends a request to whatever server is there. It is not held against the contract, which would take most of the
// time that is there for load.
func (k *till) send(ctx context.Context, method, path, idempotencyKey, body string) (status int, answer []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, method, *k.server.Load()+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Authorization", k.key)
	if idempotencyKey != "" {
		r.Header.Set("Idempotency-Key", idempotencyKey)
	}
	res, err := k.client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	answer, err = io.ReadAll(res.Body)
	return res.StatusCode, answer, err
}

// make makes a charge, with the same request until it is answered.
func (k *till) make(ctx context.Context, n int64) (c chargeJSON, err error) {
	external := fmt.Sprintf("kill-%d", n)
	body := fmt.Sprintf(`{"amount": %d.%02d, "external_id": %q}`, 2+n%50, n%100, external)
	began := testkit.Real.Real()
	var status int
	var answer []byte
	for testkit.Real.RealSince(began) < stuckAfter {
		status, answer, err = k.send(ctx, http.MethodPost, "/v1/charges", "key-"+external, body)
		switch {
		case err != nil: // it was killed
		case status == http.StatusCreated:
			if err := json.Unmarshal(answer, &c); err != nil {
				return c, err
			}
			k.mu.Lock()
			defer k.mu.Unlock()
			k.made[external] = c.ID
			return c, nil
		case status != http.StatusServiceUnavailable && status != http.StatusBadGateway && !bytes.Contains(answer, []byte("idempotency_key_in_progress")):
			return c, fmt.Errorf("%s: %d %s", external, status, answer)
		}
		if err := testkit.Real.Wait(ctx, tryAgain); err != nil {
			return c, err
		}
	}
	return c, fmt.Errorf("%s is stuck: %d %s, %w", external, status, answer, err)
}

// TestKillUnderLoad kills the server at random moments while charges are made and paid: every payment in the bank's books
// is credited once, whenever it was that the server died.
func TestKillUnderLoad(t *testing.T) {
	t.Parallel()
	count := number(t, killsVariable, killsDefault)
	each(t, func(t *testing.T, in *installation) {
		bank := install(t, "", "--data", t.TempDir()).launch(t, "simulator", "--listen", "127.0.0.1:0")
		bank.ready(t, simulating)
		p := in.serve(t, "--simulator", bank.url)
		account, key := in.account(t, "shop")
		in.must(t, "account", "set", account, "rate_limit=1000000")
		k := &till{world: testkit.WorldAt(bank.url), key: key, client: &http.Client{Timeout: sendTimeMax}, closing: make(chan struct{}), made: map[string]string{}}
		k.server.Store(&p.url)
		var running sync.WaitGroup
		failed := make(chan error, tills)
		for range tills {
			running.Go(func() { failed <- k.run(t.Context()) })
		}
		for range count {
			wait := killAfter + rand.N(killWithin)
			if err := testkit.Real.Wait(t.Context(), wait); err != nil {
				t.Fatal(err)
			}
			p.signal(t, syscall.SIGKILL)
			p.wait(t)
			p = in.serve(t, "--simulator", bank.url)
			k.server.Store(&p.url)
		}
		close(k.closing)
		running.Wait()
		close(failed)
		for err := range failed {
			if err != nil {
				t.Error(err)
			}
		}
		// What nobody was told of is found by reading the acquirers' lists, which is due by then.
		k.world.Do(t, http.MethodPost, "/sim/clock", `{"advance_seconds": 30}`, nil)
		k.check(t, in, p, account)
		p.stop(t)
	})
}

// list returns all charges, without asking any acquirer.
func (k *till) list(t *testing.T, p *process) map[string]chargeJSON {
	t.Helper()
	all := map[string]chargeJSON{}
	for query := "?limit=200"; query != ""; {
		var page struct {
			Data []chargeJSON `json:"data"`
			Next *string      `json:"next_starting_after"`
		}
		testkit.Do(t, p.url, testkit.Request{Path: "/v1/charges" + query, Key: k.key}).Want(t, http.StatusOK).Decode(t, &page)
		for _, c := range page.Data {
			all[c.TxID] = c
		}
		query = ""
		if page.Next != nil {
			query = "?limit=200&starting_after=" + *page.Next
		}
	}
	return all
}

// check holds what the service says against the books of the bank.
func (k *till) check(t *testing.T, in *installation, p *process, account string) {
	t.Helper()
	var want money.BRL
	paid := map[string]testkit.Book{}
	for _, b := range k.world.Books(t) {
		if b.EndToEndID != "" {
			paid[b.TxID] = b
			want += b.Value(t)
		}
	}
	var all map[string]chargeJSON
	testkit.Wait(t, "all payments to be credited", func() bool {
		all = k.list(t, p)
		credited := 0
		for _, c := range all {
			if c.Status == "paid" {
				credited++
			}
		}
		return credited >= len(paid)
	})
	t.Logf("%d charges, %d paid, %s BRL", len(all), len(paid), want)
	if len(paid) == 0 || len(all) != len(k.made) {
		t.Errorf("%d charges, %d were answered, %d are paid", len(all), len(k.made), len(paid))
	}
	for txid, c := range all {
		b, isPaid := paid[txid]
		switch {
		case isPaid && (c.Status != "paid" || c.EndToEndID == nil || *c.EndToEndID != b.EndToEndID || c.Amount.String() != b.Amount):
			t.Errorf("%+v is paid, and here %+v", b, c)
		case !isPaid && c.Status != "pending":
			t.Errorf("nobody paid %+v", c)
		}
		if c.ExternalID == nil || k.made[*c.ExternalID] != c.ID {
			t.Errorf("%+v was answered with the id %v", c, k.made)
		}
	}
	var shown accountJSON
	in.json(t, &shown, "account", "show", account)
	if got := shown.Balances["BRL"].Available; got != want.String() {
		t.Errorf("%s is available, the bank was paid %s", got, want)
	}
	var audit auditResult
	in.json(t, &audit, "audit")
	if len(audit.Problems) != 0 || audit.Transfers != int64(len(paid)) {
		t.Errorf("%+v for %d payments", audit, len(paid))
	}
	k.checkEvents(t, in, len(all), len(paid))
}

// checkEvents fails the test unless each charge has one event of its creation and each paid one another of that.
func (k *till) checkEvents(t *testing.T, in *installation, created, paid int) {
	t.Helper()
	core, err := app.Open(t.Context(), config.Store{Database: in.database}, app.Existing)
	if err != nil {
		t.Fatal(err)
	}
	defer core.Close()
	events, err := sqldb.All(t.Context(), core.DB, func(r sqldb.Row) (text string, err error) {
		var kind string
		var data []byte
		if err = r.Scan(&kind, &data); err != nil {
			return "", err
		}
		var c chargeJSON
		err = json.Unmarshal(data, &c)
		return kind + " " + c.ID, err
	}, `SELECT type, data FROM event`)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(events)
	if distinct := len(slices.Compact(slices.Clone(events))); len(events) != created+paid || distinct != len(events) {
		t.Errorf("%d events, %d distinct, for %d charges of which %d are paid", len(events), distinct, created, paid)
	}
}
