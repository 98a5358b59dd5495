package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
	"github.com/ponte-pay/ponte/internal/testkit"
)

func postQuote(t *testing.T, s *testkit.Service, key, body string) *testkit.Answer {
	t.Helper()
	return s.Do(t, testkit.Request{Method: http.MethodPost, Path: "/v1/crypto/quotes", Key: key, Body: body, Invalid: true})
}

// quoteOf is a quote as callers see it.
type quoteOf struct {
	Object          string       `json:"object"`
	Operation       string       `json:"operation"`
	From            string       `json:"from"`
	To              string       `json:"to"`
	Network         *string      `json:"network"`
	Amount          json.Number  `json:"amount"`
	Estimated       json.Number  `json:"estimated_amount"`
	Rate            json.Number  `json:"rate"`
	Minimum         *json.Number `json:"minimum"`
	MinimumCurrency *string      `json:"minimum_currency"`
	PriceLocked     bool         `json:"price_locked"`
	ExpiresAt       time.Time    `json:"expires_at"`
	CreatedAt       time.Time    `json:"created_at"`
}

func decimalOf(t *testing.T, n json.Number) decimal.Decimal {
	t.Helper()
	d, err := decimal.NewFromString(n.String())
	if err != nil || strings.ContainsAny(n.String(), "eE") {
		t.Fatalf("%q is no plain number", n)
	}
	return d
}

func TestCryptoQuotes(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, sqltest.SQLite(t))
	a := s.Account(t, "reader")
	for _, c := range []struct {
		body      string
		low, high string // of the estimated amount
		minimum   string // "" for null, ~ for one that is above 20
		network   string // "" for null
	}{
		{`{"operation": "conversion", "from": "usd", "to": "brl", "amount": 100}`, "540", "547", "", ""},
		{`{"operation": "conversion", "from": "usdt", "to": "brl", "amount": 100}`, "539", "546.9", "", ""},
		{`{"operation": "conversion", "from": "usdt", "to": "brl", "amount": 0.000001}`, "0", "0", "", ""},
		{`{"operation": "withdrawal", "from": "usdt", "to": "btc", "amount": 100}`, "0.00104", "0.00106", "~ usdt", "btc"},
		{`{"operation": "withdrawal", "from": "usdt", "to": "usdtbsc", "network": "bsc", "amount": 100.5}`, "100.5", "100.5", "20 usdt", "bsc"},
		{`{"operation": "withdrawal", "from": "usdt", "to": "usdterc20", "amount": 20}`, "20", "20", "20 usdt", "eth"},
		{`{"operation": "deposit", "from": "usd", "to": "usdttrc20", "network": "trx", "amount": 50}`, "50.001", "50.1", "20 usd", "trx"},
		{`{"operation": "deposit", "from": "usd", "to": "eth", "amount": 15}`, "0.0046", "0.0048", "15 usd", "eth"},
		{`{"operation": "deposit", "from": "usd", "to": "usdtbsc", "amount": 20.00}`, "20.001", "20.1", "20 usd", "bsc"},
	} {
		answer := postQuote(t, s, a.Key, c.body).Want(t, http.StatusOK)
		var q quoteOf
		answer.Decode(t, &q)
		estimated, rate, amount := decimalOf(t, q.Estimated), decimalOf(t, q.Rate), decimalOf(t, q.Amount)
		off := rate.Mul(amount).Sub(estimated).Abs()
		switch {
		case estimated.LessThan(decimal.RequireFromString(c.low)), estimated.GreaterThan(decimal.RequireFromString(c.high)),
			off.GreaterThan(decimal.RequireFromString("0.01")),
			q.PriceLocked, q.ExpiresAt.Sub(q.CreatedAt) != time.Minute, q.Object != "crypto_quote":
			t.Errorf("%s: %s", c.body, answer.Body)
		}
		minimum := ""
		if q.Minimum != nil {
			minimum = q.Minimum.String() + " " + *q.MinimumCurrency
			if c.minimum == "~ usdt" && decimalOf(t, *q.Minimum).GreaterThan(decimal.New(30, 0)) {
				minimum = c.minimum
			}
		}
		network := ""
		if q.Network != nil {
			network = *q.Network
		}
		if minimum != c.minimum || network != c.network {
			t.Errorf("%s: minimum %q on %q, want %q on %q", c.body, minimum, network, c.minimum, c.network)
		}
	}
}

