package simulator

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/clock/clocktest"
)

func (w *world) fault(body string) {
	w.tb.Helper()
	w.sim("POST", "/sim/faults", body).want(w.tb, http.StatusOK)
}

// isReset reports whether a request got no answer because its connection was reset.
func isReset(err error) bool { return errors.Is(err, syscall.ECONNRESET) }

func TestFaultOnCreate(t *testing.T) {
	t.Parallel()
	tests := []struct {
		kind     string
		status   int // 0 for a reset connection
		want     string
		executed bool
		took     time.Duration // at least
	}{
		{"http_500", 500, "ErroInternoDoServidor", false, 0},
		{"http_429", 429, `{"nome":"limite_de_requisicoes"`, false, 0},
		{"reject", 400, "CobOperacaoInvalida", false, 0},
		{"lost_executed", 0, "", true, 30 * time.Millisecond},
		{"lost_not_executed", 0, "", false, 30 * time.Millisecond},
		{"slow", 201, `"txid"`, true, 30 * time.Millisecond},
		{"garbage", 200, "", true, 0},
	}
	for _, tt := range tests {
		t.Run(tt.kind, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			alpha := w.acquirer("alpha")
			alpha.token()
			w.fault(`{"target":"alpha","operation":"charge.create","kind":"` + tt.kind + `","delay_ms":30}`)
			w.acquirer("beta").create(1, "1.00") // is not meant
			began := clocktest.Real.Real()
			got, err := alpha.try("PUT", "/v2/cob/"+txidOf(1), alpha.body("10.00"))
			if took := clocktest.Real.RealSince(began); took < tt.took {
				t.Errorf("took %v, want %v", took, tt.took)
			}
			switch {
			case tt.status == 0 && !isReset(err):
				t.Errorf("got %d %s, %v", got.status, got.body, err)
			case tt.status != 0 && err != nil:
				t.Error(err)
			case tt.status != 0:
				got.want(t, tt.status, tt.want)
			}
			if tt.kind == "garbage" && json.Valid([]byte(got.body)) {
				t.Errorf("%s can be read", got.body)
			}
			if want := map[bool]int{true: 200, false: 404}[tt.executed]; alpha.do("GET", "/v2/cob/"+txidOf(1), "").status != want {
				t.Errorf("executed: want %v", tt.executed)
			}
			alpha.create(2, "10.00") // it was for once
		})
	}
}

