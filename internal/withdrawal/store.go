package withdrawal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shopspring/decimal"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

const (
	columns = `account_id, id, COALESCE(external_id, ''), COALESCE(idem_key, ''), idem_hash, status, currency, address, COALESCE(extra_id, ''),
amount, fee, conversion_fee, coins, provider, COALESCE(provider_id, ''), sends, COALESCE(sent_at, 0), COALESCE(verified_at, 0), check_at,
COALESCE(doubt_at, 0), COALESCE(tx_hash, ''), COALESCE(reason, ''), COALESCE(error_message, ''), COALESCE(completed_at, 0), origin`

	insertWithdrawal = `INSERT INTO withdrawal (account_id, id, external_id, idem_key, idem_hash, status, currency, address, extra_id,
amount, fee, conversion_fee, coins, provider, sends, sent_at, check_at, origin)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)`

	// A key that is older than keys are remembered is taken from its withdrawal.
	unbindKey = `UPDATE withdrawal SET idem_key = NULL WHERE account_id = $1 AND idem_key = $2 AND id < $3`

	selectWithdrawal = `SELECT ` + columns + ` FROM withdrawal WHERE account_id = $1 AND id = $2`

	// What holds a key and what holds an external_id, in one look. An empty one matches nothing.
	selectClaimed = `SELECT ` + columns + ` FROM withdrawal WHERE account_id = $1 AND idem_key = $2
UNION ALL SELECT ` + columns + ` FROM withdrawal WHERE account_id = $1 AND external_id = $3`

	listWithdrawals = `SELECT ` + columns + ` FROM withdrawal WHERE account_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3`

	// Which payout of the provider's is this one. It is written once: no other is ever verified.
	updateProviderID = `UPDATE withdrawal SET provider_id = $1, check_at = $2, doubt_at = NULL
WHERE account_id = $3 AND id = $4 AND status = 'processing' AND provider_id IS NULL`

	// That it was sent is believed of the payout that is this one.
	updateCompleted = `UPDATE withdrawal SET status = $1, tx_hash = $2, completed_at = $3, doubt_at = NULL
WHERE account_id = $4 AND id = $5 AND status = $6 AND provider_id = $7`

	// That it will never be sent is believed of the payout that is this one. While none is, it is known of one send, and proves
	// nothing once there was another.
	updateFailed = `UPDATE withdrawal SET status = $1, error_message = $2, reason = $3, doubt_at = NULL
WHERE account_id = $4 AND id = $5 AND status = $6 AND sends = $7 AND COALESCE(provider_id, '') = $8`

	// Before the provider is asked to make it again.
	updateSends = `UPDATE withdrawal SET sends = sends + 1, sent_at = $1, check_at = $2, doubt_at = $3
WHERE account_id = $4 AND id = $5 AND status = 'processing' AND sends = $6 AND provider_id IS NULL`

	// What is known of it, while nothing moves.
	updateKnown = `UPDATE withdrawal SET sent_at = $1, verified_at = $2, check_at = $3, doubt_at = $4, tx_hash = $5, reason = $6
WHERE account_id = $7 AND id = $8 AND status = 'processing' AND sends = $9 AND COALESCE(provider_id, '') = $10`

	// Over all accounts: what time makes due.
	findDue = `SELECT ` + columns + ` FROM withdrawal WHERE status = 'processing' AND provider = $1 AND check_at <= $2
ORDER BY check_at LIMIT $3`

	// Over all accounts: notifications name a payout by the provider's id only.
	findByProviderID = `SELECT ` + columns + ` FROM withdrawal WHERE provider = $1 AND provider_id = $2 LIMIT 1`

	findDoubts     = `SELECT ` + columns + ` FROM withdrawal WHERE doubt_at IS NOT NULL ORDER BY doubt_at LIMIT $1`
	countOwnDoubts = `SELECT COUNT(*), COALESCE(CAST(SUM(d.gross) AS BIGINT), 0), COALESCE(MIN(d.doubt_at), 0)
FROM (SELECT amount + fee AS gross, doubt_at FROM withdrawal WHERE account_id = $1 AND doubt_at IS NOT NULL ORDER BY doubt_at LIMIT $2) d`
	countDoubts = `SELECT COUNT(*), COALESCE(CAST(SUM(d.gross) AS BIGINT), 0), COALESCE(MIN(d.doubt_at), 0)
FROM (SELECT amount + fee AS gross, doubt_at FROM withdrawal WHERE doubt_at IS NOT NULL ORDER BY doubt_at LIMIT $1) d`
)

func scanWithdrawal(r sqldb.Row) (Withdrawal, error) {
	var w Withdrawal
	var owner, amount, fee, conversionFee, sentAt, verifiedAt, checkAt, doubtAt, completedAt int64
	var status, coins, origin string
	var hash []byte
	err := r.Scan(&owner, &w.ID, &w.ExternalID, &w.key, &hash, &status, &w.Currency, &w.Address, &w.ExtraID,
		&amount, &fee, &conversionFee, &coins, &w.Provider, &w.ProviderID, &w.Sends, &sentAt, &verifiedAt, &checkAt,
		&doubtAt, &w.TxHash, &w.Reason, &w.ErrorMessage, &completedAt, &origin)
	if err != nil {
		return w, err
	}
	w.Account, w.Status, w.Origin = id.Account(owner), State(status), account.Origin(origin)
	w.Amount, w.Fee, w.ConversionFee = money.USDT(amount), money.USDT(fee), money.USDT(conversionFee)
	w.SentAt, w.VerifiedAt, w.CheckAt = moment(sentAt), moment(verifiedAt), moment(checkAt)
	w.DoubtAt, w.CompletedAt = moment(doubtAt), moment(completedAt)
	copy(w.hash[:], hash)
	if w.Coins, err = decimal.NewFromString(coins); err != nil {
		err = fmt.Errorf("withdrawal: coins of %s: %w", prefix.Format(w.ID), err)
	}
	return w, err
}

// moment reads a time; 0 is stored for none.
func moment(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}

// stored writes a time; NULL for none.
func stored(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

// null stores "" as NULL.
func null(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func (w *Withdrawal) insert(ctx context.Context, tx *sqldb.Tx) {
	tx.Queue(ctx, insertWithdrawal, int64(w.Account), w.ID, null(w.ExternalID), null(w.key), w.hash[:], string(w.Status), w.Currency,
		w.Address, null(w.ExtraID), int64(w.Amount), int64(w.Fee), int64(w.ConversionFee), w.Coins.String(), w.Provider, w.Sends,
		stored(w.SentAt), w.CheckAt.UnixMicro(), string(w.Origin))
}

// before returns an account's withdrawals below an identifier, newest first.
func before(ctx context.Context, q sqldb.Querier, account id.Account, border id.ID, limit int) ([]Withdrawal, error) {
	return sqldb.All(ctx, q, scanWithdrawal, listWithdrawals, int64(account), border, limit)
}

func exists(ctx context.Context, q sqldb.Querier, account id.Account, x id.ID) (bool, error) {
	_, err := get(ctx, q, account, x)
	if errors.Is(err, sqldb.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

func get(ctx context.Context, q sqldb.Querier, account id.Account, x id.ID) (Withdrawal, error) {
	return sqldb.One(ctx, q, scanWithdrawal, selectWithdrawal, int64(account), x)
}
