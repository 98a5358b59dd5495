package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
	"github.com/ponte-pay/ponte/internal/testkit"
)

// payout is a payout as callers see it.
type payout struct {
	ID          string      `json:"id"`
	ExternalID  string      `json:"external_id"`
	Amount      json.Number `json:"amount"`
	Fee         json.Number `json:"fee"`
	FeeAmount   json.Number `json:"fee_amount"`
	NetAmount   json.Number `json:"net_amount"`
	GrossAmount json.Number `json:"gross_amount"`
	TestMode    bool        `json:"test_mode"`
	Status      string      `json:"status"`
	Pix         struct {
		Key               string  `json:"key"`
		RecipientName     *string `json:"recipient_name"`
		RecipientDocument *string `json:"recipient_document"`
	} `json:"pix"`
	Description  *string    `json:"description"`
	EndToEndID   *string    `json:"end_to_end_id"`
	ErrorMessage *string    `json:"error_message"`
	CreatedAt    time.Time  `json:"created_at"`
	CompletedAt  *time.Time `json:"completed_at"`
}

// token returns what the acquirers know a payout by.
func (p payout) token(t *testing.T, a testkit.Account) string {
	t.Helper()
	x, err := id.Payout.Parse(p.ID)
	if err != nil {
		t.Fatal(err)
	}
	return id.Token(x, a.ID)
}

// payer is an account with money.
func payer(t *testing.T, s *testkit.Service, amount string, settings ...string) testkit.Account {
	t.Helper()
	a := s.Account(t, "payer", settings...)
	s.Adjust(t, a.ID, money.CurrencyBRL, amount)
	return a
}

func payoutRequest(key, idempotencyKey, body string) testkit.Request {
	r := testkit.Request{Method: http.MethodPost, Path: "/v1/payouts", Key: key, Body: body}
	if idempotencyKey != "" {
		r.Header = http.Header{"Idempotency-Key": {idempotencyKey}}
	}
	return r
}

func postPayout(t *testing.T, s *testkit.Service, key, idempotencyKey, body string) *testkit.Answer {
	t.Helper()
	return s.Do(t, payoutRequest(key, idempotencyKey, body))
}

// makePayout sends 10.00 under an external_id.
func makePayout(t *testing.T, s *testkit.Service, key, externalID string) payout {
	t.Helper()
	body := fmt.Sprintf(`{"amount": 10.00, "pix_key": "maria@example.org", "external_id": %q}`, externalID)
	return decodePayout(t, postPayout(t, s, key, "", body).Want(t, http.StatusCreated))
}

func getPayout(t *testing.T, s *testkit.Service, key, name string) payout {
	t.Helper()
	return decodePayout(t, s.Get(t, key, "/v1/payouts/"+name).Want(t, http.StatusOK))
}

func decodePayout(t *testing.T, a *testkit.Answer) (p payout) {
	t.Helper()
	a.Decode(t, &p)
	return p
}

// conclude moves the clock until payouts settle, and brings the news.
func conclude(t *testing.T, s *testkit.Service) {
	t.Helper()
	s.Advance(t, 2*time.Second)
	s.Deliver(t)
	s.Step(t)
}

