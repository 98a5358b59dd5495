package simulator

import (
	"bytes"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/clock/clocktest"
	"github.com/ponte-pay/ponte/internal/money"
)

// TestReopen fails when anything that was told is not there after a restart.
func TestReopen(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	w := openWorld(t, folder, standing())
	alpha := w.acquirer("alpha")
	alpha.register("http://a.example/hook")
	for n := 1; n <= 5; n++ {
		alpha.create(n, "10.00")
	}
	w.acquirer("beta").create(1, "1.00")
	alpha.do("PATCH", "/v2/cob/"+txidOf(1), `{"valor":{"original":"12.00"},"solicitacaoPagador":"ç\"\\<>"}`).want(t, http.StatusOK)
	e2e := w.pay(`{"acquirer":"alpha","txid":"` + txidOf(1) + `"}`)
	alpha.do("PATCH", "/v2/cob/"+txidOf(2), `{"status":"REMOVIDA_PELO_USUARIO_RECEBEDOR"}`).want(t, http.StatusOK)
	w.sim("POST", "/sim/pix/remove", `{"txid":"`+txidOf(3)+`"}`).want(t, http.StatusOK)
	w.pay(`{"txid":"` + txidOf(4) + `"}`)
	w.pay(`{"txid":"` + txidOf(4) + `","amount":"0.01"}`)
	w.pay(`{"copy_paste":"` + staticCode(t, alpha.account.Key, "loja7", 100) + `"}`)
	alpha.do("PUT", "/v2/pix/"+e2e+"/devolucao/d1", `{"valor":"1.00","descricao":"x"}`).want(t, http.StatusCreated)
	w.sim("POST", "/sim/clock", `{"advance_seconds":600}`).want(t, http.StatusOK)

	look := func(w *world) string {
		alpha := w.acquirer("alpha")
		alpha.access = w.acquirers[0].newToken()
		all := []string{
			fmt.Sprint(w.Acquirers()), w.sim("GET", "/sim/clock", "").body, w.sim("GET", "/sim/pix/books", "").body,
			alpha.do("GET", "/v2/webhook/"+alpha.account.Key, "").body,
			alpha.do("GET", "/v2/cob"+window(0, time.Hour, ""), "").body, alpha.do("GET", "/v2/pix"+window(0, time.Hour, ""), "").body,
			alpha.do("GET", "/v2/cob/"+txidOf(1)+"?revisao=0", "").body, alpha.do("GET", "/v2/pix/"+e2e+"/devolucao/d1", "").body,
		}
		return strings.Join(all, "\n")
	}
	want := look(w)
	access := alpha.access
	for range 2 {
		w.Close()
		w = openWorld(t, folder, standing())
		if diff := cmp.Diff(want, look(w)); diff != "" {
			t.Fatalf("(-before +after)\n%s", diff)
		}
	}
	alpha = w.acquirer("alpha")
	alpha.access = access
	alpha.do("GET", "/v2/cob/"+txidOf(1), "").want(t, http.StatusOK) // a token outlives a restart too
}

// TestClockOfTheService fails when a clock that the service had moved before is lost by the simulator.
func TestClockOfTheService(t *testing.T) {
	t.Parallel()
	folder, c := t.TempDir(), standing()
	c.Raise(time.Hour)
	openWorld(t, folder, c).Close()
	w := openWorld(t, folder, standing())
	if got := w.clock.Offset(); got != time.Hour {
		t.Errorf("the clock is at %v, want an hour", got)
	}
}

func TestPortThatIsTaken(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	w := openWorld(t, folder, standing())
	before := w.Acquirers()
	code := w.acquirer("alpha").create(1, "10.00").CopyPaste
	w.Close()
	thief := httptest.NewUnstartedServer(http.NotFoundHandler())
	thief.Listener.Close()
	var err error
	if thief.Listener, err = listenOn(before[0].BaseURL); err != nil {
		t.Skip("somebody else was faster") // which proves nothing
	}
	thief.Start()
	defer thief.Close()
	w = openWorld(t, folder, standing())
	after := w.Acquirers()
	if after[0].BaseURL == before[0].BaseURL || after[1].BaseURL != before[1].BaseURL {
		t.Errorf("from %v to %v", before, after)
	}
	w.acquirer("alpha").do("GET", "/v2/cob/"+txidOf(1), "").want(t, http.StatusOK, strings.TrimPrefix(after[0].BaseURL, "http://")+locationPath)
	w.pay(`{"copy_paste":"` + code + `"}`) // codes of before are good
}

