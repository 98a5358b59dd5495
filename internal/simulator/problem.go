package simulator

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/ponte-pay/ponte/internal/httpkit"
)

// failure is an error that an acquirer tells its client, in one of the three shapes that real ones mix.
type failure interface {
	error
	answer() httpkit.Answer
}

// problemKind is a type of the Central Bank's list of problems.
type problemKind struct {
	name   string
	title  string
	status int
}

var (
	invalidRequest = problemKind{"RequisicaoInvalida", "Requisição inválida.", http.StatusBadRequest}
	accessDenied   = problemKind{"AcessoNegado", "Acesso negado.", http.StatusForbidden}
	notFound       = problemKind{"NaoEncontrado", "Não encontrado.", http.StatusNotFound}
	internalError  = problemKind{"ErroInternoDoServidor", "Erro interno do servidor.", http.StatusInternalServerError}
	chargeNotFound = problemKind{"CobNaoEncontrado", "Cobrança não encontrada.", http.StatusNotFound}
	chargeInvalid  = problemKind{"CobOperacaoInvalida", "Cobrança inválida.", http.StatusBadRequest}
	chargeQuery    = problemKind{"CobConsultaInvalida", "Consulta de cobranças inválida.", http.StatusBadRequest}
	pixNotFound    = problemKind{"PixNaoEncontrado", "Pix não encontrado.", http.StatusNotFound}
	pixQuery       = problemKind{"PixConsultaInvalida", "Consulta de Pix inválida.", http.StatusBadRequest}
	refundNotFound = problemKind{"PixDevolucaoNaoEncontrada", "Devolução não encontrada.", http.StatusNotFound}
	refundInvalid  = problemKind{"PixDevolucaoInvalida", "Devolução inválida.", http.StatusBadRequest}
	sentNotFound   = problemKind{"PixEnviadoNaoEncontrado", "Pix enviado não encontrado.", http.StatusNotFound}
	sentQuery      = problemKind{"PixConsultaInvalida", "Consulta de Pix enviados inválida.", http.StatusBadRequest}

	infractionNotFound = problemKind{"InfracaoNaoEncontrada", "Infração não encontrada.", http.StatusNotFound}
	infractionQuery    = problemKind{"InfracoesConsultaInvalida", "Consulta de infrações inválida.", http.StatusBadRequest}
	infractionInvalid  = problemKind{"InfracaoOperacaoInvalida", "Operação inválida.", http.StatusBadRequest}
	infractionConflict = problemKind{"InfracaoOperacaoInvalida", "Operação inválida.", http.StatusConflict}
	infractionLate     = problemKind{"InfracaoOperacaoInvalida", "Operação inválida.", http.StatusUnprocessableEntity}

	webhookNotFound = problemKind{"WebhookNaoEncontrado", "Webhook não encontrado.", http.StatusNotFound}
	webhookInvalid  = problemKind{"WebhookOperacaoInvalida", "Webhook inválido.", http.StatusBadRequest}
	webhookQuery    = problemKind{"WebhookConsultaInvalida", "Consulta de webhooks inválida.", http.StatusBadRequest}
	payloadNotFound = problemKind{"CobPayloadNaoEncontrado", "Não há cobrança neste endereço.", http.StatusNotFound}
	payloadGone     = problemKind{"CobPayloadNaoEncontrado", "A cobrança deste endereço foi removida.", http.StatusGone}
)

// problem is the Central Bank's shape of an error.
type problem struct {
	Type          string      `json:"type"`
	Title         string      `json:"title"`
	Status        int         `json:"status"`
	Detail        string      `json:"detail,omitempty"`
	CorrelationID string      `json:"correlationId,omitempty"`
	Violations    []violation `json:"violacoes,omitempty"`
}

// violation is one rule that a request breaks.
type violation struct {
	Reason   string `json:"razao"`
	Property string `json:"propriedade"`
	Value    string `json:"valor,omitempty"`
}

const problemTypeHead = "https://pix.bcb.gov.br/api/v2/error/"

// because returns a problem of this kind.
func (k problemKind) because(detail string, violations ...violation) *problem {
	return &problem{Type: problemTypeHead + k.name, Title: k.title, Status: k.status, Detail: detail, Violations: violations}
}

func (p *problem) Error() string {
	return fmt.Sprintf("simulator: %s: %s %v", strings.TrimPrefix(p.Type, problemTypeHead), p.Detail, p.Violations)
}

var problemHeader = http.Header{"Content-Type": {"application/problem+json"}}

func (p *problem) answer() httpkit.Answer {
	return httpkit.Answer{Status: p.Status, Body: p, Header: problemHeader}
}

// refusal is the shape that Efí gives its business rules.
type refusal struct {
	Name    string `json:"nome"`
	Message string `json:"mensagem"`
	status  int
	header  http.Header
}

func (r *refusal) Error() string { return "simulator: " + r.Name + ": " + r.Message }

func (r *refusal) answer() httpkit.Answer {
	return httpkit.Answer{Status: r.status, Body: r, Header: r.header}
}

// denial is the shape of OAuth 2.
type denial struct {
	Code        string `json:"error"`
	Description string `json:"error_description"`
	status      int
	header      http.Header
}

func (d *denial) Error() string { return "simulator: " + d.Code + ": " + d.Description }

func (d *denial) answer() httpkit.Answer {
	return httpkit.Answer{Status: d.status, Body: d, Header: d.header}
}

// answerOf turns any error into what the client sees. unexpected is not nil when it is our own defect.
func answerOf(err error, correlationID string) (answer httpkit.Answer, unexpected error) {
	var known failure
	if !errors.As(err, &known) {
		known, unexpected = internalError.because("Tente de novo mais tarde."), err
	}
	if p, ok := errors.AsType[*problem](known); ok {
		named := *p
		named.CorrelationID = correlationID
		known = &named
	}
	return known.answer(), unexpected
}

// violations collects the rules that a request breaks, so that its client learns all at once.
type violations []violation

func (v *violations) add(property, reason, value string) {
	*v = append(*v, violation{Reason: reason, Property: property, Value: clip(value)})
}

// schema adds that a property is not of its schema.
func (v *violations) schema(property, value string) {
	v.add(property, "O campo "+property+" não respeita o schema.", value)
}

// text checks a text's length in characters.
func (v *violations) text(property, value string, lenMax int) {
	if utf8.RuneCountInString(value) > lenMax {
		v.schema(property, value)
	}
}

// valueLenMax is how much of a wrong value is told.
const valueLenMax = 80

func clip(s string) string {
	if len(s) <= valueLenMax {
		return s
	}
	return strings.ToValidUTF8(s[:valueLenMax], "") + "…"
}
