package simulator

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// claim opens an infraction and returns its id.
func (w *world) claim(body string) string {
	w.tb.Helper()
	var opened struct{ ID string }
	w.sim("POST", "/sim/med", body).into(w.tb, http.StatusOK, &opened)
	return opened.ID
}

// infractions lists the infractions of an acquirer that were opened in an hour.
func (b *bank) infractions() []infractionJSON {
	b.tb.Helper()
	var page struct {
		Infractions []infractionJSON `json:"infracoes"`
	}
	b.do("GET", "/v2/gn/infracoes"+window(0, time.Hour, ""), "").into(b.tb, http.StatusOK, &page)
	return page.Infractions
}

const defense = `{"analise":"rejeitado","justificativa":"Entregue"}`

func TestInfraction(t *testing.T) {
	t.Parallel()
	w, v := manual(t), newReceiver(t)
	alpha := w.acquirer("alpha")
	alpha.register(v.url)
	alpha.create(1, "10.00")
	e2e := w.pay(`{"txid":"` + txidOf(1) + `","callback":false}`)
	id := w.claim(`{"end_to_end_id":"` + e2e + `","amount":"4.00","reason":"Não recebi","situation":"outro"}`)
	want := infractionJSON{
		ID: id, EndToEndID: e2e, Protocol: "1", PaidAt: "2026-11-15T12:00:00.000Z", Value: "4.00", Key: alpha.account.Key, Status: "ABERTA",
		Request: claimKind, Situation: "outro", Comment: "Não recebi", Tickets: []int{1},
		Analysis: analysisJSON{Opened: "2026-11-15T12:00:00.000Z", Deadline: "2026-11-22T12:00:00.000Z"},
		From:     partyJSON{"Banco do Pagador", "10001", payerName, string(payerDocument)},
		To:       partyJSON{"Ponte Simulador alpha", "10001", "Ponte Simulador alpha", ""},
		Created:  "2026-11-15T12:00:00.000Z", Changed: "2026-11-15T12:00:00.000Z",
	}
	if diff := cmp.Diff([]infractionJSON{want}, alpha.infractions()); diff != "" {
		t.Error(diff)
	}
	alpha.do("GET", "/v2/gn/saldo?bloqueios=true", "").want(t, http.StatusOK, `"med":"4.00"`, `"saldo":"10000010.00"`)
	w.clock.Raise(time.Minute)
	alpha.do("POST", "/v2/gn/infracoes/"+id+"/defesa", defense).want(t, http.StatusCreated, "Defesa de infração MED criada")
	want.Status, want.Defense, want.Changed, want.Analysis.Defended = "EM_DEFESA", "Entregue", "2026-11-15T12:01:00.000Z", "2026-11-15T12:01:00.000Z"
	if diff := cmp.Diff([]infractionJSON{want}, alpha.infractions()); diff != "" {
		t.Error(diff)
	}
	w.step()
	if got := v.take(); got != nil {
		t.Errorf("told %+v, although infractions are not told", got)
	}

	t.Log("accepted: the money goes back, and the receiver is told")
	w.sim("POST", "/sim/med/"+id+"/accept", "").want(t, http.StatusOK, `"status":"ACEITA"`)
	w.step()
	told := v.take()
	if len(told) != 1 || len(told[0].Refunds) != 1 || told[0].Refunds[0].Value != "4.00" || told[0].Refunds[0].Nature != "MED_FRAUDE" {
		t.Errorf("told %+v", told)
	}
	if got := alpha.infractions()[0]; got.Status != "ACEITA" || got.Analysis.Closed != "2026-11-15T12:01:00.000Z" {
		t.Errorf("got %+v", got)
	}
	alpha.do("GET", "/v2/gn/saldo?bloqueios=true", "").want(t, http.StatusOK, `"med":"0.00"`, `"saldo":"10000006.00"`)
	w.sim("GET", "/sim/pix/books", "").want(t, http.StatusOK, fmt.Sprintf(`"infractions":[{"acquirer":"alpha","id":%q,"end_to_end_id":%q,"amount":"4.00","status":"ACEITA"}]`, id, e2e), `"returned":"4.00"`)
	for _, how := range []string{"accept", "reject", "cancel"} {
		w.sim("POST", "/sim/med/"+id+"/"+how, "").want(t, http.StatusConflict, "infraction_closed")
		w.sim("POST", "/sim/med/none/"+how, "").want(t, http.StatusNotFound)
	}

	t.Log("more than is left goes back never")
	w.sim("POST", "/sim/pix/refund", `{"end_to_end_id":"`+e2e+`"}`).want(t, http.StatusOK)
	w.step()
	v.take()
	late := w.claim(`{"end_to_end_id":"` + e2e + `"}`)
	w.sim("POST", "/sim/med/"+late+"/accept", "").want(t, http.StatusOK, `"amount":"10.00"`)
	w.step()
	if got, balance := v.take(), w.told("?acquirer=alpha").Balance; got != nil || balance != "10000000.00" {
		t.Errorf("told %+v, the balance is %s", got, balance)
	}
}

