// Package activity adds up what came in and went out of an account each day, once: what was added up stays, and only what
// is new is read again.
//
// Transfers are never changed and their identifiers rise with time, so that what is older than a write can last is
// complete. It is added to the day's sums together with a mark, in one transaction; the rest, seconds old, is added in
// memory each time somebody looks.
package activity

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

const (
	// DaysMax is how many days can be asked for, today included. Nothing older is added up.
	DaysMax = 31

	sliceDefault = 2000             // transfers that are read at once
	roundsMax    = 5                // slices that one look adds up before it shows what it has
	overlap      = 30 * time.Second // writes end within ten, and clocks differ by half a second
	wantedMax    = 1000             // accounts that wait for Step
	dayTime      = 24 * time.Hour
)

// Day is what moved in an account on one day.
type Day struct {
	Start   time.Time // midnight
	Inflow  int64     // from acquirers, in the currency's smallest unit
	Outflow int64     // to acquirers
	Fees    int64     // charged
}

// Service adds up.
type Service struct {
	db    *sqldb.DB
	clock *clock.Clock
	zone  *time.Location // whose days are meant
	slice int            // transfers that are read at once; tests read fewer

	mu     sync.Mutex
	wanted map[id.Account]struct{} // somebody looked, and not everything was added up
}

// New returns a service for the days of a zone.
func New(db *sqldb.DB, c *clock.Clock, zone *time.Location) *Service {
	return &Service{db: db, clock: c, zone: zone, slice: sliceDefault, wanted: map[id.Account]struct{}{}}
}

// midnight returns the beginning of a moment's day.
func (s *Service) midnight(t time.Time) time.Time {
	y, m, d := t.In(s.zone).Date()
	return time.Date(y, m, d, 0, 0, 0, 0, s.zone)
}

// number counts days: equal for moments of one day, one more for the next.
func (s *Service) number(t time.Time) int64 {
	y, m, d := t.In(s.zone).Date()
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix() / int64(dayTime/time.Second)
}

// sums are what moved, by currency and day.
type sums map[sumKey]*Day

type sumKey struct {
	currency money.Currency
	day      int64
}

func (s *Service) add(to sums, transfers []ledger.Transfer) {
	for i := range transfers {
		t := &transfers[i]
		key := sumKey{t.Amount.Currency, s.number(t.ID.Time())}
		if to[key] == nil {
			to[key] = &Day{}
		}
		switch {
		case t.Source == ledger.Acquirer:
			to[key].Inflow += t.Amount.Units
		case t.Target == ledger.Acquirer:
			to[key].Outflow += t.Amount.Units
		case t.Target == ledger.Fees:
			to[key].Fees += t.Amount.Units
		}
	}
}

// Days returns the last days of an account in one currency, oldest first, today last, and whether they are complete: a large
// account that nobody has looked at for long is added up behind the scenes, in seconds.
func (s *Service) Days(ctx context.Context, owner id.Account, currency money.Currency, count int) (days []Day, complete bool, err error) {
	count = min(count, DaysMax)
	if err := s.catchUp(ctx, owner); err != nil {
		return nil, false, err
	}
	// The sums and their mark may have moved on meanwhile: they are read at one moment with the rest.
	rest := sums{}
	err = s.db.Read(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		mark, err := sqldb.One(ctx, tx, sqldb.Scalar[id.ID], selectMark, int64(owner))
		if err != nil {
			return err
		}
		stored, err := sqldb.All(ctx, tx, scanSum, listDays, int64(owner), string(currency), s.number(s.clock.Now())-int64(count), DaysMax+1)
		if err != nil {
			return err
		}
		for _, x := range stored {
			rest[sumKey{currency, x.day}] = &Day{Inflow: x.Inflow, Outflow: x.Outflow, Fees: x.Fees}
		}
		for range roundsMax {
			transfers, err := sqldb.All(ctx, tx, scanTransfer, listTransfers, int64(owner), mark, id.Max, s.slice)
			if err != nil {
				return err
			}
			s.add(rest, transfers)
			if len(transfers) < s.slice {
				complete = true
				return nil
			}
			mark = transfers[len(transfers)-1].ID
		}
		return nil
	})
	if err != nil {
		return nil, false, err
	}
	if !complete {
		s.want(owner)
	}
	today := s.midnight(s.clock.Now())
	for back := count - 1; back >= 0; back-- {
		start := s.midnight(today.AddDate(0, 0, -back))
		day := Day{}
		if found := rest[sumKey{currency, s.number(start)}]; found != nil {
			day = *found
		}
		day.Start = start
		days = append(days, day)
	}
	return days, complete, nil
}

func (s *Service) want(owner id.Account) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.wanted) < wantedMax {
		s.wanted[owner] = struct{}{}
	}
}

// Step goes on adding up the accounts that somebody has looked at. It reports whether there is more to do.
func (s *Service) Step(ctx context.Context) (did bool, err error) {
	s.mu.Lock()
	accounts := make([]id.Account, 0, len(s.wanted))
	for a := range s.wanted {
		accounts = append(accounts, a)
	}
	s.mu.Unlock()
	for _, a := range accounts {
		more, stepErr := s.sum(ctx, a)
		if stepErr == nil && !more {
			s.mu.Lock()
			delete(s.wanted, a)
			s.mu.Unlock()
		}
		did = did || more
		err = errors.Join(err, stepErr)
	}
	return did, err
}

// catchUp adds up what it can in a few slices.
func (s *Service) catchUp(ctx context.Context, owner id.Account) error {
	for range roundsMax {
		if more, err := s.sum(ctx, owner); err != nil || !more {
			return err
		}
	}
	return nil
}

// sum adds up the next transfers that are old enough, and reports whether there are more.
func (s *Service) sum(ctx context.Context, owner id.Account) (more bool, err error) {
	mark, err := sqldb.One(ctx, s.db, sqldb.Scalar[id.ID], selectMark, int64(owner))
	if errors.Is(err, sqldb.ErrNoRows) {
		mark = id.First(s.midnight(s.clock.Now()).AddDate(0, 0, -DaysMax))
		err = s.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			tx.Queue(ctx, insertMark, int64(owner), mark)
			return nil
		})
	}
	if err != nil {
		return false, err
	}
	// By the database's clock, to which nodes keep, and by real time: a business clock that was just moved has not made
	// anything older.
	now, err := s.db.Clock(ctx)
	if err != nil {
		return false, err
	}
	border := id.First(now.Add(-overlap))
	transfers, err := sqldb.All(ctx, s.db, scanTransfer, listTransfers, int64(owner), mark, border, s.slice)
	if err != nil || len(transfers) == 0 {
		return false, err
	}
	added := sums{}
	s.add(added, transfers)
	err = s.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		// Who comes second finds another mark.
		tx.Guard(ctx, errMoved, updateMark, transfers[len(transfers)-1].ID, int64(owner), mark)
		for key, d := range added {
			tx.Queue(ctx, addDay, int64(owner), string(key.currency), key.day, d.Inflow, d.Outflow, d.Fees)
		}
		return nil
	})
	if errors.Is(err, errMoved) {
		return true, nil // somebody else did it, or we did and heard nothing of it
	}
	return len(transfers) == s.slice, err
}

var errMoved = errors.New("activity: another process was faster")
