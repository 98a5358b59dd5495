package simulator

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/ponte-pay/ponte/internal/httpkit"
	"github.com/ponte-pay/ponte/internal/money"
)

// The shapes in which Efí tells an infraction.
type (
	analysisJSON struct {
		Opened   string `json:"abertura"`
		Deadline string `json:"prazoFinalizacao"`
		Defended string `json:"recebimentoDefesa,omitempty"`
		Closed   string `json:"finalizacao,omitempty"`
	}
	partyJSON struct {
		Bank     string `json:"nomeParticipante"`
		Account  any    `json:"conta"`
		Name     string `json:"nome"`
		Document string `json:"documento"`
	}
	infractionJSON struct {
		ID         string       `json:"idInfracao"`
		EndToEndID string       `json:"endToEndId"`
		Protocol   any          `json:"protocolo"`
		PaidAt     string       `json:"dataTransacao"`
		Value      any          `json:"valor"`
		Key        string       `json:"chave"`
		Status     string       `json:"status"`
		Request    string       `json:"razao"`
		Situation  string       `json:"tipoSituacao"`
		Comment    string       `json:"comentario,omitempty"`
		Defense    string       `json:"defesa,omitempty"`
		Tickets    []int        `json:"identificadorTicket"`
		Analysis   analysisJSON `json:"dadosAnalise"`
		From       partyJSON    `json:"origem"`
		To         partyJSON    `json:"destino"`
		Created    string       `json:"criadoEm"`
		Changed    string       `json:"atualizadoEm"`
	}
)

const (
	claimKind        = "Solicitação de devolução"
	simulatedAccount = 10001
	situationDefault = "golpe"
)

// situations are what may have happened, in Efí's words.
var situations = []string{situationDefault, "aquisição da conta", "coerção", "acesso fraudulento", "outro", "desconhecido"}

// digits writes a number as its text says. Efí's documentation of 2024 has some numbers as strings, its library of 2026
// has the same ones as numbers: here one acquirer does this, the other that.
func (a *acquirer) digits(text string) any {
	if a.number%2 == 0 {
		return text
	}
	return json.Number(text)
}

// infractionJSON tells an infraction.
func (a *acquirer) infractionJSON(v infractionView) (*infractionJSON, error) {
	made, err := a.books.readPayment(&v.payment)
	if err != nil {
		return nil, err
	}
	account := a.digits(strconv.Itoa(simulatedAccount))
	told := &infractionJSON{
		ID: v.id, EndToEndID: v.endToEndID, Protocol: a.digits(strconv.Itoa(int(v.place) + 1)), PaidAt: timeText(v.payment.at),
		Value: a.digits(v.amount.String()), Key: a.identity.Key, Status: v.status.String(), Request: claimKind, Situation: v.situation,
		Comment: v.reason, Defense: v.defense, Tickets: []int{int(v.place) + 1},
		Analysis: analysisJSON{Opened: timeText(v.opened), Deadline: timeText(v.opened + defenseTimeMax.Milliseconds())},
		From:     partyJSON{"Banco do Pagador", account, made.Name, made.Document},
		To:       partyJSON{a.receiver, account, a.receiver, ""},
		Created:  timeText(v.opened), Changed: timeText(v.changed),
	}
	if v.defended != 0 {
		told.Analysis.Defended = timeText(v.defended)
	}
	if v.status.isClosed() {
		told.Analysis.Closed = timeText(v.changed)
	}
	return told, nil
}

// listInfractions tells the infractions that were opened in a window of time, however long ago they changed.
func (a *acquirer) listInfractions(r *http.Request) (httpkit.Answer, error) {
	q := newListQuery(r)
	if err := q.err(infractionQuery); err != nil {
		return httpkit.Answer{}, err
	}
	found := a.books.infractionsWithin(a.number, q.from, q.to)
	return answerPage(q, "infracoes", found, func(v infractionView) (any, error) { return a.infractionJSON(v) })
}

// defenseTextMax is the longest defense in characters. Efí names no limit.
const defenseTextMax = 4000

