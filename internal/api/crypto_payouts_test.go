package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/report"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
	"github.com/ponte-pay/ponte/internal/testkit"
)

// Addresses that are valid.
const (
	addressEVM  = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
	addressTron = "TEmGwPeRTPiLFLVfBxXkSP91yc5GMNQhfS"
	addressBTC  = "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq"
	addressLTC  = "LaMT348PWRnrqeeWArpwQPbuanpXDZGEUz"
)

// cryptoPayout is a withdrawal as callers see it.
type cryptoPayout struct {
	ID                 string      `json:"id"`
	Object             string      `json:"object"`
	Status             string      `json:"status"`
	Currency           string      `json:"currency"`
	Amount             json.Number `json:"amount"`
	Fee                json.Number `json:"fee"`
	ConversionFee      json.Number `json:"conversion_fee"`
	NetAmount          json.Number `json:"net_amount"`
	GrossAmount        json.Number `json:"gross_amount"`
	SettlementCurrency string      `json:"settlement_currency"`
	Origin             string      `json:"origin"`
	ExternalID         *string     `json:"external_id"`
	TxHash             *string     `json:"tx_hash"`
	ErrorMessage       *string     `json:"error_message"`
	CreatedAt          time.Time   `json:"created_at"`
}

// token returns what the provider knows a withdrawal by.
func (p cryptoPayout) token(t *testing.T, a testkit.Account) string {
	t.Helper()
	x, err := id.CryptoPayout.Parse(p.ID)
	if err != nil {
		t.Fatal(err)
	}
	return id.Token(x, a.ID)
}

// holder is an account with so many USDT.
func holder(t *testing.T, s *testkit.Service, amount string, settings ...string) testkit.Account {
	t.Helper()
	a := s.Account(t, "holder", settings...)
	if amount != "" {
		s.Adjust(t, a.ID, money.CurrencyUSDT, amount)
	}
	return a
}

func cryptoRequest(key, idempotencyKey, body string) testkit.Request {
	r := payoutRequest(key, idempotencyKey, body)
	r.Path = "/v1/crypto/payouts"
	return r
}

func postCrypto(t *testing.T, s *testkit.Service, key, idempotencyKey, body string) *testkit.Answer {
	t.Helper()
	return s.Do(t, cryptoRequest(key, idempotencyKey, body))
}

func decodeCrypto(t *testing.T, a *testkit.Answer) (p cryptoPayout) {
	t.Helper()
	a.Decode(t, &p)
	return p
}

// listCrypto returns an account's withdrawals, newest first, with the body of each.
func listCrypto(t *testing.T, s *testkit.Service, key string) (list []cryptoPayout, bodies []string) {
	t.Helper()
	var page struct {
		Data []json.RawMessage `json:"data"`
	}
	s.Get(t, key, "/v1/crypto/payouts?limit=200").Want(t, http.StatusOK).Decode(t, &page)
	for _, raw := range page.Data {
		var p cryptoPayout
		if err := json.Unmarshal(raw, &p); err != nil {
			t.Fatal(err)
		}
		list, bodies = append(list, p), append(bodies, string(raw))
	}
	return list, bodies
}

// coinBook is a payout in the books of the provider.
type coinBook struct {
	ID         string `json:"id"`
	ExternalID string `json:"external_id"`
	Currency   string `json:"currency"`
	Address    string `json:"address"`
	Amount     string `json:"amount"`
	Status     string `json:"status"`
	TxHash     string `json:"tx_hash"`
	Executions int    `json:"executions"`
}

func coinBooks(t *testing.T, s *testkit.Service) []coinBook {
	t.Helper()
	var books struct {
		Payouts []coinBook `json:"payouts"`
	}
	s.World().Do(t, http.MethodGet, "/sim/crypto/books", "", &books)
	return books.Payouts
}

