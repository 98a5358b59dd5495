package app

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/http"
	"time"

	"github.com/ponte-pay/ponte/internal/callback"
	"github.com/ponte-pay/ponte/internal/clock"
)

// Drain makes the server serve nothing more, as a signal does.
func (s *Server) Drain() { s.node.Drain() }

// Ready returns why the server does not serve, or nil.
func (s *Server) Ready() error { return s.node.Ready() }

// UnderWay returns how many requests are being served.
func (s *Server) UnderWay() int64 { return s.underWay.Load() }

// Look makes one step of the node alone, which finds out whether the server may serve.
func (s *Server) Look(ctx context.Context) { _, _ = s.node.Step(ctx) }

// Admin returns what the admin listener serves.
func (s *Server) Admin() http.Handler { return s.metrics.handler() }

// CertificateFiles returns how a certificate in files is read.
func CertificateFiles(cert, key string) func() (*tls.Certificate, error) {
	files := &certificateFiles{cert: cert, key: key}
	return func() (*tls.Certificate, error) { return files.get(nil) }
}

// Loop runs a step as the server runs its own.
func Loop(ctx context.Context, c *clock.Clock, log *slog.Logger, step func(context.Context) (bool, error)) {
	loop{name: "test", every: time.Hour, step: step}.run(ctx, c, log)
}

// CallbackPath returns where an acquirer's notifications arrive.
func (b *Bank) CallbackPath(acquirer string) string {
	for _, s := range b.senders {
		if s.Name == acquirer {
			return callback.Path(s.Name, s.Secret)
		}
	}
	return ""
}
