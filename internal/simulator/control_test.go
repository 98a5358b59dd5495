package simulator

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alpha, beta := w.acquirer("alpha"), w.acquirer("beta")
	one := alpha.create(1, "10.00")

	t.Log("by code, then once more, then after expiry")
	first := w.pay(`{"copy_paste":" ` + one.CopyPaste + `\n"}`)
	second := w.pay(`{"copyPaste":"` + one.CopyPaste + `","amount":"3.50"}`)
	w.clock.Raise(48 * time.Hour)
	alpha.access, beta.access = "", ""
	third := w.pay(`{"txid":"` + txidOf(1) + `"}`)
	c := alpha.charge(1)
	var got []string
	for _, p := range c.Payments {
		got = append(got, p.EndToEndID+" "+p.Value)
	}
	if diff := cmp.Diff([]string{first + " 10.00", second + " 3.50", third + " 10.00"}, got); diff != "" || c.Status != "CONCLUIDA" {
		t.Errorf("%s (-want +got)\n%s", c.Status, diff)
	}

	t.Log("less than the amount leaves the charge open, more or the same closes it")
	alpha.create(2, "10.00")
	short := w.pay(`{"txid":"` + txidOf(2) + `","amount":"9.99"}`)
	if got := alpha.charge(2); got.Status != "ATIVA" || len(got.Payments) != 1 {
		t.Errorf("after a short payment: %+v", got)
	}
	books := w.told("?acquirer=alpha")
	if e := books.Charges[1].EndToEndID; e == nil || *e != short {
		t.Errorf("the books show %+v", books.Charges[1])
	}
	over := w.pay(`{"txid":"` + txidOf(2) + `","amount":"10.01"}`)
	if got := alpha.charge(2); got.Status != "CONCLUIDA" || len(got.Payments) != 2 {
		t.Errorf("after the rest: %+v", got)
	}

	t.Log("a charge whose amount the payer may change is paid by any")
	alpha.do("PUT", "/v2/cob/"+txidOf(3), strings.Replace(alpha.body("10.00"), `"original"`, `"modalidadeAlteracao":1,"original"`, 1)).want(t, http.StatusCreated)
	free := w.pay(`{"txid":"` + txidOf(3) + `","amount":"0.01"}`)
	if got := alpha.charge(3); got.Status != "CONCLUIDA" {
		t.Errorf("after a free payment: %+v", got)
	}

	t.Log("of two charges with one txid the later one is meant, unless an acquirer is named")
	w.clock.Raise(49 * time.Hour)
	alpha.access, beta.access = "", ""
	beta.create(2, "20.00")
	b := w.pay(`{"txid":"` + txidOf(2) + `"}`)
	a := w.pay(`{"txid":"` + txidOf(2) + `","acquirer":"alpha"}`)
	alpha.do("GET", "/v2/pix/"+a, "").want(t, http.StatusOK)
	beta.do("GET", "/v2/pix/"+b, "").want(t, http.StatusOK, `"valor":"20.00"`)

	t.Log("a static code")
	loose := w.pay(`{"copy_paste":"` + staticCode(t, beta.account.Key, "", 0) + `","amount":"1"}`)

	all := w.told("")
	wantBooks := []string{
		"alpha " + txidOf(1) + " 10.00 CONCLUIDA " + first,
		"alpha " + txidOf(2) + " 10.00 CONCLUIDA " + over,
		"alpha " + txidOf(3) + " 10.00 CONCLUIDA " + free,
		"beta " + txidOf(2) + " 20.00 CONCLUIDA " + b,
	}
	var books4 []string
	for _, c := range all.Charges {
		books4 = append(books4, fmt.Sprintf("%s %s %s %s %s", c.Acquirer, c.TxID, c.Amount, c.Status, *c.EndToEndID))
	}
	if diff := cmp.Diff(wantBooks, books4); diff != "" {
		t.Errorf("charges (-want +got)\n%s", diff)
	}
	var payments []string
	for _, p := range all.Payments {
		payments = append(payments, p.Acquirer+" "+p.EndToEndID+" "+p.Amount)
	}
	if diff := cmp.Diff([]string{
		"alpha " + first + " 10.00", "alpha " + second + " 3.50", "alpha " + third + " 10.00", "alpha " + short + " 9.99", "alpha " + over + " 10.01",
		"alpha " + free + " 0.01", "alpha " + a + " 10.00", "beta " + b + " 20.00", "beta " + loose + " 1.00",
	}, payments); diff != "" {
		t.Errorf("payments (-want +got)\n%s", diff)
	}
	if got := []string{w.told("?acquirer=alpha").Balance, w.told("?acquirer=beta").Balance, all.Balance}; cmp.Diff([]string{"10000053.51", "10000021.00", "20000074.51"}, got) != "" {
		t.Errorf("balances are %v", got)
	}
	if all.Payments[8].TxID != nil || *all.Payments[0].TxID != txidOf(1) || len(all.Payouts) != 0 {
		t.Errorf("got %+v", all)
	}
}

func TestPayRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alpha := w.acquirer("alpha")
	one := alpha.create(1, "10.00")
	alpha.create(2, "10.00")
	w.sim("POST", "/sim/pix/remove", `{"txid":"`+txidOf(2)+`"}`).want(t, http.StatusOK)
	foreign := "00020101021226760014br.gov.bcb.pix2554pix.example.com/qr/v2/9d36b84fc70b478fb95c12729b90ca255204000053039865802BR5910LOJA TESTE6009SAO PAULO62070503***63043461"
	code := func(s string) string { return `{"copy_paste":"` + s + `"}` }
	txid := func(more string) string { return `{"txid":"` + txidOf(1) + `",` + more + `}` }
	tests := []struct {
		name, body string
		status     int
		want       string
	}{
		{"nothing", `{}`, 400, `{"path":"copy_paste","message":"is required, or txid instead of it"}`},
		{"both", `{"copy_paste":"x","txid":"y"}`, 400, `{"path":"txid","message":"must not stand beside copy_paste"}`},
		{"empty code", code(""), 400, `{"path":"copy_paste","message":"must not be empty"}`},
		{"no code", code("hello"), 400, `{"path":"copy_paste","message":"must be a Pix copy-and-paste code: BR Code: `},
		{"long code", code(strings.Repeat("0", 513)), 400, `{"path":"copy_paste","message":"must have at most 512 characters"}`},
		{"changed code", code(one.CopyPaste[:len(one.CopyPaste)-1] + "!"), 400, `{"path":"copy_paste"`},
		{"code as a number", `{"copy_paste":7}`, 400, `{"path":"copy_paste","message":"must be a string"}`},
		{"somebody's code", code(foreign), 404, `"code":"not_found"`},
		{"somebody's static code", code(staticCode(t, "123e4567-e89b-12d3-a456-426655440000", "", 1)), 404, "belongs to no acquirer here"},
		{"static code without amount", code(staticCode(t, alpha.account.Key, "", 0)), 400, `{"path":"amount","message":"is required, because the code has none"}`},
		{"unknown txid", `{"txid":"` + txidOf(9) + `"}`, 404, `"code":"not_found"`},
		{"longer txid", `{"txid":"` + txidOf(1) + `0"}`, 404, `"code":"not_found"`},
		{"the other acquirer's", txid(`"acquirer":"beta"`), 404, `"code":"not_found"`},
		{"unknown acquirer", txid(`"acquirer":"gamma"`), 400, `{"path":"acquirer"`},
		{"removed", `{"txid":"` + txidOf(2) + `"}`, 422, `"code":"charge_removed"`},
		{"amount as a number", txid(`"amount":1.00`), 400, `{"path":"amount","message":"must be a string"}`},
		{"zero", txid(`"amount":"0.00"`), 400, `{"path":"amount","message":"must be at least 0.01"}`},
		{"negative", txid(`"amount":"-1.00"`), 400, `{"path":"amount","message":"must be at least 0.01"}`},
		{"too exact", txid(`"amount":"1.001"`), 400, `{"path":"amount","message":"has too many decimals"}`},
		{"too much", txid(`"amount":"10000000000.00"`), 400, `{"path":"amount"`},
		{"words", txid(`"amount":"ten"`), 400, `{"path":"amount","message":"must be a number"}`},
		{"wrong document", txid(`"payer_document":"52998224724"`), 400, `{"path":"payer_document"`},
		{"empty name", txid(`"payer_name":""`), 400, `{"path":"payer_name"`},
		{"long name", txid(`"payer_name":"` + strings.Repeat("x", 141) + `"`), 400, `{"path":"payer_name"`},
		{"callback in words", txid(`"callback":"no"`), 400, `{"path":"callback","message":"must be true or false"}`},
		{"callback as a number", txid(`"callback":0`), 400, `{"path":"callback"`},
		{"no JSON", `{`, 400, `{"path":"body"`},
		{"too large", `{"x":"` + strings.Repeat("x", 64<<10) + `"}`, 413, "payload_too_large"},
	}
	for _, tt := range tests {
		got := w.sim("POST", "/sim/pix/pay", tt.body)
		got.want(t, tt.status, tt.want, `"request_id":"req_`)
		if !strings.HasPrefix(got.header.Get("X-Request-Id"), "req_") {
			t.Errorf("%s: no X-Request-Id", tt.name)
		}
	}
	if got := w.told(""); len(got.Payments) != 0 || got.Balance != "20000000.00" {
		t.Errorf("money moved: %+v", got)
	}
	w.pay(txid(`"callback":null,"amount":null`)) // the same as absent
	w.pay(txid(`"callback":true`))
	if got := len(w.notices.ready); got != 2 {
		t.Errorf("%d notifications, want 2", got)
	}
}

