package account

import "time"

// recent is a map of bounded size that forgets what was put longest ago. It keeps two generations: what is put goes into
// the young one; when that is full or older than ageMax, it becomes the old one, and the old one is forgotten. So
// nothing is forgotten before it is ageMax old, unless there is no room, and forgetting never searches.
type recent[K comparable, V any] struct {
	sizeMax int           // of both generations together
	ageMax  time.Duration // after which a value is of no use

	young, old map[K]V
	turnedAt   time.Time // when the young generation began
}

func newRecent[K comparable, V any](sizeMax int, ageMax time.Duration) recent[K, V] {
	return recent[K, V]{sizeMax: sizeMax, ageMax: ageMax, young: map[K]V{}, old: map[K]V{}}
}

// get returns what was put last, or the zero V.
func (r *recent[K, V]) get(k K) V {
	if v, ok := r.young[k]; ok {
		return v
	}
	return r.old[k]
}

func (r *recent[K, V]) put(k K, v V, now time.Time) {
	if len(r.young) >= r.sizeMax/2 || now.Sub(r.turnedAt) >= r.ageMax {
		r.young, r.old = r.old, r.young
		clear(r.young)
		r.turnedAt = now
	}
	r.young[k] = v
}

func (r *recent[K, V]) drop(k K) {
	delete(r.young, k)
	delete(r.old, k)
}
