package ledger_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/oplog"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

// world is a ledger with its accounts.
type world struct {
	*ledger.Ledger
	db *sqldb.DB
}

func newWorld(db *sqldb.DB) world {
	c := clock.New(nil)
	return world{ledger.New(db, id.NewGenerator(c.Now, rand.Reader), c), db}
}

func (w world) account(t testing.TB) id.Account {
	t.Helper()
	account := id.NewAccount(rand.Reader)
	err := w.db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		ledger.Open(ctx, tx, account)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return account
}

func (w world) post(ctx context.Context, transfers ...*ledger.Transfer) error {
	return w.Write(ctx, func(ctx context.Context, tx *ledger.Tx) error { return tx.Post(ctx, transfers...) })
}

func (w world) balance(t testing.TB, account id.Account, c money.Currency) ledger.Balance {
	t.Helper()
	b, err := ledger.Balances(t.Context(), w.db, account, c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// audit fails the test when anything does not add up.
func (w world) audit(t testing.TB) {
	t.Helper()
	result, err := ledger.Audit(t.Context(), w.db)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range result.Problems {
		t.Errorf("audit: %s: %s", p.Account, p.What)
	}
}

// credit and debit are a payment in and a payment out.
func credit(account id.Account, units int64) *ledger.Transfer {
	return &ledger.Transfer{
		Account: account, Amount: money.BRL(units).Amount(),
		Source: ledger.Acquirer, Target: ledger.Available, Kind: "test_in",
	}
}

func debit(account id.Account, units int64) *ledger.Transfer {
	return &ledger.Transfer{
		Account: account, Amount: money.BRL(units).Amount(),
		Source: ledger.Available, Target: ledger.InTransit, Kind: "test_out",
	}
}

func TestPostMovesMoney(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(db)
		a := w.account(t)
		fee := debit(a, 30)
		fee.Target, fee.Kind = ledger.Fees, "test_fee"
		if err := w.post(t.Context(), credit(a, 1000), fee); err != nil {
			t.Fatal(err)
		}
		if err := w.post(t.Context(), debit(a, 900)); err != nil {
			t.Fatal(err)
		}
		var insufficient *ledger.InsufficientError
		if err := w.post(t.Context(), debit(a, 71)); !errors.As(err, &insufficient) {
			t.Fatalf("a debit above the balance: %v", err)
		}
		if insufficient.Balance.Units != 70 || insufficient.Need.Units != 71 || insufficient.Book != ledger.Available {
			t.Errorf("told %+v", insufficient)
		}
		want := ledger.Balance{Available: 70, InTransit: 900}
		if diff := cmp.Diff(want, w.balance(t, a, money.CurrencyBRL)); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(ledger.Balance{}, w.balance(t, a, money.CurrencyUSDT)); diff != "" {
			t.Error("the other currency moved: " + diff)
		}
		w.audit(t)
	})
}

func TestPostRefusesWhatIsNoTransfer(t *testing.T) {
	t.Parallel()
	w := newWorld(sqltest.Open(t, sqltest.SQLite(t)))
	a := w.account(t)
	good := *credit(a, 1)
	for name, spoil := range map[string]func(*ledger.Transfer){
		"no account":       func(x *ledger.Transfer) { x.Account = 0 },
		"zero":             func(x *ledger.Transfer) { x.Amount.Units = 0 },
		"negative":         func(x *ledger.Transfer) { x.Amount.Units = -1 },
		"unknown currency": func(x *ledger.Transfer) { x.Amount.Currency = "USD" },
		"unknown source":   func(x *ledger.Transfer) { x.Source = "pocket" },
		"unknown target":   func(x *ledger.Transfer) { x.Target = "pocket" },
		"to itself":        func(x *ledger.Transfer) { x.Target = x.Source },
		"no kind":          func(x *ledger.Transfer) { x.Kind = "" },
	} {
		bad := good
		spoil(&bad)
		if err := w.post(t.Context(), &bad); !errors.Is(err, ledger.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := w.post(t.Context()); !errors.Is(err, ledger.ErrInvalid) {
		t.Errorf("nothing to post: %v", err)
	}
	err := w.Write(t.Context(), func(ctx context.Context, tx *ledger.Tx) error {
		if err := tx.Post(ctx, credit(a, 1)); err != nil {
			return err
		}
		return tx.Post(ctx, credit(a, 1))
	})
	if !errors.Is(err, ledger.ErrInvalid) {
		t.Errorf("two posts in one transaction: %v", err)
	}
	if b := w.balance(t, a, money.CurrencyBRL); b != (ledger.Balance{}) {
		t.Errorf("something was posted: %+v", b)
	}
}

func TestOnceKeyIsPostedOnce(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(db)
		a, other := w.account(t), w.account(t)
		pay := func(account id.Account, kind ledger.Kind) error {
			x := credit(account, 500)
			x.Kind, x.OnceKey = kind, "E00000000202611150000000000000001"
			return w.post(t.Context(), x)
		}
		var posted atomic.Int64
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				switch err := pay(a, "test_in"); {
				case err == nil:
					posted.Add(1)
				case !errors.Is(err, sqldb.ErrConflict):
					t.Errorf("unexpected: %v", err)
				}
			})
		}
		wg.Wait()
		if posted.Load() != 1 {
			t.Errorf("posted %d times", posted.Load())
		}
		if err := errors.Join(pay(a, "test_other"), pay(other, "test_in")); err != nil {
			t.Errorf("another kind, another account: %v", err)
		}
		if b := w.balance(t, a, money.CurrencyBRL); b.Available != 1000 {
			t.Errorf("available %d", b.Available)
		}
		w.audit(t)
	})
}

