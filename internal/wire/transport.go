package wire

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ponte-pay/ponte/internal/clock"
)

const (
	interimMax   = 5       // answers 1xx before the one that counts
	bufferBytes  = 4 << 10 // of each direction of a connection
	schemePlain  = "http"
	schemeSecure = "https"
)

// Transport makes requests with HTTP/1.1 over connections that it keeps. It does what a payment wants of a transport:
// its errors tell whether anything was sent (see [SentNothing]), it repeats nothing, asks no proxy and unpacks nothing.
// One lost connection is one lost request. A request needs no goroutine beside its own, which makes it cheaper than one
// of [http.Transport].
//
// A connection that lay idle may have been closed by the other side. To send over it is to lose the request and not to
// know. Or there may be an answer on it that nobody asked for, which would be taken for the next one's. So each is looked at
// before it is used again, and closed if it is dead.
//
// Fields are set before the first request and not changed afterwards.
type Transport struct {
	Dial             func(ctx context.Context, network, address string) (net.Conn, error)
	TLS              *tls.Config   // nil for the usual one
	HandshakeTimeMax time.Duration // of TLS
	ConnsMax         int           // in use to one host, at once; 0 for no bound
	IdleConnsMax     int           // kept, to all hosts
	IdleTimeMax      time.Duration // how long one is kept
	HeaderBytesMax   int64         // of an answer

	mu    sync.Mutex
	hosts map[place]*host
	idle  int         // connections kept
	sweep *time.Timer // closes what was idle for too long; nil when nothing is
}

// place is where connections lead to.
type place struct{ scheme, host string }

// host is what a transport knows of a place while it has connections to it.
type host struct {
	place
	users int           // requests that have a connection or want one
	slots chan struct{} // one for each connection in use; nil for no bound
	idle  []*conn       // the one that was used last is at the end
}

// conn is one connection.
type conn struct {
	net    net.Conn
	socket syscall.RawConn // below net; nil when there is none
	host   *host
	in     *bufio.Reader
	out    *bufio.Writer
	left   int64 // bytes that may be read yet
	sent   bool  // something of the request was, or may have been
	timed  bool  // it has a deadline
	since  time.Time
}

var errHeader = errors.New("the header of the answer is too long")

// Read is what in reads from.
func (c *conn) Read(b []byte) (int, error) {
	if c.left <= 0 {
		return 0, errHeader
	}
	n, err := c.net.Read(b[:min(int64(len(b)), c.left)])
	c.left -= int64(n)
	return n, err
}

// Write is what out writes to.
func (c *conn) Write(b []byte) (int, error) {
	c.sent = true
	return c.net.Write(b)
}

var longAgo = time.Unix(1, 0)

// giveUp ends what is being read or written.
func (c *conn) giveUp() { _ = c.net.SetDeadline(longAgo) }

// endWith lets ctx end what is read and written from now on. The function stops that, and reports whether nothing was ended.
func (c *conn) endWith(ctx context.Context) (stop func() bool) {
	end, alone := clock.EndsByTime(ctx)
	if alone || c.timed {
		c.timed = alone
		_ = c.net.SetDeadline(end)
	}
	if alone {
		return func() bool { return true } // what time has ended has failed
	}
	return context.AfterFunc(ctx, c.giveUp)
}

// isDead reports whether the other side of an idle connection has closed it, or has sent what nobody asked for. That may have
// come with the answer before it, so that TLS has it already, or in has its end.
func (c *conn) isDead() bool {
	if isSocketDead(c.socket) {
		return true
	}
	if _, plain := c.net.(*net.TCPConn); plain {
		return false // nothing was read beyond the answer before, see RoundTrip
	}
	if c.net.SetDeadline(time.Time{}) != nil || c.net.SetReadDeadline(longAgo) != nil { // what is read may have to be answered
		return true
	}
	c.timed = false
	_, err := c.in.Peek(1) // reads only what is here
	return !errors.Is(err, os.ErrDeadlineExceeded) || c.net.SetReadDeadline(time.Time{}) != nil
}

// close closes the connection without a word to the other side.
func (c *conn) close() {
	if secure, ok := c.net.(*tls.Conn); ok {
		_ = secure.NetConn().Close()
		return
	}
	_ = c.net.Close()
}

