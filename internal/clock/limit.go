package clock

import (
	"context"
	"sync"
	"time"
)

// Within is context.WithTimeout for limits that stand inside each other, as those of a request, of a try in it and of a
// call in that do: each would cost as much as what it bounds. Where ctx ends sooner anyway it makes nothing, and what it
// makes costs nothing until somebody waits for its end.
//
// The cancel function of an outer limit need not end an inner one: call each when the work that it bounds has returned.
func Within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return Until(ctx, time.Now().Add(d), nil)
}

// Until is Within for a moment of real time. The cause is what [context.Cause] tells of its end; nil for the usual one.
func Until(ctx context.Context, end time.Time, cause error) (context.Context, context.CancelFunc) {
	if sooner, ok := ctx.Deadline(); ok && !sooner.After(end) {
		return ctx, func() {}
	}
	if outer, ok := ctx.(*limit); ok && outer.isIdle() {
		ctx = outer.Context
	}
	l := &limit{Context: ctx, end: end, cause: cause}
	return l, l.cancel
}

// EndsByTime returns when ctx ends, and whether nothing else can end it: then its deadline is all that has to be watched.
// It knows that of a limit for whose end nobody waits yet. Otherwise there is no moment to be relied on.
func EndsByTime(ctx context.Context) (end time.Time, alone bool) {
	if l, ok := ctx.(*limit); ok && l.isIdle() && l.Context.Done() == nil {
		return l.end, true
	}
	return time.Time{}, false
}

// limit is a context with a deadline that makes its timer only when somebody waits for it.
type limit struct {
	context.Context // what it limits

	end   time.Time
	cause error

	mu       sync.Mutex
	canceled bool
	timed    context.Context // does what a limit does; nil while nobody waits
	stop     context.CancelFunc
}

// isIdle reports whether nobody has waited for its end, and it was not canceled.
func (l *limit) isIdle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.timed == nil && !l.canceled
}

func (l *limit) cancel() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.canceled = true
	if l.stop != nil {
		l.stop()
	}
}

// start returns the context that does what l does, from now on.
func (l *limit) start() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timed == nil {
		l.timed, l.stop = context.WithDeadlineCause(l.Context, l.end, l.cause)
	}
	if l.canceled {
		l.stop()
	}
	return l.timed
}

// Deadline returns its own end, which is sooner than that of what it limits.
func (l *limit) Deadline() (time.Time, bool) { return l.end, true }

// Done starts the timer.
func (l *limit) Done() <-chan struct{} { return l.start().Done() }

// Err looks at the clock as long as there is no timer.
func (l *limit) Err() error {
	if l.isIdle() && time.Now().Before(l.end) {
		return l.Context.Err()
	}
	return l.start().Err()
}

// Value asks the context with the timer once there is one: package context finds its cause and those who wait by it.
func (l *limit) Value(key any) any {
	if l.isIdle() {
		return l.Context.Value(key)
	}
	return l.start().Value(key)
}
