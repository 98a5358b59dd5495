package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
	"github.com/ponte-pay/ponte/internal/testkit"
)

func eachShop(t *testing.T, test func(t *testing.T, s *shop)) {
	t.Helper()
	sqltest.EachURL(t, func(t *testing.T, url string) { test(t, newShops(t, url, 1)[0]) })
}

// wantReplay fails the test unless got is the answer first over again, and says so.
func wantReplay(t *testing.T, first, got *testkit.Answer) {
	t.Helper()
	if got.Status != first.Status || string(got.Body) != string(first.Body) || got.Header.Get("Idempotent-Replayed") != "true" {
		t.Fatalf("got %d %s, idempotent-replayed %q, want %d %s, true",
			got.Status, got.Body, got.Header.Get("Idempotent-Replayed"), first.Status, first.Body)
	}
	if got.Header.Get("X-Request-Id") == first.Header.Get("X-Request-Id") {
		t.Error("a replay has the first request's id")
	}
}

func TestIdempotencyKeyHeader(t *testing.T) {
	t.Parallel()
	s := newShops(t, sqltest.SQLite(t), 1)[0]
	a := s.Account(t, "shop")
	for _, c := range []struct {
		keys []string
		code string
	}{
		{nil, "idempotency_key_required"},
		{[]string{""}, "invalid_idempotency_key"},
		{[]string{"seven77"}, "invalid_idempotency_key"},
		{[]string{strings.Repeat("k", 256)}, "invalid_idempotency_key"},
		{[]string{"tab\tinside"}, "invalid_idempotency_key"},
		{[]string{"not UTF-8 \xff"}, "invalid_idempotency_key"},
		{[]string{"key-00001", "key-00002"}, "invalid_idempotency_key"},
		{[]string{"key-00001", "key-00001"}, "invalid_idempotency_key"},
	} {
		r := thingRequest(a.Key, "", `{"amount": 10}`)
		r.Header = http.Header{"Idempotency-Key": c.keys}
		got := s.Do(t, r)
		if got.Status != http.StatusBadRequest || got.Error().Code != c.code {
			t.Errorf("%.40q: got %d %s, want %s", c.keys, got.Status, got.Body, c.code)
		}
	}
	s.count(t, 0)
	for i, key := range []string{"eight888", strings.Repeat("k", 255), "olá, é uma chave", `"quoted' -- %00`} {
		s.post(t, a.Key, key, `{"amount": 10}`).Want(t, http.StatusCreated)
		s.count(t, int64(i+1))
	}
}

func TestReplay(t *testing.T) {
	t.Parallel()
	eachShop(t, func(t *testing.T, s *shop) {
		a, other := s.Account(t, "shop"), s.Account(t, "other shop")
		const key = "key-00001"
		first := s.post(t, a.Key, key, `{"amount": 30, "external_id": "o/1", "note": "é", "payer": {"name": "Maria"}}`).Want(t, http.StatusCreated)
		if replayed := first.Header.Get("Idempotent-Replayed"); replayed != "" {
			t.Errorf("the first answer is replayed: %s", replayed)
		}
		for _, same := range []string{
			`{"amount": 30, "external_id": "o/1", "note": "é", "payer": {"name": "Maria"}}`,
			`{"amount":30.00,"externalId":"o/1","note":"é","payer":{"name":"Maria"}}`,
			"{\"payer\":\n{\"name\":\t\"Maria\"}, \"note\": \"\\u00e9\", \"external_id\": \"o\\/1\", \"amount\": 3e1}",
			`{"externalId": "ignored", "external_id": "o/1", "amount": 0.3E+2, "note": "é", "payer": {"name": "Maria"}}`,
		} {
			wantReplay(t, first, s.post(t, a.Key, key, same))
		}
		second := s.Key(t, a.ID, "") // the scope is the account, not the API key
		wantReplay(t, first, s.post(t, second, key, `{"amount": 30, "external_id": "o/1", "note": "é", "payer": {"name": "Maria"}}`))
		for _, different := range []string{
			`{"amount": 31, "external_id": "o/1", "note": "é", "payer": {"name": "Maria"}}`,
			`{"amount": 30, "external_id": "o/2", "note": "é", "payer": {"name": "Maria"}}`,
			`{"amount": 30, "external_id": "o/1", "note": "e", "payer": {"name": "Maria"}}`,
			`{"amount": 30, "external_id": "o/1", "note": "é", "payer": {"name": "João"}}`,
			`{"amount": 30, "external_id": "o/1", "note": "é"}`,
		} {
			s.post(t, a.Key, key, different).WantError(t, http.StatusConflict, "IDEMPOTENCY_CONFLICT").Lacks(t, "Maria")
		}
		s.count(t, 1)
		theirs := s.post(t, other.Key, key, `{"amount": 7, "external_id": "o/1"}`).Want(t, http.StatusCreated)
		theirs.Lacks(t, `"amount":30`, a.ID.String())
		s.count(t, 2)

		// After a week the key is free again, the external_id is not.
		s.Advance(t, 7*24*time.Hour+time.Second)
		s.post(t, a.Key, key, `{"amount": 8, "external_id": "o/1"}`).WantError(t, http.StatusConflict, "EXTERNAL_ID_CONFLICT")
		s.post(t, a.Key, key, `{"amount": 8}`).Want(t, http.StatusCreated)
		s.count(t, 3)
	})
}

