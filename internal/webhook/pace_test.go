package webhook_test

import (
	"context"
	"errors"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/clock/clocktest"
	"github.com/ponte-pay/ponte/internal/event"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
	"github.com/ponte-pay/ponte/internal/webhook"
)

// run runs the loops of a server as app does, until the test ends.
func (s *server) run() {
	ctx, stop := context.WithCancel(s.t.Context())
	done := make(chan struct{})
	running := 0
	loop := func(every time.Duration, wake <-chan struct{}, step func(context.Context) (bool, error)) {
		running++
		go func() {
			defer func() { done <- struct{}{} }()
			for ctx.Err() == nil {
				did, err := step(ctx)
				if err != nil && ctx.Err() == nil && !errors.Is(err, sqldb.ErrUnavailable) { // which a starved machine is
					s.t.Error(err)
				}
				if !did && s.clock.WaitOr(ctx, every, wake) != nil {
					return
				}
			}
		}()
	}
	loop(500*time.Millisecond, nil, s.node.Step)
	loop(400*time.Millisecond, nil, s.Refresh)
	loop(200*time.Millisecond, nil, s.Find)
	loop(50*time.Millisecond, s.WakeStore(), s.Store)
	loop(250*time.Millisecond, nil, s.Settle)
	for pool, workers := range []int{webhook.QuickSenders, webhook.SlowSenders} {
		for range workers {
			loop(time.Minute, s.Wake(webhook.Pool(pool)), func(ctx context.Context) (bool, error) { return s.Send(ctx, webhook.Pool(pool)) })
		}
	}
	s.t.Cleanup(func() {
		stop()
		for range running {
			<-done
		}
	})
}

// backlogVariable says how many due deliveries of hung endpoints stand in front; by hand that may be many.
const (
	backlogVariable = "PONTE_BACKLOG"
	backlogDefault  = 3000

	// soon is what is asked of a machine that does much else. Behind a backlog it would be minutes; by hand the real limits
	// are asked for.
	soon = 15 * time.Second
)

// Endpoints that hang delay nobody else, however much waits for them.
func TestHungEndpointsDelayNobody(t *testing.T) {
	t.Parallel()
	backlog, first, again := backlogDefault, soon, soon
	if text := os.Getenv(backlogVariable); text != "" {
		var err error
		if backlog, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
		first, again = time.Second, 2*time.Second
	}
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		s := start(t, db)
		a := s.account()
		var hung []*webhook.Endpoint
		for range 5 {
			e, _ := s.endpoint(a, receive(t, 0).URL, "payout.failed")
			hung = append(hung, e)
		}
		healthy := receive(t, 200)
		s.endpoint(a, healthy.URL, "charge.paid")
		const slice = 500
		for n := 0; n < backlog; n += slice {
			err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
				for i := range slice {
					x := s.IDs.New()
					tx.Queue(ctx, `INSERT INTO event (account_id, id, type, data, ref) VALUES ($1, $2, 'payout.failed', $3, $2)`, int64(a), x, []byte("{}"))
					tx.Queue(ctx, `INSERT INTO delivery (account_id, event_id, endpoint_id, lane, state, attempt, due_at) VALUES ($1, $2, $3, 0, 'waiting', 0, 1)`,
						int64(a), x, hung[i%len(hung)].ID)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		s.run()
		// Fresh events, and one that waits for a retry behind all of them.
		retry := s.emit(a, event.ChargePaid, "")
		clocktest.Within(t, first, "the first attempt", func() bool { return len(healthy.got()) == 1 })
		clocktest.Wait(t, "its result", func() bool { return s.states(retry)[0] == "delivered 1" })
		if n, err := s.Redeliver(t.Context(), retry, ""); err != nil || n != 1 {
			t.Fatal(n, err)
		}
		clocktest.Within(t, again, "the redelivery", func() bool { return len(healthy.got()) == 2 })
		for n := range 20 {
			before := len(healthy.got())
			s.emit(a, event.ChargePaid, "")
			clocktest.Within(t, first, "attempt "+strconv.Itoa(n), func() bool { return len(healthy.got()) > before })
		}
	})
}

