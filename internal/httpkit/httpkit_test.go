package httpkit

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	goparser "go/parser"
	"go/token"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ponte-pay/ponte/internal/fault"
)

func TestStatuses(t *testing.T) {
	t.Parallel()
	const no, yes = false, true
	want := map[fault.Kind]status{
		fault.Invalid:          {400, "VALIDATION_ERROR", "VALIDATION_ERROR", no},
		fault.Unauthenticated:  {401, "UNAUTHORIZED", "UNAUTHORIZED", no},
		fault.Insufficient:     {402, "INSUFFICIENT_BALANCE", "INSUFFICIENT_BALANCE", no},
		fault.Forbidden:        {403, "FORBIDDEN", "FORBIDDEN", no},
		fault.NotFound:         {404, "NOT_FOUND", "not_found", no},
		fault.MethodNotAllowed: {405, "method_not_allowed", "method_not_allowed", no},
		fault.Conflict:         {409, "IDEMPOTENCY_CONFLICT", "idempotency_conflict", no},
		fault.InProgress:       {409, "idempotency_key_in_progress", "idempotency_key_in_progress", yes},
		fault.TooLarge:         {413, "payload_too_large", "payload_too_large", no},
		fault.Unprocessable:    {422, "invalid_request", "invalid_request", no},
		fault.Locked:           {423, "ACCOUNT_LOCKED", "ACCOUNT_LOCKED", no},
		fault.RateLimited:      {429, "RATE_LIMIT_EXCEEDED", "RATE_LIMIT_EXCEEDED", yes},
		fault.HeadersTooLarge:  {431, "request_header_fields_too_large", "request_header_fields_too_large", no},
		fault.Internal:         {500, "INTERNAL_ERROR", "internal_error", yes},
		fault.NotAvailable:     {501, "FEATURE_NOT_AVAILABLE", "FEATURE_NOT_AVAILABLE", no},
		fault.Provider:         {502, "PROVIDER_UNAVAILABLE", "provider_unavailable", yes},
		fault.Unavailable:      {503, "SERVICE_UNAVAILABLE", "SERVICE_UNAVAILABLE", yes},
		fault.Ambiguous:        {504, "ambiguous_payout_status", "ambiguous_payout_status", no},
	}
	if diff := cmp.Diff(want, statuses, cmp.AllowUnexported(status{})); diff != "" {
		t.Errorf("statuses (-want +got):\n%s", diff)
	}
	if n := countKinds(t); len(statuses) != n {
		t.Errorf("%d statuses for %d kinds of fault", len(statuses), n)
	}
	for kind, s := range statuses {
		for spelling, code := range map[Spelling]string{Upper: s.upper, Lower: s.lower} {
			rec := httptest.NewRecorder()
			WriteError(rec, fault.New(kind, "", "no"), spelling)
			if got := decode(t, rec).Error; rec.Code != s.http || got.Code != code || got.Retryable != s.retryable {
				t.Errorf("kind %d: %d %+v", kind, rec.Code, got)
			}
		}
	}
}

// countKinds returns how many kinds of fault there are, by the source: a new one must not be forgotten here.
func countKinds(t *testing.T) int {
	t.Helper()
	file, err := goparser.ParseFile(token.NewFileSet(), "../fault/fault.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, d := range file.Decls {
		block, ok := d.(*ast.GenDecl)
		if !ok || block.Tok != token.CONST {
			continue
		}
		for _, spec := range block.Specs {
			if value, ok := spec.(*ast.ValueSpec); ok {
				n += len(value.Names)
			}
		}
	}
	return n
}

func decode(t *testing.T, rec *httptest.ResponseRecorder) envelope {
	t.Helper()
	var e envelope
	if err := json.Unmarshal(rec.Body.Bytes(), &e); err != nil {
		t.Fatalf("%s: %v", rec.Body, err)
	}
	return e
}

