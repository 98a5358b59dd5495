package sqldb

import (
	"bufio"
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const forever = time.Hour

const labTables = `
CREATE TABLE note (who TEXT NOT NULL PRIMARY KEY, size INTEGER NOT NULL DEFAULT 1 CHECK (size > 0), body BLOB) STRICT;
CREATE TABLE aborts (x INTEGER) STRICT;
CREATE TRIGGER aborts_insert BEFORE INSERT ON aborts BEGIN SELECT RAISE(ABORT, 'aborted'); END;
CREATE TABLE ruins (x INTEGER) STRICT;
CREATE TRIGGER ruins_insert BEFORE INSERT ON ruins BEGIN SELECT RAISE(ROLLBACK, 'ruined'); END;
CREATE TRIGGER note_abort BEFORE INSERT ON note WHEN NEW.who = 'aborts' BEGIN SELECT RAISE(ABORT, 'aborted'); END;
CREATE TRIGGER note_ruin AFTER INSERT ON note WHEN NEW.who = 'ruins' BEGIN SELECT RAISE(ROLLBACK, 'ruined'); END;
CREATE TABLE child (who TEXT REFERENCES note (who) DEFERRABLE INITIALLY DEFERRED) STRICT;
`

const insertNote = `INSERT INTO note (who) VALUES ($1)`

func insert(ctx context.Context, tx *Tx, who string) error {
	_, err := tx.Exec(ctx, insertNote, who)
	return err
}

func write(db *DB, who string) error {
	return db.Write(context.Background(), func(ctx context.Context, tx *Tx) error { return insert(ctx, tx, who) })
}

func (w *writer) inLine() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.waiting)
}

func (w *writer) isBusy() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.busy
}

// lab is a database whose groups are put together by hand.
type lab struct {
	t    *testing.T
	path string
	db   *DB
	w    *writer
}

func newLab(t *testing.T) *lab {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lab.db")
	db, err := Open(t.Context(), "sqlite:"+path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	err = db.Write(t.Context(), func(ctx context.Context, tx *Tx) error { return tx.Script(ctx, labTables) })
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{t: t, path: path, db: db, w: db.d.(*liteDriver).writer}
	l.w.ageMax = forever // on a slow machine too
	return l
}

// durable returns what a connection of its own finds.
func (l *lab) durable() []string {
	l.t.Helper()
	return durable(l.t, l.path)
}

func durable(t *testing.T, path string) []string {
	t.Helper()
	db, err := Open(context.Background(), "sqlite:"+path)
	if err != nil {
		t.Error(err)
		return nil
	}
	defer db.Close()
	names, err := All(context.Background(), db, Scalar[string], `SELECT who FROM note ORDER BY who`)
	if err != nil {
		t.Error(err)
	}
	if sound, err := One(context.Background(), db, Scalar[string], `PRAGMA integrity_check`); sound != "ok" || err != nil {
		t.Errorf("integrity_check: %q, %v", sound, err)
	}
	return names
}

// outcome is what the owner of a function learns.
type outcome struct {
	err      error
	panicked any
	left     bool // by runtime.Goexit
}

func (o outcome) String() string {
	switch {
	case o.panicked != nil:
		return fmt.Sprint("panic ", o.panicked)
	case o.left:
		return "goexit"
	case o.err == nil:
		return "well"
	}
	for _, meant := range []error{errBad, ErrConflict, ErrCheck, ErrAppendOnly, ErrUnavailable, context.Canceled, errEnded, errRowsOpen} {
		if errors.Is(o.err, meant) {
			return meant.Error()
		}
	}
	return o.err.Error()
}

var errBad = errors.New("bad")

// inTurn makes f start with a question, so that it runs in its turn.
func inTurn(f func(context.Context, *Tx) error) func(context.Context, *Tx) error {
	return func(ctx context.Context, tx *Tx) error {
		if _, err := One(ctx, tx, Scalar[int64], `SELECT 1`); err != nil {
			return err
		}
		return f(ctx, tx)
	}
}

// begin runs f as a write in a goroutine of its own.
func (l *lab) begin(ctx context.Context, f func(context.Context, *Tx) error) <-chan outcome {
	told := make(chan outcome, 1)
	go func() {
		o := outcome{left: true}
		defer func() {
			if p := recover(); p != nil {
				o = outcome{panicked: p}
			}
			told <- o
		}()
		o = outcome{err: l.db.Write(ctx, f)}
	}()
	return told
}

// await spins until the state of the line is as said. Others cannot tell: they wait.
func (l *lab) await(what string, is func() bool) {
	l.t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); runtime.Gosched() {
		if time.Now().After(deadline) {
			l.t.Fatalf("waited in vain for %s", what)
		}
	}
}

