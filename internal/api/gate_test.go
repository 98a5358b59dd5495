package api_test

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/api"
	"github.com/ponte-pay/ponte/internal/clock/clocktest"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
	"github.com/ponte-pay/ponte/internal/testkit"
)

// allScopes are the scopes of the specification.
var allScopes = []string{
	"charges:read", "charges:write", "payouts:read", "payouts:write",
	"transactions:read", "balance:read", "med:read", "med:write",
}

func TestKeyForms(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		a := s.Account(t, "shop")
		wrong := "bp_00000000_" + strings.Repeat("0", 48)
		for _, c := range []struct {
			name   string
			header http.Header
			status int
		}{
			{"bearer", http.Header{"Authorization": {"Bearer " + a.Key}}, 200},
			{"bearer in lower case", http.Header{"Authorization": {"bearer " + a.Key}}, 200},
			{"bearer with spaces", http.Header{"Authorization": {"Bearer   " + a.Key + " "}}, 200},
			{"bearer with a tab", http.Header{"Authorization": {"Bearer\t" + a.Key}}, 200},
			{"bare", http.Header{"Authorization": {a.Key}}, 200},
			{"x-api-key", http.Header{"X-Api-Key": {a.Key}}, 200},
			{"both", http.Header{"X-Api-Key": {a.Key}, "Authorization": {a.Key}}, 200},
			{"the first counts", http.Header{"X-Api-Key": {a.Key}, "Authorization": {"Bearer " + wrong}}, 401},
			{"bare, the first counts", http.Header{"X-Api-Key": {a.Key}, "Authorization": {wrong}}, 401},
			{"bearer without a key beside x-api-key", http.Header{"X-Api-Key": {a.Key}, "Authorization": {"Bearer "}}, 200},
			{"basic beside x-api-key", http.Header{"X-Api-Key": {a.Key}, "Authorization": {"Basic dTpw"}}, 200},
			{"a scheme alone beside x-api-key", http.Header{"X-Api-Key": {a.Key}, "Authorization": {"Basic"}}, 200},
			{"basic", http.Header{"Authorization": {"Basic " + a.Key}}, 401},
			{"bearer in x-api-key", http.Header{"X-Api-Key": {"Bearer " + a.Key}}, 401},
			{"in a cookie", http.Header{"Cookie": {"api_key=" + a.Key}}, 401},
		} {
			got := s.Do(t, testkit.Request{Path: "/v1/balance", Header: c.header})
			if got.Status != c.status {
				t.Errorf("%s: got %d %s", c.name, got.Status, got.Body)
			}
			got.Lacks(t, a.Key)
		}
	})
}

func TestWrongKeys(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		a := s.Account(t, "shop")
		revoked := s.Key(t, a.ID, "")
		s.Revoke(t, revoked)
		var answers []string
		for _, key := range []string{
			"", // missing
			revoked,
			"x",
			"bp_00000000_" + strings.Repeat("0", 48),
			a.Key[:12] + strings.Repeat("0", 48), // its name, another secret
			a.Key[:len(a.Key)-1],
			a.Key + "0",
			strings.ToUpper(a.Key),
			strings.Replace(a.Key, "bp_", "sk_", 1),
			strings.Repeat("x", 4000),
			"' OR 1=1 --",
		} {
			r := testkit.Request{Path: "/v1/balance?api_key=" + a.Key, Key: key}
			if key == "" {
				r.Header = http.Header{"Authorization": {""}}
			}
			got := s.Do(t, r).WantError(t, http.StatusUnauthorized, "UNAUTHORIZED").Lacks(t, a.ID.String(), a.Key[3:11])
			answers = append(answers, got.Error().Message)
			if got.Header.Get("X-Ratelimit-Limit") != "" {
				t.Errorf("%q: a window without a key", key)
			}
		}
		// What is wrong with a key is told to nobody.
		if slices.Sort(answers); len(slices.Compact(answers)) != 1 {
			t.Errorf("the answers tell wrong keys apart: %q", answers)
		}
		s.Get(t, a.Key, "/v1/balance").Want(t, http.StatusOK)
	})
}

