package sqldb_test

import (
	"context"
	"testing"

	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

func TestScratch(t *testing.T) {
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		ctx := context.Background()
		err := db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			tx.Queue(ctx, `INSERT INTO clock (name, offset_us) VALUES ($1, $2)`, "a", 5)
			n, err := tx.Exec(ctx, `UPDATE clock SET offset_us = offset_us + 1 WHERE name = $1`, "a")
			if n != 1 {
				t.Error(n)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		v, err := sqldb.One(ctx, db, sqldb.Scalar[int64], `SELECT offset_us FROM clock WHERE name = $1`, "a")
		t.Log(v, err)
		err = db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			tx.Queue(ctx, `INSERT INTO clock (name, offset_us) VALUES ($1, $2)`, "a", 5)
			return nil
		})
		t.Log(err)
		l, err := db.TryLock(ctx, 1, 2)
		t.Log(l, err)
	})
}
