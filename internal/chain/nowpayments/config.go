package nowpayments

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base32"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/ponte-pay/ponte/internal/chain"
	"github.com/ponte-pay/ponte/internal/wire"
)

// Config says where the provider is and who we are to it. It prints without its secrets.
type Config struct {
	Name    string // what operators call it
	BaseURL string // with its version, such as https://api.nowpayments.io/v1

	APIKey     string
	Email      string // of the dashboard's login, which payouts and lists need; in the case that it was registered in
	Password   string
	TOTPSecret string // base32, of the second factor that confirms payouts
	IPNSecret  string // that notifications are signed with

	Settlement string // code of the coin that payments are settled in, such as usdtbsc; it must be USDT

	// CurrenciesAge is how old a list of currencies may be, in business time. 0 means that it is always asked for.
	CurrenciesAge time.Duration
	// WritesPerSecond is how often something may be created. 0 means that only the provider sets a bound.
	WritesPerSecond int

	RootCAs   *x509.CertPool    // whom the provider's certificate may come from; nil means whom the system trusts
	Transport http.RoundTripper // replaces the connections; nil means those
}

// What a provider bears that says nothing itself: for Config.CurrenciesAge and Config.WritesPerSecond.
const (
	CurrenciesAgeUsual   = 5 * time.Minute
	WritesPerSecondUsual = 3
)

// String returns what may be logged.
func (c Config) String() string {
	return fmt.Sprintf("%s at %s, key %s", c.Name, c.BaseURL, secretShown)
}

// GoString returns what may be logged, so that %#v shows no secret either.
func (c Config) GoString() string { return c.String() }

// LogValue keeps the secrets out of logs.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }

// MarshalText keeps the secrets out of JSON.
func (c Config) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

const secretShown = "***"

// validate refuses what cannot work or would put secrets on an open wire.
func (c Config) validate() error {
	for _, required := range []struct{ name, value string }{
		{"name", c.Name},
		{"API key", c.APIKey},
		{"e-mail", c.Email},
		{"password", c.Password},
		{"TOTP secret", c.TOTPSecret},
		{"IPN secret", strings.TrimSpace(c.IPNSecret)},
		{"settlement coin", c.Settlement},
	} {
		if required.value == "" {
			return fmt.Errorf("nowpayments: provider %q has no %s", c.Name, required.name)
		}
	}
	if coin, known := chain.FindCoin(strings.ToLower(c.Settlement)); !known || !coin.IsUSDT() {
		return fmt.Errorf("nowpayments: provider %s: settlement in %q: it must be a code of USDT", c.Name, c.Settlement)
	}
	if _, err := c.totpKey(); err != nil {
		return fmt.Errorf("nowpayments: provider %s: the TOTP secret is not base32", c.Name)
	}
	if err := validateURL(c.BaseURL); err != nil {
		return fmt.Errorf("nowpayments: provider %s: %w", c.Name, err)
	}
	return nil
}

// totpKey reads the secret as people copy it: in any case, with spaces, with or without padding.
func (c Config) totpKey() ([]byte, error) {
	text := strings.TrimRight(strings.ToUpper(strings.ReplaceAll(c.TOTPSecret, " ", "")), "=")
	return base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(text)
}

func validateURL(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "":
		return errors.New("the address is no URL") // which it is not said: it may hold a password
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("the address at %s must have no user, query or fragment", u.Host)
	case u.Scheme == "https", u.Scheme == "http" && isLoopback(u.Hostname()):
		return nil
	default:
		return fmt.Errorf("the address %s must begin with https://", address)
	}
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || (err == nil && ip.IsLoopback())
}

// Bounds of the connections.
const (
	dialTimeMax      = 3 * time.Second
	keepAliveEvery   = 15 * time.Second
	handshakeTimeMax = 3 * time.Second
	idleTimeMax      = 45 * time.Second // below the minute after which many servers hang up
	idleConnsMax     = 32
	connsMax         = 128
	headerBytesMax   = 64 << 10
)

// transport returns the connections to the provider. They speak HTTP/1.1, so that what was sent over one is known.
// Whatever proxy the environment names is not used: secrets go where the settings say.
func (c Config) transport() http.RoundTripper {
	if c.Transport != nil {
		return c.Transport
	}
	return &wire.Transport{
		Dial:             (&net.Dialer{Timeout: dialTimeMax, KeepAlive: keepAliveEvery}).DialContext,
		TLS:              &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: c.RootCAs},
		HandshakeTimeMax: handshakeTimeMax,
		ConnsMax:         connsMax,
		IdleConnsMax:     idleConnsMax,
		IdleTimeMax:      idleTimeMax,
		HeaderBytesMax:   headerBytesMax,
	}
}
