package auditor

import (
	"strings"

	"github.com/ponte-pay/ponte/internal/id"
)

// lookAtEvents checks that each transition that has a type wrote exactly one event.
func (a *Auditor) lookAtEvents(changed map[string]bool) {
	if !changed["event"] && !changed["charge"] && !changed["payout"] && !changed["deposit"] && !changed["withdrawal"] {
		return
	}
	type happening struct {
		ref
		kind string
	}
	found := map[happening]int{}
	for _, e := range a.state.events {
		found[happening{ref{e.account, e.about}, e.kind}]++
	}
	expect := func(x ref, kind string, is bool) {
		h := happening{x, kind}
		want := 0
		if is {
			want = 1
		}
		if found[h] != want {
			a.fail("%s has %d events %s, want %d", x, found[h], kind, want)
		}
		delete(found, h)
	}
	for x, c := range a.state.charges {
		expect(x, "charge.created", true)
		expect(x, "charge.paid", c.paidAt != 0)
	}
	for x, p := range a.state.payouts {
		expect(x, "payout.created", true)
		expect(x, "payout.completed", p.status == "completed" || p.status == "reversed")
		expect(x, "payout.failed", p.status == "failed")
	}
	for x, d := range a.state.deposits {
		isAsked := d.asks > 0 // and not money that came to a used address again
		expect(x, "crypto.charge.created", isAsked && d.payment != "")
		expect(x, "crypto.charge.confirming", d.detectedAt != 0)
		expect(x, "crypto.charge.paid", d.paidAt != 0)
		expect(x, "crypto.charge.failed", d.status == "failed")
		expect(x, "crypto.charge.expired", d.status == "expired")
	}
	for x, w := range a.state.withdrawals {
		expect(x, "crypto.payout.processing", true)
		expect(x, "crypto.payout.completed", w.status == "completed")
		expect(x, "crypto.payout.failed", w.status == "failed")
	}
	for h, n := range found {
		if n > 0 {
			a.fail("%s has %d events %s, want none", h.ref, n, h.kind)
		}
	}
}

// lookAtAnswers checks that what callers were told is stored, as they were told it.
func (a *Auditor) lookAtAnswers() {
	for _, x := range a.model.answers {
		at, ok := a.named(x)
		if !ok {
			continue
		}
		amount, status, exists := a.find(x.Route, at)
		switch {
		case !exists:
			a.fail("%s told of %s, which is not stored", x.Route, x.ID)
		case amount != x.Amount:
			a.fail("%s told of %s with %s, stored is %s", x.Route, x.ID, x.Amount, amount)
		case x.State == "failed" && status != "failed":
			a.fail("%s told that %s has failed, it is %s", x.Route, x.ID, status)
		}
	}
	a.model.answers = nil
}

// named returns what an answer is about; ok is false when it is about nothing.
func (a *Auditor) named(x Answer) (at ref, ok bool) {
	if x.ID == "" {
		return ref{}, false
	}
	_, text, _ := strings.Cut(x.ID, "_")
	name, err := id.Parse(text)
	if err != nil {
		a.fail("%s was answered with %q", x.Route, x.ID)
		return ref{}, false
	}
	return ref{int64(x.Account), name}, true
}

// lookAtNames checks that each key and each external_id of an account has made one thing, whoever was told of it.
func (a *Auditor) lookAtNames(changed map[string]bool) {
	if changed["charge"] {
		onlyOne(a, "charges", a.state.charges, func(c chargeRow) (string, string) { return c.external, c.key })
	}
	if changed["payout"] {
		onlyOne(a, "payouts", a.state.payouts, func(p payoutRow) (string, string) { return p.external, p.key })
	}
	if changed["deposit"] {
		onlyOne(a, "deposits", a.state.deposits, func(d depositRow) (string, string) { return d.external, d.key })
	}
	if changed["withdrawal"] {
		onlyOne(a, "withdrawals", a.state.withdrawals, func(w withdrawalRow) (string, string) { return w.external, w.key })
	}
}

func onlyOne[T any](a *Auditor, what string, rows map[ref]T, names func(T) (external, key string)) {
	type name struct {
		account int64
		of      string
		text    string
	}
	seen := map[name]bool{}
	for x, row := range rows {
		external, key := names(row)
		for _, n := range []name{{x.account, "external_id", external}, {x.account, "key", key}} {
			if n.text != "" && seen[n] {
				a.fail("%s %s names two %s", n.of, n.text, what)
			}
			seen[n] = true
		}
	}
}

// find returns a thing's amount and status.
func (a *Auditor) find(route string, x ref) (amount, status string, exists bool) {
	switch route {
	case RouteCharge:
		c, ok := a.state.charges[x]
		return format(c.amount, brlDecimals), c.status, ok
	case RoutePayout:
		p, ok := a.state.payouts[x]
		return format(p.amount, brlDecimals), p.status, ok
	case RouteDeposit:
		d, ok := a.state.deposits[x]
		return format(d.price, brlDecimals), d.status, ok
	case RouteWithdrawal:
		w, ok := a.state.withdrawals[x]
		return format(w.amount, usdtDecimals), w.status, ok
	}
	return "", "", false
}

// Routes of creations.
const (
	RouteCharge     = "POST /charges"
	RoutePayout     = "POST /payouts"
	RouteDeposit    = "POST /crypto/charges"
	RouteWithdrawal = "POST /crypto/payouts"
)

// format writes an amount as the API does.
func format(n int64, decimals int) string {
	text := []byte{}
	for i := 0; i <= decimals || n > 0; i++ {
		if i == decimals {
			text = append([]byte{'.'}, text...)
		}
		text = append([]byte{byte('0' + n%10)}, text...)
		n /= 10
	}
	return string(text)
}
