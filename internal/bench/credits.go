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

// credits measures credits a second to one account from so many goroutines, with the folder running beside them.
func (r *run) credits(ctx context.Context, url string, goroutines int) (float64, error) {
	db, err := sqldb.Open(ctx, url)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	c := clock.New(nil)
	// What is posted here can never be deleted.
	if err := schema.Check(ctx, db); !errors.Is(err, schema.ErrEmpty) {
		return 0, errors.New("bench: the database is not empty")
	}
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
	if err := warm(ctx, goroutines, post); err != nil {
		return 0, err
	}
	work, stop := context.WithTimeout(ctx, r.duration())
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
		for c.Wait(work, 50*time.Millisecond) == nil {
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

// warm posts often enough at once that every connection exists and has its statements before the clock starts.
func warm(ctx context.Context, goroutines int, post func(context.Context) error) error {
	const each = 50
	failures := make(chan error, goroutines)
	for range goroutines {
		go func() {
			var failed error
			for range each {
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

// unsoundError says that a measurement broke the ledger: then its speed means nothing.
type unsoundError struct{ what string }

func (e *unsoundError) Error() string {
	return "bench: after the measurement the audit says: " + e.what
}

// liteCredits compares many writers on SQLite with one that commits by itself each time.
func (r *run) liteCredits(ctx context.Context) error {
	r.Progress("credits on SQLite, one at a time")
	alone, err := r.credits(ctx, "sqlite:"+r.path("alone.db"), 1)
	if err != nil {
		return err
	}
	r.Progress("credits on SQLite, %d at once", creditors)
	grouped, err := r.credits(ctx, "sqlite:"+r.path("grouped.db"), creditors)
	if err != nil {
		return err
	}
	r.plain("SQLite: credits one at a time", alone)
	r.compare("SQLite: credits to one account", grouped, "one at a time", alone, creditsRatioMin)
	return nil
}
