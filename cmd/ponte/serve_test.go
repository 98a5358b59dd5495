package main

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/testkit"
)

// changesWithin is how soon a change counts on every node.
const changesWithin = 2 * time.Second

var anyKey = regexp.MustCompile(`bp_[0-9a-f]{8}_[0-9a-f]{48}`)

func TestFirstStart(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in *installation) {
		p := in.serve(t)
		greeting := p.stdout.String()
		keys := anyKey.FindAllString(greeting, -1)
		account := regexp.MustCompile(`account  (acc_[0-9a-z]{8}) \(demo\)\n`).FindStringSubmatch(greeting)
		if len(keys) != 2 || keys[0] != keys[1] || account == nil {
			t.Fatalf("the greeting: %s", greeting)
		}
		if got := p.get(t, keys[0], "/v1/balance"); got != "200" {
			t.Errorf("the key: %s", got)
		}
		lines := regexp.MustCompile(`(?m)^ *(curl .*)$`).FindAllStringSubmatch(greeting, -1)
		if len(lines) != 1 {
			t.Fatalf("%d curl lines: %s", len(lines), greeting)
		}
		try(t, lines[0][1])
		var shown accountJSON
		in.json(t, &shown, "account", "show", account[1])
		if shown.Name != "demo" {
			t.Errorf("the account is called %s", shown.Name)
		}
		if log := p.stderr.String(); anyKey.MatchString(log) {
			t.Errorf("the key is in the log: %s", log)
		}
		p.stop(t)

		again := in.serve(t)
		if greeting := again.stdout.String(); strings.Contains(greeting, "bp_") || strings.Contains(greeting, "curl") {
			t.Errorf("the second greeting: %s", greeting)
		}
		if got := again.get(t, keys[0], "/v1/balance"); got != "200" {
			t.Errorf("the key after a restart: %s", got)
		}
	})
}

// TestFirstStartJSON starts for a program: what a person is told is one value.
func TestFirstStartJSON(t *testing.T) {
	t.Parallel()
	in := onSQLite(t)
	start := func() greeting {
		t.Helper()
		p := in.start(t, "--json")
		p.ready(t, regexp.MustCompile(`"api_url": "(http://127\.0\.0\.1:\d+)/v1",\n(?s:.*)\n}\n`))
		defer p.stop(t)
		var g greeting
		decodeOne(t, p.stdout.String(), &g)
		if g.API != p.url+"/v1" || g.Dashboard != p.url+"/" || !strings.HasPrefix(g.Bank, "http://127.0.0.1:") || !strings.HasPrefix(g.Invitation, p.url+"/invitations/") {
			t.Errorf("%+v", g)
		}
		if g.Key != "" && p.get(t, g.Key, "/v1/balance") != "200" {
			t.Error("the key does not work")
		}
		return g
	}
	g := start()
	if !anyKey.MatchString(g.Key) || !strings.HasPrefix(g.Account, "acc_") || g.Name != "demo" {
		t.Errorf("the first start: %+v", g)
	}
	if g := start(); g.Key != "" || g.Account != "" {
		t.Errorf("the second start: %+v", g)
	}
}

// try runs a printed line as it stands, or does what it says where there is no curl.
func try(t *testing.T, line string) {
	t.Helper()
	var output []byte
	if _, err := exec.LookPath("curl"); err == nil {
		if output, err = exec.Command("sh", "-c", line).Output(); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	} else {
		parts := regexp.MustCompile(`^curl -s (\S+)/v1(\S+) -H 'Authorization: Bearer (\S+)' -H 'Idempotency-Key: (\S+)' -d '(.*)'$`).FindStringSubmatch(line)
		if parts == nil {
			t.Fatalf("not understood: %s", line)
		}
		output = testkit.Do(t, parts[1], testkit.Request{
			Method: http.MethodPost, Path: "/v1" + parts[2], Key: parts[3], Header: http.Header{"Idempotency-Key": {parts[4]}}, Body: parts[5],
		}).Body
	}
	var charge map[string]any
	if err := json.Unmarshal(output, &charge); err != nil || charge["status"] != "pending" {
		t.Errorf("%s: %s, %v", line, output, err)
	}
}