func TestManyDebitsAcceptWhatTheMoneyCovers(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		const debits, covered = 200, 100
		w := newWorld(db)
		a := w.account(t)
		for range covered { // as deltas, so that debits meet waiting money
			if err := w.post(t.Context(), credit(a, 250)); err != nil {
				t.Fatal(err)
			}
		}
		var accepted, refused atomic.Int64
		var wg sync.WaitGroup
		for range debits {
			wg.Go(func() {
				var insufficient *ledger.InsufficientError
				switch err := w.post(context.WithoutCancel(t.Context()), debit(a, 250)); {
				case err == nil:
					accepted.Add(1)
				case errors.As(err, &insufficient):
					refused.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if accepted.Load() != covered || refused.Load() != debits-covered {
			t.Errorf("accepted %d, refused %d", accepted.Load(), refused.Load())
		}
		want := ledger.Balance{InTransit: covered * 250}
		if diff := cmp.Diff(want, w.balance(t, a, money.CurrencyBRL)); diff != "" {
			t.Error(diff)
		}
		w.audit(t)
		noDip(t, w, a)
	})
}

// noDip re-adds an account transfer by transfer: in the order of identifiers no guarded book goes below zero.
func noDip(t testing.TB, w world, account id.Account) {
	t.Helper()
	var running ledger.Balance
	all, err := ledger.Transfers(t.Context(), w.db, ledger.Range{
		Account: account, Currency: money.CurrencyBRL,
		After: id.First(time.UnixMicro(0)), Before: id.First(time.Now().Add(time.Hour)), Limit: 100_000,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range all {
		running.Apply(&x)
		if min(running.Available, running.Blocked, running.Pending, running.InTransit) < 0 {
			t.Fatalf("after %s the statement shows %+v", x.ID, running)
		}
	}
	if b := w.balance(t, account, money.CurrencyBRL); b != running {
		t.Errorf("the statement ends at %+v, the balance is %+v", running, b)
	}
}

// A node whose clock is behind must not date a debit before the money that it takes.
func TestDebitIsDatedAfterTheMoneyItTakes(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		ahead := clock.New(nil)
		ahead.Raise(time.Minute)
		fast := world{ledger.New(db, id.NewGenerator(ahead.Now, rand.Reader), ahead), db}
		slow := newWorld(db)
		a := slow.account(t)
		for range 3 {
			if err := fast.post(t.Context(), credit(a, 100)); err != nil {
				t.Fatal(err)
			}
			if err := slow.post(t.Context(), debit(a, 100)); err != nil {
				t.Fatal(err)
			}
		}
		if err := fast.post(t.Context(), credit(a, 100)); err != nil {
			t.Fatal(err)
		}
		fold(t, fast)
		if err := slow.post(t.Context(), debit(a, 100)); err != nil {
			t.Fatal(err)
		}
		noDip(t, slow, a)
	})
}

// A release by a node whose clock is behind the one that placed the hold is still its release.
func TestReleaseByANodeBehind(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		ahead := clock.New(nil)
		ahead.Raise(400 * time.Millisecond)
		fast := world{ledger.New(db, id.NewGenerator(ahead.Now, rand.Reader), ahead), db}
		slow := newWorld(db)
		a := slow.account(t)
		if _, err := slow.Hold(t.Context(), a, 5000, "folded before"); err != nil {
			t.Fatal(err)
		}
		fold(t, slow)
		hold, err := fast.Hold(t.Context(), a, 500, "by the one ahead")
		if err != nil {
			t.Fatal(err)
		}
		release, err := slow.Release(t.Context(), a, hold.ID)
		if err != nil {
			t.Fatal(err)
		}
		if release.ID.Compare(hold.ID) <= 0 {
			t.Errorf("released at %v, held at %v", release.ID.Time(), hold.ID.Time())
		}
		if holds, err := ledger.Holds(t.Context(), db, a); err != nil || len(holds) != 1 {
			t.Errorf("open holds %v, %v", holds, err)
		}
		slow.audit(t)
	})
}

