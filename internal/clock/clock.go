// Package clock tells the two times of Ponte: business time, which the simulators can move forward and never back, and
// real time, which nobody moves.
//
// Business time dates what happens to money: ids, expiry, release, retries, deadlines, rate windows, blocks. Real time
// bounds what happens on wires: time-outs, heartbeats, ownership of work, logs, signatures.
package clock

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Clock tells both times. Make it with [New].
type Clock struct {
	real   func() time.Time
	offset atomic.Int64 // business time minus real time, in nanoseconds; only rises

	pass func(time.Duration) // what a wait does instead of waiting; nil for waiting

	mu    sync.Mutex
	moved chan struct{} // closed at the next Raise
}

// New returns a clock whose business time is real time, until [Clock.Raise]. A nil source means the machine's clock.
func New(source func() time.Time) *Clock {
	if source == nil {
		source = time.Now
	}
	return &Clock{real: source, moved: make(chan struct{})}
}

// NewStepped returns a clock for a simulation: it shows what source shows, and who waits for a while calls pass instead.
func NewStepped(source func() time.Time, pass func(d time.Duration)) *Clock {
	c := New(source)
	c.pass = pass
	return c
}

// Now returns business time in UTC.
func (c *Clock) Now() time.Time {
	return c.real().Add(time.Duration(c.offset.Load())).UTC()
}

// Real returns real time in UTC.
func (c *Clock) Real() time.Time { return c.real().UTC() }

// RealSince returns how much real time has passed since t, which [Clock.Real] told.
func (c *Clock) RealSince(t time.Time) time.Duration { return c.real().Sub(t) }

// Offset returns how far business time is ahead of real time.
func (c *Clock) Offset() time.Duration { return time.Duration(c.offset.Load()) }

// Raise moves business time to offset ahead of real time and wakes every [Clock.Wait]. An offset below the present one
// changes nothing: business time never goes back.
func (c *Clock) Raise(offset time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if int64(offset) <= c.offset.Load() {
		return
	}
	c.offset.Store(int64(offset))
	close(c.moved)
	c.moved = make(chan struct{})
}

// Wait returns after d of real time, when business time was moved, or with ctx's error.
func (c *Clock) Wait(ctx context.Context, d time.Duration) error { return c.WaitOr(ctx, d, nil) }

// WaitOr is Wait that also returns when wake gives something.
func (c *Clock) WaitOr(ctx context.Context, d time.Duration, wake <-chan struct{}) error {
	if c.pass != nil {
		c.pass(d)
		return ctx.Err()
	}
	c.mu.Lock()
	moved := c.moved
	c.mu.Unlock()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-moved:
	case <-wake:
	case <-timer.C:
	}
	return nil
}
