// Package report tells what an account has and what moved: its balance, its transactions and its statement. It changes
// nothing.
package report

import (
	"context"
	"errors"
	"time"

	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/money"
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
func GetBalance(ctx context.Context, q sqldb.Querier, account id.Account) (Balance, error) {
	b, err := ledger.Balances(ctx, q, account, money.CurrencyBRL)
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

// Origin is who caused a transaction.
type Origin string

const (
	OriginAPI    Origin = "api"    // the account, by its key
	OriginManual Origin = "manual" // a person
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
	Origin     Origin
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
	shown := fromAdjustment(t)
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

// ListTransactions returns an account's transactions, newest first, and whether there are more.
func ListTransactions(ctx context.Context, q sqldb.Querier, account id.Account, p Page) (list []Transaction, more bool, err error) {
	before, err := p.border(ctx, q, account)
	if err != nil {
		return nil, false, err
	}
	r := ledger.Range{Account: account, Currency: money.CurrencyBRL, Before: before, Target: targets[p.Type], Limit: p.Limit + 1}
	rows, err := ledger.Adjustments(ctx, q, r)
	if err != nil {
		return nil, false, err
	}
	for _, t := range rows[:min(len(rows), p.Limit)] {
		list = append(list, fromAdjustment(&t))
	}
	return list, len(rows) > p.Limit, nil
}

// targets are the books that an adjustment of each type goes to.
var targets = map[Type]ledger.Book{CashIn: ledger.Available, CashOut: ledger.Adjustment}

// border returns the identifier below which the page begins.
func (p Page) border(ctx context.Context, q sqldb.Querier, account id.Account) (id.ID, error) {
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
		t, err := ledger.Get(ctx, q, account, x)
		switch {
		case errors.Is(err, sqldb.ErrNoRows):
			return id.ID{}, ErrCursor
		case err != nil:
			return id.ID{}, err
		case t.Kind == ledger.KindAdjustment && t.Amount.Currency == money.CurrencyBRL && fromAdjustment(&t).Type == kind:
			return x, nil
		}
	}
	return id.ID{}, ErrCursor
}

func fromAdjustment(t *ledger.Transfer) Transaction {
	amount := money.BRL(t.Amount.Units)
	out := Transaction{
		ID: t.ID, Type: CashIn, Amount: amount, Net: amount, Gross: amount,
		Status: Completed, Origin: OriginManual, CreatedAt: t.ID.Time(),
	}
	if t.Source == ledger.Available {
		out.Type = CashOut
	}
	return out
}
