package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/config"
)

// newTLS returns how the main listener speaks TLS, or nil when it does not.
func newTLS(ctx context.Context, store config.Store, c config.Serve, log *slog.Logger) (*tls.Config, error) {
	switch {
	case c.TLSCert != "":
		files := &certificateFiles{cert: c.TLSCert, key: c.TLSKey}
		if _, err := files.get(nil); err != nil {
			return nil, err
		}
		return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: files.get, NextProtos: []string{"h2", "http/1.1"}}, nil
	case len(c.ACMEDomain) > 0:
		return newACME(ctx, store, c, log)
	}
	return nil, nil //nolint:nilnil // plain text on loopback or behind a proxy
}

// certificateFiles is a certificate that is read again when its files change, so that renewing it needs no restart.
type certificateFiles struct {
	cert, key string

	mu      sync.Mutex
	loaded  *tls.Certificate
	changed time.Time // modification time of the certificate that is loaded
}

func (f *certificateFiles) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := os.Stat(f.cert)
	if err == nil && f.loaded != nil && info.ModTime().Equal(f.changed) {
		return f.loaded, nil
	}
	if err == nil {
		var pair tls.Certificate
		if pair, err = tls.LoadX509KeyPair(f.cert, f.key); err == nil {
			f.loaded, f.changed = &pair, info.ModTime()
			return f.loaded, nil
		}
	}
	if f.loaded != nil {
		return f.loaded, nil // half-way through a renewal, the old one still serves
	}
	return nil, fmt.Errorf("--tls-cert: %w", err)
}

// newACME gets and renews certificates, keeping them under the data folder. The challenges are answered on the main
// listener, which therefore has to be reachable as port 443.
func newACME(ctx context.Context, store config.Store, c config.Serve, log *slog.Logger) (*tls.Config, error) {
	logger := zap.New(acmeLog{log: log})
	var magic *certmagic.Config
	cache := certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return magic, nil },
		Logger:           logger,
	})
	magic = certmagic.New(cache, certmagic.Config{
		Storage: &certmagic.FileStorage{Path: filepath.Join(store.Data, "acme")},
		Logger:  logger,
	})
	issuer := certmagic.ACMEIssuer{
		CA: certmagic.LetsEncryptProductionCA, Email: c.ACMEEmail, Agreed: true,
		DisableHTTPChallenge: true, // the API has no plain-text listener to answer it on
		Logger:               logger,
	}
	if c.ACMECA != "" {
		issuer.CA = c.ACMECA
	}
	if c.ACMERoots != "" {
		var err error
		if issuer.TrustedRoots, err = readRoots(c.ACMERoots); err != nil {
			return nil, fmt.Errorf("--acme-roots: %w", err)
		}
	}
	magic.Issuers = []certmagic.Issuer{certmagic.NewACMEIssuer(magic, issuer)}
	if err := magic.ManageAsync(ctx, c.ACMEDomain); err != nil {
		return nil, fmt.Errorf("--acme-domain: %w", err)
	}
	t := magic.TLSConfig()
	t.MinVersion = tls.VersionTLS12
	t.NextProtos = append([]string{"h2", "http/1.1"}, t.NextProtos...)
	return t, nil
}

// readRoots reads certificates that vouch for others.
func readRoots(path string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s has no certificate in it", path)
	}
	return roots, nil
}

// acmeLog writes what certmagic logs where everything else is logged.
type acmeLog struct {
	log    *slog.Logger
	fields []zapcore.Field
}

func (l acmeLog) Enabled(level zapcore.Level) bool {
	return l.log.Enabled(context.Background(), slogLevel(level))
}

func (l acmeLog) With(fields []zapcore.Field) zapcore.Core {
	return acmeLog{l.log, append(slices.Clip(l.fields), fields...)}
}

func (l acmeLog) Check(e zapcore.Entry, c *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if l.Enabled(e.Level) {
		return c.AddCore(e, l)
	}
	return c
}

func (l acmeLog) Write(e zapcore.Entry, fields []zapcore.Field) error {
	encoder := zapcore.NewMapObjectEncoder()
	for _, f := range append(slices.Clip(l.fields), fields...) {
		f.AddTo(encoder)
	}
	l.log.LogAttrs(context.Background(), slogLevel(e.Level), "acme", slog.String("event", e.Message), slog.Any("fields", encoder.Fields))
	return nil
}

func (l acmeLog) Sync() error { return nil }

// slogLevel maps zap's levels, which are a quarter as far apart.
func slogLevel(level zapcore.Level) slog.Level { return slog.Level(level) * 4 }

// CertificateLife returns for how long the certificate in a PEM file is still valid, or an error when it is not.
func CertificateLife(path string) (time.Duration, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	block, _ := pem.Decode(content)
	if block == nil {
		return 0, fmt.Errorf("%s: no certificate in it", path)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	now := clock.New(nil).Real()
	if now.Before(cert.NotBefore) || now.After(cert.NotAfter) {
		return 0, fmt.Errorf("%s is valid from %v to %v only", path, cert.NotBefore, cert.NotAfter)
	}
	return cert.NotAfter.Sub(now), nil
}
