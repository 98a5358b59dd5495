package simulator

import (
	"cmp"
	"errors"
	"net/http"

	"github.com/ponte-pay/ponte/internal/httpkit"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/pix"
	"github.com/ponte-pay/ponte/internal/plainjson"
)

// The shapes in which the API tells a Pix and its returns.
type (
	amountJSON struct {
		Value string `json:"valor"`
	}
	componentsJSON struct {
		Original amountJSON `json:"original"`
	}
	payerJSON struct {
		Name string `json:"nome"`
		CPF  string `json:"cpf,omitempty"`
		CNPJ string `json:"cnpj,omitempty"`
		Bank string `json:"codigoBanco"`
	}
	// extrasJSON is Efí's own: the standard tells nobody who paid.
	extrasJSON struct {
		Payer payerJSON `json:"pagador"`
	}
	paymentJSON struct {
		EndToEndID string         `json:"endToEndId"`
		TxID       string         `json:"txid,omitempty"`
		Value      string         `json:"valor"`
		Components componentsJSON `json:"componentesValor"`
		Key        string         `json:"chave"`
		At         string         `json:"horario"`
		Extras     extrasJSON     `json:"gnExtras"`
		Refunds    []refundJSON   `json:"devolucoes,omitempty"`
	}
	refundTimesJSON struct {
		Requested string `json:"solicitacao"`
		Settled   string `json:"liquidacao"`
	}
	refundJSON struct {
		ID          string          `json:"id"`
		ReturnID    string          `json:"rtrId"`
		Value       string          `json:"valor"`
		Nature      string          `json:"natureza"`
		Description string          `json:"descricao,omitempty"`
		Times       refundTimesJSON `json:"horario"`
		Status      string          `json:"status"`
	}
)

// Words of the API for returns.
const (
	natureOriginal = "ORIGINAL"
	natureFraud    = "MED_FRAUDE"
	refundDone     = "DEVOLVIDO"
)

// paymentJSON tells a Pix.
func (a *acquirer) paymentJSON(v paymentView) (*paymentJSON, error) {
	made, err := a.books.readPayment(&v)
	if err != nil {
		return nil, err
	}
	amount := v.amount.String()
	p := &paymentJSON{
		EndToEndID: made.EndToEndID,
		TxID:       v.txid,
		Value:      amount,
		Components: componentsJSON{amountJSON{amount}},
		Key:        a.identity.Key,
		At:         timeText(v.at),
		Extras:     extrasJSON{payerJSON{Name: made.Name, Bank: payerISPB}},
	}
	if pix.Document(made.Document).IsCPF() {
		p.Extras.Payer.CPF = made.Document
	} else {
		p.Extras.Payer.CNPJ = made.Document
	}
	for _, r := range v.refunds {
		p.Refunds = append(p.Refunds, refundBody(r))
	}
	return p, nil
}

// AppendJSON writes the Pix as encoding/json would.
func (p *paymentJSON) AppendJSON(to []byte) []byte {
	to = plainjson.AppendMember(to, `{"endToEndId":`, p.EndToEndID)
	to = plainjson.AppendOptional(to, `,"txid":`, p.TxID)
	to = plainjson.AppendMember(to, `,"valor":`, p.Value)
	to = plainjson.AppendMember(to, `,"componentesValor":{"original":{"valor":`, p.Components.Original.Value)
	to = plainjson.AppendMember(to, `}},"chave":`, p.Key)
	to = plainjson.AppendMember(to, `,"horario":`, p.At)
	to = plainjson.AppendMember(to, `,"gnExtras":{"pagador":{"nome":`, p.Extras.Payer.Name)
	to = plainjson.AppendOptional(to, `,"cpf":`, p.Extras.Payer.CPF)
	to = plainjson.AppendOptional(to, `,"cnpj":`, p.Extras.Payer.CNPJ)
	to = plainjson.AppendMember(to, `,"codigoBanco":`, p.Extras.Payer.Bank)
	to = plainjson.AppendList(append(to, `}}`...), `,"devolucoes":`, p.Refunds, (*refundJSON).AppendJSON)
	return append(to, '}')
}

func (r *refundJSON) AppendJSON(to []byte) []byte {
	to = plainjson.AppendMember(to, `{"id":`, r.ID)
	to = plainjson.AppendMember(to, `,"rtrId":`, r.ReturnID)
	to = plainjson.AppendMember(to, `,"valor":`, r.Value)
	to = plainjson.AppendMember(to, `,"natureza":`, r.Nature)
	to = plainjson.AppendOptional(to, `,"descricao":`, r.Description)
	to = plainjson.AppendMember(to, `,"horario":{"solicitacao":`, r.Times.Requested)
	to = plainjson.AppendMember(to, `,"liquidacao":`, r.Times.Settled)
	to = plainjson.AppendMember(to, `},"status":`, r.Status)
	return append(to, '}')
}

