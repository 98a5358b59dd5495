// Package sim runs whole lives of the service in one process, drawn from a seed: the real services, drivers and SQL, two
// nodes, both simulated worlds, callers and receivers, with everything going wrong that can; and an auditor that believes
// none of them. The same seed is the same life, to the last bit, on either database.
package sim

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/ponte-pay/ponte/internal/crowd"
	"github.com/ponte-pay/ponte/internal/schema"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// StepsDefault is how many actions a life has unless somebody says otherwise.
const StepsDefault = 200

// Failure is what the auditor found in a life.
type Failure struct {
	Seed     uint64   `json:"seed"`
	Steps    int      `json:"steps"`
	Step     int      `json:"step"`        // the action after which it showed; Steps means at the end
	Point    string   `json:"crash_point"` // where a node died last; "" for nowhere
	Problems []string `json:"problems"`
	Plan     []string `json:"plan"` // what it takes to have it
	actions  []*Action
}

// live lives one life and returns what went wrong, nil for nothing, and what is left in the database.
func live(ctx context.Context, db *sqldb.DB, folder string, seed uint64, shape Shape, actions []*Action, o liveOptions) (failure *Failure, dump string, err error) {
	crowd.InTurn()
	l, err := newLife(ctx, db, folder, seed, shape)
	if err != nil {
		return nil, "", err
	}
	defer func() {
		if closeErr := l.close(); err == nil {
			err = closeErr
		}
	}()
	l.story = o.story
	if err := l.settle(seed); err != nil {
		return nil, "", err
	}
	if o.plant != nil {
		l.plant = o.plant
	}
	check := func(step int, look func(context.Context) ([]string, error)) (bool, error) {
		problems, err := look(ctx)
		if err != nil || len(problems) == 0 {
			return false, err
		}
		failure = &Failure{Seed: seed, Step: step, Point: l.point, Problems: problems, actions: actions}
		for _, p := range problems {
			l.note("PROBLEM: %s", p)
		}
		return true, nil
	}
	for _, a := range actions {
		l.number = a.Number
		l.do(a)
		if found, err := check(a.Number, l.auditor.Look); found || err != nil {
			return failure, "", err
		}
	}
	l.number = len(actions)
	if err := l.end(func() (bool, error) { return check(l.number, l.auditor.Look) }); err != nil {
		return nil, "", err
	}
	if failure == nil {
		if _, err := check(l.number, l.auditor.End); err != nil {
			return nil, "", err
		}
	}
	dump, err = l.dump()
	return failure, dump, err
}

type liveOptions struct {
	story io.Writer
	plant *plant
}

// endWaits are the moves of business time at the end of a life, after each of which everything is done that is due.
var endWaits = []time.Duration{
	time.Second, 5 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 6 * time.Minute, 10 * time.Minute, 11 * time.Minute,
	time.Hour, 2 * time.Hour, 12 * time.Hour, 13 * time.Hour, time.Minute, time.Minute,
}

// deadTime is after how long of real time what a dead node had in hand is taken over, in parts in which living ones beat.
const deadParts = 8

// end stops all faults, lets the worlds decide what is undecided, and lets time pass until nothing is left to do.
func (l *life) end(look func() (bool, error)) error {
	l.note("END")
	l.outages = map[string]int{}
	l.enter(&Action{Number: -1, Of: -1, Seed: uint64(l.number)}) //nolint:gosec // a small number
	defer l.leave()
	for i := range l.boots {
		if _, err := l.start(i); err != nil {
			return err
		}
	}
	l.arrive(0)
	for range deadParts {
		l.pass(4 * time.Second)
		for _, b := range l.boots {
			l.step(b, "node")
			l.step(b, "due deliveries")
		}
	}
	l.decideAll()
	for _, wait := range endWaits {
		l.advance(wait)
		l.decideAll()
		for range 2 {
			l.pass(1500 * time.Millisecond)
			_, _ = l.world.Step(l.ctx)
			for _, b := range l.boots {
				for _, w := range b.server.Workers() {
					l.step(b, w.Name)
				}
			}
		}
		if found, err := look(); found || err != nil {
			return err
		}
	}
	return nil
}

// decideAll ends what only a bank or a provider can end.
func (l *life) decideAll() {
	random := l.frame().random
	for _, number := range sortedNumbers(l.things) {
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

func sortedNumbers[V any](m map[int]V) []int {
	names := map[string]int{}
	for n := range m {
		names[fmt.Sprintf("%09d", n)] = n
	}
	var list []int
	for _, name := range sortedKeys(names) {
		list = append(list, names[name])
	}
	return list
}

// place is where the databases of lives are made.
type place struct {
	folder   string
	template []byte // a SQLite file with tables
	server   string // address of a PostgreSQL; "" for SQLite
	name     string // of the database there that all others are copied from
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
		return p, p.prepare(ctx)
	}
	path := filepath.Join(folder, "template.db")
	db, err := sqldb.Open(ctx, "sqlite:"+path)
	if err != nil {
		return nil, err
	}
	_, err = schema.Migrate(ctx, db, birth)
	db.Close()
	if err == nil {
		p.template, err = os.ReadFile(path)
	}
	return p, err
}

func (p *place) close(ctx context.Context) {
	_ = os.RemoveAll(p.folder)
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
	if err := os.WriteFile(path, p.template, 0o600); err != nil {
		return nil, nil, err
	}
	db, err := sqldb.Open(ctx, "sqlite:"+path)
	if err != nil {
		return nil, nil, err
	}
	return db, func() {
		db.Close()
		for _, suffix := range []string{"", "-wal", "-shm"} {
			_ = os.Remove(path + suffix)
		}
	}, nil
}

// dump writes all tables, without the order that a database has.
func (l *life) dump() (string, error) { return dumpTables(l.ctx, l.db) }
