package infraction_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/charge"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/infraction"
	"github.com/ponte-pay/ponte/internal/ledger"
)

// end is how a life of a charge of 10.00 and its infractions ends.
type end struct {
	states  string // of the infractions, oldest first
	charge  charge.State
	balance ledger.Balance
	posted  string // transfers after the payments, separated by commas
}

func has(available, pending, blocked int64) ledger.Balance {
	return ledger.Balance{Available: available, Pending: pending, Blocked: blocked}
}

const (
	wait = "release_delay=24h"
	fee  = "cash_in_fee=1.00"
)

// life is what happens to a charge of 10.00 and what is claimed of it. A step's number is the payment, or the infraction,
// that it is about; hear reads the payment, poll the list of infractions.
type life struct {
	name     string
	settings []string
	steps    string
	end      end
}

// lives are what can happen.
var lives = []life{
	// Every transition.
	{"opened", nil, "pay 10.00, hear 1, claim 1 10.00, poll", end{"open", charge.Paid, has(0, 0, 1000), "med_block 10.00 available>blocked"}},
	{"defended", nil, "pay 10.00, hear 1, claim 1 10.00, poll, defend 1, hand, poll", end{"under_review", charge.Paid, has(0, 0, 1000), "med_block 10.00 available>blocked"}},
	{"defended elsewhere", nil, "pay 10.00, hear 1, claim 1 10.00, poll, portal 1, poll", end{"under_review", charge.Paid, has(0, 0, 1000), "med_block 10.00 available>blocked"}},
	{"accepted while open", nil, "pay 10.00, hear 1, claim 1 10.00, poll, accept 1, poll", end{"accepted", charge.Refunded, has(0, 0, 0), "med_block 10.00 available>blocked,med_debit 10.00 blocked>acquirer"}},
	{"rejected while open", nil, "pay 10.00, hear 1, claim 1 10.00, poll, reject 1, poll", end{"rejected", charge.Paid, has(1000, 0, 0), "med_block 10.00 available>blocked,med_unblock 10.00 blocked>available"}},
	{"cancelled while open", nil, "pay 10.00, hear 1, claim 1 10.00, poll, cancel 1, poll", end{"cancelled", charge.Paid, has(1000, 0, 0), "med_block 10.00 available>blocked,med_unblock 10.00 blocked>available"}},
	{"accepted under review", nil, "pay 10.00, hear 1, claim 1 10.00, poll, defend 1, hand, accept 1, poll", end{"accepted", charge.Refunded, has(0, 0, 0), "med_block 10.00 available>blocked,med_debit 10.00 blocked>acquirer"}},
	{"rejected under review", nil, "pay 10.00, hear 1, claim 1 10.00, poll, defend 1, hand, reject 1, poll", end{"rejected", charge.Paid, has(1000, 0, 0), "med_block 10.00 available>blocked,med_unblock 10.00 blocked>available"}},
	{"cancelled under review", nil, "pay 10.00, hear 1, claim 1 10.00, poll, defend 1, hand, cancel 1, poll", end{"cancelled", charge.Paid, has(1000, 0, 0), "med_block 10.00 available>blocked,med_unblock 10.00 blocked>available"}},
	{"decided before the defense arrived", nil, "pay 10.00, hear 1, claim 1 10.00, poll, defend 1, accept 1, poll, hand", end{"accepted", charge.Refunded, has(0, 0, 0), "med_block 10.00 available>blocked,med_debit 10.00 blocked>acquirer"}},
	{"decided when it was heard of", nil, "pay 10.00, hear 1, claim 1 10.00, accept 1, poll", end{"accepted", charge.Refunded, has(0, 0, 0), "refund 10.00 available>acquirer,med_block 10.00 available>blocked,med_unblock 10.00 blocked>available"}},
	{"withdrawn when it was heard of", nil, "pay 10.00, hear 1, claim 1 10.00, cancel 1, poll", end{"cancelled", charge.Paid, has(1000, 0, 0), "med_block 10.00 available>blocked,med_unblock 10.00 blocked>available"}},
	{"of a payment that nobody had told of", nil, "pay 10.00, claim 1 4.00, poll", end{"open", charge.Paid, has(600, 0, 400), "med_block 4.00 available>blocked"}},
	{"decided long after", nil, "pay 10.00, hear 1, claim 1 10.00, poll, 60days, poll, reject 1, poll", end{"rejected", charge.Paid, has(1000, 0, 0), "med_block 10.00 available>blocked,med_unblock 10.00 blocked>available"}},

	// Below zero.
	{"blocked below zero", nil, "pay 10.00, hear 1, spend 7.00, claim 1 10.00, poll", end{"open", charge.Paid, has(-700, 0, 1000), "adjustment 7.00 available>adjustment,med_block 10.00 available>blocked"}},
	{"debited below zero", []string{fee}, "pay 10.00, hear 1, claim 1 10.00, poll, accept 1, poll, hear 1", end{"accepted", charge.Refunded, has(-100, 0, 0), "cash_in_fee 1.00 available>fees,med_block 10.00 available>blocked,med_debit 10.00 blocked>acquirer"}},

	// The two lists, in both orders.
	{"accepted, then the return is seen", nil, "pay 10.00, hear 1, claim 1 4.00, poll, accept 1, poll, hear 1, hear 1", end{"accepted", charge.Paid, has(600, 0, 0), "med_block 4.00 available>blocked,med_debit 4.00 blocked>acquirer"}},
	{"the return is seen, then accepted", nil, "pay 10.00, hear 1, claim 1 4.00, poll, accept 1, hear 1, blocked 4.00, poll, hear 1", end{"accepted", charge.Paid, has(600, 0, 0), "med_block 4.00 available>blocked,med_debit 4.00 blocked>acquirer"}},
	{"the return is seen before the infraction", nil, "pay 10.00, hear 1, claim 1 4.00, accept 1, hear 1, poll, hear 1", end{"accepted", charge.Paid, has(600, 0, 0), "refund 4.00 available>acquirer,med_block 4.00 available>blocked,med_unblock 4.00 blocked>available"}},
	{"the whole return is seen, then accepted", nil, "pay 10.00, hear 1, claim 1 10.00, poll, accept 1, hear 1, blocked 10.00, poll, hear 1", end{"accepted", charge.Refunded, has(0, 0, 0), "med_block 10.00 available>blocked,med_debit 10.00 blocked>acquirer"}},

	// A return by the acquirer's own will while an infraction is open.
	{"returned, then accepted", nil, "pay 10.00, hear 1, claim 1 10.00, poll, refund 1 10.00, hear 1, accept 1, poll, hear 1", end{"accepted", charge.Refunded, has(0, 0, 0), "med_block 10.00 available>blocked,refund 10.00 available>acquirer,med_unblock 10.00 blocked>available"}},
	{"returned unseen, then accepted", nil, "pay 10.00, hear 1, claim 1 10.00, poll, refund 1 10.00, accept 1, poll, hear 1", end{"accepted", charge.Refunded, has(0, 0, 0), "med_block 10.00 available>blocked,med_debit 10.00 blocked>acquirer"}},
	{"returned, then rejected", nil, "pay 10.00, hear 1, claim 1 10.00, poll, refund 1 10.00, hear 1, reject 1, poll", end{"rejected", charge.Refunded, has(0, 0, 0), "med_block 10.00 available>blocked,refund 10.00 available>acquirer,med_unblock 10.00 blocked>available"}},
	{"returned unseen, then rejected", nil, "pay 10.00, hear 1, claim 1 10.00, poll, refund 1 10.00, reject 1, poll, hear 1", end{"rejected", charge.Refunded, has(0, 0, 0), "med_block 10.00 available>blocked,med_unblock 10.00 blocked>available,refund 10.00 available>acquirer"}},
	{"a part returned, then accepted", nil, "pay 10.00, hear 1, claim 1 10.00, poll, refund 1 3.00, hear 1, accept 1, poll, hear 1", end{"accepted", charge.Refunded, has(0, 0, 0), "med_block 10.00 available>blocked,refund 3.00 available>acquirer,med_debit 7.00 blocked>acquirer,med_unblock 3.00 blocked>available"}},
	{"a part returned unseen, then accepted", nil, "pay 10.00, hear 1, claim 1 10.00, poll, refund 1 3.00, accept 1, poll, hear 1", end{"accepted", charge.Refunded, has(0, 0, 0), "med_block 10.00 available>blocked,med_debit 10.00 blocked>acquirer"}},
	{"a part returned and a part accepted", nil, "pay 10.00, hear 1, claim 1 5.00, poll, refund 1 3.00, accept 1, poll, hear 1", end{"accepted", charge.Paid, has(200, 0, 0), "med_block 5.00 available>blocked,med_debit 5.00 blocked>acquirer,refund 3.00 available>acquirer"}},
	{"returned before it was claimed", nil, "pay 10.00, hear 1, refund 1 10.00, hear 1, claim 1 10.00, poll, accept 1, poll", end{"accepted", charge.Refunded, has(0, 0, 0), "refund 10.00 available>acquirer,med_block 10.00 available>blocked,med_unblock 10.00 blocked>available"}},
	{"returned before it was credited", nil, "pay 10.00, refund 1 10.00, hear 1, claim 1 10.00, poll, accept 1, poll, hear 1", end{"accepted", charge.Refunded, has(0, 0, 0), "med_block 10.00 available>blocked,med_unblock 10.00 blocked>available"}},

	// Several on one payment.
	{"two, one of each end", nil, "pay 10.00, hear 1, claim 1 6.00, claim 1 4.00, poll, accept 1, reject 2, poll, hear 1", end{"accepted rejected", charge.Paid, has(400, 0, 0), "med_block 6.00 available>blocked,med_block 4.00 available>blocked,med_debit 6.00 blocked>acquirer,med_unblock 4.00 blocked>available"}},
	{"two for more than the payment", nil, "pay 10.00, hear 1, claim 1 8.00, claim 1 7.00, poll, accept 1, accept 2, poll, hear 1", end{"accepted accepted", charge.Refunded, has(0, 0, 0), "med_block 8.00 available>blocked,med_block 7.00 available>blocked,med_debit 8.00 blocked>acquirer,med_debit 2.00 blocked>acquirer,med_unblock 5.00 blocked>available"}},
	{"two for more than the payment, returns first", nil, "pay 10.00, hear 1, claim 1 8.00, claim 1 7.00, poll, accept 1, accept 2, hear 1, blocked 15.00, poll, hear 1", end{"accepted accepted", charge.Refunded, has(0, 0, 0), "med_block 8.00 available>blocked,med_block 7.00 available>blocked,med_debit 8.00 blocked>acquirer,med_debit 2.00 blocked>acquirer,med_unblock 5.00 blocked>available"}},
	{"a second after the first", nil, "pay 10.00, hear 1, claim 1 4.00, poll, accept 1, poll, claim 1 4.00, poll, hear 1, accept 2, hear 1, poll", end{"accepted accepted", charge.Paid, has(200, 0, 0), "med_block 4.00 available>blocked,med_debit 4.00 blocked>acquirer,med_block 4.00 available>blocked,med_debit 4.00 blocked>acquirer"}},
	{"one accepted and seen while the other is open", nil, "pay 10.00, hear 1, claim 1 4.00, claim 1 5.00, poll, accept 2, hear 1, blocked 9.00, poll, reject 1, poll", end{"rejected accepted", charge.Paid, has(500, 0, 0), "med_block 4.00 available>blocked,med_block 5.00 available>blocked,med_debit 5.00 blocked>acquirer,med_unblock 4.00 blocked>available"}},

	// Payments that the charge did not ask for.
	{"of a second payment", nil, "pay 10.00, pay 3.00, hear 1, claim 2 3.00, poll, accept 1, poll, hear 2", end{"accepted", charge.Paid, has(1000, 0, 0), "inflow 3.00 acquirer>available,med_block 3.00 available>blocked,med_debit 3.00 blocked>acquirer"}},
	{"of a short payment, return first", nil, "pay 9.00, hear 1, claim 1 9.00, poll, accept 1, hear 1, poll, hear 1", end{"accepted", charge.Pending, has(0, 0, 0), "med_block 9.00 available>blocked,med_debit 9.00 blocked>acquirer"}},
	{"of a payment with excess", nil, "pay 12.00, hear 1, claim 1 12.00, poll, accept 1, poll, hear 1", end{"accepted", charge.Refunded, has(0, 0, 0), "inflow 2.00 acquirer>available,med_block 12.00 available>blocked,med_debit 12.00 blocked>acquirer"}},
	{"of a second payment while the first waits", []string{wait}, "pay 10.00, pay 3.00, hear 1, claim 2 3.00, poll, day, release", end{"open", charge.Paid, has(1000, 0, 300), "inflow 3.00 acquirer>available,med_block 3.00 available>blocked,release_in 10.00 pending>available"}},

	// Before the release.
	{"blocked from pending", []string{wait}, "pay 10.00, hear 1, claim 1 4.00, poll", end{"open", charge.Paid, has(0, 600, 400), "med_block 4.00 pending>blocked"}},
	{"blocked from pending and from available", []string{wait, fee}, "pay 10.00, hear 1, claim 1 10.00, poll", end{"open", charge.Paid, has(-100, 0, 1000), "cash_in_fee 1.00 pending>fees,med_block 9.00 pending>blocked,med_block 1.00 available>blocked"}},
	{"blocked, the rest released, then rejected", []string{wait}, "pay 10.00, hear 1, claim 1 4.00, poll, day, release, poll, reject 1, poll, release", end{"rejected", charge.Paid, has(1000, 0, 0), "med_block 4.00 pending>blocked,release_in 6.00 pending>available,med_unblock 4.00 blocked>available"}},
	{"blocked, rejected, then released", []string{wait}, "pay 10.00, hear 1, claim 1 4.00, poll, reject 1, poll, pending 10.00, day, release", end{"rejected", charge.Paid, has(1000, 0, 0), "med_block 4.00 pending>blocked,med_unblock 4.00 blocked>pending,release_in 10.00 pending>available"}},
	{"all blocked, released, then rejected", []string{wait}, "pay 10.00, hear 1, claim 1 10.00, poll, day, release, reject 1, poll", end{"rejected", charge.Paid, has(1000, 0, 0), "med_block 10.00 pending>blocked,med_unblock 10.00 blocked>available"}},
	{"blocked, accepted, then released", []string{wait}, "pay 10.00, hear 1, claim 1 4.00, poll, accept 1, poll, hear 1, day, release", end{"accepted", charge.Paid, has(600, 0, 0), "med_block 4.00 pending>blocked,med_debit 4.00 blocked>acquirer,release_in 6.00 pending>available"}},
	{"all blocked, accepted, then released", []string{wait}, "pay 10.00, hear 1, claim 1 10.00, poll, accept 1, poll, hear 1, day, release", end{"accepted", charge.Refunded, has(0, 0, 0), "med_block 10.00 pending>blocked,med_debit 10.00 blocked>acquirer"}},
	{"released, then blocked", []string{wait}, "pay 10.00, hear 1, day, release, claim 1 4.00, poll, reject 1, poll", end{"rejected", charge.Paid, has(1000, 0, 0), "release_in 10.00 pending>available,med_block 4.00 available>blocked,med_unblock 4.00 blocked>available"}},
	{"returned while pending money is blocked", []string{wait}, "pay 10.00, hear 1, claim 1 10.00, poll, refund 1 10.00, hear 1, accept 1, poll, pending 10.00, day, release", end{"accepted", charge.Refunded, has(0, 0, 0), "med_block 10.00 pending>blocked,refund 10.00 available>acquirer,med_unblock 10.00 blocked>pending,release_in 10.00 pending>available"}},
	{"two on pending money", []string{wait}, "pay 10.00, hear 1, claim 1 7.00, claim 1 7.00, poll, reject 1, poll, pending 7.00, reject 2, poll, day, release", end{"rejected rejected", charge.Paid, has(1000, 0, 0), "med_block 7.00 pending>blocked,med_block 3.00 pending>blocked,med_block 4.00 available>blocked,med_unblock 7.00 blocked>pending,med_unblock 3.00 blocked>pending,med_unblock 4.00 blocked>available,release_in 10.00 pending>available"}},
}

