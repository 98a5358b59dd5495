package webhook

import (
	"context"

	"github.com/ponte-pay/ponte/internal/event"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/node"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// freshWithin is how lately this node must have shown that it lives to take deliveries in hand or to begin an attempt.
// With the time-out of an attempt it stays below what others wait before they take a dead node's deliveries over.
const freshWithin = node.DeadAfter / 2

// canOwn reports whether this process may have deliveries in hand.
func (s *Service) canOwn() bool { return s.Node != nil && s.Node.IsFresh(freshWithin) }

// Fan writes the deliveries of an event in the transaction that writes it. Those that there is room for are born in this
// process's hand and sent as soon as the transaction is durable; the others are found like what a retry makes due.
func (s *Service) Fan(ctx context.Context, tx *sqldb.Tx, e *event.Event) error {
	targets, err := s.directory.targets(e)
	if err == nil && len(targets) > 0 {
		s.fan(ctx, tx, e, targets)
	}
	return err
}

// fan writes deliveries to some endpoints.
func (s *Service) fan(ctx context.Context, tx *sqldb.Tx, e *event.Event, targets []*Endpoint) {
	var lapses int64
	if s.Node != nil {
		lapses = s.Node.Lapses() // before it is asked whether it may own, and long before COMMIT
	}
	mayOwn := s.canOwn()
	var born []*Endpoint
	for _, endpoint := range targets {
		var owner id.ID
		if mayOwn && s.lines.room(endpoint) > 0 {
			owner = s.Node.Boot()
			born = append(born, endpoint)
		}
		tx.Queue(ctx, insertDelivery, int64(e.Account), e.ID, endpoint.ID, int64(endpoint.lane()), e.CreatedAt().UnixMicro(), owner)
	}
	if len(born) == 0 {
		return
	}
	body := e.Body()
	tx.AfterCommit(func() {
		now := s.Clock.Real()
		for _, endpoint := range born {
			s.lines.add(endpoint, &job{
				key: key{e.Account, e.ID, endpoint.ID}, kind: e.Type, body: body, lapses: lapses, since: now,
			})
		}
	})
}
