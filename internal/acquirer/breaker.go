package acquirer

import (
	"sync"
	"time"
)

// When a breaker opens, and for how long. Times are business time.
const (
	failuresMax   = 5 // in a row
	resultsMax    = 50
	resultsMin    = 20 // below that a rate says nothing
	resultTimeMax = time.Minute
	failedShare   = 2 // opens when one in so many has failed

	openTimeMin = 5 * time.Second // doubled by every trial that fails
	openTimeMax = 30 * time.Second
)

// BreakerState says whether an acquirer is asked.
type BreakerState int

const (
	BreakerClosed BreakerState = iota // it works and is asked
	BreakerOpen                       // it failed and is not asked
	BreakerTrial                      // it failed, and one request at a time finds out whether it works again
)

// String returns the state as a word for operators and metrics.
func (s BreakerState) String() string { return word(int(s), "closed", "open", "trial") }

// breaker keeps requests away from an acquirer that fails. The zero breaker is closed.
type breaker struct {
	mu       sync.Mutex
	open     bool
	since    time.Time     // of the last change between open and closed; zero means never
	retryAt  time.Time     // while open: when the next trial is due
	openTime time.Duration // while open: how long after a failed trial the next is due
	trying   bool          // while open: a trial is under way
	epoch    int           // counts changes between open and closed, so that answers from before one do not count

	failures int // in a row, while closed
	results  [resultsMax]result
	next     int // place of the next result
}

// result is how one request ended while the breaker was closed. The zero result is none.
type result struct {
	at     time.Time
	failed bool
}

// ticket is the right to ask an acquirer once. It must be handed back with a verdict.
type ticket struct {
	epoch int
	trial bool
}

// verdict is what one request tells about the acquirer.
type verdict int

const (
	silent verdict = iota // nothing: it was given up for reasons of our own
	worked                // the acquirer answered, if only to refuse
	failed                // it did not
)

// enter returns a ticket, or why there is none. A ticket for a trial comes with its reason too.
func (b *breaker) enter(now time.Time) (t ticket, why Reason, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open && now.Before(b.retryAt) {
		return ticket{}, ReasonOpen, false
	}
	return b.take(ReasonTrial)
}

// force returns a ticket although no trial may be due. It is for when there is nobody else to ask.
func (b *breaker) force(time.Time) (t ticket, why Reason, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.take(ReasonLastResort)
}

func (b *breaker) take(trial Reason) (t ticket, why Reason, ok bool) {
	switch {
	case !b.open:
		return ticket{epoch: b.epoch}, "", true
	case b.trying:
		return ticket{}, ReasonTrialBusy, false
	}
	b.trying = true
	return ticket{epoch: b.epoch, trial: true}, trial, true
}

// leave hands a ticket back.
func (b *breaker) leave(t ticket, v verdict, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case t.epoch != b.epoch: // asked before the breaker changed: old news
	case !t.trial && v != silent:
		b.note(result{at: now, failed: v == failed})
	case t.trial && v == worked:
		b.change(false, now)
	case t.trial:
		b.trying = false
		if v == failed {
			b.openTime = min(2*b.openTime, openTimeMax)
			b.retryAt = now.Add(b.openTime)
		}
	}
}

// note counts a result of a closed breaker and opens it when there are too many bad ones.
func (b *breaker) note(r result) {
	b.results[b.next] = r
	b.next = (b.next + 1) % resultsMax
	if !r.failed {
		b.failures = 0
		return
	}
	b.failures++
	total, bad := 0, 0
	for _, old := range b.results {
		if !old.at.IsZero() && r.at.Sub(old.at) <= resultTimeMax {
			total++
			if old.failed {
				bad++
			}
		}
	}
	if b.failures >= failuresMax || (total >= resultsMin && bad*failedShare >= total) {
		b.change(true, r.at)
		b.openTime = openTimeMin
		b.retryAt = r.at.Add(openTimeMin)
	}
}

// change opens or closes the breaker and forgets what led to it.
func (b *breaker) change(open bool, now time.Time) {
	b.open, b.since, b.epoch = open, now, b.epoch+1
	b.trying, b.failures, b.results, b.next = false, 0, [resultsMax]result{}, 0
}

// look returns the state, since when it lasts, and while it is open when the next trial is due.
func (b *breaker) look(now time.Time) (s BreakerState, since, retryAt time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case !b.open:
		return BreakerClosed, b.since, time.Time{}
	case b.trying || !now.Before(b.retryAt):
		return BreakerTrial, b.since, b.retryAt
	default:
		return BreakerOpen, b.since, b.retryAt
	}
}
