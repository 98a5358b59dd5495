package event

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// Feed is an account's events in one order that never changes and skips nothing.
//
// Identifiers alone are no such order: a transaction that took its identifier first may commit last, and a node's clock
// may be behind. So each event gets a place when a reader first finds it, and readers look again at all that is younger
// than overlap. That is exact: a write ends within ten seconds, a node whose clock is off by more than half a second is
// not ready, and business time is never behind real time.
type Feed struct {
	db *sqldb.DB
}

const (
	overlap   = 30 * time.Second // of real time, in which an event may still appear below others
	placesMax = 1000             // events that are given places in one transaction

	// PageMax is the largest page of a feed.
	PageMax = 1000
)

// NewFeed returns the feed of the events in db.
func NewFeed(db *sqldb.DB) *Feed { return &Feed{db} }

// ErrUnknown is returned for an event that the account does not have, or has no longer.
var ErrUnknown = errors.New("event: the account has no such event")

// After returns the events that come after one, at most limit; the zero ID means from the beginning. It fails with
// [ErrUnknown] when that event is not there.
func (f *Feed) After(ctx context.Context, account id.Account, after id.ID, limit int) ([]Event, error) {
	if err := f.place(ctx, account); err != nil {
		return nil, fmt.Errorf("event: give places: %w", err)
	}
	var place int64
	if !after.IsZero() {
		var err error
		place, err = sqldb.One(ctx, f.db, sqldb.Scalar[int64], selectPlace, int64(account), after)
		if errors.Is(err, sqldb.ErrNoRows) {
			return nil, ErrUnknown
		}
		if err != nil {
			return nil, err
		}
	}
	return sqldb.All(ctx, f.db, scanEvent, listFeed, int64(account), place, min(limit, PageMax))
}

// Last returns the account's last event, or the zero ID.
func (f *Feed) Last(ctx context.Context, account id.Account) (id.ID, error) {
	if err := f.place(ctx, account); err != nil {
		return id.ID{}, fmt.Errorf("event: give places: %w", err)
	}
	x, err := sqldb.One(ctx, f.db, sqldb.Scalar[id.ID], selectLastPlace, int64(account))
	if errors.Is(err, sqldb.ErrNoRows) {
		err = nil
	}
	return x, err
}

// place gives a place to every event that has none.
func (f *Feed) place(ctx context.Context, account id.Account) error {
	border, err := sqldb.One(ctx, f.db, sqldb.Scalar[id.ID], selectBorder, int64(account))
	if errors.Is(err, sqldb.ErrNoRows) {
		border, err = lowest, nil
	}
	if err != nil {
		return err
	}
	found, err := sqldb.All(ctx, f.db, sqldb.Scalar[id.ID], listPlaceless, int64(account), border, 1)
	if err != nil || len(found) == 0 {
		return err // the common case writes nothing
	}
	// By the database's clock, to which nodes keep: a reader whose own is ahead would hide for ever what comes below its border.
	began, err := f.db.Clock(ctx)
	if err != nil {
		return err
	}
	from, done := border, false
	for !done {
		err := f.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			next, err := lockFeed(ctx, tx, account)
			if err != nil {
				return err
			}
			// After the lock, in a statement of its own: it sees what others placed while we waited.
			found, err := sqldb.All(ctx, tx, sqldb.Scalar[id.ID], listPlaceless, int64(account), from, placesMax)
			if err != nil {
				return err
			}
			for i, x := range found {
				tx.Queue(ctx, insertPlace, int64(account), next+int64(i), x)
			}
			done = len(found) < placesMax
			if done {
				// All was looked at from the border on. What may still come is younger than this.
				border = id.First(began.Add(-overlap))
			} else {
				from = found[len(found)-1]
			}
			tx.Queue(ctx, updateFeed, next+int64(len(found)), border, int64(account))
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// lowest is below every event.
var lowest = id.First(time.UnixMicro(0))

// lockFeed locks the account's feed, which it makes when there is none, and returns the next place.
func lockFeed(ctx context.Context, tx *sqldb.Tx, account id.Account) (int64, error) {
	tx.Queue(ctx, insertFeed, int64(account), lowest)
	return sqldb.One(ctx, tx, sqldb.Scalar[int64], lockFeedRow, int64(account))
}

const (
	insertFeed  = `INSERT INTO feed (account_id, next, border) VALUES ($1, 1, $2) ON CONFLICT (account_id) DO NOTHING`
	lockFeedRow = `SELECT next FROM feed WHERE account_id = $1 FOR NO KEY UPDATE`
	updateFeed  = `UPDATE feed SET next = $1, border = CASE WHEN border < $2 THEN $2 ELSE border END WHERE account_id = $3`

	selectBorder  = `SELECT border FROM feed WHERE account_id = $1`
	listPlaceless = `SELECT e.id FROM event e WHERE e.account_id = $1 AND e.id > $2
AND NOT EXISTS (SELECT 1 FROM feed_place f WHERE f.account_id = e.account_id AND f.event_id = e.id) ORDER BY e.id LIMIT $3`
	insertPlace = `INSERT INTO feed_place (account_id, place, event_id) VALUES ($1, $2, $3)`

	selectPlace     = `SELECT place FROM feed_place WHERE account_id = $1 AND event_id = $2`
	selectLastPlace = `SELECT event_id FROM feed_place WHERE account_id = $1 ORDER BY place DESC LIMIT 1`

	listFeed = `SELECT e.account_id, e.id, e.type, e.data FROM feed_place f
JOIN event e ON e.account_id = f.account_id AND e.id = f.event_id
WHERE f.account_id = $1 AND f.place > $2 ORDER BY f.place LIMIT $3`
)