func TestInfractionRefuses(t *testing.T) {
	t.Parallel()
	w := manual(t)
	alpha, beta := w.acquirer("alpha"), w.acquirer("beta")
	beta.create(1, "10.00")
	e2e := w.pay(`{"txid":"` + txidOf(1) + `"}`)
	for _, tt := range []struct {
		body   string
		status int
		want   []string
	}{
		{`x`, 400, nil},
		{`{}`, 400, []string{"end_to_end_id"}},
		{`{"end_to_end_id":"E1"}`, 404, nil},
		{`{"end_to_end_id":"` + e2e + `","amount":"10.01"}`, 422, []string{"claim_too_large"}},
		{`{"end_to_end_id":"` + e2e + `","amount":0,"reason":"","situation":"x"}`, 400, []string{"amount", "reason", "situation"}},
	} {
		w.sim("POST", "/sim/med", tt.body).want(t, tt.status, tt.want...)
	}
	id := w.claim(`{"end_to_end_id":"` + e2e + `"}`)
	if f := beta.infractions(); len(f) != 1 || f[0].Value != 10.00 || f[0].Protocol != 1.0 || f[0].Situation != situationDefault {
		t.Errorf("beta tells %+v", f) // numbers, where alpha has strings
	}
	if f := alpha.infractions(); len(f) != 0 {
		t.Errorf("alpha tells %+v", f)
	}
	path := "/v2/gn/infracoes/" + id + "/defesa"
	for _, tt := range []struct {
		body string
		want []string
	}{
		{"x", []string{"RequisicaoInvalida"}},
		{"{}", []string{"body.analise", "body.justificativa"}},
		{`{"analise":"x","justificativa":""}`, []string{"body.analise", "body.justificativa"}},
		{`{"analise":1,"justificativa":"x"}`, []string{"body.analise"}},
		{`{"analise":"rejeitado","justificativa":"` + strings.Repeat("é", defenseTextMax+1) + `"}`, []string{"body.justificativa"}},
	} {
		beta.do("POST", path, tt.body).want(t, http.StatusBadRequest, tt.want...)
	}
	alpha.do("POST", path, defense).want(t, http.StatusNotFound, "InfracaoNaoEncontrada")
	beta.do("GET", "/v2/gn/infracoes", "").want(t, http.StatusBadRequest, "InfracoesConsultaInvalida", "inicio", "fim")

	t.Log("the last moment, and the one after it")
	w.clock.Raise(time.Millisecond)
	other := w.claim(`{"end_to_end_id":"` + e2e + `"}`)
	w.clock.Raise(defenseTimeMax + time.Millisecond)
	beta.access = "" // the old one has expired
	beta.do("POST", path, defense).want(t, http.StatusUnprocessableEntity, "O prazo para defesa foi excedido.")
	beta.do("POST", "/v2/gn/infracoes/"+other+"/defesa", defense).want(t, http.StatusCreated)
	beta.do("POST", "/v2/gn/infracoes/"+other+"/defesa", defense).want(t, http.StatusConflict, "já foi criada")
	w.sim("POST", "/sim/med/"+id+"/cancel", "").want(t, http.StatusOK, "CANCELADA_EFI")
	beta.do("POST", path, defense).want(t, http.StatusUnprocessableEntity, "já foi finalizada")
}

func TestInfractionsSurvive(t *testing.T) {
	t.Parallel()
	folder, c := t.TempDir(), standing()
	w := openWorld(t, folder, c)
	alpha := w.acquirer("alpha")
	alpha.create(1, "10.00")
	e2e := w.pay(`{"txid":"` + txidOf(1) + `"}`)
	var ids []string
	for range 5 {
		ids = append(ids, w.claim(`{"end_to_end_id":"`+e2e+`","amount":"3.00"}`))
	}
	for i, how := range []string{"accept", "reject", "cancel"} {
		w.sim("POST", "/sim/med/"+ids[i]+"/"+how, "").want(t, http.StatusOK)
	}
	alpha.do("POST", "/v2/gn/infracoes/"+ids[3]+"/defesa", defense).want(t, http.StatusCreated)
	before, books := alpha.infractions(), w.sim("GET", "/sim/pix/books", "").body
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	w = openWorld(t, folder, c)
	if diff := cmp.Diff(before, w.acquirer("alpha").infractions()); diff != "" || w.sim("GET", "/sim/pix/books", "").body != books {
		t.Errorf("after a restart: %s", diff)
	}
}

func TestPageOfInfractions(t *testing.T) {
	t.Parallel()
	w := manual(t)
	alpha := w.acquirer("alpha")
	w.sim("GET", "/", "").want(t, http.StatusOK, "Ainda não há infrações", `<option value="med.list">listar infrações</option>`)
	alpha.create(1, "10.00")
	e2e := w.pay(`{"txid":"` + txidOf(1) + `"}`)
	w.sim("GET", "/", "").want(t, http.StatusOK, "Contestar")
	for how, texts := range map[string][]string{
		"aceitar":  {"o dinheiro voltou ao pagador", "aceita, dinheiro devolvido"},
		"rejeitar": {"A infração foi rejeitada.", `class="tag paid">rejeitada<`},
		"cancelar": {"A infração foi cancelada.", `class="tag gone">cancelada<`},
	} {
		w.follow("/infracoes", url.Values{"e2e": {e2e}}).want(t, http.StatusOK, "O pagador contestou o Pix.", `class="tag open">aberta<`, "Defesa até 22/11/2026")
		found := alpha.infractions()
		id := found[len(found)-1].ID
		w.follow("/infracoes/"+how, url.Values{"id": {id}}).want(t, http.StatusOK, texts...)
		w.form("/infracoes/"+how, url.Values{"id": {id}}).want(t, http.StatusBadRequest, "já foi decidida")
	}
	w.form("/infracoes", url.Values{"e2e": {"E1"}}).want(t, http.StatusNotFound, "Não há Pix")
	w.form("/infracoes/aceitar", url.Values{"id": {"x"}}).want(t, http.StatusNotFound, "Não há infração")
}
