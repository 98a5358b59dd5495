package sqldb_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

// wire is a PostgreSQL behind a connection that breaks when it is told to.
type wire struct {
	*sqltest.Proxy
	db     *sqldb.DB // through the proxy
	direct *pgx.Conn // not through it
	gate   *pgx.Conn // nor this; it can hold the row gate
}

// newWire also makes the rows counter and gate, and prepares what the tests send: the bytes after the next call are then
// those of the transaction itself.
func newWire(t *testing.T) *wire {
	t.Helper()
	url := sqltest.Postgres(t)
	w := &wire{Proxy: sqltest.NewProxy(t, url), direct: connect(t, url), gate: connect(t, url)}
	w.db = sqltest.Open(t, w.URL)
	put(t, w.db, "counter", "gate")
	mustWrite(t, w.db, func(ctx context.Context, tx *sqldb.Tx) error {
		for _, sql := range []string{insertClock, insertOnce} {
			if _, err := tx.Exec(ctx, sql, sql, 0); err != nil {
				return err
			}
		}
		tx.Queue(ctx, `DELETE FROM clock WHERE name NOT IN ('counter', 'gate')`)
		tx.Queue(ctx, raiseClock, "nobody")
		return nil
	})
	// The same without a question: that goes by another connection.
	mustWrite(t, w.db, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.Queue(ctx, insertClock, "nobody", 0)
		tx.Queue(ctx, insertOnce, "nobody", 0)
		tx.Queue(ctx, raiseClock, "nobody")
		tx.Queue(ctx, raiseOnce)
		tx.Queue(ctx, `DELETE FROM clock WHERE name NOT IN ('counter', 'gate')`)
		tx.Queue(ctx, `UPDATE clock SET offset_us = 0`)
		return nil
	})
	return w
}

