// Package chainworld is a crypto provider of our own: it speaks NOWPayments' protocol, quirks included, keeps books of its
// own, and sees coins come and go that nobody ever had.
//
// It owns no file and no port. Who mounts it writes its entries down before anything counts and gives it back all of them
// after a restart, listens for it, and orders faults.
package chainworld

import (
	"context"
	"encoding/base32"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/shopspring/decimal"

	"github.com/ponte-pay/ponte/internal/clock"
)

// Targets of faults, each with a listener of its own.
const (
	TargetCrypto = "crypto" // the provider
	TargetRates  = "rates"  // two sources of the dollar's price in reais
)

// Options are what a world is given by who mounts it.
type Options struct {
	Clock  *clock.Clock
	Log    *slog.Logger
	Random io.Reader // of keys and secrets

	// Write writes an entry down, and then has it applied by [World.Apply]. It is called with the world locked.
	Write func(entry json.RawMessage) error
	// Fault uses up the fault that meets an operation of a target, if there is any.
	Fault func(target, operation string) (Fault, bool)
	// Twice uses up a fault that makes a notification come twice, if there is any.
	Twice func(ofPayout bool) bool
	// Reset closes the connection of a request without an answer.
	Reset func(w http.ResponseWriter)

	// Transport carries notifications; nil means connections over the network.
	Transport http.RoundTripper

	// SettleAfter is how long after they were verified payouts are finished, in business time; 0 or less means at once.
	SettleAfter time.Duration
	// Manual means that neither confirmations nor payouts move by themselves.
	Manual bool
}

// Fault is something that goes wrong.
type Fault struct {
	Kind  string        // such as http_500
	Delay time.Duration // of real time
}

// Account is what a client needs to use the provider. Its JSON is what GET /sim/crypto/account tells.
type Account struct {
	BaseURL    string `json:"base_url"`  // of the provider, its version included
	RatesURL   string `json:"rates_url"` // of the sources of rates
	APIKey     string `json:"api_key"`
	Email      string `json:"email"`
	Password   string `json:"password"`
	TOTPSecret string `json:"totp_secret"`
	IPNSecret  string `json:"ipn_secret"`
	Settlement string `json:"settlement"` // code of the coin that payments are settled in
}

// World is a simulated provider.
type World struct {
	options  Options
	notices  *notices
	provider http.Handler
	rates    http.Handler

	mu       sync.Mutex
	identity *identity // nil before the first entry
	ports    map[string]int
	payments []*payment // in the order in which they were made
	byID     map[int64]*payment
	byPlace  map[place]*payment // those that an address was made for
	stepping map[int64]bool     // payments that wait for a confirmation
	expiring int                // the first payment whose time to wait is not over
	payouts  []*payout
	byBatch  map[int64]*payout
	open     map[int64]bool             // batches that can still move by themselves
	balances map[string]decimal.Decimal // of coins, besides what each opened with
	switches map[string]coinSwitch
	quirks   map[string]bool
	skews    map[string]skew
	usedCode int64 // the step of the second factor whose code was taken last
}

// place is where coins are sent: an address, and a memo where addresses are shared.
type place struct{ address, memo string }

// entry is one line of the books: exactly one of its fields is set.
type entry struct {
	Identity *identity   `json:"identity,omitempty"`
	Port     *portEntry  `json:"port,omitempty"`
	Payment  *payment    `json:"payment,omitempty"` // as it is from now on
	Payout   *payout     `json:"payout,omitempty"`  // as it is from now on
	Switch   *coinSwitch `json:"switch,omitempty"`
	Quirk    *quirkEntry `json:"quirk,omitempty"`
	Skew     *skew       `json:"skew,omitempty"`
}

// identity is what was drawn once and for all.
type identity struct {
	APIKey   string `json:"api_key"`
	Password string `json:"password"`
	TOTP     string `json:"totp"` // base32
	IPN      string `json:"ipn"`
	Tokens   string `json:"tokens"` // hexadecimal key that signs tokens
	Seed     string `json:"seed"`   // hexadecimal, of addresses
}

const email = "simulator@ponte.example"

// portEntry is a target's port, which it tries to get again after a restart.
type portEntry struct {
	Target string `json:"target"`
	Port   int    `json:"port"`
}

// coinSwitch is how a coin stands; the zero switch is how it stands at first.
type coinSwitch struct {
	Code         string `json:"code"`
	Off          bool   `json:"off"`
	MemoRequired bool   `json:"memo_required"`
}

type quirkEntry struct {
	Name string `json:"name"`
	On   bool   `json:"on"`
}

