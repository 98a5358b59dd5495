package webhook

import (
	"context"
	"errors"
	"time"

	"github.com/ponte-pay/ponte/internal/event"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// Told is a delivery as an endpoint's log shows it.
type Told struct {
	Event    id.ID
	Type     event.Type
	State    State
	DueAt    time.Time // of the next attempt, while it waits
	Attempts int64     // that were made
	LastAt   time.Time // of the last one; zero for none. Business time
	Status   int       // that it was answered with; 0 for none
	Error    string    // why there was no answer; "" when there was
}

// HistoryQuery says which deliveries of an endpoint are listed.
type HistoryQuery struct {
	State  State // "" for all
	Before id.ID // only those of events before it; zero means from the latest on
	Limit  int
}

// historyScanMax is how many deliveries of an account are looked at for one page. No index has the endpoint of those that
// are done, because every delivery would pay for it; a page of an endpoint that is told little ends where the looking does.
const historyScanMax = 5000

// History returns deliveries of an endpoint, the latest event first, and behind which event to go on, zero at the end. A
// page can hold fewer than asked for, or none, and still not be the last.
func (s *Service) History(ctx context.Context, e *Endpoint, query HistoryQuery) (list []Told, next id.ID, err error) {
	before := query.Before
	if before.IsZero() {
		before = id.Max
	}
	lowest := id.First(time.UnixMicro(0))
	end, err := sqldb.One(ctx, s.DB, sqldb.Scalar[id.ID], selectHistoryEnd, int64(e.Account), before, historyScanMax-1)
	if errors.Is(err, sqldb.ErrNoRows) {
		end, err = lowest, nil
	}
	if err != nil {
		return nil, id.ID{}, err
	}
	list, err = sqldb.All(ctx, s.DB, scanTold, listHistory, int64(e.Account), before, end, e.ID, string(query.State), query.Limit)
	switch {
	case err != nil:
		return nil, id.ID{}, err
	case len(list) == query.Limit:
		next = list[len(list)-1].Event
	case end != lowest:
		next = end
	}
	return list, next, nil
}

func scanTold(r sqldb.Row) (t Told, err error) {
	var kind, state string
	var due, at, status int64
	err = r.Scan(&t.Event, &kind, &state, &t.Attempts, &due, &at, &status, &t.Error)
	t.Type, t.State, t.DueAt, t.LastAt, t.Status = event.Type(kind), State(state), moment(due), moment(at), int(status)
	return t, err
}
