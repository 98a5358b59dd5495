// Package efi is a driver for Efí: the Central Bank's API Pix by package bcb, with Efí's own ways on top.
package efi

import (
	"cmp"
	"context"
	"crypto/x509"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/acquirer/bcb"
	"github.com/ponte-pay/ponte/internal/clock"
)

// Where Efí is.
const (
	Production = "https://pix.api.efipay.com.br"
	Sandbox    = "https://pix-h.api.efipay.com.br"
)

// Config says who we are to Efí. It prints without its secrets.
type Config struct {
	Name         string // what operators call it
	Host         string // such as Sandbox; "" means Production
	ClientID     string
	ClientSecret string
	Key          string          // the Pix key (chave) that charges pay
	Certificate  bcb.Certificate // Efí gives it as a PKCS#12 file without a password
	RootCAs      *x509.CertPool  // whom Efí's certificate may come from; nil means whom the system trusts

	// WebhookMTLS says that our listener for notifications asks for Efí's certificate, which Efí then checks. Otherwise
	// Efí is told not to check, and the notification's address must hold what nobody else can know.
	WebhookMTLS bool

	Transport http.RoundTripper // replaces the connections that the other settings describe; nil means those
}

// String returns what may be logged.
func (c Config) String() string { return c.bcb().String() }

// GoString returns what may be logged.
func (c Config) GoString() string { return c.String() }

// LogValue keeps the secrets out of logs.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }

// MarshalText keeps the secrets out of JSON.
func (c Config) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// host is where Efí is, without a slash at its end.
func (c Config) host() string { return strings.TrimSuffix(cmp.Or(c.Host, Production), "/") }

func (c Config) bcb() bcb.Config {
	host := c.host()
	return bcb.Config{
		Name: c.Name, BaseURL: host + "/v2", TokenURL: host + "/oauth/token", TokenBody: bcb.TokenJSON,
		ClientID: c.ClientID, ClientSecret: c.ClientSecret, Key: c.Key,
		Certificate: c.Certificate, RootCAs: c.RootCAs, Transport: c.Transport,
	}
}

// Client is Efí. Make it with [New].
type Client struct {
	*bcb.Client
	host        string
	key         string // our own
	webhookMTLS bool
}

var (
	_ acquirer.Payer = (*Client)(nil)
	_ acquirer.Judge = (*Client)(nil)
)

// New returns the account at Efí that config describes. Nothing is sent yet. It fails when config cannot work.
func New(config Config, clock *clock.Clock) (*Client, error) {
	client, err := bcb.New(config.bcb(), clock)
	if err != nil {
		return nil, err
	}
	return &Client{client, config.host(), config.Key, config.WebhookMTLS}, nil
}

const (
	skipCheckHeader = "X-Skip-Mtls-Checking"
	ignoreSuffix    = "ignorar=" // swallows the /pix that Efí puts behind every address
)

// SetWebhook tells Efí where to send notifications. Efí answers only after it has called the address, which must work by
// then. See [acquirer.Acquirer].
func (c *Client) SetWebhook(ctx context.Context, address string) error {
	if c.webhookMTLS {
		return c.RegisterWebhook(ctx, address, nil)
	}
	u, err := url.Parse(address)
	if err != nil {
		// Not the address itself: it may hold the secret that keeps strangers out.
		return &acquirer.Error{Acquirer: c.Name(), Operation: "webhook.set", Outcome: acquirer.Refused, Class: acquirer.Business, Message: "the address is no URL"}
	}
	// By hand, because Encode would sort it away from the end.
	if u.RawQuery != "" {
		u.RawQuery += "&"
	}
	u.RawQuery += ignoreSuffix
	return c.RegisterWebhook(ctx, u.String(), http.Header{skipCheckHeader: {"true"}})
}
