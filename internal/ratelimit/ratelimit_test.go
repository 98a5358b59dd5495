package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

// hand is real time that moves only by hand.
type hand struct{ micros atomic.Int64 }

func newHand() *hand {
	h := &hand{}
	h.micros.Store(time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC).UnixMicro())
	return h
}

func (h *hand) now() time.Time          { return time.UnixMicro(h.micros.Load()) }
func (h *hand) advance(d time.Duration) { h.micros.Add(d.Microseconds()) }
func (h *hand) clock() *clock.Clock     { return clock.New(h.now) }

func nodes(n int) func() int { return func() int { return n } }

func take(t *testing.T, l *Limiter, prefix string, limit int) Verdict {
	t.Helper()
	v, err := l.Take(t.Context(), prefix, limit)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// takeMany asks n times and returns how many were allowed.
func takeMany(t *testing.T, l *Limiter, prefix string, limit, n int) int {
	t.Helper()
	allowed := 0
	for range n {
		if take(t, l, prefix, limit).Allowed {
			allowed++
		}
	}
	return allowed
}

func step(t *testing.T, l *Limiter) bool {
	t.Helper()
	did, err := l.Step(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return did
}

func TestWindow(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := newHand()
		l := New(db, h.clock(), nodes(1))
		started := h.now().UTC()
		for i := range 600 {
			if i == 300 {
				h.advance(30 * time.Second)
			}
			want := Verdict{Limit: 600, Remaining: 599 - i, Reset: started.Add(time.Minute), Allowed: true}
			if got := take(t, l, "0a1b2c3d", 600); got != want {
				t.Fatalf("request %d: got %+v, want %+v", i+1, got, want)
			}
		}
		refused := Verdict{Limit: 600, Reset: started.Add(time.Minute), RetryAfter: 30 * time.Second}
		if got := take(t, l, "0a1b2c3d", 600); got != refused {
			t.Errorf("request 601: got %+v, want %+v", got, refused)
		}
		if got := take(t, l, "ffffffff", 600); !got.Allowed || got.Remaining != 599 || !got.Reset.Equal(h.now().Add(time.Minute)) {
			t.Errorf("another key: got %+v, want a window of its own", got)
		}

		h.advance(30*time.Second - time.Microsecond)
		if got := take(t, l, "0a1b2c3d", 600); got.Allowed || got.RetryAfter != time.Microsecond {
			t.Errorf("a microsecond before the end: got %+v, want refused", got)
		}
		h.advance(time.Microsecond)
		want := Verdict{Limit: 600, Remaining: 599, Reset: h.now().UTC().Add(time.Minute), Allowed: true}
		if got := take(t, l, "0a1b2c3d", 600); got != want {
			t.Errorf("at the end: got %+v, want %+v", got, want)
		}
	})
}

func TestWindowStartsAtFirstRequest(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := newHand()
		l := New(db, h.clock(), nodes(1))
		h.advance(59 * time.Second) // a window on the clock's minute would end in a second
		takeMany(t, l, "k", 5, 5)
		h.advance(59 * time.Second)
		if take(t, l, "k", 5).Allowed {
			t.Error("allowed a sixth request within one minute of the first")
		}
		// Nobody asks for a while: the next window starts when somebody does.
		h.advance(7 * time.Minute)
		if got := take(t, l, "k", 5); !got.Reset.Equal(h.now().Add(time.Minute)) {
			t.Errorf("reset is %s, want a minute from now", got.Reset)
		}
	})
}

func TestMovedClockStartsWindow(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		c := newHand().clock()
		l := New(db, c, nodes(1))
		takeMany(t, l, "k", 5, 6)
		c.Raise(time.Minute)
		if n := takeMany(t, l, "k", 5, 6); n != 5 {
			t.Errorf("after the clock was moved by a minute %d were allowed, want 5", n)
		}
	})
}

