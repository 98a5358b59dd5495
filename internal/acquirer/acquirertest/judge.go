package acquirertest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/money"
)

// RunJudge runs the suite of drivers that tell of infractions, beside [Run], at both acquirers: they differ in what is a
// number.
func RunJudge(t *testing.T, open func(t *testing.T, s Setup) acquirer.Judge) {
	t.Helper()
	for name, test := range map[string]func(t *testing.T, b *judgeBench){
		"open":               openInfraction,
		"decide":             decide,
		"defend":             defend,
		"last second":        lastSecond,
		"accepted":           accepted,
		"several":            several,
		"list":               listInfractions,
		"unknown ids":        unknownInfractions,
		"faults of listing":  listingFaults,
		"faults of defenses": defendingFaults,
		"nobody listens":     nobodyListensToDefenses,
	} {
		for _, at := range []string{"alpha", "beta"} {
			t.Run(name+" at "+at, func(t *testing.T) {
				t.Parallel()
				w := NewWorld(t)
				test(t, &judgeBench{World: w, name: at, judge: open(t, Setup{w.Account(at), w.Clock})})
			})
		}
	}
}

// judgeBench is a driver that tells of infractions and the world that it works in.
type judgeBench struct {
	*World
	name  string
	judge acquirer.Judge
}

// pay makes a charge of R$ 12.34, pays it and returns the end-to-end id.
func (b *judgeBench) pay(t *testing.T) string {
	t.Helper()
	c, err := b.judge.CreateCharge(t.Context(), newCharge())
	if err != nil {
		t.Fatal(err)
	}
	return b.Pay(c.CopyPaste, 0)
}

// all lists every infraction.
func (b *judgeBench) all(t *testing.T) (all []acquirer.Infraction) {
	t.Helper()
	w := acquirer.Window{From: b.Clock.Now().Add(-365 * 24 * time.Hour), To: b.Clock.Now()}
	for {
		page, err := b.judge.ListInfractions(t.Context(), w)
		if err != nil || page.Unreadable != 0 {
			t.Fatalf("got %+v, %v", page, err)
		}
		all = append(all, page.Infractions...)
		if w.Cursor = page.Next; w.Cursor == "" {
			return all
		}
	}
}

// find returns one infraction as it is listed.
func (b *judgeBench) find(t *testing.T, id string) acquirer.Infraction {
	t.Helper()
	for _, f := range b.all(t) {
		if f.ID == id {
			return f
		}
	}
	t.Fatalf("infraction %s is not listed", id)
	return acquirer.Infraction{}
}

func openInfraction(t *testing.T, b *judgeBench) {
	if got := b.all(t); got != nil {
		t.Errorf("got %+v", got)
	}
	e2e, before := b.pay(t), b.Clock.Now()
	whole, part := b.Claim(e2e, 0, "Não comprei nada"), b.Claim(e2e, 234, "")
	f := b.find(t, whole)
	if f.EndToEndID != e2e || f.Amount != 1234 || f.Status != acquirer.InfractionOpen || f.Reason != "Não comprei nada" || f.Code == "" || !f.ResolvedAt.IsZero() {
		t.Errorf("got %+v", f)
	}
	if age := f.OpenedAt.Sub(before); age < -time.Millisecond || age > time.Minute || f.DeadlineAt.Sub(f.OpenedAt) != 7*24*time.Hour {
		t.Errorf("claimed at %v, got %+v", before, f)
	}
	if f := b.find(t, part); f.Amount != 234 || f.Reason == "" {
		t.Errorf("got %+v", f)
	}
	// What is claimed has not moved.
	if got := b.Balance(b.name); got != "10000012.34" {
		t.Errorf("the balance is %s", got)
	}
}

func decide(t *testing.T, b *judgeBench) {
	for how, status := range map[string]acquirer.InfractionStatus{
		"accept": acquirer.InfractionAccepted, "reject": acquirer.InfractionRejected, "cancel": acquirer.InfractionCancelled,
	} {
		for _, defended := range []bool{false, true} {
			id := b.Claim(b.pay(t), 0, "")
			if defended {
				b.defend(t, id, "")
			}
			b.Advance(time.Hour)
			b.Decide(id, how)
			f := b.find(t, id)
			if since := f.ResolvedAt.Sub(f.OpenedAt); f.Status != status || since < time.Hour || since > 2*time.Hour {
				t.Errorf("%s: got %+v", how, f)
			}
			// Accepted, rejected or cancelled: it is too late, or was done before.
			err := b.judge.SubmitDefense(t.Context(), acquirer.Defense{InfractionID: id, Text: "Entregue"})
			if want(t, err, "refused business"); !errors.Is(err, acquirer.ErrTooLate) && !errors.Is(err, acquirer.ErrDuplicate) {
				t.Errorf("got %v", err)
			}
		}
	}
}

