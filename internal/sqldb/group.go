package sqldb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	lite "modernc.org/sqlite/lib"
)

// One COMMIT of SQLite costs a flush of the disk, whatever is in it. So writes that wait for each other anyway share
// one: whoever finds the writer free becomes the leader, opens the transaction and runs its own function in it; then it
// hands the transaction to one waiting writer after another, each of which runs its function in its own goroutine,
// inside a savepoint, and hands it back; then the leader commits and tells all of them.
//
// Functions run in the goroutines of their owners, so that a panic or runtime.Goexit unwinds the one that caused it.
//
// Three things can go wrong. A function that fails is undone by its savepoint: nobody else notices. It is told only after
// the COMMIT, because it may have failed over a neighbour's row that is not durable before. A failure after which SQLite
// has rolled back the whole transaction (disk full, out of memory, RAISE(ROLLBACK)) shows in the savepoint being gone: the
// group is dissolved and every other function runs again in a transaction of its own. A COMMIT that fails leaves open what
// is durable: all are told ErrCommitUnknown, and this process never writes again, because only reopening the file can tell.
const (
	groupMax    = 64
	groupAgeMax = 2 * time.Millisecond
	waitingMax  = 10_000 // writers in line; more are refused
)

type writer struct {
	conn   *liteConn     // used by whoever holds the transaction
	ageMax time.Duration // of a group that others may still join

	mu      sync.Mutex
	busy    bool      // there is a leader
	waiting []*waiter // in order of arrival
	failed  error     // set once, by a COMMIT that failed
}

// waiter is a write that somebody else leads.
type waiter struct {
	orders  chan order  // from the leader
	reports chan report // to the leader
	alone   bool        // its group was dissolved: when it leads, it leads nobody else
}

// order is what a leader tells a waiting writer.
type order struct {
	do  task
	err error // of settle; nil means that it is durable
}

type task int

const (
	lead     task = iota // become the leader
	runSaved             // run in a savepoint
	settle               // the transaction has ended
)

// report is how a function's run ended.
type report int

const (
	ranWell   report = iota // its work is in the transaction
	ranBadly                // it failed, and its work is undone
	ranAway                 // it panicked or called Goexit: its work is undone, and nobody waits for an answer
	ranToRuin               // the whole transaction is gone
)

func newWriter(conn *liteConn) *writer { return &writer{conn: conn, ageMax: groupAgeMax} }

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

// write runs f as the leader or under one. Until f has started, the end of start ends the call.
func (w *writer) write(start, ctx context.Context, tx *Tx, f func(context.Context, *Tx) error) error {
	run := func() error {
		if tx.s == nil && start.Err() != nil {
			return context.Cause(start)
		}
		return tx.run(ctx, w.conn, f)
	}
	w.mu.Lock()
	switch {
	case w.failed != nil:
		defer w.mu.Unlock()
		return w.downLocked()
	case !w.busy:
		w.busy = true
		w.mu.Unlock()
		return w.lead(ctx, run, false)
	case len(w.waiting) >= waitingMax:
		defer w.mu.Unlock()
		return fmt.Errorf("%w: %d writes are waiting", ErrUnavailable, waitingMax)
	}
	me := &waiter{orders: make(chan order, 1), reports: make(chan report, 1)}
	w.waiting = append(w.waiting, me)
	w.mu.Unlock()

	var o order
	select {
	case o = <-me.orders:
	case <-start.Done():
		if w.leave(me) {
			return context.Cause(start)
		}
		o = <-me.orders
	}
	var ran error // how f ended
	for ; ; o = <-me.orders {
		switch o.do {
		case lead:
			return w.lead(ctx, run, me.alone)
		case runSaved:
			var end report
			if end, ran = w.runSaved(ctx, me, run); end == ranToRuin {
				return ran
			}
		case settle:
			return cmp.Or(o.err, ran)
		}
	}
}

