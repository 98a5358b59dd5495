package api_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image/png"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/pix"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/testkit"
)

// charge is a charge as callers see it.
type charge struct {
	ID          string      `json:"id"`
	TxID        string      `json:"txid"`
	ExternalID  *string     `json:"external_id"`
	Amount      json.Number `json:"amount"`
	TestMode    bool        `json:"test_mode"`
	Status      string      `json:"status"`
	Description *string     `json:"description"`
	Pix         struct {
		CopyPaste   string  `json:"copy_paste"`
		QRCodeImage *string `json:"qr_code_image"`
	} `json:"pix"`
	EndToEndID *string    `json:"end_to_end_id"`
	PaidAt     *time.Time `json:"paid_at"`
	ExpiresAt  time.Time  `json:"expires_at"`
	CreatedAt  time.Time  `json:"created_at"`
}

func chargeRequest(key, idempotencyKey, body string) testkit.Request {
	return testkit.Request{
		Method: http.MethodPost, Path: "/v1/charges", Key: key, Body: body, Header: http.Header{"Idempotency-Key": {idempotencyKey}},
	}
}

// postCharge asks for a charge.
func postCharge(t *testing.T, s *testkit.Service, key, idempotencyKey, body string) *testkit.Answer {
	t.Helper()
	return s.Do(t, chargeRequest(key, idempotencyKey, body))
}

// makeCharge makes a charge.
func makeCharge(t *testing.T, s *testkit.Service, key, idempotencyKey, body string) charge {
	t.Helper()
	return decodeCharge(t, postCharge(t, s, key, idempotencyKey, body).Want(t, http.StatusCreated))
}

// getCharge gets a charge by any of its names.
func getCharge(t *testing.T, s *testkit.Service, key, name string) charge {
	t.Helper()
	return decodeCharge(t, s.Get(t, key, "/v1/charges/"+name).Want(t, http.StatusOK))
}

func decodeCharge(t *testing.T, a *testkit.Answer) (c charge) {
	t.Helper()
	a.Decode(t, &c)
	return c
}

// listCharges returns the page behind a query.
func listCharges(t *testing.T, s *testkit.Service, key, query string) (list []charge, next string) {
	t.Helper()
	var page struct {
		Data    []charge `json:"data"`
		HasMore bool     `json:"has_more"`
		Next    *string  `json:"next_starting_after"`
	}
	s.Get(t, key, "/v1/charges"+query).Want(t, http.StatusOK).Decode(t, &page)
	if page.HasMore != (page.Next != nil) {
		t.Fatalf("has_more is %v with %v", page.HasMore, page.Next)
	}
	if page.Next != nil {
		next = *page.Next
	}
	return page.Data, next
}

// wantBalance fails the test unless that much is available.
func wantBalance(t *testing.T, s *testkit.Service, key, want string) {
	t.Helper()
	var balance struct {
		Available json.Number `json:"available_balance"`
	}
	s.Get(t, key, "/v1/balance").Want(t, http.StatusOK).Decode(t, &balance)
	if balance.Available.String() != want {
		t.Errorf("available %s, want %s", balance.Available, want)
	}
}

// happening is an event as it is stored.
type happening struct {
	Type string
	Data string
}