// fold folds everything that waits, as a node that has just started does.
func fold(t testing.TB, w world) {
	t.Helper()
	var late atomic.Int64
	c := clock.New(func() time.Time { return time.Now().Add(time.Duration(late.Load())) })
	l := ledger.New(w.db, id.NewGenerator(c.Now, rand.Reader), c)
	for range 2 { // the first look finds what waits, the second finds it old enough
		if _, err := l.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		late.Add(int64(2 * time.Second))
	}
}

func TestStepFoldsWhatWaits(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(db)
		a, b := w.account(t), w.account(t)
		for i := range 1200 { // more than one slice
			if err := w.post(t.Context(), credit(a, int64(i+1))); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.post(t.Context(), credit(b, 7)); err != nil {
			t.Fatal(err)
		}
		if did, err := w.Step(t.Context()); err != nil || !did {
			t.Fatalf("the busy account is due: %v, %v", did, err)
		}
		if n := deltas(t, db); n != 1 {
			t.Errorf("%d deltas wait after the busy account was folded", n)
		}
		fold(t, w) // another node finds what is left
		if n := deltas(t, db); n != 0 {
			t.Errorf("%d deltas wait", n)
		}
		if got := w.balance(t, a, money.CurrencyBRL).Available; got != 1200*1201/2 {
			t.Errorf("available %d", got)
		}
		w.audit(t)
	})
}

func deltas(t testing.TB, db *sqldb.DB) int64 {
	t.Helper()
	n, err := sqldb.One(t.Context(), db, sqldb.Scalar[int64], `SELECT COUNT(*) FROM delta`)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestOperatorsByHand(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w, ctx := newWorld(db), t.Context()
		a := w.account(t)
		if _, err := w.Adjust(ctx, a, money.BRL(10000).Amount(), "opening"); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Adjust(ctx, a, money.USDT(5_000000).Amount(), "opening"); err != nil {
			t.Fatal(err)
		}
		hold, err := w.Hold(ctx, a, 12000, "review")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(ledger.Balance{Available: -2000, Blocked: 12000}, w.balance(t, a, money.CurrencyBRL)); diff != "" {
			t.Error("a hold may take available below zero: " + diff)
		}
		var insufficient *ledger.InsufficientError
		if err := w.post(ctx, debit(a, 1)); !errors.As(err, &insufficient) {
			t.Errorf("a debit below zero: %v", err)
		}
		w.audit(t)

		if _, err := w.Release(ctx, w.account(t), hold.ID); !errors.Is(err, ledger.ErrNoHold) {
			t.Errorf("another account's hold: %v", err)
		}
		var released atomic.Int64
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				switch _, err := w.Release(context.WithoutCancel(ctx), a, hold.ID); {
				case err == nil:
					released.Add(1)
				case !errors.Is(err, ledger.ErrReleased):
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if released.Load() != 1 {
			t.Errorf("released %d times", released.Load())
		}
		if _, err := w.Adjust(ctx, a, money.BRL(-15000).Amount(), "chargeback"); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(ledger.Balance{Available: -5000}, w.balance(t, a, money.CurrencyBRL)); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(ledger.Balance{Available: 5_000000}, w.balance(t, a, money.CurrencyUSDT)); diff != "" {
			t.Error(diff)
		}
		if holds, err := ledger.Holds(ctx, db, a); err != nil || len(holds) != 0 {
			t.Errorf("open holds %v, %v", holds, err)
		}
		if _, err := w.Adjust(ctx, id.NewAccount(rand.Reader), money.BRL(1).Amount(), "nobody"); err == nil {
			t.Error("money for an account without books")
		}
		w.audit(t)
	})
}

// TestLives posts random transfers from many goroutines and re-adds what they did.
func TestLives(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(db)
		rapid.Check(t, func(rt *rapid.T) {
			accounts := []id.Account{w.account(t), w.account(t)}
			lives := rapid.SliceOfN(rapid.SliceOfN(step(accounts), 1, 8), 2, 8).Draw(rt, "lives")
			live(t, w, accounts, lives)
		})
		fold(t, w)
		w.audit(t)
	})
}