func TestWriteError(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		err    error
		status int
		header http.Header
		body   string
	}{
		{
			name: "a code of its own", err: fault.New(fault.Forbidden, "kyc_required", "first tell us <who> & why"),
			status: 403, body: `{"code":"kyc_required","message":"first tell us <who> & why","retryable":false}`,
		},
		{
			name: "issues", err: &fault.Error{Kind: fault.Invalid, Public: "no", Issues: []fault.Issue{{Path: "amount", Message: "is required"}}},
			status: 400, body: `{"code":"VALIDATION_ERROR","message":"no","retryable":false,"issues":[{"path":"amount","message":"is required"}]}`,
		},
		{
			name: "details", err: &fault.Error{Kind: fault.Insufficient, Public: "no", Details: map[string]int{"fee": 1}},
			status: 402, body: `{"code":"INSUFFICIENT_BALANCE","message":"no","retryable":false,"details":{"fee":1}}`,
		},
		{
			name: "details that are no JSON", err: &fault.Error{Kind: fault.Insufficient, Public: "no", Details: func() {}},
			status: 402, body: `{"code":"INSUFFICIENT_BALANCE","message":"no","retryable":false}`,
		},
		{
			name: "a wrapped fault", err: fmt.Errorf("account: %w", fault.New(fault.NotFound, "", "no such account")),
			status: 404, body: `{"code":"NOT_FOUND","message":"no such account","retryable":false}`,
		},
		{
			name: "any other error", err: errors.New("password authentication failed"),
			status: 500, body: `{"code":"INTERNAL_ERROR","message":"something went wrong on our side","retryable":true}`,
		},
		{
			name: "a cause", err: &fault.Error{Kind: fault.Unavailable, Public: "not now", Cause: errors.New("dial tcp 10.0.0.1")},
			status: 503, body: `{"code":"SERVICE_UNAVAILABLE","message":"not now","retryable":true}`,
		},
		{
			name: "a wait is rounded up", err: &fault.Error{Kind: fault.RateLimited, Public: "no", RetryAfter: 1001 * time.Millisecond},
			status: 429, header: http.Header{"Retry-After": {"2"}}, body: `{"code":"RATE_LIMIT_EXCEEDED","message":"no","retryable":true}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rec := httptest.NewRecorder()
			rec.Header().Set(RequestIDHeader, "req_1")
			if status := WriteError(rec, c.err, Upper); status != c.status || rec.Code != c.status {
				t.Errorf("status %d, written %d, want %d", status, rec.Code, c.status)
			}
			want := `{"success":false,"request_id":"req_1","error":` + c.body + "}\n"
			if diff := cmp.Diff(want, rec.Body.String()); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
			if got := rec.Header().Get("Retry-After"); got != c.header.Get("Retry-After") {
				t.Errorf("retry-after %q", got)
			}
		})
	}
}

func TestWrite(t *testing.T) {
	t.Parallel()
	rec := httptest.NewRecorder()
	if err := Write(rec, Answer{Body: func() {}, Header: http.Header{"X-Some": {"thing"}}}); err == nil {
		t.Error("a function was encoded")
	}
	if rec.Flushed || rec.Body.Len() != 0 || len(rec.Header()) != 0 {
		t.Errorf("something was written: %v %s", rec.Header(), rec.Body)
	}
	for _, c := range []struct {
		answer Answer
		status int
		kind   string
		body   string
	}{
		{Answer{Body: []int{1}}, 200, "application/json; charset=utf-8", "[1]\n"},
		{Answer{Status: 201, Body: "<&>"}, 201, "application/json; charset=utf-8", "\"<&>\"\n"},
		{Answer{Raw: []byte("a: b"), Header: http.Header{"Content-Type": {"application/yaml"}}}, 200, "application/yaml", "a: b"},
	} {
		rec := httptest.NewRecorder()
		if err := Write(rec, c.answer); err != nil {
			t.Fatal(err)
		}
		if rec.Code != c.status || rec.Body.String() != c.body || rec.Header().Get("Content-Type") != c.kind {
			t.Errorf("%+v: got %d %v %s", c.answer, rec.Code, rec.Header(), rec.Body)
		}
	}
}

// TestLength shows that callers are told how long an answer is, whoever counts.
func TestLength(t *testing.T) {
	t.Parallel()
	for _, isHTTP2 := range []bool{false, true} {
		frame, _ := newFrame()
		server := httptest.NewUnstartedServer(frame.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			size, _ := strconv.Atoi(r.URL.Path[1:])
			_ = Write(w, Answer{Raw: make([]byte, size)})
		})))
		server.EnableHTTP2 = isHTTP2
		server.StartTLS()
		t.Cleanup(server.Close)
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			for _, size := range []int{1, lengthKnownMax, lengthKnownMax + 1, 100_000} {
				r, err := http.NewRequestWithContext(t.Context(), method, fmt.Sprint(server.URL, "/", size), http.NoBody)
				if err != nil {
					t.Fatal(err)
				}
				res, err := server.Client().Do(r)
				if err != nil {
					t.Fatal(err)
				}
				_ = res.Body.Close()
				if res.ContentLength != int64(size) || len(res.TransferEncoding) != 0 || (res.ProtoMajor == 2) != isHTTP2 {
					t.Errorf("%s %s of %d bytes: content-length %d, %v", res.Proto, method, size, res.ContentLength, res.TransferEncoding)
				}
			}
		}
	}
}
