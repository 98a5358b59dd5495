package auditor

import (
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/id"
)

const (
	paidBy   = "E9000009920260105120000000000001"
	sentBy   = "E9000009920260105120000000000002"
	nobodys  = "E9000009920260105120000000000003"
	hookURL  = "https://r1.example/hook"
	merchant = 7
)

func thing(n byte) ref { return ref{merchant, id.ID{15: n}} }

// Things of the healthy books.
var (
	aCharge, aPayout, anInfraction, aDeposit, aWithdrawal = thing(1), thing(2), thing(3), thing(4), thing(5)
	anEndpoint                                            = id.ID{15: 6}
)

// healthy has books in which all is well: the service's and the worlds'.
type healthy struct {
	*Auditor
	before     tables
	bank       bankBooks
	chain      chainBooks
	deliveries []deliveryRow
}

func newHealthy() *healthy {
	a := New(nil, http.NotFoundHandler(), func() time.Time { return time.UnixMicro(1000) })
	s := &a.state
	*s = tables{
		transfers: map[ref]transfer{}, balances: map[book]int64{}, deltas: map[book]int64{}, events: map[ref]eventRow{},
		charges:     map[ref]chargeRow{aCharge: {ref: aCharge, txid: "tx1", external: "order-1", key: "key-1", status: "paid", acquirer: "alpha", endToEnd: paidBy, amount: 1000, fee: 10, paidAt: 5, expiresAt: 900}},
		payouts:     map[ref]payoutRow{aPayout: {ref: aPayout, external: "wage-1", status: "completed", acquirer: "alpha", endToEnd: sentBy, amount: 300, fee: 5}},
		infractions: map[ref]infractionRow{anInfraction: {ref: anInfraction, acquirer: "alpha", acquirerID: "claim", endToEnd: paidBy, status: "rejected", amount: 100}},
		deposits:    map[ref]depositRow{aDeposit: {ref: aDeposit, external: "coin-1", status: "paid", payment: "pay1", price: 200, received: 2_000_000, detectedAt: 4, paidAt: 5, asks: 1}},
		withdrawals: map[ref]withdrawalRow{aWithdrawal: {ref: aWithdrawal, external: "out-1", status: "completed", currency: "trx", address: "Tabc", coins: "3.1", hash: "hash", amount: 500_000}},
		unmatched:   map[string]int64{nobodys: 40},
		endpoints:   map[id.ID]endpointRow{anEndpoint: {account: merchant, url: hookURL, status: "active"}},
	}
	for i, t := range []transfer{
		{currency: "BRL", source: "acquirer", target: "available", kind: "cash_in", onceKey: paidBy, amount: 1000, ref: aCharge},
		{currency: "BRL", source: "available", target: "revenue", kind: "cash_in_fee", amount: 10, ref: aCharge},
		{currency: "BRL", source: "available", target: "in_transit", kind: "cash_out", amount: 305, ref: aPayout},
		{currency: "BRL", source: "in_transit", target: "acquirer", kind: "cash_out_sent", amount: 300, ref: aPayout},
		{currency: "BRL", source: "in_transit", target: "revenue", kind: "cash_out_fee", amount: 5, ref: aPayout},
		{currency: "BRL", source: "available", target: "blocked", kind: "med_block", amount: 100, ref: anInfraction},
		{currency: "BRL", source: "blocked", target: "available", kind: "med_unblock", amount: 100, ref: anInfraction},
		{currency: "USDT", source: "provider", target: "available", kind: "crypto_in", amount: 2_000_000, ref: aDeposit},
		{currency: "USDT", source: "available", target: "in_transit", kind: "crypto_out", amount: 500_000, ref: aWithdrawal},
		{currency: "USDT", source: "in_transit", target: "provider", kind: "crypto_out_sent", amount: 500_000, ref: aWithdrawal},
	} {
		t.about, t.ref = t.id, ref{merchant, id.ID{14: 1, 15: byte(i)}}
		s.transfers[t.ref] = t
	}
	s.balances[book{merchant, "BRL", "available"}] = 600
	s.balances[book{merchant, "USDT", "available"}] = 1_500_000
	s.deltas[book{merchant, "BRL", "available"}] = 85
	for _, name := range []string{"in_transit", "blocked"} {
		s.balances[book{merchant, "BRL", name}] = 0
	}
	s.balances[book{merchant, "USDT", "in_transit"}] = 0
	for i, e := range []eventRow{
		{kind: "charge.created", about: aCharge.id},
		{kind: "charge.paid", about: aCharge.id},
		{kind: "payout.created", about: aPayout.id},
		{kind: "payout.completed", about: aPayout.id},
		{kind: "crypto.charge.created", about: aDeposit.id},
		{kind: "crypto.charge.confirming", about: aDeposit.id},
		{kind: "crypto.charge.paid", about: aDeposit.id},
		{kind: "crypto.payout.processing", about: aWithdrawal.id},
		{kind: "crypto.payout.completed", about: aWithdrawal.id},
	} {
		e.ref = ref{merchant, id.ID{14: 2, 15: byte(i)}}
		s.events[e.ref] = e
	}
	a.Paid(paidBy, "tx1", "10.00")
	a.Fee(merchant, "cash_in", "0.10")
	a.Fee(merchant, "cash_out", "0.05")
	h := &healthy{Auditor: a}
	h.bank.Payments = append(h.bank.Payments, bankPayment{"alpha", "TX1", "10.00", "0.00", paidBy}, bankPayment{"alpha", "", "0.40", "0.00", nobodys})
	h.bank.Payouts = append(h.bank.Payouts, bankPayout{"alpha", named(merchant, aPayout.id), "3.00", "REALIZADO", "0.00", sentBy, 1})
	h.bank.Infractions = append(h.bank.Infractions, bankInfraction{"alpha", "claim", "1.00", "REJEITADA", paidBy})
	h.bank.Balance = "20000007.40"
	h.chain.Payments = append(h.chain.Payments, chainPayment{ID: "pay1", ExternalID: named(merchant, aDeposit.id), Settled: "2.000000", Status: "finished"})
	h.chain.Payouts = append(h.chain.Payouts, chainPayout{"out", named(merchant, aWithdrawal.id), "trx", "Tabc", "3.1", "FINISHED", "hash", 1})
	event := ref{merchant, id.ID{14: 2, 15: 1}}
	h.deliveries = []deliveryRow{{ref: event, endpoint: anEndpoint, state: "delivered", attempt: 1}}
	a.Received(hookURL, string(id.Event)+event.id.String(), "{}", true)
	h.before = *s
	return h
}

