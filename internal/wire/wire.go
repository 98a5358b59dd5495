// Package wire watches what becomes of an HTTP request, so that its failure is taken for no more than it proves.
package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"syscall"
)

// Wire watches what becomes of one request, to tell what its failure proves.
//
// A request that never got a connection was never sent: that is the one proof there is. It is a good one because with
// HTTP/1.1 a connection is told to GotConn before a byte of the request goes out. Everything later proves nothing:
// WroteRequest comes before the last bytes are flushed, and another goroutine may write on after the request was given
// up. A transport that does not tell what it does proves nothing either.
//
// A pooled connection may have been closed by the other side without our having noticed. To send over it is to lose the
// request and not to know. So each is looked at when it is taken out of the pool, and is closed if it is dead; then
// nothing can have been written to it.
type Wire struct {
	asked atomic.Bool // a connection was asked for
	alive atomic.Bool // at least one was had that was not dead
	dead  atomic.Bool // one that was dead was closed
}

// Watch returns a context for the request to be made with.
func (w *Wire) Watch(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { w.asked.Store(true) },
		GotConn: func(info httptrace.GotConnInfo) {
			if info.Reused && closeIfDead(info.Conn) {
				w.dead.Store(true)
				return
			}
			w.alive.Store(true)
		},
	})
}

// SentNothing reports whether it is proven that no byte of the request was sent.
func (w *Wire) SentNothing() bool { return w.asked.Load() && !w.alive.Load() }

// MetOnlyTheDead reports whether the request failed only because the pool held dead connections, so that it can be made
// again. net/http does so by itself, but not in every case.
func (w *Wire) MetOnlyTheDead() bool { return w.dead.Load() && !w.alive.Load() }

// closeIfDead closes an idle connection whose other side has closed it, or has sent what nobody asked for.
func closeIfDead(c net.Conn) bool {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn() // closing secure itself would write to it
	}
	system, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := system.SyscallConn()
	if err != nil {
		return false
	}
	dead := false
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		dead = !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.EINTR)
	})
	if err == nil && !dead {
		return false
	}
	_ = c.Close()
	return true
}

// RefusedCertificate reports whether the other side ended the TLS handshake because of our certificate. With TLS 1.3 we
// learn that only after the request was sent. It was not read: certificates are looked at before all else.
func RefusedCertificate(err error) bool {
	var alert *net.OpError
	if !errors.As(err, &alert) || alert.Op != "remote error" {
		return false
	}
	// The type of the alert is not exported.
	text := alert.Err.Error()
	return strings.Contains(text, "certificate") || text == "tls: access denied"
}
