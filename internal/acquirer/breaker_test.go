package acquirer

import (
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

// TestBreaker runs scripts. Their words:
//
//	fail*5, work, silent   so many requests, one after the other, that are admitted and end so
//	enter:a, leave:a:work  a request that begins and ends
//	force:a                one that begins although no trial may be due
//	refused, busy          a request that is not admitted, because it is too early or because of a trial
//	+5s                    business time passes
//	closed, open, trial    the state
func TestBreaker(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, script string }{
		{"works", "closed work*100 closed"},
		{"four failures in a row are no reason", "fail*4 closed work fail*4 closed work closed"},
		{"five are", "fail*5 open refused"},
		{"what says nothing does not interrupt the row", "fail*4 silent*9 closed fail open"},
		{"half of twenty", "fail work fail work fail work fail work fail work fail work fail work fail work fail work closed fail work closed fail open"},
		{"a third is no reason", "fail work work fail work work fail work work fail work work fail work work fail work work fail work work fail work work closed"},
		{"failures of more than a minute ago do not count", "fail*3 work fail*3 work fail*3 work +61s work*7 fail closed"},
		{"the same within a minute", "fail*3 work fail*3 work fail*3 work +59s work*7 fail open"},
		{"shut for five seconds", "fail*5 open +4s refused open +1s trial work closed fail*4 closed"},
		{"a trial that fails doubles that", "fail*5 +5s fail open +9s refused +1s fail +19s refused +1s trial fail open"},
		{"until it is thirty", "fail*5 +5s fail +10s fail +20s fail +29s refused +1s fail +29s refused +1s work closed"},
		{"what closed starts anew", "fail*5 +5s fail +10s work fail*5 open +4s refused +1s trial"},
		{"one trial at a time", "fail*5 +5s enter:a trial busy +60s busy leave:a:work closed work"},
		{"a trial that says nothing lets the next", "fail*5 +5s enter:a busy leave:a:silent trial work closed"},
		{"an answer from before it opened is old news", "enter:a enter:b fail*5 open leave:a:work open leave:b:fail open refused +5s trial work closed"},
		{"an answer from before it closed is old news", "enter:a fail*5 +5s work closed fail*4 leave:a:fail closed fail open"},
		{"a trial that ends after a later one is none", "fail*5 force:a leave:a:fail +10s enter:b leave:b:work closed"},
		{"forced when there is nobody else", "fail*5 refused force:a trial refused leave:a:work closed"},
		{"forced in vain", "fail*5 +4s force:a leave:a:fail open +9s refused +1s trial"},
		{"forced while closed", "force:a force:b leave:a:fail leave:b:fail fail*2 closed fail open"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			runScript(t, tt.script)
		})
	}
}

func runScript(t *testing.T, script string) {
	t.Helper()
	b, now, tickets := &breaker{}, noon, map[string]ticket{}
	verdicts := map[string]verdict{"silent": silent, "work": worked, "fail": failed}
	states := map[string]BreakerState{"closed": BreakerClosed, "open": BreakerOpen, "trial": BreakerTrial}
	reasons := map[string]Reason{"refused": ReasonOpen, "busy": ReasonTrialBusy}
	for i, step := range strings.Fields(script) {
		fail := func(format string, args ...any) {
			t.Helper()
			t.Fatalf("step %d, %s: "+format, append([]any{i, step}, args...)...)
		}
		word, count, _ := strings.Cut(step, "*")
		parts := strings.Split(word, ":")
		state, isState := states[word]
		reason, isReason := reasons[word]
		v, isRequest := verdicts[word]
		switch {
		case strings.HasPrefix(word, "+"):
			d, err := time.ParseDuration(word[1:])
			if err != nil {
				fail("%v", err)
			}
			now = now.Add(d)
		case isState:
			if got, since, retryAt := b.look(now); got != state {
				fail("it is %v since %v, next trial %v", got, since, retryAt)
			}
		case isReason:
			if _, why, ok := b.enter(now); ok || why != reason {
				fail("admitted: %v, %q", ok, why)
			}
		case isRequest:
			n := 1
			if count != "" {
				n, _ = strconv.Atoi(count)
			}
			for range n {
				ticket, why, ok := b.enter(now)
				if !ok {
					fail("not admitted: %s", why)
				}
				b.leave(ticket, v, now)
			}
		case parts[0] == "enter" || parts[0] == "force":
			admit := b.enter
			if parts[0] == "force" {
				admit = b.force
			}
			ticket, why, ok := admit(now)
			if !ok {
				fail("not admitted: %s", why)
			}
			tickets[parts[1]] = ticket
		case parts[0] == "leave":
			b.leave(tickets[parts[1]], verdicts[parts[2]], now)
		default:
			fail("what?")
		}
	}
}

// TestBreakerConcurrently lets many ask an open breaker at once: one gets through.
func TestBreakerConcurrently(t *testing.T) {
	t.Parallel()
	b := &breaker{}
	for range failuresMax {
		ticket, _, _ := b.enter(noon)
		b.leave(ticket, failed, noon)
	}
	for round := range 50 {
		now := noon.Add(time.Duration(round+1) * openTimeMax)
		var mu sync.Mutex
		var admitted []ticket
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				if ticket, _, ok := b.enter(now); ok {
					mu.Lock()
					defer mu.Unlock()
					admitted = append(admitted, ticket)
				}
			})
		}
		wg.Wait()
		if len(admitted) != 1 {
			t.Fatalf("round %d: %d got through, want 1", round, len(admitted))
		}
		b.leave(admitted[0], failed, now)
	}
}
