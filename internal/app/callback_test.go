package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/testkit"
)

// charge is what these tests read of a charge.
type charge struct {
	ID     string `json:"id"`
	TxID   string `json:"txid"`
	Status string `json:"status"`
	Pix    struct {
		CopyPaste string `json:"copy_paste"`
	} `json:"pix"`
}

func makeCharge(t *testing.T, s *testkit.Service, key, idempotencyKey string) (c charge) {
	t.Helper()
	s.Do(t, testkit.Request{
		Method: http.MethodPost, Path: "/v1/charges", Key: key, Body: `{"amount": 10}`, Header: http.Header{"Idempotency-Key": {idempotencyKey}},
	}).Want(t, http.StatusCreated).Decode(t, &c)
	return c
}

// listed returns how a charge stands, without asking its acquirer.
func listed(t *testing.T, s *testkit.Service, key, id string) string {
	t.Helper()
	var page struct{ Data []charge }
	s.Get(t, key, "/v1/charges").Want(t, http.StatusOK).Decode(t, &page)
	for _, c := range page.Data {
		if c.ID == id {
			return c.Status
		}
	}
	return "missing"
}

func available(t *testing.T, s *testkit.Service, key string) string {
	t.Helper()
	var balance struct {
		Available json.Number `json:"available_balance"`
	}
	s.Get(t, key, "/v1/balance").Want(t, http.StatusOK).Decode(t, &balance)
	return balance.Available.String()
}

// tell sends a notification, and has the service follow it.
func tell(t *testing.T, s *testkit.Service, path, body string) *testkit.Answer {
	t.Helper()
	got := s.Do(t, testkit.Request{Method: http.MethodPost, Path: path, Body: body})
	s.Step(t)
	return got
}

func notice(payments ...[3]string) string {
	var list []string
	for _, p := range payments {
		list = append(list, fmt.Sprintf(`{"endToEndId":%q,"txid":%q,"valor":%q,"horario":"2026-11-15T12:00:00Z"}`, p[0], p[1], p[2]))
	}
	return `{"pix":[` + strings.Join(list, ",") + `]}`
}

const forged = "E12345678202611151200abcdefghijk"

