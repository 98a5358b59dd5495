package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"modernc.org/sqlite"
	lite "modernc.org/sqlite/lib"
)

// liteDriver has one writer, because SQLite has, and readers that never wait for it.
type liteDriver struct {
	writers *sql.DB // holds one connection
	writer  *writer
	readers *readers
}

func openLite(ctx context.Context, path string) (*liteDriver, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() { //nolint:gosec // the operator names the file
		return nil, fmt.Errorf("sqldb: %s is a folder, not a database file", path)
	}
	// Without an explicit busy_timeout first, switching to WAL could itself fail while another process works.
	pragmas := []string{"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(ON)", "journal_size_limit(67108864)"}
	// What savepoints keep of a page is large in a group, and a file for it would be written as often as the log.
	writers, err := openLitePool(path, append(pragmas, "cache_size(-8000)", "temp_store(MEMORY)"))
	if err != nil {
		return nil, err
	}
	conn, err := openLiteConn(ctx, writers)
	if err == nil {
		err = conn.requireWAL(ctx)
	}
	if err != nil {
		_ = writers.Close()
		return nil, fmt.Errorf("sqldb: cannot open %s: %w", path, err)
	}
	// Each reader has a page cache of its own, so it is a small one.
	pool, err := openLitePool(path, append(pragmas, "cache_size(-1000)", "query_only(ON)"))
	if err != nil {
		_ = writers.Close()
		return nil, err
	}
	return &liteDriver{writers, newWriter(conn), newReaders(pool)}, nil
}

// openLitePool opens what makes connections. It keeps none: each belongs to a liteConn, and ends with it.
func openLitePool(path string, pragmas []string) (*sql.DB, error) {
	pool, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+url.Values{"_pragma": pragmas}.Encode())
	if err != nil {
		return nil, err
	}
	pool.SetMaxIdleConns(-1)
	return pool, nil
}

func (d *liteDriver) close() {
	d.readers.close()
	d.writer.conn.close()
	_ = d.writers.Close()
}

func (d *liteDriver) down() error { return d.writer.down() }

func (d *liteDriver) apart() driver { return d } // its readers wait for no lock

// detach gives statements a context that cannot end: one that ends inside a write would roll back its neighbours too,
// and one that could costs a goroutine for every statement.
func (d *liteDriver) detach(ctx context.Context, _ time.Time) (context.Context, context.CancelFunc) {
	return context.WithoutCancel(ctx), func() {}
}

func (d *liteDriver) lock(context.Context, []int64) error   { return nil } // one process serves the file
func (d *liteDriver) unlock(context.Context, []int64) error { return nil }

func (d *liteDriver) write(start, ctx context.Context, tx *Tx, f func(context.Context, *Tx) error) error {
	return d.writer.write(start, ctx, tx, f)
}

func (d *liteDriver) read(ctx context.Context, tx *Tx, f func(context.Context, *Tx) error) error {
	c, err := d.readers.take(ctx)
	if err != nil {
		return err
	}
	ended := false
	defer func() { d.readers.put(c, ended) }()
	if _, err := c.exec(ctx, `BEGIN`, nil); err != nil {
		return err
	}
	defer func() {
		_, err := c.exec(ctx, `ROLLBACK`, nil)
		ended = err == nil
	}()
	return tx.run(ctx, c, f)
}

func (d *liteDriver) query(ctx context.Context, text string, args []any, each func(Row) error) error {
	c, err := d.readers.take(ctx)
	if err != nil {
		return err
	}
	defer d.readers.put(c, true)
	return c.query(ctx, text, args, each)
}

func (d *liteDriver) any(ctx context.Context, text string, args []any) (found bool, err error) {
	return anyRow(ctx, d, text, args)
}

// readers are connections that cannot write. There are as many as were ever needed at once, up to connectionsMax.
type readers struct {
	pool  *sql.DB
	slots chan struct{} // one for each reader in use

	mu     sync.Mutex
	idle   []*liteConn // the one used last, whose cache is warm, is used next
	closed bool
}

func newReaders(pool *sql.DB) *readers {
	return &readers{pool: pool, slots: make(chan struct{}, connectionsMax)}
}

