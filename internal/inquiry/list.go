package inquiry

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// passes are how old things are when an acquirer's list of them is read: at once for what nobody told us of, and again
// later for money that was given back since, which no list tells by itself. After 90 days nothing is given back.
var passes = []time.Duration{0, 10 * time.Minute, 24 * time.Hour, 90 * 24 * time.Hour}

const (
	readEvery   = 20 * time.Second            // of business time; passes over old things are read less often
	readShare   = 20                          // of a pass's age that may go by between two reads
	readOverlap = 30 * time.Second            // that is read again, because clocks differ and lists may be late
	windowMax   = 24 * time.Hour              // read at once after a long absence
	windowMin   = time.Minute + 2*readOverlap // is read however much it lists; half of it is still beyond the overlap
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
	Age  time.Duration                                              // of what is read, one of passes
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
		for _, list.Age = range passes {
			some, err := l.step(ctx, list)
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

// step makes one read of a list and reports whether there is more to read.
func (l Lists) step(ctx context.Context, list List) (more bool, err error) {
	name := list.Name
	if list.Age > 0 {
		name = fmt.Sprintf("%s, %s later", name, list.Age)
	}
	until := l.Clock.Now().Add(-list.Age)
	read, err := l.readUntil(ctx, name)
	if err != nil || until.Sub(read) < max(readEvery, list.Age/readShare) {
		return false, err
	}
	// One node at a time; the others have nothing to add.
	lock, err := l.DB.TryLock(ctx, lockName(name))
	if errors.Is(err, sqldb.ErrLocked) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer lock.Unlock(ctx)

	window := acquirer.Window{From: read.Add(-readOverlap), To: until}
	if until.Sub(read) > windowMax {
		window.To = read.Add(windowMax)
	}
	for {
		whole, err := readWindow(ctx, list, window)
		if err != nil {
			return false, err
		}
		if whole {
			break
		}
		window.To = window.From.Add(window.To.Sub(window.From) / 2)
	}
	return window.To.Before(until), l.setRead(ctx, name, window.To)
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

// readUntil returns until when a list was read. One that never was begins now, so that nothing is missed when the first
// reads fail.
func (l Lists) readUntil(ctx context.Context, name string) (time.Time, error) {
	read, err := sqldb.One(ctx, l.DB, sqldb.Scalar[int64], selectCursor, name)
	if errors.Is(err, sqldb.ErrNoRows) {
		now := l.Clock.Now()
		return now, l.setRead(ctx, name, now)
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
