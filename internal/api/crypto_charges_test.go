package api_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
	"github.com/ponte-pay/ponte/internal/testkit"
)

// cryptoCharge is a deposit as callers see it.
type cryptoCharge struct {
	ID                 string          `json:"id"`
	Object             string          `json:"object"`
	Status             string          `json:"status"`
	ExternalID         *string         `json:"external_id"`
	CustomerID         *string         `json:"customer_id"`
	Metadata           json.RawMessage `json:"metadata"`
	PriceAmount        json.Number     `json:"price_amount"`
	PriceCurrency      string          `json:"price_currency"`
	PayAmount          *json.Number    `json:"pay_amount"`
	PayCurrency        string          `json:"pay_currency"`
	PaidAmount         *json.Number    `json:"paid_amount"`
	AmountStatus       *string         `json:"amount_status"`
	ReceivedAmount     *json.Number    `json:"received_amount"`
	PayAddress         *string         `json:"pay_address"`
	PayExtraID         *string         `json:"pay_extra_id"`
	Network            *string         `json:"network"`
	Fee                *json.Number    `json:"fee"`
	NetAmount          *json.Number    `json:"net_amount"`
	CreditedAmount     *json.Number    `json:"credited_amount"`
	SettlementCurrency string          `json:"settlement_currency"`
	SettledAmount      *json.Number    `json:"settled_amount"`
	SettledCurrency    *string         `json:"settled_currency"`
	RefundedAmount     *json.Number    `json:"refunded_amount"`
	ExpiresAt          *time.Time      `json:"expires_at"`
	PaidAt             *time.Time      `json:"paid_at"`
	CreatedAt          time.Time       `json:"created_at"`
	PaymentID          *string         `json:"payment_id"`
}

func postCryptoCharge(t *testing.T, s *testkit.Service, key, idempotencyKey, body string) *testkit.Answer {
	t.Helper()
	r := testkit.Request{Method: http.MethodPost, Path: "/v1/crypto/charges", Key: key, Body: body}
	if idempotencyKey != "" {
		r.Header = http.Header{"Idempotency-Key": {idempotencyKey}}
	}
	return s.Do(t, r)
}

func decodeCryptoCharge(t *testing.T, a *testkit.Answer) (c cryptoCharge) {
	t.Helper()
	a.Decode(t, &c)
	return c
}

// makeCryptoCharge asks for 50 USD in the coin that the simulated provider settles in, of which it keeps half a percent.
func makeCryptoCharge(t *testing.T, s *testkit.Service, key, externalID string) cryptoCharge {
	t.Helper()
	body := fmt.Sprintf(`{"amount": 50, "pay_currency": "usdtbsc", "external_id": %q}`, externalID)
	return decodeCryptoCharge(t, postCryptoCharge(t, s, key, "", body).Want(t, http.StatusCreated))
}

func getCryptoCharge(t *testing.T, s *testkit.Service, key, name string) cryptoCharge {
	t.Helper()
	return decodeCryptoCharge(t, s.Get(t, key, "/v1/crypto/charges/"+name).Want(t, http.StatusOK))
}

// sendCoins lets coins arrive that go no further than confirming.
func sendCoins(t *testing.T, s *testkit.Service, c cryptoCharge, amount string) {
	t.Helper()
	s.World().Do(t, http.MethodPost, "/sim/crypto/deposit", fmt.Sprintf(`{"pay_address": %q, "amount": %q, "confirm": false}`, *c.PayAddress, amount), nil)
}

// orderCoins has something become of a payment at the provider.
func orderCoins(t *testing.T, s *testkit.Service, paymentID, what string) {
	t.Helper()
	s.World().Do(t, http.MethodPost, "/sim/crypto/charges/"+paymentID+"/"+what, "", nil)
}

