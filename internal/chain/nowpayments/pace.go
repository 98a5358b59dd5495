package nowpayments

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/ponte-pay/ponte/internal/chain"
	"github.com/ponte-pay/ponte/internal/clock"
)

const (
	paceWaitMax   = 2 * time.Second // that a request waits for its turn; a longer wait is for its caller
	retryAfterMax = time.Minute     // of business time
	retryAfterMin = time.Second     // for an answer that does not say how long
)

// pace keeps us below the rate that the provider bears, and away from it for as long as it asks for that.
type pace struct {
	clock *clock.Clock
	every time.Duration // between two creations; 0 means no bound

	mu    sync.Mutex
	next  time.Time // the turn of the next creation, in business time
	until time.Time // nothing is asked before, in business time
}

// wait returns when it is a request's turn. It fails when that is too far off; then nothing was asked.
func (p *pace) wait(ctx context.Context, creates bool) *chain.Error {
	for turn := p.turn(creates); ; {
		left := turn.Sub(p.clock.Now())
		switch {
		case ctx.Err() != nil:
			return &chain.Error{Outcome: chain.Refused, Class: chain.Timeout, Message: ctx.Err().Error(), Cause: ctx.Err()}
		case left <= 0:
			return nil
		case left > paceWaitMax:
			return &chain.Error{Outcome: chain.Refused, Class: chain.RateLimited, Message: "not asked: the provider wants a rest"}
		}
		_ = p.clock.Wait(ctx, left) // ctx is looked at above
	}
}

// turn takes a request's turn. Up to a second's worth of creations may come at once. One that is too far off is not taken.
func (p *pace) turn(creates bool) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	turn := p.until
	if !creates || p.every == 0 {
		return turn
	}
	if earliest := now.Add(-time.Second + p.every); p.next.Before(earliest) {
		p.next = earliest
	}
	if p.next.After(turn) {
		turn = p.next
	}
	if turn.Sub(now) <= paceWaitMax {
		p.next = p.next.Add(p.every)
	}
	return turn
}

// hold stays away for as long as the provider asks for in seconds.
func (p *pace) hold(retryAfter string) {
	wait := retryAfterMin
	if seconds, err := strconv.Atoi(retryAfter); err == nil && seconds > 0 {
		wait = min(retryAfterMax, time.Duration(min(seconds, int(retryAfterMax/time.Second)))*time.Second)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if until := p.clock.Now().Add(wait); until.After(p.until) {
		p.until = until
	}
}
