package sqldb

import (
	"context"
	"errors"
	"net/url"

	"github.com/jackc/pgx/v5"
)

// CopyPostgres makes a database on the PostgreSQL of an address, as a copy of another one there that nobody uses, and
// returns its address. It is for databases that are thrown away.
func CopyPostgres(ctx context.Context, server, from, name string) (string, error) {
	u, err := url.Parse(server)
	if err != nil {
		return "", errors.New("sqldb: the postgres:// address cannot be read") // err would show the password
	}
	u.Path = "/" + name
	sql := `CREATE DATABASE ` + pgx.Identifier{name}.Sanitize() + ` TEMPLATE ` + pgx.Identifier{from}.Sanitize() + ` STRATEGY file_copy`
	return u.String(), outside(ctx, server, sql)
}

// DropPostgres takes a database away, also from those who use it.
func DropPostgres(ctx context.Context, server, name string) error {
	return outside(ctx, server, `DROP DATABASE IF EXISTS `+pgx.Identifier{name}.Sanitize()+` WITH (FORCE)`)
}

// outside runs a statement that no transaction can hold.
func outside(ctx context.Context, server, sql string) error {
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return pgError(err)
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, sql)
	return pgError(err)
}