// TestCryptoCharge follows a deposit from its creation to its payment, told by the provider's notifications, and money
// that comes again and goes back.
func TestCryptoCharge(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		a := s.Account(t, "shop")
		answer := postCryptoCharge(t, s, a.Key, "key-0001", `{
			"amount": 50.00, "payCurrency": "usdtbsc", "externalId": "topup/311", "customerId": "user-9", "description": "Top-up – não ASCII",
			"customer_email": "maria@example.org", "metadata": {"campaignName": "november", "a_b": {"cD": 1.50}}
		}`).Want(t, http.StatusCreated)
		made := decodeCryptoCharge(t, answer)
		if made.Status != "waiting" || made.Object != "crypto_charge" || *made.ExternalID != "topup/311" || *made.CustomerID != "user-9" ||
			string(made.Metadata) != `{"a_b":{"cD":1.50},"campaignName":"november"}` || made.PriceAmount != "50.00" || made.PriceCurrency != "usd" ||
			made.PayCurrency != "usdtbsc" || *made.Network != "bsc" || made.PayAddress == nil || made.PayExtraID != nil || made.PayAmount == nil ||
			made.PaymentID == nil || made.ExpiresAt == nil || made.SettlementCurrency != "usdt" || made.PaidAmount != nil || made.AmountStatus != nil ||
			made.ReceivedAmount != nil || made.Fee != nil || made.NetAmount != nil || made.CreditedAmount != nil || made.SettledAmount != nil ||
			made.SettledCurrency != nil || made.PaidAt != nil {
			t.Errorf("%s", answer.Body)
		}
		answer.Lacks(t, "maria@example.org", "Top-up")
		events := wantHappenings(t, s, a.ID, "crypto.charge.created")
		if events[0].Data != strings.TrimSpace(string(answer.Body)) {
			t.Errorf("the event shows %s, the answer %s", events[0].Data, answer.Body)
		}
		sendCoins(t, s, made, "60")
		s.Deliver(t)
		wantHappenings(t, s, a.ID, "crypto.charge.created", "crypto.charge.confirming")
		orderCoins(t, s, *made.PaymentID, "confirm")
		s.Deliver(t)
		events = wantHappenings(t, s, a.ID, "crypto.charge.created", "crypto.charge.confirming", "crypto.charge.paid")
		found := s.Get(t, a.Key, "/v1/crypto/charges/"+made.ID).Want(t, http.StatusOK)
		paid := decodeCryptoCharge(t, found)
		if paid.Status != "paid" || *paid.PaidAmount != "60" || *paid.AmountStatus != "overpaid" || *paid.ReceivedAmount != "59.700000" ||
			*paid.Fee != "0.597000" || *paid.NetAmount != "59.103000" || *paid.CreditedAmount != "59.103000" || *paid.SettledAmount != "59.700000" ||
			*paid.SettledCurrency != "usdt" || paid.PaidAt == nil || events[2].Data != strings.TrimSpace(string(found.Body)) {
			t.Errorf("%s, event %s", found.Body, events[2].Data)
		}
		if got := getCryptoCharge(t, s, a.Key, "ext:"+url.PathEscape("topup/311")); !cmp.Equal(got, paid) {
			t.Errorf("%s", cmp.Diff(paid, got))
		}
		wantUSDT(t, s, a.ID, "59.103000", "0.000000")

		// Coins that come again are a deposit of their own; what goes back leaves the status.
		sendCoins(t, s, made, "20")
		s.Deliver(t)
		var books struct {
			Payments []struct {
				ID       string `json:"id"`
				ParentID string `json:"parent_id"`
			}
		}
		s.World().Do(t, http.MethodGet, "/sim/crypto/books", "", &books)
		orderCoins(t, s, books.Payments[1].ID, "confirm")
		orderCoins(t, s, *made.PaymentID, "refund")
		s.Deliver(t)
		var page struct{ Data []cryptoCharge }
		s.Get(t, a.Key, "/v1/crypto/charges?customer_id=user-9").Want(t, http.StatusOK).Decode(t, &page)
		if len(page.Data) != 2 {
			t.Fatalf("%+v", page)
		}
		again, refunded := page.Data[0], page.Data[1]
		if again.ExternalID != nil || again.Status != "paid" || again.PayAmount != nil || *again.ReceivedAmount != "19.900000" || *again.CreditedAmount != "19.701000" {
			t.Errorf("%+v", again)
		}
		if refunded.Status != "paid" || *refunded.RefundedAmount != "59.700000" || *refunded.ReceivedAmount != "59.700000" {
			t.Errorf("%+v", refunded)
		}
		wantUSDT(t, s, a.ID, "19.104000", "0.000000")
		wantHappenings(t, s, a.ID, "crypto.charge.created", "crypto.charge.confirming", "crypto.charge.paid", "crypto.charge.paid")

		// The other ledger knows nothing of it.
		wantBalance(t, s, a.Key, "0.00")
		s.Get(t, a.Key, "/v1/transactions").Want(t, http.StatusOK).Lacks(t, "ccr_", "19.9", "59.7")
		s.Get(t, a.Key, "/v1/balance").Want(t, http.StatusOK).Lacks(t, "USDT")
		if result, err := s.Core.Audit(t.Context()); err != nil || len(result.Problems) > 0 {
			t.Errorf("%v %v", result.Problems, err)
		}
	})
}

