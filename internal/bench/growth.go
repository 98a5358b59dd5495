package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/ponte-pay/ponte/internal/id"
)

const (
	rowsFew           = 1_000 // charges of the account with a short past
	growthConnections = 8
	growthMax         = 1.3 // times what a request costs with few rows
	pageP99Max        = 2.0 // times the p99 with few rows
	legsOfGrowth      = 4   // few, many, many, few: what drifts evenly cancels out
)

// growth compares what requests cost on a database with few rows and on one with many. The rows are of one account and a
// year, and requests go anywhere in it.
func (r *run) growth(ctx context.Context, e engine) error {
	var sizes [2]*past
	for i, rows := range []int{rowsFew, r.Rows} {
		p := &past{rows: rows, from: r.clock.Real().Add(-pastSpan)}
		var err error
		p.stage, err = r.raise(ctx, e, plan{name: "growth" + strconv.Itoa(i), accounts: 1, before: func(s *stage) error {
			r.say("%s charges with payouts and adjustments on %s", Number(float64(rows)), e.name)
			return p.fill(ctx, s)
		}})
		if err != nil {
			return err
		}
		defer p.stage.close()
		sizes[i] = p
	}
	for _, one := range []struct {
		name     string
		want     string
		next     func(p *past) *call
		tellsP99 bool
	}{
		{"GET of a charge", "HTTP/1.1 200", (*past).getCharge, false},
		{"GET /v1/charges, pages of 50", "HTTP/1.1 200", func(p *past) *call { return p.getPage("/v1/charges") }, false},
		{"GET /v1/transactions, pages of 50", "HTTP/1.1 200", func(p *past) *call { return p.getPage("/v1/transactions") }, true},
		{"POST /v1/charges", "HTTP/1.1 201", func(p *past) *call { return p.createCharge() }, false},
	} {
		var rates [2]float64
		var p99 [2]time.Duration
		for _, i := range [legsOfGrowth]int{0, 1, 1, 0} {
			p := sizes[i]
			r.say("%s among %s charges on %s", one.name, Number(float64(p.rows)), e.name)
			result, err := r.hammer(ctx, r.Length/2, &traffic{
				address: p.address, connections: growthConnections, want: one.want,
				next: func(scrap []byte) []byte { return one.next(p).write(scrap) },
			})
			if err != nil {
				return err
			}
			rates[i] += result.rate / 2
			p99[i] = max(p99[i], result.p99)
		}
		few, many := Number(rowsFew), Number(float64(r.Rows))
		r.add(e.rate("growth", fmt.Sprintf("%s, %s charges", one.name, few), rates[0]))
		row := e.rate("growth", fmt.Sprintf("%s, %s charges", one.name, many), rates[1])
		row.grown("the cost with "+few, rates[0]/rates[1], growthMax, rates[0]/growthMax)
		r.add(row)
		if one.tellsP99 {
			row := e.latency("growth", fmt.Sprintf("p99 of %s, %s charges", one.name, many), p99[1])
			row.grown("that with "+few, p99[1].Seconds()/p99[0].Seconds(), pageP99Max, p99[0].Seconds()*1000*pageP99Max)
			r.add(row)
		}
	}
	return nil
}

// grown adds how many times something is what it was, and the goal that it is not more than most.
func (row *Row) grown(against string, times, most, value float64) {
	row.Ratios = append(row.Ratios, Ratio{against, times, times, times})
	row.goal(fmt.Sprintf("at most %g times", most), value, times <= most)
}

// getCharge reads any charge of the past.
func (p *past) getCharge() *call {
	n := 1 + rand.Int64N(int64(p.rows)) //nolint:gosec // a load, not a secret
	return &call{address: p.address, path: "/v1/charges/" + id.Charge.Format(p.chargeID(n)), key: p.accounts[0].key}
}

// getPage reads a page from anywhere in the past but its beginning, where pages are not full.
func (p *past) getPage(path string) *call {
	at := p.from.Add(pastSpan/10 + rand.N(pastSpan*9/10)) //nolint:gosec // a load, not a secret
	return &call{
		address: p.address, path: path + "?limit=50&starting_after=" + at.Format("2006-01-02T15:04:05.000Z"), key: p.accounts[0].key,
	}
}

// chargeID returns the identifier of the nth charge, as chargeID in the statements makes it.
func (p *past) chargeID(n int64) (x id.ID) {
	milli := uint64(p.from.UnixMilli() + n*pastSpan.Milliseconds()/int64(p.rows))
	return idOf(milli, pastCharges, uint64(n))
}
