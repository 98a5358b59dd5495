package deposit_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
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

	"github.com/shopspring/decimal"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/chain"
	"github.com/ponte-pay/ponte/internal/chain/nowpayments"
	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/deposit"
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

// world is a crypto provider of its own for a test, reached over real HTTP. Confirmations come when the test says so.
type world struct {
	t       *testing.T
	clock   *clock.Clock
	sim     *simulator.Simulator
	control string
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
	return &world{t: t, clock: c, sim: s, control: server.URL}
}

// do calls a control route, whose answer must be 200.
func (w *world) do(method, path string, body, reply any) {
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

// arrive lets coins arrive at an address and stop at confirming, and returns the provider's name for the payment.
func (w *world) arrive(d deposit.Deposit, amount, currency string) string {
	w.t.Helper()
	var paid struct{ ID string }
	body := map[string]any{"pay_address": d.PayAddress, "extra_id": d.PayExtraID, "amount": amount, "callback": false}
	if currency != "" {
		body["currency"] = currency
	}
	w.do("POST", "/sim/crypto/deposit", body, &paid)
	return paid.ID
}

// order has something become of a payment: confirm, fail, expire or refund.
func (w *world) order(paymentID, what string) {
	w.t.Helper()
	w.do("POST", "/sim/crypto/charges/"+paymentID+"/"+what, nil, nil)
}

// fault breaks something so many times; 0 means until mend.
func (w *world) fault(operation, kind string, times int) {
	w.t.Helper()
	w.do("POST", "/sim/faults", map[string]any{"target": "crypto", "operation": operation, "kind": kind, "times": times, "delay_ms": 1}, nil)
}

func (w *world) mend() {
	w.t.Helper()
	w.do("DELETE", "/sim/faults", nil, nil)
}

func (w *world) advance(by time.Duration) {
	w.t.Helper()
	w.do("POST", "/sim/clock", map[string]any{"advance_seconds": int(by / time.Second)}, nil)
}

// book is a payment in the provider's books.
type book struct {
	ID         string `json:"id"`
	Parent     string `json:"parent_id"`
	ExternalID string `json:"external_id"`
	Address    string `json:"pay_address"`
	Settled    string `json:"settled_amount"`
	Status     string `json:"status"`
}

func (w *world) books() []book {
	w.t.Helper()
	var told struct{ Payments []book }
	w.do("GET", "/sim/crypto/books", nil, &told)
	return told.Payments
}

// made returns how many addresses the provider has made for a deposit.
func (w *world) made(reference string) (n int) {
	w.t.Helper()
	for _, b := range w.books() {
		if b.ExternalID == reference && b.Parent == "" {
			n++
		}
	}
	return n
}

// settled returns what the provider has settled and not given back, each payment rounded down to what a ledger holds.
func (w *world) settled() (sum money.USDT) {
	w.t.Helper()
	for _, b := range w.books() {
		d, err := decimal.NewFromString(b.Settled)
		amount, ok := chain.FloorUSDT(d)
		if err != nil || !ok {
			w.t.Fatalf("%+v: %v", b, err)
		}
		sum += amount
	}
	return sum
}

// node is a server of deposits on a database.
type node struct {
	*deposit.Service
	*world
	db    *sqldb.DB
	log   *journal
	heard *verdicts
}

// verdicts keeps what became of notifications.
type verdicts struct {
	mu   sync.Mutex
	list []deposit.Verdict
}

func (v *verdicts) add(_ string, one deposit.Verdict) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.list = append(v.list, one)
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

const providerName = "simulated"

// node starts a server. Its provider is seen through each of those lenses.
func (w *world) node(db *sqldb.DB, lenses ...func(chain.Provider) chain.Provider) *node {
	w.t.Helper()
	a := w.sim.CryptoAccount()
	var at chain.Provider
	at, err := nowpayments.New(nowpayments.Config{
		Name: providerName, BaseURL: a.BaseURL, APIKey: a.APIKey, Email: a.Email, Password: a.Password,
		TOTPSecret: a.TOTPSecret, IPNSecret: a.IPNSecret, Settlement: a.Settlement,
	}, w.clock)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, lens := range lenses {
		at = lens(at)
	}
	ids := id.NewGenerator(w.clock.Now, rand.Reader)
	n := &node{world: w, db: db, log: &journal{}, heard: &verdicts{}}
	n.Service = deposit.New(deposit.Services{
		DB: db, Clock: w.clock, IDs: ids, Ledger: ledger.New(db, ids, w.clock), Accounts: account.New(db, w.clock, rand.Reader),
		Once: idempotency.New(db, w.clock, 0), Provider: at, Events: event.NewLog(nil), Log: slog.New(slog.NewTextHandler(n.log, nil)),
		Render: func(d *deposit.Deposit) ([]byte, error) {
			return fmt.Appendf(nil, `{"status":%q,"received":%q}`, d.Status, d.Received), nil
		},
		Heard: n.heard.add,
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

// account opens an account with settings such as crypto_in_fee=0+1%.
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

// request asks for 50 USD in the coin that the provider settles in, so that what comes is worth what it says.
func request(a account.Account, externalID string) deposit.Request {
	return deposit.Request{
		Account: a, ExternalID: externalID, Hash: sha256.Sum256([]byte(externalID)), Price: 50_00, PayCurrency: "usdtbsc", CustomerID: "user-9",
		Metadata: json.RawMessage(`{"b":1,"aKey":"x"}`),
	}
}

func (n *node) create(a account.Account, externalID string) deposit.Deposit {
	n.t.Helper()
	d, outcome, err := n.Create(n.t.Context(), request(a, externalID))
	if err != nil || outcome != idempotency.Created || d.Status != deposit.Waiting {
		n.t.Fatalf("%s: %v", told(d, outcome, err), err)
	}
	return d
}

// hint notes that a payment has moved.
func (n *node) hint(paymentID string) {
	n.t.Helper()
	if !n.Hint(providerName, &chain.Payment{ID: paymentID}) {
		n.t.Fatal("no room for a hint")
	}
}

// hear follows notifications that payments have moved.
func (n *node) hear(paymentIDs ...string) {
	n.t.Helper()
	for _, x := range paymentIDs {
		n.hint(x)
	}
	n.step(n.FollowHints)
}

// stored returns a deposit as the database has it.
func (n *node) stored(owner id.Account, externalID string) deposit.Deposit {
	n.t.Helper()
	for _, d := range n.all(owner) {
		if d.ExternalID == externalID {
			return d
		}
	}
	n.t.Fatalf("%s is not stored", externalID)
	return deposit.Deposit{}
}

// all returns an account's deposits, the oldest first.
func (n *node) all(owner id.Account) []deposit.Deposit {
	n.t.Helper()
	newest, err := deposit.Before(n.t.Context(), n.db, owner, id.Max, 1000)
	if err != nil {
		n.t.Fatal(err)
	}
	slices.Reverse(newest)
	return newest
}

func (n *node) balance(owner id.Account) money.USDT {
	n.t.Helper()
	b, err := ledger.Balances(n.t.Context(), n.db, owner, money.CurrencyUSDT)
	if err != nil || b.Pending != 0 || b.Blocked != 0 || b.InTransit != 0 {
		n.t.Fatalf("%+v %v", b, err)
	}
	return money.USDT(b.Available)
}

// transfers returns what was posted, such as in 49.750000.
func (n *node) transfers(owner id.Account) string {
	n.t.Helper()
	all, err := ledger.Transfers(n.t.Context(), n.db, ledger.Range{Account: owner, Currency: money.CurrencyUSDT, After: id.First(time.UnixMicro(0)), Before: id.Max, Limit: 1000})
	if err != nil {
		n.t.Fatal(err)
	}
	var list []string
	for _, x := range all {
		kind := strings.TrimPrefix(strings.TrimPrefix(string(x.Kind), "crypto_"), "in_")
		list = append(list, fmt.Sprintf("%s %s", kind, strings.TrimRight(strings.TrimRight(x.Amount.String(), "0"), ".")))
	}
	return strings.Join(list, ", ")
}

// events returns what happened, such as created waiting, paid paid.
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
		kind = strings.TrimPrefix(kind, "crypto.charge.")
		if kind != shown.Status {
			kind += " " + shown.Status
		}
		return kind, err
	}, `SELECT type, data FROM event WHERE account_id = $1 ORDER BY id`, int64(owner))
	if err != nil {
		n.t.Fatal(err)
	}
	return strings.Join(list, ", ")
}

// audit fails the test when the books do not add up: ours, and ours with the provider's.
func (n *node) audit() {
	n.t.Helper()
	result, err := ledger.Audit(n.t.Context(), n.db)
	more, depositErr := deposit.Audit(n.t.Context(), n.db, id.First(time.UnixMicro(0)))
	if err != nil || depositErr != nil || len(result.Problems)+len(more) > 0 {
		n.t.Errorf("audit: %v %v %v %v", result.Problems, more, err, depositErr)
	}
	ours, err := sqldb.One(n.t.Context(), n.db, sqldb.Scalar[int64],
		`SELECT COALESCE(CAST(SUM(CASE source WHEN 'acquirer' THEN amount ELSE -amount END) AS BIGINT), 0)
FROM transfer WHERE currency = 'USDT' AND (source = 'acquirer' OR target = 'acquirer')`)
	if err != nil {
		n.t.Fatal(err)
	}
	if theirs := n.settled(); money.USDT(ours) != theirs {
		n.t.Errorf("our ledger took in %s, the provider has settled %s", money.USDT(ours), theirs)
	}
}

// told returns what a creation was answered, such as created waiting or below_minimum.
func told(d deposit.Deposit, outcome idempotency.Outcome, err error) string {
	if err != nil {
		f := fault.As(err)
		switch {
		case f.Code != "":
			return f.Code
		case f.Kind == fault.Provider:
			return "provider_unavailable"
		case f.Kind == fault.Unprocessable:
			return "invalid_request"
		}
		return err.Error()
	}
	words := map[idempotency.Outcome]string{
		idempotency.Created: "created", idempotency.Replayed: "replayed", idempotency.Existing: "existing", idempotency.Repeated: "repeated",
	}
	return words[outcome] + " " + string(d.Status)
}