// TestCryptoChargeEnds are the other ends, each with its event.
func TestCryptoChargeEnds(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		for _, c := range []struct{ order, status, event string }{
			{"fail", "failed", "crypto.charge.failed"},
			{"expire", "expired", "crypto.charge.expired"},
		} {
			a := s.Account(t, c.order)
			made := makeCryptoCharge(t, s, a.Key, "order")
			orderCoins(t, s, *made.PaymentID, c.order)
			found := s.Get(t, a.Key, "/v1/crypto/charges/"+made.ID).Want(t, http.StatusOK) // asks first
			if got := decodeCryptoCharge(t, found); got.Status != c.status {
				t.Errorf("%s: %s", c.order, got.Status)
			}
			events := wantHappenings(t, s, a.ID, "crypto.charge.created", c.event)
			if events[1].Data != strings.TrimSpace(string(found.Body)) {
				t.Errorf("the event shows %s, the answer %s", events[1].Data, found.Body)
			}
		}
		a := s.Account(t, "refunded")
		made := makeCryptoCharge(t, s, a.Key, "order")
		sendCoins(t, s, made, "60")
		orderCoins(t, s, *made.PaymentID, "refund")
		if got := getCryptoCharge(t, s, a.Key, made.ID); got.Status != "refunded" {
			t.Errorf("%s", got.Status)
		}
		wantHappenings(t, s, a.ID, "crypto.charge.created")
	})
}

// TestCryptoChargeAnswers are what a creation and its repetition are answered, whatever the provider does.
func TestCryptoChargeAnswers(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		a := s.Account(t, "shop", "rate_limit=6000")
		const body = `{"amount": 50, "pay_currency": "btc", "external_id": "EXT"}`
		for i, c := range []struct {
			kind   string
			status int
			code   string
			repeat int
			after  time.Duration
			last   int
		}{
			{"", 201, "", 200, 0, 200},
			{"lost_executed", 202, "", 200, 0, 200},
			{"garbage", 202, "", 200, 0, 200},
			{"lost_not_executed", 202, "", 202, 2 * time.Minute, 200},
			{"http_500", 202, "", 202, 2 * time.Minute, 200},
			{"refuse", 502, "provider_unavailable", 201, 0, 200},
			{"http_429", 502, "provider_unavailable", 201, 0, 200},
			{"reject", 422, "charge_failed", 201, 0, 200},
		} {
			body := strings.ReplaceAll(body, "EXT", fmt.Sprint("order-", i))
			if c.kind != "" {
				s.World().Break(t, testkit.Fault{Target: "crypto", Operation: "payment.create", Kind: c.kind, Times: 1, DelayMS: 1})
			}
			first := postCryptoCharge(t, s, a.Key, "", body)
			s.World().Mend(t)
			if c.code != "" {
				first.WantError(t, c.status, c.code)
			} else if got := decodeCryptoCharge(t, first.Want(t, c.status)); (got.Status == "processing") != (c.status == http.StatusAccepted) || (got.PayAddress == nil) != (c.status == http.StatusAccepted) {
				t.Errorf("%s: %s", c.kind, first.Body)
			}
			for _, want := range []int{c.repeat, c.last} {
				again := postCryptoCharge(t, s, a.Key, "", body).Want(t, want)
				if replayed := again.Header.Get("Idempotent-Replayed") == "true"; replayed != (want == http.StatusOK) {
					t.Errorf("%s: %d is replayed %v", c.kind, want, replayed)
				}
				if c.after > 0 {
					s.Advance(t, c.after)
					s.Step(t)
				}
			}
		}
		if result, err := s.Core.Audit(t.Context()); err != nil || len(result.Problems) > 0 {
			t.Errorf("%v %v", result.Problems, err)
		}
	})
}

