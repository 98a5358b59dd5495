package bcb

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/clock"
)

// Lives of tokens, in business time.
const (
	tokenTimeMax     = 24 * time.Hour
	tokenTimeDefault = 5 * time.Minute // of one whose server does not say
	tokenBytesMax    = 16 << 10

	// refreshAt is the part of its life, in percent, after which a token is replaced.
	refreshAt = 90
	// retryAfter is the part of its life, in percent, after which that is tried again.
	retryAfter = 1
)

// tokens keeps the token that opens an acquirer's API. Many may ask for it at once, and the server sees one request.
type tokens struct {
	clock *clock.Clock
	fetch func(ctx context.Context) (token string, life time.Duration, err error)

	mu        sync.Mutex
	token     string
	refreshAt time.Time
	retry     time.Duration
	expiresAt time.Time
	flight    *flight // the request that is under way, nil for none
}

// flight is one request for a token, on behalf of everybody who needs it.
type flight struct {
	done chan struct{}
	err  error // set before done is closed
}

var errAbandoned = errors.New("bcb: the request for a token was abandoned")

// get returns a token that has not expired. One that soon will is replaced by whoever comes first, while the others go
// on with it.
func (t *tokens) get(ctx context.Context) (string, error) {
	for {
		now := t.clock.Now()
		t.mu.Lock()
		token, usable, f := t.token, now.Before(t.expiresAt), t.flight
		if usable && (f != nil || now.Before(t.refreshAt)) {
			t.mu.Unlock()
			return token, nil
		}
		if f == nil {
			err := t.fly(ctx) // unlocks t
			switch {
			case err == nil:
				continue
			case usable:
				return token, nil
			}
			return "", err
		}
		t.mu.Unlock()
		select {
		case <-f.done:
			// Who asked may have had less time than we have.
			if f.err != nil && !errors.Is(f.err, context.Canceled) && !errors.Is(f.err, context.DeadlineExceeded) && !errors.Is(f.err, errAbandoned) {
				return "", f.err
			}
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// fly asks the server. It is called with t locked and returns with t unlocked.
func (t *tokens) fly(ctx context.Context) error {
	f := &flight{done: make(chan struct{}), err: errAbandoned}
	t.flight = f
	t.mu.Unlock()

	var token string
	var life time.Duration
	began := t.clock.Now() // the life may start with the question
	defer func() {         // also when the question panics: others wait for its answer
		t.mu.Lock()
		defer t.mu.Unlock()
		t.flight = nil
		if f.err == nil {
			t.token, t.retry = token, life*retryAfter/100
			t.refreshAt, t.expiresAt = began.Add(life*refreshAt/100), began.Add(life)
		} else {
			t.refreshAt = t.clock.Now().Add(t.retry)
		}
		close(f.done)
	}()
	token, life, f.err = t.fetch(ctx)
	return f.err
}

// drop forgets a token that the API did not take. Another one, which somebody has got meanwhile, stays.
func (t *tokens) drop(token string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.token == token {
		t.token, t.expiresAt = "", time.Time{}
	}
}

// current returns the token for those who must not show it.
func (t *tokens) current() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.token
}

const operationToken = "token"

// fetchToken asks the OAuth2 server for a token. It fails with an *acquirer.Error that is always Refused: without a token
// nothing was asked of the API.
func (c *Client) fetchToken(ctx context.Context) (string, time.Duration, error) {
	body, kind := url.Values{"grant_type": {"client_credentials"}}.Encode(), "application/x-www-form-urlencoded"
	if c.config.TokenBody == TokenJSON {
		body, kind = `{"grant_type":"client_credentials"}`, "application/json"
	}
	request := request{method: http.MethodPost, url: c.config.TokenURL, body: []byte(body), header: http.Header{"Content-Type": {kind}}}
	request.header.Set("Authorization", basic(c.config.ClientID, c.config.ClientSecret))
	a, failure := c.exchange(ctx, operationToken, request)
	if failure == nil {
		failure = c.judge(Call{Operation: operationToken}, a)
	}
	var token string
	var life time.Duration
	if failure == nil {
		if token, life = readToken(a.body); token == "" {
			failure = &acquirer.Error{Class: acquirer.Protocol, Message: "the answer holds no token"}
		}
	}
	if failure == nil {
		return token, life, nil
	}
	failure.Acquirer, failure.Operation, failure.Outcome = c.config.Name, operationToken, acquirer.Refused
	if failure.Class == acquirer.Business { // such as 400 invalid_client
		failure.Class = acquirer.Credentials
	}
	return "", 0, failure
}

func basic(id, secret string) string {
	r := http.Request{Header: http.Header{}}
	r.SetBasicAuth(id, secret)
	return r.Header.Get("Authorization")
}

// readToken reads an OAuth2 server's answer. It returns "" for what holds no token that can be sent.
func readToken(body []byte) (token string, life time.Duration) {
	var reply struct {
		AccessToken text `json:"access_token"`
		ExpiresIn   text `json:"expires_in"`
	}
	if json.Unmarshal(body, &reply) != nil || len(reply.AccessToken) > tokenBytesMax {
		return "", 0
	}
	for _, c := range []byte(reply.AccessToken) {
		if c <= ' ' || c > '~' {
			return "", 0
		}
	}
	seconds, _, _ := strings.Cut(string(reply.ExpiresIn), ".")
	n, err := strconv.ParseInt(seconds, 10, 32)
	life = time.Duration(n) * time.Second
	if err != nil || life <= 0 {
		life = tokenTimeDefault
	}
	return string(reply.AccessToken), min(life, tokenTimeMax)
}
