package inquiry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// ReturnTimeMax is how old a payment can be when it is given back.
const ReturnTimeMax = 90 * 24 * time.Hour

// Passes are how old things are when an acquirer's list of them is read: at once for what nobody told us of, and again
// later for money that was given back since, which no list tells by itself.
var Passes = []time.Duration{0, 10 * time.Minute, 24 * time.Hour, ReturnTimeMax}

const (
	readLag     = 3 * time.Second             // of business time in which we are told of what happens, and need not look
	ReadEvery   = 20 * time.Second            // of business time; Passes over old things are read less often
	readShare   = 20                          // of a pass's age that may go by between two reads
	readOverlap = 30 * time.Second            // that is read again, because clocks differ and lists may be late
	windowMax   = 24 * time.Hour              // read at once after a long absence
	windowMin   = time.Minute + 2*readOverlap // is read however much it lists; half of it is still beyond the overlap
	againAfter  = 5 * time.Minute             // that a list waits at most which could not be read again
	pagesMax    = 2000                        // of a window; one that has more is halved
)

// Lists remembers until when each list was read, for all nodes.
type Lists struct {
	DB    *sqldb.DB
	Clock *clock.Clock
}

// List is a list that an acquirer keeps.
type List struct {
	Name string                                                     // never changes: until when it was read is stored by it
	Age  time.Duration                                              // of what is read, one of [Passes]
	Past time.Duration                                              // how far back it begins when it was never read; 0 means now
	Span time.Duration                                              // how much of it is read at once; 0 means a day
	Read func(ctx context.Context, w acquirer.Window) (Read, error) // reads and follows one page
}

// Read is a page that was read.
type Read struct {
	Next       string // the cursor of the next page; "" on the last
	Unfollowed error  // what could not be followed, which keeps nothing else from being read; nil for nothing
}

// Reconcile makes one read of every pass of each acquirer's list, the acquirers at once, so that none waits for another. It
// reports whether there is more to read. find returns the list of an acquirer that has one.
func (l Lists) Reconcile(ctx context.Context, acquirers []acquirer.Health, find func(acquirer string) (List, bool)) (did bool, err error) {
	var more atomic.Bool
	err = Each(acquirers, func(h *acquirer.Health) error {
		list, ok := find(h.Acquirer)
		if !ok {
			return nil
		}
		var failed error
		for _, list.Age = range Passes {
			some, err := l.Step(ctx, list)
			if some {
				more.Store(true)
			}
			failed = errors.Join(failed, err)
			if isSilence(err) {
				break
			}
		}
		return failed
	})
	return more.Load() && err == nil, err
}

// Step makes one read of a list and reports whether there is more to read.
func (l Lists) Step(ctx context.Context, list List) (more bool, err error) {
	name := list.Name
	if list.Age > 0 {
		name = fmt.Sprintf("%s, %s later", name, list.Age)
	}
	until := l.Clock.Now().Add(-max(list.Age, readLag))
	read, err := l.readUntil(ctx, name, list.Past)
	if err != nil || until.Sub(read) < max(ReadEvery, list.Age/readShare) {
		return false, err
	}
	err = l.alone(ctx, name, func() error {
		window := acquirer.Window{From: read.Add(-readOverlap), To: until}
		if span := cmp.Or(list.Span, windowMax); until.Sub(read) > span {
			window.To = read.Add(span)
		}
		for {
			whole, err := readWindow(ctx, list, window)
			if err != nil {
				return err
			}
			if whole {
				break
			}
			window.To = window.From.Add(window.To.Sub(window.From) / 2)
		}
		more = window.To.Before(until)
		return l.setRead(ctx, name, window.To)
	})
	return more && err == nil, err
}

// Again reads parts of a list again, as often as said, because what they list may have changed and no list tells that.
// next returns the part after a moment, and false after the last. A part is read as far as its pages go.
func (l Lists) Again(ctx context.Context, list List, every time.Duration, next func(ctx context.Context, after time.Time) (acquirer.Window, bool, error)) error {
	name := list.Name + ", again"
	now := l.Clock.Now()
	read, err := l.readUntil(ctx, name, every)
	if err != nil || now.Sub(read) < every {
		return err
	}
	return l.alone(ctx, name, func() error {
		var failed error
		for after := (time.Time{}); ; {
			window, found, err := next(ctx, after)
			if err != nil {
				return errors.Join(failed, err)
			}
			if !found {
				break
			}
			after = window.To
			whole, err := readWindow(ctx, list, window)
			if err == nil && !whole {
				err = fmt.Errorf("inquiry: %s has more than %d pages from %v to %v", list.Name, pagesMax, window.From, window.To)
			}
			if err != nil {
				failed = err // nothing else waits for it
			}
			if IsAcquirers(err) {
				break
			}
		}
		if failed != nil {
			return errors.Join(failed, l.setRead(ctx, name, now.Add(min(every, againAfter)-every)))
		}
		return l.setRead(ctx, name, now)
	})
}

// alone runs f unless another node does so; that one has nothing to add.
func (l Lists) alone(ctx context.Context, name string, f func() error) error {
	lock, err := l.DB.TryLock(ctx, lockName(name))
	if errors.Is(err, sqldb.ErrLocked) {
		return nil
	}
	if err != nil {
		return err
	}
	defer lock.Unlock(ctx)
	return f()
}

// readWindow follows what a window lists, and reports whether it came to the end.
func readWindow(ctx context.Context, list List, w acquirer.Window) (whole bool, err error) {
	var failed error
	for pages := 0; ; pages++ {
		if pages == pagesMax && w.To.Sub(w.From) > windowMin {
			return false, failed
		}
		page, err := list.Read(ctx, w)
		if err != nil {
			return false, errors.Join(failed, err)
		}
		if page.Unfollowed != nil {
			failed = page.Unfollowed
		}
		if page.Next == "" {
			return true, failed
		}
		w.Cursor = page.Next
	}
}

const (
	selectCursor = `SELECT read_at FROM acquirer_cursor WHERE acquirer = $1`
	upsertCursor = `INSERT INTO acquirer_cursor (acquirer, read_at) VALUES ($1, $2)
ON CONFLICT (acquirer) DO UPDATE SET read_at = excluded.read_at WHERE acquirer_cursor.read_at < excluded.read_at`
)

// readUntil returns until when a list was read. One that never was begins that long ago, from now on, so that nothing is
// missed when the first reads fail.
func (l Lists) readUntil(ctx context.Context, name string, past time.Duration) (time.Time, error) {
	read, err := sqldb.One(ctx, l.DB, sqldb.Scalar[int64], selectCursor, name)
	if errors.Is(err, sqldb.ErrNoRows) {
		begin := l.Clock.Now().Add(-past)
		return begin, l.setRead(ctx, name, begin)
	}
	return time.UnixMicro(read).UTC(), err
}

func (l Lists) setRead(ctx context.Context, name string, until time.Time) error {
	return l.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.Queue(ctx, upsertCursor, name, until.UnixMicro())
		return nil
	})
}

// lockName spreads lists over lock keys. The number means nothing.
func lockName(name string) int64 {
	key := int64(0x5265636f)
	for _, b := range []byte(name) {
		key = key*131 + int64(b)
	}
	return key
}
