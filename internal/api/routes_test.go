package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/ponte-pay/ponte/internal/api"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
	"github.com/ponte-pay/ponte/internal/testkit"
)

// anyKey stands for routes that need a key and no scope, open for those that need none.
const (
	anyKey = ""
	open   = "open"
)

// promised are the routes of the specification with the scopes that each needs: alternatives are separated by |, scopes
// that are needed together by +.
var promised = map[string]string{
	"POST /charges":     "charges:write",
	"GET /charges":      "charges:read",
	"GET /charges/{id}": "charges:read",

	"POST /payouts":     "payouts:write",
	"GET /payouts":      "payouts:read",
	"GET /payouts/{id}": "payouts:read",

	"GET /crypto/currencies":       "charges:read|payouts:read",
	"POST /crypto/quotes":          "charges:read|payouts:read",
	"POST /crypto/charges":         "charges:write",
	"GET /crypto/charges":          "charges:read",
	"GET /crypto/charges/{id}":     "charges:read",
	"POST /crypto/payouts":         "payouts:write",
	"GET /crypto/payouts":          "payouts:read",
	"GET /crypto/payouts/minimum":  "payouts:read",
	"GET /crypto/payouts/estimate": "payouts:read",

	"GET /balance":      "balance:read",
	"GET /transactions": "transactions:read|charges:read+payouts:read",

	"GET /med":       "med:read",
	"GET /med/{id}":  "med:read",
	"POST /med/{id}": "med:write",

	"POST /boletos":          anyKey,
	"GET /boletos":           anyKey,
	"GET /boletos/{id}":      anyKey,
	"POST /card/charges":     anyKey,
	"GET /card/charges":      anyKey,
	"GET /card/charges/{id}": anyKey,
	"POST /card_payments":    anyKey,
	"GET /card_payments":     anyKey,

	"GET /openapi.yaml": open,
	"GET /openapi.json": open,
}

