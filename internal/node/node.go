// Package node keeps a process's place among those that share a database: its sign of life, the moved clock, and whether
// it may serve.
package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// DeadAfter is how long a node may go without a beat before others take it for dead.
const DeadAfter = 10 * time.Second

const (
	beatEvery   = time.Second
	forgetAfter = 24 * time.Hour // dead nodes
	forgetEvery = time.Minute
	skewMax     = 500 * time.Millisecond // between our clock and the database's
	lookTimeMax = 2 * time.Second        // for the database to answer a look
)

// Why a node does not serve.
var (
	ErrStarting = errors.New("starting")
	ErrDraining = errors.New("draining")
	ErrDatabase = errors.New("the database does not answer")
	ErrClock    = errors.New("the clock is off the database's")
)

// Node is this process. All times in it are real, because what it tells is whether processes live.
type Node struct {
	db    *sqldb.DB
	clock *clock.Clock
	boot  id.ID // this start of this process

	beaten  time.Time                 // used by Step alone
	forgot  time.Time                 // also; when dead nodes were last removed
	seen    atomic.Pointer[time.Time] // real time when the last beat that was stored began; nil for none
	lapses  atomic.Int64
	alive   atomic.Int64
	state   atomic.Pointer[error] // why it does not serve; nil when it does
	drained atomic.Bool

	mu      sync.Mutex
	watched map[id.ID]sight // boots of which somebody asked whether they are dead
}

// sight is the last beat of another boot that was seen here. Only that it changes tells that the boot lives: its clock may
// be wrong, or ours.
type sight struct {
	beat  int64     // as it is stored
	since time.Time // real time since when it has been the same
}

// New returns this process's node. It serves once [Node.Step] has seen the database.
func New(db *sqldb.DB, c *clock.Clock, boot id.ID) *Node {
	n := &Node{db: db, clock: c, boot: boot}
	n.alive.Store(1)
	n.set(ErrStarting)
	return n
}

func (n *Node) set(err error) {
	if err == nil {
		n.state.Store(nil)
		return
	}
	n.state.Store(&err)
}

// Ready returns nil when this node may serve, and otherwise why not.
func (n *Node) Ready() error {
	if n.drained.Load() {
		return ErrDraining
	}
	if err := n.state.Load(); err != nil {
		return *err
	}
	return nil
}

// Drain makes the node serve nothing more.
func (n *Node) Drain() { n.drained.Store(true) }

// Alive returns how many nodes share the database, this one included.
func (n *Node) Alive() int { return int(n.alive.Load()) }

// Boot returns what names this start of this process. What it owns is marked with it.
func (n *Node) Boot() id.ID { return n.boot }

// IsFresh reports whether this node has shown within a time that it lives, so that no other can have taken it for dead.
// A SQLite file has one server, of which nobody thinks that.
func (n *Node) IsFresh(within time.Duration) bool {
	if !n.db.IsShared() {
		return true
	}
	seen := n.seen.Load()
	return seen != nil && n.passed(*seen) < within
}

// Lapses counts how often this node was silent for so long that others may have taken it for dead, and have what it
// owned then.
func (n *Node) Lapses() int64 { return n.lapses.Load() }

// passed returns how much time has passed, by whichever says more: the machine's clock, which may have been set, or the
// time that it has run, which does not count its sleep.
func (n *Node) passed(since time.Time) time.Duration {
	now := n.clock.Real()
	return max(now.Sub(since), now.Round(0).Sub(since.Round(0)))
}

// IsDead reports whether another boot has shown no life for a time in which this node has watched it, or has left. No
// clock that somebody sets can make a boot look dead. On SQLite that is every one but this.
func (n *Node) IsDead(ctx context.Context, boot id.ID, after time.Duration) (bool, error) {
	if boot == n.boot {
		return false, nil
	}
	if !n.db.IsShared() {
		return true, nil
	}
	beat, err := sqldb.One(ctx, n.db, sqldb.Scalar[int64], selectBeat, boot)
	isGone := errors.Is(err, sqldb.ErrNoRows)
	if err != nil && !isGone {
		return false, err
	}
	now := n.clock.Real()
	n.mu.Lock()
	defer n.mu.Unlock()
	last, ok := n.watched[boot]
	switch {
	case isGone:
		delete(n.watched, boot)
	case !ok || last.beat != beat:
		if n.watched == nil {
			n.watched = map[id.ID]sight{}
		}
		n.watched[boot] = sight{beat, now}
		return false, nil
	case now.Sub(last.since) <= after:
		return false, nil
	}
	return true, nil
}