// wantUSDT fails the test unless an account has so much, such as 899.000000 and 101.000000 on its way out.
func wantUSDT(t *testing.T, s *testkit.Service, a id.Account, available, inTransit string) {
	t.Helper()
	b, err := ledger.Balances(t.Context(), s.Core.DB, a, money.CurrencyUSDT)
	if err != nil {
		t.Fatal(err)
	}
	if got := money.USDT(b.Available).String() + " " + money.USDT(b.InTransit).String(); got != available+" "+inTransit {
		t.Errorf("USDT %s, want %s %s", got, available, inTransit)
	}
}

// concludeCrypto lets payouts be verified and sent, and brings the news.
func concludeCrypto(t *testing.T, s *testkit.Service) {
	t.Helper()
	s.Step(t) // verifies
	conclude(t, s)
}

func TestCryptoPayout(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		a := holder(t, s, "1000")
		answer := postCrypto(t, s, a.Key, "", `{"amount": 100, "currency": "usdtbsc", "address": " `+strings.ToLower(addressEVM)+` ", "externalId": "w/58"}`).
			Want(t, http.StatusCreated)
		made := decodeCrypto(t, answer)
		external := "w/58"
		want := cryptoPayout{
			ID: made.ID, Object: "crypto_payout", Status: "processing", Currency: "usdtbsc", Amount: "100.000000", Fee: "1.000000", ConversionFee: "0.000000",
			NetAmount: "100.000000", GrossAmount: "101.000000", SettlementCurrency: "usdt", Origin: "api", ExternalID: &external, CreatedAt: made.CreatedAt,
		}
		if diff := cmp.Diff(want, made); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		wantUSDT(t, s, a.ID, "899.000000", "101.000000")
		events := wantHappenings(t, s, a.ID, "crypto.payout.processing")
		if events[0].Data != strings.TrimSpace(string(answer.Body)) {
			t.Errorf("the event shows %s, the answer %s", events[0].Data, answer.Body)
		}
		concludeCrypto(t, s)
		events = wantHappenings(t, s, a.ID, "crypto.payout.processing", "crypto.payout.completed")
		list, bodies := listCrypto(t, s, a.Key)
		books := coinBooks(t, s)
		if len(list) != 1 || list[0].Status != "completed" || list[0].TxHash == nil || events[1].Data != bodies[0] {
			t.Fatalf("%s, event %s", bodies, events[1].Data)
		}
		wantBook := coinBook{
			ID: books[0].ID, ExternalID: made.token(t, a), Currency: "usdtbsc", Address: addressEVM, Amount: "100", Status: "FINISHED",
			TxHash: *list[0].TxHash, Executions: 1,
		}
		if diff := cmp.Diff([]coinBook{wantBook}, books); diff != "" {
			t.Errorf("books (-want +got):\n%s", diff)
		}
		wantUSDT(t, s, a.ID, "899.000000", "0.000000")

		// Again: the same one as it stands. Otherwise: a conflict.
		again := postCrypto(t, s, a.Key, "", `{"amount": 100.0, "currency": "usdtbsc", "address": "`+addressEVM+`", "external_id": "w/58"}`).Want(t, http.StatusOK)
		if got := strings.TrimSpace(string(again.Body)); got != bodies[0] || again.Header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%s", got)
		}
		for _, body := range []string{
			`{"amount": 101, "currency": "usdtbsc", "address": "` + addressEVM + `", "external_id": "w/58"}`,
			`{"amount": 100, "currency": "usdterc20", "address": "` + addressEVM + `", "external_id": "w/58"}`,
			`{"amount": 100, "currency": "usdtbsc", "address": "0x1EBAeF7Bee7B3a7B2EEfC72e86593Bf15ED37522", "external_id": "w/58"}`,
		} {
			postCrypto(t, s, a.Key, "", body).WantError(t, http.StatusConflict, "idempotency_conflict")
		}
		// It is none of another account's business, and none of the other ledger's.
		other := holder(t, s, "1000")
		if list, _ := listCrypto(t, s, other.Key); len(list) != 0 {
			t.Errorf("another account sees %v", list)
		}
		postCrypto(t, s, other.Key, "", `{"amount": 20, "currency": "usdtbsc", "address": "`+addressEVM+`", "external_id": "w/58"}`).Want(t, http.StatusCreated)
		wantBalance(t, s, a.Key, "0.00")
		s.Get(t, a.Key, "/v1/transactions").Want(t, http.StatusOK).Lacks(t, made.ID[4:])
		concludeCrypto(t, s)
		wantAudit(t, s)
	})
}

