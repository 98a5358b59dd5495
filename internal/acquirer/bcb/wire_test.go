package bcb

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/wire"
)

// quiet is for servers whose clients are meant to fail.
var quiet = log.New(io.Discard, "", 0)

// shut is an address at which nobody listens.
func shut(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(nil)
	s.Close()
	return s.URL
}

// TestWhatTheWireProves is about connections that fail before, while and after a charge is sent. Tokens come from elsewhere.
func TestWhatTheWireProves(t *testing.T) {
	t.Parallel()
	tokens := newBank(t, nil, nil)
	serve := func(h http.HandlerFunc) string {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		return s.URL
	}
	hijack := func(answer string, linger int) string {
		return serve(func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = conn.Write([]byte(answer))
			_ = conn.(*net.TCPConn).SetLinger(linger)
			_ = conn.Close()
		})
	}
	untrusted := httptest.NewUnstartedServer(nil)
	untrusted.Config.ErrorLog = quiet
	untrusted.StartTLS()
	t.Cleanup(untrusted.Close)
	plain := serve(always(reply{201, cobBody("ATIVA")}))

	tests := []struct {
		name, url string
		transport http.RoundTripper
		want      string
	}{
		{"nobody listens", shut(t), nil, "refused down"},
		{"no such host", "https://nobody.invalid", dialer(&net.DNSError{Err: "no such host", IsNotFound: true}), "refused down"},
		{"a certificate that we do not trust", untrusted.URL, nil, "refused credentials"},
		{"TLS where there is none", strings.Replace(plain, "http:", "https:", 1), nil, "refused down"},
		{"a dial that hangs", "https://far.example", dialer(nil), "refused timeout"},
		{"closed without an answer", hijack("", -1), nil, "unknown down"},
		{"reset without an answer", hijack("", 0), nil, "unknown down"},
		{"reset within the answer", hijack("HTTP/1.1 201 Created\r\nContent-Length: 999\r\n\r\n{", 0), nil, "unknown down"},
		{"a refusal that breaks off", hijack("HTTP/1.1 400 Bad Request\r\nContent-Length: 999\r\n\r\n{", 0), nil, "unknown down"},
		{"no HTTP", hijack("220 smtp.example ESMTP\r\n", -1), nil, "unknown down"},
		{"a header without end", hijack("HTTP/1.1 201 Created\r\nX: "+strings.Repeat("x", headerBytesMax), -1), nil, "unknown down"},
		{"no answer", serve(hanging(t)), nil, "unknown timeout"},
		{"a body without end", serve(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, cobBody("ATIVA")+strings.Repeat(" ", bodyBytesMax))
		}), nil, "unknown protocol"},
		{"a refusal without end", serve(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(problemInvalid + strings.Repeat(" ", bodyBytesMax)))
		}), nil, "unknown protocol"},
		{"sent elsewhere", serve(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, plain, http.StatusTemporaryRedirect) }), nil, "unknown protocol"},
		{"a transport that tells nothing", "https://api.example", silentTransport{}, "unknown down"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			config := tokens.config()
			config.BaseURL = tt.url
			c, _ := newClient(t, config)
			c.limits = limits{try: time.Minute, create: time.Second}
			if !strings.HasSuffix(tt.want, "timeout") {
				c.limits.create = time.Minute
			}
			if tt.transport != nil {
				c.transport = elsewhere{tt.url, tt.transport, c.transport}
			}
			haveToken(t, c)
			_, failure := c.put(background(t), newCharge)
			if failure == nil {
				t.Fatal("it was taken for a success")
			}
			if outcome(failure) != tt.want {
				t.Errorf("got %q, want %q: %v", outcome(failure), tt.want, failure)
			}
		})
	}
}

// elsewhere sends what goes to one host over another transport.
type elsewhere struct {
	url             string
	there, elsewise http.RoundTripper
}

func (e elsewhere) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(e.url, r.URL.Host) {
		return e.there.RoundTrip(r)
	}
	return e.elsewise.RoundTrip(r)
}

// dialer is a transport that never gets a connection: it fails with err, or hangs if that is nil.
func dialer(err error) http.RoundTripper {
	return &wire.Transport{Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		if err == nil {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}}
}

// silentTransport fails without telling how far it got.
type silentTransport struct{}

func (silentTransport) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused, says somebody")}
}

// warm makes n connections to the bank that then lie idle in the client's pool.
func warm(t *testing.T, c *Client, n int, gate *gate) {
	t.Helper()
	gate.close(n)
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			if _, err := c.GetCharge(background(t), testTxID); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// gate holds requests back until so many are there, so that each needs a connection of its own.
type gate struct {
	mu   sync.Mutex
	left int
	open chan struct{}
}

func (g *gate) close(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left, g.open = n, make(chan struct{})
}

func (g *gate) pass() {
	g.mu.Lock()
	if g.left--; g.left == 0 {
		close(g.open)
	}
	open := g.open
	g.mu.Unlock()
	<-open
}

// TestDeadConnections lets the bank close all connections while they lie idle, as a restart does. Not one charge may be
// sent into the void and called unknown for that.
func TestDeadConnections(t *testing.T) {
	t.Parallel()
	const idle, rounds = 16, 3
	var g gate
	var created atomic.Int32
	api := func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			g.pass()
		} else {
			created.Add(1)
		}
		reply{200, cobBody("ATIVA")}.write(w)
	}
	for _, secure := range []bool{false, true} {
		b := &bank{}
		b.Server = httptest.NewUnstartedServer(b.handler(nil, api))
		if secure {
			b.StartTLS()
		} else {
			b.Start()
		}
		config := b.config()
		if secure {
			config.RootCAs = b.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
		}
		c, _ := newClient(t, config)
		created.Store(0)
		for range rounds {
			warm(t, c, idle, &g)
			b.CloseClientConnections()
			if _, failure := c.put(t.Context(), newCharge); failure != nil {
				t.Errorf("secure: %v: %v", secure, failure)
			}
		}
		if got := created.Load(); got != rounds {
			t.Errorf("secure: %v: %d charges, want %d", secure, got, rounds)
		}
		// The same, and then nobody listens: that is proof.
		warm(t, c, idle, &g)
		b.Close()
		if _, failure := c.put(t.Context(), newCharge); outcome(failure) != "refused down" || failure.Operation != "charge.create" {
			t.Errorf("secure: %v: %v", secure, failure)
		}
	}
}

