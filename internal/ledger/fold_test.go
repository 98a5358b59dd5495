package ledger

import (
	"context"
	"crypto/rand"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

// Three ways to fold that look right and make or lose money on PostgreSQL. They stay here so that the test below is
// known to catch them.
const (
	// After a wait for the row's lock the subquery still sees what was there before.
	wrongFoldBySubquery = `UPDATE balance SET amount = amount + COALESCE((SELECT CAST(SUM(d.amount) AS BIGINT) FROM delta d
WHERE d.account_id = $1 AND d.currency = $2 AND d.book = $3), 0) WHERE account_id = $1 AND currency = $2 AND book = $3`
	wrongFoldDelete = `DELETE FROM delta WHERE account_id = $1 AND currency = $2 AND book = $3`
	// A credit can commit between the sum and the deletion.
	wrongFoldSum = `SELECT COALESCE(CAST(SUM(amount) AS BIGINT), 0) FROM delta WHERE account_id = $1 AND currency = $2 AND book = $3`
	// Another fold can commit between this and the lock.
	wrongFoldRead = `SELECT amount, last_id FROM balance WHERE account_id = $1 AND currency = $2 AND book = $3`
)

func keys(at place) []any { return []any{int64(at.account), string(at.currency), string(at.book)} }

func foldBySubquery(ctx context.Context, tx *sqldb.Tx, at place) (int64, id.ID, error) {
	if _, err := tx.Exec(ctx, wrongFoldBySubquery, keys(at)...); err != nil {
		return 0, id.ID{}, err
	}
	if _, err := tx.Exec(ctx, wrongFoldDelete, keys(at)...); err != nil {
		return 0, id.ID{}, err
	}
	held, err := lock(ctx, tx, at)
	return held.units, held.id, err
}

func foldBySum(ctx context.Context, tx *sqldb.Tx, at place) (int64, id.ID, error) {
	held, err := lock(ctx, tx, at)
	if err != nil {
		return 0, id.ID{}, err
	}
	sum, err := sqldb.One(ctx, tx, sqldb.Scalar[int64], wrongFoldSum, keys(at)...)
	if err != nil {
		return 0, id.ID{}, err
	}
	_, err = tx.Exec(ctx, wrongFoldDelete, keys(at)...)
	return held.units + sum, held.id, err
}

func foldByEarlyRead(ctx context.Context, tx *sqldb.Tx, at place) (int64, id.ID, error) {
	early, err := sqldb.One(ctx, tx, func(r sqldb.Row) (w waiting, err error) {
		err = r.Scan(&w.units, &w.id)
		return w, err
	}, wrongFoldRead, keys(at)...)
	if err != nil {
		return 0, id.ID{}, err
	}
	deltas, err := sqldb.All(ctx, tx, scanWaiting, foldDeltas, keys(at)...)
	if err != nil {
		return 0, id.ID{}, err
	}
	return early.with(deltas)
}

// TestFoldKeepsMoneyUnderLoad credits one account from many goroutines while others debit it, and compares the balance
// with its transfers. The right fold passes; each wrong one must be caught, or the test is worth nothing.
func TestFoldKeepsMoneyUnderLoad(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		fold  foldFunc
		right bool
	}{
		{"lock and fold", lockAndFold, true},
		{"wrong: subquery in the update", foldBySubquery, false},
		{"wrong: sum, then delete", foldBySum, false},
		{"wrong: read before the lock", foldByEarlyRead, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			const rounds = 40 // a wrong fold showed in the first rounds, always
			db := sqltest.Open(t, sqltest.Postgres(t))
			for range rounds {
				l, account := hammer(t, db, c.fold)
				problems := check(t, l, account)
				if len(problems) > 0 {
					if c.right {
						t.Fatalf("%v", problems)
					}
					return
				}
				if c.right && testing.Short() {
					return
				}
			}
			if !c.right {
				t.Fatal("no test noticed that this fold makes or loses money")
			}
		})
	}
}