func TestCryptoPayoutCoins(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		a := holder(t, s, "10000", "crypto_out_fee=0.50+0.25%")
		type fees struct{ Fee, Conversion, Gross string }
		for i, c := range []struct {
			currency, address string
			want              fees
		}{
			{"usdtbsc", addressEVM, fees{"0.750003", "0.000000", "100.751237"}},
			{"usdterc20", addressEVM, fees{"0.750003", "0.000000", "100.751237"}},
			{"trx", addressTron, fees{"1.750015", "1.000012", "101.751249"}},
			{"btc", addressBTC, fees{"1.750015", "1.000012", "101.751249"}},
			{"ltc", addressLTC, fees{"1.750015", "1.000012", "101.751249"}},
		} {
			body := fmt.Sprintf(`{"amount": 100.001234, "currency": %q, "address": %q}`, c.currency, c.address)
			type estimated struct {
				Fee   json.Number
				Total json.Number `json:"total_debit"`
				Send  json.Number `json:"send_amount"`
			}
			// Prices move every ten seconds: the withdrawal has that of before or of after.
			estimate := func() (e estimated) {
				s.Get(t, a.Key, "/v1/crypto/payouts/estimate?amount=100.001234&currency="+c.currency).Want(t, http.StatusOK).Decode(t, &e)
				return e
			}
			earlier := estimate()
			made := decodeCrypto(t, postCrypto(t, s, a.Key, "key-of-"+c.currency, body).Want(t, http.StatusCreated))
			later := estimate()
			if got := (fees{made.Fee.String(), made.ConversionFee.String(), made.GrossAmount.String()}); got != c.want {
				t.Errorf("%s: %v, want %v", c.currency, got, c.want)
			}
			sent := estimated{made.Fee, made.GrossAmount, json.Number(coinBooks(t, s)[i].Amount)}
			if sent != earlier && sent != later {
				t.Errorf("%s: estimated %+v and %+v, sent %+v", c.currency, earlier, later, sent)
			}
		}
		concludeCrypto(t, s)
		list, _ := listCrypto(t, s, a.Key)
		for _, p := range list {
			if p.Status != "completed" {
				t.Errorf("%+v", p)
			}
		}
		wantUSDT(t, s, a.ID, "9493.243779", "0.000000")
		wantAudit(t, s)
	})
}