// member is one function of a group.
type member struct {
	name string
	ctx  context.Context // nil means the test's own
	run  func(ctx context.Context, tx *Tx, run int) error
}

func good(name string) member {
	return member{name: name, run: func(ctx context.Context, tx *Tx, _ int) error { return insert(ctx, tx, name) }}
}

// group puts functions into one group, the first as its leader, and returns what each was told and how often it ran.
// inLine runs when all are in line and the leader still waits.
func (l *lab) group(inLine func(), members ...member) (told map[string]string, runs map[string]int) {
	l.t.Helper()
	told, runs = map[string]string{}, map[string]int{}
	full := make(chan struct{})
	var results []<-chan outcome
	for i, m := range members {
		ctx := m.ctx
		if ctx == nil {
			ctx = l.t.Context()
		}
		results = append(results, l.begin(ctx, inTurn(func(ctx context.Context, tx *Tx) error {
			runs[m.name]++ // one runs at a time
			if i == 0 {
				<-full
			}
			return m.run(ctx, tx, runs[m.name])
		})))
		l.await(m.name+" to be in line", func() bool { return l.w.isBusy() && l.w.inLine() == i })
	}
	if inLine != nil {
		inLine()
	}
	close(full)
	for i, m := range members {
		told[m.name] = (<-results[i]).String()
	}
	return told, runs
}

