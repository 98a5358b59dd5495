package sqldb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// liteDriver has one writer, because SQLite has, and readers that never wait for it.
type liteDriver struct {
	writer    *writer
	readers   *readers
	questions *liteQuestions
}

func openLite(ctx context.Context, path string) (*liteDriver, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() { //nolint:gosec // the operator names the file
		return nil, fmt.Errorf("sqldb: %s is a folder, not a database file", path)
	}
	conn, err := openLiteConn(ctx, path, litePragmas+writerPragmas)
	if err == nil {
		err = conn.requireWAL(ctx)
	}
	if err != nil {
		if conn != nil {
			conn.close()
		}
		return nil, fmt.Errorf("sqldb: cannot open %s: %w", path, err)
	}
	readers := newReaders(path)
	return &liteDriver{newWriter(conn), readers, newLiteQuestions(readers)}, nil
}

// Pragmas are for each connection. Without an explicit busy_timeout first, switching to WAL could itself fail while another
// process works. What savepoints keep of a page is large in a group, and a file for it would be written as often as the log.
// Each reader has a page cache of its own, so it is a small one.
const (
	litePragmas = `
		PRAGMA busy_timeout = 10000;
		PRAGMA journal_mode = WAL;
		PRAGMA synchronous = FULL;
		PRAGMA foreign_keys = ON;
		PRAGMA wal_autocheckpoint = 4000;
		PRAGMA journal_size_limit = 67108864;`
	writerPragmas = `
		PRAGMA cache_size = -8000;
		PRAGMA temp_store = MEMORY`
	readerPragmas = `
		PRAGMA cache_size = -1000;
		PRAGMA query_only = ON`
)

func (d *liteDriver) close() {
	d.readers.close()
	d.writer.conn.close()
}

func (d *liteDriver) down() error { return d.writer.down() }

func (d *liteDriver) broken() <-chan struct{} { return d.writer.broken }

func (d *liteDriver) apart() driver { return d } // its readers wait for no lock

// detach gives statements a context that cannot end: one that ends inside a write would roll back its neighbours too,
// and one that could costs a goroutine for every statement.
func (d *liteDriver) detach(ctx context.Context, _ time.Time) (context.Context, context.CancelFunc) {
	return context.WithoutCancel(ctx), func() {}
}

// lock only answers the question: one process serves the file.
func (d *liteDriver) lock(ctx context.Context, _ []int64, q *question) error {
	if q == nil {
		return nil
	}
	return d.questions.ask(ctx, q)
}

func (d *liteDriver) unlock(context.Context, []int64) error { return nil }

func (d *liteDriver) tend(context.Context) error { return nil }

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

// readers are connections that cannot write. There are as many as were ever needed at once, up to connectionsMax.
type readers struct {
	path  string
	slots chan struct{} // one for each reader in use

	mu     sync.Mutex
	idle   []*liteConn // the one used last, whose cache is warm, is used next
	closed bool
	ended  int64 // readers that were closed
}

func newReaders(path string) *readers {
	return &readers{path: path, slots: make(chan struct{}, connectionsMax)}
}

func (r *readers) take(ctx context.Context) (*liteConn, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if c, err := r.takeFree(ctx); !errors.Is(err, errAllRead) {
		return c, err
	}
	select { // only who has to wait looks at its end, which may cost a timer
	case r.slots <- struct{}{}:
		return r.open(ctx)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

var errAllRead = fmt.Errorf("%w: all readers are busy", ErrUnavailable)

// takeFree is take for who does not wait.
func (r *readers) takeFree(ctx context.Context) (*liteConn, error) {
	select {
	case r.slots <- struct{}{}:
		return r.open(ctx)
	default:
		return nil, errAllRead
	}
}

// open returns an idle reader or a new one to who has a slot.
func (r *readers) open(ctx context.Context) (*liteConn, error) {
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
		return nil, errLiteClosed
	}
	c, err := openLiteConn(ctx, r.path, litePragmas+readerPragmas)
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
	} else {
		r.ended++
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
}
