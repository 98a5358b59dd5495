package api_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
	"github.com/ponte-pay/ponte/internal/testkit"
)

func TestBadBodies(t *testing.T) {
	t.Parallel()
	s := newShops(t, sqltest.SQLite(t), 1)[0]
	a := s.Account(t, "shop")
	nested := func(levels int, open, closing string) string {
		return `{"amount": 10, "x": ` + strings.Repeat(open, levels) + "1" + strings.Repeat(closing, levels) + `}`
	}
	const anywhere = "body"
	for _, c := range []struct{ name, body, path string }{
		{"nothing", " ", anywhere},
		{"not JSON", "amount=10", anywhere},
		{"HTML", "<html>", anywhere},
		{"an array", `[{"amount": 10}]`, anywhere},
		{"a string", `"amount"`, anywhere},
		{"a number", `10`, anywhere},
		{"null", `null`, anywhere},
		{"half of it", `{"amount": 10`, anywhere},
		{"two of it", `{"amount": 10}{"amount": 10}`, anywhere},
		{"more behind it", `{"amount": 10} x`, anywhere},
		{"a comma too much", `{"amount": 10,}`, anywhere},
		{"single quotes", `{'amount': 10}`, anywhere},
		{"a comment", `{"amount": 10 /* ten */}`, anywhere},
		{"a byte order mark", "\ufeff{\"amount\": 10}", anywhere},
		{"UTF-16", "{\x00\"\x00a\x00", anywhere},
		{"a NUL byte", "{\"amount\": 10, \"note\": \"\x00\"}", anywhere},
		{"a NUL escape", `{"amount": 10, "note": "\u0000"}`, "note"},
		{"a NUL in a key", `{"amount": 10, "no\u0000te": "x"}`, anywhere},
		{"a control character", "{\"amount\": 10, \"note\": \"\x01\"}", anywhere},
		{"invalid UTF-8", "{\"amount\": 10, \"note\": \"\xff\xfe\"}", "note"},
		{"half a surrogate pair", `{"amount": 10, "note": "\ud800"}`, "note"},
		{"NaN", `{"amount": NaN}`, anywhere},
		{"Infinity", `{"amount": Infinity}`, anywhere},
		{"hexadecimal", `{"amount": 0x10}`, anywhere},
		{"a plus", `{"amount": +10}`, anywhere},
		{"a leading zero", `{"amount": 010}`, anywhere},
		{"a point without digits", `{"amount": 10.}`, anywhere},
		{"a key twice", `{"amount": 10, "amount": 1000}`, "amount"},
		{"a camelCase key twice", `{"amount": 10, "externalId": "a", "externalId": "b"}`, "external_id"},
		{"a nested key twice", `{"amount": 10, "payer": {"name": "a", "name": "b"}}`, "payer.name"},
		{"10k arrays", nested(10_000, "[", "]"), anywhere},
		{"10k objects", nested(10_000, `{"x":`, "}"), anywhere},
		{"32 arrays", nested(32, "[", "]"), "x" + strings.Repeat(".0", 31)},
		{"32 objects", nested(32, `{"x":`, "}"), "x" + strings.Repeat(".x", 31)},
		{"5k values", `{"amount": 10, "x": [` + strings.Repeat("1,", 5000) + `1]}`, "x.4094"},
		{"an exponent out of all proportion", `{"amount": 1e9999999999}`, "amount"},
		{"a number of 200 digits", `{"amount": ` + strings.Repeat("1", 200) + `}`, "amount"},
		{"1e400", `{"amount": 1e400}`, "amount"},
		{"1e-400", `{"amount": 1e-400}`, "amount"},
		{"-0", `{"amount": -0}`, "amount"},
		{"0", `{"amount": 0}`, "amount"},
		{"below the minimum", `{"amount": 1.99}`, "amount"},
		{"negative", `{"amount": -10}`, "amount"},
		{"three decimals", `{"amount": 10.999}`, "amount"},
		{"too much", `{"amount": 10000000000}`, "amount"},
		{"a string for an amount", `{"amount": "10"}`, "amount"},
		{"true for an amount", `{"amount": true}`, "amount"},
		{"null for an amount", `{"amount": null}`, "amount"},
		{"an array for an amount", `{"amount": [10]}`, "amount"},
		{"no amount", `{}`, "amount"},
		{"a number for a text", `{"amount": 10, "note": 10}`, "note"},
		{"a long text", `{"amount": 10, "note": "` + strings.Repeat("é", 141) + `"}`, "note"},
		{"a text for an object", `{"amount": 10, "payer": "Maria"}`, "payer"},
		{"a camelCase field", `{"amount": 10, "payerName": 7}`, "payer_name"},
	} {
		got := s.post(t, a.Key, "key-00001", c.body)
		if got.Status != http.StatusBadRequest || got.Error().Code != "VALIDATION_ERROR" {
			t.Errorf("%s: got %d %.300s", c.name, got.Status, got.Body)
			continue
		}
		if paths := got.Paths(); len(paths) != 1 || !strings.HasPrefix(c.path, strings.TrimSuffix(paths[0], "…")) {
			t.Errorf("%s: issues %q, want %s", c.name, got.Error().Issues, c.path)
		}
		if len(got.Body) > 600 {
			t.Errorf("%s: an answer of %d bytes", c.name, len(got.Body))
		}
	}
	got := s.post(t, a.Key, "key-00001", `{"amount": "10", "note": 7, "externalId": "", "payer": []}`)
	if diff := cmp.Diff([]string{"amount", "note", "external_id", "payer"}, got.WantError(t, 400, "VALIDATION_ERROR").Paths()); diff != "" {
		t.Errorf("all issues at once (-want +got):\n%s", diff)
	}
	s.count(t, 0)
	for i, body := range []string{`{"amount": 10.500}`, `{"amount": 1050e-2}`, `{"amount": 9999999999.99}`, `{"amount": 2, "unknown": [{}]}`} {
		s.post(t, a.Key, fmt.Sprintf("key-fine-%d", i), body).Want(t, http.StatusCreated)
	}
}

