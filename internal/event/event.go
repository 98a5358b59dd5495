// Package event keeps what happened, in the transaction in which it happened: an event exists exactly when its transition
// does, its deliveries exist exactly when it does, and whoever reads the feed misses none.
package event

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// Type names what happened.
type Type string

// Types that are written and delivered.
const (
	ChargeCreated Type = "charge.created" // a Pix charge exists
	ChargePaid    Type = "charge.paid"    // its payment is confirmed

	PayoutCreated   Type = "payout.created"   // a Pix payout was accepted and its money held
	PayoutCompleted Type = "payout.completed" // its settlement is confirmed
	PayoutFailed    Type = "payout.failed"    // it failed before settlement

	CryptoChargeCreated    Type = "crypto.charge.created"    // a crypto charge has its address
	CryptoChargeConfirming Type = "crypto.charge.confirming" // a deposit was seen
	CryptoChargePaid       Type = "crypto.charge.paid"       // the deposit is confirmed
	CryptoChargeFailed     Type = "crypto.charge.failed"     // the deposit failed
	CryptoChargeExpired    Type = "crypto.charge.expired"    // no deposit came in time

	CryptoPayoutProcessing Type = "crypto.payout.processing" // a crypto payout was accepted and its money held
	CryptoPayoutCompleted  Type = "crypto.payout.completed"  // it is on the chain
	CryptoPayoutFailed     Type = "crypto.payout.failed"     // it failed
)

// Test is written when somebody tries an endpoint by hand. Nothing happened then: no endpoint asks for it, and only the
// one that is tried is told.
const Test Type = "webhook.test"

// Types that an endpoint may ask for and that nothing writes yet.
const (
	chargeExpired    Type = "charge.expired"    // its time passed unpaid
	chargeRefunded   Type = "charge.refunded"   // its money was given back
	chargeFailed     Type = "charge.failed"     // it was refused before it had a QR code
	payoutProcessing Type = "payout.processing" // it was handed to the network
	payoutReversed   Type = "payout.reversed"   // it came back after settlement
	medOpened        Type = "med.opened"        // an infraction was opened
	medUpdated       Type = "med.updated"       // it moved
	medResolved      Type = "med.resolved"      // it was accepted, rejected or cancelled
)

// Types are all that an endpoint may ask for, in the order in which people read them.
var Types = []Type{
	ChargeCreated, ChargePaid, PayoutCreated, PayoutCompleted, PayoutFailed,
	CryptoChargeCreated, CryptoChargeConfirming, CryptoChargePaid, CryptoChargeFailed, CryptoChargeExpired,
	CryptoPayoutProcessing, CryptoPayoutCompleted, CryptoPayoutFailed,
	chargeExpired, chargeRefunded, chargeFailed, payoutProcessing, payoutReversed, medOpened, medUpdated, medResolved,
}

// Written are those of the types that events have today.
var Written = append(slices.Clone(Types[:slices.Index(Types, CryptoPayoutFailed)+1]), Test)

// IsKnown reports whether an endpoint may ask for t.
func (t Type) IsKnown() bool { return slices.Contains(Types, t) }

// IsWritten reports whether events of the type exist today.
func (t Type) IsWritten() bool { return slices.Contains(Written, t) }

// Event is one thing that happened.
type Event struct {
	Account  id.Account
	ID       id.ID // tells when
	Type     Type
	Ref      id.ID  // the thing it happened to; a thing has at most one event of a type
	Data     []byte // the resource as the API showed it then, JSON; kept and sent byte for byte
	Postback string // an endpoint's URL that is told in any case; "" for none. It is not kept
}

// Prefix of an event's identifier.
const Prefix = id.Event

// Body returns the event as receivers see it. It is made of what is stored and of nothing else, so that it is the same
// bytes every time.
func (e *Event) Body() []byte {
	b := make([]byte, 0, len(e.Data)+128)
	b = append(b, `{"id":"`...)
	b = append(b, Prefix.Format(e.ID)...)
	b = append(b, `","type":"`...)
	b = append(b, e.Type...)
	b = append(b, `","created_at":"`...)
	b = append(b, clock.Timestamp(e.CreatedAt())...)
	b = append(b, `","data":`...)
	b = append(b, e.Data...)
	return append(b, '}')
}

// CreatedAt returns when it happened.
func (e *Event) CreatedAt() time.Time { return e.ID.Time().UTC() }

// Fanout makes the deliveries of an event in the transaction that writes it.
type Fanout interface {
	Fan(ctx context.Context, tx *sqldb.Tx, e *Event) error
}

// Log is where events are written. Use cases hold one.
type Log struct{ fanout Fanout }

// NewLog returns a log whose events are delivered by fanout; nil delivers nothing.
func NewLog(fanout Fanout) *Log { return &Log{fanout} }

