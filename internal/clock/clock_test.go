package clock

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var noon = time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)

func TestRaise(t *testing.T) {
	t.Parallel()
	c := New(func() time.Time { return noon.In(time.FixedZone("BRT", -3*60*60)) })
	steps := []struct{ raise, want time.Duration }{
		{0, 0},
		{-time.Hour, 0},
		{time.Hour, time.Hour},
		{time.Minute, time.Hour},
		{time.Hour, time.Hour},
		{48 * time.Hour, 48 * time.Hour},
	}
	for _, s := range steps {
		c.Raise(s.raise)
		if got := c.Offset(); got != s.want {
			t.Errorf("after Raise(%v) the offset is %v, want %v", s.raise, got, s.want)
		}
		if got, want := c.Now(), noon.Add(s.want); !got.Equal(want) || got.Location() != time.UTC {
			t.Errorf("after Raise(%v) it is %v, want %v", s.raise, got, want)
		}
		if got := c.Real(); !got.Equal(noon) || got.Location() != time.UTC {
			t.Errorf("after Raise(%v) real time is %v, want %v", s.raise, got, noon)
		}
	}
	if got := c.RealSince(noon.Add(-time.Minute)); got != time.Minute {
		t.Errorf("RealSince = %v, want a minute", got)
	}
}

func TestRaiseConcurrently(t *testing.T) {
	t.Parallel()
	c := New(nil)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			last := time.Duration(0)
			for j := range 500 {
				c.Raise(time.Duration(j*8 + i))
				if got := c.Offset(); got < last {
					t.Errorf("the offset fell from %v to %v", last, got)
				} else {
					last = got
				}
			}
		})
	}
	wg.Wait()
	if got, want := c.Offset(), time.Duration(499*8+7); got != want {
		t.Errorf("the offset is %v, want %v", got, want)
	}
}

func TestMachineClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := New(nil)
		c.Raise(time.Hour)
		if got, want := c.Now(), time.Now().Add(time.Hour); !got.Equal(want) {
			t.Errorf("it is %v, want %v", got, want)
		}
	})
}

func TestWaitEndsAtItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := New(nil)
		start := c.Real()
		if err := c.Wait(t.Context(), time.Hour); err != nil {
			t.Error(err)
		}
		if got := c.RealSince(start); got != time.Hour {
			t.Errorf("waited %v, want an hour", got)
		}
	})
}

func TestWaitEndsWhenTimeIsMoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := New(nil)
		start := c.Real()
		c.Raise(time.Minute) // before the wait: of no use to it
		var done atomic.Int32
		for range 3 {
			go func() {
				if err := c.Wait(t.Context(), time.Hour); err != nil {
					t.Error(err)
				}
				done.Add(1)
			}()
			synctest.Wait()
		}
		c.Raise(time.Second) // below the present offset: nothing moves
		synctest.Wait()
		if n := done.Load(); n != 0 {
			t.Errorf("%d waits ended for nothing", n)
		}
		c.Raise(2 * time.Minute)
		synctest.Wait()
		if n := done.Load(); n != 3 || c.RealSince(start) != 0 {
			t.Errorf("%d of 3 waits ended, after %v", n, c.RealSince(start))
		}
	})
}

func TestWaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := New(nil)
		start := c.Real()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := c.Wait(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if got := c.RealSince(start); got != time.Minute {
			t.Errorf("waited %v, want a minute", got)
		}
	})
}

func TestSteppedClockNeverWaits(t *testing.T) {
	t.Parallel()
	now := noon
	c := NewStepped(func() time.Time { return now }, func(d time.Duration) { now = now.Add(d) })
	if err := c.Wait(t.Context(), time.Hour); err != nil || c.Real() != noon.Add(time.Hour) {
		t.Errorf("it is %v, %v", c.Real(), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Wait(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestWithin ends with the sooner one, and makes nothing where that is the one there is.
func TestWithin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		outer, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for _, limit := range []time.Duration{time.Second, time.Minute, time.Hour} {
			isNew := limit < time.Minute
			ctx, end := Within(outer, limit)
			if (ctx != outer) != isNew {
				t.Errorf("within %v: a new context is %v", limit, ctx != outer)
			}
			if at, ok := ctx.Deadline(); !ok || time.Until(at) != min(limit, time.Minute) {
				t.Errorf("within %v: ends in %v", limit, time.Until(at))
			}
			end()
		}
		if outer.Err() != nil {
			t.Error("the outer one was ended")
		}
		if ctx, end := Within(t.Context(), time.Second); ctx == t.Context() {
			t.Error("no limit where there was none")
		} else {
			end()
		}
	})
}