const raiseOnce = `UPDATE clock SET offset_us = 1 WHERE name = 'counter' AND offset_us = 0`

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func (w *wire) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := w.direct.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func (w *wire) number(t *testing.T, sql string, args ...any) (n int64) {
	t.Helper()
	if err := w.direct.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// blocked returns how many sessions wait for a lock.
func (w *wire) blocked(t *testing.T) int64 {
	t.Helper()
	return w.number(t, `SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)
}

// The four ways in which a transaction can be sent. Each makes the unique row "once" and, with it, raises the counter.
var shapes = map[string]func(ctx context.Context, tx *sqldb.Tx) error{
	"one round trip, ON CONFLICT DO NOTHING": func(ctx context.Context, tx *sqldb.Tx) error {
		tx.Queue(ctx, insertOnce, "once", 0)
		tx.Queue(ctx, raiseOnce)
		return nil
	},
	"one round trip, plain insert": func(ctx context.Context, tx *sqldb.Tx) error {
		tx.Queue(ctx, insertClock, "once", 0)
		tx.Queue(ctx, raiseClock, "counter")
		return nil
	},
	"commit apart, ON CONFLICT DO NOTHING": func(ctx context.Context, tx *sqldb.Tx) error {
		n, err := tx.Exec(ctx, insertOnce, "once", 0)
		if err != nil || n == 0 {
			return err
		}
		_, err = tx.Exec(ctx, raiseClock, "counter")
		return err
	},
	"commit apart, plain insert": func(ctx context.Context, tx *sqldb.Tx) error {
		tx.Queue(ctx, insertClock, "once", 0)
		_, err := tx.Exec(ctx, raiseClock, "counter")
		return err
	},
}

// The answer to COMMIT is lost, before or after the server had the question: what it did happens exactly once.
func TestCommitLost(t *testing.T) {
	t.Parallel()
	cuts := map[string]func(*sqltest.Proxy){
		"before": (*sqltest.Proxy).CutBefore, "after": (*sqltest.Proxy).CutAfter,
	}
	for shape, f := range shapes {
		for when, cut := range cuts {
			t.Run(shape+", cut "+when, func(t *testing.T) {
				t.Parallel()
				w := newWire(t)
				runs, committed := 0, 0
				// The caller has gone away meanwhile: that is no reason to leave it unresolved.
				outside, cancel := context.WithCancel(t.Context())
				err := w.db.Write(outside, func(ctx context.Context, tx *sqldb.Tx) error {
					cancel()
					runs++
					tx.AfterCommit(func() { committed++ })
					if err := f(ctx, tx); err != nil {
						return err
					}
					if runs == 1 {
						cut(w.Proxy)
					}
					return nil
				})
				if when == "after" && strings.HasSuffix(shape, "plain insert") {
					// The second run cannot know whose row it met.
					if !errors.Is(err, sqldb.ErrCommitUnknown) || !errors.Is(err, sqldb.ErrConflict) || errors.Is(err, sqldb.ErrUnavailable) {
						t.Errorf("Write returned %v, want ErrCommitUnknown and ErrConflict", err)
					}
				} else if err != nil || committed != 1 {
					t.Errorf("Write returned %v; AfterCommit ran %d times", err, committed)
				}
				if runs != 2 {
					t.Errorf("ran %d times, want 2", runs)
				}
				if n := w.number(t, selectClock, "counter"); n != 1 {
					t.Errorf("it happened %d times", n)
				}
				if n := w.number(t, `SELECT COUNT(*) FROM clock WHERE name = 'once'`); n != 1 {
					t.Errorf("the row is there %d times", n)
				}
				isIdle(t, w.db)
			})
		}
	}
}

// A connection lost before COMMIT leaves no doubt: the transaction runs again.
func TestStatementLost(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]func(*sqltest.Proxy){"before": (*sqltest.Proxy).CutBefore, "after": (*sqltest.Proxy).CutAfter} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWire(t)
			runs := 0
			err := w.db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
				if runs++; runs == 1 {
					cut(w.Proxy)
				}
				_, err := tx.Exec(ctx, raiseClock, "counter")
				return err
			})
			if n := w.number(t, selectClock, "counter"); err != nil || runs != 2 || n != 1 {
				t.Errorf("Write returned %v after %d runs; it happened %d times", err, runs, n)
			}
		})
	}
}

// The server ends the session instead of answering COMMIT.
func TestCommitFatal(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	runs := 0
	err := w.db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		runs++
		n, err := tx.Exec(ctx, insertOnce, "once", 0)
		if err != nil || n == 0 {
			return err
		}
		if runs == 1 {
			pid, err := sqldb.One(ctx, tx, sqldb.Scalar[int64], `SELECT CAST(pg_backend_pid() AS BIGINT)`)
			if err != nil {
				return err
			}
			w.exec(t, `SELECT pg_terminate_backend(CAST($1 AS INTEGER))`, pid)
			sqltest.Wait(t, "the session to end", func() bool {
				return w.number(t, `SELECT COUNT(*) FROM pg_stat_activity WHERE pid = $1`, pid) == 0
			})
		}
		tx.Queue(ctx, raiseClock, "counter")
		return nil
	})
	if n := w.number(t, selectClock, "counter"); err != nil || runs != 2 || n != 1 {
		t.Errorf("Write returned %v after %d runs; it happened %d times", err, runs, n)
	}
}

// The database is away for a while after a COMMIT was lost: it is asked until it tells.
func TestCommitLostAndAway(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	runs := 0
	told := make(chan error, 1)
	go func() {
		told <- w.db.Write(context.Background(), func(ctx context.Context, tx *sqldb.Tx) error {
			if runs++; runs == 1 {
				w.Refuse()
				defer w.CutAfter()
			}
			return shapes["commit apart, ON CONFLICT DO NOTHING"](ctx, tx)
		})
	}()
	sqltest.Wait(t, "it to be refused twice", func() bool { return w.Refused() >= 2 })
	w.Refuse()()
	err := <-told
	if n := w.number(t, selectClock, "counter"); err != nil || runs != 2 || n != 1 {
		t.Errorf("Write returned %v after %d runs; it happened %d times", err, runs, n)
	}
}

// A COMMIT that the server refuses is not in doubt, and neither is one that it answers by a rollback.
func TestCommitRefused(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.exec(t, `CREATE TABLE late (n BIGINT UNIQUE DEFERRABLE INITIALLY DEFERRED)`)
	runs := 0
	err := w.db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		runs++
		_, err := tx.Exec(ctx, `INSERT INTO late VALUES (1), (1)`)
		return err
	})
	if !errors.Is(err, sqldb.ErrConflict) || errors.Is(err, sqldb.ErrCommitUnknown) || runs != 1 {
		t.Errorf("got %v after %d runs", err, runs)
	}
	err = w.db.CommitFailed(t.Context(), `INSERT INTO late SELECT 1 / offset_us FROM clock`)
	if err == nil || errors.Is(err, sqldb.ErrCommitUnknown) {
		t.Errorf("COMMIT of a failed transaction: %v", err)
	}
	isIdle(t, w.db)
}

// The doubtful transaction is still under way when the function runs again: the unique row makes it wait.
func TestCommitDoubtful(t *testing.T) {
	t.Parallel()
	gate := func(t *testing.T, w *wire, sql string) {
		t.Helper()
		if _, err := w.gate.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	const lockGate, openGate = `BEGIN; SELECT 1 FROM clock WHERE name = 'gate' FOR UPDATE`, `ROLLBACK`
	start := func(t *testing.T, w *wire, limit time.Duration) (told chan error, runs *int) {
		t.Helper()
		gate(t, w, lockGate)
		told, runs = make(chan error, 1), new(int)
		go func() {
			told <- w.db.WriteWithin(context.Background(), limit, func(ctx context.Context, tx *sqldb.Tx) error {
				*runs++
				n, err := tx.Exec(ctx, insertOnce, "once", 0)
				if err != nil || n == 0 {
					return err
				}
				tx.Queue(ctx, raiseClock, "counter")
				if *runs == 1 {
					tx.Queue(ctx, raiseClock, "gate") // waits for the gate, with COMMIT right behind
					w.Sever()
				}
				return nil
			})
		}()
		sqltest.Wait(t, "both runs to be blocked", func() bool { return w.blocked(t) == 2 })
		return told, runs
	}
	check := func(t *testing.T, w *wire, err error, runs int) {
		t.Helper()
		if err != nil || runs != 2 {
			t.Errorf("Write returned %v after %d runs", err, runs)
		}
		if n := w.number(t, selectClock, "counter"); n != 1 {
			t.Errorf("it happened %d times", n)
		}
	}
	t.Run("it commits", func(t *testing.T) {
		t.Parallel()
		w := newWire(t)
		told, runs := start(t, w, 10*time.Second)
		gate(t, w, openGate)
		check(t, w, <-told, *runs)
		if n := w.number(t, selectClock, "gate"); n != 1 {
			t.Errorf("the first run's work is not what was committed")
		}
	})
	t.Run("it does not commit", func(t *testing.T) {
		t.Parallel()
		w := newWire(t)
		told, runs := start(t, w, 10*time.Second)
		w.exec(t, `SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE NOT granted AND datname = current_database() AND query LIKE 'UPDATE%'`)
		check(t, w, <-told, *runs)
		gate(t, w, openGate)
		if n := w.number(t, selectClock, "gate"); n != 0 {
			t.Errorf("the first run's work was committed")
		}
	})
	t.Run("it never ends", func(t *testing.T) {
		t.Parallel()
		w := newWire(t)
		began := time.Now()
		told, _ := start(t, w, time.Second)
		if err := <-told; !errors.Is(err, sqldb.ErrCommitUnknown) || errors.Is(err, sqldb.ErrUnavailable) {
			t.Errorf("Write returned %v", err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("it took %v", took)
		}
		gate(t, w, openGate)
	})
}

// The database goes away for good, at the worst moments.
func TestAway(t *testing.T) {
	t.Parallel()
	const limit = 300 * time.Millisecond
	tests := map[string]struct {
		f    func(ctx context.Context, tx *sqldb.Tx, w *wire) error
		want error
	}{
		"before BEGIN, refused": {want: sqldb.ErrUnavailable, f: func(ctx context.Context, tx *sqldb.Tx, w *wire) error {
			w.Down()
			_, err := tx.Exec(ctx, raiseClock, "counter")
			return err
		}},
		"before COMMIT, refused": {want: sqldb.ErrCommitUnknown, f: func(ctx context.Context, tx *sqldb.Tx, w *wire) error {
			_, err := tx.Exec(ctx, raiseClock, "counter")
			w.Down()
			return err
		}},
		"before BEGIN, silent": {want: sqldb.ErrUnavailable, f: func(ctx context.Context, tx *sqldb.Tx, w *wire) error {
			w.Hold()
			_, err := tx.Exec(ctx, raiseClock, "counter")
			return err
		}},
		"before COMMIT, silent": {want: sqldb.ErrCommitUnknown, f: func(ctx context.Context, tx *sqldb.Tx, w *wire) error {
			_, err := tx.Exec(ctx, raiseClock, "counter")
			w.Hold()
			return err
		}},
		// The function fails for its own reasons after a COMMIT was lost, but only because it could not look.
		"before COMMIT, and a function that hides it": {want: sqldb.ErrCommitUnknown, f: func(ctx context.Context, tx *sqldb.Tx, w *wire) error {
			if _, err := tx.Exec(ctx, raiseClock, "counter"); err != nil {
				return errors.New("something else")
			}
			w.Down()
			return nil
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWire(t)
			began := time.Now()
			err := w.db.WriteWithin(t.Context(), limit, func(ctx context.Context, tx *sqldb.Tx) error { return test.f(ctx, tx, w) })
			for _, meaning := range []error{sqldb.ErrUnavailable, sqldb.ErrCommitUnknown} {
				if got := errors.Is(err, meaning); got != errors.Is(test.want, meaning) {
					t.Errorf("%v is %v: %t", err, meaning, got)
				}
			}
			if took := time.Since(began); took > limit+3*time.Second {
				t.Errorf("it took %v", took)
			}
			w.Down()
			began = time.Now()
			if err := w.db.Write(t.Context(), func(context.Context, *sqldb.Tx) error { return nil }); err != nil && !errors.Is(err, sqldb.ErrUnavailable) {
				t.Errorf("a later write: %v", err)
			}
			if _, err := sqldb.One(t.Context(), w.db, sqldb.Scalar[int64], selectClock, "counter"); !errors.Is(err, sqldb.ErrUnavailable) {
				t.Errorf("a later query: %v", err)
			}
			if _, err := w.db.TryLock(t.Context(), 1); !errors.Is(err, sqldb.ErrUnavailable) {
				t.Errorf("a later lock: %v", err)
			}
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("to be refused took %v", took)
			}
		})
	}
}

// A network that is silent ends a read with its context, and does not keep a process from ending.
func TestReadSilent(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.Hold()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := sqldb.One(ctx, w.db, sqldb.Scalar[int64], selectClock, "counter"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	began := time.Now()
	w.db.Close()
	if took := time.Since(began); took > 8*time.Second {
		t.Errorf("to close took %v", took)
	}
	w.Down()
}

// Two transactions that wait for each other: PostgreSQL ends one, and it runs again.
func TestDeadlock(t *testing.T) {
	t.Parallel()
	db := sqltest.Open(t, sqltest.Postgres(t))
	put(t, db, "a", "b")
	var wait, both sync.WaitGroup
	both.Add(2)
	var mu sync.Mutex
	runs := 0
	for _, order := range [][]string{{"a", "b"}, {"b", "a"}} {
		wait.Go(func() {
			first := true
			err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
				mu.Lock()
				runs++
				mu.Unlock()
				if _, err := tx.Exec(ctx, raiseClock, order[0]); err != nil {
					return err
				}
				if first {
					first = false
					both.Done()
					both.Wait()
				}
				// Said in other words, it is still a deadlock.
				if _, err := tx.Exec(ctx, raiseClock, order[1]); err != nil {
					return errors.New("it did not work")
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	for _, name := range []string{"a", "b"} {
		if n, err := sqldb.One(t.Context(), db, sqldb.Scalar[int64], selectClock, name); n != 2 || err != nil {
			t.Errorf("%s is %d, %v; want 2", name, n, err)
		}
	}
	if runs < 3 {
		t.Errorf("ran %d times: there was no deadlock", runs)
	}
}

// A transaction that PostgreSQL cannot put in order runs again; one that never can is given up.
func TestSerialization(t *testing.T) {
	t.Parallel()
	db := sqltest.Open(t, sqltest.Postgres(t))
	put(t, db, "a")
	attempt := func(again bool) (runs int, err error) {
		err = db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			runs++
			if err := tx.Script(ctx, `SET TRANSACTION ISOLATION LEVEL REPEATABLE READ`); err != nil {
				return err
			}
			if _, err := sqldb.One(ctx, tx, sqldb.Scalar[int64], selectClock, "a"); err != nil {
				return err
			}
			if runs == 1 || again {
				mustWrite(t, db, func(ctx context.Context, tx *sqldb.Tx) error {
					_, err := tx.Exec(ctx, raiseClock, "a")
					return err
				})
			}
			_, err := tx.Exec(ctx, raiseClock, "a")
			return err
		})
		return runs, err
	}
	if runs, err := attempt(false); runs != 2 || err != nil {
		t.Errorf("ran %d times: %v", runs, err)
	}
	if runs, err := attempt(true); runs < 5 || !errors.Is(err, sqldb.ErrUnavailable) || errors.Is(err, sqldb.ErrCommitUnknown) {
		t.Errorf("ran %d times: %v", runs, err)
	}
	isIdle(t, db)
}
