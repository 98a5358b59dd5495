package sqldb

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestPace(t *testing.T) {
	t.Parallel()
	left := time.Now()
	for _, tt := range []struct {
		why       string
		company   bool // on the last trip
		since     time.Duration
		travelers int
		another   bool // trip is under way
		want      time.Duration
	}{
		{"alone, however soon", false, 0, 1, false, 0},
		{"after a shared trip", true, 0, 1, false, departEvery},
		{"with somebody", false, departEvery / 2, 2, false, departEvery / 2},
		{"beside another trip", false, departEvery / 4, 1, true, departEvery * 3 / 4},
		{"with enough", true, 0, companyEnough, true, 0},
		{"one less than enough", true, 0, companyEnough - 1, true, departEvery},
		{"long after", true, departEvery, 2, true, 0},
	} {
		p := pace{left: left, company: tt.company}
		now := left.Add(tt.since)
		if got := p.hold(now, tt.travelers, tt.another); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.why, got, tt.want)
		}
		if want := now.Add(tt.want); !p.left.Equal(want) {
			t.Errorf("%s: left at %v, want %v", tt.why, p.left, want)
		}
	}
}

// TestRidesWaitForCompany sends callers one by one in quick succession: alone each goes at once, and beside others they share
// their trips.
func TestRidesWaitForCompany(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const callers = 100
		r := &rides[int]{leadsMax: 2, seats: callers}
		var trips atomic.Int64
		drive := func(took time.Duration) func(context.Context, int, func() []int) {
			return func(_ context.Context, _ int, board func() []int) {
				board()
				trips.Add(1)
				time.Sleep(took)
			}
		}
		began := time.Now()
		for i := range callers {
			if err := r.ride(t.Context(), i, drive(0)); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took != 0 || trips.Load() != callers {
			t.Errorf("one after the other: %d trips in %v", trips.Load(), took)
		}

		trips.Store(0)
		var all sync.WaitGroup
		for i := range callers {
			all.Go(func() {
				if err := r.ride(t.Context(), i, drive(departEvery/4)); err != nil {
					t.Error(err)
				}
			})
			time.Sleep(departEvery / 5)
		}
		all.Wait()
		if trips.Load() > callers/4 { // each would have left by itself: a trip is over before the one after the next comes
			t.Errorf("side by side: %d trips", trips.Load())
		}
	})
}