// livesPerWorld are lived beside each other, in one bank and one database. All in one would read each other's lists again
// and again.
const livesPerWorld = 8

func TestLives(t *testing.T) {
	t.Parallel()
	for some := range slices.Chunk(lives, livesPerWorld) {
		t.Run("from "+some[0].name, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, n *node) {
				var owners []id.Account
				for _, life := range some {
					t.Run(life.name, func(t *testing.T) {
						owners = append(owners, n.in(t).wholeLife(life))
					})
				}
				n.audit(owners...)
				if concern, err := infraction.CountConcerns(t.Context(), n.db, n.clock.Now()); err != nil || concern != (infraction.Concern{}) {
					t.Errorf("%+v: %v", concern, err)
				}
			})
		})
	}
}

// wholeLife lives a life and returns the account whose it was.
func (n *node) wholeLife(l life) id.Account {
	n.t.Helper()
	a := n.account(l.settings...)
	c := n.create(a, 1000)
	payments := n.live(c, l.steps)
	n.check(c, l.end)
	// Whatever is heard again changes nothing, and neither does a node that knows nothing yet.
	for _, again := range []*node{n, n.world.node(n.db)} {
		again.hear(c, payments...)
		again.step(again.HandIn)
		again.poll()
		again.check(c, l.end)
	}
	n.audit()
	return a.ID
}

