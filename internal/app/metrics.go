package app

import (
	"cmp"
	"context"
	"net/http"
	"net/http/pprof"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/charge"
	"github.com/ponte-pay/ponte/internal/deposit"
	"github.com/ponte-pay/ponte/internal/httpkit"
	"github.com/ponte-pay/ponte/internal/infraction"
	"github.com/ponte-pay/ponte/internal/node"
	"github.com/ponte-pay/ponte/internal/payout"
	"github.com/ponte-pay/ponte/internal/webhook"
	"github.com/ponte-pay/ponte/internal/withdrawal"
)

const scrapeTimeMax = 2 * time.Second

// metrics are what an operator watches.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	notices  *prometheus.CounterVec
	attempts *prometheus.CounterVec
	firsts   prometheus.Histogram

	mu    sync.RWMutex
	known map[answered]answerMeters
}

// answered is a kind of answer.
type answered struct {
	route  string
	status int
}

// answerMeters are what counts answers of one kind. They are kept, because to find them by their labels takes longer than to
// count.
type answerMeters struct {
	requests prometheus.Counter
	seconds  prometheus.Observer
}

func newMetrics(core *Core, bank *Bank, n *node.Node) *metrics {
	m := &metrics{
		known:    map[answered]answerMeters{},
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ponte_http_requests_total", Help: "Answers by route and status.",
		}, []string{"route", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "ponte_http_request_seconds", Help: "Time to answer by route.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 15},
		}, []string{"route"}),
	}
	m.notices = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ponte_acquirer_notices_total", Help: "Notifications by acquirer and what became of them.",
	}, []string{"acquirer", "what"})
	m.attempts = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ponte_webhook_attempts_total", Help: "Attempts to deliver an event by how they went.",
	}, []string{"outcome"})
	m.firsts = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "ponte_webhook_first_attempt_seconds", Help: "Time between an event's commit and its first attempt.",
		Buckets: []float64{.001, .005, .01, .05, .1, .25, .5, 1, 5, 30},
	})
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	m.registry.MustRegister(
		m.requests, m.seconds, m.notices, m.attempts, m.firsts,
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		gauge("ponte_ready", "1 while this node serves.", func() float64 {
			if n.Ready() != nil {
				return 0
			}
			return 1
		}),
		gauge("ponte_nodes", "Nodes that share the database.", func() float64 { return float64(n.Alive()) }),
		gauge("ponte_fold_lag_seconds", "Age of the oldest credit that waits to be folded.",
			func() float64 { return core.Ledger.Lag().Seconds() }),
		gauge("ponte_unmatched_payments", "Payments that belong to no charge.", counted(core.CountUnmatched)),
		gauge("ponte_unmatched_crypto_payments", "Payments at the crypto provider that belong to no crypto charge.", counted(core.CountUnmatchedDeposits)),
		gauge("ponte_crypto_charges_stuck", "Crypto charges with coins that the provider has not settled.", counted(core.CountStuckDeposits)),
		gauge("ponte_payouts_in_doubt", "Payouts of which nobody knows whether they were sent.",
			doubt(core, func(d payout.Doubt) float64 { return float64(d.Payouts) })),
		gauge("ponte_payouts_in_doubt_brl", "Their money in reais, with fees.",
			doubt(core, func(d payout.Doubt) float64 { return float64(d.Sum) / centavos })),
		gauge("ponte_payouts_in_doubt_seconds", "Business time since the oldest of them.",
			doubt(core, func(d payout.Doubt) float64 {
				if d.Since.IsZero() {
					return 0
				}
				return core.Clock.Now().Sub(d.Since).Seconds()
			})),
		gauge("ponte_infractions_unmatched", "Infractions of payments that belong to no charge.",
			concern(core, func(c infraction.Concern) int64 { return c.Unmatched })),
		gauge("ponte_defenses_waiting", "Defenses that their acquirer has not taken for a minute.",
			concern(core, func(c infraction.Concern) int64 { return c.Waiting })),
		gauge("ponte_defenses_refused", "Defenses that came too late, or where another was, of infractions that are not decided.",
			concern(core, func(c infraction.Concern) int64 { return c.Refused })),
		gauge("ponte_crypto_payouts_in_doubt", "Crypto payouts of which nobody knows whether they were sent.",
			cryptoDoubt(core, func(d withdrawal.Doubt) float64 { return float64(d.Withdrawals) })),
		gauge("ponte_crypto_payouts_in_doubt_usdt", "Their money in USDT, with fees.",
			cryptoDoubt(core, func(d withdrawal.Doubt) float64 { return float64(d.Sum) / millionths })),
		gauge("ponte_crypto_payouts_in_doubt_seconds", "Business time since the oldest of them.",
			cryptoDoubt(core, func(d withdrawal.Doubt) float64 {
				if d.Since.IsZero() {
					return 0
				}
				return core.Clock.Now().Sub(d.Since).Seconds()
			})),
		gauge("ponte_clock_offset_seconds", "How far business time was moved ahead.",
			func() float64 { return core.Clock.Offset().Seconds() }),
	)
	for i, h := range bank.Router.Health() {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "ponte_acquirer_open", Help: "1 while an acquirer is passed over because it failed.",
			ConstLabels: prometheus.Labels{"acquirer": h.Acquirer},
		}, func() float64 {
			if bank.Router.Health()[i].State == acquirer.BreakerClosed {
				return 0
			}
			return 1
		}), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "ponte_acquirer_switched_off", Help: "1 while an operator lets an acquirer be given nothing new.",
			ConstLabels: prometheus.Labels{"acquirer": h.Acquirer},
		}, func() float64 {
			if bank.Router.Health()[i].Off == nil {
				return 0
			}
			return 1
		}))
	}
	return m
}