func TestChangedLimit(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		for _, c := range []struct {
			name    string
			limits  []int // 40 requests under each
			allowed []int
		}{
			{"lowered below what was allowed", []int{100, 30, 30}, []int{40, 0, 0}},
			{"lowered above what was allowed", []int{600, 60}, []int{40, 20}},
			{"raised", []int{30, 70, 100}, []int{30, 40, 30}},
			{"lowered and raised again", []int{100, 20, 100}, []int{40, 0, 40}},
			{"none", []int{0, 10, -5}, []int{0, 10, 0}},
		} {
			t.Run(c.name, func(t *testing.T) {
				l := New(db, newHand().clock(), nodes(1))
				for i, limit := range c.limits {
					if n := takeMany(t, l, c.name, limit, 40); n != c.allowed[i] {
						t.Errorf("part %d, limit %d: %d allowed, want %d", i, limit, n, c.allowed[i])
					}
				}
			})
		}
	})
}

func TestRemainingNeverRises(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		l := New(db, newHand().clock(), nodes(1))
		const limit, askers = 400, 8
		var mu sync.Mutex
		shown := map[int]int{}
		var wg sync.WaitGroup
		for range askers {
			wg.Go(func() {
				last := limit
				for range limit / askers {
					v, err := l.Take(t.Context(), "k", limit)
					if err != nil || !v.Allowed || v.Remaining >= last || v.Remaining < 0 {
						t.Errorf("got %+v, %v after remaining %d", v, err, last)
						return
					}
					last = v.Remaining
					mu.Lock()
					shown[v.Remaining]++
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if len(shown) != limit {
			t.Errorf("%d requests were shown %d different numbers", limit, len(shown))
		}
	})
}

// TestOneQuestionForAll holds many requests back until the row has been asked once.
func TestOneQuestionForAll(t *testing.T) {
	t.Parallel()
	db := sqltest.Open(t, sqltest.Postgres(t))
	countWrites(t, db)
	l := New(db, newHand().clock(), nodes(1))
	start := make(chan struct{})
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			<-start
			if v, err := l.Take(t.Context(), "k", 600); err != nil || !v.Allowed {
				t.Errorf("got %+v, %v", v, err)
			}
		})
	}
	close(start)
	wg.Wait()
	if n := writes(t, db); n != 2 { // slices of 50
		t.Errorf("64 requests made %d writes, want 2", n)
	}
}

// countWrites counts changes of rows in rate_window, by whatever means they come.
func countWrites(tb testing.TB, db *sqldb.DB) {
	tb.Helper()
	err := db.Write(context.Background(), func(ctx context.Context, tx *sqldb.Tx) error {
		return tx.Script(ctx, `
CREATE SEQUENCE writes;
CREATE FUNCTION count_write() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM nextval('writes'); RETURN NULL; END $$;
CREATE TRIGGER count_write AFTER INSERT OR UPDATE ON rate_window FOR EACH ROW EXECUTE FUNCTION count_write()`)
	})
	if err != nil {
		tb.Fatal(err)
	}
}