// step draws one transaction, of one transfer or of two.
func step(accounts []id.Account) *rapid.Generator[[]ledger.Transfer] {
	moves := [][2]ledger.Book{
		{ledger.Acquirer, ledger.Available},
		{ledger.Acquirer, ledger.Pending},
		{ledger.Adjustment, ledger.Available},
		{ledger.Pending, ledger.Available},
		{ledger.Available, ledger.InTransit},
		{ledger.InTransit, ledger.Acquirer},
		{ledger.InTransit, ledger.Available},
		{ledger.Available, ledger.Fees},
		{ledger.Pending, ledger.Fees},
	}
	one := rapid.Custom(func(rt *rapid.T) ledger.Transfer {
		move := rapid.SampledFrom(moves).Draw(rt, "move")
		return ledger.Transfer{
			Account: rapid.SampledFrom(accounts).Draw(rt, "account"),
			Amount: money.Amount{
				Currency: rapid.SampledFrom(money.Currencies).Draw(rt, "currency"),
				Units:    rapid.Int64Range(1, 100).Draw(rt, "units"),
			},
			Source: move[0], Target: move[1], Kind: "test",
		}
	})
	return rapid.SliceOfN(one, 1, 3)
}

// live runs each life in a goroutine of its own and compares the ledger with a model that adds up what was accepted.
func live(t *testing.T, w world, accounts []id.Account, lives [][][]ledger.Transfer) {
	t.Helper()
	type key struct {
		account  id.Account
		currency money.Currency
	}
	var mu sync.Mutex
	model := map[key]ledger.Balance{}
	var wg sync.WaitGroup
	for _, steps := range lives {
		wg.Go(func() {
			for _, transfers := range steps {
				var pointers []*ledger.Transfer
				for i := range transfers {
					pointers = append(pointers, &transfers[i])
				}
				var insufficient *ledger.InsufficientError
				switch err := w.post(context.Background(), pointers...); {
				case errors.As(err, &insufficient):
					continue
				case err != nil:
					t.Error(err)
					return
				}
				mu.Lock()
				for _, x := range transfers {
					k := key{x.Account, x.Amount.Currency}
					b := model[k]
					b.Apply(&x)
					model[k] = b
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for _, a := range accounts {
		for _, c := range money.Currencies {
			got := w.balance(t, a, c)
			if diff := cmp.Diff(model[key{a, c}], got); diff != "" {
				t.Fatalf("%s %s: %s", a, c, diff)
			}
			if min(got.Available, got.Blocked, got.Pending, got.InTransit) < 0 {
				t.Fatalf("%s %s went below zero: %+v", a, c, got)
			}
		}
	}
}

func BenchmarkCredit(b *testing.B) {
	for name, url := range map[string]func(testing.TB) string{"sqlite": sqltest.SQLite, "postgres": sqltest.Postgres} {
		b.Run(name, func(b *testing.B) {
			w := newWorld(sqltest.Open(b, url(b)))
			a := w.account(b)
			b.SetParallelism(16)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := w.post(context.Background(), credit(a, 100)); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "credits/s")
		})
	}
}

func ExampleInsufficientError() {
	err := &ledger.InsufficientError{Book: ledger.Available, Balance: money.BRL(70).Amount(), Need: money.BRL(71).Amount()}
	fmt.Println(err)
	// Output: ledger: available holds 0.70 BRL, 0.71 is needed
}

// A form that is sent twice, or by two at once, adjusts once; its key does nothing else.
func TestOnce(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w, ctx := newWorld(db), t.Context()
		a := w.account(t)
		ids := make([]id.ID, 4)
		var running sync.WaitGroup
		for i := range ids {
			running.Go(func() {
				made, err := w.AdjustOnce(ctx, "form 1", a, money.BRL(10_00).Amount(), "twice")
				if err != nil {
					t.Error(err)
				}
				ids[i] = made.ID
			})
		}
		running.Wait()
		for _, x := range ids {
			if x != ids[0] {
				t.Errorf("one form made %s and %s", ids[0], x)
			}
		}
		for range 2 {
			if _, err := w.HoldOnce(ctx, "form 1", a, 3_00, "review"); err != nil {
				t.Error(err)
			}
		}
		if _, err := w.AdjustOnce(ctx, "form 1", a, money.BRL(-10_00).Amount(), "twice"); !errors.Is(err, ledger.ErrAnother) {
			t.Errorf("a debit by the key of a credit: %v", err)
		}
		if _, err := w.HoldOnce(ctx, "form 1", a, 4_00, "review"); !errors.Is(err, ledger.ErrAnother) {
			t.Errorf("another hold by the same key: %v", err)
		}
		if diff := cmp.Diff(ledger.Balance{Available: 7_00, Blocked: 3_00}, w.balance(t, a, money.CurrencyBRL)); diff != "" {
			t.Error(diff)
		}
		entries, err := oplog.List(ctx, db, oplog.Page{Account: a})
		if err != nil || len(entries) != 2 {
			t.Errorf("%d entries of two changes, %v", len(entries), err)
		}
	})
}
