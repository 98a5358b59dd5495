package payout

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/event"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// Check asks the payout's acquirer how it stands and brings it there. It shares one question with all who ask at the same
// time, and waits for it no longer than one may take. That the acquirer does not know it changes nothing.
func (s *Service) Check(ctx context.Context, p *Payout) error {
	one := *p
	return s.looks.Join(ctx, p.Name(), func() error {
		// Whoever asked first may go away; the others still want the answer.
		err := s.look(context.WithoutCancel(ctx), &one)
		if errors.Is(err, acquirer.ErrNotFound) {
			return nil // whatever that means, it is for the sweep to find out
		}
		return err
	})
}

// look asks the payout's acquirer how it stands and follows it there.
func (s *Service) look(ctx context.Context, p *Payout) error {
	at, ok := s.Router.Payer(p.Acquirer)
	if !ok {
		return fmt.Errorf("payout: no acquirer %q that pays out is configured", p.Acquirer)
	}
	seen, err := ask(ctx, at, p.Name())
	if err != nil {
		return err
	}
	return s.follow(ctx, p, &seen)
}

func ask(ctx context.Context, at acquirer.Payer, name string) (acquirer.Payout, error) {
	ctx, cancel := context.WithTimeout(ctx, acquirer.TryTimeMax)
	defer cancel()
	return at.GetPayout(ctx, name)
}

// compare returns an error when what an acquirer shows is not this payout.
func (p *Payout) compare(seen *acquirer.Payout) error {
	switch {
	case seen.ID != "" && !strings.EqualFold(seen.ID, p.Name()):
		return fmt.Errorf("payout: %s shows another payout for %s", p.Acquirer, prefix.Format(p.ID))
	case seen.Amount != p.Amount:
		return fmt.Errorf("payout: %s shows %s for %s of %s", p.Acquirer, seen.Amount, prefix.Format(p.ID), p.Amount)
	case seen.Key != "" && !strings.EqualFold(seen.Key, p.Key):
		return fmt.Errorf("payout: %s shows another key for %s", p.Acquirer, prefix.Format(p.ID))
	}
	return nil
}

// follow brings the payout to where the acquirer that has it says it is: settled, with what came back since, or failed.
// Notifications, reads, sweeps and lists all end here: what they heard is believed of nobody but the acquirer that was asked
// over our own connection.
func (s *Service) follow(ctx context.Context, p *Payout, seen *acquirer.Payout) error {
	if err := p.compare(seen); err != nil {
		return err
	}
	switch seen.Status {
	case acquirer.PayoutSettled:
		if err := s.settle(ctx, p, seen); err != nil {
			return err
		}
		for i := range seen.Returns {
			if err := s.takeReturn(ctx, p, seen, &seen.Returns[i]); err != nil {
				return err
			}
		}
		s.settled.Add(settledName(p.Acquirer, seen))
		return nil
	case acquirer.PayoutFailed:
		from := p.Acquirer
		return s.retry(ctx, p, func() error {
			switch {
			case p.Acquirer != from:
				return nil // it was passed on, because this one had refused it
			case p.Status != Processing:
				s.contradict(ctx, p, seen, Failed)
				return nil
			}
			return s.fail(ctx, p, explain(seen.Code), "")
		})
	case acquirer.PayoutProcessing, acquirer.PayoutUnknown:
	}
	return nil
}

// settle completes a payout; one that is completed already is nothing new.
func (s *Service) settle(ctx context.Context, p *Payout, seen *acquirer.Payout) error {
	from := p.Acquirer // that said so; another one may have it by the time this is written
	return s.retry(ctx, p, func() error {
		switch {
		case p.Acquirer != from:
			s.contradict(ctx, p, seen)
			return nil
		case p.Status != Processing:
			s.contradict(ctx, p, seen, Completed, Reversed)
			return nil
		}
		done := *p
		done.EndToEndID, done.CompletedAt = seen.EndToEndID, seen.SettledAt.Truncate(time.Microsecond)
		if seen.SettledAt.IsZero() { // not every acquirer tells
			done.CompletedAt = s.Clock.Now().Truncate(time.Microsecond)
		}
		done.DoubtAt = time.Time{}
		err := s.apply(ctx, &done, settleIt, func(ctx context.Context, tx *ledger.Tx, r rule) error {
			tx.Guard(ctx, errMoved, updateCompleted, string(r.to), null(done.EndToEndID), done.CompletedAt.UnixMicro(),
				int64(p.Account), p.ID, string(r.from), p.Acquirer)
			return tx.Post(ctx, done.sent()...)
		})
		if err == nil {
			*p = done
		}
		return err
	})
}

// contradict tells operators when an acquirer says what cannot be: money that it sent and we gave back, or the other way
// round. Nothing moves by it.
func (s *Service) contradict(ctx context.Context, p *Payout, seen *acquirer.Payout, agrees ...State) {
	if slices.Contains(agrees, p.Status) {
		return
	}
	s.Log.LogAttrs(ctx, slog.LevelError, "an acquirer contradicts what is known of a payout: money may be missing",
		slog.String("payout", prefix.Format(p.ID)), slog.String("status", string(p.Status)), slog.String("acquirer", p.Acquirer),
		slog.String("says", seen.Status.String()), slog.String("end_to_end_id", seen.EndToEndID))
}

