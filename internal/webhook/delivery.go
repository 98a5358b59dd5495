package webhook

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/event"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/oplog"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// State is where a delivery stands.
type State string

const (
	Waiting   State = "waiting"   // for its first or its next attempt
	Delivered State = "delivered" // the receiver answered 2xx
	Parked    State = "parked"    // all attempts failed; it stays until somebody has it delivered again
	Cancelled State = "cancelled" // its endpoint was deleted
)

// Delivery is an event on its way to one endpoint.
type Delivery struct {
	Endpoint id.ID
	URL      string // of the endpoint
	Status   Status // of the endpoint
	State    State
	DueAt    time.Time // of the next attempt, while it waits
	Attempts []Attempt
}

// Attempt is one sending of an event.
type Attempt struct {
	Number   int64
	At       time.Time     // business time
	Took     time.Duration // real time
	Status   int           // 0 for no answer
	Error    string        // "" when there was one
	Response []byte        // its beginning

	Signature string // as it was sent; "" where nothing was, or before it was kept
}

// Sent returns the message that an attempt sent. Its body is the event's, byte for byte.
func (d *Delivery) Sent(e *event.Event, a *Attempt) Message {
	return Message{URL: d.URL, Event: e.ID, Type: e.Type, Body: e.Body(), Attempt: a.Number, Signature: a.Signature}
}

const attemptsMax = 1000 // shown of an event

// ErrNoEvent is returned for an event that does not exist.
var ErrNoEvent = fault.New(fault.NotFound, "", "there is no such event")

// Deliveries returns what became of an event at each endpoint, with every attempt.
func (s *Service) Deliveries(ctx context.Context, owner id.Account, x id.ID) ([]Delivery, error) {
	rows, err := sqldb.All(ctx, s.DB, scanRow, listDeliveries, int64(owner), x, EndpointsMax*2)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	type logged struct {
		endpoint id.ID
		Attempt
	}
	attempts, err := sqldb.All(ctx, s.DB, func(r sqldb.Row) (l logged, err error) {
		l.endpoint, l.Attempt, err = scanAttempt(r)
		return l, err
	}, listAttempts, int64(owner), x, attemptsMax)
	if err != nil {
		return nil, err
	}
	var list []Delivery
	for _, d := range rows {
		e, err := getEndpoint(ctx, s.DB, owner, d.endpoint)
		if err != nil {
			return nil, err
		}
		one := Delivery{Endpoint: d.endpoint, URL: e.URL, Status: e.Status, State: d.state, DueAt: d.dueAt}
		for _, a := range attempts {
			if a.endpoint == d.endpoint {
				one.Attempts = append(one.Attempts, a.Attempt)
			}
		}
		list = append(list, one)
	}
	return list, nil
}

// States returns how an event stands at each endpoint that is told of it.
func (s *Service) States(ctx context.Context, owner id.Account, x id.ID) ([]State, error) {
	rows, err := sqldb.All(ctx, s.DB, scanRow, listDeliveries, int64(owner), x, EndpointsMax*2)
	states := make([]State, len(rows))
	for i, d := range rows {
		states[i] = d.state
	}
	return states, err
}

// GetEvent looks for an event in one account after the other: an operator does not have to know whose it is.
func (s *Service) GetEvent(ctx context.Context, public string) (event.Event, error) {
	x, err := event.Prefix.Parse(public)
	if err != nil {
		return event.Event{}, ErrNoEvent
	}
	var after id.Account
	for {
		accounts, err := s.Accounts.List(ctx, after, account.ListMax)
		if err != nil {
			return event.Event{}, err
		}
		if len(accounts) == 0 {
			return event.Event{}, ErrNoEvent
		}
		for _, a := range accounts {
			after = a.ID
			e, err := event.Get(ctx, s.DB, a.ID, x)
			if !errors.Is(err, sqldb.ErrNoRows) {
				return e, err
			}
		}
	}
}

// dueAtOnce is when an event is due that somebody sends again by hand: before all that waits, however much that is. A range
// of them stands in line.
const dueAtOnce = int64(0)

