package crowd

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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

// TestEachPanics shows that a panic comes to who asked, once the others have returned.
func TestEachPanics(t *testing.T) {
	var did atomic.Int64
	defer func() {
		if p := fmt.Sprint(recover()); !strings.HasPrefix(p, "of three") || !strings.Contains(p, "TestEachPanics") || did.Load() != 9 {
			t.Errorf("after %d others: %s", did.Load(), p)
		}
	}()
	Each(10, 4, func(i int) {
		if i == 3 {
			panic("of three")
		}
		did.Add(1)
	})
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
