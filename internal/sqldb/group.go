package sqldb

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"
)

// One COMMIT of SQLite costs a flush of the disk, whatever is in it. So writes that wait for each other anyway share
// one: whoever finds the writer free becomes the leader, opens the transaction and runs its own function in it; then it
// hands the transaction to one waiting writer after another, each of which runs its function in its own goroutine,
// inside a savepoint, and hands it back; then the leader commits and tells all of them.
//
// Functions run in the goroutines of their owners, so that a panic or runtime.Goexit unwinds the one that caused it.
//
// Three things can go wrong. A function that fails is undone by its savepoint: nobody else notices. It is told only after
// the COMMIT, because it may have failed over a neighbour's row that is not durable before. A failure after which SQLite has rolled back the whole transaction (disk full, out of memory, RAISE(ROLLBACK)) shows in the savepoint
// being gone: the group is dissolved and every other function runs again in a transaction of its own. A COMMIT that
// fails leaves open what is durable: all are told ErrCommitUnknown, and this process never writes again, because only
// reopening the file can tell.
const (
	groupMax    = 64
	groupAgeMax = 2 * time.Millisecond
	waitingMax  = 10_000 // writers in line; more are refused
)

type writer struct {
	conn *sql.Conn            // used by whoever holds the transaction
	kept map[string]*sql.Stmt // prepared on conn, by their text as written

	mu      sync.Mutex
	busy    bool      // there is a leader
	waiting []*waiter // in order of arrival
	failed  error     // set once, by a COMMIT that failed
}

// waiter is a write that somebody else leads.
type waiter struct {
	orders  chan order  // from the leader
	reports chan report // to the leader
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
	runAlone             // run again, alone in the transaction
	settle               // the transaction has ended
)

// report is how a function's run ended.
type report int

const (
	ranWell   report = iota // its work is in the transaction
	ranBadly                // it failed and its work is undone
	ranAway                 // it panicked or called Goexit: its work is undone and nobody waits for an answer
	ranToRuin               // the whole transaction is gone
)

func newWriter(conn *sql.Conn) *writer {
	return &writer{conn: conn, kept: map[string]*sql.Stmt{}}
}

func (w *writer) close() { _ = w.conn.Close() }

// write runs f as the leader or under one.
func (w *writer) write(ctx context.Context, tx *Tx, f func(context.Context, *Tx) error) error {
	run := func() error { return tx.run(ctx, liteWriter{w}, f) }
	w.mu.Lock()
	switch {
	case w.failed != nil:
		defer w.mu.Unlock()
		return failure(ErrUnavailable, w.failed)
	case !w.busy:
		w.busy = true
		w.mu.Unlock()
		return w.lead(ctx, run)
	case len(w.waiting) == waitingMax:
		defer w.mu.Unlock()
		return fmt.Errorf("%w: %d writes are waiting", ErrUnavailable, waitingMax)
	}
	me := &waiter{orders: make(chan order, 1), reports: make(chan report, 1)}
	w.waiting = append(w.waiting, me)
	w.mu.Unlock()

	var ran error // how f ended
	for {
		switch o := <-me.orders; o.do {
		case lead:
			return w.lead(ctx, run)
		case runSaved:
			var end report
			if end, ran = w.runSaved(ctx, me, run); end == ranToRuin {
				return ran
			}
		case runAlone:
			ran = w.runAlone(me, run)
		case settle:
			return cmp.Or(o.err, ran)
		}
	}
}

// lead runs one group, its own function first.
func (w *writer) lead(ctx context.Context, run func() error) error {
	defer w.passOn()
	if err := w.begin(ctx); err != nil {
		return err
	}
	if err := w.runFirst(ctx, run); err != nil {
		return err
	}
	started, group := time.Now(), []*waiter(nil)
	for len(group) < groupMax-1 && time.Since(started) < groupAgeMax {
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
			return w.dissolve(ctx, run, group)
		}
	}
	err := w.commit(ctx)
	for _, member := range group {
		member.orders <- order{do: settle, err: err}
	}
	return err
}

