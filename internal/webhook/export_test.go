package webhook

import (
	"context"
	"net"
	"net/http"

	"github.com/ponte-pay/ponte/internal/wire"
)

// Fetch connects as a delivery does, with names resolved by the server at an address.
func Fetch(ctx context.Context, t Targets, names, url string) error {
	transport := newTransport(Settings{Timeout: TimeoutDefault, Targets: t})
	dialer := newDialer(Settings{Timeout: TimeoutDefault, Targets: t})
	dialer.Resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", names)
	}}
	transport.(*wire.Transport).Dial = dialer.DialContext
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, http.NoBody)
	if err != nil {
		return err
	}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		return err
	}
	return answer.Body.Close()
}
