package ledger

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/crowd"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

const (
	foldCreditsMax = 500              // credits that may wait before they are folded
	foldAgeMax     = time.Second      // real time that a credit may wait where debits need it folded
	foldCalmMax    = 10 * time.Second // and in the other books, which nearly all take from what they know to be there
	foldSlice      = 1000             // deltas folded in one transaction
	orphansEvery   = time.Minute      // real time between looks for what dead nodes left
	orphansMax     = 1000             // balances found in one look
	foldersMax     = 16               // balances folded at once: they share what that costs
	placesMax      = 100_000          // balances this node remembers; what it forgets is found as orphans
)

// foldFunc locks a balance, folds all its deltas and returns what it then holds, unwritten, with the highest identifier
// folded.
type foldFunc func(ctx context.Context, tx *sqldb.Tx, at place) (units int64, last id.ID, err error)

// lockAndFold is the only right way known: lock the row, then delete the deltas and see what was deleted, in a statement
// of its own, then write the balance.
func lockAndFold(ctx context.Context, tx *sqldb.Tx, at place) (int64, id.ID, error) {
	held, err := lock(ctx, tx, at)
	if err != nil {
		return 0, id.ID{}, err
	}
	deltas, err := sqldb.All(ctx, tx, scanWaiting, foldDeltas, int64(at.account), string(at.currency), string(at.book))
	if err != nil {
		return 0, id.ID{}, err
	}
	return held.with(deltas)
}

func lock(ctx context.Context, tx *sqldb.Tx, at place) (waiting, error) {
	held, err := sqldb.One(ctx, tx, func(r sqldb.Row) (w waiting, err error) {
		err = r.Scan(&w.units, &w.id)
		return w, err
	}, lockBalance, int64(at.account), string(at.currency), string(at.book))
	if errors.Is(err, sqldb.ErrNoRows) {
		err = fmt.Errorf("ledger: %s has no book %s %s", at.account, at.currency, at.book)
	}
	return held, err
}

// errOverflow is the end of what a balance can hold, some 92 thousand million million reais.
var errOverflow = errors.New("ledger: the balance is larger than can be kept, or there is none")

// with adds deltas to a balance.
func (w waiting) with(deltas []waiting) (units int64, last id.ID, err error) {
	units, last = w.units, w.id
	for _, d := range deltas {
		if d.units > math.MaxInt64-max(units, 0) {
			return 0, last, errOverflow
		}
		units += d.units
		if d.id.Compare(last) > 0 {
			last = d.id
		}
	}
	return units, last, nil
}

// folder knows which balances have credits that wait. It is a hint: what it does not know is found as an orphan.
type folder struct {
	clock *clock.Clock

	mu       sync.Mutex
	places   map[place]*backlog
	searched time.Time // real time of the last look for orphans
}

// backlog is what waits at one balance, as far as this node knows.
type backlog struct {
	credits int
	since   time.Time // real time of the first of them
	unsure  bool      // there may be any number of others
}

// isReady reports whether a balance is to be folded now.
func (b *backlog) isReady(at place, c *clock.Clock) bool {
	limit := foldCalmMax
	if at.book == Available || b.unsure {
		limit = foldAgeMax
	}
	return b.credits >= foldCreditsMax || c.RealSince(b.since) >= limit
}

func newFolder(c *clock.Clock) *folder {
	return &folder{clock: c, places: map[place]*backlog{}}
}

// credited notes that a delta was written.
func (f *folder) credited(at place) { f.note(at, 1, false) }

// due notes that a balance should be folded now.
func (f *folder) due(at place) { f.note(at, foldCreditsMax, true) }

// found notes a balance of which it is not known what waits there.
func (f *folder) found(at place) { f.note(at, 1, true) }

func (f *folder) note(at place, credits int, unsure bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := f.places[at]
	if b == nil {
		if len(f.places) >= placesMax {
			return
		}
		b = &backlog{since: f.clock.Real()}
		f.places[at] = b
	}
	b.credits += credits
	b.unsure = b.unsure || unsure
}

// waits is a balance whose credits have waited long enough.
type waits struct {
	at     place
	isMany bool // so that they may be more than a slice
}

// ready takes the balances whose credits have waited long enough.
func (f *folder) ready() []waits {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []waits
	for at, b := range f.places {
		if b.isReady(at, f.clock) {
			out = append(out, waits{at, b.unsure || b.credits >= foldSlice})
			delete(f.places, at)
		}
	}
	slices.SortFunc(out, func(a, b waits) int { return a.at.compare(b.at) })
	return out
}

// Lag returns for how long the oldest credit known to this node has waited to be folded.
func (l *Ledger) Lag() time.Duration {
	l.folder.mu.Lock()
	defer l.folder.mu.Unlock()
	var oldest time.Duration
	for _, b := range l.folder.places {
		oldest = max(oldest, l.folder.clock.RealSince(b.since))
	}
	return oldest
}

// Step folds what has waited long enough: on this node's own account, and now and then what dead nodes left.
func (l *Ledger) Step(ctx context.Context) (did bool, err error) {
	if err := l.findOrphans(ctx); err != nil {
		return false, err
	}
	ready := l.folder.ready()
	var mu sync.Mutex
	var failed error
	crowd.Each(len(ready), foldersMax, func(i int) { // one that cannot be folded keeps nobody else from it
		if err := l.foldPlace(ctx, ready[i]); err != nil {
			l.folder.found(ready[i].at)
			mu.Lock()
			defer mu.Unlock()
			failed = errors.Join(failed, err)
		}
	})
	return len(ready) > 0 && failed == nil, failed
}

// foldPlace folds all deltas of a balance, a slice at a time so that no debit waits long for its lock.
func (l *Ledger) foldPlace(ctx context.Context, w waits) error {
	account, currency, book := int64(w.at.account), string(w.at.currency), string(w.at.book)
	for {
		end := id.Max
		if w.isMany {
			found, err := sqldb.One(ctx, l.db, sqldb.Scalar[id.ID], selectSliceEnd, account, currency, book, foldSlice-1)
			switch {
			case err == nil:
				end = found
			case !errors.Is(err, sqldb.ErrNoRows):
				return err
			}
		}
		err := l.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			// Nothing is asked before the deltas are: the lock travels with their deletion, which still is a statement of its own.
			tx.Queue(ctx, lockBalance, account, currency, book)
			deltas, err := sqldb.All(ctx, tx, scanWaiting, foldDeltasUpTo, account, currency, book, end)
			if err != nil || len(deltas) == 0 {
				return err
			}
			units, last, err := waiting{id: id.First(epoch)}.with(deltas)
			if err != nil {
				return err
			}
			tx.Guard(ctx, errOverflow, addBalance, units, last, account, currency, book, math.MaxInt64-units)
			return nil
		})
		if err != nil || end == id.Max {
			return err
		}
	}
}

// findOrphans notes the balances that have deltas although this node knows of none: those of nodes that died.
func (l *Ledger) findOrphans(ctx context.Context) error {
	f := l.folder
	f.mu.Lock()
	due := f.searched.IsZero() || f.clock.RealSince(f.searched) >= orphansEvery
	if due {
		f.searched = f.clock.Real()
	}
	f.mu.Unlock()
	if !due {
		return nil
	}
	var at place
	for range orphansMax {
		next, err := sqldb.One(ctx, l.db, scanPlace, findWaitingBook, int64(at.account), string(at.currency), string(at.book))
		if errors.Is(err, sqldb.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		f.found(next)
		at = next
	}
	return nil
}
