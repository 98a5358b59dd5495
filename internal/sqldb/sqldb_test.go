package sqldb_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

// The table clock serves as a set of names with a number that must not be negative.
const (
	insertClock  = `INSERT INTO clock (name, offset_us) VALUES ($1, $2)`
	insertOnce   = `INSERT INTO clock (name, offset_us) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING`
	returnClock  = `INSERT INTO clock (name, offset_us) VALUES ($1, $2) RETURNING name`
	raiseClock   = `UPDATE clock SET offset_us = offset_us + 1 WHERE name = $1`
	setClock     = `UPDATE clock SET offset_us = $2 WHERE name = $1`
	selectClock  = `SELECT offset_us FROM clock WHERE name = $1`
	selectClocks = `SELECT name FROM clock ORDER BY name`
)

func clocks(t *testing.T, q sqldb.Querier) []string {
	t.Helper()
	names, err := sqldb.All(context.Background(), q, sqldb.Scalar[string], selectClocks)
	if err != nil {
		t.Error(err)
	}
	return names
}

func mustWrite(t *testing.T, db *sqldb.DB, f func(ctx context.Context, tx *sqldb.Tx) error) {
	t.Helper()
	if err := db.Write(context.Background(), f); err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, db *sqldb.DB, names ...string) {
	t.Helper()
	mustWrite(t, db, func(ctx context.Context, tx *sqldb.Tx) error {
		for _, name := range names {
			tx.Queue(ctx, insertClock, name, 0)
		}
		return nil
	})
}

// isIdle fails the test when a connection was not given back.
func isIdle(t *testing.T, db *sqldb.DB) {
	t.Helper()
	sqltest.Wait(t, "all connections to be back", db.Idle)
}

func TestStickyErrors(t *testing.T) {
	t.Parallel()
	errScan := errors.New("scan")
	tests := map[string]struct {
		fail func(ctx context.Context, tx *sqldb.Tx) error // the first failure
		want error
	}{
		"exec": {want: sqldb.ErrConflict, fail: func(ctx context.Context, tx *sqldb.Tx) error {
			_, err := tx.Exec(ctx, insertClock, "taken", 0)
			return err
		}},
		"queue": {want: sqldb.ErrConflict, fail: func(ctx context.Context, tx *sqldb.Tx) error {
			tx.Queue(ctx, insertClock, "taken", 0)
			_, err := tx.Exec(ctx, raiseClock, "taken")
			return err
		}},
		"query": {want: sqldb.ErrConflict, fail: func(ctx context.Context, tx *sqldb.Tx) error {
			_, err := sqldb.One(ctx, tx, sqldb.Scalar[string], returnClock, "taken", 0)
			return err
		}},
		"script": {want: sqldb.ErrConflict, fail: func(ctx context.Context, tx *sqldb.Tx) error {
			return tx.Script(ctx, `INSERT INTO clock (name, offset_us) VALUES ('more', 0); INSERT INTO clock (name, offset_us) VALUES ('taken', 0)`)
		}},
		"scan": {want: errScan, fail: func(ctx context.Context, tx *sqldb.Tx) error {
			_, err := sqldb.One(ctx, tx, func(sqldb.Row) (int, error) { return 0, errScan }, selectClock, "taken")
			return err
		}},
		"statement inside a scan": {want: sqldb.ErrRowsOpen, fail: func(ctx context.Context, tx *sqldb.Tx) error {
			_, err := sqldb.All(ctx, tx, func(sqldb.Row) (int, error) {
				_, _ = tx.Exec(ctx, raiseClock, "taken")
				return 0, nil
			}, selectClock, "taken")
			return err
		}},
		"query inside a scan": {want: sqldb.ErrRowsOpen, fail: func(ctx context.Context, tx *sqldb.Tx) error {
			_, err := sqldb.One(ctx, tx, func(sqldb.Row) (int64, error) {
				return sqldb.One(ctx, tx, sqldb.Scalar[int64], selectClock, "taken")
			}, selectClock, "taken")
			return err
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
				put(t, db, "taken")
				runs := 0
				err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
					runs++
					if _, err := tx.Exec(ctx, insertClock, "before", 0); err != nil {
						return err
					}
					if err := test.fail(ctx, tx); !errors.Is(err, test.want) {
						t.Errorf("the statement returned %v, want %v", err, test.want)
					}
					if n, err := tx.Exec(ctx, insertClock, "after", 0); !errors.Is(err, test.want) || n != 0 {
						t.Errorf("Exec afterwards returned %d, %v", n, err)
					}
					if _, err := sqldb.One(ctx, tx, sqldb.Scalar[int64], selectClock, "taken"); !errors.Is(err, test.want) {
						t.Errorf("One afterwards returned %v", err)
					}
					if err := tx.Script(ctx, `SELECT 1`); !errors.Is(err, test.want) {
						t.Errorf("Script afterwards returned %v", err)
					}
					tx.Queue(ctx, insertClock, "queued", 0)
					return nil // says nothing of it
				})
				if !errors.Is(err, test.want) {
					t.Errorf("Write returned %v, want %v", err, test.want)
				}
				if diff := cmp.Diff([]string{"taken"}, clocks(t, db)); diff != "" {
					t.Errorf("durable (-want +got):\n%s", diff)
				}
				if runs != 1 {
					t.Errorf("ran %d times", runs)
				}
				isIdle(t, db)
			})
		})
	}
}

