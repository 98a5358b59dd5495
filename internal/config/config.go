// Package config says what an operator can set, reads it from flags, PONTE_* variables and a YAML file, in that order of
// weight, and refuses what cannot work before anything starts.
package config

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"time"
)

// Store says where the data is. Every command has it.
type Store struct {
	Database string `help:"sqlite:PATH or postgres://USER@HOST/NAME. Default: sqlite under --data." placeholder:"URL" env:"PONTE_DATABASE"`
	Data     string `help:"Folder for everything that is kept in files." default:"./ponte-data" type:"path" env:"PONTE_DATA"`
	Config   string `help:"YAML file with the same names as the flags." placeholder:"FILE" type:"path" env:"PONTE_CONFIG"`
	SealKey  string `help:"32 bytes in base64 or hex that seal secrets at rest. Default: a file beside the SQLite database." placeholder:"KEY" env:"PONTE_SEAL_KEY"`
}

// URL returns the database's address.
func (s Store) URL() string {
	if s.Database != "" {
		return s.Database
	}
	return "sqlite:" + filepath.Join(s.Data, "ponte.db")
}

// SQLitePath returns the database's file, or "" when it is not SQLite.
func (s Store) SQLitePath() string {
	path, _ := strings.CutPrefix(s.URL(), "sqlite:")
	if path == s.URL() {
		return ""
	}
	return path
}

// Redacted returns the database's address without its password.
func (s Store) Redacted() string {
	if s.SQLitePath() != "" {
		return s.URL()
	}
	u, err := url.Parse(s.URL())
	if err != nil || u.Scheme == "" { // whatever it is, it may hold a password
		return secretShown
	}
	if _, has := u.User.Password(); has {
		u.User = url.UserPassword(u.User.Username(), secretShown)
	}
	for key := range u.Query() {
		if strings.Contains(strings.ToLower(key), "password") {
			u.RawQuery = "" // libpq allows it there too
		}
	}
	return strings.ReplaceAll(u.String(), url.QueryEscape(secretShown), secretShown)
}

const secretShown = "***"

// LogValue keeps the password out of logs.
func (s Store) LogValue() slog.Value { return slog.StringValue(s.Redacted()) }

// SimulatorListen is where the simulator inside is reached unless the settings say otherwise.
const SimulatorListen = "127.0.0.1:8090"

// Serve is what the server needs.
type Serve struct {
	Listen      string   `help:"Address of the API." default:"127.0.0.1:8080" placeholder:"HOST:PORT" env:"PONTE_LISTEN"`
	AdminListen string   `help:"Address of /metrics and pprof; off for none." default:"127.0.0.1:9090" placeholder:"HOST:PORT" env:"PONTE_ADMIN_LISTEN"`
	TLSCert     string   `name:"tls-cert" help:"Certificate chain, PEM. Read again when it changes." placeholder:"FILE" type:"path" env:"PONTE_TLS_CERT"`
	TLSKey      string   `name:"tls-key" help:"Its private key, PEM." placeholder:"FILE" type:"path" env:"PONTE_TLS_KEY"`
	ACMEDomain  []string `name:"acme-domain" help:"Get certificates for these domains by ACME." placeholder:"DOMAIN" env:"PONTE_ACME_DOMAIN"`
	ACMEEmail   string   `name:"acme-email" help:"Whom the ACME authority may write to." placeholder:"ADDRESS" env:"PONTE_ACME_EMAIL"`
	ACMECA      string   `name:"acme-ca" help:"Directory of the ACME authority. Default: Let's Encrypt." placeholder:"URL" env:"PONTE_ACME_CA"`
	ACMERoots   string   `name:"acme-roots" help:"Roots to trust for a private ACME authority, PEM." placeholder:"FILE" type:"path" env:"PONTE_ACME_ROOTS"`

	TrustedProxy []netip.Prefix `help:"Networks of the TLS proxies in front; only their X-Forwarded-* count." placeholder:"CIDR" env:"PONTE_TRUSTED_PROXY"`

	PublicURL string `name:"public-url" help:"Where acquirers reach this server; needed with real ones. Default: where it listens." placeholder:"URL" env:"PONTE_PUBLIC_URL"`

	Simulator       string `help:"Use the ponte simulator that runs at this URL instead of one inside." placeholder:"URL" env:"PONTE_SIMULATOR"`
	SimulatorListen string `help:"Address of the simulator inside, its page and its controls." default:"127.0.0.1:8090" placeholder:"HOST:PORT" env:"PONTE_SIMULATOR_LISTEN"`

	SimulatorSettleAfter string `help:"How long after they were sent payouts settle by themselves in the simulator inside, or manual." default:"1s" placeholder:"DURATION" env:"PONTE_SIMULATOR_SETTLE_AFTER"`

	KeyRetention time.Duration `help:"How long an Idempotency-Key is remembered." default:"168h" env:"PONTE_KEY_RETENTION"`

	LogFormat    string        `help:"text or json." enum:"text,json" default:"text" env:"PONTE_LOG_FORMAT"`
	LogLevel     slog.Level    `help:"debug, info, warn or error." default:"info" env:"PONTE_LOG_LEVEL"`
	DrainTimeout time.Duration `help:"How long a stopping server waits for requests under way." default:"20s" env:"PONTE_DRAIN_TIMEOUT"`
}

