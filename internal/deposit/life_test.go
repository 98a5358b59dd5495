package deposit_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ponte-pay/ponte/internal/deposit"
	"github.com/ponte-pay/ponte/internal/money"
)

// end is how a life of a deposit of 50 USD ends.
type end struct {
	status deposit.State
	amount deposit.AmountStatus
	review deposit.Review
	posted string // transfers
	events string // after created
	again  int    // deposits of their own that came to its address
}

// lives are what can happen to a deposit of 50 USD in the coin that the provider settles in, which keeps half a percent
// of what comes. A step's number is the payment it is about: the first is the deposit's own.
var lives = []struct {
	name     string
	settings string
	steps    string
	end      end
}{
	{"nobody paid", "", "get", end{deposit.Waiting, "", "", "", "", 0}},
	{"paid, step by step", "", "pay all, hear 1, confirm 1, hear 1", end{deposit.Paid, deposit.Exact, "", "*", "confirming, paid", 0}},
	{"paid in silence", "", "pay 60, confirm 1, get", end{deposit.Paid, deposit.Overpaid, "", "in 59.7", "paid", 0}},
	{"paid, and found by its age", "", "pay 60, confirm 1, hour, check", end{deposit.Paid, deposit.Overpaid, "", "in 59.7", "paid", 0}},
	{"paid, and found in the list", "", "pay 60, confirm 1, reconcile", end{deposit.Paid, deposit.Overpaid, "", "in 59.7", "paid", 0}},
	{"confirming, and read", "", "pay 60, get, get", end{deposit.Confirming, "", "", "", "confirming", 0}},
	{"too little", "", "pay 40, hear 1, confirm 1, hear 1", end{deposit.Paid, deposit.Underpaid, "", "in 39.8", "confirming, paid", 0}},
	{"fee", "0.10+1%", "pay 60, confirm 1, hear 1", end{deposit.Paid, deposit.Overpaid, "", "in 59.7, fee 0.697", "paid", 0}},
	{"fee above the amount", "70", "pay 60, confirm 1, hear 1", end{deposit.Paid, deposit.Overpaid, "", "in 59.7, fee 70", "paid", 0}},
	{"failed", "", "fail 1, hear 1", end{deposit.Failed, "", "", "", "failed", 0}},
	{"failed with coins", "", "pay 60, hear 1, fail 1, hear 1", end{deposit.Failed, "", deposit.ReviewStuck, "", "confirming, failed", 0}},
	{"failed, then paid at the same address", "", "fail 1, hear 1, pay 60, confirm 2, hear 2", end{deposit.Failed, "", "", "in 59.7", "failed, paid", 1}},
	{"expired", "", "expire 1, hear 1", end{deposit.Expired, "", "", "", "expired", 0}},
	{"expired by time", "", "week, check", end{deposit.Expired, "", "", "", "expired", 0}},
	{"paid late", "", "week, check, pay 60, hear 1, confirm 1, hear 1", end{deposit.Expired, deposit.Overpaid, deposit.ReviewLate, "in 59.7", "expired", 0}},
	{"paid late, told by nobody", "", "expire 1, hear 1, pay 40, confirm 1, week, week, reconcile, reconcile", end{deposit.Expired, deposit.Underpaid, deposit.ReviewLate, "in 39.8", "expired", 0}},
	{"paid late and refunded", "", "expire 1, hear 1, pay 60, confirm 1, hear 1, refund 1, hear 1", end{deposit.Expired, deposit.Overpaid, deposit.ReviewRefund, "in 59.7, refund 59.7", "expired", 0}},
	{"refunded before it was settled", "", "pay 60, hear 1, refund 1, hear 1", end{deposit.Refunded, "", "", "", "confirming", 0}},
	{"refunded unseen", "", "pay 60, refund 1, get", end{deposit.Refunded, "", "", "", "", 0}},
	{"paid and refunded unseen", "", "pay 60, confirm 1, refund 1, get", end{deposit.Refunded, "", "", "", "", 0}},
	{"refunded after paid", "0+1%", "pay 60, confirm 1, hear 1, refund 1, hear 1", end{deposit.Paid, deposit.Overpaid, deposit.ReviewRefund, "in 59.7, fee 0.597, refund 59.7", "paid", 0}},
	{"refunded after paid, told by nobody", "", "pay 60, confirm 1, hear 1, refund 1, week, week, reconcile, reconcile", end{deposit.Paid, deposit.Overpaid, deposit.ReviewRefund, "in 59.7, refund 59.7", "paid", 0}},
	{"paid again", "0+1%", "pay 60, confirm 1, hear 1, pay 20, confirm 2, hear 2", end{deposit.Paid, deposit.Overpaid, "", "in 59.7, fee 0.597, in 19.9, fee 0.199", "paid, paid", 1}},
	{"paid again, told by nobody", "", "pay 60, confirm 1, hear 1, pay 20, confirm 2, reconcile", end{deposit.Paid, deposit.Overpaid, "", "in 59.7, in 19.9", "paid, paid", 1}},
	{"paid again before the first is settled", "", "pay 60, hear 1, pay 20, confirm 2, get, confirm 1, get", end{deposit.Paid, deposit.Overpaid, "", "in 19.9, in 59.7", "confirming, paid, paid", 1}},
	{"paid three times, the last one refunded", "", "pay 60, confirm 1, hear 1, pay 20, pay 10, confirm 3, confirm 2, hear 3, hear 2, refund 3, hear 3", end{deposit.Paid, deposit.Overpaid, "", "in 59.7, in 9.95, in 19.9, refund 9.95", "paid, paid, paid", 2}},
	{"paid again, and not settled", "", "pay 60, confirm 1, hear 1, pay 20, hear 2, reconcile", end{deposit.Paid, deposit.Overpaid, "", "in 59.7", "paid", 0}},
	{"paid again, and refunded unseen", "", "pay 60, confirm 1, hear 1, pay 20, confirm 2, refund 2, hear 2", end{deposit.Paid, deposit.Overpaid, "", "in 59.7", "paid", 0}},
	{"another coin came", "", "coin bnbbsc, confirm 1, hear 1", end{deposit.Paid, "", deposit.ReviewCoin, "*", "paid", 0}},
}

