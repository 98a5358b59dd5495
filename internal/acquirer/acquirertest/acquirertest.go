// Package acquirertest holds every driver of an acquirer to the same promises, against a simulated bank.
package acquirertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/pix"
	"github.com/ponte-pay/ponte/internal/simulator"
)

// Setup is what a driver is made from.
type Setup struct {
	Account simulator.Account
	Clock   *clock.Clock
}

// Run runs the suite. open makes a driver for an account; each test has a world of its own.
func Run(t *testing.T, open func(t *testing.T, s Setup) acquirer.Acquirer) {
	t.Helper()
	for name, test := range map[string]func(t *testing.T, b *bench){
		"create":                   create,
		"create in full":           createInFull,
		"pay":                      pay,
		"create twice":             createTwice,
		"create another":           createAnother,
		"unknown ids":              unknownIDs,
		"remove":                   remove,
		"removed by the acquirer":  removedByAcquirer,
		"late payment":             latePayment,
		"second payment":           secondPayment,
		"short payment":            shortPayment,
		"refunds":                  refunds,
		"list":                     list,
		"webhook":                  webhook,
		"token expires":            tokenExpires,
		"token is refused":         tokenIsRefused,
		"faults of creation":       creationFaults,
		"faults of reading":        readingFaults,
		"faults of tokens":         tokenFaults,
		"lost, and found later":    lostAndFound,
		"nobody listens":           nobodyListens,
		"slower than its caller":   slow,
		"many at once":             manyAtOnce,
		"caller who has gone away": gone,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := NewWorld(t)
			test(t, &bench{World: w, open: open, acquirer: open(t, Setup{w.Account("alpha"), w.Clock})})
		})
	}
}

// bench is a driver and the world that it works in.
type bench struct {
	*World
	open     func(t *testing.T, s Setup) acquirer.Acquirer
	acquirer acquirer.Acquirer
}

var serial atomic.Int64

// newCharge returns a charge of R$ 12.34 for an hour that nobody has asked for yet.
func newCharge() acquirer.NewCharge {
	return acquirer.NewCharge{TxID: fmt.Sprintf("1%034d", serial.Add(1)), Amount: 1234, ExpiresIn: time.Hour}
}

