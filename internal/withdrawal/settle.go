package withdrawal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/ponte-pay/ponte/internal/chain"
	"github.com/ponte-pay/ponte/internal/event"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// look asks the provider how the payout that is this withdrawal stands, and follows it there. Notifications and sweeps end
// here: what they heard is believed of nobody but the provider that was asked over our own connection.
func (s *Service) look(ctx context.Context, w *Withdrawal) error {
	asking, cancel := context.WithTimeout(ctx, chain.TryTimeMax)
	defer cancel()
	seen, err := s.Provider.GetPayout(asking, w.ProviderID)
	if err != nil {
		return err
	}
	return s.follow(ctx, w, &seen)
}

// errOther says that what the provider shows is something else.
var errOther = errors.New("withdrawal: its provider shows something else")

// compare returns an [errOther] when what the provider shows is not this withdrawal.
func (w *Withdrawal) compare(seen *chain.Payout) error {
	switch {
	case seen.ID == "", w.ProviderID != "" && seen.ID != w.ProviderID:
		return fmt.Errorf("%w: %s shows payout %q for %s, which is %q", errOther, w.Provider, seen.ID, prefix.Format(w.ID), w.ProviderID)
	case seen.Reference != "" && !strings.EqualFold(seen.Reference, w.Name()):
		return fmt.Errorf("%w: %s shows another withdrawal for %s", errOther, w.Provider, prefix.Format(w.ID))
	case seen.Currency != w.Currency || !seen.Amount.Equal(w.Coins):
		return fmt.Errorf("%w: %s shows %s %s for %s of %s %s", errOther, w.Provider, seen.Amount, seen.Currency, prefix.Format(w.ID), w.Coins, w.Currency)
	case seen.Address != w.Address && (!strings.HasPrefix(w.Address, "0x") || !strings.EqualFold(seen.Address, w.Address)):
		return fmt.Errorf("%w: %s shows another address for %s", errOther, w.Provider, prefix.Format(w.ID))
	}
	return nil
}

// verifyAgain is how long a payout may stay unverified at its provider after it was verified, before that is done again.
const verifyAgain = 5 * time.Minute

// verifyWait is how long a payout waits whose code was not taken: until there is another, because a provider counts wrong
// ones.
const verifyWait = 35 * time.Second

// follow brings the withdrawal to where its payout is, and verifies it when that is what it waits for.
func (s *Service) follow(ctx context.Context, w *Withdrawal, seen *chain.Payout) error {
	if err := w.compare(seen); err != nil {
		return err
	}
	switch seen.Status {
	case chain.PayoutFinished:
		return s.complete(ctx, w, seen)
	case chain.PayoutRejected:
		return s.reject(ctx, w, seen)
	case chain.PayoutFailed: // and may still be sent: nobody knows
		if failedIsFinal {
			return s.reject(ctx, w, seen)
		}
		if w.DoubtAt.IsZero() {
			w.DoubtAt = s.Clock.Now().Truncate(time.Microsecond)
		}
		w.Reason = strings.TrimSpace("the provider says failed, which it may still send: " + seen.Reason)
		return s.postpone(ctx, w)
	case chain.PayoutWaiting:
		w.DoubtAt = time.Time{}
		if w.Status == Processing && s.Clock.Now().Sub(w.VerifiedAt) >= verifyAgain {
			if err := s.verify(ctx, w); err != nil {
				return errors.Join(s.unlessCode(ctx, w, err), s.postponeBy(ctx, w, verifyWait))
			}
		}
	case chain.PayoutProcessing, chain.PayoutSending, chain.PayoutUnknown:
		w.DoubtAt = time.Time{}
	}
	if seen.TxHash != "" {
		w.TxHash = seen.TxHash
	}
	return s.postpone(ctx, w)
}