// happenings returns an account's events, oldest first.
func happenings(t *testing.T, s *testkit.Service, a id.Account) []happening {
	t.Helper()
	list, err := sqldb.All(t.Context(), s.Core.DB, func(r sqldb.Row) (h happening, err error) {
		var data []byte
		err = r.Scan(&h.Type, &data)
		h.Data = string(data)
		return h, err
	}, `SELECT type, data FROM event WHERE account_id = $1 ORDER BY id`, int64(a))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// wantHappenings fails the test unless exactly these types of events were written.
func wantHappenings(t *testing.T, s *testkit.Service, a id.Account, want ...string) []happening {
	t.Helper()
	list := happenings(t, s, a)
	var got []string
	for _, h := range list {
		got = append(got, h.Type)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("events %v, want %v", got, want)
	}
	return list
}

// withoutImage returns an answer's body with qr_code_image null, as events show it.
func withoutImage(t *testing.T, a *testkit.Answer) string {
	t.Helper()
	image := decodeCharge(t, a).Pix.QRCodeImage
	if image == nil {
		return strings.TrimSpace(string(a.Body))
	}
	return strings.TrimSpace(strings.Replace(string(a.Body), `"`+*image+`"`, "null", 1))
}

// TestChargeFields holds every field to its limits, on both sides of each.
func TestChargeFields(t *testing.T) {
	t.Parallel()
	type row struct {
		name   string
		body   string
		status int
		code   string // "" for VALIDATION_ERROR when refused
		paths  string // of the issues, with commas
	}
	with := func(field, value string) string { return fmt.Sprintf(`{"amount": 10, %q: %s}`, field, value) }
	text := func(n int) string { return `"` + strings.Repeat("é", n) + `"` }
	hook := func(n int) string {
		const base = "https://shop.example/"
		return `"` + base + strings.Repeat("h", n-len(base)) + `"`
	}
	const unknownHook = "postback_url_not_registered"
	rows := []row{
		{"amount 1.99", `{"amount": 1.99}`, 400, "", "amount"},
		{"amount 2.00", `{"amount": 2.00}`, 201, "", ""},
		{"amount 2", `{"amount": 2}`, 201, "", ""},
		{"amount 0.2e1", `{"amount": 0.2e1}`, 201, "", ""},
		{"amount with three decimals", `{"amount": 2.001}`, 400, "", "amount"},
		{"amount with three decimals by text", `{"amount": 2.010}`, 201, "", ""},
		{"largest amount", `{"amount": 9999999999.99}`, 201, "", ""},
		{"larger amount", `{"amount": 10000000000}`, 400, "", "amount"},
		{"negative amount", `{"amount": -2}`, 400, "", "amount"},
		{"amount as text", `{"amount": "10"}`, 400, "", "amount"},
		{"amount null", `{"amount": null}`, 400, "", "amount"},
		{"no amount", `{}`, 400, "", "amount"},
		{"description 140", with("description", text(140)), 201, "", ""},
		{"description 141", with("description", text(141)), 400, "", "description"},
		{"description 140 beyond the basic plane", with("description", `"`+strings.Repeat("😀", 140)+`"`), 201, "", ""},
		{"description with lines and controls", with("description", `"a\nb\tc\u0007"`), 201, "", ""},
		{"description empty", with("description", `""`), 201, "", ""},
		{"description null", with("description", `null`), 201, "", ""},
		{"description a number", with("description", `5`), 400, "", "description"},
		{"payer_name 200", with("payer_name", text(200)), 201, "", ""},
		{"payer_name 201", with("payer_name", text(201)), 400, "", "payer_name"},
		{"payer.name 200", with("payer", `{"name": `+text(200)+`}`), 201, "", ""},
		{"payer.name 201", with("payer", `{"name": `+text(201)+`}`), 400, "", "payer.name"},
		{"payer without a name", with("payer", `{"age": 5}`), 201, "", ""},
		{"payer a text", with("payer", `"Maria"`), 400, "", "payer"},
		{"payer_name before payer.name", `{"amount": 10, "payer_name": "Maria", "payer": {"name": "João"}}`, 201, "", ""},
		{"payer_document 20", with("payer_document", `"`+strings.Repeat("1", 20)+`"`), 201, "", ""},
		{"payer_document 21", with("payer_document", `"`+strings.Repeat("1", 21)+`"`), 400, "", "payer_document"},
		{"payer_document CPF", with("payer_document", `"52998224725"`), 201, "", ""},
		{"payer_document CPF and payer_name", `{"amount": 10, "payer_document": "52998224725", "payer_name": "Maria"}`, 201, "", ""},
		{"payer_document CPF and payer_name 200", `{"amount": 10, "payer_document": "52998224725", "payer_name": ` + text(200) + `}`, 201, "", ""},
		{"payer_document CPF and payer_name blank", `{"amount": 10, "payer_document": "52998224725", "payer_name": " \n"}`, 201, "", ""},
		{"payer_document CPF and payer_name empty", `{"amount": 10, "payer_document": "52998224725", "payer_name": ""}`, 201, "", ""},
		{"payer_document CNPJ and payer_name", `{"amount": 10, "payer_document": "11222333000181", "payer_name": "Maria"}`, 201, "", ""},
		{"payer_document wrong digits and payer_name", `{"amount": 10, "payer_document": "11111111112", "payer_name": "Maria"}`, 201, "", ""},
		{"payer_document with letters", with("payer_document", `"12ABC34501DE35"`), 400, "", "payer_document"},
		{"payer_document with points", with("payer_document", `"529.982.247-25"`), 400, "", "payer_document"},
		{"payer_document a number", with("payer_document", `52998224725`), 400, "", "payer_document"},
		{"expires_in 59", with("expires_in", "59"), 400, "", "expires_in"},
		{"expires_in 60", with("expires_in", "60"), 201, "", ""},
		{"expires_in 60.0", with("expires_in", "60.0"), 201, "", ""},
		{"expires_in 60.5", with("expires_in", "60.5"), 400, "", "expires_in"},
		{"expires_in 86400", with("expires_in", "86400"), 201, "", ""},
		{"expires_in 86401", with("expires_in", "86401"), 400, "", "expires_in"},
		{"expires_in a text", with("expires_in", `"60"`), 400, "", "expires_in"},
		{"external_id 120", with("external_id", text(120)), 201, "", ""},
		{"external_id 121", with("external_id", text(121)), 400, "", "external_id"},
		{"external_id empty", with("external_id", `""`), 400, "", "external_id"},
		{"external_id null", with("external_id", `null`), 201, "", ""},
		{"external_id a number", with("external_id", `7`), 400, "", "external_id"},
		{"postback_url 500", with("postback_url", hook(500)), 400, unknownHook, ""},
		{"postback_url 501", with("postback_url", hook(501)), 400, "", "postback_url"},
		{"postback_url of nobody", with("postback_url", `"https://shop.example/hook"`), 400, unknownHook, ""},
		{"postback_url without a host", with("postback_url", `"hook"`), 400, "", "postback_url"},
		{"unknown field", with("colour", `"blue"`), 201, "", ""},
		{"camelCase", `{"amount": 10, "payerName": "Maria", "payerDocument": "52998224725", "expiresIn": 60, "externalId": "camel"}`, 201, "", ""},
		{"camelCase beyond the limits", `{"amount": 10, "payerDocument": "x", "expiresIn": 59, "externalId": ""}`, 400, "", "payer_document,expires_in,external_id"},
		{"snake_case before camelCase", `{"amount": 10, "expires_in": 60, "expiresIn": 1}`, 201, "", ""},
		{
			"everything at once",
			`{"amount": 1.999, "description": ` + text(141) + `, "payer_name": ` + text(201) + `, "payer_document": "x",
			"expires_in": 1, "external_id": "", "postback_url": "x"}`,
			400, "", "amount,description,payer_name,payer_document,expires_in,external_id,postback_url",
		},
		{"a list", `[]`, 400, "", ""},
		{"half a body", `{"amount": `, 400, "", ""},
		{"no JSON", `amount=10`, 400, "", ""},
		{"64 KiB", `{"amount": 10` + strings.Repeat(" ", 64<<10-len(`{"amount": 10}`)) + `}`, 201, "", ""},
		{"more than 64 KiB", `{"amount": 10` + strings.Repeat(" ", 64<<10) + `}`, 413, "payload_too_large", ""},
	}
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		a := s.Account(t, "shop")
		made := 0
		for i, r := range rows {
			request := chargeRequest(a.Key, fmt.Sprintf("key-%05d", i), r.body)
			request.Invalid = r.status != http.StatusCreated
			got := s.Do(t, request)
			code := r.code
			if r.status == http.StatusBadRequest && code == "" {
				code = "VALIDATION_ERROR"
			}
			if paths := strings.Join(got.Paths(), ","); got.Status != r.status || got.Error().Code != code || (r.paths != "" && paths != r.paths) {
				t.Errorf("%s: got %d %.300s, want %d %s about %s", r.name, got.Status, got.Body, r.status, code, r.paths)
			}
			if r.status == http.StatusCreated {
				made++
			}
		}
		if books := s.World().Books(t); len(books) != made {
			t.Errorf("the acquirers have %d charges, want %d", len(books), made)
		}
		if list := happenings(t, s, a.ID); len(list) != made {
			t.Errorf("%d events, want %d", len(list), made)
		}
	})
}

