package inquiry

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/clock"
)

// TestTogether shows when lists are asked for, and for how long no more after they were no help.
func TestTogether(t *testing.T) {
	t.Parallel()
	refused := &acquirer.Error{Outcome: acquirer.Refused, Class: acquirer.Business}
	silent := &acquirer.Error{Class: acquirer.Timeout}
	for _, c := range []struct {
		name     string
		asking   int
		span     time.Duration
		answered int // by each page
		pages    int
		takes    time.Duration // each page
		err      error
		want     []int // pages that are asked for, list by list, two minutes apart
	}{
		{"few ask", togetherMin - 1, 0, 9, 1, 0, nil, []int{0, 0}},
		{"too long a time", 50, listedMax + 1, 50, 1, 0, nil, []int{0, 0}},
		{"one page", togetherMin, listedMax, togetherMin, 1, 0, nil, []int{1, 1, 1, 1, 1, 1}},
		{"as many pages as it takes", 150, 0, 75, 9, 0, nil, []int{2, 2}},
		{"no more pages than are worth it", 150, 0, 1, 9, 0, nil, []int{3, 3, 3, 0}},
		{"half is enough", 20, 0, 10, 1, 0, nil, []int{1, 1, 1, 1}},
		{"less than half", 21, 0, 10, 1, 0, nil, []int{1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 0}},
		{"slow", 50, 0, 50, 1, shareTimeMax + 1, nil, []int{1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 0}},
		{"slow, and long", 150, 0, 1, 9, shareTimeMax + 1, nil, []int{1, 1, 1, 0}},
		{"refused", 50, 0, 0, 1, 0, refused, []int{1, 0, 0, 0, 0, 1, 0}},
		{"not permitted", 50, 0, 0, 1, 0, &acquirer.Error{Class: acquirer.Credentials}, []int{1, 0, 0, 0, 0, 1, 0}},
		{"panics", 50, 0, 0, 1, 0, errAsked, []int{1, 0}},
		{"silent", 50, 0, 0, 1, 0, silent, []int{1, 1, 1, 1}},
	} {
		now := time.Now()
		together := Together{Clock: clock.New(func() time.Time { return now }), Log: slog.New(slog.DiscardHandler)}
		from := now
		for i, want := range c.want {
			pages := 0
			err := together.List(t.Context(), "alpha", from, from.Add(c.span), c.asking, func(_ context.Context, w acquirer.Window) (int, string, error) {
				if !w.Exact || !w.From.Equal(from) || (w.Cursor == "") != (pages == 0) {
					t.Errorf("%s: %+v", c.name, w)
				}
				pages++
				now = now.Add(c.takes)
				if errors.Is(c.err, errAsked) {
					panic(c.err)
				}
				next := ""
				if pages < c.pages {
					next = strconv.Itoa(pages)
				}
				return c.answered, next, c.err
			})
			if pages != want || errors.Is(c.err, silent) != (err != nil) {
				t.Errorf("%s: list %d has %d pages, want %d; %v", c.name, i, pages, want, err)
			}
			now = now.Add(2 * time.Minute)
		}
	}
}

// TestFollowTogether shows that all hints are followed, those of a silent acquirer later.
func TestFollowTogether(t *testing.T) {
	t.Parallel()
	c := clock.New(nil)
	hints := NewHints[word](c, slog.New(slog.DiscardHandler))
	const count = 2*togetherMax + 50
	for i := range count {
		hints.Add(word(strconv.Itoa(i)))
	}
	var mu sync.Mutex
	var sizes []int
	followed := map[word]int{}
	follow := func(_ context.Context, h word) error {
		mu.Lock()
		defer mu.Unlock()
		followed[h]++
		return nil
	}
	did, err := hints.FollowTogether(t.Context(), func(_ context.Context, some []word) (Answers[word], error) {
		sizes = append(sizes, len(some))
		return Answers[word]{Follow: follow, IsKnown: func(h word) bool { return len(h)%2 == 0 }}, nil
	})
	if !did || err != nil || len(followed) != count || !slices.Equal(sizes, []int{togetherMax, togetherMax, 50}) {
		t.Errorf("followed %d, asked for %v; %v, %v", len(followed), sizes, did, err)
	}
	hints.Add("late")
	if _, err = hints.FollowTogether(t.Context(), func(context.Context, []word) (Answers[word], error) {
		return Answers[word]{Follow: follow, IsKnown: func(word) bool { return false }}, &acquirer.Error{Class: acquirer.Timeout}
	}); err != nil || followed["late"] != 0 || len(hints.waiting) != 1 {
		t.Errorf("of a silent acquirer: followed %d times, %d wait; %v", followed["late"], len(hints.waiting), err)
	}
}