// runFirst runs the leader's own function, alone in the transaction.
func (w *writer) runFirst(ctx context.Context, run func() error) error {
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

// runAlone runs a waiting writer's function in a transaction that is its own.
func (w *writer) runAlone(me *waiter, run func() error) error {
	end := ranAway
	defer func() { me.reports <- end }()
	err := run()
	end = ranWell
	if err != nil {
		end = ranBadly
	}
	return err
}

// dissolve runs every function of a group whose transaction is gone again, each in a transaction of its own. The leader's
// comes last: if it panics now, nobody waits for it any more.
func (w *writer) dissolve(ctx context.Context, run func() error, group []*waiter) error {
	w.rollback(ctx)
	for _, member := range group {
		err := w.begin(ctx)
		if err == nil {
			member.orders <- order{do: runAlone}
			switch <-member.reports {
			case ranWell:
				err = w.commit(ctx)
			case ranBadly, ranToRuin:
				w.rollback(ctx)
			case ranAway:
				w.rollback(ctx)
				continue
			}
		}
		member.orders <- order{do: settle, err: err}
	}
	if err := w.begin(ctx); err != nil {
		return err
	}
	if err := w.runFirst(ctx, run); err != nil {
		return err
	}
	return w.commit(ctx)
}

// next takes the writer that has waited longest, or nil.
func (w *writer) next() *waiter {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.waiting) == 0 {
		return nil
	}
	first := w.waiting[0]
	w.waiting[0] = nil
	w.waiting = w.waiting[1:]
	return first
}

// passOn makes the writer that has waited longest the leader.
func (w *writer) passOn() {
	if next := w.next(); next != nil {
		next.orders <- order{do: lead}
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	// Somebody may have come in line since next looked.
	if len(w.waiting) == 0 {
		w.waiting = nil
		w.busy = false
		return
	}
	first := w.waiting[0]
	w.waiting = w.waiting[1:]
	first.orders <- order{do: lead}
}

func (w *writer) begin(ctx context.Context) error {
	w.mu.Lock()
	failed := w.failed
	w.mu.Unlock()
	if failed != nil {
		return failure(ErrUnavailable, failed)
	}
	return w.do(ctx, `BEGIN IMMEDIATE`)
}

func (w *writer) commit(ctx context.Context) error {
	err := w.do(ctx, `COMMIT`)
	if err == nil {
		return nil
	}
	w.rollback(ctx)
	if errors.Is(err, errTransient) {
		return err // busy: SQLite keeps the transaction open and writes nothing
	}
	err = failure(ErrCommitUnknown, err)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = err
	return err
}

// rollback fails only where there is nothing left to roll back.
func (w *writer) rollback(ctx context.Context) { _ = w.do(ctx, `ROLLBACK`) }

func (w *writer) do(ctx context.Context, text string) error {
	_, err := liteWriter{w}.exec(ctx, text, nil)
	return err
}

// liteWriter is the transaction as a function sees it.
type liteWriter struct{ w *writer }

func (s liteWriter) prepare(ctx context.Context, text string) (*sql.Stmt, error) {
	if stmt := s.w.kept[text]; stmt != nil {
		return stmt, nil
	}
	if len(s.w.kept) == statementsKept {
		for old, stmt := range s.w.kept {
			_ = stmt.Close()
			delete(s.w.kept, old)
			break
		}
	}
	stmt, err := s.w.conn.PrepareContext(ctx, liteText(text))
	if err == nil {
		s.w.kept[text] = stmt
	}
	return stmt, err
}

func (s liteWriter) queue(ctx context.Context, text string, args []any) error {
	_, err := s.exec(ctx, text, args)
	return err
}

func (s liteWriter) exec(ctx context.Context, text string, args []any) (int64, error) {
	ctx = context.WithoutCancel(ctx)
	stmt, err := s.prepare(ctx, text)
	if err != nil {
		return 0, liteError(err)
	}
	result, err := stmt.ExecContext(ctx, args...)
	if err != nil {
		return 0, liteError(err)
	}
	return result.RowsAffected()
}

func (s liteWriter) query(ctx context.Context, text string, args []any, each func(Row) error) error {
	ctx = context.WithoutCancel(ctx)
	stmt, err := s.prepare(ctx, text)
	if err != nil {
		return liteError(err)
	}
	rows, err := stmt.QueryContext(ctx, args...)
	if err != nil {
		return liteError(err)
	}
	return eachLiteRow(ctx, rows, each)
}

func (s liteWriter) script(ctx context.Context, text string) error {
	_, err := s.w.conn.ExecContext(context.WithoutCancel(ctx), text)
	return liteError(err)
}