func TestChargeKeys(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		a := s.Account(t, "shop")
		for _, c := range []struct {
			keys   []string
			status int
			code   string
		}{
			{nil, 400, "idempotency_key_required"},
			{[]string{""}, 400, "invalid_idempotency_key"},
			{[]string{strings.Repeat("k", 7)}, 400, "invalid_idempotency_key"},
			{[]string{strings.Repeat("k", 8)}, 201, ""},
			{[]string{strings.Repeat("k", 255)}, 201, ""},
			{[]string{strings.Repeat("k", 256)}, 400, "invalid_idempotency_key"},
			{[]string{"key-00001", "key-00002"}, 400, "invalid_idempotency_key"},
		} {
			r := chargeRequest(a.Key, "", `{"amount": 10}`)
			r.Header, r.Invalid = http.Header{"Idempotency-Key": c.keys}, c.code != ""
			s.Do(t, r).WantError(t, c.status, c.code)
		}
	})
}

// TestChargeAnswer looks at all of a new charge.
func TestChargeAnswer(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		a := s.Account(t, "shop")
		before := s.Core.Clock.Now().Truncate(time.Microsecond)
		answer := postCharge(t, s, a.Key, "key-00001",
			`{"amount": 125.9, "description": "Pedido nº 1", "external_id": "o-1", "payer_name": "Maria", "payer_document": "52998224725", "expires_in": 1800}`)
		answer.Want(t, http.StatusCreated).Lacks(t, "Maria", "52998224725", "routing", a.ID.String())
		var fields map[string]json.RawMessage
		answer.Decode(t, &fields)
		want := []string{
			"amount", "created_at", "description", "end_to_end_id", "expires_at", "external_id", "id", "paid_at", "pix", "status",
			"test_mode", "txid",
		}
		if diff := cmp.Diff(want, slices.Sorted(maps.Keys(fields))); diff != "" {
			t.Errorf("fields (-want +got):\n%s", diff)
		}
		for name, value := range map[string]string{
			"amount": "125.90", "description": `"Pedido nº 1"`, "external_id": `"o-1"`, "status": `"pending"`, "test_mode": "false",
			"end_to_end_id": "null", "paid_at": "null",
		} {
			if string(fields[name]) != value {
				t.Errorf("%s is %s, want %s", name, fields[name], value)
			}
		}
		c := decodeCharge(t, answer)
		if c.CreatedAt.Before(before) || c.CreatedAt.After(s.Core.Clock.Now()) || c.ExpiresAt.Sub(c.CreatedAt) != 30*time.Minute {
			t.Errorf("created at %v, expires at %v", c.CreatedAt, c.ExpiresAt)
		}
		if _, err := pix.ParseBRCode(c.Pix.CopyPaste); err != nil {
			t.Errorf("%s: %v", c.Pix.CopyPaste, err)
		}
		encoded, isPNG := strings.CutPrefix(*c.Pix.QRCodeImage, "data:image/png;base64,")
		content, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil || !isPNG {
			t.Fatalf("%.60s: %v", *c.Pix.QRCodeImage, err)
		}
		image, err := png.Decode(bytes.NewReader(content))
		if err != nil || image.Bounds().Dx() < 21 || image.Bounds().Dx() != image.Bounds().Dy() {
			t.Errorf("the image: %v, %v", image, err)
		}
		books := s.World().Books(t)
		if len(books) != 1 || books[0].TxID != c.TxID || books[0].Amount != "125.90" || books[0].Acquirer != "alpha" {
			t.Errorf("the acquirers have %+v", books)
		}
		if got := s.Get(t, a.Key, "/v1/charges/"+c.ID); string(got.Body) != string(answer.Body) {
			t.Errorf("GET shows %s, POST %s", got.Body, answer.Body)
		}

		for i, c := range []struct {
			amount string
			test   bool
		}{{"5.00", true}, {"5.01", false}} {
			made := makeCharge(t, s, a.Key, fmt.Sprintf("key-test-%d", i), `{"amount": `+c.amount+`}`)
			if made.TestMode != c.test || made.Amount.String() != c.amount || made.ExternalID != nil || made.Description != nil {
				t.Errorf("%+v", made)
			}
			if made.ExpiresAt.Sub(made.CreatedAt) != time.Hour {
				t.Errorf("expires at %v, created at %v", made.ExpiresAt, made.CreatedAt)
			}
		}
	})
}

