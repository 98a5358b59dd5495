package acquirertest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/simulator"
)

// World is the simulated bank of one test, over real HTTP. A test uses its control routes, as people do.
type World struct {
	Clock *clock.Clock // which the world moves

	tb      testing.TB
	bank    *simulator.Simulator
	control string // URL
}

// NewWorld opens a world that ends with the test. Nothing in it runs by itself.
func NewWorld(tb testing.TB) *World {
	tb.Helper()
	return openWorld(tb, simulator.Manual)
}

// openWorld opens a world in which payouts settle after a while, if [World.Step] is called.
func openWorld(tb testing.TB, settleAfter time.Duration) *World {
	tb.Helper()
	w := &World{Clock: clock.New(nil), tb: tb}
	var err error
	if w.bank, err = simulator.Open(simulator.Options{Data: tb.TempDir(), Clock: w.Clock, SettleAfter: settleAfter}); err != nil {
		tb.Fatalf("acquirertest: %v", err)
	}
	tb.Cleanup(func() { _ = w.bank.Close() })
	if err := w.bank.Listen(tb.Context()); err != nil {
		tb.Fatalf("acquirertest: %v", err)
	}
	server := httptest.NewServer(w.bank.Handler())
	tb.Cleanup(server.Close)
	w.control = server.URL
	return w
}

// Account returns what a driver needs to use an acquirer of the world: alpha or beta.
func (w *World) Account(name string) simulator.Account {
	w.tb.Helper()
	for _, a := range w.bank.Acquirers() {
		if a.Name == name {
			return a
		}
	}
	w.tb.Fatalf("acquirertest: there is no acquirer %s", name)
	return simulator.Account{}
}

// call calls a control route and decodes its answer into reply, unless that is nil.
func (w *World) call(method, route string, body map[string]any, reply any) {
	w.tb.Helper()
	if status, text := w.try(method, route, body, reply); status != http.StatusOK && status != http.StatusNoContent {
		w.tb.Fatalf("acquirertest: %s %s: %d: %s", method, route, status, text)
	}
}