// fail ends the payout with a message for its caller, and gives its money back. told is what its creation is about to be
// told of it, "" when that is over. It fails with errMoved when there was another send since p was read: what is known of
// one proves nothing of the next.
func (s *Service) fail(ctx context.Context, p *Payout, message string, told answer) error {
	failed := *p
	failed.ErrorMessage, failed.DoubtAt = message, time.Time{}
	if told != "" {
		failed.answer = told
	}
	err := s.apply(ctx, &failed, failIt, func(ctx context.Context, tx *ledger.Tx, r rule) error {
		tx.Guard(ctx, errMoved, updateFailed, string(r.to), message, string(told), p.Routing, int64(p.Account), p.ID, string(r.from), p.Sends)
		return tx.Post(ctx, p.back())
	})
	if err == nil {
		*p = failed
	}
	return err
}

// takeReturn credits what came back of a settled payout, once. When all of it is back, the payout is reversed; a part is
// credited and leaves it completed. The fee stays charged.
func (s *Service) takeReturn(ctx context.Context, p *Payout, seen *acquirer.Payout, r *acquirer.Refund) error {
	if r.Status != acquirer.RefundDone || r.Amount <= 0 {
		return nil
	}
	credit := p.transfer(kindReturn, r.Amount, ledger.Acquirer, ledger.Available)
	credit.OnceKey = p.ID.String() + " " + r.ID
	return s.retry(ctx, p, func() error {
		if p.Status == Processing || p.Status == Failed {
			return nil // settle has told why
		}
		if posted, err := s.Ledger.IsPosted(ctx, p.Account, kindReturn, credit.OnceKey); err != nil || posted {
			return err
		}
		if p.Returned+r.Amount > p.Amount {
			s.contradict(ctx, p, seen)
			return nil
		}
		back := *p
		back.Returned += r.Amount
		write := func(ctx context.Context, tx *ledger.Tx, to State) error {
			tx.Guard(ctx, errMoved, updateReturned, string(to), int64(back.Returned), int64(p.Account), p.ID, string(p.Status), int64(p.Returned))
			return tx.Post(ctx, credit)
		}
		var err error
		if back.Returned < p.Amount {
			err = s.Ledger.Write(ctx, func(ctx context.Context, tx *ledger.Tx) error { return write(ctx, tx, p.Status) })
		} else {
			err = s.apply(ctx, &back, returnIt, func(ctx context.Context, tx *ledger.Tx, r rule) error { return write(ctx, tx, r.to) })
		}
		if err == nil {
			*p = back
		}
		return err
	})
}

// apply is the only door between states: it looks the rule up, lets write make the guarded update and the posting, and
// writes the rule's event, all in one transaction. Then p has moved. The update is what a second run after a lost COMMIT
// meets the first by.
func (s *Service) apply(ctx context.Context, p *Payout, on trigger, write func(context.Context, *ledger.Tx, rule) error) error {
	r, err := p.Status.next(on)
	if err != nil {
		return err
	}
	moved := *p
	moved.Status = r.to
	err = s.Ledger.Write(ctx, func(ctx context.Context, tx *ledger.Tx) error {
		if r.emits != "" {
			data, err := s.Render(&moved)
			if err != nil {
				return err
			}
			err = s.Events.Write(ctx, tx.Tx, event.Event{
				Account: p.Account, ID: s.IDs.New(), Type: r.emits, Ref: p.ID, Data: data, Postback: p.PostbackURL,
			})
			if err != nil {
				return err
			}
		}
		return write(ctx, tx, r)
	})
	if err == nil {
		p.Status = r.to
	}
	return err
}

// claim writes that p.Acquirer is about to be asked to send the payout, and counts it. It fails with errMoved when
// somebody else has done so since p was read, or has moved it.
func (s *Service) claim(ctx context.Context, p *Payout) error {
	now := s.Clock.Now().Truncate(time.Microsecond)
	err := s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.Guard(ctx, errMoved, updateSends, p.Acquirer, now.UnixMicro(), now.Add(firstCheck).UnixMicro(), stored(p.DoubtAt), p.Routing,
			int64(p.Account), p.ID, p.Sends)
		return nil
	})
	if err == nil {
		p.Sends, p.SentAt, p.CheckAt = p.Sends+1, now, now.Add(firstCheck)
	}
	return err
}

// writeKnown writes what is known of the last send while the payout stays where it is, and what its creation is about to
// be told of it, "" when that is over. When it moved, there is nothing to write any more.
func (s *Service) writeKnown(ctx context.Context, p *Payout, told answer) error {
	return s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.Queue(ctx, updateKnown, p.SentAt.UnixMicro(), p.CheckAt.UnixMicro(), stored(p.DoubtAt), string(told),
			int64(p.Account), p.ID, p.Sends)
		return nil
	})
}

// errMoved says that the payout was no longer as it was read.
var errMoved = errors.New("payout: it has moved")

const movesMax = 5 // times that a payout may move under one decision

// retry decides about p, and again about what it has become when somebody else moved it meanwhile or had posted the same
// already.
func (s *Service) retry(ctx context.Context, p *Payout, decide func() error) error {
	for range movesMax {
		err := decide()
		// A conflict is our own posting of a run whose COMMIT was answered by nobody, or another node's.
		if !errors.Is(err, errMoved) && !errors.Is(err, sqldb.ErrConflict) {
			return err
		}
		now, err := get(ctx, s.DB, p.Account, p.ID)
		if err != nil {
			return err
		}
		*p = now
	}
	return fault.New(fault.Unavailable, "", "the payout is being changed; try again")
}