// verify confirms the payout that is this withdrawal with the second factor. From here on its coins may leave.
func (s *Service) verify(ctx context.Context, w *Withdrawal) error {
	asking, cancel := context.WithTimeout(ctx, chain.TryTimeMax)
	defer cancel()
	err := s.Provider.VerifyPayout(asking, w.ProviderID)
	if err == nil {
		w.VerifiedAt, w.Reason = s.Clock.Now().Truncate(time.Microsecond), ""
		return nil
	}
	if e := chain.As(err); e.Class == chain.RateLimited && e.Outcome == chain.Refused {
		return nil // codes are for one use; there is another one soon
	}
	w.Reason = err.Error()
	return err
}

// unlessCode returns why a payout could not be verified, and nil when its code was not taken: that is no outage, which would
// keep others from being asked about, and no reason to try again before there is another code.
func (s *Service) unlessCode(ctx context.Context, w *Withdrawal, err error) error {
	if e := chain.As(err); e.Class != chain.Credentials || e.Outcome != chain.Refused {
		return err
	}
	s.Log.LogAttrs(ctx, slog.LevelWarn, "the code for a withdrawal was not taken", slog.String("withdrawal", prefix.Format(w.ID)),
		slog.String("provider", w.Provider), slog.String("provider_id", w.ProviderID), slog.String("error", err.Error()))
	return nil
}

// complete ends a withdrawal whose coins were sent; one that is completed already is nothing new.
func (s *Service) complete(ctx context.Context, w *Withdrawal, seen *chain.Payout) error {
	return s.retry(ctx, w, func() error {
		if w.Status != Processing || w.ProviderID != seen.ID {
			s.contradict(ctx, w, seen, Completed)
			return nil
		}
		done := *w
		done.CompletedAt, done.DoubtAt = s.Clock.Now().Truncate(time.Microsecond), time.Time{}
		if seen.TxHash != "" {
			done.TxHash = seen.TxHash
		}
		err := s.apply(ctx, &done, completeIt, func(ctx context.Context, tx *ledger.Tx, r rule) error {
			tx.Guard(ctx, errMoved, updateCompleted, string(r.to), null(done.TxHash), done.CompletedAt.UnixMicro(),
				int64(w.Account), w.ID, string(r.from), w.ProviderID)
			return tx.Post(ctx, done.sent()...)
		})
		if err == nil {
			*w = done
		}
		return err
	})
}

// reject ends a withdrawal whose payout is proven never to be sent.
func (s *Service) reject(ctx context.Context, w *Withdrawal, seen *chain.Payout) error {
	return s.retry(ctx, w, func() error {
		if w.Status != Processing || w.ProviderID != seen.ID {
			s.contradict(ctx, w, seen, Failed)
			return nil
		}
		return s.fail(ctx, w, messageRejected, seen.Reason)
	})
}

// contradict tells operators when the provider says what cannot be: coins that it sent and whose money we gave back, or the
// other way round. Nothing moves by it.
func (s *Service) contradict(ctx context.Context, w *Withdrawal, seen *chain.Payout, agrees ...State) {
	if slices.Contains(agrees, w.Status) {
		return
	}
	s.Log.LogAttrs(ctx, slog.LevelError, "the provider contradicts what is known of a withdrawal: money may be missing",
		slog.String("withdrawal", prefix.Format(w.ID)), slog.String("status", string(w.Status)), slog.String("provider", w.Provider),
		slog.String("provider_id", seen.ID), slog.String("says", seen.Status.String()), slog.String("tx_hash", seen.TxHash))
}

// fail ends the withdrawal with a message for its caller and a reason for operators, and gives its money back. It fails
// with errMoved when there was another send since w was read, or another payout became this one: what is known of one
// proves nothing of the next.
func (s *Service) fail(ctx context.Context, w *Withdrawal, message, reason string) error {
	failed := *w
	failed.ErrorMessage, failed.Reason, failed.DoubtAt = message, reason, time.Time{}
	err := s.apply(ctx, &failed, failIt, func(ctx context.Context, tx *ledger.Tx, r rule) error {
		tx.Guard(ctx, errMoved, updateFailed, string(r.to), message, null(reason), int64(w.Account), w.ID, string(r.from), w.Sends, w.ProviderID)
		return tx.Post(ctx, w.back())
	})
	if err == nil {
		*w = failed
	}
	return err
}

