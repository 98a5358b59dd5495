// Package sqltest gives each test a database of its own, of both kinds, that is gone afterwards.
package sqltest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ponte-pay/ponte/internal/schema"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// Variable names the PostgreSQL in which tests make their databases. scripts/with-postgres sets it.
const Variable = "PONTE_TEST_POSTGRES"

// Each runs test on SQLite and on PostgreSQL, each time on a database with all tables and nothing in them.
func Each(t *testing.T, test func(t *testing.T, db *sqldb.DB)) {
	t.Helper()
	EachURL(t, func(t *testing.T, url string) {
		t.Helper()
		test(t, Open(t, url))
	})
}

// EachURL is [Each] for tests that open the database themselves, once or several times.
func EachURL(t *testing.T, test func(t *testing.T, url string)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, SQLite(t))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(t, Postgres(t))
	})
}

// Open opens a database and closes it after the test.
func Open(tb testing.TB, url string) *sqldb.DB {
	tb.Helper()
	db, err := sqldb.Open(context.Background(), url)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(db.Close)
	return db
}

// OpenForTwo opens a database as two servers do, each with connections of its own; SQLite, which one server has to itself, once
// for both.
func OpenForTwo(tb testing.TB, url string) (one, other *sqldb.DB) {
	tb.Helper()
	one = Open(tb, url)
	if !one.IsPostgres() {
		return one, one
	}
	return one, Open(tb, url)
}

// SQLite returns the address of a new database with all tables.
func SQLite(tb testing.TB) string {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "ponte.db")
	if err := os.WriteFile(file, migrated(tb), 0o600); err != nil {
		tb.Fatal(err)
	}
	return "sqlite:" + file
}

// migrated returns the file that all SQLite databases of a test program start as, which is faster than migrating each.
func migrated(tb testing.TB) []byte {
	tb.Helper()
	liteTemplate.Lock()
	defer liteTemplate.Unlock()
	if liteTemplate.file == nil {
		path := filepath.Join(tb.TempDir(), "template.db")
		migrate(tb, "sqlite:"+path)
		if wal, err := os.Stat(path + "-wal"); err == nil && wal.Size() > 0 {
			tb.Fatal("sqltest: a closed database has left its log, which a copy would lack")
		}
		var err error
		if liteTemplate.file, err = os.ReadFile(path); err != nil {
			tb.Fatal(err)
		}
	}
	return liteTemplate.file
}

var liteTemplate struct {
	sync.Mutex
	file []byte // nil until the first test needs one
}

func migrate(tb testing.TB, url string) {
	tb.Helper()
	db, err := sqldb.Open(context.Background(), url)
	if err != nil {
		tb.Fatal(err)
	}
	defer db.Close()
	if _, err := schema.Migrate(context.Background(), db, time.Now()); err != nil {
		tb.Fatal(err)
	}
}

// Postgres returns the address of a new database with all tables. Without a server the test fails: it does not skip.
func Postgres(tb testing.TB) string {
	tb.Helper()
	name := newName("test")
	create(tb, name, template(tb))
	return address(tb, name)
}