// create makes a charge that must work.
func (b *bench) create(t *testing.T, n acquirer.NewCharge) acquirer.Charge {
	t.Helper()
	c, err := b.acquirer.CreateCharge(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// get reads a charge that must be there.
func (b *bench) get(t *testing.T, txID string) acquirer.Charge {
	t.Helper()
	c, err := b.acquirer.GetCharge(t.Context(), txID)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// want fails unless err has that outcome and class, in words; "" means no error.
func want(t *testing.T, err error, words string) {
	t.Helper()
	got := ""
	if err != nil {
		e := acquirer.As(err)
		got = e.Outcome.String() + " " + e.Class.String()
		if e.Acquirer == "" || e.Operation == "" {
			t.Errorf("%v does not say who and what", err)
		}
	}
	if got != words {
		t.Errorf("got %q, want %q: %v", got, words, err)
	}
}

func create(t *testing.T, b *bench) {
	n := newCharge()
	before := b.Clock.Now()
	c := b.create(t, n)
	account := b.Account("alpha")
	if c.TxID != n.TxID || c.Status != acquirer.ChargeActive || c.Amount != n.Amount || c.Key != account.Key || c.Payments != nil {
		t.Errorf("got %+v", c)
	}
	// Acquirers count in milliseconds.
	if age := c.CreatedAt.Sub(before); age < -time.Millisecond || age > time.Minute || c.ExpiresAt.Sub(c.CreatedAt) != n.ExpiresIn {
		t.Errorf("asked for at %v, created at %v, expires at %v", before, c.CreatedAt, c.ExpiresAt)
	}
	code, err := pix.ParseBRCode(c.CopyPaste)
	if err != nil || !code.IsDynamic() || code.URL != c.Location {
		t.Errorf("the code is %+v, %v; its charge is at %s", code, err, c.Location)
	}
	if diff := cmp.Diff(c, b.get(t, n.TxID)); diff != "" {
		t.Error(diff)
	}
	if got := b.Charges("alpha", n.TxID); got != "ATIVA 12.34" {
		t.Errorf("the books show %q", got)
	}
	if b.acquirer.Name() != "alpha" {
		t.Errorf("it is called %s", b.acquirer.Name())
	}
}

func createInFull(t *testing.T, b *bench) {
	for _, document := range []string{"52998224725", "11222333000181", "12345678900", ""} {
		n := newCharge()
		n.Amount, n.ExpiresIn, n.PayerName, n.PayerDocument = money.BRLMax, 24*time.Hour, strings.Repeat("é", 200), document
		n.Description = strings.Repeat("ç", 140)
		if c := b.create(t, n); c.Amount != money.BRLMax {
			t.Errorf("got %+v", c)
		}
	}
	n := newCharge()
	n.Amount, n.ExpiresIn = 1, time.Minute
	if c := b.create(t, n); c.Amount != 1 || c.ExpiresAt.Sub(c.CreatedAt) != time.Minute {
		t.Errorf("got %+v", c)
	}
}

func pay(t *testing.T, b *bench) {
	n := newCharge()
	before := b.Clock.Now()
	e2e := b.Pay(b.create(t, n).CopyPaste, 0)
	c := b.get(t, n.TxID)
	if c.Status != acquirer.ChargePaid || len(c.Payments) != 1 {
		t.Fatalf("got %+v", c)
	}
	p := c.Payments[0]
	if p.EndToEndID != e2e || p.TxID != n.TxID || p.Amount != n.Amount || p.Key != b.Account("alpha").Key || p.Refunds != nil {
		t.Errorf("got %+v", p)
	}
	if age := p.PaidAt.Sub(before); age < -time.Millisecond || age > time.Minute {
		t.Errorf("paid after %v, says %v", before, p.PaidAt)
	}
	// Not every acquirer tells who paid.
	if p.PayerName != "" && p.PayerName != "Ana Lima" {
		t.Errorf("paid by %s", p.PayerName)
	}
	alone, err := b.acquirer.GetPayment(t.Context(), e2e)
	if diff := cmp.Diff(p, alone); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}

func createTwice(t *testing.T, b *bench) {
	n := newCharge()
	first := b.create(t, n)
	if diff := cmp.Diff(first, b.create(t, n)); diff != "" {
		t.Error(diff)
	}
	b.Pay(first.CopyPaste, 0)
	if c := b.create(t, n); c.Status != acquirer.ChargePaid || len(c.Payments) != 1 {
		t.Errorf("created again after it was paid: %+v", c)
	}
	if got := b.Charges("alpha", n.TxID); got != "CONCLUIDA 12.34" {
		t.Errorf("the books show %q", got)
	}
}

func createAnother(t *testing.T, b *bench) {
	n := newCharge()
	b.create(t, n)
	other := n
	other.Amount++
	_, err := b.acquirer.CreateCharge(t.Context(), other)
	want(t, err, "refused business")
	if !errors.Is(err, acquirer.ErrDuplicate) {
		t.Errorf("got %v", err)
	}
	if c := b.get(t, n.TxID); c.Amount != n.Amount || c.Status != acquirer.ChargeActive {
		t.Errorf("the first one is now %+v", c)
	}
	if err := b.acquirer.RemoveCharge(t.Context(), n.TxID); err != nil {
		t.Fatal(err)
	}
	_, err = b.acquirer.CreateCharge(t.Context(), n)
	want(t, err, "refused business")
	if !errors.Is(err, acquirer.ErrDuplicate) {
		t.Errorf("created again after it was removed: %v", err)
	}
}

func unknownIDs(t *testing.T, b *bench) {
	for _, txID := range []string{newCharge().TxID, "", "x", "../pix", strings.Repeat("1", 36)} {
		_, err := b.acquirer.GetCharge(t.Context(), txID)
		removed := b.acquirer.RemoveCharge(t.Context(), txID)
		for _, err := range []error{err, removed} {
			if want(t, err, "refused business"); !errors.Is(err, acquirer.ErrNotFound) {
				t.Errorf("%q: %v", txID, err)
			}
		}
	}
	for _, e2e := range []string{"E9000009920261115120000000000000", "E1", "", "../cob", strings.Repeat("E", 65)} {
		_, err := b.acquirer.GetPayment(t.Context(), e2e)
		if want(t, err, "refused business"); !errors.Is(err, acquirer.ErrNotFound) {
			t.Errorf("%q: %v", e2e, err)
		}
	}
}

func remove(t *testing.T, b *bench) {
	n := newCharge()
	c := b.create(t, n)
	for range 2 {
		if err := b.acquirer.RemoveCharge(t.Context(), n.TxID); err != nil {
			t.Fatal(err)
		}
	}
	if got := b.get(t, n.TxID).Status; got != acquirer.ChargeRemoved {
		t.Errorf("the charge is %v", got)
	}
	if b.CanPay(c.CopyPaste) {
		t.Error("a removed charge was paid")
	}
	paid := newCharge()
	b.Pay(b.create(t, paid).CopyPaste, 0)
	want(t, b.acquirer.RemoveCharge(t.Context(), paid.TxID), "refused business")
	if got := b.get(t, paid.TxID).Status; got != acquirer.ChargePaid {
		t.Errorf("the charge is %v", got)
	}
}

func removedByAcquirer(t *testing.T, b *bench) {
	n := newCharge()
	b.create(t, n)
	b.Remove(n.TxID)
	if got := b.get(t, n.TxID).Status; got != acquirer.ChargeRemovedByAcquirer {
		t.Errorf("the charge is %v", got)
	}
	if err := b.acquirer.RemoveCharge(t.Context(), n.TxID); err != nil {
		t.Errorf("removed once more: %v", err)
	}
}

func latePayment(t *testing.T, b *bench) {
	n := newCharge()
	c := b.create(t, n)
	b.Advance(n.ExpiresIn + time.Hour)
	if got := b.get(t, n.TxID); got.Status != acquirer.ChargeActive || !got.ExpiresAt.Before(b.Clock.Now()) {
		t.Errorf("after it expired the charge is %+v", got)
	}
	e2e := b.Pay(c.CopyPaste, 0)
	got := b.get(t, n.TxID)
	if got.Status != acquirer.ChargePaid || len(got.Payments) != 1 || got.Payments[0].EndToEndID != e2e || !got.Payments[0].PaidAt.After(got.ExpiresAt) {
		t.Errorf("got %+v", got)
	}
}

func secondPayment(t *testing.T, b *bench) {
	n := newCharge()
	c := b.create(t, n)
	wanted := []string{b.Pay(c.CopyPaste, 0), b.Pay(c.CopyPaste, n.Amount*3)}
	var found []string
	var total money.BRL
	for _, p := range b.get(t, n.TxID).Payments {
		found = append(found, p.EndToEndID)
		total += p.Amount
	}
	slices.Sort(found)
	slices.Sort(wanted)
	if !slices.Equal(found, wanted) || total != n.Amount*4 {
		t.Errorf("found %v of %v, want %v", found, total, wanted)
	}
}

func shortPayment(t *testing.T, b *bench) {
	n := newCharge()
	e2e := b.Pay(b.create(t, n).CopyPaste, n.Amount-1)
	p, err := b.acquirer.GetPayment(t.Context(), e2e)
	if err != nil || p.Amount != n.Amount-1 || p.TxID != n.TxID {
		t.Errorf("got %+v, %v", p, err)
	}
	if got := b.get(t, n.TxID); got.Status == acquirer.ChargePaid || len(got.Payments) != 1 {
		t.Errorf("got %+v", got)
	}
}

func refunds(t *testing.T, b *bench) {
	n := newCharge()
	e2e := b.Pay(b.create(t, n).CopyPaste, 0)
	for i, amount := range []money.BRL{1, 233, 1000} {
		b.Refund(e2e, amount)
		p, err := b.acquirer.GetPayment(t.Context(), e2e)
		if err != nil || len(p.Refunds) != i+1 {
			t.Fatalf("got %+v, %v", p, err)
		}
		ids := map[string]bool{}
		var amounts []money.BRL
		for _, r := range p.Refunds {
			ids[r.ID] = true
			amounts = append(amounts, r.Amount)
			if r.Status != acquirer.RefundDone || r.At.Before(p.PaidAt) || r.ReturnID == "" {
				t.Errorf("got %+v", r)
			}
		}
		if !slices.Contains(amounts, amount) || len(ids) != i+1 {
			t.Errorf("got %+v", p.Refunds)
		}
		if c := b.get(t, n.TxID); !cmp.Equal(c.Payments[0], p) || c.Amount != n.Amount {
			t.Errorf("the charge shows %+v", c)
		}
	}
}

func list(t *testing.T, b *bench) {
	const first, second = 205, 3 // more than two pages of any size that makes sense
	c := b.create(t, newCharge())
	paid := func(n int) map[string]bool {
		ids := map[string]bool{}
		for range n {
			ids[b.Pay(c.CopyPaste, 0)] = true
		}
		return ids
	}
	start := b.Clock.Now()
	early := paid(first)
	middle := b.Clock.Now()
	b.Advance(time.Hour)
	late := paid(second)
	returned := paid(2)
	for id := range returned {
		late[id] = true
		b.Refund(id, 100)
	}
	read := func(w acquirer.Window) map[string]bool {
		t.Helper()
		found := map[string]bool{}
		for pages := 1; ; pages++ {
			page, err := b.acquirer.ListPayments(t.Context(), w)
			if err != nil || page.Unreadable != 0 || pages > first {
				t.Fatalf("page %d: %+v, %v", pages, page, err)
			}
			for _, p := range page.Payments {
				if found[p.EndToEndID] || p.Amount != 1234 || p.TxID != c.TxID {
					t.Errorf("got %+v, or twice", p)
				}
				found[p.EndToEndID] = true
			}
			if page.Next == "" {
				return found
			}
			w.Cursor = page.Next
		}
	}
	all := map[string]bool{}
	for _, part := range []map[string]bool{early, late} {
		for id := range part {
			all[id] = true
		}
	}
	for _, tt := range []struct {
		name   string
		window acquirer.Window
		want   map[string]bool
	}{
		{"all", acquirer.Window{From: start, To: b.Clock.Now()}, all},
		{"the early", acquirer.Window{From: start, To: middle}, early},
		{"the late", acquirer.Window{From: middle.Add(30 * time.Minute), To: b.Clock.Now()}, late},
		{"given back", acquirer.Window{From: start, To: b.Clock.Now(), Returned: true}, returned},
		{"none", acquirer.Window{From: start.Add(-time.Hour), To: start.Add(-time.Minute)}, map[string]bool{}},
	} {
		if diff := cmp.Diff(tt.want, read(tt.window)); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}

func webhook(t *testing.T, b *bench) {
	var mu sync.Mutex
	var got []string
	listener := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		got = append(got, r.URL.RequestURI()+" "+string(body))
	}))
	defer listener.Close()
	for _, path := range []string{"/old", "/hooks/alpha"} {
		if err := b.acquirer.SetWebhook(t.Context(), listener.URL+path); err != nil {
			t.Fatal(err)
		}
	}
	e2e := b.Pay(b.create(t, newCharge()).CopyPaste, 0)
	b.Step()
	mu.Lock()
	defer mu.Unlock()
	if len(got) != 1 || !strings.HasPrefix(got[0], "/hooks/alpha") || !strings.Contains(got[0], e2e) {
		t.Errorf("got %v", got)
	}
	want(t, b.acquirer.SetWebhook(t.Context(), "nowhere"), "refused business")
}

func tokenExpires(t *testing.T, b *bench) {
	n := newCharge()
	b.create(t, n)
	for _, d := range []time.Duration{50 * time.Minute, 5 * time.Minute, 2 * time.Hour, 400 * 24 * time.Hour} {
		b.Advance(d)
		b.get(t, n.TxID)
		b.create(t, newCharge())
	}
}

// tokenIsRefused gives the driver a clock that knows nothing of the time that passes at the acquirer.
func tokenIsRefused(t *testing.T, b *bench) {
	b.acquirer = b.open(t, Setup{b.Account("alpha"), clock.New(nil)})
	n := newCharge()
	b.create(t, n)
	b.Advance(2 * time.Hour)
	b.create(t, newCharge())
	b.Advance(2 * time.Hour)
	b.get(t, n.TxID)
}

func creationFaults(t *testing.T, b *bench) {
	b.create(t, newCharge()) // so that there is a token and a connection
	for _, tt := range []struct{ kind, want, books, lost string }{
		{kind: "http_500", want: "unknown down"},
		{kind: "http_429", want: "refused rate_limited"},
		{kind: "reject", want: "refused business"},
		{kind: "lost_executed", books: "ATIVA 12.34", lost: "unknown down"},
		{kind: "lost_not_executed", want: "unknown down"},
		{kind: "slow", books: "ATIVA 12.34"}, // and not too slow
		{kind: "garbage", books: "ATIVA 12.34", lost: "unknown protocol"},
	} {
		n := newCharge()
		b.Fault(Fault{Operation: "charge.create", Kind: tt.kind, Times: 1})
		c, err := b.acquirer.CreateCharge(t.Context(), n)
		want(t, err, tt.want)
		if got := b.Charges("alpha", n.TxID); got != tt.books {
			t.Errorf("%s: the books show %q", tt.kind, got)
		}
		if err == nil {
			var lost error
			if c.Lost != nil {
				lost = c.Lost
			}
			want(t, lost, tt.lost)
			c.Lost = nil
			if !cmp.Equal(c, b.get(t, n.TxID)) {
				t.Errorf("%s: got %+v", tt.kind, c)
			}
		}
		// And after the fault it works, also when it was there already.
		if again := b.create(t, n); again.Lost != nil {
			t.Errorf("%s: what was answered is lost: %v", tt.kind, again.Lost)
		}
	}
}

func readingFaults(t *testing.T, b *bench) {
	n := newCharge()
	e2e := b.Pay(b.create(t, n).CopyPaste, 0)
	for _, tt := range []struct{ kind, want string }{
		{"http_500", "unknown down"},
		{"http_429", "refused rate_limited"},
		{"reject", "refused credentials"},
		{"lost_executed", "unknown down"},
		{"lost_not_executed", "unknown down"},
		{"slow", ""},
		{"garbage", "unknown protocol"},
	} {
		b.Fault(Fault{Operation: "charge.get", Kind: tt.kind})
		_, charge := b.acquirer.GetCharge(t.Context(), n.TxID)
		_, payment := b.acquirer.GetPayment(t.Context(), e2e)
		_, page := b.acquirer.ListPayments(t.Context(), acquirer.Window{From: b.Clock.Now().Add(-time.Hour), To: b.Clock.Now()})
		for _, err := range []error{charge, payment, page} {
			want(t, err, tt.want)
			if errors.Is(err, acquirer.ErrNotFound) {
				t.Errorf("%s: %v", tt.kind, err)
			}
		}
		b.ClearFaults()
	}
	b.get(t, n.TxID)
}

func tokenFaults(t *testing.T, b *bench) {
	for _, tt := range []struct{ kind, want string }{
		{"http_500", "refused down"},
		{"http_429", "refused rate_limited"},
		{"reject", "refused credentials"},
		{"lost_executed", "refused down"},
		{"lost_not_executed", "refused down"},
		{"slow", ""},
		{"garbage", "refused protocol"},
	} {
		b.Advance(2 * time.Hour) // so that a token is needed
		n := newCharge()
		b.Fault(Fault{Operation: "token", Kind: tt.kind})
		_, err := b.acquirer.CreateCharge(t.Context(), n)
		want(t, err, tt.want)
		b.ClearFaults()
		if err != nil && b.Charges("alpha", n.TxID) != "" {
			t.Errorf("%s: there is a charge", tt.kind)
		}
		b.create(t, n)
	}
}

func lostAndFound(t *testing.T, b *bench) {
	for _, kind := range []string{"lost_executed", "garbage"} {
		n := newCharge()
		b.Fault(Fault{Operation: "charge.create", Kind: kind, Times: 1})
		b.Fault(Fault{Operation: "charge.get", Kind: "http_500"})
		_, err := b.acquirer.CreateCharge(t.Context(), n)
		if err == nil || acquirer.IsRefused(err) {
			t.Errorf("%s: got %v", kind, err)
		}
		b.ClearFaults()
		found := b.get(t, n.TxID)
		if again := b.create(t, n); !cmp.Equal(found, again) {
			t.Errorf("%s: found %+v, and then %+v", kind, found, again)
		}
		if got := b.Charges("alpha", n.TxID); got != "ATIVA 12.34" {
			t.Errorf("%s: the books show %q", kind, got)
		}
	}
}

// nobodyListens shuts the acquirer with and without connections that lie idle. That is always proof.
func nobodyListens(t *testing.T, b *bench) {
	n := newCharge()
	b.create(t, n)
	for range 5 {
		b.Fault(Fault{Kind: "refuse"})
		for range 2 {
			lost := newCharge()
			_, err := b.acquirer.CreateCharge(t.Context(), lost)
			want(t, err, "refused down")
			_, err = b.acquirer.GetCharge(t.Context(), n.TxID)
			want(t, err, "refused down")
			want(t, b.acquirer.RemoveCharge(t.Context(), n.TxID), "refused down")
		}
		b.ClearFaults()
		b.get(t, n.TxID)
	}
}

func slow(t *testing.T, b *bench) {
	b.create(t, newCharge())
	n := newCharge()
	b.Fault(Fault{Operation: "charge.create", Kind: "slow", Delay: time.Minute})
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, err := b.acquirer.CreateCharge(ctx, n)
	want(t, err, "unknown timeout")
	b.ClearFaults()
	if c := b.get(t, n.TxID); c.Status != acquirer.ChargeActive {
		t.Errorf("got %+v", c)
	}
}

func manyAtOnce(t *testing.T, b *bench) {
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			n := newCharge()
			c, err := b.acquirer.CreateCharge(t.Context(), n)
			if err != nil || c.TxID != n.TxID {
				t.Errorf("got %+v, %v", c, err)
			}
			if c, err := b.acquirer.GetCharge(t.Context(), n.TxID); err != nil || c.TxID != n.TxID {
				t.Errorf("got %+v, %v", c, err)
			}
		})
	}
	wg.Wait()
}

func gone(t *testing.T, b *bench) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	n := newCharge()
	_, err := b.acquirer.CreateCharge(ctx, n)
	want(t, err, "refused timeout")
	if !errors.Is(err, context.Canceled) || b.Charges("alpha", n.TxID) != "" {
		t.Errorf("got %v", err)
	}
}
