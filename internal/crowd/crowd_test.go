package crowd

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
)

func TestEach(t *testing.T) {
	for _, workers := range []int{1, 3, 100} {
		var mu sync.Mutex
		var seen []int
		Each(10, workers, func(i int) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, i)
		})
		slices.Sort(seen)
		if !slices.Equal(seen, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}) {
			t.Errorf("%d workers: %v", workers, seen)
		}
	}
	Each(0, 5, func(int) { t.Error("called for nothing") })
}

func TestAllIsAtOnce(t *testing.T) {
	synctest.Test(t, func(*testing.T) {
		met := make(chan struct{})
		All(func() { met <- struct{}{} }, func() { <-met }) // neither could end alone
		Start(func() { met <- struct{}{} })
		<-met
	})
}

func TestInTurn(t *testing.T) {
	InTurn()
	defer inTurn.Store(false)
	var order []int
	add := func(i int) { order = append(order, i) } // without a lock: nobody else is here
	Each(3, 3, add)
	All(func() { add(3) }, func() { add(4) })
	Start(func() { add(5) })
	if !slices.Equal(order, []int{0, 1, 2, 3, 4, 5}) {
		t.Errorf("%v", order)
	}
}
