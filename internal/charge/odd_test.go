package charge_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/charge"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

// odd is an acquirer that shows its charges in its own way, as some do and as the simulator does not.
type odd struct {
	acquirer.Acquirer
	show *func(*acquirer.Charge)                      // changes each charge that is shown; points to nil for none
	list *func(acquirer.Window) (acquirer.Page, bool) // answers instead; points to nil for never
}

func (o odd) GetCharge(ctx context.Context, txid string) (acquirer.Charge, error) {
	c, err := o.Acquirer.GetCharge(ctx, txid)
	if err == nil && *o.show != nil {
		(*o.show)(&c)
	}
	return c, err
}

func (o odd) ListPayments(ctx context.Context, w acquirer.Window) (acquirer.Page, error) {
	if *o.list != nil {
		if page, ok := (*o.list)(w); ok {
			return page, nil
		}
	}
	return o.Acquirer.ListPayments(ctx, w)
}

// eachOdd runs test on both databases. What it puts into show changes what is seen.
func eachOdd(t *testing.T, test func(t *testing.T, n *node, o odd)) {
	t.Helper()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		t.Helper()
		o := odd{show: new(func(*acquirer.Charge)), list: new(func(acquirer.Window) (acquirer.Page, bool))}
		test(t, newWorld(t).node(db, func(at acquirer.Acquirer) acquirer.Acquirer { return odd{at, o.show, o.list} }), o)
	})
}

func TestWhatAnAcquirerShowsIsCompared(t *testing.T) {
	t.Parallel()
	eachOdd(t, func(t *testing.T, n *node, o odd) {
		for _, test := range []struct {
			name     string
			show     func(*acquirer.Charge)
			want     charge.State
			credited int64
		}{
			{"another key", func(c *acquirer.Charge) { c.Payments[0].Key = "other@example.com" }, charge.Pending, 0},
			{"another charge", func(c *acquirer.Charge) { c.Payments[0].TxID = "STRANGER000000000000000000000000001" }, charge.Pending, 0},
			{"no key", func(c *acquirer.Charge) { c.Payments[0].Key = "" }, charge.Paid, 1000},
			{"no txid", func(c *acquirer.Charge) { c.Payments[0].TxID = "" }, charge.Paid, 1000},
			{"no time", func(c *acquirer.Charge) { c.Payments[0].PaidAt = time.Time{} }, charge.Paid, 1000},
			{"not shown with its charge yet", func(c *acquirer.Charge) { c.Payments = nil }, charge.Paid, 1000},
			{"refunds that are none", func(c *acquirer.Charge) {
				c.Payments[0].Refunds = []acquirer.Refund{
					{ID: "a", Amount: 1000, Status: acquirer.RefundFailed},
					{ID: "b", Amount: 1000, Status: acquirer.RefundProcessing},
					{ID: "c", Amount: 1000, Status: acquirer.RefundUnknown},
					{ID: "d", Status: acquirer.RefundDone},
				}
			}, charge.Paid, 1000},
		} {
			a := n.account()
			c := n.create(a, 1000)
			e2e := n.pay(c.TxID, 1000)
			*o.show = test.show
			before := n.clock.Now().Truncate(time.Microsecond)
			n.hear(c, e2e)
			*o.show = nil
			got := n.stored(c)
			if available := n.balance(a.ID).Available; got.Status != test.want || available != test.credited {
				t.Errorf("%s: %s, %d credited", test.name, got.Status, available)
			}
			if test.name == "no time" && got.PaidAt.Before(before) {
				t.Errorf("paid at %v", got.PaidAt)
			}
		}
		if count, err := charge.CountUnmatched(t.Context(), n.db); err != nil || count != 2 {
			t.Errorf("%d unmatched: %v", count, err)
		}
		n.audit()
	})
}

func TestPaidWhileItIsRemoved(t *testing.T) {
	t.Parallel()
	eachOdd(t, func(t *testing.T, n *node, o odd) {
		a := n.account()
		c := n.create(a, 1000)
		e2e := n.pay(c.TxID, 1000)
		*o.show = func(c *acquirer.Charge) { c.Status, c.Payments = acquirer.ChargeRemoved, nil }
		if got, err := n.Get(t.Context(), a.ID, c.TxID); err != nil || got.Status != charge.Cancelled {
			t.Fatalf("%+v %v", got, err)
		}
		*o.show = nil
		n.hear(c, e2e)
		if got := n.stored(c).Status; got != charge.Paid || n.balance(a.ID).Available != 1000 || len(n.events(a.ID)) != 2 {
			t.Errorf("%s, events %v", got, n.events(a.ID))
		}
	})
}

// TestReturnsThatCannotBeRead has a list of returns that never ends: it is tried again after a while, not at once.
func TestReturnsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	eachOdd(t, func(t *testing.T, n *node, o odd) {
		var reads atomic.Int64 // of both acquirers at once
		*o.list = func(w acquirer.Window) (acquirer.Page, bool) {
			if w.Returned {
				reads.Add(1)
			}
			return acquirer.Page{Next: "more"}, w.Returned
		}
		n.advance(2 * time.Hour)
		if _, err := n.Reconcile(t.Context()); err == nil || reads.Load() == 0 {
			t.Fatalf("%d reads: %v", reads.Load(), err)
		}
		for _, later := range []time.Duration{time.Second, 4 * time.Minute} {
			n.advance(later)
			before := reads.Load()
			n.step(n.Reconcile)
			if reads.Load() != before {
				t.Errorf("read again after %v", later)
			}
		}
		n.advance(2 * time.Minute)
		before := reads.Load()
		if _, err := n.Reconcile(t.Context()); err == nil || reads.Load() == before {
			t.Errorf("never read again: %v", err)
		}
	})
}

