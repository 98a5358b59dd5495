package simulator

import (
	"errors"
	"net/http"
	"slices"

	"github.com/ponte-pay/ponte/internal/httpkit"
	"github.com/ponte-pay/ponte/internal/pix"
)

// payoutRequest is the body that sends money. What is absent is nil.
type payoutRequest struct {
	Value *string `json:"valor"`
	From  *struct {
		Key  *string `json:"chave"`
		Text *string `json:"infoPagador"`
	} `json:"pagador"`
	To *struct {
		Key  *string `json:"chave"`
		CPF  *string `json:"cpf"`
		CNPJ *string `json:"cnpj"`
	} `json:"favorecido"`
}

// check adds what is wrong with the form of the request.
func (q *payoutRequest) check(a *acquirer, broken *violations) {
	switch {
	case q.Value == nil:
		broken.add("valor", "O campo valor é obrigatório.", "")
	case !isAmount(*q.Value):
		broken.schema("valor", *q.Value)
	}
	switch {
	case q.From == nil || q.From.Key == nil:
		broken.add("pagador.chave", "O campo pagador.chave é obrigatório.", "")
	case *q.From.Key != a.identity.Key:
		broken.add("pagador.chave", "A chave não pertence a este usuário pagador.", *q.From.Key)
	}
	if q.From != nil && q.From.Text != nil {
		broken.text("pagador.infoPagador", *q.From.Text, requestLenMax)
	}
	if q.To == nil || q.To.Key == nil {
		broken.add("favorecido.chave", "O campo favorecido.chave é obrigatório.", "")
		return
	}
	if q.To.CPF != nil && !isCPF(*q.To.CPF) {
		broken.schema("favorecido.cpf", *q.To.CPF)
	}
	if q.To.CNPJ != nil && !isCNPJ(*q.To.CNPJ) {
		broken.schema("favorecido.cnpj", *q.To.CNPJ)
	}
	if q.To.CPF != nil && q.To.CNPJ != nil {
		broken.add("favorecido.cnpj", "Os campos cpf e cnpj não podem ser usados juntos.", *q.To.CNPJ)
	}
}

// document is whose key it must be; empty for anybody's.
func (q *payoutRequest) document() string {
	switch {
	case q.To.CPF != nil:
		return *q.To.CPF
	case q.To.CNPJ != nil:
		return *q.To.CNPJ
	}
	return ""
}

// What Efí calls its refusals of payouts.
var (
	errDuplicateSend = &refusal{Name: "id_envio_duplicado", Message: "O id de envio informado já foi utilizado em outro pagamento", status: http.StatusConflict}
	errBadKey        = &refusal{Name: "chave_invalida", Message: "A chave do favorecido é inválida", status: http.StatusBadRequest}
	errOtherOwner    = &refusal{
		Name: "chave_nao_pertence_ao_documento", Message: "O documento do favorecido é diferente do documento em posse da chave", status: http.StatusBadRequest,
	}
	errBadAmount = &refusal{Name: "valor_invalido", Message: "Campo valor deve ser maior que zero", status: http.StatusBadRequest}
	errPoor      = &refusal{Name: "saldo_insuficiente", Message: "Saldo insuficiente para realizar o pagamento", status: http.StatusBadRequest}
)

// checkRecipient refuses what no bank would pay. Every well-formed key exists, and belongs to whoever is said to have it;
// only a document that is a key tells whose it is.
func (q *payoutRequest) checkRecipient() error {
	key, err := pix.ParseKey(*q.To.Key, "")
	if err != nil || key.Value != *q.To.Key {
		return errBadKey
	}
	document := q.document()
	if document != "" && (key.Type == pix.KeyCPF || key.Type == pix.KeyCNPJ) && key.Value != document {
		return errOtherOwner
	}
	return nil
}