// lead runs one group, its own function first.
func (w *writer) lead(ctx context.Context, run func() error, alone bool) error {
	defer w.passOn()
	for {
		if err := w.runFirst(ctx, run); err != nil {
			return err
		}
		var group []*waiter
		whole := true
		if !alone {
			group, whole = w.gather()
		}
		if whole {
			err := w.commit(ctx)
			if err == nil || len(group) == 0 || errors.Is(err, ErrCommitUnknown) {
				for _, member := range group {
					member.orders <- order{do: settle, err: err}
				}
				return err
			}
		}
		// Nothing of the group is left. Each runs again, and nobody else's failure can reach it.
		w.rollback(ctx)
		w.putBack(group)
		alone = true
	}
}

// runFirst opens a transaction and runs the leader's own function in it.
func (w *writer) runFirst(ctx context.Context, run func() error) error {
	if err := w.begin(ctx); err != nil {
		return err
	}
	well := false
	defer func() {
		if !well { // failed, panicked or left by Goexit
			w.rollback(ctx)
		}
	}()
	if err := run(); err != nil {
		return err
	}
	well = true
	return nil
}

// gather lets waiting writers join the transaction and returns those who did, and whether it still exists.
func (w *writer) gather() (group []*waiter, whole bool) {
	for started := time.Now(); len(group) < groupMax-1 && time.Since(started) < w.ageMax; {
		next := w.next()
		if next == nil {
			break
		}
		next.orders <- order{do: runSaved}
		switch <-next.reports {
		case ranWell, ranBadly:
			group = append(group, next)
		case ranAway:
		case ranToRuin:
			return group, false
		}
	}
	return group, true
}

// runSaved runs a waiting writer's function between its neighbours' and reports how it ended.
func (w *writer) runSaved(ctx context.Context, me *waiter, run func() error) (end report, err error) {
	end = ranToRuin
	defer func() { me.reports <- end }()
	if err := w.do(ctx, `SAVEPOINT one`); err != nil {
		return end, err
	}
	end = ranAway
	defer func() {
		if end != ranWell && (w.do(ctx, `ROLLBACK TO one`) != nil || w.do(ctx, `RELEASE one`) != nil) {
			end = ranToRuin
		}
	}()
	if err = run(); err == nil {
		err = w.do(ctx, `RELEASE one`)
	}
	end = ranWell
	if err != nil {
		end = ranBadly
	}
	return end, err
}

// next takes the writer that has waited longest out of the line, or nil.
func (w *writer) next() *waiter {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.nextLocked()
}

func (w *writer) nextLocked() *waiter {
	if len(w.waiting) == 0 {
		w.waiting = nil
		return nil
	}
	first := w.waiting[0]
	w.waiting[0] = nil
	w.waiting = w.waiting[1:]
	return first
}

// leave takes me out of the line and reports whether it was still there.
func (w *writer) leave(me *waiter) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.Index(w.waiting, me)
	if i < 0 {
		return false
	}
	w.waiting = slices.Delete(w.waiting, i, i+1)
	return true
}

// putBack puts the members of a dissolved group before all who wait.
func (w *writer) putBack(group []*waiter) {
	for _, member := range group {
		member.alone = true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = append(group, w.waiting...)
}

// passOn makes the writer that has waited longest the leader.
func (w *writer) passOn() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if first := w.nextLocked(); first != nil {
		first.orders <- order{do: lead}
		return
	}
	w.busy = false
}

func (w *writer) begin(ctx context.Context) error {
	if err := w.down(); err != nil {
		return err
	}
	return w.do(ctx, `BEGIN IMMEDIATE`)
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
	return err
}

// rollback fails only where there is nothing left to roll back.
func (w *writer) rollback(ctx context.Context) { _ = w.do(ctx, `ROLLBACK`) }

func (w *writer) do(ctx context.Context, text string) error {
	_, err := w.conn.exec(ctx, text, nil)
	return err
}
