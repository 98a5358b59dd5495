package ratelimit

import (
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

// BenchmarkTake prints how much a request costs, and how often that is the cost of the least that could count it: the
// time, a lock and a map.
func BenchmarkTake(b *testing.B) {
	for name, url := range map[string]func(testing.TB) string{"sqlite": sqltest.SQLite, "postgres": sqltest.Postgres} {
		db := sqltest.Open(b, url(b))
		for _, keys := range []int{1, 1000} {
			prefixes := make([]string, keys)
			for i := range prefixes {
				prefixes[i] = fmt.Sprintf("%08x", i)
			}
			b.Run(fmt.Sprintf("%s/%d keys", name, keys), func(b *testing.B) {
				least := leastCost(b, prefixes)
				l := New(db, clock.New(nil), nodes(1))
				b.ReportAllocs()
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					for i := 0; pb.Next(); i++ {
						if v, err := l.Take(b.Context(), prefixes[i%keys], math.MaxInt32); err != nil || !v.Allowed {
							b.Errorf("got %+v, %v", v, err)
						}
					}
				})
				b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(least), "x-least")
			})
		}
	}
}

func leastCost(b *testing.B, prefixes []string) time.Duration {
	const n = 1 << 20
	c := clock.New(nil)
	var mu sync.Mutex
	counts := map[string]int64{}
	b.ResetTimer()
	b.StartTimer()
	started := b.Elapsed()
	for i := range n {
		now := c.Now().UnixMicro()
		mu.Lock()
		if counts[prefixes[i%len(prefixes)]] < now {
			counts[prefixes[i%len(prefixes)]]++
		}
		mu.Unlock()
	}
	return max(1, (b.Elapsed()-started)/n)
}