func TestExternalID(t *testing.T) {
	t.Parallel()
	eachShop(t, func(t *testing.T, s *shop) {
		a := s.Account(t, "shop")
		first := s.post(t, a.Key, "key-00001", `{"amount": 30, "external_id": "o-1"}`).Want(t, http.StatusCreated)
		again := s.post(t, a.Key, "key-00002", `{"amount": 30.0, "external_id": "o-1", "note": "not material"}`).Want(t, http.StatusOK)
		if string(again.Body) != string(first.Body) || again.Header.Get("Idempotent-Replayed") != "" {
			t.Errorf("got %s, idempotent-replayed %q, want %s", again.Body, again.Header.Get("Idempotent-Replayed"), first.Body)
		}
		// From then on that key is used: the same again is a replay, anything else a conflict.
		wantReplay(t, again, s.post(t, a.Key, "key-00002", `{"external_id": "o-1", "amount": 30, "note": "not material"}`))
		s.post(t, a.Key, "key-00002", `{"amount": 30, "external_id": "o-1"}`).WantError(t, http.StatusConflict, "IDEMPOTENCY_CONFLICT")
		s.post(t, a.Key, "key-00002", `{"amount": 5}`).WantError(t, http.StatusConflict, "IDEMPOTENCY_CONFLICT")
		s.post(t, a.Key, "key-00003", `{"amount": 31, "external_id": "o-1"}`).WantError(t, http.StatusConflict, "EXTERNAL_ID_CONFLICT")
		for _, bad := range []string{`"` + strings.Repeat("x", 121) + `"`, `""`, `7`, `{}`, `true`} {
			got := s.post(t, a.Key, "key-00004", `{"amount": 30, "external_id": `+bad+`}`).WantError(t, http.StatusBadRequest, "VALIDATION_ERROR")
			if paths := got.Paths(); len(paths) != 1 || paths[0] != "external_id" {
				t.Errorf("%.30s: issues %v", bad, paths)
			}
		}
		s.count(t, 1)
		s.post(t, a.Key, "key-00004", `{"amount": 30, "external_id": "`+strings.Repeat("é", 120)+`"}`).Want(t, http.StatusCreated)
		s.post(t, a.Key, "key-00005", `{"amount": 30, "external_id": null}`).Want(t, http.StatusCreated)
		s.count(t, 3)
	})
}

// TestRefusedFreesKey repeats what was refused: neither key nor external_id is bound by it.
func TestRefusedFreesKey(t *testing.T) {
	t.Parallel()
	eachShop(t, func(t *testing.T, s *shop) {
		a := s.Account(t, "shop")
		const body = `{"amount": 30, "external_id": "o-1"}`
		s.post(t, a.Key, "key-00001", `{"amount": 1, "external_id": "o-1"}`).WantError(t, http.StatusBadRequest, "VALIDATION_ERROR")
		s.things.Creating = func() error { return fault.New(fault.Provider, "", "every acquirer failed") }
		s.post(t, a.Key, "key-00001", body).WantError(t, http.StatusBadGateway, "provider_unavailable")
		s.things.Creating = func() error { return errors.New("INSERT INTO secret: SQLSTATE 42P01") }
		s.post(t, a.Key, "key-00001", body).WantError(t, http.StatusInternalServerError, "internal_error")
		s.things.Creating = func() error { panic("goroutine in /internal/") }
		s.post(t, a.Key, "key-00001", body).WantError(t, http.StatusInternalServerError, "internal_error")
		for _, unknown := range []error{sqldb.ErrUnavailable, sqldb.ErrCommitUnknown, context.DeadlineExceeded} {
			s.things.Creating = func() error { return fmt.Errorf("things: %w", unknown) }
			s.post(t, a.Key, "key-00001", body).WantError(t, http.StatusServiceUnavailable, "SERVICE_UNAVAILABLE")
			// A fault keeps its meaning, whatever caused it: this one must not look as if it could be repeated.
			s.things.Creating = func() error { return &fault.Error{Kind: fault.Ambiguous, Public: "ask first", Cause: unknown} }
			s.post(t, a.Key, "key-00001", body).WantError(t, http.StatusGatewayTimeout, "ambiguous_payout_status")
		}
		s.things.Creating = nil
		s.count(t, 0)
		s.post(t, a.Key, "key-00001", `{"amount": 31, "external_id": "o-1"}`).Want(t, http.StatusCreated)
		s.count(t, 1)
	})
}

