package sqldb_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

var errNobody = errors.New("nobody is there")

// road is a PostgreSQL on which transactions wait for each other until they are let go together.
type road struct {
	*wire
	told []chan error
	runs []int
}

const travelers = 12

// newRoad holds up as many convoys as may be under way, so that all who come next wait in line.
func newRoad(t *testing.T) (r *road, letGo func()) {
	t.Helper()
	r = &road{wire: newWire(t)}
	r.db = sqltest.Open(t, r.URL+"&lock_timeout=0")
	hold := r.holdGate(t)
	var held sync.WaitGroup
	for n := range sqldb.ConvoyLeadsMax {
		held.Go(func() {
			mustWrite(t, r.db, func(ctx context.Context, tx *sqldb.Tx) error {
				tx.Queue(ctx, raiseClock, "gate")
				return nil
			})
		})
		r.waitHeldUp(t, int64(n)+1)
	}
	return r, func() {
		if err := hold.Commit(t.Context()); err != nil {
			t.Error(err)
		}
		held.Wait()
	}
}

// waitHeldUp waits until so many drivers wait in PostgreSQL: whoever comes next drives too, after a while.
func (w *wire) waitHeldUp(t *testing.T, drivers int64) {
	t.Helper()
	sqltest.Wait(t, "a driver to be held up", func() bool { return w.blocked(t) == drivers })
}

// holdGate locks the row that others wait for.
func (w *wire) holdGate(t *testing.T) pgx.Tx {
	t.Helper()
	hold, err := w.gate.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := hold.Exec(t.Context(), `UPDATE clock SET offset_us = 0 WHERE name = 'gate'`); err != nil {
		t.Fatal(err)
	}
	return hold
}

