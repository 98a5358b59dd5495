package deposit

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/ponte-pay/ponte/internal/chain"
	"github.com/ponte-pay/ponte/internal/inquiry"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

const (
	sweepMax = 200 // deposits a step

	checkWaitShare    = 4                // of its age that goes by between two questions about one deposit
	checkWaitMin      = 5 * time.Second  // business time, as the others
	processingWaitMax = time.Minute      // of one that has no address
	confirmingWaitMax = 10 * time.Minute // of one whose coins were seen
	waitingWaitMax    = time.Hour        // of one that nobody has paid; notifications and lists are faster
	expiryMargin      = time.Second      // after which the provider knows that it waits no longer
)

// nextCheck returns when the provider is asked about the deposit next: soon while it is young, and never once it has
// ended.
func (d *Deposit) nextCheck(now time.Time) time.Time {
	since, most := d.CreatedAt(), waitingWaitMax
	switch d.Status {
	case Processing:
		since, most = d.AskedAt, processingWaitMax
	case Confirming:
		since, most = d.DetectedAt, confirmingWaitMax
	case Waiting:
	case Paid, Failed, Expired, Refunded:
		return time.Time{}
	}
	next := now.Add(min(max(now.Sub(since)/checkWaitShare, checkWaitMin), most))
	border := d.ExpiresAt.Add(expiryMargin)
	if d.Status == Processing {
		border = d.AskedAt.Add(lookupGrace)
	}
	if border.After(now) && border.Before(next) {
		next = border
	}
	return next.Truncate(time.Microsecond)
}

// CheckDue asks the provider about deposits that nobody has told us of for a while: notifications that were lost, answers
// that were lost, and what a crash left between storing a deposit and giving it its address.
func (s *Service) CheckDue(ctx context.Context) (did bool, err error) {
	name := s.Provider.Name()
	due, err := sqldb.All(ctx, s.DB, scanDeposit, findDue, name, s.Clock.Now().UnixMicro(), sweepMax)
	if err != nil {
		return false, err
	}
	var silent inquiry.Silence
	err = inquiry.Each(due, func(d *Deposit) error {
		if silent.Has(name) {
			return nil // it is due again in the next step
		}
		err := s.chase(ctx, d)
		if !inquiry.IsAcquirers(err) {
			return err
		}
		if silent.Note(name, err) {
			s.Log.LogAttrs(ctx, slog.LevelWarn, "crypto provider could not be asked", slog.String("provider", name), slog.String("error", err.Error()))
		}
		return nil
	})
	return len(due) == sweepMax && err == nil && !silent.Has(name), err
}

// chase asks about one deposit. One that its provider does not know any more is over when its time is.
func (s *Service) chase(ctx context.Context, d *Deposit) error {
	if d.Status == Processing {
		return s.recover(ctx, d)
	}
	err := s.look(ctx, d)
	if errors.Is(err, chain.ErrNotFound) {
		if err = nil; s.Clock.Now().After(d.ExpiresAt) {
			return s.retry(ctx, d, func() error { return s.move(ctx, d, expire, *d) })
		}
	}
	if d.Status.isOpen() {
		return errors.Join(err, s.postpone(ctx, d))
	}
	return err
}

// postpone has the deposit looked at again later. When it moved meanwhile, that has said when.
func (s *Service) postpone(ctx context.Context, d *Deposit) error {
	d.CheckAt = d.nextCheck(s.Clock.Now())
	return s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.Queue(ctx, updateCheck, d.AskedAt.UnixMicro(), stored(d.CheckAt), int64(d.Account), d.ID, string(d.Status), d.Asks)
		return nil
	})
}
