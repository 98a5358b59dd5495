// Package live tells pages that are open what happens to their account, whichever node it happened on, soon and once.
package live

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ponte-pay/ponte/internal/event"
	"github.com/ponte-pay/ponte/internal/id"
)

// Bounds of a hub.
const (
	streamsMax       = 1024 // of a node
	personStreamsMax = 8    // of a person on a node; pages that nobody looks at have none
	pageMax          = 100  // events of an account that are told one by one in a step; where more came, only that
	waitingMax       = 200  // what a stream may be behind before it is cut

	// StepEvery is how often a hub should look.
	StepEvery = 250 * time.Millisecond
)

// Hub reads the feed of each account that somebody looks at, once for all who do.
type Hub struct {
	feed *event.Feed

	stepping sync.Mutex // one step at a time: it alone moves cursors

	mu       sync.Mutex
	accounts map[id.Account]*account
	people   map[id.ID]int // streams of each
	streams  int
	closed   bool
}

// account is an account that somebody looks at.
type account struct {
	after   id.ID // the last event that was told; zero before the first
	streams map[*Stream]struct{}
}

// New returns a hub for the events of feed.
func New(feed *event.Feed) *Hub {
	return &Hub{feed: feed, accounts: map[id.Account]*account{}, people: map[id.ID]int{}}
}

// Why there is no stream.
var (
	ErrFull   = errors.New("live: too many streams")
	ErrClosed = errors.New("live: closed")
)

// News is something that happened.
type News struct {
	Event event.Event
	Many  bool // too much happened to tell each; there is no event
}

// Stream is one page that is told.
type Stream struct {
	hub     *Hub
	account id.Account
	person  id.ID
	news    chan News
	ended   chan struct{}
}

// Join returns a stream of what happens to an account from now on: of every event that is not committed yet. It fails with
// [ErrFull] when the person, or the node, has too many, and with [ErrClosed] after Close. Its caller leaves it.
func (h *Hub) Join(ctx context.Context, of id.Account, person id.ID) (*Stream, error) {
	if err := h.check(person); err != nil {
		return nil, err
	}
	last, err := h.feed.Last(ctx, of)
	if err != nil {
		return nil, fmt.Errorf("live: %w", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.room(person); err != nil {
		return nil, err
	}
	a := h.accounts[of]
	if a == nil {
		a = &account{after: last, streams: map[*Stream]struct{}{}}
		h.accounts[of] = a
	}
	s := &Stream{hub: h, account: of, person: person, news: make(chan News, waitingMax), ended: make(chan struct{})}
	a.streams[s] = struct{}{}
	h.people[person]++
	h.streams++
	return s, nil
}

// check is room, before the database is asked for anything.
func (h *Hub) check(person id.ID) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.room(person)
}

func (h *Hub) room(person id.ID) error {
	switch {
	case h.closed:
		return ErrClosed
	case h.streams >= streamsMax || h.people[person] >= personStreamsMax:
		return ErrFull
	}
	return nil
}

// News returns what happens.
func (s *Stream) News() <-chan News { return s.news }

// Ended is closed when nothing more comes: the stream is too far behind, or the hub was closed.
func (s *Stream) Ended() <-chan struct{} { return s.ended }

// Leave ends the stream.
func (s *Stream) Leave() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.hub.drop(s)
}

// drop takes a stream out, once.
func (h *Hub) drop(s *Stream) {
	a := h.accounts[s.account]
	if a == nil {
		return
	}
	if _, ok := a.streams[s]; !ok {
		return
	}
	close(s.ended)
	delete(a.streams, s)
	if len(a.streams) == 0 {
		delete(h.accounts, s.account)
	}
	if h.people[s.person]--; h.people[s.person] == 0 {
		delete(h.people, s.person)
	}
	h.streams--
}

// Close ends every stream, and lets nobody in any more.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for _, a := range h.accounts {
		for s := range a.streams {
			h.drop(s)
		}
	}
}

// Step tells what has happened since the last step. An account that cannot be read does not keep the others waiting.
func (h *Hub) Step(ctx context.Context) (did bool, err error) {
	h.stepping.Lock()
	defer h.stepping.Unlock()
	for of, after := range h.cursors() {
		news, next, readErr := h.read(ctx, of, after)
		if readErr != nil {
			err = errors.Join(err, fmt.Errorf("live: %s: %w", of, readErr))
			continue
		}
		h.tell(of, next, news)
	}
	return false, err
}

// read returns what came after an event, and where to go on.
func (h *Hub) read(ctx context.Context, of id.Account, after id.ID) (news []News, next id.ID, err error) {
	page, err := h.feed.After(ctx, of, after, pageMax)
	if errors.Is(err, event.ErrUnknown) || len(page) == pageMax { // it is older than events are kept, or there is too much
		next, err = h.feed.Last(ctx, of)
		return []News{{Many: true}}, next, err
	}
	next = after
	for _, e := range page {
		news, next = append(news, News{Event: e}), e.ID
	}
	return news, next, err
}

// cursors returns how far each account was told.
func (h *Hub) cursors() map[id.Account]id.ID {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make(map[id.Account]id.ID, len(h.accounts))
	for of, a := range h.accounts {
		all[of] = a.after
	}
	return all
}

// tell gives news to all who look at an account. Who does not take them is cut, and comes back for what was missed.
func (h *Hub) tell(of id.Account, after id.ID, news []News) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.accounts[of]
	if a == nil {
		return // the last one left meanwhile
	}
	a.after = after
	for s := range a.streams {
		if cap(s.news)-len(s.news) < len(news) {
			h.drop(s)
			continue
		}
		for _, n := range news {
			s.news <- n
		}
	}
}
