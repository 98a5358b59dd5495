package ratelimit

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

// world is some nodes on one database, whose clocks need not agree, and an auditor who only sees their answers.
type world struct {
	t      *rapid.T
	db     *sqldb.DB
	prefix string
	hand   *hand
	clocks []*clock.Clock
	nodes  []*Limiter
	limit  int
	audit  map[time.Time]*audited // by the end of the window
}

// audited is one window as the auditor knows it.
type audited struct {
	allowed int
	highest int  // limit that anybody asked with
	raised  bool // a limit was raised while it ran
}

func (w *world) start(i int) {
	w.nodes[i] = New(w.db, w.clocks[i], func() int { return len(w.nodes) })
	w.nodes[i].round = 0
}

func (w *world) take(i int) bool {
	v, err := w.nodes[i].Take(w.t.Context(), w.prefix, w.limit)
	if err != nil {
		w.t.Fatal(err)
	}
	now := w.clocks[i].Now()
	a := w.audit[v.Reset]
	if a == nil {
		a = &audited{}
		w.audit[v.Reset] = a
	}
	a.highest = max(a.highest, w.limit)
	switch {
	case !v.Reset.After(now):
		w.t.Fatalf("node %d answered %+v at %s: that window is over", i, v, now)
	case v.Limit != w.limit || v.Remaining < 0 || v.Remaining > w.limit:
		w.t.Fatalf("node %d answered %+v under the limit %d", i, v, w.limit)
	case !v.Allowed && (v.Remaining != 0 || v.RetryAfter <= 0 || v.RetryAfter > windowTime):
		w.t.Fatalf("node %d refused with %+v", i, v)
	case !v.Allowed:
		return false
	case a.allowed >= a.highest:
		w.t.Fatalf("node %d allowed request %d of the window that ends at %s; the highest limit was %d", i, a.allowed+1, v.Reset, a.highest)
	case a.allowed >= w.limit && !a.raised:
		w.t.Fatalf("node %d allowed request %d of the window that ends at %s under the lowered limit %d", i, a.allowed+1, v.Reset, w.limit)
	}
	a.allowed++
	return true
}

func (w *world) step(i int) {
	if _, err := w.nodes[i].Step(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

func TestNeverMoreThanTheLimit(t *testing.T) {
	t.Parallel()
	db := sqltest.Open(t, sqltest.Postgres(t))
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		w := &world{
			t: t, db: db, prefix: fmt.Sprint("k", runs), hand: newHand(),
			limit: rapid.IntRange(1, 250).Draw(t, "limit"), audit: map[time.Time]*audited{},
		}
		w.clocks = make([]*clock.Clock, rapid.IntRange(1, 4).Draw(t, "nodes"))
		w.nodes = make([]*Limiter, len(w.clocks))
		for i := range w.nodes {
			w.clocks[i] = w.hand.clock()
			w.start(i)
		}
		node := rapid.IntRange(0, len(w.nodes)-1)
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				i := node.Draw(t, "node")
				for range rapid.IntRange(1, 60).Draw(t, "requests") {
					w.take(i)
				}
			},
			"step": func(t *rapid.T) { w.step(node.Draw(t, "node")) },
			"advance": func(t *rapid.T) {
				w.hand.advance(time.Duration(rapid.IntRange(1, 40_000).Draw(t, "ms")) * time.Millisecond)
			},
			"move one clock": func(t *rapid.T) {
				c := w.clocks[node.Draw(t, "node")]
				c.Raise(c.Offset() + time.Duration(rapid.IntRange(1, 90_000).Draw(t, "ms"))*time.Millisecond)
			},
			"move all clocks": func(*rapid.T) { w.syncClocks() },
			"crash":           func(t *rapid.T) { w.start(node.Draw(t, "node")) },
			"change limit": func(t *rapid.T) {
				limit := rapid.IntRange(0, 250).Draw(t, "limit")
				for _, a := range w.audit {
					a.raised = a.raised || limit > w.limit
				}
				w.limit = limit
			},
		})
		w.settle()
	})
}

func (w *world) syncClocks() {
	var most time.Duration
	for _, c := range w.clocks {
		most = max(most, c.Offset())
	}
	for _, c := range w.clocks {
		c.Raise(most)
	}
}

// settle asks all nodes in a new window until nobody is allowed anything: then all of it has been used.
func (w *world) settle() {
	w.syncClocks()
	w.hand.advance(10 * windowTime)
	allowed := 0
	for quiet := 0; quiet < 2; quiet++ {
		for i := range w.nodes {
			if w.take(i) {
				allowed++
				quiet = 0
			}
			w.step(i)
		}
	}
	if allowed != w.limit {
		w.t.Fatalf("%d allowed in a new window when all had asked for long, want %d", allowed, w.limit)
	}
}
