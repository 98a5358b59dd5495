package infraction_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/charge"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/infraction"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

// TestLostAnswers cuts the connection to the database before and after each message of each operation: whatever is lost,
// it happens once.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	const (
		messagesMax = 14 // of any of these operations; later cuts hit nothing, which must be harmless too
		perWorld    = 2  // that are cut in one world, because all that happened in one is read again and again
	)
	for from := 0; from < messagesMax; from += perWorld {
		t.Run(strconv.Itoa(from), func(t *testing.T) {
			t.Parallel()
			loseAnswers(t, from, from+perWorld)
		})
	}
}

// loseAnswers cuts the connection at the messages from one up to another, which is not cut.
func loseAnswers(t *testing.T, from, to int) {
	t.Helper()
	proxy := sqltest.NewProxy(t, sqltest.Postgres(t))
	w := newWorld(t)
	n := w.node(sqltest.Open(t, proxy.URL))
	ctx := t.Context()
	const triesMax = 4 // by whoever is told that it may not have happened
	var owners []id.Account
	for cut := from; cut < to; cut++ {
		for _, after := range []bool{false, true} {
			a := n.account("release_delay=24h", "cash_in_fee=0.10")
			owners = append(owners, a.ID)
			// until repeats what failed as its caller would.
			until := func(what string, f func(context.Context) (bool, error)) {
				t.Helper()
				n.balance(a.ID) // the connection is warm
				if after {
					proxy.CutAfterSkipping(cut)
				} else {
					proxy.CutBeforeSkipping(cut)
				}
				var err error
				for range triesMax {
					w.clock.Raise(w.clock.Offset() + time.Minute)
					if _, err = f(ctx); err == nil {
						proxy.Pass()
						return
					}
				}
				proxy.Pass()
				t.Fatalf("cut %d, after %v: %s never happened: %v", cut, after, what, err)
			}
			c, e2e := n.paid(a, 1000)
			first, second := n.claim(e2e, 600), n.claim(e2e, 700)
			until("opening", n.Reconcile)
			sqltest.WaitUnlocked(t, n.db)
			n.poll() // what was opened at an acquirer whose turn was lost
			f := n.named(a.ID, first)
			until("defense", func(context.Context) (bool, error) {
				said, err := n.say(f, "entregue")
				if err != nil && n.named(a.ID, first).Status == infraction.UnderReview {
					t.Errorf("cut %d, after %v: %v, and it was taken", cut, after, err)
				}
				f = said
				return false, err
			})
			until("handing in", n.HandIn)
			w.clock.Raise(w.clock.Offset() + 2*time.Minute)
			n.step(n.HandIn)
			n.verdict(first, "accept")
			n.verdict(second, "reject")
			until("decision", n.Reconcile)
			sqltest.WaitUnlocked(t, n.db)
			n.poll()
			n.hear(c, e2e)
			if got := n.named(a.ID, first); got.Status != infraction.Accepted || got.Handing != infraction.Taken || got.Debited != 600 {
				t.Errorf("cut %d, after %v: %+v", cut, after, got)
			}
			if got := n.named(a.ID, second); got.Status != infraction.Rejected || got.Debited != 0 {
				t.Errorf("cut %d, after %v: %+v", cut, after, got)
			}
			// Which claim was opened first decides which of them reached into available.
			if b := n.balance(a.ID); b.Available+b.Pending != 390 || b.Blocked != 0 || len(n.all(a.ID)) != 2 {
				t.Errorf("cut %d, after %v: %+v from %v", cut, after, b, n.transfers(a.ID))
			}
			w.clock.Raise(w.clock.Offset() + 24*time.Hour)
			until("release", n.charges.Release)
			if b := n.balance(a.ID); b != has(390, 0, 0) || n.stored(c).Status != charge.Paid {
				t.Errorf("cut %d, after %v: %+v from %v", cut, after, b, n.transfers(a.ID))
			}
		}
	}
	n.audit(owners...)
}
