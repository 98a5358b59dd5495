// Package inquiry asks acquirers about many things: never two questions about one thing at a time, never on and on at one
// that does not answer, and never only because somebody said so.
//
// It knows neither charges nor payouts. What is asked and what follows from the answer is its caller's. A crypto provider
// is an acquirer here.
package inquiry

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/chain"
)

// workersMax are the questions that one step asks at once.
const workersMax = 16

// Each calls f for every item, several at once, and returns one of the failures.
func Each[T any](items []T, f func(*T) error) error {
	var next atomic.Int64
	var workers sync.WaitGroup
	failures := make(chan error, workersMax)
	for range min(workersMax, len(items)) {
		workers.Go(func() {
			var failed error
			for i := next.Add(1) - 1; i < int64(len(items)); i = next.Add(1) - 1 {
				if err := f(&items[i]); err != nil {
					failed = err
				}
			}
			failures <- failed
		})
	}
	workers.Wait()
	close(failures)
	for err := range failures {
		if err != nil {
			return err
		}
	}
	return nil
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
	silent := false
	if failure, ok := errors.AsType[*acquirer.Error](err); ok {
		silent = failure.Class != acquirer.Protocol && failure.Class != acquirer.Business
	}
	if failure, ok := errors.AsType[*chain.Error](err); ok {
		silent = failure.Class != chain.Protocol && failure.Class != chain.Business
	}
	if !silent {
		return false
	}
	_, known := s.names.LoadOrStore(name, struct{}{})
	return !known
}

// IsAcquirers reports whether err is how an acquirer failed, and not ourselves.
func IsAcquirers(err error) bool {
	_, bank := errors.AsType[*acquirer.Error](err)
	_, provider := errors.AsType[*chain.Error](err)
	return bank || provider
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
