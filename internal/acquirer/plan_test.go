package acquirer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ponte-pay/ponte/internal/money"
)

// fakePayer is an acquirer that also pays out, as it is told.
type fakePayer struct {
	fake
	send func(ctx context.Context) error
	sent int
}

func (f *fakePayer) SendPayout(ctx context.Context, n NewPayout) (Payout, error) {
	f.sent++
	if f.send != nil {
		if err := f.send(ctx); err != nil {
			return Payout{}, err
		}
	}
	return Payout{ID: n.ID, Amount: n.Amount, Status: PayoutProcessing}, nil
}

func (f *fakePayer) GetPayout(context.Context, string) (Payout, error) { panic("not asked for") }

func (f *fakePayer) GetPayoutByEndToEnd(context.Context, string) (Payout, error) {
	panic("not asked for")
}

func (f *fakePayer) ListPayouts(context.Context, Window) (PayoutPage, error) { panic("not asked for") }

func (f *fakePayer) Balance(context.Context) (money.BRL, error) { panic("not asked for") }

// refuses makes an acquirer fail in that way.
func (f *fakePayer) refuses(o Outcome, c Class, cause error) {
	f.send = func(context.Context) error {
		return &Error{Acquirer: f.name, Operation: "payout.send", Outcome: o, Class: c, Cause: cause}
	}
}

func newPayer(name string) *fakePayer { return &fakePayer{fake: fake{name: name}} }

var onePayout = NewPayout{ID: "1", Amount: 1234, Key: "52998224725"}

// pay goes through a plan as a use case does, and tells each step.
func pay(ctx context.Context, r *Router) string {
	var steps []string
	plan := r.PlanPayout()
	defer plan.Close()
	for turn, ok := plan.Next(); ok; turn, ok = plan.Next() {
		_, err := turn.Send(ctx, onePayout)
		if err == nil {
			steps = append(steps, turn.Acquirer+" took it")
			break
		}
		steps = append(steps, fmt.Sprintf("%s %s %s", turn.Acquirer, As(err).Outcome, As(err).Class))
		if !IsRefused(err) || As(err).Class == Business && !errors.Is(err, ErrNoFunds) {
			break
		}
	}
	return strings.Join(steps, ", ")
}

func TestPlan(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		outcome Outcome
		class   Class
		cause   error
		want    string
		counts  bool // against the acquirer
	}{
		{Refused, Down, nil, "alpha refused down, beta took it", true},
		{Refused, Timeout, nil, "alpha refused timeout, beta took it", true},
		{Refused, RateLimited, nil, "alpha refused rate_limited, beta took it", true},
		{Refused, Credentials, nil, "alpha refused credentials, beta took it", true},
		{Refused, Business, ErrNoFunds, "alpha refused business, beta took it", false},
		{Refused, Business, nil, "alpha refused business", false},
		{Unknown, Down, nil, "alpha unknown down", true},
		{Unknown, Timeout, nil, "alpha unknown timeout", true},
		{Unknown, Protocol, nil, "alpha unknown protocol", true},
		{Unknown, Business, ErrDuplicate, "alpha unknown business", false},
	} {
		a, b, c := newPayer("alpha"), newPayer("beta"), &fake{name: "charges only"}
		a.refuses(tt.outcome, tt.class, tt.cause)
		r, _ := newRouter(t, Route{Acquirer: b, Priority: 2}, Route{Acquirer: c, Priority: 0}, Route{Acquirer: a, Priority: 1})
		if got := pay(t.Context(), r); got != tt.want {
			t.Errorf("%v %v: %s, want %s", tt.outcome, tt.class, got, tt.want)
		}
		if counted := r.Health()[1].LastError != nil; counted != tt.counts {
			t.Errorf("%v %v: counted is %v", tt.outcome, tt.class, counted)
		}
	}
}

// TestPlanAllDown shows the two kinds apart: found out after the first turn, and known before it.
func TestPlanAllDown(t *testing.T) {
	t.Parallel()
	a, b := newPayer("alpha"), newPayer("beta")
	a.refuses(Refused, Down, nil)
	b.refuses(Refused, Down, nil)
	r, c := newRouter(t, Route{Acquirer: a, Priority: 1}, Route{Acquirer: b, Priority: 2})
	for range failuresMax {
		if got := pay(t.Context(), r); got != "alpha refused down, beta refused down" {
			t.Errorf("got %s", got)
		}
	}
	for range 3 {
		if got := pay(t.Context(), r); got != "" {
			t.Errorf("with both breakers open: %s", got)
		}
	}
	c.Raise(openTimeMax)
	b.send = nil
	if got := pay(t.Context(), r); got != "alpha refused down, beta took it" {
		t.Errorf("when a trial is due: %s", got)
	}
	if got := pay(t.Context(), r); got != "beta took it" {
		t.Errorf("after the trials: %s", got)
	}
}