func TestGroup(t *testing.T) {
	t.Parallel()
	once := map[string]int{"leader": 1, "a": 1, "bad": 1, "c": 1}
	dissolved := map[string]int{"leader": 2, "a": 2, "bad": 1, "c": 1}
	tests := []struct {
		name    string
		prepare string // run by the writer beforehand
		bad     func(ctx context.Context, tx *Tx) error
		told    string
		kept    bool // what bad wrote
		runs    map[string]int
	}{
		{name: "returns an error", runs: once, told: "bad", bad: func(ctx context.Context, tx *Tx) error {
			_ = insert(ctx, tx, "bad")
			return errBad
		}},
		{name: "violates a unique constraint", runs: once, told: ErrConflict.Error(), bad: func(ctx context.Context, tx *Tx) error {
			_ = insert(ctx, tx, "bad")
			return insert(ctx, tx, "bad")
		}},
		{name: "violates a check", runs: once, told: ErrCheck.Error(), bad: func(ctx context.Context, tx *Tx) error {
			_ = insert(ctx, tx, "bad")
			_, err := tx.Exec(ctx, `UPDATE note SET size = 0 WHERE who = 'bad'`)
			return err
		}},
		{name: "RAISE(ABORT)", runs: once, told: ErrAppendOnly.Error(), bad: func(ctx context.Context, tx *Tx) error {
			_ = insert(ctx, tx, "bad")
			_, err := tx.Exec(ctx, `INSERT INTO aborts VALUES (1)`)
			return err
		}},
		{name: "panics", runs: once, told: "panic bad", bad: func(ctx context.Context, tx *Tx) error {
			_ = insert(ctx, tx, "bad")
			panic("bad")
		}},
		{name: "panics inside a scan", runs: once, told: "panic bad", bad: func(ctx context.Context, tx *Tx) error {
			_ = insert(ctx, tx, "bad")
			_, err := All(ctx, tx, func(Row) (int, error) { panic("bad") }, `SELECT 1 FROM note`)
			return err
		}},
		{name: "Goexit", runs: once, told: "goexit", bad: func(ctx context.Context, tx *Tx) error {
			_ = insert(ctx, tx, "bad")
			runtime.Goexit()
			return nil
		}},
		{name: "ignores a failed statement and writes on", runs: once, told: ErrConflict.Error(), bad: func(ctx context.Context, tx *Tx) error {
			_ = insert(ctx, tx, "bad")
			_ = insert(ctx, tx, "bad")
			_ = insert(ctx, tx, "bad too")
			return nil
		}},
		{name: "queues a statement that fails", runs: once, told: ErrConflict.Error(), bad: func(ctx context.Context, tx *Tx) error {
			tx.Queue(ctx, insertNote, "bad")
			tx.Queue(ctx, insertNote, "bad")
			tx.Queue(ctx, insertNote, "bad too")
			return nil
		}},
		{name: "ignores a scan that fails and writes on", runs: once, told: "bad", bad: func(ctx context.Context, tx *Tx) error {
			_, _ = One(ctx, tx, func(Row) (int, error) { return 0, errBad }, `SELECT 1`)
			_ = insert(ctx, tx, "bad")
			return nil
		}},
		{name: "RAISE(ROLLBACK)", runs: dissolved, told: ErrAppendOnly.Error(), bad: func(ctx context.Context, tx *Tx) error {
			_ = insert(ctx, tx, "bad")
			_, err := tx.Exec(ctx, `INSERT INTO ruins VALUES (1)`)
			return err
		}},
		{name: "RAISE(ROLLBACK), ignored, and writes on", runs: dissolved, told: ErrAppendOnly.Error(), bad: func(ctx context.Context, tx *Tx) error {
			_, _ = tx.Exec(ctx, `INSERT INTO ruins VALUES (1)`)
			_ = insert(ctx, tx, "bad")
			return nil
		}},
		{name: "database full", prepare: `PRAGMA max_page_count = 40`, runs: dissolved, told: ErrUnavailable.Error(), bad: func(ctx context.Context, tx *Tx) error {
			_ = insert(ctx, tx, "bad")
			_, err := tx.Exec(ctx, `UPDATE note SET body = zeroblob(1000000) WHERE who = 'bad'`)
			return err
		}},
		{
			name: "fails at COMMIT", runs: map[string]int{"leader": 2, "a": 2, "bad": 2, "c": 2},
			told: "constraint failed: FOREIGN KEY constraint failed (787)", bad: func(ctx context.Context, tx *Tx) error {
				_ = insert(ctx, tx, "bad")
				_, err := tx.Exec(ctx, `INSERT INTO child VALUES ('nobody')`)
				return err
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			if err := l.w.conn.script(t.Context(), test.prepare); err != nil {
				t.Fatal(err)
			}
			var seen []string // durable when the last run of c began
			last := member{name: "c", run: func(ctx context.Context, tx *Tx, _ int) error {
				seen = l.durable()
				return insert(ctx, tx, "c")
			}}
			bad := member{name: "bad", run: func(ctx context.Context, tx *Tx, _ int) error { return test.bad(ctx, tx) }}
			told, runs := l.group(nil, good("leader"), good("a"), bad, last)

			wantTold := map[string]string{"leader": "well", "a": "well", "bad": test.told, "c": "well"}
			if diff := cmp.Diff(wantTold, told); diff != "" {
				t.Errorf("told (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.runs, runs); diff != "" {
				t.Errorf("runs (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"a", "c", "leader"}, l.durable()); diff != "" {
				t.Errorf("durable (-want +got):\n%s", diff)
			}
			// In one transaction nothing is durable before all of it is; after it was dissolved each is on its own.
			var wantSeen []string
			if test.runs["leader"] == 2 {
				wantSeen = []string{"a", "leader"}
			}
			if diff := cmp.Diff(wantSeen, seen); diff != "" {
				t.Errorf("durable when c ran (-want +got):\n%s", diff)
			}
			if err := write(l.db, "afterwards"); err != nil {
				t.Errorf("a later write: %v", err)
			}
		})
	}
}

// list is a member that asks nothing.
func list(name string, queue func(ctx context.Context, tx *Tx)) member {
	return member{name: name, run: func(ctx context.Context, tx *Tx, _ int) error {
		tx.Queue(ctx, insertNote, name)
		if queue != nil {
			queue(ctx, tx)
		}
		return nil
	}}
}

// lists lets lists wait for a function that has the transaction, and then returns what each was told and how often it ran.
// When that function fails, the first of them leads the others; otherwise they follow it.
func (l *lab) lists(first error, members ...member) (told map[string]string, runs map[string]int) {
	l.t.Helper()
	told, runs = map[string]string{}, map[string]int{}
	full := make(chan struct{})
	gate := l.begin(l.t.Context(), inTurn(func(context.Context, *Tx) error { <-full; return first }))
	l.await("the gate", l.w.isBusy)
	var results []<-chan outcome
	for i, m := range members {
		results = append(results, l.begin(l.t.Context(), func(ctx context.Context, tx *Tx) error {
			runs[m.name]++ // the next one is not begun before this one is in line
			return m.run(ctx, tx, runs[m.name])
		}))
		if m.name == "away" {
			continue
		}
		l.await(m.name+" to be in line", func() bool { return l.w.inLine() > i })
	}
	close(full)
	if o := <-gate; !errors.Is(o.err, first) {
		l.t.Errorf("the gate was told %v", o)
	}
	for i, m := range members {
		told[m.name] = (<-results[i]).String()
	}
	return told, runs
}

func TestLists(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		prepare string // run by the writer beforehand
		bad     func(ctx context.Context, tx *Tx)
		told    string
	}{
		{name: "violates a unique constraint", told: ErrConflict.Error(), bad: func(ctx context.Context, tx *Tx) {
			tx.Queue(ctx, insertNote, "bad")
			tx.Queue(ctx, insertNote, "bad too")
		}},
		{name: "violates that of a neighbour", told: ErrConflict.Error(), bad: func(ctx context.Context, tx *Tx) { tx.Queue(ctx, insertNote, "a") }},
		{name: "violates a check", told: ErrCheck.Error(), bad: func(ctx context.Context, tx *Tx) {
			tx.Queue(ctx, `UPDATE note SET size = 0 WHERE who = 'bad'`)
		}},
		{name: "changes nothing", told: errBad.Error(), bad: func(ctx context.Context, tx *Tx) {
			tx.Guard(ctx, errBad, `UPDATE note SET size = 2 WHERE who = 'nobody'`)
			tx.Queue(ctx, insertNote, "bad too")
		}},
		{name: "RAISE(ABORT)", told: ErrAppendOnly.Error(), bad: func(ctx context.Context, tx *Tx) { tx.Queue(ctx, `INSERT INTO aborts VALUES (1)`) }},
		{name: "RAISE(ABORT) in a row among others", told: ErrAppendOnly.Error(), bad: func(ctx context.Context, tx *Tx) { tx.Queue(ctx, insertNote, "aborts") }},
		{name: "RAISE(ROLLBACK) in a row among others", told: ErrAppendOnly.Error(), bad: func(ctx context.Context, tx *Tx) { tx.Queue(ctx, insertNote, "ruins") }},
		{name: "RAISE(ROLLBACK)", told: ErrAppendOnly.Error(), bad: func(ctx context.Context, tx *Tx) {
			tx.Queue(ctx, `INSERT INTO ruins VALUES (1)`)
			tx.Queue(ctx, insertNote, "bad too")
		}},
		{name: "database full", prepare: `PRAGMA max_page_count = 40`, told: ErrUnavailable.Error(), bad: func(ctx context.Context, tx *Tx) {
			tx.Queue(ctx, `UPDATE note SET body = zeroblob(1000000) WHERE who = 'bad'`)
		}},
		{name: "fails at COMMIT", told: "constraint failed: FOREIGN KEY constraint failed (787)", bad: func(ctx context.Context, tx *Tx) {
			tx.Queue(ctx, `INSERT INTO child VALUES ('nobody')`)
		}},
		{name: "no statement", told: `SQL logic error: near "no": syntax error (1)`, bad: func(ctx context.Context, tx *Tx) { tx.Queue(ctx, `no statement`) }},
	}
	for _, test := range tests {
		for _, order := range []string{"a bad c", "bad a c", "a c bad", "a bad", "bad a", "bad"} {
			for name, gate := range map[string]error{"followers": nil, "a list leads": errBad} {
				if test.name == "violates that of a neighbour" && !strings.HasPrefix(order, "a") {
					continue
				}
				t.Run(test.name+"/"+order+"/"+name, func(t *testing.T) {
					t.Parallel()
					l := newLab(t)
					if err := l.w.conn.script(t.Context(), test.prepare); err != nil {
						t.Fatal(err)
					}
					var members []member
					wantTold, wantRuns, want := map[string]string{}, map[string]int{}, []string{}
					for one := range strings.FieldsSeq(order) {
						wantTold[one], wantRuns[one] = "well", 1 // who asks nothing has no reason to be asked again
						if one == "bad" {
							members, wantTold[one] = append(members, list(one, test.bad)), test.told
							continue
						}
						members, want = append(members, list(one, nil)), append(want, one)
					}
					told, runs := l.lists(gate, members...)
					if diff := cmp.Diff(wantTold, told); diff != "" {
						t.Errorf("told (-want +got):\n%s", diff)
					}
					if diff := cmp.Diff(wantRuns, runs); diff != "" {
						t.Errorf("runs (-want +got):\n%s", diff)
					}
					if got := l.durable(); !slices.Equal(got, want) {
						t.Errorf("durable is %q, want %q", got, want)
					}
					if err := write(l.db, "afterwards"); err != nil {
						t.Errorf("a later write: %v", err)
					}
				})
			}
		}
	}
}

// A list that failed over what a neighbour wrote runs again when that is undone with the whole group, and is told of that run.
func TestListsFailureIsOfTheLastRun(t *testing.T) {
	t.Parallel()
	for name, gate := range map[string]error{"followers": nil, "a list leads": errBad} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			same := func(ctx context.Context, tx *Tx) { tx.Queue(ctx, insertNote, "same") }
			told, _ := l.lists(gate, list("ruin", func(ctx context.Context, tx *Tx) {
				same(ctx, tx)
				tx.Queue(ctx, `INSERT INTO child VALUES ('nobody')`) // fails at COMMIT
			}), list("a", same), list("b", nil))
			want := map[string]string{"ruin": "constraint failed: FOREIGN KEY constraint failed (787)", "a": "well", "b": "well"}
			if diff := cmp.Diff(want, told); diff != "" {
				t.Errorf("told (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"a", "b", "same"}, l.durable()); diff != "" {
				t.Errorf("durable (-want +got):\n%s", diff)
			}
		})
	}
}

