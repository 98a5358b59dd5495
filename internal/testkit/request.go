package testkit

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Request is one request of a test.
type Request struct {
	Method       string // "" means GET
	Path         string // behind the service's URL, query included, escaped as it is to be sent
	Key          string // sent as Authorization: Bearer; "" for none
	Header       http.Header
	Body         string // JSON; "" for none
	From         string // the loopback address it comes from; "" means 127.0.0.1
	Invalid      bool   // breaks openapi.yaml on purpose: see [Invalid]
	Undocumented bool   // see [Undocumented]
}

// Answer is what came back. The contract was held: see [Contract].
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

const requestTimeMax = 30 * time.Second

// Do sends a request.
func (s *Service) Do(tb testing.TB, r Request) *Answer {
	tb.Helper()
	return Do(tb, s.URL, r)
}

// Get sends a GET with a key.
func (s *Service) Get(tb testing.TB, key, path string) *Answer {
	tb.Helper()
	return s.Do(tb, Request{Path: path, Key: key})
}

// Do sends a request to the server at url.
func Do(tb testing.TB, url string, r Request) *Answer {
	tb.Helper()
	a, err := Try(tb.Context(), url, r)
	if err != nil {
		tb.Fatalf("testkit: %s %s: %v", r.Method, r.Path, err)
	}
	return a
}

// Try is [Do] for goroutines of a test, which must not end it.
func Try(ctx context.Context, url string, r Request) (*Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeMax)
	defer cancel()
	if r.Invalid {
		ctx = Invalid(ctx)
	}
	if r.Undocumented {
		ctx = Undocumented(ctx)
	}
	method := r.Method
	if method == "" {
		method = http.MethodGet
	}
	var body io.Reader
	if r.Body != "" {
		body = strings.NewReader(r.Body)
	}
	req, err := http.NewRequestWithContext(ctx, method, url+r.Path, body)
	if err != nil {
		return nil, err
	}
	if r.Body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.Key != "" {
		req.Header.Set("Authorization", "Bearer "+r.Key)
	}
	for name, values := range r.Header {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	client, done := newClient(r.From)
	defer done()
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	content, err := io.ReadAll(res.Body)
	return &Answer{res.StatusCode, res.Header, content}, err
}

// client holds every request and answer against openapi.yaml.
var client = &http.Client{Transport: &Contract{Base: &http.Transport{MaxIdleConnsPerHost: 16}}, CheckRedirect: noRedirect}

// noRedirect shows a test the answer that it got.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// newClient returns a client that calls from an address of this machine.
func newClient(from string) (c *http.Client, done func()) {
	if from == "" {
		return client, func() {}
	}
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	transport := &http.Transport{DialContext: dialer.DialContext}
	return &http.Client{Transport: &Contract{Base: transport}, CheckRedirect: noRedirect}, transport.CloseIdleConnections
}

// Want fails the test unless the answer has that status.
func (a *Answer) Want(tb testing.TB, status int) *Answer {
	tb.Helper()
	if a.Status != status {
		tb.Fatalf("got %d %.1000s, want %d", a.Status, a.Body, status)
	}
	return a
}

// WantError fails the test unless the answer is an error with that status and code.
func (a *Answer) WantError(tb testing.TB, status int, code string) *Answer {
	tb.Helper()
	if a.Status != status || a.Error().Code != code {
		tb.Fatalf("got %d %.1000s, want %d %s", a.Status, a.Body, status, code)
	}
	return a
}

// Lacks fails the test when one of the texts is anywhere in the answer.
func (a *Answer) Lacks(tb testing.TB, texts ...string) *Answer {
	tb.Helper()
	var b strings.Builder
	_ = a.Header.Write(&b) // into memory
	b.Write(a.Body)
	for _, text := range texts {
		if strings.Contains(b.String(), text) {
			tb.Errorf("%q must not be in %.1000s", text, b.String())
		}
	}
	return a
}

// Decode reads the body into v.
func (a *Answer) Decode(tb testing.TB, v any) *Answer {
	tb.Helper()
	if err := json.Unmarshal(a.Body, v); err != nil {
		tb.Fatalf("body %.1000s: %v", a.Body, err)
	}
	return a
}

// Envelope is an error as callers see it.
type Envelope struct {
	Success   *bool  `json:"success"`
	RequestID string `json:"request_id"`
	Error     Error  `json:"error"`
}

// Error is the inner part of an [Envelope].
type Error struct {
	Code      string  `json:"code"`
	Message   string  `json:"message"`
	Retryable *bool   `json:"retryable"`
	Issues    []Issue `json:"issues"`
}

// Issue is one broken field.
type Issue struct {
	Path    string `json:"path"`
	Message string `json:"message"`
}

// Error returns the error of the answer; its zero value when it is none.
func (a *Answer) Error() Error {
	var e Envelope
	_ = json.Unmarshal(a.Body, &e) // what is no envelope has no code
	return e.Error
}

// Paths returns where the issues of the answer are.
func (a *Answer) Paths() []string {
	var paths []string
	for _, i := range a.Error().Issues {
		paths = append(paths, i.Path)
	}
	return paths
}

// Raw writes bytes to the server at url, which no client of net/http would send, and returns its first answer. The
// bytes may go on after the server has stopped reading.
func Raw(tb testing.TB, url string, request io.Reader) *Answer {
	tb.Helper()
	_, address, _ := strings.Cut(url, "://")
	conn, err := net.DialTimeout("tcp", address, requestTimeMax)
	if err != nil {
		tb.Fatalf("testkit: %v", err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(Real.Real().Add(requestTimeMax))
	go func() { _, _ = io.Copy(conn, request) }() // ends with the connection at the latest
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		tb.Fatalf("testkit: no answer: %v", err)
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body) // a server that does not want to read on may hang up before all of it is here
	return &Answer{res.StatusCode, res.Header, body}
}