func TestInProgress(t *testing.T) {
	t.Parallel()
	eachShop(t, func(t *testing.T, s *shop) {
		a, other := s.Account(t, "shop"), s.Account(t, "other shop")
		begun, proceed := make(chan struct{}), make(chan struct{})
		var held atomic.Bool
		s.things.Creating = func() error {
			if held.CompareAndSwap(false, true) { // only the first waits
				close(begun)
				<-proceed
			}
			return nil
		}
		const body = `{"amount": 30, "external_id": "o-1"}`
		first := make(chan *testkit.Answer, 1)
		go func() {
			defer close(first)
			answer, err := testkit.Try(t.Context(), s.URL, thingRequest(a.Key, "key-00001", body))
			if err != nil {
				t.Error(err)
				return
			}
			first <- answer
		}()
		<-begun
		s.post(t, a.Key, "key-00001", body).WantError(t, http.StatusConflict, "idempotency_key_in_progress")
		s.post(t, a.Key, "key-00001", `{"amount": 5}`).WantError(t, http.StatusConflict, "idempotency_key_in_progress")
		s.post(t, a.Key, "key-00002", body).WantError(t, http.StatusConflict, "external_id_in_progress")
		s.post(t, a.Key, "key-00003", `{"amount": 5}`).Want(t, http.StatusCreated)
		s.post(t, other.Key, "key-00001", body).Want(t, http.StatusCreated)
		close(proceed)
		made := <-first
		if made == nil {
			t.Fatal("the first request failed")
		}
		wantReplay(t, made.Want(t, http.StatusCreated), s.post(t, a.Key, "key-00001", body))
		s.post(t, a.Key, "key-00002", body).Want(t, http.StatusOK)
		s.count(t, 3)
	})
}

// TestRacers sends one request to two servers many times at once: it makes one thing.
func TestRacers(t *testing.T) {
	t.Parallel()
	shops := newShops(t, sqltest.Postgres(t), 2)
	a := shops[0].Account(t, "shop", "rate_limit=1000000") // they knock often
	const racers = 16
	for round := range 3 {
		key, body := fmt.Sprintf("key-race-%d", round), fmt.Sprintf(`{"amount": 30, "external_id": "race-%d"}`, round)
		created := make(chan *testkit.Answer, racers)
		var running sync.WaitGroup
		for i := range racers {
			running.Go(func() {
				for range 1000 {
					got, err := testkit.Try(t.Context(), shops[i%2].URL, thingRequest(a.Key, key, body))
					if err != nil {
						t.Error(err)
						return
					}
					if code := got.Error().Code; code == "idempotency_key_in_progress" {
						_ = testkit.Real.Wait(t.Context(), time.Millisecond) // the one that is under way needs the processor
						continue
					}
					created <- got
					return
				}
				t.Error("in progress for ever")
			})
		}
		running.Wait()
		close(created)
		originals, ids := 0, map[int64]bool{}
		for got := range created {
			var thing struct {
				ID int64 `json:"id"`
			}
			got.Want(t, http.StatusCreated)
			if err := json.Unmarshal(got.Body, &thing); err != nil {
				t.Fatal(err)
			}
			ids[thing.ID] = true
			if got.Header.Get("Idempotent-Replayed") == "" {
				originals++
			}
		}
		if originals != 1 || len(ids) != 1 {
			t.Errorf("round %d: %d answers that are no replay, %d things", round, originals, len(ids))
		}
		shops[0].count(t, int64(round+1))
	}
}

func TestPanic(t *testing.T) {
	t.Parallel()
	s := newShops(t, sqltest.SQLite(t), 1)[0]
	a := s.Account(t, "shop")
	for _, path := range []string{"/v1/panic", "/v1/broken"} {
		got := s.Do(t, testkit.Request{Path: path, Key: a.Key, Undocumented: true}).
			WantError(t, http.StatusInternalServerError, "internal_error").Lacks(t, "nil", "Name", "func()", "unsupported")
		if !strings.Contains(s.Log(), got.Header.Get("X-Request-Id")) {
			t.Errorf("%s is not in the log", path)
		}
	}
	if log := s.Log(); !strings.Contains(log, "nil pointer") || !strings.Contains(log, "shop_test.go") {
		t.Error("the log does not tell where it panicked")
	}
	s.Get(t, a.Key, "/v1/balance").Want(t, http.StatusOK)
}