// head begins a request by hand.
func head(method, path, key string, more ...string) string {
	return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: ponte.example\r\nAuthorization: Bearer %s\r\nIdempotency-Key: key-00001\r\n", method, path, key) +
		strings.Join(append(more, "\r\n"), "\r\n")
}

// endless is a body that goes on.
type endless struct{ chunk string }

func (e endless) Read(b []byte) (int, error) {
	n := 0
	for n+len(e.chunk) <= len(b) {
		n += copy(b[n:], e.chunk)
	}
	return n, nil
}

func TestLargeBodies(t *testing.T) {
	t.Parallel()
	s := newShops(t, sqltest.SQLite(t), 1)[0]
	a := s.Account(t, "shop")
	const size = 100 << 20
	thing := `{"amount": 10}`
	fits := thing + strings.Repeat(" ", 64<<10-len(thing))
	s.post(t, a.Key, "key-large", fits+" ").WantError(t, http.StatusRequestEntityTooLarge, "payload_too_large")
	s.count(t, 0)
	s.post(t, a.Key, "key-large", fits).Want(t, http.StatusCreated)

	large := testkit.Raw(t, s.URL, io.MultiReader(
		strings.NewReader(head(http.MethodPost, "/v1/things", a.Key, fmt.Sprintf("Content-Length: %d", size))),
		io.LimitReader(endless{"{\"x\":"}, size)))
	wantEnvelope(t, large, http.StatusRequestEntityTooLarge, "payload_too_large")
	chunked := testkit.Raw(t, s.URL, io.MultiReader(
		strings.NewReader(head(http.MethodPost, "/v1/things", a.Key, "Transfer-Encoding: chunked")),
		io.LimitReader(endless{"100\r\n" + strings.Repeat(" ", 0x100) + "\r\n"}, size)))
	wantEnvelope(t, chunked, http.StatusRequestEntityTooLarge, "payload_too_large")
	// Who reads no body waits for none.
	unread := testkit.Raw(t, s.URL, io.MultiReader(
		strings.NewReader(head(http.MethodGet, "/v1/balance", a.Key, fmt.Sprintf("Content-Length: %d", size))),
		io.LimitReader(endless{"x"}, size)))
	if unread.Status != http.StatusOK {
		t.Errorf("a GET with a body: %d %s", unread.Status, unread.Body)
	}
	s.count(t, 1)
}

