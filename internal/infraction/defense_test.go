package infraction_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/infraction"
)

// claimed returns an infraction of a new payment.
func (n *node) claimed() infraction.Infraction {
	n.t.Helper()
	a := n.account()
	_, e2e := n.paid(a, 1000)
	name := n.claim(e2e, 1000)
	n.poll()
	return n.named(a.ID, name)
}

// again returns an infraction as it stands.
func (n *node) again(f infraction.Infraction) infraction.Infraction {
	n.t.Helper()
	return n.named(f.Account, f.AcquirerID)
}

func TestDefenseWindow(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, n *node) {
		inTime, late := n.claimed(), n.claimed()
		// The clock goes on by itself meanwhile: a second is left for that.
		n.advance(inTime.DeadlineAt.Sub(n.clock.Now()).Truncate(time.Second))
		got, err := n.say(inTime, "no último segundo")
		if err != nil || got.Status != infraction.UnderReview || got.DefendedAt.After(inTime.DeadlineAt) || inTime.DeadlineAt.Sub(got.DefendedAt) > time.Second {
			t.Fatalf("%+v: %v", got, err)
		}
		n.step(n.HandIn)
		if got := n.again(inTime); got.Handing != infraction.Taken {
			t.Errorf("%s: %s", got.Handing, got.HandError)
		}
		n.advance(late.DeadlineAt.Sub(n.clock.Now()).Truncate(time.Second) + 2*time.Second)
		if _, err := n.say(late, "tarde"); !errors.Is(err, infraction.ErrWindowClosed) {
			t.Errorf("%v", err)
		}
		if _, err := n.say(inTime, "outra vez"); err == nil {
			t.Error("a second defense was taken")
		}
		// That it is not open is told first.
		if _, err := n.say(n.again(inTime), "outra vez"); !errors.Is(err, infraction.ErrNotOpen) {
			t.Errorf("%v", err)
		}
	})
}

func TestDefensesAtOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, n *node) {
		f := n.claimed()
		nodes := []*node{n, n.world.node(n.db)}
		var taken, refused int
		var mu sync.Mutex
		var running sync.WaitGroup
		for i := range 8 {
			running.Go(func() {
				_, err := nodes[i%2].say(f, strings.Repeat("x", i+1))
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					taken++
				case errors.Is(err, infraction.ErrNotOpen):
					refused++
				default:
					t.Error(err)
				}
			})
		}
		running.Wait()
		if taken != 1 || refused != 7 {
			t.Errorf("%d were taken, %d refused", taken, refused)
		}
		for i := range 8 {
			running.Go(func() {
				if _, err := nodes[i%2].HandIn(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		running.Wait()
		if got := n.again(f); got.Handing != infraction.Taken || got.HandTries != 1 {
			t.Errorf("%s after %d tries", got.Handing, got.HandTries)
		}
	})
}

// TestDefensesAreRetried breaks handing in in every way.
func TestDefensesAreRetried(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, n *node) {
		for _, test := range []struct {
			kind    string
			waiting infraction.Handing // after the first try
			handing infraction.Handing // in the end
		}{
			{"http_500", infraction.Waiting, infraction.Taken},
			{"http_429", infraction.Waiting, infraction.Taken},
			{"lost_executed", infraction.Waiting, infraction.Taken},
			{"lost_not_executed", infraction.Waiting, infraction.Taken},
			{"refuse", infraction.Waiting, infraction.Taken},
		} {
			f := n.claimed()
			if _, err := n.say(f, "entregue"); err != nil {
				t.Fatal(err)
			}
			n.fault(f.Acquirer, "med.defend", test.kind, time.Millisecond)
			n.step(n.HandIn)
			if got := n.again(f); got.Handing != test.waiting || got.HandTries != 1 || got.HandError == "" || got.Status != infraction.UnderReview {
				t.Errorf("%s: %s, %d tries, %q", test.kind, got.Handing, got.HandTries, got.HandError)
			}
			n.step(n.HandIn) // not due yet
			n.mend()
			n.advance(2 * time.Minute)
			if concern, err := infraction.CountConcerns(t.Context(), n.db, n.clock.Now()); err != nil || concern.Waiting != 1 {
				t.Errorf("%s: %+v %v", test.kind, concern, err)
			}
			n.step(n.HandIn)
			if got := n.again(f); got.Handing != test.handing || got.HandTries != 2 {
				t.Errorf("%s: %s, %d tries, %q", test.kind, got.Handing, got.HandTries, got.HandError)
			}
		}
	})
}

// TestDefensesAreRefused shows operators what an acquirer does not take.
func TestDefensesAreRefused(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, n *node) {
		there := n.claimed()
		if _, err := n.say(there, "entregue"); err != nil {
			t.Fatal(err)
		}
		n.portal(there.Acquirer, there.AcquirerID)
		n.step(n.HandIn)
		if got := n.again(there); got.Handing != infraction.Refused || got.HandError == "" {
			t.Errorf("%s %q", got.Handing, got.HandError)
		}

		late := n.claimed()
		n.advance(late.DeadlineAt.Sub(n.clock.Now()).Truncate(time.Second))
		if _, err := n.say(late, "entregue"); err != nil {
			t.Fatal(err)
		}
		n.advance(time.Minute) // the acquirer could not be reached
		n.step(n.HandIn)
		if got := n.again(late); got.Handing != infraction.Refused || got.Status != infraction.UnderReview {
			t.Errorf("%s %q", got.Handing, got.HandError)
		}
		concern, err := infraction.CountConcerns(t.Context(), n.db, n.clock.Now())
		if want := (infraction.Concern{Refused: 2}); err != nil || concern != want {
			t.Errorf("%+v: %v", concern, err)
		}
		n.verdict(there.AcquirerID, "accept")
		n.verdict(late.AcquirerID, "reject")
		n.poll()
		if concern, err := infraction.CountConcerns(t.Context(), n.db, n.clock.Now()); err != nil || concern.Refused != 0 {
			t.Errorf("%+v: %v", concern, err)
		}
		n.audit(there.Account, late.Account)
	})
}
