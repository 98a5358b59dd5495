package infraction_test

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
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/acquirer/efi"
	"github.com/ponte-pay/ponte/internal/charge"
	"github.com/ponte-pay/ponte/internal/clawback"
	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/event"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/idempotency"
	"github.com/ponte-pay/ponte/internal/infraction"
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
	status, told := w.call(method, path, string(text))
	if status >= http.StatusBadRequest {
		w.t.Fatalf("%s %s %s: %d %s", method, path, text, status, told)
	}
	if reply != nil {
		if err := json.Unmarshal(told, reply); err != nil {
			w.t.Fatalf("%v in %s", err, told)
		}
	}
}

// call calls a control route.
func (w *world) call(method, path, body string) (status int, told []byte) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), method, w.control+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer answer.Body.Close()
	told, _ = io.ReadAll(answer.Body)
	return answer.StatusCode, told
}

// pay pays a charge and returns the end-to-end id. Nobody is told.
func (w *world) pay(txid string, amount money.BRL) string {
	w.t.Helper()
	return w.order(map[string]any{"txid": txid, "amount": amount.String(), "callback": false})
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

// claim opens an infraction and returns the bank's name for it.
func (w *world) claim(endToEndID string, amount money.BRL) string {
	w.t.Helper()
	var opened struct {
		ID string `json:"id"`
	}
	w.sim("POST", "/sim/med", map[string]any{"end_to_end_id": endToEndID, "amount": amount.String(), "reason": "não fui eu"}, &opened)
	return opened.ID
}

// verdict ends an infraction in the bank: accept, reject or cancel.
func (w *world) verdict(name, how string) {
	w.t.Helper()
	w.sim("POST", "/sim/med/"+name+"/"+how, map[string]any{}, nil)
}

// node is a server of charges and infractions on a database.
type node struct {
	*infraction.Service
	*world
	charges *charge.Service
	db      *sqldb.DB
	ledger  *ledger.Ledger
}

// lens changes how an acquirer is seen.
type lens func(acquirer.Judge) acquirer.Acquirer

// node starts a server. Its acquirers are seen through each of those lenses.
func (w *world) node(db *sqldb.DB, lenses ...lens) *node {
	w.t.Helper()
	n := w.restart(db, lenses...)
	// The lists of payments begin with the first look.
	n.step(n.charges.Reconcile)
	return n
}

// restart starts a server that has done nothing yet.
func (w *world) restart(db *sqldb.DB, lenses ...lens) *node {
	w.t.Helper()
	var routes []acquirer.Route
	for _, a := range w.accounts {
		driver, err := efi.New(efi.Config{Name: a.Name, Host: a.BaseURL, ClientID: a.ClientID, ClientSecret: a.ClientSecret, Key: a.Key}, w.clock)
		if err != nil {
			w.t.Fatal(err)
		}
		var at acquirer.Acquirer = driver
		for _, see := range lenses {
			at = see(driver)
		}
		routes = append(routes, acquirer.Route{Acquirer: at, Priority: a.Priority})
	}
	router, err := acquirer.NewRouter(w.clock, routes...)
	if err != nil {
		w.t.Fatal(err)
	}
	ids := id.NewGenerator(w.clock.Now, rand.Reader)
	books, log := ledger.New(db, ids, w.clock), slog.New(slog.DiscardHandler)
	n := &node{world: w, db: db, ledger: books}
	n.charges = charge.New(charge.Services{
		DB: db, Clock: w.clock, IDs: ids, Ledger: books, Accounts: account.New(db, w.clock, rand.Reader),
		Once: idempotency.New(db, w.clock, 0), Router: router, Events: event.NewLog(nil), Log: log,
		Postback: func(context.Context, id.Account, string) error { return nil },
		Render:   func(c *charge.Charge) ([]byte, error) { return fmt.Appendf(nil, `{"status":%q}`, c.Status), nil },
	})
	n.Service = infraction.New(infraction.Services{DB: db, Clock: w.clock, IDs: ids, Charges: n.charges, Router: router, Log: log})
	return n
}

// each runs test on both databases, with a bank of its own.
func each(t *testing.T, test func(t *testing.T, n *node)) {
	t.Helper()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		t.Helper()
		test(t, newWorld(t).node(db))
	})
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

// poll reads the lists of infractions.
func (n *node) poll() {
	n.t.Helper()
	n.advance(time.Minute)
	n.step(n.Reconcile)
}

// hear follows a notification of a payment.
func (n *node) hear(c charge.Charge, endToEndIDs ...string) {
	n.t.Helper()
	for _, e2e := range endToEndIDs {
		if !n.charges.Hint(c.Acquirer, e2e, c.TxID, unsaid) {
			n.t.Fatal("no room for a hint")
		}
	}
	n.step(n.charges.FollowHints)
}

// account opens an account with settings such as release_delay=24h.
func (n *node) account(settings ...string) account.Account {
	n.t.Helper()
	accounts := n.charges.Accounts
	a, _, err := accounts.Create(n.t.Context(), account.Params{Name: "loja"})
	if err == nil && len(settings) > 0 {
		a, err = accounts.Set(n.t.Context(), a.ID, settings)
	}
	if err != nil {
		n.t.Fatal(err)
	}
	return a
}

