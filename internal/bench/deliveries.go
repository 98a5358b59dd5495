package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/event"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/node"
	"github.com/ponte-pay/ponte/internal/schema"
	"github.com/ponte-pay/ponte/internal/seal"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/webhook"
)

const (
	deliveriesMin    = 1500                    // a second, receiver included
	firstAttemptMax  = 1000 * time.Millisecond // p99 after the event
	paceEvents       = 500                     // a second while that is measured
	benchEndpoints   = 8                       // over as many accounts
	benchEmitters    = 16
	benchAheadMax    = 2000 // events that may be written before they are delivered
	benchEventsMax   = 200_000
	deliveryTimeMax  = time.Minute
	benchReadTimeMax = 10 * time.Second
)

// sink is a receiver that answers at once and notes how old each event was.
type sink struct {
	clock *clock.Clock
	count atomic.Int64

	mu   sync.Mutex
	ages []time.Duration
}

func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x, err := event.Prefix.Parse(r.Header.Get("X-Service-Event-Id"))
	if err == nil {
		age := s.clock.Now().Sub(x.Time())
		s.mu.Lock()
		s.ages = append(s.ages, age)
		s.mu.Unlock()
		s.count.Add(1)
	}
	w.WriteHeader(http.StatusOK)
}

// take returns the ages noted so far and forgets them.
func (s *sink) take() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	ages := s.ages
	s.ages = nil
	return ages
}

// teller is a node that writes and delivers events.
type teller struct {
	*webhook.Service
	log      *event.Log
	accounts []id.Account
	sink     *sink
	written  atomic.Int64
}

