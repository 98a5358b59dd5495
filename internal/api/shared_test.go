package api_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
	"github.com/ponte-pay/ponte/internal/testkit"
)

// changesWithin is how soon a change counts on every node.
const changesWithin = 2 * time.Second

// TestTwoServers changes things at one server and looks at the other.
func TestTwoServers(t *testing.T) {
	t.Parallel()
	url := sqltest.Postgres(t)
	here, there := testkit.Run(t, url), testkit.Run(t, url)
	get := func(key, path string) string {
		t.Helper()
		got := there.Get(t, key, path)
		return http.StatusText(got.Status) + " " + got.Error().Code
	}
	const ok = "OK "
	locked, banned, poor := here.Account(t, "locked"), here.Account(t, "banned"), here.Account(t, "poor")
	revoked := here.Key(t, poor.ID, "")
	for _, key := range []string{locked.Key, banned.Key, poor.Key, revoked} { // new ones count at once
		if got := get(key, "/v1/balance"); got != ok {
			t.Fatalf("a new key: %s", got)
		}
	}
	here.Set(t, locked.ID, "status=under_review")
	here.Set(t, banned.ID, "status=banned")
	here.Set(t, poor.ID, "disabled_resources=transactions", "rate_limit=2000")
	here.Revoke(t, revoked)
	if _, err := here.Core.Accounts.Block(t.Context(), "127.0.0.9"); err != nil {
		t.Fatal(err)
	}
	here.Advance(t, time.Hour)
	for _, c := range []struct {
		name string
		seen func() bool
	}{
		{"an account under review", func() bool { return get(locked.Key, "/v1/balance") == "Locked ACCOUNT_LOCKED" }},
		{"a banned account", func() bool { return get(banned.Key, "/v1/balance") == "Forbidden account_banned" }},
		{"a disabled resource", func() bool { return get(poor.Key, "/v1/transactions") == "Forbidden FORBIDDEN" }},
		{"another rate limit", func() bool {
			return there.Get(t, poor.Key, "/v1/balance").Header.Get("X-Ratelimit-Limit") == "2000"
		}},
		{"a revoked key", func() bool { return get(revoked, "/v1/balance") == "Unauthorized UNAUTHORIZED" }},
		{"a blocked address", func() bool {
			return there.Do(t, testkit.Request{Path: "/v1/balance", Key: poor.Key, From: "127.0.0.9"}).Status == http.StatusForbidden
		}},
		{"a moved clock", func() bool { return there.Core.Clock.Offset() >= time.Hour }},
	} {
		testkit.Within(t, changesWithin, c.name, c.seen)
	}
	here.Set(t, locked.ID, "status=active")
	testkit.Within(t, changesWithin, "an account that is served again", func() bool { return get(locked.Key, "/v1/balance") == ok })

	// Wrong keys at one server block at the other too.
	for i := range 20 {
		here.Do(t, testkit.Request{Path: "/v1/balance", Key: wrongKey(i), From: "127.0.0.7"}).WantError(t, http.StatusUnauthorized, "UNAUTHORIZED")
	}
	testkit.Within(t, changesWithin, "a temporary block", func() bool {
		return there.Do(t, testkit.Request{Path: "/v1/balance", Key: poor.Key, From: "127.0.0.7"}).Status == http.StatusForbidden
	})
}
