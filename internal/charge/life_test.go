package charge_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/charge"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

// end is how a life of a charge of 10.00 ends.
type end struct {
	status   charge.State
	refunded money.BRL
	balance  ledger.Balance
	posted   string // transfers, separated by commas
	paid     int    // events charge.paid
}

// lives are what can happen to a charge of 10.00 that expires after an hour. A step's number is the payment it is about.
var lives = []struct {
	name     string
	settings []string
	steps    string
	end      end
}{
	{"paid", nil, "pay 10.00, hear 1", end{charge.Paid, 0, has(1000), "cash_in 10.00 acquirer>available", 1}},
	{"paid and read", nil, "pay 10.00, get", end{charge.Paid, 0, has(1000), "cash_in 10.00 acquirer>available", 1}},
	{"paid and found", nil, "pay 10.00, reconcile", end{charge.Paid, 0, has(1000), "cash_in 10.00 acquirer>available", 1}},
	{"nobody paid", nil, "later, expire", end{charge.Expired, 0, has(0), "", 0}},
	{"paid in silence before expiry", nil, "pay 10.00, later, expire", end{charge.Paid, 0, has(1000), "cash_in 10.00 acquirer>available", 1}},
	{"paid late", nil, "later, expire, pay 10.00, hear 1", end{charge.Paid, 0, has(1000), "cash_in 10.00 acquirer>available", 1}},
	{"paid late and found", nil, "later, expire, pay 10.00, reconcile", end{charge.Paid, 0, has(1000), "cash_in 10.00 acquirer>available", 1}},
	{"paid twice", nil, "pay 10.00, pay 10.00, hear 2", end{charge.Paid, 0, has(2000), "cash_in 10.00 acquirer>available,inflow 10.00 acquirer>available", 1}},
	{"paid twice, told backwards", nil, "pay 10.00, hear 1, pay 10.00, pay 3.00, hear 3, hear 2", end{charge.Paid, 0, has(2300), "cash_in 10.00 acquirer>available,inflow 10.00 acquirer>available,inflow 3.00 acquirer>available", 1}},
	{"too little", nil, "pay 9.99, hear 1", end{charge.Pending, 0, has(999), "inflow 9.99 acquirer>available", 0}},
	{"too little, then enough", nil, "pay 9.99, hear 1, pay 10.00, hear 2", end{charge.Paid, 0, has(1999), "inflow 9.99 acquirer>available,cash_in 10.00 acquirer>available", 1}},
	{"too little, then expired", nil, "pay 9.99, later, expire", end{charge.Expired, 0, has(999), "inflow 9.99 acquirer>available", 0}},
	{"too much", nil, "pay 12.50, hear 1", end{charge.Paid, 0, has(1250), "cash_in 10.00 acquirer>available,inflow 2.50 acquirer>available", 1}},
	{"fee", []string{"cash_in_fee=0.50+1%"}, "pay 10.00, hear 1", end{charge.Paid, 0, has(940), "cash_in 10.00 acquirer>available,cash_in_fee 0.60 available>fees", 1}},
	{"fee above the amount", []string{"cash_in_fee=12.00"}, "pay 10.00, hear 1", end{charge.Paid, 0, has(-200), "cash_in 10.00 acquirer>available,cash_in_fee 12.00 available>fees", 1}},
	{"waits", []string{"release_delay=24h", "cash_in_fee=1.00"}, "pay 12.00, hear 1, release", end{charge.Paid, 0, ledger.Balance{Available: 200, Pending: 900}, "cash_in 10.00 acquirer>pending,cash_in_fee 1.00 pending>fees,inflow 2.00 acquirer>available", 1}},
	{"released", []string{"release_delay=24h", "cash_in_fee=1.00"}, "pay 10.00, hear 1, day, release, release", end{charge.Paid, 0, has(900), "cash_in 10.00 acquirer>pending,cash_in_fee 1.00 pending>fees,release_in 9.00 pending>available", 1}},
	{"released, fee above the amount", []string{"release_delay=24h", "cash_in_fee=12.00"}, "pay 10.00, hear 1, day, release", end{charge.Paid, 0, has(-200), "cash_in 10.00 acquirer>pending,cash_in_fee 12.00 available>fees,release_in 10.00 pending>available", 1}},
	{"released, all of it fee", []string{"release_delay=24h", "cash_in_fee=10.00"}, "pay 10.00, hear 1, day, release", end{charge.Paid, 0, has(0), "cash_in 10.00 acquirer>pending,cash_in_fee 10.00 pending>fees", 1}},
	{"given back before it was released", []string{"release_delay=24h"}, "pay 10.00, hear 1, refund 1 10.00, hear 1, day, release", end{charge.Refunded, 1000, has(0), "cash_in 10.00 acquirer>pending,refund 10.00 available>acquirer,release_in 10.00 pending>available", 1}},
	{"given back", []string{"cash_in_fee=1.00"}, "pay 10.00, hear 1, refund 1 10.00, hear 1", end{charge.Refunded, 1000, has(-100), "cash_in 10.00 acquirer>available,cash_in_fee 1.00 available>fees,refund 10.00 available>acquirer", 1}},
	{"given back in parts", nil, "pay 10.00, hear 1, refund 1 4.00, hear 1, refund 1 1.00, refund 1 5.00, hear 1", end{charge.Refunded, 1000, has(0), "cash_in 10.00 acquirer>available,refund 4.00 available>acquirer,refund 1.00 available>acquirer,refund 5.00 available>acquirer", 1}},
	{"a part given back", nil, "pay 10.00, hear 1, refund 1 4.00, hear 1", end{charge.Paid, 400, has(600), "cash_in 10.00 acquirer>available,refund 4.00 available>acquirer", 1}},
	{"a part given back, unseen", nil, "pay 10.00, refund 1 4.00, hear 1", end{charge.Paid, 400, has(600), "cash_in 10.00 acquirer>available,refund 4.00 available>acquirer", 1}},
	{"given back unseen", nil, "pay 10.00, refund 1 10.00, hear 1, hear 1, reconcile", end{charge.Refunded, 1000, has(0), "", 0}},
	{"given back unseen, paid again", nil, "pay 10.00, refund 1 10.00, hear 1, pay 10.00, hear 2", end{charge.Refunded, 1000, has(1000), "inflow 10.00 acquirer>available", 0}},
	{"given back unseen after expiry", nil, "later, expire, pay 10.00, refund 1 10.00, hear 1", end{charge.Refunded, 1000, has(0), "cash_in 10.00 acquirer>available,refund 10.00 available>acquirer", 1}},
	{"the excess given back", nil, "pay 12.50, hear 1, refund 1 2.50, hear 1", end{charge.Paid, 250, has(1000), "cash_in 10.00 acquirer>available,inflow 2.50 acquirer>available,refund 2.50 available>acquirer", 1}},
	{"all with the excess given back", nil, "pay 12.50, hear 1, refund 1 10.00, hear 1, refund 1 2.50, hear 1", end{charge.Refunded, 1250, has(0), "cash_in 10.00 acquirer>available,inflow 2.50 acquirer>available,refund 10.00 available>acquirer,refund 2.50 available>acquirer", 1}},
	{"the second payment given back", nil, "pay 10.00, pay 10.00, hear 1, refund 2 10.00, hear 2", end{charge.Paid, 0, has(1000), "cash_in 10.00 acquirer>available,inflow 10.00 acquirer>available,refund 10.00 available>acquirer", 1}},
	{"the short payment given back", nil, "pay 9.00, hear 1, refund 1 9.00, hear 1", end{charge.Pending, 0, has(0), "inflow 9.00 acquirer>available,refund 9.00 available>acquirer", 0}},
	{"given back, told by nobody", nil, "pay 10.00, hear 1, refund 1 10.00, day, reconcile, day, reconcile", end{charge.Refunded, 1000, has(0), "cash_in 10.00 acquirer>available,refund 10.00 available>acquirer", 1}},
	{"given back late, told by nobody", nil, "pay 10.00, hear 1, day, reconcile, day, reconcile, day, refund 1 10.00, day, reconcile", end{charge.Refunded, 1000, has(0), "cash_in 10.00 acquirer>available,refund 10.00 available>acquirer", 1}},
	{"removed", nil, "remove, get", end{charge.Cancelled, 0, has(0), "", 0}},
	{"removed before expiry", nil, "remove, later, expire", end{charge.Cancelled, 0, has(0), "", 0}},
	{"removed after too little", nil, "pay 2.00, remove, get", end{charge.Cancelled, 0, has(200), "inflow 2.00 acquirer>available", 0}},
	{"cancelled", nil, "cancel", end{charge.Cancelled, 0, has(0), "", 0}},
	{"paid before it was cancelled", nil, "pay 10.00, cancel", end{charge.Paid, 0, has(1000), "cash_in 10.00 acquirer>available", 1}},
}

