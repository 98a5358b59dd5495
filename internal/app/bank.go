package app

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/acquirer/bcb"
	"github.com/ponte-pay/ponte/internal/acquirer/efi"
	"github.com/ponte-pay/ponte/internal/callback"
	"github.com/ponte-pay/ponte/internal/chain"
	"github.com/ponte-pay/ponte/internal/charge"
	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/config"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/idempotency"
	"github.com/ponte-pay/ponte/internal/infraction"
	"github.com/ponte-pay/ponte/internal/node"
	"github.com/ponte-pay/ponte/internal/simulator"
	"github.com/ponte-pay/ponte/internal/simulator/chainworld"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// Bank is where money comes from and goes to: real acquirers, or the simulators, never both.
type Bank struct {
	Router    *acquirer.Router
	Chain     *Chain // coins
	Simulated bool

	senders []callback.Sender    // who may send notifications
	inside  *simulator.Simulator // nil unless it runs in this process
	steps   []loop               // what it needs to be kept up
}

const (
	simulatorAskMax   = 2 * time.Second
	simulatorBytesMax = 1 << 20
)

// OpenBank opens the acquirers that the settings name, or the simulators.
func OpenBank(ctx context.Context, core *Core, store config.Store, serve config.Serve, log *slog.Logger) (*Bank, error) {
	named, err := store.Acquirers()
	if err != nil {
		return nil, err
	}
	switch {
	case len(named) > 0 && serve.Simulator != "":
		return nil, errors.New("--simulator never runs beside real acquirers: take one of them away")
	case len(named) > 0:
		return openReal(core.Clock, store, named)
	case serve.Simulator != "":
		return openOutside(ctx, core, strings.TrimSuffix(serve.Simulator, "/"))
	}
	return openInside(ctx, core, store, serve, log)
}

func openReal(c *clock.Clock, store config.Store, named []config.Acquirer) (*Bank, error) {
	b := &Bank{}
	var err error
	if b.Chain, err = openChain(c, store); err != nil {
		return nil, err
	}
	var routes []acquirer.Route
	for _, a := range named {
		driver, err := openDriver(c, a)
		if err != nil {
			return nil, fmt.Errorf("acquirer %s: %w", a.Name, err)
		}
		routes = append(routes, acquirer.Route{Acquirer: driver, Priority: a.Priority, Weight: a.Weight})
		sender := callback.Sender{Name: a.Name, Secret: a.ClientSecret}
		if a.CallbackCA != "" {
			if sender.Roots, err = readRoots(a.CallbackCA); err != nil {
				return nil, fmt.Errorf("acquirer %s: callback_ca: %w", a.Name, err)
			}
		}
		b.senders = append(b.senders, sender)
	}
	b.Router, err = acquirer.NewRouter(c, routes...)
	return b, err
}

func openDriver(c *clock.Clock, a config.Acquirer) (acquirer.Acquirer, error) {
	certificate, err := readCertificate(a)
	if err != nil {
		return nil, err
	}
	var roots *x509.CertPool
	if a.CA != "" {
		if roots, err = readRoots(a.CA); err != nil {
			return nil, err
		}
	}
	switch a.Driver {
	case "efi":
		return efi.New(efi.Config{
			RootCAs: roots,
			Name:    a.Name, Host: a.BaseURL, ClientID: a.ClientID, ClientSecret: a.ClientSecret, Key: a.Key, Certificate: certificate,
			WebhookMTLS: a.CallbackCA != "",
		}, c)
	case "bcb":
		body, ok := map[string]bcb.TokenBody{"": bcb.TokenForm, "form": bcb.TokenForm, "json": bcb.TokenJSON}[a.TokenBody]
		if !ok {
			return nil, fmt.Errorf("token_body %q: use form or json", a.TokenBody)
		}
		return bcb.New(bcb.Config{
			TokenBody: body, RootCAs: roots, ReceiverName: a.ReceiverName, ReceiverCity: a.ReceiverCity,
			Name: a.Name, BaseURL: a.BaseURL, TokenURL: a.TokenURL, ClientID: a.ClientID, ClientSecret: a.ClientSecret, Key: a.Key,
			Certificate: certificate,
		}, c)
	}
	return nil, fmt.Errorf("driver %q: use efi or bcb", a.Driver)
}

