package charge

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

const (
	problemsMax = 1000          // the list's bound; charges with more are broken all over
	auditTime   = 6 * time.Hour // one account can have many millions

	// Over all accounts, by leaps along the index.
	findAccountWithCharges = `SELECT account_id FROM charge WHERE account_id > $1 ORDER BY account_id LIMIT 1`

	sumWaiting = `SELECT COALESCE(CAST(SUM(CASE WHEN fee > amount THEN amount ELSE amount - fee END - held) AS BIGINT), 0)
FROM charge WHERE account_id = $1 AND release_at IS NOT NULL`
)

// Audit holds what is pending against the charges whose money waits for its release. It goes account by account, each at
// one moment of its own.
func Audit(ctx context.Context, db *sqldb.DB) (problems []ledger.Problem, err error) {
	ctx, cancel := context.WithTimeout(ctx, auditTime)
	defer cancel()
	var account int64
	for len(problems) < problemsMax {
		account, err = sqldb.One(ctx, db, sqldb.Scalar[int64], findAccountWithCharges, account)
		if errors.Is(err, sqldb.ErrNoRows) {
			return problems, nil
		}
		if err != nil {
			return problems, err
		}
		err = db.Read(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			waiting, err := sqldb.One(ctx, tx, sqldb.Scalar[int64], sumWaiting, account)
			if err != nil {
				return err
			}
			balance, err := ledger.Balances(ctx, tx, id.Account(account), money.CurrencyBRL)
			if err == nil && balance.Pending != waiting {
				problems = append(problems, ledger.Problem{
					Account: id.Account(account),
					What:    fmt.Sprintf("pending is %s, %s of charges waits for its release", money.BRL(balance.Pending), money.BRL(waiting)),
				})
			}
			return err
		})
		if err != nil {
			return problems, err
		}
	}
	return problems, nil
}
