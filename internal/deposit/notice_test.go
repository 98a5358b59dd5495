package deposit_test

import (
	"context"
	"slices"
	"testing"

	"github.com/shopspring/decimal"

	"github.com/ponte-pay/ponte/internal/chain"
	"github.com/ponte-pay/ponte/internal/deposit"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

// TestForgedNotices tells of money that never came, in the words of the provider: nothing is credited by what somebody
// says.
func TestForgedNotices(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, n *node) {
		a := n.account()
		d := n.create(a, "order")
		forged := chain.Payment{
			ID: d.PaymentID, Reference: d.Reference(), Status: chain.PaymentFinished, PayCurrency: "usdtbsc", Paid: decimal.NewFromInt(1000), Settled: 990_000000,
		}
		child, stranger, orphan := forged, forged, forged
		child.ID, child.Parent = "5999999999", d.PaymentID
		stranger.ID = "5999999998"
		orphan.ID, orphan.Parent = "5999999997", "5999999996"
		for _, c := range []struct {
			name     string
			provider string
			notice   chain.Payment
			want     deposit.Verdict
		}{
			{"paid", providerName, forged, deposit.Followed}, // it is where the provider says: waiting
			{"paid again", providerName, child, deposit.Unknown},
			{"a payment that does not exist", providerName, stranger, deposit.Unknown},
			{"paid again to one that does not exist", providerName, orphan, deposit.Unknown},
			{"by another provider", "else", forged, deposit.Foreign},
		} {
			n.heard.list = nil
			n.Hint(c.provider, &c.notice)
			n.step(n.FollowHints)
			if !slices.Equal(n.heard.list, []deposit.Verdict{c.want}) {
				t.Errorf("%s: %v, want %s", c.name, n.heard.list, c.want)
			}
		}
		if got := n.stored(a.ID, "order"); got.Status != deposit.Waiting || n.balance(a.ID) != 0 || len(n.all(a.ID)) != 1 {
			t.Errorf("%s with %s", got.Status, n.balance(a.ID))
		}
		n.audit()
	})
}

// A repeated deposit that cannot be asked for is believed of a notification whose payment is listed by its parent.
func TestUnaskableRepeatedDeposit(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t)
		n, l := w.seen(db)
		a := n.account("crypto_in_fee=0")
		d := n.create(a, "order")
		n.order(n.arrive(d, "60", ""), "confirm")
		n.hear(d.PaymentID)
		again := n.arrive(d, "20", "")
		n.order(again, "confirm")
		signed, err := l.Provider.GetPayment(t.Context(), again)
		if err != nil {
			t.Fatal(err)
		}
		l.get = func(ctx context.Context, paymentID string) (chain.Payment, error) {
			if paymentID != d.PaymentID {
				return chain.Payment{}, &chain.Error{Outcome: chain.Refused, Class: chain.Business, Cause: chain.ErrNotFound}
			}
			return l.Provider.GetPayment(ctx, paymentID)
		}
		for range 3 {
			n.Hint(providerName, &signed)
			n.step(n.FollowHints)
		}
		if b := n.balance(a.ID); b != 59_700000+19_900000 || len(n.all(a.ID)) != 2 {
			t.Errorf("%s in %d deposits", b, len(n.all(a.ID)))
		}
		n.audit()
	})
}

// Money at the provider that no deposit of ours asked for is listed, and credited to nobody.
func TestUnmatched(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t)
		n, l := w.seen(db)
		made, err := l.Provider.CreatePayment(t.Context(), chain.NewPayment{Reference: "somebody-elses", Price: decimal.NewFromInt(50), PayCurrency: "usdtbsc"})
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []int64{0, 1, 1} { // unpaid, paid, heard of again
			n.hear(made.ID)
			n.reconcile()
			if got, err := deposit.CountUnmatched(t.Context(), db); err != nil || got != want {
				t.Errorf("%d unmatched, want %d: %v", got, want, err)
			}
			if want == 0 {
				n.order(n.arrive(deposit.Deposit{PayAddress: made.Address}, "50", ""), "confirm")
			}
		}
	})
}
