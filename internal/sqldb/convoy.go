package sqldb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A transaction of PostgreSQL whose function asked nothing is a list of statements that nobody has sent yet. Those that
// are ready at the same time travel together, as one transaction: BEGIN, COMMIT, the flush of the log and the switches
// between processes are paid once for all of them.
//
// Whoever finds a lead free takes it, with all who wait; whoever finds none waits until a leader is back. When the
// transaction of a convoy fails, for whatever reason, nothing of it has happened, and each of them goes alone, so that
// nobody is told another's failure. When the answer to its COMMIT is lost, all of them are told that.
//
// One that waits for a row would hold up all the others, and the leads are few. So a convoy waits for no row longer than
// convoyLockMax; then it comes apart, and only who has to wait does.
const (
	convoyMax      = 64      // transactions that travel together
	convoyLeadsMax = 2       // convoys under way: one is made up while the log of the other is flushed
	convoyLockMax  = "100ms" // of waiting for a lock
)

// convoy commits sessions together.
type convoy struct {
	pool *pgxpool.Pool // has a connection for each leader, which waits for no lock longer than convoyLockMax

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

// commit makes durable what a session has queued. It gives the session's connection back meanwhile.
func (c *convoy) commit(ctx context.Context, s *pgSession) error {
	if len(s.list) == 0 {
		return nil
	}
	s.release()
	me := &traveler{s, make(chan arrival, 1)}
	c.mu.Lock()
	switch {
	case c.leads < convoyLeadsMax:
		c.leads++
		me.told <- arrival{next: takeLead}
	case len(c.waiting) >= waitingMax:
		c.mu.Unlock()
		return fmt.Errorf("%w: %d writes are waiting", ErrUnavailable, waitingMax)
	default:
		c.waiting = append(c.waiting, me)
	}
	c.mu.Unlock()

	var a arrival
	select {
	case a = <-me.told:
	case <-ctx.Done():
		if c.leave(me) {
			return errNoTurn
		}
		a = <-me.told // its leader has a deadline too
	}
	if a.next == takeLead {
		a = c.lead(ctx, s)
	}
	if a.next == goAlone {
		return s.alone(ctx)
	}
	return a.err
}

// lead takes all who wait along, and then makes the one who has waited longest a leader. It returns what its own session
// does next.
func (c *convoy) lead(ctx context.Context, s *pgSession) (own arrival) {
	defer c.passOn()
	conn, err := c.pool.Acquire(ctx)
	if err != nil {
		return arrival{arrived, pgError(err)}
	}
	defer conn.Release()
	others := c.gather()
	fate := arrival{next: goAlone} // of all, also when this ends by a panic
	defer func() {
		for _, o := range others {
			o.told <- fate
		}
	}()
	all := &pgSession{conn: conn, begin: s.begin, list: s.list}
	if len(others) > 0 {
		all.list = slices.Clone(s.list)
	}
	for _, o := range others {
		all.list = append(all.list, o.list...)
	}
	switch err := all.finish(ctx); {
	case err == nil, errors.Is(err, ErrCommitUnknown):
		fate = arrival{arrived, err}
	case len(others) == 0 && !isLockTimeout(err):
		return arrival{arrived, err} // it is nobody else's
	}
	return fate
}

func isLockTimeout(err error) bool {
	answer, ok := errors.AsType[*pgconn.PgError](err)
	return ok && answer.Code == "55P03"
}

// alone commits a session by itself, and waits for what it must.
func (s *pgSession) alone(ctx context.Context) error {
	if err := s.connect(ctx); err != nil {
		return err
	}
	return s.finish(ctx)
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
