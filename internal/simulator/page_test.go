package simulator

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/money"
)

// form sends a form of the page.
func (w *world) form(path string, fields url.Values) answer {
	w.tb.Helper()
	r := request(w.tb, "POST", w.control+path, fields.Encode())
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", w.control)
	return send(w.tb, noRedirect, r)
}

// follow sends a form that must work, and returns the page that comes next.
func (w *world) follow(path string, fields url.Values) answer {
	w.tb.Helper()
	got := w.form(path, fields)
	got.want(w.tb, http.StatusSeeOther)
	next := w.sim("GET", got.header.Get("Location"), "")
	next.want(w.tb, http.StatusOK)
	return next
}

func (a answer) mustNot(tb testing.TB, texts ...string) {
	tb.Helper()
	for _, text := range texts {
		if strings.Contains(a.body, text) {
			tb.Errorf("%s is in %s", text, a.body)
		}
	}
}

func TestPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	empty := w.sim("GET", "/", "")
	empty.want(t, http.StatusOK, "<strong>Simulador.</strong>", `<html lang="pt-BR">`, "Ainda não há cobranças", "15/11/2026 09:00:00 em Brasília", "R$ 10.000.000,00", "Nenhuma falha ligada")
	for name, want := range map[string]string{
		"Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": pagePolicy, "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store",
	} {
		if got := empty.header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	empty.mustNot(t, "<style", "style=", "onclick", "http://", "https://", "<script>", "adiantado")
	for path, kind := range map[string]string{"/simulator.css": "text/css", "/simulator.js": "text/javascript"} {
		got := w.sim("GET", path, "")
		got.want(t, http.StatusOK)
		if !strings.HasPrefix(got.header.Get("Content-Type"), kind) {
			t.Errorf("%s is %s", path, got.header.Get("Content-Type"))
		}
	}

	alpha := w.acquirer("alpha")
	body := strings.Replace(alpha.body("1234.56"), "{", `{"devedor":{"cpf":"52998224725","nome":"<script>alert(1)</script>"},"solicitacaoPagador":"\"><img src=x>",`, 1)
	var told chargeJSON
	alpha.do("PUT", "/v2/cob/"+txidOf(1), body).into(t, http.StatusCreated, &told)
	read := w.sim("GET", "/?"+url.Values{"codigo": {" " + told.CopyPaste + "\n"}}.Encode(), "")
	read.want(t, http.StatusOK, "Ponte Simulador alpha", "R$ 1.234,56", "15/11/2026 10:00:00", "&lt;script&gt;", txidOf(1), "Pagar R$ 1.234,56", "à espera")
	read.mustNot(t, "<script>alert", "<img", "já venceu", "já foi paga")

	t.Log("pay")
	paid := w.follow("/pagar", url.Values{"codigo": {told.CopyPaste}})
	paid.want(t, http.StatusOK, "Pago: R$ 1.234,56.", `class="tag paid">paga<`, "Devolver", "Pagar de novo")
	if got := alpha.charge(1); got.Status != "CONCLUIDA" || got.Payments[0].Extras.Payer.Name != payerName {
		t.Errorf("got %+v", got)
	}
	w.sim("GET", "/?"+url.Values{"codigo": {told.CopyPaste}}.Encode(), "").want(t, http.StatusOK, "já foi paga")

	t.Log("pay again, otherwise and in silence")
	w.step()
	w.follow("/pagar", url.Values{"codigo": {told.CopyPaste}, "valor": {"R$ 1.000,50"}, "nome": {"Zé"}, "documento": {"11.222.333/0001-81"}, "sem_aviso": {"1"}}).
		want(t, http.StatusOK, "Pago: R$ 1.000,50.", "paga 2 vezes")
	if did, _ := w.Step(t.Context()); did {
		t.Error("a notification was sent")
	}
	second := alpha.charge(1).Payments[1]
	if second.Value != "1000.50" || second.Extras.Payer.Name != "Zé" || second.Extras.Payer.CNPJ != "11222333000181" {
		t.Errorf("got %+v", second)
	}

	t.Log("give both back")
	w.follow("/devolver", url.Values{"e2e": {second.EndToEndID}}).want(t, http.StatusOK, "O dinheiro foi devolvido.", "devolvido R$ 1.000,50")
	w.follow("/devolver", url.Values{"e2e": {alpha.charge(1).Payments[0].EndToEndID}}).want(t, http.StatusOK, `class="tag gone">devolvida<`)
	w.form("/devolver", url.Values{"e2e": {second.EndToEndID}}).want(t, http.StatusBadRequest, "Não resta nada a devolver")
	w.form("/devolver", url.Values{"e2e": {"E1"}}).want(t, http.StatusNotFound, "Não há Pix com esse identificador.")

	t.Log("remove")
	two := alpha.create(2, "2.00")
	w.follow("/remover", url.Values{"txid": {txidOf(2)}, "adquirente": {"alpha"}}).want(t, http.StatusOK, "removida pelo adquirente", `class="tag gone">removida<`)
	w.form("/remover", url.Values{"txid": {txidOf(2)}}).want(t, http.StatusBadRequest, "já foi paga ou removida")
	gone := w.sim("GET", "/?"+url.Values{"codigo": {two.CopyPaste}}.Encode(), "")
	gone.want(t, http.StatusOK, "foi removida e não pode mais ser paga")
	gone.mustNot(t, `action="/pagar"`)
	w.form("/pagar", url.Values{"codigo": {two.CopyPaste}}).want(t, http.StatusBadRequest, "nenhum banco a pagaria")

	t.Log("move the clock")
	three := alpha.create(3, "3.00")
	w.follow("/relogio", url.Values{"segundos": {"93600"}}).want(t, http.StatusOK, "O relógio foi adiantado.", "adiantado 1 d 2h0m0s", `class="tag late">vencida<`, "16/11/2026 11:00:00 em Brasília")
	w.sim("GET", "/?"+url.Values{"codigo": {three.CopyPaste}}.Encode(), "").want(t, http.StatusOK, "já venceu")
	for _, bad := range []string{"", "0", "-1", "x", "99999999999"} {
		w.form("/relogio", url.Values{"segundos": {bad}}).want(t, http.StatusBadRequest, "Confira o campo segundos.")
	}
	w.clock.Raise(offsetMax)
	w.form("/relogio", url.Values{"segundos": {"1"}}).want(t, http.StatusBadRequest, "não pode ir tão longe")
}

