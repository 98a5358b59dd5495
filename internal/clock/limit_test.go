package clock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

var errLate = errors.New("too late")

// TestLimit compares a limit with context's own, whoever asks it what first.
func TestLimit(t *testing.T) {
	t.Parallel()
	type maker func(context.Context, time.Duration) (context.Context, context.CancelFunc)
	makers := map[string]maker{
		"ours": func(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
			return Until(ctx, time.Now().Add(d), errLate)
		},
		"context's": func(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
			return context.WithTimeoutCause(ctx, d, errLate)
		},
	}
	for _, tt := range []struct {
		name  string
		run   func(t *testing.T, limit maker) (ctx context.Context, end func())
		err   error
		cause error
	}{
		{"not over", func(t *testing.T, limit maker) (context.Context, func()) {
			return limit(t.Context(), time.Hour)
		}, nil, nil},
		{"over", func(t *testing.T, limit maker) (context.Context, func()) {
			ctx, end := limit(t.Context(), time.Second)
			time.Sleep(2 * time.Second)
			return ctx, end
		}, context.DeadlineExceeded, errLate},
		{"over from the start", func(t *testing.T, limit maker) (context.Context, func()) {
			return limit(t.Context(), 0)
		}, context.DeadlineExceeded, errLate},
		{"canceled", func(t *testing.T, limit maker) (context.Context, func()) {
			ctx, end := limit(t.Context(), time.Hour)
			end()
			return ctx, end
		}, context.Canceled, context.Canceled},
		{"canceled, then over", func(t *testing.T, limit maker) (context.Context, func()) {
			ctx, end := limit(t.Context(), time.Second)
			end()
			_ = ctx.Err()
			time.Sleep(2 * time.Second)
			return ctx, end
		}, context.Canceled, context.Canceled},
		{"canceled while somebody waits", func(t *testing.T, limit maker) (context.Context, func()) {
			ctx, end := limit(t.Context(), time.Hour)
			go func() { time.Sleep(time.Second); end() }()
			<-ctx.Done()
			return ctx, end
		}, context.Canceled, context.Canceled},
		{"over while somebody waits", func(t *testing.T, limit maker) (context.Context, func()) {
			ctx, end := limit(t.Context(), time.Second)
			<-ctx.Done()
			return ctx, end
		}, context.DeadlineExceeded, errLate},
		{"canceled from outside", func(t *testing.T, limit maker) (context.Context, func()) {
			outer, cancel := context.WithCancelCause(t.Context())
			ctx, end := limit(outer, time.Hour)
			cancel(errLate)
			return ctx, end
		}, context.Canceled, errLate},
		{"inside one that is over sooner", func(t *testing.T, limit maker) (context.Context, func()) {
			outer, endOuter := limit(t.Context(), time.Second)
			ctx, end := limit(outer, time.Hour)
			time.Sleep(2 * time.Second)
			return ctx, func() { end(); endOuter() }
		}, context.DeadlineExceeded, errLate},
		{"inside one that is over later", func(t *testing.T, limit maker) (context.Context, func()) {
			outer, endOuter := limit(t.Context(), time.Hour)
			ctx, end := limit(outer, time.Second)
			<-ctx.Done()
			return ctx, func() { end(); endOuter() }
		}, context.DeadlineExceeded, errLate},
		{"inside one that somebody waits for", func(t *testing.T, limit maker) (context.Context, func()) {
			outer, endOuter := limit(t.Context(), time.Hour)
			_ = outer.Done()
			ctx, end := limit(outer, time.Minute)
			endOuter()
			return ctx, end
		}, context.Canceled, context.Canceled},
		{"inside one that was canceled", func(t *testing.T, limit maker) (context.Context, func()) {
			outer, endOuter := limit(t.Context(), time.Hour)
			endOuter()
			return limit(outer, time.Minute)
		}, context.Canceled, context.Canceled},
		{"around another context", func(t *testing.T, limit maker) (context.Context, func()) {
			outer, endOuter := limit(t.Context(), time.Second)
			ctx, end := context.WithCancel(outer)
			<-ctx.Done()
			return ctx, func() { end(); endOuter() }
		}, context.DeadlineExceeded, errLate},
		{"around a function", func(t *testing.T, limit maker) (context.Context, func()) {
			ctx, end := limit(t.Context(), time.Second)
			told := make(chan struct{})
			context.AfterFunc(ctx, func() { close(told) })
			<-told
			return ctx, end
		}, context.DeadlineExceeded, errLate},
	} {
		for name, maker := range makers {
			t.Run(tt.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					ctx, end := tt.run(t, maker)
					defer end()
					isDone := false
					for range 2 { // to ask for one must not change another
						if err, cause := ctx.Err(), context.Cause(ctx); err != tt.err || cause != tt.cause { //nolint:errorlint // as they are
							t.Errorf("%v because of %v, want %v because of %v", err, cause, tt.err, tt.cause)
						}
						select {
						case <-ctx.Done():
							isDone = true
						default:
						}
					}
					if isDone != (tt.err != nil) {
						t.Errorf("done: %t", isDone)
					}
				})
			})
		}
	}
}

