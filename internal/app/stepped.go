package app

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/config"
	"github.com/ponte-pay/ponte/internal/seal"
	"github.com/ponte-pay/ponte/internal/simulator"
	"github.com/ponte-pay/ponte/internal/simulator/chainworld"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/webhook"
)

// Stepped is one server of a simulation: wired like any other, with no port, no loop and nothing of this machine's. Who
// has it steps it.
type Stepped struct {
	*Core
	*Server
	Hooks *webhook.Service
}

// Surroundings are all that a stepped server knows of the world.
type Surroundings struct {
	DB        *sqldb.DB // with tables
	Clock     *clock.Clock
	Random    io.Reader
	Network   http.RoundTripper // to acquirers, the crypto provider, sources of rates and receivers
	SealKey   []byte
	Acquirers []simulator.Account
	Crypto    chainworld.Account
	PublicURL string // where acquirers and the crypto provider reach it
	Log       *slog.Logger
}

// NewStepped wires a server. It serves once its loops that come early were stepped.
func NewStepped(s Surroundings) (*Stepped, error) {
	core := newCore(s.DB, s.Clock, s.Random)
	core.network = s.Network
	ring, err := seal.New(s.SealKey)
	if err != nil {
		return nil, err
	}
	core.sealWith(func(context.Context) (*seal.Ring, error) { return ring, nil })
	for i := range s.Acquirers {
		s.Acquirers[i].BaseURL = secure(s.Acquirers[i].BaseURL)
	}
	s.Crypto.BaseURL, s.Crypto.RatesURL = secure(s.Crypto.BaseURL), secure(s.Crypto.RatesURL)
	bank, err := simulated(core, s.Acquirers, s.Crypto)
	if err != nil {
		return nil, err
	}
	server, err := NewServer(core, bank, config.Serve{}, s.Log)
	if err != nil {
		return nil, err
	}
	server.Reachable(s.PublicURL)
	return &Stepped{core, server, server.hooks}, nil
}

// secure returns an address that secrets may be sent to.
func secure(url string) string { return strings.Replace(url, "http://", "https://", 1) }

// Worker is work that is done again and again.
type Worker struct {
	Name  string
	Early bool // it has to have been stepped before anything is served
	Crowd bool // it is stepped by many at once, each until there is nothing left to do
	Step  func(ctx context.Context) (did bool, err error)
}

// Workers returns all that runs behind the API, in order.
func (s *Server) Workers() []Worker {
	workers := make([]Worker, len(s.loops))
	for i, l := range s.loops {
		workers[i] = Worker{Name: l.name, Early: l.early, Crowd: l.workers > 0, Step: l.guarded}
	}
	return workers
}

// CancelCharge removes an unpaid charge at its acquirer and then here, and returns what became of it.
func (s *Stepped) CancelCharge(ctx context.Context, public string) (string, error) {
	c, err := s.Server.charges.Cancel(ctx, public)
	return string(c.Status), err
}
