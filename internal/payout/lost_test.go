package payout_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/idempotency"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/payout"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

// TestLostAnswers cuts the connection to the database before and after each message of each operation: whatever is lost,
// money is held once, sent once, and comes back once.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	proxy := sqltest.NewProxy(t, sqltest.Postgres(t))
	w := newWorld(t)
	n := w.node(sqltest.Open(t, proxy.URL))
	ctx := t.Context()
	const (
		messagesMax = 12 // of any of these operations; later cuts hit nothing, which must be harmless too
		triesMax    = 4  // by whoever is told that it may not have happened
	)
	for cut := range messagesMax {
		for _, after := range []bool{false, true} {
			a := n.payer(100000)
			where := fmt.Sprintf("cut %d, after %v", cut, after)
			until := func(what string, happened func() bool) {
				t.Helper()
				n.balance(a.ID) // the connection is warm
				if after {
					proxy.CutAfterSkipping(cut)
				} else {
					proxy.CutBeforeSkipping(cut)
				}
				for range triesMax {
					if happened() {
						proxy.Pass()
						return
					}
				}
				proxy.Pass()
				t.Fatalf("%s: %s never happened", where, what)
			}
			create := func(externalID string) func() bool {
				repeated := false
				return func() bool {
					p, outcome, err := n.Create(ctx, request(a, externalID, 1000))
					// The lock of a session that was cut is free once the server has noticed.
					for fault.As(err).Code == "external_id_in_progress" && w.clock.Wait(ctx, time.Millisecond) == nil {
						p, outcome, err = n.Create(ctx, request(a, externalID, 1000))
					}
					if err == nil && outcome != idempotency.Created && !repeated {
						t.Errorf("%s: the only request is told that there was another: %s", where, told(p, outcome, err))
					}
					repeated = true
					if err != nil {
						t.Logf("%s: %s: %v", where, externalID, err)
					}
					return err == nil
				}
			}
			ending := func(p payout.Payout) func() bool {
				n.Hint(p.Acquirer, "", p.Name())
				return func() bool {
					did, err := n.FollowHints(ctx)
					w.clock.Raise(w.clock.Offset() + 5*time.Second)
					return did && err == nil
				}
			}
			fails, elsewhere, lost := create("fails"), create("elsewhere"), create("lost")
			until("creation", create("settles"))
			until("creation that fails", func() bool {
				w.fault("alpha", "payout.send", "reject", 1)
				defer w.mend()
				return fails()
			})
			until("creation that goes elsewhere", func() bool {
				w.fault("alpha", "payout.send", "http_429", 1)
				defer w.mend()
				return elsewhere()
			})
			until("creation that is lost", func() bool {
				w.fault("alpha", "payout.send", "lost_not_executed", 1)
				defer w.mend()
				_ = lost()
				return len(n.all(a.ID)) == 4
			})
			// What was not sent is sent in the end.
			w.advance(10 * time.Minute)
			until("sending again", func() bool {
				_, err := n.CheckDue(ctx)
				w.advance(10 * time.Minute)
				return err == nil
			})
			sqltest.WaitUnlocked(t, n.db)
			n.step(n.CheckDue)
			for _, name := range []string{"settles", "elsewhere", "lost"} {
				p := n.stored(a.ID, name)
				n.order(p, "settle", map[string]any{"acquirer": p.Acquirer})
				until("settlement", ending(p))
				n.order(p, "return", map[string]any{"acquirer": p.Acquirer, "amount": "4.00"})
				until("return of a part", ending(p))
				n.order(p, "return", map[string]any{"acquirer": p.Acquirer})
				until("return", ending(p))
				if now := n.stored(a.ID, name); now.Status != payout.Reversed || n.executions(p) != p.Acquirer+" 1" {
					t.Errorf("%s: %s is %s at %s", where, name, now.Status, n.executions(p))
				}
			}
			// One that failed and could not be noted as such was sent again, and may be anything but lost.
			failed := n.stored(a.ID, "fails")
			want := ledger.Balance{Available: 100000 - 3*100}
			if failed.Status != payout.Failed {
				want = ledger.Balance{Available: 100000 - 3*100 - 1100, InTransit: 1100}
			}
			if b := n.balance(a.ID); b != want {
				t.Errorf("%s: %+v, want %+v from %s", where, b, want, n.transfers(a.ID))
			}
			if books := n.executions(failed); books != "" {
				t.Errorf("%s: what failed was sent: %s", where, books)
			}
		}
	}
	n.audit()
}
