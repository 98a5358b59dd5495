package sqldb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	lite "modernc.org/sqlite/lib"
)

// One COMMIT of SQLite costs a flush of the disk, whatever is in it. So writes that wait for each other anyway share one:
// whoever finds the writer free becomes the leader, opens the transaction and does its own work in it; then it lets one
// waiting writer after another do theirs; then it commits and tells all of them.
//
// A function that only queues has asked nothing, so it needs no turn: it is a list of statements, and the leader runs the
// lists of all who wait as one, in its own goroutine, with rows of one text by one INSERT (literows.go). A function that
// asks gets the transaction at its first question, runs on in its own goroutine, inside a savepoint, and hands it back; there
// a panic or runtime.Goexit unwinds the one that caused it.
//
// Savepoints are dear: SQLite keeps a copy of each page that changes inside. So lists run without one as long as there is
// nothing but lists in the transaction, and then in one for as many as wait. When one of them fails, they run again, each in
// a savepoint of its own.
//
// Three things can go wrong. A function that fails is undone by its savepoint: nobody else notices. It is told only after the
// COMMIT, because it may have failed over a neighbour's row that is not durable before. A failure after which SQLite has rolled
// back the whole transaction (disk full, out of memory, RAISE(ROLLBACK)) shows in the savepoint being gone: the group is
// dissolved and every other function runs again in a transaction of its own. A COMMIT that fails leaves open what is durable:
// all are told ErrCommitUnknown, and this process never writes again, because only reopening the file can tell. Who runs it
// learns that from [DB.Broken].
const (
	groupMax    = 64
	groupAgeMax = 2 * time.Millisecond
	waitingMax  = 10_000                // writers in line; more are refused
	lineEvery   = 50 * time.Millisecond // who has waited for too long is told so

	begin = `BEGIN IMMEDIATE` // now, so that nothing in it waits for another process
)

type writer struct {
	conn   *liteConn     // used by whoever holds the transaction
	joins  *liteJoiner   // used by the leader
	ageMax time.Duration // of a group that others may still join

	mu      sync.Mutex
	busy    bool    // there is a leader
	waiting []*turn // in order of arrival
	watched bool    // somebody looks at the line, see watch
	failed  error   // set once, by a COMMIT that failed

	broken chan struct{} // closed when failed is set
}

// turn is one write. It is a session that queues until it has to ask.
type turn struct {
	w     *writer
	start context.Context // until it has its turn, the end of this ends it
	ctx   context.Context // of its statements
	place place
	list  []statement // what it has queued outside of the transaction
	asks  bool        // it needs the transaction in its own goroutine
	alone bool        // its group was dissolved: when it leads, it leads nobody else

	orders  chan order  // from the leader
	reports chan report // to the leader
	failed  error       // of its list, in the leader's hands
}

// place is where a write stands.
type place int

const (
	outsider  place = iota // it has no transaction
	leading                // it has opened the transaction
	following              // it was handed the transaction, inside a savepoint
)

// order is what a leader tells a waiting writer.
type order struct {
	do   task
	err  error // of settle; nil means that it is durable
	late error // it has waited for too long, and there is nothing to do
}

type task int

const (
	lead   task = iota // become the leader
	run                // the transaction is yours for a while
	settle             // the transaction has ended
)

// report is how a function's run ended.
type report int

const (
	ranWell   report = iota // its work is in the transaction
	ranBadly                // it failed, and its work is undone
	ranAway                 // it panicked or called Goexit: its work is undone, and nobody waits for an answer
	ranToRuin               // the whole transaction is gone
)

func newWriter(conn *liteConn) *writer {
	return &writer{conn: conn, joins: newLiteJoiner(), ageMax: groupAgeMax, broken: make(chan struct{})}
}

// down returns why nothing can be written any more, or nil.
func (w *writer) down() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.downLocked()
}

