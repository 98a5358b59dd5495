package auditor

import (
	"slices"
	"strconv"
	"strings"
)

// Books of an account that are guarded. The others are the world's side.
var ownBooks = []string{"available", "blocked", "in_transit", "pending"}

// mayOverdraw are the debits of available that may take it below zero: by an infraction, by what an acquirer gave back, by
// the operator, and fees of money that came in.
var mayOverdraw = []string{"med_block", "refund", "adjustment", "hold", "crypto_in_refund", "cash_in_fee", "crypto_in_fee"}

// lookAtMoney checks that every balance is what its transfers make it, and that each transfer has a reason.
func (a *Auditor) lookAtMoney(before *tables, changed map[string]bool) {
	if changed["transfer"] || changed["balance"] || changed["delta"] {
		a.readd(before)
	}
	if changed["transfer"] || changed["charge"] || changed["payout"] || changed["infraction"] || changed["deposit"] || changed["withdrawal"] {
		a.lookAtPostings()
		a.lookAtHeld()
	}
}

// readd adds every book up again.
func (a *Auditor) readd(before *tables) {
	type purse struct {
		account  int64
		currency string
	}
	added, whole := map[book]int64{}, map[purse]int64{}
	for _, t := range a.state.transfers {
		added[book{t.account, t.currency, t.source}] -= t.amount
		added[book{t.account, t.currency, t.target}] += t.amount
	}
	for b, units := range added {
		if !slices.Contains(ownBooks, b.name) {
			whole[purse{b.account, b.currency}] += units
		}
	}
	for b, folded := range a.state.balances {
		held := folded + a.state.deltas[b]
		if held != added[b] {
			a.fail("book %s %s of %d shows %d, its transfers make %d", b.name, b.currency, b.account, held, added[b])
		}
		if held < 0 && b.name != "available" {
			a.fail("book %s %s of %d is below zero: %d", b.name, b.currency, b.account, held)
		}
		whole[purse{b.account, b.currency}] += held
	}
	for p, sum := range whole {
		if sum != 0 {
			a.fail("%s of %d does not sum up to zero: %d", p.currency, p.account, sum)
		}
	}
	for x, t := range before.transfers {
		if a.state.transfers[x] != t {
			a.fail("transfer %s was changed or is gone", x)
		}
	}
	a.lookBelowZero(before, added)
}

// lookBelowZero checks that nobody sent money that was not there. In which order the debits of one step were made is not
// known: those that may be made below zero are taken to have come last.
func (a *Auditor) lookBelowZero(before *tables, added map[book]int64) {
	spent, excused := map[book]int64{}, map[book]int64{}
	for x, t := range a.state.transfers {
		if _, known := before.transfers[x]; known || t.source != "available" {
			continue
		}
		b := book{t.account, t.currency, t.source}
		if slices.Contains(mayOverdraw, t.kind) {
			excused[b] += t.amount
		} else {
			spent[b] += t.amount
		}
	}
	for b := range spent {
		if left := added[b] + excused[b]; left < 0 {
			a.fail("%d spent %d %s more than it had", b.account, -left, b.currency)
		}
	}
}

// posted is what was posted about a thing, by kind.
type posted map[string]int64

