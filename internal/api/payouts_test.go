package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/report"
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
		`{"amount": 10, "pix_key": "nobody", "pix_key_type": "iban", "external_id": "x"}`:                                       "pix_key_type pix_key",
		`{"amount": 10, "pix_key": "11987654321", "pix_key_type": "iban", "external_id": "x"}`:                                  "pix_key_type",
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
			want = append(want, makePayout(t, s, a.Key, strconv.Itoa(i)).ID)
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

// TestPayoutsInTheBooks holds the balance, the transactions and the statement of an account against each other.
func TestPayoutsInTheBooks(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		a := s.Account(t, "shop", "cash_in_fee=0.50", "cash_out_fee=1.00+1%")
		credit := s.Adjust(t, a.ID, money.CurrencyBRL, "100.00")
		charged := makeCharge(t, s, a.Key, "key-00000001", `{"amount": 30.00}`)
		s.World().Pay(t, testkit.Payment{TxID: charged.TxID})
		s.Deliver(t)
		var made []payout
		for _, name := range []string{"completed", "failed", "refunded"} {
			made = append(made, makePayout(t, s, a.Key, name))
		}
		s.World().Do(t, http.MethodPost, "/sim/pix/payouts/"+made[1].token(t, a)+"/fail", `{"reason": "AC03"}`, nil)
		conclude(t, s)
		s.World().Do(t, http.MethodPost, "/sim/pix/payouts/"+made[2].token(t, a)+"/return", `{}`, nil)
		conclude(t, s)
		under := makePayout(t, s, a.Key, "processing")
		debit := s.Adjust(t, a.ID, money.CurrencyBRL, "-5.00")
		s.Adjust(t, a.ID, money.CurrencyUSDT, "7.00")

		type line struct{ ID, Resource, Amount, Fee, Net, Gross, Status, Origin string }
		want := []line{
			{debit, "", "5.00", "0.00", "5.00", "5.00", "completed", "manual"},
			{"txn_out_" + under.ID[4:], under.ID, "10.00", "1.10", "10.00", "11.10", "processing", "api"},
			{"txn_out_" + made[2].ID[4:], made[2].ID, "10.00", "1.10", "10.00", "11.10", "refunded", "api"},
			{"txn_out_" + made[1].ID[4:], made[1].ID, "10.00", "1.10", "10.00", "11.10", "failed", "api"},
			{"txn_out_" + made[0].ID[4:], made[0].ID, "10.00", "1.10", "10.00", "11.10", "completed", "api"},
			{"txn_in_" + charged.ID[4:], charged.ID, "30.00", "0.50", "29.50", "30.00", "completed", "api"},
			{credit, "", "100.00", "0.00", "100.00", "100.00", "completed", "manual"},
		}
		read := func(query ...string) (got []line) {
			t.Helper()
			for cursor := ""; ; {
				p := list(t, s, a.Key, append(query, "limit", "2", "starting_after", cursor)[:len(query)+2+2*min(1, len(cursor))]...)
				for _, x := range p.Data {
					resource := ""
					if x.ResourceID != nil {
						resource = *x.ResourceID
					}
					got = append(got, line{x.ID, resource, string(x.Amount), string(x.Fee), string(x.Net), string(x.Gross), x.Status, x.Origin})
				}
				if !p.HasMore {
					return got
				}
				cursor = *p.NextStartingAfter
			}
		}
		if diff := cmp.Diff(want, read()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(want[:5], read("type", "cash_out")); diff != "" {
			t.Errorf("cash_out (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(want[5:], read("type", "cash_in")); diff != "" {
			t.Errorf("cash_in (-want +got):\n%s", diff)
		}
		// A transaction of another type, or of nobody, is no cursor.
		for _, cursor := range []string{"txn_in_" + under.ID[4:], "txn_out_" + charged.ID[4:], under.ID} {
			s.Do(t, testkit.Request{Path: "/v1/transactions?starting_after=" + cursor, Key: a.Key, Invalid: true}).
				WantError(t, http.StatusBadRequest, "VALIDATION_ERROR")
		}

		wantBalance(t, s, a.Key, "101.20") // 100 + 29.50 - 11.10 - 1.10 - 11.10 - 5
		var last report.Line
		references := map[string]int{}
		period := report.Period{Account: a.ID, Currency: money.CurrencyBRL, From: s.Core.Clock.Now().Add(-time.Hour), To: s.Core.Clock.Now().Add(time.Hour)}
		err := report.Statement(t.Context(), s.Core.DB, period, func(l report.Line) error {
			if l.Balance.Available < 0 || l.Balance.InTransit < 0 {
				t.Errorf("%+v", l)
			}
			references[report.Reference(&l.Transfer)]++
			last = l
			return nil
		})
		if err != nil || last.Balance != (ledger.Balance{Available: 10120, InTransit: 1110}) {
			t.Errorf("the statement ends at %+v, %v", last.Balance, err)
		}
		wantReferences := map[string]int{"": 2, charged.ID: 2, made[0].ID: 3, made[1].ID: 2, made[2].ID: 4, under.ID: 1}
		if diff := cmp.Diff(wantReferences, references); diff != "" {
			t.Errorf("references (-want +got):\n%s", diff)
		}
		wantAudit(t, s)
	})
}

