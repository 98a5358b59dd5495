package sqldb_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

const (
	insertEvent = `INSERT INTO event (account_id, id, type, data, ref) VALUES ($1, $2, $3, $4, $2)`
	selectType  = `SELECT type FROM event WHERE account_id = $1 AND id = $2`
	selectAll   = `SELECT account_id, id, type, data, CAST(NULL AS TEXT), '' FROM event WHERE account_id = $1 AND id = $2`
)

// numbered is the identifier of an event.
func numbered(i int) (x id.ID) {
	x[0], x[14], x[15] = 1, byte(i>>8), byte(i)
	return x
}

func putEvents(t *testing.T, db *sqldb.DB, numbers ...int) {
	t.Helper()
	mustWrite(t, db, func(ctx context.Context, tx *sqldb.Tx) error {
		for _, i := range numbers {
			tx.Queue(ctx, insertEvent, int64(i), numbered(i), name(i), []byte(name(i)))
		}
		return nil
	})
}

func typeOf(ctx context.Context, db *sqldb.DB, i int) (string, error) {
	return sqldb.One(ctx, db, sqldb.Scalar[string], selectType, int64(i), numbered(i))
}

// TestLookups has many read at once, by several texts: each is told about its own row, and what fails is nobody else's.
func TestLookups(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		for i := range travelers {
			putEvents(t, db, 2*i)
		}
		var reading sync.WaitGroup
		again := func(read func()) {
			reading.Go(func() {
				for range 20 {
					read()
				}
			})
		}
		for i := range 2 * travelers {
			again(func() {
				got, err := typeOf(t.Context(), db, i)
				if i%2 == 0 && (err != nil || got != name(i)) || i%2 == 1 && !errors.Is(err, sqldb.ErrNoRows) {
					t.Errorf("%s: %q, %v", name(i), got, err)
				}
			})
			again(func() {
				i := i &^ 1
				var owner int64
				var x id.ID
				var kind, empty string
				var data []byte
				null := &empty
				_, err := sqldb.One(t.Context(), db, func(r sqldb.Row) (any, error) {
					return nil, r.Scan(&owner, &x, &kind, &data, &null, &empty)
				}, selectAll, int64(i), numbered(i))
				if err != nil || owner != int64(i) || x != numbered(i) || kind != name(i) || string(data) != kind || null != nil || empty != "" {
					t.Errorf("%s: %d, %v, %q, %q, %v, %q, %v", name(i), owner, x, kind, data, null, empty, err)
				}
			})
			again(func() {
				if _, err := sqldb.One(t.Context(), db, sqldb.Scalar[string], `SELECT '' FROM event WHERE account_id = $1 AND id = $2`, int64(0), numbered(0)); err != nil {
					t.Errorf("a row of nothing: %v", err)
				}
			})
			again(func() {
				if _, err := sqldb.One(t.Context(), db, sqldb.Scalar[int64], `SELECT 1 FROM nowhere WHERE account_id = $1 AND id = $2`, int64(i), numbered(i)); err == nil {
					t.Error("found in a table that does not exist")
				}
			})
			again(func() {
				_, err := sqldb.One(t.Context(), db, sqldb.Scalar[int64], `SELECT 1 / account_id FROM event WHERE account_id = $1 AND id = $2`, int64(0), numbered(0))
				if db.IsPostgres() && err == nil {
					t.Error("divided by nothing")
				}
			})
			again(func() {
				if _, err := sqldb.One(t.Context(), db, sqldb.Scalar[string], selectType, "no number", numbered(i)); db.IsPostgres() && errors.Is(err, sqldb.ErrNoRows) {
					t.Error("looked for an account that cannot be")
				}
			})
			again(func() {
				if _, err := sqldb.One(t.Context(), db, sqldb.Scalar[string], selectType, int64(i)); err == nil {
					t.Error("an argument is missing")
				}
			})
		}
		reading.Wait()
		isIdle(t, db)
	})
}

// TestLookupScans fails and panics in scans: that is for who asked, and its connection serves on.
func TestLookupScans(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		putEvents(t, db, 0)
		errScan := errors.New("scan")
		var reading sync.WaitGroup
		for range travelers {
			reading.Go(func() {
				_, err := sqldb.One(t.Context(), db, func(sqldb.Row) (any, error) { return nil, errScan }, selectType, int64(0), numbered(0))
				if !errors.Is(err, errScan) {
					t.Errorf("got %v", err)
				}
			})
			reading.Go(func() {
				defer func() {
					if got := recover(); got != "scan" {
						t.Errorf("recovered %v", got)
					}
				}()
				_, _ = sqldb.One(t.Context(), db, func(sqldb.Row) (any, error) { panic("scan") }, selectType, int64(0), numbered(0))
			})
			reading.Go(func() {
				if _, err := sqldb.One(t.Context(), db, sqldb.Scalar[int64], selectType, int64(0), numbered(0)); err == nil {
					t.Error("a text was read as a number")
				}
			})
			reading.Go(func() {
				if got, err := typeOf(t.Context(), db, 0); err != nil || got != name(0) {
					t.Errorf("%q, %v", got, err)
				}
			})
		}
		reading.Wait()
		isIdle(t, db)
	})
}

