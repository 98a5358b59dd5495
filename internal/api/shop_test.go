package api_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/api"
	"github.com/ponte-pay/ponte/internal/httpkit"
	"github.com/ponte-pay/ponte/internal/idempotency"
	"github.com/ponte-pay/ponte/internal/ratelimit"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
	"github.com/ponte-pay/ponte/internal/testkit"
)

// shop is a server that has the routes of these tests beside its own: POST /v1/things, and GET /v1/panic, which does.
type shop struct {
	*testkit.Service
	things *api.Things
	guard  *account.Guard
}

// newShops opens shops that share a database.
func newShops(t *testing.T, url string, count int) []*shop {
	t.Helper()
	db := sqltest.Open(t, url)
	err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error { return tx.Script(ctx, api.ThingTable) })
	if err != nil {
		t.Fatal(err)
	}
	var shops []*shop
	for range count {
		shops = append(shops, newShop(t, testkit.Start(t, url), count))
	}
	return shops
}

func newShop(t *testing.T, s *testkit.Service, nodes int) *shop {
	t.Helper()
	core := s.Core
	guard := account.NewGuard(core.DB, core.Clock)
	v1 := api.New(api.Services{
		DB: core.DB, Directory: account.NewDirectory(core.DB, core.Clock), Guard: guard,
		Limiter: ratelimit.New(core.DB, core.Clock, func() int { return nodes }),
	})
	things := &api.Things{DB: core.DB, Clock: core.Clock, Engine: idempotency.New(core.DB, core.Clock, 0)}
	things.Mount(v1)
	v1.Mount(http.MethodGet, "/panic", func(*http.Request) (httpkit.Answer, error) {
		var nobody *account.Account
		return httpkit.Answer{Body: nobody.Name}, nil
	})
	v1.Mount(http.MethodGet, "/broken", func(*http.Request) (httpkit.Answer, error) {
		return httpkit.Answer{Body: func() {}}, nil // nothing that JSON knows
	})
	frame := &httpkit.Frame{
		IDs: core.IDs, Clock: core.Clock, Log: s.Logger, Ready: func() error { return nil }, Spelling: api.Spelling,
	}
	server := httptest.NewServer(frame.Wrap(v1))
	t.Cleanup(server.Close)
	s.URL = server.URL
	return &shop{s, things, guard}
}

// post asks for a thing.
func (s *shop) post(t *testing.T, key, idempotencyKey, body string) *testkit.Answer {
	t.Helper()
	return s.Do(t, thingRequest(key, idempotencyKey, body))
}

func thingRequest(key, idempotencyKey, body string) testkit.Request {
	r := testkit.Request{Method: http.MethodPost, Path: "/v1/things", Key: key, Body: body, Undocumented: true}
	if idempotencyKey != "" {
		r.Header = http.Header{"Idempotency-Key": {idempotencyKey}}
	}
	return r
}

// count fails the test unless there are that many things.
func (s *shop) count(t *testing.T, want int64) {
	t.Helper()
	n, err := s.things.Count(t.Context())
	if err != nil || n != want {
		t.Fatalf("%d things, %v, want %d", n, err, want)
	}
}
