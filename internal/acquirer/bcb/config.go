package bcb

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	pkcs12 "software.sslmate.com/src/go-pkcs12"

	"github.com/ponte-pay/ponte/internal/wire"
)

// Config says where an acquirer is and who we are to it. It prints without its secrets.
type Config struct {
	Name     string // what operators call it
	BaseURL  string // of the API, with its base path, such as https://pix.example.com/v2
	TokenURL string // of the OAuth2 server

	ClientID     string
	ClientSecret string
	TokenBody    TokenBody
	Key          string // the Pix key (chave) that charges pay

	Certificate Certificate    // shown to the acquirer; zero means none
	RootCAs     *x509.CertPool // whom the acquirer's certificate may come from; nil means whom the system trusts

	// ReceiverName and ReceiverCity are who is paid, for the codes of charges whose acquirer sends none. "" means that
	// such a charge is refused.
	ReceiverName string
	ReceiverCity string

	Transport http.RoundTripper // replaces the connections that the other settings describe; nil means those
}

// TokenBody is how an OAuth2 server wants to be asked.
type TokenBody int

const (
	TokenForm TokenBody = iota // application/x-www-form-urlencoded, as the standard says
	TokenJSON                  // application/json
)

// Certificate is a client certificate with its private key: two PEM texts, or one PKCS#12 file.
type Certificate struct {
	CertPEM  []byte // the certificate and what it was signed with, leaf first
	KeyPEM   []byte
	PKCS12   []byte // often called .p12 or .pfx
	Password string // of the PKCS#12 file; often ""
}

// String returns what may be logged.
func (c Config) String() string {
	return fmt.Sprintf("%s at %s, client %s, secret %s", c.Name, c.BaseURL, c.ClientID, secretShown)
}

// GoString returns what may be logged, so that %#v shows no secret either.
func (c Config) GoString() string { return c.String() }

// LogValue keeps the secrets out of logs.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }

// MarshalText keeps the secrets out of JSON.
func (c Config) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// String returns what may be logged.
func (c Certificate) String() string { return secretShown }

// GoString returns what may be logged.
func (c Certificate) GoString() string { return secretShown }

// MarshalText keeps the secrets out of JSON.
func (c Certificate) MarshalText() ([]byte, error) { return []byte(secretShown), nil }

const secretShown = "***"

// validate refuses what cannot work or would put secrets on an open wire.
func (c Config) validate() error {
	for _, required := range []struct{ name, value string }{
		{"name", c.Name}, {"client id", c.ClientID}, {"client secret", c.ClientSecret}, {"Pix key", c.Key},
	} {
		if required.value == "" {
			return fmt.Errorf("bcb: acquirer %q has no %s", c.Name, required.name)
		}
	}
	for _, address := range []string{c.BaseURL, c.TokenURL} {
		if err := validateURL(address); err != nil {
			return fmt.Errorf("bcb: acquirer %s: %w", c.Name, err)
		}
	}
	return nil
}

func validateURL(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "":
		return errors.New("an address is no URL") // which it is not said: it may hold a password
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

// Bounds of the connections to one acquirer.
const (
	dialTimeMax      = 3 * time.Second
	keepAliveEvery   = 15 * time.Second
	handshakeTimeMax = 3 * time.Second
	idleTimeMax      = 45 * time.Second // below the minute after which many servers hang up
	idleConnsMax     = 128
	connsMax         = 512
	headerBytesMax   = 64 << 10
)

// transport returns the connections to the acquirer.
//
// They speak HTTP/1.1: there one lost connection is one lost request and not all of them, and what was sent over it is
// known exactly. Whatever proxy the environment names is not used: secrets go where the settings say.
func (c Config) transport() (http.RoundTripper, error) {
	if c.Transport != nil {
		if !c.Certificate.isZero() || c.RootCAs != nil {
			return nil, fmt.Errorf("bcb: acquirer %s: a transport of its own excludes certificates", c.Name)
		}
		return c.Transport, nil
	}
	security := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: c.RootCAs}
	if !c.Certificate.isZero() {
		pair, err := c.Certificate.load()
		if err != nil {
			return nil, fmt.Errorf("bcb: acquirer %s: certificate: %w", c.Name, err)
		}
		security.Certificates = []tls.Certificate{pair}
	}
	return &wire.Transport{
		Dial:             (&net.Dialer{Timeout: dialTimeMax, KeepAlive: keepAliveEvery}).DialContext,
		TLS:              security,
		HandshakeTimeMax: handshakeTimeMax,
		ConnsMax:         connsMax,
		IdleConnsMax:     idleConnsMax,
		IdleTimeMax:      idleTimeMax,
		HeaderBytesMax:   headerBytesMax,
	}, nil
}

func (c Certificate) isZero() bool {
	return len(c.CertPEM) == 0 && len(c.KeyPEM) == 0 && len(c.PKCS12) == 0
}

// load reads the certificate, whichever form it has. Its errors say nothing of the key or the password.
func (c Certificate) load() (tls.Certificate, error) {
	switch {
	case len(c.PKCS12) == 0:
		return tls.X509KeyPair(c.CertPEM, c.KeyPEM)
	case len(c.CertPEM) > 0 || len(c.KeyPEM) > 0:
		return tls.Certificate{}, errors.New("PEM and PKCS#12 exclude each other")
	}
	key, leaf, chain, err := pkcs12.DecodeChain(c.PKCS12, c.Password)
	if err != nil {
		return tls.Certificate{}, err
	}
	pair := tls.Certificate{PrivateKey: key, Leaf: leaf, Certificate: [][]byte{leaf.Raw}}
	for _, issuer := range chain {
		pair.Certificate = append(pair.Certificate, issuer.Raw)
	}
	signer, isSigner := key.(crypto.Signer)
	public, isKey := leaf.PublicKey.(interface {
		Equal(key crypto.PublicKey) bool
	})
	if !isSigner || !isKey || !public.Equal(signer.Public()) {
		return tls.Certificate{}, errors.New("the private key is not the certificate's")
	}
	return pair, nil
}

// joinURL appends a path to the base, which may end with a slash.
func joinURL(base, path string) string { return strings.TrimSuffix(base, "/") + path }
