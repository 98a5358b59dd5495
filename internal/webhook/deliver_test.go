package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	client "github.com/ponte-pay/ponte/client/webhook"
	"github.com/ponte-pay/ponte/internal/event"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/node"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
	"github.com/ponte-pay/ponte/internal/webhook"
)

func TestDelivered(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		s := start(t, db)
		a, other := s.account(), s.account()
		all, paid, stranger := receive(t, 200), receive(t, 204), receive(t, 200)
		_, allSecret := s.endpoint(a, all.URL+"/all", "all")
		s.endpoint(a, paid.URL+"/paid", "charge.paid,payout.failed")
		s.endpoint(other, stranger.URL, "all")
		created, settled := s.emit(a, event.ChargeCreated, ""), s.emit(a, event.ChargePaid, "")
		s.step()
		s.want(created, "delivered 1")
		s.want(settled, "delivered 1", "delivered 1")
		if n := len(all.got()); n != 2 || len(paid.got()) != 1 || len(stranger.got()) != 0 {
			t.Fatalf("%d, %d, %d deliveries", n, len(paid.got()), len(stranger.got()))
		}
		for _, g := range all.got() {
			e := created
			if g.kind == string(event.ChargePaid) {
				e = settled
			}
			check(t, g, e, allSecret, 1)
		}
		list, err := s.Deliveries(t.Context(), a, created.ID)
		if err != nil || len(list[0].Attempts) != 1 || list[0].Attempts[0].Status != 200 || string(list[0].Attempts[0].Response) != "seen" {
			t.Errorf("%+v %v", list, err)
		}
	})
}

// A postback_url is told in any case, and once.
func TestPostback(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		s := start(t, db)
		a := s.account()
		subscribed, unsubscribed := receive(t, 200), receive(t, 200)
		s.endpoint(a, subscribed.URL, "charge.created")
		e, _ := s.endpoint(a, unsubscribed.URL, "payout.failed")
		for url, want := range map[string]bool{"": true, subscribed.URL: true, unsubscribed.URL: true, unsubscribed.URL + "/": false} {
			if err := s.PermitPostback(t.Context(), a, url); (err == nil) != want {
				t.Errorf("%q: %v", url, err)
			}
		}
		if err := s.PermitPostback(t.Context(), s.account(), subscribed.URL); err == nil {
			t.Error("another account's endpoint will do")
		}
		s.want(s.emit(a, event.ChargeCreated, subscribed.URL), "waiting 0")
		s.want(s.emit(a, event.ChargeCreated, unsubscribed.URL), "waiting 0", "waiting 0")
		s.step()
		if len(subscribed.got()) != 2 || len(unsubscribed.got()) != 1 {
			t.Errorf("%d, %d deliveries", len(subscribed.got()), len(unsubscribed.got()))
		}
		if _, err := s.Disable(t.Context(), webhook.Prefix.Format(e.ID)); err != nil {
			t.Fatal(err)
		}
		var refused *fault.Error
		if err := s.PermitPostback(t.Context(), a, unsubscribed.URL); !errors.As(err, &refused) || refused.Code != "postback_url_not_registered" {
			t.Errorf("a disabled endpoint: %v", err)
		}
		// What another process registered counts at once.
		command := start(t, db)
		late := receive(t, 200)
		command.endpoint(a, late.URL, "all")
		if err := s.PermitPostback(t.Context(), a, late.URL); err != nil {
			t.Error(err)
		}
	})
}