// RoundTrip makes a request. The answer's body must be read or closed by one goroutine.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	c, err := t.take(ctx, r.URL)
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, &NotSentError{err}
	}
	stop := c.endWith(ctx)
	answer, err := t.exchange(c, r)
	if err != nil {
		stop()
		t.release(c, false)
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		if !c.sent {
			err = &NotSentError{err}
		}
		return nil, err
	}
	b := &body{ReadCloser: answer.Body, ctx: ctx, end: func(whole bool) {
		t.release(c, stop() && whole && !answer.Close && !r.Close && c.in.Buffered() == 0)
	}}
	if answer.Body == http.NoBody {
		b.finish(true)
	} else {
		answer.Body = b
	}
	return answer, nil
}

// exchange sends a request and reads the head of its answer.
func (t *Transport) exchange(c *conn, r *http.Request) (*http.Response, error) {
	c.sent, c.left = false, t.HeaderBytesMax
	if err := write(c.out, r); err != nil {
		return nil, err
	}
	if err := c.out.Flush(); err != nil {
		return nil, err
	}
	for range interimMax + 1 {
		answer, err := readAnswer(c.in, r)
		switch {
		case err != nil:
			return nil, err
		case answer.StatusCode == http.StatusSwitchingProtocols:
			return nil, errors.New("the other side wants another protocol")
		case answer.StatusCode >= http.StatusOK:
			c.left = math.MaxInt64
			return answer, nil
		}
	}
	return nil, fmt.Errorf("more than %d interim answers and no other one", interimMax)
}

// write writes a request. What [http.Request.Write] does beyond that, for bodies of unknown length, costs more than all of it.
func write(out *bufio.Writer, r *http.Request) error {
	uri := r.URL.RequestURI()
	if !isUsual(r, uri) {
		return r.Write(out)
	}
	for _, part := range []string{r.Method, " ", uri, " HTTP/1.1\r\nHost: ", r.Host, "\r\n"} {
		_, _ = out.WriteString(part) // an error stays, and Flush returns it
	}
	if r.Close {
		_, _ = out.WriteString("Connection: close\r\n")
	}
	if r.ContentLength > 0 || r.Method != http.MethodGet && r.Method != http.MethodHead {
		_, _ = out.WriteString("Content-Length: ")
		_, _ = out.Write(strconv.AppendInt(out.AvailableBuffer(), r.ContentLength, 10))
		_, _ = out.WriteString("\r\n")
	}
	if err := r.Header.Write(out); err != nil {
		return err
	}
	_, _ = out.WriteString("\r\n")
	if r.ContentLength == 0 {
		return nil
	}
	defer func() { _ = r.Body.Close() }()
	n, err := io.Copy(out, io.LimitReader(r.Body, r.ContentLength))
	more, _ := r.Body.Read(make([]byte, 1))
	if err == nil && (n != r.ContentLength || more > 0) {
		err = fmt.Errorf("a body of another length than %d bytes", r.ContentLength)
	}
	return err
}

// isUsual reports whether a request has nothing to it but a method, an address, headers and a body of known length.
func isUsual(r *http.Request, uri string) bool {
	for _, framing := range []string{"Content-Length", "Transfer-Encoding", "Host", "Trailer"} {
		if r.Header[framing] != nil {
			return false
		}
	}
	hasBody := r.Body != nil && r.Body != http.NoBody
	return hasBody == (r.ContentLength > 0) && r.ContentLength >= 0 && len(r.TransferEncoding) == 0 && r.Trailer == nil &&
		r.Method != "" && r.Host == r.URL.Host && !strings.ContainsFunc(uri, func(c rune) bool { return c <= ' ' || c == 0x7f })
}

// body gives its connection back when it has been read.
type body struct {
	io.ReadCloser
	ctx context.Context //nolint:containedctx // of the request, as net/http's own body has it
	end func(whole bool)
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.finish(errors.Is(err, io.EOF))
		if !errors.Is(err, io.EOF) && b.ctx.Err() != nil {
			err = b.ctx.Err()
		}
	}
	return n, err
}

// Close gives up what was not read.
func (b *body) Close() error {
	b.finish(false)
	return nil
}

func (b *body) finish(whole bool) {
	if b.end != nil {
		b.end(whole)
		b.end = nil
	}
}

// take returns a connection that is not dead, or makes one.
func (t *Transport) take(ctx context.Context, u *url.URL) (*conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	h := t.enter(place{u.Scheme, u.Host})
	if err := h.takeSlot(ctx); err != nil {
		t.leave(h)
		return nil, err
	}
	for c := t.pop(h); c != nil; c = t.pop(h) {
		if time.Since(c.since) < t.IdleTimeMax && !c.isDead() {
			return c, nil
		}
		c.close()
	}
	c, err := t.dial(ctx, u)
	if err != nil {
		t.free(h)
		return nil, err
	}
	c.host = h
	return c, nil
}

