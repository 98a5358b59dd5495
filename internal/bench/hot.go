package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/schema"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

const (
	creditsRatioMin = 3 // grouped or beside the balance, against one at a time or the locked row
	settleRatioMin  = 0.6
	payConnections  = 32
	chargesPaid     = 20_000 // at most; enough to see a rate
	settleTimeMax   = 2 * time.Minute
	warmCredits     = 50 // by each writer
	foldEvery       = 50 * time.Millisecond
)

// hot measures what one account can be credited: in the ledger alone, then by the callbacks of its charges.
func (r *run) hot(ctx context.Context, e engine) error {
	var rate, alone float64
	names := []string{hotRow}
	if !e.isPostgres {
		r.say("credits on SQLite, one at a time")
		var err error
		if alone, err = r.credits(ctx, e, "alone", 1); err != nil {
			return err
		}
		names = []string{liteCommits}
	}
	around, err := r.between(ctx, names, func() (err error) {
		r.say("credits on %s, %d at once", e.name, creditors)
		rate, err = r.credits(ctx, e, "credits", creditors)
		return err
	})
	if err != nil {
		return err
	}
	row := e.rate("hot", "credits to one account, 32 at once", rate)
	if e.isPostgres {
		row.against(around, hotRow, creditsRatioMin)
	} else {
		row.against([]bracket{{name: "one at a time", before: alone, after: alone}}, "one at a time", creditsRatioMin)
		row.against(around, liteCommits, 0)
	}
	r.add(row)
	return r.settle(ctx, e)
}

// settle measures how many charges of one account a second are credited when all are paid at once, beside how many can be
// made.
func (r *run) settle(ctx context.Context, e engine) error {
	s, err := r.raise(ctx, e, plan{name: "settle", accounts: 1})
	if err != nil {
		return err
	}
	defer s.close()
	var mu sync.Mutex
	var txids []string
	create := traffic{
		address: s.address, connections: chargeConnections, want: "HTTP/1.1 201",
		next: func(scrap []byte) []byte { return s.createCharge().write(scrap) },
		each: func(body []byte) {
			mu.Lock()
			defer mu.Unlock()
			if len(txids) < chargesPaid {
				txids = append(txids, string(valueOf(body, "txid")))
			}
		},
	}
	r.say("charges of one account on %s", e.name)
	if err := r.warm(ctx, s, &create); err != nil {
		return err
	}
	created, err := r.hammer(ctx, r.Length, &create)
	if err != nil {
		return err
	}
	r.say("paying %d charges of one account on %s", len(txids), e.name)
	var at atomic.Int64
	before, started := s.work(), r.clock.Real()
	_, err = r.hammer(ctx, settleTimeMax, &traffic{
		address: s.bankAt, connections: payConnections, want: "HTTP/1.1 200",
		next: func(scrap []byte) []byte {
			n := at.Add(1) - 1
			if n >= int64(len(txids)) {
				return nil
			}
			return s.payCharge(txids[n]).write(scrap)
		},
	})
	if err != nil {
		return err
	}
	want := money.BRL(len(txids)) * chargeGets
	err = poll(ctx, settleTimeMax, func() bool {
		got, err := s.credited(ctx)
		return err == nil && got >= want
	}, "the payments are not all in the balance")
	if err != nil {
		return err
	}
	row := e.rate("hot", "charges of one account settled by callbacks", float64(len(txids))/r.clock.RealSince(started).Seconds())
	row.CPU = s.work().since(before).parts(int64(len(txids)))
	row.against([]bracket{{name: "creations", before: created.rate, after: created.rate}}, "creations", settleRatioMin)
	r.add(row)
	return s.audit(ctx)
}

// credits measures credits a second to one account from so many goroutines, with the folder running beside them.
func (r *run) credits(ctx context.Context, e engine, name string, goroutines int) (float64, error) {
	url, err := e.fresh(ctx, name)
	if err != nil {
		return 0, err
	}
	db, err := sqldb.Open(ctx, url)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	c := clock.New(nil)
	if _, err := schema.Migrate(ctx, db, c.Real()); err != nil {
		return 0, err
	}
	l := ledger.New(db, id.NewGenerator(c.Now, rand.Reader), c)
	account := id.NewAccount(rand.Reader)
	err = db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		ledger.Open(ctx, tx, account)
		return nil
	})
	if err != nil {
		return 0, err
	}
	post := func(ctx context.Context) error {
		return l.Write(ctx, func(ctx context.Context, tx *ledger.Tx) error {
			return tx.Post(ctx, &ledger.Transfer{
				Account: account, Amount: money.BRL(100).Amount(),
				Source: ledger.Acquirer, Target: ledger.Available, Kind: "bench",
			})
		})
	}
	if err := warmCreditors(ctx, goroutines, post); err != nil {
		return 0, err
	}
	work, stop := context.WithTimeout(ctx, r.Length)
	defer stop()
	var posted atomic.Int64
	var failed atomic.Pointer[error]
	note := func(err error) {
		if err != nil && work.Err() == nil {
			failed.Store(&err)
			stop()
		}
	}
	started := c.Real()
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for work.Err() == nil {
				err := post(work)
				if err == nil {
					posted.Add(1)
				}
				note(err)
			}
		})
	}
	wg.Go(func() {
		for c.Wait(work, foldEvery) == nil {
			_, err := l.Step(work)
			note(err)
		}
	})
	wg.Wait()
	took := c.RealSince(started)
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	result, err := ledger.Audit(ctx, db)
	if err == nil && len(result.Problems) > 0 {
		err = &unsoundError{result.Problems[0].What}
	}
	return float64(posted.Load()) / took.Seconds(), err
}

// warmCreditors posts often enough at once that every connection exists and has its statements before the clock starts.
func warmCreditors(ctx context.Context, goroutines int, post func(context.Context) error) error {
	failures := make(chan error, goroutines)
	for range goroutines {
		go func() {
			var failed error
			for range warmCredits {
				failed = errors.Join(failed, post(ctx))
			}
			failures <- failed
		}()
	}
	var failed error
	for range goroutines {
		failed = errors.Join(failed, <-failures)
	}
	return failed
}
