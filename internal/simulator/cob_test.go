package simulator

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ponte-pay/ponte/internal/pix"
)

func TestPutCharge(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alpha := w.acquirer("alpha")
	body := `{"calendario":{"expiracao":"3600"},"devedor":{"cnpj":"12ABC34501DE35","nome":"Ação & Cia <Ltda>"},
		"valor":{"original":"123.45","modalidadeAlteracao":1},"chave":"` + alpha.account.Key + `","solicitacaoPagador":"Pedido 42",
		"infoAdicionais":[{"nome":"Mesa","valor":"7"}],"novidade":{"x":1}}`
	got := alpha.do("PUT", "/v2/cob/"+txidOf(1), body)
	var told chargeJSON
	got.into(t, http.StatusCreated, &told)
	if want := "application/json"; !strings.HasPrefix(got.header.Get("Content-Type"), want) {
		t.Errorf("Content-Type is %s", got.header.Get("Content-Type"))
	}
	location := told.Location
	want := chargeJSON{
		Calendar: calendarJSON{Created: "2026-11-15T12:00:00.000Z", Expires: 3600},
		TxID:     txidOf(1),
		Loc:      &locJSON{ID: 1, Location: location, Kind: "cob", Created: "2026-11-15T12:00:00.000Z"},
		Location: location,
		Status:   "ATIVA",
		Debtor:   &debtor{CNPJ: "12ABC34501DE35", Name: "Ação & Cia <Ltda>"},
		Value:    valueJSON{Original: "123.45", Flexible: 1},
		Key:      alpha.account.Key, Request: "Pedido 42", Info: []infoItem{{"Mesa", "7"}},
		CopyPaste: told.CopyPaste,
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	code, err := pix.ParseBRCode(told.CopyPaste)
	if err != nil || code.URL != location || len(location) > 77 {
		t.Errorf("the code is of %q, the location %q, %v", code.URL, location, err)
	}
	if diff := cmp.Diff(want, alpha.charge(1)); diff != "" {
		t.Errorf("GET (-want +got)\n%s", diff)
	}
	// The other acquirer has books of its own.
	w.acquirer("beta").create(1, "1.00")
	alpha.do("PUT", "/v2/cob/"+txidOf(1), body).want(t, http.StatusConflict, `{"nome":"txid_duplicado","mensagem":"`)
}

func TestPostCharge(t *testing.T) {
	t.Parallel()
	alpha := newWorld(t).acquirer("alpha")
	var told chargeJSON
	alpha.do("POST", "/v2/cob", `{"calendario":{},"valor":{"original":"0.01"},"chave":"`+alpha.account.Key+`"}`).into(t, http.StatusCreated, &told)
	if !pix.IsChargeTxID(told.TxID) || told.Calendar.Expires != 86400 {
		t.Errorf("got %+v", told)
	}
	alpha.do("GET", "/v2/cob/"+told.TxID, "").want(t, http.StatusOK, told.TxID)
}

func TestChargeRules(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alpha := w.acquirer("alpha")
	alpha.create(1, "10.00")
	// with returns a good body with one of its members replaced, or added, or taken away by null.
	with := func(key, value string) string {
		fields := map[string]json.RawMessage{}
		if err := json.Unmarshal([]byte(alpha.body("10.00")), &fields); err != nil {
			t.Fatal(err)
		}
		fields[key] = json.RawMessage(value)
		body, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	text := func(n int) string { return `"` + strings.Repeat("ç", n) + `"` }
	items := strings.TrimSuffix(strings.Repeat(`{"nome":"a","valor":"b"},`, 51), ",")
	tests := []struct {
		name, body string
		properties string // of the violations, one space between them; "" for a fine body
	}{
		{"smallest", alpha.body("0.01"), ""},
		{"largest", alpha.body("9999999999.99"), ""},
		{"default expiry", with("calendario", `{}`), ""},
		{"no calendar", with("calendario", `null`), "cob.calendario"},
		{"expires at once", with("calendario", `{"expiracao":0}`), "cob.calendario.expiracao"},
		{"expires before", with("calendario", `{"expiracao":-1}`), "cob.calendario.expiracao"},
		{"expires in half a second", with("calendario", `{"expiracao":0.5}`), "cob.calendario.expiracao"},
		{"expires in words", with("calendario", `{"expiracao":"soon"}`), "cob.calendario.expiracao"},
		{"expires beyond all", with("calendario", `{"expiracao":4294967297}`), "cob.calendario.expiracao"},
		{"calendar of a wrong type", with("calendario", `7`), "cob.calendario"},
		{"no amount", with("valor", `{}`), "cob.valor.original"},
		{"no value", with("valor", `null`), "cob.valor.original"},
		{"zero", alpha.body("0.00"), "cob.valor.original"},
		{"one decimal", alpha.body("1.0"), "cob.valor.original"},
		{"comma", alpha.body("1,00"), "cob.valor.original"},
		{"negative", alpha.body("-1.00"), "cob.valor.original"},
		{"eleven digits", alpha.body("10000000000.00"), "cob.valor.original"},
		{"amount as a number", with("valor", `{"original":1.00}`), "cob.valor.original"},
		{"unknown change of amount", with("valor", `{"original":"1.00","modalidadeAlteracao":2}`), "cob.valor.modalidadeAlteracao"},
		{"cash", with("valor", `{"original":"0.00","retirada":{"saque":{"valor":"1.00"}}}`), "cob.valor.original cob.valor.retirada"},
		{"no key", with("chave", `null`), "cob.chave"},
		{"empty key", with("chave", `""`), "cob.chave"},
		{"long key", with("chave", text(40)), "cob.chave"},
		{"somebody's key", with("chave", `"`+w.acquirer("beta").account.Key+`"`), "cob.chave"},
		{"debtor with CPF", with("devedor", `{"cpf":"52998224725","nome":"A"}`), ""},
		{"longest name", with("devedor", `{"cpf":"52998224725","nome":`+text(200)+`}`), ""},
		{"debtor without name", with("devedor", `{"cpf":"52998224725"}`), "cob.devedor"},
		{"debtor without document", with("devedor", `{"nome":"A"}`), "cob.devedor"},
		{"debtor with both", with("devedor", `{"cpf":"52998224725","cnpj":"12ABC34501DE35","nome":"A"}`), "cob.devedor"},
		{"dotted CPF", with("devedor", `{"cpf":"529.982.247-25","nome":"A"}`), "cob.devedor.cpf"},
		{"lower-case CNPJ", with("devedor", `{"cnpj":"12abc34501de35","nome":"A"}`), "cob.devedor.cnpj"},
		{"long name", with("devedor", `{"cpf":"52998224725","nome":`+text(201)+`}`), "cob.devedor.nome"},
		{"longest request", with("solicitacaoPagador", text(140)), ""},
		{"long request", with("solicitacaoPagador", text(141)), "cob.solicitacaoPagador"},
		{"longest info", with("infoAdicionais", `[{"nome":`+text(50)+`,"valor":`+text(200)+`}]`), ""},
		{"long info", with("infoAdicionais", `[{"nome":"a","valor":"b"},{"nome":`+text(51)+`,"valor":`+text(201)+`}]`), "cob.infoAdicionais[1].nome cob.infoAdicionais[1].valor"},
		{"empty info", with("infoAdicionais", `[{"nome":"a"}]`), "cob.infoAdicionais[0]"},
		{"too much info", with("infoAdicionais", `[`+items+`]`), "cob.infoAdicionais"},
		{"busy location", with("loc", `{"id":1}`), "cob.loc.id"},
		{"unknown location", with("loc", `{"id":99999}`), "cob.loc.id"},
		{"all at once", `{"valor":{"original":"0.00"},"solicitacaoPagador":` + text(141) + `}`, "cob.calendario cob.chave cob.valor.original cob.solicitacaoPagador"},
	}
	for i, tt := range tests {
		got := alpha.do("PUT", "/v2/cob/"+txidOf(100+i), tt.body)
		if tt.properties == "" {
			got.want(t, http.StatusCreated)
			continue
		}
		wantProblem(t, got, http.StatusBadRequest, "CobOperacaoInvalida", tt.properties)
		alpha.do("GET", "/v2/cob/"+txidOf(100+i), "").want(t, http.StatusNotFound)
	}
	for _, txid := range []string{"short", strings.Repeat("a", 36), strings.Repeat("a", 25), strings.Repeat("a", 25) + "-"} {
		wantProblem(t, alpha.do("PUT", "/v2/cob/"+txid, alpha.body("1.00")), http.StatusBadRequest, "CobOperacaoInvalida", "cob.txid")
	}
	wantProblem(t, alpha.do("PUT", "/v2/cob/"+txidOf(2), `{"valor":`), http.StatusBadRequest, "RequisicaoInvalida", "")
	wantProblem(t, alpha.do("PUT", "/v2/cob/"+txidOf(2), ``), http.StatusBadRequest, "RequisicaoInvalida", "")
	wantProblem(t, alpha.do("PUT", "/v2/cob/"+txidOf(2), `[]`), http.StatusBadRequest, "CobOperacaoInvalida", "cob")
	wantProblem(t, alpha.do("PUT", "/v2/cob/"+txidOf(2), strings.Repeat(" ", 64<<10+1)), http.StatusBadRequest, "RequisicaoInvalida", "")
	wantProblem(t, alpha.do("GET", "/v2/cobv/"+txidOf(2), ""), http.StatusNotFound, "NaoEncontrado", "")
	wantProblem(t, alpha.do("DELETE", "/v2/cob/"+txidOf(2), ""), http.StatusNotFound, "NaoEncontrado", "")
}

// wantProblem fails unless the answer is that problem, with violations of those properties in that order.
func wantProblem(tb testing.TB, got answer, status int, kind, properties string) {
	tb.Helper()
	var p problem
	got.into(tb, status, &p)
	var told []string
	for _, v := range p.Violations {
		told = append(told, v.Property)
		if v.Reason == "" {
			tb.Errorf("no reason for %s", v.Property)
		}
	}
	if p.Type != problemTypeHead+kind || p.Status != status || p.Title == "" || p.CorrelationID == "" || strings.Join(told, " ") != properties {
		tb.Errorf("want %s with violations of %q, got %s", kind, properties, got.body)
	}
	if c := got.header.Get("Content-Type"); c != "application/problem+json" {
		tb.Errorf("Content-Type is %s", c)
	}
}

func TestPatchCharge(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alpha := w.acquirer("alpha")
	path := "/v2/cob/" + txidOf(1)
	wantProblem(t, alpha.do("PATCH", path, `{}`), http.StatusNotFound, "CobNaoEncontrado", "")
	first := alpha.create(1, "10.00")
	alpha.create(2, "10.00")
	w.clock.Raise(time.Minute)

	var told chargeJSON
	alpha.do("PATCH", path, `{"valor":{"original":"20.00"},"devedor":{"cpf":"52998224725","nome":"A"},"calendario":{"expiracao":60}}`).into(t, http.StatusOK, &told)
	want := first
	want.Revision, want.Value.Original, want.Debtor, want.Calendar.Expires = 1, "20.00", &debtor{CPF: "52998224725", Name: "A"}, 60
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	// Its own location is no change.
	alpha.do("PATCH", path, `{"loc":{"id":1}}`).want(t, http.StatusOK, `"revisao":1`)
	alpha.do("PATCH", path, `{}`).want(t, http.StatusOK, `"revisao":1`)

	wantProblem(t, alpha.do("PATCH", path, `{"loc":{"id":2}}`), http.StatusBadRequest, "CobOperacaoInvalida", "cob.loc.id")
	wantProblem(t, alpha.do("PATCH", path, `{"valor":{"original":"0.00"},"chave":"x"}`), http.StatusBadRequest, "CobOperacaoInvalida", "cob.valor.original cob.chave")
	wantProblem(t, alpha.do("PATCH", path, `{"status":"CONCLUIDA"}`), http.StatusBadRequest, "CobOperacaoInvalida", "cob.status")
	wantProblem(t, alpha.do("PATCH", path, `{"status":"REMOVIDA_PELO_USUARIO_RECEBEDOR","solicitacaoPagador":"x"}`), http.StatusBadRequest, "CobOperacaoInvalida", "cob.status")
	if diff := cmp.Diff(want, alpha.charge(1)); diff != "" {
		t.Errorf("refused changes left something (-want +got)\n%s", diff)
	}

	for revision, amount := range map[string]string{"0": "10.00", "1": "20.00"} {
		alpha.do("GET", path+"?revisao="+revision, "").want(t, http.StatusOK, `"original":"`+amount+`"`, `"revisao":`+revision)
	}
	wantProblem(t, alpha.do("GET", path+"?revisao=2", ""), http.StatusNotFound, "CobNaoEncontrado", "")
	wantProblem(t, alpha.do("GET", path+"?revisao=x", ""), http.StatusBadRequest, "CobConsultaInvalida", "revisao")

	alpha.do("PATCH", path, `{"status":"REMOVIDA_PELO_USUARIO_RECEBEDOR"}`).want(t, http.StatusOK, `"status":"REMOVIDA_PELO_USUARIO_RECEBEDOR"`, `"revisao":2`)
	wantProblem(t, alpha.do("PATCH", path, `{"solicitacaoPagador":"x"}`), http.StatusBadRequest, "CobOperacaoInvalida", "cob.status")
	w.pay(`{"txid":"` + txidOf(2) + `"}`)
	wantProblem(t, alpha.do("PATCH", "/v2/cob/"+txidOf(2), `{"status":"REMOVIDA_PELO_USUARIO_RECEBEDOR"}`), http.StatusBadRequest, "CobOperacaoInvalida", "cob.status")
	alpha.do("PUT", path, alpha.body("1.00")).want(t, http.StatusConflict, "txid_duplicado")
}

func TestRevisionLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alpha := w.acquirer("alpha")
	alpha.create(1, "10.00")
	w.books.book[0].charges.at(0).revision = 1<<16 - 1
	v, _, err := w.books.findCharge(0, txidOf(1))
	if err != nil {
		t.Fatal(err)
	}
	where, err := w.books.journal.append(&record{Charge: &chargeRecord{TxID: txidOf(1), Revision: v.revision, Centavos: 1000}})
	if err != nil {
		t.Fatal(err)
	}
	c := w.books.book[0].charges.at(0)
	c.at, c.size = where.at, where.size
	wantProblem(t, alpha.do("PATCH", "/v2/cob/"+txidOf(1), `{"solicitacaoPagador":"x"}`), http.StatusBadRequest, "CobOperacaoInvalida", "")
}

func TestExpiredChargeStaysActive(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alpha := w.acquirer("alpha")
	alpha.create(1, "10.00")
	w.clock.Raise(30 * 24 * time.Hour)
	alpha.access = ""
	if got := alpha.charge(1); got.Status != "ATIVA" {
		t.Errorf("an expired charge is %s", got.Status)
	}
}

func TestSpelling(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		what     string
		is       func(string) bool
		yes, not []string
	}{
		{
			"amount", isAmount,
			[]string{"0.00", "10.50", "9999999999.99"},
			[]string{"", ".", "10", "10.5", "10.500", ".50", "10.", "10,50", "-1.00", "+1.00", "1.00.", "1.0.0", " 1.00", "1.00\n", "10000000000.00", "1.٠٠"},
		},
		{"CPF", isCPF, []string{"52998224725"}, []string{"", "5299822472", "529982247255", "5299822472A", "529.982.247"}},
		{"CNPJ", isCNPJ, []string{"12345678000195", "12ABC34501DE35"}, []string{"", "1234567800019", "123456780001955", "12abc34501de35", "12ABC34501DE3/"}},
	} {
		for _, s := range tt.yes {
			if !tt.is(s) {
				t.Errorf("%q is no %s", s, tt.what)
			}
		}
		for _, s := range tt.not {
			if tt.is(s) {
				t.Errorf("%q is taken for a %s", s, tt.what)
			}
		}
	}
}