func TestAccountStates(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		// A limit of 1: who is refused before is not counted.
		locked := s.Account(t, "locked", "status=under_review", "rate_limit=1")
		banned := s.Account(t, "banned", "status=banned", "rate_limit=1")
		unknown := s.Account(t, "unknown owner", "kyc=pending", "api_cashin=off", "crypto=off")
		for _, route := range append(api.Served(), "GET /nothing", "PUT /balance") {
			if promised[route] == open {
				continue
			}
			s.Do(t, request(route, locked.Key)).WantError(t, http.StatusLocked, "ACCOUNT_LOCKED")
			s.Do(t, request(route, banned.Key)).WantError(t, http.StatusForbidden, "account_banned")
		}
		s.Get(t, locked.Key, "/v1/openapi.yaml").Want(t, http.StatusOK)
		s.Get(t, unknown.Key, "/v1/balance").Want(t, http.StatusOK)
		s.Get(t, unknown.Key, "/v1/transactions").Want(t, http.StatusOK)
	})
}

// permits reports whether a key with these scopes may call a route, by the specification.
func permits(route string, scopes []string) bool {
	if promised[route] == anyKey {
		return true
	}
	return slices.ContainsFunc(strings.Split(promised[route], "|"), func(together string) bool {
		return !slices.ContainsFunc(strings.Split(together, "+"), func(scope string) bool { return !slices.Contains(scopes, scope) })
	})
}

func TestScopes(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, sqltest.SQLite(t))
	a := s.Account(t, "shop")
	sets := [][]string{allScopes, {"charges:read", "payouts:read"}, {"charges:write", "payouts:write", "transactions:read"}}
	for _, scope := range allScopes {
		sets = append(sets, []string{scope}, slices.DeleteFunc(slices.Clone(allScopes), func(s string) bool { return s == scope }))
	}
	refusals := 0
	for _, set := range sets {
		key := s.Key(t, a.ID, strings.Join(set, ","))
		for _, route := range api.Served() {
			if promised[route] == open {
				continue
			}
			got := s.Do(t, request(route, key))
			switch {
			case permits(route, set):
				if got.Status == http.StatusForbidden {
					t.Errorf("%s with %v: got %d %s", route, set, got.Status, got.Body)
				}
			default:
				got.WantError(t, http.StatusForbidden, "FORBIDDEN").Lacks(t, "balance\":", "data\":")
				refusals++
			}
		}
	}
	if refusals == 0 {
		t.Error("nothing was refused")
	}
}

func TestDisabledResources(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		none := s.Account(t, "none", "disabled_resources=charges,payouts,crypto,med,balance,transactions")
		charges := s.Account(t, "no charges", "disabled_resources=charges")
		balance := s.Account(t, "no balance", "disabled_resources=balance")
		transactions := s.Account(t, "no transactions", "disabled_resources=transactions")
		for _, c := range []struct {
			a      testkit.Account
			path   string
			status int
			code   string
		}{
			{none, "/v1/balance", 403, "FORBIDDEN"},
			{none, "/v1/transactions", 403, "FORBIDDEN"},
			{none, "/v1/charges", 403, "FORBIDDEN"},
			{none, "/v1/charges/ext:x", 403, "FORBIDDEN"},
			{none, "/v1/boletos", 501, "FEATURE_NOT_AVAILABLE"},
			{charges, "/v1/charges", 403, "FORBIDDEN"},
			{charges, "/v1/charges/ext:x", 403, "FORBIDDEN"},
			{charges, "/v1/transactions", 200, ""},
			{balance, "/v1/charges", 200, ""},
			{balance, "/v1/charges/ext:x", 404, "NOT_FOUND"},
			{balance, "/v1/balance", 403, "FORBIDDEN"},
			{balance, "/v1/transactions", 200, ""},
			{transactions, "/v1/balance", 200, ""},
			{transactions, "/v1/transactions", 403, "FORBIDDEN"},
		} {
			s.Get(t, c.a.Key, c.path).WantError(t, c.status, c.code)
		}
	})
}

func header(t *testing.T, a *testkit.Answer, name string) int {
	t.Helper()
	n, err := strconv.Atoi(a.Header.Get(name))
	if err != nil {
		t.Fatalf("%s of %d %s: %v", name, a.Status, a.Body, err)
	}
	return n
}

