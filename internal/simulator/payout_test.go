package simulator

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/clock/clocktest"
)

// payoutBody returns the body of a payout.
func (b *bank) payoutBody(amount, key string) string {
	return fmt.Sprintf(`{"valor":%q,"pagador":{"chave":%q,"infoPagador":"Saque 42"},"favorecido":{"chave":%q}}`, amount, b.account.Key, key)
}

// send sends a payout that must be taken, and returns what was told.
func (b *bank) send(id, amount string) (p sendJSON) {
	b.tb.Helper()
	b.do("PUT", "/v3/gn/pix/"+id, b.payoutBody(amount, "ana@banco.example")).into(b.tb, http.StatusCreated, &p)
	return p
}

// sent reads a payout.
func (b *bank) sent(id string) (p sentJSON) {
	b.tb.Helper()
	b.do("GET", "/v2/gn/pix/enviados/id-envio/"+id, "").into(b.tb, http.StatusOK, &p)
	return p
}

// payouts returns the payouts in the books, a line each.
func (w *world) payouts() (lines []string) {
	w.tb.Helper()
	for _, p := range w.told("").Payouts {
		lines = append(lines, fmt.Sprint(p.Acquirer, " ", p.ID, " ", p.Key, " ", p.Amount, " ", p.Status, " ", p.Executions, " ", p.Returned))
	}
	return lines
}

func (w *world) wantPayouts(want ...string) {
	w.tb.Helper()
	if diff := cmp.Diff(want, w.payouts()); diff != "" {
		w.tb.Error(diff)
	}
}

func manual(tb testing.TB) *world {
	tb.Helper()
	return openWith(tb, Options{Data: tb.TempDir(), Clock: standing(), SettleAfter: Manual})
}

