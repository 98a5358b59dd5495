package acquirer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/fault"
)

// Route is an acquirer and how it is chosen.
type Route struct {
	Acquirer Acquirer
	Priority int // the lowest is asked first
	Weight   int // its share among those of one priority; 0 means 1
}

// Router sends each charge to an acquirer that works. Make it with [NewRouter].
//
// Only charges are sent on from an acquirer that may have taken them. A charge that is made twice was shown to nobody
// the first time; a payout that is made twice is money lost. So a payout is never given to the router as a whole: its
// use case goes through a [Plan], one [Turn] at a time, and takes the next only after [IsRefused].
type Router struct {
	clock  *clock.Clock
	limits limits
	routes []*route // by priority, then as given
	lost   lostCharges
	recent decisions

	mu sync.Mutex // for the credit of every route
}

// limits are real times; tests shorten them.
type limits struct{ try, creation time.Duration }

// route is a Route and what is known of its acquirer.
type route struct {
	Route
	name    string
	payer   Payer     // the acquirer, nil when it does not pay out
	credit  [uses]int // for each use, how much it is owed its turn among those of one priority
	breaker breaker
	off     atomic.Pointer[Off] // nil while it is asked

	mu        sync.Mutex
	lastError *Error
	lastAt    time.Time
}

// NewRouter returns a router over these acquirers. It fails when two have the same name or one has none.
func NewRouter(clock *clock.Clock, routes ...Route) (*Router, error) {
	r := &Router{clock: clock, limits: limits{TryTimeMax, CreationTimeMax}}
	for _, given := range routes {
		name := given.Acquirer.Name()
		_, taken := r.Get(name)
		switch {
		case name == "":
			return nil, errors.New("acquirer: an acquirer without a name")
		case taken:
			return nil, fmt.Errorf("acquirer: two acquirers are called %s", name)
		case given.Weight < 0:
			return nil, fmt.Errorf("acquirer: %s has the weight %d: want 0 or more", name, given.Weight)
		}
		given.Weight = max(1, given.Weight)
		payer, _ := given.Acquirer.(Payer)
		r.routes = append(r.routes, &route{Route: given, name: name, payer: payer})
	}
	slices.SortStableFunc(r.routes, func(a, b *route) int { return cmp.Compare(a.Priority, b.Priority) })
	return r, nil
}

// Get returns the acquirer with that name, whatever its breaker says: what was made there can be asked about nowhere
// else.
func (r *Router) Get(name string) (Acquirer, bool) {
	for _, rt := range r.routes {
		if rt.name == name {
			return rt.Acquirer, true
		}
	}
	return nil, false
}

// Judges returns the acquirers that tell of infractions, in the order of their priority.
func (r *Router) Judges() (judges []Judge) {
	for _, rt := range r.routes {
		if j, ok := rt.Acquirer.(Judge); ok {
			judges = append(judges, j)
		}
	}
	return judges
}

// Created is a charge, where it was made, and how it got there.
type Created struct {
	Acquirer string
	Charge   Charge
	Attempts []Attempt // in their order, the last one accepted; also set when all failed
}

// Attempt is an acquirer that was asked for a charge or passed over.
type Attempt struct {
	Acquirer string
	Reason   Reason // why it was asked or passed over
	Outcome  Outcome
	Err      error         // why it failed, or why its answer was lost; nil for nothing
	Took     time.Duration // real time; 0 when it was passed over
}

// Reason is why an acquirer was asked or passed over.
type Reason string

const (
	ReasonFirst      Reason = "first by priority and weight"       // asked
	ReasonFailover   Reason = "the one before failed"              // asked
	ReasonTrial      Reason = "failed before, and a trial was due" // asked
	ReasonLastResort Reason = "nobody else was left"               // asked, before a trial was due
	ReasonOpen       Reason = "failed before"                      // passed over
	ReasonTrialBusy  Reason = "a trial is under way"               // passed over
	ReasonNoTime     Reason = "no time was left"                   // passed over
	ReasonOff        Reason = "switched off by an operator"        // passed over
)