// deliveries measures events a second from their transaction to a receiver's answer, with one event a transaction, and how
// soon the first attempt comes at a steady pace.
func (r *run) deliveries(ctx context.Context, e engine) error {
	r.say("deliveries on %s", e.name)
	url, err := e.fresh(ctx, "deliveries")
	if err != nil {
		return err
	}
	t, stop, err := r.startTeller(ctx, url)
	if err != nil {
		return err
	}
	defer stop()
	c := t.Clock
	started := c.Real()
	work, cancel := context.WithTimeout(ctx, r.Length)
	defer cancel()
	var emitters sync.WaitGroup
	failures := make(chan error, benchEmitters)
	for range benchEmitters {
		emitters.Go(func() {
			for work.Err() == nil && t.written.Load() < benchEventsMax {
				if t.written.Load()-t.sink.count.Load() > benchAheadMax {
					_ = c.Wait(work, time.Millisecond)
					continue
				}
				if err := t.emit(ctx); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	emitters.Wait()
	delivered, took := t.sink.count.Load(), c.RealSince(started)
	select {
	case err := <-failures:
		return err
	default:
	}
	if err := t.drain(ctx); err != nil {
		return err
	}
	row := e.rate("deliveries", "deliveries, receiver and writers included", float64(delivered)/took.Seconds())
	row.atLeast(deliveriesMin)
	r.add(row)

	r.say("%d events a second on %s", paceEvents, e.name)
	t.sink.take()
	if err := t.steady(ctx, r.Length); err != nil {
		return err
	}
	_, p99 := percentiles(t.sink.take())
	if p99 == 0 {
		return errors.New("bench: nothing was delivered")
	}
	row = e.latency("deliveries", fmt.Sprintf("p99 from event to first attempt at %d events/s", paceEvents), p99)
	row.under(float64(firstAttemptMax.Milliseconds()))
	r.add(row)
	return nil
}

// steady writes events at an even pace and waits until all are delivered.
func (t *teller) steady(ctx context.Context, limit time.Duration) error {
	const tick = 10 * time.Millisecond
	started := t.Clock.Real()
	var one sync.WaitGroup
	var failed atomic.Pointer[error]
	for n := 0; ; {
		passed := t.Clock.RealSince(started)
		if passed > limit {
			break
		}
		for ; n < int(passed.Seconds()*paceEvents); n++ {
			one.Go(func() {
				if err := t.emit(ctx); err != nil {
					failed.Store(&err)
				}
			})
		}
		if err := t.Clock.Wait(ctx, tick); err != nil {
			return err
		}
	}
	one.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return t.drain(ctx)
}

func (t *teller) drain(ctx context.Context) error {
	return poll(ctx, deliveryTimeMax, func() bool { return t.sink.count.Load() >= t.written.Load() }, "the events are not all delivered")
}

// emit writes one event, whose data is as long as a charge's.
func (t *teller) emit(ctx context.Context) error {
	n := t.written.Add(1)
	err := t.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		return t.log.Write(ctx, tx, event.Event{
			Account: t.accounts[n%int64(len(t.accounts))], ID: t.IDs.New(), Ref: t.IDs.New(), Type: event.ChargeCreated, Data: benchData,
		})
	})
	if err != nil {
		t.written.Add(-1)
	}
	return err
}

var benchData = fmt.Appendf(nil, `{"id":"chg_0","status":"pending","pix":{"copy_paste":"%0500d"}}`, 0)

// startTeller makes accounts with endpoints at one receiver, and runs what delivers.
func (r *run) startTeller(ctx context.Context, url string) (t *teller, stop func(), err error) {
	db, err := sqldb.Open(ctx, url)
	if err != nil {
		return nil, nil, err
	}
	c := clock.New(nil)
	if _, err := schema.Migrate(ctx, db, c.Real()); err != nil {
		db.Close()
		return nil, nil, err
	}
	ids := id.NewGenerator(c.Now, rand.Reader)
	n := node.New(db, c, ids.New())
	key, err := seal.NewKey(rand.Reader)
	if err != nil {
		db.Close()
		return nil, nil, err
	}
	ring, err := seal.New(key)
	if err != nil {
		db.Close()
		return nil, nil, err
	}
	t = &teller{sink: &sink{clock: c}}
	t.Service = webhook.New(webhook.Services{
		DB: db, Clock: c, IDs: ids, Random: rand.Reader, Accounts: account.New(db, c, rand.Reader), Node: n, Log: slog.New(slog.DiscardHandler),
		Ring:     func(context.Context) (*seal.Ring, error) { return ring, nil },
		Settings: webhook.Settings{Targets: webhook.Targets{Simulated: true}},
	})
	t.log = event.NewLog(t.Service)
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		db.Close()
		return nil, nil, err
	}
	server := &http.Server{Handler: t.sink, ReadHeaderTimeout: benchReadTimeMax}
	go server.Serve(listener) //nolint:errcheck // it ends when it is closed
	work, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	stop = func() {
		cancel()
		running.Wait()
		_ = server.Close()
		db.Close()
	}
	for i := range benchEndpoints {
		a, _, createErr := t.Accounts.Create(ctx, account.Params{Name: "bench"})
		if createErr == nil {
			_, _, createErr = t.Create(ctx, a.ID, webhook.Endpoint{URL: fmt.Sprintf("http://%s/%d", listener.Addr(), i)})
		}
		err = errors.Join(err, createErr)
		t.accounts = append(t.accounts, a.ID)
	}
	_, stepErr := n.Step(ctx)
	if err = errors.Join(err, stepErr); err != nil {
		stop()
		return nil, nil, err
	}
	t.work(work, n, &running)
	return t, stop, nil
}

// work runs the loops of deliveries.
func (t *teller) work(ctx context.Context, n *node.Node, running *sync.WaitGroup) {
	loop := func(every time.Duration, wake <-chan struct{}, step func(context.Context) (bool, error)) {
		running.Go(func() {
			for ctx.Err() == nil {
				if did, err := step(ctx); (err != nil || !did) && t.Clock.WaitOr(ctx, every, wake) != nil {
					return
				}
			}
		})
	}
	loop(500*time.Millisecond, nil, n.Step)
	loop(400*time.Millisecond, nil, t.Refresh)
	loop(200*time.Millisecond, nil, t.Find)
	loop(50*time.Millisecond, t.WakeStore(), t.Store)
	loop(250*time.Millisecond, nil, t.Settle)
	for pool, workers := range []int{webhook.QuickSenders, webhook.SlowSenders} {
		for range workers {
			loop(time.Minute, t.Wake(webhook.Pool(pool)), func(ctx context.Context) (bool, error) { return t.Send(ctx, webhook.Pool(pool)) })
		}
	}
}