func TestPayout(t *testing.T) {
	t.Parallel()
	w := manual(t)
	alpha := w.acquirer("alpha")
	sent := alpha.send("a1", "10.00")
	if want := (sendJSON{ID: "a1", EndToEndID: sent.EndToEndID, Value: "10.00", Times: sentTimesJSON{Requested: "2026-11-15T12:00:00.000Z"}, Status: "EM_PROCESSAMENTO"}); sent != want {
		t.Errorf("got %+v, want %+v", sent, want)
	}
	if !strings.HasPrefix(sent.EndToEndID, "E90000001202611151200") {
		t.Errorf("its end-to-end id is %s", sent.EndToEndID)
	}
	want := sentJSON{
		EndToEndID: sent.EndToEndID, ID: "a1", Value: "10.00", Key: alpha.account.Key, Status: "EM_PROCESSAMENTO", Text: "Saque 42",
		Times: sent.Times, Recipient: recipientJSON{"ana@banco.example", recipient},
	}
	if diff := cmp.Diff(want, alpha.sent("a1")); diff != "" {
		t.Error(diff)
	}
	alpha.do("GET", "/v2/gn/saldo?bloqueios=true", "").want(t, http.StatusOK, `{"bloqueios":{"judicial":"0.00","med":"0.00","total":"0.00"},"saldo":"9999990.00"}`)
	alpha.do("GET", "/v2/gn/saldo", "").want(t, http.StatusOK, `{"saldo":"9999990.00"}`)

	t.Log("settle, and return in two parts")
	w.clock.Raise(time.Minute)
	w.sim("POST", "/sim/pix/payouts/a1/settle", "").want(t, http.StatusOK, `"status":"REALIZADO"`, `"acquirer":"alpha"`, sent.EndToEndID)
	w.sim("POST", "/sim/pix/payouts/a1/settle", "").want(t, http.StatusOK, `"status":"REALIZADO"`) // as it is
	w.sim("POST", "/sim/pix/payouts/a1/fail", "").want(t, http.StatusConflict, "payout_ended")
	w.wantPayouts("alpha a1 ana@banco.example 10.00 REALIZADO 1 0.00")
	w.sim("POST", "/sim/pix/payouts/a1/return", `{"amount":"2.50"}`).want(t, http.StatusOK, `"returned":"2.50"`)
	w.sim("POST", "/sim/pix/payouts/a1/return", `{"amount":"7.51"}`).want(t, http.StatusUnprocessableEntity, "return_too_large")
	w.sim("POST", "/sim/pix/payouts/a1/return", "").want(t, http.StatusOK, `"returned":"10.00"`)
	w.sim("POST", "/sim/pix/payouts/a1/return", "{}").want(t, http.StatusUnprocessableEntity, "return_too_large")
	want.Status, want.Times.Settled = "REALIZADO", "2026-11-15T12:01:00.000Z"
	got := alpha.sent("a1")
	if len(got.Returns) != 2 || got.Returns[0].Value != "2.50" || got.Returns[1].Value != "7.50" || !strings.HasPrefix(got.Returns[1].ReturnID, "D90000099202611151201") {
		t.Errorf("got %+v", got.Returns)
	}
	got.Returns = nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	w.wantPayouts("alpha a1 ana@banco.example 10.00 REALIZADO 1 10.00")
	if got := w.told("?acquirer=alpha").Balance; got != "10000000.00" {
		t.Errorf("the balance is %s", got)
	}

	t.Log("fail")
	n := 0
	for reason, want := range map[string]*failureJSON{
		"":                          {"AC03", failureOrigin, failureReasons["AC03"]},
		`{"reason":"AC07"}`:         {"AC07", failureOrigin, failureReasons["AC07"]},
		`{"reason":"XX99"}`:         {"XX99", failureOrigin, "XX99"},
		`{"reason":"sem \"nada\""}`: {"ED05", failureOrigin, `sem "nada"`},
	} {
		n++
		id := fmt.Sprintf("f%d", n)
		alpha.send(id, "1.00")
		w.sim("POST", "/sim/pix/payouts/"+id+"/fail", reason).want(t, http.StatusOK, `"status":"NAO_REALIZADO"`)
		if got := alpha.sent(id); got.Status != "NAO_REALIZADO" || got.Times.Settled != "" || got.Extras == nil || !cmp.Equal(got.Extras.Failure, want) {
			t.Errorf("%s: got %+v", reason, got)
		}
		w.sim("POST", "/sim/pix/payouts/"+id+"/settle", "").want(t, http.StatusConflict, "payout_ended")
		w.sim("POST", "/sim/pix/payouts/"+id+"/fail", "").want(t, http.StatusOK, "NAO_REALIZADO") // as it is
		w.sim("POST", "/sim/pix/payouts/"+id+"/return", "").want(t, http.StatusConflict, "payout_not_settled")
	}
	if got := w.told("?acquirer=alpha").Balance; got != "10000000.00" {
		t.Errorf("the balance is %s", got)
	}
	for _, what := range []string{"settle", "fail", "return"} {
		w.sim("POST", "/sim/pix/payouts/a1/"+what, `{"acquirer":"beta"}`).want(t, http.StatusNotFound)
		w.sim("POST", "/sim/pix/payouts/none/"+what, "").want(t, http.StatusNotFound)
		w.sim("POST", "/sim/pix/payouts/a1/"+what, `{"amount":1,"callback":2,"acquirer":"x","reason":""}`).
			want(t, http.StatusBadRequest, "amount", "callback", "acquirer", "reason")
		w.sim("POST", "/sim/pix/payouts/a1/"+what, "x").want(t, http.StatusBadRequest)
	}
}

