package webhook

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/id"
)

// bench gives the lines of a test their time and their jobs.
type bench struct {
	*lines
	t   *testing.T
	now time.Time
	ids *id.Generator
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, now: time.Unix(1_763_208_000, 0)}
	c := clock.New(func() time.Time { return b.now })
	b.lines, b.ids = newLines(c), id.NewGenerator(c.Now, rand.Reader)
	return b
}

// addTo gives an endpoint so many deliveries.
func (b *bench) addTo(e *Endpoint, n int) {
	for range n {
		b.add(e, &job{key: key{event: b.ids.New(), endpoint: e.ID}, since: b.now})
	}
}

// takeAll takes as many as there are for a pool and returns them.
func (b *bench) takeAll(pool Pool) (jobs []*job) {
	for j := b.take(pool); j != nil; j = b.take(pool) {
		jobs = append(jobs, j)
	}
	return jobs
}

func TestSlowEndpointsHaveTheirOwnSenders(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	e := &Endpoint{ID: b.ids.New()}
	b.addTo(e, waitingMax)
	for n := range changeAfter {
		j := b.take(Quick)
		if j == nil {
			t.Fatalf("no quick sender before time-out %d", n+1)
		}
		if got, want := b.ended(j, Outcome{Timeout: true}), n+1 == changeAfter; (got == slow) != want {
			t.Errorf("pace %d after %d time-outs", got, n+1)
		}
	}
	if b.take(Quick) != nil {
		t.Error("a quick sender waits for an endpoint that lets us wait")
	}
	jobs := b.takeAll(Slow)
	if len(jobs) != underWaySlow {
		t.Errorf("%d slow senders wait for it", len(jobs))
	}
	for n, j := range jobs[:changeAfter] {
		if got, want := b.ended(j, Outcome{OK: true}), n+1 == changeAfter; (got == common) != want {
			t.Errorf("pace %d after %d answers", got, n+1)
		}
	}
	if n := len(b.takeAll(Slow)); n != 0 {
		t.Errorf("it answers again and has %d slow senders", n)
	}
	if b.take(Quick) == nil {
		t.Error("it answers again and has no quick sender")
	}
}

// An endpoint that used to answer is left to the slow senders as soon as one attempt lingers, long before it times out.
func TestLingeringEndpoints(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	hung, other := &Endpoint{ID: b.ids.New()}, &Endpoint{ID: b.ids.New()}
	b.addTo(hung, waitingMax)
	for range 2 * underWayMax { // answers make room for more at once
		b.ended(b.take(Quick), Outcome{OK: true})
	}
	if n := len(b.takeAll(Quick)); n != underWayMax {
		t.Errorf("%d under way", n)
	}
	b.now = b.now.Add(lingerMax + time.Millisecond)
	b.addTo(hung, 1)
	b.addTo(other, 1)
	if jobs := b.takeAll(Quick); len(jobs) != 1 || jobs[0].endpoint != other.ID {
		t.Errorf("%d jobs for quick senders", len(jobs))
	}
}

// Endpoints that hang, however many and with however much to be told, leave room and senders for the others.
func TestGreedyEndpointsLeaveSome(t *testing.T) {
	t.Parallel()
	for _, isSlow := range []bool{false, true} {
		b := newBench(t)
		pool, pace := Quick, common
		if isSlow {
			pool, pace = Slow, slow
		}
		for range 120 {
			e := &Endpoint{ID: b.ids.New(), pace: pace}
			b.addTo(e, 1)
			b.byID[e.ID].allowed = underWayMax // it used to answer well
			for room := b.room(e); room > 0; room = b.room(e) {
				b.addTo(e, room)
			}
			b.takeAll(pool)
		}
		senders := []int{Quick: QuickSenders, Slow: SlowSenders}[pool]
		if b.busy[pool] >= senders*95/100 || b.roomAll() < ownedMax/20 {
			t.Errorf("slow %t: %d senders are taken, and there is room for %d", isSlow, b.busy[pool], b.roomAll())
		}
		other := &Endpoint{ID: b.ids.New(), pace: pace}
		if b.room(other) < underWayFirst {
			t.Errorf("slow %t: room for %d of another", isSlow, b.room(other))
		}
		b.addTo(other, 1)
		if b.take(pool) == nil {
			t.Errorf("slow %t: no sender for another", isSlow)
		}
	}
}

// An endpoint that answers late, or trickles its answer, holds senders as one does that hangs.
func TestLateAnswersAreSlow(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	e := &Endpoint{ID: b.ids.New()}
	b.addTo(e, waitingMax)
	late := Outcome{OK: true, Took: lingerMax + time.Millisecond}
	for range changeAfter {
		b.ended(b.take(Quick), late)
	}
	for range 5 {
		if b.take(Quick) != nil {
			t.Fatal("a quick sender waits for it")
		}
		if b.ended(b.take(Slow), late) != slow {
			t.Fatal("it is taken for quick")
		}
	}
	if n := len(b.takeAll(Slow)); n <= underWaySlow { // it does answer
		t.Errorf("%d at once", n)
	}
}

func TestEndpointsTakeTurns(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first, second := &Endpoint{ID: b.ids.New()}, &Endpoint{ID: b.ids.New()}
	b.addTo(first, 60)
	b.addTo(second, 2)
	var order []id.ID
	for range 4 {
		order = append(order, b.take(Quick).endpoint)
	}
	if order[0] == order[1] || order[2] == order[3] {
		t.Errorf("%v", order)
	}
	if room := b.room(first); room != waitingMax-58 {
		t.Errorf("room for %d", room)
	}
}
