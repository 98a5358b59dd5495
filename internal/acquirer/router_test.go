package acquirer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/fault"
)

// fake is an acquirer that does as it is told.
type fake struct {
	Acquirer // nil: what a test does not expect panics
	name     string

	mu      sync.Mutex
	create  func(ctx context.Context, n NewCharge) error
	remove  func(txID string) error
	lost    *Error // of the charges that it makes
	asked   int
	removed []string
}

func (f *fake) Name() string { return f.name }

func (f *fake) set(create func(ctx context.Context, n NewCharge) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.create = create
}

func (f *fake) CreateCharge(ctx context.Context, n NewCharge) (Charge, error) {
	f.mu.Lock()
	f.asked++
	create := f.create
	f.mu.Unlock()
	if create != nil {
		if err := create(ctx, n); err != nil {
			return Charge{}, err
		}
	}
	return Charge{TxID: n.TxID, Amount: n.Amount, Status: ChargeActive, CopyPaste: "code of " + f.name, Lost: f.lost}, nil
}

func (f *fake) RemoveCharge(_ context.Context, txID string) error {
	f.removed = append(f.removed, txID)
	if f.remove != nil {
		return f.remove(txID)
	}
	return nil
}

// fails returns how an acquirer fails.
func (f *fake) fails(o Outcome, c Class) func(context.Context, NewCharge) error {
	return func(context.Context, NewCharge) error {
		return &Error{Acquirer: f.name, Operation: "charge.create", Outcome: o, Class: c}
	}
}

// hang waits for the end.
func hang(ctx context.Context, _ NewCharge) error {
	<-ctx.Done()
	return &Error{Outcome: Unknown, Class: Timeout, Cause: ctx.Err()}
}

func newRouter(t *testing.T, routes ...Route) (*Router, *clock.Clock) {
	t.Helper()
	c := clock.New(nil)
	r, err := NewRouter(c, routes...)
	if err != nil {
		t.Fatal(err)
	}
	return r, c
}

var newCharge = NewCharge{TxID: "1aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", Amount: 1234, ExpiresIn: time.Hour}

// told is a creation's attempts as text.
func told(c Created) []string {
	var lines []string
	for _, a := range c.Attempts {
		lines = append(lines, fmt.Sprintf("%s: %s: %s", a.Acquirer, a.Reason, a.Outcome))
	}
	return lines
}

func TestCreateChargeByClass(t *testing.T) {
	t.Parallel()
	tests := []struct {
		outcome  Outcome
		class    Class
		failover bool
		lost     int
	}{
		{Refused, Down, true, 0},
		{Unknown, Down, true, 1},
		{Refused, Timeout, true, 0},
		{Unknown, Timeout, true, 1},
		{Refused, RateLimited, true, 0},
		{Refused, Credentials, true, 0},
		{Unknown, Protocol, true, 1},
		{Refused, Business, false, 0},
		{Unknown, Business, true, 1}, // makes no sense, and is no proof
	}
	for _, tt := range tests {
		t.Run(tt.outcome.String()+" "+tt.class.String(), func(t *testing.T) {
			t.Parallel()
			a, b := &fake{name: "alpha"}, &fake{name: "beta"}
			a.set(a.fails(tt.outcome, tt.class))
			r, _ := newRouter(t, Route{Acquirer: b, Priority: 2}, Route{Acquirer: a, Priority: 1})
			created, err := r.CreateCharge(t.Context(), newCharge)
			want := []string{"alpha: first by priority and weight: " + tt.outcome.String()}
			if tt.failover {
				want = append(want, "beta: the one before failed: accepted")
				if err != nil || created.Acquirer != "beta" || created.Charge.CopyPaste != "code of beta" {
					t.Errorf("got %+v, %v", created, err)
				}
			} else {
				f := fault.As(err)
				if f.Kind != fault.Unprocessable || f.Code != "charge_failed" || As(err).Class != Business || created.Acquirer != "" || b.asked != 0 {
					t.Errorf("got %+v, %v; beta was asked %d times", created, err, b.asked)
				}
			}
			if diff := cmp.Diff(want, told(created)); diff != "" {
				t.Error(diff)
			}
			if got := r.Health()[0].LostCharges; got != tt.lost {
				t.Errorf("%d lost charges, want %d", got, tt.lost)
			}
		})
	}
}

