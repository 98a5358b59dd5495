package simulator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/clock"
)

// noon is when the tests' worlds begin.
var noon = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

// standing is a clock that moves only when it is told to.
func standing() *clock.Clock { return clock.New(func() time.Time { return noon }) }

// world is a simulator with its control routes on a server of their own.
type world struct {
	*Simulator
	tb      testing.TB
	control string // base URL
}

func newWorld(tb testing.TB) *world { return openWorld(tb, tb.TempDir(), standing()) }

// openWorld opens the books in a folder and listens. Notifications wait for Step.
func openWorld(tb testing.TB, folder string, c *clock.Clock) *world {
	tb.Helper()
	return openWith(tb, Options{Data: folder, Clock: c})
}

func openWith(tb testing.TB, o Options) *world {
	tb.Helper()
	s, err := Open(o)
	if err != nil {
		tb.Fatal(err)
	}
	if err := s.Listen(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	server := httptest.NewServer(s.Handler())
	var once sync.Once
	w := &world{Simulator: s, tb: tb, control: server.URL}
	tb.Cleanup(func() { once.Do(func() { server.Close(); s.Close() }) })
	return w
}

// answer is what a request got.
type answer struct {
	about  string // the request
	status int
	header http.Header
	body   string
}

// into decodes the answer, whose status must be the wanted one.
func (a answer) into(tb testing.TB, status int, v any) {
	tb.Helper()
	a.want(tb, status)
	if err := json.Unmarshal([]byte(a.body), v); err != nil {
		tb.Fatalf("%s: %v in %s", a.about, err, a.body)
	}
}

// want fails unless the answer has that status and contains those texts.
func (a answer) want(tb testing.TB, status int, texts ...string) {
	tb.Helper()
	if a.status != status {
		tb.Fatalf("%s: status %d, want %d: %s", a.about, a.status, status, a.body)
	}
	for _, text := range texts {
		if !strings.Contains(a.body, text) {
			tb.Errorf("%s: want %s in %s", a.about, text, a.body)
		}
	}
}

// send makes one request on a connection of the client's. It fails the test when there is no answer.
func send(tb testing.TB, client *http.Client, r *http.Request) answer {
	tb.Helper()
	got, err := try(client, r)
	if err != nil {
		tb.Fatal(err)
	}
	return got
}

func try(client *http.Client, r *http.Request) (answer, error) {
	about := r.Method + " " + r.URL.RequestURI()
	if r.GetBody != nil {
		sent, _ := r.GetBody()
		text, _ := io.ReadAll(sent)
		about += " " + clip(string(text))
	}
	response, err := client.Do(r)
	if err != nil {
		return answer{about: about}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return answer{about, response.StatusCode, response.Header, string(body)}, err
}

// noRedirect shows redirects instead of following them.
var noRedirect = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

func request(tb testing.TB, method, url, body string) *http.Request {
	tb.Helper()
	r, err := http.NewRequestWithContext(context.Background(), method, url, strings.NewReader(body))
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// sim calls a control route.
func (w *world) sim(method, path, body string) answer {
	w.tb.Helper()
	return send(w.tb, noRedirect, request(w.tb, method, w.control+path, body))
}

// pay pays and returns the end-to-end id.
func (w *world) pay(body string) string {
	w.tb.Helper()
	var paid struct {
		EndToEndID string `json:"end_to_end_id"`
	}
	w.sim("POST", "/sim/pix/pay", body).into(w.tb, http.StatusOK, &paid)
	return paid.EndToEndID
}

// bookJSON is what GET /sim/pix/books tells.
type bookJSON struct {
	Charges []struct {
		Acquirer, TxID, Amount, Status string
		EndToEndID                     *string `json:"end_to_end_id"`
	}
	Payments []struct {
		Acquirer, Amount, Returned string
		EndToEndID                 string `json:"end_to_end_id"`
		TxID                       *string
	}
	Payouts []struct {
		Acquirer, ID, Key, Amount, Status, Returned string
		EndToEndID                                  string `json:"end_to_end_id"`
		Executions                                  int
	}
	Balance string
}

func (w *world) told(query string) (b bookJSON) {
	w.tb.Helper()
	w.sim("GET", "/sim/pix/books"+query, "").into(w.tb, http.StatusOK, &b)
	if b.Charges == nil || b.Payments == nil || b.Payouts == nil {
		w.tb.Errorf("a list of the books is null")
	}
	return b
}

// bank is a client of one acquirer.
type bank struct {
	tb      testing.TB
	account Account
	client  *http.Client
	access  string
}

func (w *world) acquirer(name string) *bank {
	w.tb.Helper()
	for _, account := range w.Acquirers() {
		if account.Name == name {
			transport := &http.Transport{}
			w.tb.Cleanup(transport.CloseIdleConnections)
			return &bank{tb: w.tb, account: account, client: &http.Client{Transport: transport}}
		}
	}
	w.tb.Fatalf("no acquirer is called %s", name)
	return nil
}

// token returns an access token.
func (b *bank) token() string {
	b.tb.Helper()
	r := request(b.tb, "POST", b.account.BaseURL+"/oauth/token", `{"grant_type":"client_credentials"}`)
	r.SetBasicAuth(b.account.ClientID, b.account.ClientSecret)
	r.Header.Set("Content-Type", "application/json")
	var told struct {
		AccessToken string `json:"access_token"`
	}
	send(b.tb, b.client, r).into(b.tb, http.StatusOK, &told)
	return told.AccessToken
}

// request makes a request with a token.
func (b *bank) request(method, path, body string) *http.Request {
	b.tb.Helper()
	if b.access == "" {
		b.access = b.token()
	}
	r := request(b.tb, method, b.account.BaseURL+path, body)
	r.Header.Set("Authorization", "Bearer "+b.access)
	return r
}

func (b *bank) do(method, path, body string) answer {
	b.tb.Helper()
	return send(b.tb, b.client, b.request(method, path, body))
}

// try makes a request that may get no answer.
func (b *bank) try(method, path, body string) (answer, error) {
	b.tb.Helper()
	return try(b.client, b.request(method, path, body))
}

// txidOf returns a txid for a number.
func txidOf(n int) string { return fmt.Sprintf("T%034d", n) }

// body returns the smallest body of a charge.
func (b *bank) body(amount string) string {
	return `{"calendario":{"expiracao":3600},"valor":{"original":"` + amount + `"},"chave":"` + b.account.Key + `"}`
}

// create creates a charge and returns what was told.
func (b *bank) create(n int, amount string) (c chargeJSON) {
	b.tb.Helper()
	b.do("PUT", "/v2/cob/"+txidOf(n), b.body(amount)).into(b.tb, http.StatusCreated, &c)
	return c
}

func (b *bank) charge(n int) (c chargeJSON) {
	b.tb.Helper()
	b.do("GET", "/v2/cob/"+txidOf(n), "").into(b.tb, http.StatusOK, &c)
	return c
}

// receiver is who is notified.
type receiver struct {
	url    string
	status atomic.Int32 // of its answers; 0 means 200

	mu   sync.Mutex
	got  []string // paths and bodies
	pixs []paymentJSON
}

func newReceiver(tb testing.TB) *receiver {
	tb.Helper()
	v := &receiver{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var told struct {
			Pix []paymentJSON `json:"pix"`
		}
		err := json.Unmarshal(body, &told)
		v.mu.Lock()
		v.got = append(v.got, r.URL.RequestURI()+" "+string(body))
		v.pixs = append(v.pixs, told.Pix...)
		v.mu.Unlock()
		if err != nil || len(told.Pix) == 0 {
			tb.Errorf("notified of %s: %v", body, err)
		}
		w.Header().Set("Location", v.url+"/elsewhere")
		if status := v.status.Load(); status != 0 {
			w.WriteHeader(int(status))
		}
	}))
	tb.Cleanup(server.Close)
	v.url = server.URL
	return v
}

// take returns the Pix that the receiver was told of since the last time.
func (v *receiver) take() []paymentJSON {
	v.mu.Lock()
	defer v.mu.Unlock()
	taken := v.pixs
	v.pixs, v.got = nil, nil
	return taken
}

func (b *bank) register(url string) {
	b.tb.Helper()
	b.do("PUT", "/v2/webhook/"+b.account.Key, `{"webhookUrl":"`+url+`"}`).want(b.tb, http.StatusCreated, url)
}

// step delivers what is due.
func (w *world) step() {
	w.tb.Helper()
	if _, err := w.Step(context.Background()); err != nil && !errors.Is(err, context.Canceled) {
		w.tb.Fatal(err)
	}
}

// standingNow is a clock that stands at the machine's time, which certificates need.
func standingNow() *clock.Clock {
	now := time.Now().Truncate(time.Second)
	return clock.New(func() time.Time { return now })
}
