package charge

import (
	"context"
	"errors"
	"time"

	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// States are all states, in the order in which people see them.
var States = []State{Pending, Paid, Expired, Cancelled, Refunded}

// sliceMax is how many charges a page is looked for in: one of a rare state may be empty although there are more.
const sliceMax = 2000

// Filter says which charges a person wants to see.
type Filter struct {
	Status State // "" for any
	After  string
	Limit  int
}

// Browse returns an account's charges in a state, newest first, and where to go on: "" at the end.
func (s *Service) Browse(ctx context.Context, owner id.Account, f Filter) (list []Charge, next string, err error) {
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
	list, err = sqldb.All(ctx, s.DB, scanCharge, listInState, int64(owner), border, end, string(f.Status), f.Limit+1)
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

// Search returns the charge that somebody means by an id, a txid, an external_id or the end-to-end id of a payment. No
// acquirer is asked.
func (s *Service) Search(ctx context.Context, owner id.Account, text string) (Charge, error) {
	for _, ref := range []string{text, "ext:" + text} {
		if c, err := s.find(ctx, owner, ref); !errors.Is(err, ErrNotFound) {
			return c, err
		}
	}
	// Whatever came for a charge was posted once by its end-to-end id.
	for _, kind := range []ledger.Kind{kindCashIn, ledger.KindInflow} {
		t, err := s.Ledger.FindPosted(ctx, owner, kind, text)
		if errors.Is(err, sqldb.ErrNoRows) {
			continue
		}
		if err != nil {
			return Charge{}, err
		}
		return get(ctx, s.DB, owner, t.Ref)
	}
	return Charge{}, ErrNotFound
}

// Refunds returns what was debited because the acquirer gave it back of the charge's own payment, oldest first.
func Refunds(ctx context.Context, q sqldb.Querier, c *Charge) ([]ledger.Transfer, error) {
	return ledger.PostedFor(ctx, q, c.Account, kindRefund, c.EndToEndID)
}

// Inflows returns what came by the charge beside its amount, oldest first: short, second and excess payments.
func Inflows(ctx context.Context, q sqldb.Querier, c *Charge) ([]ledger.Transfer, error) {
	return ledger.InflowsFor(ctx, q, c.Account, money.CurrencyBRL, c.ID)
}

// Tally is how charges went.
type Tally struct {
	Of    int64 // charges that were looked at: the latest, and not more than tallyMax
	Paid  int64 // refunded ones among them
	Open  int64 // still waiting for their payer
	Whole bool  // there were no more since the moment that was asked for
}

// tallyMax is how many charges are looked at to tell how many are paid.
const tallyMax = 5000

// CountSince tells how the latest charges of an account went.
func CountSince(ctx context.Context, q sqldb.Querier, owner id.Account, since time.Time) (Tally, error) {
	type row struct {
		status string
		count  int64
	}
	rows, err := sqldb.All(ctx, q, func(r sqldb.Row) (x row, err error) {
		err = r.Scan(&x.status, &x.count)
		return x, err
	}, countStates, int64(owner), id.First(since), tallyMax)
	var t Tally
	for _, r := range rows {
		t.Of += r.count
		switch State(r.status) {
		case Paid, Refunded:
			t.Paid += r.count
		case Pending:
			t.Open += r.count
		case Expired, Cancelled:
		}
	}
	t.Whole = t.Of < tallyMax
	return t, err
}