func TestCreateChargeAllFail(t *testing.T) {
	t.Parallel()
	a, b := &fake{name: "alpha"}, &fake{name: "beta"}
	a.set(a.fails(Unknown, Timeout))
	b.set(func(context.Context, NewCharge) error {
		return errors.New("a driver that does not know its own errors")
	})
	r, _ := newRouter(t, Route{Acquirer: a}, Route{Acquirer: b, Priority: 1})
	created, err := r.CreateCharge(t.Context(), newCharge)
	if f := fault.As(err); f.Kind != fault.Provider || created.Acquirer != "" {
		t.Errorf("got %+v, %v", created, err)
	}
	for _, part := range []string{"alpha", "timeout", "does not know its own errors"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
	if strings.Contains(fault.As(err).Public, "alpha") {
		t.Errorf("the caller is told who failed: %s", fault.As(err).Public)
	}
	want := []string{"alpha: first by priority and weight: unknown", "beta: the one before failed: unknown"}
	if diff := cmp.Diff(want, told(created)); diff != "" {
		t.Error(diff)
	}
	for _, h := range r.Health() {
		if h.LostCharges != 1 || h.LastError == nil {
			t.Errorf("got %+v", h)
		}
	}

	r, _ = newRouter(t)
	if created, err := r.CreateCharge(t.Context(), newCharge); fault.As(err).Kind != fault.Provider || created.Attempts != nil {
		t.Errorf("without acquirers: got %+v, %v", created, err)
	}
}

// TestBreakerOnTheWay follows one acquirer through an outage.
func TestBreakerOnTheWay(t *testing.T) {
	t.Parallel()
	a, b := &fake{name: "alpha"}, &fake{name: "beta"}
	r, c := newRouter(t, Route{Acquirer: a, Priority: 1}, Route{Acquirer: b, Priority: 2})
	create := func(want ...string) {
		t.Helper()
		created, _ := r.CreateCharge(t.Context(), newCharge)
		if diff := cmp.Diff(want, told(created)); diff != "" {
			t.Fatal(diff)
		}
	}
	const (
		alphaFirst, alphaFails = "alpha: first by priority and weight: accepted", "alpha: first by priority and weight: refused"
		betaNext, betaFirst    = "beta: the one before failed: accepted", "beta: first by priority and weight: accepted"
	)
	create(alphaFirst)
	a.set(a.fails(Refused, Business))
	for range 3 * failuresMax {
		create(alphaFails) // and is not held against it
	}
	a.set(a.fails(Refused, Down))
	for range failuresMax {
		create(alphaFails, betaNext)
	}
	create("alpha: failed before: skipped", betaFirst)
	h := r.Health()[0]
	if h.State != BreakerOpen || h.LastError.Class != Down || h.LastErrorAt.IsZero() || !h.RetryAt.Equal(h.Since.Add(openTimeMin)) {
		t.Errorf("got %+v", h)
	}
	asked := a.asked
	c.Raise(openTimeMin)
	if got := r.Health()[0].State; got != BreakerTrial {
		t.Errorf("the state is %v", got)
	}
	create("alpha: failed before, and a trial was due: refused", betaNext)
	create("alpha: failed before: skipped", betaFirst)
	if a.asked != asked+1 {
		t.Errorf("alpha was asked %d times, want once", a.asked-asked)
	}
	c.Raise(c.Offset() + openTimeMax)
	a.set(nil)
	create("alpha: failed before, and a trial was due: accepted")
	create(alphaFirst)
	if h := r.Health()[0]; h.State != BreakerClosed || !h.RetryAt.IsZero() || h.LastError == nil {
		t.Errorf("got %+v", h)
	}
}

// TestLastResort shows that breakers keep nobody waiting when there is nowhere else to go.
func TestLastResort(t *testing.T) {
	t.Parallel()
	a, b := &fake{name: "alpha"}, &fake{name: "beta"}
	a.set(a.fails(Refused, Down))
	b.set(b.fails(Refused, Down))
	r, _ := newRouter(t, Route{Acquirer: a, Priority: 1}, Route{Acquirer: b, Priority: 2})
	for range failuresMax {
		_, _ = r.CreateCharge(t.Context(), newCharge)
	}
	began := make(chan struct{})
	a.set(func(ctx context.Context, n NewCharge) error { close(began); return hang(ctx, n) })
	r.limits.try = time.Minute
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = r.CreateCharge(ctx, newCharge) })
	<-began
	created, err := r.CreateCharge(t.Context(), newCharge)
	want := []string{"alpha: failed before: skipped", "beta: failed before: skipped", "alpha: a trial is under way: skipped", "beta: nobody else was left: refused"}
	if diff := cmp.Diff(want, told(created)); diff != "" || fault.As(err).Kind != fault.Provider {
		t.Errorf("%v\n%s", err, diff)
	}
	cancel()
	wg.Wait()
	a.set(nil)
	created, err = r.CreateCharge(t.Context(), newCharge)
	want = append(want[:2], "alpha: nobody else was left: accepted")
	if diff := cmp.Diff(want, told(created)); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	if h := r.Health()[0]; h.State != BreakerClosed {
		t.Errorf("got %+v", h)
	}
}

