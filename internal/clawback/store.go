package clawback

import (
	"context"
	"errors"

	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

const (
	columns = `account_id, end_to_end_id, charge_id, amount, returned, enforced, claimed, accepted, debited`

	selectPayment = `SELECT ` + columns + ` FROM clawback WHERE account_id = $1 AND end_to_end_id = $2`

	listPayments = `SELECT ` + columns + ` FROM clawback WHERE account_id = $1 AND end_to_end_id > $2 ORDER BY end_to_end_id LIMIT $3`

	insertPayment = `INSERT INTO clawback (account_id, end_to_end_id, charge_id, amount, returned, enforced, claimed, accepted, debited)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING`

	// Guarded by all that was decided on.
	updatePayment = `UPDATE clawback SET returned = $1, enforced = $2, claimed = $3, accepted = $4, debited = $5
WHERE account_id = $6 AND end_to_end_id = $7 AND returned = $8 AND enforced = $9 AND claimed = $10 AND accepted = $11 AND debited = $12`

	// Over all accounts, by leaps along the index.
	findAccount = `SELECT account_id FROM clawback WHERE account_id > $1 ORDER BY account_id LIMIT 1`
)

func scanPayment(r sqldb.Row) (Payment, error) {
	p := Payment{stored: true}
	var account, amount, returned, enforced, claimed, accepted, debited int64
	err := r.Scan(&account, &p.EndToEndID, &p.Charge, &amount, &returned, &enforced, &claimed, &accepted, &debited)
	p.Account, p.Amount = id.Account(account), money.BRL(amount)
	p.Returned, p.Enforced = money.BRL(returned), money.BRL(enforced)
	p.Claimed, p.Accepted, p.Debited = money.BRL(claimed), money.BRL(accepted), money.BRL(debited)
	return p, err
}

// Get returns what is known of a payment.
func Get(ctx context.Context, q sqldb.Querier, of Ref) (Payment, error) {
	p, err := sqldb.One(ctx, q, scanPayment, selectPayment, int64(of.Account), of.EndToEndID)
	if errors.Is(err, sqldb.ErrNoRows) {
		return Payment{Account: of.Account, EndToEndID: of.EndToEndID, Charge: of.Charge, Amount: of.Amount}, nil
	}
	return p, err
}

// Write stores what a payment has become. When it is no longer as it was read, the transaction fails with moved.
func Write(ctx context.Context, tx *sqldb.Tx, was, now *Payment, moved error) {
	if !was.stored {
		tx.Guard(ctx, moved, insertPayment, int64(now.Account), now.EndToEndID, now.Charge, int64(now.Amount),
			int64(now.Returned), int64(now.Enforced), int64(now.Claimed), int64(now.Accepted), int64(now.Debited))
		return
	}
	tx.Guard(ctx, moved, updatePayment, int64(now.Returned), int64(now.Enforced), int64(now.Claimed), int64(now.Accepted), int64(now.Debited),
		int64(was.Account), was.EndToEndID, int64(was.Returned), int64(was.Enforced), int64(was.Claimed), int64(was.Accepted), int64(was.Debited))
}
