package bench

import (
	"context"
	"errors"
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
)

// legsOfGrowth are turns on few rows (0) and on many (1): what drifts evenly cancels out, and so does what drifts faster and
// faster.
var legsOfGrowth = [...]int{0, 1, 1, 0, 1, 0, 0, 1}

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
		{"GET of an expired charge", "HTTP/1.1 200", (*past).getCharge, false},
		{"GET /v1/charges, pages of 50", "HTTP/1.1 200", func(p *past) *call { return p.getPage("/v1/charges") }, false},
		{"GET /v1/transactions, pages of 50", "HTTP/1.1 200", func(p *past) *call { return p.getPage("/v1/transactions") }, true},
		{"POST /v1/charges", "HTTP/1.1 201", func(p *past) *call { return p.createCharge() }, false},
	} {
		var legs [2]leg
		for _, i := range legsOfGrowth {
			p := sizes[i]
			r.say("%s among %s charges on %s", one.name, Number(float64(p.rows)), e.name)
			before := p.work()
			result, err := r.hammer(ctx, 2*r.Length/time.Duration(len(legsOfGrowth)), &traffic{
				address: p.address, connections: growthConnections, want: one.want,
				next: func(scrap []byte) []byte { return one.next(p).write(scrap) },
			})
			if err != nil {
				return err
			}
			if result.answers == 0 {
				return errors.New("bench: nothing was answered: measure for longer")
			}
			legs[i].add(&result, p.work().since(before))
		}
		few, many := Number(rowsFew), Number(float64(r.Rows))
		r.add(e.rate("growth", fmt.Sprintf("%s, %s charges", one.name, few), legs[0].rate))
		row := e.rate("growth", fmt.Sprintf("%s, %s charges", one.name, many), legs[1].rate)
		row.grown("the time with "+few, legs[0].rate/legs[1].rate)
		grown := legs[0].rate / legs[1].rate
		if legs[0].cpu > 0 && legs[1].cpu > 0 { // the system tells
			grown = legs[1].cost() / legs[0].cost()
			row.grown("the CPU with "+few, grown)
		}
		row.goal(fmt.Sprintf("at most %g times", growthMax), legs[0].rate/growthMax, grown <= growthMax)
		r.add(row)
		if one.tellsP99 {
			row := e.latency("growth", fmt.Sprintf("p99 of %s, %s charges", one.name, many), legs[1].p99)
			grown := legs[1].p99.Seconds() / legs[0].p99.Seconds()
			row.grown("that with "+few, grown)
			row.goal(fmt.Sprintf("at most %g times", pageP99Max), legs[0].p99.Seconds()*1000*pageP99Max, grown <= pageP99Max)
			r.add(row)
		}
	}
	return nil
}

// leg is what was measured on one of the databases, in all its turns.
type leg struct {
	rate    float64       // the mean
	p99     time.Duration // the higher one
	answers int64
	cpu     time.Duration // of server and database together
}

func (l *leg) add(f *flow, spent work) {
	l.rate += f.rate / float64(len(legsOfGrowth)/2)
	l.p99 = max(l.p99, f.p99)
	l.answers += f.answers
	l.cpu += spent.server + spent.database
}

// cost is the CPU of one request.
func (l *leg) cost() float64 { return l.cpu.Seconds() / float64(l.answers) }

// grown adds how many times something is what it was.
func (row *Row) grown(against string, times float64) {
	row.Ratios = append(row.Ratios, Ratio{against, times, times, times})
}

// getCharge reads any charge of the past that has expired. Nobody keeps copies of those, so that the database is asked for each.
func (p *past) getCharge() *call {
	n := 10 * (1 + rand.Int64N(int64(p.rows/10))) //nolint:gosec // a load, not a secret
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
