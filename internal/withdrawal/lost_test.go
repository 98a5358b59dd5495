package withdrawal_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/idempotency"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
	"github.com/ponte-pay/ponte/internal/withdrawal"
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
			a := n.holder(1000_000000)
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
					x, outcome, err := n.Create(ctx, request(a, externalID, 100_000000))
					// The lock of a session that was cut is free once the server has noticed.
					for fault.As(err).Code == "external_id_in_progress" && w.clock.Wait(ctx, time.Millisecond) == nil {
						x, outcome, err = n.Create(ctx, request(a, externalID, 100_000000))
					}
					if err == nil && outcome != idempotency.Created && !repeated {
						t.Errorf("%s: the only request is told that there was another: %s", where, told(x, outcome, err))
					}
					repeated = true
					return err == nil
				}
			}
			fails, lost := create("fails"), create("lost")
			until("creation", create("sent"))
			until("creation that fails", func() bool {
				w.fault("payout.send", "reject", 1)
				defer w.mend()
				return fails()
			})
			until("creation that is lost", func() bool {
				w.fault("payout.send", "lost_not_executed", 1)
				defer w.mend()
				_ = lost()
				return len(n.all(a.ID)) == 3
			})
			checking := func() bool {
				_, err := n.CheckDue(ctx)
				w.advance(6 * time.Minute)
				return err == nil
			}
			w.advance(6 * time.Minute)
			until("making it again", checking)
			until("verification", checking)
			for range 2 {
				n.step(n.CheckDue)
				w.advance(6 * time.Minute)
			}
			for _, name := range []string{"sent", "lost"} {
				x := n.stored(a.ID, name)
				n.order(x, "finish")
				n.Hint(w.name, x.ProviderID)
				until("completion", func() bool {
					did, err := n.FollowHints(ctx)
					w.clock.Raise(w.clock.Offset() + 5*time.Second)
					return did && err == nil
				})
				if now := n.stored(a.ID, name); now.Status != withdrawal.Completed {
					t.Errorf("%s: %s is %s", where, name, now.Status)
				}
				executions := 0
				for _, b := range n.books(x) {
					executions += b.Executions
				}
				if executions != 1 {
					t.Errorf("%s: %s left %d times", where, name, executions)
				}
			}
			// One that failed and could not be noted as such was made again, and may be anything but lost.
			failed := n.stored(a.ID, "fails")
			want := ledger.Balance{Available: 798_000000}
			if failed.Status != withdrawal.Failed {
				want = ledger.Balance{Available: 697_000000, InTransit: 101_000000}
			}
			if b := n.balance(a.ID); b != want {
				t.Errorf("%s: %+v, want %+v from %s", where, b, want, n.transfers(a.ID))
			}
		}
	}
	n.audit()
}