// TestLastResortAfterFailure shows that one that failed before is asked when the others that are left fail now.
func TestLastResortAfterFailure(t *testing.T) {
	t.Parallel()
	a, b := &fake{name: "alpha"}, &fake{name: "beta"}
	a.set(a.fails(Refused, Down))
	r, _ := newRouter(t, Route{Acquirer: a, Priority: 1}, Route{Acquirer: b, Priority: 2})
	for range failuresMax {
		_, _ = r.CreateCharge(t.Context(), newCharge)
	}
	a.set(nil)
	b.set(b.fails(Refused, Down))
	created, err := r.CreateCharge(t.Context(), newCharge)
	want := []string{"alpha: failed before: skipped", "beta: first by priority and weight: refused", "alpha: nobody else was left: accepted"}
	if diff := cmp.Diff(want, told(created)); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}

// TestLostAnswersOpenTheBreaker shows that an acquirer whose charges are found only by asking again is soon asked no more.
func TestLostAnswersOpenTheBreaker(t *testing.T) {
	t.Parallel()
	a, b := &fake{name: "alpha", lost: &Error{Acquirer: "alpha", Class: Timeout}}, &fake{name: "beta"}
	r, _ := newRouter(t, Route{Acquirer: a, Priority: 1}, Route{Acquirer: b, Priority: 2})
	for range failuresMax {
		created, err := r.CreateCharge(t.Context(), newCharge)
		if err != nil || created.Acquirer != "alpha" || len(created.Attempts) != 1 || As(created.Attempts[0].Err).Class != Timeout {
			t.Fatalf("%+v, %v", created, err)
		}
	}
	if created, err := r.CreateCharge(t.Context(), newCharge); err != nil || created.Acquirer != "beta" {
		t.Errorf("%+v, %v", created, err)
	}
	if h := r.Health()[0]; h.State != BreakerOpen || h.LastError != a.lost || h.LostCharges != 0 {
		t.Errorf("%+v", h)
	}
}

func TestWeights(t *testing.T) {
	t.Parallel()
	heavy, light, late := &fake{name: "heavy"}, &fake{name: "light"}, &fake{name: "late"}
	r, _ := newRouter(t, Route{Acquirer: late, Priority: 2}, Route{Acquirer: light, Priority: 1}, Route{Acquirer: heavy, Priority: 1, Weight: 3})
	var got []string
	for range 8 {
		created, err := r.CreateCharge(t.Context(), newCharge)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, created.Acquirer)
	}
	// Three to one, and never more than needed of one in a row.
	want := strings.Fields("heavy light heavy heavy heavy light heavy heavy")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	heavy.set(heavy.fails(Refused, Down))
	light.set(light.fails(Refused, Down))
	created, _ := r.CreateCharge(t.Context(), newCharge)
	if created.Acquirer != "late" || len(created.Attempts) != 3 {
		t.Errorf("got %v", told(created))
	}
}