// connectAll opens a connection for each of those who come. One that is lost while it is opened is another matter: who wanted
// it is told that the database is unavailable.
func (r *road) connectAll(t *testing.T) {
	t.Helper()
	var open atomic.Int32
	enough := make(chan struct{})
	var all sync.WaitGroup
	for range travelers {
		all.Go(func() {
			err := r.db.Read(t.Context(), func(context.Context, *sqldb.Tx) error {
				open.Add(1)
				<-enough
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	defer all.Wait()
	defer close(enough)
	sqltest.Wait(t, "all connections to be open", func() bool { return open.Load() == travelers })
}

// join lets another transaction wait, each after the one before it.
func (r *road) join(t *testing.T, limit time.Duration, f func(ctx context.Context, tx *sqldb.Tx, runs int)) {
	t.Helper()
	at := len(r.told)
	r.told = append(r.told, make(chan error, 1))
	r.runs = append(r.runs, 0)
	go func() {
		runs := 0
		err := r.db.WriteWithin(t.Context(), limit, func(ctx context.Context, tx *sqldb.Tx) error {
			runs++
			f(ctx, tx, runs)
			return nil
		})
		r.runs[at] = runs
		r.told[at] <- err
	}()
	sqltest.Wait(t, "it to wait in line", func() bool { return r.db.ConvoyInLine() == at+1 })
}

func name(i int) string { return fmt.Sprintf("traveler %d", i) }

func (r *road) isThere(t *testing.T, who string) bool {
	t.Helper()
	return r.number(t, `SELECT COUNT(*) FROM clock WHERE name = $1`, who) == 1
}

// Transactions that ask nothing and wait at the same time are one, and each is told when it is durable.
func TestConvoy(t *testing.T) {
	t.Parallel()
	r, letGo := newRoad(t)
	for i := range travelers {
		r.join(t, time.Minute, func(ctx context.Context, tx *sqldb.Tx, _ int) { tx.Queue(ctx, insertClock, name(i), 0) })
	}
	letGo()
	for i, told := range r.told {
		if err := <-told; err != nil || !r.isThere(t, name(i)) {
			t.Errorf("%s: %v", name(i), err)
		}
	}
	if n := r.number(t, `SELECT COUNT(DISTINCT CAST(xmin AS TEXT)) FROM clock WHERE name LIKE 'traveler%'`); n > sqldb.ConvoyLeadsMax {
		t.Errorf("%d writes made %d transactions", travelers, n)
	}
	isIdle(t, r.db)
}

// What makes one of them fail is told to that one alone, wherever it stands.
func TestConvoyDissolved(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		f    func(ctx context.Context, tx *sqldb.Tx)
		want error
	}{
		"conflict": {want: sqldb.ErrConflict, f: func(ctx context.Context, tx *sqldb.Tx) {
			tx.Queue(ctx, insertClock, "counter", 0)
		}},
		"guard": {want: errNobody, f: func(ctx context.Context, tx *sqldb.Tx) {
			tx.Guard(ctx, errNobody, raiseClock, "nobody")
		}},
	}
	for title, test := range tests {
		for at := range 3 {
			t.Run(fmt.Sprint(title, " ", at), func(t *testing.T) {
				t.Parallel()
				r, letGo := newRoad(t)
				bad := at * (travelers - 1) / 2
				for i := range travelers {
					r.join(t, time.Minute, func(ctx context.Context, tx *sqldb.Tx, _ int) {
						tx.Queue(ctx, insertClock, name(i), 0)
						if i == bad {
							test.f(ctx, tx)
						} else {
							tx.Guard(ctx, errNobody, raiseClock, "counter")
						}
					})
				}
				letGo()
				for i, told := range r.told {
					err := <-told
					if i == bad && (!errors.Is(err, test.want) || r.isThere(t, name(i))) {
						t.Errorf("the bad one: %v", err)
					}
					if i != bad && (err != nil || !r.isThere(t, name(i))) {
						t.Errorf("%s: %v", name(i), err)
					}
				}
				if n := r.number(t, selectClock, "counter"); n != travelers-1 {
					t.Errorf("counted %d", n)
				}
				isIdle(t, r.db)
			})
		}
	}
}

const (
	insertBalance = `INSERT INTO balance (account_id, currency, book, amount, last_id) VALUES ($1, 'BRL', $2, 100, '00000000-0000-0000-0000-000000000000')`
	takeBalance   = `UPDATE balance SET amount = amount - $1 WHERE account_id = $2 AND currency = $3 AND book = $4 AND amount >= $1`
	selectBalance = `SELECT amount FROM balance WHERE account_id = $1 AND currency = 'BRL' AND book = $2`
)

// Changes of several rows that travel together go by one statement. Each still hits its own row, twice where two of them want
// it, and who hits none is told so alone.
func TestConvoyChanges(t *testing.T) {
	t.Parallel()
	for _, bad := range []int{-1, 0, travelers - 1} {
		t.Run(strconv.Itoa(bad), func(t *testing.T) {
			t.Parallel()
			r, letGo := newRoad(t)
			mustWrite(t, r.db, func(ctx context.Context, tx *sqldb.Tx) error {
				for i := range travelers {
					tx.Queue(ctx, insertBalance, i, "a")
					tx.Queue(ctx, insertBalance, i, "b")
				}
				_, err := sqldb.One(ctx, tx, sqldb.Scalar[int64], selectBalance, 0, "a") // so that it needs no convoy
				return err
			})
			for i := range travelers {
				r.join(t, time.Minute, func(ctx context.Context, tx *sqldb.Tx, _ int) {
					amount := int64(i + 1)
					if i == bad {
						amount = 101
					}
					tx.Guard(ctx, errNobody, takeBalance, amount, int64(i), "BRL", "a")
					tx.Guard(ctx, errNobody, takeBalance, int64(1), int64(i/2), "BRL", "b") // two of them want it
				})
			}
			letGo()
			wantB := map[int]int64{}
			for i, told := range r.told {
				wantA := int64(100 - i - 1)
				if err := <-told; (i == bad) != errors.Is(err, errNobody) || (i != bad && err != nil) {
					t.Errorf("%d was told %v", i, err)
				}
				if i == bad {
					wantA = 100
				} else {
					wantB[i/2]++
				}
				if got := r.number(t, selectBalance, i, "a"); got != wantA {
					t.Errorf("%d has %d, want %d", i, got, wantA)
				}
			}
			for i := range travelers {
				if got := r.number(t, selectBalance, i, "b"); got != 100-wantB[i] {
					t.Errorf("%d has %d in the other book, want %d", i, got, 100-wantB[i])
				}
			}
			if n := r.number(t, `SELECT COUNT(DISTINCT CAST(xmin AS TEXT)) FROM balance WHERE book = 'a'`); bad < 0 && n > sqldb.ConvoyLeadsMax {
				t.Errorf("%d writes made %d transactions", travelers, n)
			}
			isIdle(t, r.db)
		})
	}
}

// The connection is lost before or after the server has a whole convoy: all of it happens, and once.
func TestConvoyLost(t *testing.T) {
	t.Parallel()
	for when, cut := range map[string]func(*sqltest.Proxy, int){
		"before": (*sqltest.Proxy).CutBeforeSkipping, "after": (*sqltest.Proxy).CutAfterSkipping,
	} {
		for skip := range 3 { // with a guard COMMIT is a message of its own
			for _, guarded := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s %d, guarded %v", when, skip, guarded), func(t *testing.T) {
					t.Parallel()
					r, letGo := newRoad(t)
					for i := range travelers {
						r.join(t, time.Minute, func(ctx context.Context, tx *sqldb.Tx, _ int) {
							if guarded {
								tx.Guard(ctx, errNobody, `UPDATE clock SET offset_us = offset_us + 1 WHERE name = 'counter' AND NOT EXISTS (SELECT 1 FROM clock WHERE name = $1)`, name(i))
								tx.Queue(ctx, insertClock, name(i), 0)
								return
							}
							tx.Queue(ctx, `UPDATE clock SET offset_us = offset_us + 1 WHERE name = 'counter' AND NOT EXISTS (SELECT 1 FROM clock WHERE name = $1)`, name(i))
							tx.Queue(ctx, insertOnce, name(i), 0)
						})
					}
					cut(r.Proxy, skip)
					letGo()
					for i, told := range r.told {
						err := <-told
						refused := guarded && errors.Is(err, errNobody) // the second run found the first
						if (err != nil && !refused) || !r.isThere(t, name(i)) {
							t.Errorf("%s: %v after %d runs", name(i), err, r.runs[i])
						}
					}
					if n := r.number(t, selectClock, "counter"); n != travelers {
						t.Errorf("it happened %d times, want %d", n, travelers)
					}
					isIdle(t, r.db)
				})
			}
		}
	}
}

// The connection is lost while a convoy that one of them made fail is rolled back: that is nobody else's failure either.
func TestConvoyRollbackLost(t *testing.T) {
	t.Parallel()
	const bad = travelers - 1
	for skip := range 4 {
		t.Run(strconv.Itoa(skip), func(t *testing.T) {
			t.Parallel()
			r, letGo := newRoad(t)
			for i := range travelers {
				r.join(t, time.Minute, func(ctx context.Context, tx *sqldb.Tx, _ int) {
					tx.Queue(ctx, insertOnce, name(i), 0)
					if i == bad {
						tx.Guard(ctx, errNobody, raiseClock, "nobody")
					}
				})
			}
			r.connectAll(t)
			r.CutBeforeSkipping(skip)
			letGo()
			for i, told := range r.told {
				if err := <-told; (i == bad) != errors.Is(err, errNobody) || (i != bad && err != nil) {
					t.Errorf("%s was told %v", name(i), err)
				}
			}
		})
	}
}

// Those who wait for a row hold nobody else up, however many they are.
func TestConvoyLocked(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	hold := w.holdGate(t)
	var waiting sync.WaitGroup
	const waiters = 3 * sqldb.ConvoyLeadsMax
	for i := range waiters {
		waiting.Go(func() {
			mustWrite(t, w.db, func(ctx context.Context, tx *sqldb.Tx) error {
				tx.Queue(ctx, insertClock, name(i), 0)
				tx.Queue(ctx, raiseClock, "gate")
				tx.Queue(ctx, raiseClock, "counter")
				return nil
			})
		})
	}
	sqltest.Wait(t, "some to wait for the row", func() bool { return w.blocked(t) > 0 })
	put(t, w.db, "unrelated") // while the row is held
	if err := hold.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	waiting.Wait()
	for _, counted := range []string{"gate", "counter"} {
		if n := w.number(t, selectClock, counted); n != waiters {
			t.Errorf("%s counted %d", counted, n)
		}
	}
	if n := w.number(t, `SELECT COUNT(*) FROM clock WHERE name LIKE 'traveler%'`); n != waiters {
		t.Errorf("%d came", n)
	}
	isIdle(t, w.db)
}

// Whoever has waited too long leaves the line, and nothing of it happens.
func TestConvoyNoTurn(t *testing.T) {
	t.Parallel()
	r, letGo := newRoad(t)
	const soon = 50 * time.Millisecond
	r.join(t, soon, func(ctx context.Context, tx *sqldb.Tx, _ int) { tx.Queue(ctx, insertClock, name(0), 0) })
	if err := <-r.told[0]; !errors.Is(err, sqldb.ErrUnavailable) || errors.Is(err, sqldb.ErrCommitUnknown) {
		t.Errorf("told %v", err)
	}
	letGo()
	if r.isThere(t, name(0)) {
		t.Error("it happened all the same")
	}
	isIdle(t, r.db)
}
