package payout

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
	columns = `account_id, id, external_id, COALESCE(idem_key, ''), idem_hash, status, answer, amount, fee, returned, pix_key,
COALESCE(recipient_name, ''), COALESCE(recipient_document, ''), COALESCE(description, ''), COALESCE(postback_url, ''),
acquirer, sends, sent_at, check_at, COALESCE(doubt_at, 0), routing,
COALESCE(end_to_end_id, ''), COALESCE(error_message, ''), COALESCE(completed_at, 0), origin`

	insertPayout = `INSERT INTO payout (account_id, id, external_id, idem_key, idem_hash, status, answer, amount, fee, returned, pix_key,
recipient_name, recipient_document, description, postback_url, acquirer, sends, sent_at, check_at, routing, origin)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 0, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)`

	// A key that is older than keys are remembered is taken from its payout.
	unbindKey = `UPDATE payout SET idem_key = NULL WHERE account_id = $1 AND idem_key = $2 AND id < $3`

	selectPayout           = `SELECT ` + columns + ` FROM payout WHERE account_id = $1 AND id = $2`
	selectPayoutByExternal = `SELECT ` + columns + ` FROM payout WHERE account_id = $1 AND external_id = $2`

	// Whether anything holds a key or an external_id.
	selectAnyClaim = `SELECT 1 FROM payout WHERE account_id = $1 AND idem_key = $2
UNION ALL SELECT 1 FROM payout WHERE account_id = $1 AND external_id = $3
UNION ALL SELECT 1 FROM bound_key WHERE account_id = $1 AND route = $4 AND key = $2 LIMIT 1`

	// What holds a key and what holds an external_id, in one look. An empty one matches nothing.
	selectClaimed = `SELECT ` + columns + ` FROM payout WHERE account_id = $1 AND idem_key = $2
UNION ALL SELECT ` + columns + ` FROM payout WHERE account_id = $1 AND external_id = $3`

	// One Pix has one end-to-end id; were two payouts told the same, the latest is meant.
	selectPayoutByPix = `SELECT ` + columns + ` FROM payout WHERE account_id = $1 AND end_to_end_id = $2 ORDER BY id DESC LIMIT 1`

	// The end of a slice, and what of it is in a state: a rare one must not make a page read the whole table.
	selectSliceEnd = `SELECT id FROM payout WHERE account_id = $1 AND id < $2 ORDER BY id DESC LIMIT 1 OFFSET $3`
	listInState    = `SELECT ` + columns + ` FROM payout WHERE account_id = $1 AND id < $2 AND id >= $3 AND status = $4 ORDER BY id DESC LIMIT $5`

	countOwnDoubts = `SELECT COUNT(*), COALESCE(CAST(SUM(d.gross) AS BIGINT), 0), COALESCE(MIN(d.doubt_at), 0)
FROM (SELECT amount + fee AS gross, doubt_at FROM payout WHERE account_id = $1 AND doubt_at IS NOT NULL ORDER BY doubt_at LIMIT $2) d`

	listPayouts = `SELECT ` + columns + ` FROM payout WHERE account_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3`

	// That it was settled is believed of the acquirer that has it, whichever send it was that arrived.
	updateCompleted = `UPDATE payout SET status = $1, end_to_end_id = $2, completed_at = $3, doubt_at = NULL
WHERE account_id = $4 AND id = $5 AND status = $6 AND acquirer = $7`

	// That it was not sent is known of one send, and proves nothing once there was another.
	updateFailed = `UPDATE payout SET status = $1, error_message = $2, answer = CASE WHEN $3 = '' THEN answer ELSE $3 END, routing = $4, doubt_at = NULL
WHERE account_id = $5 AND id = $6 AND status = $7 AND sends = $8`

	updateReturned = `UPDATE payout SET status = $1, returned = $2 WHERE account_id = $3 AND id = $4 AND status = $5 AND returned = $6`

	// Before an acquirer is asked to send it: another one, or the same again.
	updateSends = `UPDATE payout SET acquirer = $1, sends = sends + 1, sent_at = $2, check_at = $3, doubt_at = $4, routing = $5
WHERE account_id = $6 AND id = $7 AND status = 'processing' AND sends = $8`

	// What is known of the last send, while nothing moves.
	updateKnown = `UPDATE payout SET sent_at = $1, check_at = $2, doubt_at = $3, answer = CASE WHEN $4 = '' THEN answer ELSE $4 END
WHERE account_id = $5 AND id = $6 AND status = 'processing' AND sends = $7`

	// Over all accounts: by leaps along the index, then what time makes due at each acquirer.
	findAcquirer = `SELECT acquirer FROM payout WHERE status = 'processing' AND acquirer > $1 ORDER BY acquirer LIMIT 1`
	findDue      = `SELECT ` + columns + ` FROM payout WHERE status = 'processing' AND acquirer = $1 AND check_at <= $2
ORDER BY check_at LIMIT $3`

	findDoubts  = `SELECT ` + columns + ` FROM payout WHERE doubt_at IS NOT NULL ORDER BY doubt_at LIMIT $1`
	countDoubts = `SELECT COUNT(*), COALESCE(CAST(SUM(d.gross) AS BIGINT), 0), COALESCE(MIN(d.doubt_at), 0)
FROM (SELECT amount + fee AS gross, doubt_at FROM payout WHERE doubt_at IS NOT NULL ORDER BY doubt_at LIMIT $1) d`
)

