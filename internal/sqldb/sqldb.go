// Package sqldb runs one SQL text on SQLite and on PostgreSQL, and tells its callers nothing that is not durable.
//
// Statements are written in the common subset of both dialects, with $1 placeholders. The clauses that only PostgreSQL
// knows, FOR NO KEY UPDATE and FOR UPDATE SKIP LOCKED, are written too and dropped on SQLite, which has one writer and
// therefore nothing to lock.
//
// Both databases behave alike where they would differ: after a failed statement a transaction refuses everything, a
// write is never cancelled half-way, and a COMMIT whose answer was lost is resolved by running the same function again.
package sqldb

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Errors that callers act on. Everything else is a defect.
var (
	ErrNoRows        = errors.New("sqldb: no rows")
	ErrConflict      = errors.New("sqldb: unique constraint")
	ErrCheck         = errors.New("sqldb: check constraint")
	ErrAppendOnly    = errors.New("sqldb: the table is append-only")
	ErrUnavailable   = errors.New("sqldb: database unavailable")                 // nothing happened
	ErrCommitUnknown = errors.New("sqldb: lost the answer to COMMIT")            // it may have happened
	ErrNested        = errors.New("sqldb: Write inside Write")                   // would wait for itself
	ErrLocked        = errors.New("sqldb: lock is taken")                        // by another request
	ErrInUse         = errors.New("sqldb: another process serves this database") // SQLite has room for one
	errTransient     = errors.New("sqldb: transient failure")                    // rolled back; Write runs it again
)

const (
	writeTimeMax    = 10 * time.Second // a whole Write with its repetitions
	transientMax    = 10               // repetitions after a deadlock, a serialization failure or a lost connection
	transientWait   = 2 * time.Millisecond
	unknownWait     = 20 * time.Millisecond // between repetitions after a COMMIT without an answer
	unknownWaitMax  = time.Second
	connectionsMax  = 32  // of PostgreSQL, and readers of SQLite
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
	d     driver
	locks locks
	path  string // of the SQLite file, "" on PostgreSQL
}

// driver is what the two databases do differently.
type driver interface {
	// write runs f once in a transaction and commits it.
	write(ctx context.Context, tx *Tx, f func(context.Context, *Tx) error) error
	// read runs f once in a read-only transaction that sees one moment.
	read(ctx context.Context, tx *Tx, f func(context.Context, *Tx) error) error
	// query runs one SELECT outside any transaction.
	query(ctx context.Context, sql string, args []any, each func(Row) error) error
	// detach returns the context that a write runs on: it cannot be cancelled from outside.
	detach(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc)
	// lock and unlock take and free keys against other processes.
	lock(ctx context.Context, keys []int64) error
	unlock(ctx context.Context, keys []int64) error
	close()
}

// session is a transaction under way on one of the databases.
type session interface {
	// queue runs a statement now or together with the next one; its error may come with that one.
	queue(ctx context.Context, sql string, args []any) error
	exec(ctx context.Context, sql string, args []any) (int64, error)
	query(ctx context.Context, sql string, args []any, each func(Row) error) error
	script(ctx context.Context, sql string) error
}

// Open opens sqlite:PATH or postgres://... . The SQLite file is created when its folder exists; PostgreSQL must answer.
func Open(ctx context.Context, url string) (*DB, error) {
	switch path, isLite := strings.CutPrefix(url, "sqlite:"); {
	case isLite:
		d, err := openLite(ctx, path)
		if err != nil {
			return nil, err
		}
		return &DB{d: d, path: path}, nil
	case strings.HasPrefix(url, "postgres://"), strings.HasPrefix(url, "postgresql://"):
		d, err := openPostgres(ctx, url)
		if err != nil {
			return nil, err
		}
		return &DB{d: d}, nil
	}
	return nil, errors.New("sqldb: a database is sqlite:PATH or postgres://USER@HOST/NAME")
}

// IsPostgres reports whether several processes may serve this database.
func (db *DB) IsPostgres() bool { return db.path == "" }

// Close waits for nothing: callers have ended their work.
func (db *DB) Close() { db.d.close() }

// Ping reports whether the database answers.
func (db *DB) Ping(ctx context.Context) error {
	return db.query(ctx, `SELECT 1`, nil, func(Row) error { return nil })
}

type inWrite struct{}

