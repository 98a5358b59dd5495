package acquirer

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Bounds of what is done about charges that may have been made and were shown to nobody. They harm nobody and expire by
// themselves, so the list is kept in memory and what does not fit is forgotten. Times are business time.
const (
	lostMax         = 1024
	lostTriesMax    = 4
	lostDelayMin    = 30 * time.Second // so that a slow request has ended
	lostDelayFactor = 4
)

// lostCharges are charges to be removed. The zero value is empty.
type lostCharges struct {
	mu   sync.Mutex
	list []lostCharge // oldest first
}

type lostCharge struct {
	route *route
	txID  string
	dueAt time.Time
	delay time.Duration // until the try after the next
	tries int
}

func (l *lostCharges) add(rt *route, txID string, now time.Time) {
	l.put(lostCharge{route: rt, txID: txID, dueAt: now.Add(lostDelayMin), delay: lostDelayMin * lostDelayFactor})
}

func (l *lostCharges) put(c lostCharge) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.list) < lostMax {
		l.list = append(l.list, c)
	}
}

// take takes out a charge that is due.
func (l *lostCharges) take(now time.Time) (c lostCharge, found bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.list, func(c lostCharge) bool { return !now.Before(c.dueAt) })
	if i < 0 {
		return lostCharge{}, false
	}
	c = l.list[i]
	l.list = slices.Delete(l.list, i, i+1)
	return c, true
}

func (l *lostCharges) count(rt *route) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for i := range l.list {
		if l.list[i].route == rt {
			n++
		}
	}
	return n
}

// Abandon has a charge removed, after a while, that an acquirer made and nobody was shown.
func (r *Router) Abandon(acquirer, txID string) {
	for _, rt := range r.routes {
		if rt.name == acquirer {
			r.lost.add(rt, txID, r.clock.Now())
		}
	}
}

// Step removes one charge that an acquirer may have made without our knowing, as far as that can be had for a few tries:
// its payer would see nothing of it, but operators would. did reports whether there was one.
func (r *Router) Step(ctx context.Context) (did bool, err error) {
	c, found := r.lost.take(r.clock.Now())
	if !found {
		return false, nil
	}
	limited, cancel := context.WithTimeout(ctx, r.limits.try)
	defer cancel()
	failure := As(c.route.Acquirer.RemoveCharge(limited, c.txID))
	if failure != nil && ctx.Err() != nil {
		r.lost.put(c) // as if it had not been tried
		return false, ctx.Err()
	}
	c.tries++
	switch {
	case failure == nil, c.tries == lostTriesMax:
		return true, nil
	case failure.Class == Business && !errors.Is(failure, ErrNotFound):
		return true, nil // it cannot be removed, and never will be
	}
	// Not found is no end: a request that was lost on its way may still be on it.
	c.dueAt = r.clock.Now().Add(c.delay)
	c.delay *= lostDelayFactor
	r.lost.put(c)
	return true, nil
}
