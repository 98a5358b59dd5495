package app

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/netutil"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/activity"
	"github.com/ponte-pay/ponte/internal/api"
	"github.com/ponte-pay/ponte/internal/audit"
	"github.com/ponte-pay/ponte/internal/callback"
	"github.com/ponte-pay/ponte/internal/charge"
	"github.com/ponte-pay/ponte/internal/config"
	"github.com/ponte-pay/ponte/internal/dashboard"
	"github.com/ponte-pay/ponte/internal/dashboard/live"
	"github.com/ponte-pay/ponte/internal/event"
	"github.com/ponte-pay/ponte/internal/httpkit"
	"github.com/ponte-pay/ponte/internal/idempotency"
	"github.com/ponte-pay/ponte/internal/node"
	"github.com/ponte-pay/ponte/internal/ratelimit"
	"github.com/ponte-pay/ponte/internal/webhook"
)

// Bounds of the HTTP server. Requests are small and answers come within 15 seconds.
const (
	connectionsMax    = 4096
	readHeaderTimeMax = 10 * time.Second
	readTimeMax       = 10 * time.Second
	writeTimeMax      = 30 * time.Second
	idleTimeMax       = 2 * time.Minute
	leaveTimeMax      = 2 * time.Second
	drainLook         = 10 * time.Millisecond
)

// errBroken ends a server whose database cannot be written any more: only another process can tell what is in it.
var errBroken = errors.New("stopped, because the database could not be written; start again, once there is room on the disk")

// Server is `ponte serve`: the API and every loop behind it.
type Server struct {
	core    *Core
	bank    *Bank
	config  config.Serve
	log     *slog.Logger
	node    *node.Node
	metrics *metrics
	handler http.Handler
	loops   []loop
	hooks   *webhook.Service
	charges *charge.Service
	live    *live.Hub
	audits  *audit.Job
	keys    *account.Directory

	underWay atomic.Int64 // requests that were let in before draining
}

