package simulator

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

type pageJSON struct {
	Parameters struct {
		From   string `json:"inicio"`
		To     string `json:"fim"`
		Status string
		CPF    string
		TxID   string
		Paging pagingJSON `json:"paginacao"`
	} `json:"parametros"` //nolint:misspell // Portuguese
	Charges  []chargeJSON  `json:"cobs"`
	Payments []paymentJSON `json:"pix"`
}

func (p pageJSON) txids() string {
	var all []string
	for _, c := range p.Charges {
		all = append(all, strings.TrimLeft(c.TxID, "T0"))
	}
	for _, p := range p.Payments {
		all = append(all, strings.TrimLeft(p.TxID, "T0"))
	}
	return strings.Join(all, " ")
}

func window(from, to time.Duration, more string) string {
	q := url.Values{"inicio": {noon.Add(from).Format(time.RFC3339Nano)}, "fim": {noon.Add(to).Format(time.RFC3339Nano)}}
	return "?" + q.Encode() + more
}

// newPast makes five charges, one a minute: 1 is paid, 2 is paid and refunded, 3 has a debtor, 4 is removed, 5 waits. Then
// a static code is paid, with and without a txid.
func newPast(t *testing.T) (*world, *bank) {
	t.Helper()
	w := newWorld(t)
	alpha := w.acquirer("alpha")
	for n := 1; n <= 5; n++ {
		body := alpha.body("10.00")
		if n == 3 {
			body = strings.Replace(body, `{`, `{"devedor":{"cpf":"52998224725","nome":"A"},`, 1)
		}
		alpha.do("PUT", "/v2/cob/"+txidOf(n), body).want(t, http.StatusCreated)
		w.clock.Raise(time.Duration(n) * time.Minute)
	}
	w.pay(`{"txid":"` + txidOf(1) + `","payer_document":"11222333000181"}`)
	e2e := w.pay(`{"txid":"` + txidOf(2) + `"}`)
	w.sim("POST", "/sim/pix/refund", `{"end_to_end_id":"`+e2e+`","amount":"1.00"}`).want(t, http.StatusOK)
	w.sim("POST", "/sim/pix/remove", `{"txid":"`+txidOf(4)+`"}`).want(t, http.StatusOK)
	w.clock.Raise(6 * time.Minute)
	w.pay(`{"copy_paste":"` + staticCode(t, alpha.account.Key, "loja7", 700) + `"}`)
	w.pay(`{"copy_paste":"` + staticCode(t, alpha.account.Key, "", 800) + `"}`)
	return w, alpha
}

func TestListCharges(t *testing.T) {
	t.Parallel()
	_, alpha := newPast(t)
	tests := []struct{ name, query, want string }{
		{"all", window(0, time.Hour, ""), "1 2 3 4 5"},
		{"both ends count", window(time.Minute, 3*time.Minute, ""), "2 3 4"},
		{"rounded inwards", window(time.Minute+time.Nanosecond, 3*time.Minute-time.Nanosecond, ""), "3"},
		{"before all", window(-time.Hour, -time.Minute, ""), ""},
		{"active", window(0, time.Hour, "&status=ATIVA"), "3 5"},
		{"paid", window(0, time.Hour, "&status=CONCLUIDA"), "1 2"},
		{"removed", window(0, time.Hour, "&status=REMOVIDA_PELO_PSP"), "4"},
		{"of a debtor", window(0, time.Hour, "&cpf=52998224725"), "3"},
		{"of nobody", window(0, time.Hour, "&cnpj=12ABC34501DE35"), ""},
		{"with location", window(0, time.Hour, "&locationPresente=true"), "1 2 3 4 5"},
		{"without location", window(0, time.Hour, "&locationPresente=false"), ""},
		{"first page", window(0, time.Hour, "&paginacao.itensPorPagina=2"), "1 2"},
		{"last page", window(0, time.Hour, "&paginacao.itensPorPagina=2&paginacao.paginaAtual=2"), "5"},
		{"beyond", window(0, time.Hour, "&paginacao.itensPorPagina=2&paginacao.paginaAtual=3"), ""},
		{"far beyond", window(0, time.Hour, "&paginacao.itensPorPagina=1000&paginacao.paginaAtual=1000000"), ""},
		{"offset with a bare plus", "?inicio=2026-11-15T09:01:00-03:00&fim=2026-11-15T13:01:30+01:00", "2"},
	}
	for _, tt := range tests {
		var told pageJSON
		alpha.do("GET", "/v2/cob"+tt.query, "").into(t, http.StatusOK, &told)
		if told.txids() != tt.want || told.Charges == nil {
			t.Errorf("%s: got %q, want %q", tt.name, told.txids(), tt.want)
		}
	}
	var told pageJSON
	alpha.do("GET", "/v2/cob"+window(0, time.Hour, "&paginacao.itensPorPagina=2&paginacao.paginaAtual=1&status=ATIVA"), "").into(t, http.StatusOK, &told)
	if diff := cmp.Diff(pagingJSON{Page: 1, Items: 2, Pages: 1, Total: 2}, told.Parameters.Paging); diff != "" {
		t.Errorf("paging (-want +got)\n%s", diff)
	}
	if told.Parameters.From != "2026-11-15T12:00:00Z" || told.Parameters.Status != "ATIVA" {
		t.Errorf("echoed %+v", told.Parameters)
	}
	// A list tells as much as a single charge does.
	alpha.do("GET", "/v2/cob"+window(0, 0, ""), "").into(t, http.StatusOK, &told)
	if diff := cmp.Diff(alpha.charge(1), told.Charges[0]); diff != "" || len(told.Charges[0].Payments) != 1 {
		t.Errorf("(-single +listed)\n%s", diff)
	}
}