// template returns the database that all others are copied from, which is faster than migrating each. It stays for the
// test programs that come later, as long as the tables are the same.
func template(tb testing.TB) string {
	tb.Helper()
	fingerprint, err := schema.Fingerprint()
	if err != nil {
		tb.Fatal(err)
	}
	name := "ponte_template_" + fingerprint[:12]
	templates.Lock()
	defer templates.Unlock()
	if templates.made[name] {
		return name
	}
	withServer(tb, func(ctx context.Context, conn *pgx.Conn) {
		// Other test programs may be about to make it too.
		mustExec(ctx, tb, conn, `SELECT pg_advisory_lock(hashtext('`+name+`'))`)
		defer mustExec(ctx, tb, conn, `SELECT pg_advisory_unlock_all()`)
		var exists bool
		if err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM pg_database WHERE datname = $1)`, name).Scan(&exists); err != nil {
			tb.Fatalf("sqltest: %v", err)
		}
		if exists {
			return
		}
		unfinished := newName("unfinished")
		mustExec(ctx, tb, conn, createDatabase(unfinished, "template0"))
		migrate(tb, address(tb, unfinished))
		mustExec(ctx, tb, conn, `ALTER DATABASE `+unfinished+` RENAME TO `+name)
	})
	templates.made[name] = true
	return name
}

var templates = struct {
	sync.Mutex
	made map[string]bool
}{made: map[string]bool{}}

// EmptyPostgres returns the address of a new database without tables.
func EmptyPostgres(tb testing.TB) string {
	tb.Helper()
	name := newName("empty")
	create(tb, name, "template0")
	return address(tb, name)
}

// create makes a database and drops it after the test.
func create(tb testing.TB, name, from string) {
	tb.Helper()
	run := func(sql string) {
		withServer(tb, func(ctx context.Context, conn *pgx.Conn) { mustExec(ctx, tb, conn, sql) })
	}
	run(createDatabase(name, from))
	tb.Cleanup(func() { run(`DROP DATABASE IF EXISTS ` + name + ` WITH (FORCE)`) })
}

func createDatabase(name, from string) string {
	return `CREATE DATABASE ` + name + ` TEMPLATE ` + from + ` STRATEGY file_copy`
}

func newName(kind string) string {
	b := make([]byte, 6)
	_, _ = rand.Read(b) // never fails
	return fmt.Sprintf("ponte_%s_%s", kind, hex.EncodeToString(b))
}

func server(tb testing.TB) *url.URL {
	tb.Helper()
	u, err := url.Parse(os.Getenv(Variable))
	if err != nil || u.Host == "" {
		tb.Fatalf("sqltest: %s names no PostgreSQL: run the tests by ./scripts/test or ./scripts/with-postgres go test ./...", Variable)
	}
	return u
}

func address(tb testing.TB, name string) string {
	tb.Helper()
	u := server(tb)
	u.Path = "/" + strings.TrimPrefix(name, "/")
	return u.String()
}

// withServer has f use a connection to the server, one at a time. It is kept for the next, because each database is made and
// dropped by one, and to connect takes a third of that.
func withServer(tb testing.TB, f func(ctx context.Context, conn *pgx.Conn)) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn := idle.take()
	if conn == nil {
		var err error
		if conn, err = pgx.Connect(ctx, server(tb).String()); err != nil {
			tb.Fatalf("sqltest: %v", err)
		}
	}
	defer func() { idle.put(conn) }()
	f(ctx, conn)
}

// idle are connections to the server that nobody uses. They end with the process.
var idle connections

type connections struct {
	mu   sync.Mutex
	list []*pgx.Conn
}

// take returns a connection, or nil when there is none.
func (c *connections) take() *pgx.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.list) > 0 {
		last := c.list[len(c.list)-1]
		c.list = c.list[:len(c.list)-1]
		if !last.IsClosed() {
			return last
		}
	}
	return nil
}

func (c *connections) put(conn *pgx.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, conn)
}

func mustExec(ctx context.Context, tb testing.TB, conn *pgx.Conn, sql string) {
	tb.Helper()
	if _, err := conn.Exec(ctx, sql); err != nil {
		tb.Fatalf("sqltest: %s: %v", sql, err)
	}
}

// Prepare returns why db does not understand a statement, or nil. It runs nothing.
func Prepare(ctx context.Context, db *sqldb.DB, sql string) error {
	if db.IsPostgres() {
		err := db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			if err := tx.Script(ctx, `PREPARE statement AS `+sql+`; DEALLOCATE statement`); err != nil {
				return err
			}
			return errPrepared
		})
		if errors.Is(err, errPrepared) {
			return nil
		}
		return err
	}
	var args []any // NULL for each
	for strings.Contains(sql, fmt.Sprintf("$%d", len(args)+1)) {
		args = append(args, nil)
	}
	ignore := func(sqldb.Row) (struct{}, error) { return struct{}{}, nil }
	_, err := sqldb.All(ctx, db, ignore, `EXPLAIN `+sql, args...)
	return err
}

var errPrepared = errors.New("sqltest: prepared")

// Wait returns once happened reports true. It is for what another process or goroutine does and does not tell.
func Wait(tb testing.TB, what string, happened func() bool) {
	tb.Helper()
	timeout := time.After(waitTimeMax)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !happened() {
		select {
		case <-timeout:
			tb.Fatalf("sqltest: waited in vain for %s", what)
		case <-tick.C:
		}
	}
}

const waitTimeMax = time.Minute // far above all of them, also where everything else is slow

// WaitUnlocked returns once nothing in a PostgreSQL is locked by [sqldb.DB.TryLock]. What a session that was cut had locked
// is free once the server has noticed.
func WaitUnlocked(tb testing.TB, db *sqldb.DB) {
	tb.Helper()
	Wait(tb, "all locks to be free", func() bool {
		locked, err := sqldb.One(tb.Context(), db, sqldb.Scalar[int64], `SELECT COUNT(*) FROM pg_locks
WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
		if err != nil {
			tb.Fatal(err)
		}
		return locked == 0
	})
}