// TestChargeRefusals sends requests that break two rules at once, in the order in which the rules are checked. Nothing is
// asked of any acquirer.
func TestChargeRefusals(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		full := s.Account(t, "full")
		reader := s.Key(t, full.ID, "charges:read,balance:read,payouts:write")
		disabled := s.Account(t, "disabled", "disabled_resources=charges", "kyc=pending")
		unknown := s.Account(t, "unknown", "kyc=pending", "api_cashin=off", "split=on", "api_tx_limit=100")
		closed := s.Account(t, "closed", "api_cashin=off", "api_tx_limit=100")
		outOnly := s.Account(t, "no cash-out", "api_cashout=off", "api_payout=off", "crypto=off", "api_tx_limit=100")
		sharing := s.Account(t, "sharing", "split=on", "api_tx_limit=100")
		for _, name := range []string{"alpha", "beta"} {
			s.World().Break(t, testkit.Fault{Target: name, Kind: "refuse"})
		}
		const (
			split   = `{"amount": 500, "split": [{"account": "x"}], "split_rule_id": "rule", "postback_url": "https://shop.example/"}`
			ruled   = `{"amount": 500, "split_rule_id": "rule", "postback_url": "https://shop.example/"}`
			large   = `{"amount": 100.01, "postback_url": "https://shop.example/"}`
			told    = `{"amount": 100, "postback_url": "https://shop.example/"}`
			allowed = `{"amount": 100}`
		)
		for i, c := range []struct {
			name, key, body string
			status          int
			code            string
		}{
			{"scope, then fields", reader, `{}`, 403, "FORBIDDEN"},
			{"disabled resource, then fields", disabled.Key, `{}`, 403, "FORBIDDEN"},
			{"fields, then switches", unknown.Key, `{"amount": 1, "split": []}`, 400, "VALIDATION_ERROR"},
			{"kyc, then api_cashin", unknown.Key, split, 403, "kyc_required"},
			{"api_cashin, then split", closed.Key, split, 403, "api_cashin_disabled"},
			{"split off, then limit", outOnly.Key, split, 403, "split_disabled"},
			{"empty split off", outOnly.Key, `{"amount": 100, "split": []}`, 403, "split_disabled"},
			{"split on, then limit", sharing.Key, split, 422, "split_not_available"},
			{"split_rule_id, then limit", outOnly.Key, ruled, 422, "split_not_available"},
			{"split_rule_id with split on", sharing.Key, ruled, 422, "split_not_available"},
			{"splitRuleId", outOnly.Key, `{"amount": 100, "splitRuleId": "rule"}`, 422, "split_not_available"},
			{"limit, then postback_url", outOnly.Key, large, 422, "AMOUNT_LIMIT_EXCEEDED"},
			{"postback_url, then acquirer", outOnly.Key, told, 400, "postback_url_not_registered"},
			{"acquirer", outOnly.Key, allowed, 502, "PROVIDER_UNAVAILABLE"},
			{"null split", full.Key, `{"amount": 500, "split": null, "split_rule_id": null}`, 502, "PROVIDER_UNAVAILABLE"},
		} {
			r := chargeRequest(c.key, fmt.Sprintf("key-%05d", i), c.body)
			r.Invalid = c.status == http.StatusBadRequest || c.status == http.StatusForbidden
			if got := s.Do(t, r); got.Status != c.status || got.Error().Code != c.code {
				t.Errorf("%s: got %d %s, want %d %s", c.name, got.Status, got.Body, c.status, c.code)
			}
		}
		s.World().Mend(t)
		if books := s.World().Books(t); len(books) != 0 {
			t.Errorf("an acquirer was asked: %+v", books)
		}
		makeCharge(t, s, outOnly.Key, "key-limit", allowed) // the limit itself is allowed, and what was refused holds no key
		makeCharge(t, s, outOnly.Key, "key-00013", allowed)
	})
}

