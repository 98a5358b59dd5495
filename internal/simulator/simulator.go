// Package simulator is a bank of our own: two Pix acquirers, and a crypto provider, that speak the real protocols over
// real HTTP and keep books of their own, with faults on demand.
package simulator

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/simulator/chainworld"
)

// Options say where a simulator lives and what it shares with the service that uses it.
type Options struct {
	Data   string       // folder of its books; made when it is not there
	Clock  *clock.Clock // business time, which only the simulator moves
	Log    *slog.Logger // nil for none
	Random io.Reader    // of ids, keys and secrets; nil means the system's

	// SettleAfter is how long after they were sent payouts settle by themselves, in business time, or AtOnce or Manual; 0
	// means SettleAfterDefault.
	SettleAfter time.Duration

	// Transport carries notifications; nil means connections over the network.
	Transport http.RoundTripper

	// Advanced stores how far business time is to be moved in all, so that who shares it finds it again after a restart.
	// It is called before the clock is moved; if it fails, nothing moves. nil means that nobody has to know.
	Advanced func(offset time.Duration) error
}

// Account is what a client needs to use an acquirer. Its JSON is what GET /sim/acquirers tells.
type Account struct {
	Name         string `json:"name"`
	Priority     int    `json:"priority"` // 1 is asked first
	BaseURL      string `json:"base_url"` // without a slash at its end
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
	Key          string `json:"key"` // the Pix key, Portuguese chave, that charges pay
}

// Simulator is a simulated world. Its books and the moved clock are in the folder before anybody is told, so that the
// death of the process loses nothing.
type Simulator struct {
	clock     *clock.Clock
	log       *slog.Logger
	ids       *id.Generator
	books     *books
	faults    *faultRules
	notices   *notices
	acquirers [len(acquirerNames)]*acquirer
	chain     *chainworld.World
	gates     []*gate // of the chain world
	handler   http.Handler

	advanced func(time.Duration) error
	moving   sync.Mutex // held while the clock is moved
	refusing sync.Mutex // held while doors are shut or opened by faults
}

// Open reads the books in the folder, or begins new ones, and brings the clock to where it was. It fails when another
// process has them.
func Open(o Options) (*Simulator, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	if o.SettleAfter == 0 {
		o.SettleAfter = SettleAfterDefault
	}
	if err := os.MkdirAll(o.Data, 0o700); err != nil {
		return nil, fmt.Errorf("simulator: %w", err)
	}
	faults := &faultRules{}
	b, err := openBooks(o, faults)
	if err != nil {
		return nil, err
	}
	tokenKey, err := hex.DecodeString(b.world.Tokens)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("simulator: tokens key: %w", err), b.close())
	}
	s := &Simulator{
		clock: o.Clock, log: o.Log, ids: id.NewGenerator(o.Clock.Now, lockedRandom{b}), books: b, advanced: o.Advanced,
		faults: faults, notices: newNotices(o.Clock, o.Log, o.Transport), chain: b.chain,
	}
	if err := s.chain.Begin(); err != nil {
		return nil, errors.Join(err, b.close())
	}
	s.gates = []*gate{newGate(chainworld.TargetCrypto, s.chain.Provider(), o.Log), newGate(chainworld.TargetRates, s.chain.Rates(), o.Log)}
	for i, name := range acquirerNames {
		pemPath := filepath.Join(o.Data, "simulator-"+name+".pem")
		a := &acquirer{
			number: i, name: name, receiver: receiverNameHead + name, identity: b.world.Acquirers[i], tokenKey: tokenKey,
			clock: s.clock, log: s.log, ids: s.ids, books: b, faults: s.faults, notices: s.notices, settleAfter: o.SettleAfter,
			// Only when somebody asks for it, because a key takes a while to make.
			signer: sync.OnceValues(func() (*signer, error) { return openSigner(pemPath, name, o.Clock.Real()) }),
		}
		a.prepare()
		s.acquirers[i] = a
	}
	s.handler = s.newHandler()
	return s, nil
}

