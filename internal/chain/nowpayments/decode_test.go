package nowpayments

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/ponte-pay/ponte/internal/chain"
	"github.com/ponte-pay/ponte/internal/clock"
)

// server answers every request with one body, and a token to who asks for one.
func server(t *testing.T, status int, header http.Header, body string) *Client {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/auth" {
			_, _ = io.WriteString(w, `{"token":"opaque"}`)
			return
		}
		for name, values := range header {
			w.Header()[name] = values
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return clientOf(t, s.URL, clock.New(nil))
}

func clientOf(t *testing.T, url string, c *clock.Clock) *Client {
	t.Helper()
	client, err := New(Config{
		Name: "test", BaseURL: url + "/v1/", APIKey: "api-key", Email: "a@example.com", Password: "secret word", TOTPSecret: "jbsw y3dp ehpk 3pxp",
		IPNSecret: "ipn", Settlement: "usdttrc20",
	}, c)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// TestShapesOfPayouts are the three shapes of a batch, and what is none.
func TestShapesOfPayouts(t *testing.T) {
	t.Parallel()
	const row = `{"id":"11","batch_withdrawal_id":7,"address":"T1","currency":"TRX","amount":"50.5","status":"SENDING","fee":null,"createdAt":"2026-01-02T03:04:05.678Z"}`
	const rowAlone = `{"id":"11","address":"T1","currency":"trx","amount":50.5,"status":"sending"}`
	for name, body := range map[string]string{
		"array": "[" + row + "]", "object": `{"id":7,"withdrawals":[` + row + `]}`, "bare row": row, "batch outside": `{"id":"7","status":"FINISHED","withdrawals":[` + rowAlone + `]}`,
	} {
		p, err := server(t, 200, nil, body).GetPayout(t.Context(), "7")
		if err != nil || p.ID != "7" || p.Status != chain.PayoutSending || p.Amount.String() != "50.5" || p.Currency != "trx" {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
	for name, body := range map[string]string{
		"empty array": "[]", "two": "[" + row + "," + row + "]", "nothing": "{}", "text": `"OK"`, "null": "null", "another": strings.Replace(row, ":7", ":8", 1),
		"no amount": strings.Replace(row, `"50.5"`, `null`, 1), "negative": strings.Replace(row, `50.5`, `-50.5`, 1), "no JSON": "<html>",
	} {
		p, err := server(t, 200, nil, body).GetPayout(t.Context(), "7")
		if e := chain.As(err); e == nil || e.Outcome != chain.Unknown || e.Class != chain.Protocol {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
}

// TestShapesOfPayments reads numbers as strings, exponents, and a settlement in another coin.
func TestShapesOfPayments(t *testing.T) {
	t.Parallel()
	const body = `{"payment_id":"5","payment_status":"finished","pay_amount":"0.1","pay_currency":"BTC","actually_paid":1.2e-7,"outcome_amount":12.3456789,"outcome_currency":"USDTTRC20","purchase_id":9,"payment_extra_ids":["8",8,7],"parent_payment_id":null,"order_id":77,"time_limit":"null"}`
	p, err := server(t, 200, nil, body).GetPayment(t.Context(), "5")
	if err != nil || p.Paid.String() != "0.00000012" || p.Settled != 12_345_678 || p.PayCurrency != "btc" || strings.Join(p.Children, " ") != "8 7" || p.Reference != "77" || p.Parent != "" {
		t.Errorf("%+v, %v", p, err)
	}
	for name, change := range map[string][2]string{
		"another coin":  {`USDTTRC20`, `btc`},
		"not settled":   {`"finished"`, `"sending"`},
		"nothing came":  {`1.2e-7`, `0`},
		"a new status":  {`"finished"`, `"reviewing"`},
		"went back":     {`"finished"`, `"refunded"`},
		"outcome is no": {`12.3456789`, `null`},
	} {
		p, err := server(t, 200, nil, strings.Replace(body, change[0], change[1], 1)).GetPayment(t.Context(), "5")
		if err != nil || p.Settled != 0 {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
	for name, change := range map[string][2]string{
		"another payment": {`"5"`, `"6"`}, "no number": {`1.2e-7`, `"a lot"`}, "negative": {`12.3456789`, `-1`}, "enormous": {`12.3456789`, `1e30`},
		"absurd": {`1.2e-7`, `1e-9999`}, "no coin": {`"BTC"`, `null`}, "a parent that is none": {`"parent_payment_id":null`, `"parent_payment_id":"x"`},
	} {
		p, err := server(t, 200, nil, strings.Replace(body, change[0], change[1], 1)).GetPayment(t.Context(), "5")
		if e := chain.As(err); e == nil || e.Class != chain.Protocol {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
}

// TestRefusals are answers to a payout, and what they prove.
func TestRefusals(t *testing.T) {
	t.Parallel()
	n := chain.NewPayout{Reference: "r", Destination: chain.Destination{Currency: "trx", Address: "T1"}, Amount: decimal.New(50, 0)}
	const page = "<html><body>502 Bad Gateway, cloudflare</body></html>"
	refusal := func(code, message string) string {
		return fmt.Sprintf(`{"status":false,"statusCode":400,"code":%q,"message":%q}`, code, message)
	}
	for _, test := range []struct {
		status      int
		body, words string
		cause       error
	}{
		{400, refusal("BAD_CREATE_WITHDRAWAL_REQUEST", "Invalid payout_address: [trx] [T1]"), "refused business", chain.ErrInvalidAddress},
		{400, refusal("BAD_CREATE_WITHDRAWAL_REQUEST", "Withdrawal min amount is 10"), "refused business", chain.ErrBelowMinimum},
		{400, refusal("AMOUNT_MINIMAL_ERROR", "Crypto amount 1 is less than minimal"), "refused business", chain.ErrBelowMinimum},
		{400, refusal("BAD_CREATE_WITHDRAWAL_REQUEST", "Insufficient balance"), "refused business", chain.ErrInsufficientBalance},
		{409, refusal("CURRENCY_UNAVAILABLE", "off"), "refused business", chain.ErrCurrencyUnavailable},
		{400, `{"message":"only words"}`, "refused business", nil},
		{400, page, "unknown protocol", nil},
		{400, "", "unknown protocol", nil},
		{401, page, "refused credentials", nil},
		{403, refusal("ENDPOINT_NOT_ALLOWED", "Invalid IP"), "refused credentials", nil},
		{403, page, "unknown credentials", nil},
		{404, page, "unknown protocol", nil},
		{429, refusal("", "slow down"), "refused rate_limited", nil},
		{429, page, "unknown rate_limited", nil},
		{500, refusal("INTERNAL_ERROR", "Can not get estimate"), "unknown down", nil},
		{502, page, "unknown down", nil},
		{504, page, "unknown timeout", nil},
		{302, "", "unknown protocol", nil},
		{200, "", "unknown protocol", nil},
		{200, page, "unknown protocol", nil},
		{200, `{"id":"1","withdrawals":[]}`, "unknown protocol", nil},
		{200, `{"id":"1","withdrawals":[{"id":"2","address":"T2","currency":"trx","amount":"50","status":"WAITING"}]}`, "unknown protocol", nil},
	} {
		_, err := server(t, test.status, nil, test.body).CreatePayout(t.Context(), n)
		e := chain.As(err)
		if e == nil || e.Outcome.String()+" "+e.Class.String() != test.words || (test.cause != nil && !errors.Is(err, test.cause)) {
			t.Errorf("%d %s: %v, want %s", test.status, test.body, err, test.words)
		}
	}
}

// TestSecrets puts every secret into a refusal. None may get out.
func TestSecrets(t *testing.T) {
	t.Parallel()
	c := server(t, 400, nil, `{"code":"api-key","message":"api-key and secret word and opaque and jbsw y3dp ehpk 3pxp\u0000\n`+strings.Repeat("x", 1000)+`"}`)
	_, err := c.CreatePayout(t.Context(), chain.NewPayout{Reference: "r", Destination: chain.Destination{Currency: "trx", Address: "T1"}, Amount: decimal.New(50, 0)})
	all := fmt.Sprintf("%v %v %+v %#v %s", err, c, c.config, c.config, must(json.Marshal(c.config)))
	for _, secret := range []string{"api-key", "secret word", "opaque", "jbsw", "\n"} {
		if strings.Contains(all, secret) {
			t.Errorf("%q stands in %s", secret, all)
		}
	}
	if len(err.Error()) > 400 {
		t.Errorf("an error of %d bytes", len(err.Error()))
	}
}

func must[T any](v T, _ error) T { return v }

// TestOneLogin lets many ask at once. The provider sees one login, and another one when the token has grown old.
func TestOneLogin(t *testing.T) {
	t.Parallel()
	var logins atomic.Int64
	held := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/auth" {
			logins.Add(1)
			<-held
			// The life is read from the token: 300 seconds.
			_, _ = io.WriteString(w, `{"token":"e30.eyJpYXQiOjEwMDAsImV4cCI6MTMwMH0.c2ln"}`)
			return
		}
		_, _ = io.WriteString(w, `{"data":[],"pagesCount":0}`)
	}))
	t.Cleanup(s.Close)
	business := clock.New(nil)
	c := clientOf(t, s.URL, business)
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			if _, err := c.ListPayments(t.Context(), chain.Window{}); err != nil {
				t.Error(err)
			}
		})
	}
	close(held)
	wg.Wait()
	if got := logins.Load(); got != 1 {
		t.Errorf("%d logins", got)
	}
	business.Raise(200 * time.Second)
	_, _ = c.ListPayments(t.Context(), chain.Window{})
	if got := logins.Load(); got != 1 {
		t.Errorf("%d logins after 200 s", got)
	}
	business.Raise(275 * time.Second)
	_, _ = c.ListPayments(t.Context(), chain.Window{})
	if got := logins.Load(); got != 2 {
		t.Errorf("%d logins after 275 s", got)
	}
}

// TestPace creates more than is allowed in a second, on a clock that stands still.
func TestPace(t *testing.T) {
	t.Parallel()
	now := time.Now()
	business := clock.New(func() time.Time { return now })
	p := &pace{clock: business, every: time.Second / 3}
	for i := range 3 {
		if turn := p.turn(true); turn.After(now) {
			t.Errorf("creation %d waits until %v", i, turn)
		}
	}
	if turn := p.turn(true); turn.Sub(now) < 300*time.Millisecond || turn.Sub(now) > 400*time.Millisecond {
		t.Errorf("the fourth waits for %v", turn.Sub(now))
	}
	if turn := p.turn(false); turn.After(now) {
		t.Errorf("a read waits until %v", turn)
	}
	for range 10 {
		p.turn(true)
	}
	if failure := p.wait(t.Context(), true); failure == nil || failure.Outcome != chain.Refused || failure.Class != chain.RateLimited {
		t.Errorf("got %v", failure)
	}
	p.hold("30")
	if failure := p.wait(t.Context(), false); failure == nil || failure.Class != chain.RateLimited {
		t.Errorf("a read was let through: %v", failure)
	}
	business.Raise(time.Minute)
	for _, creates := range []bool{false, true} {
		if failure := p.wait(t.Context(), creates); failure != nil {
			t.Error(failure)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if failure := p.wait(ctx, false); failure == nil || failure.Outcome != chain.Refused {
		t.Errorf("got %v", failure)
	}
}

// TestCurrenciesAge keeps the list for as long as it may.
func TestCurrenciesAge(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = io.WriteString(w, `{"currencies":[{"code":"BTC","enable":true,"available_for_payment":true,"precision":8,"network_precision":"8"},7],"selectedCurrencies":["BTC"]}`)
	}))
	t.Cleanup(s.Close)
	business := clock.New(nil)
	c := clientOf(t, s.URL, business)
	c.config.CurrenciesAge = CurrenciesAgeUsual
	for i, want := range []int64{2, 2, 4} { // two requests each time
		list, err := c.Currencies(t.Context())
		if err != nil || len(list) != 1 || !list[0].CanDeposit || list[0].CanWithdraw || asked.Load() != want {
			t.Errorf("%+v, %v after %d requests, want %d", list, err, asked.Load(), want)
		}
		business.Raise(time.Duration(i) * 6 * time.Minute)
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	good := Config{
		Name: "n", BaseURL: "https://api.example.com/v1", APIKey: "k", Email: "e", Password: "p", TOTPSecret: "JBSWY3DPEHPK3PXP", IPNSecret: "i", Settlement: "usdtbsc",
	}
	if _, err := New(good, clock.New(nil)); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Config){
		"no name":       func(c *Config) { c.Name = "" },
		"no key":        func(c *Config) { c.APIKey = "" },
		"no password":   func(c *Config) { c.Password = "" },
		"no IPN secret": func(c *Config) { c.IPNSecret = " " },
		"no settlement": func(c *Config) { c.Settlement = "" },
		"not USDT":      func(c *Config) { c.Settlement = "btc" },
		"no base32":     func(c *Config) { c.TOTPSecret = "1!" },
		"open wire":     func(c *Config) { c.BaseURL = "http://api.example.com/v1" },
		"no URL":        func(c *Config) { c.BaseURL = "api" },
		"a password":    func(c *Config) { c.BaseURL = "https://u:p@api.example.com/v1" },
	} {
		bad := good
		change(&bad)
		if _, err := New(bad, clock.New(nil)); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
