package sqldb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/puddle/v2"

	"github.com/ponte-pay/ponte/internal/clock"
)

const (
	beginWrite = "begin isolation level read committed read write"
	beginRead  = "begin isolation level repeatable read read only"

	connectTimeMax  = 5 * time.Second
	closeTimeMax    = 2 * time.Second
	apartMax        = 3           // connections that [DB.Apart] is sure to have; one is for a [SharedLook]
	rollbackTimeMax = time.Second // then the connection is closed, which rolls back as well
)

// pgDriver keeps a pool of connections with prepared statements, and one more for locks.
type pgDriver struct {
	pool   *pgxpool.Pool
	locks  *lockSession
	convoy *convoy
	reads  *lookups // nil where each goes alone
	tended sync.Map // names of tables that were new; true
}

func openPostgres(ctx context.Context, url string) (*pgDriver, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, errors.New("sqldb: the postgres:// address cannot be read") // err would show the password
	}
	if !strings.Contains(url, "pool_max_conns=") {
		config.MaxConns = connectionsMax
	}
	config.ConnConfig.StatementCacheCapacity = statementsKept
	config.ConnConfig.ConnectTimeout = connectTimeMax
	params := config.ConnConfig.RuntimeParams
	params["application_name"] = applicationName
	// Every statement is written for its index. To plan one again for each value costs more than to run it.
	params["plan_cache_mode"] = "force_generic_plan"
	// A statement that takes a fraction of a millisecond is compiled in a hundred, whenever its cost is guessed too high.
	params["jit"] = "off"
	// As on SQLite: what is not inside Write cannot write.
	params["default_transaction_read_only"] = "on"
	// A transaction is never left open by a living process; one that is belongs to a host that vanished.
	params["idle_in_transaction_session_timeout"] = "15s"
	params["tcp_keepalives_idle"] = "10"
	params["tcp_keepalives_interval"] = "5"
	params["tcp_keepalives_count"] = "3"
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, pgError(err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		if answer, ok := errors.AsType[*pgconn.PgError](err); ok { // such as that there is no such database
			return nil, fmt.Errorf("sqldb: PostgreSQL refuses the connection: %w", answer)
		}
		return nil, fmt.Errorf("sqldb: PostgreSQL does not answer: %w", pgError(err))
	}
	leaders := config.Copy()
	leaders.MaxConns, leaders.MinConns = convoyLeadsMax+lookupLeadsMax+apartMax, 0
	// Rows that one statement changes or finds are found by their keys, in the order of its list, also while a table is new
	// and PostgreSQL thinks that to read it as a whole is cheaper.
	for _, way := range []string{"enable_seqscan", "enable_hashjoin", "enable_mergejoin", "enable_memoize", "enable_material"} {
		leaders.ConnConfig.RuntimeParams[way] = "off"
	}
	if params := leaders.ConnConfig.RuntimeParams; params["lock_timeout"] == "" { // unless the operator says otherwise
		params["lock_timeout"] = convoyLockMax
	}
	locking := leaders.ConnConfig.Copy()
	// A question that follows a lock sees what was there when the lock was taken.
	locking.RuntimeParams["default_transaction_isolation"] = "read committed"
	leading, err := pgxpool.NewWithConfig(ctx, leaders)
	if err != nil {
		pool.Close()
		return nil, pgError(err)
	}
	return &pgDriver{
		pool:   pool,
		locks:  &lockSession{config: locking, timeMax: connectTimeMax, texts: questionTexts{form: whoFound}},
		convoy: newConvoy(leading),
		reads:  newLookups(leading),
	}, nil
}

func (d *pgDriver) close() {
	d.locks.close()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		d.convoy.pool.Close()
		d.pool.Close()
	}()
	timer := time.NewTimer(closeTimeMax)
	defer timer.Stop()
	select {
	case <-closed:
	case <-timer.C: // pgx says goodbye for fifteen seconds where nobody answers
	}
}

func (d *pgDriver) down() error { return nil }

func (d *pgDriver) broken() <-chan struct{} { return nil }

// apart has the connections that are kept free for it.
func (d *pgDriver) apart() driver {
	return &pgDriver{pool: d.convoy.pool, locks: d.locks, convoy: d.convoy} // it is not tended to
}

func (d *pgDriver) detach(ctx context.Context, deadline time.Time) (context.Context, context.CancelFunc) {
	return clock.Until(context.WithoutCancel(ctx), deadline, nil)
}

func (d *pgDriver) lock(ctx context.Context, keys []int64, q *question) error {
	return d.locks.take(ctx, keys, q)
}

func (d *pgDriver) unlock(ctx context.Context, keys []int64) error { return d.locks.free(ctx, keys) }

