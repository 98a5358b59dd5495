// Package ratelimit counts the requests of each key and never lets more through than its window holds, however many
// nodes share it.
//
// A window lasts one minute of business time and starts with the key's first request. On SQLite one process serves, and
// memory is enough. On PostgreSQL nodes take tokens, each good for one request, in slices from the key's row: most
// requests then cost no write. A token belongs to the window it was taken from and ends with it.
//
// Nodes hold tokens that others may lack. So a node that finds the row empty marks it as starved, and every node that
// steps gives back what it holds of starved keys. A request that finds the row empty waits for that, once and not for
// longer than one round of steps, before it is refused.
//
// What fails loses tokens and never makes any: a node that dies takes at most one slice of each key with it.
package ratelimit

import (
	"context"
	"fmt"
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// StepEvery is how often each node calls [Limiter.Step], in real time.
const StepEvery = 250 * time.Millisecond

const (
	windowTime  = time.Minute // of business time
	sliceUsual  = 50          // tokens that a node takes at most at once, of a limit that is not high
	slicesMin   = 1000        // into which a high limit is cut, so that not every few requests ask for tokens
	waitingMax  = 256         // requests of this node that wait for tokens to be given back
	keyWaitMax  = 32          // of those, with one key
	shardCount  = 64
	keysMax     = 1 << 17     // keys of this node with a window
	sweepPause  = time.Second // between two sweeps of a shard that is full
	shardKeyMax = keysMax / shardCount
)

// Limiter counts requests. Make it with [New].
type Limiter struct {
	db     *sqldb.DB
	clock  *clock.Clock
	nodes  func() int
	shared bool          // other nodes may count the same keys
	round  time.Duration // how long a request waits for tokens to be given back; tests shorten it

	seed    maphash.Seed
	shards  [shardCount]shard
	waiting atomic.Int64
	steps   steps
}

// shard holds some of the keys, so that requests with different keys seldom wait for one another.
type shard struct {
	mu      sync.Mutex
	keys    map[string]*key
	empty   map[string]struct{} // keys whose row was found empty; Step looks at them
	sweptAt int64               // business microseconds
}

// key is what this node knows of one key.
type key struct {
	window
	flight   *flight       // the question to the row that is under way, nil for none
	waiting  int           // requests that wait for tokens to be given back
	reopened chan struct{} // closed when the row may be asked again; nil while nobody waits
}

// window is what this node knows of a key's window. The zero window has not started.
type window struct {
	startedAt int64 // business microseconds; the same on every node, so that it names the window
	taken     int   // tokens that all nodes have taken, as far as this one knows
	left      int   // of those, in this node's hands
	limit     int   // under which they were granted

	empty      bool      // the row had no token
	emptyLimit int       // under this limit
	emptyAt    time.Time // and at this real time
	final      bool      // a round has passed since: nobody waits any more
}

// flight is one question to a key's row, on behalf of every request that needs its answer.
type flight struct {
	done chan struct{}
	err  error // set before done is closed
}

// Verdict is the answer to one request.
type Verdict struct {
	Limit      int           // requests that the window holds
	Remaining  int           // of those, what is left; with several nodes an estimate, never above Limit
	Reset      time.Time     // business time at which the window ends
	Allowed    bool          // the request may go on
	RetryAfter time.Duration // how long until Reset if it may not; 0 if it may
}

// New returns a limiter for the keys of db. nodes tells at once how many nodes serve db, this one included; a wrong number
// makes tokens go round more slowly, it never lets more requests through.
func New(db *sqldb.DB, clock *clock.Clock, nodes func() int) *Limiter {
	l := &Limiter{db: db, clock: clock, nodes: nodes, shared: db.IsShared(), round: StepEvery, seed: maphash.MakeSeed()}
	for i := range l.shards {
		l.shards[i].keys = map[string]*key{}
		l.shards[i].empty = map[string]struct{}{}
	}
	return l
}

// Take counts one request with the key of that prefix against limit; a limit of 0 refuses all.
//
// The requests that all nodes together allow in one window are never more than the limit. When the limit changes inside
// a window, they are never more than the highest one; a node that is told a lower one allows nothing that was granted
// under the higher one. An error means that the request was not counted and must be refused.
func (l *Limiter) Take(ctx context.Context, prefix string, limit int) (Verdict, error) {
	limit = max(0, limit)
	s := l.shard(prefix)
	waited := false
	for {
		now := l.clock.Now().UnixMicro()
		s.mu.Lock()
		k, err := s.find(prefix, now)
		if err != nil {
			s.mu.Unlock()
			return Verdict{}, err
		}
		k.endBy(now)
		if !l.shared && !k.holds(limit) {
			k.takeAll(now, limit)
		}
		switch f := k.flight; {
		case k.holds(limit):
			k.left--
			v := k.allowed(limit)
			s.mu.Unlock()
			return v, nil
		case f != nil:
			s.mu.Unlock()
			if err := f.wait(ctx); err != nil {
				return Verdict{}, err
			}
		case !k.isEmpty(limit):
			err := l.fly(ctx, s, k, prefix, limit) // unlocks s
			if err != nil {
				return Verdict{}, err
			}
		case !waited && l.mayWait(k):
			waited = true
			err := l.wait(ctx, s, k) // unlocks s
			if err != nil {
				return Verdict{}, err
			}
		default:
			v := k.refused(now, limit)
			s.mu.Unlock()
			return v, nil
		}
	}
}

func (l *Limiter) shard(prefix string) *shard {
	return &l.shards[maphash.String(l.seed, prefix)%shardCount]
}

// find returns the key, which it adds if it must and can.
func (s *shard) find(prefix string, now int64) (*key, error) {
	if k := s.keys[prefix]; k != nil {
		return k, nil
	}
	if len(s.keys) >= shardKeyMax {
		if now-s.sweptAt >= sweepPause.Microseconds() {
			s.sweep(now)
		}
		if len(s.keys) >= shardKeyMax {
			// Forgetting a window that still runs would start it anew, with all its requests.
			return nil, fmt.Errorf("ratelimit: %w: more than %d keys are in use", sqldb.ErrUnavailable, keysMax)
		}
	}
	k := &key{}
	s.keys[strings.Clone(prefix)] = k // prefix may be a piece of a large header
	return k, nil
}

// sweep forgets every key whose window has ended.
func (s *shard) sweep(now int64) {
	s.sweptAt = now
	for prefix, k := range s.keys {
		if k.hasEnded(now) && k.flight == nil && k.waiting == 0 {
			delete(s.keys, prefix)
			delete(s.empty, prefix)
		}
	}
}

func (w *window) hasEnded(now int64) bool { return w.startedAt <= now-windowTime.Microseconds() }

// endBy drops a window that has ended, with the tokens of it.
func (w *window) endBy(now int64) {
	if w.hasEnded(now) {
		*w = window{}
	}
}

// holds reports whether a request can be allowed without asking anybody. Tokens that were granted under a higher limit
// do not count: together with those of other nodes they may be more than the lower one.
func (w *window) holds(limit int) bool { return w.left > 0 && w.limit <= limit }

// isEmpty reports whether the row is known to have nothing for a request under that limit.
func (w *window) isEmpty(limit int) bool { return w.empty && limit <= w.emptyLimit }

// takeAll takes every token there is. It is for a node that shares its keys with nobody.
func (w *window) takeAll(now int64, limit int) {
	if w.startedAt == 0 {
		w.startedAt = now
	}
	w.taken -= w.left
	w.left = max(0, limit-w.taken)
	w.taken += w.left
	w.limit = limit
	w.empty, w.emptyLimit = w.left == 0, limit
}

func (w *window) allowed(limit int) Verdict {
	return Verdict{Limit: limit, Remaining: max(0, min(limit, limit-w.taken+w.left)), Reset: w.reset(), Allowed: true}
}

func (w *window) refused(now int64, limit int) Verdict {
	// A window that a node with a faster clock started ends later than a minute from now.
	wait := min(windowTime, time.Duration(w.startedAt-now)*time.Microsecond+windowTime)
	return Verdict{Limit: limit, Reset: w.reset(), RetryAfter: wait}
}

func (w *window) reset() time.Time { return time.UnixMicro(w.startedAt).Add(windowTime).UTC() }

// fly asks the row for tokens, on behalf of all requests with the key. It is called with s locked and returns with s
// unlocked.
func (l *Limiter) fly(ctx context.Context, s *shard, k *key, prefix string, limit int) error {
	f := &flight{done: make(chan struct{}), err: errAbandoned}
	k.flight = f
	back := k.takeBack(prefix)
	s.mu.Unlock()

	var g grant
	defer func() { // also when the question panics: others wait for its answer
		s.mu.Lock()
		defer s.mu.Unlock()
		k.flight = nil
		if f.err == nil {
			k.receive(g, limit, l.clock.Real())
			if k.empty {
				s.empty[prefix] = struct{}{}
			}
		}
		close(f.done)
	}()
	// The caller may be gone before the answer comes, the others are not.
	g, f.err = l.ask(context.WithoutCancel(ctx), prefix, limit, back)
	return f.err
}

var errAbandoned = fmt.Errorf("ratelimit: %w: the question for more requests was abandoned", sqldb.ErrUnavailable)

func (f *flight) wait(ctx context.Context) error {
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// takeBack takes the tokens out of this node's hands, so that the row can have them back.
func (w *window) takeBack(prefix string) tokens {
	t := tokens{prefix: prefix, startedAt: w.startedAt, n: w.left}
	w.taken -= w.left
	w.left = 0
	return t
}

// receive notes what the row answered.
func (w *window) receive(g grant, limit int, realNow time.Time) {
	if g.startedAt != w.startedAt {
		*w = window{startedAt: g.startedAt}
	}
	w.taken, w.left, w.limit = g.taken, g.granted, limit
	w.empty = g.granted == 0
	if !w.empty {
		w.final = false
		return
	}
	w.emptyLimit, w.emptyAt = limit, realNow
}

// mayWait reports whether it makes sense for a request to wait until other nodes have given back what they hold.
func (l *Limiter) mayWait(k *key) bool {
	return l.shared && !k.final && k.waiting < keyWaitMax && l.waiting.Load() < waitingMax && l.nodes() > 1
}

// wait returns when the row may be asked again: because a step found tokens in it, or because one round has passed since
// it was found empty. It is called with s locked and returns with s unlocked.
func (l *Limiter) wait(ctx context.Context, s *shard, k *key) error {
	if k.reopened == nil {
		k.reopened = make(chan struct{})
	}
	reopened := k.reopened
	k.waiting++
	l.waiting.Add(1)
	rest := min(l.round, l.round-l.clock.RealSince(k.emptyAt))
	s.mu.Unlock()

	round, cancel := context.WithTimeout(ctx, rest)
	defer cancel()
	select {
	case <-reopened:
	case <-round.Done():
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	l.waiting.Add(-1)
	k.waiting--
	if k.waiting == 0 {
		k.reopened = nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	// Others may have given back after this node's last step, so the row is asked once more. After that only a step can
	// tell that there is something again.
	if k.empty && !k.final && round.Err() != nil {
		k.empty, k.final = false, true
	}
	return nil
}

// reopen lets the row be asked again.
func (k *key) reopen() {
	k.empty, k.final = false, false
	if k.reopened != nil {
		close(k.reopened)
		k.reopened = nil
	}
}
