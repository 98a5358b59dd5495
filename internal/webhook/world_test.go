package webhook_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/ponte-pay/ponte/client/webhook"
	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/event"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/node"
	"github.com/ponte-pay/ponte/internal/seal"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/webhook"
)

// server is a node of Ponte that writes and delivers events, driven by hand.
type server struct {
	*webhook.Service
	t     *testing.T
	clock *clock.Clock
	node  *node.Node
	log   *event.Log
	feed  *event.Feed
	later *atomic.Int64 // nanoseconds that real time is ahead of the machine's
}

var sealKey = make([]byte, seal.KeyBytes)

const timeout = 200 * time.Millisecond

func start(t *testing.T, db *sqldb.DB) *server {
	t.Helper()
	later := new(atomic.Int64)
	c := clock.New(func() time.Time { return time.Now().Add(time.Duration(later.Load())) })
	if err := node.LoadClock(t.Context(), db, c); err != nil {
		t.Fatal(err)
	}
	ids := id.NewGenerator(c.Now, rand.Reader)
	s := &server{t: t, clock: c, node: node.New(db, c, ids.New()), feed: event.NewFeed(db), later: later}
	ring, err := seal.New(sealKey)
	if err != nil {
		t.Fatal(err)
	}
	s.Service = webhook.New(webhook.Services{
		DB: db, Clock: c, IDs: ids, Random: rand.Reader, Accounts: account.New(db, c, rand.Reader), Node: s.node,
		Ring: func(context.Context) (*seal.Ring, error) { return ring, nil }, Log: slog.New(slog.DiscardHandler),
		Settings: webhook.Settings{Timeout: timeout, Targets: webhook.Targets{Simulated: true}},
	})
	s.log = event.NewLog(s.Service)
	s.beat()
	s.must(s.Refresh(t.Context()))
	return s
}

func (s *server) must(_ bool, err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// beat shows that the node lives, to itself and to others.
func (s *server) beat() {
	s.t.Helper()
	if s.later.Load() == 0 { // a clock that is ahead makes a node not ready
		s.must(s.node.Step(s.t.Context()))
	} else {
		_, _ = s.node.Step(s.t.Context())
	}
}

// step does everything once, as the loops do all the time.
func (s *server) step() {
	s.t.Helper()
	ctx := s.t.Context()
	s.must(s.Refresh(ctx))
	s.must(s.Find(ctx))
	s.send()
	s.must(s.Store(ctx))
	s.must(s.Settle(ctx))
}

// send sends all that is in hand, many at once.
func (s *server) send() {
	s.t.Helper()
	var senders sync.WaitGroup
	for i := range 24 {
		senders.Go(func() {
			for {
				did, err := s.Send(s.t.Context(), webhook.Pool(i%2))
				if err != nil {
					s.t.Error(err)
				}
				if !did {
					return
				}
			}
		})
	}
	senders.Wait()
}

// advance moves business time.
func (s *server) advance(d time.Duration) {
	s.t.Helper()
	if err := node.StoreClock(s.t.Context(), s.DB, s.clock, s.clock.Offset()+d); err != nil {
		s.t.Fatal(err)
	}
}

func (s *server) account() id.Account {
	s.t.Helper()
	a, _, err := s.Accounts.Create(s.t.Context(), account.Params{Name: "shop"})
	if err != nil {
		s.t.Fatal(err)
	}
	return a.ID
}

func (s *server) endpoint(owner id.Account, url, events string) (*webhook.Endpoint, string) {
	s.t.Helper()
	types, err := webhook.ParseEvents(events)
	if err != nil {
		s.t.Fatal(err)
	}
	e, secret, err := s.Create(s.t.Context(), owner, webhook.Endpoint{URL: url, Events: types})
	if err != nil {
		s.t.Fatal(err)
	}
	return e, secret
}

// emit writes an event in a transaction of its own.
func (s *server) emit(owner id.Account, kind event.Type, postback string) event.Event {
	s.t.Helper()
	var e event.Event
	err := s.DB.Write(s.t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		e = event.Event{
			Account: owner, ID: s.IDs.New(), Ref: s.IDs.New(), Type: kind, Data: []byte(`{"id":"chg_1", "amount":10.50 }`), Postback: postback,
		}
		return s.log.Write(ctx, tx, e)
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return e
}

// states returns how an event stands at each of its endpoints, such as delivered 1.
func (s *server) states(e event.Event) []string {
	s.t.Helper()
	list, err := s.Deliveries(s.t.Context(), e.Account, e.ID)
	if err != nil {
		s.t.Fatal(err)
	}
	var out []string
	for _, d := range list {
		out = append(out, string(d.State)+" "+strconv.Itoa(len(d.Attempts)))
	}
	return out
}

func (s *server) want(e event.Event, states ...string) {
	s.t.Helper()
	if got := s.states(e); strings.Join(got, ", ") != strings.Join(states, ", ") {
		s.t.Errorf("%s is %q, want %q", event.Prefix.Format(e.ID), got, states)
	}
}

// got is one delivery as a receiver saw it.
type got struct {
	id, kind, attempt, signature, body string
}

// receiver is somebody who is told.
type receiver struct {
	*httptest.Server
	status atomic.Int64

	mu   sync.Mutex
	list []got
}

func receive(t *testing.T, status int) *receiver {
	t.Helper()
	r := &receiver{}
	r.status.Store(int64(status))
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		r.mu.Lock()
		r.list = append(r.list, got{
			request.Header.Get("x-service-event-id"), request.Header.Get("x-service-event-type"), request.Header.Get("x-service-attempt"),
			request.Header.Get("x-service-signature"), string(body),
		})
		r.mu.Unlock()
		if status := int(r.status.Load()); status > 0 {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "seen")
			return
		}
		<-request.Context().Done() // it hangs
	}))
	t.Cleanup(func() { r.CloseClientConnections(); r.Close() })
	return r
}

func (r *receiver) got() []got {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]got(nil), r.list...)
}

// check fails the test unless a delivery is genuine and is this event.
func check(t *testing.T, g got, e event.Event, secret string, attempt int) {
	t.Helper()
	if err := client.Verify(g.signature, []byte(g.body), secret, time.Now()); err != nil {
		t.Errorf("%s: %v", g.signature, err)
	}
	if g.body != string(e.Body()) || g.id != event.Prefix.Format(e.ID) || g.kind != string(e.Type) || g.attempt != strconv.Itoa(attempt) {
		t.Errorf("%+v, want attempt %d of %s", g, attempt, e.Body())
	}
	var envelope struct {
		ID        string          `json:"id"`
		Type      string          `json:"type"`
		CreatedAt time.Time       `json:"created_at"`
		Data      json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal([]byte(g.body), &envelope); err != nil || envelope.ID != g.id || string(envelope.Data) != string(e.Data) || !envelope.CreatedAt.Equal(e.CreatedAt()) {
		t.Errorf("%+v %v", envelope, err)
	}
}
