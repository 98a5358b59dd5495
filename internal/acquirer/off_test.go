package acquirer

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ponte-pay/ponte/internal/fault"
)

// An acquirer that is off is given nothing new, not even as a last resort, and can still be asked.
func TestSwitchOff(t *testing.T) {
	t.Parallel()
	a, b := newPayer("alpha"), newPayer("beta")
	r, _ := newRouter(t, Route{Acquirer: a, Priority: 1}, Route{Acquirer: b, Priority: 2})
	r.SwitchOff(map[string]Off{"alpha": {Who: "ana", Reason: "drill"}, "nobody": {}})
	created, err := r.CreateCharge(t.Context(), newCharge)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"alpha: switched off by an operator: skipped", "beta: first by priority and weight: accepted"}
	if diff := cmp.Diff(want, told(created)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := pay(t.Context(), r); got != "beta took it" {
		t.Errorf("a payout: %s", got)
	}
	plan := r.PlanPayout()
	plan.Next()
	if passed := plan.Passed(); len(passed) != 1 || passed[0].Acquirer != "alpha" || passed[0].Reason != ReasonOff {
		t.Errorf("passed over: %+v", passed)
	}
	plan.Close()
	if _, ok := r.Get("alpha"); !ok {
		t.Error("it cannot be asked about what it has")
	}
	if _, ok := r.Payer("alpha"); !ok {
		t.Error("it cannot be asked about the payouts that it has")
	}
	if h := r.Health(); h[0].Off == nil || h[0].Off.Reason != "drill" || h[1].Off != nil {
		t.Errorf("health: %+v", h)
	}

	r.SwitchOff(map[string]Off{"alpha": {}, "beta": {}})
	if _, err := r.CreateCharge(t.Context(), newCharge); fault.As(err).Kind != fault.Provider {
		t.Errorf("with all off: %v", err)
	}
	if got := pay(t.Context(), r); got != "" {
		t.Errorf("a payout with all off: %s", got)
	}
	r.SwitchOff(nil)
	if created, err := r.CreateCharge(t.Context(), newCharge); err != nil || created.Acquirer != "alpha" {
		t.Errorf("on again: %+v, %v", created, err)
	}
	if a.asked != 1 || a.sent != 0 || b.sent != 1 {
		t.Errorf("alpha was asked %d times and sent %d, beta sent %d", a.asked, a.sent, b.sent)
	}
}

// An acquirer that is switched off while another one is asked is not asked after it.
func TestSwitchOffMeanwhile(t *testing.T) {
	t.Parallel()
	r, _ := newRouter(t, Route{Acquirer: newPayer("alpha"), Priority: 1}, Route{Acquirer: newPayer("beta"), Priority: 2})
	plan := r.PlanPayout()
	defer plan.Close()
	if turn, ok := plan.Next(); !ok || turn.Acquirer != "alpha" {
		t.Fatalf("the first turn: %+v", turn)
	}
	r.SwitchOff(map[string]Off{"beta": {}})
	if turn, ok := plan.Next(); ok {
		t.Errorf("%s has a turn", turn.Acquirer)
	}
	if passed := plan.Passed(); len(passed) != 1 || passed[0].Reason != ReasonOff {
		t.Errorf("passed over: %+v", passed)
	}
}

// The last decisions are remembered, the latest first, and no more than there is room for.
func TestRecent(t *testing.T) {
	t.Parallel()
	r, _ := newRouter(t, Route{Acquirer: &fake{name: "alpha"}})
	for i := range decisionsMax + 3 {
		n := newCharge
		n.TxID = strconv.Itoa(i)
		if _, err := r.CreateCharge(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	recent := r.Recent()
	if len(recent) != decisionsMax || recent[0].Name != strconv.Itoa(decisionsMax+2) || recent[decisionsMax-1].Name != "3" {
		t.Errorf("%d, from %q to %q", len(recent), recent[0].Name, recent[len(recent)-1].Name)
	}
	if d := recent[0]; d.What != "charge" || d.Reason != ReasonFirst || d.Outcome != Accepted || d.At.IsZero() {
		t.Errorf("%+v", d)
	}
}