// A statement that cannot even be sent is the caller's defect: not transient, and no doubt about the outcome.
func TestBadArguments(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		for name, arg := range map[string]any{"a channel": make(chan int), "a NUL": "a\x00b", "no UTF-8": "a\xffb"} {
			runs := 0
			err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
				runs++
				tx.Queue(ctx, insertClock, "a", 0)
				tx.Queue(ctx, insertClock, arg, 0)
				return nil
			})
			if err == nil || errors.Is(err, sqldb.ErrCommitUnknown) || errors.Is(err, sqldb.ErrUnavailable) || runs != 1 {
				t.Errorf("%s: got %v after %d runs", name, err, runs)
			}
			if _, err := sqldb.One(t.Context(), db, sqldb.Scalar[int64], selectClock, arg); err == nil || errors.Is(err, sqldb.ErrNoRows) {
				t.Errorf("%s in a query: got %v", name, err)
			}
		}
		if got := clocks(t, db); got != nil {
			t.Errorf("durable: %q", got)
		}
		isIdle(t, db)
	})
}

func TestNested(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		nothing := func(context.Context, *sqldb.Tx) error { t.Error("ran"); return nil }
		err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			if err := db.Write(ctx, nothing); !errors.Is(err, sqldb.ErrNested) {
				t.Errorf("Write inside Write: %v", err)
			}
			if err := db.Read(ctx, nothing); !errors.Is(err, sqldb.ErrNested) {
				t.Errorf("Read inside Write: %v", err)
			}
			if _, err := sqldb.One(ctx, db, sqldb.Scalar[int64], selectClock, "a"); !errors.Is(err, sqldb.ErrNested) {
				t.Errorf("a query of the DB inside Write: %v", err)
			}
			tx.Queue(ctx, insertClock, "a", 0)
			return nil
		})
		if err != nil {
			t.Errorf("the outer one: %v", err)
		}
		if diff := cmp.Diff([]string{"a"}, clocks(t, db)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestReadsCannotWrite(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		_, err := sqldb.One(t.Context(), db, sqldb.Scalar[string], returnClock, "a", 0)
		if !errors.Is(err, sqldb.ErrReadOnly) || errors.Is(err, sqldb.ErrUnavailable) {
			t.Errorf("a query of the DB: %v", err)
		}
		for name, try := range map[string]func(ctx context.Context, tx *sqldb.Tx) error{
			"exec": func(ctx context.Context, tx *sqldb.Tx) error {
				_, err := tx.Exec(ctx, insertClock, "a", 0)
				return err
			},
			"queue": func(ctx context.Context, tx *sqldb.Tx) error {
				tx.Queue(ctx, insertClock, "a", 0)
				return nil
			},
			"script": func(ctx context.Context, tx *sqldb.Tx) error { return tx.Script(ctx, `DELETE FROM clock`) },
			"query": func(ctx context.Context, tx *sqldb.Tx) error {
				_, err := sqldb.One(ctx, tx, sqldb.Scalar[string], returnClock, "a", 0)
				return err
			},
		} {
			if err := db.Read(t.Context(), try); !errors.Is(err, sqldb.ErrReadOnly) || errors.Is(err, sqldb.ErrUnavailable) {
				t.Errorf("%s in Read: %v", name, err)
			}
		}
		if got := clocks(t, db); got != nil {
			t.Errorf("durable: %q", got)
		}
		isIdle(t, db)
	})
}

