package charge_test

import (
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/charge"
	"github.com/ponte-pay/ponte/internal/idempotency"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

// TestLostAnswers cuts the connection to the database before and after each message of each operation: whatever is lost,
// it happens once.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	proxy := sqltest.NewProxy(t, sqltest.Postgres(t))
	w := newWorld(t)
	n := w.node(sqltest.Open(t, proxy.URL))
	ctx := t.Context()
	const (
		messagesMax = 10 // of any of these operations; later cuts hit nothing, which must be harmless too
		triesMax    = 3  // by whoever is told that it may not have happened
	)
	for cut := range messagesMax {
		for _, after := range []bool{false, true} {
			a := n.account("cash_in_fee=0.10", "release_delay=1s")
			arm := func() {
				n.balance(a.ID) // the connection is warm
				if after {
					proxy.CutAfterSkipping(cut)
				} else {
					proxy.CutBeforeSkipping(cut)
				}
			}
			// until repeats what failed as its caller would.
			until := func(what string, happened func() bool) {
				t.Helper()
				arm()
				for range triesMax {
					if happened() {
						proxy.Pass()
						return
					}
				}
				proxy.Pass()
				t.Fatalf("cut %d, after %v: %s never happened", cut, after, what)
			}
			r := n.request(a, 1000)
			r.ExternalID = "order"
			var c charge.Charge
			repeated := false
			until("creation", func() bool {
				made, outcome, err := n.Create(ctx, r)
				// The lock of a session that was cut is free once the server has noticed.
				for isBusy(err) && w.clock.Wait(ctx, time.Millisecond) == nil {
					made, outcome, err = n.Create(ctx, r)
				}
				c = made
				if err == nil && outcome != idempotency.Created && !repeated {
					t.Errorf("cut %d, after %v: the only request is told that there was another", cut, after)
				}
				repeated = true
				return err == nil
			})
			hear := func(e2e string) func() bool {
				n.Hint(c.Acquirer, e2e, c.TxID, unsaid)
				return func() bool {
					did, err := n.FollowHints(ctx)
					w.clock.Raise(w.clock.Offset() + 5*time.Second)
					return did && err == nil
				}
			}
			first, second := n.pay(c.TxID, 1100), n.pay(c.TxID, 500)
			until("payment", hear(first))
			until("second payment", hear(second))
			n.refund(first, 300)
			until("refund of a part", hear(first))
			n.refund(first, 800)
			until("refund of the rest", hear(first))
			until("release", func() bool {
				_, err := n.Release(ctx)
				return err == nil
			})
			unpaid := n.create(a, 1000)
			w.clock.Raise(w.clock.Offset() + time.Hour)
			until("expiry", func() bool {
				_, err := n.Expire(ctx)
				return err == nil
			})
			if got := n.stored(c); got.Status != charge.Refunded || got.Refunded != 1100 || n.stored(unpaid).Status != charge.Expired {
				t.Errorf("cut %d, after %v: %s with %s given back, %s", cut, after, got.Status, got.Refunded, n.stored(unpaid).Status)
			}
			if b := n.balance(a.ID); b.Available != 500-10 || b.Pending != 0 {
				t.Errorf("cut %d, after %v: %+v from %v", cut, after, b, n.transfers(a.ID))
			}
			if len(n.all(a.ID)) != 2 || len(n.events(a.ID)) != 3 {
				t.Errorf("cut %d, after %v: %d charges, events %v", cut, after, len(n.all(a.ID)), n.events(a.ID))
			}
		}
	}
	n.audit()
}

// isBusy reports whether a creation was told that another one holds its key or its external_id.
func isBusy(err error) bool {
	return code(err) == "idempotency_key_in_progress" || code(err) == "external_id_in_progress"
}

// TestLostAnswersTogether does the same to charges that are paid together.
func TestLostAnswersTogether(t *testing.T) {
	t.Parallel()
	proxy := sqltest.NewProxy(t, sqltest.Postgres(t))
	w := newWorld(t)
	n := w.node(sqltest.Open(t, proxy.URL))
	const (
		together    = 8 // as many as are worth a list
		messagesMax = 4 // of that one transaction
		triesMax    = 5
	)
	for cut := range messagesMax {
		for _, after := range []bool{false, true} {
			a := n.account("cash_in_fee=0.10")
			at := w.clock.Now()
			for range together {
				c := n.create(a, 1000)
				n.Hint(c.Acquirer, n.pay(c.TxID, 1000), c.TxID, at)
				at = w.clock.Now()
			}
			if after {
				proxy.CutAfterSkipping(cut)
			} else {
				proxy.CutBeforeSkipping(cut)
			}
			for range triesMax { // what failed waits for a while
				_, _ = n.FollowHints(t.Context())
				w.clock.Raise(w.clock.Offset() + 5*time.Second)
			}
			proxy.Pass()
			if b := n.balance(a.ID); b.Available != together*990 || len(n.events(a.ID)) != 2*together {
				t.Errorf("cut %d, after %v: %+v, %d events", cut, after, b, len(n.events(a.ID)))
			}
		}
	}
	n.audit()
}
