// Package crowd does several things at once, or one after the other where a simulation wants the same order each time.
package crowd

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// inTurn is whether nothing is done at once any more.
var inTurn atomic.Bool

// InTurn makes this process do everything in order, in the goroutine of who asks for it. It is for simulations, and for
// good.
func InTurn() { inTurn.Store(true) }

// Each calls f with the numbers from 0 to below n, by at most so many workers at once, and returns when all have returned. One
// that panics is the last of its worker, and when all others have returned Each panics with it: who asked for it may recover.
func Each(n, workers int, f func(i int)) {
	workers = min(workers, n)
	if inTurn.Load() {
		workers = min(workers, 1)
	}
	if workers == 1 {
		for i := range n {
			f(i)
		}
		return
	}
	var next atomic.Int64
	var working sync.WaitGroup
	var panicked atomic.Pointer[any]
	for range workers {
		working.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					told := any(fmt.Sprintf("%v\n%s", p, debug.Stack())) // of the goroutine that ends here
					panicked.CompareAndSwap(nil, &told)
				}
			}()
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				f(int(i))
			}
		})
	}
	working.Wait()
	if p := panicked.Load(); p != nil {
		panic(*p)
	}
}

// All calls all of them at once and returns when all have returned.
func All(fs ...func()) { Each(len(fs), len(fs), func(i int) { fs[i]() }) }

// Start calls f and does not wait for its end, unless everything is done in order.
func Start(f func()) {
	if inTurn.Load() {
		f()
		return
	}
	go f()
}
