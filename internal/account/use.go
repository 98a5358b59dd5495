package account

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ponte-pay/ponte/internal/sqldb"
)

const (
	usesEvery = time.Minute // real time between writes, so that a busy key costs a node one write a minute
	usesMax   = entriesMax  // keys that are remembered; the others are once there is room
	usesBatch = 500         // written in one transaction
)

// uses are when keys were last used, until it is written.
type uses struct {
	mu        sync.Mutex
	last      map[string]int64 // business microseconds UTC by prefix
	writtenAt time.Time        // real time
}

// note remembers a use. It is called for an entry once, which is at most once a second a key.
func (u *uses) note(prefix string, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.last == nil {
		u.last = map[string]int64{}
	}
	if _, known := u.last[prefix]; known || len(u.last) < usesMax {
		u.last[prefix] = now.UnixMicro()
	}
}

// take returns what is to be written, in order, so that two nodes never wait for each other in opposite order.
func (u *uses) take() (prefixes []string, last map[string]int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	last, u.last = u.last, nil
	return slices.Sorted(maps.Keys(last)), last
}

// giveBack takes what could not be written, unless it is known better by now.
func (u *uses) giveBack(prefixes []string, last map[string]int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.last == nil {
		u.last = map[string]int64{}
	}
	for _, p := range prefixes {
		u.last[p] = max(u.last[p], last[p])
	}
}

// Step writes when keys were last used, at most once a minute.
func (d *Directory) Step(ctx context.Context) (did bool, err error) {
	now := d.clock.Real()
	if now.Sub(d.uses.writtenAt) < usesEvery {
		return false, nil
	}
	d.uses.writtenAt = now
	return false, d.Flush(ctx)
}

// Flush writes when keys were last used. What cannot be written is kept for the next time.
func (d *Directory) Flush(ctx context.Context) error {
	prefixes, last := d.uses.take()
	for batch := range slices.Chunk(prefixes, usesBatch) {
		err := d.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			for _, p := range batch {
				tx.Queue(ctx, updateUseSQL, p, last[p])
			}
			return nil
		})
		if err != nil {
			d.uses.giveBack(prefixes, last)
			return wrap(err)
		}
	}
	return nil
}
