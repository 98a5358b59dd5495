// Package report tells what an account has and what moved: its balance, its transactions and its statement. It changes
// nothing.
package report

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/charge"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/payout"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// Balance is what an account has in reais. Money on its way out is in none of these.
type Balance struct {
	Available money.BRL // can be paid out now
	Pending   money.BRL // received, not released yet
	Blocked   money.BRL // held by an infraction or a review
	Total     money.BRL // all three
}

// GetBalance returns an account's balance in reais.
func GetBalance(ctx context.Context, q sqldb.Querier, owner id.Account) (Balance, error) {
	b, err := ledger.Balances(ctx, q, owner, money.CurrencyBRL)
	return Balance{
		Available: money.BRL(b.Available),
		Pending:   money.BRL(b.Pending),
		Blocked:   money.BRL(b.Blocked),
		Total:     money.BRL(b.Available + b.Pending + b.Blocked),
	}, err
}

// Type is the direction of a transaction.
type Type string

const (
	CashIn  Type = "cash_in"  // money came
	CashOut Type = "cash_out" // money went
)

// Status is where a transaction stands.
type Status string

const (
	Pending    Status = "pending"
	Processing Status = "processing"
	Completed  Status = "completed"
	Failed     Status = "failed"
	Cancelled  Status = "cancelled"
	Refunded   Status = "refunded"
)

// Transaction is one inflow or outflow.
type Transaction struct {
	ID         id.ID
	Type       Type
	ResourceID string // of the charge or payout; "" for none
	Amount     money.BRL
	Fee        money.BRL
	Net        money.BRL // credited, or sent
	Gross      money.BRL // moved in all
	Status     Status
	Origin     account.Origin
	CreatedAt  time.Time
}

// PublicID returns the transaction's identifier as callers see it.
func (t *Transaction) PublicID() string { return prefixes[t.Type].Format(t.ID) }

var prefixes = map[Type]id.Prefix{CashIn: id.InflowTx, CashOut: id.OutflowTx}

// IsTransactionID reports whether s has the form of a transaction's identifier.
func IsTransactionID(s string) bool {
	for _, prefix := range prefixes {
		if _, err := prefix.Parse(s); err == nil {
			return true
		}
	}
	return false
}

// AdjustmentID returns the transaction that an operator's adjustment appears as.
func AdjustmentID(t *ledger.Transfer) string {
	shown := fromTransfer(t)
	return shown.PublicID()
}

// ErrCursor is returned for a page that starts after a transaction that the account does not have.
var ErrCursor = &fault.Error{
	Kind: fault.Invalid, Public: "starting_after names no transaction of this account",
	Issues: []fault.Issue{{Path: "starting_after", Message: "must be the id of a transaction of this account, or a date"}},
}

// Page says which transactions are wanted.
type Page struct {
	Type          Type      // "" means both
	StartingAfter string    // the id of the last one seen; "" for none
	Before        time.Time // only older ones; zero for none
	Limit         int
}

// ListTransactions returns an account's transactions, newest first, and whether there are more. They are the account's
// charges and payouts and what was moved by hand, merged by their identifiers: no table of their own could disagree with
// these. Each kind is read from its own index, no further than the page can reach.
func ListTransactions(ctx context.Context, q sqldb.Querier, owner id.Account, p Page) (list []Transaction, more bool, err error) {
	before, err := p.border(ctx, q, owner)
	if err != nil {
		return nil, false, err
	}
	r := ledger.Range{Account: owner, Currency: money.CurrencyBRL, Before: before, Target: targets[p.Type], Limit: p.Limit + 1}
	moved, err := ledger.Adjustments(ctx, q, r)
	if err != nil {
		return nil, false, err
	}
	if p.Type != CashOut {
		inflows, err := ledger.Inflows(ctx, q, r)
		if err != nil {
			return nil, false, err
		}
		charges, err := charge.Before(ctx, q, owner, before, r.Limit)
		if err != nil {
			return nil, false, err
		}
		moved = append(moved, inflows...)
		for i := range charges {
			list = append(list, fromCharge(&charges[i]))
		}
	}
	if p.Type != CashIn {
		payouts, err := payout.Before(ctx, q, owner, before, r.Limit)
		if err != nil {
			return nil, false, err
		}
		for i := range payouts {
			list = append(list, fromPayout(&payouts[i]))
		}
	}
	for i := range moved {
		list = append(list, fromTransfer(&moved[i]))
	}
	slices.SortFunc(list, func(a, b Transaction) int { return b.ID.Compare(a.ID) })
	return list[:min(len(list), p.Limit)], len(list) > p.Limit, nil
}