// readAttempts is how often a query outside a transaction is asked.
const readAttempts = 3

func (d *pgDriver) query(ctx context.Context, sql string, args []any, each func(Row) error) error {
	if d.reads != nil && d.reads.takes(sql) {
		q := &question{sql: sql, args: args}
		if err := d.reads.ask(ctx, q); err != nil {
			return err
		}
		if q.answered {
			return q.hand(each)
		}
	}
	return d.queryAlone(ctx, sql, args, each)
}

// queryAlone asks again when a connection of the pool turns out to be dead: all of them are after a restart of the server. A
// read has no effects, so that nothing can happen twice unless a row was handed out.
func (d *pgDriver) queryAlone(ctx context.Context, sql string, args []any, each func(Row) error) error {
	for attempt := 1; ; attempt++ {
		handed := false
		rows, err := d.pool.Query(ctx, sql, args...)
		if err == nil {
			err = eachRow(rows, func(r Row) error {
				handed = true
				return each(r)
			})
		} else {
			err = pgError(err)
		}
		if err == nil || handed || attempt == readAttempts || !errors.Is(err, errTransient) {
			return err
		}
	}
}

func (d *pgDriver) write(start, ctx context.Context, tx *Tx, f func(context.Context, *Tx) error) error {
	s := &pgSession{pool: d.pool, begin: beginWrite}
	if err := s.connect(start); err != nil {
		return err
	}
	// A connection that is released inside a transaction is closed by the pool: that is what a panic in f leads to.
	defer s.release()
	if err := tx.run(ctx, s, f); err != nil {
		s.rollback(ctx)
		return err
	}
	if !s.started {
		s.rank = tx.rank
		return d.convoy.commit(ctx, s) // f asked nothing
	}
	return s.finish(ctx)
}

func (d *pgDriver) read(ctx context.Context, tx *Tx, f func(context.Context, *Tx) error) error {
	s := &pgSession{pool: d.pool, begin: beginRead}
	if err := s.connect(ctx); err != nil {
		return err
	}
	defer s.release()
	err := tx.run(ctx, s, f)
	s.rollback(ctx)
	return err
}

// pgSession sends BEGIN with the first question and what was queued with the next one, so that a transaction of statements
// without answers is a single round trip, COMMIT included.
type pgSession struct {
	pool    *pgxpool.Pool
	conn    *pgxpool.Conn // nil while it waits for others, see convoy.go
	begin   string
	list    []statement // what waits to be sent
	rank    int64       // see [Tx.Rank]
	started bool        // BEGIN was sent
}

// statement is one that waits to be sent.
type statement struct {
	sql       string
	args      []any
	otherwise error // what the transaction fails with unless the statement changes a row; nil means nothing
	rows      int64 // how many rows it has to change then; 0 means one
}

func (s *pgSession) queue(_ context.Context, sql string, args []any, otherwise error) error {
	s.list = append(s.list, statement{sql: sql, args: args, otherwise: otherwise})
	return nil
}

func (s *pgSession) connect(ctx context.Context) (err error) {
	s.conn, err = s.pool.Acquire(ctx)
	return pgError(err)
}

func (s *pgSession) release() {
	if s.conn != nil {
		s.conn.Release()
		s.conn = nil
	}
}

// start makes BEGIN the first statement.
func (s *pgSession) start() {
	if !s.started {
		s.started = true
		s.list = slices.Insert(s.list, 0, statement{sql: s.begin})
	}
}

// send sends what waits and reads all answers but the last, which is the caller's to read.
func (s *pgSession) send(ctx context.Context) (pgx.BatchResults, error) {
	s.start()
	list := s.list
	s.list = nil
	batch := &pgx.Batch{QueuedQueries: make([]*pgx.QueuedQuery, 0, len(list))}
	for i := range list {
		batch.Queue(list[i].sql, list[i].args...)
	}
	results := s.conn.Conn().SendBatch(ctx, batch)
	for i := range len(list) - 1 {
		if err := list[i].read(results); err != nil {
			_ = results.Close() // says the same again
			return nil, err
		}
	}
	return results, nil
}

// read reads the statement's answer.
func (s *statement) read(results pgx.BatchResults) error {
	tag, err := results.Exec()
	if err == nil && s.otherwise != nil && tag.RowsAffected() < max(s.rows, 1) {
		err = &refusal{s.otherwise}
	}
	return err
}

// flush sends what waits and reads all answers.
func (s *pgSession) flush(ctx context.Context) error {
	s.start()
	if len(s.list) == 0 {
		return nil
	}
	last := s.list[len(s.list)-1]
	results, err := s.send(ctx)
	if err != nil {
		return err
	}
	err = last.read(results)
	if closeErr := results.Close(); err == nil {
		err = closeErr
	}
	return err
}