func TestPayoutRules(t *testing.T) {
	t.Parallel()
	w := manual(t)
	alpha := w.acquirer("alpha")
	good := alpha.payoutBody("1.00", "52998224725")
	with := func(from, to string) string { return strings.Replace(good, from, to, 1) }
	for _, tt := range []struct {
		name, id, body string
		status         int
		want           []string
	}{
		{"no JSON", "a", "x", 400, []string{"RequisicaoInvalida"}},
		{"nothing", "a", "{}", 400, []string{`"valor"`, "pagador.chave", "favorecido.chave"}},
		{"a number", "a", with(`"1.00"`, `1.00`), 400, []string{`"propriedade":"valor"`}},
		{"three decimals", "a", with("1.00", "1.000"), 400, []string{`"propriedade":"valor"`}},
		{"zero", "a", with("1.00", "0.00"), 400, []string{"valor_invalido"}},
		{"a long id", strings.Repeat("a", 36), good, 400, []string{"idEnvio"}},
		{"an id with a dash", "a-b", good, 400, []string{"idEnvio"}},
		{"another's key", "a", with(alpha.account.Key, w.acquirer("beta").account.Key), 400, []string{"pagador.chave"}},
		{"a long text", "a", with("Saque 42", strings.Repeat("x", 141)), 400, []string{"pagador.infoPagador"}},
		{"no key", "a", with("52998224725", "x"), 400, []string{"chave_invalida"}},
		{"a key with points", "a", with("52998224725", "529.982.247-25"), 400, []string{"chave_invalida"}},
		{"a phone without plus", "a", with("52998224725", "5511987654321"), 400, []string{"chave_invalida"}},
		{"two documents", "a", with(`{"chave":"52998224725"`, `{"cpf":"52998224725","cnpj":"1","chave":"52998224725"`), 400, []string{"favorecido.cnpj"}},
		{"another's document", "a", with(`{"chave":"52998224725"`, `{"cpf":"11144477735","chave":"52998224725"`), 400, []string{"chave_nao_pertence_ao_documento"}},
		{"too much", "a", with("1.00", "10000000.01"), 400, []string{"saldo_insuficiente"}},
		{"its own document", "a", with(`{"chave":"52998224725"`, `{"cpf":"52998224725","chave":"52998224725"`), 201, []string{"EM_PROCESSAMENTO"}},
		{"the same again", "a", good, 409, []string{"id_envio_duplicado"}},
		{"the same id, all wrong", "a", "{}", 409, []string{"id_envio_duplicado"}},
		{"all the rest", "b", with("1.00", "9999999.00"), 201, nil},
		{"a centavo more", "c", with("1.00", "0.01"), 400, []string{"saldo_insuficiente"}},
	} {
		alpha.do("PUT", "/v3/gn/pix/"+tt.id, tt.body).want(t, tt.status, tt.want...)
	}
	w.wantPayouts("alpha a 52998224725 1.00 EM_PROCESSAMENTO 0 0.00", "alpha b 52998224725 9999999.00 EM_PROCESSAMENTO 0 0.00")
	for _, path := range []string{"/v2/gn/pix/enviados/id-envio/x", "/v2/gn/pix/enviados/x", "/v2/gn/pix/enviados/" + strings.Repeat("E", 32)} {
		wantProblem(t, alpha.do("GET", path, ""), http.StatusNotFound, "PixEnviadoNaoEncontrado", "")
	}
	alpha.do("GET", "/v2/pix/"+alpha.sent("a").EndToEndID, "").want(t, http.StatusNotFound) // it went out, not in
	w.acquirer("beta").do("GET", "/v2/gn/pix/enviados/id-envio/a", "").want(t, http.StatusNotFound)
}

func TestListPayouts(t *testing.T) {
	t.Parallel()
	w := manual(t)
	alpha := w.acquirer("alpha")
	for i, id := range []string{"a", "b", "c", "d"} {
		alpha.send(id, "1.00")
		w.clock.Raise(time.Duration(i+1) * time.Minute)
	}
	w.sim("POST", "/sim/pix/payouts/c/settle", "").want(t, http.StatusOK)
	ids := func(from, to int, query string) string {
		t.Helper()
		var page struct {
			Pix []sentJSON `json:"pix"`
		}
		alpha.do("GET", "/v2/gn/pix/enviados"+window(time.Duration(from)*time.Minute, time.Duration(to)*time.Minute, query), "").into(t, http.StatusOK, &page)
		var found []string
		for _, p := range page.Pix {
			found = append(found, p.ID)
		}
		return strings.Join(found, "")
	}
	for _, tt := range []struct {
		from, to int
		query    string
		want     string
	}{
		{0, 9, "", "abcd"},
		{1, 2, "", "bc"},
		{4, 9, "", ""},
		{0, 9, "&status=REALIZADO", "c"},
		{0, 9, "&status=EM_PROCESSAMENTO", "abd"},
		{0, 9, "&cpf=52998224725", ""},
		{0, 9, "&paginacao.itensPorPagina=3&paginacao.paginaAtual=1", "d"},
	} {
		if got := ids(tt.from, tt.to, tt.query); got != tt.want {
			t.Errorf("%+v: got %q", tt, got)
		}
	}
	alpha.do("GET", "/v2/gn/pix/enviados"+window(0, time.Hour, "&status=x"), "").want(t, http.StatusBadRequest, "PixConsultaInvalida", "status")
	alpha.do("GET", "/v2/gn/pix/enviados", "").want(t, http.StatusBadRequest, "inicio", "fim")
}