// apply is the only door between states: it looks the rule up, lets write make the guarded update and the posting, and
// writes the rule's event, all in one transaction. Then w has moved. The update is what a second run after a lost COMMIT
// meets the first by.
func (s *Service) apply(ctx context.Context, w *Withdrawal, on trigger, write func(context.Context, *ledger.Tx, rule) error) error {
	r, err := w.Status.next(on)
	if err != nil {
		return err
	}
	moved := *w
	moved.Status = r.to
	data, err := s.Render(&moved)
	if err != nil {
		return err
	}
	err = s.Ledger.Write(ctx, func(ctx context.Context, tx *ledger.Tx) error {
		err := s.Events.Write(ctx, tx.Tx, event.Event{Account: w.Account, ID: s.IDs.New(), Type: r.emits, Ref: w.ID, Data: data})
		if err != nil {
			return err
		}
		return write(ctx, tx, r)
	})
	if err == nil {
		w.Status = r.to
	}
	return err
}

// adoptAs writes that a payout of the provider's is this withdrawal, or fails with errMoved.
func (s *Service) adoptAs(ctx context.Context, w *Withdrawal, providerID string, now time.Time) error {
	return s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.Guard(ctx, errMoved, updateProviderID, providerID, now.UnixMicro(), int64(w.Account), w.ID)
		return nil
	})
}

// claim writes that the provider is about to be asked to make the withdrawal, and counts it. It fails with errMoved when
// somebody else has done so since w was read, or has moved it.
func (s *Service) claim(ctx context.Context, w *Withdrawal) error {
	now := s.Clock.Now().Truncate(time.Microsecond)
	err := s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.Guard(ctx, errMoved, updateSends, now.UnixMicro(), now.Add(firstCheck).UnixMicro(), stored(w.DoubtAt), int64(w.Account), w.ID, w.Sends)
		return nil
	})
	if err == nil {
		w.Sends, w.SentAt, w.CheckAt = w.Sends+1, now, now.Add(firstCheck)
	}
	return err
}

// writeKnown writes what is known while the withdrawal stays where it is. When it moved, there is nothing to write any more.
func (s *Service) writeKnown(ctx context.Context, w *Withdrawal) error {
	return s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.Queue(ctx, updateKnown, stored(w.SentAt), stored(w.VerifiedAt), w.CheckAt.UnixMicro(), stored(w.DoubtAt), null(w.TxHash), null(w.Reason),
			int64(w.Account), w.ID, w.Sends, w.ProviderID)
		return nil
	})
}

// errMoved says that the withdrawal was no longer as it was read.
var errMoved = errors.New("withdrawal: it has moved")

const movesMax = 5 // times that a withdrawal may move under one decision

// retry decides about w, and again about what it has become when somebody else moved it meanwhile or had posted the same
// already.
func (s *Service) retry(ctx context.Context, w *Withdrawal, decide func() error) error {
	for range movesMax {
		err := decide()
		// A conflict is our own posting of a run whose COMMIT was answered by nobody, or another node's.
		if !errors.Is(err, errMoved) && !errors.Is(err, sqldb.ErrConflict) {
			return err
		}
		if err := s.reload(ctx, w); err != nil {
			return err
		}
	}
	return fault.New(fault.Unavailable, "", "the withdrawal is being changed; try again")
}

// reload reads the withdrawal as it is stored now.
func (s *Service) reload(ctx context.Context, w *Withdrawal) error {
	now, err := get(ctx, s.DB, w.Account, w.ID)
	if err == nil {
		*w = now
	}
	return err
}