func (w *writer) downLocked() error {
	if w.failed == nil {
		return nil
	}
	return only(ErrUnavailable, w.failed) // that COMMIT is unknown, this write is not
}

// write runs f and makes durable what it wrote. Until it has its turn, the end of start ends the call.
func (w *writer) write(start, ctx context.Context, tx *Tx, f func(context.Context, *Tx) error) error {
	if start.Err() != nil {
		return context.Cause(start)
	}
	if err := w.down(); err != nil {
		return err
	}
	t := &turn{w: w, start: start, ctx: ctx}
	defer t.abandon()
	err := tx.run(ctx, t, f)
	again := func() error { return tx.run(ctx, t, f) }
	switch {
	case t.place == leading:
		return t.lead(err, again)
	case t.place == following:
		return t.follow(err, again)
	case err != nil, len(t.list) == 0:
		return err // nothing was written
	}
	return t.travel()
}

func (t *turn) queue(ctx context.Context, text string, args []any, otherwise error) error {
	if t.place != outsider {
		return t.w.conn.queue(ctx, text, args, otherwise)
	}
	if err := plain(args); err != nil {
		return err
	}
	t.list = append(t.list, statement{sql: text, args: args, otherwise: otherwise})
	return nil
}

func (t *turn) exec(ctx context.Context, text string, args []any) (int64, error) {
	if err := t.enter(); err != nil {
		return 0, err
	}
	return t.w.conn.exec(ctx, text, args)
}

func (t *turn) query(ctx context.Context, text string, args []any, each func(Row) error) error {
	if err := t.enter(); err != nil {
		return err
	}
	return t.w.conn.query(ctx, text, args, each)
}

func (t *turn) script(ctx context.Context, text string) error {
	if err := t.enter(); err != nil {
		return err
	}
	return t.w.conn.script(ctx, text)
}

// enter waits for the transaction, because the function has a question, and runs what it has queued until then.
func (t *turn) enter() error {
	if t.place != outsider {
		return nil
	}
	t.asks = true
	o, err := t.wait()
	if err != nil {
		return err
	}
	if o.do == lead {
		err = t.begin()
	} else if err = t.w.do(t.ctx, `SAVEPOINT one`); err == nil {
		t.place = following
	} else {
		t.reports <- ranToRuin
	}
	if err != nil {
		return err
	}
	list := t.list
	t.list = nil
	return t.w.runList(t.ctx, list)
}

// travel has the list run by whoever leads.
func (t *turn) travel() error {
	o, err := t.wait()
	if err != nil || o.do == settle {
		return cmp.Or(err, o.err)
	}
	runList := func() error { return t.w.runList(t.ctx, t.list) }
	if err := t.begin(); err != nil {
		return err
	}
	return t.lead(runList(), runList)
}

// wait returns what to do: lead, when nobody else does, or what the leader says.
func (t *turn) wait() (order, error) {
	w := t.w
	w.mu.Lock()
	switch {
	case w.failed != nil:
		defer w.mu.Unlock()
		return order{}, w.downLocked()
	case !w.busy:
		w.busy = true
		w.mu.Unlock()
		return order{do: lead}, nil
	case len(w.waiting) >= waitingMax:
		defer w.mu.Unlock()
		return order{}, fmt.Errorf("%w: %d writes are waiting", ErrUnavailable, waitingMax)
	}
	t.orders = make(chan order, 1)
	if t.asks {
		t.reports = make(chan report, 1)
	}
	w.waiting = append(w.waiting, t)
	w.watchLocked()
	w.mu.Unlock()
	o := <-t.orders
	return o, o.late
}

// watch tells those in line whose time is over, and looks again for as long as there is a line. So nobody needs a timer of
// its own, which would cost as much as a row. One that had its turn in a group that was dissolved gets another one, however
// late.
func (w *writer) watch() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = slices.DeleteFunc(w.waiting, func(t *turn) bool {
		late := t.start.Err() != nil && (!t.asks || !t.alone)
		if late {
			t.orders <- order{late: context.Cause(t.start)}
		}
		return late
	})
	w.watched = false
	w.watchLocked()
}