func TestEnded(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		var kept *sqldb.Tx
		mustWrite(t, db, func(_ context.Context, tx *sqldb.Tx) error {
			kept = tx
			return nil
		})
		if _, err := kept.Exec(t.Context(), insertClock, "a", 0); !errors.Is(err, sqldb.ErrEnded) {
			t.Errorf("got %v", err)
		}
		if got := clocks(t, db); got != nil {
			t.Errorf("durable: %q", got)
		}
	})
}

// goroutine returns the number of the one that calls.
func goroutine() string {
	b := make([]byte, 64)
	b = b[:runtime.Stack(b, false)]
	return string(b[:bytes.IndexByte(b, '[')])
}

func TestAfterCommit(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		var wait sync.WaitGroup
		for i := range 16 {
			wait.Go(func() {
				name := strconv.Itoa(i)
				me, ran := goroutine(), 0
				err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
					tx.Queue(ctx, insertClock, name, 0)
					tx.AfterCommit(func() {
						ran++
						if it := goroutine(); it != me {
							t.Errorf("AfterCommit ran in %s, the caller is %s", it, me)
						}
						// A new transaction of the caller's: the old one is over.
						if _, err := sqldb.One(t.Context(), db, sqldb.Scalar[int64], selectClock, name); err != nil {
							t.Errorf("AfterCommit ran before the commit: %v", err)
						}
					})
					return nil
				})
				if err != nil || ran != 1 {
					t.Errorf("%v; AfterCommit ran %d times", err, ran)
				}
			})
		}
		wait.Wait()
		err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			tx.Queue(ctx, insertClock, "0", 0) // taken
			tx.AfterCommit(func() { t.Error("AfterCommit ran without a commit") })
			return nil
		})
		if !errors.Is(err, sqldb.ErrConflict) {
			t.Errorf("got %v", err)
		}
	})
}

// A panic or Goexit in the caller's function passes through and leaves nothing behind.
func TestUnwinding(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		put(t, db, "old")
		for name, leave := range map[string]func(){"panic": func() { panic("bad") }, "goexit": runtime.Goexit} {
			for _, where := range []string{"write", "read", "scan", "query"} {
				done := make(chan any)
				go func() {
					defer func() { done <- recover() }()
					unwind := func(sqldb.Row) (int, error) { leave(); return 0, nil }
					switch where {
					case "write":
						_ = db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
							_, _ = tx.Exec(ctx, insertClock, name, 0)
							leave()
							return nil
						})
					case "read":
						_ = db.Read(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
							_ = clocks(t, tx)
							leave()
							return nil
						})
					case "scan":
						_ = db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
							_, _ = tx.Exec(ctx, insertClock, name, 0)
							_, err := sqldb.One(ctx, tx, unwind, selectClock, "old")
							return err
						})
					case "query":
						_, _ = sqldb.One(t.Context(), db, unwind, selectClock, "old")
					}
				}()
				if got := <-done; (got == "bad") != (name == "panic") {
					t.Errorf("%s in %s: recovered %v", name, where, got)
				}
				isIdle(t, db)
			}
		}
		if diff := cmp.Diff([]string{"old"}, clocks(t, db)); diff != "" {
			t.Errorf("durable (-want +got):\n%s", diff)
		}
		put(t, db, "new")
	})
}

const insertTransfer = `INSERT INTO transfer (account_id, id, currency, source, target, amount, kind, ref, once_key, memo)
VALUES ($1, $2, 'BRL', $3, $4, $5, $6, $7, $8, $9)`

