package clawback

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/ponte-pay/ponte/internal/money"
)

// claim is an infraction in the bank of this test.
type claim struct {
	amount   money.BRL
	accepted bool
}

// view is what the bank shows of a payment at some moment.
type view struct{ returned, enforced money.BRL }

// TestDebitedOnce lets a bank return and enforce what it likes, and tells of it in any order, twice and stale: in the end
// exactly what left the bank is debited, and no end of an infraction takes more than that one had blocked.
func TestDebitedOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const paid = money.BRL(100)
		var claims []claim
		var views []view
		var now view
		for range rapid.IntRange(0, 8).Draw(t, "deeds") {
			left := paid - now.returned - now.enforced
			amount := money.BRL(rapid.IntRange(1, int(paid)).Draw(t, "amount"))
			switch rapid.SampledFrom([]string{"return", "accept", "reject"}).Draw(t, "deed") {
			case "return":
				now.returned += min(amount, left)
			case "accept":
				now.enforced += min(amount, left)
				claims = append(claims, claim{amount, true})
			case "reject":
				claims = append(claims, claim{amount, false})
			}
			views = append(views, now)
		}
		views = append(views, now)

		p := Payment{Amount: paid}
		var debited money.BRL
		next := rapid.Permutation(claims).Draw(t, "openings")
		var open []claim
		var last view
		tell := func(v view) {
			debited += p.Return(v.returned, v.enforced)
			last = v
		}
		for len(next)+len(open) > 0 || last != now {
			switch rapid.SampledFrom([]string{"open", "end", "view"}).Draw(t, "news") {
			case "open":
				if len(next) > 0 {
					p.Claim(next[0].amount)
					open, next = append(open, next[0]), next[1:]
				}
			case "end":
				if len(open) == 0 {
					continue
				}
				i := rapid.IntRange(0, len(open)-1).Draw(t, "which")
				took := p.Decide(open[i].amount, open[i].accepted)
				if took < 0 || took > open[i].amount {
					t.Fatalf("an infraction of %s took %s", open[i].amount, took)
				}
				debited += took
				open = slices.Delete(open, i, i+1)
			case "view":
				tell(rapid.SampledFrom(views).Draw(t, "view"))
			}
			if debited != p.Debited || debited > paid {
				t.Fatalf("%s is debited, %s is known to be", debited, p.Debited)
			}
		}
		if debited != now.returned+now.enforced || p.Claimed != 0 {
			t.Fatalf("%s is debited, %s went back: %+v", debited, now.returned+now.enforced, p)
		}
	})
}

func TestForgo(t *testing.T) {
	t.Parallel()
	p := Payment{Amount: 100}
	p.Forgo()
	p.Claim(80)
	if took := p.Return(20, 80) + p.Decide(80, true); took != 0 || p.Debited != 100 {
		t.Errorf("%s was taken of what was never credited: %+v", took, p)
	}
}