func TestRateLimit(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		if got := s.Get(t, s.Account(t, "default").Key, "/v1/balance"); header(t, got, "X-Ratelimit-Limit") != 600 || header(t, got, "X-Ratelimit-Remaining") != 599 {
			t.Errorf("by default: %v", got.Header)
		}
		const limit = 4
		a := s.Account(t, "shop", "rate_limit="+strconv.Itoa(limit))
		second := s.Key(t, a.ID, "")
		began := s.Core.Clock.Now()
		var reset int
		for i, path := range []string{"/v1/balance", "/v1/nothing", "/v1/boletos", "/v1/transactions"} {
			got := s.Get(t, a.Key, path)
			if got.Status == http.StatusTooManyRequests {
				t.Fatalf("request %d: %s", i+1, got.Body)
			}
			if n := header(t, got, "X-Ratelimit-Limit"); n != limit {
				t.Errorf("x-ratelimit-limit %d", n)
			}
			if n := header(t, got, "X-Ratelimit-Remaining"); n != limit-1-i {
				t.Errorf("request %d: x-ratelimit-remaining %d", i+1, n)
			}
			if n := header(t, got, "X-Ratelimit-Reset"); reset != 0 && n != reset {
				t.Errorf("x-ratelimit-reset went from %d to %d", reset, n)
			} else {
				reset = n
			}
		}
		// Never too early: who waits until then must not be refused.
		if ends := time.Unix(int64(reset), 0); ends.Before(began.Add(time.Minute)) || ends.After(s.Core.Clock.Now().Add(61*time.Second)) {
			t.Errorf("the window ends at %v, it began at %v", ends, began)
		}
		for _, path := range []string{"/v1/balance", "/v1/nothing"} {
			got := s.Get(t, a.Key, path).WantError(t, http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED").Lacks(t, "available")
			if wait := header(t, got, "Retry-After"); wait < 1 || wait > 60 {
				t.Errorf("retry-after %d", wait)
			}
			if n := header(t, got, "X-Ratelimit-Remaining"); n != 0 {
				t.Errorf("x-ratelimit-remaining %d of a refused request", n)
			}
		}
		s.Get(t, second, "/v1/balance").Want(t, http.StatusOK) // the window is the key's, not the account's
		s.Get(t, "", "/v1/openapi.yaml").Want(t, http.StatusOK)

		s.Advance(t, 50*time.Second)
		got := s.Get(t, a.Key, "/v1/balance").WantError(t, http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED")
		if wait := header(t, got, "Retry-After"); wait < 1 || wait > 10 {
			t.Errorf("retry-after %d after 50 s", wait)
		}
		s.Advance(t, 10*time.Second)
		if got := s.Get(t, a.Key, "/v1/balance").Want(t, http.StatusOK); header(t, got, "X-Ratelimit-Remaining") != limit-1 {
			t.Errorf("a new window: %v", got.Header)
		}
	})
}

func TestPermanentBlock(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		a := s.Account(t, "shop")
		if _, err := s.Core.Accounts.Block(t.Context(), "127.0.0.8/31"); err != nil {
			t.Fatal(err)
		}
		s.Step(t)
		for _, route := range append(api.Served(), "GET /nothing") {
			r := request(route, a.Key)
			r.From = "127.0.0.9"
			got := s.Do(t, r).WantError(t, http.StatusForbidden, "FORBIDDEN")
			if wait := got.Header.Get("Retry-After"); wait != "" {
				t.Errorf("%s: retry-after %s for a block without end", route, wait)
			}
			if limit := got.Header.Get("X-Ratelimit-Limit"); limit != "" {
				t.Errorf("%s: a blocked request was counted", route)
			}
		}
		for _, path := range []string{"/healthz", "/readyz"} {
			s.Do(t, testkit.Request{Path: path, From: "127.0.0.9"}).Want(t, http.StatusOK)
		}
		// What a client says about itself does not help it.
		spoofed := testkit.Request{Path: "/v1/balance", Key: a.Key, From: "127.0.0.9", Header: http.Header{"X-Forwarded-For": {"127.0.0.1"}}}
		s.Do(t, spoofed).WantError(t, http.StatusForbidden, "FORBIDDEN")
		s.Get(t, a.Key, "/v1/balance").Want(t, http.StatusOK)

		if _, err := s.Core.Accounts.Unblock(t.Context(), "127.0.0.8/31"); err != nil {
			t.Fatal(err)
		}
		s.Step(t)
		s.Do(t, testkit.Request{Path: "/v1/balance", Key: a.Key, From: "127.0.0.9"}).Want(t, http.StatusOK)
	})
}

