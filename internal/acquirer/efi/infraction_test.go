package efi_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ponte-pay/ponte/internal/acquirer"
)

func TestListInfractions(t *testing.T) {
	t.Parallel()
	const documented = `{"idInfracao":"8ad75c93-6150-422c-929e-822f361c7a6b","endToEndId":"E09089356202312181249APId91a6304","protocolo":"1313",
		"dataTransacao":"2023-12-22T16:01:35Z","valor":"100","chave":"chavepix@email.com","status":"ABERTA","razao":"Solicitacao de devolução",
		"tipoSituacao":"golpe","comentario":"Qrcode falso","identificadorTicket":[94,95],
		"dadosAnalise":{"abertura":"2023-12-22T16:01:35Z","prazoFinalizacao":"2023-12-29T16:01:35Z"},
		"origem":{"conta":"10001"},"destino":{"conta":"10001"},"criadoEm":"2023-12-22T16:01:36Z","atualizadoEm":"2023-12-23T16:01:35Z"}`
	opened := time.Date(2023, 12, 22, 16, 1, 35, 0, time.UTC)
	base := acquirer.Infraction{
		ID: "8ad75c93-6150-422c-929e-822f361c7a6b", EndToEndID: "E09089356202312181249APId91a6304", Amount: 10000, Status: acquirer.InfractionOpen,
		Reason: "Qrcode falso", Code: "golpe", OpenedAt: opened, DeadlineAt: opened.AddDate(0, 0, 7),
	}
	change := func(f func(i *acquirer.Infraction)) *acquirer.Infraction {
		i := base
		f(&i)
		return &i
	}
	ended := func(s acquirer.InfractionStatus) *acquirer.Infraction {
		return change(func(i *acquirer.Infraction) { i.Status, i.ResolvedAt = s, opened.AddDate(0, 0, 1) })
	}
	with := func(old, text string) string { return strings.Replace(documented, old, text, 1) }
	for _, tt := range []struct {
		name, body string
		want       *acquirer.Infraction // nil for nonsense
	}{
		{"as documented", documented, &base},
		{"with numbers", with(`"valor":"100"`, `"valor":100.00`), &base},
		{"defended", with("ABERTA", "EM_DEFESA"), change(func(i *acquirer.Infraction) { i.Status = acquirer.InfractionUnderReview })},
		{"accepted", with("ABERTA", "ACEITA"), ended(acquirer.InfractionAccepted)},
		{"accepted, and when", strings.Replace(with("ABERTA", "aceita"), `"abertura"`, `"finalizacao":"2023-12-25T16:01:35Z","abertura"`, 1), change(func(i *acquirer.Infraction) {
			i.Status, i.ResolvedAt = acquirer.InfractionAccepted, opened.AddDate(0, 0, 3)
		})},
		{"rejected", with("ABERTA", "REJEITADA"), ended(acquirer.InfractionRejected)},
		{"cancelled", with("ABERTA", "CANCELADA_EFI"), ended(acquirer.InfractionCancelled)},
		{"cancelled otherwise", with("ABERTA", "CANCELADA"), ended(acquirer.InfractionCancelled)},
		{"a new word", with("ABERTA", "EM_ANALISE"), change(func(i *acquirer.Infraction) { i.Status = acquirer.InfractionUnknown })},
		{"no comment", with(`"comentario"`, `"x"`), change(func(i *acquirer.Infraction) { i.Reason = "Solicitacao de devolução" })},
		{"no analysis", with(`"dadosAnalise"`, `"x"`), change(func(i *acquirer.Infraction) { i.OpenedAt, i.DeadlineAt = opened.Add(time.Second), time.Time{} })},
		{"an analysis that is none", with(`"dadosAnalise":{`, `"dadosAnalise":7,"x":{`), change(func(i *acquirer.Infraction) {
			i.OpenedAt, i.DeadlineAt = opened.Add(time.Second), time.Time{}
		})},
		{"no amount", with(`"100"`, `"x"`), nil},
		{"nothing", with(`"100"`, `"0"`), nil},
		{"no payment", with(`"endToEndId"`, `"x"`), nil},
		{"no id", with(`"idInfracao"`, `"x"`), nil},
		{"an id that is a path", with("8ad75c93-6150-422c-929e-822f361c7a6b", ".."), nil},
		{"a number", "7", nil},
	} {
		c, asked := answering(t, http.StatusOK, `{"parametros":{"paginacao":{"quantidadeDePaginas":2}},"infracoes":[`+tt.body+`]}`) //nolint:misspell // Portuguese
		got, err := c.ListInfractions(t.Context(), acquirer.Window{From: opened, To: opened.Add(time.Hour)})
		want := acquirer.InfractionPage{Next: "1", Unreadable: 1}
		if tt.want != nil {
			want = acquirer.InfractionPage{Next: "1", Infractions: []acquirer.Infraction{*tt.want}}
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", tt.name, err, diff)
		}
		if _, last := asked(); last != "GET /v2/gn/infracoes?fim=2023-12-22T17%3A01%3A35Z&inicio=2023-12-22T16%3A01%3A35Z&paginacao.itensPorPagina=100&paginacao.paginaAtual=0 " {
			t.Errorf("asked by %s", last)
		}
	}
	for body, want := range map[string]string{
		`{"infracoes":[]}`:                   "",
		`{"parametros":{},"infracoes":null}`: "", //nolint:misspell // Portuguese
		`{}`:                                 "unknown protocol",
		`{"infracoes":7}`:                    "unknown protocol",
	} {
		c, _ := answering(t, http.StatusOK, body)
		if _, err := c.ListInfractions(t.Context(), acquirer.Window{}); outcome(err) != want {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func TestSubmitDefense(t *testing.T) {
	t.Parallel()
	const problem = `{"type":"https://pix.bcb.gov.br/api/v2/error/InfracaoOperacaoInvalida","title":"x","violacoes":[{"razao":"x","propriedade":"body.infractionId"}]}`
	for _, tt := range []struct {
		status int
		body   string
		want   string
	}{
		{201, "Defesa de infração MED criada", ""},
		{201, "", ""},
		{400, problem, "refused business"},
		{401, problem, "refused credentials"},
		{403, `{"error":"insufficient_scope"}`, "refused credentials"},
		{404, problem, "refused business, not found"},
		{409, problem, "refused business, taken by something else"},
		{422, problem, "refused business, too late"},
		{422, "", "unknown protocol"},
		{429, problem, "refused rate_limited"},
		{500, problem, "unknown down"},
	} {
		c, asked := answering(t, tt.status, tt.body)
		err := c.SubmitDefense(t.Context(), acquirer.Defense{InfractionID: "8ad7-5c", Text: "Entregue", EvidenceURL: "https://loja.example/prova"})
		if got := outcome(err); got != tt.want {
			t.Errorf("%d %s: %s, want %s: %v", tt.status, tt.body, got, tt.want, err)
		}
		if _, last := asked(); last != `POST /v2/gn/infracoes/8ad7-5c/defesa {"analise":"rejeitado","justificativa":"Entregue\n\nhttps://loja.example/prova"}` {
			t.Errorf("asked by %s", last)
		}
	}
}
