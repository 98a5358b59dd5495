package bench

import (
	"bufio"
	"context"
	"io"
	"net"
	"slices"
	"sync"
)

const (
	receiverBufferBytes = 8 << 10
	receiverBodyMax     = 64 << 10
)

// receiver takes webhooks and answers 200 at once. It is as little of an HTTP server as will do, because its time is taken
// from the server that is measured.
type receiver struct {
	address string
	each    func(body []byte) // looks at a body, which is used again afterwards

	listener net.Listener
	mu       sync.Mutex
	open     map[net.Conn]bool
	running  sync.WaitGroup
}

func newReceiver(ctx context.Context, each func(body []byte)) (*receiver, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	v := &receiver{address: listener.Addr().String(), each: each, listener: listener, open: map[net.Conn]bool{}}
	v.running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // it is closed
			}
			v.mu.Lock()
			v.open[conn] = true
			v.mu.Unlock()
			v.running.Go(func() { v.serve(conn) })
		}
	})
	return v, nil
}

func (v *receiver) serve(conn net.Conn) {
	defer func() {
		v.mu.Lock()
		delete(v.open, conn)
		v.mu.Unlock()
		_ = conn.Close()
	}()
	in := bufio.NewReaderSize(conn, receiverBufferBytes)
	var body []byte
	for {
		_, length, err := readHead(in)
		if err != nil || length > receiverBodyMax {
			return
		}
		body = slices.Grow(body[:0], length)[:length]
		if _, err := io.ReadFull(in, body); err != nil {
			return
		}
		v.each(body)
		if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"); err != nil {
			return
		}
	}
}

// close ends all connections.
func (v *receiver) close() {
	_ = v.listener.Close()
	v.mu.Lock()
	for conn := range v.open {
		_ = conn.Close()
	}
	v.mu.Unlock()
	v.running.Wait()
}
