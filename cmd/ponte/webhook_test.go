package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	client "github.com/ponte-pay/ponte/client/webhook"
	"github.com/ponte-pay/ponte/internal/app"
	"github.com/ponte-pay/ponte/internal/config"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/testkit"
)

// eventsVariable says how many events are delivered; by hand that is 2000, with three kills.
const (
	eventsVariable = "PONTE_EVENTS"
	eventsDefault  = 100
	eventsFull     = 2000
	killsFull      = 3
	receivers      = 20
	roundMax       = 3 * time.Minute
)

// manner is how a receiver behaves.
type manner int

const (
	answers manner = iota // 200
	hangs
	fails  // 500
	resets // the connection
)

// mannerOf gives the first five to hang, five to fail and two to reset.
func mannerOf(n int) manner {
	switch {
	case n < 5:
		return hangs
	case n < 10:
		return fails
	case n < 12:
		return resets
	}
	return answers
}

// hook is one receiver with what arrived.
type hook struct {
	*httptest.Server
	manner   manner
	endpoint string

	mu     sync.Mutex
	secret string
	seen   map[string]int // deliveries by event and attempt
	wrong  []string
}

func newHook(t *testing.T, m manner) *hook {
	t.Helper()
	h := &hook{manner: m, seen: map[string]int{}}
	h.Server = httptest.NewServer(h)
	t.Cleanup(func() { h.CloseClientConnections(); h.Close() })
	return h
}

func (h *hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // it was killed while it wrote
	}
	id, attempt := r.Header.Get(client.EventIDHeader), r.Header.Get(client.AttemptHeader)
	h.mu.Lock()
	err = client.Verify(r.Header.Get(client.SignatureHeader), body, h.secret, time.Now())
	h.seen[id+" "+attempt]++
	if e, parseErr := client.Parse(body); err != nil || parseErr != nil || e.ID != id {
		h.wrong = append(h.wrong, fmt.Sprintf("%s %v %v %s", id, err, parseErr, body))
	}
	h.mu.Unlock()
	switch h.manner {
	case answers:
	case hangs:
		<-r.Context().Done()
	case fails:
		w.WriteHeader(http.StatusInternalServerError)
	case resets:
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_ = conn.(*net.TCPConn).SetLinger(0)
			_ = conn.Close()
		}
	}
}

// campaign is a server with its receivers.
type campaign struct {
	in      *installation
	bank    *process
	server  atomic.Pointer[process]
	config  string
	account string
	key     string
	hooks   []*hook
}

func (c *campaign) serve(t *testing.T) {
	t.Helper()
	c.server.Store(c.in.serve(t, "--simulator", c.bank.url, "--config", c.config))
}

func (c *campaign) kill(t *testing.T) {
	t.Helper()
	p := c.server.Load()
	p.signal(t, syscall.SIGKILL)
	p.wait(t)
	c.serve(t)
}