func TestTimeLimits(t *testing.T) {
	t.Parallel()
	hanging := func() (*Router, *clock.Clock) {
		return newRouter(t, Route{Acquirer: &fake{name: "alpha", create: hang}}, Route{Acquirer: &fake{name: "beta", create: hang}, Priority: 1})
	}
	r, _ := hanging()
	if r.limits != (limits{5 * time.Second, 15 * time.Second}) {
		t.Errorf("the limits are %v", r.limits)
	}

	// Each try has its time.
	r.limits = limits{try: 20 * time.Millisecond, creation: time.Hour}
	created, err := r.CreateCharge(t.Context(), newCharge)
	want := []string{"alpha: first by priority and weight: unknown", "beta: the one before failed: unknown"}
	if diff := cmp.Diff(want, told(created)); diff != "" || fault.As(err).Kind != fault.Provider {
		t.Errorf("%v\n%s", err, diff)
	}
	for i, a := range created.Attempts {
		if a.Took < r.limits.try || !errors.Is(a.Err, context.DeadlineExceeded) {
			t.Errorf("attempt %d took %v: %v", i, a.Took, a.Err)
		}
	}

	// All together have theirs.
	r, c := hanging()
	r.limits = limits{try: time.Hour, creation: 20 * time.Millisecond}
	began := c.Real()
	created, err = r.CreateCharge(t.Context(), newCharge)
	want[1] = "beta: no time was left: skipped"
	if diff := cmp.Diff(want, told(created)); diff != "" || fault.As(err).Kind != fault.Provider || c.RealSince(began) < r.limits.creation {
		t.Errorf("%v\n%s", err, diff)
	}
	// The first had less than its time, which is not its fault.
	if h := r.Health()[0]; h.LastError != nil || h.LostCharges != 1 {
		t.Errorf("got %+v", h)
	}
}

// TestCallerGone shows that a caller who leaves is nobody's failure.
func TestCallerGone(t *testing.T) {
	t.Parallel()
	a, b := &fake{name: "alpha"}, &fake{name: "beta"}
	r, _ := newRouter(t, Route{Acquirer: a}, Route{Acquirer: b, Priority: 1})
	for range 2 * failuresMax {
		ctx, cancel := context.WithCancel(t.Context())
		a.set(func(ctx context.Context, n NewCharge) error { cancel(); return hang(ctx, n) })
		created, err := r.CreateCharge(ctx, newCharge)
		want := []string{"alpha: first by priority and weight: unknown", "beta: no time was left: skipped"}
		if diff := cmp.Diff(want, told(created)); diff != "" || fault.As(err).Kind != fault.Provider {
			t.Fatalf("%v\n%s", err, diff)
		}
	}
	if h := r.Health()[0]; h.State != BreakerClosed || h.LostCharges != 2*failuresMax {
		t.Errorf("got %+v", h)
	}
}

func TestPanicFreesTheTrial(t *testing.T) {
	t.Parallel()
	a := &fake{name: "alpha"}
	a.set(a.fails(Refused, Down))
	r, c := newRouter(t, Route{Acquirer: a})
	for range failuresMax {
		_, _ = r.CreateCharge(t.Context(), newCharge)
	}
	c.Raise(openTimeMin)
	a.set(func(context.Context, NewCharge) error { panic("a driver's defect") })
	func() {
		defer func() { _ = recover() }()
		_, _ = r.CreateCharge(t.Context(), newCharge)
	}()
	a.set(nil)
	if created, err := r.CreateCharge(t.Context(), newCharge); err != nil || created.Acquirer != "alpha" {
		t.Errorf("got %v, %v", told(created), err)
	}
}

