package sim

import (
	"context"
	"crypto/rand"
	"encoding/hex"

	"github.com/ponte-pay/ponte/internal/schema"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// prepare makes the database with tables that all others are copied from.
func (p *place) prepare(ctx context.Context) error {
	tail := make([]byte, 6)
	_, _ = rand.Read(tail) // never fails
	p.name = "ponte_simulate_" + hex.EncodeToString(tail)
	address, err := sqldb.CopyPostgres(ctx, p.server, "template0", p.name)
	if err != nil {
		return err
	}
	db, err := sqldb.Open(ctx, address)
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = schema.Migrate(ctx, db, birth)
	return err
}

// copied opens a new database.
func (p *place) copied(ctx context.Context, name string) (*sqldb.DB, func(), error) {
	name = p.name + "_" + name
	address, err := sqldb.CopyPostgres(ctx, p.server, p.name, name)
	if err != nil {
		return nil, nil, err
	}
	db, err := sqldb.Open(ctx, address)
	if err != nil {
		return nil, nil, err
	}
	return db, func() {
		db.Close()
		_ = p.drop(context.WithoutCancel(ctx), name) // one that stays is in nobody's way
	}, nil
}

func (p *place) drop(ctx context.Context, name string) error {
	return sqldb.DropPostgres(ctx, p.server, name)
}
