package app_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/testkit"
	"github.com/ponte-pay/ponte/internal/webhook"
)

// A charge with a postback_url is told of from its creation to its payment, and the audit misses nothing.
func TestPostbackOfACharge(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		a := s.Account(t, "shop")
		var told atomic.Int64
		receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { told.Add(1) }))
		t.Cleanup(receiver.Close)
		hooks, err := s.Core.Webhooks(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		events, err := webhook.ParseEvents("charge.paid")
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := hooks.Create(t.Context(), a.ID, webhook.Endpoint{URL: receiver.URL + "/hook", Events: events}); err != nil {
			t.Fatal(err)
		}
		create := func(key, url string) *testkit.Answer {
			return testkit.Do(t, s.URL, testkit.Request{
				Method: http.MethodPost, Path: "/v1/charges", Key: a.Key, Header: http.Header{"Idempotency-Key": {key}},
				Body: `{"amount": 10.00, "postback_url": "` + url + `"}`,
			})
		}
		if got := create("postback-1", receiver.URL+"/other"); got.Status != http.StatusBadRequest || got.Error().Code != "postback_url_not_registered" {
			t.Errorf("%+v", got)
		}
		var made struct {
			TxID string `json:"txid"`
		}
		create("postback-2", receiver.URL+"/hook").Want(t, http.StatusCreated).Decode(t, &made)
		s.World().Pay(t, testkit.Payment{TxID: made.TxID})
		s.Deliver(t)
		if n := told.Load(); n != 2 {
			t.Errorf("told %d times of a creation and a payment", n)
		}
		audit := func() string {
			t.Helper()
			result, err := s.Core.Audit(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var problems []string
			for _, p := range result.Problems {
				problems = append(problems, p.What)
			}
			return strings.Join(problems, "; ")
		}
		if got := audit(); got != "" {
			t.Errorf("audit: %s", got)
		}
		change := func(sql, want string) {
			t.Helper()
			err := s.Core.DB.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
				_, err := tx.Exec(ctx, sql)
				return err
			})
			if got := audit(); err != nil || !strings.Contains(got, want) {
				t.Errorf("audit: %q, want %q, %v", got, want, err)
			}
		}
		change(`UPDATE event SET ref = id WHERE type = 'charge.created'`, "belongs to no charge")
		change(`DELETE FROM event WHERE type = 'charge.created'`, "has no event charge.created")
		change(`DELETE FROM event WHERE type = 'charge.paid'`, "has no event charge.paid")
	})
}