// panicking panics when it is to become an argument.
type panicking struct{}

func (panicking) Value() (sqldriver.Value, error) { panic("bad") }

// Whatever a function does before its list is complete happens in its own goroutine.
func TestListsOfTheirOwners(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	away := func(name string, how func(ctx context.Context, tx *Tx) error) member {
		return member{name: "away", run: func(ctx context.Context, tx *Tx, _ int) error {
			tx.Queue(ctx, insertNote, name)
			return how(ctx, tx)
		}}
	}
	for want, how := range map[string]func(ctx context.Context, tx *Tx) error{
		"bad":           func(context.Context, *Tx) error { return errBad },
		"panic bad":     func(ctx context.Context, tx *Tx) error { tx.Queue(ctx, insertNote, panicking{}); return nil },
		"goexit":        func(context.Context, *Tx) error { runtime.Goexit(); return nil },
		errText.Error(): func(ctx context.Context, tx *Tx) error { tx.Queue(ctx, insertNote, "\x00"); return nil },
		"well":          func(context.Context, *Tx) error { return nil },
	} {
		told, _ := l.lists(nil, list("with "+want, nil), away("gone "+want, how))
		if diff := cmp.Diff(map[string]string{"with " + want: "well", "away": want}, told); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
	}
	want := []string{"gone well", "with bad", "with goexit", "with panic bad", "with " + errText.Error(), "with well"}
	if diff := cmp.Diff(want, l.durable()); diff != "" {
		t.Errorf("durable (-want +got):\n%s", diff)
	}
}