// So many endpoints that hang, with so much to be told, that all of it together is more than a node takes in hand.
func TestManyHungEndpoints(t *testing.T) {
	t.Parallel()
	s := start(t, sqltest.Open(t, sqltest.SQLite(t)))
	var hung id.Account
	const endpoints, each = 80, 130
	for n := range endpoints {
		if n%webhook.EndpointsMax == 0 {
			hung = s.account()
		}
		e, _ := s.endpoint(hung, "http://127.0.0.1:1025/"+strconv.Itoa(n), "payout.failed")
		err := s.DB.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			for range each {
				x := s.IDs.New()
				tx.Queue(ctx, `INSERT INTO event (account_id, id, type, data, ref) VALUES ($1, $2, 'payout.failed', $3, $2)`, int64(hung), x, []byte("{}"))
				tx.Queue(ctx, `INSERT INTO delivery (account_id, event_id, endpoint_id, lane, state, attempt, due_at) VALUES ($1, $2, $3, 1, 'waiting', 0, 1)`,
					int64(hung), x, e.ID)
			}
			tx.Queue(ctx, `UPDATE endpoint SET pace = 2 WHERE account_id = $1 AND id = $2`, int64(hung), e.ID)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	s = start(t, s.DB)
	for range 3 { // nobody sends meanwhile, as if each attempt took very long
		s.must(s.Find(t.Context()))
	}
	healthy := receive(t, 200)
	a := s.account()
	s.endpoint(a, healthy.URL, "charge.paid")
	e := s.emit(a, event.ChargePaid, "")
	s.must(s.Send(t.Context(), webhook.Quick))
	s.must(s.Store(t.Context()))
	s.want(e, "delivered 1")
}

// A backlog of one endpoint that answers is worked off, while others are told at once.
func TestBacklog(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		s := start(t, db)
		a := s.account()
		busy, other := receive(t, 200), receive(t, 200)
		s.endpoint(a, busy.URL, "charge.created")
		s.endpoint(a, other.URL, "charge.paid")
		const many = 5 * 128
		seen := map[id.ID]bool{}
		for range many {
			seen[s.emit(a, event.ChargeCreated, "").ID] = true
		}
		s.run()
		s.emit(a, event.ChargePaid, "")
		clocktest.Within(t, soon, "the other", func() bool { return len(other.got()) == 1 })
		clocktest.Wait(t, "the backlog", func() bool { return len(busy.got()) >= many })
		for _, g := range busy.got() {
			x, err := event.Prefix.Parse(g.id)
			if err != nil || !seen[x] {
				t.Errorf("%s is told twice or is nobody's", g.id)
			}
			delete(seen, x)
		}
	})
}

func TestFailingIsNoticed(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		s := start(t, db)
		a := s.account()
		r := receive(t, 500)
		e, _ := s.endpoint(a, r.URL, "all")
		failing := func() int {
			list, err := s.FailingLong(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return len(list)
		}
		tell := func() { s.emit(a, event.ChargePaid, ""); s.step(); s.must(s.Refresh(t.Context())) }
		tell()
		s.advance(71 * time.Hour)
		tell()
		if failing() != 0 {
			t.Error("noticed too early")
		}
		s.advance(2 * time.Hour)
		if failing() != 1 {
			t.Error("not noticed")
		}
		if list, err := s.List(t.Context(), a); err != nil || list[0].Status != webhook.Active || list[0].ID != e.ID {
			t.Errorf("it was switched off: %+v %v", list, err)
		}
		r.status.Store(200)
		tell()
		if failing() != 0 {
			t.Error("it works again")
		}
	})
}

// A failure that a success follows before anybody has written it down is none.
func TestShortFailureIsForgotten(t *testing.T) {
	t.Parallel()
	s := start(t, sqltest.Open(t, sqltest.SQLite(t)))
	a := s.account()
	r := receive(t, 500)
	s.endpoint(a, r.URL, "all")
	for _, status := range []int64{500, 200} {
		r.status.Store(status)
		s.emit(a, event.ChargePaid, "")
		s.send()
	}
	s.must(s.Settle(t.Context()))
	if list, err := s.List(t.Context(), a); err != nil || !list[0].FailingSince.IsZero() {
		t.Errorf("%+v %v", list[0], err)
	}
}

func TestPrune(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		s := start(t, db)
		a := s.account()
		good, bad := receive(t, 200), receive(t, 500)
		s.endpoint(a, good.URL, "charge.created")
		s.endpoint(a, bad.URL, "charge.paid")
		delivered, parked := s.emit(a, event.ChargeCreated, ""), s.emit(a, event.ChargePaid, "")
		if _, err := s.feed.After(t.Context(), a, id.ID{}, 10); err != nil {
			t.Fatal(err)
		}
		for range 6 {
			s.step()
			s.advance(12 * time.Hour)
		}
		s.want(parked, "parked 6")
		s.advance(91 * 24 * time.Hour)
		young := s.emit(a, event.ChargeCreated, "")
		s.step()
		for {
			did, err := s.Prune(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if !did {
				break
			}
		}
		list, err := s.feed.After(t.Context(), a, id.ID{}, 10)
		if err != nil || len(list) != 2 || list[0].ID != parked.ID || list[1].ID != young.ID {
			t.Errorf("%+v %v", list, err)
		}
		s.want(delivered)
		s.want(parked, "parked 6")
		s.want(young, "delivered 1")
		if _, err := s.feed.After(t.Context(), a, delivered.ID, 10); err == nil {
			t.Error("what is gone is known")
		}
		for table, want := range map[string]int64{
			`SELECT COUNT(*) FROM event`: 2, `SELECT COUNT(*) FROM delivery`: 2, `SELECT COUNT(*) FROM delivery_attempt`: 7, `SELECT COUNT(*) FROM feed_place`: 2,
		} {
			if n, err := sqldb.One(t.Context(), db, sqldb.Scalar[int64], table); n != want || err != nil {
				t.Errorf("%s: %d, want %d, %v", table, n, want, err)
			}
		}
	})
}
