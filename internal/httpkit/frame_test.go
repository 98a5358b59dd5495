package httpkit

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/id"
)

// newFrame returns a frame that is ready, and what it logs.
func newFrame() (*Frame, *bytes.Buffer) {
	c, log := clock.New(nil), &bytes.Buffer{}
	return &Frame{
		IDs: id.NewGenerator(c.Now, rand.Reader), Clock: c, Log: slog.New(slog.NewTextHandler(log, nil)),
		Ready: func() error { return nil }, Spelling: func(string) Spelling { return Upper },
	}, log
}

func newRequest(peer string, header ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/v1/balance", http.NoBody)
	r.RemoteAddr = peer
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

func TestCaller(t *testing.T) {
	t.Parallel()
	f := &Frame{Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8:1::/48")}}
	const forwarded, proto = "X-Forwarded-For", "X-Forwarded-Proto"
	for _, c := range []struct {
		name   string
		r      *http.Request
		client string
		secure bool
	}{
		{"direct", newRequest("203.0.113.7:1"), "203.0.113.7", false},
		{"direct by IPv6 with a zone", newRequest("[fe80::1%eth0]:1"), "fe80::1", false},
		{"IPv4 written as IPv6", newRequest("[::ffff:203.0.113.7]:1"), "203.0.113.7", false},
		{"direct and lying", newRequest("203.0.113.7:1", forwarded, "198.51.100.1", proto, "https"), "203.0.113.7", false},
		{"through a proxy", newRequest("10.1.2.3:1", forwarded, "198.51.100.1", proto, "https"), "198.51.100.1", true},
		{"through a proxy in upper case", newRequest("10.1.2.3:1", forwarded, "198.51.100.1", proto, "HTTPS"), "198.51.100.1", true},
		{"through a proxy in plain text", newRequest("10.1.2.3:1", forwarded, "198.51.100.1", proto, "http"), "198.51.100.1", false},
		{"through a proxy that is written as IPv6", newRequest("[::ffff:10.1.2.3]:1", forwarded, "198.51.100.1"), "198.51.100.1", false},
		{"through a proxy that says nothing", newRequest("10.1.2.3:1"), "10.1.2.3", false},
		{"through a proxy that says nonsense", newRequest("10.1.2.3:1", forwarded, "unknown"), "10.1.2.3", false},
		{"nonsense before the client", newRequest("10.1.2.3:1", forwarded, "unknown, 198.51.100.1"), "198.51.100.1", false},
		{"nonsense before a proxy", newRequest("10.1.2.3:1", forwarded, "unknown, 10.9.9.9"), "10.9.9.9", false},
		{"a client that lies to the proxy", newRequest("10.1.2.3:1", forwarded, "192.0.2.1, 198.51.100.1"), "198.51.100.1", false},
		{"in two headers", newRequest("10.1.2.3:1", forwarded, "192.0.2.1", forwarded, "198.51.100.1"), "198.51.100.1", false},
		{"through two proxies", newRequest("10.1.2.3:1", forwarded, "192.0.2.1,198.51.100.1 , 10.9.9.9"), "198.51.100.1", false},
		{"proxies only", newRequest("10.1.2.3:1", forwarded, "10.7.7.7, 10.9.9.9"), "10.7.7.7", false},
		{"through an IPv6 proxy", newRequest("[2001:db8:1::9]:1", forwarded, "2001:db8:2::7"), "2001:db8:2::7", false},
		{"a client with a port", newRequest("10.1.2.3:1", forwarded, "198.51.100.1:5555"), "198.51.100.1", false},
		{"an IPv6 client with a port", newRequest("10.1.2.3:1", forwarded, "[2001:db8:2::7]:5555"), "2001:db8:2::7", false},
		{"an IPv6 client in brackets", newRequest("10.1.2.3:1", forwarded, "[2001:db8:2::7]"), "2001:db8:2::7", false},
		{"a mapped client", newRequest("10.1.2.3:1", forwarded, "::ffff:198.51.100.1"), "198.51.100.1", false},
		{"a proxy as a mapped client", newRequest("10.1.2.3:1", forwarded, "198.51.100.1, ::ffff:10.9.9.9"), "198.51.100.1", false},
		{"no address at all", newRequest("@"), "invalid IP", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			client, secure := f.caller(c.r)
			if client.String() != c.client || secure != c.secure {
				t.Errorf("got %s, secure %v, want %s, %v", client, secure, c.client, c.secure)
			}
		})
	}
}

// TestSecurity tells by which callers HTTPS is demanded and to which HSTS is sent.
func TestSecurity(t *testing.T) {
	t.Parallel()
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("127.0.0.0/8")}
	direct := newRequest("203.0.113.7:1")
	direct.TLS = &tls.ConnectionState{}
	for _, c := range []struct {
		name    string
		proxies []netip.Prefix
		r       *http.Request
		status  int
		hsts    bool
	}{
		{"own TLS", nil, direct, 200, true},
		{"own TLS beside proxies", proxies, direct, 200, true},
		{"plain text on loopback", nil, newRequest("127.0.0.1:1"), 200, false},
		{"a client in plain text at a server behind proxies", proxies, newRequest("203.0.113.7:1"), 403, false},
		{"a client that claims HTTPS", proxies, newRequest("203.0.113.7:1", "X-Forwarded-Proto", "https"), 403, false},
		{"a proxy in plain text", proxies, newRequest("10.0.0.1:1", "X-Forwarded-For", "203.0.113.7"), 403, false},
		{"a TLS proxy", proxies, newRequest("10.0.0.1:1", "X-Forwarded-For", "203.0.113.7", "X-Forwarded-Proto", "https"), 200, true},
		{"loopback at a server behind proxies", proxies, newRequest("127.0.0.1:1"), 200, false},
		{"a proxy on loopback", proxies, newRequest("127.0.0.1:1", "X-Forwarded-For", "203.0.113.7"), 403, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f, _ := newFrame()
			f.Proxies = c.proxies
			rec := httptest.NewRecorder()
			f.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(rec, c.r)
			if rec.Code != c.status {
				t.Errorf("got %d %s, want %d", rec.Code, rec.Body, c.status)
			}
			if hsts := rec.Header().Get("Strict-Transport-Security"); (hsts == "max-age=31536000; includeSubDomains") != c.hsts || (hsts == "") == c.hsts {
				t.Errorf("HSTS %q, want %v", hsts, c.hsts)
			}
		})
	}
}

