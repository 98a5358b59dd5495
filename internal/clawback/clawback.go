// Package clawback keeps what of each payment went back to its payer and what is claimed of it, so that the account is
// debited once, whoever tells of it first.
//
// Money goes back in two ways, and both are told twice. An acquirer may return a payment by its own will, or enforce an
// infraction that it accepted; the payment then shows a return, and the infraction its end. The two are read from
// different lists, in any order, and a return does not name its infraction. What is certain is how much can have left: all
// that was returned, and the larger of what was accepted and what was enforced, never more than was paid. So this package
// keeps those sums, and debits what is missing to that.
package clawback

import (
	"errors"

	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/money"
)

// Ref names a payment that was credited to an account.
type Ref struct {
	Account    id.Account
	EndToEndID string
	Charge     id.ID     // that it paid, or came in for
	ExternalID string    // the charge's; "" for none
	Amount     money.BRL // what was paid
}

// ErrNobodys is returned for a payment that was credited to nobody.
var ErrNobodys = errors.New("clawback: the payment is nobody's")

// Payment is what is known to have gone back of a payment, and what is claimed. The zero sums are those of a payment that
// nobody disputes.
type Payment struct {
	Account    id.Account
	EndToEndID string
	Charge     id.ID
	Amount     money.BRL // what was paid
	Returned   money.BRL // given back for no infraction
	Enforced   money.BRL // given back for infractions
	Claimed    money.BRL // by infractions that are not decided; blocked
	Accepted   money.BRL // by infractions that were accepted
	Debited    money.BRL // what the account no longer has of it

	stored bool
}

// owed returns what the account must have lost by now. While infractions are not decided, what was enforced is taken to be
// theirs: it is blocked, and is debited when they end.
func (p *Payment) owed() money.BRL {
	return min(p.Amount, p.Returned+max(p.Accepted, p.Enforced-p.Claimed))
}

// debit takes what is owed and not debited yet, and returns it.
func (p *Payment) debit() money.BRL {
	due := max(0, p.owed()-p.Debited)
	p.Debited += due
	return due
}

// Return brings p to what the acquirer shows that it gave back in all, and returns what is to be debited. Less than is
// known is an older view and changes nothing.
func (p *Payment) Return(returned, enforced money.BRL) (debit money.BRL) {
	if returned+enforced < p.Returned+p.Enforced {
		return 0
	}
	p.Returned, p.Enforced = returned, enforced
	return p.debit()
}

// Claim notes that an infraction was opened. What it claims is to be blocked.
func (p *Payment) Claim(amount money.BRL) { p.Claimed += amount }

// Decide notes that an infraction ended, and returns what is to be debited of what it had blocked: never more.
func (p *Payment) Decide(amount money.BRL, accepted bool) (debit money.BRL) {
	p.Claimed -= amount
	if accepted {
		p.Accepted += amount
	}
	return p.debit()
}

// Forgo notes a payment that went back before it was credited: there is nothing to debit.
func (p *Payment) Forgo() { p.Returned, p.Debited = p.Amount, p.Amount }

// Change is what happens to the claims on a payment.
type Change struct {
	Opens       bool      // an infraction is opened; otherwise one ends
	Accepted    bool      // it ends, and the money is the payer's
	Amount      money.BRL // what it claims
	FromPending money.BRL // of that, what was blocked before its release; for one that ends
}

// Moves is what the ledger posts for a [Change]. The parts add up to its amount.
type Moves struct {
	Pending   money.BRL // between blocked and pending
	Available money.BRL // between blocked and available
	Debit     money.BRL // from blocked to the acquirer
}