// watchLocked has the line looked at in a while, if there is one.
func (w *writer) watchLocked() {
	if len(w.waiting) > 0 && !w.watched {
		w.watched = true
		time.AfterFunc(lineEvery, w.watch)
	}
}

// begin opens the transaction of a leader.
func (t *turn) begin() error {
	err := t.w.down()
	if err == nil {
		err = t.w.do(t.ctx, begin)
	}
	if err != nil {
		t.w.passOn()
		return err
	}
	t.place = leading
	return nil
}

// lead ends the transaction of a leader whose own work ended with err. When the transaction is lost by no fault of its own,
// that work is done again.
func (t *turn) lead(err error, again func() error) error {
	w := t.w
	for ; err == nil; err = again() {
		var group []*turn
		whole := true
		if !t.alone {
			group, whole = w.gather(t)
		}
		if whole {
			err := w.commit(t.ctx)
			if err == nil || len(group) == 0 || errors.Is(err, ErrCommitUnknown) {
				t.place = outsider
				for _, member := range group {
					member.orders <- order{do: settle, err: cmp.Or(err, member.failed)}
				}
				w.passOn()
				return cmp.Or(err, t.failed)
			}
		}
		// Nothing of the group is left. Each runs again, and nobody else's failure can reach it.
		w.rollback(t.ctx)
		w.putBack(group)
		t.alone, t.failed = true, nil
		t.place = outsider
		if err := t.begin(); err != nil {
			return err
		}
	}
	t.leaveLead()
	return err
}

// leaveLead undoes what a leader did and makes another one the leader.
func (t *turn) leaveLead() {
	t.place = outsider
	t.w.rollback(t.ctx)
	t.w.passOn()
}

// follow hands the transaction back after a function that ended with err, and waits until it is durable.
func (t *turn) follow(err error, again func() error) error {
	if err == nil {
		err = t.w.do(t.ctx, `RELEASE one`)
	}
	end := ranWell
	if err != nil {
		end = t.w.undo(t.ctx, ranBadly)
	}
	t.place = outsider
	t.reports <- end
	if end == ranToRuin {
		return err
	}
	o := <-t.orders
	if o.do == settle {
		return cmp.Or(o.err, err)
	}
	if err := t.begin(); err != nil {
		return err
	}
	return t.lead(again(), again)
}

// abandon gives up the transaction when the function has panicked or called Goexit. Otherwise it was given up before.
func (t *turn) abandon() {
	switch t.place {
	case outsider:
	case leading:
		t.leaveLead()
	case following:
		t.place = outsider
		t.reports <- t.w.undo(t.ctx, ranAway)
	}
}

// gather lets waiting writers join the leader's transaction and returns those who did, and whether it still exists.
func (w *writer) gather(leader *turn) (group []*turn, whole bool) {
	ctx := leader.ctx
	yielded := false
	bare := !leader.asks // there is nothing in it but lists, which can run again
	for started := time.Now(); len(group) < groupMax-1 && time.Since(started) < w.ageMax; {
		next := w.next(groupMax - 1 - len(group))
		if len(next) == 0 && !yielded {
			yielded = true
			runtime.Gosched() // those who were told of the last COMMIT are about to come again
			continue
		}
		if len(next) == 0 {
			break
		}
		yielded = false
		if next[0].asks {
			bare = false
			next[0].orders <- order{do: run}
			switch <-next[0].reports {
			case ranWell, ranBadly:
				group = append(group, next[0])
			case ranAway:
			case ranToRuin:
				return group, false
			}
			continue
		}
		group = append(group, next...)
		switch {
		case bare && w.runAll(ctx, next) == nil:
			continue
		case bare:
			bare = false
			w.rollback(ctx)
			whole = w.do(ctx, begin) == nil && w.runApart(ctx, append([]*turn{leader}, group...))
		default:
			whole = w.runLists(ctx, next)
		}
		if !whole {
			return group, false
		}
	}
	return group, true
}

