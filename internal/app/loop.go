package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/ponte-pay/ponte/internal/clock"
)

// loop runs a step again and again: at once while there was something to do, and otherwise after a while or when
// business time was moved.
type loop struct {
	name  string
	every time.Duration
	early bool // it has to have been stepped before anything is served
	step  func(ctx context.Context) (did bool, err error)

	workers int             // that run it at once; 0 means one
	wake    <-chan struct{} // ends a wait early; nil for none
}

// failureWait is how long a loop whose step failed waits at least.
const failureWait = time.Second

func (l loop) run(ctx context.Context, c *clock.Clock, log *slog.Logger) {
	failing := false
	for ctx.Err() == nil {
		did, err := l.guarded(ctx)
		wait := l.every
		switch {
		case err != nil && !errors.Is(err, context.Canceled):
			if !failing { // once: a database that is away for an hour is one event, not thousands
				log.LogAttrs(ctx, slog.LevelError, "loop fails", slog.String("loop", l.name), slog.String("error", err.Error()))
			}
			failing = true
			wait = max(wait, failureWait)
		case err == nil:
			if failing {
				log.LogAttrs(ctx, slog.LevelInfo, "loop works again", slog.String("loop", l.name))
			}
			failing = false
			if did {
				continue
			}
		}
		if c.WaitOr(ctx, wait, l.wake) != nil {
			return
		}
	}
}

// guarded turns a panic into an error: the next step may well work, and the other loops must go on.
func (l loop) guarded(ctx context.Context) (did bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return l.step(ctx)
}
