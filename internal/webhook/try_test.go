package webhook_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/clock/clocktest"
	"github.com/ponte-pay/ponte/internal/event"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
	"github.com/ponte-pay/ponte/internal/webhook"
)

// A test event goes to one endpoint, whatever it subscribes to, once for each form, and looks like nothing that has money.
func TestTry(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		s := start(t, db)
		a := s.account()
		tried, other := receive(t, 200), receive(t, 200)
		to, secret := s.endpoint(a, tried.URL, "payout.failed")
		s.endpoint(a, other.URL, "all")
		once := s.IDs.New()
		var senders sync.WaitGroup
		made := make(chan event.Event, 4)
		for range cap(made) {
			senders.Go(func() {
				e, err := s.Try(t.Context(), a, webhook.Prefix.Format(to.ID), once)
				if err != nil {
					t.Error(err)
				}
				made <- e
			})
		}
		senders.Wait()
		e := <-made
		for range cap(made) - 1 {
			if again := <-made; again.ID != e.ID {
				t.Errorf("two events of one form: %s and %s", again.Body(), e.Body())
			}
		}
		s.step()
		if got := tried.got(); len(got) != 1 || len(other.got()) != 0 {
			t.Fatalf("%v and %v were told", got, other.got())
		}
		check(t, tried.got()[0], e, secret, 1)
		var data map[string]string
		if err := json.Unmarshal(e.Data, &data); err != nil {
			t.Fatal(err)
		}
		if fields := slices.Sorted(maps.Keys(data)); !slices.Equal(fields, []string{"endpoint_id", "message", "object"}) ||
			data["object"] != "webhook_test" || data["endpoint_id"] != webhook.Prefix.Format(to.ID) || e.Type != "webhook.test" {
			t.Errorf("%s", e.Body())
		}
		if e.Type.IsKnown() {
			t.Error("an endpoint can ask for tests")
		}

		// What was sent is shown as it was.
		list, err := s.Deliveries(t.Context(), a, e.ID)
		if err != nil || len(list) != 1 || len(list[0].Attempts) != 1 {
			t.Fatal(list, err)
		}
		sent := list[0].Sent(&e, &list[0].Attempts[0])
		got := tried.got()[0]
		if string(sent.Body) != got.body || !slices.Contains(sent.Headers(), webhook.Header{Name: "X-Service-Signature", Value: got.signature}) ||
			!slices.Contains(sent.Headers(), webhook.Header{Name: "X-Service-Attempt", Value: "1"}) {
			t.Errorf("%v, want %+v", sent.Headers(), got)
		}

		if _, err := s.Disable(t.Context(), webhook.Prefix.Format(to.ID)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Try(t.Context(), a, webhook.Prefix.Format(to.ID), s.IDs.New()); err == nil {
			t.Error("a disabled endpoint was tried")
		}
		if _, err := s.Try(t.Context(), s.account(), webhook.Prefix.Format(to.ID), s.IDs.New()); err == nil {
			t.Error("another account's endpoint was tried")
		}
	})
}

func TestSubscribe(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		s := start(t, db)
		a := s.account()
		r := receive(t, 200)
		to, _ := s.endpoint(a, r.URL, "payout.failed")
		s.emit(a, event.ChargePaid, "")
		for _, types := range [][]event.Type{{event.ChargePaid}, nil} {
			changed, err := s.Subscribe(t.Context(), webhook.Prefix.Format(to.ID), types)
			if err != nil || !slices.Equal(changed.Events, types) {
				t.Fatal(changed, err)
			}
			s.emit(a, event.ChargePaid, "")
			s.step()
		}
		if got := r.got(); len(got) != 2 {
			t.Errorf("%d events, want those after it subscribed", len(got))
		}
	})
}

// The log of an endpoint has its own deliveries, the latest first, page by page, and can be narrowed to a state.
func TestHistory(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		s := start(t, db)
		a := s.account()
		good, bad := receive(t, 200), receive(t, 500)
		one, _ := s.endpoint(a, good.URL, "all")
		two, _ := s.endpoint(a, bad.URL, "charge.paid")
		var want []string
		for i := range 7 {
			kind := event.ChargeCreated
			if i%2 == 0 {
				kind = event.ChargePaid
			}
			e := s.emit(a, kind, "")
			if kind == event.ChargePaid {
				want = append(want, event.Prefix.Format(e.ID)+" waiting 1 500")
			}
		}
		s.step()
		slices.Reverse(want)
		read := func(e *webhook.Endpoint, q webhook.HistoryQuery) (lines []string) {
			t.Helper()
			for {
				page, next, err := s.History(t.Context(), e, q)
				if err != nil || len(page) > q.Limit {
					t.Fatal(len(page), err)
				}
				for _, d := range page {
					lines = append(lines, fmt.Sprintf("%s %s %d %d", event.Prefix.Format(d.Event), d.State, d.Attempts, d.Status))
				}
				if next.IsZero() {
					return lines
				}
				q.Before = next
			}
		}
		if got := read(two, webhook.HistoryQuery{Limit: 3}); !slices.Equal(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
		if got := read(one, webhook.HistoryQuery{Limit: 3}); len(got) != 7 || !strings.HasSuffix(got[0], " delivered 1 200") {
			t.Error(got)
		}
		if got := read(one, webhook.HistoryQuery{Limit: 3, State: webhook.Waiting}); got != nil {
			t.Error(got)
		}
	})
}

// A range can be of one endpoint, and of so many events at a time.
func TestRedeliverPart(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		s := start(t, db)
		a := s.account()
		one, two := receive(t, 200), receive(t, 200)
		to, _ := s.endpoint(a, one.URL, "all")
		s.endpoint(a, two.URL, "all")
		const events = 250
		first := s.emit(a, event.ChargePaid, "")
		err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			for range events - 1 {
				e := event.Event{Account: a, ID: s.IDs.New(), Ref: s.IDs.New(), Type: event.ChargePaid, Data: []byte("{}")}
				if err := s.log.Write(ctx, tx, e); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		all := func(what string, told func() int, n int) {
			t.Helper()
			clocktest.Wait(t, what, func() bool {
				s.beat() // a busy machine must not make the node look dead to itself
				s.step()
				return told() >= n
			})
		}
		all("all are told", func() int { return min(len(one.got()), len(two.got())) }, events)
		r := webhook.Range{Since: first.CreatedAt().Add(-time.Second), Until: s.clock.Now().Add(time.Second), Endpoint: to.ID, EventsMax: 200}
		total, parts := 0, 0
		for ; !r.Since.IsZero(); parts++ {
			done, err := s.RedeliverRange(t.Context(), a, r)
			if err != nil {
				t.Fatal(err)
			}
			total += done.Deliveries
			r.Since = done.Next
		}
		// Where one part begins the same millisecond may be in both.
		if parts != 2 || total < events || total > events+10 {
			t.Errorf("%d deliveries in %d parts", total, parts)
		}
		all("one is told again", func() int { return len(one.got()) }, 2*events)
		if n := len(two.got()); n != events {
			t.Errorf("the other endpoint was told %d times", n)
		}
		if _, err := s.RedeliverRange(t.Context(), a, webhook.Range{Since: r.Until, Until: r.Until, Endpoint: id.ID{}}); err == nil {
			t.Error("a range of nothing was taken")
		}
	})
}
