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
	if r.leads != 0 || len(r.waiting) != 0 {
		t.Errorf("%d leads are under way, %d wait", r.leads, len(r.waiting))
	}
}

// Whoever is late when the lead is passed on is not made a driver.
func TestRidesLateDriver(t *testing.T) {
	t.Parallel()
	over, end := context.WithCancel(t.Context())
	end()
	r := &rides[string]{leadsMax: 1, seats: 2, leads: 1}
	for i, ctx := range []context.Context{over, over, t.Context(), over} {
		r.waiting = append(r.waiting, &rider[string]{strconv.Itoa(i), ctx, make(chan news, 1)})
	}
	riders := slices.Clone(r.waiting)
	r.passOn()
	r.passOn()
	for i, want := range []news{isLate, isLate, toDrive, isLate} {
		if got := <-riders[i].told; got != want {
			t.Errorf("rider %d was told %v, want %v", i, got, want)
		}
	}
	if len(r.waiting) != 0 || r.leads != 0 {
		t.Errorf("%d wait, %d leads are under way", len(r.waiting), r.leads)
	}
}