// Write runs f in a transaction and commits it. When it returns nil, what f wrote is durable; when it returns
// [ErrCommitUnknown] it may be; after any other error nothing of it is.
//
// f may run more than once, also after a run that did commit but whose answer was lost. So it has no effects outside tx
// (see [Tx.AfterCommit]), and it holds a unique insert or a guarded update by which the second run finds the first.
// Once f has started, the cancelling of ctx is ignored; the whole call takes at most ten seconds on PostgreSQL.
func (db *DB) Write(ctx context.Context, f func(ctx context.Context, tx *Tx) error) error {
	return db.WriteWithin(ctx, writeTimeMax, f)
}

// WriteWithin is Write with another limit than ten seconds. It is for migrations.
func (db *DB) WriteWithin(ctx context.Context, limit time.Duration, f func(ctx context.Context, tx *Tx) error) error {
	if ctx.Value(inWrite{}) != nil {
		return ErrNested
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := db.d.detach(context.WithValue(ctx, inWrite{}, true), limit)
	defer cancel()
	transient, wait := 0, unknownWait
	for {
		tx := new(Tx)
		err := db.d.write(ctx, tx, f)
		switch {
		case err == nil:
			for _, fn := range tx.after {
				fn()
			}
			return nil
		case errors.Is(err, ErrCommitUnknown):
			if db.pause(ctx, wait) != nil {
				return err
			}
			wait = min(2*wait, unknownWaitMax)
		case errors.Is(err, errTransient) || errors.Is(tx.err, errTransient):
			transient++
			if transient > transientMax || db.pause(ctx, time.Duration(transient*transient)*transientWait) != nil {
				return errors.Join(ErrUnavailable, err)
			}
		default:
			return err
		}
	}
}

// pause waits for d of real time. SQLite has no ErrCommitUnknown that a repetition could resolve, see group.go.
func (db *DB) pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// Read runs f in a read-only transaction that sees one moment. A single query needs none: give it the DB.
func (db *DB) Read(ctx context.Context, f func(ctx context.Context, tx *Tx) error) error {
	return db.d.read(ctx, new(Tx), f)
}

func (db *DB) query(ctx context.Context, sql string, args []any, each func(Row) error) error {
	return db.d.query(ctx, sql, args, each)
}

// Tx is a transaction. It is valid only inside the function it was passed to, and only there.
type Tx struct {
	s     session
	err   error // the first failure; from then on nothing runs
	after []func()
}

// AfterCommit registers f to run in the caller's goroutine once the transaction is durable.
func (tx *Tx) AfterCommit(f func()) { tx.after = append(tx.after, f) }

// Queue runs a statement whose answer is not wanted. On PostgreSQL it travels with the next statement or with COMMIT, so
// its failure may come from that one.
func (tx *Tx) Queue(ctx context.Context, sql string, args ...any) {
	if tx.err == nil {
		tx.err = tx.s.queue(ctx, sql, args)
	}
}

// Exec runs a statement and returns the number of rows that it changed.
func (tx *Tx) Exec(ctx context.Context, sql string, args ...any) (int64, error) {
	if tx.err != nil {
		return 0, tx.err
	}
	n, err := tx.s.exec(ctx, sql, args)
	tx.err = err
	return n, err
}

// Script runs several statements without arguments, in this database's own dialect. It is for migrations.
func (tx *Tx) Script(ctx context.Context, sql string) error {
	if tx.err == nil {
		tx.err = tx.s.script(ctx, sql)
	}
	return tx.err
}

func (tx *Tx) query(ctx context.Context, sql string, args []any, each func(Row) error) error {
	if tx.err != nil {
		return tx.err
	}
	var scanErr error
	err := tx.s.query(ctx, sql, args, func(r Row) error {
		scanErr = each(r)
		return scanErr
	})
	if err != nil && scanErr == nil {
		tx.err = err
	}
	return err
}

// run calls f and returns its error, or the failure of a statement that f chose not to mention.
func (tx *Tx) run(ctx context.Context, s session, f func(context.Context, *Tx) error) error {
	*tx = Tx{s: s}
	if err := f(ctx, tx); err != nil {
		return err
	}
	return tx.err
}

// One returns the first row of a query, or [ErrNoRows].
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

// All returns every row of a query. A query without a bound on its rows is a defect.
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
