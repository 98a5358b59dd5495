package sim

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/ponte-pay/ponte/internal/app"
	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/node"
	"github.com/ponte-pay/ponte/internal/sim/auditor"
	"github.com/ponte-pay/ponte/internal/simulator"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// birth is when every life begins.
var birth = time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)

// publicURL is where the nodes are reached by the worlds.
const publicURL = "https://ponte.example"

// life is one run of the whole system: nodes, worlds, callers, receivers and an auditor, all stepped by one goroutine.
type life struct {
	ctx     context.Context //nolint:containedctx // of the whole life
	seed    uint64
	shape   Shape
	plant   *plant    // nil for none
	story   io.Writer // what happens, for people; nil for nobody
	folder  string    // of the worlds' journal
	db      *sqldb.DB // without faults
	real    time.Time
	world   *simulator.Simulator
	clock   *clock.Clock // the worlds'
	auditor *auditor.Auditor

	boots     []*boot // of each node, the last one
	started   int     // boots so far
	merchants []*merchant
	things    map[int]*thing // by the numbers of the actions that made them
	receivers map[string]*receiver
	locks     map[int64]*boot
	outages   map[string]int // targets that do not work, with the number of the action that ends it
	late      []arrival      // requests that are still on their way
	noticed   []notification // that were sent before
	jumped    time.Duration
	returning *thing // the payment of a charge that was last asked back; nil for none

	frames []*frame // what is being done, the innermost last
	point  string   // the crash point at which a node last died
	number int      // of the action that is under way
	writes int      // transactions so far
}

// frame is an action under way.
type frame struct {
	*Action
	random   *rand.Rand
	bytes    *rand.ChaCha8
	isOfNode bool // a node does it, and things can go wrong
	calls    int  // so far
	writes   int
	points   int
	away     bool // the database does not answer
}

func newFrame(a *Action) *frame {
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], a.Seed)
	t := a.trait()
	return &frame{
		Action: a, isOfNode: t != nil && t.isOfNode,
		random: rand.New(rand.NewPCG(a.Seed, 1)), bytes: rand.NewChaCha8(seed), //nolint:gosec // a simulation is drawn from its seed
	}
}

// begin opens the worlds on a database with tables and nothing in them.
func (l *life) begin(ctx context.Context, db *sqldb.DB) error {
	l.ctx, l.db, l.real = ctx, db, birth
	if l.plant == nil {
		l.plant = &plant{}
	}
	l.things, l.receivers, l.locks, l.outages = map[int]*thing{}, map[string]*receiver{}, map[int64]*boot{}, map[string]int{}
	l.enter(&Action{Number: -1, Of: -1, Seed: l.seed}) // stays below all others
	l.clock = clock.NewStepped(l.now, l.pass)
	var err error
	l.world, err = simulator.Open(simulator.Options{
		Data: l.folder, Clock: l.clock, Random: l, SettleAfter: simulator.SettleAfterDefault, Transport: post{l},
		Advanced: func(offset time.Duration) error { return node.StoreClock(ctx, db, l.clock, offset) },
	})
	if err != nil {
		return err
	}
	l.auditor = auditor.New(db, l.world.Handler(), l.clock.Now)
	for i := range l.shape.Nodes {
		l.boots = append(l.boots, &boot{life: l, node: i, dead: true})
	}
	return nil
}

func (l *life) close() error {
	return errors.Join(l.world.Close(), os.RemoveAll(l.folder))
}

// now tells real time. Each look at it takes a moment, so that no two things happen at the same one: which of them comes
// first would be the database's choice.
func (l *life) now() time.Time {
	l.real = l.real.Add(time.Microsecond)
	return l.real
}

// pass lets real time pass.
func (l *life) pass(d time.Duration) { l.real = l.real.Add(d) }

// Read gives random bytes, drawn from the seed of the action that is under way.
func (l *life) Read(b []byte) (int, error) { return l.frame().bytes.Read(b) }

func (l *life) enter(a *Action) { l.frames = append(l.frames, newFrame(a)) }
func (l *life) leave()          { l.frames = l.frames[:len(l.frames)-1] }
func (l *life) frame() *frame   { return l.frames[len(l.frames)-1] }

// frameOf returns what a boot is doing, or nil for nothing that can go wrong.
func (l *life) frameOf(b *boot) *frame {
	for _, f := range slices.Backward(l.frames) {
		if f.isOfNode && f.Node == b.node {
			return f
		}
	}
	return nil
}