// wantEnvelope is WantError for answers that came around the contract.
func wantEnvelope(t *testing.T, a *testkit.Answer, status int, code string) {
	t.Helper()
	a.WantError(t, status, code).Lacks(t, "goroutine", "internal/", ".go:")
	var e testkit.Envelope
	a.Decode(t, &e)
	if e.RequestID == "" || e.RequestID != a.Header.Get("X-Request-Id") {
		t.Errorf("request_id %q, x-request-id %q", e.RequestID, a.Header.Get("X-Request-Id"))
	}
}

func TestLargeHeaders(t *testing.T) {
	t.Parallel()
	s := testkit.Run(t, sqltest.SQLite(t))
	a := s.Account(t, "shop")
	send := func(more ...string) *testkit.Answer {
		t.Helper()
		return testkit.Raw(t, s.URL, strings.NewReader(head(http.MethodGet, "/v1/balance", a.Key, more...)))
	}
	if got := send("X-Large: " + strings.Repeat("x", 30<<10)); got.Status != http.StatusOK {
		t.Errorf("30 KiB: %d %.300s", got.Status, got.Body)
	}
	const code = "request_header_fields_too_large"
	wantEnvelope(t, send("X-Large: "+strings.Repeat("x", 33<<10)), http.StatusRequestHeaderFieldsTooLarge, code)
	wantEnvelope(t, send("X-Large: "+strings.Repeat("x", 1<<20)), http.StatusRequestHeaderFieldsTooLarge, code)
	wantEnvelope(t, send(slices.Repeat([]string{"X: y"}, 20_000)...), http.StatusRequestHeaderFieldsTooLarge, code)
	path := testkit.Raw(t, s.URL, strings.NewReader(head(http.MethodGet, "/v1/"+strings.Repeat("x", 33<<10), a.Key)))
	wantEnvelope(t, path, http.StatusRequestHeaderFieldsTooLarge, code)
	// So much is not even read: the HTTP server answers by itself and hangs up.
	if got := send("X-Large: " + strings.Repeat("x", 4<<20)); got.Status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("4 MiB: %d %.300s", got.Status, got.Body)
	}
	s.Get(t, a.Key, "/v1/balance").Want(t, http.StatusOK)
}

func TestPaths(t *testing.T) {
	t.Parallel()
	s := testkit.Run(t, sqltest.SQLite(t))
	a := s.Account(t, "shop")
	const reserved, unknown = "FEATURE_NOT_AVAILABLE", "not_found"
	for path, code := range map[string]string{
		"/v1/boletos/bol_1":                          reserved,
		"/v1/boletos/ext:a%2Fb%3A1":                  reserved,
		"/v1/boletos/a%2Fb":                          reserved,
		"/v1/boletos/%00":                            reserved,
		"/v1/boletos/%ff":                            reserved,
		"/v1/boletos/%25":                            reserved,
		"/v1/boletos/%2e%2e":                         reserved,
		"/v1/boletos/%2e%2e%2f%2e%2e%2fbalance":      reserved,
		`/v1/boletos/"'`:                             reserved,
		"/v1/boletos/';DROP%20TABLE%20account--":     reserved,
		"/v1/boletos/<script>":                       reserved,
		"/v1/boletos/;id=1":                          reserved,
		"/v1/boletos/\xc3\xa9":                       reserved,
		"/v1/boletos/" + strings.Repeat("x", 10_000): reserved,
		"/v1/boletos/x?" + strings.Repeat("&", 9000): reserved,
		"/v1/boletos/x?%zz=%zz":                      reserved,
		"/v1/boletos/%2F":                            unknown, // net/http takes it for the slash itself
		"/v1/boletos/":                               unknown,
		"/v1/boletos//":                              unknown,
		"/v1/boletos/x/":                             unknown,
		"/v1/boletos/x/y":                            unknown,
		"/v1/boletos/.":                              unknown,
		"/v1/boletos/..":                             unknown,
		"/v1/boletos/../balance":                     unknown,
		"/v1//boletos/x":                             unknown,
		"//v1/boletos/x":                             unknown,
		"/../v1/boletos/x":                           unknown,
		"/v1/%2e%2e/etc/passwd":                      unknown,
		"/v1/..%2f..%2fetc/passwd":                   unknown,
		"/%00":                                       unknown,
		"/v1\\balance":                               unknown,
		"/V1/balance":                                unknown,
	} {
		got := testkit.Raw(t, s.URL, strings.NewReader(head(http.MethodGet, path, a.Key)))
		status := http.StatusNotImplemented
		if code == unknown {
			status = http.StatusNotFound
		}
		if got.Status != status || got.Error().Code != code {
			t.Errorf("%.60q: got %d %.300s, want %s", path, got.Status, got.Body, code)
			continue
		}
		wantEnvelope(t, got, status, code)
		got.Lacks(t, "DROP", "script", "passwd")
	}
	for request, status := range map[string]int{
		"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n":                                                     404,
		"CONNECT x:443 HTTP/1.1\r\nHost: x\r\n\r\n":                                                 404,
		"GET http://evil.example/v1/balance HTTP/1.1\r\nHost: x\r\n\r\n":                            401,
		"GET /v1/balance HTTP/1.0\r\n\r\n":                                                          401,
		"GET /v1/balance HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + a.Key + "x\r\n\r\n":       401,
		"PRI /v1/balance HTTP/1.1\r\nHost: x\r\n\r\n":                                               401,
		"POST /v1/boletos HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n": 401,
	} {
		got := testkit.Raw(t, s.URL, strings.NewReader(request))
		if got.Status != status || got.Header.Get("X-Request-Id") == "" {
			t.Errorf("%q: got %d %v %.300s, want %d", request, got.Status, got.Header, got.Body, status)
		}
	}
	// What is no HTTP reaches no code of ours: the HTTP server answers by itself and hangs up.
	for _, request := range []string{
		"GET /v1/boletos/%zz HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /v1/% HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET v1/balance HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /v1/balance HTTP/1.1\r\n\r\n",
		"GET /v1/balance HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
		"GET /v1/balance HTTP/1.1\r\nHost: x\r\nX: \x00\r\n\r\n",
		"GET /v1/ balance HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST /v1/boletos HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
		"POST /v1/boletos HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
		"GARBAGE\r\n\r\n",
	} {
		got := testkit.Raw(t, s.URL, strings.NewReader(request)).Lacks(t, "goroutine", "internal/")
		if got.Status != http.StatusBadRequest {
			t.Errorf("%q: got %d %.300s", request, got.Status, got.Body)
		}
	}
	if log := s.Log(); strings.Contains(log, `"panic"`) {
		t.Error("something panicked")
	}
	s.Get(t, a.Key, "/v1/balance").Want(t, http.StatusOK)
}

