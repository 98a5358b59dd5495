package deposit_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/chain"
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
			stored := map[string]bool{} // by external_id, whether a request of it may have left something
			ask := func(externalID string) (refused bool, err error) {
				d, outcome, err := n.Create(ctx, request(a, externalID))
				// The lock of a session that was cut is free once the server has noticed.
				for fault.As(err).Code == "external_id_in_progress" && w.clock.Wait(ctx, time.Millisecond) == nil {
					d, outcome, err = n.Create(ctx, request(a, externalID))
				}
				if err == nil && outcome != idempotency.Created && !stored[externalID] {
					t.Errorf("%s: the only request is told that there was another", where)
				}
				refused = told(d, outcome, err) == "charge_failed"
				stored[externalID] = !refused
				return refused, err
			}
			create := func(externalID string) func() bool {
				return func() bool {
					_, err := ask(externalID)
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
			until("creation", create("paid"))
			until("creation that is refused", func() bool {
				w.fault("payment.create", "reject", 1)
				defer w.mend()
				refused, err := ask("refused")
				return refused || err == nil // one that could not be asked for yet is not refused
			})
			until("creation that is lost", func() bool {
				w.fault("payment.create", "lost_not_executed", 1)
				defer w.mend()
				_, _ = ask("lost")
				return len(n.all(a.ID)) >= 2
			})
			until("creation after a refusal", create("refused"))
			for range 3 {
				w.advance(2 * time.Minute)
				until("provisioning", func() bool {
					_, err := n.CheckDue(ctx)
					return err == nil
				})
			}
			// Each of them may have lost the answer that it had noted to ask again, or have left it to a session that was cut.
			// One that loses nothing is enough.
			sqltest.WaitUnlocked(t, n.db)
			w.advance(2 * time.Minute)
			n.step(n.CheckDue)
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

// TestLostNote loses each answer to the note that an address is about to be asked for again: nobody knows then who wrote it,
// so that nothing is asked for, and the next look gets one address.
func TestLostNote(t *testing.T) {
	t.Parallel()
	proxy := sqltest.NewProxy(t, sqltest.Postgres(t))
	w := newWorld(t)
	n, l := w.seen(sqltest.Open(t, proxy.URL))
	const messagesMax = 6 // of the note, on a connection that is new
	unasked := 0
	for cut := range messagesMax {
		a := n.account()
		w.fault("payment.create", "lost_not_executed", 1)
		if got := told(n.Create(t.Context(), request(a, "order"))); got != "created processing" {
			t.Fatal(got)
		}
		w.mend()
		l.list = func(ctx context.Context, window chain.Window) (chain.Page, error) {
			page, err := l.Provider.ListPayments(ctx, window)
			proxy.CutAfterSkipping(cut) // the note comes next
			return page, err
		}
		w.advance(2 * time.Minute)
		_, _ = n.CheckDue(t.Context())
		proxy.Pass()
		l.list = nil
		d := n.stored(a.ID, "order")
		if d.Asks == 2 && n.made(d.Reference()) == 0 {
			unasked++
		}
		sqltest.WaitUnlocked(t, n.db)
		w.advance(2 * time.Minute)
		n.step(n.CheckDue)
		d = n.stored(a.ID, "order")
		if made := n.made(d.Reference()); d.Status != deposit.Waiting || made != 1 {
			t.Errorf("cut %d: %s after %d asks with %d addresses", cut, d.Status, d.Asks, made)
		}
		n.order(d.PaymentID, "expire") // the next is the only one that is looked at
		n.hear(d.PaymentID)
	}
	if unasked == 0 {
		t.Error("the answer to the note was never lost, or the address was asked for all the same")
	}
	n.audit()
}
