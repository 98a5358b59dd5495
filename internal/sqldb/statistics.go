package sqldb

import (
	"context"
	"time"
)

// PostgreSQL plans a statement by what it knows of its tables. Of a new one it knows nothing, takes any index for as good as
// the right one, and keeps to that plan until it has statistics, which it gathers by itself after a minute or more. Under load
// that minute has an account's every charge read for each new one. So the first statistics of a table are gathered
// as soon as there is something in it.
const (
	newTableBytesMin = 64 << 10
	newTablesMax     = 100 // at a time; there are not as many
	tendTimeMax      = 10 * time.Second
)

const selectNewTables = `SELECT quote_ident(relname) FROM pg_class
WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema()) AND relkind = 'r' AND reltuples < 0 AND pg_relation_size(oid) >= $1 LIMIT $2`

// tend gathers statistics of tables that have none, once: it may not be allowed to, and PostgreSQL will in the end. A table
// that somebody else is busy with is left to them.
func (d *pgDriver) tend(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, tendTimeMax)
	defer cancel()
	var names []string
	err := d.query(ctx, selectNewTables, []any{newTableBytesMin, newTablesMax}, func(r Row) error {
		var name string
		err := r.Scan(&name)
		names = append(names, name)
		return err
	})
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, known := d.tended.LoadOrStore(name, true); known {
			continue
		}
		if _, err := d.pool.Exec(ctx, "ANALYZE (SKIP_LOCKED) "+name); err != nil {
			return pgError(err)
		}
	}
	return nil
}
