package sqldb_test

import (
	"context"
	"testing"

	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

// TestTendGathersStatistics lets a new table grow: PostgreSQL knows it as soon as there is something in it.
func TestTendGathersStatistics(t *testing.T) {
	t.Parallel()
	url := sqltest.Postgres(t)
	db, direct := sqltest.Open(t, url), connect(t, url)
	known := func() (rows float64) {
		if err := direct.QueryRow(t.Context(), `SELECT reltuples FROM pg_class WHERE relname = 'clock'`).Scan(&rows); err != nil {
			t.Fatal(err)
		}
		return rows
	}
	put(t, db, "first")
	tend(t, db)
	if rows := known(); rows >= 0 {
		t.Errorf("a table of one row is known to have %v", rows)
	}
	const many = 2000
	mustWrite(t, db, func(ctx context.Context, tx *sqldb.Tx) error {
		for i := range many {
			tx.Queue(ctx, insertClock, name(i), 0)
		}
		return nil
	})
	tend(t, db)
	if rows := known(); rows != many+1 {
		t.Errorf("a table of %d rows is known to have %v", many+1, rows)
	}
	// Once: it may not be allowed to.
	if _, err := direct.Exec(t.Context(), `UPDATE pg_class SET reltuples = -1 WHERE relname = 'clock'`); err != nil {
		t.Fatal(err)
	}
	tend(t, db)
	if rows := known(); rows >= 0 {
		t.Errorf("asked for again: %v", rows)
	}
}
