package deposit_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/deposit"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/idempotency"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

// TestLostAnswers cuts the connection to the database before and after each message of each operation: whatever is lost,
// one address is made, and money is credited and debited once.
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
			a := n.account("crypto_in_fee=1")
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
					_, outcome, err := n.Create(ctx, request(a, externalID))
					// The lock of a session that was cut is free once the server has noticed.
					for fault.As(err).Code == "external_id_in_progress" && w.clock.Wait(ctx, time.Millisecond) == nil {
						_, outcome, err = n.Create(ctx, request(a, externalID))
					}
					if err == nil && outcome != idempotency.Created && !repeated {
						t.Errorf("%s: the only request is told that there was another", where)
					}
					repeated = true
					return err == nil
				}
			}
			hear := func(paymentID string) func() bool {
				n.hint(paymentID)
				return func() bool {
					did, err := n.FollowHints(ctx)
					w.clock.Raise(w.clock.Offset() + 5*time.Second)
					return did && err == nil
				}
			}
			refused, lost := create("refused"), create("lost")
			until("creation", create("paid"))
			until("creation that is refused", func() bool {
				w.fault("payment.create", "reject", 1)
				defer w.mend()
				made, _, err := n.Create(ctx, request(a, "refused"))
				return err != nil && told(made, 0, err) == "charge_failed" || err == nil
			})
			until("creation that is lost", func() bool {
				w.fault("payment.create", "lost_not_executed", 1)
				defer w.mend()
				_ = lost()
				return len(n.all(a.ID)) >= 2
			})
			until("creation after a refusal", func() bool { return refused() })
			for range 3 {
				w.advance(2 * time.Minute)
				until("provisioning", func() bool {
					_, err := n.CheckDue(ctx)
					return err == nil
				})
			}
			for _, name := range []string{"paid", "refused", "lost"} {
				d := n.stored(a.ID, name)
				if made := n.made(d.Reference()); d.Status != deposit.Waiting || made != 1 {
					t.Fatalf("%s: %s is %s with %d addresses", where, name, d.Status, made)
				}
			}
			d := n.stored(a.ID, "paid")
			n.arrive(d, "60", "")
			until("detection", hear(d.PaymentID))
			n.order(d.PaymentID, "confirm")
			until("payment", hear(d.PaymentID))
			again := n.arrive(d, "20", "")
			n.order(again, "confirm")
			until("repeated deposit", hear(again))
			n.order(d.PaymentID, "refund")
			until("refund", hear(d.PaymentID))
			late := n.stored(a.ID, "lost")
			n.order(late.PaymentID, "expire")
			until("expiry", hear(late.PaymentID))
			n.order(n.arrive(late, "40", ""), "confirm")
			until("late money", hear(late.PaymentID))
			n.order(n.stored(a.ID, "refused").PaymentID, "fail")
			until("failure", hear(n.stored(a.ID, "refused").PaymentID))

			const want = 19_900000 + 39_800000 - 3*1_000000 // the first went back, but for its fee
			if b := n.balance(a.ID); b != want || len(n.all(a.ID)) != 4 {
				t.Errorf("%s: %s in %d deposits from %s", where, b, len(n.all(a.ID)), n.transfers(a.ID))
			}
		}
	}
	n.audit()
}
