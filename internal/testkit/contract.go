package testkit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"github.com/ponte-pay/ponte/internal/api"
)

// Contract is a transport that fails every request and every answer that openapi.yaml does not allow, and every answer
// that tells what no caller may know.
//
// Beside the document it holds errors to what goes for all of them: one envelope, x-request-id in header and body, the
// code documented for the operation, retryable by the table of codes.
type Contract struct{ Base http.RoundTripper }

// description is openapi.yaml, ready to be asked.
type description struct {
	document *openapi3.T
	router   routers.Router
	valid    sync.Map // operations with statuses and bodies that were found valid
}

var described = sync.OnceValues(func() (*description, error) {
	document, err := openapi3.NewLoader().LoadFromData(api.OpenAPI)
	if err != nil {
		return nil, fmt.Errorf("openapi.yaml: %w", err)
	}
	// What the document says is checked by kin-openapi's own reading of schemas, which takes 3.1 for 3.0. The other one, of
	// JSON Schema 2020-12, compiles the schema of each value anew, which takes longer than the rest of an API test. They
	// differ in keywords that the document does not use: TestDocumentIsRead holds it to that.
	read := *document
	read.OpenAPI = "3.0.3"
	router, err := gorillamux.NewRouter(&read)
	if err != nil {
		return nil, fmt.Errorf("openapi.yaml: %w", err)
	}
	return &description{document: document, router: router}, nil
})

// Document returns openapi.yaml. That it is valid is for the tests of package api to check, once: it takes seconds.
func Document() (*openapi3.T, error) {
	d, err := described()
	if err != nil {
		return nil, err
	}
	return d.document, nil
}

type (
	invalidKey      struct{}
	undocumentedKey struct{}
)

// Invalid says that a request breaks the document on purpose: only its answer is checked.
func Invalid(ctx context.Context) context.Context { return context.WithValue(ctx, invalidKey{}, true) }

// Undocumented says that a request goes to a route that only a test serves: its answer is checked for what goes for all
// answers.
func Undocumented(ctx context.Context) context.Context {
	return context.WithValue(ctx, undocumentedKey{}, true)
}

// RoundTrip implements [http.RoundTripper].
func (c *Contract) RoundTrip(r *http.Request) (*http.Response, error) {
	d, err := described()
	if err != nil {
		return nil, err
	}
	in, err := d.checkRequest(r)
	if err != nil {
		return nil, err
	}
	res, err := c.Base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, fmt.Errorf("answer %d cut after %.1000q: %w", res.StatusCode, body, err)
	}
	if err := d.checkAnswer(r, in, res, body); err != nil {
		return nil, fmt.Errorf("the answer breaks the contract: %w\n%d %v\n%.1000s", err, res.StatusCode, res.Header, body)
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	return res, nil
}

// checkRequest returns what the answer is checked with; nil for a route that is not described.
func (d *description) checkRequest(r *http.Request) (*openapi3filter.RequestValidationInput, error) {
	route, params, err := d.router.FindRoute(r)
	if errors.Is(err, routers.ErrPathNotFound) || errors.Is(err, routers.ErrMethodNotAllowed) {
		return nil, nil //nolint:nilnil // not described
	}
	if err != nil {
		return nil, err
	}
	in := &openapi3filter.RequestValidationInput{
		Request: r, PathParams: params, Route: route,
		Options: &openapi3filter.Options{
			AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, SkipSettingDefaults: true,
			IncludeResponseStatus: true, MultiError: true,
		},
	}
	if r.Context().Value(invalidKey{}) != nil {
		return in, nil
	}
	if err := openapi3filter.ValidateRequest(r.Context(), in); err != nil {
		return nil, fmt.Errorf("the request breaks openapi.yaml: %w", err)
	}
	return in, nil
}

func (d *description) checkAnswer(r *http.Request, in *openapi3filter.RequestValidationInput, res *http.Response, body []byte) error {
	if !strings.HasPrefix(r.URL.Path, api.Prefix+"/") && res.StatusCode < http.StatusBadRequest {
		return nil // health
	}
	if id := res.Header.Values("X-Request-Id"); len(id) != 1 || !requestID.MatchString(id[0]) {
		return fmt.Errorf("x-request-id %q", id)
	}
	if r.Method == http.MethodHead {
		return nil
	}
	if in != nil {
		if err := d.checkOperation(in, res, body); err != nil {
			return err
		}
	}
	if res.StatusCode < http.StatusBadRequest {
		if in == nil && r.Context().Value(undocumentedKey{}) == nil {
			return errors.New("the route is not in openapi.yaml")
		}
		if in == nil || !strings.HasPrefix(in.Route.Path, "/openapi.") {
			return checkDiscretion(body)
		}
		return nil
	}
	if err := d.checkError(in, res, body); err != nil {
		return err
	}
	return checkDiscretion(body)
}