// Step looks at the database: whether it answers, what its clock shows, how far business time was moved, who else lives.
// It is run at least twice a second.
func (n *Node) Step(ctx context.Context) (did bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeMax)
	defer cancel()
	if err := n.look(ctx); err != nil {
		if ctx.Err() == nil || errors.Is(ctx.Err(), context.DeadlineExceeded) {
			n.set(fmt.Errorf("%w: %w", ErrDatabase, err))
		}
		return false, err
	}
	if _, err := Skew(ctx, n.db, n.clock); err != nil {
		n.set(err)
		return false, err
	}
	n.set(nil)
	return false, n.forget(ctx)
}

func (n *Node) look(ctx context.Context) error {
	if err := n.db.Ping(ctx); err != nil { // also when it can be read and not be written
		return err
	}
	if err := LoadClock(ctx, n.db, n.clock); err != nil {
		return err
	}
	// A SQLite file has one server, so nobody asks who lives, and an idle one need not write.
	if !n.db.IsShared() {
		return nil
	}
	now := n.clock.Real()
	if now.Sub(n.beaten) >= beatEvery {
		if err := n.beat(ctx, now); err != nil {
			return err
		}
		n.beaten = now
		if last := n.seen.Load(); last != nil && n.passed(*last) > DeadAfter {
			n.lapses.Add(1) // before it is fresh again
		}
		n.seen.Store(&now)
	}
	alive, err := sqldb.One(ctx, n.db, sqldb.Scalar[int64], countAlive, now.Add(-DeadAfter).UnixMicro())
	n.alive.Store(max(1, alive))
	return err
}

func (n *Node) beat(ctx context.Context, now time.Time) error {
	return n.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		// Asked, so that it travels with nobody: who lives must not depend on who else waits.
		_, err := tx.Exec(ctx, upsertBeat, n.boot, now.UnixMicro())
		return err
	})
}

// forget removes nodes that have long been dead. It needs a clock that is right: what is not there counts as dead.
func (n *Node) forget(ctx context.Context) error {
	now := n.clock.Real()
	if !n.db.IsShared() || (!n.forgot.IsZero() && now.Sub(n.forgot) < forgetEvery) {
		return nil
	}
	err := n.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, deleteForgotten, now.Add(-forgetAfter).UnixMicro())
		return err
	})
	if err == nil {
		n.forgot = now
	}
	return err
}

// Skew returns how far our clock is ahead of the database's, as seen half-way through the question. It fails with
// [ErrClock] when that is more than half a second: identifiers would be out of order by that much.
func Skew(ctx context.Context, db *sqldb.DB, c *clock.Clock) (time.Duration, error) {
	asked := c.Real()
	theirs, err := db.Clock(ctx)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrDatabase, err)
	}
	took := c.RealSince(asked)
	skew := asked.Add(took / 2).Sub(theirs)
	// The answer may have been made at any moment of the question, which also waits for a connection.
	if skew.Abs()-took/2 > skewMax {
		return skew, fmt.Errorf("%w by %v", ErrClock, skew.Round(time.Millisecond))
	}
	return skew, nil
}

// Leave takes this node off the list at once, so that the others need not wait for it to be taken for dead.
func (n *Node) Leave(ctx context.Context) error {
	if !n.db.IsShared() {
		return nil
	}
	return n.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.Queue(ctx, deleteNode, n.boot)
		return nil
	})
}

// LoadClock moves c to where business time stands in the database. It comes before the first identifier is made.
func LoadClock(ctx context.Context, db *sqldb.DB, c *clock.Clock) error {
	offset, err := sqldb.One(ctx, db, sqldb.Scalar[int64], selectOffset)
	switch {
	case errors.Is(err, sqldb.ErrNoRows):
		return nil
	case err != nil:
		return err
	}
	c.Raise(time.Duration(offset) * time.Microsecond)
	return nil
}

// StoreClock moves business time in the database, for every process that shares it, and in c. Business time never goes
// back: a smaller offset than the stored one changes nothing.
func StoreClock(ctx context.Context, db *sqldb.DB, c *clock.Clock, offset time.Duration) error {
	err := db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.Queue(ctx, raiseOffset, offset.Microseconds())
		return nil
	})
	if err != nil {
		return err
	}
	return LoadClock(ctx, db, c)
}

const (
	upsertBeat = `INSERT INTO node (boot, beat_at) VALUES ($1, $2)
ON CONFLICT (boot) DO UPDATE SET beat_at = excluded.beat_at`
	selectBeat      = `SELECT beat_at FROM node WHERE boot = $1`
	countAlive      = `SELECT COUNT(*) FROM node WHERE beat_at > $1`
	deleteForgotten = `DELETE FROM node WHERE beat_at < $1`
	deleteNode      = `DELETE FROM node WHERE boot = $1`

	selectOffset = `SELECT offset_us FROM clock WHERE name = 'business'`
	raiseOffset  = `INSERT INTO clock (name, offset_us) VALUES ('business', $1)
ON CONFLICT (name) DO UPDATE SET offset_us = excluded.offset_us WHERE clock.offset_us < excluded.offset_us`
)
