package bench

import (
	"context"
	"time"
)

const (
	chargeConnections = 64

	createPostgresMin = 1.3                    // times TPC-B
	createSQLiteMin   = 2.0                    // times TPC-B
	createTopP99Max   = 100 * time.Millisecond // at the top rate
	createHalfP99Max  = 25 * time.Millisecond  // at half of it
	halfOfTheTop      = 0.5
	halfLengths       = 3 // for so many times as long: of five seconds, one pause of the disk of 50 ms would be the slowest hundredth
)

// create measures charges over HTTP against a bank in a process of its own: as many as go, then half as many at an even
// pace.
func (r *run) create(ctx context.Context, e engine) error {
	s, err := r.raise(ctx, e, plan{name: "create", accounts: 1})
	if err != nil {
		return err
	}
	defer s.close()
	send := traffic{
		address: s.address, connections: chargeConnections, want: "HTTP/1.1 201", isLittle: true,
		next: func(scrap []byte) []byte { return s.createCharge().write(scrap) },
	}
	r.say("POST /v1/charges on %s", e.name)
	if err := r.warm(ctx, s, &send); err != nil {
		return err
	}
	own, ratioMin := liteCommits, createSQLiteMin
	if e.isPostgres {
		own, ratioMin = oneInsert, createPostgresMin
	}
	var top outcome
	around, err := r.between(ctx, []string{tpcb, own}, func() (err error) {
		r.say("POST /v1/charges on %s", e.name)
		top, err = r.measure(s, func() (flow, error) { return r.hammer(ctx, r.Length, &send) })
		return err
	})
	if err != nil {
		return err
	}
	row := e.rate("create", "charges created, 64 connections", top.rate)
	row.spent(&top)
	row.against(around, tpcb, ratioMin)
	row.against(around, own, 0)
	r.add(row)
	row = e.latency("create", "p99 of a creation at the top rate", top.p99)
	row.Taken = top.taken
	row.under(float64(createTopP99Max.Milliseconds()))
	r.add(row)

	r.say("POST /v1/charges on %s at half of the top rate", e.name)
	if err := r.rest(ctx); err != nil {
		return err
	}
	send.perSecond = top.rate * halfOfTheTop
	half, err := r.measure(s, func() (flow, error) { return r.hammer(ctx, halfLengths*r.Length, &send) })
	if err != nil {
		return err
	}
	row = e.latency("create", "p99 of a creation at half of the top rate", half.p99)
	row.spent(&half)
	row.under(float64(createHalfP99Max.Milliseconds()))
	r.add(row)
	row = e.latency("create", "the middle one of them", half.p50)
	row.Taken = half.taken
	r.add(row)
	return nil
}