func refundBody(r refund) refundJSON {
	return refundJSON{
		ID: r.id, ReturnID: r.returnID.String(), Value: r.amount.String(), Nature: cmp.Or(r.nature, natureOriginal), Description: r.description,
		Times: refundTimesJSON{Requested: timeText(r.at), Settled: timeText(r.at)}, Status: refundDone,
	}
}

// getPayment tells one Pix.
func (a *acquirer) getPayment(r *http.Request) (httpkit.Answer, error) {
	v, err := a.books.findPayment(a.number, r.PathValue("e2eid"))
	if err != nil {
		return httpkit.Answer{}, paymentProblem(err)
	}
	body, err := a.paymentJSON(v)
	return httpkit.Answer{Body: body}, err
}

type refundRequest struct {
	Value       *string `json:"valor"`
	Nature      *string `json:"natureza"`
	Description *string `json:"descricao"`
}

// check returns the amount, and adds what is wrong.
func (q *refundRequest) check(broken *violations) money.BRL {
	if q.Nature != nil && *q.Nature != natureOriginal {
		broken.add("devolucao.natureza", "Este PSP só devolve com natureza "+natureOriginal+".", *q.Nature)
	}
	if q.Description != nil {
		broken.text("devolucao.descricao", *q.Description, requestLenMax)
	}
	switch {
	case q.Value == nil:
		broken.add("devolucao.valor", "O campo devolucao.valor é obrigatório.", "")
	case !isAmount(*q.Value):
		broken.schema("devolucao.valor", *q.Value)
	case parseAmount(*q.Value) == 0:
		broken.add("devolucao.valor", "O campo devolucao.valor é zero.", *q.Value)
	default:
		return parseAmount(*q.Value)
	}
	return 0
}

// putRefund gives money back. It settles at once.
func (a *acquirer) putRefund(r *http.Request) (httpkit.Answer, error) {
	var q refundRequest
	if err := readJSON(r, &q, refundInvalid, "devolucao"); err != nil {
		return httpkit.Answer{}, err
	}
	order := restitution{acquirer: a.number, e2e: r.PathValue("e2eid"), id: r.PathValue("id")}
	var broken violations
	if !pix.IsTxID(order.id) { // whose rule it shares
		broken.add("devolucao.id", "O id deve ter de 1 a 35 letras e dígitos.", order.id)
	}
	order.amount = q.check(&broken)
	if len(broken) > 0 {
		return httpkit.Answer{}, refundInvalid.because("A devolução não respeita o schema ou as regras.", broken...)
	}
	if q.Description != nil {
		order.description = *q.Description
	}
	v, err := a.refund(order)
	if err != nil {
		return httpkit.Answer{}, paymentProblem(err)
	}
	return httpkit.Answer{Status: http.StatusCreated, Body: refundBody(v.refunds[len(v.refunds)-1])}, nil
}

// refund gives money back and notifies the receiver.
func (a *acquirer) refund(order restitution) (paymentView, error) {
	v, err := a.books.refund(order)
	if err == nil {
		a.notify(v)
	}
	return v, err
}

var errDuplicateRefund = &refusal{
	Name: "devolucao_id_duplicado", Message: "O id da devolução já foi utilizado nesta transação", status: http.StatusConflict,
}

// paymentProblem says what an error of the books means to a client.
func paymentProblem(err error) error {
	invalid := func(property, reason string) error {
		return refundInvalid.because(reason, violation{Reason: reason, Property: property})
	}
	switch {
	case errors.Is(err, errNoPayment):
		return pixNotFound.because("Não há Pix com esse endToEndId.")
	case errors.Is(err, errRefundExists):
		return errDuplicateRefund
	case errors.Is(err, errRefundTooMuch):
		return invalid("devolucao.valor", "O valor da devolução é maior que o que resta do Pix.")
	case errors.Is(err, errRefundLate):
		return invalid("devolucao.id", "O prazo de 90 dias para a devolução acabou.")
	}
	return err
}

// getRefund tells one return.
func (a *acquirer) getRefund(r *http.Request) (httpkit.Answer, error) {
	v, err := a.books.findPayment(a.number, r.PathValue("e2eid"))
	if err != nil {
		return httpkit.Answer{}, paymentProblem(err)
	}
	for _, f := range v.refunds {
		if f.id == r.PathValue("id") {
			return httpkit.Answer{Body: refundBody(f)}, nil
		}
	}
	return httpkit.Answer{}, refundNotFound.because("Não há devolução com esse id.")
}
