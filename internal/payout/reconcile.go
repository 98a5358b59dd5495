package payout

import (
	"context"
	"errors"
	"log/slog"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/inquiry"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// Reconcile reads each acquirer's list of payouts. It finds what came back although nobody told us, and what an acquirer
// sent although it should not have.
func (s *Service) Reconcile(ctx context.Context) (did bool, err error) {
	lists := inquiry.Lists{DB: s.DB, Clock: s.Clock}
	return lists.Reconcile(ctx, s.Router.Health(), func(acquirer string) (list inquiry.List, ok bool) {
		at, ok := s.Router.Payer(acquirer)
		return inquiry.List{Name: acquirer + " payouts", Read: s.reader(at)}, ok
	})
}

// reader returns how a page of an acquirer's list is read.
func (s *Service) reader(at acquirer.Payer) func(context.Context, acquirer.Window) (inquiry.Read, error) {
	return func(ctx context.Context, w acquirer.Window) (inquiry.Read, error) { return s.readPage(ctx, at, w) }
}

// readPage follows what a page lists. What fails keeps nothing else from being followed.
func (s *Service) readPage(ctx context.Context, at acquirer.Payer, w acquirer.Window) (inquiry.Read, error) {
	asking, cancel := context.WithTimeout(ctx, acquirer.TryTimeMax)
	defer cancel()
	page, err := at.ListPayouts(asking, w)
	if err != nil {
		return inquiry.Read{}, err
	}
	if page.Unreadable > 0 {
		s.Log.LogAttrs(ctx, slog.LevelError, "acquirer lists payouts that make no sense",
			slog.String("acquirer", at.Name()), slog.Int("payouts", page.Unreadable), slog.Time("from", w.From), slog.Time("to", w.To))
	}
	failed := inquiry.Each(page.Payouts, func(seen *acquirer.Payout) error {
		err := s.match(ctx, at.Name(), seen)
		if err == nil || !s.stuck.IsOver(settledName(at.Name(), seen), err, s.Clock.Now()) {
			return err
		}
		s.Log.LogAttrs(ctx, slog.LevelError, "a payout cannot be followed", slog.String("acquirer", at.Name()),
			slog.String("payout", seen.ID), slog.String("error", err.Error()))
		return nil
	})
	return inquiry.Read{Next: page.Next, Unfollowed: failed}, nil
}

// match follows a payout that an acquirer shows.
func (s *Service) match(ctx context.Context, name string, seen *acquirer.Payout) error {
	if s.settled.Has(settledName(name, seen)) {
		return nil
	}
	if p, ok := s.recent.Get(seen.ID); ok && p.Acquirer == name && seen.Status == acquirer.PayoutProcessing {
		return nil // it is as it was sent
	}
	p, err := s.byName(ctx, seen.ID)
	switch {
	case errors.Is(err, sqldb.ErrNoRows):
		return nil // the acquirer's account is used by others too
	case err != nil:
		return err
	case p.Acquirer == name:
		return s.follow(ctx, &p, seen)
	case seen.Status == acquirer.PayoutSettled || seen.Status == acquirer.PayoutProcessing:
		// It was proven not to have been sent there, and was sent elsewhere.
		s.contradict(ctx, &p, seen)
		s.settled.Add(settledName(name, seen))
	}
	return nil
}

// settledName names a payout as far as it has come at its acquirer.
func settledName(name string, seen *acquirer.Payout) string {
	var back money.BRL
	for _, r := range seen.Returns {
		if r.Status == acquirer.RefundDone {
			back += r.Amount
		}
	}
	return name + " " + seen.ID + " " + seen.Status.String() + " " + back.String()
}
