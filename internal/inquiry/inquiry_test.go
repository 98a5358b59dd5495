package inquiry

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/clock"
)

var errAsked = errors.New("what was asked")

func TestLooksShareTheNextQuestion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l Looks
		asked := 0
		release := make(chan struct{})
		ask := func() error {
			asked++
			<-release
			return errAsked
		}
		answers := make(chan error, 10)
		join := func(ctx context.Context) { answers <- l.Join(ctx, "txid", ask) }
		first, leave := context.WithCancel(t.Context())
		go join(first)
		synctest.Wait()
		for range 5 {
			go join(t.Context())
		}
		synctest.Wait()
		if asked != 1 {
			t.Fatalf("asked %d times while the first question is under way", asked)
		}
		leave()
		if err := <-answers; !errors.Is(err, context.Canceled) {
			t.Errorf("who left was told %v", err)
		}
		release <- struct{}{}
		synctest.Wait()
		if asked != 2 || len(answers) != 0 {
			t.Errorf("asked %d times, %d were told an answer older than their question", asked, len(answers))
		}
		close(release)
		for range 5 {
			if err := <-answers; !errors.Is(err, errAsked) {
				t.Errorf("told %v", err)
			}
		}
		synctest.Wait()
		if asked != 2 || len(l.asked) != 0 {
			t.Errorf("asked %d times, %d are remembered", asked, len(l.asked))
		}
	})
}

func TestLooksWaitNoLongerThanOneTry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l Looks
		hung := make(chan struct{})
		ask := func() error { <-hung; return nil }
		began := time.Now()
		done := make(chan error, 2)
		for range 2 { // the second waits for its own question behind one that hangs
			go func() { done <- l.Join(context.Background(), "txid", ask) }()
			synctest.Wait()
		}
		for range 2 {
			if err := <-done; !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("told %v", err)
			}
		}
		if took := time.Since(began); took != acquirer.TryTimeMax {
			t.Errorf("it took %v", took)
		}
		close(hung)
	})
}

// named is a hint of a test.
type named string

func (n named) From() string { return "alpha" }
func (n named) What() string { return string(n) }

func TestHintsAreBounded(t *testing.T) {
	t.Parallel()
	l := NewHints[named](clock.New(nil), slog.New(slog.DiscardHandler))
	for i := range hintsMax {
		if !l.Add(named(time.Duration(i).String())) {
			t.Fatalf("no room for hint %d", i)
		}
	}
	if l.Add("one more") {
		t.Error("there was room for one more")
	}
	if !l.Add(named(time.Duration(7).String())) {
		t.Error("there was no room for one that waits already")
	}
}

// TestHintsArePatient has an acquirer stay silent: it is asked once a step, and what it was to be asked waits.
func TestHintsArePatient(t *testing.T) {
	t.Parallel()
	c := clock.New(nil)
	l := NewHints[named](c, slog.New(slog.DiscardHandler))
	l.Add("one")
	var answer error = &acquirer.Error{Acquirer: "alpha", Outcome: acquirer.Unknown, Class: acquirer.Down}
	asked := 0
	step := func() (bool, error) {
		return l.Follow(t.Context(), func(context.Context, named) error {
			asked++
			return answer
		})
	}
	for i := range 3 {
		if _, err := step(); err != nil || asked != i+1 {
			t.Fatalf("asked %d times, %v", asked, err)
		}
		if did, err := step(); did || err != nil || asked != i+1 {
			t.Fatalf("asked %d times before it was due, %v", asked, err)
		}
		c.Raise(c.Offset() + hintWait<<i)
	}
	answer = errAsked // our own failure ends the step
	if did, err := step(); did || !errors.Is(err, errAsked) {
		t.Errorf("%v, %v", did, err)
	}
	c.Raise(c.Offset() + hintWaitMax)
	answer = nil
	if did, err := step(); !did || err != nil || asked != 5 {
		t.Errorf("%v, %v, asked %d times", did, err, asked)
	}
	if did, _ := step(); did {
		t.Error("it was answered, and is asked again")
	}
}

func TestMemoryForgets(t *testing.T) {
	t.Parallel()
	var m Memory
	for i := range 3 * memoryMax {
		m.Add(time.Duration(i).String())
	}
	if len(m.young)+len(m.old) > 2*memoryMax || m.Has(time.Duration(0).String()) || !m.Has(time.Duration(3*memoryMax-1).String()) {
		t.Errorf("%d are remembered", len(m.young)+len(m.old))
	}
}