func TestCryptoQuoteRefusals(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, sqltest.SQLite(t))
	a := s.Account(t, "reader")
	deposits, withdrawals := s.Key(t, a.ID, "charges:read"), s.Key(t, a.ID, "payouts:read")
	neither := s.Key(t, a.ID, "charges:write,payouts:write,balance:read")
	const (
		deposit    = `{"operation": "deposit", "from": "usd", "to": "btc", "amount": 50}`
		withdrawal = `{"operation": "withdrawal", "from": "usdt", "to": "trx", "amount": 50}`
		conversion = `{"operation": "conversion", "from": "usd", "to": "brl", "amount": 50}`
	)
	for _, c := range []struct{ key, body, want string }{
		{deposits, deposit, "200"},
		{deposits, withdrawal, "403 FORBIDDEN"},
		{deposits, conversion, "200"},
		{withdrawals, withdrawal, "200"},
		{withdrawals, deposit, "403 FORBIDDEN"},
		{withdrawals, `{"operation": "deposit"}`, "403 FORBIDDEN"}, // before the fields
		{withdrawals, conversion, "200"},
		{neither, conversion, "403 FORBIDDEN"},
		{neither, `{`, "403 FORBIDDEN"},
		{a.Key, `{`, "400 VALIDATION_ERROR body"},
		{a.Key, `{}`, "422 invalid_request operation from to amount"},
		{a.Key, `{"operation": "conversion", "from": "usd", "to": "brl"}`, "422 invalid_request amount"},
		{a.Key, `{"operation": "conversion", "from": "usd", "to": "brl", "amount": "50"}`, "422 invalid_request amount"},
		{a.Key, `{"operation": "conversion", "from": 1, "to": "brl", "amount": 0}`, "422 invalid_request from amount"},
		{a.Key, `{"operation": "swap", "from": "usd", "to": "brl", "amount": 50}`, "422 unsupported_route"},
		{a.Key, `{"operation": "conversion", "from": "btc", "to": "brl", "amount": 50}`, "422 unsupported_route"},
		{a.Key, `{"operation": "conversion", "from": "usd", "to": "btc", "amount": 50}`, "422 unsupported_route"},
		{a.Key, `{"operation": "conversion", "from": "brl", "to": "usd", "amount": 50}`, "422 unsupported_route"},
		{a.Key, `{"operation": "deposit", "from": "usdt", "to": "btc", "amount": 50}`, "422 unsupported_route"},
		{a.Key, `{"operation": "deposit", "from": "usd", "to": "brl", "amount": 50}`, "422 unsupported_route"},
		{a.Key, `{"operation": "withdrawal", "from": "usd", "to": "btc", "amount": 50}`, "422 unsupported_route"},
		{a.Key, `{"operation": "withdrawal", "from": "usdt", "to": "usdt", "amount": 50}`, "422 unsupported_route"},
		{a.Key, `{"operation": "withdrawal", "from": "usdt", "to": "usdttrc20", "amount": 50}`, "422 unsupported_currency"},
		{a.Key, `{"operation": "withdrawal", "from": "usdt", "to": "shib", "amount": 50}`, "422 unsupported_currency"},
		{a.Key, `{"operation": "deposit", "from": "usd", "to": "usdterc20", "amount": 50}`, "422 unsupported_currency"},
		{a.Key, `{"operation": "withdrawal", "from": "usdt", "to": "usdtbsc", "network": "eth", "amount": 50}`, "422 unsupported_network"},
		{a.Key, `{"operation": "conversion", "from": "usdt", "to": "brl", "network": "bsc", "amount": 50}`, "422 unsupported_network"},
		{a.Key, `{"operation": "conversion", "from": "usd", "to": "brl", "amount": 0}`, "422 invalid_amount"},
		{a.Key, `{"operation": "conversion", "from": "usd", "to": "brl", "amount": -1}`, "422 invalid_amount"},
		{a.Key, `{"operation": "conversion", "from": "usd", "to": "brl", "amount": 1.001}`, "422 invalid_amount"},
		{a.Key, `{"operation": "conversion", "from": "usdt", "to": "brl", "amount": 1.0000001}`, "422 invalid_amount"},
		{a.Key, `{"operation": "conversion", "from": "usdt", "to": "brl", "amount": 10000000000}`, "422 invalid_amount"},
		{a.Key, `{"operation": "withdrawal", "from": "usdt", "to": "usdtbsc", "amount": 19.99}`, "422 below_minimum"},
		{a.Key, `{"operation": "withdrawal", "from": "usdt", "to": "btc", "amount": 30}`, "422 below_minimum"},
		{a.Key, `{"operation": "deposit", "from": "usd", "to": "usdtbsc", "amount": 19.99}`, "422 below_minimum"},
		{a.Key, `{"operation": "deposit", "from": "usd", "to": "eth", "amount": 14.99}`, "422 below_minimum"},
	} {
		got := postQuote(t, s, c.key, c.body)
		if text := strings.TrimSpace(fmt.Sprint(got.Status, " ", got.Error().Code, " ", strings.Join(got.Paths(), " "))); text != c.want {
			t.Errorf("%s: %s, want %s: %s", c.body, text, c.want, got.Body)
		}
	}
	s.World().Do(t, http.MethodPost, "/sim/crypto/currencies/trx", `{"enabled": false}`, nil)
	postQuote(t, s, a.Key, withdrawal).WantError(t, http.StatusUnprocessableEntity, "unsupported_currency")
}