func TestPayout(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		a := payer(t, s, "100.00")
		answer := postPayout(t, s, a.Key, "", `{
			"amount": 10.00, "pixKey": "+55 (11) 98765-4321", "externalId": "refund/77", "recipientName": "Maria",
			"recipient_document": "529.982.247-25", "description": "Pedido 42"
		}`).Want(t, http.StatusCreated)
		made := decodePayout(t, answer)
		if made.Status != "processing" || made.Amount != "10.00" || made.Fee != "1.00" || made.FeeAmount != "1.00" ||
			made.NetAmount != "10.00" || made.GrossAmount != "11.00" || made.TestMode || made.Pix.Key != "+5511987654321" ||
			*made.Pix.RecipientName != "Maria" || *made.Pix.RecipientDocument != "52998224725" || *made.Description != "Pedido 42" ||
			made.EndToEndID != nil || made.CompletedAt != nil || made.ErrorMessage != nil || made.ExternalID != "refund/77" {
			t.Errorf("%s", answer.Body)
		}
		wantBalance(t, s, a.Key, "89.00")
		events := wantHappenings(t, s, a.ID, "payout.created")
		if events[0].Data != strings.TrimSpace(string(answer.Body)) {
			t.Errorf("the event shows %s, the answer %s", events[0].Data, answer.Body)
		}
		conclude(t, s)
		events = wantHappenings(t, s, a.ID, "payout.created", "payout.completed")
		found := s.Get(t, a.Key, "/v1/payouts/"+made.ID).Want(t, http.StatusOK)
		done := decodePayout(t, found)
		if done.Status != "completed" || done.EndToEndID == nil || done.CompletedAt == nil || events[1].Data != strings.TrimSpace(string(found.Body)) {
			t.Errorf("%s, event %s", found.Body, events[1].Data)
		}
		x, _ := id.Payout.Parse(made.ID)
		for _, name := range []string{x.UUID(), strings.ToUpper(x.UUID()), "ext:" + url.PathEscape("refund/77")} {
			if got := getPayout(t, s, a.Key, name); !cmp.Equal(got, done) {
				t.Errorf("%s: %s", name, cmp.Diff(done, got))
			}
		}
		wantBalance(t, s, a.Key, "89.00")
		if books := s.World().Payouts(t); len(books) != 1 || books[0].Executions != 1 || books[0].ID != made.token(t, a) || *done.EndToEndID != books[0].EndToEndID {
			t.Errorf("books %+v", books)
		}

		// Again by external_id: the payout as it stands. Other data: a conflict.
		again := postPayout(t, s, a.Key, "", `{"amount": 10, "pix": {"key": "+5511987654321"}, "external_id": "refund/77"}`).Want(t, http.StatusOK)
		if got := decodePayout(t, again); !cmp.Equal(got, done) {
			t.Error(cmp.Diff(done, got))
		}
		for _, body := range []string{
			`{"amount": 10.01, "pix_key": "+5511987654321", "external_id": "refund/77"}`,
			`{"amount": 10.00, "pix_key": "maria@example.org", "external_id": "refund/77"}`,
		} {
			postPayout(t, s, a.Key, "", body).WantError(t, http.StatusConflict, "EXTERNAL_ID_CONFLICT")
		}
		other := s.Account(t, "other")
		for _, name := range []string{made.ID, x.UUID(), "ext:" + url.PathEscape("refund/77"), "ext:", "pyt_1", "x"} {
			s.Get(t, other.Key, "/v1/payouts/"+name).WantError(t, http.StatusNotFound, "NOT_FOUND").Lacks(t, made.ID[4:])
		}
		wantAudit(t, s)
	})
}

func TestPayoutIdempotencyKey(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		a := payer(t, s, "100.00")
		const body = `{"amount": 10.00, "pix_key": "maria@example.org", "external_id": "a"}`
		first := postPayout(t, s, a.Key, "key-00000001", body).Want(t, http.StatusCreated)
		conclude(t, s)
		replay := postPayout(t, s, a.Key, "key-00000001", `{"external_id": "a", "pix_key": "maria@example.org", "amount": 10}`).Want(t, http.StatusCreated)
		if string(replay.Body) != string(first.Body) || replay.Header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%s, want %s", replay.Body, first.Body)
		}
		postPayout(t, s, a.Key, "key-00000001", `{"amount": 11, "pix_key": "maria@example.org", "external_id": "a"}`).
			WantError(t, http.StatusConflict, "IDEMPOTENCY_CONFLICT")
		short := payoutRequest(a.Key, "short", body)
		short.Invalid = true
		s.Do(t, short).WantError(t, http.StatusBadRequest, "invalid_idempotency_key")

		// A failed creation is told again as it was told.
		s.World().Break(t, testkit.Fault{Target: "alpha", Operation: "payout.send", Kind: "reject", Times: 1})
		const rejected = `{"amount": 10.00, "pix_key": "maria@example.org", "external_id": "b"}`
		failed := postPayout(t, s, a.Key, "key-00000002", rejected).Want(t, http.StatusCreated)
		if p := decodePayout(t, failed); p.Status != "failed" || p.ErrorMessage == nil {
			t.Errorf("%s", failed.Body)
		}
		if replay := postPayout(t, s, a.Key, "key-00000002", rejected).Want(t, http.StatusCreated); string(replay.Body) != string(failed.Body) {
			t.Errorf("%s, want %s", replay.Body, failed.Body)
		}
		// A refused request frees its key and its external_id.
		const large = `{"amount": 1000.00, "pix_key": "maria@example.org", "external_id": "c"}`
		postPayout(t, s, a.Key, "key-00000003", large).WantError(t, http.StatusPaymentRequired, "insufficient_balance_for_fees")
		postPayout(t, s, a.Key, "key-00000003", `{"amount": 10.00, "pix_key": "maria@example.org", "external_id": "c"}`).Want(t, http.StatusCreated)
		wantAudit(t, s)
	})
}

