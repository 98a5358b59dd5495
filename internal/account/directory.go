package account

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// Principal is who makes a request. It is shared between requests: nobody changes it.
type Principal struct {
	KeyPrefix string // the 8 hex digits that name the key
	Scopes    Scopes // what the key may do
	Account   Account
}

// Directory tells who presents a key, from answers of the database that are at most one second of real time old. So
// revoked keys and changed settings count within two seconds on every node, and new keys at once.
type Directory struct {
	db    *sqldb.DB
	clock *clock.Clock

	mu      sync.RWMutex
	known   recent[string, *entry]        // keys that exist, by prefix
	missing recent[missingKey, time.Time] // keys that do not, with the real time of the read that said so
	reads   map[string]*keyRead           // under way, by prefix; each has a caller who runs it

	uses uses
}

// entry is a key with its account as one read found them. It never changes, but for noted.
type entry struct {
	readAt    time.Time // real time before the read
	hash      secretHash
	revoked   bool
	noted     atomic.Bool // its use is remembered: once for each read is often enough
	principal Principal
}

// missingKey is a key that was presented and does not exist. It holds the secret's hash, and not the prefix alone, so
// that nobody can hide a key that is about to be created by having asked for its prefix.
type missingKey struct {
	prefix [prefixChars]byte
	hash   secretHash
}

// keyRead is a read under way that all who ask for its prefix wait for.
type keyRead struct {
	startedAt time.Time // real time
	done      chan struct{}
	entry     *entry // nil when there is no such prefix
	err       error
}

const (
	entryAgeMax    = time.Second
	entriesMax     = 20_000 // keys that exist; far above the number that one node sees in a second
	missingMax     = 10_000 // keys that do not; apart from the others, so that guesses never push them out
	keyReadTimeMax = 5 * time.Second
)

// NewDirectory returns a directory of the keys in db.
func NewDirectory(db *sqldb.DB, c *clock.Clock) *Directory {
	return &Directory{
		db:      db,
		clock:   c,
		known:   newRecent[string, *entry](entriesMax, entryAgeMax),
		missing: newRecent[missingKey, time.Time](missingMax, entryAgeMax),
		reads:   map[string]*keyRead{},
	}
}

// Authenticate returns who presents a key, or [ErrBadKey]. Any other error means that the database could not tell.
func (d *Directory) Authenticate(ctx context.Context, presented string) (*Principal, error) {
	prefix, secret, ok := parseKey(presented)
	if !ok {
		return nil, ErrBadKey
	}
	sum := hashSecret(secret)
	e, err := d.find(ctx, prefix, sum)
	switch {
	case err != nil:
		return nil, wrap(err)
	case e == nil, e.revoked, !e.hash.equal(&sum):
		return nil, ErrBadKey
	}
	if !e.noted.Load() && e.noted.CompareAndSwap(false, true) {
		d.uses.note(e.principal.KeyPrefix, d.clock.Now())
	}
	return &e.principal, nil
}

// find returns the key with that prefix, or nil when there is none with that secret.
func (d *Directory) find(ctx context.Context, prefix string, sum secretHash) (*entry, error) {
	miss := missingKey{hash: sum}
	copy(miss.prefix[:], prefix)
	now := d.clock.Real()

	d.mu.RLock()
	e, ok := d.lookup(prefix, miss, now)
	d.mu.RUnlock()
	if ok {
		return e, nil
	}

	d.mu.Lock()
	if e, ok := d.lookup(prefix, miss, now); ok { // read since
		d.mu.Unlock()
		return e, nil
	}
	r := d.reads[prefix]
	// One that has been under way for long would answer with what was true too long ago.
	isMine := r == nil || !fresh(r.startedAt, now)
	if isMine {
		r = &keyRead{startedAt: now, done: make(chan struct{}), err: errReadBroken}
		d.reads[strings.Clone(prefix)] = r // not the caller's own memory, which holds the whole key
	}
	d.mu.Unlock()

	if isMine {
		d.read(ctx, prefix, r)
	} else if err := r.wait(ctx); err != nil {
		return nil, err
	}
	if r.err == nil && r.entry == nil {
		d.mu.Lock()
		d.missing.put(miss, r.startedAt, now)
		d.mu.Unlock()
	}
	return r.entry, r.err
}

// lookup reports whether the answer is known, and what it is.
func (d *Directory) lookup(prefix string, miss missingKey, now time.Time) (*entry, bool) {
	if e := d.known.get(prefix); e != nil && fresh(e.readAt, now) {
		return e, true
	}
	return nil, fresh(d.missing.get(miss), now)
}

// fresh reports whether what was read at that time still counts. A clock that was set back makes nothing fresh.
func fresh(readAt, now time.Time) bool {
	age := now.Sub(readAt)
	return age >= 0 && age < entryAgeMax
}

var errReadBroken = errors.New("the read of a key was broken off")

// read asks the database and tells everyone who waits. The caller's giving up does not stop it: others wait too.
func (d *Directory) read(ctx context.Context, prefix string, r *keyRead) {
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.reads[prefix] == r {
			delete(d.reads, prefix)
		}
		if e := r.entry; e != nil {
			now := d.clock.Real()
			other := d.known.get(e.principal.KeyPrefix)
			// A later read may have ended first.
			if other == nil || !fresh(other.readAt, now) || other.readAt.Before(e.readAt) {
				d.known.put(e.principal.KeyPrefix, e, now)
			}
		}
		close(r.done)
	}()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keyReadTimeMax)
	defer cancel()
	e, err := findEntry(ctx, d.db, prefix)
	if e != nil {
		e.readAt = r.startedAt
	}
	r.entry, r.err = e, err
}

// wait returns when the read has ended, or with ctx's error.
func (r *keyRead) wait(ctx context.Context) error {
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
