package sqldb

import (
	"context"
	"fmt"
	"time"
)

// Probe stands between one process and its database in a simulation: it sees every transaction and every statement, and
// lets them fail as databases do. Outside of simulations there is none, and nothing that it costs.
type Probe interface {
	// Begin is called before a transaction, or before a query outside of one. Its error is told instead of running it.
	Begin(write bool) error
	// Statement returns what is run instead of a statement of a transaction: as a rule the same.
	Statement(s Statement) []Statement
	// Query is that for a query outside of a transaction.
	Query(s Statement) Statement
	// Commit is called after the last statement. After an error of its own the transaction is rolled back.
	Commit() error
	// End is told how a transaction that writes has ended, and returns what is told about it.
	End(err error) error
	// Lock and Unlock take and free keys against other processes; a key that another one has is [ErrLocked].
	Lock(keys []int64) error
	Unlock(keys []int64)
	// Now is what the database's clock shows.
	Now() time.Time
}

// Statement is one on its way to the database.
type Statement struct {
	SQL  string
	Args []any
}

// Failures that a probe can tell, each with the meaning that the same failure of a database has.
var (
	ErrProbeSerialization = simulated(errTransient)     // rolled back by the server; also a deadlock
	ErrProbeConnection    = simulated(errAway)          // lost before COMMIT was sent
	ErrProbeCommit        = simulated(ErrCommitUnknown) // lost after COMMIT was sent
	ErrProbeDisk          = simulated(ErrUnavailable)   // nothing can be written
)

func simulated(meaning error) error { return fmt.Errorf("%w: simulated", meaning) }

// Probed returns the same database for one process of a simulation. shared is what [DB.IsShared] tells it.
func (db *DB) Probed(p Probe, shared bool) *DB {
	return &DB{
		d: &probed{driver: db.d, probe: p}, locks: newLocks(), path: db.path, shared: shared,
		now: p.Now, sleep: func(context.Context, time.Duration) bool { return true }, // nobody else needs the time
	}
}

// probed is a driver with a probe before it.
type probed struct {
	driver
	probe Probe
}

func (d *probed) write(start, ctx context.Context, tx *Tx, f func(context.Context, *Tx) error) error {
	if err := d.probe.Begin(true); err != nil {
		return err
	}
	return d.probe.End(d.driver.write(start, ctx, tx, func(ctx context.Context, tx *Tx) error {
		tx.s = &probedSession{tx.s, d.probe}
		err := f(ctx, tx)
		// Whatever f met: on PostgreSQL it may not have met it yet.
		if failed := d.probe.Commit(); failed != nil {
			tx.err = failed
			return failed
		}
		return err
	}))
}

func (d *probed) read(ctx context.Context, tx *Tx, f func(context.Context, *Tx) error) error {
	if err := d.probe.Begin(false); err != nil {
		return err
	}
	return d.driver.read(ctx, tx, f)
}

func (d *probed) query(ctx context.Context, sql string, args []any, each func(Row) error) error {
	if err := d.probe.Begin(false); err != nil {
		return err
	}
	one := d.probe.Query(Statement{sql, args})
	return d.driver.query(ctx, one.SQL, one.Args, each)
}

func (d *probed) lock(_ context.Context, keys []int64, _ *question) error { return d.probe.Lock(keys) }

func (d *probed) unlock(_ context.Context, keys []int64) error {
	d.probe.Unlock(keys)
	return nil
}

func (d *probed) tend(context.Context) error { return nil } // nothing that a simulation could see

func (d *probed) down() error {
	return d.probe.Begin(false)
}

func (d *probed) apart() driver { return d }

// probedSession shows each statement to a probe.
type probedSession struct {
	session
	probe Probe
}

func (s *probedSession) queue(ctx context.Context, sql string, args []any, otherwise error) error {
	for _, one := range s.probe.Statement(Statement{sql, args}) {
		if err := s.session.queue(ctx, one.SQL, one.Args, otherwise); err != nil {
			return err
		}
	}
	return nil
}

func (s *probedSession) exec(ctx context.Context, sql string, args []any) (int64, error) {
	var changed int64
	for _, one := range s.probe.Statement(Statement{sql, args}) {
		var err error
		if changed, err = s.session.exec(ctx, one.SQL, one.Args); err != nil {
			return 0, err
		}
	}
	return changed, nil
}

func (s *probedSession) query(ctx context.Context, sql string, args []any, each func(Row) error) error {
	for _, one := range s.probe.Statement(Statement{sql, args}) {
		if err := s.session.query(ctx, one.SQL, one.Args, each); err != nil {
			return err
		}
	}
	return nil
}