func TestCryptoChargeRefused(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		a := s.Account(t, "shop", "rate_limit=6000", "crypto_tx_limit=1000")
		const rest = `"pay_currency": "btc", "external_id": "x"`
		metadata := func(n int) string { return `{"k":"` + strings.Repeat("v", n-len(`{"k":""}`)) + `"}` }
		for _, c := range []struct {
			body  string
			code  string
			paths []string
		}{
			{`{}`, "invalid_request", []string{"amount", "pay_currency", "external_id"}},
			{`{"amount": 50, "pay_currency": "btc"}`, "invalid_request", []string{"external_id"}},
			{`{"amount": 50, "pay_currency": "btc", "external_id": null}`, "invalid_request", []string{"external_id"}},
			{`{"amount": "50", ` + rest + `}`, "invalid_request", []string{"amount"}},
			{`{"amount": 50.001, ` + rest + `}`, "invalid_request", []string{"amount"}},
			{`{"amount": 0, ` + rest + `}`, "invalid_request", []string{"amount"}},
			{`{"amount": -50, ` + rest + `}`, "invalid_request", []string{"amount"}},
			{`{"amount": 10000000000, ` + rest + `}`, "invalid_request", []string{"amount"}},
			{`{"amount": 1000.01, ` + rest + `}`, "invalid_request", []string{"amount"}}, // above the account's limit
			{`{"amount": 50, "pay_currency": 7, "external_id": ""}`, "invalid_request", []string{"pay_currency", "external_id"}},
			{`{"amount": 50, "pay_currency": "btc", "external_id": "` + strings.Repeat("e", 121) + `"}`, "invalid_request", []string{"external_id"}},
			{`{"amount": 50, "customer_id": "` + strings.Repeat("c", 121) + `", ` + rest + `}`, "invalid_request", []string{"customer_id"}},
			{`{"amount": 50, "description": "` + strings.Repeat("d", 141) + `", ` + rest + `}`, "invalid_request", []string{"description"}},
			{`{"amount": 50, "customer_email": "` + strings.Repeat("m", 201) + `", ` + rest + `}`, "invalid_request", []string{"customer_email"}},
			{`{"amount": 50, "metadata": [], ` + rest + `}`, "invalid_request", []string{"metadata"}},
			{`{"amount": 50, "metadata": ` + metadata(4097) + `, ` + rest + `}`, "invalid_request", []string{"metadata"}},
			{`{"amount": 50, "pay_currency": "usdterc20", "external_id": "x"}`, "unsupported_currency", nil},
			{`{"amount": 50, "pay_currency": "BTC", "external_id": "x"}`, "unsupported_currency", nil},
			{`{"amount": 50, "pay_currency": "brl", "external_id": "x"}`, "unsupported_currency", nil},
			{`{"amount": 14.99, ` + rest + `}`, "below_minimum", []string{"amount"}},
			{`{"amount": 19.99, "pay_currency": "usdttrc20", "external_id": "x"}`, "below_minimum", []string{"amount"}},
		} {
			answer := s.Do(t, testkit.Request{Method: http.MethodPost, Path: "/v1/crypto/charges", Key: a.Key, Body: c.body, Invalid: true}).
				WantError(t, http.StatusUnprocessableEntity, c.code)
			if !slices.Equal(answer.Paths(), c.paths) {
				t.Errorf("%s: %v, want %v", c.body, answer.Paths(), c.paths)
			}
		}
		for body, status := range map[string]int{`{"amount": 50`: 400, `[]`: 400, `{"amount": 50, "metadata": "` + strings.Repeat("x", 70<<10) + `"}`: 413} {
			s.Do(t, testkit.Request{Method: http.MethodPost, Path: "/v1/crypto/charges", Key: a.Key, Body: body, Invalid: true}).Want(t, status)
		}
		s.Do(t, testkit.Request{
			Method: http.MethodPost, Path: "/v1/crypto/charges", Key: a.Key, Body: `{"amount": 50, "pay_currency": "btc"}`,
			Header: http.Header{"Idempotency-Key": {"short"}}, Invalid: true,
		}).WantError(t, http.StatusBadRequest, "invalid_idempotency_key")
		postCryptoCharge(t, s, a.Key, "", `{"amount": 50, "metadata": `+metadata(4096)+`, `+rest+`}`).Want(t, http.StatusCreated)
		// The same identifier with another payload, by the body and by the header.
		postCryptoCharge(t, s, a.Key, "", `{"amount": 51, `+rest+`}`).WantError(t, http.StatusConflict, "idempotency_conflict")
		postCryptoCharge(t, s, a.Key, "key-0001", `{"amount": 50, "pay_currency": "btc"}`).Want(t, http.StatusCreated)
		postCryptoCharge(t, s, a.Key, "key-0001", `{"amount": 50.0, "payCurrency": "btc"}`).Want(t, http.StatusOK)
		postCryptoCharge(t, s, a.Key, "key-0001", `{"amount": 50, "pay_currency": "ltc"}`).WantError(t, http.StatusConflict, "idempotency_conflict")

		for setting, want := range map[string]struct {
			status int
			code   string
		}{
			"kyc=pending": {403, "kyc_required"}, "api_cashin=off": {403, "api_cashin_disabled"}, "crypto=off": {422, "crypto_disabled"},
			"disabled_resources=crypto": {403, "FORBIDDEN"}, "status=banned": {403, "account_banned"}, "status=under_review": {423, "ACCOUNT_LOCKED"},
		} {
			b := s.Account(t, "refused", setting)
			postCryptoCharge(t, s, b.Key, "", `{"amount": 50, `+rest+`}`).WantError(t, want.status, want.code)
		}
		reader := s.Key(t, a.ID, "charges:read")
		postCryptoCharge(t, s, reader, "", `{"amount": 50, `+rest+`}`).WantError(t, http.StatusForbidden, "FORBIDDEN")
		writer := s.Key(t, a.ID, "charges:write")
		s.Get(t, writer, "/v1/crypto/charges/ext:x").WantError(t, http.StatusForbidden, "FORBIDDEN")
		s.Get(t, writer, "/v1/crypto/charges").WantError(t, http.StatusForbidden, "FORBIDDEN")

		s.World().Do(t, http.MethodPost, "/sim/crypto/currencies/doge", `{"enabled": false}`, nil)
		postCryptoCharge(t, s, a.Key, "", `{"amount": 50, "pay_currency": "doge", "external_id": "off"}`).WantError(t, http.StatusUnprocessableEntity, "unsupported_currency")
	})
}