func TestRetries(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		s := start(t, db)
		a := s.account()
		broken := receive(t, 500)
		_, secret := s.endpoint(a, broken.URL, "all")
		e := s.emit(a, event.ChargePaid, "")
		waits := []time.Duration{time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 12 * time.Hour}
		s.step()
		for i, wait := range waits {
			s.want(e, fmt.Sprintf("waiting %d", i+1))
			s.advance(wait - 5*time.Second)
			s.step()
			s.want(e, fmt.Sprintf("waiting %d", i+1))
			s.advance(5 * time.Second)
			s.step()
		}
		s.want(e, "parked 6")
		s.advance(100 * 24 * time.Hour)
		s.step()
		s.want(e, "parked 6")
		for i, g := range broken.got() {
			check(t, g, e, secret, i+1)
		}
		list, err := s.Deliveries(t.Context(), a, e.ID)
		if err != nil {
			t.Fatal(err)
		}
		for i, wait := range waits {
			between := list[0].Attempts[i+1].At.Sub(list[0].Attempts[i].At)
			if between < wait || between > wait+10*time.Second {
				t.Errorf("%v between attempts %d and %d, want %v", between, i+1, i+2, wait)
			}
		}
		if n, err := s.CountParked(t.Context()); n != 1 || err != nil {
			t.Errorf("%d parked, %v", n, err)
		}

		// By hand it goes out again, as it was, with the next number; a failure parks it again.
		again := func(failed bool) int {
			n, err := s.RedeliverRange(t.Context(), a, webhook.Range{Since: e.CreatedAt().Add(-time.Second), Until: s.clock.Now(), Failed: failed})
			if err != nil {
				t.Fatal(err)
			}
			return n.Deliveries
		}
		if n, err := s.Redeliver(t.Context(), e, ""); n != 1 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		s.step()
		s.want(e, "parked 7")
		broken.status.Store(200)
		if n := again(true); n != 1 {
			t.Errorf("%d failed ones", n)
		}
		s.step()
		s.want(e, "delivered 8")
		if n := again(true); n != 0 {
			t.Errorf("%d failed ones after it worked", n)
		}
		if n := again(false); n != 1 {
			t.Errorf("%d of all", n)
		}
		s.step()
		s.want(e, "delivered 9")
		check(t, broken.got()[8], e, secret, 9)
	})
}

func TestRedeliverElsewhere(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		s := start(t, db)
		a := s.account()
		e := s.emit(a, event.ChargePaid, "")
		if _, err := s.Redeliver(t.Context(), e, ""); err == nil {
			t.Error("nobody was to be told, and is told again")
		}
		late := receive(t, 200)
		to, secret := s.endpoint(a, late.URL, "payout.failed")
		if n, err := s.Redeliver(t.Context(), e, webhook.Prefix.Format(to.ID)); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		s.step()
		check(t, late.got()[0], e, secret, 1)
		foreign, _ := s.endpoint(s.account(), late.URL, "all")
		if _, err := s.Redeliver(t.Context(), e, webhook.Prefix.Format(foreign.ID)); !errors.Is(err, webhook.ErrNotFound) {
			t.Errorf("to another account's endpoint: %v", err)
		}
		if _, err := s.GetEvent(t.Context(), "evt_7zzzzzzzzzzzzzzzzzzzzzzzzz"); !errors.Is(err, webhook.ErrNoEvent) {
			t.Errorf("an event that is not there: %v", err)
		}
	})
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	s := start(t, sqltest.Open(t, sqltest.SQLite(t)))
	a := s.account()
	elsewhere := receive(t, 200)
	long := strings.Repeat("x", 20<<10)
	for _, test := range []struct {
		name    string
		handler http.HandlerFunc
		want    string
		status  int
	}{
		{"created", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }, "delivered 1", 201},
		{"last of 2xx", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(299) }, "delivered 1", 299},
		{"redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		}, "waiting 1", 307},
		{"not modified", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) }, "waiting 1", 304},
		{"gone", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) }, "waiting 1", 410},
		{"long", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(long)) }, "delivered 1", 200},
		{"reset", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "waiting 1", 0},
		{"hangs", func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body); <-r.Context().Done() }, "waiting 1", 0},
	} {
		server := httptest.NewServer(test.handler)
		e, _ := s.endpoint(a, server.URL, "charge.paid")
		told := s.emit(a, event.ChargePaid, "")
		s.step()
		s.want(told, test.want)
		list, err := s.Deliveries(t.Context(), a, told.ID)
		if err != nil || list[0].Attempts[0].Status != test.status || (test.status == 0) != (list[0].Attempts[0].Error != "") {
			t.Errorf("%s: %+v %v", test.name, list, err)
		}
		if n := len(list[0].Attempts[0].Response); n > 16<<10 || (test.name == "long" && n != 16<<10) {
			t.Errorf("%s: %d bytes are kept", test.name, n)
		}
		if _, err := s.Delete(t.Context(), webhook.Prefix.Format(e.ID)); err != nil {
			t.Fatal(err)
		}
		server.Close()
	}
	if len(elsewhere.got()) != 0 {
		t.Error("a redirect was followed")
	}
}

