// Package sqldb runs one SQL text on SQLite and on PostgreSQL, and tells its callers nothing that is not durable.
//
// Statements are written in the common subset of both dialects, with $1 placeholders. The clauses that only PostgreSQL
// knows, FOR NO KEY UPDATE and FOR UPDATE SKIP LOCKED, are written too and dropped on SQLite, which has one writer and
// therefore nothing to lock.
//
// Both databases behave alike where they would differ: after a failed statement a transaction refuses everything, only
// Write can write, a write is never cancelled half-way, and a COMMIT whose answer was lost is resolved by running the
// same function again.
package sqldb

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ponte-pay/ponte/internal/clock"
)

// Errors that callers act on. Everything else is a defect.
var (
	ErrNoRows        = errors.New("sqldb: no rows")
	ErrConflict      = errors.New("sqldb: unique constraint")
	ErrCheck         = errors.New("sqldb: check constraint")
	ErrAppendOnly    = errors.New("sqldb: the table is append-only")
	ErrUnavailable   = errors.New("sqldb: database unavailable")                 // nothing happened
	ErrCommitUnknown = errors.New("sqldb: lost the answer to COMMIT")            // it may have happened
	ErrNested        = errors.New("sqldb: the DB is used inside Write")          // would wait for itself
	ErrLocked        = errors.New("sqldb: lock is taken")                        // by another request
	ErrInUse         = errors.New("sqldb: another process serves this database") // SQLite has room for one
)

// Errors that only this package acts on, and defects of callers.
var (
	errTransient = errors.New("sqldb: transient failure") // rolled back; Write runs it again
	errReadOnly  = errors.New("sqldb: only Write can write")
	errRowsOpen  = errors.New("sqldb: a statement inside the scan of another")
	errEnded     = errors.New("sqldb: the transaction has ended")
	errText      = errors.New("sqldb: text with a NUL or not in UTF-8") // PostgreSQL refuses it, so SQLite must
	errNoTurn    = fmt.Errorf("%w: waited too long for a turn", ErrUnavailable)
	errNoReader  = fmt.Errorf("%w: the read took too long", ErrUnavailable)
)

const (
	writeTimeMax    = 10 * time.Second // a whole Write with its repetitions
	readTimeMax     = 30 * time.Second // a read whose caller set no deadline
	transientMax    = 10               // repetitions after a deadlock, a serialization failure or a lost connection
	transientWait   = 2 * time.Millisecond
	unknownWait     = 20 * time.Millisecond // between repetitions after a COMMIT without an answer
	unknownWaitMax  = time.Second
	connectionsMax  = 32  // of PostgreSQL unless its address says pool_max_conns, and readers of SQLite
	statementsKept  = 512 // prepared statements a connection
	applicationName = "ponte"
)

// Row is what a scan function reads from.
type Row interface{ Scan(dest ...any) error }

// Querier runs queries: a [DB] runs each on its own, a [Tx] inside its transaction.
type Querier interface {
	query(ctx context.Context, sql string, args []any, each func(Row) error) error
}

// DB is an open database.
type DB struct {
	d      driver
	locks  *locks
	path   string           // of the SQLite file, "" on PostgreSQL
	shared bool             // see IsShared
	now    func() time.Time // instead of the database's clock; nil for that
	sleep  func(ctx context.Context, d time.Duration) bool
}

// driver is what the two databases do differently.
type driver interface {
	// write runs f once in a transaction on ctx and commits it. It waits for its turn no longer than start.
	write(start, ctx context.Context, tx *Tx, f func(context.Context, *Tx) error) error
	// read runs f once in a read-only transaction that sees one moment.
	read(ctx context.Context, tx *Tx, f func(context.Context, *Tx) error) error
	// query runs one SELECT outside any transaction.
	query(ctx context.Context, sql string, args []any, each func(Row) error) error
	// detach returns the context that a write runs on: it cannot be cancelled from outside.
	detach(ctx context.Context, deadline time.Time) (context.Context, context.CancelFunc)
	// lock and unlock take and free keys against other processes. With the keys comes the answer to a question, unless that
	// is nil or has to be asked by itself.
	lock(ctx context.Context, keys []int64, q *question) error
	unlock(ctx context.Context, keys []int64) error
	// tend does what the database needs now and then.
	tend(ctx context.Context) error
	// down returns why nothing can be written any more, or nil.
	down() error
	// broken is closed when nothing can be written until the database is opened again; nil where that cannot happen.
	broken() <-chan struct{}
	// apart returns the same with connections that others do not use up.
	apart() driver
	close()
}

