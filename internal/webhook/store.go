package webhook

import (
	"context"
	"time"

	"github.com/ponte-pay/ponte/internal/event"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

const (
	endpointColumns = `account_id, id, url, events, status, secret, next_secret, COALESCE(next_at, 0), pace, settled,
COALESCE(failing_since, 0), version`

	// The row is locked until COMMIT, so that versions become visible in their order and readers of what is above the
	// last one they saw miss none.
	bumpVersion   = `UPDATE bookmark SET number = number + 1 WHERE name = 'endpoints' RETURNING number`
	selectVersion = `SELECT number FROM bookmark WHERE name = 'endpoints'`

	insertEndpoint = `INSERT INTO endpoint (account_id, id, url, events, status, secret, pace, settled, version)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`
	updateEndpoint = `UPDATE endpoint SET status = $1, secret = $2, next_secret = $3, next_at = $4, pace = $5, settled = $6,
failing_since = $7, version = $8, events = $9 WHERE account_id = $10 AND id = $11`
	selectEndpoint = `SELECT ` + endpointColumns + ` FROM endpoint WHERE account_id = $1 AND id = $2`
	lockEndpoint   = `SELECT ` + endpointColumns + ` FROM endpoint WHERE account_id = $1 AND id = $2 FOR NO KEY UPDATE`
	selectByURL    = `SELECT ` + endpointColumns + ` FROM endpoint WHERE account_id = $1 AND url = $2 AND status = 'active' LIMIT 1`
	listEndpoints  = `SELECT ` + endpointColumns + ` FROM endpoint WHERE account_id = $1 AND status <> 'deleted' ORDER BY id LIMIT $2`
	countEndpoints = `SELECT COUNT(*) FROM endpoint WHERE account_id = $1 AND status <> 'deleted'`
	findEndpoint   = `SELECT ` + endpointColumns + ` FROM endpoint WHERE id = $1 LIMIT 1`
	findChanged    = `SELECT ` + endpointColumns + ` FROM endpoint WHERE version > $1 ORDER BY version LIMIT $2`
	insertDelivery = `INSERT INTO delivery (account_id, event_id, endpoint_id, lane, state, attempt, due_at, owner)
VALUES ($1, $2, $3, $4, 'waiting', 0, $5, $6)`
	deliveryColumns = `account_id, event_id, endpoint_id, lane, state, attempt, due_at, owner`
	attemptColumns  = `endpoint_id, number, at, took, status, COALESCE(error, ''), response, COALESCE(signature, '')`

	// Over all accounts: what time makes due, of endpoints that keep up.
	findDue = `SELECT ` + deliveryColumns + ` FROM delivery
WHERE lane = 0 AND state = 'waiting' AND owner IS NULL AND due_at <= $1 ORDER BY due_at LIMIT $2`
	// The same for one endpoint that does not.
	listApart = `SELECT ` + deliveryColumns + ` FROM delivery WHERE account_id = $1 AND endpoint_id = $2 AND lane = 1
AND state = 'waiting' AND owner IS NULL AND due_at <= $3 ORDER BY due_at LIMIT $4`

	claimDelivery = `UPDATE delivery SET owner = $1 WHERE account_id = $2 AND event_id = $3 AND endpoint_id = $4
AND owner IS NULL AND state = 'waiting' AND attempt = $5`
	listClaimed = `SELECT d.event_id, d.endpoint_id, d.attempt, e.type, e.data FROM delivery d
JOIN event e ON e.account_id = d.account_id AND e.id = d.event_id
WHERE d.account_id = $1 AND d.owner = $2 AND d.event_id >= $3 AND d.event_id <= $4 LIMIT $5`

	// Guarded by who has it and by the attempt: what another node took over meanwhile is that one's.
	updateResult = `UPDATE delivery SET state = $1, attempt = $2, due_at = $3, lane = $4, owner = NULL
WHERE account_id = $5 AND event_id = $6 AND endpoint_id = $7 AND owner = $8 AND attempt = $9`
	handBack = `UPDATE delivery SET owner = NULL
WHERE account_id = $1 AND event_id = $2 AND endpoint_id = $3 AND owner = $4 AND attempt = $5`
	insertAttempt = `INSERT INTO delivery_attempt (account_id, event_id, endpoint_id, number, at, took, status, error, response, signature)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`
	// It comes before updateResult and has the same guard, so that the log tells of the attempt that counted.
	insertOwnAttempt = `INSERT INTO delivery_attempt (account_id, event_id, endpoint_id, number, at, took, status, error, response, signature)
SELECT account_id, event_id, endpoint_id, attempt + 1, $6, $7, $8, $9, $10, $11 FROM delivery
WHERE account_id = $1 AND event_id = $2 AND endpoint_id = $3 AND owner = $4 AND attempt = $5
ON CONFLICT (account_id, event_id, endpoint_id, number) DO NOTHING`

	// Over all accounts: who owns deliveries, and which.
	findOwner = `SELECT owner FROM delivery WHERE owner > $1 ORDER BY owner LIMIT 1`
	findOwned = `SELECT ` + deliveryColumns + ` FROM delivery
WHERE owner = $1 AND (account_id, event_id, endpoint_id) > ($2, $3, $4) ORDER BY account_id, event_id, endpoint_id LIMIT $5`

	// What waits in another lane than its endpoint's, to be moved there.
	listMisplaced = `SELECT ` + deliveryColumns + ` FROM delivery WHERE account_id = $1 AND endpoint_id = $2 AND lane = $3
AND state = 'waiting' AND owner IS NULL LIMIT $4`
	moveDelivery = `UPDATE delivery SET lane = $1, state = $2 WHERE account_id = $3 AND event_id = $4 AND endpoint_id = $5
AND state = 'waiting' AND owner IS NULL`

	listDeliveries = `SELECT ` + deliveryColumns + ` FROM delivery WHERE account_id = $1 AND event_id = $2 ORDER BY endpoint_id LIMIT $3`
	listAttempts   = `SELECT ` + attemptColumns + ` FROM delivery_attempt
WHERE account_id = $1 AND event_id = $2 ORDER BY endpoint_id, number LIMIT $3`

	// An endpoint's own, the latest first. What became of the last attempt stands beside it.
	listHistory = `SELECT d.event_id, e.type, d.state, d.attempt, d.due_at, COALESCE(a.at, 0), COALESCE(a.status, 0), COALESCE(a.error, '')
FROM delivery d JOIN event e ON e.account_id = d.account_id AND e.id = d.event_id
LEFT JOIN delivery_attempt a ON a.account_id = d.account_id AND a.event_id = d.event_id AND a.endpoint_id = d.endpoint_id AND a.number = d.attempt
WHERE d.account_id = $1 AND d.event_id < $2 AND d.event_id >= $3 AND d.endpoint_id = $4 AND ($5 = '' OR d.state = $5)
ORDER BY d.event_id DESC LIMIT $6`
	selectHistoryEnd = `SELECT event_id FROM delivery WHERE account_id = $1 AND event_id < $2 ORDER BY event_id DESC LIMIT 1 OFFSET $3`

	// A delivery under way is left alone: it is being made.
	redeliver = `UPDATE delivery SET state = 'waiting', due_at = $1, lane = $2
WHERE account_id = $3 AND event_id = $4 AND endpoint_id = $5 AND owner IS NULL`
	insertRedelivery = `INSERT INTO delivery (account_id, event_id, endpoint_id, lane, state, attempt, due_at)
VALUES ($1, $2, $3, $4, 'waiting', 0, $5) ON CONFLICT (account_id, event_id, endpoint_id) DO NOTHING`
	listBetween = `SELECT id FROM event WHERE account_id = $1 AND id > $2 AND id < $3 ORDER BY id LIMIT $4`

	raisePruned     = `UPDATE bookmark SET id = $1 WHERE name = 'events' AND id < $1`
	selectPruned    = `SELECT id FROM bookmark WHERE name = 'events'`
	selectSliceEnd  = `SELECT id FROM event WHERE account_id = $1 AND id > $2 AND id < $3 ORDER BY id LIMIT 1 OFFSET $4`
	existsEvent     = `SELECT EXISTS (SELECT 1 FROM event WHERE account_id = $1 AND id > $2 AND id <= $3)`
	isKept          = ` IN (SELECT d.event_id FROM delivery d WHERE d.account_id = $1 AND d.event_id > $2 AND d.event_id <= $3 AND d.state IN ('waiting', 'parked'))`
	pruneEvents     = `DELETE FROM event WHERE account_id = $1 AND id > $2 AND id <= $3 AND id NOT` + isKept
	prunePlaces     = `DELETE FROM feed_place WHERE account_id = $1 AND event_id > $2 AND event_id <= $3 AND event_id NOT` + isKept
	pruneAttempts   = `DELETE FROM delivery_attempt WHERE account_id = $1 AND event_id > $2 AND event_id <= $3 AND event_id NOT` + isKept
	pruneDeliveries = `DELETE FROM delivery WHERE account_id = $1 AND event_id > $2 AND event_id <= $3 AND state IN ('delivered', 'cancelled') AND event_id NOT` + isKept
	findParked      = `SELECT account_id, event_id FROM delivery WHERE state = 'parked' LIMIT $1`
	findParkedAfter = `SELECT ` + deliveryColumns + ` FROM delivery
WHERE state = 'parked' AND (account_id, event_id, endpoint_id) > ($1, $2, $3) ORDER BY account_id, event_id, endpoint_id LIMIT $4`
	selectLastAttempt = `SELECT ` + attemptColumns + ` FROM delivery_attempt
WHERE account_id = $1 AND event_id = $2 AND endpoint_id = $3 ORDER BY number DESC LIMIT 1`
	findOldestWaiting = `SELECT due_at FROM delivery WHERE lane = $1 AND state = 'waiting' AND owner IS NULL AND due_at > 0 ORDER BY due_at LIMIT 1`

	selectSealKey = `SELECT content FROM seal_key WHERE name = 'default'`
	insertSealKey = `INSERT INTO seal_key (name, content) VALUES ('default', $1) ON CONFLICT (name) DO NOTHING`
)

func scanEndpoint(r sqldb.Row) (*Endpoint, error) {
	e := new(Endpoint)
	var account, nextAt, failingSince, at int64
	var events, status string
	err := r.Scan(&account, &e.ID, &e.URL, &events, &status, &e.secret, &e.nextSecret, &nextAt, &at, &e.settled, &failingSince, &e.version)
	if err != nil {
		return nil, err
	}
	e.Account, e.Status, e.pace = id.Account(account), Status(status), pace(at)
	e.NextAt, e.FailingSince = moment(nextAt), moment(failingSince)
	e.Events, err = ParseEvents(events)
	return e, err
}

// store writes everything that can change.
func (e *Endpoint) store(ctx context.Context, tx *sqldb.Tx) {
	tx.Queue(ctx, updateEndpoint, string(e.Status), e.secret, blob(e.nextSecret), stored(e.NextAt), int64(e.pace), e.settled,
		stored(e.FailingSince), e.version, FormatEvents(e.Events), int64(e.Account), e.ID)
}

func (e *Endpoint) insert(ctx context.Context, tx *sqldb.Tx) {
	tx.Queue(ctx, insertEndpoint, int64(e.Account), e.ID, e.URL, FormatEvents(e.Events), string(e.Status), e.secret, int64(e.pace), e.settled, e.version)
}

func getEndpoint(ctx context.Context, q sqldb.Querier, account id.Account, x id.ID) (*Endpoint, error) {
	return sqldb.One(ctx, q, scanEndpoint, selectEndpoint, int64(account), x)
}

// row is a delivery as it is stored.
type row struct {
	key
	lane    lane
	state   State
	attempt int64
	dueAt   time.Time
	owner   id.ID // zero for none
}

func scanRow(r sqldb.Row) (d row, err error) {
	var account, at, due int64
	var state string
	err = r.Scan(&account, &d.event, &d.endpoint, &at, &state, &d.attempt, &due, &d.owner)
	d.account, d.lane, d.state, d.dueAt = id.Account(account), lane(at), State(state), moment(due)
	return d, err
}

func scanAttempt(r sqldb.Row) (endpoint id.ID, a Attempt, err error) {
	var at, took, status int64
	err = r.Scan(&endpoint, &a.Number, &at, &took, &status, &a.Error, &a.Response, &a.Signature)
	a.At, a.Took, a.Status = moment(at), time.Duration(took)*time.Microsecond, int(status)
	return endpoint, a, err
}

// claimed is a delivery that this node has taken, with what it sends.
type claimed struct {
	event.Event
	endpoint id.ID
	attempt  int64
}

func scanClaimed(r sqldb.Row) (c claimed, err error) {
	var kind string
	err = r.Scan(&c.ID, &c.endpoint, &c.attempt, &kind, &c.Data)
	c.Type = event.Type(kind)
	return c, err
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

// blob stores no bytes as NULL.
func blob(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}

// null stores "" as NULL.
func null(s string) any {
	if s == "" {
		return nil
	}
	return s
}
