package charge

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/inquiry"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

const unmatchedMax = 500 // that are listed

// Reconcile reads each acquirer's list of payments since the last time and settles what is unknown here.
func (s *Service) Reconcile(ctx context.Context) (did bool, err error) {
	lists := inquiry.Lists{DB: s.DB, Clock: s.Clock}
	var silent inquiry.Silence
	for _, health := range s.Router.Health() {
		at, _ := s.Router.Get(health.Acquirer)
		for _, age := range inquiry.Passes {
			more, readErr := lists.Step(ctx, inquiry.List{
				Name: at.Name(), Age: age,
				Read: func(ctx context.Context, w acquirer.Window) (inquiry.Read, error) { return s.readPage(ctx, at, w) },
			})
			did, err = did || more, errors.Join(err, readErr)
			if silent.Note(at.Name(), readErr) {
				break
			}
		}
	}
	return did && err == nil, err
}

// readPage settles what a page lists. What fails keeps nothing else from being settled.
func (s *Service) readPage(ctx context.Context, at acquirer.Acquirer, w acquirer.Window) (inquiry.Read, error) {
	page, err := s.list(ctx, at, w)
	if err != nil {
		return inquiry.Read{}, err
	}
	if page.Unreadable > 0 {
		s.Log.LogAttrs(ctx, slog.LevelError, "acquirer lists payments that make no sense",
			slog.String("acquirer", at.Name()), slog.Int("payments", page.Unreadable), slog.Time("from", w.From), slog.Time("to", w.To))
	}
	failed := inquiry.Each(page.Payments, func(p *acquirer.Payment) error { return s.match(ctx, at.Name(), p) })
	return inquiry.Read{Next: page.Next, Unfollowed: failed}, nil
}

func (s *Service) list(ctx context.Context, at acquirer.Acquirer, w acquirer.Window) (acquirer.Page, error) {
	ctx, cancel := context.WithTimeout(ctx, acquirer.TryTimeMax)
	defer cancel()
	return at.ListPayments(ctx, w)
}

// match settles a payment that an acquirer has, or lists it as nobody's.
func (s *Service) match(ctx context.Context, name string, p *acquirer.Payment) error {
	if s.settled.Has(settledName(name, p)) {
		return nil
	}
	c, err := s.byTxID(ctx, p.TxID)
	switch {
	case errors.Is(err, sqldb.ErrNoRows):
		return s.unmatched(ctx, name, p, "it names no charge of ours")
	case err != nil:
		return err
	case c.Acquirer != name:
		return s.unmatched(ctx, name, p, "its charge is at another acquirer")
	}
	if _, returned := returnedOf(p); c.EndToEndID == p.EndToEndID && c.Refunded == returned {
		s.settled.Add(settledName(name, p))
		return nil
	}
	// Its charge knows the key that it must have been paid to.
	_, err = s.look(ctx, &c, p.EndToEndID)
	return err
}

// settledName names a payment as far as it has come.
func settledName(acquirer string, p *acquirer.Payment) string {
	_, returned := returnedOf(p)
	return acquirer + " " + p.EndToEndID + " " + returned.String()
}

// unmatched lists a payment as nobody's.
func (s *Service) unmatched(ctx context.Context, name string, p *acquirer.Payment, reason string) error {
	now := s.Clock.Now()
	paidAt := p.PaidAt
	if paidAt.IsZero() {
		paidAt = now
	}
	err := s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.Queue(ctx, insertUnmatched, name, p.EndToEndID, null(p.TxID), int64(p.Amount), paidAt.UnixMicro(), now.UnixMicro(), reason)
		return nil
	})
	if err == nil {
		s.settled.Add(settledName(name, p)) // until it changes, there is nothing more to say
	}
	return err
}

// Unmatched is a payment that belongs to no charge.
type Unmatched struct {
	Acquirer   string
	EndToEndID string
	TxID       string // "" for none
	Amount     money.BRL
	PaidAt     time.Time
	FoundAt    time.Time // business time
	Reason     string
}

// ListUnmatched returns the payments that were found last and belong to no charge.
func ListUnmatched(ctx context.Context, q sqldb.Querier) ([]Unmatched, error) {
	return sqldb.All(ctx, q, func(r sqldb.Row) (u Unmatched, err error) {
		var amount, paidAt, foundAt int64
		err = r.Scan(&u.Acquirer, &u.EndToEndID, &u.TxID, &amount, &paidAt, &foundAt, &u.Reason)
		u.Amount, u.PaidAt, u.FoundAt = money.BRL(amount), moment(paidAt), moment(foundAt)
		return u, err
	}, listUnmatched, unmatchedMax)
}
