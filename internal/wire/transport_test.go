package wire_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/clock/clocktest"
	"github.com/ponte-pay/ponte/internal/wire"
)

// newTransport returns one whose dials are counted.
func newTransport(tb testing.TB, change ...func(*wire.Transport)) (*wire.Transport, *atomic.Int32) {
	tb.Helper()
	dials := new(atomic.Int32)
	t := &wire.Transport{
		HandshakeTimeMax: time.Minute, IdleConnsMax: 16, IdleTimeMax: time.Minute, HeaderBytesMax: 8 << 10,
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			dials.Add(1)
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	}
	for _, c := range change {
		c(t)
	}
	tb.Cleanup(t.CloseIdleConnections)
	return t, dials
}

func serve(tb testing.TB, handler http.HandlerFunc) string {
	tb.Helper()
	s := httptest.NewServer(handler)
	tb.Cleanup(s.Close)
	return s.URL
}

// listen is a server that gives each connection to serve, which ends with it. It returns its host and port.
func listen(tb testing.TB, serve func(net.Conn)) string {
	tb.Helper()
	l, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	var all sync.WaitGroup
	tb.Cleanup(func() { l.Close(); all.Wait() })
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				serve(c)
			})
		}
	})
	return l.Addr().String()
}

// answer reads requests from a connection and answers each, for as long as write wants to.
func answer(c net.Conn, write func() bool) {
	in := bufio.NewReader(c)
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		if !write() {
			return
		}
	}
}

// saying is a server that reads a request and answers the same bytes to each, then hangs up when they say so.
func saying(tb testing.TB, text string) string {
	tb.Helper()
	return "http://" + listen(tb, func(c net.Conn) {
		answer(c, func() bool {
			_, err := io.WriteString(c, text)
			return err == nil && !strings.Contains(text, "close")
		})
	})
}

// ask makes a request and reads all of its answer.
func ask(ctx context.Context, t http.RoundTripper, method, url, body string) (status int, answer string, err error) {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	a, err := t.RoundTrip(r)
	if err != nil {
		return 0, "", err
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	return a.StatusCode, string(b), err
}

// TestAnswers is about every form that an answer can have, asked for three times: by it the next one must be found too.
func TestAnswers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, method, answer string
		status               int
		body                 string // "error" for none
		dials                int32  // of three requests
	}{
		{"with a length", "POST", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, "ok", 1},
		{"in chunks", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n", 200, "ok", 1},
		{"without a body", "PUT", "HTTP/1.1 204 No Content\r\n\r\n", 204, "", 1},
		{"with an empty one", "PUT", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, "", 1},
		{"of a HEAD", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n", 200, "", 1},
		{"after others", "POST", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, "ok", 1},
		{"after as many as may be", "POST", strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 5) + "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, "ok", 1},
		{"a redirect", "POST", "HTTP/1.1 307 Elsewhere\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", 307, "", 1},
		{"the last one", "POST", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", 200, "ok", 3},
		{"up to the end", "POST", "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nok", 200, "ok", 3},
		{"of an old server", "POST", "HTTP/1.0 200 OK\r\nX: close\r\nContent-Length: 2\r\n\r\nok", 200, "ok", 3},
		{"with more behind it", "POST", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nother", 200, "ok", 3},
		{"that breaks off", "POST", "HTTP/1.1 200 OK\r\nX: close\r\nContent-Length: 3\r\n\r\nok", 200, "error", 3},
		{"another protocol", "POST", "HTTP/1.1 101 Switching Protocols\r\n\r\n", 0, "error", 3},
		{"that never comes", "POST", strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 9), 0, "error", 3},
		{"a long header", "POST", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 9<<10) + "\r\nContent-Length: 0\r\n\r\n", 0, "error", 3},
		{"no HTTP", "POST", "220 smtp.example\r\n", 0, "error", 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			url := saying(t, tt.answer)
			transport, dials := newTransport(t)
			for range 3 {
				status, body, err := ask(t.Context(), transport, tt.method, url, "hello")
				if err != nil {
					body = "error"
				}
				if status != tt.status || body != tt.body || wire.SentNothing(err) {
					t.Errorf("got %d %q, %v, want %d %q", status, body, err, tt.status, tt.body)
				}
			}
			if got := dials.Load(); got != tt.dials {
				t.Errorf("%d connections, want %d", got, tt.dials)
			}
		})
	}
}