// TestSettledTogether shows that what is followed with others is not followed again, and that the rest is: what was left, what
// takes a question, and everything when following together fails.
func TestSettledTogether(t *testing.T) {
	t.Parallel()
	isKnown := func(h word) bool { return h != "unknown" }
	for name, settle := range map[string]func(context.Context, []word) (map[word]bool, error){
		"unknown left rest": func(_ context.Context, some []word) (map[word]bool, error) {
			if len(some) != 3 || slices.Contains(some, "unknown") {
				t.Errorf("%v were to be followed together", some)
			}
			return map[word]bool{"one": true}, errors.New("of the others")
		},
		"unknown one left rest": func(context.Context, []word) (map[word]bool, error) { panic("of all of them") },
	} {
		hints := NewHints[word](clock.New(nil), slog.New(slog.DiscardHandler))
		for _, h := range []word{"one", "left", "rest", "unknown"} {
			hints.Add(h)
		}
		var mu sync.Mutex
		var followed []string
		follow := func(_ context.Context, h word) error {
			mu.Lock()
			defer mu.Unlock()
			followed = append(followed, string(h))
			return nil
		}
		_, err := hints.FollowTogether(t.Context(), func(context.Context, []word) (Answers[word], error) {
			return Answers[word]{Follow: follow, IsKnown: isKnown, Settle: settle}, nil
		})
		slices.Sort(followed)
		want := strings.Fields(name)
		slices.Sort(want)
		if err != nil || !slices.Equal(followed, want) || len(hints.waiting) != 0 {
			t.Errorf("followed %v, want %v; %d wait; %v", followed, want, len(hints.waiting), err)
		}
	}
}

// TestSlowListsAreOfUse has a list take longer than a step has for its acquirer: what it answers is followed all the same.
func TestSlowListsAreOfUse(t *testing.T) {
	t.Parallel()
	now := time.Now()
	hints := NewHints[word](clock.New(func() time.Time { return now }), slog.New(slog.DiscardHandler))
	const count = 2 * togetherMax
	for i := range count {
		hints.Add(word(strconv.Itoa(i)))
	}
	var followed atomic.Int64
	for step, want := range []int64{togetherMax, count} {
		_, err := hints.FollowTogether(t.Context(), func(_ context.Context, some []word) (Answers[word], error) {
			now = now.Add(shareTimeMax + 1)
			follow := func(context.Context, word) error { followed.Add(1); return nil }
			return Answers[word]{Follow: follow, IsKnown: func(h word) bool { return slices.Contains(some, h) }}, nil
		})
		if got := followed.Load(); err != nil || got != want || len(hints.waiting) != count-int(want) {
			t.Errorf("after step %d %d are followed, %d wait; %v", step, got, len(hints.waiting), err)
		}
	}
}

// TestBrokenListsKeepNobodyWaiting has an acquirer that answers everything but lists.
func TestBrokenListsKeepNobodyWaiting(t *testing.T) {
	t.Parallel()
	now := time.Now()
	c := clock.New(func() time.Time { return now })
	hints, together := NewHints[word](c, slog.New(slog.DiscardHandler)), Together{Clock: c, Log: slog.New(slog.DiscardHandler)}
	for i := range togetherMin {
		hints.Add(word(strconv.Itoa(i)))
	}
	var followed atomic.Int64
	lists := 0
	for range 2 { // the second does without
		_, err := hints.FollowTogether(t.Context(), func(ctx context.Context, some []word) (Answers[word], error) {
			err := together.List(ctx, "alpha", now, now, len(some), func(context.Context, acquirer.Window) (int, string, error) {
				lists++
				return 0, "", &acquirer.Error{Class: acquirer.Timeout}
			})
			follow := func(context.Context, word) error { followed.Add(1); return nil }
			return Answers[word]{Follow: follow, IsKnown: func(word) bool { return false }}, err
		})
		if err != nil {
			t.Fatal(err)
		}
		now = now.Add(hintWait)
	}
	if got := followed.Load(); got != togetherMin || lists != 1 || len(hints.waiting) != 0 {
		t.Errorf("%d are followed, %d wait, %d lists were asked for", got, len(hints.waiting), lists)
	}
}

// word is a hint of nobody in particular.
type word string

func (word) From() string   { return "alpha" }
func (w word) What() string { return string(w) }

// TestRecent shows that a thing is taken once, and that the oldest are forgotten, as many as there is no room for.
func TestRecent(t *testing.T) {
	t.Parallel()
	for room, r := range map[int]*Recent[string, int]{recentMax: {}, 3: {Max: 3}, 3 * recentMax: {Max: 3 * recentMax}} {
		for i := range 2*room + 1 {
			r.Add(strconv.Itoa(i), i)
		}
		if _, ok := r.Get("0"); ok {
			t.Errorf("room for %d: the oldest is still there", room)
		}
		for _, name := range []string{strconv.Itoa(room), strconv.Itoa(2 * room)} {
			seen, there := r.Get(name)
			taken, ok := r.Take(name)
			if _, again := r.Take(name); !there || !ok || again || seen != taken || strconv.Itoa(taken) != name {
				t.Errorf("room for %d: %s: %d %v, %d %v, again %v", room, name, seen, there, taken, ok, again)
			}
		}
	}
}
