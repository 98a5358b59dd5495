// Package chaintest holds every driver of a crypto provider to the same promises, against a simulated provider.
package chaintest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"

	"github.com/ponte-pay/ponte/internal/chain"
	"github.com/ponte-pay/ponte/internal/chain/address"
	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/simulator/chainworld"
)

// Setup is what a driver is made from.
type Setup struct {
	Account chainworld.Account
	Clock   *clock.Clock
}

// Run runs the suite. open makes a driver for an account; each test has a world of its own.
func Run(t *testing.T, open func(t *testing.T, s Setup) chain.Payer) {
	t.Helper()
	tests := map[string]func(t *testing.T, b *bench){
		"currencies":               currencies,
		"minimum and estimate":     minimumAndEstimate,
		"create in every coin":     createInEveryCoin,
		"create refused":           createRefused,
		"pay":                      pay,
		"short and long payments":  shortAndLong,
		"late payment":             latePayment,
		"repeated payment":         repeatedPayment,
		"repeated and not found":   repeatedAndNotFound,
		"wrong asset":              wrongAsset,
		"ends of a payment":        ends,
		"list":                     list,
		"unknown ids":              unknownIDs,
		"notices":                  notices,
		"notices again":            noticesAgain,
		"forged notice":            forgedNotice,
		"faults of creation":       creationFaults,
		"lost, and found later":    lostAndFound,
		"faults of reading":        readingFaults,
		"send":                     send,
		"send refused":             sendRefused,
		"faults of sending":        sendingFaults,
		"verify again":             verifyAgain,
		"codes once":               codesOnce,
		"not verified":             notVerified,
		"failed is not final":      failedIsNotFinal,
		"rejected":                 rejected,
		"find among many":          findAmongMany,
		"twice under one name":     twiceUnderOneName,
		"token expires":            tokenExpires,
		"token is refused":         tokenIsRefused,
		"many at once":             manyAtOnce,
		"asked to wait":            askedToWait,
		"nobody listens":           nobodyListens,
		"slower than its caller":   slow,
		"caller who has gone away": gone,
	}
	for _, quirk := range chainworld.Quirks {
		tests["quirk "+quirk] = func(t *testing.T, b *bench) {
			b.Quirk(quirk)
			pay(t, b)
			send(t, b)
			currencies(t, b)
			if quirk != chainworld.QuirkCodesOnce { // a second payout would have to wait
				notices(t, b)
			}
		}
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := NewWorld(t)
			test(t, &bench{World: w, open: open, Payer: open(t, Setup{w.Account(), w.Clock})})
		})
	}
}

// bench is a driver and the world that it works in.
type bench struct {
	*World
	chain.Payer
	open func(t *testing.T, s Setup) chain.Payer
}

// Payout is the world's, not the driver's.
func (b *bench) order(id, what string) { b.World.Payout(id, what) }

var serial atomic.Int64

func reference() string { return fmt.Sprintf("ref-%06d", serial.Add(1)) }

func newPayment() chain.NewPayment {
	return chain.NewPayment{Reference: reference(), Price: decimal.RequireFromString("25.50"), PayCurrency: "trx"}
}

// usdtAddress is somebody's.
const usdtAddress = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"

func newPayout() chain.NewPayout {
	return chain.NewPayout{
		Reference: reference(), Destination: chain.Destination{Currency: "usdtbsc", Address: usdtAddress}, Amount: decimal.RequireFromString("25.123456"),
	}
}

