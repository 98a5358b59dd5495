package acquirer

import (
	"slices"
	"sync"
	"time"
)

// Off is an operator's decision to give an acquirer nothing new.
type Off struct {
	Since  time.Time // business time
	Who    string
	Reason string
}

// SwitchOff gives nothing new, neither charges nor payouts, to the acquirers that off names, and lets all others be asked
// again. What an acquirer was given before is asked about there all the same: nobody else can know of it.
func (r *Router) SwitchOff(off map[string]Off) {
	for _, rt := range r.routes {
		if o, ok := off[rt.name]; ok {
			rt.off.Store(&o)
		} else {
			rt.off.Store(nil)
		}
	}
}

// String returns the use as a word for operators.
func (u use) String() string { return word(int(u), "charge", "payout") }

// Decision is an acquirer that was asked for something or passed over, as operators read it.
type Decision struct {
	At   time.Time // business time of the end
	What string    // charge or payout
	Name string    // what acquirers know it by; it tells the account
	Attempt
}

const decisionsMax = 200 // remembered by a router

// decisions are the last that a router made, in a ring.
type decisions struct {
	mu   sync.Mutex
	ring []Decision
	next int // place of the next one, once the ring is full
}

func (d *decisions) add(u use, name string, at time.Time, attempts ...Attempt) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range attempts {
		made := Decision{At: at, What: u.String(), Name: name, Attempt: a}
		if len(d.ring) < decisionsMax {
			d.ring = append(d.ring, made)
			continue
		}
		d.ring[d.next] = made
		d.next = (d.next + 1) % decisionsMax
	}
}

// Recent returns what this router decided last, the latest first.
func (r *Router) Recent() []Decision {
	d := &r.recent
	d.mu.Lock()
	defer d.mu.Unlock()
	list := slices.Concat(d.ring[d.next:], d.ring[:d.next])
	slices.Reverse(list)
	return list
}