func TestRefundByAcquirer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	beta := w.acquirer("beta")
	beta.create(1, "10.00")
	e2e := w.pay(`{"txid":"` + txidOf(1) + `"}`)
	w.sim("POST", "/sim/pix/refund", `{"end_to_end_id":"`+e2e+`","amount":"10.01"}`).want(t, http.StatusUnprocessableEntity, `"code":"refund_too_large"`)
	w.sim("POST", "/sim/pix/refund", `{"end_to_end_id":"`+e2e+`","amount":"2.50"}`).want(t, http.StatusOK, `"end_to_end_id":"`+e2e+`","return_id":"D90000002`, `"amount":"2.50"`)
	w.sim("POST", "/sim/pix/refund", `{"end_to_end_id":"`+e2e+`"}`).want(t, http.StatusOK, `"amount":"7.50"`)
	w.sim("POST", "/sim/pix/refund", `{"end_to_end_id":"`+e2e+`"}`).want(t, http.StatusUnprocessableEntity, `"code":"refund_too_large"`)
	w.sim("POST", "/sim/pix/refund", `{"end_to_end_id":"E1"}`).want(t, http.StatusNotFound, `"code":"not_found"`)
	w.sim("POST", "/sim/pix/refund", `{"amount":1}`).want(t, http.StatusBadRequest, `{"path":"end_to_end_id","message":"is required"}`, `{"path":"amount","message":"must be a string"}`)
	c := beta.charge(1)
	if c.Status != "CONCLUIDA" || len(c.Payments[0].Refunds) != 2 || c.Payments[0].Refunds[0].ID == c.Payments[0].Refunds[1].ID {
		t.Errorf("got %+v", c)
	}
	if got := w.told("?acquirer=beta"); got.Balance != "10000000.00" || got.Payments[0].Returned != "10.00" {
		t.Errorf("got %+v", got)
	}
}

func TestRemove(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alpha := w.acquirer("alpha")
	alpha.create(1, "10.00")
	alpha.create(2, "10.00")
	w.sim("POST", "/sim/pix/remove", `{"txid":"`+txidOf(1)+`"}`).want(t, http.StatusOK, `{"acquirer":"alpha","txid":"`+txidOf(1)+`","status":"REMOVIDA_PELO_PSP"}`)
	if got := alpha.charge(1); got.Status != "REMOVIDA_PELO_PSP" || got.Revision != 0 {
		t.Errorf("got %+v", got)
	}
	w.pay(`{"txid":"` + txidOf(2) + `"}`)
	for _, n := range []int{1, 2} {
		w.sim("POST", "/sim/pix/remove", `{"txid":"`+txidOf(n)+`"}`).want(t, http.StatusConflict, `"code":"charge_not_active"`)
	}
	w.sim("POST", "/sim/pix/remove", `{"txid":"x"}`).want(t, http.StatusNotFound, `"code":"not_found"`)
	w.sim("POST", "/sim/pix/remove", `{"txid":"`+txidOf(2)+`","acquirer":"beta"}`).want(t, http.StatusNotFound)
	w.sim("POST", "/sim/pix/remove", `{}`).want(t, http.StatusBadRequest, `{"path":"txid","message":"is required"}`)
}

func TestBooksQuery(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sim("GET", "/sim/pix/books", "").want(t, http.StatusOK, `{"charges":[],"payments":[],"payouts":[],"infractions":[],"balance":"20000000.00"}`)
	w.sim("GET", "/sim/pix/books?acquirer=gamma", "").want(t, http.StatusBadRequest, `{"path":"acquirer"`)
}