func TestNewRouter(t *testing.T) {
	t.Parallel()
	bad := map[string][]Route{
		"no name":  {{Acquirer: &fake{}}},
		"two":      {{Acquirer: &fake{name: "a"}}, {Acquirer: &fake{name: "a"}, Priority: 1}},
		"negative": {{Acquirer: &fake{name: "a"}, Weight: -1}},
	}
	for name, routes := range bad {
		if _, err := NewRouter(clock.New(nil), routes...); err == nil || !strings.HasPrefix(err.Error(), "acquirer: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	a := &fake{name: "alpha"}
	r, _ := newRouter(t, Route{Acquirer: a})
	if got, ok := r.Get("alpha"); !ok || got != Acquirer(a) {
		t.Errorf("got %v", got)
	}
	if got, ok := r.Get("beta"); ok || got != nil {
		t.Errorf("got %v", got)
	}
}

func TestLostCharges(t *testing.T) {
	t.Parallel()
	notFound := &Error{Outcome: Refused, Class: Business, Cause: ErrNotFound}
	business := &Error{Outcome: Refused, Class: Business}
	down := &Error{Outcome: Refused, Class: Down}
	tests := []struct {
		name    string
		answers []error
		tries   int
	}{
		{"removed", []error{nil}, 1},
		{"cannot be removed", []error{business}, 1},
		{"late", []error{notFound, nil}, 2},
		{"never there", []error{notFound, notFound, notFound, notFound}, lostTriesMax},
		{"out of order", []error{down, down, down, down}, lostTriesMax},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a, b := &fake{name: "alpha"}, &fake{name: "beta"}
			a.set(a.fails(Unknown, Timeout))
			answers := slices.Clone(tt.answers)
			a.remove = func(string) error {
				err := answers[0]
				answers = answers[1:]
				return err
			}
			r, c := newRouter(t, Route{Acquirer: a}, Route{Acquirer: b, Priority: 1})
			if _, err := r.CreateCharge(t.Context(), newCharge); err != nil {
				t.Fatal(err)
			}
			delay, tries := lostDelayMin, 0
			for r.Health()[0].LostCharges > 0 {
				if did, err := r.Step(t.Context()); did || err != nil {
					t.Fatalf("before its time: %v, %v", did, err)
				}
				c.Raise(c.Offset() + delay)
				delay *= lostDelayFactor
				if did, err := r.Step(t.Context()); !did || err != nil {
					t.Fatalf("at its time: %v, %v", did, err)
				}
				tries++
			}
			if tries != tt.tries || len(answers) != 0 || a.removed[0] != newCharge.TxID || b.removed != nil {
				t.Errorf("%d tries, want %d; alpha %v, beta %v", tries, tt.tries, a.removed, b.removed)
			}
		})
	}
}

func TestLostChargesAreBounded(t *testing.T) {
	t.Parallel()
	a := &fake{name: "alpha"}
	r, _ := newRouter(t, Route{Acquirer: a})
	for range lostMax + 10 {
		r.lost.add(r.routes[0], newCharge.TxID, time.Time{})
	}
	if got := r.Health()[0].LostCharges; got != lostMax {
		t.Errorf("%d are kept, want %d", got, lostMax)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a.remove = func(string) error { return &Error{Class: Timeout, Cause: context.Canceled} }
	if _, err := r.Step(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a stopped step ended with %v", err)
	}
	if got := r.Health()[0].LostCharges; got != lostMax {
		t.Errorf("%d are kept after a step that was stopped, want %d", got, lostMax)
	}
}

// TestRouterConcurrently is for the race detector.
func TestRouterConcurrently(t *testing.T) {
	t.Parallel()
	a, b := &fake{name: "alpha"}, &fake{name: "beta"}
	r, c := newRouter(t, Route{Acquirer: a}, Route{Acquirer: b})
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := range 200 {
				switch i % 50 {
				case 25:
					a.set(a.fails(Unknown, Down))
				case 49:
					a.set(nil)
					c.Raise(c.Offset() + openTimeMax)
				}
				created, err := r.CreateCharge(context.Background(), newCharge)
				if err != nil || created.Acquirer == "" {
					t.Errorf("worker %d: %v, %v", worker, told(created), err)
				}
				r.Health()
			}
		})
	}
	wg.Wait()
}

func TestError(t *testing.T) {
	t.Parallel()
	e := &Error{Acquirer: "alpha", Operation: "charge.create", Outcome: Refused, Class: Business, Code: "chave_invalida", Message: "a sentence", Cause: ErrNotFound}
	if got, want := e.Error(), "acquirer: alpha: charge.create: refused, business: chave_invalida: a sentence: not found"; got != want {
		t.Errorf("got %s", got)
	}
	wrapped := fmt.Errorf("charge: %w", e)
	if As(wrapped) != e || !errors.Is(wrapped, ErrNotFound) || errors.Is(wrapped, ErrDuplicate) || !IsRefused(wrapped) {
		t.Errorf("%v is not what it was", wrapped)
	}
	if IsRefused(nil) || As(nil) != nil {
		t.Error("nil is an error")
	}
	for _, unclear := range []error{errors.New("what"), &Error{}, context.DeadlineExceeded} {
		if IsRefused(unclear) {
			t.Errorf("%#v is taken for proof", unclear)
		}
	}
	for _, got := range []string{Outcome(99).String(), ChargeStatus(-1).String(), RefundStatus(9).String()} {
		if got != "unknown" {
			t.Errorf("an unknown word is %q", got)
		}
	}
}