// NewServer wires a server. Nothing runs yet.
func NewServer(core *Core, bank *Bank, serve config.Serve, log *slog.Logger) (*Server, error) {
	s := &Server{core: core, bank: bank, config: serve, log: log}
	s.node = node.New(core.DB.Apart(), core.Clock, core.IDs.New())
	s.metrics = newMetrics(core, bank, s.node)
	guard := account.NewGuard(core.DB, core.Clock)
	limiter := ratelimit.New(core.DB, core.Clock, s.node.Alive)
	frame := &httpkit.Frame{
		IDs: core.IDs, Clock: core.Clock, Log: log,
		Ready: s.node.Ready, Spelling: api.Spelling, Observe: s.metrics.observe, Proxies: serve.TrustedProxy,
		Secrets: []string{callback.Prefix, dashboard.LinkPrefix},
	}
	once := idempotency.New(core.DB, core.Clock, serve.KeyRetention)
	hooks, err := core.webhooks(s.node, bank.Simulated, log, s.metrics.delivered)
	if err != nil {
		return nil, err
	}
	s.hooks, s.keys = hooks, account.NewDirectory(core.DB, core.Clock)
	s.audits = audit.NewJob(core.DB, core.Clock, core.IDs)
	s.metrics.watch(hooks)
	charges, payouts := core.charges(bank, once, hooks, log, s.metrics.heard), core.payouts(bank, once, hooks, log)
	s.charges = charges
	infractions := core.infractions(bank, charges, log)
	deposits := core.deposits(bank.Chain, once, hooks, log, s.metrics.heardOfCoins)
	withdrawals := core.withdrawals(bank.Chain, once, hooks, log)
	v1 := api.New(api.Services{
		DB: core.DB, Directory: s.keys, Guard: guard, Limiter: limiter, Charges: charges, Payouts: payouts,
		Infractions: infractions, Chain: bank.Chain.Provider, Quotes: core.quotes(bank.Chain, log), Deposits: deposits, Withdrawals: withdrawals,
	})
	told := callback.New(bank.senders, callback.Receivers{Charge: charges.Hint, Payout: payouts.Hint}, s.metrics.notified)
	toldCoins := callback.NewChain(bank.Chain.Provider, bank.Chain.secret,
		callback.ChainReceivers{Payment: deposits.Hint, Payout: withdrawals.Hint}, s.metrics.notified)
	s.live = live.New(event.NewFeed(core.DB))
	sums := activity.New(core.DB, core.Clock, dashboard.Zone())
	pages := dashboard.New(dashboard.Services{
		DB: core.DB, Clock: core.Clock, IDs: core.IDs, Random: rand.Reader, Log: log, Users: core.Users, Accounts: core.Accounts, Charges: charges,
		Live: s.live, OpenAPI: api.OpenAPI,
		Payouts: payouts, Infractions: infractions, Deposits: deposits, Withdrawals: withdrawals, Hooks: hooks, Activity: sums,
		Operator:  dashboard.OperatorServices{Ledger: core.Ledger, Router: bank.Router, Switches: core.Switches, Audits: s.audits},
		Blocked:   guard.Blocked,
		Simulated: bank.Simulated, BankPage: bank.Page(serve), PublicURL: serve.PublicURL,
	})
	s.handler = s.route(frame.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case toldCoins.Takes(r.URL.Path):
			toldCoins.ServeHTTP(w, r)
		case strings.HasPrefix(r.URL.Path, callback.Prefix):
			told.ServeHTTP(w, r)
		case strings.HasPrefix(r.URL.Path, api.Prefix+"/"):
			v1.ServeHTTP(w, r)
		default:
			pages.ServeHTTP(w, r)
		}
	})))
	s.loops = slices.Concat(bank.steps, []loop{
		{name: "node", every: 500 * time.Millisecond, step: s.node.Step, early: true},
		{name: "endpoints", every: 400 * time.Millisecond, step: hooks.Refresh, early: true}, // before anything that writes events
		{name: "switches", every: 500 * time.Millisecond, step: core.Switches.Step(bank.Router), early: true},
		{name: "guard", every: 500 * time.Millisecond, step: guard.Step, early: true},
		{name: "ratelimit", every: ratelimit.StepEvery, step: limiter.Step, early: true},
		{name: "uses of keys", every: 10 * time.Second, step: s.keys.Step},
		{name: "fold", every: 50 * time.Millisecond, step: core.Ledger.Step},
		{name: "idempotency", every: time.Minute, step: once.Step},
		{name: "database", every: 2 * time.Second, step: func(ctx context.Context) (bool, error) { return false, core.DB.Tend(ctx) }},
		{name: "hints", every: 20 * time.Millisecond, step: charges.FollowHints},
		{name: "expiry", every: 500 * time.Millisecond, step: charges.Expire},
		{name: "release", every: 500 * time.Millisecond, step: charges.Release},
		{name: "reconciliation", every: time.Second, step: charges.Reconcile},
		{name: "payout hints", every: 20 * time.Millisecond, step: payouts.FollowHints},
		{name: "payout checks", every: 500 * time.Millisecond, step: payouts.CheckDue},
		{name: "payout reconciliation", every: time.Second, step: payouts.Reconcile},
		{name: "infractions", every: 500 * time.Millisecond, step: infractions.Reconcile},
		{name: "defenses", every: 200 * time.Millisecond, step: infractions.HandIn},
		{name: "deposit hints", every: 20 * time.Millisecond, step: deposits.FollowHints},
		{name: "deposit checks", every: 500 * time.Millisecond, step: deposits.CheckDue},
		{name: "withdrawal hints", every: 20 * time.Millisecond, step: withdrawals.FollowHints},
		{name: "withdrawal checks", every: 500 * time.Millisecond, step: withdrawals.CheckDue},
		{name: "live", every: live.StepEvery, step: s.live.Step},
		{name: "audits", every: time.Minute, step: s.audits.Step, wake: s.audits.Wake()},
		{name: "activity", every: time.Second, step: sums.Step},
		{name: "people", every: time.Minute, step: core.Users.Step},
		{name: "lost charges", every: 5 * time.Second, step: bank.Router.Step},
	}, webhookLoops(hooks))
	if bank.Chain.isSomebody() { // whose list can be read
		s.loops = append(s.loops, loop{name: "deposit reconciliation", every: time.Second, step: deposits.Reconcile})
	}
	return s, nil
}