// What was registered while nothing was real is not sent to in plain text once something is.
func TestTargetIsCheckedAgain(t *testing.T) {
	t.Parallel()
	s := start(t, sqltest.Open(t, sqltest.SQLite(t)))
	a := s.account()
	r := receive(t, 200)
	s.endpoint(a, r.URL, "all")
	told := s.emit(a, event.ChargePaid, "")
	s.Settings.Targets = webhook.Targets{Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}} // only the scheme is wrong
	s.step()
	s.want(told, "waiting 1")
	if list, err := s.Deliveries(t.Context(), a, told.ID); err != nil || !strings.Contains(list[0].Attempts[0].Error, "https") || len(r.got()) != 0 {
		t.Errorf("%+v %v", list, err)
	}
}

func TestRotate(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		s := start(t, db)
		a := s.account()
		r := receive(t, 200)
		e, first := s.endpoint(a, r.URL, "all")
		name := webhook.Prefix.Format(e.ID)
		signs := func(secret string) {
			t.Helper()
			s.emit(a, event.ChargePaid, "")
			s.step()
			list := r.got()
			g := list[len(list)-1]
			if err := client.Verify(g.signature, []byte(g.body), secret, time.Now()); err != nil {
				t.Errorf("%v", err)
			}
		}
		rotate := func(after time.Duration) string {
			t.Helper()
			_, secret, err := s.Rotate(t.Context(), name, after)
			if err != nil {
				t.Fatal(err)
			}
			return secret
		}
		signs(first)
		second := rotate(24 * time.Hour)
		signs(first)
		s.advance(23 * time.Hour)
		signs(first)
		s.advance(time.Hour)
		signs(second)
		third := rotate(time.Hour)
		signs(second) // not the first, which is no more
		fourth := rotate(time.Hour)
		s.advance(time.Hour)
		signs(fourth)
		if third == fourth || first == second {
			t.Error("two secrets are one")
		}
		signs(rotate(0))
		if _, _, err := s.Rotate(t.Context(), name, -1); err == nil {
			t.Error("in the past")
		}
	})
}

func TestSwitching(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		s := start(t, db)
		a := s.account()
		r := receive(t, 500)
		e, _ := s.endpoint(a, r.URL, "all")
		name := webhook.Prefix.Format(e.ID)
		kept := s.emit(a, event.ChargePaid, "")
		s.step()
		s.want(kept, "waiting 1")
		change := func(f func(context.Context, string) (*webhook.Endpoint, error), want webhook.Status) {
			t.Helper()
			e, err := f(t.Context(), name)
			if err != nil || e.Status != want {
				t.Fatalf("%+v %v", e, err)
			}
		}
		inHand := s.emit(a, event.ChargePaid, "") // in hand while it is switched off
		change(s.Disable, webhook.Disabled)
		unseen := s.emit(a, event.ChargeCreated, "")
		s.advance(time.Hour)
		for range 3 {
			s.step()
		}
		s.want(kept, "waiting 1")
		s.want(inHand, "waiting 0")
		s.want(unseen)
		r.status.Store(200)
		change(s.Enable, webhook.Active)
		for range 3 {
			s.step()
		}
		s.want(kept, "delivered 2")
		s.want(inHand, "delivered 1")

		r.status.Store(500)
		lost := s.emit(a, event.ChargePaid, "")
		s.step()
		change(s.Delete, webhook.Deleted)
		s.advance(time.Hour)
		for range 3 {
			s.step()
		}
		s.want(lost, "cancelled 1")
		if _, err := s.Enable(t.Context(), name); !errors.Is(err, webhook.ErrNotFound) {
			t.Errorf("a deleted one: %v", err)
		}
		if list, err := s.List(t.Context(), a); err != nil || len(list) != 0 {
			t.Errorf("%v %v", list, err)
		}
		s.endpoint(a, r.URL, "all") // the URL is free again
		if _, _, err := s.Create(t.Context(), a, webhook.Endpoint{URL: r.URL}); err == nil {
			t.Error("one URL twice")
		}
	})
}