func TestHeaderBytes(t *testing.T) {
	t.Parallel()
	f, _ := newFrame()
	served := 0
	h := f.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }))
	r := newRequest("203.0.113.7:1")
	r.RequestURI = "/v1/balance"
	fill := HeaderBytesMax - len(r.Method) - len(r.RequestURI) - len("X-Fill")
	r.Header.Set("X-Fill", strings.Repeat("x", fill))
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	if rec.Code != http.StatusOK || served != 1 {
		t.Errorf("%d bytes: %d %s", HeaderBytesMax, rec.Code, rec.Body)
	}
	for _, add := range []func(){
		func() { r.Header.Set("X-Fill", strings.Repeat("x", fill+1)) },
		func() { r.Header.Set("X-Fill", ""); r.RequestURI = "/" + strings.Repeat("x", HeaderBytesMax) },
		func() {
			r.RequestURI = "/"
			for range HeaderBytesMax / len("X-Many") {
				r.Header.Add("X-Many", "yy")
			}
		},
	} {
		add()
		rec = httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		if rec.Code != http.StatusRequestHeaderFieldsTooLarge || served != 1 {
			t.Errorf("more: %d %s, served %d", rec.Code, rec.Body, served)
		}
	}
}

func TestNotReady(t *testing.T) {
	t.Parallel()
	f, log := newFrame()
	f.Ready = func() error { return errors.New("dial tcp 10.0.0.1:5432: connection refused") }
	rec := httptest.NewRecorder()
	f.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("served") })).ServeHTTP(rec, newRequest("203.0.113.7:1"))
	if rec.Code != http.StatusServiceUnavailable || rec.Header().Get("Retry-After") != "1" || strings.Contains(rec.Body.String(), "10.0.0.1") {
		t.Errorf("got %d %v %s", rec.Code, rec.Header(), rec.Body)
	}
	if !strings.Contains(log.String(), "10.0.0.1:5432") {
		t.Errorf("the log does not tell why: %s", log)
	}
}

func TestFramePanics(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		handler http.HandlerFunc
		status  int // 0 means that the connection is cut
		logged  bool
	}{
		{"before the answer", func(http.ResponseWriter, *http.Request) { panic("secret-1") }, 500, true},
		{"an error", func(http.ResponseWriter, *http.Request) { panic(errors.New("secret-1")) }, 500, true},
		{"a runtime error", func(http.ResponseWriter, *http.Request) {
			var s *Scope
			s.Status++
		}, 500, true},
		{"behind the status", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK); panic("secret-1") }, 0, true},
		{"inside the body", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat("x", 100_000))
			panic("secret-1")
		}, 0, true},
		{"on purpose", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f, log := newFrame()
			done := make(chan *Scope, 1)
			f.Observe = func(s *Scope, _ time.Duration) { done <- s }
			server := httptest.NewUnstartedServer(f.Wrap(c.handler))
			server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
			server.Start()
			defer server.Close()
			res, err := server.Client().Get(server.URL + "/v1/balance")
			var body []byte
			if err == nil {
				body, err = io.ReadAll(res.Body)
				res.Body.Close()
			}
			switch {
			case c.status == 0 && err == nil:
				t.Errorf("a whole answer: %d, %d bytes", res.StatusCode, len(body))
			case c.status != 0 && (err != nil || res.StatusCode != c.status || !bytes.Contains(body, []byte("INTERNAL_ERROR"))):
				t.Errorf("got %v, %s, %v", res, body, err)
			}
			if bytes.Contains(body, []byte("secret")) || bytes.Contains(body, []byte("goroutine")) {
				t.Errorf("the answer tells: %s", body)
			}
			server.Close() // nothing logs any more
			if scope := <-done; c.status != 0 && scope.Status != c.status {
				t.Errorf("observed %d", scope.Status)
			}
			if logged := strings.Contains(log.String(), "frame_test.go"); logged != c.logged {
				t.Errorf("logged %v: %s", logged, log)
			}
		})
	}
}