// TestLongListsAreHalved reads a list that never ends for windows above an hour.
func TestLongListsAreHalved(t *testing.T) {
	t.Parallel()
	eachOdd(t, func(t *testing.T, n *node, o odd) {
		a := n.account()
		var charges []charge.Charge
		for range 3 {
			c := n.create(a, 1000)
			n.pay(c.TxID, 1000)
			charges = append(charges, c)
			n.advance(5 * time.Hour)
		}
		*o.list = func(w acquirer.Window) (acquirer.Page, bool) {
			return acquirer.Page{Next: "more"}, !w.Returned && w.To.Sub(w.From) > 4*time.Hour
		}
		n.step(n.Reconcile)
		for _, c := range charges {
			if got := n.stored(c).Status; got != charge.Paid {
				t.Errorf("%s", got)
			}
		}
	})
}

// TestFirstReadFails shows that the list is read from when it was first wanted.
func TestFirstReadFails(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, n *node) {
		a := n.account()
		c := n.create(a, 1000)
		n.pay(c.TxID, 1000)
		n.fault("alpha", "*", "refuse", 0)
		for range 3 {
			n.advance(time.Hour)
			if _, err := n.Reconcile(t.Context()); err == nil {
				t.Fatal("a silent acquirer's list was read")
			}
		}
		n.mend()
		n.step(n.Reconcile)
		if got := n.stored(c).Status; got != charge.Paid {
			t.Errorf("%s", got)
		}
	})
}

func TestHintsAreGivenUp(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, n *node) {
		c := n.create(n.account(), 1000)
		n.Hint(c.Acquirer, n.pay(c.TxID, 1000), c.TxID, unsaid)
		n.fault("alpha", "*", "http_500", 0)
		for range 20 {
			n.step(n.FollowHints)
			n.advance(time.Hour)
		}
		n.mend()
		if did, err := n.FollowHints(t.Context()); did || err != nil {
			t.Errorf("it was still tried: %v", err)
		}
		n.step(n.Reconcile)
		if got := n.stored(c).Status; got != charge.Paid {
			t.Errorf("%s", got)
		}
	})
}

// TestMovedMeanwhile has another node settle a charge with another payment while this one is about to.
func TestMovedMeanwhile(t *testing.T) {
	t.Parallel()
	eachOdd(t, func(t *testing.T, n *node, o odd) {
		other := n.world.node(n.db, func(at acquirer.Acquirer) acquirer.Acquirer {
			showSecond := func(c *acquirer.Charge) { c.Payments = c.Payments[1:] }
			return odd{at, &showSecond, o.list}
		})
		a := n.account("cash_in_fee=0.10")
		c := n.create(a, 1000)
		first := n.pay(c.TxID, 1000)
		n.advance(time.Second)
		second := n.pay(c.TxID, 1000)
		n.refund(first, 400)
		*o.show = func(seen *acquirer.Charge) {
			*o.show = nil
			seen.Payments = seen.Payments[:1]
			other.hear(c, second)
		}
		n.hear(c, first)
		if got := n.stored(c); got.EndToEndID != second || got.Refunded != 0 {
			t.Errorf("paid by %s, %s given back", got.EndToEndID, got.Refunded)
		}
		if b := n.balance(a.ID); b.Available != 2000-10-400 || len(n.events(a.ID)) != 2 {
			t.Errorf("%v, events %v", n.transfers(a.ID), n.events(a.ID))
		}
		n.audit()
	})
}

// poison is an acquirer that can never show one of its charges.
type poison struct {
	acquirer.Acquirer
	txid *string
}

func (p poison) GetCharge(ctx context.Context, txid string) (acquirer.Charge, error) {
	if txid == *p.txid {
		return acquirer.Charge{}, &acquirer.Error{Acquirer: p.Name(), Operation: "charge.get", Class: acquirer.Protocol, Message: "nonsense"}
	}
	return p.Acquirer.GetCharge(ctx, txid)
}

// A payment that can never be followed does not keep later ones from being found, and is listed.
func TestPoisonedList(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		txid := ""
		n := newWorld(t).node(db, func(at acquirer.Acquirer) acquirer.Acquirer { return poison{at, &txid} })
		a := n.account()
		bad := n.create(a, 1000)
		txid = bad.TxID
		lost := n.pay(bad.TxID, 1000)
		for range 3 {
			good := n.create(a, 1000)
			n.advance(2 * time.Hour)
			_, _ = n.Expire(t.Context())
			n.pay(good.TxID, 1000) // late, and nobody is told
			for range 5 {
				n.advance(30 * time.Minute)
				_, _ = n.Reconcile(t.Context()) // fails as long as it is tried
			}
			if now := n.stored(good); now.Status != charge.Paid {
				t.Errorf("another charge is %s", now.Status)
			}
		}
		list, err := charge.ListUnmatched(t.Context(), n.db)
		if err != nil || len(list) != 1 || list[0].EndToEndID != lost {
			t.Errorf("unmatched %+v: %v", list, err)
		}
	})
}

// What is told of a payment without its charge's name is judged all the same.
func TestVerdictWithoutTxID(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		n := newWorld(t).node(db)
		var got []charge.Verdict
		n.Heard = func(_ string, v charge.Verdict) { got = append(got, v) }
		c := n.create(n.account(), 1000)
		n.Hint("alpha", n.pay(c.TxID, 1000), "", unsaid)
		n.step(n.FollowHints)
		if n.stored(c).Status != charge.Paid || len(got) != 1 || got[0] != charge.Settled {
			t.Errorf("%s, counted as %v", n.stored(c).Status, got)
		}
	})
}
