package httpkit

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/id"
)

// HeaderBytesMax is the largest header that is looked at. Up to HeaderBytesRead the refusal is our envelope; above, the
// HTTP server cuts the connection with an answer of its own.
const (
	HeaderBytesMax  = 32 << 10
	HeaderBytesRead = 1<<20 + 64<<10
)

// strictTransport tells browsers to use HTTPS for a year.
var strictTransport = []string{"max-age=31536000; includeSubDomains"}

// Frame is around every route: it names the request, finds out who calls, refuses what must not go on, turns panics into
// answers, and logs and counts each answer once.
type Frame struct {
	IDs      *id.Generator
	Clock    *clock.Clock
	Log      *slog.Logger
	Ready    func() error                // nil while the node may serve
	Spelling func(path string) Spelling  // of error codes
	Observe  func(*Scope, time.Duration) // counts an answer; nil for none
	Proxies  []netip.Prefix              // whose X-Forwarded-* count
	Secrets  []string                    // parts of paths, in lower case, behind which a secret stands: the log shows the route instead
}

// Scope is what becomes known about a request while it is served.
type Scope struct {
	RequestID string
	Client    netip.Addr // who calls, behind proxies too
	Secure    bool       // the caller's side is HTTPS
	Route     string     // the pattern that matched; "" for none
	Account   id.Account // zero before the key is known
	Status    int        // of the answer
	Err       error      // what the answer does not tell; nil for none
}

// ScopeOf returns the scope of the request whose answer is written to w. It panics outside a [Frame].
func ScopeOf(w http.ResponseWriter) *Scope {
	rec, _ := w.(*recorder)
	return &rec.scope
}

// Wrap puts the frame around next.
func (f *Frame) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		started := f.Clock.Real()
		rec := &recorder{ResponseWriter: w, scope: Scope{RequestID: id.Request.Format(f.IDs.New())}}
		s := &rec.scope
		incoming := r.Header.Get(RequestIDHeader)
		rec.name[0] = s.RequestID
		w.Header()[RequestIDHeader] = rec.name[:]
		defer func() {
			took := f.Clock.RealSince(started)
			if f.Observe != nil {
				f.Observe(s, took)
			}
			f.log(r, s, incoming, took)
		}()
		defer f.recover(rec, r)
		s.Client, s.Secure = f.caller(r)
		if s.Secure {
			w.Header()["Strict-Transport-Security"] = strictTransport
		}
		if err := f.admit(r, s); err != nil {
			Fail(rec, err, f.Spelling(r.URL.Path))
			return
		}
		next.ServeHTTP(rec, r)
	})
}

// Fail answers with err's envelope and keeps err for the log. It is called inside a [Frame].
func Fail(w http.ResponseWriter, err error, spelling Spelling) {
	ScopeOf(w).Err = err
	WriteError(w, err, spelling)
}

// recover answers a panic, unless the answer has begun: then the connection is cut, so that nobody takes half an answer
// for a whole one.
func (f *Frame) recover(rec *recorder, r *http.Request) {
	p := recover()
	if p == nil {
		return
	}
	if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(p)
	}
	f.Log.LogAttrs(r.Context(), slog.LevelError, "panic", slog.String("request_id", rec.scope.RequestID),
		slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
	if rec.scope.Status != 0 {
		panic(http.ErrAbortHandler)
	}
	Fail(rec, errPanic, f.Spelling(r.URL.Path))
}

var errPanic = &fault.Error{Kind: fault.Internal, Public: "something went wrong on our side", Cause: errors.New("panic")}

// admit refuses what must not reach any route.
func (f *Frame) admit(r *http.Request, s *Scope) error {
	if headerBytes(r) > HeaderBytesMax {
		return fault.New(fault.HeadersTooLarge, "", "the request header is larger than 32 KiB")
	}
	if err := f.Ready(); err != nil {
		return &fault.Error{Kind: fault.Unavailable, Public: "the service is not available right now; try again", Cause: err, RetryAfter: time.Second}
	}
	// Loopback is no wire that anybody could listen on.
	if !s.Secure && len(f.Proxies) > 0 && !s.Client.IsLoopback() {
		return fault.New(fault.Forbidden, "", "use HTTPS")
	}
	return nil
}

func headerBytes(r *http.Request) int {
	n := len(r.Method) + len(r.RequestURI)
	for name, values := range r.Header {
		for _, v := range values {
			n += len(name) + len(v)
		}
	}
	return n
}

// caller returns who called and whether by HTTPS. What the connection's other end says about somebody else counts only
// when that end is one of our proxies; of the addresses that came through several, the last that is none of ours.
func (f *Frame) caller(r *http.Request) (client netip.Addr, secure bool) {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}, r.TLS != nil
	}
	client, secure = peer.Addr().Unmap().WithZone(""), r.TLS != nil
	if !f.isProxy(client) {
		return client, secure
	}
	secure = secure || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
	hops := strings.Split(strings.Join(r.Header["X-Forwarded-For"], ","), ",")
	for _, text := range slices.Backward(hops) {
		hop, ok := parseHop(strings.TrimSpace(text))
		if !ok {
			break
		}
		client = hop
		if !f.isProxy(client) {
			break
		}
	}
	return client, secure
}

// parseHop reads an address, with or without a port: some proxies add one.
func parseHop(s string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(strings.Trim(s, "[]"))
	if err != nil {
		withPort, portErr := netip.ParseAddrPort(s)
		addr, err = withPort.Addr(), portErr
	}
	return addr.Unmap().WithZone(""), err == nil
}

func (f *Frame) isProxy(addr netip.Addr) bool {
	for _, p := range f.Proxies {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

func (f *Frame) log(r *http.Request, s *Scope, incoming string, took time.Duration) {
	level := slog.LevelInfo
	gone := errors.Is(r.Context().Err(), context.Canceled) // the client; whatever failed then may have failed for that
	if s.Status >= http.StatusInternalServerError && !gone {
		level = slog.LevelError
	}
	if !f.Log.Enabled(r.Context(), level) {
		return
	}
	attrs := make([]slog.Attr, 0, 8)
	attrs = append(attrs, slog.String("request_id", s.RequestID), slog.String("method", clip(r.Method)), slog.String("path", clip(f.shownPath(r.URL.Path, s.Route))),
		slog.Int("status", s.Status), slog.Duration("took", took), slog.String("client", s.Client.String()))
	if s.Account != 0 {
		attrs = append(attrs, slog.String("account_id", s.Account.String()))
	}
	if incoming != "" {
		attrs = append(attrs, slog.String("client_request_id", clip(incoming)))
	}
	if s.Err != nil {
		attrs = append(attrs, slog.String("error", s.Err.Error()))
	}
	f.Log.LogAttrs(r.Context(), level, "request", attrs...)
}

// shownPath returns a path without the secret in it, also where no route took it: a link that was copied badly is still a
// link.
func (f *Frame) shownPath(path, route string) string {
	lower := strings.ToLower(path)
	for _, part := range f.Secrets {
		if strings.Contains(lower, part) {
			return cmp.Or(route, part)
		}
	}
	return path
}

// recorder remembers the status of an answer.
type recorder struct {
	http.ResponseWriter
	scope Scope
	name  [1]string // the request's identifier, as the header has it
}

func (r *recorder) WriteHeader(status int) {
	if r.scope.Status == 0 {
		r.scope.Status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	if r.scope.Status == 0 {
		r.scope.Status = http.StatusOK
	}
	return r.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