// lookAtPostings checks that each thing has the transfers that its state asks for and no other, and that no payment is
// credited twice or with more than was paid.
func (a *Auditor) lookAtPostings() {
	about := map[ref]posted{}
	credited, once := map[string]int64{}, map[string]bool{}
	for _, t := range a.state.transfers {
		if t.onceKey != "" {
			name := strconv.FormatInt(t.account, 10) + " " + t.kind + " " + t.onceKey
			if once[name] {
				a.fail("%s %s is posted twice", t.kind, t.onceKey)
			}
			once[name] = true
		}
		if t.kind == "cash_in" || t.kind == "inflow" {
			credited[t.onceKey[:min(len(t.onceKey), endToEndLen)]] += t.amount
		}
		x := ref{t.account, t.about}
		if about[x] == nil {
			about[x] = posted{}
		}
		about[x][t.kind] += t.amount
	}
	for endToEnd, sum := range credited {
		p := a.model.payments[endToEnd]
		switch {
		case p == nil:
			a.fail("%s is credited with %d, and nobody paid it", endToEnd, sum)
		case sum > p.amount:
			a.fail("%s is credited with %d of %d", endToEnd, sum, p.amount)
		}
	}
	want := func(what string, x ref, kind string, amount int64) {
		if got := about[x][kind]; got != amount {
			a.fail("%s %s: %s is %d, want %d", what, x, kind, got, amount)
		}
	}
	when := func(is bool, amount int64) int64 {
		if is {
			return amount
		}
		return 0
	}
	for x, c := range a.state.charges {
		isPaid := c.paidAt != 0
		want("charge", x, "cash_in", when(isPaid, c.amount))
		want("charge", x, "cash_in_fee", when(isPaid, c.fee))
		if isPaid {
			a.lookAtFee("charge", x, "cash_in", c.amount, c.fee)
		}
	}
	for x, p := range a.state.payouts {
		isSent := p.status == "completed" || p.status == "reversed"
		want("payout", x, "cash_out", p.amount+p.fee)
		want("payout", x, "cash_out_sent", when(isSent, p.amount))
		want("payout", x, "cash_out_fee", when(isSent, p.fee))
		want("payout", x, "cash_out_failed", when(p.status == "failed", p.amount+p.fee))
		want("payout", x, "cash_out_return", p.returned)
		a.lookAtFee("payout", x, "cash_out", p.amount, p.fee)
	}
	for x, d := range a.state.deposits {
		want("deposit", x, "crypto_in", d.received)
		want("deposit", x, "crypto_in_fee", d.fee)
		want("deposit", x, "crypto_in_refund", d.refunded)
	}
	for x, w := range a.state.withdrawals {
		want("withdrawal", x, "crypto_out", w.amount+w.fee)
		want("withdrawal", x, "crypto_out_sent", when(w.status == "completed", w.amount))
		want("withdrawal", x, "crypto_out_fee", when(w.status == "completed", w.fee))
		want("withdrawal", x, "crypto_out_failed", when(w.status == "failed", w.amount+w.fee))
	}
	for x, f := range a.state.infractions {
		want("infraction", x, "med_block", f.amount)
		want("infraction", x, "med_debit", f.debited)
		want("infraction", x, "med_unblock", when(isDecided(f.status), f.amount-f.debited))
	}
}

const endToEndLen = 32

func isDecided(status string) bool {
	return status == "accepted" || status == "rejected" || status == "cancelled"
}

// lookAtFee checks that a fee is what the account's settings make it, by whichever it had.
func (a *Auditor) lookAtFee(what string, x ref, of string, amount, fee int64) {
	texts := a.model.fees[x.account][of]
	if !slices.ContainsFunc(texts, func(text string) bool { return feeOf(text, amount, brlDecimals) == fee }) {
		a.fail("%s %s: the fee of %d is %d, by %s", what, x, amount, fee, strings.Join(texts, " or "))
	}
}

// feeOf returns a fee that is written FIXED[+PERCENT%], rounded half up.
func feeOf(text string, amount int64, decimals int) int64 {
	fixed, percent, _ := strings.Cut(strings.TrimSuffix(text, "%"), "+")
	const percentDecimals, whole = 4, 100 * 10_000
	return units(fixed, decimals) + (amount*units(percent, percentDecimals)+whole/2)/whole
}

// lookAtHeld checks that what is held is held for something.
func (a *Auditor) lookAtHeld() {
	want := map[book]int64{}
	for b := range a.state.balances {
		if b.name != "available" {
			want[b] = 0
		}
	}
	for _, p := range a.state.payouts {
		if p.status == "processing" {
			want[book{p.account, "BRL", "in_transit"}] += p.amount + p.fee
		}
	}
	for _, w := range a.state.withdrawals {
		if w.status == "processing" {
			want[book{w.account, "USDT", "in_transit"}] += w.amount + w.fee
		}
	}
	for _, f := range a.state.infractions {
		if !isDecided(f.status) {
			want[book{f.account, "BRL", "blocked"}] += f.amount
		}
	}
	for _, t := range a.state.transfers {
		switch t.kind {
		case "hold":
			want[book{t.account, "BRL", "blocked"}] += t.amount
		case "release":
			want[book{t.account, "BRL", "blocked"}] -= t.amount
		}
	}
	for _, c := range a.state.charges {
		if c.releaseAt == 0 {
			continue
		}
		waits := c.amount - c.held
		if c.fee <= c.amount {
			waits -= c.fee
		}
		want[book{c.account, "BRL", "pending"}] += waits
	}
	for b, units := range want {
		if held := a.state.balances[b] + a.state.deltas[b]; held != units {
			a.fail("book %s %s of %d holds %d, its things make %d", b.name, b.currency, b.account, held, units)
		}
	}
}