// TestSentNothing is about what fails before a byte is sent, and only that.
func TestSentNothing(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(nil)
	gone.Close()
	plain := serve(t, func(http.ResponseWriter, *http.Request) {})
	ended, end := context.WithCancel(t.Context())
	end()
	for _, tt := range []struct {
		name, url string
		ctx       context.Context
	}{
		{"nobody listens", gone.URL, t.Context()},
		{"TLS where there is none", strings.Replace(plain, "http:", "https:", 1), t.Context()},
		{"no time left", plain, ended},
		{"no scheme that it knows", strings.Replace(plain, "http:", "htttps:", 1), t.Context()},
	} {
		transport, _ := newTransport(t)
		r, err := http.NewRequestWithContext(tt.ctx, http.MethodPost, tt.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		a, err := transport.RoundTrip(r)
		if err == nil {
			a.Body.Close()
		}
		if !wire.SentNothing(err) || !wire.SentNothing(fmt.Errorf("more: %w", err)) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	if wire.SentNothing(nil) || wire.SentNothing(errors.New("connection refused")) {
		t.Error("an error of somebody else proves something")
	}
}

// TestGivenUp ends requests that wait for the head of an answer, for its body and for a connection.
func TestGivenUp(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, path string
		nothing    bool
	}{
		{"no answer", "/silent", false},
		{"half of one", "/half", false},
		{"no connection free", "/silent", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			arrived := make(chan struct{}, 2)
			hold := make(chan struct{})
			url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/half" {
					w.Header().Set("Content-Length", "9")
					_, _ = io.WriteString(w, "half")
					_ = http.NewResponseController(w).Flush()
				}
				arrived <- struct{}{}
				<-hold
			})
			t.Cleanup(func() { close(hold) })
			transport, dials := newTransport(t, func(w *wire.Transport) { w.ConnsMax = 1 })
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			answered := make(chan error, 2)
			try := func(ctx context.Context) {
				_, _, err := ask(ctx, transport, http.MethodPost, url+tt.path, "")
				answered <- err
			}
			if tt.nothing {
				first, stop := context.WithCancel(t.Context())
				go try(first)
				<-arrived
				defer func() { stop(); <-answered }()
				go try(ctx)
			} else {
				go try(ctx)
				<-arrived
			}
			cancel()
			if err := <-answered; !errors.Is(err, context.Canceled) || wire.SentNothing(err) != tt.nothing {
				t.Errorf("got %v, nothing sent: %v", err, wire.SentNothing(err))
			}
			if got := dials.Load(); got != 1 {
				t.Errorf("%d connections, want 1", got)
			}
		})
	}
}

// TestTimeIsUp ends requests whose context ends by time alone, and looks that no deadline stays for the requests after them.
func TestTimeIsUp(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("TLS %v", secure), func(t *testing.T) {
			t.Parallel()
			timeIsUp(t, secure)
		})
	}
}

func timeIsUp(t *testing.T, secure bool) {
	t.Helper()
	hold := make(chan struct{})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/silent":
			<-hold
		case "/half":
			w.Header().Set("Content-Length", "9")
			_, _ = io.WriteString(w, "half")
			_ = http.NewResponseController(w).Flush()
			<-hold
		}
		_, _ = io.WriteString(w, "ok")
	}))
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(hold) })
	start := s.Start
	if secure {
		start = s.StartTLS
	}
	start()
	transport, dials := newTransport(t, func(w *wire.Transport) {
		if secure {
			w.TLS = s.Client().Transport.(*http.Transport).TLSClientConfig //nolint:forcetypeassert // httptest says so
		}
	})
	within := func(d time.Duration) context.Context {
		ctx, cancel := clock.Within(context.WithoutCancel(t.Context()), d)
		t.Cleanup(cancel)
		if _, alone := clock.EndsByTime(ctx); !alone {
			t.Error("something else can end it")
		}
		return ctx
	}
	answered := func(ctx context.Context) {
		t.Helper()
		if _, body, err := ask(ctx, transport, http.MethodPost, s.URL, ""); body != "ok" || err != nil {
			t.Errorf("%q, %v", body, err)
		}
	}
	const short = 50 * time.Millisecond
	for _, path := range []string{"/silent", "/half"} {
		answered(t.Context()) // makes the connection, whose making waits for ctx in its own way
		if _, _, err := ask(within(short), transport, http.MethodPost, s.URL+path, ""); !errors.Is(err, context.DeadlineExceeded) || wire.SentNothing(err) {
			t.Errorf("%s: %v", path, err)
		}
	}
	answered(t.Context())
	answered(within(short))
	time.Sleep(2 * short)
	answered(t.Context())
	answered(within(time.Minute))
	answered(t.Context())
	if got := dials.Load(); got != 3 {
		t.Errorf("%d connections, want 3", got)
	}
}