// look makes every check once, and returns what was found.
func (h *healthy) look() string {
	changed := map[string]bool{}
	for _, t := range watched {
		changed[t.name] = true
	}
	h.lookAtMoney(&h.before, changed)
	h.lookAtStates(&h.before, changed)
	h.lookAtEvents(changed)
	h.lookAtAnswers()
	h.lookAtNames(changed)
	h.endOfThings()
	h.endOfPayments(&h.bank)
	h.endOfPayouts(&h.bank)
	h.endOfInfractions(&h.bank)
	h.endOfDeposits(&h.chain)
	h.endOfWithdrawals(&h.chain)
	h.endOfBalances(&h.bank)
	h.endOfDeliveries(h.deliveries)
	return strings.Join(h.problems, "\n")
}

// change changes a row, and leaves the books of before as they were.
func change[K comparable, V any](table *map[K]V, key K, f func(*V)) {
	rows := maps.Clone(*table)
	row := rows[key]
	f(&row)
	rows[key] = row
	*table = rows
}

// post adds a transfer about a thing.
func (h *healthy) post(about ref, t transfer) {
	t.ref, t.about = ref{merchant, id.ID{14: 3, 15: byte(len(h.state.transfers))}}, about.id
	change(&h.state.transfers, t.ref, func(row *transfer) { *row = t })
	for _, side := range []struct {
		name  string
		units int64
	}{{t.source, -t.amount}, {t.target, t.amount}} {
		if b := (book{merchant, t.currency, side.name}); side.name != "acquirer" && side.name != "revenue" && side.name != "provider" {
			change(&h.state.balances, b, func(units *int64) { *units += side.units })
		}
	}
}

func TestHealthy(t *testing.T) {
	t.Parallel()
	if found := newHealthy().look(); found != "" {
		t.Error(found)
	}
}