// errNobody says that an event was never meant for anybody.
var errNobody = fault.New(fault.Conflict, "event_without_delivery", "no endpoint was to be told of this event: name one with --endpoint")

// Redeliver has an event sent again, as it was, to all who were to be told of it, or to one endpoint of its account, also
// one that was not. It returns how many are to be sent; one that is under way is not counted.
func (s *Service) Redeliver(ctx context.Context, e event.Event, endpoint string) (int, error) {
	entry := oplog.Begin(ctx, s.IDs, oplog.Entry{Action: oplog.EventRedeliver, Account: e.Account, Subject: event.Prefix.Format(e.ID)})
	if endpoint == "" {
		rows, err := sqldb.All(ctx, s.DB, scanRow, listDeliveries, int64(e.Account), e.ID, EndpointsMax*2)
		if err != nil {
			return 0, err
		}
		if len(rows) == 0 {
			return 0, errNobody
		}
		return s.redeliver(ctx, e.Account, rows, dueAtOnce, entry)
	}
	to, err := s.GetOf(ctx, e.Account, endpoint)
	if err == nil && to.Status != Active {
		err = errNotActive
	}
	if err != nil {
		return 0, err
	}
	one := row{key: key{e.Account, e.ID, to.ID}}
	err = s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.Queue(ctx, insertRedelivery, int64(one.account), one.event, one.endpoint, int64(to.lane()), dueAtOnce)
		return nil
	})
	if err != nil {
		return 0, err
	}
	return s.redeliver(ctx, e.Account, []row{one}, dueAtOnce, entry)
}

// Range says which events are sent again.
type Range struct {
	Since, Until time.Time // business time; Until is not part of it
	Failed       bool      // only deliveries whose last attempt failed
	Endpoint     id.ID     // only this one's; zero for all
	EventsMax    int       // how many are looked at; 0 for all
}

// Redelivered is what came of a [Range].
type Redelivered struct {
	Deliveries int       // to be made again
	Next       time.Time // where to go on, when EventsMax came before the end; else zero
}

const (
	rangeSlice = 200 // events looked at in one go
	rangeMax   = 366 * 24 * time.Hour
)

// RedeliverRange has the events of a time sent again.
func (s *Service) RedeliverRange(ctx context.Context, owner id.Account, r Range) (done Redelivered, err error) {
	if !r.Since.Before(r.Until) || r.Until.Sub(r.Since) > rangeMax {
		return done, invalid("until", "range_wrong", fmt.Sprintf("must be after since, and at most %d days", rangeMax/(24*time.Hour)))
	}
	// Once for all slices, before the first.
	entry := oplog.Begin(ctx, s.IDs, oplog.Entry{
		Action: oplog.EventRedeliver, Account: owner, Subject: owner.String(), After: oplog.Fields{
			"since": r.Since.Format(time.RFC3339), "until": r.Until.Format(time.RFC3339), "failed": strconv.FormatBool(r.Failed),
		},
	})
	if err := s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error { entry.Write(ctx, tx); return nil }); err != nil {
		return done, err
	}
	after, end := id.First(r.Since), id.First(r.Until)
	for looked := 0; ; looked += rangeSlice {
		ids, err := sqldb.All(ctx, s.DB, sqldb.Scalar[id.ID], listBetween, int64(owner), after, end, rangeSlice)
		if err != nil || len(ids) == 0 {
			return done, err
		}
		if r.EventsMax > 0 && looked >= r.EventsMax {
			done.Next = ids[0].Time()
			return done, nil
		}
		after = ids[len(ids)-1]
		var rows []row
		for _, x := range ids {
			of, err := sqldb.All(ctx, s.DB, scanRow, listDeliveries, int64(owner), x, EndpointsMax*2)
			if err != nil {
				return done, err
			}
			rows = append(rows, slices.DeleteFunc(of, func(d row) bool {
				failed := d.state == Parked || (d.state == Waiting && d.attempt > 0)
				return (r.Failed && !failed) || (!r.Endpoint.IsZero() && d.endpoint != r.Endpoint)
			})...)
		}
		n, err := s.redeliver(ctx, owner, rows, s.Clock.Now().UnixMicro(), nil)
		done.Deliveries += n
		if err != nil {
			return done, err
		}
	}
}