func hammer(t *testing.T, db *sqldb.DB, fold foldFunc) (*Ledger, id.Account) {
	t.Helper()
	const creditors, debtors, credits = 8, 4, 25
	ctx := context.Background()
	c := clock.New(nil)
	l := New(db, id.NewGenerator(c.Now, rand.Reader), c)
	l.fold = fold
	account := id.NewAccount(rand.Reader)
	if err := db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error { Open(ctx, tx, account); return nil }); err != nil {
		t.Fatal(err)
	}
	post := func(source, target Book) error {
		return l.Write(ctx, func(ctx context.Context, tx *Tx) error {
			return tx.Post(ctx, &Transfer{Account: account, Amount: money.BRL(100).Amount(), Source: source, Target: target, Kind: "test"})
		})
	}
	var running atomic.Int64
	var wg sync.WaitGroup
	running.Store(creditors)
	for range creditors {
		wg.Go(func() {
			defer running.Add(-1)
			for range credits {
				if err := post(Acquirer, Available); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range debtors {
		wg.Go(func() {
			for running.Load() > 0 {
				_ = post(Available, Fees) // refused when there is nothing; both are fine
			}
		})
	}
	wg.Wait()
	return l, account
}

func check(t *testing.T, l *Ledger, account id.Account) []Problem {
	t.Helper()
	var result AuditResult
	err := l.db.Read(context.Background(), func(ctx context.Context, tx *sqldb.Tx) error {
		return result.account(ctx, tx, account, nil)
	})
	if err != nil {
		t.Fatal(err)
	}
	b, err := Balances(context.Background(), l.db, account, money.CurrencyBRL)
	if err != nil {
		t.Fatal(err)
	}
	if b.Available < 0 {
		result.Problems = append(result.Problems, Problem{account, "available is below zero"})
	}
	return result.Problems
}

// The audit has to find what it is there for.
func TestAuditFindsWhatDoesNotAddUp(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]string{
		"balance changed":       `UPDATE balance SET amount = amount + 1 WHERE account_id = $1 AND currency = 'BRL' AND book = 'available'`,
		"balance gone":          `DELETE FROM balance WHERE account_id = $1 AND currency = 'USDT'`,
		"pending below zero":    `UPDATE balance SET amount = -5 WHERE account_id = $1 AND book = 'pending'`,
		"delta from nowhere":    `INSERT INTO delta (account_id, currency, book, id, amount) SELECT account_id, currency, 'pending', last_id, 5 FROM balance WHERE account_id = $1 AND currency = 'BRL' AND book = 'pending'`,
		"delta lost":            `DELETE FROM delta WHERE account_id = $1`,
		"blocked without hold":  `UPDATE balance SET amount = amount + 1 WHERE account_id = $1 AND currency = 'BRL' AND book = 'blocked'`,
		"transfer to no book":   `INSERT INTO transfer (account_id, id, currency, source, target, amount, kind) SELECT account_id, last_id, 'BRL', 'acquirer', 'pocket', 5, 'x' FROM balance WHERE account_id = $1 AND currency = 'BRL' AND book = 'pending'`,
		"transfer not credited": `INSERT INTO transfer (account_id, id, currency, source, target, amount, kind) SELECT account_id, last_id, 'BRL', 'acquirer', 'available', 5, 'x' FROM balance WHERE account_id = $1 AND currency = 'BRL' AND book = 'pending'`,
		"money in no currency":  `INSERT INTO transfer (account_id, id, currency, source, target, amount, kind) SELECT account_id, last_id, 'EUR', 'acquirer', 'available', 5, 'x' FROM balance WHERE account_id = $1 AND currency = 'BRL' AND book = 'pending'`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
				ctx := t.Context()
				c := clock.New(nil)
				l := New(db, id.NewGenerator(c.Now, rand.Reader), c)
				account := id.NewAccount(rand.Reader)
				if err := db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error { Open(ctx, tx, account); return nil }); err != nil {
					t.Fatal(err)
				}
				if _, err := l.Adjust(ctx, account, money.BRL(1000).Amount(), "opening"); err != nil {
					t.Fatal(err)
				}
				if _, err := l.Hold(ctx, account, 300, "review"); err != nil {
					t.Fatal(err)
				}
				if _, err := l.Adjust(ctx, account, money.BRL(10).Amount(), "waits as a delta"); err != nil {
					t.Fatal(err)
				}
				sound, err := Audit(ctx, db)
				if err != nil || len(sound.Problems) > 0 || sound.Accounts != 1 || sound.Transfers != 3 {
					t.Fatalf("before: %+v, %v", sound, err)
				}
				if err := db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
					_, err := tx.Exec(ctx, spoil, int64(account))
					return err
				}); err != nil {
					t.Fatal(err)
				}
				if found, err := Audit(ctx, db); err != nil || len(found.Problems) == 0 {
					t.Errorf("not found: %+v, %v", found, err)
				}
			})
		})
	}
}

func TestFolderForgetsNothingThatFailed(t *testing.T) {
	t.Parallel()
	db := sqltest.Open(t, sqltest.SQLite(t))
	now := time.Now()
	c := clock.New(func() time.Time { return now })
	l := New(db, id.NewGenerator(c.Now, rand.Reader), c)
	at := place{1, money.CurrencyBRL, Available} // no such account: folding it fails
	err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		tx.Queue(ctx, insertDelta, int64(at.account), string(at.currency), string(at.book), id.Max, 5)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	l.folder.credited(at)
	now = now.Add(2 * foldAgeMax)
	if l.Lag() < foldAgeMax {
		t.Errorf("lag %v", l.Lag())
	}
	if _, err := l.Step(t.Context()); err == nil {
		t.Fatal("folded a book that does not exist")
	}
	now = now.Add(2 * foldAgeMax)
	if len(l.folder.ready()) != 1 {
		t.Error("the failed fold was forgotten")
	}
}
