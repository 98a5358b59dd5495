package sqldb

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"
)

// TestLiteQuestions asks many at once: each is told about its own key, also beside one that cannot be asked.
func TestLiteQuestions(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for i := range 20 {
		if err := write(l.db, strconv.Itoa(2*i)); err != nil {
			t.Fatal(err)
		}
	}
	const selectNote = `SELECT 1 FROM note WHERE who = $1`
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			lock, found, err := l.db.TryLockAsking(t.Context(), []int64{int64(i)}, selectNote, strconv.Itoa(i))
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
			who := strconv.Itoa(i)
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

// TestLiteQuestionsWithoutAReader are asked while all readers are busy: who has little time is not kept by who has more.
func TestLiteQuestionsWithoutAReader(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	readers := l.db.d.(*liteDriver).readers
	for range connectionsMax {
		readers.slots <- struct{}{}
	}
	patient, cancelPatient := context.WithCancel(t.Context())
	hasty, cancelHasty := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancelHasty()
	var waiting sync.WaitGroup
	waiting.Go(func() { _, _, _ = l.db.TryLockAsking(patient, []int64{1}, `SELECT 1`) })
	if _, _, err := l.db.TryLockAsking(hasty, []int64{2}, `SELECT 1`); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	cancelPatient()
	waiting.Wait()
	for range connectionsMax {
		<-readers.slots
	}
}
