package sqldb_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

const selectShared = `SELECT offset_us FROM clock WHERE name = 'shared'`

// TestSharedLook has many ask while one writes: each sees what was committed before it asked, and most share their looks.
func TestSharedLook(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		put(t, db, "shared")
		var looks, asked, committed atomic.Int64
		shared := sqldb.NewSharedLook(db, func(r sqldb.Row) (int64, error) {
			looks.Add(1)
			time.Sleep(time.Millisecond) // so that the others have time to ask
			return sqldb.Scalar[int64](r)
		}, selectShared)
		ended := make(chan struct{})
		var asking sync.WaitGroup
		for range 16 {
			asking.Go(func() {
				for {
					select {
					case <-ended:
						return
					default:
					}
					before := committed.Load()
					saw, err := shared.Ask(t.Context())
					if err != nil || saw < before {
						t.Errorf("saw %d, %v, although %d was there", saw, err, before)
						return
					}
					asked.Add(1)
				}
			})
		}
		for i := range int64(300) {
			mustWrite(t, db, func(ctx context.Context, tx *sqldb.Tx) error {
				tx.Queue(ctx, `UPDATE clock SET offset_us = $1 WHERE name = 'shared'`, i)
				return nil
			})
			committed.Store(i)
		}
		sqltest.Wait(t, "a hundred answers", func() bool { return asked.Load() >= 100 })
		close(ended)
		asking.Wait()
		if looks.Load() > asked.Load()/4 {
			t.Errorf("%d looks for %d questions", looks.Load(), asked.Load())
		}
		isIdle(t, db)
	})
}

// TestSharedLookFailures lets looks fail, panic and be asked for by who has gone: nobody waits for ever, and the next ask in peace.
func TestSharedLookFailures(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		nowhere := sqldb.NewSharedLook(db, sqldb.Scalar[int64], `SELECT 1 FROM nowhere`)
		if _, err := nowhere.Ask(t.Context()); err == nil {
			t.Error("found in a table that does not exist")
		}
		var looks atomic.Int64
		shared := sqldb.NewSharedLook(db, func(r sqldb.Row) (int64, error) {
			if looks.Add(1)%2 == 1 {
				time.Sleep(time.Millisecond)
				panic("in a scan")
			}
			return sqldb.Scalar[int64](r)
		}, selectShared)
		put(t, db, "shared")
		gone, leave := context.WithCancel(t.Context())
		leave()
		var answers atomic.Int64
		var asking sync.WaitGroup
		for range 16 {
			asking.Go(func() {
				for range 20 {
					func() {
						defer func() { _ = recover() }()
						if _, err := shared.Ask(gone); err == nil {
							answers.Add(1)
						}
					}()
				}
			})
		}
		asking.Wait()
		if answers.Load() == 0 {
			t.Error("nobody was answered")
		}
		isIdle(t, db)
	})
}
