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

// Reference returns the public id of what a movement belongs to, or "" when it belongs to nothing.
func Reference(t *ledger.Transfer) string {
	prefix := id.Charge
	switch {
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