// TestPlanTrial shows that a trial that is not used is free for others, and one that is under way is not.
func TestPlanTrial(t *testing.T) {
	t.Parallel()
	a := newPayer("alpha")
	a.refuses(Refused, Down, nil)
	r, c := newRouter(t, Route{Acquirer: a})
	for range failuresMax {
		pay(t.Context(), r)
	}
	c.Raise(openTimeMax)
	plan := r.PlanPayout()
	turn, ok := plan.Next()
	if !ok || turn.Reason != ReasonTrial {
		t.Fatalf("got %+v", turn)
	}
	if got := pay(t.Context(), r); got != "" {
		t.Errorf("while a trial is under way: %s", got)
	}
	plan.Close()
	plan.Close()
	if _, err := turn.Send(t.Context(), onePayout); !IsRefused(err) || a.sent != failuresMax {
		t.Errorf("sent in a turn that is over: %v, %d", err, a.sent)
	}
	a.send = func(context.Context) error { panic("the driver") }
	func() {
		defer func() { _ = recover() }()
		pay(t.Context(), r)
	}()
	a.send = nil
	if got := pay(t.Context(), r); got != "alpha took it" {
		t.Errorf("after a panic: %s", got)
	}
	plan = r.PlanPayout()
	turn, _ = plan.Next()
	if _, err := turn.Send(t.Context(), onePayout); err != nil {
		t.Error(err)
	}
	if _, err := turn.Send(t.Context(), onePayout); !IsRefused(err) {
		t.Errorf("sent twice in one turn: %v", err)
	}
	if _, ok := plan.Next(); ok {
		t.Error("a second acquirer was found")
	}
}

func TestPlanWeight(t *testing.T) {
	t.Parallel()
	a, b := newPayer("alpha"), newPayer("beta")
	r, _ := newRouter(t, Route{Acquirer: a, Weight: 3}, Route{Acquirer: b})
	var payouts, charges []string
	for range 8 {
		payouts = append(payouts, strings.TrimSuffix(pay(t.Context(), r), " took it"))
		created, err := r.CreateCharge(t.Context(), newCharge)
		if err != nil {
			t.Fatal(err)
		}
		charges = append(charges, created.Acquirer)
	}
	slices.Sort(payouts)
	slices.Sort(charges)
	want := []string{"alpha", "alpha", "alpha", "alpha", "alpha", "alpha", "beta", "beta"}
	if diff := cmp.Diff([][]string{want, want}, [][]string{payouts, charges}); diff != "" {
		t.Error(diff)
	}
}

func TestPlanTime(t *testing.T) {
	t.Parallel()
	a := newPayer("alpha")
	a.send = func(ctx context.Context) error { return hang(ctx, NewCharge{}) }
	r, _ := newRouter(t, Route{Acquirer: a})
	r.Limit(10*time.Millisecond, time.Minute)
	if got := pay(t.Context(), r); got != "alpha unknown timeout" || r.Health()[0].LastError == nil {
		t.Errorf("got %s", got)
	}
	// Who gives up says nothing about the acquirer.
	r, _ = newRouter(t, Route{Acquirer: a})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := pay(ctx, r); got != "alpha unknown timeout" || r.Health()[0].LastError != nil {
		t.Errorf("got %s", got)
	}
}

// fakeJudge is an acquirer that also tells of infractions.
type fakeJudge struct {
	Judge // nil: nothing of it is asked for
}

func (f *fakeJudge) Name() string { return "beta" }

func TestJudges(t *testing.T) {
	t.Parallel()
	r, _ := newRouter(t, Route{Acquirer: &fake{name: "alpha"}}, Route{Acquirer: &fakeJudge{}})
	if got := r.Judges(); len(got) != 1 || got[0].Name() != "beta" {
		t.Errorf("got %v", got)
	}
}

func TestPayer(t *testing.T) {
	t.Parallel()
	r, _ := newRouter(t, Route{Acquirer: newPayer("alpha")}, Route{Acquirer: &fake{name: "beta"}})
	for name, want := range map[string]bool{"alpha": true, "beta": false, "gamma": false} {
		if p, ok := r.Payer(name); ok != want || ok && p.Name() != name {
			t.Errorf("%s: %v", name, ok)
		}
	}
}
