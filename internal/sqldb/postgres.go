package sqldb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/puddle/v2"
)

const (
	beginWrite = "begin"
	beginRead  = "begin isolation level repeatable read read only"

	connectTimeMax = 5 * time.Second
)

// pgDriver keeps a pool of connections with prepared statements, and one more for locks.
type pgDriver struct {
	pool  *pgxpool.Pool
	locks *lockSession
}

func openPostgres(ctx context.Context, url string) (*pgDriver, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, errors.New("sqldb: the postgres:// address cannot be read") // err would show the password
	}
	config.MaxConns = max(config.MaxConns, connectionsMax)
	config.ConnConfig.StatementCacheCapacity = statementsKept
	config.ConnConfig.ConnectTimeout = connectTimeMax
	params := config.ConnConfig.RuntimeParams
	params["application_name"] = applicationName
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
		return nil, fmt.Errorf("sqldb: PostgreSQL does not answer: %w", pgError(err))
	}
	return &pgDriver{pool, &lockSession{config: config.ConnConfig.Copy()}}, nil
}

func (d *pgDriver) close() {
	d.locks.close()
	d.pool.Close()
}

func (d *pgDriver) detach(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), limit)
}

func (d *pgDriver) lock(ctx context.Context, keys []int64) error   { return d.locks.take(ctx, keys) }
func (d *pgDriver) unlock(ctx context.Context, keys []int64) error { return d.locks.free(ctx, keys) }

func (d *pgDriver) query(ctx context.Context, sql string, args []any, each func(Row) error) error {
	rows, err := d.pool.Query(ctx, sql, args...)
	if err != nil {
		return pgError(err)
	}
	return eachRow(rows, each)
}

func (d *pgDriver) write(ctx context.Context, tx *Tx, f func(context.Context, *Tx) error) error {
	return d.transact(ctx, tx, beginWrite, f)
}

func (d *pgDriver) read(ctx context.Context, tx *Tx, f func(context.Context, *Tx) error) error {
	return d.transact(ctx, tx, beginRead, f)
}

func (d *pgDriver) transact(ctx context.Context, tx *Tx, begin string, f func(context.Context, *Tx) error) error {
	conn, err := d.pool.Acquire(ctx)
	if err != nil {
		return pgError(err)
	}
	// A connection that is released inside a transaction is closed by the pool: that is what a panic in f leads to.
	defer conn.Release()
	s := &pgSession{conn: conn.Conn(), begin: begin}
	if err := tx.run(ctx, s, f); err != nil {
		s.rollback(ctx)
		return err
	}
	err = s.commit(ctx)
	if err != nil {
		s.rollback(ctx)
	}
	return err
}

// pgSession sends BEGIN with the first statement and what was queued with the next one, so that a transaction of
// statements without answers is a single round trip, COMMIT included.
type pgSession struct {
	conn    *pgx.Conn
	begin   string
	batch   *pgx.Batch // what waits to be sent; nil when nothing does
	started bool       // BEGIN was sent
}

func (s *pgSession) queue(_ context.Context, sql string, args []any) error {
	s.add(sql, args)
	return nil
}

func (s *pgSession) add(sql string, args []any) {
	if s.batch == nil {
		s.batch = &pgx.Batch{}
	}
	if !s.started {
		s.started = true
		s.batch.Queue(s.begin)
	}
	s.batch.Queue(sql, args...)
}

// send sends what waits and reads all answers but the last, which is the caller's to read.
func (s *pgSession) send(ctx context.Context) (pgx.BatchResults, error) {
	batch := s.batch
	s.batch = nil
	results := s.conn.SendBatch(ctx, batch)
	for range batch.Len() - 1 {
		if _, err := results.Exec(); err != nil {
			_ = results.Close() // says the same again
			return nil, err
		}
	}
	return results, nil
}

func (s *pgSession) exec(ctx context.Context, sql string, args []any) (int64, error) {
	s.add(sql, args)
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
	s.add(sql, args)
	results, err := s.send(ctx)
	if err != nil {
		return pgError(err)
	}
	rows, err := results.Query()
	if err == nil {
		err = eachRow(rows, each)
	}
	if closeErr := results.Close(); err == nil {
		err = pgError(closeErr)
	}
	return err
}

func (s *pgSession) script(ctx context.Context, sql string) error {
	if err := s.flush(ctx); err != nil {
		return err
	}
	_, err := s.conn.PgConn().Exec(ctx, sql).ReadAll()
	return pgError(err)
}

// flush sends what waits, or at least BEGIN.
func (s *pgSession) flush(ctx context.Context) error {
	_, err := s.exec(ctx, `SELECT 1`, nil)
	return err
}

func (s *pgSession) commit(ctx context.Context) error {
	if !s.started {
		return nil // f asked nothing
	}
	s.add("commit", nil)
	results, err := s.send(ctx)
	if err == nil {
		_, err = results.Exec()
		if closeErr := results.Close(); err == nil {
			err = closeErr
		}
	}
	var answer *pgconn.PgError
	switch {
	case err == nil:
		return nil
	case pgconn.SafeToRetry(err): // nothing was sent
		return pgError(err)
	case errors.As(err, &answer) && answer.Severity != "ERROR", answer == nil && lost(err):
		return failure(ErrCommitUnknown, err)
	}
	return pgError(err) // the server answered, or we could not even ask: it did not commit
}

func (s *pgSession) rollback(ctx context.Context) {
	if s.conn.IsClosed() || s.conn.PgConn().TxStatus() == 'I' {
		return
	}
	// A failure here closes the connection, which rolls back as well.
	if _, err := s.conn.Exec(ctx, "rollback"); err != nil {
		_ = s.conn.Close(ctx)
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
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return err
	case !errors.As(err, &answer):
		var connect *pgconn.ConnectError
		switch {
		case errors.As(err, &connect):
			return failure(ErrUnavailable, err) // asking again at once is no help
		case lost(err):
			return failure(errTransient, failure(ErrUnavailable, err))
		}
		return err
	}
	switch answer.Code {
	case "23505":
		return failure(ErrConflict, err)
	case "23514":
		return failure(ErrCheck, err)
	case "40001", "40P01":
		return failure(errTransient, err)
	case "P0001", "42501": // the append-only trigger, the privilege that was revoked
		return failure(ErrAppendOnly, err)
	}
	switch answer.Code[:2] {
	case "57", "53", "08": // shutting down, out of resources, connection
		return failure(errTransient, failure(ErrUnavailable, err))
	}
	return err
}

// lost reports whether err means that the server's answer did not reach us.
func lost(err error) bool {
	var network net.Error
	return errors.As(err, &network) || pgconn.Timeout(err) || pgconn.SafeToRetry(err) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, puddle.ErrClosedPool)
}
