package ledger_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

// TestLostAnswers cuts the connection before and after each message of each operation: whatever is lost, it happens once,
// and its caller is told of the one that happened.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	proxy := sqltest.NewProxy(t, sqltest.Postgres(t))
	w := newWorld(sqltest.Open(t, proxy.URL))
	ctx := t.Context()
	const messagesMax = 8 // of any of these operations; later cuts hit nothing, which must be harmless too
	for cut := range messagesMax {
		for _, after := range []bool{false, true} {
			arm := func() {
				proxy.Pass()
				w.balance(t, w.account(t), money.CurrencyBRL) // the connection is warm: statements are prepared
				if after {
					proxy.CutAfterSkipping(cut)
				} else {
					proxy.CutBeforeSkipping(cut)
				}
			}
			proxy.Pass()
			a := w.account(t)
			arm()
			credited, err := w.Adjust(ctx, a, money.BRL(1000).Amount(), "credit")
			if err != nil {
				t.Fatalf("cut %d, after %v: %v", cut, after, err)
			}
			arm()
			held, err := w.Hold(ctx, a, 400, "hold") // waiting money: locks and folds
			if err != nil {
				t.Fatalf("cut %d, after %v: %v", cut, after, err)
			}
			arm()
			if _, err := w.Release(ctx, a, held.ID); err != nil {
				t.Fatalf("cut %d, after %v: %v", cut, after, err)
			}
			arm()
			if _, err := w.Adjust(ctx, a, money.BRL(-250).Amount(), "debit"); err != nil {
				t.Fatalf("cut %d, after %v: %v", cut, after, err)
			}
			proxy.Pass()
			if diff := cmp.Diff(ledger.Balance{Available: 750}, w.balance(t, a, money.CurrencyBRL)); diff != "" {
				t.Errorf("cut %d, after %v: %s", cut, after, diff)
			}
			if stored, err := ledger.Get(ctx, w.db, a, credited.ID); err != nil || stored.Memo != "credit" {
				t.Errorf("cut %d, after %v: the transfer that was told is not stored: %v", cut, after, err)
			}
			if _, err := w.Release(ctx, a, held.ID); !errors.Is(err, ledger.ErrReleased) {
				t.Errorf("cut %d, after %v: released again: %v", cut, after, err)
			}
		}
	}
	w.audit(t)
}

// A debit inside a caller's transaction that holds no unique insert of its own would be taken twice by a re-run; its
// OnceKey is what prevents it.
func TestLostAnswerOfDebitWithOnceKey(t *testing.T) {
	t.Parallel()
	proxy := sqltest.NewProxy(t, sqltest.Postgres(t))
	w := newWorld(sqltest.Open(t, proxy.URL))
	a := w.account(t)
	// The second makes the connection warm: COMMIT is then the next message.
	for _, x := range []*ledger.Transfer{credit(a, 1100), debit(a, 100)} {
		if err := w.post(t.Context(), x); err != nil {
			t.Fatal(err)
		}
	}
	x := debit(a, 600)
	x.OnceKey = "payout 1"
	err := w.Write(t.Context(), func(ctx context.Context, tx *ledger.Tx) error {
		if err := tx.Post(ctx, x); err != nil {
			return err
		}
		proxy.CutAfter() // COMMIT happens, its answer is lost
		return nil
	})
	proxy.Pass()
	if !errors.Is(err, sqldb.ErrConflict) { // the second run meets the first
		t.Errorf("told %v", err)
	}
	if b := w.balance(t, a, money.CurrencyBRL); b.Available != 400 || b.InTransit != 700 {
		t.Errorf("%+v", b)
	}
	w.audit(t)
}