// Write stores an event and its deliveries in the transition's own transaction, without a round trip of its own. A second
// event of the same type for the same thing fails the transaction with [sqldb.ErrConflict], then or at COMMIT.
func (l *Log) Write(ctx context.Context, tx *sqldb.Tx, e Event) error {
	if e.Ref.IsZero() || e.ID.IsZero() || (!e.Type.IsKnown() && e.Type != Test) {
		return fmt.Errorf("event: %s %q of nothing", Prefix.Format(e.ID), e.Type)
	}
	tx.Queue(ctx, insertEvent, int64(e.Account), e.ID, string(e.Type), e.Data, e.Ref)
	if l.fanout == nil {
		return nil
	}
	return l.fanout.Fan(ctx, tx, &e)
}

const (
	listSince   = `SELECT account_id, id, type, data FROM event WHERE account_id = $1 AND id > $2 ORDER BY id LIMIT $3`
	insertEvent = `INSERT INTO event (account_id, id, type, data, ref) VALUES ($1, $2, $3, $4, $5)`
	// By type, which the index has: in the order of time SQLite would read all events of the account.
	listEventsOf = `SELECT account_id, id, type, data FROM event WHERE account_id = $1 AND ref = $2 ORDER BY type LIMIT $3`
	selectEvent  = `SELECT account_id, id, type, data FROM event WHERE account_id = $1 AND id = $2`

	listLatest = `SELECT account_id, id, type, data FROM event WHERE account_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3`
	listOfType = `SELECT account_id, id, type, data FROM event
WHERE account_id = $1 AND id < $2 AND id >= $3 AND type = $4 ORDER BY id DESC LIMIT $5`
	selectScanEnd = `SELECT id FROM event WHERE account_id = $1 AND id < $2 ORDER BY id DESC LIMIT 1 OFFSET $3`
)

func scanEvent(r sqldb.Row) (e Event, err error) {
	var account int64
	var kind string
	err = r.Scan(&account, &e.ID, &kind, &e.Data)
	e.Account, e.Type = id.Account(account), Type(kind)
	return e, err
}

// ofMax is how many events a thing has at most: one of each type.
const ofMax = 32

// Of returns what happened to a thing of an account, in the order in which it did.
func Of(ctx context.Context, q sqldb.Querier, account id.Account, ref id.ID) ([]Event, error) {
	list, err := sqldb.All(ctx, q, scanEvent, listEventsOf, int64(account), ref, ofMax)
	slices.SortFunc(list, func(a, b Event) int { return a.ID.Compare(b.ID) })
	return list, err
}

// Get returns an account's event, or [sqldb.ErrNoRows].
func Get(ctx context.Context, q sqldb.Querier, account id.Account, x id.ID) (Event, error) {
	return sqldb.One(ctx, q, scanEvent, selectEvent, int64(account), x)
}

// Since returns the events of an account whose identifiers are above one, at most limit. It is no feed: one that is committed
// later may stand below.
func Since(ctx context.Context, q sqldb.Querier, account id.Account, after id.ID, limit int) ([]Event, error) {
	return sqldb.All(ctx, q, scanEvent, listSince, int64(account), after, limit)
}

// Query says which events of an account are listed, for people who look. Programs read the [Feed].
type Query struct {
	Type   Type  // "" for all
	Before id.ID // only those before it; zero means from the latest on
	Limit  int   // at most so many; never more than [PageMax]
}

// scanMax is how many events are looked at for one page. No index has the type, because every event would pay for it; a
// page of a rare one ends where the looking does.
const scanMax = 5000

// List returns events, the latest first, and behind which one to go on, zero at the end. A page of one type can hold
// fewer than asked for, or none, and still not be the last.
func List(ctx context.Context, q sqldb.Querier, account id.Account, query Query) (list []Event, next id.ID, err error) {
	before, limit := query.Before, min(query.Limit, PageMax)
	if before.IsZero() {
		before = id.Max
	}
	end := lowest
	if query.Type == "" {
		list, err = sqldb.All(ctx, q, scanEvent, listLatest, int64(account), before, limit)
	} else {
		end, err = sqldb.One(ctx, q, sqldb.Scalar[id.ID], selectScanEnd, int64(account), before, scanMax-1)
		if errors.Is(err, sqldb.ErrNoRows) {
			end, err = lowest, nil
		}
		if err == nil {
			list, err = sqldb.All(ctx, q, scanEvent, listOfType, int64(account), before, end, string(query.Type), limit)
		}
	}
	switch {
	case err != nil:
		return nil, id.ID{}, fmt.Errorf("event: list: %w", err)
	case len(list) == limit:
		next = list[limit-1].ID
	case end != lowest:
		next = end
	}
	return list, next, nil
}
