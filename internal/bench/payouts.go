package bench

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/payout"
	"github.com/ponte-pay/ponte/internal/schema"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

const (
	payers           = 64             // accounts, each with a connection of its own
	payerHas         = "100000000.00" // BRL of each
	payoutsRatioMin  = 0.7            // times TPC-B
	payoutsSQLiteMin = 0              // nothing is promised
	payoutsEndMax    = 2 * time.Minute
)

// payouts measures POST /v1/payouts against a bank in a process of its own, with settlements coming in meanwhile, and
// waits until the last has ended and everything adds up.
func (r *run) payouts(ctx context.Context, name, database string, tpcb, ratioMin float64) error {
	r.Progress("POST /v1/payouts on %s", name)
	folder := r.path("payouts-" + name)
	bank, bankURL, err := r.start(ctx, "simulator", folder)
	if err != nil {
		return err
	}
	defer stop(bank)
	server, base, err := r.start(ctx, "serve", folder, "--database="+database, "--simulator="+bankURL)
	if err != nil {
		return err
	}
	defer stop(server)
	db, err := sqldb.Open(ctx, database)
	if err != nil {
		return err
	}
	defer db.Close()
	accounts, err := newPayers(ctx, db, payers)
	if err != nil {
		return err
	}
	var made atomic.Int64
	address := base[len("http://"):]
	sent, err := hammer(ctx, r.duration(), traffic{
		address: address, connections: payers, want: "HTTP/1.1 201",
		next: func() []byte {
			n := made.Add(1)
			body := fmt.Sprintf(`{"amount":2.00,"pix_key":"person-%d@example.org","external_id":"bench-%d"}`, n%1000, n)
			return fmt.Appendf(nil, "POST /v1/payouts HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
				address, accounts[n%payers].key, len(body), body)
		},
	})
	if err != nil {
		return err
	}
	r.compare(fmt.Sprintf("%s: payouts sent, %d accounts", name, payers), sent.rate, "pgbench TPC-B", tpcb, ratioMin)
	r.plainUnit(name+": p99 of a payout", sent.p99.Seconds()*1000, "ms")
	err = poll(ctx, payoutsEndMax, func() bool {
		for _, a := range accounts {
			b, err := ledger.Balances(ctx, db, a.id, money.CurrencyBRL)
			if err != nil || b.InTransit != 0 {
				return false
			}
		}
		return true
	}, "payouts have not all ended")
	if err != nil {
		return err
	}
	result, err := ledger.Audit(ctx, db)
	if err != nil {
		return err
	}
	problems, err := payout.Audit(ctx, db)
	if problems = append(result.Problems, problems...); err == nil && len(problems) > 0 {
		err = &unsoundError{problems[0].What}
	}
	return err
}

// payer is an account with money.
type payer struct {
	id  id.Account
	key string
}

// newPayers makes accounts that may do as much as they like.
func newPayers(ctx context.Context, db *sqldb.DB, count int) (list []payer, err error) {
	c := clock.New(nil)
	if _, err := schema.Migrate(ctx, db, c.Real()); err != nil {
		return nil, err
	}
	accounts := account.New(db, c, rand.Reader)
	books := ledger.New(db, id.NewGenerator(c.Now, rand.Reader), c)
	has, err := money.ParseAmount(money.CurrencyBRL, payerHas)
	if err != nil {
		return nil, err
	}
	for range count {
		a, key, err := accounts.Create(ctx, account.Params{Name: "bench"})
		if err == nil {
			_, err = accounts.Set(ctx, a.ID, []string{"rate_limit=1000000"})
		}
		if err == nil {
			_, err = books.Adjust(ctx, a.ID, has, "bench")
		}
		if err != nil {
			return nil, err
		}
		list = append(list, payer{a.ID, key})
	}
	return list, nil
}