// TestOperator changes things by the command line while the server runs: they count there within two seconds.
func TestOperator(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in *installation) {
		p := in.serve(t, "--log-format", "json")
		account, key := in.account(t, "shop")
		if got := p.get(t, key, "/v1/balance"); got != "200" { // new accounts count at once
			t.Fatalf("a new account: %s", got)
		}
		// Commands find the server's simulators wherever they are.
		var charge struct {
			ID string `json:"id"`
		}
		testkit.Do(t, p.url, testkit.Request{
			Method: http.MethodPost, Path: "/v1/charges", Key: key, Header: http.Header{"Idempotency-Key": {"key-0001"}}, Body: `{"amount": 10}`,
		}).Want(t, http.StatusCreated).Decode(t, &charge)
		if told := in.must(t, "charge", "cancel", charge.ID, "--json"); !strings.Contains(told, `"cancelled"`) {
			t.Errorf("the charge: %s", told)
		}
		if told := in.must(t, "doctor"); !strings.Contains(told, "acquirer alpha") {
			t.Errorf("the doctor says %s", told)
		}
		in.must(t, "account", "adjust", account, "--currency", "BRL", "--amount", "12.34", "--reason", "opening")
		if body := string(testkit.Do(t, p.url, testkit.Request{Path: "/v1/balance", Key: key}).Body); !strings.Contains(body, `"available_balance":12.34`) {
			t.Errorf("an adjustment: %s", body)
		}
		var made keyJSON
		in.json(t, &made, "key", "create", account, "--scopes", "balance:read")
		if got := p.get(t, made.Key, "/v1/balance"); got != "200" {
			t.Errorf("a new key: %s", got)
		}
		if got := p.get(t, made.Key, "/v1/transactions"); got != "403 FORBIDDEN" {
			t.Errorf("a scope that it has not: %s", got)
		}
		soon := func(what, key, want string) {
			t.Helper()
			testkit.Within(t, changesWithin, what, func() bool { return p.get(t, key, "/v1/balance") == want })
		}
		in.must(t, "key", "revoke", made.Prefix)
		soon("a revoked key", made.Key, "401 UNAUTHORIZED")
		in.must(t, "account", "set", account, "status=under_review")
		soon("an account under review", key, "423 ACCOUNT_LOCKED")
		in.must(t, "account", "set", account, "status=active", "rate_limit=77")
		soon("an active account", key, "200")
		in.must(t, "ip", "block", "127.0.0.0/8")
		soon("a blocked address", key, "403 FORBIDDEN")
		in.must(t, "ip", "unblock", "127.0.0.0/8")
		soon("an address that is free again", key, "200")

		p.stop(t)
		for line := range strings.Lines(p.stderr.String()) {
			if !json.Valid([]byte(line)) {
				t.Errorf("not JSON: %s", line)
			}
			if anyKey.MatchString(line) || strings.Contains(line, made.Key[12:]) {
				t.Errorf("a key in the log: %s", line)
			}
		}
	})
}

func TestSecondServerOnOneFile(t *testing.T) {
	t.Parallel()
	in := onSQLite(t)
	first := in.serve(t)
	second := in.start(t)
	if status := second.wait(t); status != 1 {
		t.Errorf("status %d", status)
	}
	if line := second.stderr.String(); strings.Count(line, "\n") != 1 || !strings.Contains(line, "ponte.db") || !strings.Contains(line, "another process serves") {
		t.Errorf("it says: %s", line)
	}
	if second.stdout.String() != "" {
		t.Errorf("it greets: %s", second.stdout.String())
	}
	first.stop(t)
	in.serve(t) // the place is free again
}

func TestTwoServersOnOneDatabase(t *testing.T) {
	t.Parallel()
	in := onPostgres(t)
	servers := []*process{in.serve(t), in.serve(t, "--data", t.TempDir())} // one folder has one simulator
	if anyKey.MatchString(servers[1].stdout.String()) {
		t.Error("both made a demo account")
	}
	account, key := in.account(t, "shop")
	const limit = 40
	in.must(t, "account", "set", account, fmt.Sprintf("rate_limit=%d", limit))
	admitted := 0
	for i := range 2 * limit {
		switch got := servers[i%2].get(t, key, "/v1/balance"); got {
		case "200":
			admitted++
		case "429 RATE_LIMIT_EXCEEDED":
		default:
			t.Fatalf("request %d: %s", i, got)
		}
	}
	if admitted > limit || admitted < limit/2 {
		t.Errorf("%d requests admitted, the limit is %d", admitted, limit)
	}
	servers[0].stop(t)
	other := in.must(t, "account", "create", "--name", "other", "--json")
	if got := servers[1].get(t, anyKey.FindString(other), "/v1/balance"); got != "200" {
		t.Errorf("the one that is left: %s", got)
	}
}