func TestListPayments(t *testing.T) {
	t.Parallel()
	_, alpha := newPast(t)
	tests := []struct{ name, query, want string }{
		{"all", window(0, time.Hour, ""), "1 2 loja7 "},
		{"charges' only", window(0, 5*time.Minute, ""), "1 2"},
		{"static ones", window(6*time.Minute, 6*time.Minute, ""), "loja7 "},
		{"by txid", window(0, time.Hour, "&txid="+txidOf(2)), "2"},
		{"by txid, too early", window(0, time.Minute, "&txid="+txidOf(2)), ""},
		{"by txid, unpaid", window(0, time.Hour, "&txid="+txidOf(5)), ""},
		{"by static txid", window(0, time.Hour, "&txid=loja7"), "loja7"},
		{"by unknown txid", window(0, time.Hour, "&txid=loja8"), ""},
		{"with txid", window(0, time.Hour, "&txIdPresente=true"), "1 2 loja7"},
		{"without txid", window(0, time.Hour, "&txIdPresente=false"), ""},
		{"refunded", window(0, time.Hour, "&devolucaoPresente=true"), "2"},
		{"not refunded", window(0, time.Hour, "&devolucaoPresente=false"), "1 loja7 "},
		{"of a payer", window(0, time.Hour, "&cnpj=11222333000181"), "1"},
		{"second page", window(0, time.Hour, "&paginacao.itensPorPagina=1&paginacao.paginaAtual=1"), "2"},
	}
	for _, tt := range tests {
		var told pageJSON
		alpha.do("GET", "/v2/pix"+tt.query, "").into(t, http.StatusOK, &told)
		if told.txids() != tt.want || told.Payments == nil {
			t.Errorf("%s: got %q, want %q", tt.name, told.txids(), tt.want)
		}
	}
	var told pageJSON
	alpha.do("GET", "/v2/pix"+window(0, time.Hour, "&txIdPresente=false"), "").into(t, http.StatusOK, &told)
	if len(told.Payments) != 1 || told.Payments[0].Value != "8.00" {
		t.Errorf("without txid: %+v", told.Payments)
	}
	if told.Parameters.Paging.Total != 1 || told.Parameters.Paging.Items != 100 {
		t.Errorf("paging is %+v", told.Parameters.Paging)
	}
}

func TestListRefuses(t *testing.T) {
	t.Parallel()
	alpha := newWorld(t).acquirer("alpha")
	for list, kind := range map[string]string{"cob": "CobConsultaInvalida", "pix": "PixConsultaInvalida", "webhook": "WebhookConsultaInvalida"} {
		for query, properties := range map[string]string{
			"":                           "inicio fim",
			"?inicio=yesterday&fim=2026": "inicio fim",
			window(time.Hour, 0, ""):     "fim",
			window(0, 1, "&cpf=1"):       "cpf",
			window(0, 1, "&cnpj=x"):      "cnpj",
			window(0, 1, "&cpf=52998224725&cnpj=12ABC34501DE35"):                      "cnpj",
			window(0, 1, "&paginacao.paginaAtual=-1&paginacao.itensPorPagina=1001"):   "paginacao.paginaAtual paginacao.itensPorPagina",
			window(0, 1, "&paginacao.paginaAtual=1000001&paginacao.itensPorPagina=x"): "paginacao.paginaAtual paginacao.itensPorPagina",
			window(0, 1, "&paginacao.itensPorPagina=0"):                               "paginacao.itensPorPagina",
		} {
			wantProblem(t, alpha.do("GET", "/v2/"+list+query, ""), http.StatusBadRequest, kind, properties)
		}
	}
	wantProblem(t, alpha.do("GET", "/v2/cob"+window(0, 1, "&status=EXPIRADA&locationPresente=1"), ""), http.StatusBadRequest, "CobConsultaInvalida", "locationPresente status")
	wantProblem(t, alpha.do("GET", "/v2/pix"+window(0, 1, "&txid=-&txIdPresente=no"), ""), http.StatusBadRequest, "PixConsultaInvalida", "txid txIdPresente")
	wantProblem(t, alpha.do("GET", "/v2/pix"+window(0, 1, "&txid=a&txIdPresente=false"), ""), http.StatusBadRequest, "PixConsultaInvalida", "txid")
}

// TestListsAreSorted fails when a real clock that steps back, as machines' clocks do, breaks the search by time.
func TestListsAreSorted(t *testing.T) {
	t.Parallel()
	w, alpha := newPast(t)
	for acquirer, k := range w.books.book {
		for place := uint32(1); place < k.payments.count; place++ {
			if k.payments.at(place).at < k.payments.at(place-1).at {
				t.Errorf("acquirer %d, payment %d is before the one before it", acquirer, place)
			}
		}
	}
	w.books.latest += int64(time.Hour / time.Millisecond)
	late := alpha.create(99, "1.00")
	if want := timeText(w.books.latest); late.Calendar.Created != want {
		t.Errorf("created at %s, want %s", late.Calendar.Created, want)
	}
}