func TestLogLine(t *testing.T) {
	t.Parallel()
	const key = "bp_1a2b3c4d_000102030405060708090a0b0c0d0e0f1011121314151617"
	f, log := newFrame()
	var seen []Scope
	f.Observe = func(s *Scope, took time.Duration) {
		if took < 0 {
			t.Errorf("took %v", took)
		}
		seen = append(seen, *s)
	}
	h := f.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := ScopeOf(w)
		s.Route, s.Account = "/balance", 7
		if r.Method == http.MethodPost {
			Fail(w, errors.New("the disk is full"), Upper)
			return
		}
		_ = Write(w, Answer{Status: http.StatusTeapot, Body: "tea"})
	}))
	r := newRequest("203.0.113.7:1", "Authorization", "Bearer "+key, "X-Api-Key", key, "X-Request-Id", "theirs-"+strings.Repeat("9", 500),
		"Idempotency-Key", "idem-secret", "Cookie", "session=cookie-secret")
	r.URL.RawQuery = "key=" + key
	r.Header.Set("X-Forwarded-For", "198.51.100.1")
	h.ServeHTTP(httptest.NewRecorder(), r)
	line := log.String()
	for _, want := range []string{"level=INFO", "method=GET", "path=/v1/balance", "status=418", "client=203.0.113.7", "account_id=acc_00000007", "client_request_id=theirs-9", "request_id=req_"} {
		if !strings.Contains(line, want) {
			t.Errorf("no %s in %s", want, line)
		}
	}
	for _, never := range []string{"1a2b3c4d", "0102030405", "idem-secret", "cookie-secret", "198.51.100.1", strings.Repeat("9", 50)} {
		if strings.Contains(line, never) {
			t.Errorf("%s in %s", never, line)
		}
	}
	log.Reset()
	r.Method = http.MethodPost
	r.URL.Path = "/v1/" + strings.Repeat("long\n", 100)
	h.ServeHTTP(httptest.NewRecorder(), r)
	if line := log.String(); !strings.Contains(line, "level=ERROR") || !strings.Contains(line, "the disk is full") || len(line) > 600 || strings.Count(line, "\n") != 1 {
		t.Errorf("got %s", line)
	}
	if len(seen) != 2 || seen[0].Status != 418 || seen[1].Status != 500 || seen[0].Route != "/balance" || seen[0].RequestID == seen[1].RequestID {
		t.Errorf("observed %+v", seen)
	}
	f.Secrets = []string{"/links/"}
	for _, path := range []string{"/links/s3cret", "/links/s3cret/", "//Links/s3cret", "/v1/links/s3cret/pay"} {
		log.Reset()
		r.URL.Path = path
		h.ServeHTTP(httptest.NewRecorder(), r)
		f.Ready = func() error { return errors.New("starting") } // no route is asked
		h.ServeHTTP(httptest.NewRecorder(), r)
		f.Ready = func() error { return nil }
		if got := log.String(); strings.Contains(got, "s3cret") || !strings.Contains(got, "path=/balance") || !strings.Contains(got, "path=/links/ ") {
			t.Errorf("%s is logged as %s", path, got)
		}
	}
}

// Who hangs up makes things fail on the way, which is nobody's fault and wakes no operator.
func TestLogLineOfGoneClient(t *testing.T) {
	t.Parallel()
	f, log := newFrame()
	h := f.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		Fail(w, errors.New("waited too long for a turn"), Upper)
	}))
	ctx, hangUp := context.WithCancel(t.Context())
	hangUp()
	for gone, want := range map[context.Context]string{t.Context(): "level=ERROR", ctx: "level=INFO"} {
		log.Reset()
		h.ServeHTTP(httptest.NewRecorder(), newRequest("203.0.113.7:1").WithContext(gone))
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %s in %s", want, log)
		}
	}
}
