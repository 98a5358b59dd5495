package sqldb

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// LockTimeMax is how long a lock lasts when its holder never gives it back.
const LockTimeMax = 120 * time.Second

// locks are the keys that requests of this process hold.
type locks struct {
	now func() time.Time // real time

	mu   sync.Mutex
	held map[int64]*Lock
}

func newLocks() *locks { return &locks{now: time.Now, held: map[int64]*Lock{}} }

// Lock is a set of keys that no other request holds, in this process or in any other on the same database.
type Lock struct {
	db    *DB
	keys  []int64
	since time.Time // real time
	freed sync.Once
}

// TryLock takes all keys, or none and returns [ErrLocked]. It never waits for a holder.
//
// A lock is no proof against two holders: one whose process lost its connection keeps it here while another process can
// take it. So what it guards also needs a unique index; the lock only saves work and gives a clear answer.
func (db *DB) TryLock(ctx context.Context, keys ...int64) (*Lock, error) {
	return db.tryLock(ctx, nil, keys)
}

// TryLockAsking is TryLock and then a query, which reports whether it returns a row. On PostgreSQL that is one round trip,
// shared with all who ask at the same time, so it must be quick.
func (db *DB) TryLockAsking(ctx context.Context, keys []int64, sql string, args ...any) (l *Lock, found bool, err error) {
	if ctx.Value(inWrite{}) != nil {
		return nil, false, ErrNested
	}
	q := &question{sql: sql, args: args}
	if l, err = db.tryLock(ctx, q, keys); err != nil {
		return nil, false, err
	}
	if !q.answered {
		if err := db.query(ctx, sql, args, func(Row) error { q.found = true; return nil }); err != nil {
			l.Unlock(ctx)
			return nil, false, err
		}
	}
	return l, q.found, nil
}

func (db *DB) tryLock(ctx context.Context, q *question, keys []int64) (*Lock, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	keys = slices.Clone(keys)
	slices.Sort(keys)
	l := &Lock{db: db, keys: slices.Compact(keys), since: db.locks.now()}
	if !db.locks.claim(l) {
		return nil, ErrLocked
	}
	if err := db.d.lock(ctx, l.keys, q); err != nil {
		db.locks.forget(l)
		return nil, err
	}
	return l, nil
}

// Unlock frees the keys. It may be called more than once.
func (l *Lock) Unlock(ctx context.Context) {
	l.freed.Do(func() {
		// Freed there first: as long as no other request of this process can take them, what the session unlocks is what
		// l locked. If it fails, the session is lost and PostgreSQL has freed them.
		_ = l.db.d.unlock(context.WithoutCancel(ctx), l.keys)
		l.db.locks.forget(l)
	})
}

// Tend does what a database needs now and then: it frees locks whose holders kept them for longer than [LockTimeMax], and
// on PostgreSQL sees to new tables.
func (db *DB) Tend(ctx context.Context) error {
	db.releaseStale(ctx)
	return db.d.tend(ctx)
}

func (db *DB) releaseStale(ctx context.Context) {
	db.locks.mu.Lock()
	var stale []*Lock
	for _, l := range db.locks.held {
		if db.locks.now().Sub(l.since) > LockTimeMax {
			stale = append(stale, l) // once for each key; Unlock bears it
		}
	}
	db.locks.mu.Unlock()
	for _, l := range stale {
		l.Unlock(ctx)
	}
}

// claim enters l for all its keys, unless one of them is held.
func (s *locks) claim(l *Lock) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range l.keys {
		if s.held[k] != nil {
			return false
		}
	}
	for _, k := range l.keys {
		s.held[k] = l
	}
	return true
}

func (s *locks) forget(l *Lock) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range l.keys {
		delete(s.held, k)
	}
}

// lockSession is one connection to PostgreSQL that holds the locks of this process, so that they end with it. Requests
// that come while a round trip is under way share the next one.
type lockSession struct {
	config  *pgx.ConnConfig
	timeMax time.Duration // of a round trip

	mu      sync.Mutex
	busy    bool // a caller is in a round trip
	waiting []*lockCall
	closed  bool

	// Used by the caller that is busy.
	conn  *pgx.Conn // nil before the first lock and after a loss
	texts questionTexts
}

type lockCall struct {
	keys []int64
	free bool
	asks *question // once it has the keys; nil for nothing
	lead bool      // on return from done: run the next round trip
	err  error
	done chan struct{}
}

func (s *lockSession) take(ctx context.Context, keys []int64, q *question) error {
	return s.call(ctx, &lockCall{keys: keys, asks: q, done: make(chan struct{}, 1)})
}

func (s *lockSession) free(ctx context.Context, keys []int64) error {
	return s.call(ctx, &lockCall{keys: keys, free: true, done: make(chan struct{}, 1)})
}

const lockRoundMax = 256 // calls that share a round trip