// writes returns how many changes were counted.
func writes(tb testing.TB, db *sqldb.DB) int64 {
	tb.Helper()
	n, err := sqldb.One(context.Background(), db, sqldb.Scalar[int64], `SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM writes`)
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

func TestTwoNodes(t *testing.T) {
	t.Parallel()
	url := sqltest.Postgres(t)
	h := newHand()
	const limit, askers = 600, 8
	db := sqltest.Open(t, url)
	countWrites(t, db)
	a, b := New(db, h.clock(), nodes(2)), New(sqltest.Open(t, url), h.clock(), nodes(2))
	for window := range 3 {
		before := writes(t, db)
		var allowed atomic.Int64
		var askersDone, steppersDone sync.WaitGroup
		stop := make(chan struct{})
		for _, l := range []*Limiter{a, b} {
			for range askers {
				askersDone.Go(func() {
					for refused := 0; refused < 2; {
						switch v, err := l.Take(t.Context(), "k", limit); {
						case err != nil:
							t.Error(err)
							return
						case v.Allowed:
							allowed.Add(1)
						default:
							refused++
						}
					}
				})
			}
			steppersDone.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					if _, err := l.Step(t.Context()); err != nil {
						t.Error(err)
						return
					}
					_ = l.clock.Wait(t.Context(), 20*time.Millisecond)
				}
			})
		}
		askersDone.Wait()
		close(stop)
		steppersDone.Wait()
		if n := allowed.Load(); n > limit {
			t.Fatalf("window %d: %d allowed, limit %d", window, n, limit)
		}
		for quiet := 0; quiet < 2; quiet++ {
			step(t, a)
			step(t, b)
			for _, l := range []*Limiter{a, b} {
				if take(t, l, "k", limit).Allowed {
					allowed.Add(1)
					quiet = 0
				}
			}
		}
		if n := allowed.Load(); n != limit {
			t.Errorf("window %d: %d allowed when the dust had settled, want %d", window, n, limit)
		}
		t.Logf("window %d: %d writes", window, writes(t, db)-before)
		h.advance(time.Minute)
	}
}

// TestWritesPerWindow lets two nodes use up a window in the ways that callers do.
func TestWritesPerWindow(t *testing.T) {
	t.Parallel()
	url := sqltest.Postgres(t)
	db := sqltest.Open(t, url)
	countWrites(t, db)
	const limit = 600
	for _, c := range []struct {
		name    string
		nodes   int
		ask     func(i int) int // which node the i-th request goes to
		stepped int             // requests between two steps
		most    int64
	}{
		{"one node", 1, func(int) int { return 0 }, 10, 20},
		{"two nodes in turn", 2, func(i int) int { return i % 2 }, 10, 45},
		{"two nodes in turn, stepped often", 2, func(i int) int { return i % 2 }, 2, 45},
		{"nine of ten to one node", 2, func(i int) int { return min(1, i%10) }, 10, 45},
		{"one after the other", 2, func(i int) int { return i / 300 % 2 }, 10, 45},
		{"four nodes in turn", 4, func(i int) int { return i % 4 }, 10, 109},
	} {
		h := newHand()
		before := writes(t, db)
		var all []*Limiter
		for range c.nodes {
			l := New(db, h.clock(), nodes(c.nodes))
			l.round = 0
			all = append(all, l)
		}
		allowed := 0
		for i := range 2 * limit {
			if take(t, all[c.ask(i)], c.name, limit).Allowed {
				allowed++
			}
			if i%c.stepped == 0 {
				for _, l := range all {
					step(t, l)
				}
			}
		}
		n := writes(t, db) - before
		if allowed != limit || n > c.most {
			t.Errorf("%s: %d allowed with %d writes, want %d with at most %d", c.name, allowed, n, limit, c.most)
		}
		t.Logf("%s: %d writes", c.name, n)
	}
}

func TestStarvedNodeGetsTokensBack(t *testing.T) {
	t.Parallel()
	url := sqltest.Postgres(t)
	h := newHand()
	a, b := New(sqltest.Open(t, url), h.clock(), nodes(2)), New(sqltest.Open(t, url), h.clock(), nodes(2))
	a.round, b.round = time.Minute, 0 // a waits for its own step
	if !take(t, a, "k", 100).Allowed || takeMany(t, b, "k", 100, 100) != 75 {
		t.Fatal("want a to take a slice of 25, and b the rest")
	}
	if takeMany(t, a, "k", 100, 24) != 24 {
		t.Fatal("want a to use what it holds")
	}
	if a.shard("k").keys["k"].left != 0 {
		t.Fatal("a holds tokens")
	}

	// Now a is out of tokens, and so is the row.
	h.advance(time.Minute)
	if takeMany(t, b, "k", 100, 1) != 1 || takeMany(t, a, "k", 100, 75) != 75 {
		t.Fatal("want b to hold 24 tokens and a to use the rest")
	}
	answer := make(chan Verdict)
	go func() {
		v, err := a.Take(t.Context(), "k", 100)
		if err != nil {
			t.Error(err)
		}
		answer <- v
	}()
	waitFor(t, func() bool { return a.waiting.Load() == 1 })
	if step(t, a) {
		t.Error("a stepped on something before b gave back")
	}
	if !step(t, b) {
		t.Error("b gave nothing back")
	}
	if step(t, b) {
		t.Error("b gave back twice")
	}
	select {
	case v := <-answer:
		t.Fatalf("a was answered %+v before it could know", v)
	default:
	}
	if !step(t, a) {
		t.Error("a did not see what b gave back")
	}
	if v := <-answer; !v.Allowed {
		t.Errorf("a was refused although b had given back: %+v", v)
	}
	if n := takeMany(t, a, "k", 100, 23); n != 23 {
		t.Errorf("a was allowed %d more, want all 23 that b gave back", n)
	}
}

