package simulator

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"

	"github.com/ponte-pay/ponte/internal/httpkit"
	"github.com/ponte-pay/ponte/internal/simulator/chainworld"
)

// gate is where a part of the chain world is reached: a port of its own, which a fault can shut.
type gate struct {
	name    string // as faults target it
	door    door
	host    atomic.Pointer[string] // host and port under which the door is reached
	refuses atomic.Bool            // the door is shut by a fault
	handler http.Handler
}

func newGate(name string, inside http.Handler, log *slog.Logger) *gate {
	g := &gate{name: name}
	g.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.refuses.Load() {
			panic(http.ErrAbortHandler)
		}
		inside.ServeHTTP(w, r)
	})
	// No bound on the whole of a request: it would end the waits that a fault orders.
	g.door.server = &http.Server{
		Handler: g.handler, ReadHeaderTimeout: readHeaderTimeMax, IdleTimeout: idleTimeMax, MaxHeaderBytes: headerBytesMax,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	unreachable := name + ".simulator"
	g.host.Store(&unreachable)
	return g
}

// newChain returns the chain world, whose entries are records of the books. They are opened after it, so that what they
// hold can be given back to it.
func newChain(o Options, faults *faultRules, b func() *books) *chainworld.World {
	return chainworld.New(chainworld.Options{
		Clock: o.Clock, Log: o.Log, Random: readerFunc(func(p []byte) (int, error) {
			b().lockAndFill(p)
			return len(p), nil
		}),
		Write: func(entry json.RawMessage) error {
			b := b()
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.write(&record{Crypto: entry})
		},
		Fault: func(target, op string) (chainworld.Fault, bool) {
			rule, hit := faults.onRequest(target, operation(op))
			return chainworld.Fault{Kind: string(rule.kind), Delay: rule.delay}, hit
		},
		Twice:       func(ofPayout bool) bool { return faults.onCallback(chainworld.TargetCrypto, ofPayout) },
		Reset:       reset,
		Transport:   o.Transport,
		SettleAfter: o.SettleAfter,
		Manual:      o.SettleAfter == Manual,
	})
}

type readerFunc func([]byte) (int, error)

// Read calls f.
func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// listenGate opens a gate's port: the one it had before, unless somebody else has it now.
func (s *Simulator) listenGate(ctx context.Context, g *gate) error {
	port, err := g.door.open(ctx, s.chain.Port(g.name))
	if err != nil {
		return err
	}
	if err := s.chain.SetPort(g.name, port); err != nil {
		return err
	}
	host := net.JoinHostPort(net.IP(loopback[:]).String(), strconv.Itoa(port))
	g.host.Store(&host)
	if g.refuses.Load() {
		g.door.shut()
	}
	return nil
}

// gate returns the gate of that name, nil if there is none.
func (s *Simulator) gate(name string) *gate {
	for _, g := range s.gates {
		if g.name == name {
			return g
		}
	}
	return nil
}

// CryptoAccount returns what a client needs to use the crypto provider and the sources of rates. Before Listen its addresses
// are such as http://crypto.simulator, which only a transport inside of the process can reach.
func (s *Simulator) CryptoAccount() chainworld.Account {
	a := s.chain.Account()
	a.BaseURL = "http://" + *s.gate(chainworld.TargetCrypto).host.Load() + "/v1"
	a.RatesURL = "http://" + *s.gate(chainworld.TargetRates).host.Load()
	return a
}

// ChainHandler returns a part of the chain world without its port, crypto or rates, for who reaches it inside of one
// process. While it refuses connections, every request is aborted. An unknown name is not found.
func (s *Simulator) ChainHandler(name string) http.Handler {
	if g := s.gate(name); g != nil {
		return g.handler
	}
	return http.NotFoundHandler()
}

func (s *Simulator) controlCryptoAccount(*http.Request) (httpkit.Answer, error) {
	return httpkit.Answer{Body: s.CryptoAccount(), Header: noStoreHeader}, nil
}

// faultTargets are all that a fault can be bound to.
var faultTargets = append(append([]string{}, acquirerNames[:]...), chainworld.TargetCrypto, chainworld.TargetRates)

// shutter is what shuts and opens the door of a target.
func (s *Simulator) shutter(target string) (refuses *atomic.Bool, d *door) {
	if a := s.acquirer(target); a != nil {
		return &a.refuses, &a.door
	}
	if g := s.gate(target); g != nil {
		return &g.refuses, &g.door
	}
	return nil, nil
}

// walletRow is a payment as the page shows it.
type walletRow struct {
	chainworld.PaymentView
	Fate, Class string // in plain words, and of its style
	Rest        string // that is to be sent
	CanPay      bool
	Again       bool // it was paid before
}

// sentRow is a payout as the page shows it.
type sentRow struct {
	chainworld.PayoutView
	Fate, Class string
	Open        bool
}

