package node

import (
	"context"
	"crypto/rand"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

// hand is a machine's clock that is ahead of the true one by as much as a test says.
type hand struct{ ahead atomic.Int64 }

func (h *hand) now() time.Time        { return time.Now().Add(time.Duration(h.ahead.Load())) }
func (h *hand) move(by time.Duration) { h.ahead.Add(int64(by)) }
func (h *hand) clock() *clock.Clock   { return clock.New(h.now) }
func newNode(db *sqldb.DB, c *clock.Clock) *Node {
	return New(db, c, id.NewGenerator(c.Now, rand.Reader).New())
}

func step(t *testing.T, n *Node) {
	t.Helper()
	if _, err := n.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func look(t *testing.T, n *Node) {
	t.Helper()
	if err := n.look(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestReady(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		n := newNode(db, clock.New(nil))
		if err := n.Ready(); !errors.Is(err, ErrStarting) {
			t.Errorf("before the first step: %v", err)
		}
		step(t, n)
		if err := n.Ready(); err != nil {
			t.Errorf("after it: %v", err)
		}
		stopped, stop := context.WithCancel(t.Context())
		stop()
		_, _ = n.Step(stopped)
		if err := n.Ready(); err != nil {
			t.Errorf("a step that was called off tells nothing: %v", err)
		}
		db.Close()
		if _, err := n.Step(t.Context()); err == nil {
			t.Error("a step on a closed database works")
		}
		if err := n.Ready(); !errors.Is(err, ErrDatabase) {
			t.Errorf("without a database: %v", err)
		}
		n.Drain()
		if err := n.Ready(); !errors.Is(err, ErrDraining) {
			t.Errorf("draining: %v", err)
		}
	})
}

func TestSilentDatabase(t *testing.T) {
	t.Parallel()
	proxy := sqltest.NewProxy(t, sqltest.Postgres(t))
	n := newNode(sqltest.Open(t, proxy.URL), clock.New(nil))
	step(t, n)
	release := proxy.Hold()
	began := time.Now()
	if _, err := n.Step(t.Context()); err == nil {
		t.Error("a step works although nobody answers")
	}
	if took := time.Since(began); took > 2*lookTimeMax {
		t.Errorf("it took %v to notice", took)
	}
	if err := n.Ready(); !errors.Is(err, ErrDatabase) {
		t.Errorf("got %v", err)
	}
	release()
	step(t, n)
	if err := n.Ready(); err != nil {
		t.Errorf("once it answers again: %v", err)
	}
}

func TestSkew(t *testing.T) {
	t.Parallel()
	db := sqltest.Open(t, sqltest.Postgres(t))
	h := &hand{}
	n := newNode(db, h.clock())
	for _, c := range []struct {
		ahead time.Duration
		off   bool
	}{
		{0, false},
		{200 * time.Millisecond, false},
		{-200 * time.Millisecond, false},
		{800 * time.Millisecond, true},
		{-800 * time.Millisecond, true},
		{time.Hour, true},
		{0, false}, // it was set right
	} {
		h.ahead.Store(int64(c.ahead))
		_, err := n.Step(t.Context())
		if errors.Is(err, ErrClock) != c.off || errors.Is(n.Ready(), ErrClock) != c.off || (n.Ready() == nil) == c.off {
			t.Errorf("%v ahead: step %v, ready %v", c.ahead, err, n.Ready())
		}
		skew, err := Skew(t.Context(), db, h.clock())
		if (skew-c.ahead).Abs() > 300*time.Millisecond || errors.Is(err, ErrClock) != c.off {
			t.Errorf("%v ahead: skew %v, %v", c.ahead, skew, err)
		}
	}
}

func TestAlive(t *testing.T) {
	t.Parallel()
	url := sqltest.Postgres(t)
	h := &hand{}
	a, b := newNode(sqltest.Open(t, url), h.clock()), newNode(sqltest.Open(t, url), h.clock())
	if a.Alive() != 1 {
		t.Errorf("before any step: %d", a.Alive())
	}
	want := func(n int) {
		t.Helper()
		look(t, a)
		if a.Alive() != n {
			t.Errorf("%d nodes, want %d", a.Alive(), n)
		}
	}
	want(1)
	look(t, b)
	want(2)
	if b.Alive() != 2 {
		t.Errorf("the other counts %d", b.Alive())
	}
	h.move(DeadAfter - time.Second) // b is silent
	want(2)
	h.move(time.Second)
	want(1)
	look(t, b) // it was only slow
	want(2)

	if err := b.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(1)
	if err := b.Leave(t.Context()); err != nil {
		t.Errorf("a second time: %v", err)
	}
	look(t, b)
	h.move(forgetAfter + time.Second)
	look(t, a)
	if err := a.forget(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := rows(t, a.db); n != 1 {
		t.Errorf("%d rows after a day, want the one that lives", n)
	}
}

// Whether a node lives does not depend on anybody's clock: neither on the one that it beats by nor on the one that is
// looked at here.
func TestDeathIsSeen(t *testing.T) {
	t.Parallel()
	url := sqltest.Postgres(t)
	mine, theirs := &hand{}, &hand{}
	theirs.move(-time.Hour)
	a, b := newNode(sqltest.Open(t, url), mine.clock()), newNode(sqltest.Open(t, url), theirs.clock())
	want := func(want bool) {
		t.Helper()
		if dead, err := a.IsDead(t.Context(), b.Boot(), DeadAfter); dead != want || err != nil {
			t.Errorf("dead: %t, %v", dead, err)
		}
	}
	look(t, b)
	want(false)
	for range 3 {
		mine.move(25 * time.Hour)
		theirs.move(beatEvery)
		_, _ = a.Step(t.Context()) // its clock is wrong, so that it must not clear away others
		look(t, b)
		want(false)
	}
	mine.move(DeadAfter - time.Second)
	want(false)
	mine.move(2 * time.Second)
	want(true)
	theirs.move(beatEvery)
	look(t, b) // it was only slow
	want(false)
	if err := b.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(true)
}

// A node knows when others may have taken it for dead.
func TestLapses(t *testing.T) {
	t.Parallel()
	h := &hand{}
	n := newNode(sqltest.Open(t, sqltest.Postgres(t)), h.clock())
	for i, c := range []struct {
		silent time.Duration
		lapses int64
	}{
		{0, 0}, {beatEvery, 0}, {DeadAfter / 2, 0}, {DeadAfter + time.Second, 1}, {beatEvery, 1}, {time.Hour, 2},
	} {
		h.move(c.silent)
		if fresh := n.IsFresh(DeadAfter); fresh != (i > 0 && c.silent < DeadAfter) {
			t.Errorf("%d: fresh after %v: %t", i, c.silent, fresh)
		}
		look(t, n)
		if n.Lapses() != c.lapses || !n.IsFresh(DeadAfter) {
			t.Errorf("%d: %d lapses", i, n.Lapses())
		}
	}
}

func rows(t *testing.T, db *sqldb.DB) int64 {
	t.Helper()
	n, err := sqldb.One(t.Context(), db, sqldb.Scalar[int64], `SELECT COUNT(*) FROM node`)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestBeats counts how often a node writes: once a second, and never on SQLite, which one process serves.
func TestBeats(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := &hand{}
		frozen := time.Now()
		c := clock.New(func() time.Time { return frozen.Add(time.Duration(h.ahead.Load())) })
		n := newNode(db, c)
		look(t, n)
		first := beat(t, db)
		h.move(beatEvery - time.Millisecond)
		look(t, n)
		if got := beat(t, db); got != first {
			t.Errorf("a beat after %v", time.Duration(got-first)*time.Microsecond)
		}
		h.move(time.Millisecond)
		look(t, n)
		got := beat(t, db)
		switch {
		case !db.IsPostgres() && (got != 0 || n.Alive() != 1):
			t.Errorf("SQLite: beat %d, %d nodes", got, n.Alive())
		case db.IsPostgres() && got-first != beatEvery.Microseconds():
			t.Errorf("the next beat is after %v", time.Duration(got-first)*time.Microsecond)
		}
		if err := n.Leave(t.Context()); err != nil || rows(t, db) != 0 {
			t.Errorf("left: %v", err)
		}
	})
}

func beat(t *testing.T, db *sqldb.DB) int64 {
	t.Helper()
	at, err := sqldb.One(t.Context(), db, sqldb.Scalar[int64], `SELECT COALESCE(MAX(beat_at), 0) FROM node`)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestMovedClock(t *testing.T) {
	t.Parallel()
	sqltest.EachURL(t, func(t *testing.T, url string) {
		here, there := sqltest.Open(t, url), sqltest.Open(t, url)
		mine, theirs := clock.New(nil), clock.New(nil)
		n := newNode(there, theirs)
		store := func(offset, want time.Duration) {
			t.Helper()
			if err := StoreClock(t.Context(), here, mine, offset); err != nil {
				t.Fatal(err)
			}
			step(t, n)
			fresh := clock.New(nil)
			if err := LoadClock(t.Context(), there, fresh); err != nil {
				t.Fatal(err)
			}
			for name, c := range map[string]*clock.Clock{"mine": mine, "theirs": theirs, "fresh": fresh} {
				if c.Offset() != want {
					t.Errorf("stored %v: %s is %v ahead, want %v", offset, name, c.Offset(), want)
				}
			}
		}
		step(t, n)
		if theirs.Offset() != 0 {
			t.Errorf("%v ahead at first", theirs.Offset())
		}
		store(time.Hour, time.Hour)
		store(30*time.Minute, time.Hour) // never back
		store(0, time.Hour)
		if err := StoreClock(t.Context(), here, mine, -time.Hour); !errors.Is(err, sqldb.ErrCheck) {
			t.Errorf("an hour back: %v", err)
		}
		store(48*time.Hour, 48*time.Hour)
		// Whoever was moved by hand further than the database stays there.
		theirs.Raise(100 * time.Hour)
		step(t, n)
		if theirs.Offset() != 100*time.Hour {
			t.Errorf("went back to %v", theirs.Offset())
		}
	})
}