func scanPayout(r sqldb.Row) (Payout, error) {
	var p Payout
	var owner, amount, fee, returned, sentAt, checkAt, doubtAt, completedAt int64
	var status, told, origin string
	var hash []byte
	err := r.Scan(&owner, &p.ID, &p.ExternalID, &p.key, &hash, &status, &told, &amount, &fee, &returned, &p.Key,
		&p.RecipientName, &p.RecipientDocument, &p.Description, &p.PostbackURL,
		&p.Acquirer, &p.Sends, &sentAt, &checkAt, &doubtAt, &p.Routing,
		&p.EndToEndID, &p.ErrorMessage, &completedAt, &origin)
	p.Account, p.Status, p.answer = id.Account(owner), State(status), answer(told)
	p.Amount, p.Fee, p.Returned = money.BRL(amount), money.BRL(fee), money.BRL(returned)
	p.SentAt, p.CheckAt, p.DoubtAt, p.CompletedAt = moment(sentAt), moment(checkAt), moment(doubtAt), moment(completedAt)
	p.Origin = account.Origin(origin)
	copy(p.hash[:], hash)
	return p, err
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

func (p *Payout) insert(ctx context.Context, tx *sqldb.Tx) {
	tx.Queue(ctx, insertPayout, int64(p.Account), p.ID, p.ExternalID, null(p.key), p.hash[:], string(p.Status), string(p.answer),
		int64(p.Amount), int64(p.Fee), p.Key, null(p.RecipientName), null(p.RecipientDocument), null(p.Description), null(p.PostbackURL),
		p.Acquirer, p.Sends, p.SentAt.UnixMicro(), p.CheckAt.UnixMicro(), p.Routing, string(p.Origin))
}

// Before returns an account's payouts below an identifier, newest first.
func Before(ctx context.Context, q sqldb.Querier, account id.Account, border id.ID, limit int) ([]Payout, error) {
	return sqldb.All(ctx, q, scanPayout, listPayouts, int64(account), border, limit)
}

// Exists reports whether an account has a payout.
func Exists(ctx context.Context, q sqldb.Querier, account id.Account, x id.ID) (bool, error) {
	_, err := get(ctx, q, account, x)
	if errors.Is(err, sqldb.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

func get(ctx context.Context, q sqldb.Querier, account id.Account, x id.ID) (Payout, error) {
	return sqldb.One(ctx, q, scanPayout, selectPayout, int64(account), x)
}
