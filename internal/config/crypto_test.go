package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ponte-pay/ponte/internal/config"
)

func TestCrypto(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write := func(name, content string) string {
		t.Helper()
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	secret := write("secret", "from a file\n")
	whole := write("whole.yaml", `
listen: 127.0.0.1:9999
crypto:
  name: coins
  driver: nowpayments
  api_key_file: `+secret+`
  email: me@example.com
  password: pw
  totp_secret_file: `+secret+`
  ipn_secret: ipn
  settlement: usdtbsc
rates:
  - {name: one, driver: awesomeapi}
  - {name: two, driver: coingecko, base_url: "https://example.com", api_key_file: "`+secret+`"}
`)
	got, rates, err := config.Store{Config: whole}.Crypto()
	if err != nil {
		t.Fatal(err)
	}
	want := &config.Crypto{
		Name: "coins", Driver: "nowpayments", APIKey: "from a file", APIKeyFile: secret, Email: "me@example.com", Password: "pw",
		TOTPSecret: "from a file", TOTPSecretFile: secret, IPNSecret: "ipn", Settlement: "usdtbsc",
	}
	wantRates := []config.RateSource{
		{Name: "one", Driver: "awesomeapi"},
		{Name: "two", Driver: "coingecko", BaseURL: "https://example.com", APIKey: "from a file", APIKeyFile: secret},
	}
	if diff := cmp.Diff(want, got) + cmp.Diff(wantRates, rates); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, path := range []string{"", write("empty.yaml", ""), write("other.yaml", "listen: 127.0.0.1:1\n")} {
		if got, rates, err := (config.Store{Config: path}).Crypto(); got != nil || rates != nil || err != nil {
			t.Errorf("%q: %v, %v, %v", path, got, rates, err)
		}
	}
	for content, word := range map[string]string{
		"crypto: {colour: red}":              "colour",
		"rates: [{name: x, price: 5}]":       "price",
		"crypto: {api_key_file: /nowhere/x}": "/nowhere/x",
	} {
		if _, _, err := (config.Store{Config: write("bad.yaml", content)}).Crypto(); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v", content, err)
		}
	}
}