func TestWithinKeepsValues(t *testing.T) {
	t.Parallel()
	type key struct{}
	ctx, end := Within(context.WithValue(t.Context(), key{}, 7), time.Hour)
	defer end()
	before := ctx.Value(key{})
	_ = ctx.Done()
	if after := ctx.Value(key{}); before != 7 || after != 7 {
		t.Errorf("%v, then %v, want 7", before, after)
	}
}

// BenchmarkWithin compares three limits inside each other with context's own, when nobody waits for them.
func BenchmarkWithin(b *testing.B) {
	for name, limit := range map[string]func(context.Context, time.Duration) (context.Context, context.CancelFunc){
		"ours": Within, "context": context.WithTimeout,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				request, endRequest := limit(b.Context(), time.Minute)
				creation, endCreation := limit(request, 15*time.Second)
				_, endTry := limit(creation, 5*time.Second)
				endTry()
				endCreation()
				endRequest()
			}
		})
	}
}

// TestEndsByTime is about contexts that nothing but time can end, and above all about those that something else can.
func TestEndsByTime(t *testing.T) {
	t.Parallel()
	within := func(ctx context.Context) context.Context {
		ctx, cancel := Within(ctx, time.Hour)
		t.Cleanup(cancel)
		return ctx
	}
	type key struct{}
	lasting := context.WithoutCancel(t.Context())
	cancelable, cancel := context.WithCancel(lasting)
	defer cancel()
	canceled, end := Within(lasting, time.Hour)
	end()
	awaited := within(lasting)
	_ = awaited.Done()
	timed, stop := context.WithTimeout(lasting, time.Hour)
	defer stop()
	shorter, cancelShorter := Within(within(lasting), time.Minute)
	defer cancelShorter()
	insideAwaited, cancelInside := Within(awaited, time.Minute)
	defer cancelInside()
	for _, tt := range []struct {
		name  string
		ctx   context.Context
		alone bool
	}{
		{"a limit", within(lasting), true},
		{"of values", within(context.WithValue(lasting, key{}, 1)), true},
		{"inside a limit", shorter, true},
		{"of what can be canceled", within(cancelable), false},
		{"canceled", canceled, false},
		{"awaited", awaited, false},
		{"inside one that is awaited", insideAwaited, false},
		{"below values", context.WithValue(within(lasting), key{}, 1), false},
		{"context's own", timed, false},
		{"no limit", lasting, false},
	} {
		ends, alone := EndsByTime(tt.ctx)
		deadline, _ := tt.ctx.Deadline()
		if alone != tt.alone || alone && !ends.Equal(deadline) || !alone && !ends.IsZero() {
			t.Errorf("%s: %v, %v", tt.name, ends, alone)
		}
	}
}