// TestCryptoPayoutsInTheBooks reads the statement of withdrawals that were sent, failed and are under way.
func TestCryptoPayoutsInTheBooks(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		a := holder(t, s, "1000")
		var made []cryptoPayout
		for _, name := range []string{"sent", "failed"} {
			made = append(made, decodeCrypto(t, postCrypto(t, s, a.Key, "",
				fmt.Sprintf(`{"amount": 20, "currency": "usdtbsc", "address": %q, "external_id": %q}`, addressEVM, name)).Want(t, http.StatusCreated)))
		}
		s.World().Do(t, http.MethodPost, "/sim/crypto/payouts/"+made[1].token(t, a)+"/reject", `{}`, nil)
		concludeCrypto(t, s)
		made = append(made, decodeCrypto(t, postCrypto(t, s, a.Key, "",
			fmt.Sprintf(`{"amount": 100, "currency": "ltc", "address": %q, "external_id": "under way"}`, addressLTC)).Want(t, http.StatusCreated)))
		var got []string
		period := report.Period{Account: a.ID, Currency: money.CurrencyUSDT, From: time.UnixMicro(0), To: s.Core.Clock.Now().Add(time.Hour)}
		err := report.Statement(t.Context(), s.Core.DB, period, func(l report.Line) error {
			got = append(got, fmt.Sprint(l.Transfer.Kind, " ", report.Reference(&l.Transfer), " ", l.Transfer.Amount, " ", money.USDT(l.Balance.Available), " ", money.USDT(l.Balance.InTransit)))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		ended := got[3:6] // in whichever order they were heard of
		for _, want := range []string{
			"crypto_out_sent " + made[0].ID + " 20.000000", "crypto_out_fee " + made[0].ID + " 1.000000", "crypto_out_failed " + made[1].ID + " 21.000000",
		} {
			if !slices.ContainsFunc(ended, func(line string) bool { return strings.HasPrefix(line, want) }) {
				t.Errorf("%s is not in %q", want, ended)
			}
		}
		want := []string{
			"adjustment  1000.000000 1000.000000 0.000000",
			"crypto_out " + made[0].ID + " 21.000000 979.000000 21.000000",
			"crypto_out " + made[1].ID + " 21.000000 958.000000 42.000000",
			"crypto_out " + made[2].ID + " 102.000000 877.000000 102.000000",
		}
		if diff := cmp.Diff(want, slices.Delete(slices.Clone(got), 3, 6)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		wantAudit(t, s)
	})
}

// TestCryptoPayoutRefusals reaches every code of a refused withdrawal.
func TestCryptoPayoutRefusals(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, sqltest.SQLite(t))
	const fine = `{"amount": 100, "currency": "usdtbsc", "address": "` + addressEVM + `", "external_id": "x"}`
	with := func(changes ...string) string { return strings.NewReplacer(changes...).Replace(fine) }
	for _, c := range []struct {
		name, settings, body, want string
	}{
		{"banned", "status=banned", fine, "403 account_banned"},
		{"not identified", "kyc=pending", fine, "403 kyc_required"},
		{"no cash-out", "api_cashout=off", fine, "403 api_cashout_disabled"},
		{"no payouts", "api_payout=off", fine, "403 api_payout_disabled"},
		{"no crypto", "crypto=off", fine, "422 crypto_disabled"},
		{"under review", "status=under_review", fine, "423 ACCOUNT_LOCKED"},
		{"switched off", "disabled_resources=crypto", fine, "403 FORBIDDEN"},
		{"above the limit", "crypto_tx_limit=99.999999", fine, "422 invalid_request amount"},
		{"no JSON", "", `{"amount": `, "400 VALIDATION_ERROR body"},
		{"nothing", "", `{}`, "422 invalid_request amount currency address external_id"},
		{"no identifier", "", with(`, "external_id": "x"`, ""), "422 invalid_request external_id"},
		{"amount as text", "", with("100", `"100"`), "422 invalid_request amount"},
		{"too many decimals", "", with("100", "100.0000001"), "422 invalid_request amount"},
		{"negative", "", with("100", "-100"), "422 invalid_request amount"},
		{"long external_id", "", with(`"x"`, `"`+strings.Repeat("x", 121)+`"`), "422 invalid_request external_id"},
		{"long extra_id", "", with(`"x"`, `"x", "extra_id": "`+strings.Repeat("1", 129)+`"`), "422 invalid_request extra_id"},
		{"deposits only", "", with("usdtbsc", "usdttrc20"), "422 unsupported_currency"},
		{"another coin", "", with("usdtbsc", "eth"), "422 unsupported_currency"},
		{"no coin", "", with("usdtbsc", "nothing"), "422 unsupported_currency"},
		{"wrong checksum", "", with("BeAed", "BeAeD"), "422 invalid_address"},
		{"another network", "", with(addressEVM, addressTron), "422 invalid_address"},
		{"nobody's address", "", with(addressEVM, "0x0000000000000000000000000000000000000000"), "422 invalid_address"},
		{"the token's contract", "", with(addressEVM, "0x55d398326f99059fF775485246999027B3197955"), "422 invalid_address"},
		{"below the minimum", "", with("100", "19.999999"), "422 below_minimum"},
		{"below the network's", "", with("100", "25", "usdtbsc", "btc", addressEVM, addressBTC), "422 below_network_minimum"},
		{"a memo that nobody needs", "", with(`"x"`, `"x", "extra_id": "7"`), "422 invalid_request extra_id"},
		{"more than there is", "", with("100", "999.000001"), "422 insufficient_balance"},
	} {
		a := holder(t, s, "1000", strings.Fields(c.settings)...)
		r := cryptoRequest(a.Key, "", c.body)
		r.Invalid = true
		got := s.Do(t, r)
		if text := strings.TrimSpace(fmt.Sprint(got.Status, " ", got.Error().Code, " ", strings.Join(got.Paths(), " "))); text != c.want {
			t.Errorf("%s: %s, want %s: %s", c.name, text, c.want, got.Body)
		}
		wantUSDT(t, s, a.ID, "1000.000000", "0.000000")
		wantHappenings(t, s, a.ID)
	}
	a := holder(t, s, "1000")
	for scope, method := range map[string]string{"payouts:read": http.MethodPost, "payouts:write": http.MethodGet, "charges:write": http.MethodPost} {
		r := cryptoRequest(s.Key(t, a.ID, scope), "", fine)
		if method == http.MethodGet {
			r = testkit.Request{Path: "/v1/crypto/payouts", Key: r.Key}
		}
		s.Do(t, r).WantError(t, http.StatusForbidden, "FORBIDDEN")
	}
	short := cryptoRequest(a.Key, "short", fine)
	short.Invalid = true
	s.Do(t, short).WantError(t, http.StatusBadRequest, "invalid_idempotency_key")
	// All that there is, to the last millionth.
	postCrypto(t, s, a.Key, "", with("100", "999")).Want(t, http.StatusCreated)
	wantUSDT(t, s, a.ID, "0.000000", "1000.000000")
}