// slowRequest begins a request whose body is not all there, and returns when the server works on it.
func slowRequest(t *testing.T, p *process, key string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := fmt.Fprintf(conn, "POST /v1/boletos HTTP/1.1\r\nHost: x\r\nAuthorization: %s\r\nContent-Length: 10\r\n\r\nhalf ", key); err != nil {
		t.Fatal(err)
	}
	testkit.Wait(t, "the request to arrive", func() bool { return strings.Contains(p.stderr.String(), "path=/v1/boletos") })
	return conn
}

func TestDrain(t *testing.T) {
	t.Parallel()
	in := onSQLite(t)
	p := in.serve(t)
	conn := slowRequest(t, p, anyKey.FindString(p.stdout.String()))
	p.signal(t, syscall.SIGTERM)
	testkit.Wait(t, "the door to close", func() bool {
		other, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
		if err == nil {
			other.Close()
		}
		return err != nil
	})
	select {
	case <-p.ended:
		t.Fatalf("it ended with a request under way: %s", p.stderr.String())
	default:
	}
	if _, err := io.WriteString(conn, " half"); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusNotImplemented || !json.Valid(body) {
		t.Errorf("got %d %s, %v", res.StatusCode, body, err)
	}
	if status := p.wait(t); status != 0 {
		t.Errorf("status %d: %s", status, p.stderr.String())
	}
}

func TestDrainTimeout(t *testing.T) {
	t.Parallel()
	in := onSQLite(t)
	p := in.serve(t, "--drain-timeout", "50ms")
	slowRequest(t, p, anyKey.FindString(p.stdout.String()))
	p.signal(t, syscall.SIGTERM)
	if status := p.wait(t); status != 0 || !strings.Contains(p.stderr.String(), "cut what was still under way") {
		t.Errorf("status %d: %s", status, p.stderr.String())
	}
}

// TestFullDisk fills the disk of a server until a COMMIT fails: it tells so once and ends, and the next one has what was
// answered. A limit of the size of files stands for the disk.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	in := onSQLite(t)
	p := in.serve(t)
	key := anyKey.FindString(p.stdout.String())
	p.stop(t)
	small := *in
	small.binary = filepath.Join(t.TempDir(), "ponte")
	if err := os.WriteFile(small.binary, []byte("#!/bin/sh\nulimit -f 1000\nexec "+in.binary+` "$@"`+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	p = small.serve(t)
	var answered []string
	testkit.Wait(t, "the disk to be full", func() bool {
		name := fmt.Sprintf("full-disk-%d", len(answered))
		got, err := testkit.Try(t.Context(), p.url, testkit.Request{
			Method: http.MethodPost, Path: "/v1/charges", Key: key,
			Body: `{"amount": 10, "external_id": "` + name + `"}`, Header: http.Header{"Idempotency-Key": {name}},
		})
		if err == nil && got.Status == http.StatusCreated {
			answered = append(answered, name)
			return false
		}
		if err == nil && got.Status != http.StatusServiceUnavailable {
			t.Fatalf("got %d %s", got.Status, got.Body)
		}
		return true
	})
	status, log := p.wait(t), p.stderr.String()
	if status != exitFailed || strings.Count(log, "a COMMIT failed: nothing more is written") != 1 || strings.Count(log, "ponte: stopped, because the database could not be written") != 1 {
		t.Errorf("status %d: %s", status, log)
	}
	p = in.serve(t)
	if len(answered) == 0 {
		t.Fatal("nothing was answered before")
	}
	for _, name := range answered {
		if got := p.get(t, key, "/v1/charges/ext:"+name); got != "200" {
			t.Errorf("%s: %s", name, got)
		}
	}
	in.must(t, "audit")
}

func TestKill(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in *installation) {
		p := in.serve(t)
		account, key := in.account(t, "shop")
		const before, during = 3, 5
		adjust := func() bool {
			return in.run(t, "account", "adjust", account, "--currency", "BRL", "--amount", "1", "--reason", "kill").status == 0
		}
		for range before {
			if !adjust() {
				t.Fatal("an adjustment failed")
			}
		}
		done := make(chan int)
		go func() {
			n := 0
			for range during {
				if adjust() {
					n++
				}
			}
			done <- n
		}()
		p.signal(t, syscall.SIGKILL)
		p.wait(t)
		adjusted := before + <-done
		again := in.serve(t)
		body := string(testkit.Do(t, again.url, testkit.Request{Path: "/v1/balance", Key: key}).Body)
		if want := fmt.Sprintf(`"available_balance":%d.00`, adjusted); !strings.Contains(body, want) {
			t.Errorf("got %s, want %s", body, want)
		}
		var audit auditResult
		in.json(t, &audit, "audit")
		if audit.Accounts != 2 || audit.Transfers != int64(adjusted) || len(audit.Problems) != 0 {
			t.Errorf("%+v after %d adjustments", audit, adjusted)
		}
	})
}

