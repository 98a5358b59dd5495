package source

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/ponte-pay/ponte/internal/quote"
)

func TestRead(t *testing.T) {
	t.Parallel()
	readers := map[string]func([]byte) (quote.Rate, error){driverAwesome: readAwesome, driverCoinGecko: readCoinGecko}
	for _, c := range []struct{ driver, body, want string }{
		{driverAwesome, `{"USDBRL":{"code":"USD","codein":"BRL","bid":"5.4321","ask":"5.4330","timestamp":"1794000000"}}`, "5.4321 at 1794000000"},
		{driverAwesome, `{"USDBRL":{"code":"USD","codein":"BRL","bid":5.4321,"timestamp":1794000000}}`, "5.4321 at 1794000000"},
		{driverAwesome, `{"USDBRL":{"code":"EUR","codein":"BRL","bid":"6.4","timestamp":"1794000000"}}`, ""},
		{driverAwesome, `{"USDBRL":{"code":"USD","codein":"BRL","bid":"-5","timestamp":"1794000000"}}`, ""},
		{driverAwesome, `{"USDBRL":{"code":"USD","codein":"BRL","bid":"5.4"}}`, ""},
		{driverAwesome, `{"USDBRL":{"code":"USD","codein":"BRL","bid":"1e999999999","timestamp":"1794000000"}}`, ""},
		{driverAwesome, `{"status":404,"code":"CoinNotExists"}`, ""},
		{driverAwesome, `<html>`, ""},
		{driverCoinGecko, `{"tether":{"usd":0.9994,"brl":5.4288,"last_updated_at":1794000000}}`, "5.432059235541 at 1794000000"},
		{driverCoinGecko, `{"tether":{"usd":0,"brl":5.4288,"last_updated_at":1794000000}}`, ""},
		{driverCoinGecko, `{"tether":{"brl":5.4288,"last_updated_at":1794000000}}`, ""},
		{driverCoinGecko, `{"tether":{"usd":1,"brl":5.4288}}`, ""},
		{driverCoinGecko, `{}`, ""},
		{driverCoinGecko, ``, ""},
	} {
		r, err := readers[c.driver]([]byte(c.body))
		got := ""
		if err == nil {
			got = r.Reais.String() + " at " + strconv.FormatInt(r.At.Unix(), 10)
		} else if !errors.Is(err, errAnswer) {
			t.Errorf("%s: %v", c.body, err)
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.body, got, c.want)
		}
	}
}

func TestRate(t *testing.T) {
	t.Parallel()
	var asked *http.Request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r
		switch r.URL.Path {
		case "/ok/json/last/USD-BRL":
			_, _ = w.Write([]byte(`{"USDBRL":{"code":"USD","codein":"BRL","bid":"5.4321","timestamp":"1794000000"}}`))
		case "/moved/json/last/USD-BRL":
			http.Redirect(w, r, "/ok/json/last/USD-BRL", http.StatusFound)
		default:
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	t.Cleanup(server.Close)
	for path, works := range map[string]bool{"/ok/": true, "/moved": false, "/busy": false} {
		s, err := New(Config{Name: "test", Driver: driverAwesome, BaseURL: server.URL + path, APIKey: "secret"})
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Rate(t.Context())
		if (err == nil) != works || (works && r.Reais.String() != "5.4321") || asked.Header.Get("X-Api-Key") != "secret" {
			t.Errorf("%s: %v, %v", path, r, err)
		}
	}
	for _, c := range []Config{{Driver: "oracle"}, {Driver: driverAwesome, BaseURL: "ftp://x"}, {Driver: driverCoinGecko, BaseURL: "https://me:pw@x"}} {
		if _, err := New(c); err == nil {
			t.Errorf("%+v works", c)
		}
	}
	for _, c := range Public {
		if s, err := New(c); err != nil || s.Name() != c.Name {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
}