// putPayout sends money under the client's id, once however often it is asked for.
func (a *acquirer) putPayout(r *http.Request) (httpkit.Answer, error) {
	made := &payoutRecord{Acquirer: a.number, ID: r.PathValue("idEnvio")}
	var q payoutRequest
	if err := readJSON(r, &q, invalidRequest, ""); err != nil {
		return httpkit.Answer{}, err
	}
	if a.isUsed(made.ID) {
		return httpkit.Answer{}, errDuplicateSend
	}
	var broken violations
	if !pix.IsTxID(made.ID) { // whose rule it shares
		broken.add("idEnvio", "O idEnvio deve ter de 1 a 35 letras e dígitos.", made.ID)
	}
	q.check(a, &broken)
	if len(broken) > 0 {
		return httpkit.Answer{}, invalidRequest.because("O envio não respeita o schema ou as regras.", broken...)
	}
	amount := parseAmount(*q.Value)
	if amount == 0 {
		return httpkit.Answer{}, errBadAmount
	}
	if err := q.checkRecipient(); err != nil {
		return httpkit.Answer{}, err
	}
	made.Key, made.Document, made.Centavos = *q.To.Key, q.document(), int64(amount)
	if q.From.Text != nil {
		made.Text = *q.From.Text
	}
	v, err := a.books.send(made)
	if err != nil {
		return httpkit.Answer{}, payoutProblem(err)
	}
	if a.settleAfter == AtOnce {
		if err := a.settle(made.ID); err != nil {
			return httpkit.Answer{}, err
		}
	}
	return httpkit.Answer{Status: http.StatusCreated, Body: sendJSON{
		ID: made.ID, EndToEndID: made.EndToEndID, Value: v.amount.String(), Times: sentTimesJSON{Requested: timeText(v.created)}, Status: v.status.String(),
	}}, nil
}

// isUsed reports whether there is a payout with this id.
func (a *acquirer) isUsed(id string) bool {
	_, err := a.books.payoutByID(a.number, id)
	return err == nil
}

// payoutProblem says what an error of the books means to a client.
func payoutProblem(err error) error {
	switch {
	case errors.Is(err, errPayoutExists):
		return errDuplicateSend
	case errors.Is(err, errNoFunds):
		return errPoor
	case errors.Is(err, errNoPayout):
		return sentNotFound.because("Pix enviado não encontrado.")
	}
	return err
}

// The shapes in which Efí tells a payout.
type (
	sentTimesJSON struct {
		Requested string `json:"solicitacao"`
		Settled   string `json:"liquidacao,omitempty"`
	}
	// sendJSON is told when it was asked for.
	sendJSON struct {
		ID         string        `json:"idEnvio"`
		EndToEndID string        `json:"e2eId"`
		Value      string        `json:"valor"`
		Times      sentTimesJSON `json:"horario"`
		Status     string        `json:"status"`
	}
	recipientJSON struct {
		Key    string     `json:"chave"`
		Person personJSON `json:"identificacao"`
	}
	personJSON struct {
		Name string `json:"nome"`
		CPF  string `json:"cpf,omitempty"`
		CNPJ string `json:"cnpj,omitempty"`
	}
	failureJSON struct {
		Code   string `json:"codigo"`
		Origin string `json:"origem"`
		Reason string `json:"motivo"`
	}
	sentExtrasJSON struct {
		ID      string       `json:"idEnvio,omitempty"` // in notifications
		Failure *failureJSON `json:"erro,omitempty"`
	}
	sentJSON struct {
		EndToEndID string           `json:"endToEndId"`
		ID         string           `json:"idEnvio"`
		Value      string           `json:"valor"`
		Key        string           `json:"chave"` // the sender's
		Status     string           `json:"status"`
		Text       string           `json:"infoPagador,omitempty"`
		Times      sentTimesJSON    `json:"horario"`
		Recipient  recipientJSON    `json:"favorecido"`
		Extras     *sentExtrasJSON  `json:"gnExtras,omitempty"`
		Returns    []sentReturnJSON `json:"devolucoes,omitempty"`
	}
	sentReturnJSON struct {
		ReturnID string          `json:"rtrId"`
		Value    string          `json:"valor"`
		Times    refundTimesJSON `json:"horario"`
		Status   string          `json:"status"`
	}
	// sentNoticeJSON is a payout, or a return of it, in a notification.
	sentNoticeJSON struct {
		EndToEndID string           `json:"endToEndId"`
		Key        string           `json:"chave"` // the sender's
		Kind       string           `json:"tipo"`
		Status     string           `json:"status"`
		Value      string           `json:"valor"`
		At         *string          `json:"horario"` // null when no money left
		Extras     sentExtrasJSON   `json:"gnExtras"`
		Returns    []sentReturnJSON `json:"devolucoes,omitempty"`
	}
)

// Who is paid, as banks tell it: documents are masked.
var recipient = personJSON{Name: "João do Simulador", CPF: "***.982.247-**"}