// TestLookupsSeeWrites has each look for what it has just written, while all others do so too.
func TestLookupsSeeWrites(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		var all sync.WaitGroup
		for i := range 32 {
			all.Go(func() {
				for n := range 20 {
					x := 100*i + n
					if _, err := typeOf(t.Context(), db, x); !errors.Is(err, sqldb.ErrNoRows) {
						t.Errorf("%s before it was there: %v", name(x), err)
					}
					putEvents(t, db, x)
					if got, err := typeOf(t.Context(), db, x); err != nil || got != name(x) {
						t.Errorf("%s: %q, %v", name(x), got, err)
					}
				}
			})
		}
		all.Wait()
	})
}

// TestLookupsTravelTogether holds up as many trips as may be under way, so that all who come next wait in line. Some of these
// stop waiting, the others share what comes next.
func TestLookupsTravelTogether(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.db = sqltest.Open(t, w.URL+"&lock_timeout=0")
	w.db.SetLookupTimeMax(time.Minute)
	for i := range travelers {
		putEvents(t, w.db, i)
	}
	var reading sync.WaitGroup
	read := func(i int) {
		reading.Go(func() {
			if got, err := typeOf(t.Context(), w.db, i); err != nil || got != name(i) {
				t.Errorf("%s: %q, %v", name(i), got, err)
			}
		})
	}
	letGo := lockEvents(t, w)
	for i := range sqldb.LookupLeadsMax {
		read(i)
		w.waitHeldUp(t, int64(i)+1)
	}
	for i := range travelers {
		read(i)
	}
	sqltest.Wait(t, "all others to wait in line", func() bool { return w.db.LookupsInLine() == travelers })
	for _, limit := range []time.Duration{0, 50 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		if _, err := typeOf(ctx, w.db, 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("whoever has %v is told %v", limit, err)
		}
		cancel()
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := typeOf(ctx, w.db, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("whoever is called off is told %v", err)
	}
	before := w.Sent()
	letGo()
	reading.Wait()
	if trips := w.Sent() - before; trips > travelers/2 { // some of them to learn of the text for several
		t.Errorf("%d reads made %d trips", travelers, trips)
	}
	isIdle(t, w.db)
}

// lockEvents makes all who read events wait.
func lockEvents(t *testing.T, w *wire) (letGo func()) {
	t.Helper()
	held, err := w.gate.Begin(t.Context())
	if err == nil {
		_, err = held.Exec(t.Context(), `LOCK TABLE event IN ACCESS EXCLUSIVE MODE`)
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := held.Rollback(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestLookupSilent asks over a network that has fallen silent: a read ends with its deadline, whether it drives or waits.
func TestLookupSilent(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	putEvents(t, w.db, 0)
	if _, err := typeOf(t.Context(), w.db, 0); err != nil {
		t.Fatal(err)
	}
	w.Hold()
	var reading sync.WaitGroup
	for range travelers {
		reading.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if _, err := typeOf(ctx, w.db, 0); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, sqldb.ErrUnavailable) {
				t.Errorf("got %v", err)
			}
		})
	}
	reading.Wait()
	w.Down()
}

// TestLookupsWhileConnectionsDie ends the sessions that read for several: whoever was on the way goes alone.
func TestLookupsWhileConnectionsDie(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	putEvents(t, w.db, 0)
	var killed atomic.Bool
	var reading sync.WaitGroup
	for range travelers {
		reading.Go(func() {
			for !killed.Load() {
				if got, err := typeOf(t.Context(), w.db, 0); err != nil || got != name(0) {
					t.Errorf("%q, %v", got, err)
					return
				}
			}
		})
	}
	for range 3 {
		sqltest.Wait(t, "a session that reads for several", func() bool {
			return w.number(t, `SELECT COUNT(*) FROM (SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND query LIKE $1) k`, "SELECT v.n, q.* FROM %event WHERE account_id = %") > 0
		})
	}
	killed.Store(true)
	reading.Wait()
	isIdle(t, w.db)
}

// TestLookupThatWaits has somebody lock a table: who reads it waits alone, who reads another is answered.
func TestLookupThatWaits(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	putEvents(t, w.db, 0)
	letGo := lockEvents(t, w)
	var waiting sync.WaitGroup
	for range travelers {
		waiting.Go(func() {
			if got, err := typeOf(t.Context(), w.db, 0); err != nil || got != name(0) {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	for i := range travelers {
		_, err := sqldb.One(t.Context(), w.db, sqldb.Scalar[string], `SELECT status FROM charge WHERE account_id = $1 AND txid = $2`, int64(i), name(i))
		if !errors.Is(err, sqldb.ErrNoRows) {
			t.Errorf("another table: %v", err)
		}
	}
	letGo()
	waiting.Wait()
}

// TestLookupsWithoutAConnection reads while all connections for trips are taken: each goes alone, and not one after the other.
func TestLookupsWithoutAConnection(t *testing.T) {
	t.Parallel()
	db := sqltest.Open(t, sqltest.Postgres(t))
	putEvents(t, db, 1)
	const connections, readers, timeMax = 6, 64, 5 * time.Second
	ready, done := make(chan struct{}, connections), make(chan struct{})
	var all sync.WaitGroup
	for range connections {
		all.Go(func() {
			err := db.Apart().Read(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
				_, err := sqldb.One(ctx, tx, sqldb.Scalar[int64], `SELECT COUNT(*) FROM event`)
				ready <- struct{}{}
				<-done
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	for range connections {
		<-ready
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeMax)
	defer cancel()
	var reading sync.WaitGroup
	for range readers {
		reading.Go(func() {
			if got, err := typeOf(ctx, db, 1); got != name(1) || err != nil {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	reading.Wait()
	close(done)
	all.Wait()
}
