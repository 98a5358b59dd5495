package live_test

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/dashboard/live"
	"github.com/ponte-pay/ponte/internal/event"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

const shop, other = id.Account(7), id.Account(8)

// world is a database with some events.
type world struct {
	*testing.T
	db  *sqldb.DB
	ids *id.Generator
}

func each(t *testing.T, test func(w *world)) {
	t.Helper()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		test(&world{t, db, id.NewGenerator(clock.New(nil).Now, rand.Reader)})
	})
}

// node returns the hub of a node on the database.
func (w *world) node() *live.Hub { return live.New(event.NewFeed(w.db)) }

// happen writes events.
func (w *world) happen(of id.Account, n int) (last id.ID) {
	w.Helper()
	err := w.db.Write(w.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		for range n {
			last = w.ids.New()
			e := event.Event{Account: of, ID: last, Ref: w.ids.New(), Type: event.ChargePaid, Data: []byte("{}")}
			if err := event.NewLog(nil).Write(ctx, tx, e); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		w.Fatal(err)
	}
	return last
}

func (w *world) join(h *live.Hub, of id.Account, person id.ID) *live.Stream {
	w.Helper()
	s, err := h.Join(w.Context(), of, person)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(s.Leave)
	return s
}

func (w *world) step(h *live.Hub) {
	w.Helper()
	if _, err := h.Step(w.Context()); err != nil {
		w.Fatal(err)
	}
}

// told returns what waits in a stream.
func told(s *live.Stream) (all []live.News) {
	for {
		select {
		case n := <-s.News():
			all = append(all, n)
		default:
			return all
		}
	}
}

func hasEnded(s *live.Stream) bool {
	select {
	case <-s.Ended():
		return true
	default:
		return false
	}
}

// Every page of an account is told once of what happens after it was opened, on each node, and of nothing else.
func TestEveryPageIsTold(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		w.happen(shop, 3) // before anybody looks
		one, two := w.node(), w.node()
		streams := []*live.Stream{w.join(one, shop, w.ids.New()), w.join(one, shop, w.ids.New()), w.join(two, shop, w.ids.New())}
		stranger := w.join(one, other, w.ids.New())
		x := w.happen(shop, 1)
		for range 2 {
			w.step(one)
			w.step(two)
		}
		late := w.join(one, shop, w.ids.New())
		w.step(one)
		for i, s := range streams {
			if got := told(s); len(got) != 1 || got[0].Event.ID != x || got[0].Many {
				t.Errorf("stream %d was told %v", i, got)
			}
		}
		for _, s := range []*live.Stream{stranger, late} {
			if got := told(s); len(got) > 0 {
				t.Errorf("told of what it must not: %v", got)
			}
		}
	})
}

// An account with more events than anybody could read is told that there were many, and then goes on.
func TestMany(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		h := w.node()
		s := w.join(h, shop, w.ids.New())
		w.happen(shop, live.PageMax+1)
		w.step(h)
		if got := told(s); len(got) != 1 || !got[0].Many {
			t.Errorf("told %d", len(got))
		}
		x := w.happen(shop, 1)
		w.step(h)
		if got := told(s); len(got) != 1 || got[0].Event.ID != x {
			t.Errorf("told %v", got)
		}
	})
}

// A page that takes nothing is cut; the others are not.
func TestSlow(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		h := w.node()
		slow, quick := w.join(h, shop, w.ids.New()), w.join(h, shop, w.ids.New())
		for range live.WaitingMax/(live.PageMax-1) + 1 {
			w.happen(shop, live.PageMax-1)
			w.step(h)
			if got := told(quick); len(got) != live.PageMax-1 {
				t.Fatalf("told %d", len(got))
			}
		}
		if !hasEnded(slow) || hasEnded(quick) {
			t.Errorf("slow %v, quick %v", hasEnded(slow), hasEnded(quick))
		}
	})
}

// A person has a bounded number of streams, and gets another for each that is left.
func TestFull(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		h, person := w.node(), w.ids.New()
		var s *live.Stream
		for range live.PersonStreamsMax {
			s = w.join(h, shop, person)
		}
		if _, err := h.Join(t.Context(), other, person); !errors.Is(err, live.ErrFull) {
			t.Errorf("got %v", err)
		}
		w.join(h, shop, w.ids.New())
		s.Leave()
		s.Leave() // which changes nothing
		w.join(h, shop, person)
		if _, err := h.Join(t.Context(), shop, person); !errors.Is(err, live.ErrFull) {
			t.Errorf("got %v", err)
		}
	})
}

// A node that stops ends all streams at once.
func TestClose(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		h := w.node()
		s := w.join(h, shop, w.ids.New())
		h.Close()
		if !hasEnded(s) {
			t.Error("it goes on")
		}
		if _, err := h.Join(t.Context(), shop, w.ids.New()); !errors.Is(err, live.ErrClosed) {
			t.Errorf("got %v", err)
		}
		w.step(h)
	})
}