// HasTLS reports whether the API's own listener speaks TLS.
func (s Serve) HasTLS() bool { return s.TLSCert != "" || len(s.ACMEDomain) > 0 }

// HasAdmin reports whether there is an admin listener.
func (s Serve) HasAdmin() bool { return s.AdminListen != "off" }

const (
	drainMax        = 10 * time.Minute
	keyRetentionMin = time.Hour            // or a client that tries again after an outage would be charged twice
	keyRetentionMax = 366 * 24 * time.Hour // each key that is remembered is a row
)

// Validate refuses what cannot work or would put keys and money on an open wire.
func (s Serve) Validate() error {
	host, _, err := net.SplitHostPort(s.Listen)
	if err != nil {
		return fmt.Errorf("--listen %q: want HOST:PORT, such as 127.0.0.1:8080", s.Listen)
	}
	switch {
	case !isBaseURL(s.PublicURL):
		return fmt.Errorf("--public-url %q: want a URL such as https://pay.example.com", s.PublicURL)
	case (s.TLSCert == "") != (s.TLSKey == ""):
		return errors.New("--tls-cert and --tls-key go together")
	case s.TLSCert != "" && len(s.ACMEDomain) > 0:
		return errors.New("--tls-cert and --acme-domain exclude each other")
	case len(s.ACMEDomain) == 0 && (s.ACMEEmail != "" || s.ACMECA != "" || s.ACMERoots != ""):
		return errors.New("--acme-email, --acme-ca and --acme-roots go with --acme-domain")
	case !s.HasTLS() && !isLoopback(host) && len(s.TrustedProxy) == 0:
		return fmt.Errorf("--listen %s would serve the API in plain text: give --tls-cert and --tls-key, or --acme-domain, or --trusted-proxy when a TLS proxy stands in front", s.Listen)
	case s.DrainTimeout < 0 || s.DrainTimeout > drainMax:
		return fmt.Errorf("--drain-timeout %v: want 0s to %v", s.DrainTimeout, drainMax)
	case s.KeyRetention != 0 && (s.KeyRetention < keyRetentionMin || s.KeyRetention > keyRetentionMax):
		return fmt.Errorf("--key-retention %v: want %v to %v", s.KeyRetention, keyRetentionMin, keyRetentionMax)
	}
	if s.TLSCert != "" {
		if _, err := tls.LoadX509KeyPair(s.TLSCert, s.TLSKey); err != nil {
			return fmt.Errorf("--tls-cert and --tls-key: %w", err)
		}
	}
	if s.HasAdmin() {
		host, _, err := net.SplitHostPort(s.AdminListen)
		if err != nil || !isLoopback(host) {
			return fmt.Errorf("--admin-listen %q: want a loopback HOST:PORT, because it asks for no key, or off", s.AdminListen)
		}
	}
	return CheckSimulatorListen("--simulator-listen", s.SimulatorListen)
}

// CheckSimulatorListen refuses an address of the simulator's page that others than this machine reach. flag is what gave it.
func CheckSimulatorListen(flag, address string) error {
	host, _, err := net.SplitHostPort(address)
	switch {
	case err != nil:
		return fmt.Errorf("%s %q: want HOST:PORT, such as 127.0.0.1:8090", flag, address)
	case !isLoopback(host):
		return fmt.Errorf("%s %s would serve the simulator in plain text, and it asks for no key: want a loopback address, such as 127.0.0.1:8090", flag, address)
	}
	return nil
}

// isBaseURL reports whether text is the beginning of URLs; "" is none, and will do.
func isBaseURL(text string) bool {
	u, err := url.Parse(text)
	return text == "" || (err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && u.User == nil && u.RawQuery == "" && u.Fragment == "")
}

// isLoopback reports whether host can only be reached from this machine.
func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}