// waitFor waits until a goroutine has got somewhere.
func waitFor(t *testing.T, there func() bool) {
	t.Helper()
	c := clock.New(nil)
	for start := c.Real(); !there(); {
		if c.RealSince(start) > 10*time.Second {
			t.Fatal("waited in vain")
		}
		_ = c.Wait(t.Context(), time.Millisecond)
	}
}

// TestLastQuestion is about a node that other nodes give back to after its own step.
func TestLastQuestion(t *testing.T) {
	t.Parallel()
	url := sqltest.Postgres(t)
	h := newHand()
	db := sqltest.Open(t, url)
	countWrites(t, db)
	a, b := New(db, h.clock(), nodes(2)), New(sqltest.Open(t, url), h.clock(), nodes(2))
	a.round, b.round = time.Second, 0 // long enough for a step of b
	take(t, b, "k", 100)
	takeMany(t, a, "k", 100, 75)
	answer := make(chan Verdict)
	go func() {
		v, err := a.Take(t.Context(), "k", 100)
		if err != nil {
			t.Error(err)
		}
		answer <- v
	}()
	waitFor(t, func() bool { return a.waiting.Load() == 1 })
	step(t, b)
	if v := <-answer; !v.Allowed { // without a step of a
		t.Errorf("refused although there were tokens in the row: %+v", v)
	}
	takeMany(t, a, "k", 100, 24)

	// Nobody holds anything now: one round is waited, and then refusals cost neither time nor writes.
	if take(t, a, "k", 100).Allowed {
		t.Error("allowed more than there was")
	}
	before := writes(t, db)
	a.round = time.Hour
	if takeMany(t, a, "k", 100, 50) != 0 || writes(t, db) > before {
		t.Errorf("%d writes for 50 refusals", writes(t, db)-before)
	}
}