func TestFaultOperations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alpha := w.acquirer("alpha")
	alpha.create(1, "10.00")
	e2e := w.pay(`{"txid":"` + txidOf(1) + `"}`)
	requests := []struct{ method, path, body string }{
		{"PUT", "/v2/cob/" + txidOf(2), alpha.body("1.00")},
		{"POST", "/v2/cob", alpha.body("1.00")},
		{"GET", "/v2/cob/" + txidOf(1), ""},
		{"GET", "/v2/cob" + window(0, 1, ""), ""},
		{"GET", "/v2/pix/" + e2e, ""},
		{"GET", "/v2/pix" + window(0, 1, ""), ""},
		{"PATCH", "/v2/cob/" + txidOf(1), `{}`},
		{"GET", "/v2/webhook" + window(0, 1, ""), ""},
		{"PUT", "/v3/gn/pix/a", alpha.payoutBody("1.00", "52998224725")},
		{"GET", "/v2/gn/pix/enviados/id-envio/a", ""},
		{"GET", "/v2/gn/pix/enviados" + window(0, 1, ""), ""},
		{"GET", "/v2/gn/saldo", ""},
		{"GET", "/v2/gn/infracoes" + window(0, 1, ""), ""},
		{"POST", "/v2/gn/infracoes/x/defesa", "{}"},
	}
	for op, want := range map[string]string{ // which of the requests it meets
		"charge.create": "11............",
		"charge.get":    "..1111........",
		"payout.send":   "........1.....",
		"payout.get":    ".........11...",
		"token":         "..............",
		"med.list":      "............1.",
		"med.defend":    ".............1",
		"*":             "11111111111111",
	} {
		w.fault(`{"target":"alpha","operation":"` + op + `","kind":"http_429","times":0}`)
		var met []byte
		for _, r := range requests {
			met = append(met, map[bool]byte{true: '1', false: '.'}[alpha.do(r.method, r.path, r.body).status == http.StatusTooManyRequests])
		}
		if got := string(met); got != want {
			t.Errorf("%s meets %s, want %s", op, got, want)
		}
		w.sim("DELETE", "/sim/faults", "").want(t, http.StatusOK, `{"faults":[]}`)
	}

	t.Log("every operation has its own clean refusal")
	tokenRequest := func() *http.Request {
		r := request(t, "POST", alpha.account.BaseURL+"/oauth/token", "grant_type=client_credentials")
		r.SetBasicAuth(alpha.account.ClientID, alpha.account.ClientSecret)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		return r
	}
	w.fault(`{"target":"alpha","operation":"token","kind":"reject"}`)
	send(t, alpha.client, tokenRequest()).want(t, http.StatusUnauthorized, "invalid_client")
	send(t, alpha.client, tokenRequest()).want(t, http.StatusOK)
	w.fault(`{"target":"alpha","kind":"reject","times":3}`)
	wantProblem(t, alpha.do("GET", "/v2/cob/"+txidOf(1), ""), http.StatusForbidden, "AcessoNegado", "")
	wantProblem(t, alpha.do("PATCH", "/v2/cob/"+txidOf(1), "{}"), http.StatusBadRequest, "RequisicaoInvalida", "")
	send(t, alpha.client, tokenRequest()).want(t, http.StatusUnauthorized, "invalid_client")
	alpha.do("PATCH", "/v2/cob/"+txidOf(1), "{}").want(t, http.StatusBadRequest, "CobOperacaoInvalida")

	t.Log("a payer's bank is never met, and who has no token uses nothing up")
	w.fault(`{"target":"alpha","operation":"*","kind":"http_500","times":2}`)
	send(t, alpha.client, request(t, "GET", "http://"+alphaLocation(w), "")).want(t, http.StatusOK)
	send(t, alpha.client, request(t, "GET", alpha.account.BaseURL+"/v2/cob/"+txidOf(1), "")).want(t, http.StatusUnauthorized)
	w.sim("GET", "/sim/faults", "").want(t, http.StatusOK, `{"faults":[{"target":"alpha","operation":"*","kind":"http_500","times":2,"delay_ms":100}]}`)
	alpha.do("GET", "/v2/cob/"+txidOf(1), "").want(t, http.StatusInternalServerError)
	w.sim("GET", "/sim/faults", "").want(t, http.StatusOK, `"times":1`)
	alpha.do("GET", "/v2/cob/"+txidOf(1), "").want(t, http.StatusInternalServerError)
	alpha.do("GET", "/v2/cob/"+txidOf(1), "").want(t, http.StatusOK)
	w.sim("GET", "/sim/faults", "").want(t, http.StatusOK, `{"faults":[]}`)
}

func alphaLocation(w *world) string { return w.acquirers[0].location(0) }

func TestFaultDuplicateCallback(t *testing.T) {
	t.Parallel()
	w, v := newWorld(t), newReceiver(t)
	alpha, beta := w.acquirer("alpha"), w.acquirer("beta")
	alpha.register(v.url)
	beta.register(v.url)
	for n := 1; n <= 3; n++ {
		alpha.create(n, "10.00")
	}
	beta.create(9, "10.00")
	w.fault(`{"target":"alpha","operation":"charge.get","kind":"duplicate_callback","times":2}`)
	alpha.charge(1) // uses nothing up
	for _, want := range []struct{ txid, times int }{{9, 1}, {1, 2}, {2, 2}, {3, 1}} {
		w.pay(`{"txid":"` + txidOf(want.txid) + `"}`)
		w.step()
		if got := v.take(); len(got) != want.times {
			t.Errorf("charge %d: notified %d times, want %d", want.txid, len(got), want.times)
		}
	}
}

