package clawback

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
	auditPage   = 1000          // payments read at once
	problemsMax = 1000          // the list's bound; books with more are broken all over
	auditTime   = 6 * time.Hour // one account can have many

	selectBack = `SELECT COALESCE(CAST(SUM(amount) AS BIGINT), 0) FROM transfer
WHERE account_id = $1 AND kind IN ('refund', 'med_debit')`

	selectForgone = `SELECT COALESCE(CAST(SUM(refunded) AS BIGINT), 0) FROM charge
WHERE account_id = $1 AND status = 'refunded' AND paid_at IS NULL`

	selectClaims = `SELECT COALESCE(CAST(SUM(CASE WHEN status IN ('open', 'under_review') THEN amount ELSE 0 END) AS BIGINT), 0),
COALESCE(CAST(SUM(CASE WHEN status = 'accepted' THEN amount ELSE 0 END) AS BIGINT), 0)
FROM infraction WHERE account_id = $1`
)

// Audit holds what is known to have gone back against what was posted: each payment was debited what is owed of it, and
// the sums are those of the transfers and of the infractions. It goes account by account, each at one moment of its own.
func Audit(ctx context.Context, db *sqldb.DB) (problems []ledger.Problem, err error) {
	ctx, cancel := context.WithTimeout(ctx, auditTime)
	defer cancel()
	var account int64
	for len(problems) < problemsMax {
		account, err = sqldb.One(ctx, db, sqldb.Scalar[int64], findAccount, account)
		if errors.Is(err, sqldb.ErrNoRows) {
			return problems, nil
		}
		if err != nil {
			return problems, err
		}
		a := audit{account: id.Account(account)}
		err = db.Read(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return a.run(ctx, tx) })
		if err != nil {
			return problems, err
		}
		problems = append(problems, a.problems...)
	}
	return problems, nil
}

// audit is one account under audit.
type audit struct {
	account                    id.Account
	debited, claimed, accepted money.BRL
	problems                   []ledger.Problem
}

func (a *audit) problem(format string, args ...any) {
	if len(a.problems) < problemsMax {
		a.problems = append(a.problems, ledger.Problem{Account: a.account, What: fmt.Sprintf(format, args...)})
	}
}

func (a *audit) run(ctx context.Context, tx *sqldb.Tx) error {
	for after := ""; ; {
		page, err := sqldb.All(ctx, tx, scanPayment, listPayments, int64(a.account), after, auditPage)
		if err != nil {
			return err
		}
		for i := range page {
			p := &page[i]
			after = p.EndToEndID
			a.debited += p.Debited
			a.claimed += p.Claimed
			a.accepted += p.Accepted
			// While infractions are not decided, more may have been debited before they were heard of.
			if owed := p.owed(); p.Debited < owed || (p.Claimed == 0 && p.Debited > owed) {
				a.problem("payment %s: %s went back, %s is debited", p.EndToEndID, owed, p.Debited)
			}
		}
		if len(page) < auditPage {
			break
		}
	}
	posted, err := sqldb.One(ctx, tx, sqldb.Scalar[int64], selectBack, int64(a.account))
	if err != nil {
		return err
	}
	forgone, err := sqldb.One(ctx, tx, sqldb.Scalar[int64], selectForgone, int64(a.account))
	if err != nil {
		return err
	}
	if want := money.BRL(posted + forgone); a.debited != want {
		a.problem("%s of payments is debited, %s was posted or never credited", a.debited, want)
	}
	claims, err := sqldb.One(ctx, tx, func(r sqldb.Row) (c [2]int64, err error) {
		err = r.Scan(&c[0], &c[1])
		return c, err
	}, selectClaims, int64(a.account))
	if err != nil {
		return err
	}
	if money.BRL(claims[0]) != a.claimed || money.BRL(claims[1]) != a.accepted {
		a.problem("infractions claim %s and were accepted for %s, of payments %s and %s are",
			money.BRL(claims[0]), money.BRL(claims[1]), a.claimed, a.accepted)
	}
	return nil
}