func TestTornJournal(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, fileName)
	w := openWorld(t, folder, standing())
	alpha := w.acquirer("alpha")
	alpha.create(1, "10.00")
	w.Close()
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	w = openWorld(t, folder, standing())
	w.acquirer("alpha").create(2, "20.00")
	w.Close()
	longer, err := os.ReadFile(path)
	if err != nil || !bytes.HasPrefix(longer, whole) || len(longer) <= len(whole) {
		t.Fatalf("%v: the journal went from %d to %d bytes", err, len(whole), len(longer))
	}
	for cut := len(whole); cut < len(longer); cut += 7 {
		rewrite(t, path, longer[:cut])
		w := openWorld(t, folder, standing())
		if got := w.told(""); len(got.Charges) != 1 || got.Charges[0].TxID != txidOf(1) {
			t.Fatalf("cut at byte %d of %d: %+v", cut, len(longer), got)
		}
		w.acquirer("alpha").create(3, "30.00")
		w.Close()
		w = openWorld(t, folder, standing())
		if got := w.told(""); len(got.Charges) != 2 || got.Charges[1].TxID != txidOf(3) {
			t.Fatalf("after a cut at byte %d and a charge: %+v", cut, got)
		}
		w.Close()
	}
	t.Log("a last record with a wrong byte is torn too")
	wrong := bytes.Clone(longer)
	wrong[len(wrong)-10] ^= 1
	rewrite(t, path, wrong)
	w = openWorld(t, folder, standing())
	if got := w.told(""); len(got.Charges) != 1 {
		t.Fatalf("got %+v", got)
	}
	w.Close()
	t.Log("damage before the last record is not mended")
	wrong = bytes.Clone(longer)
	wrong[len(whole)-10] ^= 1
	rewrite(t, path, wrong)
	if _, err := Open(Options{Data: folder, Clock: standing()}); err == nil || !strings.Contains(err.Error(), "damaged at byte") {
		t.Errorf("got %v", err)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, wrong) {
		t.Errorf("the file was changed: %v", err)
	}
}