// TestCryptoSwitches switches coins at the provider and breaks what is asked for before anything is stored.
func TestCryptoSwitches(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, sqltest.SQLite(t))
	w := s.World()
	a := holder(t, s, "1000")
	const fine = `{"amount": 100, "currency": "ltc", "address": "` + addressLTC + `", "external_id": "x"}`
	w.Do(t, http.MethodPost, "/sim/crypto/currencies/ltc", `{"enabled": false}`, nil)
	postCrypto(t, s, a.Key, "", fine).WantError(t, http.StatusUnprocessableEntity, "currency_unavailable")
	s.Get(t, a.Key, "/v1/crypto/payouts/minimum?currency=ltc").WantError(t, http.StatusServiceUnavailable, "minimum_unavailable")
	s.Get(t, a.Key, "/v1/crypto/payouts/estimate?amount=100&currency=ltc").WantError(t, http.StatusServiceUnavailable, "estimate_unavailable")
	w.Do(t, http.MethodPost, "/sim/crypto/currencies/ltc", `{"enabled": true, "memo_required": true}`, nil)
	postCrypto(t, s, a.Key, "", fine).WantError(t, http.StatusUnprocessableEntity, "extra_id_required")
	postCrypto(t, s, a.Key, "", strings.Replace(fine, `"x"`, `"memo", "extra_id": "77"`, 1)).Want(t, http.StatusCreated)
	w.Do(t, http.MethodPost, "/sim/crypto/currencies/ltc", `{"memo_required": false}`, nil)
	for _, c := range []struct{ operation, want string }{
		{"minimum", "503 minimum_unavailable"},
		{"estimate", "503 estimate_unavailable"},
		{"currencies", "502 provider_unavailable"},
	} {
		for _, kind := range []string{"http_500", "http_429", "garbage", "lost_not_executed"} {
			w.Break(t, testkit.Fault{Target: "crypto", Operation: c.operation, Kind: kind, DelayMS: 1})
			got := postCrypto(t, s, a.Key, "", fine)
			if text := fmt.Sprint(got.Status, " ", got.Error().Code); text != c.want {
				t.Errorf("%s %s: %s", c.operation, kind, got.Body)
			}
			w.Mend(t)
		}
	}
	w.Break(t, testkit.Fault{Target: "crypto", Kind: "refuse"})
	postCrypto(t, s, a.Key, "", fine).WantError(t, http.StatusBadGateway, "provider_unavailable")
	s.Get(t, a.Key, "/v1/crypto/currencies").WantError(t, http.StatusBadGateway, "provider_unavailable")
	s.Get(t, a.Key, "/v1/crypto/payouts/minimum?currency=ltc").WantError(t, http.StatusServiceUnavailable, "minimum_unavailable")
	w.Mend(t)
	// Nothing was stored, so that the external_id is free.
	postCrypto(t, s, a.Key, "", fine).Want(t, http.StatusCreated)
	if books := coinBooks(t, s); len(books) != 2 {
		t.Errorf("%+v", books)
	}
}