func has(available int64) ledger.Balance { return ledger.Balance{Available: available} }

func TestLives(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, n *node) {
		for _, life := range lives {
			t.Run(life.name, func(t *testing.T) {
				n := n.in(t)
				c := n.create(n.account(life.settings...), 1000)
				payments := n.live(c, life.steps)
				n.check(c, life.end)
				// Whatever is heard again changes nothing, and neither does a node that knows nothing yet.
				n.hear(c, slices.Concat(payments, payments)...)
				n.reconcile()
				n.check(c, life.end)
				other := n.world.node(n.db)
				slices.Reverse(payments)
				other.hear(c, payments...)
				other.reconcile()
				other.check(c, life.end)
			})
		}
		n.audit()
		if unmatched, err := charge.ListUnmatched(t.Context(), n.db); err != nil || len(unmatched) > 0 {
			t.Errorf("unmatched %v: %v", unmatched, err)
		}
	})
}

// live takes steps and returns the payments that were made.
func (n *node) live(c charge.Charge, steps string) (payments []string) {
	n.t.Helper()
	ctx := n.t.Context()
	for step := range strings.SplitSeq(steps, ", ") {
		word := strings.Fields(step)
		payment := func() string { return payments[word[1][0]-'1'] }
		switch word[0] {
		case "pay":
			payments = append(payments, n.pay(c.TxID, brl(n.t, word[1])))
			n.advance(time.Second) // so that their order is known
		case "hear":
			n.hear(c, payment())
		case "refund":
			n.refund(payment(), brl(n.t, word[2]))
		case "get":
			if _, err := n.Get(ctx, c.Account, c.TxID); err != nil {
				n.t.Fatal(err)
			}
		case "cancel":
			if _, err := n.Cancel(ctx, "chg_"+c.ID.String()); err != nil && !errors.Is(err, charge.ErrNotPending) {
				n.t.Fatal(err)
			}
		case "remove":
			n.remove(c.TxID)
		case "reconcile":
			n.reconcile()
		case "expire":
			n.step(n.Expire)
		case "release":
			n.step(n.Release)
		case "later":
			n.advance(time.Hour)
		case "day":
			n.advance(24 * time.Hour)
		default:
			n.t.Fatalf("no step is called %q", step)
		}
		n.shows(c)
	}
	return payments
}

