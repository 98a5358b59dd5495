package bcb

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/wire"
)

const (
	testTxID   = "1aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	testE2E    = "E9000009920261115120000000000001"
	testKey    = "pix@loja.example"
	testSecret = "s3cr3t-of-the-client"

	parameters = `"parametros":` //nolint:misspell // Portuguese
)

var newCharge = acquirer.NewCharge{TxID: testTxID, Amount: 1234, ExpiresIn: time.Hour, Description: "Pedido 42"}

// cobBody is the charge that newCharge asks for, with that status and further members.
func cobBody(status string, members ...string) string {
	return fmt.Sprintf(`{"calendario":{"criacao":"2026-11-15T12:00:00.500Z","expiracao":3600},"txid":%q,"revisao":0,
		"loc":{"id":7,"location":"pix.example/qr/v2/7","tipoCob":"cob"},"location":"pix.example/qr/v2/7","status":%q,
		"valor":{"original":"12.34"},"chave":%q,"pixCopiaECola":"a code"%s}`, testTxID, status, testKey, strings.Join(append([]string{""}, members...), ","))
}

// reply is an answer of a bank. A status of 0 breaks the connection instead.
type reply struct {
	status int
	body   string
}

func (a reply) write(w http.ResponseWriter) {
	if a.status == 0 {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.status)
	_, _ = io.WriteString(w, a.body)
}

// seen is a request that a bank got.
type seen struct {
	line   string // method and path with query
	body   string
	header http.Header
}

// bank is a server for the cases that only wires have.
type bank struct {
	*httptest.Server

	mu       sync.Mutex
	requests []seen // without those for tokens
	tokens   []seen
}

// newBank starts a bank. A nil token means that tokens token-1, token-2 and so on are given, for an hour each.
func newBank(t *testing.T, token, api http.HandlerFunc) *bank {
	t.Helper()
	b := &bank{}
	b.Server = httptest.NewServer(b.handler(token, api))
	t.Cleanup(b.Close)
	return b
}

func (b *bank) handler(token, api http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		s := seen{r.Method + " " + r.URL.RequestURI(), string(body), r.Header}
		b.mu.Lock()
		isToken := r.URL.Path == "/oauth/token"
		if isToken {
			b.tokens = append(b.tokens, s)
		} else {
			b.requests = append(b.requests, s)
		}
		n := len(b.tokens)
		b.mu.Unlock()
		switch {
		case !isToken:
			api(w, r)
		case token != nil:
			token(w, r)
		default:
			reply{200, fmt.Sprintf(`{"access_token":"token-%d","token_type":"Bearer","expires_in":3600,"scope":"cob.write"}`, n)}.write(w)
		}
	})
}

// lines returns the requests that came, and how often a token was asked for.
func (b *bank) lines() (lines []string, tokens int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.requests {
		lines = append(lines, s.line)
	}
	return lines, len(b.tokens)
}

func (b *bank) config() Config {
	return Config{
		Name: "alpha", BaseURL: b.URL + "/v2", TokenURL: b.URL + "/oauth/token",
		ClientID: "client", ClientSecret: testSecret, Key: testKey,
	}
}

// client returns a client of the bank and its clock.
func (b *bank) client(t *testing.T, change ...func(*Config)) (*Client, *clock.Clock) {
	t.Helper()
	config := b.config()
	for _, c := range change {
		c(&config)
	}
	return newClient(t, config)
}

func newClient(t *testing.T, config Config) (*Client, *clock.Clock) {
	t.Helper()
	k := clock.New(nil)
	c, err := New(config, k)
	if err != nil {
		t.Fatal(err)
	}
	if transport, ok := c.transport.(*wire.Transport); ok {
		t.Cleanup(transport.CloseIdleConnections)
	}
	return c, k
}

// always returns a handler with one answer.
func always(a reply) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { a.write(w) }
}

// inTurn returns a handler with one answer for each request, the last one for all further ones.
func inTurn(answers ...reply) http.HandlerFunc {
	var mu sync.Mutex
	next := 0
	return func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		a := answers[min(next, len(answers)-1)]
		next++
		mu.Unlock()
		a.write(w)
	}
}

// hanging returns a handler that answers nobody before the test's end.
func hanging(t *testing.T) http.HandlerFunc {
	t.Helper()
	end := make(chan struct{})
	t.Cleanup(func() { close(end) })
	return func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // or the server does not notice that the client is gone
		select {
		case <-end:
		case <-r.Context().Done():
		}
	}
}

// outcome is an error in short, "" for none.
func outcome(err error) string {
	if err == nil {
		return ""
	}
	e := acquirer.As(err)
	return e.Outcome.String() + " " + e.Class.String()
}

func background(t *testing.T) context.Context {
	t.Helper()
	return context.WithoutCancel(t.Context())
}

// haveToken gets the client its token, for tests whose time is short.
func haveToken(t *testing.T, c *Client) {
	t.Helper()
	if _, err := c.tokens.get(t.Context()); err != nil {
		t.Fatal(err)
	}
}
