package simulator

// chunkLen is how many things a slab makes room for at a time.
const chunkLen = 4096

// slab is a list that grows without moving what it holds, and whose things hold no pointers, so that the garbage
// collector has nothing to do with a million of them.
type slab[T any] struct {
	chunks [][]T
	count  uint32
}

// add appends a thing and returns its place.
func (s *slab[T]) add(thing T) (place uint32) {
	if s.count%chunkLen == 0 {
		s.chunks = append(s.chunks, make([]T, chunkLen))
	}
	*s.at(s.count) = thing
	s.count++
	return s.count - 1
}

// at returns the thing at a place that add returned.
func (s *slab[T]) at(place uint32) *T { return &s.chunks[place/chunkLen][place%chunkLen] }