// TestPayoutFaults shows what callers are told when acquirers fail.
func TestPayoutFaults(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		a := payer(t, s, "1000.00")
		w := s.World()
		post := func(externalID string) *testkit.Answer {
			t.Helper()
			return postPayout(t, s, a.Key, "key-of-"+externalID, fmt.Sprintf(`{"amount": 10.00, "pix_key": "maria@example.org", "external_id": %q}`, externalID))
		}
		// Unknown, and the one look afterwards fails too: 504, and the payout is there.
		w.Break(t, testkit.Fault{Target: "alpha", Operation: "payout.send", Kind: "lost_executed", Times: 1, DelayMS: 1})
		w.Break(t, testkit.Fault{Target: "alpha", Operation: "payout.get", Kind: "http_500", Times: 2})
		unknown := post("unknown").WantError(t, http.StatusGatewayTimeout, "ambiguous_payout_status")
		if *unknown.Error().Retryable {
			t.Error("retryable")
		}
		wantBalance(t, s, a.Key, "989.00")
		if p := getPayout(t, s, a.Key, "ext:unknown"); p.Status != "processing" { // asks, and is not answered
			t.Errorf("%+v", p)
		}
		if p := decodePayout(t, post("unknown").Want(t, http.StatusOK)); p.Status != "processing" {
			t.Errorf("%+v", p)
		}
		s.Advance(t, 2*time.Second)
		if _, err := s.Bank.Step(t.Context()); err != nil { // settles, and the notification is not followed yet
			t.Fatal(err)
		}
		if p := getPayout(t, s, a.Key, "ext:unknown"); p.Status != "completed" {
			t.Errorf("%+v", p)
		}
		// Down after the money was held: failed, and given back.
		w.Break(t, testkit.Fault{Target: "alpha", Kind: "refuse"})
		w.Break(t, testkit.Fault{Target: "beta", Kind: "refuse"})
		if p := decodePayout(t, post("down").Want(t, http.StatusCreated)); p.Status != "failed" || p.ErrorMessage == nil {
			t.Errorf("%+v", p)
		}
		wantBalance(t, s, a.Key, "989.00")
		// Known to be down: nothing is stored, and key and external_id are free.
		for i := 0; post(fmt.Sprint("opens ", i)).Status == http.StatusCreated; i++ {
			if i > 20 {
				t.Fatal("the breakers do not open")
			}
		}
		post("free").WantError(t, http.StatusBadGateway, "PROVIDER_UNAVAILABLE")
		s.Get(t, a.Key, "/v1/payouts/ext:free").WantError(t, http.StatusNotFound, "NOT_FOUND")
		// Balance comes before acquirers.
		postPayout(t, s, a.Key, "", `{"amount": 9999, "pix_key": "maria@example.org", "external_id": "rich"}`).
			WantError(t, http.StatusPaymentRequired, "insufficient_balance_for_fees")
		w.Mend(t)
		s.Advance(t, time.Minute)
		if p := decodePayout(t, post("free").Want(t, http.StatusCreated)); p.Status != "processing" {
			t.Errorf("%+v", p)
		}
		wantAudit(t, s)
	})
}

// inTransit returns what an account has on its way out.
func inTransit(t *testing.T, s *testkit.Service, a id.Account) int64 {
	t.Helper()
	b, err := ledger.Balances(t.Context(), s.Core.DB, a, money.CurrencyBRL)
	if err != nil {
		t.Fatal(err)
	}
	return b.InTransit
}
