// Package wire makes HTTP requests whose failures are taken for no more than they prove, and reads bodies on both sides.
package wire

import (
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"syscall"
)

// NotSentError says that no byte of a request was sent. It is the one proof there is that the other side did nothing:
// whatever was written may have arrived. A transport that does not return it proves nothing.
type NotSentError struct{ Err error }

func (e *NotSentError) Error() string { return e.Err.Error() }

func (e *NotSentError) Unwrap() error { return e.Err }

// SentNothing reports whether err proves that no byte of the request was sent.
func SentNothing(err error) bool {
	_, ok := errors.AsType[*NotSentError](err)
	return ok
}

// socketOf returns what the system knows a connection by, nil when there is none.
func socketOf(c net.Conn) syscall.RawConn {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	system, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := system.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}

// isSocketDead reports whether the other side of an idle connection has closed it, or has sent what nobody asked for, as far
// as the system knows and nobody has read.
func isSocketDead(socket syscall.RawConn) bool {
	if socket == nil {
		return false
	}
	dead := false
	err := socket.Control(func(fd uintptr) {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		dead = !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.EINTR)
	})
	return err != nil || dead
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