// call takes part in a round trip. It waits for the one under way and for its own; when one fails, so do all who wait.
func (s *lockSession) call(ctx context.Context, me *lockCall) error {
	s.mu.Lock()
	if s.closed {
		defer s.mu.Unlock()
		return failure(ErrUnavailable, net.ErrClosed)
	}
	s.waiting = append(s.waiting, me)
	if s.busy {
		s.mu.Unlock()
		<-me.done
		if !me.lead {
			return me.err
		}
		s.mu.Lock()
	}
	s.busy = true
	round := s.waiting[:min(len(s.waiting), lockRoundMax)]
	s.waiting = s.waiting[len(round):]
	s.mu.Unlock()

	err := s.roundTrip(context.WithoutCancel(ctx), round)

	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		// The session is gone, and with it what they would free.
		round = slices.Concat(round, s.waiting)
		s.waiting = nil
		for _, c := range round {
			c.err = err
		}
	}
	for _, c := range round {
		if c != me {
			c.done <- struct{}{}
		}
	}
	if len(s.waiting) > 0 {
		s.waiting[0].lead = true
		s.waiting[0].done <- struct{}{}
		return me.err
	}
	s.waiting, s.busy = nil, false
	if s.closed {
		s.disconnect(ctx)
	}
	return me.err
}

func (s *lockSession) roundTrip(ctx context.Context, round []*lockCall) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeMax)
	defer cancel()
	err := s.attempt(ctx, round, true)
	if err != nil && s.conn != nil && ctx.Err() == nil {
		// It may have been dead for long, such as after a restart of the database; that is no reason to fail. Nor is a
		// question.
		s.disconnect(ctx)
		err = s.attempt(ctx, round, false)
	}
	if err != nil {
		s.disconnect(ctx) // PostgreSQL frees all that it held
		return failure(ErrUnavailable, err)
	}
	return nil
}

// disconnect is for the caller that is busy, or when none is.
func (s *lockSession) disconnect(ctx context.Context) {
	if s.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = s.conn.Close(ctx)
	s.conn = nil
}

func (s *lockSession) attempt(ctx context.Context, round []*lockCall, asking bool) error {
	if s.conn == nil {
		conn, err := pgx.ConnectConfig(ctx, s.config)
		if err != nil {
			return err
		}
		s.conn = conn
	}
	var take, free []int64
	var questions []*question
	for _, c := range round {
		c.err = nil
		if c.free {
			free = append(free, c.keys...)
			continue
		}
		take = append(take, c.keys...)
		if c.asks != nil {
			c.asks.answered, c.asks.found = false, false
			questions = append(questions, c.asks)
		}
	}
	if !asking {
		questions = nil
	}
	got, err := s.ask(ctx, free, take, questions)
	if err != nil {
		return err
	}
	// All or none: what a call got in part is given back at once.
	var partial []int64
	for _, c := range round {
		if c.free {
			continue
		}
		var own []int64
		for _, k := range c.keys {
			if got[k] {
				own = append(own, k)
			}
		}
		if len(own) < len(c.keys) {
			c.err = ErrLocked
			partial = append(partial, own...)
		}
	}
	if len(partial) > 0 {
		_, err = s.ask(ctx, partial, nil, nil)
	}
	return err
}

// ask frees and then takes keys and then asks questions, in one round trip, and returns which keys it got. Callers of this
// process never ask for a key that another of them holds, so that the session's locks, which count, are held once.
func (s *lockSession) ask(ctx context.Context, free, take []int64, questions []*question) (map[int64]bool, error) {
	var batch pgx.Batch
	if len(free) > 0 {
		batch.Queue(`SELECT pg_advisory_unlock(k) FROM unnest($1::bigint[]) k`, free)
	}
	if len(take) > 0 {
		batch.Queue(`SELECT k, pg_try_advisory_lock(k) FROM unnest($1::bigint[]) k`, take)
	}
	groups := s.texts.queue(ctx, s.conn, &batch, questions)
	results := s.conn.SendBatch(ctx, &batch)
	defer results.Close()
	if len(free) > 0 {
		if _, err := results.Exec(); err != nil {
			return nil, err
		}
	}
	got := make(map[int64]bool, len(take))
	if len(take) > 0 {
		rows, err := results.Query()
		if err != nil {
			return nil, err
		}
		var k int64
		var ok bool
		if _, err := pgx.ForEachRow(rows, []any{&k, &ok}, func() error { got[k] = ok; return nil }); err != nil {
			return nil, err
		}
	}
	// What the session holds does not depend on the questions; those that fail are asked again, each by itself.
	for _, group := range groups {
		if tell(results, group) != nil {
			break
		}
	}
	if err := results.Close(); s.conn.IsClosed() {
		return nil, err
	}
	return got, nil
}

func (s *lockSession) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if !s.busy {
		s.disconnect(context.Background())
	}
}

// Claim makes this process the only server of a SQLite file until it ends; it returns [ErrInUse] when another one is.
// On PostgreSQL it does nothing: servers are equal there.
func (db *DB) Claim() (release func(), err error) {
	if db.IsPostgres() {
		return func() {}, nil
	}
	// One file by whatever name; it exists, because it is open.
	path, err := filepath.EvalSymlinks(db.path)
	if err != nil {
		return nil, fmt.Errorf("sqldb: cannot claim %s: %w", db.path, err)
	}
	// A file of its own: SQLite's own locks on the database are per process, and closing any descriptor of it drops them.
	f, err := os.OpenFile(path+".serving", os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, fmt.Errorf("sqldb: cannot claim %s: %w", db.path, err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, ErrInUse
		}
		return nil, fmt.Errorf("sqldb: cannot claim %s: %w", db.path, err)
	}
	return func() { _ = f.Close() }, nil
}
