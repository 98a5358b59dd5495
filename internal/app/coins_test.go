package app_test

import (
	"crypto/hmac"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/callback"
	"github.com/ponte-pay/ponte/internal/config"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
	"github.com/ponte-pay/ponte/internal/testkit"
)

// TestForgedNotices tells the service that a withdrawal was sent or rejected which was not: nothing moves, signed or not.
func TestForgedNotices(t *testing.T) {
	t.Parallel()
	sqltest.EachURL(t, func(t *testing.T, url string) {
		// Nothing settles by itself while the notices are told, however slow the machine is.
		s := testkit.Start(t, url, func(c *config.Serve) { c.SimulatorSettleAfter = "10m" })
		a := s.Account(t, "holder")
		s.Adjust(t, a.ID, money.CurrencyUSDT, "1000")
		s.Do(t, testkit.Request{
			Method: http.MethodPost, Path: "/v1/crypto/payouts", Key: a.Key,
			Body: `{"amount": 100, "currency": "usdtbsc", "address": "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "external_id": "x"}`,
		}).Want(t, http.StatusCreated)
		status := func() string {
			t.Helper()
			var page struct {
				Data []struct {
					Status string `json:"status"`
				} `json:"data"`
			}
			s.Get(t, a.Key, "/v1/crypto/payouts").Want(t, http.StatusOK).Decode(t, &page)
			return page.Data[0].Status
		}
		var provider struct {
			IPNSecret string `json:"ipn_secret"`
		}
		s.World().Do(t, http.MethodGet, "/sim/crypto/account", "", &provider)
		var books struct {
			Payouts []struct {
				ID string `json:"id"`
			} `json:"payouts"`
		}
		s.World().Do(t, http.MethodGet, "/sim/crypto/books", "", &books)
		told := func(path, key string, fields map[string]any) *testkit.Answer {
			t.Helper()
			body, err := json.Marshal(fields) // its keys are in order
			if err != nil {
				t.Fatal(err)
			}
			mac := hmac.New(sha512.New, []byte(key))
			mac.Write(body)
			return s.Do(t, testkit.Request{
				Method: http.MethodPost, Path: path, Body: string(body), Header: http.Header{"X-Nowpayments-Sig": {hex.EncodeToString(mac.Sum(nil))}},
			})
		}
		path := callback.Path("crypto", provider.IPNSecret)
		for _, says := range []string{"FINISHED", "REJECTED", "FAILED"} {
			notice := map[string]any{
				"id": "1", "batch_withdrawal_id": books.Payouts[0].ID, "status": says, "currency": "usdtbsc", "amount": "100",
				"address": "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "fee": "0", "hash": "0xabc",
			}
			told(path, "not the secret", notice).WantError(t, http.StatusForbidden, "FORBIDDEN")
			told(callback.Path("crypto", "not the secret"), provider.IPNSecret, notice).WantError(t, http.StatusNotFound, "not_found")
			for range 2 { // really signed, as by who stole the secret, and twice
				told(path, provider.IPNSecret, notice).Want(t, http.StatusOK)
			}
			s.Step(t)
			if got := status(); got != "processing" {
				t.Fatalf("%s: it is %s", says, got)
			}
			unknown := maps.Clone(notice)
			unknown["batch_withdrawal_id"] = "6999999999"
			told(path, provider.IPNSecret, unknown).Want(t, http.StatusOK)
			s.Step(t)
		}
		s.Advance(t, 10*time.Minute)
		s.Deliver(t)
		s.Step(t)
		if got := status(); got != "completed" {
			t.Errorf("it is %s", got)
		}
		if strings.Contains(s.Log(), provider.IPNSecret) || strings.Contains(s.Log(), path) {
			t.Error("the log holds the provider's secret, or the path that is made of it")
		}
	})
}
