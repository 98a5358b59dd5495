package bcb

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/acquirer"
)

func TestOneTokenForMany(t *testing.T) {
	t.Parallel()
	const many = 64
	arrived, open := make(chan struct{}, many), make(chan struct{})
	b := newBank(t, func(w http.ResponseWriter, _ *http.Request) {
		arrived <- struct{}{}
		<-open
		reply{200, `{"access_token":"the-one","expires_in":3600}`}.write(w)
	}, always(reply{200, cobBody("ATIVA")}))
	c, _ := b.client(t)
	var started, done sync.WaitGroup
	for range many {
		started.Add(1)
		done.Go(func() {
			started.Done()
			if _, err := c.GetCharge(background(t), testTxID); err != nil {
				t.Error(err)
			}
		})
	}
	started.Wait()
	<-arrived
	close(open)
	done.Wait()
	if lines, tokens := b.lines(); tokens != 1 || len(lines) != many {
		t.Errorf("%d requests for tokens, %d others; want 1 and %d", tokens, len(lines), many)
	}
}

func TestTokenRequest(t *testing.T) {
	t.Parallel()
	tests := []struct {
		body       TokenBody
		want, kind string
	}{
		{TokenForm, "grant_type=client_credentials", "application/x-www-form-urlencoded"},
		{TokenJSON, `{"grant_type":"client_credentials"}`, "application/json"},
	}
	for _, tt := range tests {
		b := newBank(t, nil, always(reply{200, cobBody("ATIVA")}))
		c, _ := b.client(t, func(c *Config) { c.TokenBody = tt.body })
		if _, err := c.GetCharge(t.Context(), testTxID); err != nil {
			t.Fatal(err)
		}
		r := b.tokens[0]
		if r.line != "POST /oauth/token" || r.body != tt.want || r.header.Get("Content-Type") != tt.kind || r.header.Get("Authorization") != basic("client", testSecret) {
			t.Errorf("the bank saw %+v", r)
		}
	}
}

// TestTokenLife moves the clock through the life of a token of an hour.
func TestTokenLife(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	var given atomic.Int32
	b := newBank(t, func(w http.ResponseWriter, _ *http.Request) {
		if broken.Load() {
			reply{500, ""}.write(w)
			return
		}
		reply{200, fmt.Sprintf(`{"access_token":"token-%d","expires_in":"3600"}`, given.Add(1))}.write(w)
	}, always(reply{200, cobBody("ATIVA")}))
	c, k := b.client(t)
	steps := []struct {
		at     time.Duration
		broken bool
		want   string // outcome
		asked  int    // requests for tokens so far
	}{
		{0, false, "", 1},
		{53 * time.Minute, false, "", 1},
		{55 * time.Minute, true, "", 2}, // in vain, and the old one is still good
		{55 * time.Minute, true, "", 2}, // not each time
		{56 * time.Minute, true, "", 3},
		{61 * time.Minute, true, "refused down", 4},
		{61 * time.Minute, true, "refused down", 5},
		{61 * time.Minute, false, "", 6},
		{61 * time.Minute, false, "", 6},
		{116 * time.Minute, false, "", 7},
		{300 * time.Hour, false, "", 8},
	}
	for i, s := range steps {
		k.Raise(s.at)
		broken.Store(s.broken)
		_, err := c.GetCharge(t.Context(), testTxID)
		if _, asked := b.lines(); outcome(err) != s.want || asked != s.asked {
			t.Fatalf("step %d, %v: %d requests for tokens, want %d: %v", i, s.at, asked, s.asked, err)
		}
	}
}

func TestTokenNotTaken(t *testing.T) {
	t.Parallel()
	good := reply{200, cobBody("ATIVA")}
	tests := []struct {
		name    string
		answers []reply
		want    string
		tokens  int
		asked   int
	}{
		{"once", []reply{{401, denialToken}, good}, "", 2, 2},
		{"once, without words", []reply{{401, ""}, good}, "", 2, 2},
		{"by another status", []reply{{403, denialToken}, good}, "", 2, 2},
		{"again", []reply{{401, denialToken}, {401, denialToken}, good}, "refused credentials", 2, 2},
		{"scope", []reply{{403, denialScope}, good}, "refused credentials", 1, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBank(t, nil, inTurn(tt.answers...))
			c, _ := b.client(t)
			_, err := c.CreateCharge(t.Context(), newCharge)
			lines, tokens := b.lines()
			if outcome(err) != tt.want || tokens != tt.tokens || len(lines) != tt.asked {
				t.Errorf("%d tokens, requests %v: %v", tokens, lines, err)
			}
			for i, r := range b.requests {
				if got, want := r.header.Get("Authorization"), fmt.Sprintf("Bearer token-%d", i+1); got != want {
					t.Errorf("request %d had %s", i, got)
				}
			}
		})
	}
}