func TestCryptoChargeLookups(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		a, other := s.Account(t, "shop"), s.Account(t, "other")
		made := makeCryptoCharge(t, s, a.Key, "order:1")
		for _, name := range []string{made.ID, "ext:order:1", "ext:order%3A1"} {
			if got := getCryptoCharge(t, s, a.Key, name); got.ID != made.ID {
				t.Errorf("%s: %s", name, got.ID)
			}
			s.Get(t, other.Key, "/v1/crypto/charges/"+name).WantError(t, http.StatusNotFound, "not_found").Lacks(t, made.ID)
		}
		for _, name := range []string{"ext:", "ext:x", "ccr_01m7jmy7tafm8see7qv4ysr5s4", *made.PaymentID, "x", "ext:%00", "ext:%ff"} {
			s.Do(t, testkit.Request{Path: "/v1/crypto/charges/" + name, Key: a.Key, Invalid: true}).WantError(t, http.StatusNotFound, "not_found")
		}
		for _, query := range []string{"limit=0", "limit=201", "limit=x", "starting_after=x", "starting_after=ccr_01m7jmy7tafm8see7qv4ysr5s4", "external_id=", "customer_id=" + strings.Repeat("c", 121)} {
			answer := s.Do(t, testkit.Request{Path: "/v1/crypto/charges?" + query, Key: a.Key, Invalid: true}).WantError(t, http.StatusUnprocessableEntity, "invalid_request")
			if name, _, _ := strings.Cut(query, "="); !slices.Equal(answer.Paths(), []string{name}) {
				t.Errorf("%s: %v", query, answer.Paths())
			}
		}
		second := makeCryptoCharge(t, s, a.Key, "order:2")
		var page struct {
			Data    []cryptoCharge
			HasMore bool    `json:"has_more"`
			Next    *string `json:"next_starting_after"`
		}
		s.Get(t, a.Key, "/v1/crypto/charges?limit=1").Want(t, http.StatusOK).Decode(t, &page)
		if len(page.Data) != 1 || page.Data[0].ID != second.ID || !page.HasMore || *page.Next != second.ID {
			t.Errorf("%+v", page)
		}
		s.Get(t, a.Key, "/v1/crypto/charges?starting_after="+*page.Next).Want(t, http.StatusOK).Decode(t, &page)
		if len(page.Data) != 1 || page.Data[0].ID != made.ID || page.HasMore {
			t.Errorf("%+v", page)
		}
		s.Get(t, a.Key, "/v1/crypto/charges?external_id=order:1").Want(t, http.StatusOK).Lacks(t, second.ID)
		s.Get(t, other.Key, "/v1/crypto/charges").Want(t, http.StatusOK).Lacks(t, "ccr_")
	})
}

