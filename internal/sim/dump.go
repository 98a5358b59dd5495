package sim

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/ponte-pay/ponte/internal/schema"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// dumpTables writes every row of every table, in an order of its own.
func dumpTables(ctx context.Context, db *sqldb.DB) (string, error) {
	var b strings.Builder
	for _, table := range sortedKeys(schema.Tables) {
		if table == "schema_version" {
			continue // says when it was migrated
		}
		names, err := columns(ctx, db, table)
		if err != nil {
			return "", err
		}
		lines, err := sqldb.All(ctx, db, func(r sqldb.Row) (string, error) {
			values := make([]any, len(names))
			into := make([]any, len(names))
			for i := range values {
				into[i] = &values[i]
			}
			if err := r.Scan(into...); err != nil {
				return "", err
			}
			parts := make([]string, len(names))
			for i, v := range values {
				parts[i] = names[i] + "=" + shown(v)
			}
			return strings.Join(parts, " "), nil
		}, `SELECT `+strings.Join(names, ", ")+` FROM `+table)
		if err != nil {
			return "", fmt.Errorf("sim: dump %s: %w", table, err)
		}
		slices.Sort(lines)
		fmt.Fprintf(&b, "%s: %d\n", table, len(lines))
		for _, line := range lines {
			b.WriteString("  " + line + "\n")
		}
	}
	return b.String(), nil
}

// columns returns the names of a table's columns, in order.
func columns(ctx context.Context, db *sqldb.DB, table string) ([]string, error) {
	query := `SELECT name FROM pragma_table_info($1)`
	if db.IsPostgres() {
		query = `SELECT CAST(column_name AS TEXT) FROM information_schema.columns WHERE table_name = $1`
	}
	names, err := sqldb.All(ctx, db, sqldb.Scalar[string], query, table)
	slices.Sort(names)
	return names, err
}

// shown writes a value alike, whichever database has it.
func shown(v any) string {
	switch v := v.(type) {
	case []byte:
		return hex.EncodeToString(v)
	case [16]byte:
		return hex.EncodeToString(v[:])
	case bool:
		if v {
			return "1"
		}
		return "0"
	}
	return fmt.Sprint(v)
}