func TestCryptoPayoutMinimum(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, sqltest.SQLite(t))
	a := holder(t, s, "10000")
	for _, currency := range []string{"usdtbsc", "usdterc20", "trx", "ltc", "btc"} {
		var m struct {
			Currency, Network string
			Min               json.Number `json:"min_amount"`
		}
		s.Get(t, a.Key, "/v1/crypto/payouts/minimum?currency="+currency).Want(t, http.StatusOK).Decode(t, &m)
		least, err := money.ParseUSDT(m.Min.String())
		if err != nil || m.Currency != currency || (currency == "btc") != (least > 37_000000) || (currency != "btc" && least != 20_000000) {
			t.Errorf("%+v, %v", m, err)
		}
		// Prices move; half a per cent above it is enough, half below is not.
		address := map[string]string{"trx": addressTron, "ltc": addressLTC, "btc": addressBTC}[currency]
		if address == "" {
			address = addressEVM
		}
		body := func(amount money.USDT) string {
			return fmt.Sprintf(`{"amount": %s, "currency": %q, "address": %q, "external_id": %q}`, amount, currency, address, currency)
		}
		r := cryptoRequest(a.Key, "", body(least-least/200))
		r.Invalid = true
		code := map[bool]string{true: "below_network_minimum", false: "below_minimum"}[currency == "btc"]
		s.Do(t, r).WantError(t, http.StatusUnprocessableEntity, code)
		postCrypto(t, s, a.Key, "", body(least+least/200)).Want(t, http.StatusCreated)
	}
	for query, want := range map[string]string{
		"":                              "invalid_request",
		"?currency=eth":                 "unsupported_currency",
		"?currency=usdttrc20":           "unsupported_currency",
		"?currency=usdtbsc&network=eth": "unsupported_network",
		"?currency=usdtbsc&network=bsc": "",
	} {
		got := s.Do(t, testkit.Request{Path: "/v1/crypto/payouts/minimum" + query, Key: a.Key, Invalid: true})
		if got.Error().Code != want {
			t.Errorf("%s: %s", query, got.Body)
		}
	}
}