// A list that fails over a neighbour's row is told so when that row is durable: its caller looks for the row at once.
func TestListsConflictIsToldWhenDurable(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	full := make(chan struct{})
	gate := l.begin(t.Context(), inTurn(func(context.Context, *Tx) error { <-full; return nil }))
	l.await("the gate", l.w.isBusy)
	const writers = 8
	found := make(chan error, writers)
	for i := range writers {
		go func() {
			err := l.db.Write(t.Context(), func(ctx context.Context, tx *Tx) error { tx.Queue(ctx, insertNote, "same"); return nil })
			if errors.Is(err, ErrConflict) {
				_, err = One(t.Context(), l.db, Scalar[string], `SELECT who FROM note WHERE who = 'same'`)
			}
			found <- err
		}()
		l.await("another one in line", func() bool { return l.w.inLine() == i+1 })
	}
	close(full)
	for range writers {
		if err := <-found; err != nil {
			t.Error(err)
		}
	}
	if o := <-gate; o.err != nil {
		t.Error(o)
	}
}

// Those who ask and those who do not share a transaction, in whatever order they come.
func TestGroupOfBoth(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	asks := func(name string) func(context.Context, *Tx) error {
		return func(ctx context.Context, tx *Tx) error {
			tx.Queue(ctx, insertNote, name)
			n, err := One(ctx, tx, Scalar[int64], `SELECT COUNT(*) FROM note WHERE who = $1`, name)
			if err == nil && n != 1 {
				err = errBad
			}
			return err
		}
	}
	full := make(chan struct{})
	results := []<-chan outcome{l.begin(t.Context(), inTurn(func(context.Context, *Tx) error { <-full; return nil }))}
	l.await("the gate", l.w.isBusy)
	var want []string
	for i := range 12 {
		name := fmt.Sprintf("%02d", i)
		want = append(want, name)
		f := asks(name)
		if i%4 < 2 {
			f = func(ctx context.Context, tx *Tx) error { tx.Queue(ctx, insertNote, name); return nil }
		}
		results = append(results, l.begin(t.Context(), f))
		l.await(name+" to be in line", func() bool { return l.w.inLine() == i+1 })
	}
	close(full)
	for _, told := range results {
		if o := <-told; o.err != nil {
			t.Error(o)
		}
	}
	if diff := cmp.Diff(want, l.durable()); diff != "" {
		t.Errorf("durable (-want +got):\n%s", diff)
	}
}