// runLists runs lists, all in one savepoint if it can be, and reports whether the transaction still exists.
func (w *writer) runLists(ctx context.Context, some []*turn) (whole bool) {
	if len(some) > 1 {
		err, whole := w.runSaved(ctx, some)
		if err == nil || !whole {
			return whole
		}
	}
	return w.runApart(ctx, some)
}

// runApart runs each list in a savepoint of its own and reports whether the transaction still exists.
func (w *writer) runApart(ctx context.Context, some []*turn) (whole bool) {
	for i, t := range some {
		if t.failed, whole = w.runSaved(ctx, some[i:i+1]); !whole {
			return false
		}
	}
	return true
}

// runSaved runs lists in a savepoint. After a failure nothing of them is left; if whole is false, nothing of anybody.
func (w *writer) runSaved(ctx context.Context, some []*turn) (err error, whole bool) {
	if err := w.do(ctx, `SAVEPOINT one`); err != nil {
		return err, false
	}
	if err = w.runAll(ctx, some); err == nil {
		err = w.do(ctx, `RELEASE one`)
	}
	if err != nil {
		return err, w.undo(ctx, ranBadly) != ranToRuin
	}
	return nil, true
}

// runAll runs lists as one. After a failure some of it may be left.
func (w *writer) runAll(ctx context.Context, some []*turn) error {
	return w.runList(ctx, w.joins.join(some))
}

func (w *writer) runList(ctx context.Context, list []statement) error {
	for _, s := range list {
		if err := w.conn.queue(ctx, s.sql, s.args, s.otherwise); err != nil {
			return err
		}
	}
	return nil
}

// undo rolls back to the savepoint and ends it. It returns end, unless the savepoint is gone with the whole transaction.
func (w *writer) undo(ctx context.Context, end report) report {
	if w.do(ctx, `ROLLBACK TO one`) != nil || w.do(ctx, `RELEASE one`) != nil {
		return ranToRuin
	}
	return end
}

// next takes out of the line who has waited longest: one who asks, or as many lists as follow each other, up to limit.
func (w *writer) next(limit int) []*turn {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for n < min(len(w.waiting), limit) && !w.waiting[n].asks {
		n++
	}
	return w.takeLocked(max(n, min(len(w.waiting), 1)))
}

func (w *writer) takeLocked(n int) []*turn {
	first := slices.Clone(w.waiting[:n])
	w.waiting = slices.Delete(w.waiting, 0, n)
	return first
}

// putBack puts the members of a dissolved group before all who wait. How they fared in it says nothing any more: what one
// failed over may have been undone.
func (w *writer) putBack(group []*turn) {
	for _, member := range group {
		member.alone, member.failed = true, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = append(group, w.waiting...)
	w.watchLocked()
}

// passOn makes the writer that has waited longest the leader.
func (w *writer) passOn() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.waiting) == 0 {
		w.busy = false
		return
	}
	w.takeLocked(1)[0].orders <- order{do: lead}
}

// commit returns ErrCommitUnknown, or an error after which nothing was written.
func (w *writer) commit(ctx context.Context) error {
	err := w.do(ctx, `COMMIT`)
	if err == nil {
		return nil
	}
	w.rollback(ctx)
	switch liteCode(err) & litePrimary {
	case lite.SQLITE_BUSY, lite.SQLITE_CONSTRAINT:
		return err // refused before anything was written
	}
	err = only(ErrCommitUnknown, err)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = err
	close(w.broken) // once: nothing reaches COMMIT after that
	return err
}

// rollback fails only where there is nothing left to roll back.
func (w *writer) rollback(ctx context.Context) { _ = w.do(ctx, `ROLLBACK`) }

func (w *writer) do(ctx context.Context, text string) error {
	_, err := w.conn.exec(ctx, text, nil)
	return err
}