func TestClock(t *testing.T) {
	t.Parallel()
	var stored []time.Duration
	var refusal error
	c := standing()
	w := openWith(t, Options{Data: t.TempDir(), Clock: c, Advanced: func(offset time.Duration) error {
		if c.Offset() >= offset {
			t.Error("the clock was moved before it was stored")
		}
		stored = append(stored, offset)
		return refusal
	}})
	w.sim("GET", "/sim/clock", "").want(t, http.StatusOK, `{"offset_seconds":0,"now":"2026-11-15T12:00:00Z"}`)
	w.sim("POST", "/sim/clock", `{"advance_seconds":90}`).want(t, http.StatusOK, `{"offset_seconds":90,"now":"2026-11-15T12:01:30Z"}`)
	w.sim("POST", "/sim/clock", `{"advanceSeconds":10}`).want(t, http.StatusOK, `{"offset_seconds":100,"now":"2026-11-15T12:01:40Z"}`)
	refusal = errors.New("disk full")
	got := w.sim("POST", "/sim/clock", `{"advance_seconds":1}`)
	got.want(t, http.StatusInternalServerError, `"code":"internal_error"`)
	if strings.Contains(got.body, "disk") {
		t.Errorf("it tells too much: %s", got.body)
	}
	if c.Offset() != 100*time.Second {
		t.Errorf("the clock moved to %v", c.Offset())
	}
	refusal = nil
	for body, path := range map[string]string{
		`{}`: "advance_seconds", `{"advance_seconds":0}`: "advance_seconds", `{"advance_seconds":-5}`: "advance_seconds",
		`{"advance_seconds":1.5}`: "advance_seconds", `{"advance_seconds":"1"}`: "advance_seconds", `{"advance_seconds":316224001}`: "advance_seconds", `7`: "body",
	} {
		w.sim("POST", "/sim/clock", body).want(t, http.StatusBadRequest, `{"path":"`+path+`"`)
	}
	for range 9 {
		w.sim("POST", "/sim/clock", `{"advance_seconds":316224000}`).want(t, http.StatusOK)
	}
	w.sim("POST", "/sim/clock", `{"advance_seconds":316224000}`).want(t, http.StatusUnprocessableEntity, "invalid_request")
	if got, want := stored[len(stored)-1], c.Offset(); got != want {
		t.Errorf("stored %v, the clock is %v", got, want)
	}
}

func TestAcquirers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var told []Account
	w.sim("GET", "/sim/acquirers", "").into(t, http.StatusOK, &told)
	if diff := cmp.Diff(w.Acquirers(), told); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if len(told) != 2 || told[0].Name != "alpha" || told[0].Priority != 1 || told[1].Name != "beta" || told[1].Priority != 2 ||
		told[0].BaseURL == told[1].BaseURL || told[0].Key == told[1].Key || told[0].ClientID == told[1].ClientID || told[0].ClientSecret == told[1].ClientSecret {
		t.Errorf("got %+v", told)
	}
	w.sim("GET", "/sim/acquirers", "").want(t, http.StatusOK, `{"name":"alpha","priority":1,"base_url":"http://127.0.0.1:`, `"client_id":"`, `"client_secret":"`, `"key":"`)
}

func TestControlRoutes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sim("GET", "/sim/nothing", "").want(t, http.StatusNotFound, `"code":"not_found"`)
	w.sim("GET", "/nothing", "").want(t, http.StatusNotFound, `"code":"not_found"`)
	for path, allow := range map[string]string{"/sim/pix/pay": "POST", "/sim/pix/books": "GET, HEAD", "/sim/faults": "DELETE, GET, HEAD, POST", "/": "GET, HEAD"} {
		got := w.sim("PATCH", path, "{}")
		got.want(t, http.StatusMethodNotAllowed, `"code":"method_not_allowed"`)
		if got.header.Get("Allow") != allow {
			t.Errorf("%s allows %q, want %q", path, got.header.Get("Allow"), allow)
		}
	}
	r := request(t, "POST", w.control+"/sim/clock", `{"advance_seconds":1}`)
	r.Header.Set("Origin", "https://evil.example")
	if got := send(t, noRedirect, r); got.status != http.StatusForbidden || w.clock.Offset() != 0 {
		t.Errorf("somebody else's page moved the clock: %d", got.status)
	}
}
