package withdrawal

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/ponte-pay/ponte/internal/chain"
)

// dispatch has the provider asked once to make a new withdrawal. Whatever comes of it, the withdrawal is stored and will
// come to its end; w is how it stands. The provider is asked no longer than sending lasts; what it answers is written
// whatever it takes.
func (s *Service) dispatch(ctx, sending context.Context, w *Withdrawal) {
	seen, err := s.send(sending, w)
	if err != nil && !chain.IsRefused(err) {
		if found, findErr := s.search(sending, w); findErr == nil {
			seen, err = found, nil
		}
	}
	if err = s.conclude(ctx, w, &seen, err); err != nil { // then it is found by its age
		s.Log.LogAttrs(ctx, slog.LevelWarn, "a withdrawal could not be followed", slog.String("withdrawal", prefix.Format(w.ID)), slog.String("error", err.Error()))
	}
}

// send asks the provider to make the withdrawal. It is not sent before it is verified.
func (s *Service) send(ctx context.Context, w *Withdrawal) (chain.Payout, error) {
	ctx, cancel := context.WithTimeout(ctx, chain.TryTimeMax)
	defer cancel()
	return s.Provider.CreatePayout(ctx, chain.NewPayout{
		Reference:   w.Name(),
		Destination: chain.Destination{Currency: w.Currency, Address: w.Address, ExtraID: w.ExtraID},
		Amount:      w.Coins, Description: prefix.Format(w.ID), CallbackURL: s.CallbackURL(),
	})
}

// searchMargin is how far the provider's clock may be off ours, so that a search does not miss what was made at its edge.
const searchMargin = 10 * time.Minute

// searchSpan is how long after the last send is searched: a clock may leap while it is under way.
const searchSpan = 24 * time.Hour

// search asks the provider whether it has made the withdrawal. What it made long after the last send is nothing of this
// one: a list that grows with every day of doubt would become too long to be read.
func (s *Service) search(ctx context.Context, w *Withdrawal) (chain.Payout, error) {
	ctx, cancel := context.WithTimeout(ctx, chain.TryTimeMax)
	defer cancel()
	to := s.Clock.Now()
	if last := w.SentAt.Add(searchSpan); !w.SentAt.IsZero() && last.Before(to) {
		to = last
	}
	return s.Provider.FindPayout(ctx, chain.Search{Reference: w.Name(), From: w.CreatedAt().Add(-searchMargin), To: to.Add(searchMargin)})
}

// conclude writes what a send has come to: made, unknown, or proven not to have happened.
func (s *Service) conclude(ctx context.Context, w *Withdrawal, seen *chain.Payout, err error) error {
	switch {
	case err == nil:
		return s.adopt(ctx, w, seen)
	case !chain.IsRefused(err):
		w.DoubtAt = w.SentAt
		w.Reason = err.Error()
		return s.writeKnown(ctx, w)
	case isAboutTheWithdrawal(err):
		failed := s.fail(ctx, w, explain(err), err.Error())
		if errors.Is(failed, errMoved) {
			return s.reload(ctx, w)
		}
		return failed
	}
	// The provider is proven not to have made it, for reasons of its own: it is asked again later.
	w.SentAt, w.Reason = time.Time{}, err.Error()
	w.CheckAt = s.Clock.Now().Add(sendWait).Truncate(time.Microsecond)
	return s.writeKnown(ctx, w)
}

// isAboutTheWithdrawal reports whether a refusal has its reason in the withdrawal, so that asking again would not help.
func isAboutTheWithdrawal(err error) bool {
	return chain.As(err).Class == chain.Business && !errors.Is(err, chain.ErrInsufficientBalance)
}

// adopt writes which payout of the provider's is this withdrawal. Only then may it be verified, which is done behind the
// creation. When another one is already, this one is never verified, and so is never sent.
func (s *Service) adopt(ctx context.Context, w *Withdrawal, seen *chain.Payout) error {
	if err := w.compare(seen); err != nil {
		return err
	}
	now := s.Clock.Now().Truncate(time.Microsecond)
	err := s.adoptAs(ctx, w, seen.ID, now)
	switch {
	case errors.Is(err, errMoved):
		s.Log.LogAttrs(ctx, slog.LevelWarn, "a withdrawal was made twice at its provider; one is never verified",
			slog.String("withdrawal", prefix.Format(w.ID)), slog.String("provider", w.Provider), slog.String("provider_id", seen.ID))
		return s.reload(ctx, w)
	case err != nil:
		return err
	}
	w.ProviderID, w.CheckAt, w.DoubtAt = seen.ID, now, time.Time{}
	s.Hint(w.Provider, seen.ID)
	return nil
}

// explain returns why a withdrawal was refused, for its caller. The provider's own sentences are not for callers: they may
// name what is none of theirs.
func explain(err error) string {
	switch {
	case errors.Is(err, chain.ErrInvalidAddress):
		return "the provider does not send to this address"
	case errors.Is(err, chain.ErrBelowMinimum):
		return "the amount is below the network's minimum"
	case errors.Is(err, chain.ErrCurrencyUnavailable):
		return "this coin cannot be sent at the moment"
	}
	return "the provider refused it"
}

// Messages for callers.
const (
	messageRejected = "the provider rejected it; no coin was sent and the money is back in the balance"
	messageNobody   = "the provider could not send it; the money is back in the balance"
)
