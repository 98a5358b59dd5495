package auditor

import (
	"slices"
	"time"
)

// moves are the tables of docs/states.md: from which state to which. A test holds them equal to it.
var moves = map[string][][2]string{
	"charge": {
		{"", "pending"},
		{"pending", "paid"},
		{"pending", "expired"},
		{"pending", "cancelled"},
		{"pending", "refunded"},
		{"expired", "paid"},
		{"cancelled", "paid"},
		{"paid", "refunded"},
	},
	"payout": {{"", "processing"}, {"processing", "completed"}, {"processing", "failed"}, {"completed", "reversed"}},
	"infraction": {
		{"", "open"},
		{"open", "under_review"},
		{"open", "accepted"},
		{"open", "rejected"},
		{"open", "cancelled"},
		{"under_review", "accepted"},
		{"under_review", "rejected"},
		{"under_review", "cancelled"},
	},
	"deposit": {
		{"", "processing"},
		{"", "paid"},
		{"processing", "waiting"},
		{"processing", "failed"},
		{"waiting", "confirming"},
		{"waiting", "paid"},
		{"waiting", "failed"},
		{"waiting", "expired"},
		{"waiting", "refunded"},
		{"confirming", "paid"},
		{"confirming", "failed"},
		{"confirming", "expired"},
		{"confirming", "refunded"},
	},
	"withdrawal": {{"", "processing"}, {"processing", "completed"}, {"processing", "failed"}},
}

// canMove reports whether a thing can have come from one state to another, by as many moves as it takes.
func canMove(what, from, to string) bool {
	if from == to {
		return true
	}
	return slices.ContainsFunc(moves[what], func(m [2]string) bool { return m[0] == from && canMove(what, m[1], to) })
}

// lookAtStates checks that nothing moved but along the tables, and that nothing is gone.
func (a *Auditor) lookAtStates(before *tables, changed map[string]bool) {
	if changed["charge"] {
		compare(a, "charge", before.charges, a.state.charges, func(c chargeRow) string { return c.status })
		a.lookAtExpiry(before)
	}
	if changed["charge"] || changed["payout"] || changed["deposit"] {
		a.lookAtMarks()
	}
	if changed["payout"] {
		compare(a, "payout", before.payouts, a.state.payouts, func(p payoutRow) string { return p.status })
	}
	if changed["infraction"] {
		compare(a, "infraction", before.infractions, a.state.infractions, func(f infractionRow) string { return f.status })
	}
	if changed["deposit"] {
		compare(a, "deposit", before.deposits, a.state.deposits, func(d depositRow) string { return d.status })
	}
	if changed["withdrawal"] {
		compare(a, "withdrawal", before.withdrawals, a.state.withdrawals, func(w withdrawalRow) string { return w.status })
	}
}

// lookAtMarks checks that each thing bears the marks of its state: what moved there and back within one action shows by them.
func (a *Auditor) lookAtMarks() {
	for x, c := range a.state.charges {
		if isPaid := c.status == "paid" || c.status == "refunded"; c.paidAt != 0 && !isPaid || c.paidAt == 0 && c.status == "paid" {
			a.fail("charge %s is %s, and was paid at %d", x, c.status, c.paidAt)
		}
	}
	for x, p := range a.state.payouts {
		if isSent := p.status == "completed" || p.status == "reversed"; isSent != (p.endToEnd != "") {
			a.fail("payout %s is %s, with end-to-end id %q", x, p.status, p.endToEnd)
		}
	}
	for x, d := range a.state.deposits {
		if (d.status == "paid") != (d.paidAt != 0) {
			a.fail("deposit %s is %s, and was paid at %d", x, d.status, d.paidAt)
		}
	}
}

func compare[T any](a *Auditor, what string, before, now map[ref]T, status func(T) string) {
	for x, row := range now {
		from := ""
		if was, known := before[x]; known {
			from = status(was)
		}
		if !canMove(what, from, status(row)) {
			a.fail("%s %s moved from %q to %q", what, x, from, status(row))
		}
	}
	for x, was := range before {
		// An address that the provider was proven not to have made is forgotten again.
		if _, exists := now[x]; !exists && (what != "deposit" || status(was) != "processing") {
			a.fail("%s %s is gone", what, x)
		}
	}
}

// expiryGrace is how long after its time a charge waits for an acquirer that does not answer.
const expiryGrace = 10 * time.Minute

// lookAtExpiry checks that no charge expired whose payment its acquirer had, unless nobody could be asked.
func (a *Auditor) lookAtExpiry(before *tables) {
	for x, c := range a.state.charges {
		if c.status != "expired" || before.charges[x].status == "expired" || a.now().After(time.UnixMicro(c.expiresAt).Add(expiryGrace)) {
			continue
		}
		for endToEnd, p := range a.model.payments {
			if p.old && p.txid == c.txid && p.amount >= c.amount {
				a.fail("charge %s expired although %s had paid it", x, endToEnd)
			}
		}
	}
}
