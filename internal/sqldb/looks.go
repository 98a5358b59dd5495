package sqldb

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// A creation first looks whether it has happened before. The looks of requests that come at the same time share a round
// trip: a question of its own costs PostgreSQL several times what it takes to answer it.
const (
	looksMax     = 64 // that share a round trip
	lookLeadsMax = 2  // round trips under way
)

// look is a question whether there is a row.
type look struct {
	sql   string
	args  []any
	told  bool // found is the answer; otherwise it asks alone
	found bool
}

func (d *pgDriver) any(ctx context.Context, sql string, args []any) (bool, error) {
	me := &look{sql: sql, args: args}
	if err := d.looks.ride(ctx, me, d.lookTogether); err != nil {
		return false, err
	}
	if me.told {
		return me.found, nil
	}
	return anyRow(ctx, d, sql, args)
}

// anyRow asks by itself.
func anyRow(ctx context.Context, d driver, sql string, args []any) (found bool, err error) {
	err = d.query(ctx, sql, args, func(Row) error {
		found = true
		return nil
	})
	return found, err
}

// lookTogether answers as many as it can. The rest ask alone, so that nobody is told another's failure.
func (d *pgDriver) lookTogether(ctx context.Context, _ *look, board func() []*look) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectTimeMax) // it is not only its own
	defer cancel()
	conn, err := d.pool.Acquire(ctx)
	if err != nil {
		return
	}
	defer conn.Release()
	group := board()
	batch := &pgx.Batch{QueuedQueries: make([]*pgx.QueuedQuery, 0, len(group))}
	for _, l := range group {
		batch.Queue(l.sql, l.args...)
	}
	results := conn.Conn().SendBatch(ctx, batch)
	defer results.Close()
	for _, l := range group {
		rows, err := results.Query()
		if err != nil {
			return
		}
		found := rows.Next()
		rows.Close()
		if rows.Err() != nil {
			return
		}
		l.told, l.found = true, found
	}
}
