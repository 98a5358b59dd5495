package sim

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/url"

	"github.com/jackc/pgx/v5"

	"github.com/ponte-pay/ponte/internal/schema"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// prepare makes the database with tables that all others are copied from.
func (p *place) prepare(ctx context.Context) error {
	tail := make([]byte, 6)
	_, _ = rand.Read(tail) // never fails
	p.name = "ponte_simulate_" + hex.EncodeToString(tail)
	if err := p.run(ctx, `CREATE DATABASE `+p.name+` TEMPLATE template0`); err != nil {
		return err
	}
	db, err := sqldb.Open(ctx, p.address(p.name))
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
	if err := p.run(ctx, `CREATE DATABASE `+name+` TEMPLATE `+p.name+` STRATEGY file_copy`); err != nil {
		return nil, nil, err
	}
	db, err := sqldb.Open(ctx, p.address(name))
	if err != nil {
		return nil, nil, err
	}
	return db, func() {
		db.Close()
		_ = p.drop(context.WithoutCancel(ctx), name) // one that stays is in nobody's way
	}, nil
}

func (p *place) drop(ctx context.Context, name string) error {
	return p.run(ctx, `DROP DATABASE IF EXISTS `+name+` WITH (FORCE)`)
}

// address returns the address of a database of the server.
func (p *place) address(name string) string {
	u, err := url.Parse(p.server)
	if err != nil {
		return p.server // which says what is wrong with it
	}
	u.Path = "/" + name
	return u.String()
}

// run runs a statement on the server itself.
func (p *place) run(ctx context.Context, sql string) error {
	conn, err := pgx.Connect(ctx, p.server)
	if err != nil {
		return fmt.Errorf("sim: PostgreSQL does not answer: %w", err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, sql); err != nil {
		return fmt.Errorf("sim: %w", err)
	}
	return nil
}
