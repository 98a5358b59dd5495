package simulator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"syscall"
)

// door is where an acquirer is reached over TCP: a port of its own, which can be shut together with every connection that
// came through it, and opened again.
type door struct {
	server *http.Server

	mu       sync.Mutex
	hold     *os.File  // keeps the port ours while nobody listens; nil before the first open
	port     int       // 0 before the first open
	listener *listener // nil while the door is shut
	serving  sync.WaitGroup
}

// loopback is where the acquirers live.
var loopback = [4]byte{127, 0, 0, 1}

// open listens, on the port it had before if there was one, else on the wanted one if that is free, else on any. It
// returns the port.
func (d *door) open(ctx context.Context, wanted int) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.listener != nil {
		return d.port, nil
	}
	if d.hold == nil {
		var err error
		if d.hold, d.port, err = holdPort(wanted); err != nil {
			if d.hold, d.port, err = holdPort(0); err != nil {
				return 0, err
			}
		}
	}
	l, err := d.listen(ctx)
	if err != nil {
		return 0, fmt.Errorf("simulator: open port %d: %w", d.port, err)
	}
	opened := newListener(l)
	d.listener = opened
	d.serving.Go(func() { _ = d.server.Serve(opened) }) // which ends when the door is shut, and has nothing else to say
	return d.port, nil
}

func (d *door) listen(ctx context.Context) (net.Listener, error) {
	var config net.ListenConfig
	address := net.JoinHostPort(net.IP(loopback[:]).String(), strconv.Itoa(d.port))
	l, err := config.Listen(ctx, "tcp4", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		// Not every system lets one process bind a port twice.
		_ = d.hold.Close()
		l, err = config.Listen(ctx, "tcp4", address)
	}
	return l, err
}

// shut stops listening and closes every connection. When it returns, the next dial is refused.
func (d *door) shut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.listener != nil {
		d.listener.shut()
		d.listener = nil
	}
}

// reopen opens a door that was shut. One that was never open stays so.
func (d *door) reopen(ctx context.Context) error {
	d.mu.Lock()
	known := d.port != 0
	d.mu.Unlock()
	if !known {
		return nil
	}
	_, err := d.open(ctx, 0)
	return err
}

// close shuts the door for good.
func (d *door) close() {
	d.shut()
	_ = d.server.Close()
	d.serving.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.hold != nil {
		_ = d.hold.Close()
	}
}

// holdPort binds a port, or a free one for 0, and does not listen on it. Dials are refused, and nobody is given the port:
// a shut door's port must not become the local end of some connection, least of all of one that dials it.
func holdPort(port int) (*os.File, int, error) {
	syscall.ForkLock.RLock()
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(socket)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, 0, fmt.Errorf("simulator: socket: %w", err)
	}
	hold := os.NewFile(uintptr(socket), "port")
	if err := bind(socket, port); err != nil {
		_ = hold.Close()
		return nil, 0, fmt.Errorf("simulator: bind port %d: %w", port, err)
	}
	address, err := syscall.Getsockname(socket)
	bound, ok := address.(*syscall.SockaddrInet4)
	if err != nil || !ok {
		_ = hold.Close()
		return nil, 0, fmt.Errorf("simulator: port of a socket: %w", err)
	}
	return hold, bound.Port, nil
}

func bind(socket, port int) error {
	if err := syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return err
	}
	return syscall.Bind(socket, &syscall.SockaddrInet4{Port: port, Addr: loopback})
}

// connectionsMax bounds the connections through one door.
const connectionsMax = 4096

// listener knows all its open connections. http.Server knows them too, but not the one that it is just accepting.
type listener struct {
	net.Listener
	slots chan struct{} // one for each open connection
	done  chan struct{} // closed when the door is shut

	mu    sync.Mutex
	conns map[*conn]struct{} // nil when the door is shut
}

func newListener(l net.Listener) *listener {
	return &listener{Listener: l, slots: make(chan struct{}, connectionsMax), done: make(chan struct{}), conns: map[*conn]struct{}{}}
}

// Accept waits for the next connection.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.done:
		return nil, net.ErrClosed
	}
	accepted, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	c := &conn{Conn: accepted, listener: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns == nil {
		_ = accepted.Close()
		return nil, net.ErrClosed
	}
	l.conns[c] = struct{}{}
	return c, nil
}

func (l *listener) shut() {
	_ = l.Listener.Close()
	l.mu.Lock()
	conns := l.conns
	l.conns = nil
	l.mu.Unlock()
	close(l.done)
	for c := range conns {
		_ = c.Conn.Close()
	}
}

// conn is a connection through a door.
type conn struct {
	net.Conn
	listener *listener
	closed   sync.Once
}

// Close closes the connection and makes room for another.
func (c *conn) Close() error {
	c.closed.Do(func() {
		c.listener.mu.Lock()
		delete(c.listener.conns, c)
		c.listener.mu.Unlock()
		<-c.listener.slots
	})
	return c.Conn.Close()
}

// reset closes the connection so that the other end's read fails instead of ending.
func (c *conn) reset() {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}
