package auditor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ponte-pay/ponte/internal/id"
)

// End checks what must hold once nothing goes wrong any more and time has passed: everything has come to an end, everybody
// was told, and our books and the worlds' agree to the last unit.
func (a *Auditor) End(ctx context.Context) ([]string, error) {
	for _, t := range watched {
		a.dirty[t.name] = true
	}
	if found, err := a.Look(ctx); err != nil || len(found) > 0 {
		return found, err
	}
	var bank bankBooks
	if err := a.books(ctx, "/sim/pix/books", &bank); err != nil {
		return nil, err
	}
	var chain chainBooks
	if err := a.books(ctx, "/sim/crypto/books", &chain); err != nil {
		return nil, err
	}
	a.endOfThings()
	a.endOfPayments(&bank)
	a.endOfPayouts(&bank)
	a.endOfInfractions(&bank)
	a.endOfDeposits(&chain)
	a.endOfWithdrawals(&chain)
	a.endOfBalances(&bank)
	deliveries, err := a.deliveries(ctx)
	if err != nil {
		return nil, err
	}
	a.endOfDeliveries(deliveries)
	found := a.problems
	a.problems = nil
	slices.Sort(found)
	return slices.Compact(found), nil
}

// endOfThings checks that nothing waits.
func (a *Auditor) endOfThings() {
	for x, c := range a.state.charges {
		if c.status == "pending" {
			a.fail("charge %s is still pending", x)
		}
		if c.releaseAt != 0 {
			a.fail("charge %s still waits for its release", x)
		}
	}
	for x, p := range a.state.payouts {
		if p.status == "processing" {
			a.fail("payout %s is still processing", x)
		}
	}
	for x, f := range a.state.infractions {
		if !isDecided(f.status) {
			a.fail("infraction %s is still %s", x, f.status)
		}
	}
	for x, d := range a.state.deposits {
		if d.status == "processing" || d.status == "waiting" || d.status == "confirming" {
			a.fail("deposit %s is still %s", x, d.status)
		}
	}
	for x, w := range a.state.withdrawals {
		if w.status == "processing" {
			a.fail("withdrawal %s is still processing", x)
		}
	}
}

// endOfPayments checks that of every payment the account has what the bank has.
func (a *Auditor) endOfPayments(bank *bankBooks) {
	ours := map[string]bool{}
	for _, c := range a.state.charges {
		ours[c.acquirer+" "+c.txid] = true
	}
	net := map[string]int64{}
	infractions := map[ref]string{}
	for x, f := range a.state.infractions {
		infractions[x] = f.endToEnd
	}
	for _, t := range a.state.transfers {
		switch t.kind {
		case "cash_in", "inflow":
			net[t.onceKey] += t.amount
		case "refund":
			net[t.onceKey[:min(len(t.onceKey), endToEndLen)]] -= t.amount
		case "med_debit":
			net[infractions[ref{t.account, t.about}]] -= t.amount
		}
	}
	for _, p := range bank.Payments {
		left := units(p.Amount, brlDecimals) - units(p.Returned, brlDecimals)
		_, isUnmatched := a.state.unmatched[p.EndToEndID]
		switch {
		case !ours[p.Acquirer+" "+strings.ToLower(p.TxID)]:
			if !isUnmatched {
				a.fail("payment %s of nobody is not listed", p.EndToEndID)
			}
			left = 0
		case isUnmatched:
			a.fail("payment %s is listed as nobody's", p.EndToEndID)
		}
		if net[p.EndToEndID] != left {
			a.fail("payment %s: the account has %d, the bank %d", p.EndToEndID, net[p.EndToEndID], left)
		}
		delete(net, p.EndToEndID)
	}
	for endToEnd, sum := range net {
		if sum != 0 {
			a.fail("payment %s: the account has %d, no bank knows it", endToEnd, sum)
		}
	}
}

// endOfPayouts checks that the banks sent each payout that is completed once and no other.
func (a *Auditor) endOfPayouts(bank *bankBooks) {
	type sent struct {
		executions int
		returned   int64
		amount     int64
		endToEnd   string
	}
	all := map[string]*sent{}
	for _, p := range bank.Payouts {
		name := strings.ToLower(p.ID)
		if all[name] == nil {
			all[name] = &sent{}
		}
		s := all[name]
		s.executions += p.Executions
		s.returned += units(p.Returned, brlDecimals)
		if p.Executions > 0 {
			s.amount, s.endToEnd = units(p.Amount, brlDecimals), p.EndToEndID
		}
	}
	for x, p := range a.state.payouts {
		name := named(x.account, x.id)
		s := all[name]
		delete(all, name)
		if s == nil {
			s = &sent{}
		}
		want := 0
		if p.status != "failed" {
			want = 1
		}
		switch {
		case s.executions != want:
			a.fail("payout %s is %s, and its money left %d times", x, p.status, s.executions)
		case s.executions > 0 && (s.amount != p.amount || s.endToEnd != p.endToEnd || s.returned != p.returned):
			a.fail("payout %s of %d by %s, returned %d: the bank sent %d by %s, returned %d", x, p.amount, p.endToEnd, p.returned, s.amount, s.endToEnd, s.returned)
		}
	}
	for name, s := range all {
		a.fail("a bank has a payout %s that is none of ours, sent %d times", name, s.executions)
	}
}

