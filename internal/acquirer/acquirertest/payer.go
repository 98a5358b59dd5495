package acquirertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/clock/clocktest"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/simulator"
)

// RunPayer runs the suite of drivers that pay out, beside [Run].
func RunPayer(t *testing.T, open func(t *testing.T, s Setup) acquirer.Payer) {
	t.Helper()
	for name, test := range map[string]func(t *testing.T, b *payerBench){
		"send":                     send,
		"send in full":             sendInFull,
		"send twice":               sendTwice,
		"settle":                   settle,
		"fail":                     failPayout,
		"returns":                  returns,
		"refused":                  refusedPayouts,
		"no funds":                 noFunds,
		"unknown ids":              unknownPayouts,
		"list":                     listPayouts,
		"balance":                  balance,
		"faults of sending":        sendingFaults,
		"faults of reading":        readingPayoutFaults,
		"faults of tokens":         payoutTokenFaults,
		"lost, and sent again":     lostAndSentAgain,
		"late, and sent again":     lateAndSentAgain,
		"nobody listens":           nobodyListensToPayouts,
		"connections that died":    deadConnections,
		"callbacks":                payoutCallbacks,
		"callback before answer":   earlyCallback,
		"token is refused":         payoutTokenIsRefused,
		"many at once":             manyPayoutsAtOnce,
		"caller who has gone away": gonePayout,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newPayerBench(t, open, simulator.Manual))
		})
	}
}

// payerBench is a driver that pays out and the world that it works in.
type payerBench struct {
	*World
	open  func(t *testing.T, s Setup) acquirer.Payer
	payer acquirer.Payer
}

func newPayerBench(t *testing.T, open func(t *testing.T, s Setup) acquirer.Payer, settleAfter time.Duration) *payerBench {
	t.Helper()
	w := openWorld(t, settleAfter)
	return &payerBench{World: w, open: open, payer: open(t, Setup{w.Account("alpha"), w.Clock})}
}

const recipientKey = "52998224725"

// newPayout returns a payout of R$ 12.34 that nobody has asked for yet.
func newPayout() acquirer.NewPayout {
	return acquirer.NewPayout{ID: fmt.Sprintf("1%034d", serial.Add(1)), Amount: 1234, Key: recipientKey}
}