// TestWebhooksUnderKill delivers events to good and bad receivers, through all retries, with the server killed in between:
// nothing is lost, nothing is forged, and nobody waits for another.
func TestWebhooksUnderKill(t *testing.T) {
	t.Parallel()
	events, kills := number(t, eventsVariable, eventsDefault), 1
	if events < receivers {
		t.Fatalf("%s=%d: want a number from %d on", eventsVariable, events, receivers)
	}
	if events >= eventsFull {
		kills = killsFull
	}
	each(t, func(t *testing.T, in *installation) {
		c := &campaign{in: in, config: filepath.Join(t.TempDir(), "ponte.yaml")}
		if err := os.WriteFile(c.config, []byte("webhooks:\n  timeout: 200ms\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		c.bank = install(t, "", "--data", t.TempDir()).launch(t, "simulator", "--listen", "127.0.0.1:0")
		c.bank.ready(t, simulating)
		c.serve(t)
		c.account, c.key = in.account(t, "shop")
		in.must(t, "account", "set", c.account, "rate_limit=1000000")
		for n := range receivers {
			h := newHook(t, mannerOf(n))
			var made endpointJSON
			in.json(t, &made, "endpoint", "create", c.account, "--url", h.URL+"/hook", "--events", "charge.expired")
			h.endpoint, h.secret = made.Endpoint, made.Secret
			c.hooks = append(c.hooks, h)
		}
		began := testkit.Real.Real()
		killed := make(chan struct{})
		go func() { // the first kill comes while events are being made
			defer close(killed)
			if testkit.Real.Wait(t.Context(), 50*time.Millisecond+rand.N(200*time.Millisecond)) == nil {
				c.kill(t)
			}
		}()
		c.charge(t, events)
		<-killed
		world := testkit.WorldAt(c.bank.url)
		for n, wait := range []time.Duration{time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 12 * time.Hour} {
			if n > 0 && n < kills {
				c.kill(t) // in the middle of a round
			}
			c.await(t, events, n+1)
			world.Do(t, http.MethodPost, "/sim/clock", fmt.Sprintf(`{"advance_seconds": %d}`, int(wait.Seconds())), nil)
		}
		c.await(t, events, 6)
		t.Logf("%d events in %v", events, testkit.Real.RealSince(began).Round(time.Second))
		c.check(t, events, kills)
		c.server.Load().stop(t)
	})
}

// charge makes charges whose events go to one receiver each.
func (c *campaign) charge(t *testing.T, events int) {
	t.Helper()
	var next atomic.Int64
	var tills sync.WaitGroup
	for range tills8 {
		tills.Go(func() {
			for n := next.Add(1) - 1; n < int64(events); n = next.Add(1) - 1 {
				if err := c.chargeOne(t.Context(), n); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	tills.Wait()
}

const tills8 = 8

func (c *campaign) chargeOne(ctx context.Context, n int64) error {
	body := fmt.Sprintf(`{"amount": 10.00, "postback_url": %q}`, c.hooks[n%receivers].URL+"/hook")
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.server.Load().url+"/v1/charges", strings.NewReader(body))
		if err != nil {
			return err
		}
		r.Header.Set("Authorization", c.key)
		r.Header.Set("Idempotency-Key", fmt.Sprintf("campaign-%d", n))
		answer, err := http.DefaultClient.Do(r)
		if err == nil {
			told, _ := io.ReadAll(answer.Body)
			_ = answer.Body.Close()
			switch {
			case answer.StatusCode == http.StatusCreated:
				return nil
			case answer.StatusCode < http.StatusInternalServerError && answer.StatusCode != http.StatusConflict:
				return fmt.Errorf("%d %s", answer.StatusCode, told)
			}
		}
		if err := testkit.Real.Wait(ctx, tryAgain); err != nil {
			return err
		}
	}
}

// await waits until every delivery is done, or has been tried so often.
func (c *campaign) await(t *testing.T, events, attempts int) {
	t.Helper()
	core, err := app.Open(t.Context(), config.Store{Database: c.in.database}, app.Existing)
	if err != nil {
		t.Fatal(err)
	}
	defer core.Close()
	began := testkit.Real.Real()
	for {
		n, err := sqldb.One(t.Context(), core.DB, sqldb.Scalar[int64],
			`SELECT COUNT(*) FROM delivery WHERE state IN ('delivered', 'parked') OR attempt >= $1`, attempts)
		if err != nil {
			t.Fatal(err)
		}
		if n == int64(events) {
			return
		}
		if testkit.Real.RealSince(began) > roundMax {
			t.Fatalf("%d of %d deliveries are done or tried %d times: %s", n, events, attempts, c.server.Load().stderr.String())
		}
		if err := testkit.Real.Wait(t.Context(), 50*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
}

// check holds what arrived against what the service says.
func (c *campaign) check(t *testing.T, events, kills int) {
	t.Helper()
	var listed []eventJSON
	c.in.json(t, &listed, "event", "list", c.account)
	if len(listed) != events {
		t.Errorf("%d events are listed", len(listed))
	}
	known := map[string]bool{}
	byEndpoint := map[string]*hook{}
	for _, h := range c.hooks {
		byEndpoint[h.endpoint] = h
	}
	waits := []time.Duration{time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 12 * time.Hour}
	for _, e := range listed {
		known[e.ID] = true
		if len(e.Deliveries) != 1 {
			t.Fatalf("%+v has not one delivery", e)
		}
		d := e.Deliveries[0]
		h := byEndpoint[d.Endpoint]
		if h.manner == answers {
			if d.State != "delivered" || h.seen[e.ID+" 1"] == 0 {
				t.Errorf("%s %s did not arrive: %+v", e.ID, h.URL, d)
			}
			continue
		}
		if d.State != "parked" || len(d.Attempts) != 6 {
			t.Errorf("%s is %s after %d attempts", e.ID, d.State, len(d.Attempts))
			continue
		}
		for i, wait := range waits {
			between := moment(t, d.Attempts[i+1].At).Sub(moment(t, d.Attempts[i].At))
			if between < wait || between > wait+roundMax {
				t.Errorf("%s: %v between attempts %d and %d, want %v", e.ID, between, i+1, i+2, wait)
			}
		}
	}
	for _, h := range c.hooks {
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, w := range h.wrong {
			t.Errorf("%s got %s", h.URL, w)
		}
		for name, n := range h.seen {
			if id, _, _ := strings.Cut(name, " "); !known[id] {
				t.Errorf("%s is unknown here", id)
			}
			if n > 1+kills {
				t.Errorf("%s arrived %d times", name, n)
			}
		}
	}
	var audit auditResult
	c.in.json(t, &audit, "audit")
	if len(audit.Problems) != 0 {
		t.Errorf("%+v", audit)
	}
}

func moment(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// TestListen forwards events, also those that came while nobody listened.
func TestListen(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in *installation) {
		p := in.serve(t)
		account, key := in.account(t, "shop")
		h := newHook(t, answers)
		n := 0
		charge := func() {
			n++
			testkit.Do(t, p.url, testkit.Request{
				Method: http.MethodPost, Path: "/v1/charges", Key: key, Header: http.Header{"Idempotency-Key": {fmt.Sprintf("listen-%d", n)}}, Body: `{"amount": 5.00}`,
			}).Want(t, http.StatusCreated)
		}
		arrived := func() int {
			h.mu.Lock()
			defer h.mu.Unlock()
			return len(h.seen)
		}
		charge() // before anybody listens
		listen := func() *process {
			l := in.launch(t, "listen", "--account", account, "--forward-to", h.URL)
			testkit.Wait(t, "the listener", func() bool { return strings.Contains(l.stdout.String(), "They are signed with whsec_") })
			_, rest, _ := strings.Cut(l.stdout.String(), "signed with ")
			h.mu.Lock()
			defer h.mu.Unlock()
			secret := strings.Fields(rest)[0]
			if h.secret != "" && h.secret != secret {
				t.Error("the secret has changed")
			}
			h.secret = secret
			return l
		}
		l := listen()
		charge()
		testkit.Wait(t, "the first event", func() bool { return arrived() == 1 })
		testkit.Wait(t, "its line", func() bool { return strings.Contains(l.stdout.String(), "charge.created  200") })
		l.signal(t, syscall.SIGKILL)
		l.wait(t)
		charge()
		charge()
		l = listen()
		testkit.Wait(t, "what came meanwhile", func() bool { return arrived() == 3 })
		l.signal(t, syscall.SIGTERM)
		if status := l.wait(t); status != 0 {
			t.Errorf("status %d: %s", status, l.stderr.String())
		}
		for _, w := range h.wrong {
			t.Error(w)
		}
	})
}

// TestWebhookCommands runs the commands of endpoints and events with --json.
func TestWebhookCommands(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in *installation) {
		in.must(t, "migrate")
		account, _ := in.account(t, "shop")
		var made, shown endpointJSON
		in.json(t, &made, "endpoint", "create", account, "--url", "https://shop.example/hook", "--events", "charge.paid,med.opened")
		if !strings.HasPrefix(made.Secret, "whsec_") || made.Status != "active" || strings.Join(made.Events, ",") != "charge.paid,med.opened" {
			t.Errorf("%+v", made)
		}
		for _, args := range [][]string{
			{"endpoint", "create", account, "--url", "https://shop.example/hook", "--events", "all"},
			{"endpoint", "create", account, "--url", "https://10.0.0.1/hook", "--events", "all"},
			{"endpoint", "create", account, "--url", "https://shop.example/other", "--events", "charge.mirrored"},
			{"endpoint", "disable", "whk_7zzzzzzzzzzzzzzzzzzzzzzzzz"},
			{"event", "show", "evt_7zzzzzzzzzzzzzzzzzzzzzzzzz"},
			{"event", "list", account, "--after", "evt_7zzzzzzzzzzzzzzzzzzzzzzzzz"},
		} {
			if r := in.call(t, args...); r.status != 1 || r.stderr == "" {
				t.Errorf("%v: %+v", args, r)
			}
		}
		if r := in.call(t, "event", "redeliver"); r.status != 2 {
			t.Errorf("%+v", r)
		}
		for command, want := range map[string]string{"disable": "disabled", "enable": "active"} {
			in.json(t, &shown, "endpoint", command, made.Endpoint)
			if command == "disable" && shown.Status != want {
				t.Errorf("%s: %+v", command, shown)
			}
		}
		in.json(t, &shown, "endpoint", "rotate", made.Endpoint)
		if shown.Secret == made.Secret || shown.SignsFrom == nil {
			t.Errorf("%+v", shown)
		}
		var list []endpointJSON
		in.json(t, &list, "endpoint", "list", account)
		if len(list) != 1 || list[0].Secret != "" {
			t.Errorf("%+v", list)
		}
		var events []eventJSON
		in.json(t, &events, "event", "list", account)
		if events == nil || len(events) != 0 {
			t.Errorf("%+v", events)
		}
		in.json(t, &shown, "endpoint", "delete", made.Endpoint)
		if r := in.call(t, "endpoint", "enable", made.Endpoint); r.status != 1 {
			t.Errorf("%+v", r)
		}
		// The secret is nowhere to be read.
		core, err := app.Open(t.Context(), config.Store{Database: in.database}, app.Existing)
		if err != nil {
			t.Fatal(err)
		}
		defer core.Close()
		sealed, err := sqldb.One(t.Context(), core.DB, sqldb.Scalar[[]byte], `SELECT secret FROM endpoint`)
		if err != nil || strings.Contains(string(sealed), "whsec") {
			t.Errorf("%q %v", sealed, err)
		}
	})
}
