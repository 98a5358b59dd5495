package efi_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/acquirer/acquirertest"
	"github.com/ponte-pay/ponte/internal/acquirer/bcb"
	"github.com/ponte-pay/ponte/internal/acquirer/efi"
	"github.com/ponte-pay/ponte/internal/clock"
)

func open(t *testing.T, s acquirertest.Setup) *efi.Client {
	t.Helper()
	c, err := efi.New(efi.Config{
		Name: s.Account.Name, Host: s.Account.BaseURL + "/", ClientID: s.Account.ClientID, ClientSecret: s.Account.ClientSecret, Key: s.Account.Key,
	}, s.Clock)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestSuite(t *testing.T) {
	t.Parallel()
	acquirertest.Run(t, func(t *testing.T, s acquirertest.Setup) acquirer.Acquirer { t.Helper(); return open(t, s) })
}

func TestPayerSuite(t *testing.T) {
	t.Parallel()
	acquirertest.RunPayer(t, func(t *testing.T, s acquirertest.Setup) acquirer.Payer { t.Helper(); return open(t, s) })
}

func TestJudgeSuite(t *testing.T) {
	t.Parallel()
	acquirertest.RunJudge(t, func(t *testing.T, s acquirertest.Setup) acquirer.Judge { t.Helper(); return open(t, s) })
}

func TestSetWebhook(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, address string
		mutual        bool
		want, skip    string // want is "" where nothing is to be sent
	}{
		{"told not to check", "https://ponte.example/hook", false, "https://ponte.example/hook?ignorar=", "true"},
		{"with a query", "https://ponte.example/hook?hmac=b&a=1", false, "https://ponte.example/hook?hmac=b&a=1&ignorar=", "true"},
		{"checked", "https://ponte.example/hook", true, "https://ponte.example/hook", ""},
		{"no URL", "https://ponte.example/%zz?hmac=hidden", false, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var line, body, skip string
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				sent, _ := io.ReadAll(r.Body)
				if r.URL.Path == "/oauth/token" {
					if string(sent) != `{"grant_type":"client_credentials"}` || r.Header.Get("Content-Type") != "application/json" {
						t.Errorf("asked for a token by %s", sent)
					}
					_, _ = io.WriteString(w, `{"access_token":"token","token_type":"Bearer","expires_in":3600}`)
					return
				}
				line, body, skip = r.Method+" "+r.URL.Path, string(sent), r.Header.Get("x-skip-mtls-checking")
				w.WriteHeader(http.StatusCreated)
			}))
			t.Cleanup(s.Close)
			c, err := efi.New(efi.Config{Name: "efi", Host: s.URL, ClientID: "id", ClientSecret: "secret", Key: "pix@loja.example", WebhookMTLS: tt.mutual}, clock.New(nil))
			if err != nil {
				t.Fatal(err)
			}
			err = c.SetWebhook(t.Context(), tt.address)
			if tt.want == "" {
				if !acquirer.IsRefused(err) || strings.Contains(err.Error(), "hidden") || line != "" {
					t.Errorf("got %v, sent %s", err, line)
				}
				return
			}
			sent, _ := json.Marshal(map[string]string{"webhookUrl": tt.want})
			var got, want map[string]string
			_ = json.Unmarshal([]byte(body), &got)
			_ = json.Unmarshal(sent, &want)
			if err != nil || line != "PUT /v2/webhook/pix@loja.example" || got["webhookUrl"] != want["webhookUrl"] || skip != tt.skip {
				t.Errorf("%v: Efí saw %s %s, skip %q", err, line, body, skip)
			}
		})
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	config := efi.Config{
		Name: "efi", ClientID: "id", ClientSecret: "the-secret", Key: "pix@loja.example",
		Certificate: bcb.Certificate{PKCS12: []byte("the-key"), Password: "the-password"},
	}
	encoded, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{fmt.Sprint(config), fmt.Sprintf("%+v", config), fmt.Sprintf("%#v", config), fmt.Sprintf("%v", &config), string(encoded), config.LogValue().String()} {
		if strings.Contains(text, "the-") || !strings.Contains(text, "***") || !strings.Contains(text, efi.Production) {
			t.Errorf("it prints as %s", text)
		}
	}
	if _, err := efi.New(config, clock.New(nil)); err == nil || strings.Contains(err.Error(), "the-") {
		t.Errorf("a certificate that is none: %v", err)
	}
	config.Certificate = bcb.Certificate{}
	c, err := efi.New(config, clock.New(nil))
	if err != nil || strings.Contains(fmt.Sprintf("%v %+v %#v", c, c, c), "the-") {
		t.Errorf("it prints as %#v, %v", c, err)
	}
}
