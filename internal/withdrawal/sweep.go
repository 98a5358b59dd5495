package withdrawal

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/ponte-pay/ponte/internal/chain"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/inquiry"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

const (
	sweepMax = 200 // withdrawals a step

	// lookupGrace is how long after a send it proves nothing that the provider does not know a withdrawal. Business time.
	lookupGrace = 5 * time.Minute

	sendWait  = 10 * time.Second // before one is sent again that the provider is proven not to have; business time, as below
	sendUntil = time.Hour        // after its creation one that the provider keeps refusing for reasons of its own is given up

	checkWaitMin   = 5 * time.Second  // between two questions about one withdrawal
	checkWaitMax   = 10 * time.Minute // of one that was made long ago
	checkWaitShare = 4                // of the time since it was made that goes by between two
	doubtWaitMax   = time.Minute      // of one in doubt, or not verified
)

// CheckDue asks the provider about withdrawals that nobody has told us of for a while: notifications and answers that were
// lost, payouts that wait to be verified, and what a crash left between holding money and sending it. It is how every
// withdrawal comes to an end.
func (s *Service) CheckDue(ctx context.Context) (did bool, err error) {
	due, err := sqldb.All(ctx, s.DB, scanWithdrawal, findDue, s.Provider.Name(), s.Clock.Now().UnixMicro(), sweepMax)
	if err != nil {
		return false, err
	}
	var silent inquiry.Silence
	name := s.Provider.Name()
	err = inquiry.Each(due, func(w *Withdrawal) error {
		if silent.Has(name) {
			return nil // it is due again in the next step
		}
		err := s.chase(ctx, w)
		if !inquiry.IsAcquirers(err) {
			return err
		}
		if silent.Note(name, err) {
			s.Log.LogAttrs(ctx, slog.LevelWarn, "provider could not be asked about withdrawals", slog.String("provider", name), slog.String("error", err.Error()))
		}
		return nil
	})
	return len(due) == sweepMax && err == nil && !silent.Has(name), err
}

// chase asks about one withdrawal.
func (s *Service) chase(ctx context.Context, w *Withdrawal) error {
	if w.ProviderID != "" {
		now := s.Clock.Now().Truncate(time.Microsecond)
		err := s.look(ctx, w)
		if err == nil || w.CheckAt.After(now) {
			return err // it has ended, or is postponed
		}
		if errors.Is(err, chain.ErrNotFound) || errors.Is(err, errOther) { // it was there
			w.doubt(now, err)
		}
		return errors.Join(err, s.postpone(ctx, w))
	}
	seen, err := s.search(ctx, w)
	switch {
	case err == nil:
		if err = s.adopt(ctx, w, &seen); err != nil {
			if errors.Is(err, errOther) { // which an operator must look at
				w.doubt(s.Clock.Now().Truncate(time.Microsecond), err)
			}
			return errors.Join(err, s.postpone(ctx, w))
		}
		if w.ProviderID != seen.ID {
			return nil // another one is
		}
		return s.follow(ctx, w, &seen)
	case errors.Is(err, chain.ErrNotFound) && (w.SentAt.IsZero() || s.Clock.Now().Sub(w.SentAt) >= lookupGrace):
		return s.sendAgain(ctx, w)
	case errors.Is(err, chain.ErrNotFound):
		err = nil // an answer, if one that proves nothing yet
	}
	if w.DoubtAt.IsZero() && !w.SentAt.IsZero() {
		w.DoubtAt = w.SentAt
	}
	return errors.Join(err, s.postpone(ctx, w))
}

// doubt lists the withdrawal to operators as one of which nobody knows whether its coins left, and why.
func (w *Withdrawal) doubt(since time.Time, err error) {
	if w.DoubtAt.IsZero() {
		w.DoubtAt = since
	}
	w.Reason = err.Error()
}

// postpone writes what is known and has the withdrawal looked at again later: soon while it is young, in doubt, or not
// verified.
func (s *Service) postpone(ctx context.Context, w *Withdrawal) error {
	now := s.Clock.Now()
	wait := min(max(now.Sub(w.CreatedAt())/checkWaitShare, checkWaitMin), checkWaitMax)
	if !w.DoubtAt.IsZero() || w.VerifiedAt.IsZero() {
		wait = min(wait, doubtWaitMax)
	}
	return s.postponeBy(ctx, w, wait)
}

