package sqldb

import (
	"context"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkGroupCommit measures writes of five statements by 64 goroutines, and how many times as fast that is as one
// COMMIT for each, measured in the same run on the same disk.
func BenchmarkGroupCommit(b *testing.B) {
	const goroutines, aloneMax = 64, 2000
	db, err := Open(b.Context(), "sqlite:"+filepath.Join(b.TempDir(), "bench.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	err = db.Write(b.Context(), func(ctx context.Context, tx *Tx) error { return tx.Script(ctx, labTables) })
	if err != nil {
		b.Fatal(err)
	}
	var last atomic.Int64
	five := func() {
		name := strconv.FormatInt(last.Add(1), 10)
		err := db.Write(context.Background(), func(ctx context.Context, tx *Tx) error {
			tx.Queue(ctx, insertNote, name)
			tx.Queue(ctx, insertNote, "and "+name)
			tx.Queue(ctx, `UPDATE note SET size = size + 1 WHERE who = $1`, name)
			if _, err := One(ctx, tx, Scalar[int64], `SELECT size FROM note WHERE who = $1`, name); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, `UPDATE note SET body = $2 WHERE who = $1`, name, []byte(name))
			return err
		})
		if err != nil {
			b.Error(err)
		}
	}
	// Alone: the same goroutines, but no two of them at once.
	var one sync.Mutex
	var wait sync.WaitGroup
	n := min(b.N, aloneMax)
	began := time.Now()
	for i := range goroutines {
		wait.Go(func() {
			for range n/goroutines + min(1, max(0, n%goroutines-i)) {
				one.Lock()
				five()
				one.Unlock()
			}
		})
	}
	wait.Wait()
	alone := float64(n) / time.Since(began).Seconds()

	b.SetParallelism(goroutines / runtime.GOMAXPROCS(0))
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			five()
		}
	})
	grouped := float64(b.N) / b.Elapsed().Seconds()
	b.ReportMetric(grouped, "writes/s")
	b.ReportMetric(alone, "alone/s")
	b.ReportMetric(grouped/alone, "x-alone")
}
