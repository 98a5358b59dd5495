// Package inquiry asks acquirers about many things: never two questions about one thing at a time, never on and on at one
// that does not answer, and never only because somebody said so.
//
// It knows neither charges nor payouts. What is asked and what follows from the answer is its caller's. A crypto provider
// is an acquirer here.
package inquiry

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/chain"
	"github.com/ponte-pay/ponte/internal/crowd"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// workersMax are the questions that one step asks at once.
const workersMax = 16

// Each calls f for every item, several at once, and returns one of the failures. A panic in f is one: it must not end the
// process because of what an acquirer answered.
func Each[T any](items []T, f func(*T) error) error { return each(items, workersMax, f) }

// EachKnown is Each for what takes no question: many more at once, because writes share what they cost.
func EachKnown[T any](items []T, f func(*T) error) error { return each(items, writersMax, f) }

func each[T any](items []T, workers int, f func(*T) error) error {
	var mu sync.Mutex
	var failed error
	crowd.Each(len(items), workers, func(i int) {
		if err := guarded(func() error { return f(&items[i]) }); err != nil {
			mu.Lock()
			defer mu.Unlock()
			failed = err
		}
	})
	return failed
}

// guarded calls f and makes an error of a panic.
func guarded(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("inquiry: panic: %v\n%s", p, debug.Stack())
		}
	}()
	return f()
}

// Silence are the acquirers that did not answer in a step. The zero Silence is none.
type Silence struct{ names sync.Map }

// Has reports whether an acquirer did not answer.
func (s *Silence) Has(name string) bool {
	_, ok := s.names.Load(name)
	return ok
}

// Note notes an acquirer when err means that it would not answer the next question either, and reports whether that is
// news.
func (s *Silence) Note(name string, err error) bool {
	if !isSilence(err) {
		return false
	}
	_, known := s.names.LoadOrStore(name, struct{}{})
	return !known
}

// isSilence reports whether err means that an acquirer would not answer the next question either.
func isSilence(err error) bool {
	if failure, ok := errors.AsType[*chain.Error](err); ok {
		return failure.Class != chain.Protocol && failure.Class != chain.Business
	}
	failure, ok := errors.AsType[*acquirer.Error](err)
	return ok && failure.Class != acquirer.Protocol && failure.Class != acquirer.Business
}

// IsAcquirers reports whether err is how an acquirer failed, and not ourselves.
func IsAcquirers(err error) bool {
	_, bank := errors.AsType[*acquirer.Error](err)
	_, provider := errors.AsType[*chain.Error](err)
	return bank || provider
}

const (
	stuckTimeMax = time.Hour // of business time that one thing may hold a list up
	stuckMax     = 1000      // things that are remembered to do so
)

// Stuck are things that a list shows and that cannot be followed: an answer that makes no sense, or a defect of ours. They
// are tried again for a while, and then must not keep the rest of the list from being read. The zero Stuck is none.
type Stuck struct {
	mu    sync.Mutex
	since map[string]time.Time
}

// IsOver notes that something could not be followed at a moment, and reports whether that has been so for too long. What
// time alone can mend, an acquirer that does not answer or a database that is away, is never over.
func (s *Stuck) IsOver(name string, err error, now time.Time) bool {
	if isSilence(err) || errors.Is(err, sqldb.ErrUnavailable) || errors.Is(err, sqldb.ErrCommitUnknown) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	since, known := s.since[name]
	if known {
		return now.Sub(since) >= stuckTimeMax
	}
	if s.since == nil || len(s.since) >= stuckMax {
		s.since = map[string]time.Time{}
	}
	s.since[name] = now
	return false
}

const memoryMax = 50_000 // names, twice

// Memory remembers what needs no second look, so that lists that are read again cost no queries. It forgets the oldest.
// The zero Memory is empty.
type Memory struct {
	mu         sync.Mutex
	young, old map[string]bool
}

// Has reports whether a name was added, unless it is forgotten.
func (m *Memory) Has(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.young[name] || m.old[name]
}

// Add adds a name.
func (m *Memory) Add(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.young == nil || len(m.young) >= memoryMax {
		m.young, m.old = map[string]bool{}, m.young
	}
	m.young[name] = true
}
