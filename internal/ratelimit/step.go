package ratelimit

import (
	"context"
	"sync"
	"time"
)

const (
	starvedMax = 1000 // rows that one step reads
	deleteMax  = 1000 // rows that one step deletes

	// Rows are kept for longer than their windows, so that no difference between the clocks of two nodes matters.
	keepTime   = 10 * time.Minute
	cleanEvery = time.Minute
)

// steps is where the last step stopped.
type steps struct {
	mu      sync.Mutex // one step at a time
	shard   int        // to sweep next
	behind  string     // prefix behind which starved rows are read next; "" means from the start
	cleanAt int64      // business microseconds of the next deletion
}

// Step evens out the tokens between nodes and forgets what has ended. Every node calls it each [StepEvery]. did reports
// whether it changed anything or has more to do.
func (l *Limiter) Step(ctx context.Context) (did bool, err error) {
	l.steps.mu.Lock()
	defer l.steps.mu.Unlock()
	now := l.clock.Now().UnixMicro()
	l.sweepNext(now)
	if !l.shared {
		return false, nil
	}
	evened, err := l.evenOut(ctx, now)
	if err != nil {
		return false, err
	}
	cleaned, err := l.clean(ctx, now)
	return evened || cleaned, err
}

// sweepNext sweeps one shard, so that no step takes long.
func (l *Limiter) sweepNext(now int64) {
	s := &l.shards[l.steps.shard]
	l.steps.shard = (l.steps.shard + 1) % shardCount
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep(now)
}

// evenOut gives back what this node holds of starved keys, and lets requests ask for those that may have tokens again.
func (l *Limiter) evenOut(ctx context.Context, now int64) (did bool, err error) {
	// Before the read: a key that is found empty after it is not to be judged by it.
	empty, keys := l.emptyKeys()
	if keys == 0 {
		l.steps.behind = ""
		return false, nil
	}
	behind := l.steps.behind
	rows, err := l.findStarved(ctx, now, behind)
	if err != nil {
		return false, err
	}
	l.steps.behind = ""
	if len(rows) == starvedMax {
		l.steps.behind = rows[starvedMax-1].prefix
		did = true
	}
	var back []tokens
	for _, r := range rows {
		delete(empty, r.prefix)
		t, reopened := l.meet(r)
		if t.n > 0 {
			back = append(back, t)
		}
		did = did || t.n > 0 || reopened
	}
	for prefix := range empty {
		if prefix > behind && (l.steps.behind == "" || prefix <= l.steps.behind) {
			// Somebody got tokens after this node got none, which took the mark away. Whoever asks next sets it again.
			did = l.reopen(prefix) || did
		}
	}
	if len(back) > 0 {
		err = l.giveBackAll(ctx, back)
	}
	return did, err
}

// emptyKeys returns the keys whose row was found empty, and how many keys there are at all.
func (l *Limiter) emptyKeys() (empty map[string]struct{}, keys int) {
	empty = map[string]struct{}{}
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		for prefix := range s.empty {
			empty[prefix] = struct{}{}
		}
		keys += len(s.keys)
		s.mu.Unlock()
	}
	return empty, keys
}

// meet does what a starved row asks for: it returns the tokens to give back, or lets them be asked for where others have
// given back.
func (l *Limiter) meet(r starvedRow) (back tokens, reopened bool) {
	s := l.shard(r.prefix)
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.keys[r.prefix]
	switch {
	case k == nil || k.startedAt != r.startedAt:
	case k.left > 0:
		back = k.takeBack(r.prefix)
	case k.empty && r.taken < k.emptyLimit:
		k.reopen()
		delete(s.empty, r.prefix)
		reopened = true
	}
	return back, reopened
}

// reopen lets a key be asked for again and reports whether that was needed.
func (l *Limiter) reopen(prefix string) bool {
	s := l.shard(prefix)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.empty, prefix)
	k := s.keys[prefix]
	if k == nil || !k.empty {
		return false
	}
	k.reopen()
	return true
}

// clean deletes rows whose windows have ended long ago.
func (l *Limiter) clean(ctx context.Context, now int64) (did bool, err error) {
	if now < l.steps.cleanAt {
		return false, nil
	}
	n, err := l.forgetEnded(ctx, now-keepTime.Microseconds())
	if err != nil {
		return false, err
	}
	if n < deleteMax {
		l.steps.cleanAt = now + cleanEvery.Microseconds()
	}
	return n > 0, nil
}
