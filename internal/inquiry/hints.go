package inquiry

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ponte-pay/ponte/internal/clock"
)

const (
	hintsMax     = 20_000           // notifications that wait; the acquirers' lists find what is dropped
	hintTriesMax = 12               // then it is dropped
	hintWait     = time.Second      // after the first failure, doubled after each
	hintWaitMax  = 10 * time.Minute // of business time, as hintWait
	shareTimeMax = 2 * time.Second  // of real time that one step spends on an acquirer, or others would wait for a slow one
)

// Hint is a notification: somebody says that something happened. It is not believed, only looked up.
type Hint interface {
	comparable
	From() string // the acquirer that says so
	What() string // what it is about, for logs
}

// patience is what a hint has been through.
type patience struct {
	tries int       // that failed
	due   time.Time // business time of the next
	place int64     // in the order in which they came
}

// Hints are notifications that wait to be looked up. Make them with [NewHints].
type Hints[H Hint] struct {
	clock *clock.Clock
	log   *slog.Logger

	mu      sync.Mutex
	waiting map[H]patience
	places  int64 // that were given out
}

// NewHints returns no hints.
func NewHints[H Hint](c *clock.Clock, log *slog.Logger) *Hints[H] {
	return &Hints[H]{clock: c, log: log, waiting: map[H]patience{}}
}

// Add notes a notification and reports whether there was room.
func (l *Hints[H]) Add(h H) bool { return l.await(h, patience{}) }

// await puts a hint where Follow finds it. One that waits already is due when either is.
func (l *Hints[H]) await(h H, p patience) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if waits, ok := l.waiting[h]; ok {
		if p.due.Before(waits.due) {
			p.place = waits.place
			l.waiting[h] = p
		}
		return true
	}
	if len(l.waiting) >= hintsMax {
		return false
	}
	l.places++
	p.place = l.places
	l.waiting[h] = p
	return true
}

// notice is a hint that is due.
type notice[H Hint] struct {
	hint H
	patience
}

// take returns what is due, each acquirer's share apart, what came first before the rest.
func (l *Hints[H]) take() [][]notice[H] {
	now := l.clock.Now()
	shares := map[string][]notice[H]{}
	l.mu.Lock()
	defer l.mu.Unlock()
	for h, p := range l.waiting {
		if !p.due.After(now) {
			shares[h.From()] = append(shares[h.From()], notice[H]{h, p})
			delete(l.waiting, h)
		}
	}
	var due [][]notice[H]
	for _, from := range slices.Sorted(maps.Keys(shares)) {
		share := shares[from]
		slices.SortFunc(share, func(a, b notice[H]) int { return cmp.Compare(a.place, b.place) })
		due = append(due, share)
	}
	return due
}

// Follow looks up the notifications that are due. Those that cannot be looked up wait for a while and are tried again. An
// acquirer that does not answer is asked no further in this step, and one that is slow not for long, so that neither keeps
// the others waiting.
func (l *Hints[H]) Follow(ctx context.Context, follow func(context.Context, H) error) (did bool, err error) {
	return l.FollowTogether(ctx, func(context.Context, []H) (Answers[H], error) {
		return Answers[H]{Follow: follow, IsKnown: func(H) bool { return false }}, nil
	})
}

// Answers are what is known of some hints of one acquirer.
type Answers[H Hint] struct {
	Follow  func(context.Context, H) error // follows a hint
	IsKnown func(H) bool                   // whether that takes no question any more

	// Settle follows several at once of those that take no question any more, and returns which. The others are followed one by
	// one. nil is for who cannot.
	Settle func(context.Context, []H) (done map[H]bool, err error)
}

// FollowTogether is Follow for who can ask about many hints of an acquirer at once. ask does that; it fails when the acquirer
// does not answer.
func (l *Hints[H]) FollowTogether(ctx context.Context, ask func(ctx context.Context, some []H) (Answers[H], error)) (did bool, err error) {
	shares := l.take()
	err = Each(shares, func(share *[]notice[H]) error {
		s := following[H]{Hints: l, began: l.clock.Real()}
		var failed error
		for some := range slices.Chunk(*share, togetherMax) {
			failed = cmp.Or(failed, s.run(ctx, some, ask))
		}
		return failed
	})
	return len(shares) > 0 && err == nil, err
}