// TestChargeSwitchedOff repeats what was done before an account was switched off: that is answered, new charges are not.
func TestChargeSwitchedOff(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		a := s.Account(t, "shop", "rate_limit=100000")
		const body = `{"amount": 10, "external_id": "o-1"}`
		first := postCharge(t, s, a.Key, "key-00001", body).Want(t, http.StatusCreated)
		s.Set(t, a.ID, "kyc=pending")
		tries := 0
		testkit.Within(t, changesWithin, "the switch", func() bool {
			tries++
			return postCharge(t, s, a.Key, fmt.Sprintf("key-new-%d", tries), `{"amount": 10}`).Error().Code == "kyc_required"
		})
		wantReplay(t, first, postCharge(t, s, a.Key, "key-00001", body))
		postCharge(t, s, a.Key, "key-00001", `{"amount": 11}`).WantError(t, http.StatusConflict, "IDEMPOTENCY_CONFLICT")
		postCharge(t, s, a.Key, "key-00002", body).Want(t, http.StatusOK)
		postCharge(t, s, a.Key, "key-00003", `{"amount": 11, "external_id": "o-1"}`).WantError(t, http.StatusConflict, "EXTERNAL_ID_CONFLICT")
		postCharge(t, s, a.Key, "key-00004", `{"amount": 11, "external_id": "o-2"}`).WantError(t, http.StatusForbidden, "kyc_required")
	})
}