func TestMeanings(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		sql  string
		want error
	}{
		"primary key":         {`INSERT INTO clock (name, offset_us) VALUES ('a', 1)`, sqldb.ErrConflict},
		"integer primary key": {`INSERT INTO account SELECT * FROM account`, sqldb.ErrConflict},
		"key of two columns":  {`INSERT INTO transfer SELECT * FROM transfer`, sqldb.ErrConflict},
		"unique index":        {`INSERT INTO transfer (account_id, id, currency, source, target, amount, kind, once_key) SELECT account_id, last_id, 'BRL', 'fees', 'available', 1, 'test', 'once' FROM balance`, sqldb.ErrConflict},
		"unique by update":    {`UPDATE clock SET name = 'a' WHERE name = 'b'`, sqldb.ErrConflict},
		"check":               {`UPDATE clock SET offset_us = -1 WHERE name = 'a'`, sqldb.ErrCheck},
		"check of the table":  {`INSERT INTO transfer (account_id, id, currency, source, target, amount, kind) SELECT account_id, last_id, 'BRL', 'available', 'available', 1, 'test' FROM balance`, sqldb.ErrCheck},
		"append-only, update": {`UPDATE transfer SET amount = 2`, sqldb.ErrAppendOnly},
		"append-only, delete": {`DELETE FROM transfer`, sqldb.ErrAppendOnly},
		"append-only, upsert": {`INSERT INTO transfer SELECT * FROM transfer WHERE amount > 0 ON CONFLICT (account_id, id) DO UPDATE SET amount = 2`, sqldb.ErrAppendOnly},
		"truncate":            {`TRUNCATE transfer`, sqldb.ErrAppendOnly},
		"not null":            {`UPDATE clock SET offset_us = NULL WHERE name = 'a'`, nil},
		"no such table":       {`DELETE FROM nothing`, nil},
		"no SQL":              {`DELETED FROM clock`, nil},
	}
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		ids := id.NewGenerator(time.Now, strings.NewReader(strings.Repeat("random", 100)))
		mustWrite(t, db, func(ctx context.Context, tx *sqldb.Tx) error {
			tx.Queue(ctx, insertClock, "a", 0)
			tx.Queue(ctx, insertClock, "b", 0)
			tx.Queue(ctx, insertTransfer, 7, ids.New(), "fees", "available", 1, "test", nil, "once", nil)
			tx.Queue(ctx, `INSERT INTO balance (account_id, currency, book, amount, last_id) VALUES (7, 'BRL', 'available', 0, $1)`, ids.New())
			tx.Queue(ctx, `INSERT INTO account (id, name, created_at, status, kyc, api_cashin, api_cashout, api_payout, crypto, split, rate_limit,
release_delay, disabled_resources, cash_in_fee, cash_out_fee, crypto_in_fee, crypto_out_fee)
VALUES (7, '', 0, 'active', 'approved', TRUE, TRUE, TRUE, TRUE, TRUE, 1, 0, '', '', '', '', '')`)
			return nil
		})
		meanings := []error{
			sqldb.ErrConflict, sqldb.ErrCheck, sqldb.ErrAppendOnly, sqldb.ErrUnavailable, sqldb.ErrCommitUnknown,
			sqldb.ErrNoRows, sqldb.ErrNested, sqldb.ErrLocked, sqldb.ErrReadOnly,
		}
		for name, test := range tests {
			if name == "truncate" && !db.IsPostgres() {
				continue
			}
			runs := 0
			err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
				runs++
				_, err := tx.Exec(ctx, test.sql)
				return err
			})
			if err == nil || runs != 1 {
				t.Errorf("%s: got %v after %d runs", name, err, runs)
			}
			for _, meaning := range meanings {
				if got := errors.Is(err, meaning); got != errors.Is(test.want, meaning) {
					t.Errorf("%s: %v is %v: %t", name, err, meaning, got)
				}
			}
		}
	})
}

// What was queued fails with the transaction, wherever it travels.
func TestQueueFails(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		put(t, db, "taken")
		for name, f := range map[string]func(ctx context.Context, tx *sqldb.Tx) error{
			"with COMMIT": func(ctx context.Context, tx *sqldb.Tx) error {
				tx.Queue(ctx, insertClock, "a", 0)
				tx.Queue(ctx, insertClock, "taken", 0)
				tx.Queue(ctx, insertClock, "b", 0)
				return nil
			},
			"with the next statement, which is not minded": func(ctx context.Context, tx *sqldb.Tx) error {
				tx.Queue(ctx, insertClock, "taken", 0)
				_, _ = tx.Exec(ctx, insertClock, "a", 0)
				return nil
			},
			"with the next query": func(ctx context.Context, tx *sqldb.Tx) error {
				tx.Queue(ctx, insertClock, "taken", 0)
				_, err := sqldb.One(ctx, tx, sqldb.Scalar[int64], selectClock, "a")
				if errors.Is(err, sqldb.ErrNoRows) {
					t.Error("the query was told that there are no rows")
				}
				return nil
			},
			"with the next script": func(ctx context.Context, tx *sqldb.Tx) error {
				tx.Queue(ctx, insertClock, "taken", 0)
				return tx.Script(ctx, `DELETE FROM clock`)
			},
		} {
			if err := db.Write(t.Context(), f); !errors.Is(err, sqldb.ErrConflict) {
				t.Errorf("%s: got %v", name, err)
			}
			if diff := cmp.Diff([]string{"taken"}, clocks(t, db)); diff != "" {
				t.Errorf("%s: durable (-want +got):\n%s", name, diff)
			}
		}
		isIdle(t, db)
	})
}

