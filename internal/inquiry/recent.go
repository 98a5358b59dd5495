package inquiry

import (
	"cmp"
	"sync"
)

const recentMax = 2_000 // things, twice, unless a Recent says otherwise; each is about a kilobyte

// Recent are things as this node has lately seen them, by what others call them, so that the usual news of them costs no
// read. What is done by them must be guarded by how they are: another may have moved one meanwhile. It forgets the oldest. The
// zero Recent is empty.
type Recent[K comparable, T any] struct {
	Max int // things, twice; 0 means 2000

	mu         sync.Mutex
	young, old map[K]T
}

// Add adds a thing.
func (r *Recent[K, T]) Add(name K, one T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.young == nil || len(r.young) >= cmp.Or(r.Max, recentMax) {
		r.young, r.old = map[K]T{}, r.young
	}
	r.young[name] = one
}

// Get returns a thing that can still be taken.
func (r *Recent[K, T]) Get(name K) (T, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if one, ok := r.young[name]; ok {
		return one, true
	}
	one, ok := r.old[name]
	return one, ok
}

// Take returns a thing once: whoever hears of it again finds it in the database.
func (r *Recent[K, T]) Take(name K) (one T, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, list := range []map[K]T{r.young, r.old} {
		if one, ok = list[name]; ok {
			delete(list, name)
			return one, true
		}
	}
	return one, false
}