// lockedRandom is the books' randomness for those outside.
type lockedRandom struct{ books *books }

func (r lockedRandom) Read(b []byte) (int, error) {
	r.books.lockAndFill(b)
	return len(b), nil
}

// Listen opens the acquirers' ports on the loopback address: the ones they had before, unless somebody else has them now.
// From then on they answer.
func (s *Simulator) Listen(ctx context.Context) error {
	s.refusing.Lock()
	defer s.refusing.Unlock()
	for _, a := range s.acquirers {
		s.books.mu.Lock()
		wanted := s.books.book[a.number].port
		s.books.mu.Unlock()
		port, err := a.door.open(ctx, wanted)
		if err != nil {
			return err
		}
		if err := s.books.setPort(a.number, port); err != nil {
			return err
		}
		host := net.JoinHostPort(net.IP(loopback[:]).String(), strconv.Itoa(port))
		a.host.Store(&host)
		if a.refuses.Load() {
			a.door.shut()
		}
	}
	for _, g := range s.gates {
		if err := s.listenGate(ctx, g); err != nil {
			return err
		}
	}
	return nil
}

// Serve opens the acquirers' ports, unless Listen did, settles payouts and delivers notifications until ctx ends. Then it
// shuts the ports.
func (s *Simulator) Serve(ctx context.Context) error {
	if err := s.Listen(ctx); err != nil {
		return err
	}
	var settling sync.WaitGroup
	settling.Go(func() {
		for s.clock.Wait(ctx, settleLookEvery) == nil {
			s.settleDue(ctx)
		}
	})
	settling.Go(func() { s.chain.Run(ctx) })
	s.notices.run(ctx)
	settling.Wait()
	for _, a := range s.acquirers {
		a.door.shut()
	}
	for _, g := range s.gates {
		g.door.shut()
	}
	return nil
}

// settleLookEvery is how often payouts that are to settle are looked for, in real time, besides when the clock is moved.
const settleLookEvery = 50 * time.Millisecond

// settleDue settles the payouts whose time has come, and reports whether there were any.
func (s *Simulator) settleDue(ctx context.Context) (did bool) {
	for _, a := range s.acquirers {
		did = a.settleDue(ctx) || did
	}
	return did
}

// Step settles the payouts and delivers the notifications that are due, in their order, and reports whether there were
// any. It is for who does not call Serve.
func (s *Simulator) Step(ctx context.Context) (did bool, err error) {
	did = s.settleDue(ctx)
	did = s.chain.Step(ctx) || did
	return s.notices.step(ctx) || did, ctx.Err()
}

// Handler returns the control routes under /sim, and the page at /.
func (s *Simulator) Handler() http.Handler { return s.handler }

// AcquirerHandler returns an acquirer without its port, for who reaches it inside of one process. While it refuses
// connections, every request is aborted. An unknown name is not found.
func (s *Simulator) AcquirerHandler(name string) http.Handler {
	if a := s.acquirer(name); a != nil {
		return a.handler
	}
	return http.NotFoundHandler()
}

// acquirer returns the acquirer of that name, nil if there is none.
func (s *Simulator) acquirer(name string) *acquirer {
	for _, a := range s.acquirers {
		if a.name == name {
			return a
		}
	}
	return nil
}

// Acquirers returns the acquirers, the preferred one first. Before Listen their base URLs are such as
// http://alpha.simulator, which only a transport inside of the process can reach.
func (s *Simulator) Acquirers() []Account {
	accounts := make([]Account, len(s.acquirers))
	for i, a := range s.acquirers {
		accounts[i] = Account{
			Name: a.name, Priority: i + 1, BaseURL: a.baseURL(),
			ClientID: a.identity.ClientID, ClientSecret: a.identity.ClientSecret, Key: a.identity.Key,
		}
	}
	return accounts
}

// Close shuts everything. Who still asks is told of an error.
func (s *Simulator) Close() error {
	for _, a := range s.acquirers {
		a.door.close()
	}
	for _, g := range s.gates {
		g.door.close()
	}
	return s.books.close()
}
