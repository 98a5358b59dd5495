package acquirer_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/acquirer/acquirertest"
	"github.com/ponte-pay/ponte/internal/acquirer/bcb"
	"github.com/ponte-pay/ponte/internal/fault"
)

// newRouter returns a router over both acquirers of a world.
func newRouter(t *testing.T, w *acquirertest.World) *acquirer.Router {
	t.Helper()
	var routes []acquirer.Route
	for _, name := range []string{"beta", "alpha"} {
		a := w.Account(name)
		c, err := bcb.New(bcb.Config{
			Name: name, BaseURL: a.BaseURL + "/v2", TokenURL: a.BaseURL + "/oauth/token", ClientID: a.ClientID, ClientSecret: a.ClientSecret, Key: a.Key,
		}, w.Clock)
		if err != nil {
			t.Fatal(err)
		}
		routes = append(routes, acquirer.Route{Acquirer: c, Priority: a.Priority})
	}
	r, err := acquirer.NewRouter(w.Clock, routes...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var serial atomic.Int64

func newCharge() acquirer.NewCharge {
	return acquirer.NewCharge{TxID: fmt.Sprintf("1%034d", serial.Add(1)), Amount: 1234, ExpiresIn: time.Hour}
}

func TestFailover(t *testing.T) {
	t.Parallel()
	const made = "ATIVA 12.34"
	tests := []struct {
		operation, kind string
		acquirer        string // that made the charge; "" for none
		kindOfFault     fault.Kind
		alpha, beta     string // books
	}{
		{"charge.create", "refuse", "beta", 0, "", made},
		{"charge.create", "http_500", "beta", 0, "", made},
		{"charge.create", "http_429", "beta", 0, "", made},
		{"charge.create", "reject", "", fault.Unprocessable, "", ""},
		{"charge.create", "lost_executed", "alpha", 0, made, ""},
		{"charge.create", "lost_not_executed", "beta", 0, "", made},
		{"charge.create", "garbage", "alpha", 0, made, ""},
		{"*", "http_500", "beta", 0, "", made},
		{"token", "http_500", "beta", 0, "", made},
		{"token", "http_429", "beta", 0, "", made},
		{"token", "reject", "beta", 0, "", made},
		{"token", "lost_executed", "beta", 0, "", made},
		{"token", "garbage", "beta", 0, "", made},
	}
	for _, tt := range tests {
		t.Run(tt.operation+" "+tt.kind, func(t *testing.T) {
			t.Parallel()
			w := acquirertest.NewWorld(t)
			r := newRouter(t, w)
			w.Fault(acquirertest.Fault{Operation: tt.operation, Kind: tt.kind})
			n := newCharge()
			created, err := r.CreateCharge(t.Context(), n)
			if tt.acquirer == "" && fault.As(err).Kind != tt.kindOfFault || tt.acquirer != "" && err != nil || created.Acquirer != tt.acquirer {
				t.Errorf("made at %q: %v", created.Acquirer, err)
			}
			if got := [...]string{w.Charges("alpha", n.TxID), w.Charges("beta", n.TxID)}; got != [...]string{tt.alpha, tt.beta} {
				t.Errorf("the books show %q", got)
			}
			if tt.acquirer != "" {
				w.Pay(created.Charge.CopyPaste, 0)
				a, _ := r.Get(created.Acquirer)
				w.ClearFaults()
				if c, err := a.GetCharge(t.Context(), n.TxID); err != nil || c.Status != acquirer.ChargePaid {
					t.Errorf("after it was paid: %+v, %v", c, err)
				}
			}
		})
	}
}

// TestOutage follows charges through an outage of the preferred acquirer.
func TestOutage(t *testing.T) {
	t.Parallel()
	w := acquirertest.NewWorld(t)
	r := newRouter(t, w)
	create := func() string {
		t.Helper()
		created, err := r.CreateCharge(t.Context(), newCharge())
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(created.Acquirer, " ", len(created.Attempts), " ", created.Attempts[0].Reason)
	}
	var got []string
	step := func(n int) {
		for range n {
			got = append(got, create())
		}
	}
	step(1)
	w.Fault(acquirertest.Fault{Kind: "refuse"})
	step(6)
	w.ClearFaults()
	step(1)
	w.Advance(30 * time.Second)
	step(2)
	want := []string{"alpha 1 first by priority and weight"}
	for range 5 {
		want = append(want, "beta 2 first by priority and weight")
	}
	want = append(want, "beta 2 failed before", "beta 2 failed before", "alpha 1 failed before, and a trial was due", "alpha 1 first by priority and weight")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}

	w.Fault(acquirertest.Fault{Kind: "refuse"})
	w.Fault(acquirertest.Fault{Kind: "refuse", Target: "beta"})
	for range 10 {
		n := newCharge()
		if _, err := r.CreateCharge(t.Context(), n); fault.As(err).Kind != fault.Provider {
			t.Errorf("with both away: %v", err)
		}
	}
	w.ClearFaults()
	if got := create(); got != "alpha 3 failed before" { // after both were passed over: nobody else was left
		t.Errorf("when both are back: %s", got)
	}
}

// TestSlowAcquirer shows that a charge does not wait for an acquirer that hangs, and that what is left there is removed.
func TestSlowAcquirer(t *testing.T) {
	t.Parallel()
	w := acquirertest.NewWorld(t)
	r := newRouter(t, w)
	for _, name := range []string{"alpha", "beta"} { // so that there are tokens and connections
		a, _ := r.Get(name)
		if _, err := a.CreateCharge(t.Context(), newCharge()); err != nil {
			t.Fatal(err)
		}
	}
	w.Fault(acquirertest.Fault{Operation: "charge.create", Kind: "slow", Delay: time.Minute, Times: 1})
	r.Limit(500*time.Millisecond, time.Minute)
	n := newCharge()
	created, err := r.CreateCharge(t.Context(), n)
	if err != nil || created.Acquirer != "beta" || len(created.Attempts) != 2 {
		t.Fatalf("got %+v, %v", created, err)
	}
	r.Limit(time.Minute, time.Minute)
	if e := acquirer.As(created.Attempts[0].Err); e.Outcome != acquirer.Unknown || e.Class != acquirer.Timeout {
		t.Errorf("alpha failed with %v", e)
	}
	if got := w.Charges("alpha", n.TxID); got != "ATIVA 12.34" {
		t.Errorf("alpha's books show %q", got)
	}
	w.Advance(30 * time.Second)
	if did, err := r.Step(t.Context()); !did || err != nil {
		t.Errorf("the step: %v, %v", did, err)
	}
	if did, err := r.Step(t.Context()); did || err != nil {
		t.Errorf("the second step: %v, %v", did, err)
	}
	if got := [...]string{w.Charges("alpha", n.TxID), w.Charges("beta", n.TxID)}; got != [...]string{"REMOVIDA_PELO_USUARIO_RECEBEDOR 12.34", "ATIVA 12.34"} {
		t.Errorf("the books show %q", got)
	}
}