// TestDeadConnectionIsNotUsed lets the server hang up on a connection that lies idle.
func TestDeadConnectionIsNotUsed(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	t.Cleanup(s.Close)
	transport, dials := newTransport(t)
	for want := int32(1); want <= 3; want++ {
		for range 3 {
			if _, body, err := ask(t.Context(), transport, http.MethodPost, s.URL, "x"); body != "ok" || err != nil {
				t.Fatalf("%q, %v", body, err)
			}
		}
		if got := dials.Load(); got != want {
			t.Errorf("%d connections, want %d", got, want)
		}
		s.CloseClientConnections()
	}
}

// flight is a connection whose writes can be held back, to go as one.
type flight struct {
	net.Conn
	held    []byte
	holding bool
}

func (f *flight) Write(b []byte) (int, error) {
	if !f.holding {
		return f.Conn.Write(b)
	}
	f.held = append(f.held, b...)
	return len(b), nil
}

func (f *flight) release() {
	f.holding = false
	_ = f.SetWriteDeadline(time.Time{}) // a farewell ends all that is written
	_, _ = f.Conn.Write(f.held)
	f.held = nil
}

// TestWhatComesWithAnAnswer is about what a server sends over TLS behind its answer, so close that it is read with that: the
// next request must not be sent to who has gone, and must not be given an answer that was there before it.
func TestWhatComesWithAnAnswer(t *testing.T) {
	t.Parallel()
	for name, more := range map[string]func(*tls.Conn){
		"another answer": func(c *tls.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nother") },
		"its farewell":   func(c *tls.Conn) { _ = c.CloseWrite() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			certified := httptest.NewTLSServer(nil)
			t.Cleanup(certified.Close)
			address := listen(t, func(plain net.Conn) {
				f := &flight{Conn: plain}
				c := tls.Server(f, &tls.Config{Certificates: certified.TLS.Certificates})
				answer(c, func() bool {
					f.holding = true
					_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
					more(c)
					f.release()
					return true
				})
			})
			transport, dials := newTransport(t, func(w *wire.Transport) {
				w.TLS = &tls.Config{RootCAs: x509.NewCertPool()}
				w.TLS.RootCAs.AddCert(certified.Certificate())
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for range 3 {
				if _, body, err := ask(ctx, transport, http.MethodPost, "https://"+address, "x"); body != "ok" || err != nil {
					t.Errorf("%q, %v", body, err)
				}
			}
			if got := dials.Load(); got != 3 {
				t.Errorf("%d connections, want 3", got)
			}
		})
	}
}

// TestIdleConnectionsEnd by themselves, when nobody asks for them any more.
func TestIdleConnectionsEnd(t *testing.T) {
	t.Parallel()
	var open atomic.Int32
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed:
			open.Add(-1)
		case http.StateActive, http.StateIdle, http.StateHijacked:
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	transport, _ := newTransport(t, func(w *wire.Transport) { w.IdleTimeMax = 50 * time.Millisecond })
	if _, _, err := ask(t.Context(), transport, http.MethodGet, s.URL, ""); err != nil {
		t.Fatal(err)
	}
	clocktest.Wait(t, "an idle connection that is closed", func() bool { return open.Load() == 0 })
}

// TestIdleConnectionsAreBounded asks many at once, and sees how many of their connections are used again.
func TestIdleConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	const many, kept = 8, 3
	var together sync.WaitGroup
	url := serve(t, func(http.ResponseWriter, *http.Request) { together.Done(); together.Wait() })
	transport, dials := newTransport(t, func(w *wire.Transport) { w.IdleConnsMax = kept })
	for _, want := range []int32{many, many + many - kept} {
		together.Add(many)
		var all sync.WaitGroup
		for range many {
			all.Go(func() {
				if _, _, err := ask(t.Context(), transport, http.MethodGet, url, ""); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if got := dials.Load(); got != want {
			t.Errorf("%d connections, want %d", got, want)
		}
	}
}

// TestRequestsArrive as those of net/http's transport do.
func TestRequestsArrive(t *testing.T) {
	t.Parallel()
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("User-Agent") // net/http adds one of its own
		b, err := httputil.DumpRequest(r, true)
		if err != nil {
			t.Error(err)
		}
		_, _ = w.Write(b)
	})
	ours, _ := newTransport(t)
	stock := &http.Transport{DisableCompression: true}
	t.Cleanup(stock.CloseIdleConnections)
	unsized := func(text string) io.Reader { return struct{ io.Reader }{strings.NewReader(text)} }
	for name, tt := range map[string]struct {
		method, path string
		body         func() io.Reader
		change       func(*http.Request)
	}{
		"with a body":         {"POST", "/a", func() io.Reader { return strings.NewReader("hello") }, nil},
		"with a long one":     {"PUT", "/a", func() io.Reader { return strings.NewReader(strings.Repeat("x", 100<<10)) }, nil},
		"without":             {"GET", "/a?b=c%20d&e=%2F", func() io.Reader { return nil }, nil},
		"with none":           {"GET", "", func() io.Reader { return http.NoBody }, nil},
		"with an empty one":   {"PUT", "/a%2Fb", func() io.Reader { return strings.NewReader("") }, nil},
		"nothing to change":   {"PATCH", "/a", func() io.Reader { return nil }, nil},
		"of unknown length":   {"POST", "/a", func() io.Reader { return unsized("hello") }, nil},
		"for another host":    {"GET", "/a", func() io.Reader { return nil }, func(r *http.Request) { r.Host = "example.com" }},
		"the last one":        {"GET", "/a", func() io.Reader { return nil }, func(r *http.Request) { r.Close = true }},
		"with a length twice": {"POST", "/a", func() io.Reader { return strings.NewReader("hello") }, func(r *http.Request) { r.Header.Set("Content-Length", "3") }},
		"with headers":        {"GET", "/a", func() io.Reader { return nil }, func(r *http.Request) { r.Header["B"] = []string{"1", "2"}; r.Header.Set("A", "ç") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := map[http.RoundTripper]string{}
			for _, transport := range []http.RoundTripper{ours, stock} {
				r, err := http.NewRequestWithContext(t.Context(), tt.method, url+tt.path, tt.body())
				if err != nil {
					t.Fatal(err)
				}
				if tt.change != nil {
					tt.change(r)
				}
				a, err := transport.RoundTrip(r)
				if err != nil {
					seen[transport] = err.Error()
					continue
				}
				b, err := io.ReadAll(a.Body)
				a.Body.Close()
				seen[transport] = fmt.Sprintf("%d %s%v", a.StatusCode, b, err)
			}
			if seen[ours] != seen[stock] {
				t.Errorf("%s\nwant %s", seen[ours], seen[stock])
			}
		})
	}
}

// TestHeaderStaysOneLine: what an acquirer told us must not add a header of its own.
func TestHeaderStaysOneLine(t *testing.T) {
	t.Parallel()
	transport, _ := newTransport(t)
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get("A")+"/"+r.Header.Get("C"))
	})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("A", "b\r\nC: d")
	a, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	if b, err := io.ReadAll(a.Body); string(b) != "b  C: d/" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
}

