package sqldb

import (
	"context"
	"errors"
	"time"
)

// What the external tests need to see.
var (
	ErrReadOnly = errReadOnly
	ErrRowsOpen = errRowsOpen
	ErrEnded    = errEnded
	ErrText     = errText
)

const ConnectionsMax = connectionsMax

// SetLockTime makes locks age by now.
func (db *DB) SetLockTime(now func() time.Time) { db.locks.now = now }

// LocksInLine returns how many calls wait for the next round trip of the lock session.
func (db *DB) LocksInLine() int {
	s := db.d.(*pgDriver).locks
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting)
}

// SetLockTimeMax bounds the round trips of the lock session.
func (db *DB) SetLockTimeMax(d time.Duration) { db.d.(*pgDriver).locks.timeMax = d }

// CommitFailed commits a transaction although a statement in it has failed, as Write never would.
func (db *DB) CommitFailed(ctx context.Context, sql string) error {
	conn, err := db.d.(*pgDriver).pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	s := &pgSession{conn: conn, begin: beginWrite}
	if _, err := s.exec(ctx, sql, nil); err == nil {
		return errors.New("the statement did not fail")
	}
	return s.commit(ctx)
}

// Closed returns how many connections were closed, of those that serve Read and queries, and on PostgreSQL also Write.
func (db *DB) Closed() int64 {
	switch d := db.d.(type) {
	case *pgDriver:
		return d.pool.Stat().NewConnsCount() - int64(d.pool.Stat().TotalConns())
	case *liteDriver:
		d.readers.mu.Lock()
		defer d.readers.mu.Unlock()
		return d.readers.ended
	}
	return 0
}

// Idle reports whether every connection is back in its pool.
func (db *DB) Idle() bool {
	switch d := db.d.(type) {
	case *pgDriver:
		return d.pool.Stat().AcquiredConns()+d.convoy.pool.Stat().AcquiredConns() == 0
	case *liteDriver:
		return len(d.readers.slots) == 0 && !d.writer.isBusy()
	}
	return false
}

// ConvoyLeadsMax is how many convoys can be under way.
const ConvoyLeadsMax = convoyLeadsMax

// ConvoyInLine returns how many transactions wait to travel.
func (db *DB) ConvoyInLine() int {
	r := &db.d.(*pgDriver).convoy.rides
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.waiting)
}

// LookupLeadsMax is how many trips of reads can be under way.
const LookupLeadsMax = lookupLeadsMax

// LookupsInLine returns how many reads wait to travel.
func (db *DB) LookupsInLine() int {
	r := &db.d.(*pgDriver).reads.rides
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.waiting)
}

// SetLookupTimeMax bounds the trips of reads.
func (db *DB) SetLookupTimeMax(d time.Duration) { db.d.(*pgDriver).reads.timeMax = d }