// live takes steps and returns the payments that were made.
func (n *node) live(c charge.Charge, steps string) (payments []string) {
	n.t.Helper()
	var claims []string
	for step := range strings.SplitSeq(steps, ", ") {
		word := strings.Fields(step)
		nth := func(list []string) string { return list[word[1][0]-'1'] }
		switch word[0] {
		case "pay":
			payments = append(payments, n.pay(c.TxID, brl(n.t, word[1])))
			n.advance(time.Second) // so that their order is known
		case "hear":
			n.hear(c, nth(payments))
		case "refund":
			n.refund(nth(payments), brl(n.t, word[2]))
		case "claim":
			claims = append(claims, n.claim(nth(payments), brl(n.t, word[2])))
			n.advance(time.Second)
		case "accept", "reject", "cancel":
			n.verdict(nth(claims), word[0])
		case "portal": // the operator defends on the acquirer's own pages
			n.portal(c.Acquirer, nth(claims))
		case "defend":
			if _, err := n.say(n.named(c.Account, nth(claims)), "foi entregue"); err != nil {
				n.t.Fatal(err)
			}
		case "hand":
			n.step(n.HandIn)
		case "poll":
			n.poll()
		case "release":
			n.step(n.charges.Release)
		case "day":
			n.advance(24 * time.Hour)
		case "60days":
			n.advance(60 * 24 * time.Hour)
		case "spend":
			if _, err := n.ledger.Adjust(n.t.Context(), c.Account, (-brl(n.t, word[1])).Amount(), "spent"); err != nil {
				n.t.Fatal(err)
			}
		case "blocked", "pending":
			b := n.balance(c.Account)
			if got := *b.Of(ledger.Book(word[0])); got != int64(brl(n.t, word[1])) {
				n.t.Errorf("%s: %d", step, got)
			}
		default:
			n.t.Fatalf("step %q", step)
		}
	}
	return payments
}