// defend hands in a defense, and fails unless that ends with those words; "" means no error.
func (b *judgeBench) defend(t *testing.T, id, words string) error {
	t.Helper()
	err := b.judge.SubmitDefense(t.Context(), acquirer.Defense{InfractionID: id, Text: "Entregue em 3/11", EvidenceURL: "https://loja.example/prova"})
	want(t, err, words)
	return err
}

func defend(t *testing.T, b *judgeBench) {
	id := b.Claim(b.pay(t), 0, "")
	b.defend(t, id, "")
	if f := b.find(t, id); f.Status != acquirer.InfractionUnderReview || !f.ResolvedAt.IsZero() {
		t.Errorf("got %+v", f)
	}
	if err := b.defend(t, id, "refused business"); !errors.Is(err, acquirer.ErrDuplicate) {
		t.Errorf("defended again: %v", err)
	}
}

func lastSecond(t *testing.T, b *judgeBench) {
	e2e := b.pay(t)
	early := b.Claim(e2e, 0, "")
	b.Advance(time.Minute)
	late := b.Claim(e2e, 0, "")
	b.Advance(7*24*time.Hour - 30*time.Second) // late has half a minute left, early is late by half a minute
	b.defend(t, late, "")
	if err := b.defend(t, early, "refused business"); !errors.Is(err, acquirer.ErrTooLate) {
		t.Errorf("got %v", err)
	}
	if f := b.find(t, early); f.Status != acquirer.InfractionOpen {
		t.Errorf("got %+v", f)
	}
}

// accepted follows the money that goes back.
func accepted(t *testing.T, b *judgeBench) {
	e2e := b.pay(t)
	refunds := func() (amounts []string) {
		p, err := b.judge.GetPayment(t.Context(), e2e)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range p.Refunds {
			amounts = append(amounts, fmt.Sprint(r.Amount, " ", r.ForInfraction))
			if r.Status != acquirer.RefundDone || r.ReturnID == "" {
				t.Errorf("got %+v", r)
			}
		}
		return amounts
	}
	part, whole, rejected := b.Claim(e2e, 234, ""), b.Claim(e2e, 0, ""), b.Claim(e2e, 100, "")
	b.Refund(e2e, 500) // as the receiver wished it
	for _, step := range []struct {
		id, how string
		want    []string
		balance string
	}{
		{rejected, "reject", []string{"5.00 false"}, "10000007.34"},
		{part, "accept", []string{"5.00 false", "2.34 true"}, "10000005.00"},
		{whole, "accept", []string{"5.00 false", "2.34 true", "5.00 true"}, "10000000.00"}, // what is left
	} {
		b.Decide(step.id, step.how)
		if diff := cmp.Diff(step.want, refunds()); diff != "" || b.Balance(b.name) != step.balance {
			t.Errorf("%s: the balance is %s\n%s", step.how, b.Balance(b.name), diff)
		}
	}
}

func several(t *testing.T, b *judgeBench) {
	one, two := b.pay(t), b.pay(t)
	ids := map[string]string{b.Claim(one, 1, ""): one, b.Claim(one, 2, ""): one, b.Claim(two, 3, ""): two}
	var total money.BRL
	for _, f := range b.all(t) {
		if ids[f.ID] != f.EndToEndID {
			t.Errorf("got %+v", f)
		}
		total += f.Amount
	}
	if total != 6 || len(ids) != 3 {
		t.Errorf("%v in %d infractions", total, len(ids))
	}
}

