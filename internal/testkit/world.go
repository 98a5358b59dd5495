package testkit

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/config"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/simulator"
)

// World is the simulated bank world of a test: its payers, its faults and its books.
type World struct {
	URL     string       // of its controls when it runs alone; "" inside a service
	control http.Handler // of the one inside a service
}

// World returns the bank world inside the service.
func (s *Service) World() *World { return &World{control: s.Bank.Controls()} }

// NewWorld runs a bank world alone, for services with the option [Simulator].
func NewWorld(tb testing.TB) *World {
	tb.Helper()
	s, err := simulator.Open(simulator.Options{Data: tb.TempDir(), Clock: clock.New(nil), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		tb.Fatalf("testkit: %v", err)
	}
	if err := s.Listen(tb.Context()); err != nil {
		tb.Fatalf("testkit: %v", err)
	}
	controls := httptest.NewServer(s.Handler())
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Serve(ctx); err != nil {
			tb.Errorf("testkit: the simulator ended with %v", err)
		}
	})
	tb.Cleanup(func() {
		controls.Close()
		stop()
		running.Wait()
		if err := s.Close(); err != nil {
			tb.Errorf("testkit: the simulator closed with %v", err)
		}
	})
	return &World{URL: controls.URL}
}

// WorldAt returns the bank world whose controls are at url, such as another process runs it.
func WorldAt(url string) *World { return &World{URL: url} }

// Simulator makes a service use a bank world that runs alone.
func Simulator(w *World) Option { return func(c *config.Serve) { c.Simulator = w.URL } }

// Try calls a control route. It is for goroutines of a test, which must not end it.
func (w *World) Try(ctx context.Context, method, path, body string) (status int, answer []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeMax)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, w.URL+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	if w.control != nil {
		rec := httptest.NewRecorder()
		w.control.ServeHTTP(rec, r)
		return rec.Code, rec.Body.Bytes(), nil
	}
	response, err := worldClient.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}

var worldClient = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}

// Do calls a control route that works, and reads its answer into v unless that is nil.
func (w *World) Do(tb testing.TB, method, path, body string, v any) {
	tb.Helper()
	status, answer, err := w.Try(tb.Context(), method, path, body)
	if err != nil || status != http.StatusOK {
		tb.Fatalf("testkit: %s %s %s: %d %s, %v", method, path, body, status, answer, err)
	}
	if v == nil {
		return
	}
	if err := json.Unmarshal(answer, v); err != nil {
		tb.Fatalf("testkit: %s %s: %s: %v", method, path, answer, err)
	}
}

// Payment is what a payer does.
type Payment struct {
	CopyPaste string `json:"copy_paste,omitempty"` // this or TxID says what is paid
	TxID      string `json:"txid,omitempty"`
	Amount    string `json:"amount,omitempty"` // "" means what the charge asks for
	Callback  *bool  `json:"callback,omitempty"`
}

// Lost is a [Payment.Callback] that gets lost.
var Lost = new(bool)

// Pay pays, and returns the payment's end-to-end id.
func (w *World) Pay(tb testing.TB, p Payment) string {
	tb.Helper()
	body, err := json.Marshal(p)
	if err != nil {
		tb.Fatal(err)
	}
	var paid struct {
		EndToEndID string `json:"end_to_end_id"`
	}
	w.Do(tb, http.MethodPost, "/sim/pix/pay", string(body), &paid)
	return paid.EndToEndID
}

// Fault is something that goes wrong at an acquirer.
type Fault struct {
	Target    string `json:"target"`              // alpha or beta
	Operation string `json:"operation,omitempty"` // "" means every one
	Kind      string `json:"kind"`
	Times     int    `json:"times"` // 0 means until [World.Mend]
	DelayMS   int    `json:"delay_ms,omitempty"`
}

// Break orders a fault.
func (w *World) Break(tb testing.TB, f Fault) {
	tb.Helper()
	body, err := json.Marshal(f)
	if err != nil {
		tb.Fatal(err)
	}
	w.Do(tb, http.MethodPost, "/sim/faults", string(body), nil)
}

// Mend ends all faults.
func (w *World) Mend(tb testing.TB) {
	tb.Helper()
	w.Do(tb, http.MethodDelete, "/sim/faults", "", nil)
}

// Book is a charge in the books of an acquirer.
type Book struct {
	Acquirer   string `json:"acquirer"`
	TxID       string `json:"txid"`
	Amount     string `json:"amount"`
	Status     string `json:"status"`
	EndToEndID string `json:"end_to_end_id"`
}

// Books returns the charges of both acquirers.
func (w *World) Books(tb testing.TB) []Book {
	tb.Helper()
	var books struct {
		Charges []Book `json:"charges"`
	}
	w.Do(tb, http.MethodGet, "/sim/pix/books", "", &books)
	return books.Charges
}

// Value returns the amount.
func (b Book) Value(tb testing.TB) money.BRL {
	tb.Helper()
	amount, err := money.ParseBRL(b.Amount)
	if err != nil {
		tb.Fatalf("testkit: amount %q: %v", b.Amount, err)
	}
	return amount
}

// Deliver brings the acquirers' notifications to a service that was started by [Start], and has it follow them.
func (s *Service) Deliver(tb testing.TB) {
	tb.Helper()
	if _, err := s.Bank.Step(tb.Context()); err != nil {
		tb.Fatalf("testkit: deliver notifications: %v", err)
	}
	s.Step(tb)
}

// PayoutBook is a payout in the books of an acquirer.
type PayoutBook struct {
	Acquirer   string `json:"acquirer"`
	ID         string `json:"id"`
	Key        string `json:"key"`
	Amount     string `json:"amount"`
	Status     string `json:"status"`
	EndToEndID string `json:"end_to_end_id"`
	Executions int    `json:"executions"` // how often money really left
}

// Payouts returns the payouts of both acquirers.
func (w *World) Payouts(tb testing.TB) []PayoutBook {
	tb.Helper()
	var books struct {
		Payouts []PayoutBook `json:"payouts"`
	}
	w.Do(tb, http.MethodGet, "/sim/pix/books", "", &books)
	return books.Payouts
}