// TestEachCheckCanFail breaks what each check is about, once.
func TestEachCheckCanFail(t *testing.T) {
	t.Parallel()
	available := book{merchant, "BRL", "available"}
	answer := Answer{Account: merchant, Route: RouteCharge, Key: "key-1", External: "order-1", Meaning: "a", Material: "a", Status: 201, ID: "ch_" + aCharge.id.String(), State: "paid", Amount: "10.00"}
	with := func(f func(*Answer)) Answer {
		x := answer
		f(&x)
		return x
	}
	for want, spoil := range map[string]func(h *healthy){
		"shows 684, its transfers make 685": func(h *healthy) { h.state.balances[available]-- },
		"does not sum up to zero":           func(h *healthy) { delete(h.state.balances, available) },
		"is below zero":                     func(h *healthy) { h.state.balances[book{merchant, "BRL", "blocked"}] = -1 },
		"was changed or is gone": func(h *healthy) {
			change(&h.state.transfers, ref{merchant, id.ID{14: 1}}, func(x *transfer) { x.amount++ })
		},
		"spent 315 BRL more than it had": func(h *healthy) {
			h.post(thing(9), transfer{currency: "BRL", source: "available", target: "acquirer", kind: "cash_out", amount: 1000})
		},
		"is posted twice": func(h *healthy) {
			h.post(aCharge, transfer{currency: "BRL", source: "acquirer", target: "available", kind: "cash_in", onceKey: paidBy, amount: 1000})
		},
		"is credited with 1500 of 1000": func(h *healthy) {
			h.post(aCharge, transfer{currency: "BRL", source: "acquirer", target: "available", kind: "inflow", onceKey: paidBy, amount: 500})
		},
		"and nobody paid it": func(h *healthy) { delete(h.model.payments, paidBy) },
		"cash_out_failed is 0, want 305": func(h *healthy) {
			change(&h.state.payouts, aPayout, func(p *payoutRow) { p.status = "failed" })
		},
		"the fee of 1000 is 9": func(h *healthy) { change(&h.state.charges, aCharge, func(c *chargeRow) { c.fee = 9 }) },
		"book in_transit BRL of 7 holds 0, its things make 305": func(h *healthy) {
			change(&h.state.payouts, aPayout, func(p *payoutRow) { p.status = "processing" })
		},
		`moved from "refunded" to "paid"`: func(h *healthy) {
			change(&h.before.charges, aCharge, func(c *chargeRow) { c.status = "refunded" })
		},
		"is gone": func(h *healthy) { h.state.payouts = nil },
		"is expired, and was paid at 5": func(h *healthy) {
			change(&h.state.charges, aCharge, func(c *chargeRow) { c.status = "expired" })
		},
		"expired although": func(h *healthy) {
			h.model.payments[paidBy].old = true
			change(&h.before.charges, aCharge, func(c *chargeRow) { c.status = "pending" })
			change(&h.state.charges, aCharge, func(c *chargeRow) { c.status = "expired" })
		},
		"has 0 events charge.paid, want 1": func(h *healthy) { delete(h.state.events, ref{merchant, id.ID{14: 2, 15: 1}}) },
		"has 2 events payout.created, want 1": func(h *healthy) {
			change(&h.state.events, thing(99), func(e *eventRow) { *e = eventRow{thing(99), "payout.created", aPayout.id} })
		},
		"has 1 events payout.failed, want 0": func(h *healthy) {
			change(&h.state.events, thing(99), func(e *eventRow) { *e = eventRow{thing(99), "payout.failed", aPayout.id} })
		},
		"which is not stored":                 func(h *healthy) { h.Answered(with(func(x *Answer) { x.ID = "ch_" + thing(50).id.String() })) },
		"stored is 10.00":                     func(h *healthy) { h.Answered(with(func(x *Answer) { x.Amount = "11.00" })) },
		"has failed, it is paid":              func(h *healthy) { h.Answered(with(func(x *Answer) { x.State = "failed" })) },
		"is shown as pending, it is paid":     func(h *healthy) { h.compareShown(with(func(x *Answer) { x.State = "pending" }), "paid") },
		"although it asks for something else": func(h *healthy) { h.Answered(answer); h.Answered(with(func(x *Answer) { x.Material = "b" })) },
		"\"key-1\" made ch_": func(h *healthy) {
			h.Answered(answer)
			h.Answered(with(func(x *Answer) { x.ID = "ch_" + aPayout.id.String() }))
		},
		"is refused although its body means": func(h *healthy) {
			h.Answered(answer)
			h.Answered(with(func(x *Answer) { x.Status, x.Code = 409, "idempotency_conflict" }))
		},
		"external_id order-1 names two charges": func(h *healthy) { h.twice(func(c *chargeRow) { c.key = "" }) },
		"key key-1 names two charges":           func(h *healthy) { h.twice(func(c *chargeRow) { c.external = "" }) },
		"while nobody knows whether alpha": func(h *healthy) {
			h.Send("alpha", "name")
			h.Send("beta", "NAME")
		},
		"came with two bodies": func(h *healthy) {
			h.Received(hookURL, "evt_1", "{}", true)
			h.Received(hookURL, "evt_1", "{ }", true)
		},
		"is still processing": func(h *healthy) {
			change(&h.state.withdrawals, aWithdrawal, func(w *withdrawalRow) { w.status = "processing" })
		},
		"is still open": func(h *healthy) {
			change(&h.state.infractions, anInfraction, func(f *infractionRow) { f.status = "open" })
		},
		"still waits for its release":        func(h *healthy) { change(&h.state.charges, aCharge, func(c *chargeRow) { c.releaseAt = 9 }) },
		"the account has 1000, the bank 900": func(h *healthy) { h.bank.Payments[0].Returned = "1.00" },
		"no bank knows it":                   func(h *healthy) { h.bank.Payments = h.bank.Payments[1:] },
		"of nobody is not listed":            func(h *healthy) { delete(h.state.unmatched, nobodys) },
		"and its money left 2 times":         func(h *healthy) { h.bank.Payouts[0].Executions = 2 },
		"the bank sent 301":                  func(h *healthy) { h.bank.Payouts[0].Amount = "3.01" },
		"a bank has a payout": func(h *healthy) {
			h.bank.Payouts = append(h.bank.Payouts, bankPayout{Acquirer: "beta", ID: "other", Amount: "1.00", Executions: 1})
		},
		"its bank says ACEITA":            func(h *healthy) { h.bank.Infractions[0].Status = "ACEITA" },
		"infraction other of " + paidBy:   func(h *healthy) { h.bank.Infractions[0].ID = "other" },
		"settled 1999999":                 func(h *healthy) { h.chain.Payments[0].Settled = "1.999999" },
		"and nobody was credited":         func(h *healthy) { h.chain.Payments[0].ID = "pay2" },
		"which no provider knows":         func(h *healthy) { h.chain.Payments = nil },
		"and its coins left 0 times":      func(h *healthy) { h.chain.Payouts[0].Executions = 0 },
		"the provider 3.2 trx":            func(h *healthy) { h.chain.Payouts[0].Amount = "3.2" },
		"the provider has a payout":       func(h *healthy) { h.chain.Payouts = append(h.chain.Payouts, chainPayout{ExternalID: "x"}) },
		"the banks have 2000000739":       func(h *healthy) { h.bank.Balance = "20000007.39" },
		"still waits for " + hookURL:      func(h *healthy) { h.deliveries[0].state = "waiting" },
		"nothing is kept of telling":      func(h *healthy) { h.Owes(Debt{merchant, anEndpoint.String(), hookURL}) },
		"which never took it":             func(h *healthy) { h.deliveries[0].id = id.ID{14: 2, 15: 2} },
		"which its account does not have": func(h *healthy) { h.deliveries[0].endpoint = id.ID{15: 77} },
	} {
		h := newHealthy()
		spoil(h)
		if found := h.look(); !strings.Contains(found, want) {
			t.Errorf("%q is not found:\n%s", want, found)
		}
	}
}

// twice has a second charge with the same names.
func (h *healthy) twice(f func(*chargeRow)) {
	change(&h.state.charges, thing(60), func(c *chargeRow) {
		*c = h.state.charges[aCharge]
		c.ref = thing(60)
		f(c)
	})
}