// TestBodyOfAnotherLength must not make the next request on its connection out of what is missing.
func TestBodyOfAnotherLength(t *testing.T) {
	t.Parallel()
	transport, _ := newTransport(t)
	url := serve(t, func(http.ResponseWriter, *http.Request) {})
	const size = 10_000 // more than is held back
	for _, length := range []int64{1, size - 1, size + 1, size + 10_000} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(strings.Repeat("x", size)))
		if err != nil {
			t.Fatal(err)
		}
		r.ContentLength = length
		if a, err := transport.RoundTrip(r); err == nil {
			a.Body.Close()
			t.Errorf("%d bytes that should have been %d were sent", size, length)
		}
	}
}

// BenchmarkRequest measures a request against one of net/http's transport, taking turns.
func BenchmarkRequest(b *testing.B) {
	url := serve(b, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, `{"status":"ATIVA"}`)
	})
	ours, _ := newTransport(b)
	stock := &http.Transport{DisableCompression: true}
	b.Cleanup(stock.CloseIdleConnections)
	times := map[http.RoundTripper]time.Duration{}
	for b.Loop() {
		for _, t := range []http.RoundTripper{ours, stock} {
			start := time.Now()
			if _, _, err := ask(b.Context(), t, http.MethodPost, url, `{"a":1}`); err != nil {
				b.Fatal(err)
			}
			times[t] += time.Since(start)
		}
	}
	b.ReportMetric(times[ours].Seconds()/times[stock].Seconds(), "ours/stock")
}