func TestLives(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, n *node) {
		for _, life := range lives {
			t.Run(life.name, func(t *testing.T) {
				n := n.in(t)
				settings := []string{"crypto_in_fee=0"}
				if life.settings != "" {
					settings[0] = "crypto_in_fee=" + life.settings
				}
				a := n.account(settings...)
				d := n.create(a, "order")
				payments := n.live(d, life.steps)
				n.check(d, life.end)
				// Whatever is heard again changes nothing, and neither does a node that knows nothing yet.
				n.hear(slices.Concat(payments, payments)...)
				n.reconcile()
				n.check(d, life.end)
				other := n.world.node(n.db)
				slices.Reverse(payments)
				other.hear(payments...)
				other.reconcile()
				other.check(d, life.end)
			})
		}
		n.audit()
		if unmatched, err := deposit.CountUnmatched(t.Context(), n.db); err != nil || unmatched > 0 {
			t.Errorf("%d unmatched: %v", unmatched, err)
		}
	})
}

// live takes steps and returns the payments that there are.
func (n *node) live(d deposit.Deposit, steps string) []string {
	n.t.Helper()
	payments := []string{d.PaymentID}
	came := func(paymentID string) {
		if !slices.Contains(payments, paymentID) {
			payments = append(payments, paymentID)
		}
	}
	for step := range strings.SplitSeq(steps, ", ") {
		word := strings.Fields(step)
		payment := func() string { return payments[word[1][0]-'1'] }
		switch word[0] {
		case "pay":
			amount := word[1]
			if amount == "all" {
				amount = d.PayAmount.Decimal.String()
			}
			came(n.arrive(d, amount, ""))
		case "coin":
			came(n.arrive(d, "1", word[1]))
		case "confirm", "fail", "expire", "refund":
			n.order(payment(), word[0])
		case "hear":
			n.hear(payment())
		case "get":
			if _, err := n.Get(n.t.Context(), d.Account, "ext:"+d.ExternalID); err != nil {
				n.t.Fatal(err)
			}
		case "check":
			n.step(n.CheckDue)
		case "reconcile":
			n.reconcile()
		case "hour":
			n.advance(time.Hour)
		case "week":
			n.advance(8 * 24 * time.Hour)
		default:
			n.t.Fatalf("no step is called %q", step)
		}
	}
	return payments
}

func (n *node) check(d deposit.Deposit, want end) {
	n.t.Helper()
	list := n.all(d.Account)
	now := list[0]
	events, _ := strings.CutPrefix(n.events(d.Account), "created waiting")
	got := end{
		status: now.Status, amount: now.AmountStatus, review: now.Review, posted: n.transfers(d.Account),
		events: strings.TrimPrefix(events, ", "), again: len(list) - 1,
	}
	if want.posted == "*" {
		got.posted = "*"
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(end{})); diff != "" {
		n.t.Errorf("%s", diff)
	}
	var sum money.USDT
	for i, one := range list {
		sum += one.Net() - one.Refunded
		if i > 0 && (one.Parent != now.PaymentID || one.ExternalID != "" || one.CustomerID != now.CustomerID || one.PayAmount.Valid || one.PaidAt.IsZero()) {
			n.t.Errorf("came again as %+v", one)
		}
	}
	if b := n.balance(d.Account); b != sum {
		n.t.Errorf("the balance is %s, deposits add up to %s", b, sum)
	}
	if (now.Status == deposit.Paid) == now.PaidAt.IsZero() {
		n.t.Errorf("%s was paid at %v", now.Status, now.PaidAt)
	}
	open := now.Status == deposit.Waiting || now.Status == deposit.Confirming
	if open == now.CheckAt.IsZero() {
		n.t.Errorf("%s is checked at %v", now.Status, now.CheckAt)
	}
}