func TestPageFaults(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alpha := w.acquirer("alpha")
	alpha.token()
	fields := func(kind string, more ...string) url.Values {
		v := url.Values{"alvo": {"alpha"}, "operacao": {"charge.create"}, "tipo": {kind}}
		for i := 0; i < len(more); i += 2 {
			v.Set(more[i], more[i+1])
		}
		return v
	}
	w.follow("/falhas", fields("http_500", "vezes", "2", "demora", "0")).want(t, http.StatusOK, "A falha está ligada.", "alpha: responder erro 500 em criar cobrança, mais 2 vezes", "Desligar todas")
	alpha.do("PUT", "/v2/cob/"+txidOf(1), alpha.body("1.00")).want(t, http.StatusInternalServerError)
	w.sim("GET", "/", "").want(t, http.StatusOK, "mais 1 vez<")
	w.follow("/falhas", fields("refuse", "operacao", "*")).want(t, http.StatusOK, "alpha: recusar conexões, até desligar")
	if _, err := alpha.try("GET", "/v2/cob/"+txidOf(1), ""); err == nil {
		t.Error("alpha still answers")
	}
	w.follow("/falhas/limpar", nil).want(t, http.StatusOK, "Todas as falhas foram desligadas.", "Nenhuma falha ligada")
	alpha.create(1, "1.00")
	for _, bad := range []struct {
		fields url.Values
		want   string
	}{
		{fields("explode"), "Confira o campo falha."},
		{fields("slow", "alvo", "gamma"), "Confira o campo adquirente."},
		{fields("slow", "operacao", "x"), "Confira o campo operação."},
		{fields("slow", "vezes", "-1"), "Confira o campo vezes."},
		{fields("slow", "vezes", "x"), "Confira o campo vezes."},
		{fields("slow", "demora", "600001"), "Confira o campo demora."},
	} {
		w.form("/falhas", bad.fields).want(t, http.StatusBadRequest, bad.want)
	}
	for range faultsMax {
		w.form("/falhas", fields("slow", "vezes", "0")).want(t, http.StatusSeeOther)
	}
	w.form("/falhas", fields("slow")).want(t, http.StatusBadRequest, "Há falhas demais ligadas.")
}

func TestPageRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	code := w.acquirer("alpha").create(1, "1.00").CopyPaste
	w.sim("GET", "/?codigo=hello", "").want(t, http.StatusBadRequest, "Confira o campo código Pix copia e cola.", ">hello</textarea>")
	w.sim("GET", "/?"+url.Values{"codigo": {`</textarea><script>x`}}.Encode(), "").want(t, http.StatusBadRequest, "&lt;/textarea&gt;&lt;script&gt;x</textarea>")
	w.sim("GET", "/?feito=<b>&pago=<b>", "").mustNot(t, "<b>", "notice good")
	for _, bad := range []struct {
		fields url.Values
		status int
		want   string
	}{
		{url.Values{}, 400, "Confira o campo código Pix copia e cola."},
		{url.Values{"codigo": {"x"}}, 400, "Confira o campo código Pix copia e cola."},
		{url.Values{"codigo": {staticCode(t, "123e4567-e89b-12d3-a456-426655440000", "", 1)}}, 404, "não é de nenhuma cobrança daqui"},
		{url.Values{"codigo": {staticCode(t, w.Acquirers()[0].Key, "", 0)}}, 400, "Confira o campo valor."},
		{url.Values{"codigo": {code}, "valor": {"abc"}}, 400, "Confira o campo valor."},
		{url.Values{"codigo": {code}, "valor": {"0,00"}}, 400, "Confira o campo valor."},
		{url.Values{"codigo": {code}, "documento": {"1"}}, 400, "Confira o campo CPF ou CNPJ."},
		{url.Values{"codigo": {strings.Repeat("x", 70_000)}}, 400, "Algo deu errado."},
	} {
		w.form("/pagar", bad.fields).want(t, bad.status, bad.want)
	}
	if got := w.told(""); len(got.Payments) != 0 {
		t.Errorf("money moved: %+v", got)
	}
	// What was pasted is still there after a mistake.
	w.form("/pagar", url.Values{"codigo": {code}, "valor": {"abc"}}).want(t, http.StatusBadRequest, "Pagar R$ 1,00", `name="codigo" value="`)
	r := request(t, "POST", w.control+"/pagar", url.Values{"codigo": {code}}.Encode())
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	send(t, noRedirect, r).want(t, http.StatusForbidden)
	w.books.close()
	w.form("/pagar", url.Values{"codigo": {code}}).want(t, http.StatusInternalServerError, "Algo deu errado. Veja o registro do simulador.")
}

func TestPageIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alpha, beta := w.acquirer("alpha"), w.acquirer("beta")
	for n := 1; n <= 40; n++ {
		alpha.create(n, "1.00")
		w.clock.Raise(time.Duration(n) * time.Second)
		beta.create(100+n, "1.00")
		w.clock.Raise(time.Duration(n)*time.Second + time.Millisecond)
	}
	got := w.sim("GET", "/", "")
	got.want(t, http.StatusOK, "as últimas 50 de 80", txidOf(140), txidOf(40), txidOf(116), txidOf(16))
	got.mustNot(t, txidOf(15), txidOf(115))
	if strings.Index(got.body, txidOf(140)) > strings.Index(got.body, txidOf(40)) {
		t.Error("the latest is not first")
	}
}

func TestReais(t *testing.T) {
	t.Parallel()
	for amount, want := range map[int64]string{0: "R$ 0,00", 1: "R$ 0,01", 99_999: "R$ 999,99", 100_000: "R$ 1.000,00", 1_000_000_000: "R$ 10.000.000,00", -123_456: "R$ -1.234,56"} {
		if got := reais(money.BRL(amount)); got != want {
			t.Errorf("%d is %s, want %s", amount, got, want)
		}
	}
}
