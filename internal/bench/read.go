package bench

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

const (
	readConnections = 64
	readAccounts    = 8   // so that no account comes near its rate limit
	paidCharges     = 400 // that are read, in any order
	readPaidMax     = time.Minute

	paidRatioMin   = 0.5  // of an empty handler
	balanceRateMin = 8000 // a second
)

// read measures requests that change nothing, beside a server that does nothing.
func (r *run) read(ctx context.Context, e engine) error {
	s, err := r.raise(ctx, e, plan{name: "read", accounts: readAccounts})
	if err != nil {
		return err
	}
	defer s.close()
	r.say("paid charges on %s", e.name)
	paid, err := r.paidCharges(ctx, s)
	if err != nil {
		return err
	}
	for _, one := range []struct {
		name string
		next func() *call
		goal func(row *Row, around []bracket)
	}{
		{
			"GET of a paid charge", func() *call { return paid[rand.IntN(len(paid))] }, //nolint:gosec // a load, not a secret
			func(row *Row, around []bracket) { row.against(around, emptyHandler, paidRatioMin) },
		},
		{
			"GET /v1/balance", func() *call {
				return &call{address: s.address, path: "/v1/balance", key: s.accounts[rand.IntN(len(s.accounts))].key} //nolint:gosec // a load, not a secret
			},
			func(row *Row, around []bracket) {
				row.against(around, emptyHandler, 0)
				row.atLeast(balanceRateMin)
			},
		},
	} {
		var result outcome
		around, err := r.between(ctx, []string{emptyHandler}, func() (err error) {
			r.say("%s on %s", one.name, e.name)
			send := traffic{
				address: s.address, connections: readConnections, want: "HTTP/1.1 200",
				next: func(scrap []byte) []byte { return one.next().write(scrap) },
			}
			result, err = r.measure(s, func() (flow, error) { return r.hammer(ctx, r.Length, &send) })
			return err
		})
		if err != nil {
			return err
		}
		row := e.rate("read", one.name, result.rate)
		row.spent(&result)
		one.goal(row, around)
		r.add(row)
	}
	return nil
}

// paidCharges makes charges, has them paid, and returns how each is read.
func (r *run) paidCharges(ctx context.Context, s *stage) (reads []*call, err error) {
	shop, err := r.dial(ctx, s.address)
	if err != nil {
		return nil, err
	}
	defer shop.close()
	bank, err := r.dial(ctx, s.bankAt)
	if err != nil {
		return nil, err
	}
	defer bank.close()
	for range paidCharges {
		create := s.createCharge()
		answer, err := shop.ask(ctx, create.write(nil), "HTTP/1.1 201", true)
		if err != nil {
			return nil, err
		}
		reads = append(reads, &call{address: s.address, path: "/v1/charges/" + string(valueOf(answer, "id")), key: create.key})
		if _, err := bank.ask(ctx, s.payCharge(string(valueOf(answer, "txid"))).write(nil), "HTTP/1.1 200", false); err != nil {
			return nil, err
		}
	}
	err = poll(ctx, readPaidMax, func() bool {
		got, err := s.credited(ctx)
		return err == nil && got == paidCharges*chargeGets
	}, "the charges are not all paid")
	if err != nil {
		return nil, err
	}
	answer, err := shop.ask(ctx, reads[0].write(nil), "HTTP/1.1 200", true)
	if err == nil && string(valueOf(answer, "status")) != "paid" {
		err = errors.New("bench: a charge is not paid after all: " + string(answer))
	}
	return reads, err
}
