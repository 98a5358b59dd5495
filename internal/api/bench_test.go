package api_test

import (
	"net/http"
	"testing"

	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
	"github.com/ponte-pay/ponte/internal/testkit"
)

// discard takes an answer and keeps nothing of it but its status.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(status int)      { d.status = status }

// BenchmarkGetBalance serves a whole authenticated, rate-limited GET /v1/balance without the network: what it allocates is
// ours and the database driver's.
func BenchmarkGetBalance(b *testing.B) {
	s := testkit.Start(b, sqltest.SQLite(b))
	account := s.Account(b, "bench", "rate_limit=1000000")
	handler := s.Server.Handler()
	request, err := http.NewRequestWithContext(b.Context(), http.MethodGet, "/v1/balance", http.NoBody)
	if err != nil {
		b.Fatal(err)
	}
	request.RemoteAddr = "192.0.2.1:1234"
	request.Header.Set("Authorization", "Bearer "+account.Key)
	b.ReportAllocs()
	for b.Loop() {
		answer := discard{header: http.Header{}}
		handler.ServeHTTP(&answer, request)
		if answer.status != http.StatusOK {
			b.Fatal(answer.status)
		}
	}
}