// session is a transaction under way on one of the databases.
type session interface {
	// queue runs a statement now or together with the next one; its error may come with that one.
	// Unless otherwise is nil, the transaction fails with a [refusal] when the statement changes no row.
	queue(ctx context.Context, sql string, args []any, otherwise error) error
	exec(ctx context.Context, sql string, args []any) (int64, error)
	query(ctx context.Context, sql string, args []any, each func(Row) error) error
	script(ctx context.Context, sql string) error
}

// Open opens sqlite:PATH or postgres://... . The SQLite file is created when its folder exists; PostgreSQL must answer.
func Open(ctx context.Context, url string) (*DB, error) {
	switch path, isLite := strings.CutPrefix(url, "sqlite:"); {
	case isLite && path != "":
		d, err := openLite(ctx, path)
		if err != nil {
			return nil, err
		}
		return &DB{d: d, path: path, locks: newLocks(), sleep: sleep}, nil
	case strings.HasPrefix(url, "postgres://"), strings.HasPrefix(url, "postgresql://"):
		d, err := openPostgres(ctx, url)
		if err != nil {
			return nil, err
		}
		return &DB{d: d, locks: newLocks(), shared: true, sleep: sleep}, nil
	}
	return nil, errors.New("sqldb: a database is sqlite:PATH or postgres://USER@HOST/NAME")
}

// Apart returns the same database for what must not wait until others have ended: whether this node lives must not depend
// on who waits for which row. It ends with db.
func (db *DB) Apart() *DB {
	apart := *db
	apart.d = db.d.apart()
	return &apart
}

// IsPostgres reports whether this is PostgreSQL.
func (db *DB) IsPostgres() bool { return db.path == "" }

// IsShared reports whether several processes may serve this database, as they may a PostgreSQL.
func (db *DB) IsShared() bool { return db.shared }

// Close ends all connections. Callers have ended their work.
func (db *DB) Close() { db.d.close() }

// Ping reports whether the database answers and can be written to.
func (db *DB) Ping(ctx context.Context) error {
	if err := db.d.down(); err != nil {
		return err
	}
	return db.query(ctx, `SELECT 1`, nil, func(Row) error { return nil })
}

// Broken waits until nothing can be written any more, however long one waits, and returns why: a COMMIT of SQLite failed,
// and only opening the file again tells what is durable. It returns nil when ctx ends first.
func (db *DB) Broken(ctx context.Context) error {
	select {
	case <-db.d.broken():
		return db.d.down()
	case <-ctx.Done():
		return nil
	}
}

type inWrite struct{}

// Write runs f in a transaction and commits it. When it returns nil, what f wrote is durable; when it returns
// [ErrCommitUnknown] it may be; after any other error nothing of it is.
//
// f may run more than once, also after a run that did commit but whose answer was lost. So it has no effects outside tx
// (see [Tx.AfterCommit]), and before it refuses anything it makes a unique insert or a guarded update by which the
// second run finds the first: f's own refusal is taken for the truth about all its runs. A unique insert without ON
// CONFLICT DO NOTHING finds the first run too, but the answer is then ErrCommitUnknown and [ErrConflict] in one: nothing
// is under way any more, and a look at the row tells whose it is.
//
// Once f has had an answer of the database, the cancelling of ctx is ignored; before that, or when f only queues, the call may
// still fail with it, and then nothing has happened although f has run. The whole call waits at most ten seconds. The DB
// itself cannot be used inside f: it would wait for a connection while holding one.
func (db *DB) Write(ctx context.Context, f func(ctx context.Context, tx *Tx) error) error {
	return db.WriteWithin(ctx, writeTimeMax, f)
}