// CreateCharge makes a charge at the first acquirer that takes it. The txid must be new: what an acquirer was asked for
// with an unknown outcome is removed there later, see [Router.Step].
//
// It fails with [fault.Unprocessable] when an acquirer refuses the charge itself, and with [fault.Provider] when none
// could be asked with success; either way no payer knows of a charge. When ctx is cancelled it asks no further: who
// wants to know the end gives it a context that is not.
func (r *Router) CreateCharge(ctx context.Context, n NewCharge) (Created, error) {
	ctx, cancel := clock.Within(ctx, r.limits.creation)
	defer cancel()
	c := creation{router: r, charge: n}
	defer func() { r.recent.add(useCharge, n.TxID, r.clock.Now(), c.Attempts...) }()
	on, off := split(r.routes)
	c.Attempts = passed(off)
	var shut []*route // passed over because they failed before
	for _, rt := range r.order(useCharge, on) {
		if c.ask(ctx, rt, rt.breaker.enter) {
			return c.Created, c.refusal
		}
		if c.Attempts[len(c.Attempts)-1].Reason == ReasonOpen {
			shut = append(shut, rt)
		}
	}
	// A breaker saves the time it takes to find out that one has to go elsewhere. Where no elsewhere is left it would only make
	// an outage longer, so then it is passed, by one request at a time.
	for _, rt := range shut {
		if c.ask(ctx, rt, rt.breaker.force) {
			return c.Created, c.refusal
		}
	}
	return c.Created, c.failure()
}

// split tells the routes that may be given something new from those that an operator switched off.
func split(routes []*route) (on, off []*route) {
	for _, rt := range routes {
		if rt.off.Load() == nil {
			on = append(on, rt)
		} else {
			off = append(off, rt)
		}
	}
	return on, off
}

// passed tells that routes were passed over because they are off.
func passed(off []*route) (attempts []Attempt) {
	for _, rt := range off {
		attempts = append(attempts, Attempt{Acquirer: rt.name, Reason: ReasonOff, Outcome: Skipped})
	}
	return attempts
}

// use is what an acquirer is asked for. Each has turns of its own, so that charges and payouts that alternate do not
// end up at one acquirer each.
type use int

const (
	useCharge use = iota
	usePayout
	uses int = iota
)

// order returns these routes, which are sorted by priority, in the order in which they may be asked this time. Those of
// one priority take turns, each as often as its weight says, as evenly spread as can be.
func (r *Router) order(u use, routes []*route) []*route {
	r.mu.Lock()
	defer r.mu.Unlock()
	order := slices.Clone(routes)
	for from := 0; from < len(order); {
		to, total := from, 0
		for ; to < len(order) && order[to].Priority == order[from].Priority; to++ {
			order[to].credit[u] += order[to].Weight
			total += order[to].Weight
		}
		equals := order[from:to]
		slices.SortStableFunc(equals, func(a, b *route) int { return cmp.Compare(b.credit[u], a.credit[u]) })
		equals[0].credit[u] -= total
		from = to
	}
	return order
}

// creation is one charge on its way.
type creation struct {
	Created
	router  *Router
	charge  NewCharge
	asked   bool  // at least one acquirer was
	refusal error // of the charge itself
}