// postDefense takes a defense.
func (a *acquirer) postDefense(r *http.Request) (httpkit.Answer, error) {
	var q struct {
		Verdict *string `json:"analise"`
		Text    *string `json:"justificativa"`
	}
	if err := readJSON(r, &q, infractionQuery, "body"); err != nil {
		return httpkit.Answer{}, err
	}
	var broken violations
	if q.Verdict == nil || !slices.Contains([]string{"aceito", "rejeitado"}, *q.Verdict) {
		broken.add("body.analise", "O campo body.analise deve ser aceito ou rejeitado.", "")
	}
	if q.Text == nil || *q.Text == "" {
		broken.add("body.justificativa", "O campo body.justificativa é obrigatório.", "")
	} else {
		broken.text("body.justificativa", *q.Text, defenseTextMax)
	}
	if len(broken) > 0 {
		return httpkit.Answer{}, infractionQuery.because("A defesa não respeita o schema ou as regras.", broken...)
	}
	if err := a.books.defend(&defenseRecord{Acquirer: a.number, ID: r.PathValue("id"), Text: *q.Text}); err != nil {
		return httpkit.Answer{}, infractionProblem(err)
	}
	return httpkit.Answer{Status: http.StatusCreated, Raw: []byte("Defesa de infração MED criada"), Header: http.Header{"Content-Type": {"text/plain; charset=utf-8"}}}, nil
}

// infractionProblem says what an error of the books means to a client.
func infractionProblem(err error) error {
	because := func(kind problemKind, reason string) error {
		return kind.because("A defesa não pode ser apresentada.", violation{Reason: reason, Property: "body.infractionId"})
	}
	switch {
	case errors.Is(err, errNoInfraction):
		return infractionNotFound.because("Infração não encontrada.")
	case errors.Is(err, errDefended):
		return because(infractionConflict, "A defesa para essa infração já foi criada.")
	case errors.Is(err, errDefenseLate):
		return because(infractionLate, "O prazo para defesa foi excedido.")
	case errors.Is(err, errInfractionClosed):
		return because(infractionLate, "A infração já foi finalizada.")
	}
	return err
}

// claim is a payer's wish to have a payment back.
type claim struct {
	e2e       string
	amount    money.BRL // 0 means the whole payment
	reason    string    // in words; empty for none
	situation string    // one of situations
}

// openInfraction opens an infraction at the acquirer that has the payment.
func (s *Simulator) openInfraction(c claim) (infractionView, error) {
	for _, a := range s.acquirers {
		v, err := s.books.openInfraction(&infractionRecord{
			Acquirer: a.number, EndToEndID: c.e2e, Centavos: int64(c.amount), Reason: c.reason, Situation: cmp.Or(c.situation, situationDefault),
		})
		if !errors.Is(err, errNoPayment) {
			return v, errorOf(err)
		}
	}
	return infractionView{}, errorOf(errNoPayment)
}

// decide closes an infraction, and tells the receiver of the money that went back for it.
func (s *Simulator) decide(name string, status infractionStatus) (infractionView, error) {
	for _, a := range s.acquirers {
		v, returned, err := s.books.decide(a.number, name, status)
		if errors.Is(err, errNoInfraction) {
			continue
		}
		if returned {
			a.notify(v.payment)
		}
		return v, errorOf(err)
	}
	return infractionView{}, errorOf(errNoInfraction)
}

func (s *Simulator) controlOpenInfraction(r *http.Request) (httpkit.Answer, error) {
	f, _, err := readFields(r)
	if err != nil {
		return httpkit.Answer{}, err
	}
	c := claim{
		e2e:       f.String("end_to_end_id", httpkit.StringRule{Required: true}).Value,
		amount:    amountField(f),
		reason:    f.String("reason", httpkit.StringRule{Min: 1, Max: requestLenMax}).Value,
		situation: f.String("situation", httpkit.StringRule{OneOf: situations}).Value,
	}
	if err := f.Err(); err != nil {
		return httpkit.Answer{}, err
	}
	v, err := s.openInfraction(c)
	return v.answer(), err
}

// controlDecide returns the control route that closes an infraction in that way.
func (s *Simulator) controlDecide(status infractionStatus) func(*http.Request) (httpkit.Answer, error) {
	return func(r *http.Request) (httpkit.Answer, error) {
		v, err := s.decide(r.PathValue("id"), status)
		return v.answer(), err
	}
}

func (v *infractionView) answer() httpkit.Answer {
	return httpkit.Answer{Body: struct {
		ID         string `json:"id"`
		Acquirer   string `json:"acquirer"`
		EndToEndID string `json:"end_to_end_id"`
		Amount     string `json:"amount"`
		Status     string `json:"status"`
		OpenedAt   string `json:"opened_at"`
	}{v.id, acquirerNames[v.acquirer], v.endToEndID, v.amount.String(), v.status.String(), time.UnixMilli(v.opened).UTC().Format(time.RFC3339Nano)}}
}