// targets are the books that an adjustment of each type goes to.
var targets = map[Type]ledger.Book{CashIn: ledger.Available, CashOut: ledger.Adjustment}

// border returns the identifier below which the page begins.
func (p Page) border(ctx context.Context, q sqldb.Querier, owner id.Account) (id.ID, error) {
	switch {
	case !p.Before.IsZero():
		return id.First(p.Before), nil
	case p.StartingAfter == "":
		return id.Max, nil
	}
	for kind, prefix := range prefixes {
		x, err := prefix.Parse(p.StartingAfter)
		if err != nil {
			continue
		}
		if known, err := isTransaction(ctx, q, owner, kind, x); err != nil || known {
			return x, err
		}
	}
	return id.ID{}, ErrCursor
}

// isTransaction reports whether an account has a transaction of that type.
func isTransaction(ctx context.Context, q sqldb.Querier, owner id.Account, kind Type, x id.ID) (bool, error) {
	exists := charge.Exists
	if kind == CashOut {
		exists = payout.Exists
	}
	if found, err := exists(ctx, q, owner, x); err != nil || found {
		return found, err
	}
	t, err := ledger.Get(ctx, q, owner, x)
	switch {
	case errors.Is(err, sqldb.ErrNoRows):
		return false, nil
	case err != nil:
		return false, err
	}
	byHand := t.Kind == ledger.KindAdjustment || t.Kind == ledger.KindInflow
	return byHand && t.Amount.Currency == money.CurrencyBRL && fromTransfer(&t).Type == kind, nil
}

func fromCharge(c *charge.Charge) Transaction {
	return Transaction{
		ID: c.ID, Type: CashIn, ResourceID: id.Charge.Format(c.ID), Amount: c.Amount, Fee: c.Fee, Net: c.Amount - c.Fee, Gross: c.Amount,
		Status: chargeStatuses[c.Status], Origin: c.Origin, CreatedAt: c.CreatedAt(),
	}
}

var chargeStatuses = map[charge.State]Status{
	charge.Pending: Pending, charge.Paid: Completed, charge.Expired: Cancelled, charge.Cancelled: Cancelled, charge.Refunded: Refunded,
}

func fromPayout(p *payout.Payout) Transaction {
	return Transaction{
		ID: p.ID, Type: CashOut, ResourceID: id.Payout.Format(p.ID), Amount: p.Amount, Fee: p.Fee, Net: p.Amount, Gross: p.Gross(),
		Status: payoutStatuses[p.Status], Origin: p.Origin, CreatedAt: p.CreatedAt(),
	}
}

var payoutStatuses = map[payout.State]Status{
	payout.Processing: Processing, payout.Completed: Completed, payout.Failed: Failed, payout.Reversed: Refunded,
}

func fromTransfer(t *ledger.Transfer) Transaction {
	amount := money.BRL(t.Amount.Units)
	out := Transaction{
		ID: t.ID, Type: CashIn, Amount: amount, Net: amount, Gross: amount,
		Status: Completed, Origin: account.OriginManual, CreatedAt: t.ID.Time(),
	}
	if t.Source == ledger.Available {
		out.Type = CashOut
	}
	return out
}
