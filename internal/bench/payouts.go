package bench

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/money"
)

const (
	payers          = 64  // accounts, and as many connections
	payoutsRatioMin = 0.7 // times TPC-B, on PostgreSQL
	payoutsEndMax   = 2 * time.Minute
	recipients      = 1000
)

// payouts measures POST /v1/payouts against a bank in a process of its own, with settlements coming in meanwhile, and
// waits until the last has ended and everything adds up.
func (r *run) payouts(ctx context.Context, e engine) error {
	s, err := r.raise(ctx, e, plan{name: "payouts", accounts: payers})
	if err != nil {
		return err
	}
	defer s.close()
	send := traffic{
		address: s.address, connections: payers, want: "HTTP/1.1 201", isLittle: true,
		next: func(scrap []byte) []byte { return s.createPayout().write(scrap) },
	}
	r.say("POST /v1/payouts on %s", e.name)
	if err := r.warm(ctx, s, &send); err != nil {
		return err
	}
	var sent outcome
	around, err := r.between(ctx, []string{tpcb}, func() (err error) {
		// From quiet to quiet, so that each is paid for to its end.
		if err := poll(ctx, payoutsEndMax, func() bool { return s.nothingInTransit(ctx) }, "the first payouts have not all ended"); err != nil {
			return err
		}
		sent, err = r.measure(s, func() (flow, error) {
			r.say("POST /v1/payouts on %s", e.name)
			f, err := r.hammer(ctx, r.Length, &send)
			if err != nil {
				return f, err
			}
			r.say("waiting for %d payouts on %s to end", f.answers, e.name)
			return f, poll(ctx, payoutsEndMax, func() bool { return s.nothingInTransit(ctx) }, "payouts have not all ended")
		})
		return err
	})
	if err != nil {
		return err
	}
	row := e.rate("payouts", fmt.Sprintf("payouts sent, %d connections, %d accounts", payers, payers), sent.rate)
	row.spent(&sent)
	if e.isPostgres {
		row.against(around, tpcb, payoutsRatioMin)
	} else {
		row.against(around, tpcb, 0)
	}
	r.add(row)
	row = e.latency("payouts", "p99 of a payout at the top rate", sent.p99)
	row.Taken = sent.taken
	r.add(row)
	return s.audit(ctx)
}

// createPayout returns the next payout's creation.
func (s *stage) createPayout() *call {
	n := s.made.Add(1)
	return &call{
		address: s.address, path: "/v1/payouts", key: s.accounts[n%int64(len(s.accounts))].key,
		body: `{"amount":2.00,"pix_key":"person-` + strconv.FormatInt(n%recipients, 10) + `@example.org","external_id":"bench-` + strconv.FormatInt(n, 10) + `"}`,
	}
}

// nothingInTransit reports whether every payout has ended.
func (s *stage) nothingInTransit(ctx context.Context) bool {
	for _, a := range s.accounts {
		b, err := ledger.Balances(ctx, s.db, a.id, money.CurrencyBRL)
		if err != nil || b.InTransit != 0 {
			return false
		}
	}
	return true
}