// Two nodes that live never make the same attempt; what a dead one had in hand is made by another.
func TestDeadNode(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		dead, alive := start(t, db), start(t, db)
		a := dead.account()
		r := receive(t, 200)
		dead.endpoint(a, r.URL, "all")
		alive.must(alive.Refresh(t.Context()))
		e, other := dead.emit(a, event.ChargePaid, ""), dead.emit(a, event.ChargePaid, "")
		if db.IsPostgres() {
			alive.step()
			// Business time moves by half a day: that tells nothing about who lives.
			alive.advance(12 * time.Hour)
			alive.step()
			alive.later.Store(int64(node.DeadAfter - 4*time.Second)) // the machine may be slow
			alive.beat()
			alive.step()
			if len(r.got()) != 0 {
				t.Fatal("it was taken from a node that may be in the middle of it")
			}
			alive.later.Store(int64(node.DeadAfter + timeout + 2*time.Second))
			alive.beat()
		}
		alive.step()
		alive.want(e, "delivered 1")
		if db.IsPostgres() {
			// The one that was thought dead does not send either, neither while it is silent nor when it beats again.
			dead.later.Store(int64(node.DeadAfter + time.Second))
			dead.send()
			dead.beat()
			dead.send()
			if len(r.got()) != 2 {
				t.Errorf("%d deliveries", len(r.got()))
			}
			dead.must(dead.Store(t.Context()))
		}
		// And if it does send, its result does not count.
		r.status.Store(http.StatusInternalServerError)
		dead.later.Store(0)
		dead.send()
		dead.must(dead.Store(t.Context()))
		alive.want(e, "delivered 1")
		alive.want(other, "delivered 1")
	})
}

// The log has the attempt that counted, not that of a node which did not know that it had been taken over.
func TestLogOfATakeOver(t *testing.T) {
	t.Parallel()
	db := sqltest.Open(t, sqltest.Postgres(t))
	dead, alive := start(t, db), start(t, db)
	a := dead.account()
	r := receive(t, 500)
	dead.endpoint(a, r.URL, "all")
	alive.must(alive.Refresh(t.Context()))
	e := dead.emit(a, event.ChargePaid, "")
	for _, later := range []time.Duration{0, node.DeadAfter + timeout + 2*time.Second} {
		alive.later.Store(int64(later))
		alive.beat()
		alive.must(alive.Find(t.Context()))
	}
	dead.send()
	dead.must(dead.Store(t.Context()))
	alive.want(e, "waiting 0")
	r.status.Store(200)
	alive.send()
	alive.must(alive.Store(t.Context()))
	alive.want(e, "delivered 1")
	if list, err := alive.Deliveries(t.Context(), a, e.ID); err != nil || list[0].Attempts[0].Status != 200 {
		t.Errorf("%+v %v", list, err)
	}
}

// The clock of a node may be set by hours: that neither takes deliveries from the others nor gives its own away.
func TestWrongClockTakesNothing(t *testing.T) {
	t.Parallel()
	db := sqltest.Open(t, sqltest.Postgres(t))
	right, wrong := start(t, db), start(t, db)
	a := right.account()
	r := receive(t, 200)
	right.endpoint(a, r.URL, "all")
	wrong.must(wrong.Refresh(t.Context()))
	wrong.later.Store(int64(time.Hour))
	wrong.beat()
	mine, theirs := right.emit(a, event.ChargePaid, ""), wrong.emit(a, event.ChargeCreated, "")
	wrong.must(wrong.Find(t.Context()))
	right.must(right.Find(t.Context()))
	right.send()
	if got := r.got(); len(got) != 1 || got[0].id != event.Prefix.Format(mine.ID) {
		t.Errorf("%+v", got)
	}
	wrong.send()
	right.must(right.Store(t.Context()))
	wrong.must(wrong.Store(t.Context()))
	right.want(mine, "delivered 1")
	right.want(theirs, "delivered 1")
	if n := len(r.got()); n != 2 {
		t.Errorf("%d deliveries", n)
	}
}

