package webhook

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

const (
	pruneEvery = 10 * time.Minute // real time between rounds over all accounts
	pruneSlice = 500              // events looked at in one transaction
)

// pruning is a round over all accounts.
type pruning struct {
	endedAt time.Time  // real time of the last round
	running bool       // a round is under way
	border  id.ID      // what is below it goes
	account id.Account // the last account that is done
}

// Prune forgets events that are older than they are kept, with their deliveries, in slices. Those with a delivery that is
// parked or waits stay. It goes account by account along the events' own key, so that it never reads what it keeps.
func (s *Service) Prune(ctx context.Context) (did bool, err error) {
	p := &s.pruning
	now := s.Clock.Real()
	if !p.running {
		if !p.endedAt.IsZero() && now.Sub(p.endedAt) < pruneEvery {
			return false, nil
		}
		border := id.First(s.Clock.Now().Add(-s.Settings.Keep))
		// First of all it is told what may be gone: the audit must not miss it.
		err := s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			tx.Queue(ctx, raisePruned, border)
			return nil
		})
		if err != nil {
			return false, fmt.Errorf("webhook: prune: %w", err)
		}
		*p = pruning{running: true, border: border, endedAt: p.endedAt}
	}
	accounts, err := s.Accounts.List(ctx, p.account, account.ListMax)
	if err != nil {
		return false, fmt.Errorf("webhook: prune: %w", err)
	}
	for _, a := range accounts {
		if err := s.pruneAccount(ctx, a.ID); err != nil {
			return false, fmt.Errorf("webhook: prune %s: %w", a.ID, err)
		}
		p.account = a.ID
	}
	if len(accounts) == 0 {
		p.running, p.endedAt = false, now
	}
	return len(accounts) > 0, nil
}

func (s *Service) pruneAccount(ctx context.Context, owner id.Account) error {
	after, border := id.First(time.UnixMicro(0)), s.pruning.border
	for {
		end, err := sqldb.One(ctx, s.DB, sqldb.Scalar[id.ID], selectSliceEnd, int64(owner), after, border, pruneSlice-1)
		isLast := errors.Is(err, sqldb.ErrNoRows)
		if isLast {
			end, err = border, nil
		}
		if err != nil {
			return err
		}
		found, err := sqldb.One(ctx, s.DB, sqldb.Scalar[bool], existsEvent, int64(owner), after, end)
		if err != nil || !found {
			return err
		}
		err = s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			for _, prune := range []string{pruneAttempts, prunePlaces, pruneEvents, pruneDeliveries} {
				tx.Queue(ctx, prune, int64(owner), after, end)
			}
			return nil
		})
		if err != nil || isLast {
			return err
		}
		after = end
	}
}

// Pruned returns the border below which events may be gone.
func Pruned(ctx context.Context, q sqldb.Querier) (id.ID, error) {
	return sqldb.One(ctx, q, sqldb.Scalar[id.ID], selectPruned)
}
