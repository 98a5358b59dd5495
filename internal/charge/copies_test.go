package charge_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/charge"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

// paid makes a charge that is paid, and returns it with its payment.
func (n *node) paid(amount money.BRL) (c charge.Charge, endToEndID string) {
	n.t.Helper()
	c = n.create(n.account(), amount)
	endToEndID = n.pay(c.TxID, amount)
	n.hear(c, endToEndID)
	return c, endToEndID
}

func (n *node) get(c charge.Charge) charge.Charge {
	n.t.Helper()
	got, err := n.Get(n.t.Context(), c.Account, "chg_"+c.ID.String())
	if err != nil {
		n.t.Fatal(err)
	}
	return *got
}

// TestCopies shows when a paid charge is told from memory: as long as no paid charge has changed, on either node, and not
// for long.
func TestCopies(t *testing.T) {
	t.Parallel()
	sqltest.EachURL(t, func(t *testing.T, url string) {
		t.Helper()
		one, other := pair(t, url)
		c, payment := one.paid(1000)
		// describe changes what no count tells of, so that it shows where an answer came from.
		describe := func(description string) {
			err := one.db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
				tx.Queue(ctx, `UPDATE charge SET description = $1 WHERE account_id = $2 AND id = $3`, description, int64(c.Account), c.ID)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		shows := func(n *node, description string, status charge.State, refunded money.BRL) {
			t.Helper()
			got := n.get(c)
			if got.Description != description || got.Status != status || got.Refunded != refunded {
				t.Errorf("%q is %s with %s given back, want %q, %s, %s", got.Description, got.Status, got.Refunded, description, status, refunded)
			}
			if isKnown := got.Shown() != ""; isKnown != (status == charge.Paid) {
				t.Errorf("one that is %s is shown as %q", status, got.Shown())
			}
		}
		describe("first")
		shows(one, "first", charge.Paid, 0)
		describe("second")
		shows(one, "first", charge.Paid, 0)
		shows(other, "second", charge.Paid, 0)

		undone := errors.New("undone")
		err := one.db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			if _, err := tx.Exec(ctx, `UPDATE charge SET status = 'refunded', refunded = 1000 WHERE account_id = $1 AND id = $2`, int64(c.Account), c.ID); err != nil {
				return err
			}
			return undone
		})
		if !errors.Is(err, undone) {
			t.Fatal(err)
		}
		shows(one, "first", charge.Paid, 0)

		other.refund(payment, 300)
		other.hear(c, payment)
		shows(one, "second", charge.Paid, 300)
		describe("third")
		shows(one, "second", charge.Paid, 300)
		one.advance(2 * time.Minute)
		shows(one, "third", charge.Paid, 300)

		_, _ = one.paid(500) // what was not paid before makes no copy useless
		describe("fourth")
		shows(one, "third", charge.Paid, 300)
		other.refund(payment, 700)
		other.hear(c, payment)
		shows(one, "fourth", charge.Refunded, 1000)
		shows(other, "fourth", charge.Refunded, 1000)
	})
}

// TestCopyOfBefore shows that a copy is as old as its reading: a change that this node sees before the copy is kept makes it
// useless.
func TestCopyOfBefore(t *testing.T) {
	t.Parallel()
	sqltest.EachURL(t, func(t *testing.T, url string) {
		t.Helper()
		one, other := pair(t, url)
		c, payment := one.paid(1000)
		one.get(c)
		render := one.Render
		one.Render = func(read *charge.Charge) ([]byte, error) {
			one.Render = render
			other.refund(payment, 1000)
			other.hear(c, payment)
			if got := one.get(c); got.Status != charge.Refunded {
				t.Errorf("%s after it was refunded", got.Status)
			}
			return render(read)
		}
		for _, want := range []charge.State{charge.Paid, charge.Refunded} {
			if got, err := one.Get(t.Context(), c.Account, c.TxID); err != nil || got.Status != want {
				t.Errorf("%+v, %v, want %s", got, err, want)
			}
		}
	})
}

// TestCopiesWithoutLook shows that a charge is read as ever where nobody can look at the count.
func TestCopiesWithoutLook(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, n *node) {
		c, payment := n.paid(1000)
		n.get(c)
		err := n.db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error { return tx.Script(ctx, `DELETE FROM paid_change`) })
		if err != nil {
			t.Fatal(err)
		}
		n.refund(payment, 1000)
		n.hear(c, payment)
		for range 2 {
			if got := n.get(c); got.Status != charge.Refunded {
				t.Errorf("%s after it was refunded", got.Status)
			}
		}
	})
}

// TestCopiesOfOthers shows that a name stands for a charge of its own in each account.
func TestCopiesOfOthers(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, n *node) {
		for range 2 {
			r := n.request(n.account(), 1000)
			r.ExternalID = "order"
			c, _, err := n.Create(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			n.hear(c, n.pay(c.TxID, 1000))
			for range 2 {
				if got, err := n.Get(t.Context(), c.Account, "ext:order"); err != nil || got.ID != c.ID || got.Status != charge.Paid {
					t.Errorf("%+v, %v", got, err)
				}
			}
		}
	})
}

// TestNoStatusGoesBack has many read charges on two nodes while they are given back: once anybody was told so, nobody who
// asks after that is told that one is paid.
func TestNoStatusGoesBack(t *testing.T) {
	t.Parallel()
	const readsMax = 100_000
	sqltest.EachURL(t, func(t *testing.T, url string) {
		t.Helper()
		one, other := pair(t, url)
		for range 10 {
			c, payment := one.paid(1000)
			var told atomic.Bool // that it is refunded
			var reading sync.WaitGroup
			for i := range 8 {
				n := []*node{one, other}[i%2]
				reading.Go(func() {
					for range readsMax {
						before := told.Load()
						got, err := n.Get(t.Context(), c.Account, c.TxID)
						if err != nil || before && got.Status != charge.Refunded {
							t.Errorf("%+v after it was refunded: %v", got, err)
							return
						}
						if got.Status == charge.Refunded {
							told.Store(true)
						}
						if before {
							return
						}
					}
					t.Errorf("still paid when it was read %d times", readsMax)
				})
			}
			other.refund(payment, 1000)
			other.hear(c, payment)
			reading.Wait()
			if t.Failed() {
				return
			}
		}
	})
}
