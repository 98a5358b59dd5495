package payout

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/inquiry"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

const (
	sweepMax = 200 // payouts a step and acquirer

	// lookupGrace is how long after a send it proves nothing that an acquirer does not know a payout. Business time.
	lookupGrace = 5 * time.Minute

	checkWaitMin   = 5 * time.Second  // between two questions about one payout; business time
	checkWaitMax   = 10 * time.Minute // of one that was sent long ago
	checkWaitShare = 4                // of the time since it was sent that goes by between two
	doubtWaitMax   = time.Minute      // of one in doubt
)

// CheckDue asks acquirers about payouts that nobody has told us of for a while: notifications that were lost, answers that
// were lost, and what a crash left between holding money and sending it. It is how every payout comes to an end.
func (s *Service) CheckDue(ctx context.Context) (did bool, err error) {
	now := s.Clock.Now()
	for name := ""; ; {
		next, findErr := sqldb.One(ctx, s.DB, sqldb.Scalar[string], findAcquirer, name)
		if errors.Is(findErr, sqldb.ErrNoRows) {
			return did && err == nil, err
		}
		if findErr != nil {
			return false, errors.Join(err, findErr)
		}
		name = next
		more, stepErr := s.checkDue(ctx, name, now)
		did, err = did || more, errors.Join(err, stepErr)
	}
}

// checkDue asks one acquirer, and reports whether there may be more to ask. When it does not answer it is asked no further
// in this step.
func (s *Service) checkDue(ctx context.Context, name string, now time.Time) (more bool, err error) {
	due, err := sqldb.All(ctx, s.DB, scanPayout, findDue, name, now.UnixMicro(), sweepMax)
	if err != nil {
		return false, err
	}
	at, ok := s.Router.Payer(name)
	if !ok { // an operator took it out of the settings
		return false, s.doubtAll(ctx, name, due)
	}
	var silent inquiry.Silence
	err = inquiry.Each(due, func(p *Payout) error {
		if silent.Has(name) {
			return nil // it is due again in the next step
		}
		err := s.chase(ctx, at, p)
		if !inquiry.IsAcquirers(err) {
			return err
		}
		if silent.Note(name, err) {
			s.Log.LogAttrs(ctx, slog.LevelWarn, "acquirer could not be asked about payouts", slog.String("acquirer", name), slog.String("error", err.Error()))
		}
		return nil
	})
	return len(due) == sweepMax && err == nil && !silent.Has(name), err
}

// doubtAll notes that nobody can be asked about these payouts of an acquirer.
func (s *Service) doubtAll(ctx context.Context, name string, due []Payout) error {
	if len(due) == 0 {
		return nil
	}
	err := fmt.Errorf("payout: %d payouts are at %s, which is not configured to pay out", len(due), name)
	for i := range due {
		p := &due[i]
		if p.DoubtAt.IsZero() {
			p.DoubtAt = p.SentAt
		}
		err = errors.Join(err, s.postpone(ctx, p))
	}
	return err
}

// chase asks about one payout. One that its acquirer does not know, long after it was sent, is sent again: by the same
// name, to the same acquirer, so that it is still sent once if the first time arrives after all.
func (s *Service) chase(ctx context.Context, at acquirer.Payer, p *Payout) error {
	err := s.look(ctx, p)
	switch {
	case err == nil && p.Status != Processing:
		return nil
	case err == nil:
		p.DoubtAt = time.Time{} // it has it
	case errors.Is(err, acquirer.ErrNotFound) && s.Clock.Now().Sub(p.SentAt) >= lookupGrace:
		return s.sendAgain(ctx, at, p)
	default:
		if p.DoubtAt.IsZero() {
			p.DoubtAt = p.SentAt
		}
		if errors.Is(err, acquirer.ErrNotFound) {
			err = nil // an answer, if one that proves nothing yet
		}
	}
	return errors.Join(err, s.postpone(ctx, p))
}

