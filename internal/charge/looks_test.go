package charge

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ponte-pay/ponte/internal/acquirer"
)

var errAsked = errors.New("what was asked")

func TestLooksShareTheNextQuestion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l looks
		asked := 0
		release := make(chan struct{})
		ask := func() error {
			asked++
			<-release
			return errAsked
		}
		answers := make(chan error, 10)
		join := func(ctx context.Context) { answers <- l.join(ctx, "txid", ask) }
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
		var l looks
		hung := make(chan struct{})
		ask := func() error { <-hung; return nil }
		began := time.Now()
		done := make(chan error, 2)
		for range 2 { // the second waits for its own question behind one that hangs
			go func() { done <- l.join(context.Background(), "txid", ask) }()
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

func TestHintsAreBounded(t *testing.T) {
	t.Parallel()
	var s Service
	for i := range hintsMax {
		if !s.Hint("alpha", time.Duration(i).String(), "") {
			t.Fatalf("no room for hint %d", i)
		}
	}
	if s.Hint("alpha", "one more", "") {
		t.Error("there was room for one more")
	}
	if !s.Hint("alpha", time.Duration(7).String(), "") {
		t.Error("there was no room for one that waits already")
	}
}

func TestSettledForgets(t *testing.T) {
	t.Parallel()
	var s settled
	for i := range 3 * settledMax {
		s.add(time.Duration(i).String())
	}
	if len(s.young)+len(s.old) > 2*settledMax || s.has(time.Duration(0).String()) || !s.has(time.Duration(3*settledMax-1).String()) {
		t.Errorf("%d are remembered", len(s.young)+len(s.old))
	}
}