// postponeBy writes what is known and has the withdrawal looked at again after so long.
func (s *Service) postponeBy(ctx context.Context, w *Withdrawal, wait time.Duration) error {
	w.CheckAt = s.Clock.Now().Add(wait).Truncate(time.Microsecond)
	return s.writeKnown(ctx, w)
}

// sendAgain has a withdrawal made again that the provider does not know, under the same reference. Should the first one
// turn up after all, it is not the one that is verified.
func (s *Service) sendAgain(ctx context.Context, w *Withdrawal) error {
	unsent := w.SentAt.IsZero()
	if unsent && s.Clock.Now().Sub(w.CreatedAt()) >= sendUntil {
		return s.giveUp(ctx, w, messageNobody)
	}
	if !unsent && w.DoubtAt.IsZero() {
		w.DoubtAt = w.SentAt
	}
	// Counted first: what a creation that is still under way hears of its own send no longer decides anything.
	err := s.claim(ctx, w)
	if errors.Is(err, errMoved) {
		return nil // somebody else was faster
	}
	if err != nil {
		return err
	}
	s.Log.LogAttrs(ctx, slog.LevelWarn, "withdrawal sent again", slog.String("withdrawal", prefix.Format(w.ID)), slog.Int64("sends", w.Sends))
	seen, err := s.send(ctx, w)
	switch {
	case err == nil:
		return s.adopt(ctx, w, &seen)
	case !chain.IsRefused(err):
		w.DoubtAt, w.Reason = w.SentAt, err.Error()
		return errors.Join(err, s.postpone(ctx, w))
	case isAboutTheWithdrawal(err):
		// The refusal is of this send. Of earlier ones it is proof only together with the provider still not knowing them.
		found, findErr := s.search(ctx, w)
		switch {
		case findErr == nil:
			return s.adopt(ctx, w, &found)
		case !errors.Is(findErr, chain.ErrNotFound):
			return findErr
		}
		w.Reason = err.Error()
		return s.giveUp(ctx, w, explain(err))
	}
	w.SentAt, w.DoubtAt, w.Reason = time.Time{}, time.Time{}, err.Error()
	return errors.Join(err, s.postpone(ctx, w))
}

// giveUp fails a withdrawal of which the provider is proven to have nothing.
func (s *Service) giveUp(ctx context.Context, w *Withdrawal, message string) error {
	err := s.fail(ctx, w, message, w.Reason)
	if errors.Is(err, errMoved) {
		return nil
	}
	return err
}

const (
	doubtsMax  = 500     // that are listed
	countedMax = 100_000 // that are added up
)

// ListDoubts returns the withdrawals of which nobody knows whether their coins left, oldest doubt first.
func ListDoubts(ctx context.Context, q sqldb.Querier) ([]Withdrawal, error) {
	return sqldb.All(ctx, q, scanWithdrawal, findDoubts, doubtsMax)
}

// Doubt is the money of which nobody knows whether it left.
type Doubt struct {
	Withdrawals int64
	Sum         money.USDT // with fees
	Since       time.Time  // business time of the oldest; zero for none
}

// CountDoubts adds up the money of which nobody knows whether it left.
func CountDoubts(ctx context.Context, q sqldb.Querier) (Doubt, error) {
	return sqldb.One(ctx, q, scanDoubt, countDoubts, countedMax)
}

// CountOwnDoubts is [CountDoubts] of one account.
func CountOwnDoubts(ctx context.Context, q sqldb.Querier, owner id.Account) (Doubt, error) {
	return sqldb.One(ctx, q, scanDoubt, countOwnDoubts, int64(owner), countedMax)
}

func scanDoubt(r sqldb.Row) (d Doubt, err error) {
	var sum, since int64
	err = r.Scan(&d.Withdrawals, &sum, &since)
	d.Sum, d.Since = money.USDT(sum), moment(since)
	return d, err
}