// TestCryptoQuoteSources breaks the sources of rates one by one.
func TestCryptoQuoteSources(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, sqltest.SQLite(t))
	a := s.Account(t, "reader")
	w := s.World()
	const conversion = `{"operation": "conversion", "from": "usd", "to": "brl", "amount": 1000}`
	skew := func(source, off string, stale int) {
		t.Helper()
		w.Do(t, http.MethodPost, "/sim/rates", fmt.Sprintf(`{"source": %q, "off_percent": %q, "stale_seconds": %d}`, source, off, stale), nil)
	}
	estimated := func() decimal.Decimal {
		t.Helper()
		var q quoteOf
		postQuote(t, s, a.Key, conversion).Want(t, http.StatusOK).Decode(t, &q)
		return decimalOf(t, q.Estimated)
	}
	unavailable := func() {
		t.Helper()
		postQuote(t, s, a.Key, conversion).WantError(t, http.StatusServiceUnavailable, "quote_unavailable")
	}
	sane := func() {
		t.Helper()
		if e := estimated(); e.LessThan(decimal.New(5400, 0)) || e.GreaterThan(decimal.New(5470, 0)) {
			t.Errorf("1000 USD are %s BRL", e)
		}
	}
	sane()
	skew("awesome", "1", 0) // within what may be
	sane()
	skew("awesome", "3", 0) // nobody knows which is right
	unavailable()
	skew("awesome", "50", 3600) // old besides, so that it does not count
	sane()
	skew("coingecko", "0", 3600)
	unavailable()
	skew("awesome", "0", 0)
	sane()
	skew("coingecko", "0", 0)
	for _, kind := range []string{"http_500", "http_429", "garbage", "lost_not_executed"} {
		w.Break(t, testkit.Fault{Target: "rates", Operation: "awesome", Kind: kind, DelayMS: 1})
		sane()
		w.Break(t, testkit.Fault{Target: "rates", Operation: "coingecko", Kind: kind, DelayMS: 1})
		unavailable()
		w.Mend(t)
	}
	w.Break(t, testkit.Fault{Target: "rates", Kind: "refuse"})
	unavailable()
	w.Mend(t)
	sane()
	// A price in coins needs the provider, and so does what a USDT is worth; without its minimum there is a quote.
	w.Break(t, testkit.Fault{Target: "crypto", Operation: "estimate", Kind: "http_500"})
	sane()
	for _, body := range []string{
		strings.Replace(conversion, `"usd"`, `"usdt"`, 1),
		`{"operation": "withdrawal", "from": "usdt", "to": "btc", "amount": 50}`,
		`{"operation": "deposit", "from": "usd", "to": "btc", "amount": 50}`,
	} {
		postQuote(t, s, a.Key, body).WantError(t, http.StatusServiceUnavailable, "quote_unavailable")
	}
	w.Mend(t)
	w.Break(t, testkit.Fault{Target: "crypto", Operation: "minimum", Kind: "http_500"})
	for _, body := range []string{
		`{"operation": "withdrawal", "from": "usdt", "to": "btc", "amount": 50}`, `{"operation": "deposit", "from": "usd", "to": "btc", "amount": 50}`,
	} {
		var q quoteOf
		postQuote(t, s, a.Key, body).Want(t, http.StatusOK).Decode(t, &q)
		if q.Minimum != nil || q.MinimumCurrency != nil {
			t.Errorf("%+v", q)
		}
	}
}

