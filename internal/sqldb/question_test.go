package sqldb_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

const selectNamed = `SELECT 1 FROM clock WHERE name = $1`

// TestTryLockAsking asks from many goroutines: each is told about its own row, and a question that fails is nobody else's.
func TestTryLockAsking(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		mustWrite(t, db, func(ctx context.Context, tx *sqldb.Tx) error {
			for i := range travelers {
				tx.Queue(ctx, insertClock, name(2*i), 0)
			}
			return nil
		})
		var asking sync.WaitGroup
		for i := range 2 * travelers {
			asking.Go(func() {
				for range 20 {
					l, found, err := db.TryLockAsking(t.Context(), []int64{int64(i)}, selectNamed, name(i))
					if err != nil || found != (i%2 == 0) {
						t.Errorf("%s: %v, %v", name(i), found, err)
						return
					}
					l.Unlock(t.Context())
				}
			})
			asking.Go(func() {
				key := int64(i + 1000)
				if _, _, err := db.TryLockAsking(t.Context(), []int64{key}, `SELECT 1 FROM nowhere WHERE name = $1`, name(i)); err == nil {
					t.Error("found in a table that does not exist")
				}
				lock(t, db, key).Unlock(t.Context()) // nobody holds it
			})
			asking.Go(func() {
				key := int64(i + 2000)
				if _, _, err := db.TryLockAsking(t.Context(), []int64{key}, `SELECT 1 FROM clock WHERE offset_us = $1 / offset_us`, i); db.IsPostgres() && err == nil {
					t.Error("divided by nothing")
				}
			})
		}
		asking.Wait()
		held := lock(t, db, 7)
		if _, _, err := db.TryLockAsking(t.Context(), []int64{7}, selectNamed, name(0)); !errors.Is(err, sqldb.ErrLocked) {
			t.Errorf("what somebody holds: %v", err)
		}
		held.Unlock(t.Context())
		mustWrite(t, db, func(ctx context.Context, _ *sqldb.Tx) error {
			if _, _, err := db.TryLockAsking(ctx, []int64{7}, selectNamed, name(0)); !errors.Is(err, sqldb.ErrNested) {
				t.Errorf("inside a transaction: %v", err)
			}
			return nil
		})
		isIdle(t, db)
	})
}

// TestAskedAfterTheLock has two processes each make what is not there yet: who has the lock sees what the one before made.
func TestAskedAfterTheLock(t *testing.T) {
	t.Parallel()
	url := sqltest.Postgres(t)
	var made atomic.Int64
	var running sync.WaitGroup
	for range 2 {
		db := sqltest.Open(t, url)
		for i := range travelers {
			running.Go(func() {
				for n := range 20 {
					thing := name(n)
					l, found, err := db.TryLockAsking(t.Context(), []int64{int64(n)}, selectNamed, thing)
					if errors.Is(err, sqldb.ErrLocked) {
						continue
					}
					if err != nil {
						t.Errorf("%d: %v", i, err)
						return
					}
					if !found {
						made.Add(1)
						put(t, db, thing)
					}
					l.Unlock(t.Context())
				}
			})
		}
	}
	running.Wait()
	if made.Load() != 20 {
		t.Errorf("made %d things of 20", made.Load())
	}
}

// TestAskingWhileConnectionsDie shows that a round trip that is cut is made again, and its questions asked by each.
func TestAskingWhileConnectionsDie(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	put(t, w.db, "here")
	var killed atomic.Bool
	var asking sync.WaitGroup
	for i := range travelers {
		asking.Go(func() {
			for !killed.Load() {
				l, found, err := w.db.TryLockAsking(t.Context(), []int64{int64(i)}, selectNamed, "here")
				if err != nil || !found {
					t.Errorf("%v, %v", found, err)
					return
				}
				l.Unlock(t.Context())
			}
		})
	}
	sqltest.Wait(t, "a session that asks for several", func() bool {
		return w.number(t, `SELECT COUNT(*) FROM (SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND query LIKE $1) k`, "SELECT v.n FROM %clock WHERE name = %") > 0
	})
	killed.Store(true)
	asking.Wait()
}

// TestQuestionThatWaits has somebody lock the table that a question is about: who only wants a lock does not wait with it.
func TestQuestionThatWaits(t *testing.T) {
	t.Parallel()
	url := sqltest.Postgres(t)
	db, direct, watch := sqltest.Open(t, url), connect(t, url), connect(t, url)
	put(t, db, "here")
	for _, text := range []string{selectNamed, `SELECT 1 FROM clock WHERE name = $1 LIMIT 1`} { // one is known before, one is not
		if text == selectNamed {
			l, _, err := db.TryLockAsking(t.Context(), []int64{1}, text, "here")
			if err != nil {
				t.Fatal(err)
			}
			l.Unlock(t.Context())
		}
		held, err := direct.Begin(t.Context())
		if err == nil {
			_, err = held.Exec(t.Context(), `LOCK TABLE clock IN ACCESS EXCLUSIVE MODE`)
		}
		if err != nil {
			t.Fatal(err)
		}
		answered := make(chan bool, 1)
		go func() {
			l, found, err := db.TryLockAsking(t.Context(), []int64{1}, text, "here")
			if err != nil {
				t.Error(err)
			} else {
				l.Unlock(t.Context())
			}
			answered <- found
		}()
		sqltest.Wait(t, "the question to wait by itself", func() bool {
			var waiting int
			err := watch.QueryRow(t.Context(), `SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE 'SELECT 1 FROM clock%'`).Scan(&waiting)
			return err == nil && waiting == 1
		})
		for range 20 { // for longer than a question may hold them up
			lock(t, db, 2).Unlock(t.Context())
		}
		select {
		case <-answered:
			t.Error("answered while the table is locked")
		default:
		}
		if err := held.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !<-answered {
			t.Error("not found")
		}
	}
}