// What must change a row and changes none fails the transaction, whatever comes after it, and nothing of it is kept.
func TestGuard(t *testing.T) {
	t.Parallel()
	errMissing := errors.New("nothing was there")
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		write := func(f func(ctx context.Context, tx *sqldb.Tx) error) error {
			return db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
				tx.Queue(ctx, insertClock, "a", 1)
				return f(ctx, tx)
			})
		}
		after := map[string]func(ctx context.Context, tx *sqldb.Tx) error{
			"commit": func(context.Context, *sqldb.Tx) error { return nil },
			"queue": func(ctx context.Context, tx *sqldb.Tx) error {
				tx.Queue(ctx, insertClock, "b", 1)
				return nil
			},
			"exec": func(ctx context.Context, tx *sqldb.Tx) error {
				_, err := tx.Exec(ctx, insertClock, "b", 1)
				return err
			},
			"query": func(ctx context.Context, tx *sqldb.Tx) error {
				_, err := sqldb.One(ctx, tx, sqldb.Scalar[int64], selectClock, "a")
				return err
			},
			"guard": func(ctx context.Context, tx *sqldb.Tx) error {
				tx.Guard(ctx, errors.New("the second one"), raiseClock, "nobody either")
				return nil
			},
		}
		for name, then := range after {
			err := write(func(ctx context.Context, tx *sqldb.Tx) error {
				tx.Guard(ctx, errMissing, raiseClock, "nobody")
				return then(ctx, tx)
			})
			if !errors.Is(err, errMissing) || len(clocks(t, db)) != 0 {
				t.Errorf("%s: %v, and %v stayed", name, err, clocks(t, db))
			}
		}
		err := write(func(ctx context.Context, tx *sqldb.Tx) error {
			tx.Guard(ctx, errMissing, raiseClock, "a")
			tx.Guard(ctx, errMissing, raiseClock, "a")
			return nil
		})
		if n, _ := sqldb.One(t.Context(), db, sqldb.Scalar[int64], selectClock, "a"); err != nil || n != 3 {
			t.Errorf("%v, raised to %d", err, n)
		}
	})
}

func TestReadSeesOneMoment(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		put(t, db, "a", "b")
		move := func(ctx context.Context, tx *sqldb.Tx) error {
			tx.Queue(ctx, raiseClock, "a")
			tx.Queue(ctx, raiseClock, "b")
			return nil
		}
		err := db.Read(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			for range 20 {
				a, err := sqldb.One(ctx, tx, sqldb.Scalar[int64], selectClock, "a")
				if err != nil {
					return err
				}
				mustWrite(t, db, move)
				b, err := sqldb.One(ctx, tx, sqldb.Scalar[int64], selectClock, "b")
				if err != nil {
					return err
				}
				if a != 0 || b != 0 {
					t.Errorf("saw %d and %d, want the moment of the first query", a, b)
				}
				live, err := sqldb.One(ctx, db, sqldb.Scalar[int64], selectClock, "b")
				if err != nil || live == 0 {
					t.Errorf("a query of its own saw %d, %v", live, err)
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		isIdle(t, db)
	})
}

func TestReadYourWrites(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		var wait sync.WaitGroup
		for i := range 32 {
			wait.Go(func() {
				for n := range 20 {
					name := fmt.Sprintf("%d-%d", i, n)
					put(t, db, name)
					got, err := sqldb.One(t.Context(), db, sqldb.Scalar[int64], selectClock, name)
					if err != nil || got != 0 {
						t.Errorf("%s: %d, %v", name, got, err)
					}
				}
			})
		}
		wait.Wait()
		isIdle(t, db)
	})
}

