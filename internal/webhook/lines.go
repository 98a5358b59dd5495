package webhook

import (
	"sync"
	"time"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/event"
	"github.com/ponte-pay/ponte/internal/id"
)

// Pool is one of the two groups of senders.
type Pool int

const (
	Quick Pool = iota // for endpoints that answer
	Slow              // for those that let us wait
)

// Bounds of what this process has in hand.
const (
	QuickSenders = 1024 // attempts under way at once to endpoints that answer
	SlowSenders  = 512  // and to those that let us wait

	ownedMax       = 8192 // deliveries in hand, with their bodies
	waitingMax     = 128  // of them waiting for one endpoint that answers
	waitingSlowMax = 32   // and for one that lets us wait

	// shareParts is what keeps something for the others, however many endpoints want all that they can get: none gets more
	// than this part of what is free. So n greedy ones leave 64/(64+n) of the room and of the senders.
	shareParts = 64

	underWayFirst  = 2           // attempts under way at once to an endpoint of which nothing is known
	underWayMax    = 16          // to one that answers well
	underWaySlow   = 4           // to one that never answers; those that do, however late, get more
	lingerMax      = time.Second // after which an attempt shows that its endpoint lets us wait
	changeAfter    = 3           // attempts that linger make an endpoint slow, prompt successes make it quick again
	wakeBufferSize = QuickSenders
)

// key names a delivery.
type key struct {
	account         id.Account
	event, endpoint id.ID
}

// job is a delivery in hand.
type job struct {
	key
	kind    event.Type
	body    []byte    // what is sent
	attempt int64     // attempts made before
	lapses  int64     // of the node when it took it in hand
	since   time.Time // real time since when it could be sent
	pool    Pool      // whose sender has it, once one has
}

// line is what waits for one endpoint.
type line struct {
	waiting   []*job
	underWay  map[*job]time.Time // with the real time of their start
	allowed   int                // attempts under way at once: grows with successes
	isSlow    bool
	queued    bool // stands in a ring
	lingered  int  // attempts in a row that did
	successes int  // in a row
}

// lines are all deliveries that this process has in hand. Endpoints take turns, so that one with much to be told keeps
// nobody waiting.
type lines struct {
	clock *clock.Clock

	mu    sync.Mutex
	known map[key]*job // from when it is taken until its result is stored
	byID  map[id.ID]*line
	rings [2][]*line // whose turn it is, for each pool
	busy  [2]int     // senders of each pool that are making an attempt
	wake  [2]chan struct{}
}

func newLines(c *clock.Clock) *lines {
	return &lines{
		clock: c, known: map[key]*job{}, byID: map[id.ID]*line{},
		wake: [2]chan struct{}{make(chan struct{}, wakeBufferSize), make(chan struct{}, wakeBufferSize)},
	}
}

// follow brings a line to its endpoint's pace, which another node may have set.
func (l *lines) follow(e *Endpoint) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := l.byID[e.ID]; at != nil && e.Status == Deleted && !at.queued && len(at.waiting) == 0 && len(at.underWay) == 0 {
		delete(l.byID, e.ID)
	} else if at != nil && at.isSlow != (e.pace == slow) {
		at.isSlow, at.lingered, at.successes = e.pace == slow, 0, 0
	}
}

// room returns how many more deliveries of one endpoint may be taken in hand.
func (l *lines) room(e *Endpoint) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	free := ownedMax - len(l.known)
	most, waiting, isSlow := min(waitingMax, part(free)), 0, e.pace == slow
	if at := l.byID[e.ID]; at != nil {
		waiting, isSlow = len(at.waiting), at.isSlow
	}
	if isSlow {
		most = min(most, waitingSlowMax)
	}
	return min(free, most-waiting)
}

// roomAll returns how many more deliveries may be taken in hand.
func (l *lines) roomAll() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return ownedMax - len(l.known)
}

// has reports whether a delivery is in hand.
func (l *lines) has(k key) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known[k] != nil
}

// add takes a delivery in hand, unless it is already.
func (l *lines) add(e *Endpoint, j *job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known[j.key] != nil {
		return
	}
	l.known[j.key] = j
	at := l.byID[j.endpoint]
	if at == nil {
		at = &line{underWay: map[*job]time.Time{}, allowed: underWayFirst, isSlow: e.pace == slow}
		l.byID[j.endpoint] = at
	}
	at.waiting = append(at.waiting, j)
	l.enqueue(at)
}

// enqueue gives a line its turn when it can use one.
func (l *lines) enqueue(at *line) {
	if at.queued || len(at.waiting) == 0 || len(at.underWay) >= l.limit(at) {
		return
	}
	at.queued = true
	pool := Quick
	if at.isSlow {
		pool = Slow
	}
	l.rings[pool] = append(l.rings[pool], at)
	select {
	case l.wake[pool] <- struct{}{}:
	default: // all senders are awake
	}
}

