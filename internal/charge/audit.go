package charge

import (
	"context"
	"fmt"

	"github.com/ponte-pay/ponte/internal/clawback"
	"github.com/ponte-pay/ponte/internal/event"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

const (
	// Over all accounts, by leaps along the index.
	findAccountWithCharges = `SELECT account_id FROM charge WHERE account_id > $1 ORDER BY account_id LIMIT 1`

	sumWaiting = `SELECT COALESCE(CAST(SUM(CASE WHEN fee > amount THEN amount ELSE amount - fee END - held) AS BIGINT), 0)
FROM charge WHERE account_id = $1 AND release_at IS NOT NULL`

	sumBack    = `SELECT COALESCE(CAST(SUM(amount) AS BIGINT), 0) FROM transfer WHERE account_id = $1 AND kind IN ('refund', 'med_debit')`
	sumForgone = `SELECT COALESCE(CAST(SUM(refunded) AS BIGINT), 0) FROM charge
WHERE account_id = $1 AND status = 'refunded' AND paid_at IS NULL`

	// Charges that were not posted as they say, and postings that no charge explains.
	listUnposted = `SELECT c.id FROM charge c WHERE c.account_id = $1 AND c.paid_at IS NOT NULL AND NOT EXISTS
(SELECT 1 FROM transfer t WHERE t.account_id = c.account_id AND t.kind = 'cash_in' AND t.once_key = c.end_to_end_id AND t.ref = c.id AND t.amount = c.amount) LIMIT $2`
	listUncharged = `SELECT c.id FROM charge c WHERE c.account_id = $1 AND c.fee > 0 AND NOT EXISTS
(SELECT 1 FROM transfer t WHERE t.account_id = c.account_id AND t.kind = 'cash_in_fee' AND t.once_key = c.end_to_end_id AND t.ref = c.id AND t.amount = c.fee) LIMIT $2`
	listUnowed = `SELECT t.id FROM transfer t WHERE t.account_id = $1 AND t.kind IN ('cash_in', 'cash_in_fee') AND NOT EXISTS
(SELECT 1 FROM charge c WHERE c.account_id = t.account_id AND c.id = t.ref AND c.paid_at IS NOT NULL AND c.end_to_end_id = t.once_key) LIMIT $2`

	// The same of events, for what is younger than an identifier: what is older may be gone.
	listUncreated = `SELECT c.id FROM charge c WHERE c.account_id = $1 AND c.id > $3 AND NOT EXISTS
(SELECT 1 FROM event e WHERE e.account_id = c.account_id AND e.ref = c.id AND e.type = 'charge.created') LIMIT $2`
	listUnpaid = `SELECT c.id FROM charge c WHERE c.account_id = $1 AND c.id > $3 AND c.paid_at IS NOT NULL AND NOT EXISTS
(SELECT 1 FROM event e WHERE e.account_id = c.account_id AND e.ref = c.id AND e.type = 'charge.paid') LIMIT $2`
	listUnexplained = `SELECT e.id FROM event e WHERE e.account_id = $1 AND e.id > $3 AND e.type IN ('charge.created', 'charge.paid') AND NOT EXISTS
(SELECT 1 FROM charge c WHERE c.account_id = e.account_id AND c.id = e.ref AND (e.type = 'charge.created' OR c.paid_at IS NOT NULL)) LIMIT $2`
)

const auditMax = 100 // of each kind, of one account

// Audit holds each charge against what was posted for it and, when it is younger than border, against its events, of which
// no two can be: the database sees to that. It also holds what is pending against the charges whose money waits for its
// release, and what went back of payments against what was posted for that. It goes account by account, each at one moment
// of its own.
func Audit(ctx context.Context, db *sqldb.DB, border id.ID) ([]ledger.Problem, error) {
	return ledger.AuditAll(ctx, db, nil, Part(border))
}

// Part returns [Audit] of one account.
func Part(border id.ID) ledger.Part {
	return ledger.Part{Next: ledger.NextBy(findAccountWithCharges), Account: func(ctx context.Context, db *sqldb.DB, account id.Account) ([]ledger.Problem, error) {
		var found []string
		err := db.Read(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			sums, err := auditSums(ctx, tx, account)
			if err != nil {
				return err
			}
			found, err = auditCharges(ctx, tx, account, border)
			found = append(found, sums...)
			return err
		})
		var problems []ledger.Problem
		for _, what := range found {
			problems = append(problems, ledger.Problem{Account: account, What: what})
		}
		return problems, err
	}}
}

// auditCharges returns what does not fit between an account's charges, their postings and their events.
func auditCharges(ctx context.Context, tx *sqldb.Tx, account id.Account, border id.ID) (problems []string, err error) {
	for _, look := range []struct {
		sql    string
		of     func(id.ID) string
		what   string
		border []any // the third argument, if there is one
	}{
		{listUnposted, prefix.Format, "is paid and was not posted so", nil},
		{listUncharged, prefix.Format, "has a fee that was not posted so", nil},
		{listUnowed, id.ID.String, "is a posting for no charge that was paid so", nil},
		{listUncreated, prefix.Format, "has no event charge.created", []any{border}},
		{listUnpaid, prefix.Format, "is paid and has no event charge.paid", []any{border}},
		{listUnexplained, event.Prefix.Format, "belongs to no charge that it could have happened to", []any{border}},
	} {
		found, err := sqldb.All(ctx, tx, sqldb.Scalar[id.ID], look.sql, append([]any{int64(account), auditMax}, look.border...)...)
		if err != nil {
			return nil, err
		}
		for _, x := range found {
			problems = append(problems, look.of(x)+" "+look.what)
		}
	}
	return problems, nil
}

// auditSums returns what does not add up in one account.
func auditSums(ctx context.Context, tx *sqldb.Tx, account id.Account) (problems []string, err error) {
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