func (n *node) create(a account.Account, amount money.BRL) charge.Charge {
	n.t.Helper()
	key := n.IDs.New().String()
	c, _, err := n.charges.Create(n.t.Context(), charge.Request{
		Account: a, Key: "key-" + key, Amount: amount, ExpiresIn: time.Hour, ExternalID: "order-" + key,
	})
	if err != nil {
		n.t.Fatal(err)
	}
	return c
}

// paid returns a charge that was paid, and its payment.
func (n *node) paid(a account.Account, amount money.BRL) (charge.Charge, string) {
	n.t.Helper()
	c := n.create(a, amount)
	e2e := n.pay(c.TxID, amount)
	n.hear(c, e2e)
	return n.stored(c), e2e
}

// stored returns a charge as the database has it.
func (n *node) stored(c charge.Charge) charge.Charge {
	n.t.Helper()
	list, err := charge.Before(n.t.Context(), n.db, c.Account, id.Max, 1000)
	if err != nil {
		n.t.Fatal(err)
	}
	i := slices.IndexFunc(list, func(found charge.Charge) bool { return found.ID == c.ID })
	if i < 0 {
		n.t.Fatalf("%s is not stored", c.TxID)
	}
	return list[i]
}

// all returns an account's infractions, newest first.
func (n *node) all(owner id.Account) []infraction.Infraction {
	n.t.Helper()
	list, more, err := n.List(n.t.Context(), owner, infraction.Page{Limit: 1000})
	if err != nil || more {
		n.t.Fatal(more, err)
	}
	return list
}

// named returns the infraction that the bank knows by a name.
func (n *node) named(owner id.Account, name string) infraction.Infraction {
	n.t.Helper()
	list := n.all(owner)
	i := slices.IndexFunc(list, func(f infraction.Infraction) bool { return f.AcquirerID == name })
	if i < 0 {
		n.t.Fatalf("infraction %s is not stored", name)
	}
	return list[i]
}

// say defends an infraction.
func (n *node) say(f infraction.Infraction, text string) (infraction.Infraction, error) {
	return n.Defend(n.t.Context(), f, infraction.Defense{Text: text, EvidenceURL: "https://example.com/proof"})
}

func (n *node) balance(owner id.Account) ledger.Balance {
	n.t.Helper()
	b, err := ledger.Balances(n.t.Context(), n.db, owner, money.CurrencyBRL)
	if err != nil {
		n.t.Fatal(err)
	}
	return b
}

// transfers returns what was posted, such as med_block 10.00 available>blocked.
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

// events returns the types of what happened.
func (n *node) events(owner id.Account) []string {
	n.t.Helper()
	list, err := sqldb.All(n.t.Context(), n.db, sqldb.Scalar[string], `SELECT type FROM event WHERE account_id = $1 ORDER BY id`, int64(owner))
	if err != nil {
		n.t.Fatal(err)
	}
	return list
}

// audit fails the test when the books do not add up by themselves, or are not those of the bank.
func (n *node) audit(owners ...id.Account) {
	n.t.Helper()
	ctx := n.t.Context()
	result, err := ledger.Audit(ctx, n.db, infraction.Blocked)
	if err != nil {
		n.t.Fatal(err)
	}
	problems := result.Problems
	for _, audit := range []func(context.Context, *sqldb.DB) ([]ledger.Problem, error){auditCharges, clawback.Audit, infraction.Audit} {
		more, err := audit(ctx, n.db)
		if err != nil {
			n.t.Fatal(err)
		}
		problems = append(problems, more...)
	}
	for _, p := range problems {
		n.t.Errorf("audit: %s: %s", p.Account, p.What)
	}
	if len(owners) == 0 {
		return
	}
	var ours money.BRL
	for _, owner := range owners {
		all, err := ledger.Transfers(ctx, n.db, ledger.Range{
			Account: owner, Currency: money.CurrencyBRL, After: id.First(time.UnixMicro(0)), Before: id.Max, Limit: 100_000,
		})
		if err != nil {
			n.t.Fatal(err)
		}
		for _, x := range all {
			if x.Source == ledger.Acquirer {
				ours += money.BRL(x.Amount.Units)
			}
			if x.Target == ledger.Acquirer {
				ours -= money.BRL(x.Amount.Units)
			}
		}
	}
	if bank := n.books(); ours != bank {
		n.t.Errorf("%s came in here, %s in the bank", ours, bank)
	}
}

// portal defends an infraction at an acquirer without Ponte.
func (w *world) portal(acquirerName, name string) {
	w.t.Helper()
	for _, a := range w.accounts {
		if a.Name != acquirerName {
			continue
		}
		driver, err := efi.New(efi.Config{Name: a.Name, Host: a.BaseURL, ClientID: a.ClientID, ClientSecret: a.ClientSecret, Key: a.Key}, w.clock)
		if err != nil {
			w.t.Fatal(err)
		}
		if err := driver.SubmitDefense(w.t.Context(), acquirer.Defense{InfractionID: name, Text: "by hand"}); err != nil {
			w.t.Fatal(err)
		}
	}
}