func readCertificate(a config.Acquirer) (c bcb.Certificate, err error) {
	if a.Certificate == "" {
		return c, nil
	}
	content, err := os.ReadFile(a.Certificate)
	if err != nil {
		return c, err
	}
	if !bytes.Contains(content, []byte("-----BEGIN")) {
		return bcb.Certificate{PKCS12: content, Password: a.CertificatePassword}, nil
	}
	c.CertPEM, c.KeyPEM = content, content
	if a.CertificateKey != "" {
		c.KeyPEM, err = os.ReadFile(a.CertificateKey)
	}
	return c, err
}

// openInside runs the simulators in this process.
func openInside(ctx context.Context, core *Core, store config.Store, serve config.Serve, log *slog.Logger) (*Bank, error) {
	settleAfter, err := simulator.ParseSettleAfter(cmp.Or(serve.SimulatorSettleAfter, simulator.SettleAfterDefault.String()))
	if err != nil {
		return nil, err
	}
	s, err := simulator.Open(simulator.Options{
		Data: store.Data, Clock: core.Clock, Log: log, SettleAfter: settleAfter,
		Advanced: func(offset time.Duration) error {
			return node.StoreClock(context.WithoutCancel(ctx), core.DB, core.Clock, offset)
		},
	})
	if err != nil {
		return nil, err
	}
	if err := s.Listen(ctx); err != nil {
		_ = s.Close()
		return nil, err
	}
	b, err := simulated(core, s.Acquirers(), s.CryptoAccount())
	if err != nil {
		_ = s.Close()
		return nil, err
	}
	b.inside = s
	return b, nil
}

// ErrNoSimulator is returned when simulated acquirers cannot be reached.
var ErrNoSimulator = errors.New("no simulator answers")

// openOutside uses simulators that run alone, and follows their clock.
func openOutside(ctx context.Context, core *Core, url string) (*Bank, error) {
	var accounts []simulator.Account
	if err := ask(ctx, url+"/sim/acquirers", &accounts); err != nil {
		return nil, fmt.Errorf("%w at %s: %w", ErrNoSimulator, url, err)
	}
	var crypto chainworld.Account
	if err := ask(ctx, url+"/sim/crypto/account", &crypto); err != nil {
		return nil, fmt.Errorf("%w at %s: %w", ErrNoSimulator, url, err)
	}
	b, err := simulated(core, accounts, crypto)
	if err != nil {
		return nil, err
	}
	follow := func(ctx context.Context) (bool, error) {
		var told struct {
			OffsetSeconds int64 `json:"offset_seconds"`
		}
		if err := ask(ctx, url+"/sim/clock", &told); err != nil {
			return false, err
		}
		offset := time.Duration(told.OffsetSeconds) * time.Second
		if offset <= core.Clock.Offset() {
			return false, nil
		}
		return false, node.StoreClock(ctx, core.DB, core.Clock, offset)
	}
	if _, err := follow(ctx); err != nil {
		return nil, err
	}
	b.steps = append(b.steps, loop{name: "simulator clock", every: 200 * time.Millisecond, step: follow, early: true})
	return b, nil
}

// simulated reaches simulated acquirers by the same driver as real ones.
func simulated(core *Core, accounts []simulator.Account, crypto chainworld.Account) (*Bank, error) {
	b := &Bank{Simulated: true}
	var err error
	if b.Chain, err = simulatedChain(core, crypto); err != nil {
		return nil, err
	}
	var routes []acquirer.Route
	for _, a := range accounts {
		driver, err := efi.New(efi.Config{
			Name: a.Name, Host: a.BaseURL, ClientID: a.ClientID, ClientSecret: a.ClientSecret, Key: a.Key, Transport: core.network,
		}, core.Clock)
		if err != nil {
			return nil, err
		}
		routes = append(routes, acquirer.Route{Acquirer: driver, Priority: a.Priority})
		b.senders = append(b.senders, callback.Sender{Name: a.Name, Secret: a.ClientSecret})
	}
	b.Router, err = acquirer.NewRouter(core.Clock, routes...)
	return b, err
}

func ask(ctx context.Context, url string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, simulatorAskMax)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("answered %s", response.Status)
	}
	return json.NewDecoder(io.LimitReader(response.Body, simulatorBytesMax)).Decode(into)
}

// register tells every acquirer where to send notifications, until each has taken it.
func (b *Bank) register(base string) loop {
	waiting := map[string]string{} // paths by name
	for _, s := range b.senders {
		waiting[s.Name] = callback.Path(s.Name, s.Secret)
	}
	return loop{name: "webhooks", every: 5 * time.Second, step: func(ctx context.Context) (bool, error) {
		var failed error
		for _, name := range slices.Sorted(maps.Keys(waiting)) {
			path := waiting[name]
			at, ok := b.Router.Get(name)
			if !ok {
				continue
			}
			if err := at.SetWebhook(ctx, base+path); err != nil {
				failed = errors.Join(failed, err)
				continue
			}
			delete(waiting, name)
		}
		return false, failed
	}}
}