// send makes a payout that must be taken.
func (b *payerBench) send(t *testing.T, n acquirer.NewPayout) acquirer.Payout {
	t.Helper()
	p, err := b.payer.SendPayout(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// get reads a payout that must be there.
func (b *payerBench) get(t *testing.T, id string) acquirer.Payout {
	t.Helper()
	p, err := b.payer.GetPayout(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// books fails unless alpha's books show that of a payout.
func (b *payerBench) books(t *testing.T, id, want string) {
	t.Helper()
	if got := b.Payouts("alpha", id); got != want {
		t.Errorf("the books show %q, want %q", got, want)
	}
}

func send(t *testing.T, b *payerBench) {
	n := newPayout()
	p := b.send(t, n)
	if p.ID != n.ID || p.Status != acquirer.PayoutProcessing || p.Amount != n.Amount || p.Key != n.Key || p.EndToEndID == "" || !p.SettledAt.IsZero() {
		t.Errorf("got %+v", p)
	}
	got := b.get(t, n.ID)
	p.RecipientName = got.RecipientName // which is told only later
	if diff := cmp.Diff(p, got); diff != "" {
		t.Error(diff)
	}
	byEndToEnd, err := b.payer.GetPayoutByEndToEnd(t.Context(), p.EndToEndID)
	if diff := cmp.Diff(got, byEndToEnd); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	b.books(t, n.ID, "EM_PROCESSAMENTO 12.34 0")
}

func sendInFull(t *testing.T, b *payerBench) {
	for _, n := range []acquirer.NewPayout{
		{Key: "52998224725", RecipientDocument: "52998224725", Description: strings.Repeat("ç", 140)},
		{Key: "11222333000181", RecipientDocument: "11222333000181"},
		{Key: "12ABC34501DE35"},
		{Key: "ana.lima@banco.example", RecipientDocument: "52998224725"},
		{Key: "+5511987654321", Description: strings.Repeat("x", 200)}, // cut to what fits
		{Key: "123e4567-e89b-12d3-a456-426655440000"},
	} {
		n.ID, n.Amount = newPayout().ID, 1
		if p := b.send(t, n); p.Amount != 1 || p.Key != n.Key {
			t.Errorf("got %+v", p)
		}
		if p := b.get(t, n.ID); p.Key != n.Key {
			t.Errorf("got %+v", p)
		}
	}
}

func sendTwice(t *testing.T, b *payerBench) {
	n := newPayout()
	b.send(t, n)
	again := func(n acquirer.NewPayout) {
		t.Helper()
		_, err := b.payer.SendPayout(t.Context(), n)
		if want(t, err, "unknown business"); !errors.Is(err, acquirer.ErrDuplicate) {
			t.Errorf("got %v", err)
		}
	}
	again(n)
	other := n
	other.Amount, other.Key = 1, "ana@banco.example"
	again(other)
	b.Settle(n.ID)
	again(n)
	b.books(t, n.ID, "REALIZADO 12.34 1")
	failed := newPayout()
	b.send(t, failed)
	b.Fail(failed.ID, "AC07")
	again(failed)
	b.books(t, failed.ID, "NAO_REALIZADO 12.34 0")
}

func settle(t *testing.T, b *payerBench) {
	n := newPayout()
	b.send(t, n)
	before := b.Clock.Now()
	b.Settle(n.ID)
	p := b.get(t, n.ID)
	if age := p.SettledAt.Sub(before); p.Status != acquirer.PayoutSettled || age < -time.Millisecond || age > time.Minute || p.Returns != nil || p.Code != "" {
		t.Errorf("got %+v", p)
	}
	b.books(t, n.ID, "REALIZADO 12.34 1")
}

func failPayout(t *testing.T, b *payerBench) {
	n := newPayout()
	b.send(t, n)
	b.Fail(n.ID, "AC03")
	p := b.get(t, n.ID)
	if p.Status != acquirer.PayoutFailed || p.Code != "AC03" || p.Reason == "" || !p.SettledAt.IsZero() {
		t.Errorf("got %+v", p)
	}
	b.books(t, n.ID, "NAO_REALIZADO 12.34 0")
	if got := b.Balance("alpha"); got != "10000000.00" {
		t.Errorf("the balance is %s", got)
	}
}

func returns(t *testing.T, b *payerBench) {
	n := newPayout()
	b.send(t, n)
	b.Settle(n.ID)
	settled := b.get(t, n.ID).SettledAt
	for i, amount := range []money.BRL{1, 233, 1000} {
		b.Return(n.ID, amount)
		p := b.get(t, n.ID)
		if p.Status != acquirer.PayoutSettled || len(p.Returns) != i+1 {
			t.Fatalf("got %+v", p)
		}
		ids := map[string]bool{}
		var amounts []money.BRL
		for _, r := range p.Returns {
			ids[r.ID] = true
			amounts = append(amounts, r.Amount)
			if r.Status != acquirer.RefundDone || r.At.Before(settled) || r.ReturnID == "" {
				t.Errorf("got %+v", r)
			}
		}
		if !slices.Contains(amounts, amount) || len(ids) != i+1 {
			t.Errorf("got %+v", p.Returns)
		}
	}
	b.books(t, n.ID, "REALIZADO 12.34 1")
}

func refusedPayouts(t *testing.T, b *payerBench) {
	for name, change := range map[string]func(n *acquirer.NewPayout){
		"no id":               func(n *acquirer.NewPayout) { n.ID = "" },
		"an id with a slash":  func(n *acquirer.NewPayout) { n.ID = "a/b" },
		"a long id":           func(n *acquirer.NewPayout) { n.ID = strings.Repeat("1", 36) },
		"no money":            func(n *acquirer.NewPayout) { n.Amount = 0 },
		"less than no money":  func(n *acquirer.NewPayout) { n.Amount = -1 },
		"too much":            func(n *acquirer.NewPayout) { n.Amount = money.BRLMax + 1 },
		"no key":              func(n *acquirer.NewPayout) { n.Key = "" },
		"no such key":         func(n *acquirer.NewPayout) { n.Key = "11111111111" },
		"a key as people say": func(n *acquirer.NewPayout) { n.Key = "529.982.247-25" },
		"somebody else's key": func(n *acquirer.NewPayout) { n.RecipientDocument = "11222333000181" },
		"no document":         func(n *acquirer.NewPayout) { n.RecipientDocument = "1" },
	} {
		n := newPayout()
		change(&n)
		_, err := b.payer.SendPayout(t.Context(), n)
		if want(t, err, "refused business"); errors.Is(err, acquirer.ErrNotFound) || errors.Is(err, acquirer.ErrNoFunds) {
			t.Errorf("%s: %v", name, err)
		}
		b.books(t, n.ID, "")
	}
}

func noFunds(t *testing.T, b *payerBench) {
	all := newPayout()
	all.Amount = 10_000_000_00
	b.send(t, all)
	n := newPayout()
	_, err := b.payer.SendPayout(t.Context(), n)
	if want(t, err, "refused business"); !errors.Is(err, acquirer.ErrNoFunds) {
		t.Errorf("got %v", err)
	}
	b.books(t, n.ID, "")
	b.Fail(all.ID, "AC06")
	b.send(t, n) // the id was not used
}

func unknownPayouts(t *testing.T, b *payerBench) {
	for _, id := range []string{newPayout().ID, "", "x", "../x", strings.Repeat("1", 36)} {
		_, err := b.payer.GetPayout(t.Context(), id)
		if want(t, err, "refused business"); !errors.Is(err, acquirer.ErrNotFound) {
			t.Errorf("%q: %v", id, err)
		}
	}
	for _, e2e := range []string{"E9000009920261115120000000000000", "E1", "", "../cob", strings.Repeat("E", 65)} {
		_, err := b.payer.GetPayoutByEndToEnd(t.Context(), e2e)
		if want(t, err, "refused business"); !errors.Is(err, acquirer.ErrNotFound) {
			t.Errorf("%q: %v", e2e, err)
		}
	}
}

func listPayouts(t *testing.T, b *payerBench) {
	const first, second = 205, 3 // more than two pages of any size that makes sense
	sent := func(n int) map[string]bool {
		ids := map[string]bool{}
		for range n {
			ids[b.send(t, newPayout()).ID] = true
		}
		return ids
	}
	start := b.Clock.Now()
	early := sent(first)
	middle := b.Clock.Now()
	b.Advance(time.Hour)
	late := sent(second)
	for _, tt := range []struct {
		name     string
		from, to time.Time
		want     map[string]bool
	}{
		{"the early", start, middle, early},
		{"the late", middle.Add(30 * time.Minute), b.Clock.Now(), late},
		{"none", start.Add(-time.Hour), start.Add(-time.Minute), map[string]bool{}},
	} {
		found, w := map[string]bool{}, acquirer.Window{From: tt.from, To: tt.to}
		for pages := 1; ; pages++ {
			page, err := b.payer.ListPayouts(t.Context(), w)
			if err != nil || page.Unreadable != 0 || pages > first {
				t.Fatalf("page %d: %+v, %v", pages, page, err)
			}
			for _, p := range page.Payouts {
				if found[p.ID] || p.Amount != 1234 || p.EndToEndID == "" || p.Status != acquirer.PayoutProcessing {
					t.Errorf("got %+v, or twice", p)
				}
				found[p.ID] = true
			}
			if w.Cursor = page.Next; w.Cursor == "" {
				break
			}
		}
		if diff := cmp.Diff(tt.want, found); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
	_, err := b.payer.ListPayouts(t.Context(), acquirer.Window{Cursor: "x"})
	want(t, err, "refused business")
}

func balance(t *testing.T, b *payerBench) {
	for _, step := range []struct {
		do   func(id string)
		want money.BRL
	}{
		{func(string) {}, 10_000_000_00 - 1234},
		{b.Settle, 10_000_000_00 - 1234},
		{func(id string) { b.Return(id, 34) }, 10_000_000_00 - 1200},
	} {
		n := acquirer.NewPayout{ID: "balance", Amount: 1234, Key: recipientKey}
		if _, err := b.payer.SendPayout(t.Context(), n); err != nil && !errors.Is(err, acquirer.ErrDuplicate) {
			t.Fatal(err)
		}
		step.do(n.ID)
		if got, err := b.payer.Balance(t.Context()); got != step.want || err != nil {
			t.Errorf("got %v, %v, want %v", got, err, step.want)
		}
	}
}

// sendingFaults is the heart of it: what is called refused has not happened.
func sendingFaults(t *testing.T, b *payerBench) {
	b.send(t, newPayout()) // so that there is a token and a connection
	for _, tt := range []struct{ kind, want, books string }{
		{"http_500", "unknown down", ""},
		{"http_429", "refused rate_limited", ""},
		{"reject", "refused business", ""},
		{"lost_executed", "unknown down", "EM_PROCESSAMENTO 12.34 0"},
		{"lost_not_executed", "unknown down", ""},
		{"slow", "", "EM_PROCESSAMENTO 12.34 0"},
		{"garbage", "unknown protocol", "EM_PROCESSAMENTO 12.34 0"},
	} {
		n := newPayout()
		b.Fault(Fault{Operation: "payout.send", Kind: tt.kind, Times: 1})
		p, err := b.payer.SendPayout(t.Context(), n)
		want(t, err, tt.want)
		if tt.kind == "reject" && acquirer.As(err).Code != "chave_invalida" {
			t.Errorf("got %v", err)
		}
		b.books(t, n.ID, tt.books)
		found, err := b.payer.GetPayout(t.Context(), n.ID)
		if (err == nil) != (tt.books != "") || err != nil && !errors.Is(err, acquirer.ErrNotFound) {
			t.Errorf("%s: found %+v, %v", tt.kind, found, err)
		}
		if tt.want == "" && p.EndToEndID != found.EndToEndID {
			t.Errorf("%s: got %+v, then %+v", tt.kind, p, found)
		}
		// And after the fault it can be sent, if it was not.
		_, err = b.payer.SendPayout(t.Context(), n)
		if tt.books == "" {
			want(t, err, "")
		} else if want(t, err, "unknown business"); !errors.Is(err, acquirer.ErrDuplicate) {
			t.Errorf("%s: %v", tt.kind, err)
		}
		b.Settle(n.ID)
		b.books(t, n.ID, "REALIZADO 12.34 1")
	}
	if got := b.Balance("alpha"); got != "9999901.28" { // eight times 12.34
		t.Errorf("the balance is %s", got)
	}
}

func readingPayoutFaults(t *testing.T, b *payerBench) {
	n := newPayout()
	e2e := b.send(t, n).EndToEndID
	for _, tt := range []struct{ kind, want string }{
		{"http_500", "unknown down"},
		{"http_429", "refused rate_limited"},
		{"reject", "refused credentials"},
		{"lost_executed", "unknown down"},
		{"lost_not_executed", "unknown down"},
		{"slow", ""},
		{"garbage", "unknown protocol"},
	} {
		b.Fault(Fault{Operation: "payout.get", Kind: tt.kind})
		_, byID := b.payer.GetPayout(t.Context(), n.ID)
		_, byEndToEnd := b.payer.GetPayoutByEndToEnd(t.Context(), e2e)
		_, page := b.payer.ListPayouts(t.Context(), acquirer.Window{From: b.Clock.Now().Add(-time.Hour), To: b.Clock.Now()})
		for _, err := range []error{byID, byEndToEnd, page} {
			want(t, err, tt.want)
			if errors.Is(err, acquirer.ErrNotFound) {
				t.Errorf("%s: %v", tt.kind, err)
			}
		}
		b.ClearFaults()
	}
	b.get(t, n.ID)
}

func payoutTokenFaults(t *testing.T, b *payerBench) {
	for _, tt := range []struct{ kind, want string }{
		{"http_500", "refused down"},
		{"http_429", "refused rate_limited"},
		{"reject", "refused credentials"},
		{"lost_executed", "refused down"},
		{"slow", ""},
		{"garbage", "refused protocol"},
	} {
		b.Advance(2 * time.Hour) // so that a token is needed
		n := newPayout()
		b.Fault(Fault{Operation: "token", Kind: tt.kind})
		_, err := b.payer.SendPayout(t.Context(), n)
		want(t, err, tt.want)
		b.ClearFaults()
		if err != nil {
			b.books(t, n.ID, "")
			b.send(t, n)
		}
	}
}

// lostAndSentAgain is what the sweeper does after an unknown send: it asks, and sends the same id again.
func lostAndSentAgain(t *testing.T, b *payerBench) {
	for _, kind := range []string{"lost_executed", "lost_not_executed", "garbage", "http_500"} {
		n := newPayout()
		b.Fault(Fault{Operation: "payout.send", Kind: kind, Times: 3})
		for i := range 3 {
			_, err := b.payer.SendPayout(t.Context(), n)
			if err == nil || acquirer.IsRefused(err) {
				t.Errorf("%s, send %d: %v", kind, i, err)
			}
		}
		// A refusal of what may have been sent before is told as what it is.
		b.Fault(Fault{Operation: "payout.send", Kind: "reject", Times: 1})
		executed := b.Payouts("alpha", n.ID) != ""
		if _, err := b.payer.SendPayout(t.Context(), n); acquirer.IsRefused(err) == executed {
			t.Errorf("%s: %v although the books show %q", kind, err, b.Payouts("alpha", n.ID))
		}
		if _, err := b.payer.SendPayout(t.Context(), n); (err == nil) == executed {
			t.Errorf("%s: %v", kind, err)
		}
		b.Settle(n.ID)
		b.books(t, n.ID, "REALIZADO 12.34 1")
	}
}

// lateAndSentAgain sends again while the first request is still on its way.
func lateAndSentAgain(t *testing.T, b *payerBench) {
	b.send(t, newPayout())
	n := newPayout()
	b.Fault(Fault{Operation: "payout.send", Kind: "slow", Delay: time.Minute, Times: 1})
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, err := b.payer.SendPayout(ctx, n)
	want(t, err, "unknown timeout")
	_, err = b.payer.SendPayout(t.Context(), n)
	if want(t, err, "unknown business"); !errors.Is(err, acquirer.ErrDuplicate) {
		t.Errorf("got %v", err)
	}
	b.Settle(n.ID)
	b.books(t, n.ID, "REALIZADO 12.34 1")
}

// nobodyListensToPayouts shuts the acquirer with and without connections that lie idle. That is always proof.
func nobodyListensToPayouts(t *testing.T, b *payerBench) {
	n := newPayout()
	b.send(t, n)
	for range 5 {
		b.Fault(Fault{Kind: "refuse"})
		for range 2 {
			lost := newPayout()
			_, err := b.payer.SendPayout(t.Context(), lost)
			want(t, err, "refused down")
			b.books(t, lost.ID, "")
			_, err = b.payer.GetPayout(t.Context(), n.ID)
			want(t, err, "refused down")
		}
		b.ClearFaults()
		b.get(t, n.ID)
	}
}

// deadConnections leaves many idle connections that the acquirer then closes. The next send must meet none of them, or
// must not call it proof.
func deadConnections(t *testing.T, b *payerBench) {
	for range 3 {
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				if _, err := b.payer.SendPayout(t.Context(), newPayout()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		b.Fault(Fault{Kind: "refuse"})
		b.ClearFaults() // listens again, with every old connection closed
		n := newPayout()
		_, err := b.payer.SendPayout(t.Context(), n)
		if executed := b.Payouts("alpha", n.ID) != ""; (err == nil) != executed || err != nil && acquirer.IsRefused(err) == executed {
			t.Errorf("got %v although the books show %q", err, b.Payouts("alpha", n.ID))
		}
	}
}

// sentPix is what a notification says about a payout.
type sentPix struct {
	EndToEndID string  `json:"endToEndId"`
	Kind       string  `json:"tipo"`
	Status     string  `json:"status"`
	At         *string `json:"horario"`
	Extras     struct {
		ID      string `json:"idEnvio"`
		Failure *struct {
			Code string `json:"codigo"`
		} `json:"erro"`
	} `json:"gnExtras"`
	Returns []struct {
		Value string `json:"valor"`
	} `json:"devolucoes"`
}

// listen returns a webhook of the driver's acquirer, and what it was told so far.
func (b *payerBench) listen(t *testing.T, meanwhile func(sentPix)) func() []sentPix {
	t.Helper()
	var mu sync.Mutex
	var got []sentPix
	listener := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var told struct {
			Pix []sentPix `json:"pix"`
		}
		if err := json.Unmarshal(body, &told); err != nil {
			t.Errorf("told %s", body)
		}
		for _, p := range told.Pix {
			meanwhile(p)
		}
		mu.Lock()
		defer mu.Unlock()
		got = append(got, told.Pix...)
	}))
	t.Cleanup(listener.Close)
	if err := b.payer.SetWebhook(t.Context(), listener.URL); err != nil {
		t.Fatal(err)
	}
	return func() []sentPix {
		b.Step()
		mu.Lock()
		defer mu.Unlock()
		all := got
		got = nil
		return all
	}
}

func payoutCallbacks(t *testing.T, b *payerBench) {
	told := b.listen(t, func(sentPix) {})
	one := func(id, status string) sentPix {
		t.Helper()
		got := told()
		if len(got) != 1 || got[0].Kind != "SOLICITACAO" || got[0].Status != status || got[0].Extras.ID != id {
			t.Fatalf("told %+v", got)
		}
		return got[0]
	}
	settled, failed := newPayout(), newPayout()
	e2e := b.send(t, settled).EndToEndID
	b.send(t, failed)
	if got := told(); got != nil {
		t.Errorf("told %+v", got)
	}
	b.Settle(settled.ID)
	if p := one(settled.ID, "REALIZADO"); p.EndToEndID != e2e || p.Extras.Failure != nil || p.Returns != nil {
		t.Errorf("told %+v", p)
	}
	b.Fail(failed.ID, "AC03")
	if p := one(failed.ID, "NAO_REALIZADO"); p.Extras.Failure == nil || p.Extras.Failure.Code != "AC03" || p.At != nil {
		t.Errorf("told %+v", p)
	}
	b.Return(settled.ID, 34)
	if p := one(settled.ID, "REALIZADO"); len(p.Returns) != 1 || p.Returns[0].Value != "0.34" {
		t.Errorf("told %+v", p)
	}
	b.Fault(Fault{Operation: "payout.send", Kind: "duplicate_callback", Times: 1})
	b.Return(settled.ID, 100)
	if got := told(); len(got) != 2 || len(got[1].Returns) != 2 || !cmp.Equal(got[0], got[1]) {
		t.Errorf("told %+v", got)
	}
}

// earlyCallback hears of a payout before its own send has an answer.
func earlyCallback(t *testing.T, b *payerBench) {
	b = newPayerBench(t, b.open, simulator.AtOnce)
	n := newPayout()
	early := make(chan acquirer.PayoutStatus, 1)
	told := b.listen(t, func(p sentPix) {
		found, err := b.payer.GetPayout(context.WithoutCancel(t.Context()), p.Extras.ID)
		if err != nil {
			t.Error(err)
		}
		early <- found.Status
	})
	b.Fault(Fault{Operation: "payout.send", Kind: "slow", Delay: time.Minute, Times: 1})
	ctx, cancel := context.WithCancel(t.Context())
	answered := make(chan error)
	go func() {
		_, err := b.payer.SendPayout(ctx, n)
		answered <- err
	}()
	clocktest.Wait(t, "the callback", func() bool { return told() != nil })
	if got := <-early; got != acquirer.PayoutSettled {
		t.Errorf("the payout is %v", got)
	}
	cancel()
	want(t, <-answered, "unknown timeout")
	b.books(t, n.ID, "REALIZADO 12.34 1")
}

// payoutTokenIsRefused gives the driver a clock that knows nothing of the time that passes at the acquirer.
func payoutTokenIsRefused(t *testing.T, b *payerBench) {
	b.payer = b.open(t, Setup{b.Account("alpha"), clock.New(nil)})
	for range 2 {
		b.send(t, newPayout())
		b.Advance(2 * time.Hour)
	}
}

func manyPayoutsAtOnce(t *testing.T, b *payerBench) {
	var wg sync.WaitGroup
	ids := make([]string, 8)
	for i := range 32 {
		if i < len(ids) {
			ids[i] = newPayout().ID
		}
		n := newPayout()
		n.ID = ids[i%len(ids)]
		wg.Go(func() {
			if _, err := b.payer.SendPayout(t.Context(), n); err != nil && !errors.Is(err, acquirer.ErrDuplicate) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, id := range ids {
		b.books(t, id, "EM_PROCESSAMENTO 12.34 0")
	}
}

func gonePayout(t *testing.T, b *payerBench) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	n := newPayout()
	_, err := b.payer.SendPayout(ctx, n)
	if want(t, err, "refused timeout"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	b.books(t, n.ID, "")
}