// bankVerdicts are the banks' words for the ends of infractions.
var bankVerdicts = map[string]string{"ACEITA": "accepted", "REJEITADA": "rejected", "CANCELADA_EFI": "cancelled"}

// endOfInfractions checks that each has ended as its bank says.
func (a *Auditor) endOfInfractions(bank *bankBooks) {
	known := map[string]infractionRow{}
	for _, f := range a.state.infractions {
		known[f.acquirer+" "+f.acquirerID] = f
	}
	for _, f := range bank.Infractions {
		ours, ok := known[f.Acquirer+" "+f.ID]
		p := a.model.payments[f.EndToEndID]
		if !ok {
			if _, isUnmatched := a.state.unmatched[f.EndToEndID]; p != nil && !isUnmatched {
				a.fail("infraction %s of %s is not known", f.ID, f.EndToEndID)
			}
			continue
		}
		if want, ends := bankVerdicts[f.Status]; ends && ours.status != want {
			a.fail("infraction %s is %s, its bank says %s", ours.ref, ours.status, f.Status)
		}
	}
}

// endOfDeposits checks that what the provider has settled for each payment is what its account was credited.
func (a *Auditor) endOfDeposits(chain *chainBooks) {
	byPayment, byReference := map[string]depositRow{}, map[string]bool{}
	for x, d := range a.state.deposits {
		byPayment[d.payment] = d
		byReference[named(x.account, x.id)] = true
	}
	for _, p := range chain.Payments {
		settled := units(p.Settled, usdtDecimals)
		d, ok := byPayment[p.ID]
		switch {
		case !ok && settled > 0 && byReference[strings.ToLower(p.ExternalID)]:
			a.fail("payment %s settled %d for a deposit, and nobody was credited", p.ID, settled)
		case ok && d.received-d.refunded != settled:
			a.fail("deposit %s was credited %d, its payment %s settled %d", d.ref, d.received-d.refunded, p.ID, settled)
		}
		delete(byPayment, p.ID)
	}
	for payment, d := range byPayment {
		if payment != "" {
			a.fail("deposit %s has payment %s, which no provider knows", d.ref, payment)
		}
	}
}

// endOfWithdrawals checks that the provider sent the coins of each that is completed once and of no other.
func (a *Auditor) endOfWithdrawals(chain *chainBooks) {
	type sent struct {
		executions int
		what       string
	}
	all := map[string]*sent{}
	for _, p := range chain.Payouts {
		name := strings.ToLower(p.ExternalID)
		if all[name] == nil {
			all[name] = &sent{}
		}
		all[name].executions += p.Executions
		if p.Executions > 0 {
			all[name].what = fmt.Sprintf("%s %s to %s by %s", p.Amount, p.Currency, strings.ToLower(p.Address), p.TxHash)
		}
	}
	for x, w := range a.state.withdrawals {
		name := named(x.account, x.id)
		s := all[name]
		delete(all, name)
		if s == nil {
			s = &sent{}
		}
		want := 0
		if w.status != "failed" {
			want = 1
		}
		what := fmt.Sprintf("%s %s to %s by %s", w.coins, w.currency, strings.ToLower(w.address), w.hash)
		switch {
		case s.executions != want:
			a.fail("withdrawal %s is %s, and its coins left %d times", x, w.status, s.executions)
		case s.executions > 0 && s.what != what:
			a.fail("withdrawal %s sent %s, the provider %s", x, what, s.what)
		}
	}
	for name, s := range all {
		a.fail("the provider has a payout %s that is none of ours, sent %d times", name, s.executions)
	}
}

// bankOpening is what both banks begin with, in centavos.
const bankOpening = 2 * 10_000_000_00

// endOfBalances checks that the banks have what they began with and what our accounts' transfers brought there.
func (a *Auditor) endOfBalances(bank *bankBooks) {
	want := int64(bankOpening)
	for _, t := range a.state.transfers {
		switch {
		case t.currency != "BRL":
		case t.source == "acquirer":
			want += t.amount
		case t.target == "acquirer":
			want -= t.amount
		}
	}
	for _, p := range bank.Payments {
		if _, isUnmatched := a.state.unmatched[p.EndToEndID]; isUnmatched {
			want += units(p.Amount, brlDecimals) - units(p.Returned, brlDecimals)
		}
	}
	if got := units(bank.Balance, brlDecimals); got != want {
		a.fail("the banks have %d, our books make it %d", got, want)
	}
}

// endOfDeliveries checks that every event reached whom it was for, or was given up.
func (a *Auditor) endOfDeliveries(list []deliveryRow) {
	owed := maps.Clone(a.model.owed)
	for _, d := range list {
		e, known := a.state.endpoints[d.endpoint]
		delete(owed, Debt{id.Account(d.account), d.id.String(), e.url})
		event := string(id.Event) + d.id.String()
		switch {
		case !known || e.account != d.account:
			a.fail("event %s is for %s, which its account does not have", event, d.endpoint)
		case d.state == "waiting" && e.status == "active":
			a.fail("event %s still waits for %s after %d attempts", event, e.url, d.attempt)
		case d.state == "delivered" && a.model.received[delivered{e.url, event}] == 0:
			a.fail("event %s is said to be delivered to %s, which never took it", event, e.url)
		}
	}
	for d := range owed {
		a.fail("event %s was written, and nothing is kept of telling %s", d.Event, d.URL)
	}
}