// A function that fails over a neighbour's row is told so when that row is durable, never before: its caller looks for the
// row at once.
func TestGroupConflictIsToldWhenDurable(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	full, held := make(chan struct{}), make(chan struct{})
	leader := l.begin(t.Context(), inTurn(func(ctx context.Context, tx *Tx) error {
		<-full
		return insert(ctx, tx, "same")
	}))
	l.await("the leader", func() bool { return l.w.isBusy() })
	loser := l.begin(t.Context(), func(ctx context.Context, tx *Tx) error { return insert(ctx, tx, "same") })
	l.await("the loser in line", func() bool { return l.w.inLine() == 1 })
	last := l.begin(t.Context(), inTurn(func(ctx context.Context, tx *Tx) error {
		<-held // the group cannot end before this
		return insert(ctx, tx, "last")
	}))
	l.await("the last in line", func() bool { return l.w.inLine() == 2 })
	close(full)
	l.await("the last to run", func() bool { return l.w.inLine() == 0 })
	select {
	case o := <-loser:
		t.Fatalf("told %v before the row is durable", o)
	default:
	}
	close(held)
	if o := <-loser; !errors.Is(o.err, ErrConflict) {
		t.Errorf("the loser was told %v", o)
	}
	found, err := One(t.Context(), l.db, Scalar[string], `SELECT who FROM note WHERE who = 'same'`)
	if err != nil || found != "same" {
		t.Errorf("the winner's row cannot be read: %v", err)
	}
	if a, b := <-leader, <-last; a.err != nil || b.err != nil {
		t.Errorf("its neighbours were told %v and %v", a, b)
	}
}

// The cancelling of a write that has begun must not reach its neighbours, nor itself.
func TestGroupCancelledInside(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	outside, cancel := context.WithCancel(t.Context())
	told, runs := l.group(nil, good("leader"), good("a"), member{name: "bad", ctx: outside, run: func(ctx context.Context, tx *Tx, _ int) error {
		if err := insert(ctx, tx, "bad 1"); err != nil {
			return err
		}
		cancel()
		if err := insert(outside, tx, "bad 2"); err != nil {
			return err
		}
		_, err := One(outside, tx, Scalar[string], `SELECT who FROM note WHERE who = 'a'`)
		return err
	}}, good("c"))
	if diff := cmp.Diff(map[string]string{"leader": "well", "a": "well", "bad": "well", "c": "well"}, told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int{"leader": 1, "a": 1, "bad": 1, "c": 1}, runs); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a", "bad 1", "bad 2", "c", "leader"}, l.durable()); diff != "" {
		t.Errorf("durable (-want +got):\n%s", diff)
	}
}

// Whoever is cancelled in line leaves it and runs nothing.
func TestGroupCancelledInLine(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancelled := good("bad")
	cancelled.ctx = ctx
	leave := func() {
		cancel()
		l.await("bad to leave the line", func() bool { return l.w.inLine() == 2 })
	}
	told, runs := l.group(leave, good("leader"), good("a"), cancelled, good("c"))
	if diff := cmp.Diff(map[string]string{"leader": "well", "a": "well", "bad": "context canceled", "c": "well"}, told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int{"leader": 1, "a": 1, "c": 1}, runs); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a", "c", "leader"}, l.durable()); diff != "" {
		t.Errorf("durable (-want +got):\n%s", diff)
	}
}

// Whoever is put back into the line is told in time, too.
func TestGroupLateAfterPutBack(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	start, cancel := context.WithCancel(t.Context())
	one := &turn{w: l.w, start: start, orders: make(chan order, 1)}
	l.w.putBack([]*turn{one})
	cancel()
	if o := <-one.orders; !errors.Is(o.late, context.Canceled) {
		t.Errorf("%+v", o)
	}
}

// Between being called and running there is a last look at the context.
func TestGroupCancelledAtTheStart(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	start, cancel := context.WithCancel(t.Context())
	cancel()
	ran := false
	err := l.w.write(start, t.Context(), new(Tx), func(context.Context, *Tx) error { ran = true; return nil })
	if !errors.Is(err, context.Canceled) || ran {
		t.Errorf("as the leader: %v, ran %t", err, ran)
	}
	if err := write(l.db, "afterwards"); err != nil {
		t.Error(err)
	}
}