// create makes a payment that must work.
func (b *bench) create(t *testing.T, n chain.NewPayment) chain.Payment {
	t.Helper()
	p, err := b.CreatePayment(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// get reads a payment that must be there.
func (b *bench) get(t *testing.T, id string) chain.Payment {
	t.Helper()
	p, err := b.GetPayment(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// sendOne makes and verifies a payout that must work.
func (b *bench) sendOne(t *testing.T, n chain.NewPayout) chain.Payout {
	t.Helper()
	p, err := b.CreatePayout(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.VerifyPayout(t.Context(), p.ID); err != nil {
		t.Fatal(err)
	}
	return p
}

// getPayout reads a payout that must be there.
func (b *bench) getPayout(t *testing.T, id string) chain.Payout {
	t.Helper()
	p, err := b.GetPayout(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// want fails unless err has that outcome and class, in words; "" means no error.
func want(t *testing.T, err error, words string) {
	t.Helper()
	got := ""
	if err != nil {
		e := chain.As(err)
		got = e.Outcome.String() + " " + e.Class.String()
		if e.Provider == "" || e.Operation == "" {
			t.Errorf("%v does not say who and what", err)
		}
	}
	if got != words {
		t.Errorf("got %q, want %q: %v", got, words, err)
	}
}

// hour is a window around now.
func (b *bench) hour() (from, to time.Time) {
	now := b.Clock.Now()
	return now.Add(-time.Hour), now.Add(time.Hour)
}

func (b *bench) search(reference string) chain.Search {
	from, to := b.hour()
	return chain.Search{Reference: reference, From: from, To: to}
}

func currencies(t *testing.T, b *bench) {
	list, err := b.Currencies(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != len(chain.Coins) {
		t.Fatalf("got %d coins, want %d", len(list), len(chain.Coins))
	}
	for i, c := range list {
		if c.Coin != chain.Coins[i] || c.CanDeposit != c.Deposit || c.CanWithdraw != c.Withdrawal || c.RequiresMemo != (c.Code == "xrp") ||
			c.Decimals < 6 || c.Decimals > c.NetworkDecimals {
			t.Errorf("got %+v", c)
		}
	}
	b.Switch("btc", false, false)
	b.Switch("trx", true, true)
	if list, err = b.Currencies(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range list {
		if c.Code == "btc" && (c.CanDeposit || c.CanWithdraw) || c.Code == "trx" && (!c.RequiresMemo || !c.HasMemo || !c.CanWithdraw) {
			t.Errorf("after the switches: %+v", c)
		}
	}
}

func minimumAndEstimate(t *testing.T, b *bench) {
	for _, coin := range chain.Coins {
		if coin.Deposit {
			minimum, err := b.Minimum(t.Context(), coin.Code)
			if err != nil {
				t.Fatal(err)
			}
			usd, err := b.Estimate(t.Context(), chain.Conversion{From: coin.Code, To: "usd", Amount: minimum})
			if err != nil || usd.LessThan(decimal.New(1, 0)) || usd.GreaterThan(decimal.New(25, 0)) {
				t.Errorf("%s: the minimum of %v is worth $ %v, %v", coin.Code, minimum, usd, err)
			}
		}
		back, err := b.Estimate(t.Context(), chain.Conversion{From: "usd", To: coin.Code, Amount: decimal.New(100, 0)})
		if err != nil || !back.IsPositive() {
			t.Errorf("%s: $ 100 are %v, %v", coin.Code, back, err)
		}
	}
	b.Switch("btc", false, false)
	_, err := b.Minimum(t.Context(), "btc")
	want(t, err, "refused business")
	if !errors.Is(err, chain.ErrCurrencyUnavailable) {
		t.Error(err)
	}
	_, err = b.Estimate(t.Context(), chain.Conversion{From: "usd", To: "brl", Amount: decimal.New(1, 0)})
	want(t, err, "refused business")
}

func createInEveryCoin(t *testing.T, b *bench) {
	known := map[string]bool{}
	for _, coin := range chain.Coins {
		if !coin.Deposit {
			continue
		}
		n := newPayment()
		n.PayCurrency, n.Description = coin.Code, "Pedido nº 1 — é"
		before := b.Clock.Now()
		p := b.create(t, n)
		if canonical, err := address.Check(coin.Network, p.Address); err != nil || canonical != p.Address {
			t.Errorf("%s: address %s: %v", coin.Code, p.Address, err)
		}
		if p.Reference != n.Reference || p.Status != chain.PaymentWaiting || !p.Price.Equal(n.Price) || !p.PayAmount.IsPositive() || !p.Paid.IsZero() ||
			p.Settled != 0 || p.Parent != "" || (p.ExtraID != "") != (coin.Code == "xrp") || p.PayAmount.Exponent() < -int32(coin.NetworkDecimals) {
			t.Errorf("got %+v", p)
		}
		if age := p.CreatedAt.Sub(before); age < -time.Millisecond || age > time.Minute || !p.ExpiresAt.After(p.CreatedAt) {
			t.Errorf("asked for at %v, created at %v, expires at %v", before, p.CreatedAt, p.ExpiresAt)
		}
		if at := p.Address + " " + p.ExtraID; known[at] {
			t.Errorf("%s: %s was given out twice", coin.Code, at)
		} else {
			known[at] = true
		}
		if diff := cmp.Diff(p, b.get(t, p.ID)); diff != "" {
			t.Error(diff)
		}
	}
	if got := len(b.Books().Payments); got != len(known) {
		t.Errorf("the books show %d payments, want %d", got, len(known))
	}
}

func createRefused(t *testing.T, b *bench) {
	b.Switch("ltc", false, false)
	for name, test := range map[string]struct {
		change func(*chain.NewPayment)
		words  string
		cause  error
	}{
		"too small":    {func(n *chain.NewPayment) { n.Price = decimal.New(1, 0) }, "refused business", chain.ErrBelowMinimum},
		"off":          {func(n *chain.NewPayment) { n.PayCurrency = "ltc" }, "refused business", chain.ErrCurrencyUnavailable},
		"unknown":      {func(n *chain.NewPayment) { n.PayCurrency = "nope" }, "refused business", nil},
		"no reference": {func(n *chain.NewPayment) { n.Reference = "" }, "refused protocol", nil},
		"not ASCII":    {func(n *chain.NewPayment) { n.Reference = "pedido-é" }, "refused protocol", nil},
		"no price":     {func(n *chain.NewPayment) { n.Price = decimal.Decimal{} }, "refused protocol", nil},
	} {
		n := newPayment()
		test.change(&n)
		_, err := b.CreatePayment(t.Context(), n)
		want(t, err, test.words)
		if test.cause != nil && !errors.Is(err, test.cause) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if books := b.Books(); len(books.Payments) != 0 {
		t.Errorf("the books show %+v", books.Payments)
	}
}

// settled returns what the books say is ours of a payment.
func (b *bench) settled(t *testing.T, id string) string {
	t.Helper()
	for _, p := range b.Books().Payments {
		if p.ID == id {
			return p.Settled
		}
	}
	t.Fatalf("the books show no payment %s", id)
	return ""
}

// check fails unless a payment has come that far, and is worth what the books say.
func (b *bench) check(t *testing.T, p chain.Payment, status chain.PaymentStatus) {
	t.Helper()
	if p.Status != status {
		t.Errorf("it is %v, want %v: %+v", p.Status, status, p)
	}
	if got := chain.FromUSDT(p.Settled); !got.Equal(decimal.RequireFromString(b.settled(t, p.ID))) {
		t.Errorf("settled %v, the books say %s", got, b.settled(t, p.ID))
	}
	if p.Status.IsSettled() != (p.Settled > 0) {
		t.Errorf("%v with %v", p.Status, p.Settled)
	}
}

// coming is how long confirmations take.
const coming = 10 * time.Second

func pay(t *testing.T, b *bench) {
	p := b.create(t, newPayment())
	if id := b.Deposit(Deposit{Address: p.Address, Amount: p.PayAmount.String()}); id != p.ID {
		t.Fatalf("it came for %s, not for %s", id, p.ID)
	}
	seen := b.get(t, p.ID)
	b.check(t, seen, chain.PaymentConfirming)
	if !seen.Paid.Equal(p.PayAmount) || seen.TxHash == "" {
		t.Errorf("got %+v", seen)
	}
	b.Advance(coming)
	done := b.get(t, p.ID)
	b.check(t, done, chain.PaymentFinished)
	if !done.Paid.Equal(p.PayAmount) || done.Settled < 24_000_000 || done.Settled > 26_000_000 || done.Reference != p.Reference {
		t.Errorf("got %+v", done)
	}
}

func shortAndLong(t *testing.T, b *bench) {
	for factor, status := range map[string]chain.PaymentStatus{"0.5": chain.PaymentPartiallyPaid, "1.5": chain.PaymentFinished} {
		p := b.create(t, newPayment())
		amount := p.PayAmount.Mul(decimal.RequireFromString(factor))
		b.Deposit(Deposit{Address: p.Address, Amount: amount.String()})
		b.Advance(coming)
		got := b.get(t, p.ID)
		b.check(t, got, status)
		if !got.Paid.Equal(amount) {
			t.Errorf("got %+v", got)
		}
	}
}

func latePayment(t *testing.T, b *bench) {
	p := b.create(t, newPayment())
	b.Advance(8 * 24 * time.Hour)
	b.check(t, b.get(t, p.ID), chain.PaymentExpired)
	b.Deposit(Deposit{Address: p.Address, Amount: p.PayAmount.String()})
	b.Advance(coming)
	b.check(t, b.get(t, p.ID), chain.PaymentFinished)
}

func repeatedPayment(t *testing.T, b *bench) {
	p := b.create(t, newPayment())
	b.Deposit(Deposit{Address: p.Address, Amount: p.PayAmount.String()})
	b.Advance(coming)
	first := b.get(t, p.ID)
	id := b.Deposit(Deposit{Address: p.Address, Amount: "77"})
	if id == p.ID {
		t.Fatal("it came for the first payment")
	}
	b.Advance(coming)
	child, parent := b.get(t, id), b.get(t, p.ID)
	b.check(t, child, chain.PaymentFinished)
	if child.Parent != p.ID || child.Reference != p.Reference || child.Paid.String() != "77" {
		t.Errorf("got %+v", child)
	}
	if !slices.Equal(parent.Children, []string{id}) || parent.Settled != first.Settled {
		t.Errorf("the first one is %+v", parent)
	}
	found, err := chain.FindPayments(t.Context(), b, b.search(p.Reference))
	if err != nil || len(found) != 2 || found[0].ID != p.ID || found[1].ID != id {
		t.Errorf("found %+v, %v", found, err)
	}
}

func repeatedAndNotFound(t *testing.T, b *bench) {
	b.Quirk(chainworld.QuirkChildMissing)
	r := NewReceiver(t)
	n := newPayment()
	n.CallbackURL = r.URL
	p := b.create(t, n)
	b.Deposit(Deposit{Address: p.Address, Amount: p.PayAmount.String()})
	b.Advance(coming)
	id := b.Deposit(Deposit{Address: p.Address, Amount: "77"})
	b.Advance(coming)
	_, err := b.GetPayment(t.Context(), id)
	want(t, err, "refused business")
	if !errors.Is(err, chain.ErrNotFound) {
		t.Error(err)
	}
	b.Step()
	told := b.read(t, r)
	last := told[len(told)-1].Payment
	b.check(t, *last, chain.PaymentFinished)
	if last.ID != id || last.Parent != p.ID {
		t.Errorf("got %+v", last)
	}
}

func wrongAsset(t *testing.T, b *bench) {
	n := newPayment()
	n.PayCurrency = "bnbbsc"
	p := b.create(t, n)
	b.Deposit(Deposit{Address: p.Address, Amount: "30", Currency: "usdtbsc"})
	b.Advance(coming)
	got := b.get(t, p.ID)
	b.check(t, got, chain.PaymentFinished)
	if got.PayCurrency != "usdtbsc" || got.Paid.String() != "30" || got.Settled > 30_000_000 {
		t.Errorf("got %+v", got)
	}
}

func ends(t *testing.T, b *bench) {
	held := b.create(t, newPayment())
	b.Deposit(Deposit{Address: held.Address, Amount: held.PayAmount.String(), Hold: true})
	b.Advance(time.Hour)
	b.check(t, b.get(t, held.ID), chain.PaymentConfirming)
	b.Payment(held.ID, "confirm")
	b.check(t, b.get(t, held.ID), chain.PaymentFinished)
	b.Payment(held.ID, "refund")
	b.check(t, b.get(t, held.ID), chain.PaymentRefunded)

	wrong := b.create(t, newPayment())
	b.Deposit(Deposit{Address: wrong.Address, Amount: wrong.PayAmount.String(), Hold: true})
	b.Payment(wrong.ID, "fail")
	got := b.get(t, wrong.ID)
	b.check(t, got, chain.PaymentFailed)
	if !got.Paid.Equal(wrong.PayAmount) {
		t.Errorf("got %+v", got)
	}
	unpaid := b.create(t, newPayment())
	b.Payment(unpaid.ID, "expire")
	b.check(t, b.get(t, unpaid.ID), chain.PaymentExpired)
}

func list(t *testing.T, b *bench) {
	var ids []string
	before := b.Clock.Now().Add(-time.Second)
	for range 12 {
		ids = append(ids, b.create(t, newPayment()).ID)
		b.Advance(time.Minute)
	}
	all := func(from, to time.Time) (got []string) {
		t.Helper()
		page, err := b.ListPayments(t.Context(), chain.Window{From: from, To: to})
		if err != nil || page.Unreadable != 0 || page.Next != "" {
			t.Fatalf("%+v, %v", page, err)
		}
		for _, p := range page.Payments {
			got = append(got, p.ID)
		}
		return got
	}
	if diff := cmp.Diff(ids, all(before, b.Clock.Now())); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(ids[6:], all(before.Add(5*time.Minute+30*time.Second), b.Clock.Now())); diff != "" {
		t.Error(diff)
	}
	if got := all(b.Clock.Now(), b.Clock.Now().Add(time.Hour)); got != nil {
		t.Errorf("got %v", got)
	}
	_, err := b.ListPayments(t.Context(), chain.Window{Cursor: "?"})
	want(t, err, "refused protocol")
}

func unknownIDs(t *testing.T, b *bench) {
	for _, id := range []string{"5999999999", "", "abc", "5e9", "../payout", strings.Repeat("9", 40)} {
		_, err := b.GetPayment(t.Context(), id)
		if want(t, err, "refused business"); !errors.Is(err, chain.ErrNotFound) {
			t.Errorf("%q: %v", id, err)
		}
		_, err = b.GetPayout(t.Context(), id)
		if want(t, err, "refused business"); !errors.Is(err, chain.ErrNotFound) {
			t.Errorf("%q: %v", id, err)
		}
	}
	_, err := b.FindPayout(t.Context(), b.search("nobody's"))
	if want(t, err, "refused business"); !errors.Is(err, chain.ErrNotFound) {
		t.Error(err)
	}
	if found, err := chain.FindPayments(t.Context(), b, b.search("nobody's")); err != nil || found != nil {
		t.Errorf("found %v, %v", found, err)
	}
}

// read reads all notifications that have come, which must be the provider's.
func (b *bench) read(t *testing.T, r *Receiver) (list []chain.Notice) {
	t.Helper()
	for _, raw := range r.Take() {
		n, err := b.ReadNotice(raw.Header, raw.Body)
		if err != nil {
			t.Fatalf("%v: %s", err, raw.Body)
		}
		list = append(list, n)
	}
	return list
}

func notices(t *testing.T, b *bench) {
	r := NewReceiver(t)
	n := newPayment()
	n.CallbackURL, n.PayCurrency = r.URL, "doge"
	p := b.create(t, n)
	b.Deposit(Deposit{Address: p.Address, Amount: p.PayAmount.String()})
	b.Advance(coming)
	b.Step()
	var words []string
	for _, told := range b.read(t, r) {
		if told.Payment == nil || told.Payout != nil || told.Payment.ID != p.ID || told.Payment.Reference != p.Reference {
			t.Errorf("got %+v", told)
			continue
		}
		words = append(words, told.Payment.Status.String())
	}
	slices.Sort(words) // their order is not promised
	if got := strings.Join(words, " "); got != "confirming confirming confirming finished waiting" {
		t.Errorf("told of %s", got)
	}

	out := newPayout()
	out.CallbackURL = r.URL
	sent := b.sendOne(t, out)
	b.Advance(coming)
	b.Step()
	words = nil
	for _, told := range b.read(t, r) {
		if told.Payout == nil || told.Payment != nil || told.Payout.ID != sent.ID {
			t.Errorf("got %+v", told)
			continue
		}
		words = append(words, told.Payout.Status.String())
	}
	slices.Sort(words)
	if got := strings.Join(words, " "); got != "finished processing waiting" {
		t.Errorf("told of %s", got)
	}
}

func noticesAgain(t *testing.T, b *bench) {
	r := NewReceiver(t)
	n := newPayment()
	n.CallbackURL = r.URL
	b.Fault("", "duplicate_callback", 1, 0)
	r.Answer(http.StatusInternalServerError)
	b.create(t, n)
	for range 6 {
		b.Step()
		b.Advance(time.Minute)
	}
	if got := len(r.Take()); got != 8 { // twice, and each again three times
		t.Errorf("came %d times", got)
	}
}

func forgedNotice(t *testing.T, b *bench) {
	r := NewReceiver(t)
	n := newPayment()
	n.CallbackURL = r.URL
	p := b.create(t, n)
	b.Step()
	genuine := r.Take()[0]
	for name, forged := range map[string]Notice{
		"another status": {genuine.Header, []byte(strings.Replace(string(genuine.Body), `"waiting"`, `"finished"`, 1))},
		"no signature":   {http.Header{}, genuine.Body},
	} {
		told, err := b.ReadNotice(forged.Header, forged.Body)
		if want(t, err, "refused credentials"); !errors.Is(err, chain.ErrSignature) || told != (chain.Notice{}) {
			t.Errorf("%s: %+v, %v", name, told, err)
		}
	}
	b.check(t, b.get(t, p.ID), chain.PaymentWaiting)
}

// outcomes are what the kinds of faults prove about an operation that changes something, and whether it happens.
var outcomes = []struct {
	kind, words string
	happens     bool
}{
	{"http_500", "unknown down", false},
	{"http_429", "refused rate_limited", false},
	{"reject", "refused business", false},
	{"lost_executed", "unknown down", true},
	{"lost_not_executed", "unknown down", false},
	{"garbage", "unknown protocol", true},
	{"slow", "", true},
}

func creationFaults(t *testing.T, b *bench) {
	for _, test := range outcomes {
		b.Advance(time.Minute) // it may want a rest
		b.Fault("payment.create", test.kind, 1, 0)
		n := newPayment()
		_, err := b.CreatePayment(t.Context(), n)
		want(t, err, test.words)
		found, err := chain.FindPayments(t.Context(), b, b.search(n.Reference))
		if err != nil || len(found) != map[bool]int{true: 1}[test.happens] {
			t.Errorf("%s: found %+v, %v", test.kind, found, err)
		}
	}
	b.Quirk(chainworld.QuirkHTML)
	b.Fault("payment.create", "http_500", 1, 0)
	_, err := b.CreatePayment(t.Context(), newPayment())
	want(t, err, "unknown down")
}

func lostAndFound(t *testing.T, b *bench) {
	b.Fault("payment.create", "lost_executed", 1, 0)
	n := newPayment()
	_, err := b.CreatePayment(t.Context(), n)
	want(t, err, "unknown down")
	found, err := chain.FindPayments(t.Context(), b, b.search(n.Reference))
	if err != nil || len(found) != 1 {
		t.Fatalf("found %+v, %v", found, err)
	}
	if diff := cmp.Diff(b.get(t, found[0].ID), found[0]); diff != "" || found[0].Address == "" {
		t.Error(diff)
	}
}

func readingFaults(t *testing.T, b *bench) {
	p := b.create(t, newPayment())
	sent := b.sendOne(t, newPayout())
	for operation, read := range map[string]func() error{
		"payment.get": func() error { _, err := b.GetPayment(t.Context(), p.ID); return err },
		"payout.get":  func() error { _, err := b.GetPayout(t.Context(), sent.ID); return err },
		"minimum":     func() error { _, err := b.PayoutMinimum(t.Context(), "btc"); return err },
		"estimate":    func() error { _, err := b.PayoutFee(t.Context(), "btc", decimal.New(1, 0)); return err },
		"currencies":  func() error { _, err := b.Currencies(t.Context()); return err },
	} {
		for kind, words := range map[string]string{
			"http_500": "unknown down", "http_429": "refused rate_limited", "lost_executed": "unknown down", "garbage": "unknown protocol", "slow": "",
		} {
			b.Fault(operation, kind, 0, 0) // until it is cleared: a read may be tried again
			t.Log(operation, kind)
			want(t, read(), words)
			b.ClearFaults()
			b.Advance(time.Minute) // it may want a rest
			want(t, read(), "")
		}
	}
}

// book returns the only payout that the books have under a reference.
func (b *bench) book(t *testing.T, reference string) chainworld.PayoutView {
	t.Helper()
	var found []chainworld.PayoutView
	for _, p := range b.Books().Payouts {
		if p.ExternalID == reference {
			found = append(found, p)
		}
	}
	if len(found) != 1 {
		t.Fatalf("the books show %+v", found)
	}
	return found[0]
}

func send(t *testing.T, b *bench) {
	before, err := b.Balance(t.Context())
	if err != nil || before["usdtbsc"].LessThan(decimal.New(1_000_000, 0)) {
		t.Fatalf("the balance is %v, %v", before, err)
	}
	n := newPayout()
	if err := b.ValidateAddress(t.Context(), n.Destination); err != nil {
		t.Fatal(err)
	}
	minimum, err := b.PayoutMinimum(t.Context(), "usdtbsc")
	if err != nil || !minimum.LessThan(n.Amount) {
		t.Fatalf("the minimum is %v, %v", minimum, err)
	}
	fee, err := b.PayoutFee(t.Context(), "usdtbsc", n.Amount)
	if err != nil || !fee.IsPositive() || fee.GreaterThan(minimum) {
		t.Fatalf("the fee is %v, %v", fee, err)
	}
	p, err := b.CreatePayout(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	if p.Reference != n.Reference || p.Status != chain.PayoutWaiting || p.Destination != n.Destination || !p.Amount.Equal(n.Amount) || p.CreatedAt.IsZero() {
		t.Errorf("got %+v", p)
	}
	b.Advance(coming)
	if got := b.book(t, n.Reference); got.Status != "WAITING" || got.Executions != 0 {
		t.Errorf("before it was verified the books show %+v", got)
	}
	if err := b.VerifyPayout(t.Context(), p.ID); err != nil {
		t.Fatal(err)
	}
	if got := b.getPayout(t, p.ID); got.Status != chain.PayoutProcessing {
		t.Errorf("got %+v", got)
	}
	b.Advance(coming)
	got := b.getPayout(t, p.ID)
	if got.Status != chain.PayoutFinished || got.TxHash == "" || !got.Amount.Equal(n.Amount) || got.Reference != n.Reference {
		t.Errorf("got %+v", got)
	}
	found, err := b.FindPayout(t.Context(), b.search(n.Reference))
	if diff := cmp.Diff(got, found); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	after, err := b.Balance(t.Context())
	if err != nil || !before["usdtbsc"].Sub(after["usdtbsc"]).Equal(n.Amount) {
		t.Errorf("the balance went from %v to %v, %v", before["usdtbsc"], after["usdtbsc"], err)
	}
	if book := b.book(t, n.Reference); book.ID != p.ID || book.Executions != 1 || book.Amount != n.Amount.String() {
		t.Errorf("the books show %+v", book)
	}
}

func sendRefused(t *testing.T, b *bench) {
	b.Switch("ltc", false, false)
	b.Switch("trx", true, true)
	before := b.Books()
	for name, test := range map[string]struct {
		change func(*chain.NewPayout)
		words  string
		cause  error
	}{
		"too small":        {func(n *chain.NewPayout) { n.Amount = decimal.New(1, 0) }, "refused business", chain.ErrBelowMinimum},
		"too much":         {func(n *chain.NewPayout) { n.Amount = decimal.New(2_000_000, 0) }, "refused business", chain.ErrInsufficientBalance},
		"mistyped":         {func(n *chain.NewPayout) { n.Address = usdtAddress[:41] + "D" }, "refused business", chain.ErrInvalidAddress},
		"another network":  {func(n *chain.NewPayout) { n.Address = "TEmGwPeRTPiLFLVfBxXkSP91yc5GMNQhfS" }, "refused business", chain.ErrInvalidAddress},
		"off":              {func(n *chain.NewPayout) { n.Currency = "ltc" }, "refused business", chain.ErrCurrencyUnavailable},
		"never sent":       {func(n *chain.NewPayout) { n.Currency = "eth" }, "refused business", chain.ErrCurrencyUnavailable},
		"no memo":          {func(n *chain.NewPayout) { n.Currency, n.Address = "trx", "TEmGwPeRTPiLFLVfBxXkSP91yc5GMNQhfS" }, "refused business", chain.ErrInvalidAddress},
		"a memo too many":  {func(n *chain.NewPayout) { n.ExtraID = "1" }, "refused business", chain.ErrInvalidAddress},
		"too many places":  {func(n *chain.NewPayout) { n.Amount = decimal.RequireFromString("25.0000001") }, "refused protocol", nil},
		"without anything": {func(n *chain.NewPayout) { *n = chain.NewPayout{} }, "refused protocol", nil},
	} {
		n := newPayout()
		test.change(&n)
		_, err := b.CreatePayout(t.Context(), n)
		t.Log(name)
		want(t, err, test.words)
		if test.cause != nil && !errors.Is(err, test.cause) {
			t.Errorf("%s: %v", name, err)
		}
		if errors.Is(test.cause, chain.ErrInvalidAddress) {
			if err := b.ValidateAddress(t.Context(), n.Destination); !errors.Is(err, chain.ErrInvalidAddress) || !chain.IsRefused(err) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	_, err := b.PayoutMinimum(t.Context(), "ltc")
	if want(t, err, "refused business"); !errors.Is(err, chain.ErrCurrencyUnavailable) {
		t.Error(err)
	}
	if diff := cmp.Diff(before, b.Books()); diff != "" {
		t.Error(diff)
	}
}

func sendingFaults(t *testing.T, b *bench) {
	for _, test := range outcomes {
		b.Advance(time.Minute)
		b.Fault("payout.send", test.kind, 1, 0)
		n := newPayout()
		_, err := b.CreatePayout(t.Context(), n)
		want(t, err, test.words)
		found, err := b.FindPayout(t.Context(), b.search(n.Reference))
		if (err == nil) != test.happens || (err != nil && !errors.Is(err, chain.ErrNotFound)) {
			t.Errorf("%s: found %+v, %v", test.kind, found, err)
		}
		if !test.happens {
			continue
		}
		if err := b.VerifyPayout(t.Context(), found.ID); err != nil {
			t.Fatal(err)
		}
		b.Advance(coming)
		if book := b.book(t, n.Reference); book.Executions != 1 {
			t.Errorf("%s: the books show %+v", test.kind, book)
		}
	}
}

func verifyAgain(t *testing.T, b *bench) {
	n := newPayout()
	p, err := b.CreatePayout(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	b.Fault("payout.verify", "lost_executed", 1, 0)
	want(t, b.VerifyPayout(t.Context(), p.ID), "unknown down")
	want(t, b.VerifyPayout(t.Context(), p.ID), "")
	b.Advance(coming)
	want(t, b.VerifyPayout(t.Context(), p.ID), "")
	if book := b.book(t, n.Reference); book.Executions != 1 || book.Status != "FINISHED" {
		t.Errorf("the books show %+v", book)
	}
	err = b.VerifyPayout(t.Context(), "6999999999")
	if want(t, err, "refused business"); !errors.Is(err, chain.ErrNotFound) {
		t.Error(err)
	}
}

// codesOnce is a provider that takes each code once: the second payout within half a minute has to wait, and only that.
func codesOnce(t *testing.T, b *bench) {
	b.Quirk(chainworld.QuirkCodesOnce)
	var limited int
	for range 3 {
		p, err := b.CreatePayout(t.Context(), newPayout())
		if err != nil {
			t.Fatal(err)
		}
		if err := b.VerifyPayout(t.Context(), p.ID); err != nil {
			want(t, err, "refused rate_limited")
			limited++
		}
	}
	if limited == 0 {
		t.Error("three payouts were verified within a moment")
	}
}

func notVerified(t *testing.T, b *bench) {
	before := b.Books().Balance
	n := newPayout()
	p, err := b.CreatePayout(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	b.Advance(2 * time.Hour)
	if got := b.getPayout(t, p.ID); got.Status != chain.PayoutRejected || got.Reason == "" {
		t.Errorf("got %+v", got)
	}
	if err := b.VerifyPayout(t.Context(), p.ID); !chain.IsRefused(err) {
		t.Errorf("verified after all: %v", err)
	}
	if diff := cmp.Diff(before, b.Books().Balance); diff != "" {
		t.Error(diff)
	}
}

func failedIsNotFinal(t *testing.T, b *bench) {
	n := newPayout()
	p := b.sendOne(t, n)
	b.order(p.ID, "fail")
	b.Advance(time.Hour)
	if got := b.getPayout(t, p.ID); got.Status != chain.PayoutFailed || got.Status.IsFinal() {
		t.Errorf("got %+v", got)
	}
	b.order(n.Reference, "finish")
	if got := b.getPayout(t, p.ID); got.Status != chain.PayoutFinished || !got.Status.IsFinal() {
		t.Errorf("got %+v", got)
	}
	if book := b.book(t, n.Reference); book.Executions != 1 {
		t.Errorf("the books show %+v", book)
	}
}

func rejected(t *testing.T, b *bench) {
	before := b.Books().Balance
	n := newPayout()
	p := b.sendOne(t, n)
	b.order(p.ID, "reject")
	if got := b.getPayout(t, p.ID); got.Status != chain.PayoutRejected || !got.Status.IsFinal() || got.Reason == "" {
		t.Errorf("got %+v", got)
	}
	if diff := cmp.Diff(before, b.Books().Balance); diff != "" {
		t.Error(diff)
	}
	if book := b.book(t, n.Reference); book.Executions != 0 {
		t.Errorf("the books show %+v", book)
	}
}

func findAmongMany(t *testing.T, b *bench) {
	var wanted chain.NewPayout
	for i := range 120 {
		n := newPayout()
		if _, err := b.CreatePayout(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		if i == 110 {
			wanted = n
		}
	}
	if p, err := b.FindPayout(t.Context(), b.search(wanted.Reference)); err != nil || p.Reference != wanted.Reference {
		t.Errorf("found %+v, %v", p, err)
	}
}

func twiceUnderOneName(t *testing.T, b *bench) {
	b.Quirk(chainworld.QuirkUnique)
	n := newPayout()
	if _, err := b.CreatePayout(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	_, err := b.CreatePayout(t.Context(), n)
	if want(t, err, "unknown business"); !errors.Is(err, chain.ErrDuplicate) {
		t.Error(err)
	}
}

func tokenExpires(t *testing.T, b *bench) {
	for range 3 {
		if _, err := b.CreatePayout(t.Context(), newPayout()); err != nil {
			t.Fatal(err)
		}
		b.Advance(5 * time.Minute)
	}
}

func tokenIsRefused(t *testing.T, b *bench) {
	for kind, words := range map[string]string{
		"http_500": "refused down", "reject": "refused credentials", "garbage": "refused protocol", "lost_executed": "refused down", "http_429": "refused rate_limited",
	} {
		b.Advance(10 * time.Minute) // the token before has expired
		b.Fault("token", kind, 1, 0)
		_, err := b.CreatePayout(t.Context(), newPayout())
		want(t, err, words)
	}
	b.Advance(10 * time.Minute)
	account := b.Account()
	account.Password += "x"
	_, err := b.open(t, Setup{account, b.Clock}).CreatePayout(t.Context(), newPayout())
	want(t, err, "refused credentials")
	account = b.Account()
	account.APIKey += "x"
	_, err = b.open(t, Setup{account, b.Clock}).CreatePayment(t.Context(), newPayment())
	want(t, err, "refused credentials")
	if err != nil && strings.Contains(err.Error(), account.APIKey) {
		t.Errorf("the key stands in %v", err)
	}
}

func manyAtOnce(t *testing.T, b *bench) {
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			n := newPayout()
			if p, err := b.CreatePayout(t.Context(), n); err != nil || p.Reference != n.Reference {
				t.Errorf("%+v, %v", p, err)
			}
			in := newPayment()
			if p, err := b.CreatePayment(t.Context(), in); err != nil || p.Reference != in.Reference {
				t.Errorf("%+v, %v", p, err)
			}
		})
	}
	wg.Wait()
	if books := b.Books(); len(books.Payments) != 16 || len(books.Payouts) != 16 {
		t.Errorf("the books show %d payments and %d payouts", len(books.Payments), len(books.Payouts))
	}
}

// askedToWait is a provider that has had enough: it is left alone for as long as it wants.
func askedToWait(t *testing.T, b *bench) {
	b.Fault("payment.create", "http_429", 1, 0)
	_, err := b.CreatePayment(t.Context(), newPayment())
	want(t, err, "refused rate_limited")
	done := make(chan error)
	go func() {
		_, err := b.CreatePayment(t.Context(), newPayment())
		done <- err
	}()
	want(t, <-done, "")
}

func nobodyListens(t *testing.T, b *bench) {
	p := b.create(t, newPayment()) // over a connection that is kept, and then closed
	b.Fault("", "refuse", 1, 0)
	_, err := b.CreatePayment(t.Context(), newPayment())
	want(t, err, "refused down")
	_, err = b.GetPayment(t.Context(), p.ID)
	want(t, err, "refused down")
	_, err = b.CreatePayout(t.Context(), newPayout())
	want(t, err, "refused down")
	b.ClearFaults()
	b.get(t, p.ID)
	if books := b.Books(); len(books.Payments) != 1 || len(books.Payouts) != 0 {
		t.Errorf("the books show %+v", books)
	}
}

func slow(t *testing.T, b *bench) {
	b.Fault("payment.create", "slow", 1, time.Minute)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	n := newPayment()
	_, err := b.CreatePayment(ctx, n)
	if want(t, err, "unknown timeout"); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if found, err := chain.FindPayments(t.Context(), b, b.search(n.Reference)); err != nil || len(found) != 1 {
		t.Errorf("found %+v, %v", found, err)
	}
}

func gone(t *testing.T, b *bench) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := b.CreatePayment(ctx, newPayment())
	want(t, err, "refused timeout")
	_, err = b.CreatePayout(ctx, newPayout())
	want(t, err, "refused timeout")
	if books := b.Books(); len(books.Payments) != 0 || len(books.Payouts) != 0 {
		t.Errorf("the books show %+v", books)
	}
}