func TestFaultRefuse(t *testing.T) {
	t.Parallel()
	w := openWorld(t, t.TempDir(), clock.New(nil))
	alpha := w.acquirer("alpha")
	alpha.create(1, "10.00")
	address := strings.TrimPrefix(alpha.account.BaseURL, "http://")
	idle, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	// A request that is under way when the door shuts: it has been executed, and its answer is waited for.
	w.fault(`{"target":"alpha","operation":"charge.create","kind":"slow","delay_ms":600000}`)
	underWay := make(chan error, 1)
	go func() {
		_, err := alpha.try("PUT", "/v2/cob/"+txidOf(2), alpha.body("10.00"))
		underWay <- err
	}()
	clocktest.Wait(t, "the request under way", func() bool { return len(w.told("?acquirer=alpha").Charges) == 2 })

	for range 3 {
		w.sim("POST", "/sim/faults", `{"target":"alpha","operation":"charge.create","kind":"refuse"}`).want(t, http.StatusOK, `"kind":"refuse","times":0`)
		for range 20 {
			if c, err := net.Dial("tcp", address); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Fatalf("dial: %v, %v", c, err)
			}
		}
		w.acquirer("beta").do("GET", "/v2/cob/"+txidOf(1), "").want(t, http.StatusNotFound)
		if n := w.acquirers[0].openConnections(); n != 0 {
			t.Errorf("%d connections are open", n)
		}
		if underWay != nil {
			if err := <-underWay; err == nil {
				t.Error("the request under way was answered")
			}
			if _, err := idle.Read(make([]byte, 1)); err == nil {
				t.Error("an idle connection is open")
			}
			underWay = nil
		}
		w.sim("DELETE", "/sim/faults", "").want(t, http.StatusOK)
		alpha.do("GET", "/v2/cob/"+txidOf(1), "").want(t, http.StatusOK, txidOf(1))
		if got := w.acquirer("alpha").account.BaseURL; got != alpha.account.BaseURL {
			t.Errorf("it moved from %s to %s", alpha.account.BaseURL, got)
		}
	}
}

// openConnections returns how many connections came through the acquirer's door and are open.
func (a *acquirer) openConnections() int {
	a.door.mu.Lock()
	defer a.door.mu.Unlock()
	if a.door.listener == nil {
		return 0
	}
	a.door.listener.mu.Lock()
	defer a.door.listener.mu.Unlock()
	return len(a.door.listener.conns)
}

// TestFaultRefuseUnderLoad fails when a connection that is being accepted while the door shuts is left open, or when one
// request is answered after the route has.
func TestFaultRefuseUnderLoad(t *testing.T) {
	t.Parallel()
	w := openWorld(t, t.TempDir(), clock.New(nil))
	alpha := w.acquirer("alpha")
	token := alpha.token()
	done := make(chan struct{})
	answered := make(chan int)
	for range 8 {
		go func() {
			n := 0
			transport := &http.Transport{DisableKeepAlives: true}
			for {
				select {
				case <-done:
					answered <- n
					return
				default:
				}
				r, _ := http.NewRequest(http.MethodGet, alpha.account.BaseURL+"/v2/cob/"+txidOf(1), nil)
				r.Header.Set("Authorization", "Bearer "+token)
				if response, err := transport.RoundTrip(r); err == nil {
					response.Body.Close()
					n++
				}
			}
		}()
	}
	for range 20 {
		listener := w.acquirers[0].door.listener
		w.fault(`{"target":"alpha","kind":"refuse"}`)
		listener.mu.Lock()
		if listener.conns != nil {
			t.Error("a shut door takes connections")
		}
		listener.mu.Unlock()
		w.sim("DELETE", "/sim/faults", "").want(t, http.StatusOK)
	}
	close(done)
	total := 0
	for range 8 {
		total += <-answered
	}
	if total == 0 {
		t.Error("nothing was answered at all")
	}
	slots := w.acquirers[0].door.listener.slots
	// The one that is left waits for the next connection.
	clocktest.Wait(t, "closed connections to make room for others", func() bool { return len(slots) <= 1 })
}