func TestPayoutShortage(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, sqltest.SQLite(t))
	for _, c := range []struct{ fee, has, amount, want string }{
		{"1.00", "50.00", "80.00", "49.00 80.00 50.00 1.00 81.00 31.00"},
		{"0.50+1%", "100.00", "100.00", "98.51 100.00 100.00 1.50 101.50 1.50"},
		{"0+100%", "10.00", "10.00", "5.00 10.00 10.00 10.00 20.00 10.00"},
		{"0", "9.99", "10.00", "9.99 10.00 9.99 0.00 10.00 0.01"},
		{"1.00", "2.99", "10.00", "0.00 10.00 2.99 1.00 11.00 8.01"}, // less than a payout may be
		{"1.00", "3.00", "10.00", "2.00 10.00 3.00 1.00 11.00 8.00"},
		{"1.00", "-5.00", "10.00", "0.00 10.00 -5.00 1.00 11.00 16.00"},
	} {
		a := payer(t, s, c.has, "cash_out_fee="+c.fee)
		got := postPayout(t, s, a.Key, "", fmt.Sprintf(`{"amount": %s, "pix_key": "maria@example.org", "external_id": "a"}`, c.amount)).
			WantError(t, http.StatusPaymentRequired, "insufficient_balance_for_fees")
		var told struct {
			Error struct {
				Details map[string]json.Number `json:"details"`
			} `json:"error"`
		}
		got.Decode(t, &told)
		var text []string
		for _, name := range []string{"max_withdrawable", "requested_amount", "available_balance", "fee_amount", "total_required", "additional_balance_needed"} {
			text = append(text, told.Error.Details[name].String())
		}
		if strings.Join(text, " ") != c.want {
			t.Errorf("fee %s, has %s: %v, want %s", c.fee, c.has, text, c.want)
		}
		wantBalance(t, s, a.Key, c.has)
		wantHappenings(t, s, a.ID)
	}
}

func TestPayoutFields(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, sqltest.SQLite(t))
	a := payer(t, s, "1000.00")
	for body, want := range map[string]string{
		`{}`: "amount pix_key external_id",
		`{"amount": 1.99, "pix_key": "maria@example.org", "external_id": "x"}`:                                                  "amount",
		`{"amount": "10", "pix_key": "maria@example.org", "external_id": "x"}`:                                                  "amount",
		`{"amount": 10.001, "pix_key": "maria@example.org", "external_id": ""}`:                                                 "amount external_id",
		`{"amount": 10, "pix_key": "11987654321", "external_id": "x"}`:                                                          "pix_key", // a phone number, or nothing
		`{"amount": 10, "pix": {"key": "nobody"}, "external_id": "x"}`:                                                          "pix.key",
		`{"amount": 10, "pix_key": "maria@example.org", "pix_key_type": "cpf", "external_id": "x"}`:                             "pix_key",
		`{"amount": 10, "pix_key": "maria@example.org", "pixKeyType": "iban", "external_id": "x"}`:                              "pix_key_type",
		`{"amount": 10, "pix_key": "maria@example.org", "external_id": "x", "recipient_document": "1"}`:                         "recipient_document",
		`{"amount": 10, "pix_key": "maria@example.org", "external_id": "` + strings.Repeat("x", 121) + `"}`:                     "external_id",
		`{"amount": 10, "pix_key": "maria@example.org", "external_id": "x", "description": "` + strings.Repeat("x", 141) + `"}`: "description",
	} {
		r := payoutRequest(a.Key, "", body)
		r.Invalid = true
		if got := s.Do(t, r).WantError(t, http.StatusBadRequest, "VALIDATION_ERROR").Paths(); strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", body, got, want)
		}
	}
	for i, keys := range [][2]string{
		{`"pix_key": "529.982.247-25"`, "52998224725"},
		{`"pix_key": "11222333000181"`, "11222333000181"},
		{`"pix_key": "MARIA@example.org"`, "maria@example.org"},
		{`"pix_key": "11987654321", "pix_key_type": "phone"`, "+5511987654321"},
		{`"pix_key": "123E4567-e89b-12d3-a456-426655440000"`, "123e4567-e89b-12d3-a456-426655440000"},
		{`"pix_key": "maria@example.org", "pix": {"key": "joao@example.org"}`, "maria@example.org"},
	} {
		body := fmt.Sprintf(`{"amount": 5, "external_id": "key %d", %s}`, i, keys[0])
		if p := decodePayout(t, postPayout(t, s, a.Key, "", body).Want(t, http.StatusCreated)); p.Pix.Key != keys[1] || !p.TestMode {
			t.Errorf("%s: %+v", body, p)
		}
	}
}