// TestConnectionsAreReused fails when living connections are taken for dead.
func TestConnectionsAreReused(t *testing.T) {
	t.Parallel()
	const requests = 50
	for _, version := range []uint16{0, tls.VersionTLS12, tls.VersionTLS13} {
		var opened atomic.Int32
		b := &bank{}
		b.Server = httptest.NewUnstartedServer(b.handler(nil, always(reply{201, cobBody("ATIVA")})))
		b.Config.ConnState = func(_ net.Conn, s http.ConnState) {
			if s == http.StateNew {
				opened.Add(1)
			}
		}
		var config Config
		if version == 0 {
			b.Start()
			config = b.config()
		} else {
			b.TLS = &tls.Config{MinVersion: version, MaxVersion: version}
			b.StartTLS()
			config = b.config()
			config.RootCAs = b.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
		}
		t.Cleanup(b.Close)
		c, _ := newClient(t, config)
		for range requests {
			if _, err := c.CreateCharge(t.Context(), newCharge); err != nil {
				t.Fatal(err)
			}
		}
		if got := opened.Load(); got > requests/10 { // one, unless the machine does so much else that it is taken for hung
			t.Errorf("TLS %x: %d connections for %d requests", version, got, requests)
		}
	}
}

// TestDeadConnectionsUnderLoad closes connections while charges are made. What is called refused must not have happened.
func TestDeadConnectionsUnderLoad(t *testing.T) {
	t.Parallel()
	var arrived sync.Map
	b := newBank(t, nil, func(w http.ResponseWriter, r *http.Request) {
		txID := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
		arrived.Store(txID, true)
		reply{201, strings.Replace(cobBody("ATIVA"), testTxID, txID, 1)}.write(w)
	})
	c, _ := b.client(t)
	var wg sync.WaitGroup
	var refused, unknown, accepted atomic.Int32
	const workers, each = 8, 40
	alphabet := "abcdefghijklmnopqrstuvwxyz"
	for worker := range workers {
		wg.Go(func() {
			for i := range each {
				n := newCharge
				n.TxID = testTxID[:30] + string([]byte{alphabet[worker], alphabet[i%26], alphabet[i/26]})
				if worker == 0 && i%5 == 0 {
					b.CloseClientConnections()
				}
				_, failure := c.put(background(t), n)
				_, did := arrived.Load(n.TxID)
				switch {
				case failure == nil:
					accepted.Add(1)
				case failure.Outcome == acquirer.Refused:
					refused.Add(1)
					if did {
						t.Errorf("%s was made and is called refused: %v", n.TxID, failure)
					}
				default:
					unknown.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if accepted.Load() < workers*each/2 {
		t.Errorf("%d accepted, %d refused, %d unknown", accepted.Load(), refused.Load(), unknown.Load())
	}
}

// inside is a transport to a handler in the same process. It tells that nothing was sent as wire.Transport does.
type inside struct {
	handler http.Handler
	shut    atomic.Bool
}

func (i *inside) RoundTrip(r *http.Request) (*http.Response, error) {
	if i.shut.Load() {
		return nil, &wire.NotSentError{Err: errors.New("nobody listens")}
	}
	w := httptest.NewRecorder()
	i.handler.ServeHTTP(w, r)
	return w.Result(), nil
}

func TestTransport(t *testing.T) {
	t.Parallel()
	b := &bank{Server: &httptest.Server{URL: "https://inside.example"}}
	transport := &inside{handler: b.handler(nil, always(reply{201, cobBody("ATIVA")}))}
	config := b.config()
	config.Transport = transport
	c, _ := newClient(t, config)
	if _, err := c.CreateCharge(t.Context(), newCharge); err != nil {
		t.Fatal(err)
	}
	transport.shut.Store(true)
	if _, err := c.CreateCharge(t.Context(), newCharge); outcome(err) != "refused down" {
		t.Errorf("got %v", err)
	}
}

func TestTransportIsBounded(t *testing.T) {
	t.Parallel()
	transport, err := Config{}.transport()
	w, ok := transport.(*wire.Transport) // which knows neither proxies nor HTTP/2
	if err != nil || !ok || w.IdleConnsMax < 64 || w.ConnsMax < w.IdleConnsMax || w.IdleTimeMax <= 0 || w.HandshakeTimeMax <= 0 || w.HeaderBytesMax <= 0 {
		t.Errorf("got %+v, %v", transport, err)
	}
}
