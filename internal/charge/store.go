package charge

import (
	"context"
	"errors"
	"time"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

const (
	columns = `account_id, id, txid, COALESCE(external_id, ''), COALESCE(idem_key, ''), idem_hash, status, amount, fee, refunded,
COALESCE(description, ''), COALESCE(payer_name, ''), COALESCE(payer_document, ''), COALESCE(postback_url, ''), acquirer, routing,
copy_paste, COALESCE(end_to_end_id, ''), COALESCE(paid_at, 0), expires_at, COALESCE(release_at, 0), held, origin`

	insertCharge = `INSERT INTO charge (account_id, id, txid, external_id, idem_key, idem_hash, status, amount, fee, refunded,
description, payer_name, payer_document, postback_url, acquirer, routing, copy_paste, expires_at, origin)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 0, 0, $9, $10, $11, $12, $13, $14, $15, $16, $17)`

	// A key that is older than keys are remembered is taken from its charge.
	unbindKey = `UPDATE charge SET idem_key = NULL WHERE account_id = $1 AND idem_key = $2 AND id < $3`

	selectCharge           = `SELECT ` + columns + ` FROM charge WHERE account_id = $1 AND id = $2`
	selectChargeByTxID     = `SELECT ` + columns + ` FROM charge WHERE account_id = $1 AND txid = $2`
	selectChargeByExternal = `SELECT ` + columns + ` FROM charge WHERE account_id = $1 AND external_id = $2`

	// Whether anything holds a key or an external_id.
	selectAnyClaim = `SELECT 1 FROM charge WHERE account_id = $1 AND idem_key = $2
UNION ALL SELECT 1 FROM charge WHERE account_id = $1 AND external_id = $3
UNION ALL SELECT 1 FROM bound_key WHERE account_id = $1 AND route = $4 AND key = $2 LIMIT 1`

	// What holds a key and what holds an external_id, in one look. An empty one matches nothing.
	selectClaimed = `SELECT ` + columns + ` FROM charge WHERE account_id = $1 AND idem_key = $2
UNION ALL SELECT ` + columns + ` FROM charge WHERE account_id = $1 AND external_id = $3`

	// The end of a slice, and what of it is in a state: a rare one must not make a page read the whole table.
	selectSliceEnd = `SELECT id FROM charge WHERE account_id = $1 AND id < $2 ORDER BY id DESC LIMIT 1 OFFSET $3`
	listInState    = `SELECT ` + columns + ` FROM charge WHERE account_id = $1 AND id < $2 AND id >= $3 AND status = $4 ORDER BY id DESC LIMIT $5`

	// How the latest charges went, of those since a moment.
	countStates = `SELECT c.status, COUNT(*) FROM (SELECT status FROM charge WHERE account_id = $1 AND id >= $2 ORDER BY id DESC LIMIT $3) c
GROUP BY c.status ORDER BY c.status LIMIT 10`

	listCharges = `SELECT ` + columns + ` FROM charge WHERE account_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3`

	// Guarded by the state it was decided on. What changes a paid charge sets refunded, by which
	// the database knows (copies.go), unless it changes what no caller is shown.
	updatePaid = `UPDATE charge SET status = $1, end_to_end_id = $2, paid_at = $3, fee = $4, release_at = $5
WHERE account_id = $6 AND id = $7 AND status = $8`
	updateStatus   = `UPDATE charge SET status = $1 WHERE account_id = $2 AND id = $3 AND status = $4`
	updateRefunded = `UPDATE charge SET status = $1, refunded = $2, held = $3
WHERE account_id = $4 AND id = $5 AND status = $6 AND refunded = $7 AND held = $8 AND COALESCE(release_at, 0) = $9`
	updateRefundedUnseen = `UPDATE charge SET status = $1, refunded = $2, end_to_end_id = $3 WHERE account_id = $4 AND id = $5 AND status = $6`
	updateReleased       = `UPDATE charge SET release_at = NULL WHERE account_id = $1 AND id = $2 AND release_at = $3 AND held = $4`

	// Over all accounts: what time makes due.
	// An empty acquirer means any.
	findExpired = `SELECT ` + columns + ` FROM charge WHERE status = 'pending' AND expires_at <= $1 AND ($2 = '' OR acquirer = $2)
ORDER BY expires_at LIMIT $3`
	findReleased = `SELECT ` + columns + ` FROM charge WHERE release_at IS NOT NULL AND release_at <= $1 ORDER BY release_at LIMIT $2`

	insertUnmatched = `INSERT INTO unmatched (acquirer, end_to_end_id, txid, amount, paid_at, found_at, reason)
VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (acquirer, end_to_end_id) DO NOTHING`
	listUnmatched = `SELECT acquirer, end_to_end_id, COALESCE(txid, ''), amount, paid_at, found_at, reason
FROM unmatched WHERE dismissed IS NULL ORDER BY found_at DESC LIMIT $1`
	countUnmatched   = `SELECT COUNT(*) FROM unmatched WHERE dismissed IS NULL`
	dismissUnmatched = `UPDATE unmatched SET dismissed = $1 WHERE end_to_end_id = $2 AND dismissed IS NULL`
)

func scanCharge(r sqldb.Row) (Charge, error) {
	var row struct { // one piece of memory, where each variable would be one of its own
		charge Charge

		owner, amount, fee, refunded, paidAt, expiresAt, releaseAt, held int64

		status, origin string
		hash           []byte
	}
	c := &row.charge
	err := r.Scan(&row.owner, &c.ID, &c.TxID, &c.ExternalID, &c.key, &row.hash, &row.status, &row.amount, &row.fee, &row.refunded,
		&c.Description, &c.PayerName, &c.PayerDocument, &c.PostbackURL, &c.Acquirer, &c.Routing,
		&c.CopyPaste, &c.EndToEndID, &row.paidAt, &row.expiresAt, &row.releaseAt, &row.held, &row.origin)
	c.Account, c.Status, c.Amount = id.Account(row.owner), State(row.status), money.BRL(row.amount)
	c.Fee, c.Refunded, c.Held = money.BRL(row.fee), money.BRL(row.refunded), money.BRL(row.held)
	c.PaidAt, c.ExpiresAt, c.ReleaseAt = moment(row.paidAt), moment(row.expiresAt), moment(row.releaseAt)
	c.Origin = account.Origin(row.origin)
	copy(c.hash[:], row.hash)
	return *c, err
}

// moment reads a time; 0 is stored for none.
func moment(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}

// micros writes a time as [moment] reads it.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
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

func (c *Charge) insert(ctx context.Context, tx *sqldb.Tx) {
	tx.Queue(ctx, insertCharge, int64(c.Account), c.ID, c.TxID, null(c.ExternalID), null(c.key), c.hash[:], string(c.Status),
		int64(c.Amount), null(c.Description), null(c.PayerName), null(c.PayerDocument), null(c.PostbackURL), c.Acquirer, c.Routing,
		c.CopyPaste, c.ExpiresAt.UnixMicro(), string(c.Origin))
}

// CountUnmatched returns how many payments belong to no charge.
func CountUnmatched(ctx context.Context, q sqldb.Querier) (int64, error) {
	return sqldb.One(ctx, q, sqldb.Scalar[int64], countUnmatched)
}

// Before returns an account's charges below an identifier, newest first.
func Before(ctx context.Context, q sqldb.Querier, account id.Account, border id.ID, limit int) ([]Charge, error) {
	return sqldb.All(ctx, q, scanCharge, listCharges, int64(account), border, limit)
}

// Exists reports whether an account has a charge.
func Exists(ctx context.Context, q sqldb.Querier, account id.Account, x id.ID) (bool, error) {
	_, err := get(ctx, q, account, x)
	if errors.Is(err, sqldb.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

func get(ctx context.Context, q sqldb.Querier, account id.Account, x id.ID) (Charge, error) {
	return sqldb.One(ctx, q, scanCharge, selectCharge, int64(account), x)
}