// TestManyTokensNotTaken lets many find out at once that their token is bad. One new one is enough.
func TestManyTokensNotTaken(t *testing.T) {
	t.Parallel()
	const many = 32
	var g gate
	b := newBank(t, nil, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer token-1" {
			g.pass()
			reply{401, denialToken}.write(w)
			return
		}
		reply{200, cobBody("ATIVA")}.write(w)
	})
	c, _ := b.client(t)
	warm(t, c, many, &g)
	if _, tokens := b.lines(); tokens != 2 {
		t.Errorf("%d requests for tokens, want 2", tokens)
	}
}

// TestDropAnotherToken is about who learns late that the token before the present one was bad.
func TestDropAnotherToken(t *testing.T) {
	t.Parallel()
	b := newBank(t, nil, nil)
	c, _ := b.client(t)
	haveToken(t, c)
	c.tokens.drop("token-0")
	haveToken(t, c)
	if _, tokens := b.lines(); tokens != 1 {
		t.Errorf("%d requests for tokens, want 1", tokens)
	}
	c.tokens.drop("token-1")
	haveToken(t, c)
	if _, tokens := b.lines(); tokens != 2 {
		t.Errorf("%d requests for tokens, want 2", tokens)
	}
}

// TestTokenFailures shows that without a token nothing has happened, whatever went wrong.
func TestTokenFailures(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		reply reply
		want  string
	}{
		{"wrong secret", reply{401, `{"error":"invalid_client"}`}, "refused credentials"},
		{"wrong secret, as the standard has it", reply{400, `{"error":"invalid_client"}`}, "refused credentials"},
		{"forbidden", reply{403, html}, "refused credentials"},
		{"too often", reply{429, html}, "refused rate_limited"},
		{"out of order", reply{500, html}, "refused down"},
		{"gateway", reply{504, html}, "refused timeout"},
		{"lost", reply{}, "refused down"},
		{"garbage", reply{200, "}{"}, "refused protocol"},
		{"no token", reply{200, `{"expires_in":3600}`}, "refused protocol"},
		{"a token that is two lines", reply{200, `{"access_token":"a\r\nX: b"}`}, "refused protocol"},
		{"a token with a space", reply{200, `{"access_token":"a b"}`}, "refused protocol"},
		{"nowhere", reply{404, html}, "refused protocol"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBank(t, always(tt.reply), always(reply{201, cobBody("ATIVA")}))
			c, _ := b.client(t)
			_, err := c.CreateCharge(t.Context(), newCharge)
			if outcome(err) != tt.want || acquirer.As(err).Operation != "token" || acquirer.As(err).Acquirer != "alpha" {
				t.Errorf("got %v, want %s", err, tt.want)
			}
			if lines, _ := b.lines(); lines != nil {
				t.Errorf("the bank saw %v", lines)
			}
		})
	}
}

// TestTokenAskerLeaves shows that who waits for another's request goes on when that one gives up.
func TestTokenAskerLeaves(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{}, 2)
	wait := hanging(t)
	var first atomic.Bool
	b := newBank(t, func(w http.ResponseWriter, r *http.Request) {
		isFirst := !first.Swap(true) // before anybody knows of it
		arrived <- struct{}{}
		if isFirst {
			wait(w, r)
			return
		}
		reply{200, `{"access_token":"second","expires_in":3600}`}.write(w)
	}, always(reply{200, cobBody("ATIVA")}))
	c, _ := b.client(t)
	ctx, leave := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := c.GetCharge(ctx, testTxID); outcome(err) != "refused timeout" {
			t.Errorf("who left got %v", err)
		}
	})
	<-arrived
	for range 8 {
		wg.Go(func() {
			if _, err := c.GetCharge(background(t), testTxID); err != nil {
				t.Errorf("who waited got %v", err)
			}
		})
	}
	// Somebody who has no time does not wait.
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.GetCharge(gone, testTxID); outcome(err) != "refused timeout" || !errors.Is(err, context.Canceled) {
		t.Errorf("who was in a hurry got %v", err)
	}
	leave()
	wg.Wait()
}
