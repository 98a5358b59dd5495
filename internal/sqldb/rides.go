package sqldb

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"
)

// rides lets callers share round trips. Whoever may leave drives, with all who wait; everybody else waits until a driver is
// back. A trip costs about the same for one as for many, so they leave one after the other: another leaves beside one only
// for many, or when that one takes long.
type rides[T any] struct {
	leadsMax int  // trips under way
	seats    int  // callers that share a trip
	isShort  bool // trips take no time worth mentioning: nobody stops waiting

	mu      sync.Mutex
	away    []*trip     // in the order in which they left
	waiting []*rider[T] // in order of arrival
	watched bool        // somebody looks at the line, see watch
}

const (
	crowdShare = 2                    // of the seats: whoever would fill one half of them need not wait for a trip under way
	patience   = 5 * time.Millisecond // with a trip under way; most take a fifth of that
)

// trip is one that is under way.
type trip struct {
	left    time.Time
	boarded bool // whoever comes now is not on it
}

type rider[T any] struct {
	one  T
	ctx  context.Context //nolint:containedctx // whose end is looked at for it
	told chan news       // has room for one
	trip *trip           // of one that is told to drive
}

// news are what a rider waits for.
type news int

const (
	toDrive news = iota // the next trip
	hasBeen             // on one
	isLate              // for any
)

// ride returns when one has been on a trip, or fails when it never was. A driver calls board once it is ready to go: that
// returns its own one with all who wait by then. What becomes of each is written into it; one that finds nothing written
// was on a trip that came to nothing.
func (r *rides[T]) ride(ctx context.Context, one T, drive func(ctx context.Context, own T, board func() []T)) error {
	r.mu.Lock()
	if r.mayLeaveLocked(len(r.waiting) + 1) {
		own := r.leaveLocked()
		r.mu.Unlock()
		r.lead(ctx, own, one, drive)
		return nil
	}
	if len(r.waiting) >= waitingMax {
		r.mu.Unlock()
		return fmt.Errorf("%w: %d callers are waiting", ErrUnavailable, waitingMax)
	}
	me := &rider[T]{one: one, ctx: ctx, told: make(chan news, 1)}
	r.waiting = append(r.waiting, me)
	r.watchLocked()
	r.mu.Unlock()
	switch <-me.told {
	case toDrive:
		r.lead(ctx, me.trip, one, drive)
	case isLate:
		return errNoTurn
	case hasBeen:
	}
	return nil
}

// mayLeaveLocked reports whether a trip with so many may leave now.
func (r *rides[T]) mayLeaveLocked(riders int) bool {
	switch {
	case len(r.away) == 0:
		return true
	case len(r.away) >= r.leadsMax:
		return false
	case time.Since(r.away[0].left) >= patience:
		return true
	}
	// Before the last one has boarded, all who wait may have a seat on it.
	return r.away[len(r.away)-1].boarded && riders >= r.seats/crowdShare
}

func (r *rides[T]) leaveLocked() *trip {
	one := &trip{left: time.Now()}
	r.away = append(r.away, one)
	return one
}

// watch tells those in line whose time is over, lets a trip leave beside one that takes long, and looks again for as long as
// there is a line. So nobody needs a timer of its own. Whoever is on its way waits for the end of the trip, which has a limit
// too.
func (r *rides[T]) watch() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = slices.DeleteFunc(r.waiting, (*rider[T]).tellLate)
	r.sendLocked()
	r.watched = false
	r.watchLocked()
}

// tellLate tells a rider whose time is over, and reports whether it is.
func (one *rider[T]) tellLate() bool {
	late := one.ctx.Err() != nil
	if late {
		one.told <- isLate
	}
	return late
}

// watchLocked has the line looked at in a while, if there is one.
func (r *rides[T]) watchLocked() {
	if len(r.waiting) == 0 || r.watched || r.isShort {
		return
	}
	r.watched = true
	after := lineEvery
	if len(r.away) < r.leadsMax {
		after = patience
	}
	time.AfterFunc(after, r.watch)
}

// lead drives, and then lets the next trip leave.
func (r *rides[T]) lead(ctx context.Context, now *trip, own T, drive func(ctx context.Context, own T, board func() []T)) {
	defer r.passOn(now)
	var others []*rider[T]
	defer func() { // also when it ends by a panic
		for _, o := range others {
			o.told <- hasBeen
		}
	}()
	drive(ctx, own, func() []T {
		runtime.Gosched() // whoever is about to wait as well comes along
		others = r.gather(now)
		all := make([]T, 1, 1+len(others))
		all[0] = own
		for _, o := range others {
			all = append(all, o.one)
		}
		return all
	})
}

// gather takes as many out of the line as may travel together.
func (r *rides[T]) gather(now *trip) []*rider[T] {
	r.mu.Lock()
	defer r.mu.Unlock()
	now.boarded = true
	n := min(len(r.waiting), r.seats-1)
	group := slices.Clone(r.waiting[:n])
	r.waiting = slices.Delete(r.waiting, 0, n)
	return group
}

// passOn ends a trip and lets the next one leave. A driver whose time is over would come to nothing, and all others with it.
func (r *rides[T]) passOn(ended *trip) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away = slices.DeleteFunc(r.away, func(one *trip) bool { return one == ended })
	for len(r.waiting) > 0 && !r.isShort && r.waiting[0].tellLate() {
		r.waiting = slices.Delete(r.waiting, 0, 1)
	}
	r.sendLocked()
}

// sendLocked makes the one who has waited longest a driver, if a trip may leave.
func (r *rides[T]) sendLocked() {
	if len(r.waiting) == 0 || !r.mayLeaveLocked(len(r.waiting)) {
		return
	}
	r.waiting[0].trip = r.leaveLocked()
	r.waiting[0].told <- toDrive
	r.waiting = slices.Delete(r.waiting, 0, 1)
}
