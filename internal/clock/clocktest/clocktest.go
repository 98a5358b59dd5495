// Package clocktest waits in tests for what happens in its own time.
package clocktest

import (
	"context"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/clock"
)

const (
	lookEvery   = 15 * time.Millisecond // a look may cost as much as what it waits for
	waitTimeMax = time.Minute
)

// Real is the machine's clock.
var Real = clock.New(nil)

// Wait returns once happened reports true. It is for what another process or goroutine does and does not tell.
func Wait(tb testing.TB, what string, happened func() bool) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), waitTimeMax)
	defer cancel()
	for !happened() {
		if Real.Wait(ctx, lookEvery) != nil {
			tb.Fatalf("clocktest: waited in vain for %s", what)
		}
	}
}

// Within returns once happened reports true, and fails when a look that began later than limit still does not. So a slow
// machine makes it slower and not wrong.
func Within(tb testing.TB, limit time.Duration, what string, happened func() bool) {
	tb.Helper()
	began := Real.Real()
	for {
		late := Real.RealSince(began) > limit
		switch {
		case happened():
			return
		case late:
			tb.Fatalf("clocktest: %s: not within %v", what, limit)
		case Real.Wait(tb.Context(), lookEvery) != nil:
			tb.Fatalf("clocktest: %s: the test ended", what)
		}
	}
}
