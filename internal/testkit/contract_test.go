package testkit_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/ponte-pay/ponte/internal/api"
	"github.com/ponte-pay/ponte/internal/testkit"
)

const (
	balance = `{"available_balance":1.50,"pending_balance":0,"blocked_balance":0,"total_balance":1.50,"currency":"BRL"}`
	named   = "X-Request-Id: req_01m7jaq0cces68re7v54cf2dej\n"
	limited = named + "X-Ratelimit-Limit: 600\nX-Ratelimit-Remaining: 1\nX-Ratelimit-Reset: 1794837867\n"
)

func envelope(code, message, retryable string) string {
	return `{"success":false,"request_id":"req_01m7jaq0cces68re7v54cf2dej","error":{"code":"` + code + `","message":"` + message +
		`","retryable":` + retryable + `}}`
}

// TestContract breaks the contract in every way that the transport is there to notice.
func TestContract(t *testing.T) {
	t.Parallel()
	const get = "GET /v1/balance"
	for _, c := range []struct {
		name    string
		request string
		invalid bool
		status  int
		header  string
		body    string
		breaks  string // in the error; "" means that the contract holds
	}{
		{name: "balance", request: get, status: 200, header: limited, body: balance},
		{name: "no request id", request: get, status: 200, header: strings.TrimPrefix(limited, named), body: balance, breaks: "x-request-id"},
		{name: "no rate limit", request: get, status: 200, header: named, body: balance, breaks: "x-ratelimit"},
		{name: "field missing", request: get, status: 200, header: limited, body: `{"currency":"BRL"}`, breaks: "available_balance"},
		{name: "field of another type", request: get, status: 200, header: limited, body: strings.Replace(balance, "1.50", `"1.50"`, 1), breaks: "available_balance"},
		{name: "other currency", request: get, status: 200, header: limited, body: strings.Replace(balance, "BRL", "USD", 1), breaks: "currency"},
		{name: "undocumented status", request: get, status: 202, header: limited, body: balance, breaks: "status is not supported"},
		{name: "undocumented route", request: "GET /v1/nothing", status: 200, header: limited, body: balance, breaks: "not in openapi.yaml"},
		{name: "request that breaks the document", request: "GET /v1/transactions?limit=0", status: 200, header: limited, body: "{}", breaks: "the request breaks"},
		{
			name: "request that breaks it on purpose", request: "GET /v1/transactions?limit=0", invalid: true, status: 400, header: named,
			body: envelope("VALIDATION_ERROR", "no", "false"),
		},
		{name: "error", request: get, status: 401, header: named, body: envelope("UNAUTHORIZED", "no", "false")},
		{name: "error in plain text", request: get, status: 401, header: named + "Content-Type: text/plain\n", body: "no", breaks: "text/plain"},
		{name: "no envelope", request: "GET /v1/nothing", status: 404, header: named, body: `{"error":"no"}`, breaks: "must be an object"},
		{name: "other id in the body", request: get, status: 401, header: strings.Replace(named, "dej", "dek", 1), body: envelope("UNAUTHORIZED", "no", "false"), breaks: "request_id"},
		{name: "no message", request: get, status: 401, header: named, body: envelope("UNAUTHORIZED", "", "false"), breaks: "no message"},
		{name: "code of another operation", request: get, status: 403, header: named, body: envelope("kyc_required", "no", "false"), breaks: "not documented"},
		{name: "code in the other spelling", request: get, status: 500, header: named, body: envelope("internal_error", "no", "true"), breaks: "not documented"},
		{name: "retryable", request: get, status: 401, header: named, body: envelope("UNAUTHORIZED", "no", "true"), breaks: "retryable"},
		{name: "not retryable", request: get, status: 503, header: named, body: envelope("SERVICE_UNAVAILABLE", "no", "false"), breaks: "retryable"},
		{name: "method without Allow", request: "PUT /v1/balance", status: 405, header: named, body: envelope("method_not_allowed", "no", "false"), breaks: "Allow"},
		{name: "SQL", request: get, status: 500, header: named, body: envelope("INTERNAL_ERROR", "SELECT x FROM y", "true"), breaks: "must not be in it"},
		{name: "stack", request: "GET /v1/x", status: 500, header: named, body: envelope("internal_error", "frame.go:12", "true"), breaks: "must not be in it"},
		{name: "key", request: get, status: 401, header: named, body: envelope("UNAUTHORIZED", "bp_1a2b3c4d_55 is wrong", "false"), breaks: "must not be in it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json; charset=utf-8")
				for line := range strings.Lines(c.header) {
					name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
					w.Header().Set(name, value)
				}
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			}))
			defer server.Close()
			method, path, _ := strings.Cut(c.request, " ")
			_, err := testkit.Try(t.Context(), server.URL, testkit.Request{Method: method, Path: path, Key: "k", Invalid: c.invalid})
			switch {
			case c.breaks == "" && err != nil:
				t.Errorf("got %v", err)
			case c.breaks != "" && (err == nil || !strings.Contains(err.Error(), c.breaks)):
				t.Errorf("got %v, want %s", err, c.breaks)
			}
		})
	}
}

// newKeywords are those of JSON Schema 2020-12 that the contract would not notice the breaking of.
var newKeywords = regexp.MustCompile(`(?m)^[ -]*(const|contains|(min|max)Contains|contentSchema|dependent(Required|Schemas)|if|then|else|` +
	`patternProperties|prefixItems|propertyNames|unevaluated(Items|Properties)|\$(defs|dynamicRef|recursiveRef)):`)

// TestDocumentIsRead fails when openapi.yaml says something that the contract does not check.
func TestDocumentIsRead(t *testing.T) {
	t.Parallel()
	if found := newKeywords.FindAll(api.OpenAPI, -1); found != nil {
		t.Errorf("the contract does not check %q: it would need openapi3.EnableJSONSchema2020", found)
	}
}
