// Package testkit runs the whole service inside a test, on a database that is gone afterwards, and holds every answer
// against openapi.yaml.
package testkit

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/api"
	"github.com/ponte-pay/ponte/internal/app"
	"github.com/ponte-pay/ponte/internal/config"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/node"
	"github.com/ponte-pay/ponte/internal/report"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
	"github.com/ponte-pay/ponte/internal/user"
)

// Service is one server of Ponte. When its test ends, none of its keys may stand in its log.
type Service struct {
	Core   *app.Core
	Server *app.Server
	Bank   *app.Bank    // simulated
	Logger *slog.Logger // writes to what Log returns
	URL    string       // of its listener, without /v1

	stop func() // see Stop
	log  *log
	keys []string // made here, to be searched for in the log
}

// Option changes how a service is set up.
type Option func(*config.Serve)

// TrustProxies makes the service believe what these networks say about their clients.
func TrustProxies(networks ...string) Option {
	return func(c *config.Serve) {
		for _, n := range networks {
			c.TrustedProxy = append(c.TrustedProxy, netip.MustParsePrefix(n))
		}
	}
}

// Each runs test on a service of its own with SQLite and with PostgreSQL. Its loops do not run: see [Service.Step].
func Each(t *testing.T, test func(t *testing.T, s *Service)) {
	t.Helper()
	sqltest.EachURL(t, func(t *testing.T, url string) {
		t.Helper()
		test(t, Start(t, url))
	})
}

// Start starts a service on a database with tables. It is ready, and nothing in it runs by itself: the test calls
// [Service.Step].
func Start(tb testing.TB, url string, options ...Option) *Service {
	tb.Helper()
	s := open(tb, config.Store{Database: url}, options)
	listener := httptest.NewServer(s.Server.Handler())
	tb.Cleanup(listener.Close)
	s.URL = listener.URL
	s.Server.Reachable(s.URL)
	s.Server.Step(tb.Context())
	return s
}

// Run runs a service as ponte serve does, with its own listener, its limits and its loops.
func Run(tb testing.TB, url string, options ...Option) *Service {
	tb.Helper()
	store := config.Store{Database: url, Data: tb.TempDir()}
	s := open(tb, store, options)
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- s.Server.Run(ctx, store, func(base string) { ready <- base }) }()
	tb.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			tb.Errorf("testkit: the server ended with %v", err)
		}
	})
	select {
	case base := <-ready:
		s.URL = strings.TrimSuffix(base, api.Prefix)
	case err := <-ended:
		ended <- nil
		tb.Fatalf("testkit: the server did not start: %v", err)
	}
	return s
}

func open(tb testing.TB, store config.Store, options []Option) *Service {
	tb.Helper()
	core, err := app.Open(tb.Context(), store, app.Existing)
	if err != nil {
		tb.Fatalf("testkit: %v", err)
	}
	tb.Cleanup(core.Close)
	people := core.Users.Services
	people.Cost = user.Cost{MemoryKiB: 8, Passes: 1} // nobody guesses these
	core.Users = user.New(people)
	serve := config.Serve{Listen: "127.0.0.1:0", AdminListen: "off", SimulatorListen: "127.0.0.1:0", DrainTimeout: time.Second}
	for _, o := range options {
		o(&serve)
	}
	s := &Service{Core: core, log: &log{}}
	s.Logger = slog.New(slog.NewJSONHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	store.Data = tb.TempDir() // of the simulators
	if s.Bank, err = app.OpenBank(tb.Context(), core, store, serve, s.Logger); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Bank.Close)
	if s.Server, err = app.NewServer(core, s.Bank, serve, s.Logger); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.checkLog(tb) })
	return s
}

func (s *Service) checkLog(tb testing.TB) {
	tb.Helper()
	written := s.Log()
	for _, key := range s.keys {
		if _, secret, _ := cutKey(key); strings.Contains(written, secret) {
			tb.Errorf("testkit: the log holds the key %s", key)
		}
	}
}

// Stop makes a service that was started by [Run] end, as a signal does, and does not wait for it.
func (s *Service) Stop() { s.stop() }

// Log returns what the service has logged, as lines of JSON.
func (s *Service) Log() string { return s.log.String() }

// Step makes one step of everything that runs behind the API.
func (s *Service) Step(tb testing.TB) {
	tb.Helper()
	s.Server.Step(tb.Context())
}

// Advance moves business time, for every service on the same database once it has made a step.
func (s *Service) Advance(tb testing.TB, d time.Duration) {
	tb.Helper()
	if err := node.StoreClock(tb.Context(), s.Core.DB, s.Core.Clock, s.Core.Clock.Offset()+d); err != nil {
		tb.Fatalf("testkit: move the clock: %v", err)
	}
}

// Account is an account of a test with its first key.
type Account struct {
	ID  id.Account
	Key string
}

// Account makes an account, whose settings are changed by assignments such as rate_limit=3.
func (s *Service) Account(tb testing.TB, name string, settings ...string) Account {
	tb.Helper()
	a, key, err := s.Core.Accounts.Create(tb.Context(), account.Params{Name: name})
	if err != nil {
		tb.Fatalf("testkit: make an account: %v", err)
	}
	s.keys = append(s.keys, key)
	if len(settings) > 0 {
		s.Set(tb, a.ID, settings...)
	}
	return Account{a.ID, key}
}

// Set changes an account's settings.
func (s *Service) Set(tb testing.TB, a id.Account, settings ...string) {
	tb.Helper()
	if _, err := s.Core.Accounts.Set(tb.Context(), a, settings); err != nil {
		tb.Fatalf("testkit: set %v: %v", settings, err)
	}
}

// Key makes another key of an account, with scopes as operators write them; "" means all.
func (s *Service) Key(tb testing.TB, a id.Account, scopes string) string {
	tb.Helper()
	set := account.AllScopes
	if scopes != "" {
		var err error
		if set, err = account.ParseScopes(scopes); err != nil {
			tb.Fatalf("testkit: %v", err)
		}
	}
	_, key, err := s.Core.Accounts.CreateKey(tb.Context(), a, set)
	if err != nil {
		tb.Fatalf("testkit: make a key: %v", err)
	}
	s.keys = append(s.keys, key)
	return key
}

// Revoke ends a key.
func (s *Service) Revoke(tb testing.TB, key string) {
	tb.Helper()
	prefix, _, _ := cutKey(key)
	if err := s.Core.Accounts.RevokeKey(tb.Context(), prefix); err != nil {
		tb.Fatalf("testkit: revoke a key: %v", err)
	}
}

func cutKey(key string) (prefix, secret string, ok bool) {
	return strings.Cut(strings.TrimPrefix(key, "bp_"), "_")
}

// Adjust credits an account, or debits it when amount is negative, and returns the transaction as callers see it.
func (s *Service) Adjust(tb testing.TB, a id.Account, c money.Currency, amount string) string {
	tb.Helper()
	parsed, err := money.ParseAmount(c, amount)
	if err != nil {
		tb.Fatalf("testkit: amount %q: %v", amount, err)
	}
	t, err := s.Core.Ledger.Adjust(tb.Context(), a, parsed, "by hand")
	if err != nil {
		tb.Fatalf("testkit: adjust by %s %s: %v", amount, c, err)
	}
	return report.AdjustmentID(&t)
}

// log keeps what is logged.
type log struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