// Two nodes that look for the same due deliveries share them.
func TestTwoNodesShare(t *testing.T) {
	t.Parallel()
	db := sqltest.Open(t, sqltest.Postgres(t))
	one, two := start(t, db), start(t, db)
	a := one.account()
	r := receive(t, 500)
	one.endpoint(a, r.URL, "all")
	for range 100 {
		one.emit(a, event.ChargePaid, "")
	}
	one.step()
	r.status.Store(200)
	one.advance(time.Minute)
	two.must(two.node.Step(t.Context()))
	done := make(chan struct{})
	go func() { defer close(done); one.step() }()
	two.step()
	<-done
	one.step()
	seen := map[string]int{}
	for _, g := range r.got() {
		seen[g.id+" "+g.attempt]++
	}
	for name, n := range seen {
		if n != 1 {
			t.Errorf("%s was made %d times", name, n)
		}
	}
	if len(seen) != 200 {
		t.Errorf("%d attempts", len(seen))
	}
}

// A delivery of a transaction whose COMMIT was answered by nobody is marked as in hand and is not. It is found.
func TestLostHandOver(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		s := start(t, db)
		a := s.account()
		r := receive(t, 200)
		to, _ := s.endpoint(a, r.URL, "payout.failed")
		e := s.emit(a, event.ChargePaid, "")
		err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			tx.Queue(ctx, `INSERT INTO delivery (account_id, event_id, endpoint_id, lane, state, attempt, due_at, owner) VALUES ($1, $2, $3, 0, 'waiting', 0, 0, $4)`,
				int64(a), e.ID, to.ID, s.node.Boot())
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			s.want(e, "waiting 0")
			s.later.Store(int64(time.Duration(i) * 11 * time.Second))
			s.beat()
			s.step()
		}
		s.want(e, "delivered 1")
	})
}

// A server that stops leaves nothing in its hand.
func TestLeave(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		first := start(t, db)
		a := first.account()
		r := receive(t, 200)
		first.endpoint(a, r.URL, "all")
		var events []event.Event
		for range 20 {
			events = append(events, first.emit(a, event.ChargePaid, ""))
		}
		if _, err := first.Send(t.Context(), webhook.Quick); err != nil {
			t.Fatal(err)
		}
		if err := first.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		second := start(t, db)
		second.step()
		for _, e := range events {
			second.want(e, "delivered 1")
		}
		if len(r.got()) != 20 {
			t.Errorf("%d deliveries", len(r.got()))
		}
	})
}

// A body is the same bytes each time, whatever is in the data.
func TestBody(t *testing.T) {
	t.Parallel()
	e := event.Event{ID: id.First(time.Date(2026, 11, 15, 12, 0, 0, 123456000, time.UTC)), Type: event.ChargePaid, Data: []byte("{ \"é\" :1.50}")}
	want := `{"id":"` + event.Prefix.Format(e.ID) + `","type":"charge.paid","created_at":"` + e.ID.Time().Format("2006-01-02T15:04:05.000000Z") + `","data":{ "é" :1.50}}`
	if got := string(e.Body()); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestParseEvents(t *testing.T) {
	t.Parallel()
	if len(event.Types) != 21 {
		t.Errorf("%d types", len(event.Types))
	}
	for _, kind := range event.Types {
		if types, err := webhook.ParseEvents(string(kind)); err != nil || !slices.Equal(types, []event.Type{kind}) {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if types, err := webhook.ParseEvents("charge.paid, med.opened,charge.paid"); err != nil || webhook.FormatEvents(types) != "charge.paid,med.opened" {
		t.Errorf("%v %v", types, err)
	}
	for _, text := range []string{"", "charge.paid,charge.mirrored", "All", "charge.paid,", "*"} {
		if _, err := webhook.ParseEvents(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
	if _, err := webhook.ParseEvents("charge.paid,charge.mirrored"); !strings.Contains(err.Error(), `"charge.mirrored"`) {
		t.Errorf("%v does not name it", err)
	}
}