// listInfractions reads more than two pages, and windows of time. An infraction stays where it was opened.
func listInfractions(t *testing.T, b *judgeBench) {
	const many = 205
	e2e, start := b.pay(t), b.Clock.Now()
	opened := map[string]bool{}
	for range many {
		opened[b.Claim(e2e, 1, "")] = true
	}
	middle := b.Clock.Now()
	b.Advance(time.Hour)
	late := b.Claim(e2e, 1, "")
	found := map[string]bool{}
	w := acquirer.Window{From: start, To: middle}
	for pages := 1; ; pages++ {
		page, err := b.judge.ListInfractions(t.Context(), w)
		if err != nil || page.Unreadable != 0 || pages > many {
			t.Fatalf("page %d: %+v, %v", pages, page, err)
		}
		for _, f := range page.Infractions {
			if found[f.ID] || f.ID == late {
				t.Errorf("got %+v, or twice", f)
			}
			found[f.ID] = true
		}
		if w.Cursor = page.Next; w.Cursor == "" {
			break
		}
	}
	if diff := cmp.Diff(opened, found); diff != "" {
		t.Error(diff)
	}
	page, err := b.judge.ListInfractions(t.Context(), acquirer.Window{From: middle.Add(time.Minute), To: b.Clock.Now()})
	if err != nil || len(page.Infractions) != 1 || page.Infractions[0].ID != late || page.Next != "" {
		t.Errorf("got %+v, %v", page, err)
	}
	_, err = b.judge.ListInfractions(t.Context(), acquirer.Window{Cursor: "x"})
	want(t, err, "refused business")
}

func unknownInfractions(t *testing.T, b *judgeBench) {
	for _, id := range []string{"8ad75c93-6150-422c-929e-822f361c7a6b", "x", "", "..", "a/b"} {
		if err := b.defend(t, id, "refused business"); !errors.Is(err, acquirer.ErrNotFound) {
			t.Errorf("%q: %v", id, err)
		}
	}
}

func listingFaults(t *testing.T, b *judgeBench) {
	b.Claim(b.pay(t), 0, "")
	for _, tt := range []struct{ kind, want string }{
		{"http_500", "unknown down"},
		{"http_429", "refused rate_limited"},
		{"reject", "refused credentials"},
		{"lost_executed", "unknown down"},
		{"lost_not_executed", "unknown down"},
		{"slow", ""},
		{"garbage", "unknown protocol"},
	} {
		b.Fault(Fault{Target: b.name, Operation: "med.list", Kind: tt.kind})
		_, err := b.judge.ListInfractions(t.Context(), acquirer.Window{From: b.Clock.Now().Add(-time.Hour), To: b.Clock.Now()})
		want(t, err, tt.want)
		b.ClearFaults()
	}
	if got := len(b.all(t)); got != 1 {
		t.Errorf("%d infractions", got)
	}
}

// defendingFaults hands a defense in again until it is taken, as a use case does. However it was lost, it is there once.
func defendingFaults(t *testing.T, b *judgeBench) {
	for _, tt := range []struct {
		kind, want string
		executed   bool
	}{
		{"http_500", "unknown down", false},
		{"http_429", "refused rate_limited", false},
		{"reject", "refused business", false},
		{"lost_executed", "unknown down", true},
		{"lost_not_executed", "unknown down", false},
		{"slow", "", true},
		{"garbage", "", true}, // a success that nothing need be read from
	} {
		id := b.Claim(b.pay(t), 0, "")
		b.Fault(Fault{Target: b.name, Operation: "med.defend", Kind: tt.kind, Times: 1})
		if err := b.defend(t, id, tt.want); errors.Is(err, acquirer.ErrDuplicate) || errors.Is(err, acquirer.ErrTooLate) {
			t.Errorf("%s: %v", tt.kind, err)
		}
		if executed := b.find(t, id).Status == acquirer.InfractionUnderReview; executed != tt.executed {
			t.Errorf("%s: executed is %v", tt.kind, executed)
		}
		words := ""
		if tt.executed {
			words = "refused business"
		}
		if err := b.defend(t, id, words); tt.executed && !errors.Is(err, acquirer.ErrDuplicate) {
			t.Errorf("%s: %v", tt.kind, err)
		}
	}
}

func nobodyListensToDefenses(t *testing.T, b *judgeBench) {
	id := b.Claim(b.pay(t), 0, "")
	b.Fault(Fault{Target: b.name, Kind: "refuse"})
	b.defend(t, id, "refused down")
	_, err := b.judge.ListInfractions(t.Context(), acquirer.Window{})
	want(t, err, "refused down")
	b.ClearFaults()
	b.defend(t, id, "")
}
