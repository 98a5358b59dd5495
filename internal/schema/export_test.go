package schema

import (
	"context"
	"io/fs"
	"path"
	"slices"
	"time"

	"github.com/ponte-pay/ponte/internal/sqldb"
)

// What the external tests need to see.
const (
	FolderSQLite   = "migrations/sqlite"
	FolderPostgres = "migrations/postgres"
	CreateVersions = createVersions
)

// MigrateWith is Migrate with one more step, of that text.
func MigrateWith(ctx context.Context, db *sqldb.DB, sql string) (int64, error) {
	steps, err := withStep(db, sql)
	if err != nil {
		return 0, err
	}
	return migrate(ctx, db, time.Now(), steps)
}

// CheckWith is Check with one more step, of that text.
func CheckWith(ctx context.Context, db *sqldb.DB, sql string) error {
	steps, err := withStep(db, sql)
	if err != nil {
		return err
	}
	return check(ctx, db, steps)
}

func withStep(db *sqldb.DB, sql string) ([]migration, error) {
	steps, err := migrations(db)
	return append(slices.Clip(steps), migration{int64(len(steps)) + 1, "extra", sql, sql}), err
}

// Texts returns the migrations of a folder in order.
func Texts(folder string) ([]string, error) {
	entries, err := fs.ReadDir(files, folder)
	if err != nil {
		return nil, err
	}
	var texts []string
	for _, e := range entries {
		text, err := fs.ReadFile(files, path.Join(folder, e.Name()))
		if err != nil {
			return nil, err
		}
		texts = append(texts, string(text))
	}
	return texts, nil
}

// MigrateBefore brings db up to the step before the one with that name.
func MigrateBefore(ctx context.Context, db *sqldb.DB, name string) error {
	steps, err := migrations(db)
	if err != nil {
		return err
	}
	end := slices.IndexFunc(steps, func(m migration) bool { return m.name == name })
	_, err = migrate(ctx, db, time.Now(), steps[:end])
	return err
}
