package payout

import (
	"context"
	"errors"
	"time"

	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// States are all states, in the order in which people see them.
var States = []State{Processing, Completed, Failed, Reversed}

// sliceMax is how many payouts a page is looked for in: one of a rare state may be empty although there are more.
const sliceMax = 2000

// Filter says which payouts a person wants to see.
type Filter struct {
	Status State // "" for any
	After  string
	Limit  int
}

// Browse returns an account's payouts in a state, newest first, and where to go on: "" at the end.
func (s *Service) Browse(ctx context.Context, owner id.Account, f Filter) (list []Payout, next string, err error) {
	border, err := prefix.Parse(f.After)
	if err != nil {
		border = id.Max
	}
	if f.Status == "" {
		list, err = Before(ctx, s.DB, owner, border, f.Limit+1)
		if err != nil || len(list) <= f.Limit {
			return list, "", err
		}
		return list[:f.Limit], prefix.Format(list[f.Limit-1].ID), nil
	}
	end, err := sqldb.One(ctx, s.DB, sqldb.Scalar[id.ID], selectSliceEnd, int64(owner), border, sliceMax-1)
	whole := errors.Is(err, sqldb.ErrNoRows)
	if err != nil && !whole {
		return nil, "", err
	}
	if whole {
		end = id.First(time.UnixMicro(0))
	}
	list, err = sqldb.All(ctx, s.DB, scanPayout, listInState, int64(owner), border, end, string(f.Status), f.Limit+1)
	switch {
	case err != nil:
		return nil, "", err
	case len(list) > f.Limit:
		return list[:f.Limit], prefix.Format(list[f.Limit-1].ID), nil
	case whole:
		return list, "", nil
	}
	return list, prefix.Format(end), nil
}

// Search returns the payout that somebody means by an id, a uuid, an external_id, the end-to-end id of its Pix or the name
// that its acquirer knows it by. No acquirer is asked.
func (s *Service) Search(ctx context.Context, owner id.Account, text string) (Payout, error) {
	for _, ref := range []string{text, "ext:" + text} {
		if p, err := s.find(ctx, owner, ref); !errors.Is(err, ErrNotFound) {
			return p, err
		}
	}
	if x, number, err := id.ParseToken(text); err == nil && number == owner {
		return s.find(ctx, owner, prefix.Format(x))
	}
	p, err := sqldb.One(ctx, s.DB, scanPayout, selectPayoutByPix, int64(owner), text)
	if errors.Is(err, sqldb.ErrNoRows) {
		err = ErrNotFound
	}
	return p, err
}

// Returns returns what the recipient's bank sent back of a payout, oldest first.
func Returns(ctx context.Context, q sqldb.Querier, p *Payout) ([]ledger.Transfer, error) {
	return ledger.PostedFor(ctx, q, p.Account, kindReturn, p.ID.String())
}
