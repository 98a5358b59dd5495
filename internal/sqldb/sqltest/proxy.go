package sqltest

import (
	"encoding/binary"
	"net"
	"net/url"
	"sync"
	"testing"
)

// Proxy stands between a client and PostgreSQL and loses what it is told to lose. It always loses the client's requests to
// cancel what it no longer waits for: a network that breaks may lose them too. Make it with [NewProxy].
type Proxy struct {
	URL string // of the database, through the proxy

	target   string
	listener net.Listener

	mu    sync.Mutex
	links map[*link]bool
	next  fate          // of the next bytes that a client sends, but for those it skips
	skip  int           // how often clients may still send before that
	held  chan struct{} // clients wait until it is closed; nil when they need not
	sent  int
	down  bool

	refusing bool
	refused  int
}

// fate is what happens to bytes from a client.
type fate int

const (
	pass      fate = iota // to the server, and its answer to the client
	cutBefore             // lost with the connection
	cutAfter              // to the server; its answer is lost with the connection
	sever                 // to the server, which goes on, while the client's side is cut at once
)

// link is one connection through the proxy.
type link struct {
	client, server net.Conn

	mu   sync.Mutex
	fate fate
}

// NewProxy starts a proxy to the PostgreSQL at address and ends it after the test.
func NewProxy(tb testing.TB, address string) *Proxy {
	tb.Helper()
	u, err := url.Parse(address)
	if err != nil {
		tb.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{target: u.Host, listener: listener, links: map[*link]bool{}}
	u.Host = listener.Addr().String()
	p.URL = u.String()
	tb.Cleanup(p.Down)
	go p.accept()
	return p
}

// CutBefore makes the next bytes from a client be lost, and cuts their connection.
func (p *Proxy) CutBefore() { p.decide(cutBefore, 0) }

// CutBeforeSkipping is [Proxy.CutBefore] after clients have sent so often.
func (p *Proxy) CutBeforeSkipping(skip int) { p.decide(cutBefore, skip) }

// CutAfterSkipping is [Proxy.CutAfter] after clients have sent so often.
func (p *Proxy) CutAfterSkipping(skip int) { p.decide(cutAfter, skip) }

// Pass takes back what was decided about bytes that have not come.
func (p *Proxy) Pass() { p.decide(pass, 0) }

// CutAfter lets the next bytes from a client pass, awaits the answer, loses it and cuts the connection.
func (p *Proxy) CutAfter() { p.decide(cutAfter, 0) }

// Sever lets the next bytes from a client pass and cuts its side at once: the server works on and knows nothing of it.
func (p *Proxy) Sever() { p.decide(sever, 0) }

func (p *Proxy) decide(f fate, skip int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next, p.skip = f, skip
}

// Hold stops all bytes from clients until release is called.
func (p *Proxy) Hold() (release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	held := make(chan struct{})
	p.held = held
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.held == held {
			p.held = nil
			close(held)
		}
	}
}

// Refuse ends new connections as they come, until accept is called.
func (p *Proxy) Refuse() (accept func()) {
	refuse := func(yes bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.refusing = yes
	}
	refuse(true)
	return func() { refuse(false) }
}

// Refused returns how many connections came while they were refused.
func (p *Proxy) Refused() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refused
}

// Sent returns how often clients have sent something.
func (p *Proxy) Sent() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sent
}

// Down cuts all connections and refuses new ones.
func (p *Proxy) Down() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down {
		return
	}
	p.down = true
	_ = p.listener.Close()
	if p.held != nil {
		close(p.held)
		p.held = nil
	}
	for l := range p.links {
		l.close()
	}
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		l := &link{client: client, server: server}
		p.mu.Lock()
		if p.refusing {
			p.refused++
		}
		if p.down || p.refusing {
			l.close()
		}
		p.links[l] = true
		p.mu.Unlock()
		go p.requests(l)
		go p.answers(l)
	}
}

func (p *Proxy) requests(l *link) {
	b := make([]byte, 64<<10)
	for {
		n, err := l.client.Read(b)
		if err != nil || isCancel(b[:n]) {
			break
		}
		switch p.ask(l) {
		case cutBefore:
			l.close()
			return
		case sever:
			if _, err := l.server.Write(b[:n]); err == nil {
				_ = l.client.Close()
				return // the server's side stays until it has answered
			}
		case pass, cutAfter:
			if _, err := l.server.Write(b[:n]); err != nil {
				l.close()
				return
			}
		}
	}
	l.close()
}

// isCancel reports whether b is PostgreSQL's CancelRequest: its length, its code, a process and its secret.
func isCancel(b []byte) bool {
	const length, code = 16, 80877102
	return len(b) == length && binary.BigEndian.Uint32(b) == length && binary.BigEndian.Uint32(b[4:]) == code
}

// ask returns the fate of bytes that have just come.
func (p *Proxy) ask(l *link) fate {
	p.mu.Lock()
	p.sent++
	held := p.held
	p.mu.Unlock()
	if held != nil {
		<-held
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case p.next == pass:
	case p.skip > 0:
		p.skip--
	default:
		l.fate, p.next = p.next, pass
	}
	return l.fate
}

func (p *Proxy) answers(l *link) {
	defer func() {
		l.close()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.links, l)
	}()
	b := make([]byte, 64<<10)
	for {
		n, err := l.server.Read(b)
		if err != nil {
			return
		}
		l.mu.Lock()
		lost := l.fate != pass
		l.mu.Unlock()
		if lost {
			return
		}
		if _, err := l.client.Write(b[:n]); err != nil {
			return
		}
	}
}

func (l *link) close() {
	_ = l.client.Close()
	_ = l.server.Close()
}
