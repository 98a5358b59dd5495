package ledger

import (
	"context"
	"errors"
	"slices"

	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// Balance is what an account has in its guarded books, in one currency's smallest unit.
type Balance struct {
	Available int64
	Pending   int64
	Blocked   int64
	InTransit int64
}

// Of returns one book's balance.
func (b *Balance) Of(book Book) *int64 {
	switch book {
	case Available:
		return &b.Available
	case Pending:
		return &b.Pending
	case Blocked:
		return &b.Blocked
	case InTransit:
		return &b.InTransit
	case Acquirer, Fees, Adjustment:
	}
	return nil
}

// Apply moves a transfer's amount.
func (b *Balance) Apply(t *Transfer) { b.move(t.Source, t.Target, t.Amount.Units) }

// Undo takes a transfer's amount back.
func (b *Balance) Undo(t *Transfer) { b.move(t.Target, t.Source, t.Amount.Units) }

func (b *Balance) move(source, target Book, units int64) {
	if p := b.Of(source); p != nil {
		*p -= units
	}
	if p := b.Of(target); p != nil {
		*p += units
	}
}

// Balances returns an account's balance in one currency, all books at one moment, or [sqldb.ErrNoRows] when it has no
// books.
func Balances(ctx context.Context, q sqldb.Querier, account id.Account, currency money.Currency) (Balance, error) {
	var out Balance
	var book string // outside of the loop, because this is what every GET /balance does
	var units int64
	rows, err := sqldb.All(ctx, q, func(r sqldb.Row) (struct{}, error) {
		err := r.Scan(&book, &units)
		if p := out.Of(Book(book)); p != nil {
			*p = units
		}
		return struct{}{}, err
	}, selectBalances, int64(account), string(currency))
	if err == nil && len(rows) == 0 {
		err = sqldb.ErrNoRows
	}
	return out, err
}

// BalanceBefore re-adds what an account had before an identifier.
func BalanceBefore(ctx context.Context, q sqldb.Querier, account id.Account, currency money.Currency, before id.ID) (Balance, error) {
	var b Balance
	totals, err := totalsBefore(ctx, q, account, before)
	for _, t := range totals {
		if t.currency == currency {
			b.move(t.source, t.target, t.units)
		}
	}
	return b, err
}

// BalanceAt returns what an account had before an identifier, from what it has now. It costs what moved since then, and
// nothing of what was before; the transaction shows both at one moment.
func BalanceAt(ctx context.Context, tx *sqldb.Tx, account id.Account, currency money.Currency, at id.ID) (Balance, error) {
	b, err := Balances(ctx, tx, account, currency)
	if err != nil {
		return b, err
	}
	totals, err := sqldb.All(ctx, tx, scanTotal, sumTransfersSince, int64(account), at)
	for _, t := range totals {
		if t.currency == currency {
			b.move(t.target, t.source, t.units)
		}
	}
	return b, err
}

// Range is a part of an account's transfers.
type Range struct {
	Account  id.Account
	Currency money.Currency
	After    id.ID // only above it
	Before   id.ID // only below it
	Target   Book  // only into it; "" means any
	Limit    int
}

// Transfers returns a range of transfers, oldest first, whatever their target.
func Transfers(ctx context.Context, q sqldb.Querier, r Range) ([]Transfer, error) {
	return sqldb.All(ctx, q, scanTransfer, selectTransfers, int64(r.Account), string(r.Currency), r.After, r.Before, r.Limit)
}

// LatestTransfers is [Transfers], newest first.
func LatestTransfers(ctx context.Context, q sqldb.Querier, r Range) ([]Transfer, error) {
	return sqldb.All(ctx, q, scanTransfer, selectLatestTransfers, int64(r.Account), string(r.Currency), r.After, r.Before, r.Limit)
}

// Adjustments returns what operators credited and debited below an identifier, newest first.
func Adjustments(ctx context.Context, q sqldb.Querier, r Range) ([]Transfer, error) {
	return sqldb.All(ctx, q, scanTransfer, selectAdjustments,
		int64(r.Account), string(r.Currency), r.Before, string(r.Target), r.Limit)
}

// Inflows returns money that nothing asked for below an identifier, newest first.
func Inflows(ctx context.Context, q sqldb.Querier, r Range) ([]Transfer, error) {
	return sqldb.All(ctx, q, scanTransfer, selectInflows, int64(r.Account), string(r.Currency), r.Before, r.Limit)
}

// Bounds of what is looked for about one thing.
const (
	inflowsMax   = 2000 // of an account, that those for one thing are looked for in
	postedForMax = 30   // that are returned
)

// InflowsFor returns the first inflows that refer to a thing, oldest first. Where very many came to the account since the
// thing was made, later ones are not seen.
func InflowsFor(ctx context.Context, q sqldb.Querier, account id.Account, currency money.Currency, ref id.ID) ([]Transfer, error) {
	return sqldb.All(ctx, q, scanTransfer, selectInflowsFor, int64(account), string(currency), ref, inflowsMax, ref, postedForMax)
}

// PostedFor returns the transfers of that kind whose OnceKey is name, a blank and more, oldest first: the parts of one whole.
func PostedFor(ctx context.Context, q sqldb.Querier, account id.Account, kind Kind, name string) ([]Transfer, error) {
	const blank, next = " ", "!" // what follows the blank
	list, err := sqldb.All(ctx, q, scanTransfer, selectPostedFor, int64(account), string(kind), name+blank, name+next, postedForMax)
	slices.SortFunc(list, func(a, b Transfer) int { return a.ID.Compare(b.ID) })
	return list, err
}

// Get returns one transfer of an account, or [sqldb.ErrNoRows].
func Get(ctx context.Context, q sqldb.Querier, account id.Account, transfer id.ID) (Transfer, error) {
	return sqldb.One(ctx, q, scanTransfer, selectTransfer, int64(account), transfer)
}

// IsPosted reports whether a transfer of that kind with that OnceKey exists.
func (l *Ledger) IsPosted(ctx context.Context, account id.Account, kind Kind, onceKey string) (bool, error) {
	_, err := l.FindPosted(ctx, account, kind, onceKey)
	if errors.Is(err, sqldb.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// FindPosted returns the transfer of that kind with that OnceKey, or [sqldb.ErrNoRows].
func (l *Ledger) FindPosted(ctx context.Context, account id.Account, kind Kind, onceKey string) (Transfer, error) {
	return sqldb.One(ctx, l.db, scanTransfer, selectTransferOnce, int64(account), string(kind), onceKey)
}