// A leader that fails, in whatever way, hands the lead on.
func TestGroupLeaderFails(t *testing.T) {
	t.Parallel()
	fail := map[string]func() error{
		"bad":       func() error { return errBad },
		"panic bad": func() error { panic("bad") },
		"goexit":    func() error { runtime.Goexit(); return nil },
	}
	for want, how := range fail {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			leader := member{name: "leader", run: func(ctx context.Context, tx *Tx, _ int) error {
				_ = insert(ctx, tx, "leader")
				return how()
			}}
			told, _ := l.group(nil, leader, good("a"), good("b"))
			if diff := cmp.Diff(map[string]string{"leader": want, "a": "well", "b": "well"}, told); diff != "" {
				t.Errorf("told (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"a", "b"}, l.durable()); diff != "" {
				t.Errorf("durable (-want +got):\n%s", diff)
			}
		})
		t.Run(want+" when it runs again", func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			leader := member{name: "leader", run: func(ctx context.Context, tx *Tx, run int) error {
				_ = insert(ctx, tx, "leader")
				if run == 1 {
					return nil
				}
				return how()
			}}
			ruin := member{name: "ruin", run: func(ctx context.Context, tx *Tx, _ int) error {
				_, err := tx.Exec(ctx, `INSERT INTO ruins VALUES (1)`)
				return err
			}}
			told, runs := l.group(nil, leader, good("a"), good("b"), ruin, good("c"))
			if diff := cmp.Diff(map[string]string{"leader": want, "a": "well", "b": "well", "ruin": ErrAppendOnly.Error(), "c": "well"}, told); diff != "" {
				t.Errorf("told (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(map[string]int{"leader": 2, "a": 2, "b": 2, "ruin": 1, "c": 1}, runs); diff != "" {
				t.Errorf("runs (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"a", "b", "c"}, l.durable()); diff != "" {
				t.Errorf("durable (-want +got):\n%s", diff)
			}
		})
	}
}

// A member of a dissolved group that fails when it runs again is told so, and only it.
func TestGroupMemberFailsAgain(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	twice := member{name: "twice", run: func(ctx context.Context, tx *Tx, run int) error {
		_ = insert(ctx, tx, "twice")
		if run == 2 {
			panic("twice")
		}
		return nil
	}}
	ruin := member{name: "ruin", run: func(ctx context.Context, tx *Tx, _ int) error {
		_, err := tx.Exec(ctx, `INSERT INTO ruins VALUES (1)`)
		return err
	}}
	told, _ := l.group(nil, good("leader"), twice, good("a"), ruin)
	if diff := cmp.Diff(map[string]string{"leader": "well", "twice": "panic twice", "a": "well", "ruin": ErrAppendOnly.Error()}, told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a", "leader"}, l.durable()); diff != "" {
		t.Errorf("durable (-want +got):\n%s", diff)
	}
}

// A write that gets no turn in time says that nothing happened, and a line that is full refuses at once.
func TestGroupWaits(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	free := make(chan struct{})
	leader := l.begin(t.Context(), inTurn(func(context.Context, *Tx) error { <-free; return nil }))
	l.await("the leader", l.w.isBusy)
	ran := func(context.Context, *Tx) error { t.Error("ran"); return nil }
	list := func(ctx context.Context, tx *Tx) error { tx.Queue(ctx, insertNote, "too late"); return nil }
	for _, f := range []func(context.Context, *Tx) error{inTurn(ran), list} {
		err := l.db.WriteWithin(t.Context(), time.Millisecond, f)
		if !errors.Is(err, ErrUnavailable) || l.w.inLine() != 0 {
			t.Errorf("got %v, %d in line; want ErrUnavailable, 0", err, l.w.inLine())
		}
	}
	l.w.mu.Lock()
	l.w.waiting = make([]*turn, waitingMax)
	l.w.mu.Unlock()
	for _, f := range []func(context.Context, *Tx) error{inTurn(ran), list} {
		if err := l.db.Write(t.Context(), f); !errors.Is(err, ErrUnavailable) {
			t.Errorf("got %v, want ErrUnavailable", err)
		}
	}
	l.w.mu.Lock()
	l.w.waiting = nil
	l.w.mu.Unlock()
	close(free)
	if o := <-leader; o.err != nil {
		t.Error(o)
	}
	if got := l.durable(); len(got) != 0 {
		t.Errorf("durable is %q", got)
	}
}

