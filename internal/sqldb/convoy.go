package sqldb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// A transaction of PostgreSQL whose function asked nothing is a list of statements that nobody has sent yet. Those that
// are ready at the same time travel together, as one transaction: BEGIN, COMMIT, the flush of the log and the switches
// between processes are paid once for all of them.
//
// Whoever finds a lead free takes it, with all who wait; whoever finds none waits until a leader is back. When the
// transaction of a convoy fails, for whatever reason, nothing of it has happened, and each of them goes alone, so that
// nobody is told another's failure. When the answer to its COMMIT is lost, all of them are told that.
//
// One may wait for a lock while it holds those of the others. So what asks nothing should seldom wait: inserts, and
// updates of rows that have one writer at a time. A debit asks.
const (
	convoyMax      = 64 // transactions that travel together
	convoyLeadsMax = 2  // convoys under way: one is made up while the log of the other is flushed
)

// convoy commits sessions together.
type convoy struct {
	mu      sync.Mutex
	leads   int         // under way
	waiting []*traveler // in order of arrival
}

// traveler is a session that waits for a leader. It has no connection meanwhile, so that others have one.
type traveler struct {
	*pgSession
	told chan arrival // has room for one
}

// arrival is what a traveler is told.
type arrival struct {
	next departure
	err  error // when it has arrived; nil means that it is durable
}

// departure is what a traveler does next.
type departure int

const (
	arrived  departure = iota // nothing: the transaction has ended
	goAlone                   // go by itself: the convoy came to nothing
	takeLead                  // lead the next convoy
)

// commit makes durable what a session has queued.
func (c *convoy) commit(ctx context.Context, s *pgSession) error {
	if len(s.list) == 0 {
		return nil
	}
	c.mu.Lock()
	if c.leads < convoyLeadsMax {
		c.leads++
		c.mu.Unlock()
		return c.lead(ctx, s)
	}
	if len(c.waiting) >= waitingMax {
		c.mu.Unlock()
		return fmt.Errorf("%w: %d writes are waiting", ErrUnavailable, waitingMax)
	}
	me := &traveler{s, make(chan arrival, 1)}
	c.waiting = append(c.waiting, me)
	c.mu.Unlock()
	s.release()

	var a arrival
	select {
	case a = <-me.told:
	case <-ctx.Done():
		if c.leave(me) {
			return errNoTurn
		}
		a = <-me.told // its leader has a deadline too
	}
	if a.next == arrived {
		return a.err
	}
	err := s.connect(ctx)
	switch {
	case err != nil && a.next == takeLead:
		c.passOn()
		return err
	case err != nil:
		return err
	case a.next == takeLead:
		return c.lead(ctx, s)
	}
	return c.alone(ctx, s)
}

// lead commits a session with all who wait, and then makes the one who has waited longest a leader.
func (c *convoy) lead(ctx context.Context, s *pgSession) error {
	defer c.passOn()
	others := c.gather()
	if len(others) == 0 {
		return c.alone(ctx, s)
	}
	all := &pgSession{conn: s.conn, begin: s.begin, list: slices.Clone(s.list)}
	for _, o := range others {
		all.list = append(all.list, o.list...)
	}
	err := c.alone(ctx, all)
	if err == nil || errors.Is(err, ErrCommitUnknown) {
		for _, o := range others {
			o.told <- arrival{arrived, err}
		}
		return err
	}
	for _, o := range others {
		o.told <- arrival{next: goAlone}
	}
	if s.conn.Conn().IsClosed() {
		return err // nothing of it happened, and Write knows what to do about lost connections
	}
	return c.alone(ctx, s)
}

// alone commits a session by itself.
func (c *convoy) alone(ctx context.Context, s *pgSession) error {
	err := s.commit(ctx)
	if err != nil {
		s.rollback(ctx)
	}
	return err
}

// gather takes as many out of the line as may travel together.
func (c *convoy) gather() []*traveler {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(len(c.waiting), convoyMax-1)
	group := slices.Clone(c.waiting[:n])
	c.waiting = slices.Delete(c.waiting, 0, n)
	return group
}

// leave takes me out of the line and reports whether it was still there.
func (c *convoy) leave(me *traveler) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.waiting, me)
	if i < 0 {
		return false
	}
	c.waiting = slices.Delete(c.waiting, i, i+1)
	return true
}

// passOn makes the one who has waited longest a leader.
func (c *convoy) passOn() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) == 0 {
		c.leads--
		return
	}
	c.waiting[0].told <- arrival{next: takeLead}
	c.waiting = slices.Delete(c.waiting, 0, 1)
}
