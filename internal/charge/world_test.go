package charge_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/acquirer/bcb"
	"github.com/ponte-pay/ponte/internal/charge"
	"github.com/ponte-pay/ponte/internal/clawback"
	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/event"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/idempotency"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/simulator"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

// unsaid is when a payment was made that nobody tells the time of.
var unsaid time.Time

// world is a bank of its own for a test, reached over real HTTP.
type world struct {
	t        *testing.T
	clock    *clock.Clock
	accounts []simulator.Account
	control  string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	c := clock.New(nil)
	s, err := simulator.Open(simulator.Options{Data: t.TempDir(), Clock: c})
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

// pay pays a charge and returns the end-to-end id. Nobody is told.
func (w *world) pay(txid string, amount money.BRL) string {
	w.t.Helper()
	return w.order(map[string]any{"txid": txid, "amount": amount.String(), "callback": false})
}

// payAt is pay where several acquirers have the txid.
func (w *world) payAt(name, txid string, amount money.BRL) string {
	w.t.Helper()
	return w.order(map[string]any{"acquirer": name, "txid": txid, "amount": amount.String(), "callback": false})
}

func (w *world) order(order map[string]any) string {
	w.t.Helper()
	var paid struct {
		EndToEndID string `json:"end_to_end_id"`
	}
	w.sim("POST", "/sim/pix/pay", order, &paid)
	return paid.EndToEndID
}

func (w *world) refund(endToEndID string, amount money.BRL) {
	w.t.Helper()
	w.sim("POST", "/sim/pix/refund", map[string]any{"end_to_end_id": endToEndID, "amount": amount.String()}, nil)
}

func (w *world) remove(txid string) {
	w.t.Helper()
	w.sim("POST", "/sim/pix/remove", map[string]any{"txid": txid}, nil)
}

// fault breaks something until mend.
func (w *world) fault(target, operation, kind string, delay time.Duration) {
	w.t.Helper()
	w.sim("POST", "/sim/faults", map[string]any{
		"target": target, "operation": operation, "kind": kind, "times": 0, "delay_ms": delay.Milliseconds(),
	}, nil)
}

func (w *world) mend() {
	w.t.Helper()
	w.sim("DELETE", "/sim/faults", nil, nil)
}

func (w *world) advance(by time.Duration) {
	w.t.Helper()
	w.sim("POST", "/sim/clock", map[string]any{"advance_seconds": int(by / time.Second)}, nil)
}

// books returns what payments brought in, less what was given back.
func (w *world) books() money.BRL {
	w.t.Helper()
	var told struct {
		Payments []struct{ Amount, Returned string }
	}
	w.sim("GET", "/sim/pix/books", nil, &told)
	var sum money.BRL
	for _, p := range told.Payments {
		sum += brl(w.t, p.Amount) - brl(w.t, p.Returned)
	}
	return sum
}

func brl(t *testing.T, s string) money.BRL {
	t.Helper()
	a, err := money.ParseBRL(s)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// node is a server of charges on a database.
type node struct {
	*charge.Service
	*world
	db     *sqldb.DB
	router *acquirer.Router
	ledger *ledger.Ledger
}

// node starts a server. Its acquirers are seen through each of those lenses.
func (w *world) node(db *sqldb.DB, lenses ...func(acquirer.Acquirer) acquirer.Acquirer) *node {
	w.t.Helper()
	var routes []acquirer.Route
	for _, a := range w.accounts {
		var at acquirer.Acquirer
		at, err := bcb.New(bcb.Config{
			Name: a.Name, BaseURL: a.BaseURL + "/v2", TokenURL: a.BaseURL + "/oauth/token", ClientID: a.ClientID, ClientSecret: a.ClientSecret, Key: a.Key,
		}, w.clock)
		if err != nil {
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
	books := ledger.New(db, ids, w.clock)
	n := &node{world: w, db: db, router: router, ledger: books}
	n.Service = charge.New(charge.Services{
		DB: db, Clock: w.clock, IDs: ids, Ledger: books, Accounts: account.New(db, w.clock, rand.Reader),
		Once: idempotency.New(db, w.clock, 0), Router: router, Events: event.NewLog(nil), Log: slog.New(slog.DiscardHandler),
		Render: func(c *charge.Charge) ([]byte, error) {
			return fmt.Appendf(nil, `{"status":%q,"end_to_end_id":%q}`, c.Status, c.EndToEndID), nil
		},
	})
	n.Postback = func(_ context.Context, _ id.Account, url string) error {
		if url != "" {
			return fault.New(fault.Invalid, "postback_url_not_registered", "no endpoint")
		}
		return nil
	}
	// The lists of payments begin with the first look.
	n.step(n.Reconcile)
	return n
}

// pair returns two servers on one database.
func pair(t *testing.T, url string) (*node, *node) {
	t.Helper()
	w := newWorld(t)
	one, other := sqltest.OpenForTwo(t, url)
	return w.node(one), w.node(other)
}

// in returns the node for a part of its test.
func (n *node) in(t *testing.T) *node {
	t.Helper()
	w, part := *n.world, *n
	w.t, part.world = t, &w
	return &part
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

// reconcile reads the lists of payments.
func (n *node) reconcile() {
	n.t.Helper()
	n.advance(time.Minute)
	n.step(n.Reconcile)
}

// account opens an account with settings such as cash_in_fee=1.00.
func (n *node) account(settings ...string) account.Account {
	n.t.Helper()
	a, _, err := n.Accounts.Create(n.t.Context(), account.Params{Name: "loja"})
	if err == nil && len(settings) > 0 {
		a, err = n.Accounts.Set(n.t.Context(), a.ID, settings)
	}
	if err != nil {
		n.t.Fatal(err)
	}
	return a
}

// request returns a request with a key of its own.
func (n *node) request(a account.Account, amount money.BRL) charge.Request {
	return charge.Request{
		Account: a, Key: "key-" + n.IDs.New().String(), Hash: [32]byte{byte(amount)}, Amount: amount, ExpiresIn: time.Hour,
		Description: "Pedido 42", PayerName: "Maria da Silva", PayerDocument: "52998224725",
	}
}

func (n *node) create(a account.Account, amount money.BRL) charge.Charge {
	n.t.Helper()
	c, outcome, err := n.Create(n.t.Context(), n.request(a, amount))
	if err != nil || outcome != idempotency.Created {
		n.t.Fatalf("created %v: %v", outcome, err)
	}
	return c
}

// hear follows a notification.
func (n *node) hear(c charge.Charge, endToEndIDs ...string) {
	n.t.Helper()
	for _, e2e := range endToEndIDs {
		if !n.Hint(c.Acquirer, e2e, c.TxID, unsaid) {
			n.t.Fatal("no room for a hint")
		}
	}
	n.step(n.FollowHints)
}

// stored returns a charge as the database has it.
func (n *node) stored(c charge.Charge) charge.Charge {
	n.t.Helper()
	for _, found := range n.all(c.Account) {
		if found.ID == c.ID {
			return found
		}
	}
	n.t.Fatalf("%s is not stored", c.TxID)
	return charge.Charge{}
}

func (n *node) all(owner id.Account) []charge.Charge {
	n.t.Helper()
	list, err := charge.Before(n.t.Context(), n.db, owner, id.Max, 1000)
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

// transfers returns what was posted, such as cash_in 10.00 acquirer>available.
func (n *node) transfers(owner id.Account) (list []string) {
	n.t.Helper()
	all, err := ledger.Transfers(n.t.Context(), n.db, ledger.Range{Account: owner, Currency: money.CurrencyBRL, After: id.First(time.UnixMicro(0)), Before: id.Max, Limit: 1000})
	if err != nil {
		n.t.Fatal(err)
	}
	for _, x := range all {
		list = append(list, fmt.Sprintf("%s %s %s>%s", x.Kind, x.Amount, x.Source, x.Target))
	}
	return list
}

// events returns what happened, such as charge.paid paid.
func (n *node) events(owner id.Account) []string {
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
		return kind + " " + shown.Status, err
	}, `SELECT type, data FROM event WHERE account_id = $1 ORDER BY id`, int64(owner))
	if err != nil {
		n.t.Fatal(err)
	}
	return list
}

// audit fails the test when the ledger does not add up.
func (n *node) audit() {
	n.t.Helper()
	result, err := ledger.Audit(n.t.Context(), n.db)
	if err != nil || len(result.Problems) > 0 {
		n.t.Errorf("audit: %v %v", result.Problems, err)
	}
	if problems, err := n.auditCharges(); err != nil || len(problems) > 0 {
		n.t.Errorf("audit: %v %v", problems, err)
	}
	if problems, err := clawback.Audit(n.t.Context(), n.db); err != nil || len(problems) > 0 {
		n.t.Errorf("audit: %v %v", problems, err)
	}
}

func (n *node) auditCharges() ([]ledger.Problem, error) {
	return charge.Audit(n.t.Context(), n.db, id.First(time.UnixMicro(0)))
}
