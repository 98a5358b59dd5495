package bench

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// What requests that change nothing are compared with is Go's HTTP server answering {}. It has a process of its own, as Ponte
// has: in that of the load generator a request would reach it without a switch between processes.

// emptyVariable makes ponte bench be that process: it has the address to listen on.
const emptyVariable = "PONTE_BENCH_EMPTY"

const emptyReadMax = time.Second

// serveEmpty answers until ctx ends.
func serveEmpty(ctx context.Context, address string) error {
	server := &http.Server{
		Addr:              address,
		ReadHeaderTimeout: emptyReadMax,
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") }),
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// emptyHandler measures it.
func (r *run) emptyHandler(ctx context.Context) (float64, error) {
	address, err := freeAddress(ctx)
	if err != nil {
		return 0, err
	}
	server := r.ponte(ctx, "bench")
	server.Env = append(server.Env, emptyVariable+"="+address)
	if err := await(ctx, server, address, "/"); err != nil {
		return 0, err
	}
	defer stop(server)
	request := []byte("GET / HTTP/1.1\r\nHost: bench\r\n\r\n")
	result, err := r.hammer(ctx, r.Length, &traffic{
		address: address, connections: readConnections, want: "HTTP/1.1 200",
		next: func([]byte) []byte { return request },
	})
	return result.rate, err
}