// asksCertificates returns an acquirer whose notifications must show a certificate, or "".
func (b *Bank) asksCertificates() string {
	for _, s := range b.senders {
		if s.Roots != nil {
			return s.Name
		}
	}
	return ""
}

// Page returns where a person can pay simulated charges, or "" when the banks are real.
func (b *Bank) Page(serve config.Serve) string {
	if !b.Simulated {
		return ""
	}
	return cmp.Or(strings.TrimSuffix(serve.Simulator, "/"), "http://"+serve.SimulatorListen) + "/"
}

// Controls returns the page and the controls of the simulators inside, or nil.
func (b *Bank) Controls() http.Handler {
	if b.inside == nil {
		return nil
	}
	return b.inside.Handler()
}

// Step delivers the notifications of the simulators inside, for tests that run nothing else.
func (b *Bank) Step(ctx context.Context) (bool, error) {
	if b.inside == nil {
		return false, nil
	}
	return b.inside.Step(ctx)
}

// Close ends the simulators inside.
func (b *Bank) Close() {
	if b.inside != nil {
		_ = b.inside.Close()
	}
}

// openRunning reaches the acquirers that a running server uses: real ones, or simulators wherever they are.
func openRunning(ctx context.Context, core *Core, store config.Store, serve config.Serve) (*Bank, error) {
	named, err := store.Acquirers()
	if err != nil {
		return nil, err
	}
	if len(named) > 0 {
		return openReal(core.Clock, store, named)
	}
	if serve.Simulator == "" && serve.SimulatorListen == config.SimulatorListen {
		last, err := sqldb.One(ctx, core.DB, sqldb.Scalar[string], selectSimulator)
		if err != nil && !errors.Is(err, sqldb.ErrNoRows) {
			return nil, err
		}
		serve.Simulator = last
	}
	return openOutside(ctx, core, cmp.Or(strings.TrimSuffix(serve.Simulator, "/"), "http://"+serve.SimulatorListen))
}

const (
	upsertSimulator = `INSERT INTO simulator (name, url) VALUES ('last', $1)
ON CONFLICT (name) DO UPDATE SET url = excluded.url WHERE simulator.url <> excluded.url`
	selectSimulator = `SELECT url FROM simulator WHERE name = 'last'`
)

// noteSimulator tells commands where this server's simulators are.
func (c *Core) noteSimulator(ctx context.Context, url string) error {
	return c.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.Queue(ctx, upsertSimulator, url)
		return nil
	})
}

// CancelCharge removes an unpaid charge at its acquirer and then here, and returns what became of it.
func CancelCharge(ctx context.Context, core *Core, store config.Store, serve config.Serve, log *slog.Logger, public string) (string, error) {
	bank, err := openRunning(ctx, core, store, serve)
	if err != nil {
		return "", err
	}
	hooks, err := core.Webhooks(ctx)
	if err != nil {
		return "", err
	}
	c, err := core.charges(bank, idempotency.New(core.DB, core.Clock, 0), hooks, log, nil).Cancel(ctx, public)
	return string(c.Status), err
}

// SimulatorOptions are the settings of simulators that run alone.
type SimulatorOptions struct {
	Data        string // folder of their books
	Listen      string // address of their page and their controls
	SettleAfter string // how long after they were sent payouts settle by themselves, or manual
}

// RunSimulator runs the simulators alone until ctx ends. ready is called once with their address.
func RunSimulator(ctx context.Context, o SimulatorOptions, log *slog.Logger, ready func(url string)) error {
	settleAfter, err := simulator.ParseSettleAfter(o.SettleAfter)
	if err != nil {
		return err
	}
	s, err := simulator.Open(simulator.Options{Data: o.Data, Clock: clock.New(nil), Log: log, SettleAfter: settleAfter})
	if err != nil {
		return err
	}
	defer s.Close() // its books are written already
	if err := s.Listen(ctx); err != nil {
		return err
	}
	listener, err := listen(ctx, o.Listen)
	if err != nil {
		return err
	}
	controls := &http.Server{
		Handler: s.Handler(), ReadHeaderTimeout: readHeaderTimeMax, ReadTimeout: readTimeMax, IdleTimeout: idleTimeMax,
	}
	failed := make(chan error, 1)
	go func() { failed <- (&server{controls, listener}).serve() }()
	ready("http://" + listener.Addr().String())
	running, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		if err := <-failed; err != nil {
			log.LogAttrs(ctx, slog.LevelError, "simulator", slog.String("error", err.Error()))
		}
		stop()
	}()
	err = s.Serve(running)
	return errors.Join(err, controls.Close())
}