// Reachable makes the server tell its acquirers where to send notifications: to its public URL, or to base when it has
// none. It comes before Work.
func (s *Server) Reachable(base string) {
	base = cmp.Or(strings.TrimSuffix(s.config.PublicURL, "/"), base)
	s.bank.Chain.reachable(base)
	s.loops = append(s.loops, s.bank.register(base))
}

// checkReachable refuses to tell real acquirers an address that only works here.
func (s *Server) checkReachable() error {
	if s.bank.Simulated || strings.HasPrefix(s.config.PublicURL, "https://") {
		return nil
	}
	return errors.New("--public-url is missing: acquirers have to know at which https:// address they reach this server")
}

// Handler returns everything that the main listener serves. Tests use it without one.
func (s *Server) Handler() http.Handler { return s.handler }

// route tells health apart from all the rest: it has to answer when nothing else may.
func (s *Server) route(rest http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.underWay.Add(1)
		defer s.underWay.Add(-1)
		switch r.URL.Path {
		case "/healthz":
			_ = httpkit.Write(w, httpkit.Answer{Body: health{Status: "ok"}})
		case "/readyz":
			_ = httpkit.Write(w, s.readiness())
		default:
			rest.ServeHTTP(w, r)
		}
	})
}

type health struct {
	Status    string `json:"status"`
	Reason    string `json:"reason,omitempty"`
	Simulated bool   `json:"simulated,omitempty"`
}

func (s *Server) readiness() httpkit.Answer {
	err := s.node.Ready()
	if err == nil {
		return httpkit.Answer{Body: health{Status: "ready", Simulated: s.bank.Simulated}}
	}
	// The cause can name hosts; those who may know it read it in the log.
	reason, _, _ := strings.Cut(err.Error(), ":")
	return httpkit.Answer{Status: http.StatusServiceUnavailable, Body: health{Status: "not ready", Reason: reason}}
}

// Step makes one step of every loop, in their order, and has the workers do all that there is to do. Tests drive the
// server with it. What fails is logged, and tried again by the next.
func (s *Server) Step(ctx context.Context) {
	for _, l := range s.loops {
		for s.step(ctx, l) && l.workers > 0 {
		}
	}
}

// prepare makes the steps before the first request without which none may be served: until then the node is not ready. None
// of them asks an acquirer or a receiver. One that hangs must not keep the server from answering, and from being stopped.
func (s *Server) prepare(ctx context.Context) {
	for _, l := range s.loops {
		if l.early {
			s.step(ctx, l)
		}
	}
}

func (s *Server) step(ctx context.Context, l loop) (did bool) {
	did, err := l.guarded(ctx)
	if err != nil {
		s.log.LogAttrs(ctx, slog.LevelWarn, "step failed", slog.String("loop", l.name), slog.String("error", err.Error()))
	}
	return did && err == nil
}

// Work runs every loop until ctx ends.
func (s *Server) Work(ctx context.Context) {
	var running sync.WaitGroup
	for _, l := range s.loops {
		for range max(1, l.workers) {
			running.Go(func() { l.run(ctx, s.core.Clock, s.log) })
		}
	}
	running.Wait()
}

