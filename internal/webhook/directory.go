package webhook

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/ponte-pay/ponte/internal/event"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// directory knows every endpoint of every account, so that an event of an account without any costs nothing. It is read
// again several times a second, and then only what has changed.
type directory struct {
	reading sync.Mutex // one read at a time

	mu        sync.RWMutex
	loaded    bool
	version   int64 // all changes up to this one are known
	byID      map[id.ID]*Endpoint
	byAccount map[id.Account][]*Endpoint // active ones
	busy      map[id.ID]*Endpoint        // those whose deliveries need looking after: apart, or not settled
}

const changesMax = 1000 // endpoints read at once

// errNotLoaded says that nobody may conclude yet that an account has no endpoint.
var errNotLoaded = errors.New("webhook: the endpoints are not known yet")

// refresh reads what has changed and returns it.
func (d *directory) refresh(ctx context.Context, db *sqldb.DB) (changed []*Endpoint, err error) {
	d.reading.Lock()
	defer d.reading.Unlock()
	version, err := sqldb.One(ctx, db, sqldb.Scalar[int64], selectVersion)
	if err != nil {
		return nil, err
	}
	if d.loaded && version == d.version {
		return nil, nil
	}
	known := d.version
	for {
		page, err := sqldb.All(ctx, db, scanEndpoint, findChanged, known, changesMax)
		if err != nil {
			return nil, err
		}
		changed = append(changed, page...)
		if len(page) < changesMax {
			break
		}
		known = page[len(page)-1].version
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.byID == nil {
		d.byID, d.byAccount, d.busy = map[id.ID]*Endpoint{}, map[id.Account][]*Endpoint{}, map[id.ID]*Endpoint{}
	}
	for _, e := range changed {
		d.put(e)
		version = max(version, e.version)
	}
	d.version, d.loaded = version, true
	return changed, nil
}

func (d *directory) put(e *Endpoint) {
	others := slices.DeleteFunc(slices.Clone(d.byAccount[e.Account]), func(o *Endpoint) bool { return o.ID == e.ID })
	if e.Status == Active {
		others = append(others, e)
	}
	if len(others) == 0 {
		delete(d.byAccount, e.Account)
	} else {
		d.byAccount[e.Account] = others // readers keep the list they have
	}
	d.byID[e.ID] = e
	delete(d.busy, e.ID)
	if !e.settled || e.lane() == laneApart {
		d.busy[e.ID] = e
	}
	if e.Status == Deleted && e.settled {
		delete(d.byID, e.ID)
	}
}

// targets returns the endpoints that are told of an event.
func (d *directory) targets(e *event.Event) (list []*Endpoint, err error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if !d.loaded {
		return nil, errNotLoaded
	}
	for _, endpoint := range d.byAccount[e.Account] {
		if endpoint.Wants(e.Type) || (e.Postback != "" && endpoint.URL == e.Postback) {
			list = append(list, endpoint)
		}
	}
	return list, nil
}

// hasURL reports whether an account has an active endpoint with that URL.
func (d *directory) hasURL(account id.Account, url string) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return slices.ContainsFunc(d.byAccount[account], func(e *Endpoint) bool { return e.URL == url })
}

// get returns an endpoint, or nil when it is not known or gone for good.
func (d *directory) get(x id.ID) *Endpoint {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.byID[x]
}

// busyOnes returns the endpoints whose deliveries need looking after, in the order of their identifiers.
func (d *directory) busyOnes() []*Endpoint {
	d.mu.RLock()
	defer d.mu.RUnlock()
	list := make([]*Endpoint, 0, len(d.busy))
	for _, e := range d.busy {
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b *Endpoint) int { return a.ID.Compare(b.ID) })
	return list
}

// failing returns the endpoints that fail, oldest failure first.
func (d *directory) failing() (list []*Endpoint) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	for _, e := range d.byID {
		if e.Status == Active && !e.FailingSince.IsZero() {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b *Endpoint) int { return a.FailingSince.Compare(b.FailingSince) })
	return list
}