// More reads at once than there are readers, each in a transaction and with a statement that is new: nobody may need a
// second connection to finish.
func TestManyReads(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		put(t, db, "a")
		var wait, inside sync.WaitGroup
		inside.Add(sqldb.ConnectionsMax)
		for i := range 2 * sqldb.ConnectionsMax {
			wait.Go(func() {
				err := db.Read(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
					if i < sqldb.ConnectionsMax {
						inside.Done()
						inside.Wait()
					}
					_, err := sqldb.One(ctx, tx, sqldb.Scalar[string], fmt.Sprintf(`SELECT name FROM clock WHERE offset_us < %d`, i+1))
					return err
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		isIdle(t, db)
	})
}

func TestRowsAffected(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		put(t, db, "a", "b", "c")
		mustWrite(t, db, func(ctx context.Context, tx *sqldb.Tx) error {
			for _, step := range []struct {
				sql  string
				args []any
				want int64
			}{
				{`UPDATE clock SET offset_us = 1`, nil, 3},
				{setClock, []any{"a", 5}, 1},
				{setClock, []any{"nobody", 5}, 0},
				{insertOnce, []any{"a", 0}, 0},
				{insertOnce, []any{"d", 0}, 1},
				{`INSERT INTO clock (name, offset_us) VALUES ('a', 9), ('e', 9) ON CONFLICT (name) DO UPDATE SET offset_us = excluded.offset_us WHERE clock.offset_us > 100`, nil, 1},
				{`DELETE FROM clock WHERE offset_us = 1`, nil, 2},
				{`DELETE FROM clock WHERE offset_us = 1`, nil, 0},
				{`DELETE FROM clock WHERE name = $1 RETURNING name`, []any{"d"}, 1},
			} {
				got, err := tx.Exec(ctx, step.sql, step.args...)
				if err != nil {
					return err
				}
				if got != step.want {
					t.Errorf("%s: %d rows, want %d", step.sql, got, step.want)
				}
			}
			return nil
		})
		if diff := cmp.Diff([]string{"a", "e"}, clocks(t, db)); diff != "" {
			t.Error(diff)
		}
	})
}

// Both databases store and give back the same values.
func TestTypes(t *testing.T) {
	t.Parallel()
	type row struct {
		ID, Ref id.ID
		Amount  int64
		Kind    string
		Once    *string
		Memo    *string
	}
	type key struct {
		Prefix  string
		Hash    []byte
		Revoked *int64
	}
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		ids := id.NewGenerator(time.Now, strings.NewReader(strings.Repeat("random", 100)))
		text, empty := "Pão de açúcar 🥖 'quoted' \\ \n", ""
		const most, account = int64(1<<63 - 1), id.Account(1<<40 - 1)
		rows := []row{
			{ID: ids.New(), Amount: 1, Kind: text, Memo: &text, Once: &empty},
			{ID: ids.New(), Ref: ids.New(), Amount: most, Kind: ""},
		}
		revoked := int64(-1 << 63)
		keys := []key{{Prefix: "a", Hash: []byte{0, 1, 255, 0}, Revoked: &revoked}, {Prefix: "b", Hash: []byte{}}}
		mustWrite(t, db, func(ctx context.Context, tx *sqldb.Tx) error {
			for _, r := range rows {
				tx.Queue(ctx, insertTransfer, account, r.ID, "fees", "available", r.Amount, r.Kind, r.Ref, r.Once, r.Memo)
			}
			for _, k := range keys {
				tx.Queue(ctx, `INSERT INTO api_key (prefix, account_id, hash, scopes, created_at, revoked_at) VALUES ($1, $2, $3, '', 0, $4)`,
					k.Prefix, account, k.Hash, k.Revoked)
			}
			for prefix, starved := range map[string]bool{"a": true, "b": false} {
				tx.Queue(ctx, `INSERT INTO rate_window (prefix, started_at, taken, granted, starved) VALUES ($1, 0, 0, 0, $2)`, prefix, starved)
			}
			return nil
		})

		gotRows, err := sqldb.All(t.Context(), db, func(s sqldb.Row) (r row, err error) {
			err = s.Scan(&r.ID, &r.Ref, &r.Amount, &r.Kind, &r.Once, &r.Memo)
			return r, err
		}, `SELECT id, ref, amount, kind, once_key, memo FROM transfer WHERE account_id = $1 ORDER BY id`, account)
		if diff := cmp.Diff(rows, gotRows); diff != "" || err != nil {
			t.Errorf("transfers: %v (-want +got):\n%s", err, diff)
		}
		got, err := sqldb.One(t.Context(), db, sqldb.Scalar[int64], `SELECT amount FROM transfer WHERE ref = $1`, rows[1].Ref)
		if err != nil || got != most {
			t.Errorf("by id: %d, %v", got, err)
		}
		got, err = sqldb.One(t.Context(), db, sqldb.Scalar[int64], `SELECT COUNT(*) FROM transfer WHERE id > $1`, rows[0].ID)
		if err != nil || got != 1 {
			t.Errorf("ids in order: %d, %v", got, err)
		}
		owner, err := sqldb.One(t.Context(), db, sqldb.Scalar[id.Account], `SELECT account_id FROM transfer WHERE id = $1`, rows[0].ID)
		if err != nil || owner != account {
			t.Errorf("account: %v, %v", owner, err)
		}

		gotKeys, err := sqldb.All(t.Context(), db, func(s sqldb.Row) (k key, err error) {
			err = s.Scan(&k.Prefix, &k.Hash, &k.Revoked)
			k.Hash = append([]byte{}, k.Hash...) // an empty one may be nil
			return k, err
		}, `SELECT prefix, hash, revoked_at FROM api_key ORDER BY prefix`)
		if diff := cmp.Diff(keys, gotKeys); diff != "" || err != nil {
			t.Errorf("keys: %v (-want +got):\n%s", err, diff)
		}

		gotBools, err := sqldb.All(t.Context(), db, sqldb.Scalar[bool], `SELECT starved FROM rate_window ORDER BY prefix`)
		if diff := cmp.Diff([]bool{true, false}, gotBools); diff != "" || err != nil {
			t.Errorf("booleans: %v (-want +got):\n%s", err, diff)
		}
		starved, err := sqldb.One(t.Context(), db, sqldb.Scalar[string], `SELECT prefix FROM rate_window WHERE starved = $1`, true)
		if err != nil || starved != "a" {
			t.Errorf("by boolean: %q, %v", starved, err)
		}
		// A NULL does not fit a plain variable, on neither.
		if v, err := sqldb.One(t.Context(), db, sqldb.Scalar[int64], `SELECT revoked_at FROM api_key WHERE prefix = 'b'`); err == nil {
			t.Errorf("NULL was read as %d", v)
		}
		if _, err := sqldb.One(t.Context(), db, sqldb.Scalar[int64], selectClock, "nobody"); !errors.Is(err, sqldb.ErrNoRows) {
			t.Errorf("no rows: %v", err)
		}
	})
}