// Ask asks about a payout now, as [Service.CheckDue] does once it is due, and returns it as it then stands. An acquirer that
// does not answer leaves it as it was.
func (s *Service) Ask(ctx context.Context, owner id.Account, ref string) (Payout, error) {
	p, err := s.find(ctx, owner, ref)
	if err != nil || p.Status != Processing {
		return p, err
	}
	if at, ok := s.Router.Payer(p.Acquirer); ok {
		if err := s.chase(ctx, at, &p); err != nil && !inquiry.IsAcquirers(err) {
			return p, err
		}
	}
	return get(ctx, s.DB, owner, p.ID)
}

// postpone has the payout looked at again later: soon while its send is young, or in doubt.
func (s *Service) postpone(ctx context.Context, p *Payout) error {
	now := s.Clock.Now()
	wait := min(max(now.Sub(p.SentAt)/checkWaitShare, checkWaitMin), checkWaitMax)
	if !p.DoubtAt.IsZero() {
		wait = min(wait, doubtWaitMax)
	}
	p.CheckAt = now.Add(wait).Truncate(time.Microsecond)
	return s.writeKnown(ctx, p, "")
}

// sendAgain sends a payout again that its acquirer does not know.
func (s *Service) sendAgain(ctx context.Context, at acquirer.Payer, p *Payout) error {
	// Business time may have leapt while the first send is still on its way, here or on another node: then not even a
	// refusal of a second one would prove that no money will leave.
	if busy, err := s.Once.IsUnderWay(ctx, p.Account, claimKind, p.ExternalID); err != nil || busy {
		return err // a creation ends within seconds, and this one is due again in the next step
	}
	before := p.SentAt
	if p.DoubtAt.IsZero() {
		p.DoubtAt = before
	}
	// Counted first: what a creation that is still under way hears of its own send no longer decides anything.
	err := s.claim(ctx, p)
	if errors.Is(err, errMoved) {
		return nil // somebody else was faster
	}
	if err != nil {
		return err
	}
	s.Log.LogAttrs(ctx, slog.LevelWarn, "payout sent again", slog.String("payout", prefix.Format(p.ID)), slog.String("acquirer", p.Acquirer), slog.Int64("sends", p.Sends))
	seen, err := send(ctx, at, p)
	switch {
	case err == nil:
		p.DoubtAt = time.Time{}
		return errors.Join(s.postpone(ctx, p), s.follow(ctx, p, &seen))
	case errors.Is(err, acquirer.ErrDuplicate): // the first one had arrived
		return s.look(ctx, p)
	case !acquirer.IsRefused(err):
		return errors.Join(err, s.postpone(ctx, p))
	case !isAboutThePayout(err):
		p.SentAt = before // nothing was sent, so that there is nothing new to wait for
		return errors.Join(err, s.postpone(ctx, p))
	}
	// The refusal is of this send. Of the earlier one it is proof only together with the acquirer still not knowing it.
	lookErr := s.look(ctx, p)
	if errors.Is(lookErr, acquirer.ErrNotFound) {
		if noteErr := p.note(err); noteErr != nil {
			return noteErr
		}
		failErr := s.fail(ctx, p, explain(acquirer.As(err).Code), "")
		if errors.Is(failErr, errMoved) {
			return nil
		}
		return failErr
	}
	return lookErr
}

func send(ctx context.Context, at acquirer.Payer, p *Payout) (acquirer.Payout, error) {
	ctx, cancel := context.WithTimeout(ctx, acquirer.TryTimeMax)
	defer cancel()
	return at.SendPayout(ctx, p.order())
}

const (
	doubtsMax  = 500     // that are listed
	countedMax = 100_000 // that are added up
)

// ListDoubts returns the payouts of which nobody knows whether their money left, oldest doubt first.
func ListDoubts(ctx context.Context, q sqldb.Querier) ([]Payout, error) {
	return sqldb.All(ctx, q, scanPayout, findDoubts, doubtsMax)
}

// Doubt is the money of which nobody knows whether it left.
type Doubt struct {
	Payouts int64
	Sum     money.BRL // with fees
	Since   time.Time // business time of the oldest; zero for none
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
	err = r.Scan(&d.Payouts, &sum, &since)
	d.Sum, d.Since = money.BRL(sum), moment(since)
	return d, err
}