func TestPayoutRefusals(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, sqltest.SQLite(t))
	const body = `{"amount": 10.00, "pix_key": "maria@example.org", "external_id": "x"}`
	for settings, want := range map[string]string{
		"api_cashout=off":            "403 api_cashout_disabled",
		"kyc=pending":                "403 kyc_required",
		"status=banned":              "403 account_banned",
		"status=under_review":        "423 ACCOUNT_LOCKED",
		"disabled_resources=payouts": "403 FORBIDDEN",
		"api_tx_limit=9.99":          "422 AMOUNT_LIMIT_EXCEEDED",
	} {
		a := payer(t, s, "100.00", settings)
		if got := postPayout(t, s, a.Key, "", body); fmt.Sprint(got.Status, " ", got.Error().Code) != want {
			t.Errorf("%s: %d %s", settings, got.Status, got.Body)
		}
	}
	a := payer(t, s, "100.00", "api_tx_limit=10.00", "api_payout=off", "crypto=off", "api_cashin=off")
	postPayout(t, s, a.Key, "", strings.Replace(body, `"x"`, `"x", "postback_url": "https://example.org/hook"`, 1)).
		WantError(t, http.StatusBadRequest, "postback_url_not_registered")
	postPayout(t, s, a.Key, "", body).Want(t, http.StatusCreated)
	for scope, path := range map[string]string{"payouts:write": "GET", "payouts:read": "POST"} {
		r := payoutRequest(s.Key(t, a.ID, scope), "", body)
		if path == "GET" {
			r = testkit.Request{Path: "/v1/payouts", Key: r.Key}
		}
		s.Do(t, r).WantError(t, http.StatusForbidden, "FORBIDDEN")
	}
}

func TestPayoutList(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		a, other := payer(t, s, "1000.00"), payer(t, s, "1000.00")
		var want []string
		for i := range 5 {
			want = append(want, makePayout(t, s, a.Key, fmt.Sprint(i)).ID)
			s.Advance(t, time.Hour)
		}
		foreign := makePayout(t, s, other.Key, "0").ID
		slices.Reverse(want)
		type page struct {
			Data    []payout `json:"data"`
			HasMore bool     `json:"has_more"`
			Next    *string  `json:"next_starting_after"`
		}
		var got []string
		for query := "?limit=2"; query != ""; {
			var p page
			s.Get(t, a.Key, "/v1/payouts"+query).Want(t, http.StatusOK).Decode(t, &p)
			for _, one := range p.Data {
				got = append(got, one.ID)
			}
			query = ""
			if p.HasMore {
				query = "?limit=2&starting_after=" + *p.Next
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		middle := getPayout(t, s, a.Key, want[2])
		var p page
		s.Get(t, a.Key, "/v1/payouts?starting_after="+url.QueryEscape(middle.CreatedAt.Format(time.RFC3339Nano))).Want(t, http.StatusOK).Decode(t, &p)
		if len(p.Data) != 2 || p.Data[0].ID != want[3] || p.HasMore || p.Next != nil {
			t.Errorf("%+v", p)
		}
		for _, query := range []string{"?limit=0", "?limit=201", "?starting_after=" + foreign, "?starting_after=x"} {
			r := testkit.Request{Path: "/v1/payouts" + query, Key: a.Key, Invalid: true}
			s.Do(t, r).WantError(t, http.StatusBadRequest, "VALIDATION_ERROR")
		}
	})
}

// wantAudit fails the test when the books do not add up.
func wantAudit(t *testing.T, s *testkit.Service) {
	t.Helper()
	result, err := s.Core.Audit(t.Context())
	if err != nil || len(result.Problems) > 0 {
		t.Errorf("audit: %v %v", result.Problems, err)
	}
}
