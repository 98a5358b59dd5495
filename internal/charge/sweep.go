package charge

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/inquiry"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

const (
	sweepMax    = 200              // charges a step
	expiryGrace = 10 * time.Minute // of silence by its acquirer, then a charge expires unasked
)

// Expire ends charges whose time is over, after a last question to their acquirer. Each acquirer is asked apart, so that
// one that does not answer keeps only its own charges waiting; after a grace they expire without an answer, and a payment
// that is found later still counts.
func (s *Service) Expire(ctx context.Context) (did bool, err error) {
	now := s.Clock.Now()
	var silent inquiry.Silence
	var some atomic.Bool
	err = inquiry.Each(s.Router.Health(), func(at *acquirer.Health) error {
		more, err := s.expire(ctx, dueCharges{before: now, acquirer: at.Acquirer}, &silent)
		if more {
			some.Store(true)
		}
		return err
	})
	more, stepErr := s.expire(ctx, dueCharges{before: now.Add(-expiryGrace), overdue: true}, &silent)
	err = errors.Join(err, stepErr)
	return (some.Load() || more) && err == nil, err
}

// dueCharges are charges whose time was over at a moment.
type dueCharges struct {
	before   time.Time
	acquirer string // "" for any
	overdue  bool   // they expire whatever their acquirer says
}

// expire ends some of the charges that are due and reports whether there may be more.
func (s *Service) expire(ctx context.Context, d dueCharges, silent *inquiry.Silence) (more bool, err error) {
	due, err := sqldb.All(ctx, s.DB, scanCharge, findExpired, d.before.UnixMicro(), d.acquirer, sweepMax)
	if err != nil {
		return false, err
	}
	var ended atomic.Int64
	err = inquiry.Each(due, func(c *Charge) error {
		if !silent.Has(c.Acquirer) {
			_, err := s.look(ctx, c, "")
			if err != nil {
				silent.Note(c.Acquirer, err)
				s.Log.LogAttrs(ctx, slog.LevelWarn, "acquirer could not be asked before expiry",
					slog.String("charge", prefix.Format(c.ID)), slog.String("error", err.Error()))
			}
			if err != nil && !d.overdue {
				return nil
			}
		} else if !d.overdue {
			return nil
		}
		ended.Add(1)
		return s.move(ctx, c, expire)
	})
	return len(due) == sweepMax && ended.Load() > 0, err
}

// Release makes money available whose waiting time is over.
func (s *Service) Release(ctx context.Context) (did bool, err error) {
	due, err := sqldb.All(ctx, s.DB, scanCharge, findReleased, s.Clock.Now().UnixMicro(), sweepMax)
	if err != nil {
		return false, err
	}
	slices.SortStableFunc(due, func(a, b Charge) int { return cmp.Compare(a.Account, b.Account) })
	for from, i := 0, 1; i <= len(due); i++ {
		if i == len(due) || due[i].Account != due[from].Account {
			err = errors.Join(err, s.release(ctx, due[from:i])) // an account that fails keeps nobody else from it
			from = i
		}
	}
	return len(due) == sweepMax && err == nil, err
}

// release makes the money of one account's charges available, in one transaction: they all take from the same balance.
func (s *Service) release(ctx context.Context, due []Charge) error {
	err := s.Ledger.Write(ctx, func(ctx context.Context, tx *ledger.Tx) error {
		var posts []*ledger.Transfer
		for i := range due {
			c := &due[i]
			tx.Guard(ctx, errMoved, updateReleased, int64(c.Account), c.ID, c.ReleaseAt.UnixMicro())
			if c.waiting() > 0 {
				posts = append(posts, &ledger.Transfer{
					Account: c.Account, Amount: c.waiting().Amount(), Source: ledger.Pending, Target: ledger.Available,
					Kind: kindRelease, Ref: c.ID, OnceKey: c.ID.String(),
				})
			}
		}
		if len(posts) == 0 {
			return nil
		}
		return tx.Post(ctx, posts...)
	})
	taken := errors.Is(err, errMoved) || errors.Is(err, sqldb.ErrConflict) // somebody else has released one of them
	_, short := errors.AsType[*ledger.InsufficientError](err)              // one of them waits for more than is there
	switch {
	case err == nil, taken && len(due) == 1:
		return nil
	case len(due) == 1, !taken && !short:
		return err
	}
	err = nil
	for i := range due {
		err = errors.Join(err, s.release(ctx, due[i:i+1]))
	}
	return err
}