// TestGuessing sends ten thousand wrong keys in one go.
func TestGuessing(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, sqltest.SQLite(t))
	a := s.Account(t, "shop")
	before := rows(t, s.Core.DB)
	const guesses = 10_000
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(testkit.Real.Real().Add(time.Minute))
	go func() {
		var b bytes.Buffer
		for i := range guesses {
			b.WriteString(head(http.MethodGet, "/v1/balance", wrongKey(i)))
		}
		_, _ = conn.Write(b.Bytes())
	}()
	reader := bufio.NewReader(conn)
	statuses := map[int]int{}
	for i := range guesses {
		res, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatalf("answer %d: %v", i, err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil {
			t.Fatalf("answer %d: %v", i, err)
		}
		statuses[res.StatusCode]++
		var e testkit.Envelope
		if err := json.Unmarshal(body, &e); err != nil || e.RequestID == "" || e.RequestID != res.Header.Get("X-Request-Id") || e.Error.Code == "" {
			t.Fatalf("answer %d: %s, %v", i, body, err)
		}
	}
	if diff := cmp.Diff(map[int]int{http.StatusUnauthorized: 20, http.StatusForbidden: guesses - 20}, statuses); diff != "" {
		t.Errorf("statuses (-want +got):\n%s", diff)
	}
	before["ip_block"]++
	if diff := cmp.Diff(before, rows(t, s.Core.DB)); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	s.Do(t, testkit.Request{Path: "/v1/balance", Key: a.Key, From: "127.0.0.2"}).Want(t, http.StatusOK)
}

// rows counts what is stored.
func rows(t *testing.T, db *sqldb.DB) map[string]int64 {
	t.Helper()
	counts := map[string]int64{}
	for _, table := range []string{"account", "api_key", "ip_block", "balance", "delta", "transfer", "rate_window"} {
		n, err := sqldb.One(t.Context(), db, sqldb.Scalar[int64], `SELECT COUNT(*) FROM `+table)
		if err != nil {
			t.Fatal(err)
		}
		counts[table] = n
	}
	return counts
}