// New returns an empty world. Apply gives it its past, and Begin lets it begin.
func New(o Options) *World {
	w := &World{
		options: o, ports: map[string]int{}, byID: map[int64]*payment{}, byPlace: map[place]*payment{}, byBatch: map[int64]*payout{},
		stepping: map[int64]bool{}, open: map[int64]bool{},
		balances: map[string]decimal.Decimal{}, switches: map[string]coinSwitch{}, quirks: map[string]bool{}, skews: map[string]skew{},
	}
	w.notices = newNotices(w)
	w.provider, w.rates = w.newProvider(), w.newRates()
	return w
}

// Apply does what an entry says. It is the only door into the books, for what happens now and for what is replayed.
func (w *World) Apply(raw json.RawMessage) error {
	var e entry
	if err := json.Unmarshal(raw, &e); err != nil {
		return fmt.Errorf("chainworld: %w", err)
	}
	switch {
	case e.Identity != nil:
		w.identity = e.Identity
	case e.Port != nil:
		w.ports[e.Port.Target] = e.Port.Port
	case e.Payment != nil:
		w.setPayment(e.Payment)
	case e.Payout != nil:
		w.setPayout(e.Payout)
	case e.Switch != nil:
		w.switches[e.Switch.Code] = *e.Switch
	case e.Quirk != nil:
		w.quirks[e.Quirk.Name] = e.Quirk.On
	case e.Skew != nil:
		w.skews[e.Skew.Source] = *e.Skew
	default:
		return errors.New("chainworld: not an entry that this version knows")
	}
	return nil
}

// write writes an entry down and does what it says. The caller holds mu.
func (w *World) write(e entry) error {
	raw, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("chainworld: %w", err)
	}
	return w.options.Write(raw)
}

// Begin draws keys and secrets, unless the books have them.
func (w *World) Begin() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.identity != nil {
		return nil
	}
	return w.write(entry{Identity: &identity{
		APIKey: "SIM-" + hex.EncodeToString(w.draw(16)), Password: hex.EncodeToString(w.draw(12)),
		TOTP: base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(w.draw(20)),
		IPN:  hex.EncodeToString(w.draw(16)), Tokens: hex.EncodeToString(w.draw(32)), Seed: hex.EncodeToString(w.draw(32)),
	}})
}

func (w *World) draw(n int) []byte {
	b := make([]byte, n)
	if _, err := io.ReadFull(w.options.Random, b); err != nil {
		panic("chainworld: no randomness: " + err.Error())
	}
	return b
}

// Provider returns the provider's routes, under /v1.
func (w *World) Provider() http.Handler { return w.provider }

// Rates returns the sources of rates.
func (w *World) Rates() http.Handler { return w.rates }

// Account returns the account, without its addresses.
func (w *World) Account() Account {
	w.mu.Lock()
	defer w.mu.Unlock()
	return Account{
		APIKey: w.identity.APIKey, Email: email, Password: w.identity.Password, TOTPSecret: w.identity.TOTP, IPNSecret: w.identity.IPN,
		Settlement: Settlement,
	}
}

// Port returns the port that a target had last, 0 if it never had one.
func (w *World) Port(target string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ports[target]
}

// SetPort writes down a target's port.
func (w *World) SetPort(target string, port int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ports[target] == port {
		return nil
	}
	return w.write(entry{Port: &portEntry{target, port}})
}

// now returns business time in milliseconds.
func (w *World) now() int64 { return w.options.Clock.Now().UnixMilli() }

// Step moves what time makes due and delivers the notifications that are due, in their order. It reports whether there
// was anything. It is for who does not call Run.
func (w *World) Step(ctx context.Context) (did bool) {
	did = w.catchUp(ctx)
	for ctx.Err() == nil && w.notices.deliverNext(ctx) {
		did = true
	}
	return did
}

// lookEvery is how often Run looks for what is due, in real time, besides when the clock is moved.
const lookEvery = 50 * time.Millisecond

// Run does what Step does until ctx ends.
func (w *World) Run(ctx context.Context) {
	var workers sync.WaitGroup
	defer workers.Wait()
	for range noticeWorkers {
		workers.Go(func() {
			for ctx.Err() == nil {
				if !w.notices.deliverNext(ctx) {
					_ = w.options.Clock.Wait(ctx, lookEvery) // the loop looks at ctx itself
				}
			}
		})
	}
	for ctx.Err() == nil {
		w.catchUp(ctx)
		_ = w.options.Clock.Wait(ctx, lookEvery)
	}
}

// catchUp moves what time has made due.
func (w *World) catchUp(ctx context.Context) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	did, err := w.move()
	if err != nil {
		w.options.Log.LogAttrs(ctx, slog.LevelError, "chain world stands still", slog.String("error", err.Error()))
	}
	return did
}

// move is catchUp for who holds mu.
func (w *World) move() (did bool, err error) {
	paid, err := w.movePayments()
	if err != nil {
		return paid, err
	}
	sent, err := w.movePayouts()
	return paid || sent, err
}
