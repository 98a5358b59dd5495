package chaintest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/simulator"
	"github.com/ponte-pay/ponte/internal/simulator/chainworld"
)

// World is the simulated provider of one test, over real HTTP. A test uses its control routes, as people do.
type World struct {
	Clock *clock.Clock // which the world moves

	tb      testing.TB
	sim     *simulator.Simulator
	control string // URL
}

// NewWorld opens a world that ends with the test. Nothing in it runs by itself: time moves by Advance.
func NewWorld(tb testing.TB) *World {
	tb.Helper()
	w := &World{Clock: clock.New(nil), tb: tb}
	var err error
	if w.sim, err = simulator.Open(simulator.Options{Data: tb.TempDir(), Clock: w.Clock}); err != nil {
		tb.Fatalf("chaintest: %v", err)
	}
	tb.Cleanup(func() { _ = w.sim.Close() })
	if err := w.sim.Listen(tb.Context()); err != nil {
		tb.Fatalf("chaintest: %v", err)
	}
	server := httptest.NewServer(w.sim.Handler())
	tb.Cleanup(server.Close)
	w.control = server.URL
	return w
}

// Account returns what a driver needs to use the provider.
func (w *World) Account() chainworld.Account { return w.sim.CryptoAccount() }

// call calls a control route and decodes its answer into reply, unless that is nil.
func (w *World) call(method, route string, body, reply any) {
	w.tb.Helper()
	if status, text := w.try(method, route, body, reply); status != http.StatusOK {
		w.tb.Fatalf("chaintest: %s %s: %d: %s", method, route, status, text)
	}
}

func (w *World) try(method, route string, body, reply any) (status int, text string) {
	w.tb.Helper()
	if body == nil {
		body = map[string]any{}
	}
	sent, err := json.Marshal(body)
	if err != nil {
		w.tb.Fatalf("chaintest: %v", err)
	}
	request, err := http.NewRequestWithContext(context.WithoutCancel(w.tb.Context()), method, w.control+route, bytes.NewReader(sent))
	if err != nil {
		w.tb.Fatalf("chaintest: %v", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		w.tb.Fatalf("chaintest: %v", err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && reply != nil && response.StatusCode == http.StatusOK {
		err = json.Unmarshal(answer, reply)
	}
	if err != nil {
		w.tb.Fatalf("chaintest: %s %s: %v", method, route, err)
	}
	return response.StatusCode, string(answer)
}

// Deposit is coins that somebody sends.
type Deposit struct {
	Address, ExtraID, Amount string
	Currency                 string // "" means the coin that was asked for
	Hold                     bool   // stop at confirming
}

// Deposit lets coins arrive, and returns the id of the payment that they are for.
func (w *World) Deposit(d Deposit) string {
	w.tb.Helper()
	order := map[string]any{"pay_address": d.Address, "amount": d.Amount, "confirm": !d.Hold}
	if d.ExtraID != "" {
		order["extra_id"] = d.ExtraID
	}
	if d.Currency != "" {
		order["currency"] = d.Currency
	}
	var came struct{ ID string }
	w.call(http.MethodPost, "/sim/crypto/deposit", order, &came)
	return came.ID
}

// Payment lets something become of a payment: confirm, fail, expire or refund.
func (w *World) Payment(id, what string) {
	w.tb.Helper()
	w.call(http.MethodPost, "/sim/crypto/charges/"+id+"/"+what, nil, nil)
}

// Payout lets something become of a payout: finish, fail or reject.
func (w *World) Payout(id, what string) {
	w.tb.Helper()
	w.call(http.MethodPost, "/sim/crypto/payouts/"+id+"/"+what, nil, nil)
}

// Switch switches a coin.
func (w *World) Switch(code string, enabled, memoRequired bool) {
	w.tb.Helper()
	w.call(http.MethodPost, "/sim/crypto/currencies/"+code, map[string]any{"enabled": enabled, "memo_required": memoRequired}, nil)
}

// Quirk switches a quirk on.
func (w *World) Quirk(name string) {
	w.tb.Helper()
	w.call(http.MethodPost, "/sim/crypto/quirks", map[string]any{"name": name, "on": true}, nil)
}

// Fault makes something go wrong from now on: times, or until all faults are cleared for 0. An empty operation means all.
func (w *World) Fault(operation, kind string, times int, delay time.Duration) {
	w.tb.Helper()
	if operation == "" {
		operation = "*"
	}
	w.call(http.MethodPost, "/sim/faults", map[string]any{
		"target": "crypto", "operation": operation, "kind": kind, "times": times, "delay_ms": max(1, delay.Milliseconds()),
	}, nil)
}

// ClearFaults makes everything work again.
func (w *World) ClearFaults() {
	w.tb.Helper()
	w.call(http.MethodDelete, "/sim/faults", nil, nil)
}

// Advance moves the clock.
func (w *World) Advance(d time.Duration) {
	w.tb.Helper()
	w.call(http.MethodPost, "/sim/clock", map[string]any{"advance_seconds": int64(d / time.Second)}, nil)
}

// Step lets the world do what is due, notifications included.
func (w *World) Step() {
	w.tb.Helper()
	if _, err := w.sim.Step(w.tb.Context()); err != nil {
		w.tb.Fatalf("chaintest: %v", err)
	}
}

// Books returns the provider's books.
func (w *World) Books() chainworld.Books {
	w.tb.Helper()
	var b chainworld.Books
	w.call(http.MethodGet, "/sim/crypto/books", nil, &b)
	return b
}

// Receiver is where notifications go.
type Receiver struct {
	URL string

	mu     sync.Mutex
	status int
	list   []Notice
}

// Notice is a notification as it came.
type Notice struct {
	Header http.Header
	Body   []byte
}

// NewReceiver listens for notifications until the test ends.
func NewReceiver(tb testing.TB) *Receiver {
	tb.Helper()
	r := &Receiver{status: http.StatusOK}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			tb.Errorf("chaintest: %v", err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.list = append(r.list, Notice{request.Header.Clone(), body})
		w.WriteHeader(r.status)
	}))
	tb.Cleanup(server.Close)
	r.URL = server.URL
	return r
}

// Answer sets the status of all further answers.
func (r *Receiver) Answer(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

// Take returns what has come since the last call.
func (r *Receiver) Take() []Notice {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.list
	r.list = nil
	return list
}
