// Package sim runs whole lives of the service in one process, drawn from a seed: the real services, drivers and SQL, two
// nodes, both simulated worlds, callers and receivers, with everything going wrong that can; and an auditor that believes
// none of them. The same seed is the same life, to the last bit, on either database.
package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/crowd"
	"github.com/ponte-pay/ponte/internal/schema"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// Options say which lives are lived.
type Options struct {
	Seed   uint64        // of the first life; the next has the next one
	Steps  int           // of each; 0 means [StepsDefault]
	For    time.Duration // as many lives as fit, on all cores; 0 means one
	Server string        // address of a PostgreSQL in which databases are made for them; "" means SQLite
	Story  io.Writer     // told all that happens in a single life; nil for nobody
	Told   func(Report)  // told how far it has come, now and then; nil for nobody
}

// StepsDefault is how many actions a life has unless somebody says otherwise.
const StepsDefault = 200

// Report is how it went.
type Report struct {
	Lives     int           `json:"lives"` // that were lived to their end, or to their failure
	Took      time.Duration `json:"-"`
	PerMinute int           `json:"lives_per_minute"`
	Failure   *Failure      `json:"failure"` // the first; nil for none
}

// Failure is what the auditor found in a life.
type Failure struct {
	Seed     uint64   `json:"seed"`
	Steps    int      `json:"steps"`
	Step     int      `json:"step"`        // the action after which it showed; Steps means at the end
	Point    string   `json:"crash_point"` // where a node died last; "" for nowhere
	Problems []string `json:"problems"`
	Plan     []string `json:"plan"` // what it takes to have it

	shape   Shape
	actions []*Action
}

// toldEvery is how often somebody is told how far it has come.
const toldEvery = 10 * time.Second

// Run lives lives until one fails or time is over, and finds out what it took.
func Run(ctx context.Context, o Options) (Report, error) {
	if o.Steps == 0 {
		o.Steps = StepsDefault
	}
	crowd.InTurn()
	p, err := newPlace(ctx, o.Server)
	if err != nil {
		return Report{}, err
	}
	defer p.close(context.WithoutCancel(ctx))
	r := &runner{Options: o, place: p, clock: clock.New(nil)}
	r.began = r.clock.Real()
	workers := runtime.NumCPU()
	if o.For == 0 {
		workers = 1
	}
	var working sync.WaitGroup
	for range workers {
		working.Go(func() { r.work(ctx) })
	}
	working.Wait()
	report := r.report()
	if r.err == nil && report.Failure != nil {
		r.shrink(ctx, report.Failure)
	}
	return report, r.err
}

// runner lives many lives.
type runner struct {
	Options
	place *place
	clock *clock.Clock
	began time.Time
	plant func() *plant // that every life has; nil for none

	mu      sync.Mutex
	next    uint64 // seeds that were given out
	lives   int
	failure *Failure
	err     error
	told    time.Time
}

// take returns the seed of the next life, unless there is to be none.
func (r *runner) take(ctx context.Context) (seed uint64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	over := r.For > 0 && r.clock.RealSince(r.began) >= r.For
	if ctx.Err() != nil || r.err != nil || r.failure != nil || over || (r.For == 0 && r.next > 0) {
		return 0, false
	}
	seed = r.Seed + r.next
	r.next++
	return seed, true
}

func (r *runner) work(ctx context.Context) {
	for {
		seed, ok := r.take(ctx)
		if !ok {
			return
		}
		shape, actions := plan(seed, r.Steps)
		failure, err := r.live(ctx, seed, shape, actions, r.Story)
		r.mu.Lock()
		r.lives++
		r.err = cmp.Or(r.err, err)
		if failure != nil && (r.failure == nil || failure.Seed < r.failure.Seed) {
			failure.Steps = r.Steps
			r.failure = failure
		}
		tell := r.Told != nil && r.clock.RealSince(r.told) >= toldEvery
		if tell {
			r.told = r.clock.Real()
		}
		r.mu.Unlock()
		if tell {
			r.Told(r.report())
		}
	}
}

func (r *runner) report() Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	took := r.clock.RealSince(r.began)
	return Report{Lives: r.lives, Took: took, PerMinute: int(int64(r.lives) * int64(time.Minute) / max(1, int64(took))), Failure: r.failure}
}

// live lives one life on a database of its own.
func (r *runner) live(ctx context.Context, seed uint64, shape Shape, actions []*Action, story io.Writer) (failure *Failure, err error) {
	db, done, err := r.place.open(ctx, strconv.FormatInt(r.place.count.Add(1), 10))
	if err != nil {
		return nil, err
	}
	defer done()
	l := life{seed: seed, shape: shape, story: story, folder: r.place.path()}
	if r.plant != nil {
		l.plant = r.plant()
	}
	failure, _, err = live(ctx, db, l, actions)
	return failure, err
}

// live lives one life and returns what went wrong, nil for nothing, and what is left in the database.
func live(ctx context.Context, db *sqldb.DB, l life, actions []*Action) (failure *Failure, dump string, err error) {
	crowd.InTurn()
	if err := l.begin(ctx, db); err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	fails := func(problems []string) *Failure {
		for _, p := range problems {
			l.note("PROBLEM: %s", p)
		}
		return &Failure{Seed: l.seed, Step: l.number, Point: l.point, Problems: problems, shape: l.shape, actions: actions}
	}
	defer func() {
		if p := recover(); p != nil {
			failure, dump, err = fails([]string{fmt.Sprintf("panic: %v\n%s", p, debug.Stack())}), "", nil
		}
	}()
	if err := l.settle(); err != nil { //nolint:contextcheck // metrics are read on a context of their own
		return nil, "", err
	}
	for _, a := range actions {
		l.number = a.Number
		l.do(a) //nolint:contextcheck // the same
		if problems, err := l.auditor.Look(ctx); err != nil || len(problems) > 0 {
			return fails(problems), "", err
		}
		l.number++
	}
	problems, err := l.end() //nolint:contextcheck // the same
	if err != nil {
		return nil, "", err
	}
	if len(problems) > 0 {
		failure = fails(problems)
	}
	dump, err = dumpTables(ctx, db)
	return failure, dump, err
}

