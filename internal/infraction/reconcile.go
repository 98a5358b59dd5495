package infraction

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/inquiry"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

const (
	// past is how far back a list is read that never was: a payment can be disputed for 80 days, and is returned for 90.
	past     = 100 * 24 * time.Hour
	span     = 25 * 24 * time.Hour // read at once of that, because acquirers may refuse more than a month
	readsMax = 8                   // of one list in one step; it takes five to catch up with the past

	undecidedMax = 1000           // found at once
	againSpan    = 24 * time.Hour // of openings that are read again together
	againMargin  = 24 * time.Hour // around them: acquirers list by when they wrote one down, which is not when it was opened
)

// Reconcile reads each acquirer's list of infractions: what was opened since the last time, and again the parts that list
// what is not decided, however long ago that was opened. Nobody pushes infractions, and no list tells what changed.
func (s *Service) Reconcile(ctx context.Context) (did bool, err error) {
	lists := inquiry.Lists{DB: s.DB, Clock: s.Clock}
	var more atomic.Bool
	err = inquiry.Each(s.Router.Judges(), func(at *acquirer.Judge) error {
		some, err := s.reconcile(ctx, lists, *at)
		if some {
			more.Store(true)
		}
		return err
	})
	return more.Load() && err == nil, err
}

func (s *Service) reconcile(ctx context.Context, lists inquiry.Lists, at acquirer.Judge) (did bool, err error) {
	list := inquiry.List{
		Name: at.Name() + " infractions", Past: past, Span: span,
		Read: func(ctx context.Context, w acquirer.Window) (inquiry.Read, error) { return s.readPage(ctx, at, w) },
	}
	var silent inquiry.Silence
	for _, age := range inquiry.Passes {
		list.Age = age
		more := true
		for reads := 0; more && reads < readsMax; reads++ {
			var readErr error
			more, readErr = lists.Step(ctx, list)
			err = errors.Join(err, readErr)
			if silent.Note(at.Name(), readErr) {
				return did, err
			}
		}
		did = did || more
	}
	return did, errors.Join(err, lists.Again(ctx, list, inquiry.ReadEvery, func(ctx context.Context, after time.Time) (acquirer.Window, bool, error) {
		return s.undecided(ctx, at.Name(), after)
	}))
}

// undecided returns the window in which the oldest infractions after a moment were opened that are not decided.
func (s *Service) undecided(ctx context.Context, name string, after time.Time) (w acquirer.Window, found bool, err error) {
	var border int64
	if !after.IsZero() {
		border = after.Add(-againMargin).UnixMicro()
	}
	opened, err := sqldb.All(ctx, s.DB, sqldb.Scalar[int64], findUndecided, name, border, undecidedMax)
	if err != nil || len(opened) == 0 {
		return w, false, err
	}
	first := moment(opened[0])
	last := first
	for _, micros := range opened {
		if at := moment(micros); at.Sub(first) <= againSpan {
			last = at
		}
	}
	return acquirer.Window{From: first.Add(-againMargin), To: last.Add(againMargin)}, true, nil
}

// readPage follows what a page lists. What fails keeps nothing else from being followed.
func (s *Service) readPage(ctx context.Context, at acquirer.Judge, w acquirer.Window) (inquiry.Read, error) {
	page, err := s.list(ctx, at, w)
	if err != nil {
		return inquiry.Read{}, err
	}
	if page.Unreadable > 0 {
		s.Log.LogAttrs(ctx, slog.LevelError, "acquirer lists infractions that make no sense",
			slog.String("acquirer", at.Name()), slog.Int("infractions", page.Unreadable), slog.Time("from", w.From), slog.Time("to", w.To))
	}
	failed := inquiry.Each(byPayment(page.Infractions), func(same *[]acquirer.Infraction) error {
		var failed error
		for i := range *same {
			failed = errors.Join(failed, s.match(ctx, at.Name(), &(*same)[i]))
		}
		return failed
	})
	return inquiry.Read{Next: page.Next, Unfollowed: failed}, nil
}

func (s *Service) list(ctx context.Context, at acquirer.Judge, w acquirer.Window) (acquirer.InfractionPage, error) {
	ctx, cancel := context.WithTimeout(ctx, acquirer.TryTimeMax)
	defer cancel()
	if now := s.Clock.Now(); w.To.After(now) { // the margin around a young one; not every acquirer bears the future
		w.To = now
	}
	return at.ListInfractions(ctx, w)
}

// byPayment groups infractions of one payment: followed side by side they would only get into each other's way.
func byPayment(list []acquirer.Infraction) (groups [][]acquirer.Infraction) {
	places := map[string]int{}
	for _, f := range list {
		place, ok := places[f.EndToEndID]
		if !ok {
			place = len(groups)
			places[f.EndToEndID] = place
			groups = append(groups, nil)
		}
		groups[place] = append(groups[place], f)
	}
	return groups
}