// TestCallbacks tells the service of payments that were made, and of some that were not: only what the acquirer confirms
// is credited, once.
func TestCallbacks(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		a, other := s.Account(t, "shop"), s.Account(t, "other shop")
		w := s.World()
		alpha, beta := s.Bank.CallbackPath("alpha")+"/pix", s.Bank.CallbackPath("beta")+"/pix"
		unpaid, paid := makeCharge(t, s, a.Key, "key-unpaid"), makeCharge(t, s, a.Key, "key-paid0")
		theirs := makeCharge(t, s, other.Key, "key-other")
		e2e := w.Pay(t, testkit.Payment{CopyPaste: paid.Pix.CopyPaste, Callback: testkit.Lost})
		want := func(what string, status, balance string) {
			t.Helper()
			if got := listed(t, s, a.Key, paid.ID); got != status {
				t.Errorf("%s: the paid one is %s, want %s", what, got, status)
			}
			if got := listed(t, s, a.Key, unpaid.ID); got != "pending" {
				t.Errorf("%s: the unpaid one is %s", what, got)
			}
			if got := available(t, s, a.Key); got != balance {
				t.Errorf("%s: %s is available, want %s", what, got, balance)
			}
			if got := available(t, s, other.Key); got != "0.00" {
				t.Errorf("%s: the other account has %s", what, got)
			}
		}
		refused := func(what, path, body string, status int, code string) {
			t.Helper()
			tell(t, s, path, body).WantError(t, status, code).Lacks(t, "alpha", paid.TxID, a.ID.String())
			want(what, "pending", "0.00")
		}
		said := notice([3]string{e2e, paid.TxID, "10.00"})
		refused("wrong secret", strings.TrimSuffix(alpha, "/pix")+"0/pix", said, 404, "not_found")
		refused("no secret", "/callbacks/alpha/pix", said, 404, "not_found")
		refused("not JSON", alpha, `pix`, 400, "VALIDATION_ERROR")
		refused("a list", alpha, `[`+said+`]`, 400, "VALIDATION_ERROR")
		refused("oversized", alpha, said[:len(said)-1]+strings.Repeat(" ", 1<<20)+"}", 413, "payload_too_large")

		nothing := func(what, path, body string) {
			t.Helper()
			tell(t, s, path, body).Want(t, http.StatusOK)
			want(what, "pending", "0.00")
		}
		nothing("forged", alpha, notice([3]string{forged, unpaid.TxID, "10.00"}))
		nothing("forged, with an amount", alpha, notice([3]string{forged, unpaid.TxID, "1000000.00"}))
		nothing("unknown", alpha, notice([3]string{forged, "nobody00000000000000000000000", "10.00"}))
		nothing("without a txid", alpha, notice([3]string{forged, "", "10.00"}))
		nothing("a real payment of the other acquirer", beta, notice([3]string{e2e, paid.TxID, "10.00"}))
		nothing("a charge of the other acquirer", beta, notice([3]string{forged, unpaid.TxID, "10.00"}))

		// A txid that is not the payment's asks about another charge, of which the acquirer says what is true.
		nothing("a real payment for another charge", alpha, notice([3]string{e2e, unpaid.TxID, "10.00"}))
		nothing("a real payment for another account's charge", alpha, notice([3]string{e2e, theirs.TxID, "10.00"}))

		tell(t, s, alpha, notice([3]string{forged, unpaid.TxID, "1.00"}, [3]string{e2e, paid.TxID, "0.01"}, [3]string{e2e, paid.TxID, "99.00"})).Want(t, http.StatusOK)
		want("batched, with wrong amounts and a repetition", "paid", "10.00")
		tell(t, s, alpha, said).Want(t, http.StatusOK)
		tell(t, s, alpha, said).Want(t, http.StatusOK)
		want("repeated", "paid", "10.00")

		short := makeCharge(t, s, other.Key, "key-short")
		tell(t, s, alpha, notice([3]string{w.Pay(t, testkit.Payment{CopyPaste: short.Pix.CopyPaste, Amount: "4.00", Callback: testkit.Lost}), short.TxID, "10.00"}))
		if got := available(t, s, other.Key); got != "4.00" {
			t.Errorf("a short payment: %s is available", got)
		}

		rec := httptest.NewRecorder()
		s.Server.Admin().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
		for _, line := range []string{
			`ponte_acquirer_notices_total{acquirer="alpha",what="too_large"} 1`,
			`ponte_acquirer_notices_total{acquirer="alpha",what="unreadable"} 2`,
			`ponte_acquirer_notices_total{acquirer="alpha",what="hint"} 12`,
			`ponte_acquirer_notices_total{acquirer="alpha",what="unknown"} 5`,
			`ponte_acquirer_notices_total{acquirer="alpha",what="foreign"} 2`,
			`ponte_acquirer_notices_total{acquirer="alpha",what="settled"} 1`,
			`ponte_acquirer_notices_total{acquirer="alpha",what="duplicate"} 2`,
			`ponte_acquirer_notices_total{acquirer="alpha",what="wrong_amount"} 1`,
			`ponte_acquirer_notices_total{acquirer="beta",what="foreign"} 2`,
			`ponte_acquirer_notices_total{acquirer="beta",what="hint"} 2`,
			`ponte_http_requests_total{route="none",status="404"} 2`,
		} {
			if !strings.Contains(rec.Body.String(), line+"\n") {
				t.Errorf("/metrics lacks %s", line)
			}
		}
		if page := rec.Body.String(); strings.Contains(page, strings.TrimSuffix(alpha, "/pix")) {
			t.Error("/metrics holds the secret path")
		}
		if secret := strings.TrimSuffix(strings.TrimPrefix(alpha, "/callbacks/alpha/"), "/pix"); strings.Contains(s.Log(), secret) {
			t.Error("the log holds the secret path")
		}
	})
}

// TestCallbackOutOfOrder pays, gives back and notifies twice and late: what is told first does not matter.
func TestCallbackOutOfOrder(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		a := s.Account(t, "shop")
		w := s.World()
		w.Break(t, testkit.Fault{Target: "alpha", Operation: "*", Kind: "duplicate_callback"})
		var charges []charge
		for i := range 5 {
			charges = append(charges, makeCharge(t, s, a.Key, fmt.Sprintf("key-%05d", i)))
		}
		for _, c := range charges {
			e2e := w.Pay(t, testkit.Payment{CopyPaste: c.Pix.CopyPaste})
			if c.ID == charges[0].ID { // given back before anybody has heard of it
				w.Do(t, http.MethodPost, "/sim/pix/refund", fmt.Sprintf(`{"end_to_end_id": %q}`, e2e), nil)
			}
		}
		s.Deliver(t)
		s.Deliver(t)
		for i, c := range charges {
			want := "paid"
			if i == 0 {
				want = "refunded"
			}
			if got := listed(t, s, a.Key, c.ID); got != want {
				t.Errorf("charge %d is %s, want %s", i, got, want)
			}
		}
		if got := available(t, s, a.Key); got != "40.00" {
			t.Errorf("%s is available", got)
		}
		s.Advance(t, time.Minute)
		s.Step(t)
		if got := available(t, s, a.Key); got != "40.00" {
			t.Errorf("%s is available after reading the list", got)
		}
	})
}
