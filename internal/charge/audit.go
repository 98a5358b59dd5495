package charge

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ponte-pay/ponte/internal/clawback"
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

	sumBack    = `SELECT COALESCE(CAST(SUM(amount) AS BIGINT), 0) FROM transfer WHERE account_id = $1 AND kind IN ('refund', 'med_debit')`
	sumForgone = `SELECT COALESCE(CAST(SUM(refunded) AS BIGINT), 0) FROM charge
WHERE account_id = $1 AND status = 'refunded' AND paid_at IS NULL`
)

// Audit holds what is pending against the charges whose money waits for its release, and what went back of payments
// against what was posted for that. It goes account by account, each at one moment of its own.
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
		var found []string
		err = db.Read(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
			found, err = auditAccount(ctx, tx, id.Account(account))
			return err
		})
		if err != nil {
			return problems, err
		}
		for _, what := range found {
			problems = append(problems, ledger.Problem{Account: id.Account(account), What: what})
		}
	}
	return problems, nil
}

// auditAccount returns what does not add up in one account.
func auditAccount(ctx context.Context, tx *sqldb.Tx, account id.Account) (problems []string, err error) {
	var sums [3]money.BRL
	for i, sum := range []string{sumWaiting, sumBack, sumForgone} {
		units, err := sqldb.One(ctx, tx, sqldb.Scalar[int64], sum, int64(account))
		if err != nil {
			return nil, err
		}
		sums[i] = money.BRL(units)
	}
	waiting, back, forgone := sums[0], sums[1], sums[2]
	balance, err := ledger.Balances(ctx, tx, account, money.CurrencyBRL)
	if err != nil {
		return nil, err
	}
	if pending := money.BRL(balance.Pending); pending != waiting {
		problems = append(problems, fmt.Sprintf("pending is %s, %s of charges waits for its release", pending, waiting))
	}
	known, err := clawback.Add(ctx, tx, account)
	if err == nil && known.Debited != back+forgone {
		problems = append(problems, fmt.Sprintf("%s of payments went back, %s was posted and %s never credited", known.Debited, back, forgone))
	}
	return problems, err
}
