// Package sqltest gives each test a database of its own, of both kinds, that is gone afterwards.
package sqltest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
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

// SQLite returns the address of a new database with all tables.
func SQLite(tb testing.TB) string {
	tb.Helper()
	url := "sqlite:" + filepath.Join(tb.TempDir(), "ponte.db")
	migrate(tb, url)
	return url
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

// template is the database that all others of this process are copied from: faster than migrating each.
var template struct {
	once sync.Once
	name string
}

// Postgres returns the address of a new database with all tables. Without a server the test fails: it does not skip.
func Postgres(tb testing.TB) string {
	tb.Helper()
	template.once.Do(func() {
		name := newName("template")
		create(tb, name, "template0")
		migrate(tb, address(tb, name))
		template.name = name
	})
	if template.name == "" {
		tb.Fatal("sqltest: the template database could not be made")
	}
	name := newName("test")
	create(tb, name, template.name)
	tb.Cleanup(func() { admin(tb, `DROP DATABASE IF EXISTS `+name+` WITH (FORCE)`) })
	return address(tb, name)
}

// EmptyPostgres returns the address of a new database without tables.
func EmptyPostgres(tb testing.TB) string {
	tb.Helper()
	name := newName("empty")
	create(tb, name, "template0")
	tb.Cleanup(func() { admin(tb, `DROP DATABASE IF EXISTS `+name+` WITH (FORCE)`) })
	return address(tb, name)
}

func create(tb testing.TB, name, from string) {
	tb.Helper()
	admin(tb, `CREATE DATABASE `+name+` TEMPLATE `+from+` STRATEGY file_copy`)
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

func admin(tb testing.TB, sql string) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, server(tb).String())
	if err != nil {
		tb.Fatalf("sqltest: %v", err)
	}
	defer conn.Close(ctx) //nolint:errcheck // the test is over
	if _, err := conn.Exec(ctx, sql); err != nil {
		tb.Fatalf("sqltest: %s: %v", sql, err)
	}
}
