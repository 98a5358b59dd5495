package infraction

import (
	"context"
	"time"

	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/oplog"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

const (
	columns = `account_id, id, acquirer, acquirer_id, charge_id, COALESCE(external_id, ''), end_to_end_id, paid, amount, from_pending, debited,
status, COALESCE(reason, ''), COALESCE(reason_code, ''), opened_at, deadline_at, COALESCE(resolved_at, 0),
COALESCE(defense_text, ''), COALESCE(defense_evidence_url, ''), COALESCE(defended_at, 0),
COALESCE(handing, ''), COALESCE(hand_at, 0), hand_tries, hand_doubt, COALESCE(hand_error, '')`

	// The acquirer's name for it is what a second insert meets the first by.
	insertInfraction = `INSERT INTO infraction (account_id, id, acquirer, acquirer_id, charge_id, external_id, end_to_end_id, paid, amount,
from_pending, debited, status, reason, reason_code, opened_at, deadline_at, hand_tries, hand_doubt)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 0, $11, $12, $13, $14, $15, 0, 0) ON CONFLICT DO NOTHING`

	selectInfraction = `SELECT ` + columns + ` FROM infraction WHERE account_id = $1 AND id = $2`

	// An empty status means any.
	listInfractions = `SELECT ` + columns + ` FROM infraction WHERE account_id = $1 AND id < $2 AND ($3 = '' OR status = $3)
ORDER BY id DESC LIMIT $4`

	// Those about one charge, among the first since it was made.
	listOfCharge = `SELECT ` + columns + ` FROM (SELECT * FROM infraction WHERE account_id = $1 AND id > $2 ORDER BY id LIMIT $3) f
WHERE f.charge_id = $4 ORDER BY f.id LIMIT $5`

	// Guarded by the state it was decided on.
	updateDecided = `UPDATE infraction SET status = $1, debited = $2, resolved_at = $3, hand_at = NULL
WHERE account_id = $4 AND id = $5 AND status = $6`
	updateDefended = `UPDATE infraction SET status = $1, defended_at = $2, defense_text = $3, defense_evidence_url = $4, handing = $5, hand_at = $6
WHERE account_id = $7 AND id = $8 AND status = $9`

	// Before it is handed in; by how often that was tried, so that two never do it at once.
	updateTried = `UPDATE infraction SET hand_tries = hand_tries + 1, hand_doubt = 1, hand_at = $1
WHERE account_id = $2 AND id = $3 AND status = 'under_review' AND handing = 'waiting' AND hand_tries = $4`
	updateHanded = `UPDATE infraction SET handing = $1, hand_at = CASE WHEN status = 'under_review' THEN CAST($2 AS BIGINT) END, hand_doubt = $3, hand_error = $4
WHERE account_id = $5 AND id = $6 AND handing = 'waiting' AND hand_tries = $7`

	// Over all accounts: what operators look at; an empty status means any.
	findLatest = `SELECT ` + columns + ` FROM infraction WHERE id < $1 AND ($2 = '' OR status = $2) ORDER BY id DESC LIMIT $3`

	// Over all accounts: what acquirers tell of, and what time makes due.
	findNamed     = `SELECT ` + columns + ` FROM infraction WHERE acquirer = $1 AND acquirer_id = $2 LIMIT 1`
	findUndecided = `SELECT opened_at FROM infraction WHERE status IN ('open', 'under_review') AND acquirer = $1 AND opened_at > $2
ORDER BY opened_at LIMIT $3`
	findHanding = `SELECT ` + columns + ` FROM infraction WHERE hand_at IS NOT NULL AND acquirer = $1 AND hand_at <= $2
ORDER BY hand_at LIMIT $3`
	countDefenses = `SELECT COALESCE(CAST(SUM(CASE WHEN d.handing = 'waiting' AND d.defended_at < $1 THEN 1 ELSE 0 END) AS BIGINT), 0),
COALESCE(CAST(SUM(CASE WHEN d.handing = 'refused' THEN 1 ELSE 0 END) AS BIGINT), 0)
FROM (SELECT handing, defended_at FROM infraction WHERE handing IN ('waiting', 'refused') AND status = 'under_review' LIMIT $2) d`

	upsertUnmatched = `INSERT INTO unmatched_infraction (acquirer, acquirer_id, end_to_end_id, amount, status, opened_at, found_at, reason)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (acquirer, acquirer_id) DO UPDATE SET status = excluded.status`
	deleteUnmatched = `DELETE FROM unmatched_infraction WHERE acquirer = $1 AND acquirer_id = $2`
	listUnmatched   = `SELECT acquirer, acquirer_id, end_to_end_id, amount, status, opened_at, found_at, reason
FROM unmatched_infraction WHERE dismissed IS NULL ORDER BY found_at DESC LIMIT $1`
	countUnmatched   = `SELECT COUNT(*) FROM unmatched_infraction WHERE dismissed IS NULL`
	dismissUnmatched = `UPDATE unmatched_infraction SET dismissed = $1 WHERE acquirer_id = $2 AND dismissed IS NULL`
)

func scanInfraction(r sqldb.Row) (Infraction, error) {
	var f Infraction
	var account, paid, amount, fromPending, debited, openedAt, deadlineAt, resolvedAt, defendedAt, handAt, doubt int64
	var status, handing string
	err := r.Scan(&account, &f.ID, &f.Acquirer, &f.AcquirerID, &f.Charge, &f.ExternalID, &f.EndToEndID, &paid, &amount, &fromPending, &debited,
		&status, &f.Reason, &f.ReasonCode, &openedAt, &deadlineAt, &resolvedAt,
		&f.DefenseText, &f.DefenseEvidenceURL, &defendedAt,
		&handing, &handAt, &f.HandTries, &doubt, &f.HandError)
	f.Account, f.Status, f.Handing, f.handDoubt = id.Account(account), State(status), Handing(handing), doubt == 1
	f.Paid, f.Amount, f.FromPending, f.Debited = money.BRL(paid), money.BRL(amount), money.BRL(fromPending), money.BRL(debited)
	f.OpenedAt, f.DeadlineAt, f.ResolvedAt = moment(openedAt), moment(deadlineAt), moment(resolvedAt)
	f.DefendedAt, f.handAt = moment(defendedAt), moment(handAt)
	return f, err
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

// flag stores a bool.
func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// insert stores a new infraction; when its acquirer's name for it is taken, the transaction fails with errKnown.
func (f *Infraction) insert(ctx context.Context, tx *sqldb.Tx) {
	tx.Guard(ctx, errKnown, insertInfraction, int64(f.Account), f.ID, f.Acquirer, f.AcquirerID, f.Charge, null(f.ExternalID), f.EndToEndID,
		int64(f.Paid), int64(f.Amount), int64(f.FromPending), string(f.Status), null(f.Reason), null(f.ReasonCode),
		f.OpenedAt.UnixMicro(), f.DeadlineAt.UnixMicro())
}

func get(ctx context.Context, q sqldb.Querier, account id.Account, x id.ID) (Infraction, error) {
	return sqldb.One(ctx, q, scanInfraction, selectInfraction, int64(account), x)
}

// Unmatched is an infraction of a payment that was credited to nobody.
type Unmatched struct {
	Acquirer   string
	AcquirerID string
	EndToEndID string
	Amount     money.BRL
	Status     string // where it stood when it was last listed
	OpenedAt   time.Time
	FoundAt    time.Time // business time
	Reason     string
}

const unmatchedMax = 500 // that are listed

// ListUnmatched returns the infractions that were found last and are about no payment of ours.
func ListUnmatched(ctx context.Context, q sqldb.Querier) ([]Unmatched, error) {
	return sqldb.All(ctx, q, func(r sqldb.Row) (u Unmatched, err error) {
		var amount, openedAt, foundAt int64
		err = r.Scan(&u.Acquirer, &u.AcquirerID, &u.EndToEndID, &amount, &u.Status, &openedAt, &foundAt, &u.Reason)
		u.Amount, u.OpenedAt, u.FoundAt = money.BRL(amount), moment(openedAt), moment(foundAt)
		return u, err
	}, listUnmatched, unmatchedMax)
}

// ErrNoUnmatched is returned for an infraction that does not wait to be looked at.
var ErrNoUnmatched = fault.New(fault.NotFound, "", "no such infraction waits to be looked at")

// DismissUnmatched notes why nothing more is to be done about an infraction of a payment that was credited to nobody. It is
// named as its acquirer names it. Once the payment is matched the infraction is followed all the same.
func DismissUnmatched(ctx context.Context, db *sqldb.DB, ids *id.Generator, acquirerID, why string) error {
	return oplog.Dismiss(ctx, db, oplog.Begin(ctx, ids, oplog.Entry{Action: oplog.InfractionDismiss, Subject: acquirerID, Reason: why}),
		ErrNoUnmatched, dismissUnmatched, why, acquirerID)
}

// Latest returns the infractions of all accounts below an identifier, or from the latest on for the zero one, the latest
// first: at most limit, of one state or, for "", of any.
func Latest(ctx context.Context, q sqldb.Querier, status State, border id.ID, limit int) ([]Infraction, error) {
	if border.IsZero() {
		border = id.Max
	}
	return sqldb.All(ctx, q, scanInfraction, findLatest, border, string(status), min(limit, latestMax))
}

const latestMax = 200 // infractions of one page

// Concern is what operators must look at.
type Concern struct {
	Unmatched int64 // infractions of payments that were credited to nobody
	Waiting   int64 // defenses that their acquirer has not taken for a while
	Refused   int64 // defenses that came too late, or where another was
}

const (
	waitingMin = time.Minute // after which a defense that waits is worth a look; business time
	countedMax = 100_000     // defenses
)

// CountConcerns counts what operators must look at.
func CountConcerns(ctx context.Context, q sqldb.Querier, now time.Time) (Concern, error) {
	c, err := sqldb.One(ctx, q, func(r sqldb.Row) (c Concern, err error) {
		err = r.Scan(&c.Waiting, &c.Refused)
		return c, err
	}, countDefenses, now.Add(-waitingMin).UnixMicro(), countedMax)
	if err != nil {
		return c, err
	}
	c.Unmatched, err = sqldb.One(ctx, q, sqldb.Scalar[int64], countUnmatched)
	return c, err
}
