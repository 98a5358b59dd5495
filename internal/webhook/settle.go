package webhook

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

const (
	moveMax = 1000 // deliveries moved in one transaction
	// settleAfter is for how long deliveries are looked for in wrong lanes after an endpoint has changed: longer than a
	// node may not know of the change, and than the write takes that it then makes.
	settleAfter = 15 * time.Second
)

// moved is since when a version of an endpoint is known here.
type moved struct {
	version int64
	since   time.Time // real time
}

// propose notes that an endpoint should have another pace.
func (s *Service) propose(e *Endpoint, want pace) {
	s.upkeep.mu.Lock()
	defer s.upkeep.mu.Unlock()
	if s.upkeep.paces == nil {
		s.upkeep.paces = map[id.ID]pace{}
	}
	s.upkeep.paces[e.ID] = want
}

// Settle writes what was noticed about endpoints, and brings the deliveries of those that changed into the lanes where
// they belong.
func (s *Service) Settle(ctx context.Context) (did bool, err error) {
	if s.Node == nil {
		return false, nil
	}
	s.upkeep.mu.Lock()
	paces, outcomes := s.upkeep.paces, s.upkeep.outcomes
	s.upkeep.paces, s.upkeep.outcomes = nil, nil
	s.upkeep.mu.Unlock()
	now := s.Clock.Now().Truncate(time.Microsecond)
	for x, want := range paces {
		err = errors.Join(err, s.adjust(ctx, x, func(e *Endpoint) bool {
			if e.Status != Active || e.pace == want {
				return false
			}
			e.settled = e.settled && (e.pace == common) == (want == common) // only another lane needs moving
			e.pace = want
			return true
		}))
	}
	for x, ok := range outcomes {
		err = errors.Join(err, s.adjust(ctx, x, func(e *Endpoint) bool {
			if ok == e.FailingSince.IsZero() {
				return false
			}
			e.FailingSince = now
			if ok {
				e.FailingSince = time.Time{}
			}
			return true
		}))
	}
	if len(paces)+len(outcomes) > 0 {
		_, refreshErr := s.Refresh(ctx)
		err = errors.Join(err, refreshErr)
	}
	if err != nil {
		return false, fmt.Errorf("webhook: settle: %w", err)
	}
	for _, e := range s.directory.busyOnes() {
		if e.settled {
			continue
		}
		more, err := s.settle(ctx, e)
		if err != nil {
			return false, fmt.Errorf("webhook: settle %s: %w", Prefix.Format(e.ID), err)
		}
		did = did || more
	}
	return did, nil
}

// adjust changes an endpoint that this node knows.
func (s *Service) adjust(ctx context.Context, x id.ID, how func(*Endpoint) bool) error {
	e := s.directory.get(x)
	if e == nil {
		return nil
	}
	_, err := s.write(ctx, e, nil, how)
	return err
}

// settle moves some of an endpoint's deliveries to where they belong and reports whether there may be more.
func (s *Service) settle(ctx context.Context, e *Endpoint) (more bool, err error) {
	if e.Status != Active {
		for _, j := range s.lines.giveUp(e.ID) {
			s.results.add(result{job: j, handBack: true})
		}
	}
	n := 0
	err = s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		// As it stands, and under its lock: what it is meanwhile counts.
		e, err := sqldb.One(ctx, tx, scanEndpoint, lockEndpoint, int64(e.Account), e.ID)
		if err != nil {
			return err
		}
		n = 0
		right, state := e.lane(), Waiting
		if e.Status == Deleted {
			state = Cancelled
		}
		for _, wrong := range []lane{laneCommon, laneApart, laneHeld} {
			if wrong == right && state == Waiting {
				continue
			}
			rows, err := sqldb.All(ctx, tx, scanRow, listMisplaced, int64(e.Account), e.ID, int64(wrong), moveMax)
			if err != nil {
				return err
			}
			for _, d := range rows {
				tx.Queue(ctx, moveDelivery, int64(right), string(state), int64(d.account), d.event, d.endpoint)
			}
			n += len(rows)
		}
		return nil
	})
	if err != nil || n > 0 {
		return n > 0, err
	}
	if !s.isQuiet(e) {
		return false, nil
	}
	_, err = s.write(ctx, e, nil, func(now *Endpoint) bool {
		isSame := now.version == e.version
		now.settled = now.settled || isSame
		return isSame
	})
	return false, err
}

// isQuiet reports whether an endpoint has not changed for so long that no node can put its deliveries into a wrong lane.
func (s *Service) isQuiet(e *Endpoint) bool {
	now := s.Clock.Real()
	if s.upkeep.moved == nil {
		s.upkeep.moved = map[id.ID]moved{}
	}
	m, ok := s.upkeep.moved[e.ID]
	if !ok || m.version != e.version {
		s.upkeep.moved[e.ID] = moved{e.version, now}
		return false
	}
	if now.Sub(m.since) < settleAfter {
		return false
	}
	delete(s.upkeep.moved, e.ID)
	return true
}