// redeliver makes deliveries due, those of active endpoints. Their attempts are counted on. The entry is nil where it is
// written already.
func (s *Service) redeliver(ctx context.Context, owner id.Account, rows []row, due int64, entry *oplog.Entry) (count int, err error) {
	lanes := map[id.ID]*Endpoint{}
	for _, d := range rows {
		if lanes[d.endpoint] == nil {
			e, err := getEndpoint(ctx, s.DB, owner, d.endpoint)
			if err != nil {
				return 0, err
			}
			lanes[d.endpoint] = e
		}
	}
	err = s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		count = 0
		for _, d := range rows {
			e := lanes[d.endpoint]
			if e.Status != Active {
				continue
			}
			n, err := tx.Exec(ctx, redeliver, due, int64(e.lane()), int64(owner), d.event, d.endpoint)
			if err != nil {
				return err
			}
			count += int(n)
		}
		if entry != nil {
			entry.After = oplog.Fields{"deliveries": strconv.Itoa(count)}
			entry.Write(ctx, tx)
		}
		return nil
	})
	return count, err
}

const parkedShown = 10_000 // counted at most

// CountParked returns how many deliveries have failed for good, up to ten thousand.
func (s *Service) CountParked(ctx context.Context) (int, error) {
	rows, err := sqldb.All(ctx, s.DB, func(r sqldb.Row) (struct{}, error) {
		var account int64
		var event id.ID
		return struct{}{}, r.Scan(&account, &event)
	}, findParked, parkedShown)
	return len(rows), err
}

// ParkedDelivery is a delivery that has failed for good.
type ParkedDelivery struct {
	Account  id.Account
	Event    id.ID
	Endpoint *Endpoint
	Last     Attempt // the zero Attempt when it is no longer kept
}

const parkedPageMax = 100

// ListParked returns deliveries of all accounts that have failed for good, behind the last one that was seen, or from the first
// on for nil: at most limit, and never more than a hundred. An account's are in the order of their events.
func (s *Service) ListParked(ctx context.Context, after *ParkedDelivery, limit int) ([]ParkedDelivery, error) {
	var border key
	if after != nil {
		border = key{after.Account, after.Event, after.Endpoint.ID}
	}
	rows, err := sqldb.All(ctx, s.DB, scanRow, findParkedAfter, int64(border.account), lowest(border.event), lowest(border.endpoint), min(limit, parkedPageMax))
	if err != nil {
		return nil, err
	}
	var list []ParkedDelivery
	for _, d := range rows {
		one := ParkedDelivery{Account: d.account, Event: d.event}
		if one.Endpoint, err = getEndpoint(ctx, s.DB, d.account, d.endpoint); err != nil {
			return nil, err
		}
		last, err := sqldb.All(ctx, s.DB, func(r sqldb.Row) (a Attempt, err error) {
			_, a, err = scanAttempt(r)
			return a, err
		}, selectLastAttempt, int64(d.account), d.event, d.endpoint)
		if err != nil {
			return nil, err
		}
		for _, a := range last {
			one.Last = a
		}
		list = append(list, one)
	}
	return list, nil
}

// lowest returns x, or what is below every identifier for none: NULL would compare as neither.
func lowest(x id.ID) id.ID {
	if x.IsZero() {
		return id.First(time.UnixMicro(0))
	}
	return x
}

// Lag returns how late the delivery is that has waited longest, of endpoints that keep up.
func (s *Service) Lag(ctx context.Context) (time.Duration, error) {
	due, err := sqldb.One(ctx, s.DB, sqldb.Scalar[int64], findOldestWaiting, int64(laneCommon))
	if errors.Is(err, sqldb.ErrNoRows) {
		return s.lines.oldest(), nil
	}
	return max(s.lines.oldest(), s.Clock.Now().Sub(moment(due))), err
}
