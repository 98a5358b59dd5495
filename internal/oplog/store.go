package oplog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

const (
	columns = `id, kind, who, action, COALESCE(account_id, 0), subject, before, after, COALESCE(reason, '')`

	// The identifier is what a second run meets the first by.
	insertEntry = `INSERT INTO operator_log (id, kind, who, action, account_id, subject, before, after, reason)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (id) DO NOTHING`

	listEntries = `SELECT ` + columns + ` FROM operator_log WHERE id < $1 ORDER BY id DESC LIMIT $2`
	listOf      = `SELECT ` + columns + ` FROM operator_log WHERE account_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3`
)

// PageMax is the most entries that one call lists.
const PageMax = 200

// Page says which entries are wanted.
type Page struct {
	Account id.Account // only those about this one; 0 means all
	Before  id.ID      // only older ones; zero means from the latest on
	Limit   int        // 0 means PageMax, and never more than that
}

// List returns entries, the latest first.
func List(ctx context.Context, q sqldb.Querier, p Page) ([]Entry, error) {
	if p.Limit <= 0 || p.Limit > PageMax {
		p.Limit = PageMax
	}
	if p.Before.IsZero() {
		p.Before = id.Max
	}
	if p.Account != 0 {
		return sqldb.All(ctx, q, scanEntry, listOf, int64(p.Account), p.Before, p.Limit)
	}
	return sqldb.All(ctx, q, scanEntry, listEntries, p.Before, p.Limit)
}

func scanEntry(r sqldb.Row) (e Entry, err error) {
	var kind, action, before, after string
	var account int64
	if err := r.Scan(&e.ID, &kind, &e.Actor.Name, &action, &account, &e.Subject, &before, &after, &e.Reason); err != nil {
		return e, err
	}
	e.Actor.Kind, e.Action, e.Account = Kind(kind), Action(action), id.Account(account)
	if err := errors.Join(json.Unmarshal([]byte(before), &e.Before), json.Unmarshal([]byte(after), &e.After)); err != nil {
		return e, fmt.Errorf("oplog: entry %s: %w", e.ID, err)
	}
	return e, nil
}
