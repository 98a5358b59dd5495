package sqldb

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/ponte-pay/ponte/internal/clock"
)

// lookTimeMax is how long the look of a [SharedLook] may take.
const lookTimeMax = time.Second

// SharedLook is a question that many ask at the same time: a query of one row, without arguments. All who have asked before a
// look begins share its answer, and a look begins when the one before has ended. So each is told what was committed before it
// asked, and the more ask, the less it costs. It is not [rides], whose riders each have a question of their own: here one word
// tells all of them.
type SharedLook[T any] struct {
	db   *DB
	scan func(Row) (T, error)
	sql  string

	mu   sync.Mutex
	next *look[T] // can be joined, because it has not begun; nil for none
	last *look[T] // has begun; nil for none
}

// look is one answer for all who wait for it.
type look[T any] struct {
	ended chan struct{} // closed when the answer is there
	saw   T
	err   error
}

// NewSharedLook returns a question to db, which waits for nobody who writes.
func NewSharedLook[T any](db *DB, scan func(Row) (T, error), sql string) *SharedLook[T] {
	return &SharedLook[T]{db: db.Apart(), scan: scan, sql: sql}
}

// Ask returns the answer. It waits for two looks at most, also when ctx has ended. What makes a look fail is told to all who
// share it, and says nothing about their own questions.
func (s *SharedLook[T]) Ask(ctx context.Context) (T, error) {
	s.mu.Lock()
	if l := s.next; l != nil {
		s.mu.Unlock()
		<-l.ended
		return l.saw, l.err
	}
	l := &look[T]{ended: make(chan struct{}), err: errNoReader}
	before := s.last
	s.next = l
	s.mu.Unlock()
	if before != nil {
		<-before.ended
	}
	runtime.Gosched() // whoever is about to ask as well comes along
	s.mu.Lock()
	s.next, s.last = nil, l
	s.mu.Unlock()
	defer close(l.ended) // also when the scan panics
	ctx, cancel := clock.Until(context.WithoutCancel(ctx), time.Now().Add(lookTimeMax), errNoReader)
	defer cancel()
	l.saw, l.err = One(ctx, s.db, s.scan, s.sql)
	return l.saw, l.err
}
