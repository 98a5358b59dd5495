package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/ponte-pay/ponte/internal/testkit"
)

// TestDoctorTellsOfLateCoins lets money come after a crypto charge has expired, and money of a paid one go back: both are
// credited and debited, and the operator is told.
func TestDoctorTellsOfLateCoins(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in *installation) {
		home := install(t, "", "--data", t.TempDir())
		home.binary = in.binary
		bank := home.launch(t, "simulator", "--listen", "127.0.0.1:0", "--settle-after", "manual", "--log-level", "error")
		bank.ready(t, simulating)
		world := testkit.WorldAt(bank.url)
		account, key := in.account(t, "shop")
		server := in.serve(t, "--simulator", bank.url, "--log-level", "error")
		create := func(externalID string) depositJSON {
			var d depositJSON
			testkit.Do(t, server.url, testkit.Request{
				Method: http.MethodPost, Path: "/v1/crypto/charges", Key: key,
				Body: fmt.Sprintf(`{"amount": 50, "pay_currency": "usdtbsc", "external_id": %q}`, externalID),
			}).Want(t, http.StatusCreated).Decode(t, &d)
			return d
		}
		order := func(d depositJSON, what string) {
			world.Do(t, http.MethodPost, "/sim/crypto/charges/"+*d.PaymentID+"/"+what, "{}", nil)
		}
		until := func(d depositJSON, what string, is func(depositJSON) bool) {
			t.Helper()
			testkit.Wait(t, what, func() bool {
				var now depositJSON
				testkit.Do(t, server.url, testkit.Request{Path: "/v1/crypto/charges/" + d.ID, Key: key}).Want(t, http.StatusOK).Decode(t, &now)
				return is(now)
			})
		}
		pay := func(d depositJSON) {
			world.Do(t, http.MethodPost, "/sim/crypto/deposit", fmt.Sprintf(`{"pay_address": %q, "amount": "60"}`, *d.Address), nil)
			order(d, "confirm")
		}
		late, refunded := create("late"), create("refunded")
		order(late, "expire")
		until(late, "the charge to expire", func(d depositJSON) bool { return d.Status == "expired" })
		pay(late)
		until(late, "late money", func(d depositJSON) bool { return d.Received != nil })
		pay(refunded)
		until(refunded, "the payment", func(d depositJSON) bool { return d.Status == "paid" })
		order(refunded, "refund")
		until(refunded, "the refund", func(d depositJSON) bool { return d.Refunded != nil })

		var findings []findingJSON
		result := in.run(t, "doctor", "--json", "--simulator", bank.url)
		if err := json.Unmarshal([]byte(result.stdout), &findings); err != nil {
			t.Fatalf("%v in %s %s", err, result.stdout, result.stderr)
		}
		told := map[string]string{}
		for _, f := range findings {
			told[f.Check] = f.Detail
		}
		for check, want := range map[string]depositJSON{"late crypto money": late, "refunds of paid crypto charges": refunded} {
			if got := told[check]; got != "1 in a week: "+want.ID {
				t.Errorf("%s: %s, want %s", check, got, want.ID)
			}
		}
		for _, name := range []string{"alpha", "beta"} {
			if got := told["acquirer "+name]; !strings.HasPrefix(got, "answers, and ") || !strings.HasSuffix(got, " BRL could be paid out") {
				t.Errorf("%s: %s", name, got)
			}
		}
		if audit := in.run(t, "audit"); audit.status != 0 {
			t.Errorf("audit: %s %s", audit.stdout, audit.stderr)
		}
		statement := in.must(t, "statement", account, "--from", "2020-01-01", "--to", "2100-01-01", "--currency", "USDT")
		for _, kind := range []string{"crypto_in", "crypto_in_fee", "crypto_in_refund"} {
			if !strings.Contains(statement, kind+",") {
				t.Errorf("the statement has no %s: %s", kind, statement)
			}
		}
	})
}