func wrongKey(i int) string { return fmt.Sprintf("bp_%08x_%048x", i, i) }

// guess sends wrong keys and returns the statuses of the answers.
func guess(t *testing.T, s *testkit.Service, count int, r testkit.Request) []int {
	t.Helper()
	var statuses []int
	for i := range count {
		r.Path, r.Key = "/v1/balance", wrongKey(i)
		statuses = append(statuses, s.Do(t, r).Status)
	}
	return statuses
}

func times(n, status int) []int { return slices.Repeat([]int{status}, n) }

func TestTemporaryBlock(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		a := s.Account(t, "shop")
		for range 25 { // a missing key is no wrong one
			s.Do(t, testkit.Request{Path: "/v1/balance"}).WantError(t, http.StatusUnauthorized, "UNAUTHORIZED")
			for _, none := range []string{"Bearer", "Bearer ", "Basic", "Basic dTpw", "Digest username=u"} {
				r := testkit.Request{Path: "/v1/balance", Header: http.Header{"Authorization": {none}}}
				s.Do(t, r).WantError(t, http.StatusUnauthorized, "UNAUTHORIZED")
			}
		}
		if got := guess(t, s, 19, testkit.Request{}); !slices.Equal(got, times(19, 401)) {
			t.Fatalf("19 wrong keys: %v", got)
		}
		s.Get(t, a.Key, "/v1/balance").Want(t, http.StatusOK)
		s.Advance(t, time.Minute) // what was wrong a minute ago is forgotten
		if got := guess(t, s, 22, testkit.Request{}); !slices.Equal(got, slices.Concat(times(20, 401), times(2, 403))) {
			t.Fatalf("22 wrong keys: %v", got)
		}
		for _, r := range []testkit.Request{
			{Path: "/v1/balance", Key: a.Key}, {Path: "/v1/balance"}, {Path: "/v1/openapi.yaml"}, {Path: "/v1/nothing", Key: a.Key},
		} {
			got := s.Do(t, r).WantError(t, http.StatusForbidden, "FORBIDDEN")
			if wait := header(t, got, "Retry-After"); wait < 1 || wait > 300 {
				t.Errorf("retry-after %d", wait)
			}
		}
		s.Do(t, testkit.Request{Path: "/v1/balance", Key: a.Key, From: "127.0.0.2"}).Want(t, http.StatusOK)
		s.Step(t)
		s.Advance(t, 290*time.Second)
		got := s.Get(t, a.Key, "/v1/balance").WantError(t, http.StatusForbidden, "FORBIDDEN")
		if wait := header(t, got, "Retry-After"); wait < 1 || wait > 10 {
			t.Errorf("retry-after %d after 290 s", wait)
		}
		s.Advance(t, 11*time.Second)
		s.Get(t, a.Key, "/v1/balance").Want(t, http.StatusOK)
	})
}

func TestForwardedFor(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, sqltest.SQLite(t), testkit.TrustProxies("127.0.0.2/32", "198.51.100.0/24"))
	a := s.Account(t, "shop")
	through := func(proxy, chain string) testkit.Request {
		return testkit.Request{
			Path: "/v1/balance", Key: a.Key, From: proxy,
			Header: http.Header{"X-Forwarded-For": {chain}, "X-Forwarded-Proto": {"https"}},
		}
	}
	const proxy, liar = "127.0.0.2", "127.0.0.3"
	// Whoever is no proxy speaks for itself only.
	if got := guess(t, s, 20, through(liar, "203.0.113.8")); !slices.Equal(got, times(20, 401)) {
		t.Fatalf("%v", got)
	}
	s.Do(t, through(liar, "203.0.113.9")).WantError(t, http.StatusForbidden, "FORBIDDEN")
	s.Do(t, through(proxy, "203.0.113.8")).Want(t, http.StatusOK)

	// Of a chain the last address that is no proxy counts; what stands before it anybody can write.
	if got := guess(t, s, 20, through(proxy, "203.0.113.1, 203.0.113.7,198.51.100.3")); !slices.Equal(got, times(20, 401)) {
		t.Fatalf("%v", got)
	}
	for chain, status := range map[string]int{
		"203.0.113.7":                             403,
		"10.0.0.1, ::ffff:203.0.113.7":            403,
		"203.0.113.7, 198.51.100.1, 198.51.100.2": 403,
		"203.0.113.1":                             200,
		"203.0.113.7, 203.0.113.1":                200,
		"2001:db8::1":                             200,
	} {
		got := s.Do(t, through(proxy, chain))
		if got.Status != status {
			t.Errorf("%s: got %d %s, want %d", chain, got.Status, got.Body, status)
		}
		if got.Header.Get("Strict-Transport-Security") == "" {
			t.Errorf("%s: no HSTS through a TLS proxy", chain)
		}
	}
	plain := through(proxy, "203.0.113.1")
	plain.Header.Set("X-Forwarded-Proto", "http")
	s.Do(t, plain).WantError(t, http.StatusForbidden, "FORBIDDEN") // the key went over an open wire
}

