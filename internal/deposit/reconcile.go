package deposit

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/chain"
	"github.com/ponte-pay/ponte/internal/inquiry"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// passes are how old payments are when the provider's list of them is read: at once for what nobody told us of, and again
// later for money that came or went back after the end, which no list tells by itself. Providers wait a week; addresses
// work for longer.
var passes = []time.Duration{
	0, 10 * time.Minute, day, 3 * day, 8 * day, 10 * day, 14 * day, 21 * day, 30 * day, 45 * day, 60 * day, 90 * day,
}

const day = 24 * time.Hour

// Reconcile reads the provider's list of payments since the last time and settles what is unknown here.
func (s *Service) Reconcile(ctx context.Context) (did bool, err error) {
	lists := inquiry.Lists{DB: s.DB, Clock: s.Clock}
	var silent inquiry.Silence
	for _, age := range passes {
		more, readErr := lists.Step(ctx, inquiry.List{Name: s.Provider.Name() + " deposits", Age: age, Read: s.readPage})
		did, err = did || more, errors.Join(err, readErr)
		if silent.Note(s.Provider.Name(), readErr) {
			break
		}
	}
	return did && err == nil, err
}

// readPage settles what a page lists. What fails keeps nothing else from being settled.
func (s *Service) readPage(ctx context.Context, w acquirer.Window) (inquiry.Read, error) {
	asking, cancel := context.WithTimeout(ctx, chain.TryTimeMax)
	defer cancel()
	page, err := s.Provider.ListPayments(asking, chain.Window{From: w.From, To: w.To, Cursor: w.Cursor})
	if err != nil {
		return inquiry.Read{}, err
	}
	if page.Unreadable > 0 {
		s.Log.LogAttrs(ctx, slog.LevelError, "crypto provider lists payments that make no sense",
			slog.String("provider", s.Provider.Name()), slog.Int("payments", page.Unreadable), slog.Time("from", w.From), slog.Time("to", w.To))
	}
	failed := inquiry.Each(page.Payments, func(p *chain.Payment) error {
		_, err := s.match(ctx, p)
		return err
	})
	return inquiry.Read{Next: page.Next, Unfollowed: failed}, nil
}

// match follows a payment that the provider has, or lists it as nobody's.
func (s *Service) match(ctx context.Context, p *chain.Payment) (Verdict, error) {
	name := s.Provider.Name()
	if s.settled.Has(settledName(name, p)) {
		return Followed, nil
	}
	d, err := s.byReference(ctx, p.Reference)
	switch {
	case errors.Is(err, sqldb.ErrNoRows):
		return Foreign, s.unmatched(ctx, p, "it names no crypto charge of ours")
	case err != nil:
		return "", err
	case d.Provider != name:
		return Foreign, s.unmatched(ctx, p, "its crypto charge is at another provider")
	}
	return Followed, s.matchTo(ctx, &d, p)
}

// settledName names a payment as far as it has come.
func settledName(provider string, p *chain.Payment) string {
	return provider + " " + p.ID + " " + p.Status.String() + " " + p.Settled.String()
}

// unmatched lists a payment as nobody's, once it has brought money.
func (s *Service) unmatched(ctx context.Context, p *chain.Payment, reason string) error {
	if !p.Status.IsSettled() || p.Settled == 0 {
		return nil
	}
	now := s.Clock.Now()
	err := s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.Queue(ctx, insertUnmatched, s.Provider.Name(), p.ID, null(p.Reference), int64(p.Settled), now.UnixMicro(), reason)
		return nil
	})
	if err == nil {
		s.settled.Add(settledName(s.Provider.Name(), p)) // until it changes, there is nothing more to say
	}
	return err
}