// following is one acquirer's share of a step.
type following[H Hint] struct {
	*Hints[H]
	silent Silence
	began  time.Time // real time
}

func (s *following[H]) isOver() bool { return s.clock.RealSince(s.began) > shareTimeMax }

func (s *following[H]) run(ctx context.Context, some []notice[H], ask func(context.Context, []H) (Answers[H], error)) error {
	hints := make([]H, len(some))
	for i := range some {
		hints[i] = some[i].hint
	}
	if s.isOver() || s.silent.Has(hints[0].From()) {
		hints = nil // nothing is asked any more
	}
	answers, err := ask(ctx, hints)
	s.note(ctx, some[0].hint.From(), err)
	known, unknown := make([]notice[H], 0, len(some)), make([]notice[H], 0, len(some))
	for _, n := range some {
		if answers.IsKnown(n.hint) {
			known = append(known, n)
		} else {
			unknown = append(unknown, n)
		}
	}
	known = s.settle(ctx, &answers, known)
	// What is known waits for nobody any more: were it put back because its list was slow, the next list would be as slow.
	err = EachKnown(known, func(n *notice[H]) error { return s.try(ctx, n, answers.Follow) })
	return cmp.Or(err, Each(unknown, func(n *notice[H]) error { return s.follow(ctx, n, answers.Follow) }))
}

// settle follows what it can of what is known, and returns the rest. What keeps it from one may not show again when that is
// followed by itself, so it is logged.
func (s *following[H]) settle(ctx context.Context, a *Answers[H], known []notice[H]) []notice[H] {
	if a.Settle == nil || len(known) == 0 {
		return known
	}
	hints := make([]H, len(known))
	for i := range known {
		hints[i] = known[i].hint
	}
	var done map[H]bool
	err := guarded(func() (err error) {
		done, err = a.Settle(ctx, hints)
		return err
	})
	if err != nil {
		s.log.LogAttrs(ctx, slog.LevelWarn, "could not settle together", slog.Int("notifications", len(hints)), slog.String("error", err.Error()))
	}
	return slices.DeleteFunc(known, func(n notice[H]) bool { return done[n.hint] })
}

// note notes how an acquirer failed, if it did.
func (s *following[H]) note(ctx context.Context, from string, err error) {
	if s.silent.Note(from, err) {
		s.log.LogAttrs(ctx, slog.LevelWarn, "acquirer could not be asked", slog.String("acquirer", from), slog.String("error", err.Error()))
	}
}

// follow follows a hint that takes a question, if its acquirer may still be asked.
func (s *following[H]) follow(ctx context.Context, n *notice[H], follow func(context.Context, H) error) error {
	switch {
	case s.silent.Has(n.hint.From()):
		s.putBack(ctx, n, 0)
		return nil
	case s.isOver():
		s.await(n.hint, n.patience) // in the next step
		return nil
	}
	return s.try(ctx, n, follow)
}

// try follows a hint, which waits again when that fails.
func (s *following[H]) try(ctx context.Context, n *notice[H], follow func(context.Context, H) error) error {
	err := follow(ctx, n.hint)
	if err == nil {
		return nil
	}
	s.putBack(ctx, n, 1)
	if !IsAcquirers(err) {
		return err
	}
	s.note(ctx, n.hint.From(), err) // not a failure of the step: the others must not wait for it to be repeated
	return nil
}

// putBack makes a hint wait after so many more failures.
func (l *Hints[H]) putBack(ctx context.Context, n *notice[H], failures int) {
	wait := min(hintWait<<n.tries, hintWaitMax)
	n.tries += failures
	n.due = l.clock.Now().Add(wait)
	if n.tries >= hintTriesMax || !l.await(n.hint, n.patience) {
		l.log.LogAttrs(ctx, slog.LevelWarn, "notification given up", slog.String("acquirer", n.hint.From()), slog.String("about", n.hint.What()))
	}
}