func TestPayoutsSettleByThemselves(t *testing.T) {
	t.Parallel()
	folder, c := t.TempDir(), standing()
	w := openWith(t, Options{Data: folder, Clock: c})
	alpha, v := w.acquirer("alpha"), newReceiver(t)
	alpha.register(v.url)
	alpha.send("a", "1.00")
	alpha.send("b", "1.00")
	w.sim("POST", "/sim/pix/payouts/a/fail", `{"callback":false}`).want(t, http.StatusOK)
	w.step()
	w.clock.Raise(SettleAfterDefault - time.Millisecond)
	alpha.send("c", "1.00")
	w.step()
	const failed, settled, waits = "alpha a ana@banco.example 1.00 NAO_REALIZADO 0 0.00", " ana@banco.example 1.00 REALIZADO 1 0.00", " ana@banco.example 1.00 EM_PROCESSAMENTO 0 0.00"
	w.wantPayouts(failed, "alpha b"+waits, "alpha c"+waits)
	w.sim("POST", "/sim/clock", `{"advance_seconds":1}`).want(t, http.StatusOK)
	w.step()
	w.wantPayouts(failed, "alpha b"+settled, "alpha c"+settled)
	v.mu.Lock()
	told := strings.Join(v.got, "\n")
	v.mu.Unlock()
	if strings.Count(told, `"tipo":"SOLICITACAO"`) != 2 || strings.Contains(told, `"idEnvio":"a"`) || !strings.Contains(told, `"status":"REALIZADO"`) {
		t.Errorf("told %s", told)
	}

	t.Log("what waits when the process ends is settled by the next one, and nothing twice")
	alpha.send("d", "1.00")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	w = openWith(t, Options{Data: folder, Clock: c, SettleAfter: Manual})
	w.clock.Raise(time.Hour)
	w.step()
	w.wantPayouts(failed, "alpha b"+settled, "alpha c"+settled, "alpha d"+waits)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	w = openWith(t, Options{Data: folder, Clock: c, SettleAfter: AtOnce})
	w.step()
	w.acquirer("beta").send("e", "1.00")
	w.wantPayouts(failed, "alpha b"+settled, "alpha c"+settled, "alpha d"+settled, "beta e"+settled)
	if got := w.told("").Balance; got != "19999996.00" {
		t.Errorf("the balance is %s", got)
	}
}

func TestServeSettles(t *testing.T) {
	t.Parallel()
	w := openWith(t, Options{Data: t.TempDir(), Clock: clock.New(nil), SettleAfter: 50 * time.Minute})
	go func() { _ = w.Serve(t.Context()) }()
	alpha := w.acquirer("alpha")
	alpha.send("a", "1.00")
	w.sim("POST", "/sim/clock", `{"advance_seconds":3000}`).want(t, http.StatusOK)
	clocktest.Wait(t, "the settlement", func() bool { return alpha.sent("a").Status == "REALIZADO" })
}