func TestCryptoPayoutEstimate(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, sqltest.SQLite(t))
	a := s.Account(t, "reader")
	for query, want := range map[string]string{
		"?currency=btc":                      "invalid_request",
		"?amount=100":                        "invalid_request",
		"?amount=x&currency=btc":             "invalid_amount",
		"?amount=x":                          "invalid_request",
		"?amount=0&currency=btc":             "invalid_amount",
		"?amount=-1&currency=btc":            "invalid_amount",
		"?amount=1.0000001&currency=btc":     "invalid_amount",
		"?amount=99999999999&currency=btc":   "invalid_amount",
		"?amount=100&currency=usdttrc20":     "unsupported_currency",
		"?amount=100&currency=doge":          "unsupported_currency",
		"?amount=1&currency=btc":             "",
		"?amount=9999999999.99&currency=trx": "",
	} {
		got := s.Do(t, testkit.Request{Path: "/v1/crypto/payouts/estimate" + query, Key: a.Key, Invalid: true})
		if got.Error().Code != want {
			t.Errorf("%s: %s", query, got.Body)
		}
	}
	var e map[string]json.Number
	got := s.Get(t, a.Key, "/v1/crypto/payouts/estimate?amount=100&currency=usdtbsc").Want(t, http.StatusOK)
	var all map[string]any
	got.Decode(t, &all)
	delete(all, "object")
	delete(all, "currency")
	delete(all, "network")
	b, _ := json.Marshal(all)
	if err := json.Unmarshal(b, &e); err != nil {
		t.Fatal(err)
	}
	if e["rate"] != "1" || e["send_amount"] != "100" || e["fee"] != "1" || e["conversion_fee"] != "0" || e["total_debit"] != "101" {
		t.Errorf("%s", got.Body)
	}
	if list := coinBooks(t, s); len(list) != 0 {
		t.Errorf("an estimate made %+v", list)
	}
}

func TestCryptoPayoutList(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		a, other := holder(t, s, "1000"), holder(t, s, "1000")
		post := func(a testkit.Account, external string) string {
			return decodeCrypto(t, postCrypto(t, s, a.Key, "", fmt.Sprintf(`{"amount": 20, "currency": "usdtbsc", "address": %q, "external_id": %q}`, addressEVM, external)).Want(t, http.StatusCreated)).ID
		}
		var want []string
		for i := range 5 {
			want = append(want, post(a, strconv.Itoa(i)))
			s.Advance(t, time.Minute)
		}
		foreign := post(other, "0")
		slices.Reverse(want)
		type page struct {
			Data    []cryptoPayout `json:"data"`
			HasMore bool           `json:"has_more"`
			Next    *string        `json:"next_starting_after"`
		}
		var got []string
		for query := "?limit=2"; query != ""; {
			var p page
			s.Get(t, a.Key, "/v1/crypto/payouts"+query).Want(t, http.StatusOK).Decode(t, &p)
			for _, one := range p.Data {
				got = append(got, one.ID)
			}
			query = ""
			if p.HasMore {
				query = "?limit=2&starting_after=" + *p.Next
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		list, _ := listCrypto(t, s, a.Key)
		var p page
		s.Get(t, a.Key, "/v1/crypto/payouts?starting_after="+url.QueryEscape(list[2].CreatedAt.Format(time.RFC3339Nano))).Want(t, http.StatusOK).Decode(t, &p)
		if len(p.Data) != 2 || p.Data[0].ID != want[3] || p.HasMore || p.Next != nil {
			t.Errorf("%+v", p)
		}
		for _, query := range []string{"?limit=0", "?limit=201", "?limit=x", "?starting_after=" + foreign, "?starting_after=x"} {
			r := testkit.Request{Path: "/v1/crypto/payouts" + query, Key: a.Key, Invalid: true}
			s.Do(t, r).WantError(t, http.StatusUnprocessableEntity, "invalid_request")
		}
	})
}