func (s *pgSession) exec(ctx context.Context, sql string, args []any) (int64, error) {
	s.list = append(s.list, statement{sql: sql, args: args})
	results, err := s.send(ctx)
	if err != nil {
		return 0, pgError(err)
	}
	tag, err := results.Exec()
	if closeErr := results.Close(); err == nil {
		err = closeErr
	}
	return tag.RowsAffected(), pgError(err)
}

func (s *pgSession) query(ctx context.Context, sql string, args []any, each func(Row) error) error {
	s.list = append(s.list, statement{sql: sql, args: args})
	results, err := s.send(ctx)
	if err != nil {
		return pgError(err)
	}
	rows, err := results.Query()
	if err == nil {
		err = eachRow(rows, each)
	} else {
		err = pgError(err)
	}
	if closeErr := results.Close(); err == nil {
		err = pgError(closeErr)
	}
	return err
}

func (s *pgSession) script(ctx context.Context, sql string) error {
	err := s.flush(ctx)
	if err == nil {
		_, err = s.conn.Conn().PgConn().Exec(ctx, sql).ReadAll()
	}
	return pgError(err)
}

// finish commits, or rolls back what cannot be committed.
func (s *pgSession) finish(ctx context.Context) error {
	err := s.commit(ctx)
	if err != nil {
		s.rollback(ctx)
	}
	return err
}

func (s *pgSession) commit(ctx context.Context) error {
	if slices.ContainsFunc(s.list, func(one statement) bool { return one.otherwise != nil }) {
		// COMMIT would be on its way before anybody has seen what they changed.
		if err := s.flush(ctx); err != nil {
			return pgError(err)
		}
	}
	s.list = append(s.list, statement{sql: "commit"})
	var tag pgconn.CommandTag
	results, err := s.send(ctx)
	if err == nil {
		tag, err = results.Exec()
		if closeErr := results.Close(); err == nil {
			err = closeErr
		}
	}
	return committed(tag, err)
}

// committed returns nil, ErrCommitUnknown, or why it is certain that COMMIT did not happen.
func committed(tag pgconn.CommandTag, err error) error {
	var answer *pgconn.PgError
	var unsent pgx.ErrPreprocessingBatch
	switch {
	case err == nil && tag.String() == "COMMIT":
		return nil
	case err == nil:
		return fmt.Errorf("sqldb: COMMIT was answered by %s", tag)
	case pgconn.SafeToRetry(err), errors.As(err, &unsent): // we did not even ask
		return pgError(err)
	case errors.As(err, &answer) && answer.SeverityUnlocalized == "ERROR": // the server said no
		return pgError(err)
	}
	return only(ErrCommitUnknown, err)
}

func (s *pgSession) rollback(ctx context.Context) {
	if s.conn.Conn().IsClosed() || s.conn.Conn().PgConn().TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeMax)
	defer cancel()
	if _, err := s.conn.Exec(ctx, "rollback"); err != nil {
		_ = s.conn.Conn().Close(ctx)
	}
}

func eachRow(rows pgx.Rows, each func(Row) error) error {
	defer rows.Close()
	for rows.Next() {
		if err := each(rows); err != nil {
			return err
		}
	}
	return pgError(rows.Err())
}

// pgError gives a failure its meaning. Of a COMMIT it is asked only once that is known not to have happened.
func pgError(err error) error {
	var answer *pgconn.PgError
	var connect *pgconn.ConnectError
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &answer) && pgMeaning(answer.Code) != nil:
		return failure(pgMeaning(answer.Code), err)
	case errors.As(err, &connect), errors.Is(err, puddle.ErrClosedPool):
		return failure(ErrUnavailable, err) // asking again at once is no help
	case answer != nil && answer.SeverityUnlocalized != "ERROR", answer == nil && lost(err):
		return failure(errAway, err) // the connection is gone, and the transaction with it
	}
	return err
}

var errAway = failure(errTransient, ErrUnavailable)

func pgMeaning(code string) error {
	switch code {
	case "23505":
		return ErrConflict
	case "23514":
		return ErrCheck
	case "25006":
		return errReadOnly
	case "40001", "40P01":
		return errTransient
	case "P0001", "42501": // the append-only trigger, the privilege that was revoked
		return ErrAppendOnly
	}
	for _, class := range []string{"57", "53", "08"} { // shutting down, out of resources, connection
		if strings.HasPrefix(code, class) {
			return errAway
		}
	}
	return nil
}

// lost reports whether err means that the server's answer did not reach us.
func lost(err error) bool {
	var network net.Error
	return errors.As(err, &network) || pgconn.Timeout(err) || pgconn.SafeToRetry(err) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, context.DeadlineExceeded)
}