// ask asks an acquirer if admit lets it, and reports whether that is the end: the charge was made, or refused for its
// own sake.
func (c *creation) ask(ctx context.Context, rt *route, admit func(now time.Time) (ticket, Reason, bool)) (end bool) {
	r := c.router
	a := Attempt{Acquirer: rt.name, Outcome: Skipped}
	defer func() { c.Attempts = append(c.Attempts, a) }()
	if ctx.Err() != nil {
		a.Reason = ReasonNoTime
		return false
	}
	if rt.off.Load() != nil { // since the order was made
		a.Reason = ReasonOff
		return false
	}
	t, why, ok := admit(r.clock.Now())
	a.Reason = why
	if !ok {
		return false
	}
	if why == "" {
		a.Reason = ReasonFirst
		if c.asked {
			a.Reason = ReasonFailover
		}
	}
	c.asked = true

	began := r.clock.Real()
	charge, err := r.try(ctx, rt, t, c.charge)
	a.Took = r.clock.RealSince(began)
	if err == nil {
		a.Outcome, c.Acquirer, c.Charge = Accepted, rt.name, charge
		if charge.Lost != nil {
			a.Err = charge.Lost
		}
		return true
	}
	a.Outcome, a.Err = err.Outcome, err
	if err.Class == Business && err.Outcome == Refused {
		c.refusal = &fault.Error{Kind: fault.Unprocessable, Code: "charge_failed", Public: "the acquirer refused the charge", Cause: err}
		return true
	}
	return false
}

// failure is what the caller is told when no acquirer took the charge.
func (c *creation) failure() error {
	causes := []error{errors.New("acquirer: nobody took the charge")}
	for _, a := range c.Attempts {
		err := a.Err
		if err == nil {
			err = fmt.Errorf("acquirer: %s: %s: %s", a.Acquirer, a.Outcome, a.Reason)
		}
		causes = append(causes, err)
	}
	return &fault.Error{
		Kind: fault.Provider, Public: "no acquirer could take the charge; please repeat the request", Cause: errors.Join(causes...),
	}
}

// try asks one acquirer once and tells its breaker.
func (r *Router) try(ctx context.Context, rt *route, t ticket, n NewCharge) (Charge, *Error) {
	v := silent // also when the driver panics
	defer func() { rt.breaker.leave(t, v, r.clock.Now()) }()
	limited, cancel := clock.Within(ctx, r.limits.try)
	defer cancel()
	charge, err := rt.Acquirer.CreateCharge(limited, n)
	if err == nil {
		v = worked
		if charge.Lost != nil { // the next one may be lost for good, and this one has waited for nothing
			v = r.verdict(ctx, rt, charge.Lost)
		}
		return charge, nil
	}
	e := As(err)
	if e.Outcome != Refused {
		r.lost.add(rt, n.TxID, r.clock.Now())
	}
	v = r.verdict(ctx, rt, e)
	return Charge{}, e
}

// verdict says what a failure tells about an acquirer, which was asked with ctx.
func (r *Router) verdict(ctx context.Context, rt *route, e *Error) verdict {
	switch {
	case e.Class == Business:
		return worked
	case ctx.Err() != nil: // we gave up, and the acquirer may have needed but a moment more
		return silent
	}
	rt.noteError(e, r.clock.Now())
	return failed
}

func (rt *route) noteError(e *Error, now time.Time) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.lastError, rt.lastAt = e, now
}

// Health is how an acquirer does. Times are business time.
type Health struct {
	Acquirer    string
	Priority    int
	Weight      int
	State       BreakerState
	Since       time.Time // of the state; zero means since the start
	RetryAt     time.Time // when the next trial is due; zero while the breaker is closed
	LastError   *Error    // that counted against it; nil means none yet
	LastErrorAt time.Time
	LostCharges int  // which may have been made and are to be removed
	Off         *Off // since when and why it is given nothing new; nil while it is
}

// Health tells how every acquirer does, in the order of their priority.
func (r *Router) Health() []Health {
	now := r.clock.Now()
	all := make([]Health, 0, len(r.routes))
	for _, rt := range r.routes {
		h := Health{Acquirer: rt.name, Priority: rt.Priority, Weight: rt.Weight, LostCharges: r.lost.count(rt)}
		h.State, h.Since, h.RetryAt = rt.breaker.look(now)
		h.Off = rt.off.Load()
		rt.mu.Lock()
		h.LastError, h.LastErrorAt = rt.lastError, rt.lastAt
		rt.mu.Unlock()
		all = append(all, h)
	}
	return all
}
