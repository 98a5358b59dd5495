package idempotency

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// A key that made a resource is kept with it. One that was answered with a resource that existed already has none to be
// kept with: it has a row of its own, so that its repetition is answered alike and its misuse is refused.
const (
	upsertBound = `INSERT INTO bound_key (account_id, route, key, hash, bound_at) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (account_id, route, key) DO UPDATE SET hash = excluded.hash, bound_at = excluded.bound_at`
	selectBound = `SELECT hash FROM bound_key WHERE account_id = $1 AND route = $2 AND key = $3 AND bound_at >= $4`

	// Over all accounts: what is older than keys are remembered.
	findForgotten   = `SELECT account_id, route, key FROM bound_key WHERE bound_at < $1 ORDER BY bound_at LIMIT $2`
	deleteForgotten = `DELETE FROM bound_key WHERE account_id = $1 AND route = $2 AND key = $3 AND bound_at < $4`
)

func (e *Engine) findBound(ctx context.Context, req Request, forgotten time.Time) (*[sha256.Size]byte, error) {
	stored, err := sqldb.One(ctx, e.db, sqldb.Scalar[[]byte], selectBound,
		int64(req.Account), req.Route, req.Key, forgotten.UnixMicro())
	switch {
	case errors.Is(err, sqldb.ErrNoRows):
		return nil, nil //nolint:nilnil // none is bound
	case err != nil:
		return nil, fmt.Errorf("idempotency: find key: %w", err)
	case len(stored) != sha256.Size:
		return nil, fmt.Errorf("idempotency: a hash of %d bytes is stored", len(stored))
	}
	return (*[sha256.Size]byte)(stored), nil
}

// bind remembers a key that was answered with a resource that existed.
func (e *Engine) bind(ctx context.Context, req Request) error {
	if req.Key == "" {
		return nil
	}
	err := e.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.Queue(ctx, upsertBound, int64(req.Account), req.Route, req.Key, req.Hash[:], e.clock.Now().UnixMicro())
		return nil
	})
	if err != nil {
		return fmt.Errorf("idempotency: bind key: %w", err)
	}
	return nil
}

// forgetMax bounds one step.
const forgetMax = 500

// Step forgets keys that are no longer remembered. Those that are kept with a resource are taken from it when they are
// used again.
func (e *Engine) Step(ctx context.Context) (did bool, err error) {
	before := e.clock.Now().Add(-e.retention).UnixMicro()
	type row struct {
		account    int64
		route, key string
	}
	rows, err := sqldb.All(ctx, e.db, func(r sqldb.Row) (x row, err error) {
		err = r.Scan(&x.account, &x.route, &x.key)
		return x, err
	}, findForgotten, before, forgetMax)
	if err != nil {
		return false, fmt.Errorf("idempotency: find forgotten keys: %w", err)
	}
	for _, x := range rows {
		err := e.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			tx.Queue(ctx, deleteForgotten, x.account, x.route, x.key, before)
			return nil
		})
		if err != nil {
			return false, fmt.Errorf("idempotency: forget a key of %s: %w", id.Account(x.account), err)
		}
	}
	return len(rows) == forgetMax, nil
}
