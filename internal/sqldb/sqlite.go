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

	"modernc.org/sqlite"
	lite "modernc.org/sqlite/lib"
)

// liteDriver has one writer, because SQLite has, and a pool of readers that never wait for it.
type liteDriver struct {
	writer  *writer
	readers *sql.DB

	mu    sync.RWMutex
	kept  map[string]*sql.Stmt // of the readers, by their text as written
	files []*sql.DB
}

func openLite(ctx context.Context, path string) (*liteDriver, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil, fmt.Errorf("sqldb: %s is a folder, not a database file", path)
	}
	// Without an explicit busy_timeout first, switching to WAL could itself fail while another process works.
	pragmas := []string{"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(ON)", "journal_size_limit(67108864)"}
	writers, err := sql.Open("sqlite", liteName(path, append(pragmas, "cache_size(-8000)")))
	if err != nil {
		return nil, err
	}
	conn, err := writers.Conn(ctx)
	if err != nil {
		_ = writers.Close()
		return nil, fmt.Errorf("sqldb: cannot open %s: %w", path, err)
	}
	// Each reader has a page cache of its own, so it is a small one.
	readers, err := sql.Open("sqlite", liteName(path, append(pragmas, "cache_size(-1000)", "query_only(ON)")))
	if err != nil {
		_ = writers.Close()
		return nil, err
	}
	readers.SetMaxOpenConns(connectionsMax)
	readers.SetMaxIdleConns(connectionsMax)
	return &liteDriver{
		writer:  newWriter(conn),
		readers: readers,
		kept:    map[string]*sql.Stmt{},
		files:   []*sql.DB{writers, readers},
	}, nil
}

func liteName(path string, pragmas []string) string {
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + url.Values{"_pragma": pragmas}.Encode()
}

func (d *liteDriver) close() {
	d.writer.close()
	for _, f := range d.files {
		_ = f.Close()
	}
}

// detach gives statements a context that cannot end: one that ends inside a write would roll back its neighbours too,
// and one that could costs a goroutine for every statement.
func (d *liteDriver) detach(ctx context.Context, _ time.Duration) (context.Context, context.CancelFunc) {
	return context.WithoutCancel(ctx), func() {}
}

func (d *liteDriver) lock(context.Context, []int64) error   { return nil } // one process serves the file
func (d *liteDriver) unlock(context.Context, []int64) error { return nil }

func (d *liteDriver) write(ctx context.Context, tx *Tx, f func(context.Context, *Tx) error) error {
	return d.writer.write(ctx, tx, f)
}

func (d *liteDriver) read(ctx context.Context, tx *Tx, f func(context.Context, *Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t, err := d.readers.BeginTx(context.WithoutCancel(ctx), nil)
	if err != nil {
		return liteError(err)
	}
	defer t.Rollback() //nolint:errcheck // nothing was written
	return tx.run(ctx, &liteReader{d, t}, f)
}

func (d *liteDriver) query(ctx context.Context, text string, args []any, each func(Row) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	stmt, err := d.prepare(ctx, text)
	if err != nil {
		return liteError(err)
	}
	rows, err := stmt.QueryContext(context.WithoutCancel(ctx), args...)
	if err != nil {
		return liteError(err)
	}
	return eachLiteRow(ctx, rows, each)
}

// prepare returns the kept statement of the readers.
func (d *liteDriver) prepare(ctx context.Context, text string) (*sql.Stmt, error) {
	d.mu.RLock()
	stmt := d.kept[text]
	d.mu.RUnlock()
	if stmt != nil {
		return stmt, nil
	}
	stmt, err := d.readers.PrepareContext(context.WithoutCancel(ctx), liteText(text))
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if other := d.kept[text]; other != nil {
		_ = stmt.Close()
		return other, nil
	}
	if len(d.kept) < statementsKept {
		d.kept[text] = stmt
	}
	return stmt, nil
}

// liteReader is a read-only transaction.
type liteReader struct {
	d *liteDriver
	t *sql.Tx
}

var errReadOnly = errors.New("sqldb: a statement that writes inside Read")

func (r *liteReader) queue(context.Context, string, []any) error         { return errReadOnly }
func (r *liteReader) exec(context.Context, string, []any) (int64, error) { return 0, errReadOnly }
func (r *liteReader) script(context.Context, string) error               { return errReadOnly }

func (r *liteReader) query(ctx context.Context, text string, args []any, each func(Row) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	stmt, err := r.d.prepare(ctx, text)
	if err != nil {
		return liteError(err)
	}
	rows, err := r.t.StmtContext(context.WithoutCancel(ctx), stmt).QueryContext(context.WithoutCancel(ctx), args...)
	if err != nil {
		return liteError(err)
	}
	return eachLiteRow(ctx, rows, each)
}

// eachLiteRow looks at ctx between rows, because the statement itself runs without it.
func eachLiteRow(ctx context.Context, rows *sql.Rows, each func(Row) error) error {
	defer rows.Close() //nolint:errcheck // Err tells
	for rows.Next() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := each(rows); err != nil {
			return err
		}
	}
	return liteError(rows.Err())
}

var liteDropped = strings.NewReplacer(" FOR NO KEY UPDATE", "", " FOR UPDATE SKIP LOCKED", "")

// liteText drops the clauses that only PostgreSQL knows.
func liteText(text string) string { return liteDropped.Replace(text) }

// liteError gives a failure its meaning.
func liteError(err error) error {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return err
	}
	switch e.Code() {
	case lite.SQLITE_CONSTRAINT_UNIQUE, lite.SQLITE_CONSTRAINT_PRIMARYKEY:
		return failure(ErrConflict, err)
	case lite.SQLITE_CONSTRAINT_CHECK:
		return failure(ErrCheck, err)
	case lite.SQLITE_CONSTRAINT_TRIGGER:
		return failure(ErrAppendOnly, err)
	}
	const primary = 0xff // the rest of a code only refines it
	switch e.Code() & primary {
	case lite.SQLITE_BUSY, lite.SQLITE_LOCKED:
		return failure(errTransient, err)
	case lite.SQLITE_FULL, lite.SQLITE_IOERR, lite.SQLITE_NOMEM, lite.SQLITE_CANTOPEN, lite.SQLITE_READONLY, lite.SQLITE_CORRUPT:
		return failure(ErrUnavailable, err)
	}
	return err
}
