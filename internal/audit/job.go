package audit

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/oplog"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// State is where an audit on demand stands.
type State string

const (
	Never     State = ""          // none was asked for since this node started
	Waiting   State = "waiting"   // it begins within a moment
	Running   State = "running"   // accounts are added up
	Done      State = "done"      // every account was
	Cancelled State = "cancelled" // somebody ended it, or the node did
	Failed    State = "failed"    // the database did not answer
)

// isOver reports whether another one may begin.
func (s State) isOver() bool { return s != Waiting && s != Running }

// Progress is how far an audit on demand has come.
type Progress struct {
	State     State
	By        string    // who asked for it
	StartedAt time.Time // business time when it was asked for
	EndedAt   time.Time // zero before
	Accounts  int64     // done
	Of        int64     // how many there were when it began
	Transfers int64     // added up, once it is done
	Problems  []ledger.Problem
	Err       string // why it failed, for operators; "" when it did not
}

// Job is the audit on demand of one node: one at a time, and its result kept until the next. Make it with [NewJob].
type Job struct {
	db    *sqldb.DB
	clock *clock.Clock
	ids   *id.Generator
	wake  chan struct{}

	mu     sync.Mutex
	at     Progress
	cancel context.CancelFunc // of the one that runs
}

// NewJob returns a job that has never run.
func NewJob(db *sqldb.DB, c *clock.Clock, ids *id.Generator) *Job {
	return &Job{db: db, clock: c, ids: ids, wake: make(chan struct{}, 1)}
}

// ErrRunning is returned where an audit is asked for while one runs.
var ErrRunning = fault.New(fault.Conflict, "audit_running", "an audit runs already")

// Start asks for an audit, which [Job.Step] then runs. It fails with [ErrRunning] while there is one.
func (j *Job) Start(ctx context.Context) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.at.State.isOver() {
		return ErrRunning
	}
	entry := oplog.Begin(ctx, j.ids, oplog.Entry{Action: oplog.AuditRun, Subject: "ledger"})
	if err := j.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error { entry.Write(ctx, tx); return nil }); err != nil {
		return err
	}
	j.at = Progress{State: Waiting, By: entry.Actor.String(), StartedAt: j.clock.Now()}
	select {
	case j.wake <- struct{}{}:
	default: // it is awake already
	}
	return nil
}

// Cancel ends the audit that runs or waits; without one it does nothing.
func (j *Job) Cancel() {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch j.at.State {
	case Waiting:
		j.at.State, j.at.EndedAt = Cancelled, j.clock.Now()
	case Running:
		j.cancel()
	case Never, Done, Cancelled, Failed:
	}
}

// Look returns how far the last audit has come.
func (j *Job) Look() Progress {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.at
}

// Wake is signalled when there is something to do.
func (j *Job) Wake() <-chan struct{} { return j.wake }

// Step runs the audit that was asked for, to its end. It is for one goroutine.
func (j *Job) Step(ctx context.Context) (did bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if !j.begin(cancel) {
		return false, nil
	}
	defer j.note(func(p *Progress) {
		if p.State == Running { // a panic is on its way to who runs the step
			p.State, p.EndedAt, p.Err = Failed, j.clock.Now(), "it broke off: see the log of this node"
		}
	})
	of, err := account.Count(ctx, j.db)
	if err == nil {
		j.note(func(p *Progress) { p.Of = of })
		var result ledger.AuditResult
		result, err = Run(ctx, j.db, func(id.Account) { j.note(func(p *Progress) { p.Accounts++ }) })
		j.note(func(p *Progress) { p.Transfers, p.Problems = result.Transfers, result.Problems })
	}
	j.note(func(p *Progress) {
		p.EndedAt = j.clock.Now()
		switch {
		case err == nil:
			p.State = Done
		case errors.Is(ctx.Err(), context.Canceled):
			p.State = Cancelled
		default:
			p.State, p.Err = Failed, err.Error()
		}
	})
	return false, nil // what failed is shown to who asked
}

// begin reports whether an audit is to be run, and by what it is ended.
func (j *Job) begin(cancel context.CancelFunc) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.at.State != Waiting {
		return false
	}
	j.at.State, j.cancel = Running, cancel
	return true
}

func (j *Job) note(change func(*Progress)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	change(&j.at)
}
