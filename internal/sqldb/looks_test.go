package sqldb_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

const selectNamed = `SELECT 1 FROM clock WHERE name = $1`

// TestAny asks from many goroutines: each is told about its own row, and a question that fails is nobody else's.
func TestAny(t *testing.T) {
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
					if found, err := db.Any(t.Context(), selectNamed, name(i)); err != nil || found != (i%2 == 0) {
						t.Errorf("%s: %v, %v", name(i), found, err)
					}
				}
			})
			asking.Go(func() {
				if _, err := db.Any(t.Context(), `SELECT 1 FROM nowhere WHERE name = $1`, name(i)); err == nil {
					t.Error("found in a table that does not exist")
				}
			})
		}
		asking.Wait()
		mustWrite(t, db, func(ctx context.Context, _ *sqldb.Tx) error {
			if _, err := db.Any(ctx, selectNamed, name(0)); !errors.Is(err, sqldb.ErrNested) {
				t.Errorf("inside a transaction: %v", err)
			}
			return nil
		})
		isIdle(t, db)
	})
}

// TestAnyWhileConnectionsDie shows that a round trip that is cut is asked again by each.
func TestAnyWhileConnectionsDie(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	put(t, w.db, "here")
	var asking sync.WaitGroup
	for range travelers {
		asking.Go(func() {
			for range 20 {
				if found, err := w.db.Any(t.Context(), selectNamed, "here"); err != nil || !found {
					t.Errorf("%v, %v", found, err)
				}
			}
		})
	}
	for range 2 { // fewer than it is asked, or one may meet only the dead
		w.exec(t, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE $1`, "SELECT v.n FROM %clock WHERE name = %")
	}
	asking.Wait()
}