// Whatever happens to the neighbours: told is durable, and not told is not.
func TestGroupRandom(t *testing.T) {
	t.Parallel()
	const writers, writes = 64, 20
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	l := newLab(t)
	l.w.ageMax = groupAgeMax
	var mu sync.Mutex
	var well []string
	var wait sync.WaitGroup
	for i := range writers {
		wait.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(i)))
			for n := range writes {
				name := fmt.Sprintf("%02d-%02d", i, n)
				fate, asks := random.IntN(20), random.IntN(2) == 0
				ctx, cancel := context.WithCancel(t.Context())
				o := <-l.begin(ctx, func(inside context.Context, tx *Tx) error {
					run := func(sql string, args ...any) error {
						if !asks {
							tx.Queue(inside, sql, args...)
							return nil
						}
						_, err := tx.Exec(inside, sql, args...)
						return err
					}
					if err := run(insertNote, name); err != nil {
						return err
					}
					switch fate {
					case 0:
						return errBad
					case 1:
						return run(insertNote, name)
					case 2:
						_ = run(`INSERT INTO aborts VALUES (1)`)
						return nil
					case 3:
						panic(errBad)
					case 4:
						runtime.Goexit()
					case 5:
						return run(`INSERT INTO ruins VALUES (1)`)
					case 6:
						if asks { // otherwise it may leave the line
							cancel()
						}
						tx.Queue(ctx, `UPDATE note SET size = 2 WHERE who = $1`, name)
					case 7:
						runtime.Gosched()
					}
					return nil
				})
				cancel()
				if bad := fate <= 5; (o.String() == "well") == bad {
					t.Errorf("%s with fate %d was told %s", name, fate, o)
				}
				if o.String() == "well" {
					mu.Lock()
					well = append(well, name)
					mu.Unlock()
				}
			}
		})
	}
	wait.Wait()
	slices.Sort(well)
	if diff := cmp.Diff(well, l.durable()); diff != "" {
		t.Errorf("told and durable differ (-told +durable):\n%s", diff)
	}
}

// When COMMIT fails nobody knows; the file does, once it is opened again.
func TestCommitFails(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.db.Close()
	out, err := Child("commit", l.path).Output()
	if err != nil {
		t.Fatal(err)
	}
	want := "not broken well\nleader unknown\na unknown\nb unknown\nbroken unavailable\nlater unavailable\nping unavailable\nread well\nat once true\n"
	if diff := cmp.Diff(want, string(out)); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	got := l.durable()
	all, none := []string{"a", "b", "before", "leader"}, []string{"before"}
	if !slices.Equal(got, all) && !slices.Equal(got, none) {
		t.Errorf("durable is %q, want %q or %q", got, all, none)
	}
}

// A process that is killed has told nothing that is not there.
func TestKill(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.db.Close()
	child := Child("kill", l.path)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	told := map[string]bool{}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		told[lines.Text()] = true
		if len(told) == 200 {
			_ = child.Process.Kill()
		}
	}
	_ = child.Wait()
	if len(told) < 200 {
		t.Fatalf("the child told %d writes", len(told))
	}
	there := l.durable()
	for name := range told {
		if !slices.Contains(there, name) {
			t.Errorf("%s was told and is not durable", name)
		}
	}
}

// Statements are kept, but not without end.
func TestStatementsKept(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	err := l.db.Write(t.Context(), func(ctx context.Context, tx *Tx) error {
		for i := range statementsKept + 10 {
			n, err := One(ctx, tx, Scalar[int64], `SELECT `+strconv.Itoa(i))
			if err != nil || n != int64(i) {
				return fmt.Errorf("%d: got %d, %w", i, n, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if n := len(l.w.conn.kept); n != statementsKept {
		t.Errorf("%d statements kept, want %d", n, statementsKept)
	}
}

// A place where SQLite cannot keep its log is refused: readers would wait for the writer, or see nothing of it.
func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for _, path := range []string{":memory:", "", t.TempDir(), filepath.Join(t.TempDir(), "no", "such", "folder")} {
		db, err := Open(t.Context(), "sqlite:"+path)
		if err == nil {
			db.Close()
			t.Errorf("%q was opened", path)
		}
	}
	if _, err := Open(t.Context(), "mysql://root@localhost"); err == nil || strings.Contains(err.Error(), "root") {
		t.Errorf("got %v", err)
	}
}