// TestForgedIPN sends notifications of money that never came: unsigned, signed with another secret, and signed with the
// right one. Nothing is credited by any of them.
func TestForgedIPN(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		a := s.Account(t, "shop")
		made := makeCryptoCharge(t, s, a.Key, "order")
		var at struct {
			IPNSecret string `json:"ipn_secret"`
		}
		s.World().Do(t, http.MethodGet, "/sim/crypto/account", "", &at)
		x := strings.TrimPrefix(s.Bank.Chain.CallbackURL(), s.URL)
		// Keys in order and without spaces, as it is signed.
		notice := fmt.Sprintf(`{"actually_paid":1000,"order_id":"x","outcome_amount":990,"outcome_currency":"usdtbsc","pay_address":%q,"pay_amount":50,"pay_currency":"usdtbsc","payment_id":%s,"payment_status":"finished","price_amount":50,"price_currency":"usd"}`,
			*made.PayAddress, *made.PaymentID)
		sign := func(secret string) string {
			mac := hmac.New(sha512.New, []byte(secret))
			mac.Write([]byte(notice))
			return hex.EncodeToString(mac.Sum(nil))
		}
		for name, c := range map[string]struct {
			path, signature string
			status          int
		}{
			"unsigned":              {x, "", 403},
			"another secret":        {x, sign("another"), 403},
			"not a signature":       {x, strings.Repeat("x", 128), 403},
			"another path":          {x + "x", sign(at.IPNSecret), 404},
			"signed":                {x, sign(at.IPNSecret), 200},
			"signed, a second time": {x, sign(at.IPNSecret), 200},
		} {
			got := s.Do(t, testkit.Request{
				Method: http.MethodPost, Path: c.path, Body: notice, Header: http.Header{"X-Nowpayments-Sig": {c.signature}}, Undocumented: true,
			})
			if got.Status != c.status {
				t.Errorf("%s: %d %s", name, got.Status, got.Body)
			}
			s.Step(t)
		}
		if got := getCryptoCharge(t, s, a.Key, made.ID); got.Status != "waiting" || got.ReceivedAmount != nil {
			t.Errorf("%s", got.Status)
		}
		wantUSDT(t, s, a.ID, "0.000000", "0.000000")
		wantHappenings(t, s, a.ID, "crypto.charge.created")
		if strings.Contains(s.Log(), at.IPNSecret) {
			t.Error("the log holds the provider's secret")
		}
	})
}

// Doubled notifications credit once, on the running server.
func TestDoubledIPN(t *testing.T) {
	t.Parallel()
	sqltest.EachURL(t, func(t *testing.T, url string) {
		t.Helper()
		s := testkit.Run(t, url)
		a := s.Account(t, "shop", "crypto_in_fee=0")
		s.World().Break(t, testkit.Fault{Target: "crypto", Kind: "duplicate_callback"})
		made := makeCryptoCharge(t, s, a.Key, "order")
		s.World().Do(t, http.MethodPost, "/sim/crypto/deposit", fmt.Sprintf(`{"pay_address": %q, "amount": "60"}`, *made.PayAddress), nil)
		testkit.Wait(t, "the deposit to be paid", func() bool {
			n, err := sqldb.One(context.Background(), s.Core.DB, sqldb.Scalar[int64],
				`SELECT COUNT(*) FROM event WHERE account_id = $1 AND type = 'crypto.charge.paid'`, int64(a.ID))
			return err == nil && n == 1
		})
		wantUSDT(t, s, a.ID, "59.700000", "0.000000")
		if result, err := s.Core.Audit(t.Context()); err != nil || len(result.Problems) > 0 {
			t.Errorf("%v %v", result.Problems, err)
		}
	})
}