// check holds the charge and its infractions against how they should have ended.
func (n *node) check(c charge.Charge, want end) {
	n.t.Helper()
	var states []string
	list := n.all(c.Account)
	for i := range list {
		states = append([]string{string(list[i].Status)}, states...)
		f := &list[i]
		resolved := f.Status == infraction.Accepted || f.Status == infraction.Rejected || f.Status == infraction.Cancelled
		if f.ResolvedAt.IsZero() == resolved || f.ExternalID != c.ExternalID || f.Reason != "não fui eu" || f.ReasonCode != "golpe" ||
			!f.DeadlineAt.Equal(f.OpenedAt.Add(infraction.DefenseTime)) || (f.Status == infraction.UnderReview && f.DefendedAt.IsZero()) {
			n.t.Errorf("%+v", f)
		}
	}
	if got := strings.Join(states, " "); got != want.states {
		n.t.Errorf("%s, want %s", got, want.states)
	}
	if got := n.stored(c).Status; got != want.charge {
		n.t.Errorf("charge is %s, want %s", got, want.charge)
	}
	if got := n.balance(c.Account); got != want.balance {
		n.t.Errorf("balance %+v, want %+v", got, want.balance)
	}
	var posted []string
	for _, x := range n.transfers(c.Account) {
		if !strings.HasPrefix(x, "cash_in ") && !strings.HasPrefix(x, "inflow 9.00") {
			posted = append(posted, x)
		}
	}
	if got := strings.Join(posted, ","); got != want.posted {
		n.t.Errorf("posted\n%s, want\n%s", got, want.posted)
	}
	for _, kind := range n.events(c.Account) {
		if strings.HasPrefix(kind, "med.") || kind == "charge.refunded" {
			n.t.Errorf("event %s", kind)
		}
	}
}
