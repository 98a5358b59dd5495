package nowpayments

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/ponte-pay/ponte/internal/chain"
	"github.com/ponte-pay/ponte/internal/clock"
)

// Lives of tokens, in business time.
const (
	tokenTimeMax     = 5 * time.Minute
	tokenTimeDefault = 4 * time.Minute // of one that does not say
	tokenMargin      = 30 * time.Second
	tokenBytesMax    = 16 << 10
)

// tokens keeps the JWT that payouts and lists need. Many may ask for it at once, and the provider sees one request.
type tokens struct {
	clock *clock.Clock
	fetch func(ctx context.Context) (token string, life time.Duration, err error)

	mu     sync.Mutex
	token  string
	until  time.Time
	flight *flight // the request that is under way, nil for none
}

// flight is one request for a token, on behalf of everybody who needs it.
type flight struct {
	done chan struct{}
	err  error // set before done is closed
}

var errAbandoned = errors.New("nowpayments: the request for a token was abandoned")

// get returns a token that does not expire while it is used.
func (t *tokens) get(ctx context.Context) (string, error) {
	for {
		t.mu.Lock()
		if t.clock.Now().Before(t.until) {
			defer t.mu.Unlock()
			return t.token, nil
		}
		f := t.flight
		if f == nil {
			if err := t.fly(ctx); err != nil { // which unlocks t
				return "", err
			}
			continue
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

// fly asks the provider. It is called with t locked and returns with t unlocked.
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
			t.token, t.until = token, began.Add(max(life-tokenMargin, life/2))
		}
		close(f.done)
	}()
	token, life, f.err = t.fetch(ctx)
	return f.err
}

// drop forgets a token that was not taken. Another one, which somebody has got meanwhile, stays.
func (t *tokens) drop(token string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.token == token {
		t.token, t.until = "", time.Time{}
	}
}

// current returns the token for those who must not show it.
func (t *tokens) current() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.token
}

const operationToken = "token"

// fetchToken logs in. It fails with a *chain.Error that is always Refused: without a token nothing was asked for.
func (c *Client) fetchToken(ctx context.Context) (string, time.Duration, error) {
	var reply struct {
		Token text `json:"token"`
	}
	failure := c.try(ctx, call{
		operation: operationToken, method: http.MethodPost, path: "/auth", auth: nobody, reply: &reply,
		body: struct {
			Email    string `json:"email"`
			Password string `json:"password"`
		}{c.config.Email, c.config.Password},
	})
	token := string(reply.Token)
	if failure == nil && !isToken(token) {
		failure = &chain.Error{Class: chain.Protocol, Message: "the answer holds no token"}
	}
	if failure == nil {
		return token, lifeOf(token), nil
	}
	failure.Provider, failure.Operation, failure.Outcome = c.config.Name, operationToken, chain.Refused
	if failure.Class == chain.Business {
		failure.Class = chain.Credentials
	}
	return "", 0, failure
}

func isToken(s string) bool {
	for _, c := range []byte(s) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return s != "" && len(s) <= tokenBytesMax
}

// lifeOf reads how long a JWT lives. Whose clock says so does not matter: it is the span that counts.
func lifeOf(token string) time.Duration {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return tokenTimeDefault
	}
	var claims struct {
		IssuedAt int64 `json:"iat"`
		Expires  int64 `json:"exp"`
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(payload, &claims) != nil || claims.Expires <= claims.IssuedAt || claims.IssuedAt <= 0 {
		return tokenTimeDefault
	}
	return min(tokenTimeMax, time.Duration(min(claims.Expires-claims.IssuedAt, int64(tokenTimeMax/time.Second)))*time.Second)
}
