package sqldb

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
)

// TestLiteQuestions asks many at once: each is told about its own key, also beside one that cannot be asked.
func TestLiteQuestions(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for i := range 20 {
		if err := write(l.db, fmt.Sprint(2*i)); err != nil {
			t.Fatal(err)
		}
	}
	const selectNote = `SELECT 1 FROM note WHERE who = $1`
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			lock, found, err := l.db.TryLockAsking(t.Context(), []int64{int64(i)}, selectNote, fmt.Sprint(i))
			if err != nil || found != (i%2 == 0) {
				t.Errorf("%d: %v, %v", i, found, err)
				return
			}
			lock.Unlock(t.Context())
		})
		all.Go(func() {
			if _, _, err := l.db.TryLockAsking(t.Context(), []int64{int64(1000 + i)}, `SELECT nonsense`); err == nil {
				t.Error("nonsense was answered")
			}
		})
	}
	all.Wait()
}

// TestLiteQuestionAfterWrite must find what was durable before it was asked.
func TestLiteQuestionAfterWrite(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			who := fmt.Sprint(i)
			if err := l.db.Write(t.Context(), func(ctx context.Context, tx *Tx) error { tx.Queue(ctx, insertNote, who); return nil }); err != nil {
				t.Error(err)
				return
			}
			_, found, err := l.db.TryLockAsking(t.Context(), []int64{int64(i)}, `SELECT 1 FROM note WHERE who = $1`, who)
			if !found || err != nil {
				t.Errorf("%s: %v, %v", who, found, err)
			}
		})
	}
	all.Wait()
}

// TestLiteQuestionCancelled is asked by who has gone, which is no other's loss.
func TestLiteQuestionCancelled(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	if err := write(l.db, "a"); err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	q := &question{sql: `SELECT 1 FROM note WHERE who = $1`, args: []any{"a"}}
	questions := l.db.d.(*liteDriver).questions
	if err := questions.ask(gone, q); err != nil || q.answered {
		t.Errorf("%+v, %v", q, err)
	}
	if _, _, err := l.db.TryLockAsking(gone, []int64{1}, q.sql, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if lock, found, err := l.db.TryLockAsking(t.Context(), []int64{1}, q.sql, "a"); !found || err != nil {
		t.Errorf("%v, %v", found, err)
	} else {
		lock.Unlock(t.Context())
	}
}
