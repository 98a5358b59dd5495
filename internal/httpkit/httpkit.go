// Package httpkit is what every route needs and no rule lives in: it reads requests so that each broken field is named,
// and writes answers and errors in one shape.
package httpkit

import (
	"maps"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/plainjson"
)

// Answer is what a handler gives back. Its body is built before anything is written, so that an answer is never cut by
// an error.
type Answer struct {
	Status int    // 0 means 200
	Body   any    // encoded as JSON
	Raw    []byte // sent as it is, instead of Body
	Header http.Header
}

// Spelling says which of its two spellings a code has on a route.
type Spelling int

const (
	Upper Spelling = iota // Pix, balance, transactions and MED
	Lower                 // crypto, and routes that do not exist
)

// status is how a kind of fault looks outside.
type status struct {
	http      int
	upper     string // its code, unless the fault has one of its own
	lower     string
	retryable bool
}

// statuses is the one table from what went wrong to what the caller sees.
var statuses = map[fault.Kind]status{
	fault.Invalid:          {400, "VALIDATION_ERROR", "VALIDATION_ERROR", false},
	fault.Unauthenticated:  {401, "UNAUTHORIZED", "UNAUTHORIZED", false},
	fault.Insufficient:     {402, "INSUFFICIENT_BALANCE", "INSUFFICIENT_BALANCE", false},
	fault.Forbidden:        {403, "FORBIDDEN", "FORBIDDEN", false},
	fault.NotFound:         {404, "NOT_FOUND", "not_found", false},
	fault.MethodNotAllowed: {405, "method_not_allowed", "method_not_allowed", false},
	fault.Conflict:         {409, "IDEMPOTENCY_CONFLICT", "idempotency_conflict", false},
	fault.InProgress:       {409, "idempotency_key_in_progress", "idempotency_key_in_progress", true},
	fault.TooLarge:         {413, "payload_too_large", "payload_too_large", false},
	fault.Unprocessable:    {422, "invalid_request", "invalid_request", false},
	fault.Locked:           {423, "ACCOUNT_LOCKED", "ACCOUNT_LOCKED", false},
	fault.RateLimited:      {429, "RATE_LIMIT_EXCEEDED", "RATE_LIMIT_EXCEEDED", true},
	fault.HeadersTooLarge:  {431, "request_header_fields_too_large", "request_header_fields_too_large", false},
	fault.Internal:         {500, "INTERNAL_ERROR", "internal_error", true},
	fault.NotAvailable:     {501, "FEATURE_NOT_AVAILABLE", "FEATURE_NOT_AVAILABLE", false},
	fault.Provider:         {502, "PROVIDER_UNAVAILABLE", "provider_unavailable", true},
	fault.Unavailable:      {503, "SERVICE_UNAVAILABLE", "SERVICE_UNAVAILABLE", true},
	fault.Ambiguous:        {504, "ambiguous_payout_status", "ambiguous_payout_status", false},
}

// envelope is the one shape of every error.
type envelope struct {
	Success   bool          `json:"success"`
	RequestID string        `json:"request_id"`
	Error     envelopeError `json:"error"`
}

type envelopeError struct {
	Code      string          `json:"code"`
	Message   string          `json:"message"`
	Retryable bool            `json:"retryable"`
	Issues    []envelopeIssue `json:"issues,omitempty"`
	Details   any             `json:"details,omitempty"`
}

type envelopeIssue struct {
	Path    string `json:"path"`
	Message string `json:"message"`
}

// RequestIDHeader carries the request's identifier in every answer.
const RequestIDHeader = "X-Request-Id"

// WriteError writes err's envelope and returns the status that it has. The request's identifier is already in w's header.
func WriteError(w http.ResponseWriter, err error, spelling Spelling) int {
	f := fault.As(err)
	s := statuses[f.Kind]
	e := envelope{RequestID: w.Header().Get(RequestIDHeader)}
	e.Error = envelopeError{Code: f.Code, Message: f.Public, Retryable: s.retryable, Details: f.Details}
	switch {
	case f.Code != "":
	case spelling == Lower:
		e.Error.Code = s.lower
	default:
		e.Error.Code = s.upper
	}
	for _, i := range f.Issues {
		e.Error.Issues = append(e.Error.Issues, envelopeIssue(i))
	}
	if f.RetryAfter > 0 {
		// Rounded up: asking a moment too early only earns the same answer again.
		w.Header().Set("Retry-After", strconv.FormatInt(int64((f.RetryAfter+time.Second-1)/time.Second), 10))
	}
	if err := Write(w, Answer{Status: s.http, Body: e}); err != nil {
		// Details that cannot be encoded are our defect; the rest of the envelope always can.
		e.Error.Details = nil
		_ = Write(w, Answer{Status: s.http, Body: e})
	}
	return s.http
}

var buffers = sync.Pool{New: func() any { return new([]byte) }}

// bufferBytesMax is the largest buffer that is kept for the next answer.
const bufferBytesMax = 64 << 10

// Write writes an answer. It fails, with nothing written, when the body cannot be encoded.
func Write(w http.ResponseWriter, a Answer) error {
	if a.Raw != nil {
		send(w, a, a.Raw)
		return nil
	}
	room, _ := buffers.Get().(*[]byte)
	body, err := plainjson.Append((*room)[:0], a.Body)
	if err != nil {
		return err
	}
	body = append(body, '\n')
	defer func() {
		if cap(body) <= bufferBytesMax {
			*room = body
			buffers.Put(room)
		}
	}()
	w.Header()["Content-Type"] = contentTypeJSON
	send(w, a, body)
	return nil
}

var contentTypeJSON = []string{"application/json; charset=utf-8"}

// lengthKnownMax is up to which length net/http holds an answer back until the handler has ended. It then tells the length
// itself, which costs less than a header of ours.
const lengthKnownMax = 2 << 10

func send(w http.ResponseWriter, a Answer, body []byte) {
	h := w.Header()
	maps.Copy(h, a.Header)
	if len(body) > lengthKnownMax {
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	if a.Status == 0 {
		a.Status = http.StatusOK
	}
	w.WriteHeader(a.Status)
	_, _ = w.Write(body) // the caller has gone: nobody is left to tell
}

// StatusOf returns the HTTP status of a kind of fault.
func StatusOf(kind fault.Kind) int { return statuses[kind].http }
