package deposit

import (
	"context"
	"errors"
	"time"

	"github.com/shopspring/decimal"

	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/oplog"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

const (
	columns = `account_id, id, COALESCE(external_id, ''), COALESCE(idem_key, ''), idem_hash, status, price, pay_currency,
COALESCE(description, ''), COALESCE(customer_id, ''), COALESCE(customer_email, ''), COALESCE(metadata, ''), provider, asks, asked_at,
COALESCE(check_at, 0), COALESCE(payment_id, ''), COALESCE(parent, ''), COALESCE(pay_address, ''), COALESCE(pay_extra_id, ''),
COALESCE(pay_amount, ''), COALESCE(paid_amount, ''), COALESCE(amount_status, ''), received, fee, refunded, COALESCE(expires_at, 0),
COALESCE(detected_at, 0), COALESCE(paid_at, 0), COALESCE(review, ''), COALESCE(review_at, 0)`

	insertDeposit = `INSERT INTO deposit (account_id, id, external_id, idem_key, idem_hash, status, price, pay_currency, description,
customer_id, customer_email, metadata, provider, asks, asked_at, check_at, payment_id, parent, pay_address, pay_extra_id, paid_amount,
received, fee, refunded, paid_at, review, review_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, 0, $24, $25, $26)`

	// A key that is older than keys are remembered is taken from its deposit.
	unbindKey = `UPDATE deposit SET idem_key = NULL WHERE account_id = $1 AND idem_key = $2 AND id < $3`

	// A deposit that was refused before anybody was told of it. Once it was asked for again it has a life of its own.
	deleteRefused = `DELETE FROM deposit WHERE account_id = $1 AND id = $2 AND status = 'processing' AND asks = $3`

	selectDeposit           = `SELECT ` + columns + ` FROM deposit WHERE account_id = $1 AND id = $2`
	selectDepositByExternal = `SELECT ` + columns + ` FROM deposit WHERE account_id = $1 AND external_id = $2`
	selectDepositByPayment  = `SELECT ` + columns + ` FROM deposit WHERE account_id = $1 AND provider = $2 AND payment_id = $3`

	// Whether anything holds a key or an external_id.
	selectAnyClaim = `SELECT 1 FROM deposit WHERE account_id = $1 AND idem_key = $2
UNION ALL SELECT 1 FROM deposit WHERE account_id = $1 AND external_id = $3
UNION ALL SELECT 1 FROM bound_key WHERE account_id = $1 AND route = $4 AND key = $2 LIMIT 1`

	// What holds a key and what holds an external_id, in one look. An empty one matches nothing.
	selectClaimed = `SELECT ` + columns + ` FROM deposit WHERE account_id = $1 AND idem_key = $2
UNION ALL SELECT ` + columns + ` FROM deposit WHERE account_id = $1 AND external_id = $3`

	listDeposits           = `SELECT ` + columns + ` FROM deposit WHERE account_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3`
	listDepositsOfCustomer = `SELECT ` + columns + ` FROM deposit WHERE account_id = $1 AND customer_id = $2 AND id < $3 ORDER BY id DESC LIMIT $4`
	listDepositsByExternal = `SELECT ` + columns + ` FROM deposit WHERE account_id = $1 AND external_id = $2 AND id < $3 ORDER BY id DESC LIMIT $4`

	updateProvisioned = `UPDATE deposit SET status = $1, payment_id = $2, pay_address = $3, pay_extra_id = $4, pay_amount = $5,
expires_at = $6, check_at = $7 WHERE account_id = $8 AND id = $9 AND status = $10 AND payment_id IS NULL`

	// Guarded by the state and the money that it was decided on.
	updateMoved = `UPDATE deposit SET status = $1, paid_amount = $2, amount_status = $3, received = $4, fee = $5, refunded = $6,
detected_at = $7, paid_at = $8, check_at = $9, review = $10, review_at = $11
WHERE account_id = $12 AND id = $13 AND status = $14 AND received = $15 AND refunded = $16`

	// Before the provider is asked for an address again.
	updateAsks = `UPDATE deposit SET asks = asks + 1, asked_at = $1, check_at = $2
WHERE account_id = $3 AND id = $4 AND status = 'processing' AND asks = $5`

	// When the provider is asked next, while nothing moves.
	updateCheck = `UPDATE deposit SET asked_at = $1, check_at = $2 WHERE account_id = $3 AND id = $4 AND status = $5 AND asks = $6`

	updateReview = `UPDATE deposit SET review = $1, review_at = $2 WHERE account_id = $3 AND id = $4 AND review IS NULL`

	// Over all accounts: what time makes due.
	findDue = `SELECT ` + columns + ` FROM deposit WHERE check_at IS NOT NULL AND provider = $1 AND check_at <= $2 ORDER BY check_at LIMIT $3`

	findReviews  = `SELECT ` + columns + ` FROM deposit WHERE review_at IS NOT NULL AND review_at >= $1 ORDER BY review_at DESC LIMIT $2`
	countReviews = `SELECT COUNT(*) FROM (SELECT review_at FROM deposit WHERE review_at IS NOT NULL AND review = $1 ORDER BY review_at LIMIT $2) d`

	insertUnmatched = `INSERT INTO unmatched_deposit (provider, payment_id, reference, amount, found_at, reason)
VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (provider, payment_id) DO NOTHING`
	listUnmatched = `SELECT provider, payment_id, COALESCE(reference, ''), amount, found_at, reason
FROM unmatched_deposit WHERE dismissed IS NULL ORDER BY found_at DESC LIMIT $1`
	countUnmatched   = `SELECT COUNT(*) FROM unmatched_deposit WHERE dismissed IS NULL`
	dismissUnmatched = `UPDATE unmatched_deposit SET dismissed = $1 WHERE payment_id = $2 AND dismissed IS NULL`
)

func scanDeposit(r sqldb.Row) (Deposit, error) {
	var d Deposit
	var account, price, askedAt, checkAt, received, fee, refunded, expiresAt, detectedAt, paidAt, reviewAt int64
	var status, metadata, payAmount, paidAmount, amountStatus, review string
	var hash []byte
	err := r.Scan(&account, &d.ID, &d.ExternalID, &d.key, &hash, &status, &price, &d.PayCurrency,
		&d.Description, &d.CustomerID, &d.CustomerEmail, &metadata, &d.Provider, &d.Asks, &askedAt,
		&checkAt, &d.PaymentID, &d.Parent, &d.PayAddress, &d.PayExtraID,
		&payAmount, &paidAmount, &amountStatus, &received, &fee, &refunded, &expiresAt,
		&detectedAt, &paidAt, &review, &reviewAt)
	if err != nil {
		return d, err
	}
	d.Account, d.Status, d.Price = id.Account(account), State(status), money.USD(price)
	d.Received, d.Fee, d.Refunded = money.USDT(received), money.USDT(fee), money.USDT(refunded)
	d.AmountStatus, d.Review = AmountStatus(amountStatus), Review(review)
	d.AskedAt, d.CheckAt, d.ExpiresAt = moment(askedAt), moment(checkAt), moment(expiresAt)
	d.DetectedAt, d.PaidAt, d.ReviewAt = moment(detectedAt), moment(paidAt), moment(reviewAt)
	if metadata != "" {
		d.Metadata = []byte(metadata)
	}
	copy(d.hash[:], hash)
	if d.PayAmount, err = quantity(payAmount); err == nil {
		d.PaidAmount, err = quantity(paidAmount)
	}
	return d, err
}

// quantity reads a number of coins; "" is stored for none.
func quantity(s string) (q decimal.NullDecimal, err error) {
	if s == "" {
		return q, nil
	}
	q.Decimal, err = decimal.NewFromString(s)
	q.Valid = err == nil
	return q, err
}

// coins writes a number of coins; NULL for none.
func coins(q decimal.NullDecimal) any {
	if !q.Valid {
		return nil
	}
	return q.Decimal.String()
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
func null[T ~string](s T) any {
	if s == "" {
		return nil
	}
	return string(s)
}

func (d *Deposit) insert(ctx context.Context, tx *sqldb.Tx) {
	tx.Queue(ctx, insertDeposit, int64(d.Account), d.ID, null(d.ExternalID), null(d.key), d.hash[:], string(d.Status), int64(d.Price),
		d.PayCurrency, null(d.Description), null(d.CustomerID), null(d.CustomerEmail), null(string(d.Metadata)), d.Provider, d.Asks,
		d.AskedAt.UnixMicro(), stored(d.CheckAt), null(d.PaymentID), null(d.Parent), null(d.PayAddress), null(d.PayExtraID),
		coins(d.PaidAmount), int64(d.Received), int64(d.Fee), stored(d.PaidAt), null(d.Review), stored(d.ReviewAt))
}

// update writes where the deposit got to from before, if it still was there.
func (d *Deposit) update(ctx context.Context, tx *sqldb.Tx, before *Deposit) {
	tx.Guard(ctx, errMoved, updateMoved, string(d.Status), coins(d.PaidAmount), null(d.AmountStatus), int64(d.Received), int64(d.Fee),
		int64(d.Refunded), stored(d.DetectedAt), stored(d.PaidAt), stored(d.CheckAt), null(d.Review), stored(d.ReviewAt),
		int64(d.Account), d.ID, string(before.Status), int64(before.Received), int64(before.Refunded))
}

// Before returns an account's deposits below an identifier, newest first.
func Before(ctx context.Context, q sqldb.Querier, account id.Account, border id.ID, limit int) ([]Deposit, error) {
	return sqldb.All(ctx, q, scanDeposit, listDeposits, int64(account), border, limit)
}

// CountUnmatched returns how many payments belong to no deposit.
func CountUnmatched(ctx context.Context, q sqldb.Querier) (int64, error) {
	return sqldb.One(ctx, q, sqldb.Scalar[int64], countUnmatched)
}

// Unmatched is a payment at the provider that belongs to no deposit.
type Unmatched struct {
	Provider  string
	PaymentID string
	Reference string // what it says it pays; "" for nothing
	Amount    money.USDT
	FoundAt   time.Time // business time
	Reason    string
}

// ListUnmatched returns the payments that were found last, belong to no deposit and wait to be looked at.
func ListUnmatched(ctx context.Context, q sqldb.Querier) ([]Unmatched, error) {
	return sqldb.All(ctx, q, func(r sqldb.Row) (u Unmatched, err error) {
		var amount, foundAt int64
		err = r.Scan(&u.Provider, &u.PaymentID, &u.Reference, &amount, &foundAt, &u.Reason)
		u.Amount, u.FoundAt = money.USDT(amount), moment(foundAt)
		return u, err
	}, listUnmatched, unmatchedMax)
}

// ErrNoUnmatched is returned for a payment that does not wait to be looked at.
var ErrNoUnmatched = fault.New(fault.NotFound, "", "no such payment waits to be looked at")

// DismissUnmatched notes why nothing more is to be done about a payment that belongs to no deposit. It is named as its
// provider names it.
func DismissUnmatched(ctx context.Context, db *sqldb.DB, ids *id.Generator, paymentID, why string) error {
	return oplog.Dismiss(ctx, db, oplog.Begin(ctx, ids, oplog.Entry{Action: oplog.DepositDismiss, Subject: paymentID, Reason: why}),
		ErrNoUnmatched, dismissUnmatched, why, paymentID)
}

const (
	unmatchedMax = 500     // that are listed
	reviewsMax   = 500     // that are listed
	countedMax   = 100_000 // that are counted
)

// ListReviews returns the deposits that an operator should look at since a moment, the latest first.
func ListReviews(ctx context.Context, q sqldb.Querier, since time.Time) ([]Deposit, error) {
	return sqldb.All(ctx, q, scanDeposit, findReviews, since.UnixMicro(), reviewsMax)
}

// CountStuck returns how many deposits have coins that their provider has not settled.
func CountStuck(ctx context.Context, q sqldb.Querier) (int64, error) {
	return sqldb.One(ctx, q, sqldb.Scalar[int64], countReviews, string(ReviewStuck), countedMax)
}

// exists reports whether an account has a deposit.
func exists(ctx context.Context, q sqldb.Querier, account id.Account, x id.ID) (bool, error) {
	_, err := get(ctx, q, account, x)
	if errors.Is(err, sqldb.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

func get(ctx context.Context, q sqldb.Querier, account id.Account, x id.ID) (Deposit, error) {
	return sqldb.One(ctx, q, scanDeposit, selectDeposit, int64(account), x)
}