const (
	kindRequest   = "SOLICITACAO"
	failureOrigin = "PSP_RECEBEDOR"
)

// sentJSON tells a payout.
func (a *acquirer) sentJSON(v payoutView) (*sentJSON, error) {
	told := &sentJSON{
		EndToEndID: v.endToEndID.String(), ID: v.id.String(), Value: v.amount.String(), Key: a.identity.Key, Status: v.status.String(),
		Times: sentTimesJSON{Requested: timeText(v.created)}, Recipient: recipientJSON{v.key, recipient}, Returns: returnsJSON(v.returns),
	}
	if v.hasText { // few have, and to read a record for each of a list costs more than the rest of it
		made, err := a.books.readPayout(v.record())
		if err != nil {
			return nil, err
		}
		told.Text = made.Text
	}
	switch v.status {
	case payoutSettled:
		told.Times.Settled = timeText(v.ended)
	case payoutFailed:
		told.Extras = &sentExtrasJSON{Failure: v.failure.json()}
	case payoutProcessing:
	}
	return told, nil
}

func (f payoutFailure) json() *failureJSON { return &failureJSON{f.code, failureOrigin, f.reason} }

func returnsJSON(returns []refund) (told []sentReturnJSON) {
	for _, r := range returns {
		told = append(told, sentReturnJSON{
			ReturnID: r.returnID.String(), Value: r.amount.String(), Times: refundTimesJSON{timeText(r.at), timeText(r.at)}, Status: refundDone,
		})
	}
	return told
}

// sentNotice tells a payout that has ended to its sender.
func (a *acquirer) sentNotice(v payoutView) *sentNoticeJSON {
	told := &sentNoticeJSON{
		EndToEndID: v.endToEndID.String(), Key: a.identity.Key, Kind: kindRequest, Status: v.status.String(), Value: v.amount.String(),
		Extras: sentExtrasJSON{ID: v.id.String()}, Returns: returnsJSON(v.returns),
	}
	if v.status == payoutFailed {
		told.Extras.Failure = v.failure.json()
	} else {
		at := timeText(v.ended)
		told.At = &at
	}
	return told
}

// getPayout tells one payout by its sender's id.
func (a *acquirer) getPayout(r *http.Request) (httpkit.Answer, error) {
	v, err := a.books.payoutByID(a.number, r.PathValue("idEnvio"))
	return a.answerPayout(v, err)
}

// getPayoutByEndToEnd tells one payout by its end-to-end id.
func (a *acquirer) getPayoutByEndToEnd(r *http.Request) (httpkit.Answer, error) {
	v, err := a.books.payoutByEndToEnd(a.number, r.PathValue("e2eid"))
	return a.answerPayout(v, err)
}

func (a *acquirer) answerPayout(v payoutView, err error) (httpkit.Answer, error) {
	if err != nil {
		return httpkit.Answer{}, payoutProblem(err)
	}
	body, err := a.sentJSON(v)
	return httpkit.Answer{Body: body}, err
}

// listPayouts tells the payouts that were asked for in a window of time.
func (a *acquirer) listPayouts(r *http.Request) (httpkit.Answer, error) {
	q := newListQuery(r)
	status := q.text("status", func(s string) bool { return slices.Contains(payoutStatusNames[:], s) })
	if err := q.err(sentQuery); err != nil {
		return httpkit.Answer{}, err
	}
	found := a.books.payoutsWithin(a.number, q.from, q.to, func(p *payout) bool { return status == "" || p.status.String() == status })
	if q.document != "" {
		var err error
		if found, err = keep(found, func(v payoutView) (bool, error) {
			made, err := a.books.readPayout(v.record())
			return err == nil && made.Document == q.document, err
		}); err != nil {
			return httpkit.Answer{}, err
		}
	}
	return answerPage(q, "pix", found, func(v payoutView) (any, error) { return a.sentJSON(v) })
}

// getBalance tells what could be sent now.
func (a *acquirer) getBalance(r *http.Request) (httpkit.Answer, error) {
	a.books.mu.Lock()
	balance, claimed := a.books.book[a.number].balance, a.books.book[a.number].claimed()
	a.books.mu.Unlock()
	body := map[string]any{"saldo": balance.String()}
	if r.URL.Query().Get("bloqueios") == "true" {
		body["bloqueios"] = map[string]string{"judicial": "0.00", "med": claimed.String(), "total": claimed.String()}
	}
	return httpkit.Answer{Body: body}, nil
}
