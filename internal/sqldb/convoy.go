package sqldb

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A transaction of PostgreSQL whose function asked nothing is a list of statements that nobody has sent yet. Those that
// are ready at the same time travel together, as one transaction: BEGIN, COMMIT, the flush of the log and the switches
// between processes are paid once for all of them, and statements of one text go as one.
//
// When the transaction of a convoy fails, for whatever reason, nothing of it has happened, and each of them goes alone, so
// that nobody is told another's failure. When the answer to its COMMIT is lost, all of them are told that.
//
// One that waits for a row would hold up all the others, and the leads are few. So a convoy waits for no row longer than
// convoyLockMax; then it comes apart, and only who has to wait does. Those who lock rows that many want have a rank: all
// convoys lock them in that order, so that no two of them wait for each other.
const (
	convoyMax      = 64      // transactions that travel together
	convoyLeadsMax = 2       // convoys under way, see rides
	convoyLockMax  = "100ms" // of waiting for a lock
)

// convoy commits sessions together.
type convoy struct {
	pool  *pgxpool.Pool // has a connection for each leader, which waits for no lock longer than convoyLockMax
	rides rides[*traveler]
	joins joiner
}

func newConvoy(pool *pgxpool.Pool) *convoy {
	return &convoy{pool: pool, rides: rides[*traveler]{leadsMax: convoyLeadsMax, seats: convoyMax}}
}

// traveler is a session that waits for a convoy. It has no connection meanwhile, so that others have one.
type traveler struct {
	*pgSession
	arrived bool  // its transaction has ended; otherwise it goes alone
	err     error // when it has arrived; nil means that it is durable
}

// commit makes durable what a session has queued. It gives the session's connection back meanwhile.
func (c *convoy) commit(ctx context.Context, s *pgSession) error {
	if len(s.list) == 0 {
		return nil
	}
	s.release()
	me := &traveler{pgSession: s}
	if err := c.rides.ride(ctx, me, c.travel); err != nil {
		return err
	}
	if !me.arrived {
		return s.alone(ctx)
	}
	return me.err
}

// travel commits what the leader and all who wait have queued.
func (c *convoy) travel(ctx context.Context, leader *traveler, board func() []*traveler) {
	conn, err := c.pool.Acquire(ctx)
	if err != nil {
		leader.arrived, leader.err = true, pgError(err)
		return
	}
	defer conn.Release()
	group := board()
	slices.SortStableFunc(group, func(a, b *traveler) int { return cmp.Compare(a.rank, b.rank) })
	list := c.joins.join(group, func(sql string) ([]uint32, error) { return describe(ctx, conn.Conn(), sql) })
	all := &pgSession{conn: conn, begin: leader.begin, list: list}
	err = all.finish(ctx)
	isItsOwn := len(group) == 1 && !isLockTimeout(err) && !errors.Is(err, errJoined)
	if err == nil || errors.Is(err, ErrCommitUnknown) || isItsOwn {
		for _, t := range group {
			t.arrived, t.err = true, err
		}
	}
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