func TestCryptoPayoutIdempotencyKey(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		a := holder(t, s, "1000")
		const body = `{"amount": 20, "currency": "usdtbsc", "address": "` + addressEVM + `"}`
		first := decodeCrypto(t, postCrypto(t, s, a.Key, "key-00000001", body).Want(t, http.StatusCreated))
		concludeCrypto(t, s)
		again := postCrypto(t, s, a.Key, "key-00000001", body).Want(t, http.StatusOK)
		if p := decodeCrypto(t, again); p.ID != first.ID || p.Status != "completed" || p.ExternalID != nil || again.Header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%s", again.Body)
		}
		postCrypto(t, s, a.Key, "key-00000001", strings.Replace(body, "20", "21", 1)).WantError(t, http.StatusConflict, "idempotency_conflict")
		// A refused request frees its key.
		postCrypto(t, s, a.Key, "key-00000002", strings.Replace(body, "20", "2000", 1)).WantError(t, http.StatusUnprocessableEntity, "insufficient_balance")
		postCrypto(t, s, a.Key, "key-00000002", body).Want(t, http.StatusCreated)
		wantUSDT(t, s, a.ID, "958.000000", "21.000000")
		// A key and an external_id: the key goes on with the same withdrawal.
		const named = `{"amount": 20, "currency": "usdtbsc", "address": "` + addressEVM + `", "external_id": "a"}`
		made := decodeCrypto(t, postCrypto(t, s, a.Key, "", named).Want(t, http.StatusCreated))
		found := decodeCrypto(t, postCrypto(t, s, a.Key, "key-00000003", named).Want(t, http.StatusOK))
		if made.ID != found.ID {
			t.Errorf("%s and %s", made.ID, found.ID)
		}
		wantAudit(t, s)
	})
}

// TestCryptoPayoutFailed has the provider reject withdrawals and say failed, which is not final.
func TestCryptoPayoutFailed(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		a := holder(t, s, "1000")
		w := s.World()
		post := func(external string) cryptoPayout {
			t.Helper()
			return decodeCrypto(t, postCrypto(t, s, a.Key, "", fmt.Sprintf(`{"amount": 99, "currency": "usdtbsc", "address": %q, "external_id": %q}`, addressEVM, external)).Want(t, http.StatusCreated))
		}
		status := func(external string) string {
			t.Helper()
			list, _ := listCrypto(t, s, a.Key)
			for _, p := range list {
				if *p.ExternalID == external {
					return p.Status
				}
			}
			return "nowhere"
		}
		w.Break(t, testkit.Fault{Target: "crypto", Operation: "payout.send", Kind: "reject", Times: 1})
		if p := post("refused"); p.Status != "failed" || p.ErrorMessage == nil {
			t.Errorf("%+v", p)
		}
		wantUSDT(t, s, a.ID, "1000.000000", "0.000000")
		wantHappenings(t, s, a.ID, "crypto.payout.processing", "crypto.payout.failed")

		rejected, failed := post("rejected"), post("failed")
		for _, p := range []cryptoPayout{rejected, failed} {
			if p.Status != "processing" {
				t.Errorf("%+v", p)
			}
		}
		w.Do(t, http.MethodPost, "/sim/crypto/payouts/"+rejected.token(t, a)+"/reject", `{}`, nil)
		w.Do(t, http.MethodPost, "/sim/crypto/payouts/"+failed.token(t, a)+"/fail", `{}`, nil)
		s.Deliver(t)
		if got := status("rejected") + " " + status("failed"); got != "failed processing" {
			t.Errorf("%s", got)
		}
		wantUSDT(t, s, a.ID, "900.000000", "100.000000")
		if d, err := s.Core.CountCryptoDoubts(t.Context()); err != nil || d.Withdrawals != 1 || d.Sum != 100_000000 {
			t.Errorf("in doubt: %+v, %v", d, err)
		}
		w.Do(t, http.MethodPost, "/sim/crypto/payouts/"+failed.token(t, a)+"/finish", `{}`, nil)
		s.Deliver(t)
		if got := status("failed"); got != "completed" {
			t.Errorf("%s", got)
		}
		wantUSDT(t, s, a.ID, "900.000000", "0.000000")
		if d, err := s.Core.CountCryptoDoubts(t.Context()); err != nil || d.Withdrawals != 0 {
			t.Errorf("in doubt: %+v, %v", d, err)
		}
		wantAudit(t, s)
	})
}
