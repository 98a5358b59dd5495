package event_test

import (
	"context"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/event"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

// writer writes events as a node does whose clock is off.
type writer struct {
	db  *sqldb.DB
	ids *id.Generator
	log *event.Log
}

func newWriter(db *sqldb.DB, off time.Duration) *writer {
	c := clock.New(func() time.Time { return time.Now().Add(off) })
	return &writer{db, id.NewGenerator(c.Now, rand.Reader), event.NewLog(nil)}
}

// write writes an event in a transaction that stays open for a while after the event has its identifier.
func (w *writer) write(ctx context.Context, account id.Account, open time.Duration) (x id.ID, err error) {
	err = w.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		x = w.ids.New()
		err := w.log.Write(ctx, tx, event.Event{Account: account, ID: x, Ref: w.ids.New(), Type: event.ChargePaid, Data: []byte("{}")})
		if err == nil && open > 0 {
			err = clock.New(nil).Wait(ctx, open)
		}
		return err
	})
	return x, err
}

// Readers miss nothing and read nothing twice, although transactions commit out of order, one node's clock is behind and
// the clock is moved meanwhile.
func TestFeedIsExact(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		const account, events, writers = id.Account(7), 60, 6
		feed := event.NewFeed(db)
		var mu sync.Mutex
		written := map[id.ID]bool{}
		var running sync.WaitGroup
		for i := range writers {
			w := newWriter(db, time.Duration(i%3)*-200*time.Millisecond)
			if i == 0 {
				w = newWriter(db, 12*time.Hour) // it knows already that the clock was moved
			}
			running.Go(func() {
				for range events {
					var open time.Duration
					if mathrand.IntN(5) == 0 && db.IsPostgres() {
						open = mathrand.N(40 * time.Millisecond)
					}
					x, err := w.write(t.Context(), account, open)
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					written[x] = true
					mu.Unlock()
				}
			})
		}
		ended := make(chan struct{})
		go func() { running.Wait(); close(ended) }()
		readers := make([]map[id.ID]bool, 3)
		var reading sync.WaitGroup
		for i := range readers {
			readers[i] = map[id.ID]bool{}
			reading.Go(func() {
				var after id.ID
				for last := false; ; {
					page, err := feed.After(t.Context(), account, after, 7)
					if err != nil {
						t.Error(err)
						return
					}
					for _, e := range page {
						if readers[i][e.ID] {
							t.Errorf("%s twice", e.ID)
						}
						readers[i][e.ID] = true
						after = e.ID
					}
					if last && len(page) == 0 {
						return
					}
					select {
					case <-ended:
						last = true
					default:
					}
				}
			})
		}
		reading.Wait()
		for i, seen := range readers {
			missed := 0
			for x := range written {
				if !seen[x] {
					missed++
				}
			}
			if missed > 0 || len(seen) != writers*events {
				t.Errorf("reader %d has seen %d of %d and missed %d", i, len(seen), writers*events, missed)
			}
		}
	})
}

// All readers see one order, and it never changes.
func TestFeedIsOneOrder(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		const account = id.Account(7)
		feed := event.NewFeed(db)
		ahead, behind := newWriter(db, 0), newWriter(db, -10*time.Second)
		var want []string
		for i := range 10 {
			w := ahead
			if i%2 == 1 {
				w = behind
			}
			x, err := w.write(t.Context(), account, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := feed.After(t.Context(), account, id.ID{}, 100); err != nil { // somebody reads
				t.Fatal(err)
			}
			want = append(want, x.String())
		}
		for range 2 {
			var got []string
			page, err := feed.After(t.Context(), account, id.ID{}, 100)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range page {
				got = append(got, e.ID.String())
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%v\nwant %v", got, want)
			}
		}
		if _, err := feed.After(t.Context(), account+1, page1(t, feed, account), 1); err == nil {
			t.Error("another account's event is a place")
		}
	})
}

func page1(t *testing.T, feed *event.Feed, account id.Account) id.ID {
	t.Helper()
	page, err := feed.After(t.Context(), account, id.ID{}, 1)
	if err != nil || len(page) != 1 {
		t.Fatal(page, err)
	}
	return page[0].ID
}

// The first reader of an account with a long past gets all of it.
func TestFeedOfALongPast(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		const account, many = id.Account(9), 2500
		w := newWriter(db, -time.Hour)
		err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			for range many {
				if err := w.log.Write(ctx, tx, event.Event{Account: account, ID: w.ids.New(), Ref: w.ids.New(), Type: event.ChargePaid, Data: []byte("{}")}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		feed := event.NewFeed(db)
		var after, last id.ID
		n := 0
		for {
			page, err := feed.After(t.Context(), account, after, 1000)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			for _, e := range page {
				if e.ID.Compare(last) <= 0 {
					t.Fatalf("%s after %s", e.ID, last)
				}
				last = e.ID
				n++
			}
			after = last
		}
		if n != many {
			t.Errorf("%d of %d", n, many)
		}
	})
}

// A thing has one event of a type, whoever tries.
func TestOnce(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWriter(db, 0)
		ref := w.ids.New()
		write := func(kind event.Type) error {
			return db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
				return w.log.Write(ctx, tx, event.Event{Account: 1, ID: w.ids.New(), Ref: ref, Type: kind, Data: []byte("{}")})
			})
		}
		if err := write(event.ChargeCreated); err != nil {
			t.Fatal(err)
		}
		if err := write(event.ChargePaid); err != nil {
			t.Fatal(err)
		}
		if err := write(event.ChargePaid); err == nil {
			t.Error("paid twice")
		}
		if err := write("charge.mirrored"); err == nil {
			t.Error("a type that nobody knows")
		}
	})
}