func rewrite(tb testing.TB, path string, data []byte) {
	tb.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		tb.Fatal(err)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	line := func(body string) string {
		sum := checksum([]byte(body))
		return fmt.Sprintf("%x %s\n", sum[:], body)
	}
	world := func(version, acquirers int) string {
		identities := strings.TrimSuffix(strings.Repeat(`{"client_id":"a","client_secret":"b","key":"c"},`, acquirers), ",")
		return line(fmt.Sprintf(`{"world":{"version":%d,"locations":"00112233445566778899aabbccddeeff","tokens":"00","acquirers":[%s]}}`, version, identities))
	}
	charge := line(`{"charge":{"acquirer":0,"txid":"` + txidOf(1) + `","centavos":1,"created":1,"expires":1}}`)
	for name, tt := range map[string]struct{ content, want string }{
		"another file":          {"SQLite format 3\n" + strings.Repeat("x\n", 50), "damaged at byte 0"},
		"a later version":       {world(2, 2), "version 2"},
		"a larger world":        {world(1, 3), "3 acquirers"},
		"no world":              {charge + charge, "not the books of a simulator"},
		"unknown record":        {world(1, 2) + line(`{"dream":{}}`), "not a record that this version knows"},
		"unknown acquirer":      {world(1, 2) + line(`{"charge":{"acquirer":7,"txid":"x","centavos":1,"created":1,"expires":1}}`), "no acquirer has number 7"},
		"unknown status":        {world(1, 2) + line(`{"charge":{"acquirer":0,"txid":"x","status":9,"centavos":1,"created":1,"expires":1}}`), "not a charge"},
		"long txid":             {world(1, 2) + line(`{"charge":{"acquirer":0,"txid":"`+txidOf(1)+`0","centavos":1,"created":1,"expires":1}}`), "not a charge"},
		"payment twice":         {world(1, 2) + strings.Repeat(line(`{"payment":{"acquirer":0,"end_to_end_id":"E9000009920261115035652ABPntTimv","centavos":1,"at":1,"name":"","document":""}}`), 2), "used before"},
		"refund of nothing":     {world(1, 2) + line(`{"refund":{"acquirer":0,"end_to_end_id":"E","id":"x","return_id":"D","centavos":1,"at":1}}`), "no such payment"},
		"locations in disorder": {line(`{"world":{"version":1,"locations":"zz","tokens":"00","acquirers":[{},{}]}}`), "locations key"},
		"tokens in disorder":    {line(`{"world":{"version":1,"locations":"00112233445566778899aabbccddeeff","tokens":"zz","acquirers":[{},{}]}}`), "tokens key"},
	} {
		folder := t.TempDir()
		rewrite(t, filepath.Join(folder, fileName), []byte(tt.content))
		s, err := Open(Options{Data: folder, Clock: standing()})
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "simulator: ") {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
		if s != nil {
			s.Close()
		}
	}

	folder := t.TempDir()
	s, err := Open(Options{Data: filepath.Join(folder, "deep", "down"), Clock: standing()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{Data: filepath.Join(folder, "deep", "down"), Clock: standing()}); err == nil || !strings.Contains(err.Error(), "another simulator has it open") {
		t.Errorf("a second one: %v", err)
	}
	s.Close()
	if err := os.WriteFile(filepath.Join(folder, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{Data: filepath.Join(folder, "file"), Clock: standing()}); err == nil {
		t.Error("a file was taken for a folder")
	}
}

// TestFailedWrite fails when something is told, or stays in memory, that could not be written down.
func TestFailedWrite(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	w := openWorld(t, folder, standing())
	alpha := w.acquirer("alpha")
	alpha.create(1, "10.00")
	alpha.create(2, "10.00")
	e2e := w.pay(`{"txid":"` + txidOf(1) + `"}`)
	before := w.sim("GET", "/sim/pix/books", "").body

	good := w.books.journal.file
	broken, err := os.Open(filepath.Join(folder, fileName)) // for reading only
	if err != nil {
		t.Fatal(err)
	}
	defer broken.Close()
	w.books.mu.Lock()
	w.books.journal.file = broken
	w.books.mu.Unlock()
	wantProblem(t, alpha.do("PUT", "/v2/cob/"+txidOf(3), alpha.body("1.00")), 500, "ErroInternoDoServidor", "")
	wantProblem(t, alpha.do("PATCH", "/v2/cob/"+txidOf(2), `{"solicitacaoPagador":"x"}`), 500, "ErroInternoDoServidor", "")
	wantProblem(t, alpha.do("PUT", "/v2/pix/"+e2e+"/devolucao/d1", `{"valor":"1.00"}`), 500, "ErroInternoDoServidor", "")
	wantProblem(t, alpha.do("PUT", "/v2/webhook/"+alpha.account.Key, `{"webhookUrl":"http://a.example"}`), 500, "ErroInternoDoServidor", "")
	w.sim("POST", "/sim/pix/pay", `{"txid":"`+txidOf(2)+`"}`).want(t, 500, "internal_error")
	w.sim("POST", "/sim/pix/refund", `{"end_to_end_id":"`+e2e+`"}`).want(t, 500, "internal_error")
	w.sim("POST", "/sim/pix/remove", `{"txid":"`+txidOf(2)+`"}`).want(t, 500, "internal_error")
	w.sim("POST", "/sim/clock", `{"advance_seconds":1}`).want(t, 500, "internal_error")
	w.books.mu.Lock()
	w.books.journal.file = good
	w.books.mu.Unlock()
	if diff := cmp.Diff(before, w.sim("GET", "/sim/pix/books", "").body); diff != "" || w.clock.Offset() != 0 {
		t.Errorf("clock %v, books (-before +after)\n%s", w.clock.Offset(), diff)
	}
	if len(w.notices.ready) != 1 {
		t.Errorf("%d notifications, want only the first payment's", len(w.notices.ready))
	}
	alpha.create(3, "1.00")
	w.Close()
	w = openWorld(t, folder, standing())
	if got := w.told(""); len(got.Charges) != 3 {
		t.Errorf("got %+v", got)
	}
}

func TestClosed(t *testing.T) {
	t.Parallel()
	s, err := Open(Options{Data: t.TempDir(), Clock: standing()})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	answer := httptest.NewRecorder()
	s.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/sim/clock", strings.NewReader(`{"advance_seconds":1}`)))
	if answer.Code != http.StatusInternalServerError {
		t.Errorf("status %d", answer.Code)
	}
}

// TestSameSeed fails when a world inside of one process depends on anything but its randomness and its clock.
func TestSameSeed(t *testing.T) {
	t.Parallel()
	live := func() string {
		s, err := Open(Options{Data: t.TempDir(), Clock: standing(), Random: mathrand.NewChaCha8([32]byte{7})})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		all := fmt.Sprint(s.Acquirers())
		call := func(h http.Handler, method, path, body, token string) {
			r := httptest.NewRequest(method, path, strings.NewReader(body))
			r.Header.Set("Authorization", "Bearer "+token)
			answer := httptest.NewRecorder()
			h.ServeHTTP(answer, r)
			all += fmt.Sprintf("\n%s %s %d %s", method, path, answer.Code, answer.Body)
		}
		alpha := s.AcquirerHandler("alpha")
		token := s.acquirers[0].newToken()
		body := `{"calendario":{},"valor":{"original":"1.00"},"chave":"` + s.Acquirers()[0].Key + `"}`
		call(alpha, "PUT", "/v2/cob/"+txidOf(1), body, token)
		call(alpha, "POST", "/v2/cob", body, token)
		call(alpha, "PUT", "/v2/cob/x", body, token)
		call(s.Handler(), "POST", "/sim/pix/pay", `{"txid":"`+txidOf(1)+`"}`, "")
		call(s.AcquirerHandler("gamma"), "GET", "/", "", "")
		return all
	}
	first := live()
	if diff := cmp.Diff(first, live()); diff != "" {
		t.Errorf("(-first +second)\n%s", diff)
	}
	for _, want := range []string{"http://alpha.simulator", `"location":"alpha.simulator/qr/v2/`, "POST /sim/pix/pay 200", "404 page not found"} {
		if !strings.Contains(first, want) {
			t.Errorf("want %s in %s", want, first)
		}
	}
}

// TestConcurrently has many create, pay, refund and read at once; the books must add up.
func TestConcurrently(t *testing.T) {
	t.Parallel()
	const workers, each = 32, 20
	folder := t.TempDir()
	w, v := openWorld(t, folder, clock.New(nil)), newReceiver(t)
	alpha, beta := w.acquirer("alpha"), w.acquirer("beta")
	alpha.client.Transport = &http.Transport{MaxIdleConnsPerHost: workers}
	alpha.token()
	alpha.register(v.url)
	beta.token()
	beta.do("GET", "/v2/cob/x", "")
	ctx := t.Context()
	go func() { _ = w.Serve(ctx) }()
	var mu sync.Mutex
	paid, returned := map[string]money.BRL{}, money.BRL(0)
	var wg sync.WaitGroup
	for worker := range workers {
		wg.Go(func() {
			for i := range each {
				n := 1 + worker*each + i
				amount := money.BRL(n)
				bank := alpha
				if n%4 == 0 {
					bank = beta
				}
				bank.create(n, amount.String())
				// Everybody also tries to be the one who creates this one.
				if got := alpha.do("PUT", "/v2/cob/"+txidOf(90_000+i), alpha.body("1.00")).status; got != 201 && got != 409 {
					t.Errorf("status %d", got)
				}
				e2e := w.pay(`{"txid":"` + txidOf(n) + `"}`)
				mu.Lock()
				if _, twice := paid[e2e]; twice {
					t.Errorf("%s was given twice", e2e)
				}
				paid[e2e] = amount
				mu.Unlock()
				if n%3 == 0 {
					w.sim("POST", "/sim/pix/refund", `{"end_to_end_id":"`+e2e+`"}`).want(t, http.StatusOK)
					mu.Lock()
					returned += amount
					mu.Unlock()
				}
				if n%16 == 0 {
					w.told("")
					bank.do("GET", "/v2/pix?inicio=2020-01-01T00:00:00Z&fim=2099-01-01T00:00:00Z&paginacao.itensPorPagina=5", "").want(t, http.StatusOK)
				}
			}
		})
	}
	wg.Wait()
	check := func(w *world) {
		t.Helper()
		got := w.told("")
		want := 2*openingBalance - returned
		for _, amount := range paid {
			want += amount
		}
		if got.Balance != want.String() || len(got.Payments) != workers*each || len(got.Charges) != workers*each+each {
			t.Errorf("balance %s, want %v; %d payments, %d charges", got.Balance, want, len(got.Payments), len(got.Charges))
		}
		for _, p := range got.Payments {
			if paid[p.EndToEndID].String() != p.Amount {
				t.Errorf("%s paid %s, want %v", p.EndToEndID, p.Amount, paid[p.EndToEndID])
			}
		}
		waiting := 0
		for _, c := range got.Charges {
			if c.Status == "ATIVA" {
				waiting++
			}
		}
		if waiting != each {
			t.Errorf("%d charges wait, want %d", waiting, each)
		}
	}
	check(w)
	wantNotices := 0
	for n := 1; n <= workers*each; n++ {
		if n%4 != 0 {
			wantNotices++
			if n%3 == 0 {
				wantNotices++
			}
		}
	}
	clocktest.Wait(t, "every notification", func() bool { v.mu.Lock(); defer v.mu.Unlock(); return len(v.pixs) == wantNotices })
	w.Close()
	check(openWorld(t, folder, clock.New(nil)))
}

func TestNoRandomness(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("it went on without randomness")
		}
	}()
	_, _ = Open(Options{Data: t.TempDir(), Clock: standing(), Random: brokenReader{}})
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