// Run serves until ctx ends, or fails when the database is broken, then lets requests under way finish. ready is called
// once, with the API's base URL, when the first request can be answered.
func (s *Server) Run(ctx context.Context, store config.Store, ready func(baseURL string)) error {
	secure, err := newTLS(ctx, store, s.config, s.log)
	if err != nil {
		return err
	}
	if name := s.bank.asksCertificates(); name != "" {
		if secure == nil {
			return fmt.Errorf("acquirer %s: callback_ca needs --tls-cert or --acme-domain: a proxy hides who calls", name)
		}
		secure.ClientAuth = tls.RequestClientCert // only some callers have one, and [callback.Handler] looks at it
	}
	listener, err := listen(ctx, s.config.Listen)
	if err != nil {
		return err
	}
	servers := []*server{{s.http(s.handler), netutil.LimitListener(listener, connectionsMax)}}
	scheme := "http"
	if secure != nil {
		servers[0].TLSConfig, scheme = secure, "https"
	}
	if s.config.HasAdmin() {
		admin, err := listen(ctx, s.config.AdminListen)
		if err != nil {
			_ = listener.Close()
			return err
		}
		servers = append(servers, &server{s.http(s.metrics.handler()), netutil.LimitListener(admin, connectionsMax)})
		servers[1].WriteTimeout = 0 // a profile takes as long as it was asked to
		s.log.LogAttrs(ctx, slog.LevelInfo, "metrics and profiles", slog.String("url", "http://"+admin.Addr().String()))
	}
	base := scheme + "://" + listener.Addr().String()
	simulator := strings.TrimSuffix(s.config.Simulator, "/")
	if inside := s.bank.inside; inside != nil {
		controls, err := listen(ctx, s.config.SimulatorListen)
		if err != nil {
			_ = listener.Close()
			return err
		}
		servers = append(servers, &server{s.http(inside.Handler()), netutil.LimitListener(controls, connectionsMax)})
		simulator = "http://" + controls.Addr().String()
	}
	if s.bank.Simulated {
		if err := s.core.noteSimulator(ctx, simulator); err != nil {
			return err
		}
	}
	if err := s.checkReachable(); err != nil {
		return err
	}
	s.Reachable(base)
	// The work ends after the requests that need it.
	work, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWork()
	s.prepare(work)
	var running sync.WaitGroup
	running.Go(func() { s.Work(work) })
	if inside := s.bank.inside; inside != nil {
		running.Go(func() {
			if err := inside.Serve(work); err != nil {
				s.log.LogAttrs(work, slog.LevelError, "simulator", slog.String("error", err.Error()))
			}
		})
	}
	failed := make(chan error, len(servers)+1)
	for _, srv := range servers {
		go func() { failed <- srv.serve() }()
	}
	running.Go(func() {
		if err := s.core.DB.Broken(work); err != nil {
			s.log.LogAttrs(work, slog.LevelError, "a COMMIT failed: nothing more is written, and the server stops; a start reads the file again",
				slog.String("error", err.Error()))
			failed <- errBroken
		}
	})
	ready(base + api.Prefix)

	select {
	case <-ctx.Done():
		err = nil
	case err = <-failed:
	}
	s.drain(context.WithoutCancel(ctx), servers, stopWork, &running)
	return err
}

// drain refuses what is new, waits for what is under way, and leaves.
func (s *Server) drain(ctx context.Context, servers []*server, stopWork func(), running *sync.WaitGroup) {
	s.log.LogAttrs(ctx, slog.LevelInfo, "draining")
	s.node.Drain()
	s.live.Close() // streams never end by themselves
	wait, cancel := context.WithTimeout(ctx, s.config.DrainTimeout)
	defer cancel()
	// The listener stays open meanwhile: who connects now is told 503, not left to guess.
	for s.underWay.Load() > 0 && s.core.Clock.Wait(wait, drainLook) == nil {
	}
	for _, srv := range servers {
		if srv.Shutdown(wait) != nil {
			s.log.LogAttrs(ctx, slog.LevelWarn, "cut what was still under way", slog.Duration("after", s.config.DrainTimeout))
			_ = srv.Close()
		}
	}
	stopWork()
	running.Wait()
	leaving, cancelLeaving := context.WithTimeout(ctx, leaveTimeMax)
	defer cancelLeaving()
	if err := errors.Join(s.keys.Flush(leaving), s.hooks.Leave(leaving), s.node.Leave(leaving)); err != nil {
		s.log.LogAttrs(ctx, slog.LevelWarn, "could not sign off", slog.String("error", err.Error()))
	}
}

// server is an HTTP server with its listener.
type server struct {
	*http.Server
	listener net.Listener
}

func (s *server) serve() error {
	var err error
	if s.TLSConfig != nil {
		err = s.ServeTLS(s.listener, "", "")
	} else {
		err = s.Serve(s.listener)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

func (s *Server) http(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: readHeaderTimeMax,
		ReadTimeout:       readTimeMax,
		WriteTimeout:      writeTimeMax,
		IdleTimeout:       idleTimeMax,
		MaxHeaderBytes:    httpkit.HeaderBytesRead,
		// OPTIONS * gets an answer of ours, with its x-request-id, like everything else.
		DisableGeneralOptionsHandler: true,

		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
}

func listen(ctx context.Context, address string) (net.Listener, error) {
	var c net.ListenConfig
	l, err := c.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", address, err)
	}
	return l, nil
}