// TestMarkTakenAway is about a node that got nothing before another got the last tokens, which took the mark away.
func TestMarkTakenAway(t *testing.T) {
	t.Parallel()
	db := sqltest.Open(t, sqltest.Postgres(t))
	l := New(db, newHand().clock(), nodes(2))
	l.round = 0
	takeMany(t, l, "k", 5, 6)
	starved := func() int {
		rows, err := l.findStarved(t.Context(), l.clock.Now().UnixMicro(), "")
		if err != nil {
			t.Fatal(err)
		}
		return len(rows)
	}
	if starved() != 1 || step(t, l) {
		t.Fatal("want the row marked, and nothing to do about it")
	}
	err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE rate_window SET starved = FALSE`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if take(t, l, "k", 5).Allowed || starved() != 0 {
		t.Fatal("want the row not to be asked before a step")
	}
	if !step(t, l) || take(t, l, "k", 5).Allowed || starved() != 1 {
		t.Error("want the row marked again by who still needs tokens")
	}
}

func TestReceive(t *testing.T) {
	t.Parallel()
	now := newHand().now()
	for _, c := range []struct {
		name      string
		had, want window
		grant     grant
	}{
		{"tokens", window{startedAt: 1, taken: 9, empty: true, final: true}, window{startedAt: 1, taken: 15, left: 5, limit: 20}, grant{1, 15, 5}},
		{"none", window{startedAt: 1, taken: 9}, window{startedAt: 1, taken: 20, limit: 20, empty: true, emptyLimit: 20, emptyAt: now}, grant{1, 20, 0}},
		{"none again", window{startedAt: 1, final: true}, window{startedAt: 1, taken: 20, limit: 20, empty: true, emptyLimit: 20, emptyAt: now, final: true}, grant{1, 20, 0}},
		{"none of another window", window{startedAt: 1, final: true}, window{startedAt: 2, taken: 20, limit: 20, empty: true, emptyLimit: 20, emptyAt: now}, grant{2, 20, 0}},
	} {
		got := c.had
		got.receive(c.grant, 20, now)
		got.emptyAt, c.want.emptyAt = got.emptyAt.Round(0), c.want.emptyAt.Round(0)
		if !c.want.empty {
			got.emptyLimit, got.emptyAt = c.want.emptyLimit, c.want.emptyAt // mean nothing
		}
		if got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestAloneNobodyWaits(t *testing.T) {
	t.Parallel()
	l := New(sqltest.Open(t, sqltest.Postgres(t)), newHand().clock(), nodes(1))
	l.round = time.Hour
	if n := takeMany(t, l, "k", 5, 10); n != 5 {
		t.Errorf("%d allowed, want 5", n)
	}
}

func TestWaitersAreBounded(t *testing.T) {
	t.Parallel()
	url := sqltest.Postgres(t)
	h := newHand()
	l := New(sqltest.Open(t, url), h.clock(), nodes(2))
	l.round = time.Hour
	takeMany(t, l, "k", 5, 5)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var cancelled, refused atomic.Int64
	for range keyWaitMax + 10 {
		wg.Go(func() {
			switch v, err := l.Take(ctx, "k", 5); {
			case errors.Is(err, context.Canceled):
				cancelled.Add(1)
			case err == nil && !v.Allowed:
				refused.Add(1)
			default:
				t.Errorf("got %+v, %v", v, err)
			}
		})
	}
	waitFor(t, func() bool { return refused.Load() == 10 })
	if l.waiting.Load() != keyWaitMax {
		t.Errorf("%d wait, want %d", l.waiting.Load(), keyWaitMax)
	}
	cancel()
	wg.Wait()
	if cancelled.Load() != keyWaitMax || l.waiting.Load() != 0 {
		t.Errorf("%d were cancelled, %d still wait", cancelled.Load(), l.waiting.Load())
	}
}

func TestCrashLosesOneSlice(t *testing.T) {
	t.Parallel()
	url := sqltest.Postgres(t)
	h := newHand()
	a, b := New(sqltest.Open(t, url), h.clock(), nodes(2)), New(sqltest.Open(t, url), h.clock(), nodes(2))
	a.round, b.round = 0, 0
	used := takeMany(t, a, "k", 600, 1)
	// a is never heard of again.
	for range 3 {
		used += takeMany(t, b, "k", 600, 600)
		step(t, b)
	}
	if used > 600 || used < 600-sliceUsual {
		t.Errorf("%d allowed, want 600 but for one slice", used)
	}
	h.advance(time.Minute)
	if n := takeMany(t, b, "k", 600, 601); n != 600 {
		t.Errorf("%d allowed in the next window, want 600", n)
	}
}

// TestTokensEndWithTheirWindow has one node start a window while another holds tokens of the one before.
func TestTokensEndWithTheirWindow(t *testing.T) {
	t.Parallel()
	url := sqltest.Postgres(t)
	h := newHand()
	ahead, behind := h.clock(), h.clock()
	a, b := New(sqltest.Open(t, url), ahead, nodes(2)), New(sqltest.Open(t, url), behind, nodes(2))
	a.round, b.round = 0, 0
	first := take(t, b, "k", 100) // b holds 24 of the first window
	ahead.Raise(time.Minute)      // b learns of it later
	second := take(t, a, "k", 100)
	if !second.Reset.Equal(first.Reset.Add(time.Minute)) {
		t.Fatalf("a's window ends at %s, want a minute after %s", second.Reset, first.Reset)
	}

	// b does not know yet: what it allows belongs to the first window. When it asks it is told of the second.
	count := map[time.Time]int{first.Reset: 1, second.Reset: 1}
	for range 24 {
		count[take(t, b, "k", 100).Reset]++
	}
	if count[first.Reset] != 25 {
		t.Errorf("%d of the first window, want what b held of it", count[first.Reset])
	}
	if v := take(t, b, "k", 100); !v.Reset.Equal(second.Reset) || v.RetryAfter > time.Minute {
		t.Errorf("got %+v, want to have joined the second window", v)
	} else {
		count[v.Reset]++
	}

	// What b holds of the second window ends with that, also in the row.
	behind.Raise(time.Minute)
	h.advance(time.Minute)
	third := take(t, a, "k", 100)
	if b.steps.behind = ""; step(t, b) {
		t.Error("b gave tokens of the second window back to the third")
	}
	if n := 1 + takeMany(t, b, "k", 100, 50) + takeMany(t, a, "k", 100, 100); n > 100 {
		t.Errorf("%d allowed in the third window", n)
	}
	if v := take(t, b, "k", 100); !v.Reset.Equal(third.Reset) {
		t.Errorf("b is in the window that ends at %s, want %s", v.Reset, third.Reset)
	}
}

func TestGiveBackToEndedWindow(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := newHand()
		l := New(db, h.clock(), nodes(1))
		old, err := l.ask(t.Context(), "k", 100, tokens{})
		if err != nil {
			t.Fatal(err)
		}
		h.advance(time.Minute)
		if _, err := l.ask(t.Context(), "k", 100, tokens{}); err != nil {
			t.Fatal(err)
		}
		if err := l.giveBackAll(t.Context(), []tokens{{"k", old.startedAt, old.granted}}); err != nil {
			t.Fatal(err)
		}
		if g, err := l.ask(t.Context(), "k", 100, tokens{}); err != nil || g.taken != 75 || g.granted != 25 {
			t.Errorf("got %+v, %v, want 50 + 25 taken", g, err)
		}
	})
}

// TestGiveBackOnce runs the function of a Write again, as Write does when it does not know whether the first run was
// committed.
func TestGiveBackOnce(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		l := New(db, newHand().clock(), nodes(1))
		g, err := l.ask(t.Context(), "k", 100, tokens{})
		if err != nil || g.granted != 50 {
			t.Fatalf("got %+v, %v", g, err)
		}
		back := tokens{"k", g.startedAt, 20}
		for range 2 {
			err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
				back.queue(ctx, tx)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if g, err := l.ask(t.Context(), "k", 100, tokens{}); err != nil || g.taken != 30+35 {
			t.Errorf("got %+v, %v, want 20 to have been given back", g, err)
		}
	})
}

// TestAskOfMuch takes larger slices of a high limit, at first and later: a thousandth of it.
func TestAskOfMuch(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		l := New(db, newHand().clock(), nodes(2))
		for i := range 3 {
			if g, err := l.ask(t.Context(), "k", 1_000_000, tokens{}); err != nil || g.granted != 1000 || g.taken != (i+1)*1000 {
				t.Errorf("got %+v, %v", g, err)
			}
		}
		err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			tx.Queue(ctx, `UPDATE rate_window SET taken = 999000 WHERE prefix = 'k'`)
			return nil
		})
		if g, asked := l.ask(t.Context(), "k", 1_000_000, tokens{}); err != nil || asked != nil || g.granted != sliceOf(1_000_000, 1000, 2) || g.granted != 250 {
			t.Errorf("got %+v, %v, %v of the last thousand", g, err, asked)
		}
	})
}

// TestAsk holds the statement equal to the rule, on both databases: it is written for the dialect that they share.
func TestAsk(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		for _, c := range []struct{ limit, nodes int }{{600, 1}, {600, 2}, {600, 4}, {7, 1}, {7, 3}, {1, 1}, {0, 2}, {1000, 50}} {
			t.Run(fmt.Sprintf("%d by %d", c.limit, c.nodes), func(t *testing.T) {
				l := New(db, newHand().clock(), nodes(c.nodes))
				prefix := t.Name()
				for taken, asked := 0, 0; taken < c.limit || asked == 0; asked++ {
					slice := sliceOf(c.limit, c.limit-taken, c.nodes)
					g, err := l.ask(t.Context(), prefix, c.limit, tokens{})
					if err != nil || g.granted != slice || g.taken != taken+slice {
						t.Fatalf("got %+v, %v after %d, want %d", g, err, taken, slice)
					}
					taken += slice
				}
				if g, err := l.ask(t.Context(), prefix, c.limit, tokens{}); err != nil || g.granted != 0 || g.taken != c.limit {
					t.Fatalf("got %+v, %v from an empty row", g, err)
				}
				now := l.clock.Now().UnixMicro()
				if rows, err := l.findStarved(t.Context(), now, ""); err != nil || len(rows) == 0 {
					t.Errorf("got %v, %v, want a starved row", rows, err)
				}
				back := tokens{prefix, now, min(3, c.limit)}
				if g, err := l.ask(t.Context(), prefix, c.limit, back); err != nil || g.granted != sliceOf(c.limit, back.n, c.nodes) {
					t.Errorf("got %+v, %v after %d were given back", g, err, back.n)
				}
				// A lowered limit never takes anything away.
				if g, err := l.ask(t.Context(), prefix, c.limit/2, tokens{}); c.limit > 20 && (err != nil || g.granted != 0 || g.taken < c.limit/2) {
					t.Errorf("got %+v, %v under a lowered limit", g, err)
				}
			})
		}
	})
}

// TestManyStarved has more starved keys than one step reads.
func TestManyStarved(t *testing.T) {
	t.Parallel()
	url := sqltest.Postgres(t)
	db := sqltest.Open(t, url)
	h := newHand()
	insert := `INSERT INTO rate_window (prefix, started_at, taken, granted, starved) VALUES ($1, $2, 1, 0, TRUE)`
	err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		for i := range starvedMax {
			tx.Queue(ctx, insert, fmt.Sprintf("%08x", i), h.now().UnixMicro())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	a, b := New(db, h.clock(), nodes(2)), New(sqltest.Open(t, url), h.clock(), nodes(2))
	a.round, b.round = 0, 0
	take(t, a, "z", 100)
	takeMany(t, b, "z", 100, 76)
	emptyB := func() bool { return b.shard("z").keys["z"].empty }
	leftA := func() int { return a.shard("z").keys["z"].left }
	if !step(t, a) || !step(t, b) || leftA() != 24 || !emptyB() {
		t.Error("judged a key by rows that were not read")
	}
	if !step(t, a) || leftA() != 0 {
		t.Error("the second step did not read on")
	}
	if !step(t, b) || emptyB() {
		t.Error("the second step did not see what was given back")
	}
	if !step(t, a) || a.steps.behind == "" {
		t.Error("the third step did not start again")
	}
}

func TestStepForgets(t *testing.T) {
	t.Parallel()
	url := sqltest.Postgres(t)
	db := sqltest.Open(t, url)
	h := newHand()
	l := New(db, h.clock(), nodes(1))
	count := func() int64 {
		n, err := sqldb.One(t.Context(), db, sqldb.Scalar[int64], `SELECT COUNT(*) FROM rate_window`)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	insert := `INSERT INTO rate_window (prefix, started_at, taken, granted, starved) VALUES ($1, $2, 1, 1, FALSE)`
	err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		for i := range deleteMax + 10 {
			tx.Queue(ctx, insert, fmt.Sprintf("%08x", i), h.now().UnixMicro())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	h.advance(keepTime - time.Second)
	take(t, l, "young", 5)
	if step(t, l); count() != deleteMax+11 {
		t.Errorf("%d rows, want all kept", count())
	}
	h.advance(cleanEvery)
	if did := step(t, l); !did || count() != 11 {
		t.Errorf("did %t, %d rows, want one slice deleted", did, count())
	}
	if did := step(t, l); !did || count() != 1 {
		t.Errorf("did %t, %d rows, want only the young one kept", did, count())
	}
	if step(t, l) {
		t.Error("did something when there was nothing to do")
	}
}

func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := newHand()
		l := New(db, h.clock(), nodes(1))
		s := l.shard("k")
		take(t, l, "k", 1)
		for i := len(s.keys); i < shardKeyMax; i++ {
			s.keys[fmt.Sprint("filler ", i)] = &key{window: window{startedAt: h.now().UnixMicro()}}
		}
		stranger := "stranger"
		for i := 0; l.shard(stranger) != s; i++ {
			stranger = fmt.Sprint("stranger ", i)
		}
		if _, err := l.Take(t.Context(), stranger, 1); !errors.Is(err, sqldb.ErrUnavailable) {
			t.Errorf("one key too many: got %v, want unavailable", err)
		}
		if take(t, l, "k", 1).Allowed {
			t.Error("a window that runs was forgotten")
		}
		h.advance(time.Minute)
		if !take(t, l, stranger, 1).Allowed || len(s.keys) != 1 {
			t.Errorf("%d keys, want those whose windows had ended to be forgotten", len(s.keys))
		}
		h.advance(time.Minute)
		for range shardCount {
			step(t, l)
		}
		if len(s.keys)+len(s.empty) != 0 {
			t.Errorf("%d keys and %d empty ones after all windows have ended", len(s.keys), len(s.empty))
		}
	})
}

func TestDatabaseGone(t *testing.T) {
	t.Parallel()
	db := sqltest.Open(t, sqltest.Postgres(t))
	l := New(db, newHand().clock(), nodes(1))
	take(t, l, "k", 600)
	db.Close()
	if n := takeMany(t, l, "k", 600, sliceUsual-1); n != sliceUsual-1 {
		t.Errorf("%d allowed, want what was in hand", n)
	}
	for range 2 {
		if v, err := l.Take(t.Context(), "k", 600); !errors.Is(err, sqldb.ErrUnavailable) || v.Allowed {
			t.Errorf("got %+v, %v, want unavailable", v, err)
		}
	}
	if _, err := l.Step(t.Context()); !errors.Is(err, sqldb.ErrUnavailable) {
		t.Errorf("step: got %v, want unavailable", err)
	}
}

// TestLeaderLeaves cancels the request that asks the row; the others still get its answer.
func TestLeaderLeaves(t *testing.T) {
	t.Parallel()
	l := New(sqltest.Open(t, sqltest.Postgres(t)), newHand().clock(), nodes(1))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if v, err := l.Take(ctx, "k", 600); err != nil || !v.Allowed {
		t.Errorf("got %+v, %v, want the question to be asked to its end", v, err)
	}
}

func TestHotPathDoesNotAllocate(t *testing.T) { // not in parallel: others would allocate meanwhile
	for name, url := range map[string]string{"sqlite": sqltest.SQLite(t), "postgres": sqltest.Postgres(t)} {
		l := New(sqltest.Open(t, url), clock.New(nil), nodes(1))
		take(t, l, "k", 600)
		ctx := t.Context()
		n := testing.AllocsPerRun(20, func() {
			if v, err := l.Take(ctx, "k", 600); err != nil || !v.Allowed {
				t.Errorf("%s: got %+v, %v", name, v, err)
			}
		})
		if n != 0 {
			t.Errorf("%s: %v allocations for a request with tokens in hand", name, n)
		}
	}
}