// limit returns how many attempts may be under way at once to the endpoint of a line. It is never below one, so that a
// line with nothing under way waits for a sender and for nothing else.
func (l *lines) limit(at *line) int {
	most, free := at.allowed, QuickSenders-l.busy[Quick]
	if at.isSlow {
		most, free = max(most, underWaySlow), SlowSenders-l.busy[Slow]
	}
	return max(1, min(most, part(free)))
}

// part returns how much of what is free one endpoint may have.
func part(free int) int { return (free + shareParts - 1) / shareParts }

// lingers reports whether an attempt of the line has been under way for long.
func (at *line) lingers(now time.Time) bool {
	for _, started := range at.underWay {
		if now.Sub(started) > lingerMax {
			return true
		}
	}
	return false
}

// take returns the next delivery for a sender of that pool, or nil.
func (l *lines) take(pool Pool) *job {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Real()
	for len(l.rings[pool]) > 0 {
		at := l.rings[pool][0]
		l.rings[pool][0] = nil
		l.rings[pool] = l.rings[pool][1:]
		at.queued = false
		if pool == Quick && !at.isSlow && at.lingers(now) {
			at.isSlow = true // quick senders are not for waiting
		}
		if at.isSlow != (pool == Slow) || len(at.waiting) == 0 || len(at.underWay) >= l.limit(at) {
			l.enqueue(at)
			continue
		}
		j := at.waiting[0]
		at.waiting[0] = nil
		at.waiting = at.waiting[1:]
		at.underWay[j] = now
		j.pool = pool
		l.busy[pool]++
		l.enqueue(at)
		return j
	}
	return nil
}

// ended notes how an attempt went and returns the pace that the endpoint should have.
func (l *lines) ended(j *job, o Outcome) pace {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.byID[j.endpoint]
	delete(at.underWay, j)
	l.busy[j.pool]--
	switch {
	case o.OK:
		at.allowed = min(at.allowed+1, underWayMax)
	case o.Timeout:
		at.allowed = max(at.allowed/2, 1)
	}
	switch {
	case o.Timeout || o.Took > lingerMax: // also with an answer in the end: it held its sender
		at.lingered, at.successes = at.lingered+1, 0
		at.isSlow = at.isSlow || at.lingered >= changeAfter
	case o.OK:
		at.lingered, at.successes = 0, at.successes+1
		at.isSlow = at.isSlow && at.successes < changeAfter
	default:
		at.lingered, at.successes = 0, 0
	}
	l.enqueue(at)
	if at.isSlow {
		return slow
	}
	return common
}

// giveUp takes all that waits for an endpoint out of its line.
func (l *lines) giveUp(endpoint id.ID) []*job {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.byID[endpoint]
	if at == nil {
		return nil
	}
	jobs := at.waiting
	at.waiting = nil
	return jobs
}

// forget lets go of deliveries whose results are stored.
func (l *lines) forget(keys []key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range keys {
		delete(l.known, k)
		if at := l.byID[k.endpoint]; at != nil && !at.queued && len(at.waiting) == 0 && len(at.underWay) == 0 && !at.isSlow && at.lingered == 0 && at.allowed <= underWayFirst {
			delete(l.byID, k.endpoint)
		}
	}
}

// isIdle reports whether nothing waits for an endpoint, and whether it lets us wait.
func (l *lines) isIdle(endpoint id.ID) (idle, isSlow bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.byID[endpoint]
	if at == nil {
		return true, false
	}
	return len(at.waiting) == 0 && len(at.underWay) == 0, at.isSlow
}

// all returns everything in hand.
func (l *lines) all() []*job {
	l.mu.Lock()
	defer l.mu.Unlock()
	jobs := make([]*job, 0, len(l.known))
	for _, j := range l.known {
		jobs = append(jobs, j)
	}
	return jobs
}

// nudge wakes a sender where something waits: one that may not send for a while leaves it there.
func (l *lines) nudge() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for pool, ring := range l.rings {
		for range min(len(ring), wakeBufferSize) {
			select {
			case l.wake[pool] <- struct{}{}:
			default:
			}
		}
	}
}

// oldest returns for how long the delivery that waits longest for a quick sender has done so.
func (l *lines) oldest() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	var oldest time.Duration
	for _, at := range l.byID {
		if len(at.waiting) > 0 && !at.isSlow {
			oldest = max(oldest, l.clock.RealSince(at.waiting[0].since))
		}
	}
	return oldest
}
