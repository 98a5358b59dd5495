package account

import (
	"testing"
	"time"
)

func TestRecent(t *testing.T) {
	t.Parallel()
	const size, age = 10, time.Second
	start := time.UnixMicro(1e15)
	r := newRecent[int, int](size, age)

	r.put(1, 10, start)
	r.put(2, 20, start.Add(age-1))
	if r.get(1) != 10 || r.get(2) != 20 || r.get(3) != 0 {
		t.Error("what was put is not there")
	}
	r.put(3, 30, start.Add(age)) // a new generation
	if r.get(1) != 10 || r.get(3) != 30 {
		t.Error("the old generation is gone too early")
	}
	r.put(1, 11, start.Add(age))
	if r.get(1) != 11 {
		t.Error("an old value hides a new one")
	}
	r.put(4, 40, start.Add(2*age)) // the first generation goes, and what was put again stays
	if r.get(2) != 0 || r.get(1) != 11 || r.get(3) != 30 || r.get(4) != 40 {
		t.Error("the wrong generation went")
	}
	r.drop(1)
	if r.get(1) != 0 {
		t.Error("what was dropped is there")
	}

	for i := range 10 * size {
		r.put(100+i, 1+i, start.Add(2*age))
		if r.get(100+i) != 1+i {
			t.Fatalf("value %d is not there", i)
		}
		if n := sizeOf(&r); n > size {
			t.Fatalf("%d values, want at most %d", n, size)
		}
	}
	for i := 10*size - size/2; i < 10*size; i++ {
		if r.get(100+i) == 0 {
			t.Errorf("value %d of the last %d is gone", i, size/2)
		}
	}
}

func sizeOf[K comparable, V any](r *recent[K, V]) int { return len(r.young) + len(r.old) }
