package payout

import "sync"

const recentMax = 5_000 // payouts, twice

// recent are payouts as this node sent them, by the names that acquirers know them by, so that the usual news of them costs
// no read. It forgets the oldest.
type recent struct {
	mu         sync.Mutex
	young, old map[string]Payout
}

func (r *recent) add(p Payout) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.young == nil || len(r.young) >= recentMax {
		r.young, r.old = map[string]Payout{}, r.young
	}
	r.young[p.Name()] = p
}

// take returns a payout once: whoever hears of it again finds it in the database.
func (r *recent) take(name string) (Payout, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, list := range []map[string]Payout{r.young, r.old} {
		if p, ok := list[name]; ok {
			delete(list, name)
			return p, true
		}
	}
	return Payout{}, false
}