func (r *readers) take(ctx context.Context) (*liteConn, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	select {
	case r.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	r.mu.Lock()
	if n := len(r.idle); n > 0 {
		c := r.idle[n-1]
		r.idle = r.idle[:n-1]
		r.mu.Unlock()
		return c, nil
	}
	closed := r.closed
	r.mu.Unlock()
	if closed {
		<-r.slots
		return nil, failure(ErrUnavailable, sql.ErrConnDone)
	}
	c, err := openLiteConn(context.WithoutCancel(ctx), r.pool)
	if err != nil {
		<-r.slots
		return nil, err
	}
	c.readOnly = true
	return c, nil
}

// put gives a reader back; one that is not clean is closed.
func (r *readers) put(c *liteConn, clean bool) {
	r.mu.Lock()
	if clean && !r.closed {
		r.idle = append(r.idle, c)
		c = nil
	}
	r.mu.Unlock()
	if c != nil {
		c.close()
	}
	<-r.slots
}

func (r *readers) close() {
	r.mu.Lock()
	r.closed = true
	idle := r.idle
	r.idle = nil
	r.mu.Unlock()
	for _, c := range idle {
		c.close()
	}
	_ = r.pool.Close()
}

// liteConn is a connection with its prepared statements. One goroutine at a time uses it.
type liteConn struct {
	conn     *sql.Conn
	kept     map[string]*sql.Stmt // by their text as written
	readOnly bool
}

func openLiteConn(ctx context.Context, pool *sql.DB) (*liteConn, error) {
	conn, err := pool.Conn(ctx)
	if err != nil {
		return nil, liteError(err)
	}
	return &liteConn{conn: conn, kept: map[string]*sql.Stmt{}}, nil
}

// close ends the statements first: with one of them open SQLite would not fold the log into the file.
func (c *liteConn) close() {
	for _, stmt := range c.kept {
		_ = stmt.Close()
	}
	_ = c.conn.Close()
}

// requireWAL refuses what SQLite would accept without a word: a place where readers would wait for the writer, such as
// some network file systems, or where each connection would have a database of its own.
func (c *liteConn) requireWAL(ctx context.Context) error {
	mode := ""
	err := c.query(ctx, `PRAGMA journal_mode`, nil, func(r Row) error { return r.Scan(&mode) })
	if err == nil && mode != "wal" {
		err = fmt.Errorf("its journal is %q, not a write-ahead log", mode)
	}
	return err
}

// prepare returns the kept statement. Rows of an earlier one are never open here, see [Tx.usable], so that any may go.
func (c *liteConn) prepare(ctx context.Context, text string) (*sql.Stmt, error) {
	if stmt := c.kept[text]; stmt != nil {
		return stmt, nil
	}
	if len(c.kept) == statementsKept {
		for old, stmt := range c.kept {
			_ = stmt.Close()
			delete(c.kept, old)
			break
		}
	}
	stmt, err := c.conn.PrepareContext(ctx, liteText(text))
	if err == nil {
		c.kept[text] = stmt
	}
	return stmt, err
}

func (c *liteConn) queue(ctx context.Context, text string, args []any, otherwise error) error {
	n, err := c.exec(ctx, text, args)
	if err == nil && n == 0 && otherwise != nil {
		return &refusal{otherwise}
	}
	return err
}

func (c *liteConn) exec(ctx context.Context, text string, args []any) (int64, error) {
	if err := checkText(args); err != nil {
		return 0, err
	}
	ctx = withoutCancel(ctx)
	stmt, err := c.prepare(ctx, text) //nolint:sqlclosecheck // kept
	if err != nil {
		return 0, c.error(err)
	}
	result, err := stmt.ExecContext(ctx, args...)
	if err != nil {
		return 0, c.error(err)
	}
	return result.RowsAffected()
}

// query looks at ctx between rows, because the statement itself runs without it.
func (c *liteConn) query(ctx context.Context, text string, args []any, each func(Row) error) error {
	if err := checkText(args); err != nil {
		return err
	}
	free := withoutCancel(ctx)
	stmt, err := c.prepare(free, text) //nolint:sqlclosecheck // kept
	if err != nil {
		return c.error(err)
	}
	rows, err := stmt.QueryContext(free, args...)
	if err != nil {
		return c.error(err)
	}
	defer rows.Close()
	for rows.Next() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := each(rows); err != nil {
			return err
		}
	}
	return c.error(rows.Err())
}

func (c *liteConn) script(ctx context.Context, text string) error {
	_, err := c.conn.ExecContext(context.WithoutCancel(ctx), text)
	return c.error(err)
}

// withoutCancel keeps SQLite from looking at ctx, see [liteDriver.detach].
func withoutCancel(ctx context.Context) context.Context {
	if ctx.Done() == nil {
		return ctx
	}
	return context.WithoutCancel(ctx)
}

func (c *liteConn) error(err error) error {
	if c.readOnly && liteCode(err) == lite.SQLITE_READONLY {
		return failure(errReadOnly, err)
	}
	return liteError(err)
}

func checkText(args []any) error {
	for _, arg := range args {
		text, is := arg.(string)
		if p, isPointer := arg.(*string); isPointer && p != nil {
			text, is = *p, true
		}
		if is && (!utf8.ValidString(text) || strings.IndexByte(text, 0) >= 0) {
			return errText
		}
	}
	return nil
}

var liteDropped = strings.NewReplacer(" FOR NO KEY UPDATE", "", " FOR UPDATE SKIP LOCKED", "")

// liteText drops the clauses that only PostgreSQL knows.
func liteText(text string) string { return liteDropped.Replace(text) }

// liteCode returns SQLite's extended code of a failure, or 0 when it is none of SQLite's.
func liteCode(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code()
	}
	return 0
}

const litePrimary = 0xff // of a code; the rest only refines it

// liteError gives a failure its meaning.
func liteError(err error) error {
	if errors.Is(err, sql.ErrConnDone) {
		return failure(ErrUnavailable, err) // closed
	}
	code := liteCode(err)
	switch code {
	case lite.SQLITE_CONSTRAINT_UNIQUE, lite.SQLITE_CONSTRAINT_PRIMARYKEY:
		return failure(ErrConflict, err)
	case lite.SQLITE_CONSTRAINT_CHECK:
		return failure(ErrCheck, err)
	case lite.SQLITE_CONSTRAINT_TRIGGER:
		return failure(ErrAppendOnly, err)
	}
	switch code & litePrimary {
	case lite.SQLITE_BUSY, lite.SQLITE_LOCKED:
		return failure(errTransient, failure(ErrUnavailable, err))
	case lite.SQLITE_FULL, lite.SQLITE_IOERR, lite.SQLITE_NOMEM, lite.SQLITE_CANTOPEN, lite.SQLITE_READONLY, lite.SQLITE_CORRUPT:
		return failure(ErrUnavailable, err)
	}
	return err
}
