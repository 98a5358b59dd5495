package withdrawal_test

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
	"github.com/ponte-pay/ponte/internal/chain"
	"github.com/ponte-pay/ponte/internal/chain/nowpayments"
	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/idempotency"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/simulator"
	"github.com/ponte-pay/ponte/internal/simulator/chainworld"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
	"github.com/ponte-pay/ponte/internal/withdrawal"
)

// world is a chain of its own for a test, reached over real HTTP. Its payouts are sent when the test says so.
type world struct {
	t       *testing.T
	name    string // of its provider, so that worlds can share a database
	clock   *clock.Clock
	account chainworld.Account
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
	return &world{t: t, name: "crypto " + rand.Text(), clock: c, account: s.CryptoAccount(), control: server.URL}
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
func (w *world) fault(operation, kind string, times int) {
	w.t.Helper()
	w.sim("POST", "/sim/faults", map[string]any{"target": "crypto", "operation": operation, "kind": kind, "times": times, "delay_ms": 1}, nil)
}

func (w *world) mend() {
	w.t.Helper()
	w.sim("DELETE", "/sim/faults", nil, nil)
}

func (w *world) quirk(name string) {
	w.t.Helper()
	w.sim("POST", "/sim/crypto/quirks", map[string]any{"name": name, "on": true}, nil)
}

func (w *world) advance(by time.Duration) {
	w.t.Helper()
	w.sim("POST", "/sim/clock", map[string]any{"advance_seconds": int(by / time.Second)}, nil)
}

// order has something become of the payout that is a withdrawal.
func (w *world) order(x withdrawal.Withdrawal, what string) {
	w.t.Helper()
	w.sim("POST", "/sim/crypto/payouts/"+x.ProviderID+"/"+what, map[string]any{}, nil)
}

// book is a payout in the provider's books.
type book struct {
	ID         string `json:"id"`
	ExternalID string `json:"external_id"`
	Amount     string `json:"amount"`
	Status     string `json:"status"`
	Executions int    `json:"executions"`
}

// books returns the payouts that were made for a withdrawal, oldest first.
func (w *world) books(x withdrawal.Withdrawal) (list []book) {
	w.t.Helper()
	var told struct{ Payouts []book }
	w.sim("GET", "/sim/crypto/books", nil, &told)
	for _, b := range told.Payouts {
		if b.ExternalID == x.Name() {
			list = append(list, b)
		}
	}
	return list
}

// made returns how the payouts of a withdrawal stand and how often coins left, such as REJECTED 0, FINISHED 1.
func (w *world) made(x withdrawal.Withdrawal) string {
	w.t.Helper()
	var list []string
	for _, b := range w.books(x) {
		list = append(list, fmt.Sprint(b.Status, " ", b.Executions))
	}
	return strings.Join(list, ", ")
}

// node is a server of withdrawals on a database.
type node struct {
	*withdrawal.Service
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

// node starts a server. Its provider is seen through each of those lenses.
func (w *world) node(db *sqldb.DB, lenses ...func(chain.Payer) chain.Payer) *node {
	w.t.Helper()
	a := w.account
	var provider chain.Payer
	provider, err := nowpayments.New(nowpayments.Config{
		Name: w.name, BaseURL: a.BaseURL, APIKey: a.APIKey, Email: a.Email, Password: a.Password, TOTPSecret: a.TOTPSecret, IPNSecret: a.IPNSecret,
		Settlement: a.Settlement,
	}, w.clock)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, lens := range lenses {
		provider = lens(provider)
	}
	ids := id.NewGenerator(w.clock.Now, rand.Reader)
	n := &node{world: w, db: db, accounts: account.New(db, w.clock, rand.Reader), log: &journal{}}
	n.Service = withdrawal.New(withdrawal.Services{
		DB: db, Clock: w.clock, IDs: ids, Ledger: ledger.New(db, ids, w.clock), Once: idempotency.New(db, w.clock, 0), Provider: provider,
		CallbackURL: func() string { return "" },
		Log:         slog.New(slog.NewTextHandler(n.log, nil)),
		Render: func(x *withdrawal.Withdrawal) ([]byte, error) {
			return fmt.Appendf(nil, `{"status":%q}`, x.Status), nil
		},
	})
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

// holder opens an account that has so much.
func (n *node) holder(has money.USDT, settings ...string) account.Account {
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

const someAddress = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"

func request(a account.Account, externalID string, amount money.USDT) withdrawal.Request {
	coin, _ := chain.FindCoin("usdtbsc")
	return withdrawal.Request{Account: a, Hash: [32]byte{byte(amount)}, Amount: amount, Coin: coin, Address: someAddress, ExternalID: externalID}
}

// stored returns a withdrawal as the database has it.
func (n *node) stored(owner id.Account, externalID string) withdrawal.Withdrawal {
	n.t.Helper()
	for _, x := range n.all(owner) {
		if x.ExternalID == externalID {
			return x
		}
	}
	n.t.Fatalf("%s is not stored", externalID)
	return withdrawal.Withdrawal{}
}

func (n *node) all(owner id.Account) []withdrawal.Withdrawal {
	n.t.Helper()
	list, _, err := n.List(n.t.Context(), owner, withdrawal.Page{Limit: 1000})
	if err != nil {
		n.t.Fatal(err)
	}
	return list
}

func (n *node) balance(owner id.Account) ledger.Balance {
	n.t.Helper()
	b, err := ledger.Balances(n.t.Context(), n.db, owner, money.CurrencyUSDT)
	if err != nil {
		n.t.Fatal(err)
	}
	return b
}

// transfers returns what was posted but for the opening balance, such as crypto_out 101.000000 available>in_transit.
func (n *node) transfers(owner id.Account) string {
	n.t.Helper()
	all, err := ledger.Transfers(n.t.Context(), n.db, ledger.Range{Account: owner, Currency: money.CurrencyUSDT, After: id.First(time.UnixMicro(0)), Before: id.Max, Limit: 1000})
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

// events returns what happened, such as processing processing, completed completed.
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
		return strings.TrimPrefix(kind, "crypto.payout.") + " " + shown.Status, err
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
	more, ownErr := withdrawal.Audit(n.t.Context(), n.db)
	if problems := slices.Concat(result.Problems, more); err != nil || ownErr != nil || len(problems) > 0 {
		n.t.Errorf("audit: %v %v %v", problems, err, ownErr)
	}
}

// told returns what a creation was answered, such as created processing.
func told(x withdrawal.Withdrawal, outcome idempotency.Outcome, err error) string {
	if err != nil {
		f := fault.As(err)
		return f.Code + " " + f.Public
	}
	words := map[idempotency.Outcome]string{
		idempotency.Created: "created", idempotency.Replayed: "replayed", idempotency.Existing: "existing", idempotency.Repeated: "repeated",
	}
	return words[outcome] + " " + string(x.Status)
}