// endWaits are the moves of business time at the end of a life, after each of which everything is done that is due.
var endWaits = []time.Duration{
	time.Second, 20 * time.Second, 2 * time.Minute, 6 * time.Minute, time.Minute, 11 * time.Minute, 65 * time.Minute, 3 * time.Hour, 13 * time.Hour,
	13 * time.Hour, 2 * time.Minute,
}

const (
	// What a dead node had in hand is taken over after twenty seconds in which a living one has watched it.
	deadParts = 8
	deadPart  = 4 * time.Second

	endRounds = 2 // after each wait, by the nodes in turn: what one does may be work for the other
	endPause  = 1500 * time.Millisecond
)

// end stops all faults, lets the worlds decide what is undecided, lets time pass until nothing is left to do, and returns
// what is wrong then.
func (l *life) end() ([]string, error) {
	l.note("END")
	l.outages = map[string]int{}
	l.enter(&Action{Number: -1, Of: -1, Seed: l.seed + 1})
	defer l.leave()
	for i := range l.boots {
		if _, err := l.start(i); err != nil {
			return nil, err
		}
	}
	l.arrive(0)
	for range deadParts {
		l.pass(deadPart)
		for _, b := range l.boots {
			l.stepNamed(b, "node", "due deliveries")
		}
	}
	for i, wait := range endWaits {
		l.advance(wait)
		l.decideAll()
		for r := range endRounds {
			before := l.writes
			l.pass(endPause)
			l.worldStep(nil)
			l.workAll(l.boots[(i+r)%len(l.boots)])
			if l.writes == before {
				break
			}
		}
		if problems, err := l.auditor.Look(l.ctx); err != nil || len(problems) > 0 {
			return problems, err
		}
	}
	return l.auditor.End(l.ctx)
}

// decideAll ends what only a bank or a provider can end.
func (l *life) decideAll() {
	random := l.frame().random
	for _, number := range slices.Sorted(maps.Keys(l.things)) {
		if t := l.things[number]; t.claim != "" {
			l.control(http.MethodPost, "/sim/med/"+t.claim+"/"+[]string{"accept", "reject", "cancel"}[random.IntN(3)], nil)
		}
	}
	books, _ := l.control(http.MethodGet, "/sim/crypto/books", nil)
	payments, _ := books["payments"].([]any)
	for _, one := range payments {
		p, _ := one.(map[string]any)
		switch text(p, "status") {
		case "waiting":
			l.control(http.MethodPost, "/sim/crypto/charges/"+text(p, "id")+"/expire", nil)
		case "confirming", "confirmed", "sending":
			l.control(http.MethodPost, "/sim/crypto/charges/"+text(p, "id")+"/confirm", nil)
		}
	}
	l.endPayoutOfCoins(func(p map[string]any) bool { return text(p, "status") == "FAILED" }, random)
}

// place is where the databases of lives are made.
type place struct {
	folder   string
	template []byte // a SQLite file with tables
	server   string // address of a PostgreSQL; "" for SQLite
	name     string // of the database there that all others are copied from
	count    atomic.Int64
}

// path returns a folder that nobody has.
func (p *place) path() string {
	return filepath.Join(p.folder, "world"+strconv.FormatInt(p.count.Add(1), 10))
}

// newPlace makes a folder for lives: in memory, where the machine has such.
func newPlace(ctx context.Context, server string) (*place, error) {
	parent := ""
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		parent = "/dev/shm"
	}
	folder, err := os.MkdirTemp(parent, "ponte-simulate-")
	if err != nil {
		return nil, err
	}
	p := &place{folder: folder, server: server}
	if server != "" {
		err = p.prepare(ctx)
	} else {
		err = p.migrate(ctx)
	}
	if err != nil {
		p.close(context.WithoutCancel(ctx))
		return nil, err
	}
	return p, nil
}

// migrate makes the SQLite file with tables that all others are copied from.
func (p *place) migrate(ctx context.Context) error {
	path := filepath.Join(p.folder, "template.db")
	db, err := sqldb.Open(ctx, "sqlite:"+path)
	if err != nil {
		return err
	}
	_, err = schema.Migrate(ctx, db, birth)
	db.Close()
	if err == nil {
		p.template, err = os.ReadFile(path)
	}
	return err
}

func (p *place) close(ctx context.Context) {
	_ = os.RemoveAll(p.folder) //nolint:gosec // a folder of our own
	if p.server != "" {
		_ = p.drop(ctx, p.name)
	}
}

// open makes and opens a database, and returns what takes it away again.
func (p *place) open(ctx context.Context, name string) (*sqldb.DB, func(), error) {
	if p.server != "" {
		return p.copied(ctx, name)
	}
	path := filepath.Join(p.folder, name+".db")
	if err := os.WriteFile(path, p.template, 0o600); err != nil { //nolint:gosec // in a folder of our own
		return nil, nil, err
	}
	db, err := sqldb.Open(ctx, "sqlite:"+path)
	if err != nil {
		return nil, nil, err
	}
	return db, func() {
		db.Close()
		for _, suffix := range []string{"", "-wal", "-shm"} {
			_ = os.Remove(path + suffix) //nolint:gosec // in a folder of our own
		}
	}, nil
}