// WriteWithin is Write with another limit than ten seconds: a longer one for migrations, a shorter one for who has to answer.
func (db *DB) WriteWithin(ctx context.Context, limit time.Duration, f func(ctx context.Context, tx *Tx) error) error {
	if ctx.Value(inWrite{}) != nil {
		return ErrNested
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	deadline := time.Now().Add(limit)
	start, cancelStart := clock.Until(ctx, deadline, errNoTurn)
	defer cancelStart()
	work, cancelWork := db.d.detach(context.WithValue(ctx, inWrite{}, true), deadline)
	defer cancelWork()

	var doubt error  // a COMMIT whose answer was lost
	started := false // f has run
	transient, unknownPause := 0, unknownWait
	for {
		tx := new(Tx)
		err := db.d.write(start, work, tx, f)
		if err == nil {
			for _, fn := range tx.after {
				fn()
			}
			return nil
		}
		if tx.refused && (doubt == nil || !errors.Is(err, ErrUnavailable)) {
			return err
		}
		if refused, ok := errors.AsType[*refusal](err); ok {
			return settled(doubt, refused.error)
		}
		if tx.s == nil && start.Err() != nil {
			return settled(doubt, context.Cause(start))
		}
		if tx.s != nil && !started {
			started = true // from now on only the deadline counts
			rest, cancelRest := context.WithDeadlineCause(context.WithoutCancel(ctx), deadline, errNoTurn)
			defer cancelRest()
			start = rest //nolint:fatcontext // once
		}

		var pause time.Duration
		switch cause := tx.cause(err); {
		case errors.Is(cause, ErrCommitUnknown) && !db.shared:
			return err // only reopening the file can tell, see group.go
		case errors.Is(cause, ErrCommitUnknown), doubt != nil && errors.Is(cause, ErrUnavailable):
			if doubt == nil {
				doubt = err
			}
			pause = unknownPause
			unknownPause = min(2*unknownPause, unknownWaitMax)
		case errors.Is(cause, errTransient) && transient < transientMax:
			transient++
			pause = time.Duration(transient*transient) * transientWait
		case errors.Is(cause, errTransient):
			return settled(doubt, errors.Join(ErrUnavailable, err))
		default:
			return settled(doubt, err)
		}
		if !db.sleep(start, pause) {
			return settled(doubt, errors.Join(ErrUnavailable, err))
		}
	}
}

// settled returns err, which says that a run did not commit, unless an earlier run may have.
func settled(doubt, err error) error {
	switch {
	case doubt == nil:
		return err
	case errors.Is(err, ErrUnavailable):
		return only(ErrCommitUnknown, err)
	}
	return failure(ErrCommitUnknown, err)
}

// sleep waits for d of real time and reports whether ctx outlived it.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// Read runs f in a read-only transaction that sees one moment. A single query needs none: give it the DB. Either ends
// after thirty seconds, unless ctx has a deadline of its own.
func (db *DB) Read(ctx context.Context, f func(ctx context.Context, tx *Tx) error) error {
	if ctx.Value(inWrite{}) != nil {
		return ErrNested
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	return db.d.read(ctx, &Tx{reading: true}, f)
}

func (db *DB) query(ctx context.Context, sql string, args []any, each func(Row) error) error {
	if ctx.Value(inWrite{}) != nil {
		return ErrNested
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	return db.d.query(ctx, sql, args, each)
}

func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return ctx, func() {}
	}
	return clock.Until(ctx, time.Now().Add(readTimeMax), errNoReader)
}

// Tx is a transaction. It is valid only inside the function it was passed to, and only there.
type Tx struct {
	s       session
	ctx     context.Context // of a write: its statements run on this one, whatever the caller passes
	reading bool            // it was opened by Read
	err     error           // the first failure; from then on nothing runs
	open    bool            // rows of a query are being scanned
	ended   bool            // the function has returned
	refused bool            // the function failed although every statement did not
	rank    int64           // see Rank
	after   []func()
}

// AfterCommit registers f to run in the caller's goroutine once the transaction is durable.
func (tx *Tx) AfterCommit(f func()) { tx.after = append(tx.after, f) }

// Queue runs a statement whose answer is not wanted. It may wait for the next statement or for COMMIT, so that its failure
// comes from that one, and until then its arguments must stay as they are. A transaction that only queues is by far the
// cheapest: it shares its COMMIT with others.
func (tx *Tx) Queue(ctx context.Context, sql string, args ...any) {
	if tx.writable() == nil {
		tx.err = tx.s.queue(tx.context(ctx), sql, args, nil)
	}
}

// Guard is Queue for a statement that has to change a row: when it changes none, Write fails with otherwise. After a run
// whose COMMIT was answered by nobody that comes with ErrCommitUnknown, as a conflict does: it may be our own first run that
// left nothing to change.
func (tx *Tx) Guard(ctx context.Context, otherwise error, sql string, args ...any) {
	if tx.writable() == nil {
		tx.err = tx.s.queue(tx.context(ctx), sql, args, otherwise)
	}
}

// Rank says where this transaction stands among those that it shares a COMMIT with. Transactions that lock the same rows
// have the same rank, so that they are locked in one order by all.
func (tx *Tx) Rank(rank int64) { tx.rank = rank }

// refusal says that a guarded statement changed no row.
type refusal struct{ error }

func (r *refusal) Unwrap() error { return r.error }

// Exec runs a statement and returns the number of rows that it changed.
func (tx *Tx) Exec(ctx context.Context, sql string, args ...any) (int64, error) {
	if err := tx.writable(); err != nil {
		return 0, err
	}
	n, err := tx.s.exec(tx.context(ctx), sql, args)
	tx.err = err
	return n, err
}

// Script runs several statements without arguments, in this database's own dialect. It is for migrations.
func (tx *Tx) Script(ctx context.Context, sql string) error {
	if tx.writable() == nil {
		tx.err = tx.s.script(tx.context(ctx), sql)
	}
	return tx.err
}

func (tx *Tx) query(ctx context.Context, sql string, args []any, each func(Row) error) error {
	if err := tx.usable(); err != nil {
		return err
	}
	tx.open = true
	err := tx.s.query(tx.context(ctx), sql, args, each)
	tx.open = false
	if tx.err == nil {
		tx.err = err // also when it was the scan that failed: what the server did after that is not known
	}
	return tx.err
}

// usable returns why no statement can run; the transaction has then failed.
func (tx *Tx) usable() error {
	switch {
	case tx.err != nil:
	case tx.ended:
		tx.err = errEnded
	case tx.open:
		tx.err = errRowsOpen // PostgreSQL could not run it
	}
	return tx.err
}

func (tx *Tx) writable() error {
	if tx.usable() == nil && tx.reading {
		tx.err = errReadOnly
	}
	return tx.err
}

func (tx *Tx) context(ctx context.Context) context.Context {
	if tx.reading {
		return ctx
	}
	return tx.ctx
}

// run calls f and returns its error, or the failure of a statement that f chose not to mention.
func (tx *Tx) run(ctx context.Context, s session, f func(context.Context, *Tx) error) error {
	*tx = Tx{s: s, ctx: ctx, reading: tx.reading}
	defer func() { tx.ended = true }()
	err := f(ctx, tx)
	tx.refused = err != nil && tx.err == nil
	if err == nil {
		err = tx.err
	}
	return err
}

// cause returns why a write failed, whatever words its function found for it.
func (tx *Tx) cause(err error) error {
	if tx.err != nil {
		return tx.err
	}
	return err
}

// One returns the first row of a query, or [ErrNoRows]. Scan only scans: it runs no statements.
func One[T any](ctx context.Context, q Querier, scan func(Row) (T, error), sql string, args ...any) (T, error) {
	var out T
	found := false
	err := q.query(ctx, sql, args, func(r Row) error {
		if found {
			return nil
		}
		found = true
		var err error
		out, err = scan(r)
		return err
	})
	if err == nil && !found {
		err = ErrNoRows
	}
	return out, err
}

// All returns every row of a query. Scan only scans: it runs no statements. A query without a bound on its rows is a
// defect.
func All[T any](ctx context.Context, q Querier, scan func(Row) (T, error), sql string, args ...any) ([]T, error) {
	var out []T
	err := q.query(ctx, sql, args, func(r Row) error {
		v, err := scan(r)
		if err == nil {
			out = append(out, v)
		}
		return err
	})
	return out, err
}

// Scalar scans a row of one column.
func Scalar[T any](r Row) (T, error) {
	var v T
	err := r.Scan(&v)
	return v, err
}

// failure joins what callers act on with the database's own words.
func failure(meaning, cause error) error { return fmt.Errorf("%w: %w", meaning, cause) }

// only is failure without the meanings that the cause has of its own, where they would contradict.
func only(meaning, cause error) error { return fmt.Errorf("%w: %s", meaning, cause.Error()) }