// checkOperation holds an answer to what the document says about its operation.
func (d *description) checkOperation(in *openapi3filter.RequestValidationInput, res *http.Response, body []byte) error {
	options := *in.Options
	// A body is held against its schema once: compiling that takes longer than all the rest. Its own id was checked.
	same := fmt.Sprintln(in.Route.Operation.OperationID, res.StatusCode, res.Header.Get("Content-Type")) +
		strings.ReplaceAll(string(body), res.Header.Get("X-Request-Id"), "")
	_, options.ExcludeResponseBody = d.valid.Load(same)
	err := openapi3filter.ValidateResponse(in.Request.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: res.StatusCode, Header: res.Header,
		Body: io.NopCloser(bytes.NewReader(body)), Options: &options,
	})
	if err == nil {
		d.valid.Store(same, true)
	}
	// The library only misses headers that are required.
	promised := in.Route.Operation.Responses.Status(res.StatusCode)
	if err == nil && res.Header.Get("Retry-After") != "" && promised.Value.Headers["retry-after"] == nil {
		err = fmt.Errorf("%d has a retry-after that openapi.yaml does not know", res.StatusCode)
	}
	return err
}

var requestID = regexp.MustCompile(`^req_[0-9a-hjkmnp-tv-z]{26}$`)

// checkError holds an error to what goes for all of them.
func (d *description) checkError(in *openapi3filter.RequestValidationInput, res *http.Response, body []byte) error {
	if kind, _, err := mime.ParseMediaType(res.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return fmt.Errorf("content-type %q", res.Header.Get("Content-Type"))
	}
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		return err
	}
	if in == nil { // otherwise it was checked against its operation
		if err := d.document.Components.Schemas["Error"].Value.VisitJSON(value); err != nil {
			return err
		}
	}
	var e Envelope
	if err := json.Unmarshal(body, &e); err != nil {
		return err
	}
	switch {
	case e.Success == nil || *e.Success || e.Error.Retryable == nil:
		return errors.New("no envelope")
	case e.RequestID != res.Header.Get("X-Request-Id"):
		return errors.New("request_id is not x-request-id")
	case e.Error.Message == "":
		return errors.New("no message")
	case *e.Error.Retryable != retryable(res.StatusCode, e.Error.Code):
		return fmt.Errorf("retryable is %v", *e.Error.Retryable)
	case res.StatusCode == http.StatusMethodNotAllowed && res.Header.Get("Allow") == "":
		return errors.New("405 without Allow")
	case in != nil:
		return checkCode(in.Route.Operation, res.StatusCode, e.Error)
	}
	return nil
}

// retryable is the table of what may be repeated.
func retryable(status int, code string) bool {
	switch code {
	case "RATE_LIMIT_EXCEEDED", "idempotency_key_in_progress":
		return true
	case "ambiguous_payout_status":
		return false
	}
	return slices.Contains([]int{http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable}, status)
}

// checkCode holds a code against those that the operation's answer lists.
func checkCode(operation *openapi3.Operation, status int, e Error) error {
	codes, _ := operation.Responses.Status(status).Value.Extensions["x-error-codes"].(map[string]any)
	documented, ok := codes[e.Code].(bool)
	if !ok {
		return fmt.Errorf("code %s is not documented for %s %d", e.Code, operation.OperationID, status)
	}
	if documented != *e.Retryable {
		return fmt.Errorf("code %s is documented with retryable %v", e.Code, documented)
	}
	return nil
}

// checkDiscretion looks for what no caller may know: how we are built, where we run, what went wrong inside, keys.
func checkDiscretion(body []byte) error {
	if found := key.Find(body); found != nil {
		return fmt.Errorf("%q must not be in it", found)
	}
	lower := bytes.ToLower(body)
	for _, text := range indiscreet {
		if bytes.Contains(lower, []byte(text)) {
			return fmt.Errorf("%q must not be in it", text)
		}
	}
	return nil
}

var key = regexp.MustCompile(`bp_[0-9a-f]{8}_|whsec_`)

// indiscreet are texts that give something away, in lower case. None can stand in an identifier by chance.
var indiscreet = []string{
	"goroutine", ".go:", "panic", "runtime error", "nil pointer",
	"sqlstate", "sqlite", "sqldb", "pgconn", "postgres", "insert into", "delete from", "select ", "constraint",
	"/internal/", "github.com", "/tmp/", "/root/", "/home/", "connection refused", "context deadline", "context canceled",
}