// Health is how one acquirer answered.
type Health struct {
	Name  string
	Holds string // what could be paid out from our account there; "" when it does not tell
	Err   error  // nil when it answered
}

// CheckAcquirers asks each acquirer for a charge that it cannot have: to say so, it has to know us. It fails with
// [ErrNoSimulator] when simulated ones are used, and they are not where the settings say.
func CheckAcquirers(ctx context.Context, core *Core, store config.Store, serve config.Serve) ([]Health, error) {
	bank, err := openRunning(ctx, core, store, serve)
	if err != nil {
		return nil, err
	}
	var list []Health
	for _, known := range bank.Router.Health() {
		h := Health{Name: known.Acquirer}
		at, _ := bank.Router.Get(h.Name)
		_, err := at.GetCharge(ctx, id.Token(core.IDs.New(), id.NewAccount(rand.Reader)))
		if !errors.Is(err, acquirer.ErrNotFound) {
			h.Err = err
		}
		if payer, ok := at.(acquirer.Payer); ok && h.Err == nil {
			if holds, err := payer.Balance(ctx); err == nil { // not every agreement lets us ask
				h.Holds = holds.String()
			}
		}
		list = append(list, h)
	}
	return list, nil
}

// AcquirerNames returns the acquirers that the settings name, or the simulated ones.
func (c *Core) AcquirerNames() ([]string, error) {
	named, err := c.store.Acquirers()
	if err != nil || len(named) == 0 {
		return simulator.AcquirerNames(), err
	}
	var names []string
	for _, a := range named {
		names = append(names, a.Name)
	}
	return names, nil
}

// CheckCrypto asks the crypto provider for its coins, and for a balance that only we may see, and each source of rates for its price. An
// installation without a provider has nothing to check.
func CheckCrypto(ctx context.Context, core *Core, store config.Store, serve config.Serve) (list []Health) {
	bank, err := openRunning(ctx, core, store, serve)
	if err != nil {
		return nil // told with the acquirers
	}
	at := bank.Chain
	if at.Provider == (chain.Nobody{}) {
		return nil
	}
	_, coinsErr := at.Provider.Currencies(ctx)
	_, balanceErr := at.Provider.Balance(ctx)
	list = append(list, Health{Name: "crypto provider " + at.Provider.Name(), Err: errors.Join(coinsErr, balanceErr)})
	for _, s := range at.Sources {
		_, err := s.Rate(ctx)
		list = append(list, Health{Name: "rates " + s.Name(), Err: err})
	}
	return list
}

// FindCharge returns a charge of any account by chg_... .
func (c *Core) FindCharge(ctx context.Context, public string) (charge.Charge, error) {
	return charge.New(charge.Services{DB: c.DB, Clock: c.Clock, Accounts: c.Accounts}).Find(ctx, public)
}

// ListUnmatched returns the payments that belong to no charge and wait to be looked at.
func (c *Core) ListUnmatched(ctx context.Context) ([]charge.Unmatched, error) {
	return charge.ListUnmatched(ctx, c.DB)
}

// DismissUnmatched notes why nothing more is to be done about a payment that belongs to no charge.
func (c *Core) DismissUnmatched(ctx context.Context, endToEndID, why string) error {
	return charge.DismissUnmatched(ctx, c.DB, c.IDs, endToEndID, why)
}

// ListUnmatchedInfractions returns the infractions of payments that were credited to nobody and wait to be looked at.
func (c *Core) ListUnmatchedInfractions(ctx context.Context) ([]infraction.Unmatched, error) {
	return infraction.ListUnmatched(ctx, c.DB)
}

// DismissUnmatchedInfraction notes why nothing more is to be done about an infraction of such a payment.
func (c *Core) DismissUnmatchedInfraction(ctx context.Context, acquirerID, why string) error {
	return infraction.DismissUnmatched(ctx, c.DB, c.IDs, acquirerID, why)
}

// CountUnmatched returns how many payments belong to no charge.
func (c *Core) CountUnmatched(ctx context.Context) (int64, error) {
	return charge.CountUnmatched(ctx, c.DB)
}
