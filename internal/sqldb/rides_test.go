package sqldb

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
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

// A trip leaves beside one that is under way only for many, or when that one takes long.
func TestRidesLeaveInTurn(t *testing.T) {
	t.Parallel()
	recent, long := time.Now().Add(time.Hour), time.Now().Add(-time.Hour) // recent stays so, however slow the machine
	for _, c := range []struct {
		away   []time.Time
		riders int
		want   bool
	}{
		{nil, 1, true},
		{[]time.Time{recent}, 1, false},
		{[]time.Time{recent}, 4, false},
		{[]time.Time{recent}, 5, true},
		{[]time.Time{long}, 1, true},
		{[]time.Time{recent, recent}, 5, false},
		{[]time.Time{long, long}, 1, false},
	} {
		r := &rides[string]{leadsMax: 2, seats: 10, away: c.away}
		if got := r.mayLeaveLocked(c.riders); got != c.want {
			t.Errorf("%d with %d trips under way: %v", c.riders, len(c.away), got)
		}
	}
}

// Whoever comes back passes the lead on to few only when no other trip is under way, or one that takes long.
func TestRidesPassOn(t *testing.T) {
	t.Parallel()
	for name, since := range map[string]time.Duration{"alone": 0, "beside one that has just left": -time.Hour, "beside one that takes long": time.Hour} {
		r := &rides[string]{leadsMax: 2, seats: 10}
		left := r.leaveLocked()
		if since != 0 {
			r.away = append(r.away, left.Add(-since))
		}
		under := len(r.away)
		waits := &rider[string]{ctx: t.Context(), told: make(chan news, 1)}
		r.waiting = []*rider[string]{waits}
		r.passOn(left)
		drives := since >= 0
		if got := len(waits.told) == 1; got != drives || (len(r.waiting) == 0) != drives {
			t.Errorf("%s: told to drive: %v", name, got)
		}
		if want := under - 1; !drives && len(r.away) != want || drives && len(r.away) != under {
			t.Errorf("%s: %d trips are under way", name, len(r.away))
		}
	}
}

// Whoever is late when the lead is passed on is not made a driver.
func TestRidesLateDriver(t *testing.T) {
	t.Parallel()
	over, end := context.WithCancel(t.Context())
	end()
	r := &rides[string]{leadsMax: 1, seats: 2}
	left := r.leaveLocked()
	for i, ctx := range []context.Context{over, over, t.Context(), over} {
		r.waiting = append(r.waiting, &rider[string]{one: strconv.Itoa(i), ctx: ctx, told: make(chan news, 1)})
	}
	riders := slices.Clone(r.waiting)
	r.passOn(left)
	r.passOn(riders[2].left)
	for i, want := range []news{isLate, isLate, toDrive, isLate} {
		if got := <-riders[i].told; got != want {
			t.Errorf("rider %d was told %v, want %v", i, got, want)
		}
	}
	if len(r.waiting) != 0 || len(r.away) != 0 {
		t.Errorf("%d wait, %d trips are under way", len(r.waiting), len(r.away))
	}
}
