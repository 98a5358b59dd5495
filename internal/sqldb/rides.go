package sqldb

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
)

// rides lets callers share round trips. Whoever finds a lead free drives, with all who wait; whoever finds none waits until
// a driver is back.
type rides[T any] struct {
	leadsMax int  // trips under way
	seats    int  // callers that share a trip
	mayLeave bool // whoever stops waiting does so on the way too; what it has brought stays there
	isShort  bool // trips take no time worth mentioning: nobody stops waiting

	mu      sync.Mutex
	leads   int         // under way
	waiting []*rider[T] // in order of arrival
}

type rider[T any] struct {
	one  T
	told chan bool // has room for one: true is to drive the next trip, false is to have been on one
}

// ride returns when one has been on a trip, or fails when it never was. A driver calls board once it is ready to go: that
// returns its own one with all who wait by then. What becomes of each is written into it; one that finds nothing written
// was on a trip that came to nothing.
func (r *rides[T]) ride(ctx context.Context, one T, drive func(ctx context.Context, own T, board func() []T)) error {
	r.mu.Lock()
	if r.leads < r.leadsMax {
		r.leads++
		r.mu.Unlock()
		r.lead(ctx, one, drive)
		return nil
	}
	if len(r.waiting) >= waitingMax {
		r.mu.Unlock()
		return fmt.Errorf("%w: %d callers are waiting", ErrUnavailable, waitingMax)
	}
	me := &rider[T]{one, make(chan bool, 1)}
	r.waiting = append(r.waiting, me)
	r.mu.Unlock()

	lead, err := r.wait(ctx, me)
	if err != nil {
		return err
	}
	if lead {
		r.lead(ctx, one, drive)
	}
	return nil
}

// wait returns whether to drive the next trip, or fails when me has stopped waiting.
func (r *rides[T]) wait(ctx context.Context, me *rider[T]) (lead bool, err error) {
	if r.isShort {
		return <-me.told, nil
	}
	select {
	case lead = <-me.told:
		return lead, nil
	case <-ctx.Done():
	}
	if r.leave(me) {
		return false, errNoTurn
	}
	select {
	case lead = <-me.told:
		return lead, nil
	default: // it is on its way
	}
	if r.mayLeave {
		return false, errNoTurn
	}
	return <-me.told, nil // its driver has a deadline too
}

// lead drives, and then makes the one who has waited longest a driver.
func (r *rides[T]) lead(ctx context.Context, own T, drive func(ctx context.Context, own T, board func() []T)) {
	defer r.passOn()
	var others []*rider[T]
	defer func() { // also when it ends by a panic
		for _, o := range others {
			o.told <- false
		}
	}()
	drive(ctx, own, func() []T {
		runtime.Gosched() // whoever is about to wait as well comes along
		others = r.gather()
		all := make([]T, 1, 1+len(others))
		all[0] = own
		for _, o := range others {
			all = append(all, o.one)
		}
		return all
	})
}

// gather takes as many out of the line as may travel together.
func (r *rides[T]) gather() []*rider[T] {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := min(len(r.waiting), r.seats-1)
	group := slices.Clone(r.waiting[:n])
	r.waiting = slices.Delete(r.waiting, 0, n)
	return group
}

// leave takes me out of the line and reports whether it was still there.
func (r *rides[T]) leave(me *rider[T]) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.Index(r.waiting, me)
	if i < 0 {
		return false
	}
	r.waiting = slices.Delete(r.waiting, i, i+1)
	return true
}

// passOn makes the one who has waited longest a driver.
func (r *rides[T]) passOn() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) == 0 {
		r.leads--
		return
	}
	r.waiting[0].told <- true
	r.waiting = slices.Delete(r.waiting, 0, 1)
}
