package inquiry

import (
	"context"
	"sync"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/crowd"
)

// Looks lets one question at a time be asked about a thing. Whoever comes while one is under way shares the next one
// with all who come meanwhile: the answer that is under way may be older than what they know.
type Looks struct {
	mu    sync.Mutex
	asked map[string]*look // under way, by what they are about
}

// look is a question under way, or the one after it.
type look struct {
	done chan struct{}
	err  error // once it is done
	next *look // nil while nobody waits for it
}

func newLook() *look { return &look{done: make(chan struct{})} }

// Join has ask called after now, and waits for its end no longer than ctx and than one question may take. What is asked
// goes on without whoever leaves.
func (l *Looks) Join(ctx context.Context, name string, ask func() error) error {
	ctx, cancel := context.WithTimeout(ctx, acquirer.TryTimeMax)
	defer cancel()
	one := l.enter(name, ask)
	select {
	case <-one.done:
		return one.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *Looks) enter(name string, ask func() error) *look {
	one, isFirst := l.find(name)
	if isFirst {
		crowd.Start(func() { l.run(name, one, ask) })
	}
	return one
}

// find returns the question that is asked after now, and whether it is to be asked by who called.
func (l *Looks) find(name string) (one *look, isFirst bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := l.asked[name]; now != nil {
		if now.next == nil {
			now.next = newLook()
		}
		return now.next, false
	}
	if l.asked == nil {
		l.asked = map[string]*look{}
	}
	one = newLook()
	l.asked[name] = one
	return one, true
}

// run asks until nobody waits for another answer.
func (l *Looks) run(name string, one *look, ask func() error) {
	for one != nil {
		one.err = guarded(ask)
		l.mu.Lock()
		next := one.next
		if next == nil {
			delete(l.asked, name)
		} else {
			l.asked[name] = next
		}
		l.mu.Unlock()
		close(one.done)
		one = next
	}
}