var paymentFates = map[string][2]string{
	"waiting": {"à espera", "open"}, "confirming": {"confirmando", "open"}, "confirmed": {"confirmada", "open"}, "sending": {"liquidando", "open"},
	"finished": {"paga", "paid"}, "partially_paid": {"paga em parte", "paid"}, "failed": {"falhou", "gone"}, "refunded": {"devolvida", "gone"},
	"expired": {"vencida", "late"},
}

var sentFates = map[string][2]string{
	"WAITING": {"à espera do código", "open"}, "PROCESSING": {"em andamento", "open"}, "SENDING": {"na rede", "open"}, "FINISHED": {"enviada", "paid"},
	"FAILED": {"falhou, em dúvida", "late"}, "REJECTED": {"rejeitada", "gone"}, "CANCELLED": {"cancelada", "gone"},
}

// addWallet fills in what the chain world's books say, the latest first.
func (s *Simulator) addWallet(view *pageView) error {
	b, err := s.chain.Books()
	if err != nil {
		return err
	}
	view.WalletTotal, view.SentTotal = len(b.Payments), len(b.Payouts)
	for i := len(b.Payments) - 1; i >= 0 && len(view.Wallet) < pageRowsMax; i-- {
		p := b.Payments[i]
		fate := paymentFates[p.Status]
		view.Wallet = append(view.Wallet, walletRow{
			PaymentView: p, Fate: fate[0], Class: fate[1], Rest: p.PayAmount, CanPay: p.ParentID == "", Again: p.Status != "waiting" && p.Status != "expired",
		})
	}
	for i := len(b.Payouts) - 1; i >= 0 && len(view.Sent) < pageRowsMax; i-- {
		p := b.Payouts[i]
		fate := sentFates[p.Status]
		view.Sent = append(view.Sent, sentRow{
			PayoutView: p, Fate: fate[0], Class: fate[1], Open: p.Status == "WAITING" || p.Status == "PROCESSING" || p.Status == "SENDING" || p.Status == "FAILED",
		})
	}
	return nil
}

func (s *Simulator) formWallet(r *http.Request) (url.Values, error) {
	if _, err := s.chain.Deposit(chainworld.Deposit{
		PayAddress: clip(r.PostForm.Get("endereco")), ExtraID: clip(r.PostForm.Get("memo")), Amount: fromPortuguese(r.PostForm.Get("quantia")),
		Currency: r.PostForm.Get("moeda"), Hold: r.PostForm.Get("segurar") != "", Silent: r.PostForm.Get("sem_aviso") != "",
	}); err != nil {
		return nil, err
	}
	return done("moedas")
}

// formChain returns the form that does so with a payment or a payout of the chain world.
func formChain[T any](do func(id string) (T, error), what string) func(*http.Request) (url.Values, error) {
	return func(r *http.Request) (url.Values, error) {
		if _, err := do(r.PostForm.Get("id")); err != nil {
			return nil, err
		}
		return done(what)
	}
}

// chainForms are the forms of the wallet.
func (s *Simulator) chainForms() map[string]func(*http.Request) (url.Values, error) {
	return map[string]func(*http.Request) (url.Values, error){
		"POST /carteira":                 s.formWallet,
		"POST /carteira/confirmar":       formChain(s.chain.Confirm, "cripto_confirmada"),
		"POST /carteira/vencer":          formChain(s.chain.Expire, "cripto_vencida"),
		"POST /carteira/falhar":          formChain(s.chain.Fail, "cripto_falhou"),
		"POST /carteira/devolver":        formChain(s.chain.Refund, "cripto_devolvida"),
		"POST /carteira/saques/concluir": formChain(s.chain.FinishPayout, "saque_concluido"),
		"POST /carteira/saques/falhar":   formChain(s.chain.FailPayout, "saque_falhou"),
		"POST /carteira/saques/rejeitar": formChain(s.chain.RejectPayout, "saque_rejeitado"),
	}
}

// chainOperations are the operations of the chain world that a fault can name.
var chainOperations = []string{
	chainworld.OpPaymentCreate, chainworld.OpPaymentGet, chainworld.OpPayoutVerify, chainworld.OpMinimum, chainworld.OpEstimate, chainworld.OpCurrencies,
	chainworld.SourceAwesome, chainworld.SourceCoinGecko,
}

// chainChoices are they on the page.
var chainChoices = []choice{
	{chainworld.OpPaymentCreate, "criar depósito cripto"},
	{chainworld.OpPaymentGet, "consultar depósito cripto"},
	{chainworld.OpPayoutVerify, "confirmar saque cripto"},
	{chainworld.OpMinimum, "mínimo cripto"},
	{chainworld.OpEstimate, "estimativa cripto"},
	{chainworld.OpCurrencies, "lista de moedas"},
	{chainworld.SourceAwesome, "cotação AwesomeAPI"},
	{chainworld.SourceCoinGecko, "cotação CoinGecko"},
}
