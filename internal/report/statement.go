package report

import (
	"context"
	"strings"
	"time"

	"github.com/ponte-pay/ponte/internal/deposit"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/infraction"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/payout"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/withdrawal"
)

// Period is a part of an account's ledger.
type Period struct {
	Account  id.Account
	Currency money.Currency
	From     time.Time // included
	To       time.Time // excluded
}

// Line is one movement with what the account then had.
type Line struct {
	Transfer ledger.Transfer
	Balance  ledger.Balance
}

// statementPage is how many movements are read at once: each page is a short read of its own, so that a long statement
// holds up nobody.
const statementPage = 1000

// Statement calls each with every movement of a period, oldest first. The balance runs on from what was there before, so
// that the last line of a period that has not ended shows the balance.
func Statement(ctx context.Context, q sqldb.Querier, p Period, each func(Line) error) error {
	from, to := id.First(p.From), id.First(p.To)
	balance, err := ledger.BalanceBefore(ctx, q, p.Account, p.Currency, from)
	if err != nil {
		return err
	}
	after := from
	for {
		rows, err := ledger.Transfers(ctx, q, ledger.Range{
			Account: p.Account, Currency: p.Currency, After: after, Before: to, Limit: statementPage,
		})
		if err != nil {
			return err
		}
		for _, t := range rows {
			balance.Apply(&t)
			if err := each(Line{t, balance}); err != nil {
				return err
			}
			after = t.ID
		}
		if len(rows) < statementPage {
			return nil
		}
	}
}

// Latest returns the last movements of a period, newest first, and whether there are more; before is where to go on, or the
// zero ID for the end of the period. Each has the balance that Statement gives it. It looks back from what there is now, so
// that the latest cost least.
func Latest(ctx context.Context, db *sqldb.DB, p Period, before id.ID, limit int) (lines []Line, more bool, err error) {
	border := id.First(p.To)
	if !before.IsZero() && before.Compare(border) < 0 {
		border = before
	}
	err = db.Read(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		lines = nil
		balance, err := ledger.BalanceAt(ctx, tx, p.Account, p.Currency, border)
		if err != nil {
			return err
		}
		rows, err := ledger.LatestTransfers(ctx, tx, ledger.Range{
			Account: p.Account, Currency: p.Currency, After: id.First(p.From), Before: border, Limit: limit + 1,
		})
		if err != nil {
			return err
		}
		more = len(rows) > limit
		for _, t := range rows[:min(len(rows), limit)] {
			lines = append(lines, Line{t, balance})
			balance.Undo(&t)
		}
		return nil
	})
	return lines, more, err
}

// Reference returns the public id of what a movement belongs to, or "" when it belongs to nothing.
func Reference(t *ledger.Transfer) string {
	prefix := id.Charge
	switch {
	case t.Kind == ledger.KindHold:
		return id.Hold.Format(t.ID) // which its release refers to
	case t.Ref.IsZero():
		return ""
	case t.Kind == ledger.KindRelease:
		prefix = id.Hold
	case strings.HasPrefix(string(t.Kind), string(payout.KindHold)):
		prefix = id.Payout
	case strings.HasPrefix(string(t.Kind), string(deposit.KindIn)):
		prefix = id.CryptoCharge
	case strings.HasPrefix(string(t.Kind), string(withdrawal.KindHold)):
		prefix = id.CryptoPayout
	case strings.HasPrefix(string(t.Kind), infraction.KindPrefix):
		prefix = id.Infraction
	}
	return prefix.Format(t.Ref)
}