// Units of an amount, in one of its currency.
const (
	centavos   = 100
	millionths = 1_000_000
)

// counted returns a figure that the database counts.
func counted(count func(context.Context) (int64, error)) func() float64 {
	return func() float64 {
		ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeMax)
		defer cancel()
		n, err := count(ctx)
		if err != nil {
			return -1 // not known
		}
		return float64(n)
	}
}

// doubt returns a figure of the money in doubt.
func doubt(core *Core, figure func(payout.Doubt) float64) func() float64 {
	return func() float64 {
		ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeMax)
		defer cancel()
		d, err := core.CountDoubts(ctx)
		if err != nil {
			return -1 // not known
		}
		return figure(d)
	}
}

// concern returns a number of what operators must look at.
func concern(core *Core, number func(infraction.Concern) int64) func() float64 {
	return func() float64 {
		ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeMax)
		defer cancel()
		c, err := core.CountConcerns(ctx)
		if err != nil {
			return -1 // not known
		}
		return float64(number(c))
	}
}

// cryptoDoubt is doubt for withdrawals.
func cryptoDoubt(core *Core, figure func(withdrawal.Doubt) float64) func() float64 {
	return func() float64 {
		ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeMax)
		defer cancel()
		d, err := core.CountCryptoDoubts(ctx)
		if err != nil {
			return -1 // not known
		}
		return figure(d)
	}
}

// observe counts an answer.
func (m *metrics) observe(s *httpkit.Scope, took time.Duration) {
	kind := answered{s.Route, s.Status}
	m.mu.RLock()
	meters, ok := m.known[kind]
	m.mu.RUnlock()
	if !ok {
		meters = m.metersOf(kind)
	}
	meters.requests.Inc()
	meters.seconds.Observe(took.Seconds())
}

// metersOf finds what counts answers of a kind by its labels. Unknown routes share one name: a caller must not be able to make new series.
func (m *metrics) metersOf(kind answered) answerMeters {
	route := cmp.Or(kind.route, "none")
	found := answerMeters{m.requests.WithLabelValues(route, strconv.Itoa(kind.status)), m.seconds.WithLabelValues(route)}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known[kind] = found
	return found
}

// notified counts a notification.
func (m *metrics) notified(acquirer, what string) { m.notices.WithLabelValues(acquirer, what).Inc() }

// heard counts what became of a notification.
func (m *metrics) heard(acquirer string, v charge.Verdict) { m.notified(acquirer, string(v)) }

// heardOfCoins counts what became of a crypto provider's notification.
func (m *metrics) heardOfCoins(provider string, v deposit.Verdict) { m.notified(provider, string(v)) }

// delivered counts an attempt to deliver an event.
func (m *metrics) delivered(o webhook.Outcome) {
	outcome := "failed"
	switch {
	case o.OK:
		outcome = "delivered"
	case o.Timeout:
		outcome = "timeout"
	}
	m.attempts.WithLabelValues(outcome).Inc()
	if o.First {
		m.firsts.Observe(o.Waited.Seconds())
	}
}

// watch adds what the service of webhooks knows.
func (m *metrics) watch(s *webhook.Service) {
	gauge := func(name, help string, value func(context.Context) (float64, error)) {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeMax)
			defer cancel()
			v, err := value(ctx)
			if err != nil {
				return -1 // not known
			}
			return v
		}))
	}
	gauge("ponte_webhook_lag_seconds", "How late the oldest delivery is that is due, of endpoints that keep up.",
		func(ctx context.Context) (float64, error) { lag, err := s.Lag(ctx); return lag.Seconds(), err })
	gauge("ponte_webhook_parked", "Deliveries that have failed for good, up to ten thousand.",
		func(ctx context.Context) (float64, error) { n, err := s.CountParked(ctx); return float64(n), err })
	gauge("ponte_webhook_failing_endpoints", "Endpoints that have failed for three days.",
		func(ctx context.Context) (float64, error) {
			list, err := s.FailingLong(ctx)
			return float64(len(list)), err
		})
}

// handler serves the admin listener.
func (m *metrics) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}
