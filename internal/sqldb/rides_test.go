package sqldb

import (
	"context"
	"errors"
	"testing"
)

// Whoever stops waiting on the way waits for the end of the trip, unless it may leave.
func TestRidesLeave(t *testing.T) {
	t.Parallel()
	for _, mayLeave := range []bool{true, false} {
		r := &rides[string]{leadsMax: 1, seats: 2, mayLeave: mayLeave}
		ready, aboard, arrive := make(chan bool), make(chan []string), make(chan bool)
		drive := func(_ context.Context, _ string, board func() []string) {
			ready <- true
			<-ready
			aboard <- board()
			<-arrive
		}
		told := make(chan error, 2)
		go func() { told <- r.ride(t.Context(), "driver", drive) }()
		<-ready
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() { left <- r.ride(ctx, "rider", nil) }()
		for isInLine := false; !isInLine; {
			r.mu.Lock()
			isInLine = len(r.waiting) == 1
			r.mu.Unlock()
		}
		ready <- true
		if got := <-aboard; len(got) != 2 {
			t.Fatalf("aboard are %v", got)
		}
		cancel()
		if mayLeave {
			if err := <-left; !errors.Is(err, errNoTurn) {
				t.Errorf("left with %v", err)
			}
		}
		arrive <- true
		if err := <-told; err != nil {
			t.Error(err)
		}
		if !mayLeave {
			if err := <-left; err != nil {
				t.Errorf("arrived with %v", err)
			}
		}
		if r.leads != 0 {
			t.Errorf("%d leads are under way", r.leads)
		}
	}
}