func TestContexts(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		over, cancel := context.WithCancel(t.Context())
		cancel()
		never := func(context.Context, *sqldb.Tx) error { t.Error("ran"); return nil }
		if err := db.Write(over, never); !errors.Is(err, context.Canceled) {
			t.Errorf("Write: %v", err)
		}
		if err := db.Read(over, never); !errors.Is(err, context.Canceled) {
			t.Errorf("Read: %v", err)
		}
		if _, err := sqldb.One(over, db, sqldb.Scalar[int64], selectClock, "a"); !errors.Is(err, context.Canceled) {
			t.Errorf("query: %v", err)
		}
		if _, err := db.TryLock(over, 1); !errors.Is(err, context.Canceled) {
			t.Errorf("TryLock: %v", err)
		}

		// Inside a write it is ignored, by whichever context a statement runs.
		outside, cancel := context.WithCancel(t.Context())
		err := db.Write(outside, func(ctx context.Context, tx *sqldb.Tx) error {
			if _, err := tx.Exec(ctx, insertClock, "a", 0); err != nil {
				return err
			}
			cancel()
			if _, err := tx.Exec(ctx, insertClock, "b", 0); err != nil {
				return err
			}
			if _, err := sqldb.One(outside, tx, sqldb.Scalar[int64], selectClock, "b"); err != nil {
				return err
			}
			tx.Queue(outside, insertClock, "c", 0)
			return ctx.Err()
		})
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]string{"a", "b", "c"}, clocks(t, db)); diff != "" {
			t.Errorf("durable (-want +got):\n%s", diff)
		}

		// Who sets no deadline gets one.
		err = db.Read(t.Context(), func(ctx context.Context, _ *sqldb.Tx) error {
			if deadline, has := ctx.Deadline(); !has || time.Until(deadline) > time.Minute {
				t.Errorf("a read may go on until %v", deadline)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}

		// A read ends between two rows.
		outside, cancel = context.WithCancel(t.Context())
		rows := 0
		_, err = sqldb.All(outside, db, func(sqldb.Row) (int, error) { rows++; cancel(); return 0, nil },
			`SELECT a.name FROM clock a, clock b, clock c, clock d, clock e, clock f, clock g, clock h, clock i, clock j`)
		if !errors.Is(err, context.Canceled) || rows == 59049 {
			t.Errorf("All returned %v after %d rows", err, rows)
		}
		isIdle(t, db)
	})
}

