package sqldb

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Whoever is in line when its time is over is told so; whoever is on its way waits for the end of the trip.
func TestRidesLate(t *testing.T) {
	t.Parallel()
	r := &rides[string]{leadsMax: 1, seats: 2}
	ready, aboard, arrive := make(chan bool), make(chan []string), make(chan bool)
	drive := func(_ context.Context, _ string, board func() []string) {
		ready <- true
		<-ready
		aboard <- board()
		<-arrive
	}
	begin := func(ctx context.Context, one string) chan error {
		ended := make(chan error, 1)
		go func() { ended <- r.ride(ctx, one, drive) }()
		return ended
	}
	line := func(want int) {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; {
			r.mu.Lock()
			got := len(r.waiting)
			r.mu.Unlock()
			if got == want {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%d are in line, want %d", got, want)
			}
			time.Sleep(time.Millisecond)
		}
	}
	driver := begin(t.Context(), "driver")
	<-ready
	ctx, cancel := context.WithCancel(t.Context())
	rider := begin(ctx, "rider")
	line(1)
	late := begin(ctx, "late")
	line(2)
	ready <- true
	if got := <-aboard; len(got) != 2 || got[1] != "rider" {
		t.Fatalf("aboard are %v", got)
	}
	cancel()
	if err := <-late; !errors.Is(err, errNoTurn) {
		t.Errorf("late: %v", err)
	}
	select {
	case err := <-rider:
		t.Errorf("left on the way: %v", err)
	default:
	}
	arrive <- true
	if err := errors.Join(<-driver, <-rider); err != nil {
		t.Error(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.away) != 0 || len(r.waiting) != 0 {
		t.Errorf("%d trips are under way, %d wait", len(r.away), len(r.waiting))
	}
}

// A trip leaves beside one that is under way only for many who have no seat on it, or when it takes long.
func TestRidesLeaveInTurn(t *testing.T) {
	t.Parallel()
	recent, long := time.Now().Add(time.Hour), time.Now().Add(-time.Hour) // recent stays so, however slow the machine
	for _, c := range []struct {
		away   []*trip
		riders int
		want   bool
	}{
		{nil, 1, true},
		{[]*trip{{recent, true}}, 1, false},
		{[]*trip{{recent, true}}, 4, false},
		{[]*trip{{recent, true}}, 5, true},
		{[]*trip{{recent, false}}, 5, false},
		{[]*trip{{long, true}}, 1, true},
		{[]*trip{{long, false}}, 1, true},
		{[]*trip{{recent, true}, {recent, true}}, 5, false},
		{[]*trip{{long, true}, {long, true}}, 1, false},
	} {
		r := &rides[string]{leadsMax: 2, seats: 10, away: c.away}
		if got := r.mayLeaveLocked(c.riders); got != c.want {
			t.Errorf("%d with %d trips under way: %v", c.riders, len(c.away), got)
		}
	}
}

// Whoever waits for a trip that takes long leaves beside it, also when nobody else comes, and a crowd does not wait.
func TestRidesSlowTrip(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		others int
		want   time.Duration
	}{"few": {4, patience}, "a crowd": {5, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := &rides[int]{leadsMax: 2, seats: 10}
				var all sync.WaitGroup
				ride := func(one int, took time.Duration) {
					all.Go(func() {
						err := r.ride(t.Context(), one, func(_ context.Context, _ int, board func() []int) {
							board()
							time.Sleep(took)
						})
						if err != nil {
							t.Error(err)
						}
					})
				}
				began := time.Now()
				ride(0, time.Hour)
				synctest.Wait()
				for i := range c.others {
					ride(1+i, time.Millisecond)
				}
				synctest.Wait()
				for {
					r.mu.Lock()
					line := len(r.waiting)
					r.mu.Unlock()
					if line == 0 {
						break
					}
					time.Sleep(patience / 10)
					synctest.Wait()
				}
				if got := time.Since(began).Round(patience); got != c.want {
					t.Errorf("they left after %v, want %v", got, c.want)
				}
				all.Wait()
			})
		})
	}
}

// However trips end, nobody is forgotten, and there are never more than there may be.
func TestRidesCarryEverybody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const leadsMax, riders = 2, 2000
		r := &rides[int]{leadsMax: leadsMax, seats: 8}
		random := rand.New(rand.NewPCG(1, 2)) // the same each time
		var all sync.WaitGroup
		var away atomic.Int64
		var carried [riders]atomic.Bool
		for i := range riders {
			took := time.Duration(random.ExpFloat64() * float64(2*time.Millisecond))
			all.Go(func() {
				defer func() { _ = recover() }()
				err := r.ride(t.Context(), i, func(_ context.Context, _ int, board func() []int) {
					defer away.Add(-1)
					if n := away.Add(1); n > leadsMax {
						t.Errorf("%d trips are under way", n)
					}
					for _, one := range board() {
						carried[one].Store(true)
					}
					time.Sleep(took)
					if i%7 == 0 {
						panic("a trip that ends badly")
					}
				})
				if err != nil {
					t.Error(err)
				}
			})
			time.Sleep(time.Duration(random.ExpFloat64() * float64(300*time.Microsecond)))
		}
		all.Wait()
		for i := range carried {
			if !carried[i].Load() {
				t.Errorf("%d was not on any trip", i)
			}
		}
		if len(r.away) != 0 || len(r.waiting) != 0 {
			t.Errorf("%d trips are under way, %d wait", len(r.away), len(r.waiting))
		}
	})
}

// Whoever is late when the lead is passed on is not made a driver.
func TestRidesLateDriver(t *testing.T) {
	t.Parallel()
	over, end := context.WithCancel(t.Context())
	end()
	r := &rides[string]{leadsMax: 1, seats: 2}
	first := r.leaveLocked()
	for i, ctx := range []context.Context{over, over, t.Context(), over} {
		r.waiting = append(r.waiting, &rider[string]{one: strconv.Itoa(i), ctx: ctx, told: make(chan news, 1)})
	}
	riders := slices.Clone(r.waiting)
	r.passOn(first)
	r.passOn(riders[2].trip)
	for i, want := range []news{isLate, isLate, toDrive, isLate} {
		if got := <-riders[i].told; got != want {
			t.Errorf("rider %d was told %v, want %v", i, got, want)
		}
	}
	if len(r.waiting) != 0 || len(r.away) != 0 {
		t.Errorf("%d wait, %d trips are under way", len(r.waiting), len(r.away))
	}
}