func document(t *testing.T) *openapi3.T {
	t.Helper()
	d, err := testkit.Document()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// documented returns the operations of openapi.yaml by their routes.
func documented(t *testing.T) map[string]*openapi3.Operation {
	t.Helper()
	list := map[string]*openapi3.Operation{}
	for path, item := range document(t).Paths.Map() {
		for method, operation := range item.Operations() {
			list[method+" "+path] = operation
		}
	}
	return list
}

// scopesOf returns the scopes that the document gives an operation, as promised writes them.
func scopesOf(t *testing.T, operation *openapi3.Operation) string {
	t.Helper()
	if operation.Security != nil && len(*operation.Security) == 0 {
		return open
	}
	list, ok := operation.Extensions["x-scopes"].([]any)
	if !ok {
		t.Fatalf("%s has no x-scopes", operation.OperationID)
	}
	var alternatives []string
	for _, alternative := range list {
		switch v := alternative.(type) {
		case string:
			alternatives = append(alternatives, v)
		case []any:
			var together []string
			for _, scope := range v {
				together = append(together, fmt.Sprint(scope))
			}
			alternatives = append(alternatives, strings.Join(together, "+"))
		}
	}
	return strings.Join(alternatives, "|")
}

func TestDocumentIsValid(t *testing.T) {
	t.Parallel()
	if err := document(t).Validate(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestDocumentPromises(t *testing.T) {
	t.Parallel()
	got := map[string]string{}
	for route, operation := range documented(t) {
		got[route] = scopesOf(t, operation)
	}
	if diff := cmp.Diff(promised, got); diff != "" {
		t.Errorf("openapi.yaml and the specification differ in routes or scopes (-want +got):\n%s", diff)
	}
	info := document(t)
	if info.Info.Version != "1.1.0" || !strings.HasPrefix(info.OpenAPI, "3.1.") {
		t.Errorf("version %s of OpenAPI %s, want 1.1.0 of 3.1", info.Info.Version, info.OpenAPI)
	}
}

func TestRoutesAreDocumented(t *testing.T) {
	t.Parallel()
	operations, served := documented(t), api.Served()
	for route := range operations {
		if !slices.Contains(served, route) {
			t.Errorf("%s is in openapi.yaml and not served", route)
		}
	}
	for _, route := range served {
		if operations[route] == nil {
			t.Errorf("%s is served and not in openapi.yaml", route)
		}
	}
}

func TestDocumentIsServed(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, sqltest.SQLite(t))
	asYAML := s.Do(t, testkit.Request{Path: "/v1/openapi.yaml"}).Want(t, http.StatusOK)
	if diff := cmp.Diff(string(api.OpenAPI), string(asYAML.Body)); diff != "" {
		t.Errorf("openapi.yaml is served otherwise (-want +got):\n%s", diff)
	}
	asJSON := s.Do(t, testkit.Request{Path: "/v1/openapi.json", Key: "not a key"}).Want(t, http.StatusOK)
	var fromYAML, fromJSON any
	if err := yaml.Unmarshal(asYAML.Body, &fromYAML); err != nil {
		t.Fatal(err)
	}
	normalised, err := json.Marshal(fromYAML)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(normalised, &fromYAML); err != nil {
		t.Fatal(err)
	}
	asJSON.Decode(t, &fromJSON)
	if diff := cmp.Diff(fromYAML, fromJSON); diff != "" {
		t.Errorf("YAML and JSON differ (-yaml +json):\n%s", diff)
	}
	for _, a := range []*testkit.Answer{asYAML, asJSON} {
		if limit := a.Header.Get("X-Ratelimit-Limit"); limit != "" {
			t.Errorf("x-ratelimit-limit %s without a key", limit)
		}
	}
	head := s.Do(t, testkit.Request{Method: http.MethodHead, Path: "/v1/openapi.json"}).Want(t, http.StatusOK)
	if len(head.Body) != 0 || head.Header.Get("Content-Length") != strconv.Itoa(len(asJSON.Body)) {
		t.Errorf("HEAD: %d bytes, content-length %s", len(head.Body), head.Header.Get("Content-Length"))
	}
}

// request returns a well-formed request to a route without a body.
func request(route, key string) testkit.Request {
	method, path, _ := strings.Cut(route, " ")
	return testkit.Request{Method: method, Path: "/v1" + strings.ReplaceAll(path, "{id}", "x_1"), Key: key, Invalid: true}
}

func TestReservedRoutes(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, sqltest.SQLite(t))
	a := s.Account(t, "shop")
	for route, scopes := range promised {
		if scopes != anyKey {
			continue
		}
		got := s.Do(t, request(route, a.Key))
		if strings.Contains(route, "/card_payments") {
			got.WantError(t, http.StatusNotFound, "not_found")
		} else {
			got.WantError(t, http.StatusNotImplemented, "FEATURE_NOT_AVAILABLE")
		}
		got.Lacks(t, a.ID.String())
	}
	withBody := request("POST /boletos", a.Key)
	withBody.Body = `{"amount": broken`
	s.Do(t, withBody).WantError(t, http.StatusNotImplemented, "FEATURE_NOT_AVAILABLE")
}

func TestUnknownRoutes(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, sqltest.SQLite(t))
	a := s.Account(t, "shop")
	for _, path := range []string{
		"/v1/", "/v1/Balance", "/v1/balance/", "/v1/balance/x", "/v1/balances", "/v1/charge", "/v1/charges/", "/v1/charges/x/y", "/v1/charges/ext:a/b",
		"/v1/boletos/x/y", "/v1/card", "/v1/card_payments/crd_1", "/v1//balance", "/v1/./balance", "/v1/../v1/balance",
		"/v1/crypto", "/v1/crypto/x", "/v1/transactions/txn_in_1", "/v1/med/x/y", "/v1/openapi", "/v1/metrics",
	} {
		got := s.Get(t, a.Key, path).WantError(t, http.StatusNotFound, "not_found").Lacks(t, a.ID.String())
		if got.Header.Get("X-Ratelimit-Remaining") == "" {
			t.Errorf("%s: not counted", path)
		}
		s.Do(t, testkit.Request{Path: path}).WantError(t, http.StatusUnauthorized, "UNAUTHORIZED")
	}
	// What is not below /v1 needs no key to be told that it is not there.
	for _, path := range []string{"/v1", "/v2/balance", "/balance", "/metrics", "/debug/pprof/", "/v1balance"} {
		for _, key := range []string{a.Key, "", wrongKey(1)} {
			got := s.Get(t, key, path).WantError(t, http.StatusNotFound, "not_found")
			if got.Header.Get("X-Ratelimit-Remaining") != "" {
				t.Errorf("%s: counted", path)
			}
		}
	}
}

func TestWrongMethod(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, sqltest.SQLite(t))
	a := s.Account(t, "shop")
	for _, c := range []struct{ method, path, allow string }{
		{http.MethodPost, "/v1/balance", "GET, HEAD"},
		{http.MethodPut, "/v1/balance", "GET, HEAD"},
		{http.MethodDelete, "/v1/transactions", "GET, HEAD"},
		{http.MethodDelete, "/v1/charges", "GET, HEAD, POST"},
		{http.MethodPost, "/v1/charges/chg_1", "GET, HEAD"},
		{http.MethodPatch, "/v1/charges/ext:a%2Fb", "GET, HEAD"},
		{http.MethodPatch, "/v1/boletos", "GET, HEAD, POST"},
		{http.MethodOptions, "/v1/card/charges", "GET, HEAD, POST"},
		{http.MethodPost, "/v1/boletos/bol_1", "GET, HEAD"},
		{http.MethodPost, "/v1/openapi.json", "GET, HEAD"},
		{http.MethodPut, "/v1/card_payments", "GET, HEAD, POST"},
		{"BREW", "/v1/balance", "GET, HEAD"},
	} {
		got := s.Do(t, testkit.Request{Method: c.method, Path: c.path, Key: a.Key}).WantError(t, http.StatusMethodNotAllowed, "method_not_allowed")
		if allow := got.Header.Get("Allow"); allow != c.allow {
			t.Errorf("%s %s: Allow %q, want %q", c.method, c.path, allow, c.allow)
		}
	}
}
