package simulator

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ponte-pay/ponte/internal/pix"
)

func staticCode(tb testing.TB, key, txid string, centavos int64) string {
	tb.Helper()
	code, err := pix.BRCode{
		Key: pix.Key{Type: pix.KeyRandom, Value: key}, Name: "Loja", City: "Recife", TxID: txid, Amount: centavos,
	}.Encode()
	if err != nil {
		tb.Fatal(err)
	}
	return code
}

func TestPayment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alpha := w.acquirer("alpha")
	alpha.create(1, "10.00")
	w.clock.Raise(1500 * time.Millisecond)
	e2e := w.pay(`{"txid":"` + txidOf(1) + `","payer_name":"José <b>","payer_document":"12.ABC.345/01DE-35"}`)
	parsed, err := pix.ParseEndToEndID(e2e)
	if err != nil || parsed.Kind != pix.EndToEndPix || !parsed.Time.Equal(noon) {
		t.Errorf("%s is %+v, %v", e2e, parsed, err)
	}
	want := paymentJSON{
		EndToEndID: e2e, TxID: txidOf(1), Value: "10.00", Components: componentsJSON{amountJSON{"10.00"}}, Key: alpha.account.Key,
		At: "2026-11-15T12:00:01.500Z", Extras: extrasJSON{payerJSON{Name: "José <b>", CNPJ: "12ABC34501DE35", Bank: payerISPB}},
	}
	var told paymentJSON
	alpha.do("GET", "/v2/pix/"+e2e, "").into(t, http.StatusOK, &told)
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	c := alpha.charge(1)
	if diff := cmp.Diff([]paymentJSON{want}, c.Payments); diff != "" || c.Status != "CONCLUIDA" || c.Revision != 0 {
		t.Errorf("%s, revision %d (-want +got)\n%s", c.Status, c.Revision, diff)
	}
	for _, unknown := range []string{strings.ToLower(e2e), e2e[1:], "x", strings.Repeat("E", 64)} {
		wantProblem(t, alpha.do("GET", "/v2/pix/"+unknown, ""), http.StatusNotFound, "PixNaoEncontrado", "")
	}
	wantProblem(t, w.acquirer("beta").do("GET", "/v2/pix/"+e2e, ""), http.StatusNotFound, "PixNaoEncontrado", "")
}

func TestRefundByReceiver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alpha := w.acquirer("alpha")
	alpha.create(1, "10.00")
	e2e := w.pay(`{"txid":"` + txidOf(1) + `"}`)
	path := "/v2/pix/" + e2e + "/devolucao/"

	var first refundJSON
	alpha.do("PUT", path+"d1", `{"valor":"4.00","natureza":"ORIGINAL","descricao":"troca"}`).into(t, http.StatusCreated, &first)
	want := refundJSON{
		ID: "d1", ReturnID: first.ReturnID, Value: "4.00", Nature: "ORIGINAL", Description: "troca", Status: "DEVOLVIDO",
		Times: refundTimesJSON{"2026-11-15T12:00:00.000Z", "2026-11-15T12:00:00.000Z"},
	}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if parsed, err := pix.ParseEndToEndID(first.ReturnID); err != nil || parsed.Kind != pix.EndToEndReturn || parsed.ISPB != acquirerISPB[0] {
		t.Errorf("%s is %+v, %v", first.ReturnID, parsed, err)
	}
	var again refundJSON
	alpha.do("GET", path+"d1", "").into(t, http.StatusOK, &again)
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("GET (-want +got)\n%s", diff)
	}

	alpha.do("PUT", path+"d1", `{"valor":"4.00"}`).want(t, http.StatusConflict, `{"nome":"devolucao_id_duplicado"`)
	wantProblem(t, alpha.do("PUT", path+"d2", `{"valor":"6.01"}`), http.StatusBadRequest, "PixDevolucaoInvalida", "devolucao.valor")
	wantProblem(t, alpha.do("PUT", path+"d2", `{}`), http.StatusBadRequest, "PixDevolucaoInvalida", "devolucao.valor")
	wantProblem(t, alpha.do("PUT", path+"d2", `{"valor":"0.00"}`), http.StatusBadRequest, "PixDevolucaoInvalida", "devolucao.valor")
	wantProblem(t, alpha.do("PUT", path+"d2", `{"valor":"1"}`), http.StatusBadRequest, "PixDevolucaoInvalida", "devolucao.valor")
	wantProblem(t, alpha.do("PUT", path+"d2", `{"valor":1.00}`), http.StatusBadRequest, "PixDevolucaoInvalida", "devolucao.valor")
	wantProblem(t, alpha.do("PUT", path+"d-2", `{"valor":"1.00","natureza":"RETIRADA","descricao":"`+strings.Repeat("x", 141)+`"}`),
		http.StatusBadRequest, "PixDevolucaoInvalida", "devolucao.id devolucao.natureza devolucao.descricao")
	wantProblem(t, alpha.do("PUT", "/v2/pix/E1/devolucao/d2", `{"valor":"1.00"}`), http.StatusNotFound, "PixNaoEncontrado", "")
	wantProblem(t, alpha.do("GET", "/v2/pix/E1/devolucao/d1", ""), http.StatusNotFound, "PixNaoEncontrado", "")
	wantProblem(t, alpha.do("GET", path+"d2", ""), http.StatusNotFound, "PixDevolucaoNaoEncontrada", "")

	alpha.do("PUT", path+"d2", `{"valor":"6.00"}`).want(t, http.StatusCreated)
	wantProblem(t, alpha.do("PUT", path+"d3", `{"valor":"0.01"}`), http.StatusBadRequest, "PixDevolucaoInvalida", "devolucao.valor")
	if got := w.told("?acquirer=alpha"); got.Balance != "10000000.00" || got.Payments[0].Returned != "10.00" {
		t.Errorf("got %+v", got)
	}
}

func TestRefundByReceiverHasItsTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alpha := w.acquirer("alpha")
	alpha.create(1, "10.00")
	e2e := w.pay(`{"txid":"` + txidOf(1) + `"}`)
	path := "/v2/pix/" + e2e + "/devolucao/"
	w.clock.Raise(90 * 24 * time.Hour)
	alpha.access = ""
	alpha.do("PUT", path+"d1", `{"valor":"1.00"}`).want(t, http.StatusCreated)
	w.clock.Raise(90*24*time.Hour + time.Millisecond)
	wantProblem(t, alpha.do("PUT", path+"d2", `{"valor":"1.00"}`), http.StatusBadRequest, "PixDevolucaoInvalida", "devolucao.id")
	// The acquirer itself is bound by nothing.
	w.sim("POST", "/sim/pix/refund", `{"end_to_end_id":"`+e2e+`"}`).want(t, http.StatusOK, `"amount":"9.00"`)
}