func TestRequestID(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, sqltest.SQLite(t))
	a := s.Account(t, "shop")
	seen := map[string]bool{}
	for _, path := range []string{"/v1/balance", "/v1/balance", "/v1/nothing", "/v1/transactions?limit=0", "/v1/openapi.json"} {
		got := s.Do(t, testkit.Request{
			Path: path, Key: a.Key, Invalid: true, Header: http.Header{"X-Request-Id": {"req_01m7jaq0cces68re7v54cf2xyz"}},
		})
		name := got.Lacks(t, "01m7jaq0cces68re7v54cf2xyz").Header.Get("X-Request-Id")
		if seen[name] {
			t.Errorf("%s twice", name)
		}
		seen[name] = true
		clocktest.Wait(t, name+" in the log", func() bool { return strings.Contains(s.Log(), name) })
	}
	if !strings.Contains(s.Log(), `"client_request_id":"req_01m7jaq0cces68re7v54cf2xyz"`) {
		t.Error("the caller's own id is not in the log")
	}
}

// TestOrder sends requests that break two rules at once: the answer shows the earlier one.
func TestOrder(t *testing.T) {
	t.Parallel()
	sqltest.EachURL(t, func(t *testing.T, url string) {
		s := newShops(t, url, 1)[0]
		if _, err := s.Core.Accounts.Block(t.Context(), "127.0.0.9"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.guard.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		full := s.Account(t, "full")
		locked := s.Account(t, "locked", "status=under_review", "rate_limit=1", "disabled_resources=charges")
		banned := s.Account(t, "banned", "status=banned", "rate_limit=1")
		spent := s.Account(t, "spent", "rate_limit=1", "disabled_resources=charges")
		disabled := s.Account(t, "disabled", "disabled_resources=charges")
		reader := s.Key(t, full.ID, "balance:read")
		spentReader := s.Key(t, spent.ID, "balance:read")
		s.Get(t, spent.Key, "/v1/balance").Want(t, http.StatusOK)
		s.Get(t, spentReader, "/v1/balance").Want(t, http.StatusOK)
		const thing, other = `{"amount": 10, "external_id": "o-1"}`, `{"amount": 11, "external_id": "o-1"}`
		s.post(t, full.Key, "key-00001", thing).Want(t, http.StatusCreated)
		const broken, large = `{"amount": `, 70_000
		nothing := testkit.Request{Path: "/v1/nothing"}
		method := testkit.Request{Method: http.MethodDelete, Path: "/v1/balance"}
		as := func(r testkit.Request, key string) testkit.Request { r.Key = key; return r }
		from := func(r testkit.Request) testkit.Request { r.From = "127.0.0.9"; return r }
		twice := thingRequest(full.Key, "", thing)
		twice.Header = http.Header{"Idempotency-Key": {"key-00001", "key-00002"}}
		for _, c := range []struct {
			name   string
			r      testkit.Request
			status int
			code   string
		}{
			{"blocked address, then no key", from(testkit.Request{Path: "/v1/balance"}), 403, "FORBIDDEN"},
			{"blocked address, then wrong key", from(thingRequest("x", "", broken)), 403, "FORBIDDEN"},
			{"blocked address, then locked account", from(thingRequest(locked.Key, "", broken)), 403, "FORBIDDEN"},
			{"blocked address, then unknown route", from(as(nothing, full.Key)), 403, "FORBIDDEN"},
			{"wrong key, then unknown route", as(nothing, "x"), 401, "UNAUTHORIZED"},
			{"wrong key, then wrong method", as(method, "x"), 401, "UNAUTHORIZED"},
			{"no key, then no Idempotency-Key", thingRequest("", "", broken), 401, "UNAUTHORIZED"},
			{"locked, then rate limit", thingRequest(locked.Key, "", broken), 423, "ACCOUNT_LOCKED"},
			{"locked, then rate limit, again", thingRequest(locked.Key, "", broken), 423, "ACCOUNT_LOCKED"},
			{"locked, then unknown route", as(nothing, locked.Key), 423, "ACCOUNT_LOCKED"},
			{"locked, then wrong method", as(method, locked.Key), 423, "ACCOUNT_LOCKED"},
			{"banned, then rate limit", thingRequest(banned.Key, "", broken), 403, "account_banned"},
			{"banned, then rate limit, again", thingRequest(banned.Key, "", broken), 403, "account_banned"},
			{"rate limit, then scope", thingRequest(spentReader, "", broken), 429, "RATE_LIMIT_EXCEEDED"},
			{"rate limit, then disabled resource", thingRequest(spent.Key, "", broken), 429, "RATE_LIMIT_EXCEEDED"},
			{"rate limit, then unknown route", as(nothing, spent.Key), 429, "RATE_LIMIT_EXCEEDED"},
			{"rate limit, then wrong method", as(method, spent.Key), 429, "RATE_LIMIT_EXCEEDED"},
			{"scope, then no Idempotency-Key", thingRequest(reader, "", broken), 403, "FORBIDDEN"},
			{"scope, then broken JSON", thingRequest(reader, "key-00001", broken), 403, "FORBIDDEN"},
			{"disabled resource, then short Idempotency-Key", thingRequest(disabled.Key, "short", broken), 403, "FORBIDDEN"},
			{"no Idempotency-Key, then broken JSON", thingRequest(full.Key, "", broken), 400, "idempotency_key_required"},
			{"short Idempotency-Key, then large body", thingRequest(full.Key, "short", strings.Repeat(" ", large)), 400, "invalid_idempotency_key"},
			{"two Idempotency-Keys, then replay", twice, 400, "invalid_idempotency_key"},
			{"large body, then conflict", thingRequest(full.Key, "key-00001", strings.Repeat(" ", large)), 413, "payload_too_large"},
			{"broken JSON, then conflict", thingRequest(full.Key, "key-00001", broken), 400, "VALIDATION_ERROR"},
			{"broken field, then conflict", thingRequest(full.Key, "key-00001", `{"amount": 1, "external_id": "o-1"}`), 400, "VALIDATION_ERROR"},
			{"key conflict, then external_id conflict", thingRequest(full.Key, "key-00001", other), 409, "IDEMPOTENCY_CONFLICT"},
			{"key conflict, then external_id replay", thingRequest(full.Key, "key-00001", `{"amount": 10, "external_id": "o-1", "note": "x"}`), 409, "IDEMPOTENCY_CONFLICT"},
			{"external_id conflict", thingRequest(full.Key, "key-00002", other), 409, "EXTERNAL_ID_CONFLICT"},
		} {
			c.r.Undocumented, c.r.Invalid = true, true
			got := s.Do(t, c.r)
			if got.Status != c.status || got.Error().Code != c.code {
				t.Errorf("%s: got %d %s, want %d %s", c.name, got.Status, got.Body, c.status, c.code)
			}
		}
		s.count(t, 1)
	})
}

// TestUnusedIdempotencyKey sends keys where none is used: they are not even looked at.
func TestUnusedIdempotencyKey(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, sqltest.SQLite(t))
	a := s.Account(t, "shop")
	s.Adjust(t, a.ID, money.CurrencyBRL, "1")
	for _, keys := range [][]string{{""}, {"short"}, {"key-00001", "key-00002"}, {strings.Repeat("x", 300)}} {
		for path, status := range map[string]int{"/v1/balance": 200, "/v1/transactions": 200, "/v1/charges": 200, "/v1/charges/x": 404, "/v1/boletos": 501} {
			got := s.Do(t, testkit.Request{Path: path, Key: a.Key, Header: http.Header{"Idempotency-Key": keys}})
			if got.Status != status || got.Header.Get("Idempotent-Replayed") != "" {
				t.Errorf("%s with %.40q: got %d %s", path, keys, got.Status, got.Body)
			}
		}
	}
}
