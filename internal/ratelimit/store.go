package ratelimit

import (
	"context"
	"fmt"

	"github.com/ponte-pay/ponte/internal/sqldb"
)

// grant is a key's row after somebody asked it for tokens.
type grant struct {
	startedAt int64 // business microseconds
	taken     int   // by all nodes
	granted   int   // by this question
}

// tokens are tokens of one window in nobody's hands.
type tokens struct {
	prefix    string
	startedAt int64 // business microseconds
	n         int
}

// slice is sliceOf in SQL, for a row whose window runs on: $5 is the limit, $6 is twice the number of nodes, $7 is
// what is left when slices begin to be smaller than the largest, $8.
const slice = `CASE
        WHEN $5 - rate_window.taken >= $7 THEN $8
        WHEN $5 - rate_window.taken >= $6 THEN ($5 - rate_window.taken) / $6
        WHEN $5 > rate_window.taken THEN 1
        ELSE 0 END`

const (
	// $2 is now, $3 the slice of a window that starts now, $4 the start of the youngest window that has ended.
	takeSlice = `INSERT INTO rate_window (prefix, started_at, taken, granted, starved) VALUES ($1, $2, $3, $3, FALSE)
ON CONFLICT (prefix) DO UPDATE SET
    started_at = CASE WHEN rate_window.started_at <= $4 THEN excluded.started_at ELSE rate_window.started_at END,
    taken      = CASE WHEN rate_window.started_at <= $4 THEN excluded.taken ELSE rate_window.taken + ` + slice + ` END,
    granted    = CASE WHEN rate_window.started_at <= $4 THEN excluded.granted ELSE ` + slice + ` END,
    starved    = rate_window.started_at > $4 AND rate_window.taken >= $5
RETURNING started_at, taken, granted`

	// The window may have ended since the tokens were taken: then they are worth nothing.
	giveBack = `UPDATE rate_window SET taken = taken - $3 WHERE prefix = $1 AND started_at = $2`

	selectStarved = `SELECT prefix, started_at, taken FROM rate_window
WHERE starved AND started_at > $1 AND prefix > $2 ORDER BY prefix LIMIT $3`

	deleteEnded = `DELETE FROM rate_window WHERE started_at <= $1 AND prefix IN (
    SELECT prefix FROM rate_window WHERE started_at <= $1 ORDER BY prefix LIMIT $2 FOR UPDATE SKIP LOCKED)`
)

// sliceOf returns how many tokens of a limit a node gets when left remain for all of them: half of its share, because what
// it does not need soon somebody else may.
func sliceOf(limit, left, nodes int) int {
	return min(left, max(1, min(sliceMax(limit), left/(2*nodes))))
}

// sliceMax is how many tokens of a limit a node takes at most at once.
func sliceMax(limit int) int { return max(sliceUsual, limit/slicesMin) }

// ask gives tokens back to a key's row, if there are any, and then takes a slice from it.
func (l *Limiter) ask(ctx context.Context, prefix string, limit int, back tokens) (grant, error) {
	nodes := max(1, l.nodes())
	var g grant
	err := l.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		back.queue(ctx, tx)
		now := l.clock.Now().UnixMicro()
		g, err = sqldb.One(ctx, tx, scanGrant, takeSlice, prefix, now, sliceOf(limit, limit, nodes),
			now-windowTime.Microseconds(), limit, 2*nodes, 2*nodes*sliceMax(limit), sliceMax(limit))
		return err
	})
	if err != nil {
		return grant{}, fmt.Errorf("ratelimit: ask for %s: %w", prefix, err)
	}
	return g, nil
}

// queue gives t back in the transaction, once: Write runs its function again when it does not know whether the first
// run was committed, and tokens that are given back twice are allowed twice. If the first was not, they are lost.
func (t *tokens) queue(ctx context.Context, tx *sqldb.Tx) {
	if t.n > 0 {
		tx.Queue(ctx, giveBack, t.prefix, t.startedAt, t.n)
		t.n = 0
	}
}

func scanGrant(r sqldb.Row) (g grant, err error) {
	err = r.Scan(&g.startedAt, &g.taken, &g.granted)
	return g, err
}

// starvedRow is the row of a key that some node had no token for.
type starvedRow struct {
	prefix    string
	startedAt int64 // business microseconds
	taken     int
}

// findStarved returns the first starved rows behind a prefix, in order.
func (l *Limiter) findStarved(ctx context.Context, now int64, behind string) ([]starvedRow, error) {
	rows, err := sqldb.All(ctx, l.db, scanStarved, selectStarved, now-windowTime.Microseconds(), behind, starvedMax)
	if err != nil {
		return nil, fmt.Errorf("ratelimit: find starved keys: %w", err)
	}
	return rows, nil
}

func scanStarved(r sqldb.Row) (s starvedRow, err error) {
	err = r.Scan(&s.prefix, &s.startedAt, &s.taken)
	return s, err
}

// giveBackAll gives back tokens of several keys, which must be in order: two nodes that do it at once would otherwise
// wait for each other.
func (l *Limiter) giveBackAll(ctx context.Context, all []tokens) error {
	err := l.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		for i := range all {
			all[i].queue(ctx, tx)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("ratelimit: give back: %w", err)
	}
	return nil
}

// forgetEnded deletes some rows of windows that started at or before a moment, and returns how many.
func (l *Limiter) forgetEnded(ctx context.Context, startedBy int64) (n int64, err error) {
	err = l.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		n, err = tx.Exec(ctx, deleteEnded, startedBy, deleteMax)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("ratelimit: forget windows that have ended: %w", err)
	}
	return n, nil
}