func TestTLS(t *testing.T) {
	t.Parallel()
	in := onSQLite(t)
	cert := testkit.NewCertificate(t, t.TempDir(), testkit.Real.Real().Add(time.Hour))
	p := in.serve(t, "--tls-cert", cert.CertFile, "--tls-key", cert.KeyFile)
	if !strings.HasPrefix(p.url, "https://") || !strings.Contains(p.stdout.String(), "curl -s https://") {
		t.Fatalf("the greeting: %s", p.stdout.String())
	}
	key := anyKey.FindString(p.stdout.String())
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: cert.Pool}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: &testkit.Contract{Base: transport}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url+"/v1/balance", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Api-Key", key)
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK || res.ProtoMajor != 2 || !strings.HasPrefix(res.Header.Get("Strict-Transport-Security"), "max-age=31536000") {
		t.Errorf("got %s %d %v", res.Proto, res.StatusCode, res.Header)
	}
	// Whoever speaks plain text is told so and gets nothing.
	plain := testkit.Raw(t, p.url, strings.NewReader("GET /v1/balance HTTP/1.1\r\nHost: x\r\nX-Api-Key: "+key+"\r\n\r\n"))
	if plain.Status != http.StatusBadRequest || strings.Contains(string(plain.Body), "balance") {
		t.Errorf("plain text: %d %s", plain.Status, plain.Body)
	}
	old := &tls.Config{RootCAs: cert.Pool, MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}
	if conn, err := tls.Dial("tcp", strings.TrimPrefix(p.url, "https://"), old); err == nil {
		conn.Close()
		t.Error("TLS 1.1 is spoken")
	}
	p.stop(t)
}

// TestAdmin looks at what only this machine may see.
func TestAdmin(t *testing.T) {
	t.Parallel()
	in := onSQLite(t)
	p := in.serve(t, "--admin-listen", "127.0.0.1:0")
	told := regexp.MustCompile(`msg="metrics and profiles" url=(\S+)`).FindStringSubmatch(p.stderr.String())
	if told == nil {
		t.Fatalf("no word of the admin listener: %s", p.stderr.String())
	}
	page := func(url string) string {
		res, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, _ := io.ReadAll(res.Body)
		if res.StatusCode != http.StatusOK {
			t.Errorf("%s: %d %.300s", url, res.StatusCode, body)
		}
		return string(body)
	}
	p.get(t, anyKey.FindString(p.stdout.String()), "/v1/balance")
	metrics := page(told[1] + "/metrics")
	if want := `ponte_http_requests_total{route="/balance",status="200"} 1`; !strings.Contains(metrics, want) {
		t.Errorf("/metrics lacks %s", want)
	}
	next := regexp.MustCompile(`(?m)^go_memstats_next_gc_bytes (\S+)$`).FindStringSubmatch(metrics)
	if next == nil {
		t.Fatal("/metrics does not tell when the heap is collected")
	}
	if bytes, err := strconv.ParseFloat(next[1], 64); err != nil || bytes < heapRest*(100+heapGrowth)/100 {
		t.Errorf("the heap is collected at %s bytes", next[1])
	}
	for url, want := range map[string]string{
		told[1] + "/debug/pprof/cmdline": "serve", p.url + "/healthz": `{"status":"ok"}`, p.url + "/readyz": `{"status":"ready","simulated":true}`,
	} {
		if got := page(url); !strings.Contains(got, want) {
			t.Errorf("%s: %.300s", url, got)
		}
	}
}