// note tells what happens.
func (l *life) note(format string, args ...any) {
	if l.story != nil {
		fmt.Fprintf(l.story, "%*s"+format+"\n", append([]any{2 * len(l.frames), ""}, args...)...)
	}
}

// at is a crash point of a boot: between two transactions, or between a transaction and a call. The boot may die there, and
// others may do something meanwhile.
func (l *life) at(b *boot, point string) {
	f := l.frameOf(b)
	if f == nil || b.dead {
		return
	}
	f.points++
	if f.InnerAt == f.points {
		for _, inner := range f.Inner {
			l.do(inner)
		}
	}
	if f.Crash == f.points {
		l.point = point
		l.note("node %d dies %s", b.node, point)
		b.die()
	}
}

// boot is one start of one node.
type boot struct {
	life   *life
	node   int
	dead   bool // nothing that it does reaches anybody
	broken bool // its disk is full: it must be started again
	server *app.Stepped
	all    []app.Worker // its own

	statement string   // the first of the transaction under way that changes something
	order     []string // balances that it has locked
	owed      []auditor.Debt
	knows     []*receiver // that it has read of, and that nobody has changed since
}

// die ends a boot as kill -9 does: what it does from now on reaches nobody, and what only its memory held is gone.
func (b *boot) die() {
	b.dead = true
	for key, holder := range b.life.locks {
		if holder == b {
			delete(b.life.locks, key)
		}
	}
}

// skews are how far the clocks of nodes are ahead of the database's. More than half a second would keep them from serving.
var skews = []time.Duration{0, 180 * time.Millisecond, -240 * time.Millisecond, 400 * time.Millisecond, 0}

// sealKey seals the secrets of all lives. Nobody has to keep it.
var sealKey = []byte("a key for simulations, of 32 by.")

// start starts a node, unless it runs. Nothing goes wrong meanwhile.
func (l *life) start(index int) (*boot, error) {
	if b := l.boots[index]; !b.dead && !b.broken {
		return b, nil
	}
	l.boots[index].die()
	l.started++
	l.enter(&Action{Number: -1, Of: -1, Seed: uint64(l.started)<<32 + uint64(index)})
	defer l.leave()
	skew := skews[(l.started+index)%len(skews)]
	b := &boot{life: l, node: index}
	db := l.db.Probed(b, l.shape.Shared)
	c := clock.NewStepped(func() time.Time { return l.now().Add(skew) }, l.pass)
	if err := node.LoadClock(l.ctx, db, c); err != nil {
		return nil, err
	}
	server, err := app.NewStepped(app.Surroundings{
		DB: db, Clock: c, Random: l, Network: &network{l, b}, SealKey: sealKey, Acquirers: l.world.Acquirers(), Crypto: l.world.CryptoAccount(),
		PublicURL: publicURL, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	b.server, b.all = server, server.Workers()
	l.boots[index] = b
	for _, w := range b.all {
		if w.Early {
			if _, err := w.Step(l.ctx); err != nil {
				return nil, fmt.Errorf("sim: start node %d: %s: %w", index, w.Name, err)
			}
			if w.Name == endpointsWorker {
				b.learn()
			}
		}
	}
	l.note("node %d starts", index)
	return b, nil
}

// merchant is an account.
type merchant struct {
	id  id.Account
	key string
}

// thing is what an action has made, as far as its caller knows.
type thing struct {
	request
	id        string // "" while its caller was not told
	txid      string
	copyPaste string
	address   string
	memo      string
	coins     string // asked for
	payment   string // the provider's id
	endToEnd  string // of a payment
	amount    string // of a payment
	claim     string // the bank's id of an infraction
	hold      id.ID
	endpoint  string // its id
	receiver  *receiver
}

// handler returns who answers at a host of the worlds.
func (l *life) handler(host string) http.Handler {
	switch host {
	case "alpha.simulator":
		return l.world.AcquirerHandler("alpha")
	case "beta.simulator":
		return l.world.AcquirerHandler("beta")
	case "crypto.simulator":
		return l.world.ChainHandler("crypto")
	case "rates.simulator":
		return l.world.ChainHandler("rates")
	}
	if r := l.receivers[host]; r != nil {
		return r
	}
	return nil
}
