package payout_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/acquirer/efi"
	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/idempotency"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/payout"
	"github.com/ponte-pay/ponte/internal/pix"
	"github.com/ponte-pay/ponte/internal/simulator"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

// world is a bank of its own for a test, reached over real HTTP. Its payouts settle when the test says so.
type world struct {
	t        *testing.T
	clock    *clock.Clock
	accounts []simulator.Account
	control  string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	c := clock.New(nil)
	s, err := simulator.Open(simulator.Options{Data: t.TempDir(), Clock: c, SettleAfter: simulator.Manual})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s.Handler())
	t.Cleanup(func() { server.Close(); _ = s.Close() })
	return &world{t: t, clock: c, accounts: s.Acquirers(), control: server.URL}
}

// sim calls a control route, whose answer must be 200.
func (w *world) sim(method, path string, body, reply any) {
	w.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		w.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(context.Background(), method, w.control+path, strings.NewReader(string(text)))
	if err != nil {
		w.t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer answer.Body.Close()
	told, _ := io.ReadAll(answer.Body)
	if answer.StatusCode >= http.StatusBadRequest {
		w.t.Fatalf("%s %s %s: %d %s", method, path, text, answer.StatusCode, told)
	}
	if reply != nil {
		if err := json.Unmarshal(told, reply); err != nil {
			w.t.Fatalf("%v in %s", err, told)
		}
	}
}

// fault breaks something so many times; 0 means until mend.
func (w *world) fault(target, operation, kind string, times int) {
	w.t.Helper()
	w.sim("POST", "/sim/faults", map[string]any{"target": target, "operation": operation, "kind": kind, "times": times, "delay_ms": 1}, nil)
}

func (w *world) mend() {
	w.t.Helper()
	w.sim("DELETE", "/sim/faults", nil, nil)
}

func (w *world) advance(by time.Duration) {
	w.t.Helper()
	w.sim("POST", "/sim/clock", map[string]any{"advance_seconds": int(by / time.Second)}, nil)
}

// order has something become of a payout in the bank, without anybody being told.
func (w *world) order(p payout.Payout, what string, body map[string]any) {
	w.t.Helper()
	if body == nil {
		body = map[string]any{}
	}
	body["callback"] = false
	w.sim("POST", "/sim/pix/payouts/"+p.Name()+"/"+what, body, nil)
}

// book is a payout in the bank's books.
type book struct {
	Acquirer, ID, Amount, Status string
	Executions                   int
}

func (w *world) books() []book {
	w.t.Helper()
	var told struct{ Payouts []book }
	w.sim("GET", "/sim/pix/books", nil, &told)
	return told.Payouts
}

// executions returns where money of a payout left, such as alpha 1.
func (w *world) executions(p payout.Payout) string {
	w.t.Helper()
	var list []string
	for _, b := range w.books() {
		if b.ID == p.Name() && b.Executions > 0 {
			list = append(list, fmt.Sprint(b.Acquirer, " ", b.Executions))
		}
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// node is a server of payouts on a database.
type node struct {
	*payout.Service
	*world
	db       *sqldb.DB
	accounts *account.Service
	log      *journal
}

// journal keeps what is logged.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// node starts a server. Its acquirers are seen through each of those lenses.
func (w *world) node(db *sqldb.DB, lenses ...func(acquirer.Payer) acquirer.Payer) *node {
	w.t.Helper()
	var routes []acquirer.Route
	for _, a := range w.accounts {
		var at acquirer.Payer
		at, err := efi.New(efi.Config{Name: a.Name, Host: a.BaseURL, ClientID: a.ClientID, ClientSecret: a.ClientSecret, Key: a.Key}, w.clock)
		if err != nil {
			w.t.Fatal(err)
		}
		// Payouts are taken only from who can be told of them.
		if err := at.SetWebhook(w.t.Context(), "https://127.0.0.1:9/nobody"); err != nil {
			w.t.Fatal(err)
		}
		for _, lens := range lenses {
			at = lens(at)
		}
		routes = append(routes, acquirer.Route{Acquirer: at, Priority: a.Priority})
	}
	router, err := acquirer.NewRouter(w.clock, routes...)
	if err != nil {
		w.t.Fatal(err)
	}
	ids := id.NewGenerator(w.clock.Now, rand.Reader)
	n := &node{world: w, db: db, accounts: account.New(db, w.clock, rand.Reader), log: &journal{}}
	n.Service = payout.New(payout.Services{
		DB: db, Clock: w.clock, IDs: ids, Ledger: ledger.New(db, ids, w.clock), Once: idempotency.New(db, w.clock, 0), Router: router,
		Log: slog.New(slog.NewTextHandler(n.log, nil)),
		Render: func(p *payout.Payout) ([]byte, error) {
			return fmt.Appendf(nil, `{"status":%q}`, p.Status), nil
		},
	})
	// The lists begin with the first look.
	n.step(n.Reconcile)
	return n
}

// each runs test on a node on both databases.
func each(t *testing.T, test func(t *testing.T, n *node)) {
	t.Helper()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		t.Helper()
		test(t, newWorld(t).node(db))
	})
}

// step takes steps until there is nothing to do.
func (n *node) step(f func(context.Context) (bool, error)) {
	n.t.Helper()
	for {
		did, err := f(n.t.Context())
		if err != nil {
			n.t.Fatal(err)
		}
		if !did {
			return
		}
	}
}

// payer opens an account that has so much.
func (n *node) payer(has money.BRL, settings ...string) account.Account {
	n.t.Helper()
	a, _, err := n.accounts.Create(n.t.Context(), account.Params{Name: "loja"})
	if err == nil && len(settings) > 0 {
		a, err = n.accounts.Set(n.t.Context(), a.ID, settings)
	}
	if err == nil {
		_, err = n.Ledger.Adjust(n.t.Context(), a.ID, has.Amount(), "opening balance")
	}
	if err != nil {
		n.t.Fatal(err)
	}
	return a
}

var maria = pix.Key{Type: pix.KeyEmail, Value: "maria@example.org"}

func request(a account.Account, externalID string, amount money.BRL) payout.Request {
	return payout.Request{Account: a, Hash: [32]byte{byte(amount)}, Amount: amount, PixKey: maria, ExternalID: externalID}
}

// stored returns a payout as the database has it.
func (n *node) stored(owner id.Account, externalID string) payout.Payout {
	n.t.Helper()
	for _, p := range n.all(owner) {
		if p.ExternalID == externalID {
			return p
		}
	}
	n.t.Fatalf("%s is not stored", externalID)
	return payout.Payout{}
}

func (n *node) all(owner id.Account) []payout.Payout {
	n.t.Helper()
	list, err := payout.Before(n.t.Context(), n.db, owner, id.Max, 1000)
	if err != nil {
		n.t.Fatal(err)
	}
	return list
}

func (n *node) balance(owner id.Account) ledger.Balance {
	n.t.Helper()
	b, err := ledger.Balances(n.t.Context(), n.db, owner, money.CurrencyBRL)
	if err != nil {
		n.t.Fatal(err)
	}
	return b
}

// transfers returns what was posted but for the opening balance, such as cash_out 11.00 available>in_transit.
func (n *node) transfers(owner id.Account) string {
	n.t.Helper()
	all, err := ledger.Transfers(n.t.Context(), n.db, ledger.Range{Account: owner, Currency: money.CurrencyBRL, After: id.First(time.UnixMicro(0)), Before: id.Max, Limit: 1000})
	if err != nil {
		n.t.Fatal(err)
	}
	var list []string
	for _, x := range all {
		if x.Kind != ledger.KindAdjustment {
			list = append(list, fmt.Sprintf("%s %s %s>%s", x.Kind, x.Amount, x.Source, x.Target))
		}
	}
	return strings.Join(list, ", ")
}

// events returns what happened, such as payout.completed completed.
func (n *node) events(owner id.Account) string {
	n.t.Helper()
	list, err := sqldb.All(n.t.Context(), n.db, func(r sqldb.Row) (string, error) {
		var kind string
		var data []byte
		if err := r.Scan(&kind, &data); err != nil {
			return "", err
		}
		var shown struct {
			Status string `json:"status"`
		}
		err := json.Unmarshal(data, &shown)
		return strings.TrimPrefix(kind, "payout.") + " " + shown.Status, err
	}, `SELECT type, data FROM event WHERE account_id = $1 ORDER BY id`, int64(owner))
	if err != nil {
		n.t.Fatal(err)
	}
	return strings.Join(list, ", ")
}

// audit fails the test when the books do not add up.
func (n *node) audit() {
	n.t.Helper()
	result, err := ledger.Audit(n.t.Context(), n.db)
	more, payoutErr := payout.Audit(n.t.Context(), n.db)
	if problems := slices.Concat(result.Problems, more); err != nil || payoutErr != nil || len(problems) > 0 {
		n.t.Errorf("audit: %v %v %v", problems, err, payoutErr)
	}
}

// told returns what a creation was answered, such as created processing or ambiguous.
func told(p payout.Payout, outcome idempotency.Outcome, err error) string {
	if err != nil {
		f := fault.As(err)
		if f.Kind == fault.Ambiguous {
			return "ambiguous"
		}
		if f.Kind == fault.Provider {
			return "nobody"
		}
		return f.Code + " " + f.Public
	}
	words := map[idempotency.Outcome]string{
		idempotency.Created: "created", idempotency.Replayed: "replayed", idempotency.Existing: "existing", idempotency.Repeated: "repeated",
	}
	return words[outcome] + " " + string(p.Status)
}

// Below and above every identifier.
var minID, maxID = id.First(time.UnixMicro(0)), id.Max