func TestCryptoCurrencies(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, sqltest.SQLite(t))
	a := s.Account(t, "reader")
	type coin struct {
		Code         string `json:"code"`
		Network      string `json:"network"`
		CanDeposit   bool   `json:"can_deposit"`
		CanWithdraw  bool   `json:"can_withdraw"`
		RequiresMemo bool   `json:"requires_memo"`
	}
	list := func(key, query string) string {
		t.Helper()
		var l struct {
			Object string `json:"object"`
			Data   []coin `json:"data"`
		}
		s.Get(t, key, "/v1/crypto/currencies"+query).Want(t, http.StatusOK).Decode(t, &l)
		var codes []string
		for _, c := range l.Data {
			text := c.Code
			if c.RequiresMemo {
				text += "+memo"
			}
			codes = append(codes, text)
		}
		return l.Object + ": " + strings.Join(codes, " ")
	}
	const (
		all         = "list: usdttrc20 usdtbsc usdterc20 btc eth ltc sol usdc trx xrp+memo doge bnbbsc ton ada bch dai"
		deposits    = "list: usdttrc20 usdtbsc btc eth ltc sol usdc trx xrp+memo doge bnbbsc ton ada bch dai"
		withdrawals = "list: usdtbsc usdterc20 btc ltc trx"
	)
	for query, want := range map[string]string{"": all, "?flow=deposit": deposits, "?flow=withdrawal": withdrawals} {
		for _, scope := range []string{"charges:read", "payouts:read"} {
			if got := list(s.Key(t, a.ID, scope), query); got != want {
				t.Errorf("%s: %s, want %s", query, got, want)
			}
		}
	}
	s.World().Do(t, http.MethodPost, "/sim/crypto/currencies/btc", `{"enabled": false}`, nil)
	s.World().Do(t, http.MethodPost, "/sim/crypto/currencies/ltc", `{"memo_required": true}`, nil)
	if got := list(a.Key, "?flow=withdrawal"); got != "list: usdtbsc usdterc20 ltc+memo trx" {
		t.Error(got)
	}
	if got := list(a.Key, ""); got != strings.Replace(all, "ltc", "ltc+memo", 1) {
		t.Error(got)
	}
	s.Do(t, testkit.Request{Path: "/v1/crypto/currencies?flow=x", Key: a.Key, Invalid: true}).WantError(t, http.StatusUnprocessableEntity, "invalid_request")
	s.Get(t, s.Key(t, a.ID, "balance:read"), "/v1/crypto/currencies").WantError(t, http.StatusForbidden, "FORBIDDEN")
}