func (w *World) try(method, route string, body map[string]any, reply any) (status int, text string) {
	w.tb.Helper()
	if body == nil {
		body = map[string]any{}
	}
	sent, err := json.Marshal(body)
	if err != nil {
		w.tb.Fatalf("acquirertest: %v", err)
	}
	request, err := http.NewRequestWithContext(context.WithoutCancel(w.tb.Context()), method, w.control+route, bytes.NewReader(sent))
	if err != nil {
		w.tb.Fatalf("acquirertest: %v", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		w.tb.Fatalf("acquirertest: %v", err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && reply != nil && response.StatusCode == http.StatusOK {
		err = json.Unmarshal(answer, reply)
	}
	if err != nil {
		w.tb.Fatalf("acquirertest: %s %s: %v", method, route, err)
	}
	return response.StatusCode, string(answer)
}

// Pay lets a payer pay a code, whose amount is the charge's if it is 0 here, and returns the end-to-end id.
func (w *World) Pay(copyPaste string, amount money.BRL) string {
	w.tb.Helper()
	order := map[string]any{"copy_paste": copyPaste, "payer_name": "Ana Lima", "payer_document": "52998224725"}
	if amount > 0 {
		order["amount"] = amount.String()
	}
	var paid struct {
		EndToEndID string `json:"end_to_end_id"`
	}
	w.call(http.MethodPost, "/sim/pix/pay", order, &paid)
	return paid.EndToEndID
}

// CanPay tries to pay a code and reports whether that worked.
func (w *World) CanPay(copyPaste string) bool {
	w.tb.Helper()
	status, _ := w.try(http.MethodPost, "/sim/pix/pay", map[string]any{"copy_paste": copyPaste}, nil)
	return status == http.StatusOK
}

// Refund lets the acquirer return an amount of a payment.
func (w *World) Refund(endToEndID string, amount money.BRL) {
	w.tb.Helper()
	w.call(http.MethodPost, "/sim/pix/refund", map[string]any{"end_to_end_id": endToEndID, "amount": amount.String()}, nil)
}

// Remove lets the acquirer remove a charge.
func (w *World) Remove(txID string) {
	w.tb.Helper()
	w.call(http.MethodPost, "/sim/pix/remove", map[string]any{"txid": txID}, nil)
}

// Fault is something that goes wrong.
type Fault struct {
	Target    string // alpha or beta; "" means alpha
	Operation string // such as charge.create; "" means all
	Kind      string // such as http_500
	Times     int    // 0 means until all faults are cleared
	Delay     time.Duration
}

// Fault makes something go wrong from now on.
func (w *World) Fault(f Fault) {
	w.tb.Helper()
	order := map[string]any{"target": "alpha", "operation": "*", "kind": f.Kind, "times": f.Times, "delay_ms": max(1, f.Delay.Milliseconds())}
	if f.Target != "" {
		order["target"] = f.Target
	}
	if f.Operation != "" {
		order["operation"] = f.Operation
	}
	w.call(http.MethodPost, "/sim/faults", order, nil)
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

// Step lets the acquirers deliver the notifications that are due.
func (w *World) Step() {
	w.tb.Helper()
	if _, err := w.bank.Step(w.tb.Context()); err != nil {
		w.tb.Fatalf("acquirertest: %v", err)
	}
}

// Charges returns how the books of an acquirer show a txid: one line for each charge, such as "ATIVA 12.34".
func (w *World) Charges(acquirer, txID string) string {
	w.tb.Helper()
	var books struct {
		Charges []struct{ TxID, Amount, Status string }
	}
	w.call(http.MethodGet, "/sim/pix/books?acquirer="+acquirer, nil, &books)
	var lines []string
	for _, c := range books.Charges {
		if c.TxID == txID {
			lines = append(lines, fmt.Sprintf("%s %s", c.Status, c.Amount))
		}
	}
	return strings.Join(lines, "\n")
}

// Claim opens an infraction against a payment, of all of it if amount is 0, and returns its id.
func (w *World) Claim(endToEndID string, amount money.BRL, reason string) string {
	w.tb.Helper()
	order := map[string]any{"end_to_end_id": endToEndID}
	if amount > 0 {
		order["amount"] = amount.String()
	}
	if reason != "" {
		order["reason"] = reason
	}
	var opened struct{ ID string }
	w.call(http.MethodPost, "/sim/med", order, &opened)
	return opened.ID
}

// Decide closes an infraction: accept, reject or cancel.
func (w *World) Decide(id, how string) {
	w.tb.Helper()
	w.call(http.MethodPost, "/sim/med/"+id+"/"+how, nil, nil)
}

// Settle lets the money of a payout leave.
func (w *World) Settle(id string) {
	w.tb.Helper()
	w.call(http.MethodPost, "/sim/pix/payouts/"+id+"/settle", nil, nil)
}

// Fail lets a payout fail, for the network's reason with that code.
func (w *World) Fail(id, code string) {
	w.tb.Helper()
	w.call(http.MethodPost, "/sim/pix/payouts/"+id+"/fail", map[string]any{"reason": code}, nil)
}

// Return lets an amount of a payout come back.
func (w *World) Return(id string, amount money.BRL) {
	w.tb.Helper()
	w.call(http.MethodPost, "/sim/pix/payouts/"+id+"/return", map[string]any{"amount": amount.String()}, nil)
}

// Payouts returns how the books of an acquirer show the id of a payout: one line for each, such as "REALIZADO 12.34 1",
// which ends with how often the money left.
func (w *World) Payouts(acquirer, id string) string {
	w.tb.Helper()
	var books struct {
		Payouts []struct {
			ID, Amount, Status string
			Executions         int
		}
	}
	w.call(http.MethodGet, "/sim/pix/books?acquirer="+acquirer, nil, &books)
	var lines []string
	for _, p := range books.Payouts {
		if p.ID == id {
			lines = append(lines, fmt.Sprintf("%s %s %d", p.Status, p.Amount, p.Executions))
		}
	}
	return strings.Join(lines, "\n")
}

// Balance returns what the books of an acquirer hold.
func (w *World) Balance(acquirer string) string {
	w.tb.Helper()
	var books struct{ Balance string }
	w.call(http.MethodGet, "/sim/pix/books?acquirer="+acquirer, nil, &books)
	return books.Balance
}
