package schema_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ponte-pay/ponte/internal/schema"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

// eachEmpty runs test on a new SQLite file and on a new PostgreSQL database, both without tables.
func eachEmpty(t *testing.T, test func(t *testing.T, url string)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, "sqlite:"+filepath.Join(t.TempDir(), "ponte.db"))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(t, sqltest.EmptyPostgres(t))
	})
}

type applied struct {
	Version   int64
	Name      string
	Checksum  string
	AppliedAt int64
}

// versions returns what the database says about itself.
func versions(t *testing.T, db *sqldb.DB) []applied {
	t.Helper()
	all, err := sqldb.All(t.Context(), db, func(r sqldb.Row) (a applied, err error) {
		err = r.Scan(&a.Version, &a.Name, &a.Checksum, &a.AppliedAt)
		return a, err
	}, `SELECT version, name, checksum, applied_at FROM schema_version ORDER BY version`)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func run(t *testing.T, db *sqldb.DB, sql string, args ...any) {
	t.Helper()
	err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, sql, args...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	eachEmpty(t, func(t *testing.T, url string) {
		db := sqltest.Open(t, url)
		if err := schema.Check(t.Context(), db); !errors.Is(err, schema.ErrEmpty) {
			t.Errorf("Check of an empty database: %v", err)
		}
		now := time.UnixMicro(1_700_000_000_000_000)
		version, err := schema.Migrate(t.Context(), db, now)
		if err != nil || version < 1 {
			t.Fatalf("Migrate: %d, %v", version, err)
		}
		if err := schema.Check(t.Context(), db); err != nil {
			t.Errorf("Check after Migrate: %v", err)
		}
		first := versions(t, db)
		if int64(len(first)) != version || first[0].AppliedAt != now.UnixMicro() || len(first[0].Checksum) != 64 {
			t.Errorf("it says about itself: %+v", first)
		}

		if got, err := schema.Version(t.Context(), db); got != version || err != nil {
			t.Errorf("Version: %d, %v", got, err)
		}

		again, err := schema.Migrate(t.Context(), db, now.Add(time.Hour))
		if err != nil || again != version {
			t.Errorf("Migrate again: %d, %v", again, err)
		}
		if diff := cmp.Diff(first, versions(t, db)); diff != "" {
			t.Errorf("the second Migrate changed (-before +after):\n%s", diff)
		}
	})
}

// Nodes that start together bring the database up once.
func TestMigrateAtOnce(t *testing.T) {
	t.Parallel()
	eachEmpty(t, func(t *testing.T, url string) {
		dbs := []*sqldb.DB{sqltest.Open(t, url), sqltest.Open(t, url)}
		var wait sync.WaitGroup
		for i := range 8 {
			wait.Go(func() {
				if _, err := schema.Migrate(t.Context(), dbs[i%2], time.Now()); err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		for _, db := range dbs {
			if err := schema.Check(t.Context(), db); err != nil {
				t.Error(err)
			}
		}
	})
}

// A database that is not what this binary made is left alone.
func TestRefuses(t *testing.T) {
	t.Parallel()
	const extra = `CREATE TABLE extra (x BIGINT)`
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		refuse := func(what string, want error, text string) {
			t.Helper()
			before := versions(t, db)
			if err := schema.Check(t.Context(), db); err == nil || (want != nil && !errors.Is(err, want)) || !strings.Contains(err.Error(), text) {
				t.Errorf("Check of %s: %v", what, err)
			}
			if _, err := schema.Migrate(t.Context(), db, time.Now()); err == nil || (want != nil && !errors.Is(err, want)) || !strings.Contains(err.Error(), text) {
				t.Errorf("Migrate of %s: %v", what, err)
			}
			// Not even when it has something new to add.
			if _, err := schema.MigrateWith(t.Context(), db, extra); err == nil {
				t.Errorf("Migrate of %s with one more step went through", what)
			}
			if diff := cmp.Diff(before, versions(t, db)); diff != "" {
				t.Errorf("%s was changed (-before +after):\n%s", what, diff)
			}
		}
		if err := schema.CheckWith(t.Context(), db, extra); !errors.Is(err, schema.ErrBehind) {
			t.Errorf("Check of an older database: %v", err)
		}
		own := versions(t, db)
		run(t, db, `INSERT INTO schema_version (version, name, checksum, applied_at) VALUES ($1, 'next', 'x', 0)`, len(own)+1)
		if err := schema.CheckWith(t.Context(), db, extra); err == nil {
			t.Error("Check of a database with another step in the same place went through")
		}
		refuse("a newer database", schema.ErrNewer, "newer")
		run(t, db, `DELETE FROM schema_version WHERE name = 'next'`)

		run(t, db, `UPDATE schema_version SET checksum = 'other' WHERE version = 1`)
		refuse("a database made by other steps", nil, "checksum")
		run(t, db, `UPDATE schema_version SET checksum = $1 WHERE version = 1`, own[0].Checksum)
		if err := schema.Check(t.Context(), db); err != nil {
			t.Error(err)
		}

		run(t, db, `DELETE FROM schema_version`)
		if err := schema.Check(t.Context(), db); !errors.Is(err, schema.ErrEmpty) {
			t.Errorf("Check of a database that says nothing about itself: %v", err)
		}
	})
}

// A step that fails leaves nothing of itself, nor of those before it.
func TestFailingMigration(t *testing.T) {
	t.Parallel()
	const fails = `CREATE TABLE extra (x BIGINT); INSERT INTO extra VALUES (1); CREATE TABLE account (x BIGINT)`
	eachEmpty(t, func(t *testing.T, url string) {
		db := sqltest.Open(t, url)
		if _, err := schema.MigrateWith(t.Context(), db, fails); err == nil || !strings.Contains(err.Error(), "extra") {
			t.Fatalf("the failure does not name its step: %v", err)
		}
		if got := tables(t, db); len(got) > 0 {
			t.Errorf("it left %v", got)
		}
		if _, err := schema.Migrate(t.Context(), db, time.Now()); err != nil {
			t.Fatal(err)
		}
		before := tables(t, db)
		if _, err := schema.MigrateWith(t.Context(), db, fails); err == nil {
			t.Fatal("it went through")
		}
		if diff := cmp.Diff(before, tables(t, db)); diff != "" {
			t.Errorf("it left (-before +after):\n%s", diff)
		}
		if err := schema.Check(t.Context(), db); err != nil {
			t.Error(err)
		}
		// The next one that works goes through.
		if _, err := schema.MigrateWith(t.Context(), db, `CREATE TABLE extra (x BIGINT)`); err != nil {
			t.Error(err)
		}
		if err := schema.Check(t.Context(), db); !errors.Is(err, schema.ErrNewer) {
			t.Errorf("a binary without that step says %v", err)
		}
	})
}