func TestParseSettleAfter(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{"1s": time.Second, "1500ms": 1500 * time.Millisecond, "0": AtOnce, "0s": AtOnce, "manual": Manual, "24h": 24 * time.Hour} {
		if got, err := ParseSettleAfter(text); got != want || err != nil {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "1", "-1s", "25h", "Manual", "never"} {
		if got, err := ParseSettleAfter(text); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", text)) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}

func TestFaultsOfPayouts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		kind     string
		status   int // 0 for a reset connection
		want     string
		executed bool
		again    int // status of the same request with the same fault
	}{
		{"http_500", 500, "ErroInternoDoServidor", false, 500},
		{"http_429", 429, "limite_de_requisicoes", false, 429},
		{"reject", 400, "chave_invalida", false, 400},
		{"lost_executed", 0, "", true, 0},
		{"lost_not_executed", 0, "", false, 0},
		{"slow", 201, "e2eId", true, 409},
		{"garbage", 200, "", true, 200},
	} {
		w := manual(t)
		alpha := w.acquirer("alpha")
		alpha.token()
		w.fault(`{"target":"alpha","operation":"payout.send","kind":"` + tt.kind + `","delay_ms":1,"times":2}`)
		for i, status := range []int{tt.status, tt.again} {
			got, err := alpha.try("PUT", "/v3/gn/pix/a", alpha.payoutBody("1.00", "52998224725"))
			if err == nil && got.status != status || status == 0 && !isReset(err) {
				t.Errorf("%s %d: got %d %s, %v", tt.kind, i, got.status, got.body, err)
			}
			if i == 0 && !strings.Contains(got.body, tt.want) || tt.kind == "garbage" && json.Valid([]byte(got.body)) {
				t.Errorf("%s: got %s", tt.kind, got.body)
			}
		}
		if got := len(w.payouts()); got != map[bool]int{true: 1, false: 0}[tt.executed] {
			t.Errorf("%s: %d payouts", tt.kind, got)
		}
		if got := w.told("").Balance; got != map[bool]string{true: "19999999.00", false: "20000000.00"}[tt.executed] {
			t.Errorf("%s: the balance is %s", tt.kind, got)
		}
	}

	t.Log("reads have an operation of their own")
	w := manual(t)
	alpha := w.acquirer("alpha")
	e2e := alpha.send("a", "1.00").EndToEndID
	w.fault(`{"target":"alpha","operation":"payout.get","kind":"reject","times":3}`)
	alpha.do("GET", "/v2/gn/saldo", "").want(t, http.StatusOK)
	alpha.send("b", "1.00")
	for _, path := range []string{"/id-envio/a", "/" + e2e, window(0, time.Hour, "")} {
		alpha.do("GET", "/v2/gn/pix/enviados"+path, "").want(t, http.StatusForbidden, "AcessoNegado")
	}
}

func TestCallbacksOfPayouts(t *testing.T) {
	t.Parallel()
	w, v := manual(t), newReceiver(t)
	alpha := w.acquirer("alpha")
	alpha.register(v.url)
	count := func() int {
		w.step()
		return len(v.take())
	}
	alpha.create(1, "1.00")
	for _, id := range []string{"a", "b", "c"} {
		alpha.send(id, "1.00")
	}
	w.fault(`{"target":"alpha","operation":"payout.send","kind":"duplicate_callback"}`)
	w.pay(`{"txid":"` + txidOf(1) + `"}`)
	if got := count(); got != 1 {
		t.Errorf("told %d times of a payment", got)
	}
	w.sim("POST", "/sim/pix/payouts/a/settle", "").want(t, http.StatusOK)
	w.sim("POST", "/sim/pix/payouts/b/settle", `{"callback":false}`).want(t, http.StatusOK)
	if got := count(); got != 2 {
		t.Errorf("told %d times of the payouts", got)
	}
	t.Log("late: repeated until it is taken")
	v.status.Store(500)
	w.sim("POST", "/sim/pix/payouts/c/settle", "").want(t, http.StatusOK)
	count()
	v.status.Store(0)
	w.clock.Raise(time.Hour)
	if got := count(); got != 1 {
		t.Errorf("told %d times", got)
	}
}

func TestPageOfPayouts(t *testing.T) {
	t.Parallel()
	w := manual(t)
	alpha := w.acquirer("alpha")
	w.sim("GET", "/", "").want(t, http.StatusOK, "Ainda não há Pix enviados", `<option value="payout.send">enviar Pix</option>`)
	alpha.send("a", "1234.56")
	alpha.send("b", "1.00")
	w.sim("GET", "/", "").want(t, http.StatusOK, `class="tag open">em processamento<`, "R$ 1.234,56", "ana@banco.example")
	w.follow("/envios/liquidar", url.Values{"id": {"a"}, "adquirente": {"alpha"}}).want(t, http.StatusOK, "O Pix enviado foi liquidado.", `class="tag paid">liquidado<`)
	w.follow("/envios/recusar", url.Values{"id": {"b"}, "adquirente": {"alpha"}, "motivo": {"AC07"}}).want(t, http.StatusOK, "foi recusado", "AC07, Conta do usuário recebedor encerrada")
	w.follow("/envios/devolver", url.Values{"id": {"a"}}).want(t, http.StatusOK, "foi devolvido", `class="tag gone">devolvido<`, "Voltaram R$ 1.234,56")
	w.form("/envios/recusar", url.Values{"id": {"a"}}).want(t, http.StatusBadRequest, "já foi liquidado ou recusado")
	w.form("/envios/devolver", url.Values{"id": {"a"}}).want(t, http.StatusBadRequest, "Não resta nada")
	w.form("/envios/devolver", url.Values{"id": {"b"}}).want(t, http.StatusBadRequest, "Só volta o Pix que foi liquidado.")
	w.form("/envios/recusar", url.Values{"id": {"x"}}).want(t, http.StatusNotFound, "Não há Pix enviado")
}