// shows holds what a caller is shown of a charge that was paid against what is stored. When it is released is not shown.
func (n *node) shows(c charge.Charge) {
	n.t.Helper()
	stored := n.stored(c)
	if stored.Status != charge.Paid && stored.Status != charge.Refunded {
		return // to ask for it may change it
	}
	if got := n.get(c); got.Status != stored.Status || got.Refunded != stored.Refunded || got.Held != stored.Held || got.EndToEndID != stored.EndToEndID {
		n.t.Errorf("shown as %s with %s given back, it is %s with %s", got.Status, got.Refunded, stored.Status, stored.Refunded)
	}
}

func (n *node) check(c charge.Charge, want end) {
	n.t.Helper()
	now := n.stored(c)
	got := end{status: now.Status, refunded: now.Refunded, balance: n.balance(c.Account), posted: strings.Join(n.transfers(c.Account), ",")}
	events := n.events(c.Account)
	got.paid = len(slices.DeleteFunc(slices.Clone(events), func(e string) bool { return e != "charge.paid paid" }))
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(end{})); diff != "" {
		n.t.Errorf("%s", diff)
	}
	if len(events) != 1+want.paid || events[0] != "charge.created pending" {
		n.t.Errorf("events %v", events)
	}
	if wasPaid := want.paid > 0; wasPaid == now.PaidAt.IsZero() {
		n.t.Errorf("paid at %v", now.PaidAt)
	}
}

// Two servers release the money of two accounts at once: each charge's once, and an account's together.
func TestReleaseRace(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t)
		n, other := w.node(db), w.node(db)
		const charges = 12
		var owners []account.Account
		for range 2 {
			owner := n.account("release_delay=24h")
			owners = append(owners, owner)
			for range charges {
				c := n.create(owner, 1000)
				n.hear(c, n.pay(c.TxID, 1000))
			}
		}
		w.advance(24 * time.Hour)
		var both sync.WaitGroup
		for _, one := range []*node{n, other} {
			both.Go(func() {
				if _, err := one.Release(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
		for _, owner := range owners {
			if diff := cmp.Diff(has(charges*1000), n.balance(owner.ID)); diff != "" {
				t.Error(diff)
			}
		}
		n.audit()
	})
}