// Whoever waits for a turn can stop waiting, and does so when the limit is reached.
func TestTurns(t *testing.T) {
	t.Parallel()
	sqltest.EachURL(t, func(t *testing.T, url string) {
		if strings.HasPrefix(url, "postgres") {
			url += "&pool_max_conns=1"
		}
		db := sqltest.Open(t, url)
		inside, free := make(chan struct{}), make(chan struct{})
		var wait sync.WaitGroup
		inTurn := func(f func()) func(context.Context, *sqldb.Tx) error {
			return func(ctx context.Context, tx *sqldb.Tx) error {
				if _, err := sqldb.One(ctx, tx, sqldb.Scalar[int64], `SELECT 1`); err != nil {
					return err
				}
				f()
				return nil
			}
		}
		wait.Go(func() {
			if err := db.Write(t.Context(), inTurn(func() { close(inside); <-free })); err != nil {
				t.Error(err)
			}
		})
		<-inside
		began := time.Now()
		never := inTurn(func() { t.Error("ran") })
		if err := db.WriteWithin(t.Context(), time.Millisecond, never); !errors.Is(err, sqldb.ErrUnavailable) {
			t.Errorf("a limit that is over: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := db.Write(ctx, never); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a deadline of the caller that is over: %v", err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("it took %v", took)
		}
		close(free)
		wait.Wait()
		put(t, db, "afterwards")
		isIdle(t, db)
	})
}

// All readers are taken: a caller that gives up does not wait for them.
func TestReadersTaken(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		free := make(chan struct{})
		var wait, inside sync.WaitGroup
		inside.Add(sqldb.ConnectionsMax)
		for range sqldb.ConnectionsMax {
			wait.Go(func() {
				err := db.Read(t.Context(), func(context.Context, *sqldb.Tx) error { inside.Done(); <-free; return nil })
				if err != nil {
					t.Error(err)
				}
			})
		}
		inside.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := sqldb.One(ctx, db, sqldb.Scalar[int64], selectClock, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("query: %v", err)
		}
		if err := db.Read(ctx, func(context.Context, *sqldb.Tx) error { t.Error("ran"); return nil }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Read: %v", err)
		}
		close(free)
		wait.Wait()
		isIdle(t, db)
	})
}

// Whoever has connections apart does not wait for those who have all others.
func TestApart(t *testing.T) {
	t.Parallel()
	sqltest.EachURL(t, func(t *testing.T, url string) {
		taken := 1 // SQLite has one writer, and readers that wait for nobody
		if strings.HasPrefix(url, "postgres") {
			url, taken = url+"&pool_max_conns=2", 2
		}
		db := sqltest.Open(t, url)
		put(t, db, "a")
		free := make(chan struct{})
		var wait, inside sync.WaitGroup
		inside.Add(taken)
		for range taken {
			wait.Go(func() {
				err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
					inside.Done()
					<-free
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		inside.Wait()
		if _, err := sqldb.One(t.Context(), db.Apart(), sqldb.Scalar[int64], selectClock, "a"); err != nil {
			t.Error(err)
		}
		close(free)
		wait.Wait()
		mustWrite(t, db.Apart(), func(ctx context.Context, tx *sqldb.Tx) error {
			_, err := tx.Exec(ctx, raiseClock, "a")
			return err
		})
		isIdle(t, db)
	})
}

// What fails in good order costs no connection.
func TestConnectionsAreKept(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		put(t, db, "a")
		errOwn := errors.New("own")
		for range 10 {
			_ = clocks(t, db)
			_, _ = sqldb.One(t.Context(), db, sqldb.Scalar[int64], `SELECT nothing`)
			_ = db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
				_, err := tx.Exec(ctx, insertClock, "a", 0)
				return err
			})
			for _, end := range []error{nil, errOwn} {
				outside, cancel := context.WithCancel(t.Context())
				err := db.Read(outside, func(ctx context.Context, tx *sqldb.Tx) error {
					_ = clocks(t, tx)
					cancel()
					return end
				})
				if !errors.Is(err, end) {
					t.Errorf("Read returned %v, want %v", err, end)
				}
			}
		}
		if n := db.Closed(); n != 0 {
			t.Errorf("%d connections were closed", n)
		}
		isIdle(t, db)
	})
}

func TestPing(t *testing.T) {
	t.Parallel()
	sqltest.EachURL(t, func(t *testing.T, url string) {
		db, err := sqldb.Open(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Ping(t.Context()); err != nil {
			t.Error(err)
		}
		db.Close()
		if err := db.Ping(t.Context()); !errors.Is(err, sqldb.ErrUnavailable) {
			t.Errorf("after Close: %v", err)
		}
		err = db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			_, err := tx.Exec(ctx, insertClock, "a", 0)
			return err
		})
		if !errors.Is(err, sqldb.ErrUnavailable) {
			t.Errorf("Write after Close: %v", err)
		}
	})
}