// lateListener accepts one connection, when it is told to.
type lateListener struct {
	net.Listener
	accept chan net.Conn
}

func (l lateListener) Accept() (net.Conn, error) { return <-l.accept, nil }

func (l lateListener) Close() error { return nil }

func TestConnectionThatIsBeingAccepted(t *testing.T) {
	t.Parallel()
	late := lateListener{accept: make(chan net.Conn)}
	l := newListener(late)
	result := make(chan error)
	go func() {
		_, err := l.Accept()
		result <- err
	}()
	clocktest.Wait(t, "Accept", func() bool { return len(l.slots) == 1 })
	l.shut()
	ours, theirs := net.Pipe()
	late.accept <- ours
	if err := <-result; !errors.Is(err, net.ErrClosed) {
		t.Errorf("accepted: %v", err)
	}
	if _, err := theirs.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the connection is open: %v", err)
	}
}

func TestFaultInProcess(t *testing.T) {
	t.Parallel()
	s, err := Open(Options{Data: t.TempDir(), Clock: standing()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	aborts := func() (aborted bool) {
		defer func() { aborted = recover() != nil }()
		s.AcquirerHandler("alpha").ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
		return false
	}
	control := func(method, path, body string) int {
		answer := httptest.NewRecorder()
		s.Handler().ServeHTTP(answer, httptest.NewRequest(method, path, strings.NewReader(body)))
		return answer.Code
	}
	if aborts() {
		t.Error("it refuses from the start")
	}
	if got := control("POST", "/sim/faults", `{"target":"alpha","kind":"refuse"}`); got != http.StatusOK || !aborts() {
		t.Errorf("status %d, and it does not refuse", got)
	}
	if got := control("DELETE", "/sim/faults", ""); got != http.StatusOK || aborts() {
		t.Errorf("status %d, and it refuses", got)
	}
}

func TestFaultsRefuse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tests := []struct{ body, path string }{
		{`{}`, "target"},
		{`{"target":"gamma","operation":"*","kind":"slow"}`, "target"},
		{`{"target":"alpha","operation":"charge.delete","kind":"slow"}`, "operation"},
		{`{"target":"alpha","operation":"*"}`, "kind"},
		{`{"target":"alpha","operation":"*","kind":"explode"}`, "kind"},
		{`{"target":"alpha","operation":"*","kind":"slow","times":-1}`, "times"},
		{`{"target":"alpha","operation":"*","kind":"slow","times":1000001}`, "times"},
		{`{"target":"alpha","operation":"*","kind":"slow","times":"2"}`, "times"},
		{`{"target":"alpha","operation":"*","kind":"slow","delay_ms":600001}`, "delay_ms"},
		{`{"target":"alpha","operation":"*","kind":"slow","delay_ms":-1}`, "delay_ms"},
		{`[]`, "body"},
	}
	for _, tt := range tests {
		w.sim("POST", "/sim/faults", tt.body).want(t, http.StatusBadRequest, `"VALIDATION_ERROR"`, `{"path":"`+tt.path+`"`)
	}
	w.sim("GET", "/sim/faults", "").want(t, http.StatusOK, `{"faults":[]}`)
	for i := range faultsMax {
		w.fault(fmt.Sprintf(`{"target":"beta","operation":"*","kind":"slow","times":%d}`, i))
	}
	w.sim("POST", "/sim/faults", `{"target":"beta","operation":"*","kind":"slow"}`).want(t, http.StatusConflict, "too_many_faults")
}
