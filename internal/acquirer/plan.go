package acquirer

import (
	"context"

	"github.com/ponte-pay/ponte/internal/clock"
)

// Payer returns the acquirer with that name if it pays out, whatever its breaker says: what was sent there can be asked
// about, and be sent again, nowhere else.
func (r *Router) Payer(name string) (Payer, bool) {
	a, _ := r.Get(name)
	p, ok := a.(Payer)
	return p, ok
}

// PlanPayout returns the acquirers that may be asked for one payout, those that pay out and whose breakers let it
// through, by priority and weight. Close it.
//
// The two ways in which all can be down show apart. When the first Next finds nobody, nothing has happened yet, and
// nothing need be stored. When a later one does, every turn so far was refused, with the money held.
//
//	plan := router.PlanPayout()
//	defer plan.Close()
//	for turn, ok := plan.Next(); ok; turn, ok = plan.Next() {
//		// store that turn.Acquirer is about to be asked
//		payout, err := turn.Send(ctx, n)
//		// go on only after IsRefused(err), and only when another acquirer may do better
//	}
//
// Unlike for charges, nobody is asked as a last resort before a trial is due: who wants money sent is better told at
// once to come again than that it was held and given back.
func (r *Router) PlanPayout() *Plan {
	var payers []*route
	for _, rt := range r.routes {
		if rt.payer != nil {
			payers = append(payers, rt)
		}
	}
	on, off := split(payers)
	return &Plan{router: r, left: r.order(usePayout, on), passed: passed(off)}
}

// Plan is the acquirers that are left for one payout. It is for one goroutine.
type Plan struct {
	router *Router
	left   []*route
	passed []Attempt
	turn   *Turn // the last one; nil for none
	turns  int
}

// Passed returns the acquirers that were passed over so far, and why.
func (p *Plan) Passed() []Attempt { return p.passed }

// Next returns the next acquirer to be asked. The turn before it is over, used or not.
func (p *Plan) Next() (*Turn, bool) {
	p.Close()
	for len(p.left) > 0 {
		rt := p.left[0]
		p.left = p.left[1:]
		if rt.off.Load() != nil { // since the plan was made
			p.passed = append(p.passed, passed([]*route{rt})...)
			continue
		}
		ticket, why, ok := rt.breaker.enter(p.router.clock.Now())
		if !ok {
			p.passed = append(p.passed, Attempt{Acquirer: rt.name, Reason: why, Outcome: Skipped})
			continue
		}
		if why == "" {
			why = ReasonFirst
			if p.turns > 0 {
				why = ReasonFailover
			}
		}
		p.turns++
		p.turn = &Turn{Acquirer: rt.name, Reason: why, router: p.router, route: rt, ticket: ticket}
		return p.turn, true
	}
	return nil, false
}

// Close ends the last turn. It may be called more than once, and Next can still follow.
func (p *Plan) Close() {
	if p.turn != nil {
		p.turn.end(silent)
		p.turn = nil
	}
}

// Turn is the right to ask one acquirer once.
type Turn struct {
	Acquirer string
	Reason   Reason

	router *Router
	route  *route
	ticket ticket
	over   bool
}

// end hands the right back.
func (t *Turn) end(v verdict) {
	if !t.over {
		t.over = true
		t.route.breaker.leave(t.ticket, v, t.router.clock.Now())
	}
}

// Send sends the payout, within [TryTimeMax], and tells the breaker how that went. It fails as [Payer.SendPayout] does. A
// turn that is over refuses: an acquirer is asked once in a turn.
func (t *Turn) Send(ctx context.Context, n NewPayout) (Payout, error) {
	if t.over {
		return Payout{}, &Error{Acquirer: t.Acquirer, Operation: "payout.send", Outcome: Refused, Class: Protocol, Message: "the turn is over"}
	}
	v := silent // also when the driver panics
	defer func() { t.end(v) }()
	limited, cancel := clock.Within(ctx, t.router.limits.try)
	defer cancel()
	began := t.router.clock.Real()
	payout, err := t.route.payer.SendPayout(limited, n)
	told := Attempt{Acquirer: t.Acquirer, Reason: t.Reason, Outcome: Accepted, Took: t.router.clock.RealSince(began)}
	defer func() { t.router.recent.add(usePayout, n.ID, t.router.clock.Now(), told) }()
	if err == nil {
		v = worked
		return payout, nil
	}
	e := As(err)
	told.Outcome, told.Err = e.Outcome, e
	v = t.router.verdict(ctx, t.route, e)
	return Payout{}, e
}