// takeSlot waits for one. Only who has to wait asks for ctx's end, which may cost a timer.
func (h *host) takeSlot(ctx context.Context) error {
	if h.slots == nil {
		return nil
	}
	select {
	case h.slots <- struct{}{}:
		return nil
	default:
	}
	select {
	case h.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// enter returns the host of a place, which stays known until the caller leaves it.
func (t *Transport) enter(p place) *host {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.hosts[p]
	if h == nil {
		if t.hosts == nil {
			t.hosts = map[place]*host{}
		}
		h = &host{place: p}
		if t.ConnsMax > 0 {
			h.slots = make(chan struct{}, t.ConnsMax)
		}
		t.hosts[p] = h
	}
	h.users++
	return h
}

func (t *Transport) leave(h *host) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h.users--
	t.forget(h)
}

// forget drops a host that nobody uses. The caller holds the lock.
func (t *Transport) forget(h *host) {
	if h.users == 0 && len(h.idle) == 0 {
		delete(t.hosts, h.place)
	}
}

// free gives up a slot.
func (t *Transport) free(h *host) {
	if h.slots != nil {
		<-h.slots
	}
	t.leave(h)
}

// pop returns the idle connection that was used last, nil for none.
func (t *Transport) pop(h *host) *conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := len(h.idle) - 1
	if last < 0 {
		return nil
	}
	c := h.idle[last]
	h.idle[last] = nil
	h.idle = h.idle[:last]
	t.idle--
	return c
}

// release keeps a connection for the next request, or closes it.
func (t *Transport) release(c *conn, reusable bool) {
	if !reusable || !t.keep(c) {
		c.close()
	}
	t.free(c.host)
}

// keep reports whether there was room.
func (t *Transport) keep(c *conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.idle >= t.IdleConnsMax {
		return false
	}
	c.since = time.Now()
	c.host.idle = append(c.host.idle, c)
	t.idle++
	if t.sweep == nil {
		t.sweep = time.AfterFunc(t.IdleTimeMax, t.closeOld)
	}
	return true
}

// closeOld closes the connections that were idle for too long.
func (t *Transport) closeOld() { t.closeIdle(time.Now().Add(-t.IdleTimeMax)) }

// CloseIdleConnections closes what is kept.
func (t *Transport) CloseIdleConnections() { t.closeIdle(time.Now()) }

// closeIdle closes what is kept since then or before.
func (t *Transport) closeIdle(then time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, h := range t.hosts {
		old := 0
		for old < len(h.idle) && !h.idle[old].since.After(then) {
			h.idle[old].close()
			old++
		}
		h.idle = slices.Delete(h.idle, 0, old)
		t.idle -= old
		t.forget(h)
	}
	if t.sweep != nil {
		t.sweep.Stop()
		t.sweep = nil
	}
	if t.idle > 0 {
		t.sweep = time.AfterFunc(t.IdleTimeMax/2, t.closeOld)
	}
}

// dial makes a connection.
func (t *Transport) dial(ctx context.Context, u *url.URL) (*conn, error) {
	port, usual := u.Port(), map[string]string{schemePlain: "80", schemeSecure: "443"}[u.Scheme]
	if usual == "" {
		return nil, fmt.Errorf("%q is no scheme to ask by", u.Scheme) // and nothing goes out in the clear by mistake
	}
	if port == "" {
		port = usual
	}
	made, err := t.Dial(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return nil, err
	}
	if u.Scheme == schemeSecure {
		secure, err := t.secure(ctx, made, u.Hostname())
		if err != nil {
			_ = made.Close()
			return nil, err
		}
		made = secure
	}
	c := &conn{net: made, socket: socketOf(made)}
	c.in, c.out = bufio.NewReaderSize(c, bufferBytes), bufio.NewWriterSize(c, bufferBytes)
	return c, nil
}

// secure speaks TLS over a connection.
func (t *Transport) secure(ctx context.Context, made net.Conn, name string) (net.Conn, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.TLS != nil {
		config = t.TLS.Clone()
	}
	if config.ServerName == "" {
		config.ServerName = name
	}
	ctx, cancel := context.WithTimeout(ctx, t.HandshakeTimeMax)
	defer cancel()
	secure := tls.Client(made, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	return secure, nil
}
