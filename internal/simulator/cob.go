package simulator

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/ponte-pay/ponte/internal/httpkit"
	"github.com/ponte-pay/ponte/internal/pix"
	"github.com/ponte-pay/ponte/internal/plainjson"
)

// putCharge creates a charge under the client's txid.
func (a *acquirer) putCharge(r *http.Request) (httpkit.Answer, error) {
	txid := r.PathValue("txid")
	var broken violations
	if !pix.IsChargeTxID(txid) {
		broken.add("cob.txid", "O txid deve ter de 26 a 35 letras e dígitos.", txid)
	}
	return a.createCharge(r, txid, broken)
}

// postCharge creates a charge under a txid of the acquirer's own.
func (a *acquirer) postCharge(r *http.Request) (httpkit.Answer, error) {
	return a.createCharge(r, "", nil)
}

func (a *acquirer) createCharge(r *http.Request, txid string, broken violations) (httpkit.Answer, error) {
	q, err := readChargeRequest(r)
	if err != nil {
		return httpkit.Answer{}, err
	}
	q.require(&broken)
	q.check(a, &broken)
	if q.Loc != nil {
		q.checkLoc(0, a.books.countCharges(a.number), &broken)
	}
	if len(broken) > 0 {
		return httpkit.Answer{}, chargeInvalid.because("A cobrança não respeita o schema ou as regras.", broken...)
	}
	made := &chargeRecord{Acquirer: a.number, TxID: txid, Expires: expiresDefault}
	q.fill(made)
	v, err := a.books.createCharge(made)
	if errors.Is(err, errChargeExists) {
		return httpkit.Answer{}, errDuplicateTxID
	}
	if err != nil {
		return httpkit.Answer{}, err
	}
	return a.answerCharge(http.StatusCreated, v, made)
}

var errDuplicateTxID = &refusal{
	Name: "txid_duplicado", Message: "Campo txid informado já foi utilizado em outra cobrança", status: http.StatusConflict,
}

// patchCharge changes or removes an active charge.
func (a *acquirer) patchCharge(r *http.Request) (httpkit.Answer, error) {
	var q chargeRequest
	if err := readJSON(r, &q, chargeInvalid, "cob"); err != nil {
		return httpkit.Answer{}, err
	}
	v, changed, err := a.books.changeCharge(a.number, r.PathValue("txid"), func(v *chargeView, made *chargeRecord) (bool, error) {
		var broken violations
		q.check(a, &broken)
		q.checkLoc(locID(v.place), int64(a.books.book[a.number].charges.count), &broken)
		if q.Status != nil {
			switch {
			case *q.Status != chargeRemovedByUser.String():
				broken.add("cob.status", "O campo cob.status só pode ser alterado para "+chargeRemovedByUser.String()+".", *q.Status)
			case q.hasEdits() || q.Loc != nil:
				broken.add("cob.status", "A remoção da cobrança não pode vir com outras alterações.", *q.Status)
			}
			made.Status = chargeRemovedByUser
		}
		if len(broken) > 0 {
			return false, chargeInvalid.because("A alteração não respeita o schema ou as regras.", broken...)
		}
		q.fill(made)
		return q.hasEdits() || q.Status != nil, nil
	})
	if err != nil {
		return httpkit.Answer{}, chargeProblem(err)
	}
	return a.answerCharge(http.StatusOK, v, changed)
}

// chargeProblem says what an error of the books means to a client.
func chargeProblem(err error) error {
	switch {
	case errors.Is(err, errNoCharge):
		return chargeNotFound.because("Não há cobrança com esse txid.")
	case errors.Is(err, errNotActive):
		const reason = "A cobrança não está ATIVA."
		return chargeInvalid.because(reason, violation{Reason: reason, Property: "cob.status"})
	case errors.Is(err, errRevisionLimit):
		return chargeInvalid.because("A cobrança já foi alterada vezes demais.")
	}
	return err
}

// getCharge tells a charge, or one of its earlier revisions.
func (a *acquirer) getCharge(r *http.Request) (httpkit.Answer, error) {
	v, latest, err := a.books.findCharge(a.number, r.PathValue("txid"))
	if err != nil {
		return httpkit.Answer{}, chargeProblem(err)
	}
	text := r.URL.Query().Get("revisao")
	if text == "" {
		return a.answerCharge(http.StatusOK, v, latest)
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		var broken violations
		broken.schema("revisao", text)
		return httpkit.Answer{}, chargeQuery.because("A revisão não é um número.", broken...)
	}
	old, err := a.books.readRevision(latest, n)
	if err != nil {
		return httpkit.Answer{}, chargeProblem(err)
	}
	if old != latest {
		v.status, v.payments = old.Status, nil
	}
	return a.answerCharge(http.StatusOK, v, old)
}

// The shapes in which the API tells a charge.
type (
	calendarJSON struct {
		Created   string `json:"criacao"`
		Presented string `json:"apresentacao,omitempty"` // in a location's payload only
		Expires   int32  `json:"expiracao"`
	}
	valueJSON struct {
		Original string `json:"original"`
		Flexible int    `json:"modalidadeAlteracao,omitempty"`
	}
	locJSON struct {
		ID       int64  `json:"id"`
		Location string `json:"location"`
		Kind     string `json:"tipoCob"`
		Created  string `json:"criacao"`
	}
	chargeJSON struct {
		Calendar  calendarJSON  `json:"calendario"`
		TxID      string        `json:"txid"`
		Revision  uint16        `json:"revisao"`
		Loc       *locJSON      `json:"loc,omitempty"`
		Location  string        `json:"location,omitempty"`
		Status    string        `json:"status"`
		Debtor    *debtor       `json:"devedor,omitempty"`
		Value     valueJSON     `json:"valor"`
		Key       string        `json:"chave"`
		Request   string        `json:"solicitacaoPagador,omitempty"`
		Info      []infoItem    `json:"infoAdicionais,omitempty"`
		CopyPaste string        `json:"pixCopiaECola,omitempty"`
		Payments  []paymentJSON `json:"pix,omitempty"`
	}
)

func (a *acquirer) answerCharge(status int, v chargeView, r *chargeRecord) (httpkit.Answer, error) {
	c, err := a.chargeJSON(v, r)
	if err != nil {
		return httpkit.Answer{}, err
	}
	text := c.AppendJSON(make([]byte, 0, chargeBytesUsual))
	return httpkit.Answer{Status: status, Raw: append(text, '\n'), Header: jsonHeader}, nil
}

// chargeBytesUsual is what a charge usually takes as JSON, so that room is made once.
const chargeBytesUsual = 1024

var jsonHeader = http.Header{"Content-Type": {"application/json; charset=utf-8"}}

// AppendJSON writes the charge as encoding/json would.
func (c *chargeJSON) AppendJSON(to []byte) []byte {
	to = plainjson.AppendMember(to, `{"calendario":{"criacao":`, c.Calendar.Created)
	to = plainjson.AppendOptional(to, `,"apresentacao":`, c.Calendar.Presented)
	to = plainjson.AppendNumber(to, `,"expiracao":`, c.Calendar.Expires)
	to = plainjson.AppendMember(to, `},"txid":`, c.TxID)
	to = plainjson.AppendNumber(to, `,"revisao":`, c.Revision)
	if c.Loc != nil {
		to = plainjson.AppendNumber(to, `,"loc":{"id":`, c.Loc.ID)
		to = plainjson.AppendMember(to, `,"location":`, c.Loc.Location)
		to = plainjson.AppendMember(to, `,"tipoCob":`, c.Loc.Kind)
		to = plainjson.AppendMember(to, `,"criacao":`, c.Loc.Created)
		to = append(to, '}')
	}
	to = plainjson.AppendOptional(to, `,"location":`, c.Location)
	to = plainjson.AppendMember(to, `,"status":`, c.Status)
	if c.Debtor != nil {
		to = c.Debtor.AppendJSON(append(to, `,"devedor":`...))
	}
	to = plainjson.AppendMember(to, `,"valor":{"original":`, c.Value.Original)
	if c.Value.Flexible != 0 {
		to = plainjson.AppendNumber(to, `,"modalidadeAlteracao":`, c.Value.Flexible)
	}
	to = plainjson.AppendMember(to, `},"chave":`, c.Key)
	to = plainjson.AppendOptional(to, `,"solicitacaoPagador":`, c.Request)
	to = plainjson.AppendList(to, `,"infoAdicionais":`, c.Info, (*infoItem).AppendJSON)
	to = plainjson.AppendOptional(to, `,"pixCopiaECola":`, c.CopyPaste)
	to = plainjson.AppendList(to, `,"pix":`, c.Payments, (*paymentJSON).AppendJSON)
	return append(to, '}')
}

// chargeJSON tells a charge to its receiver.
func (a *acquirer) chargeJSON(v chargeView, r *chargeRecord) (chargeJSON, error) {
	c := a.chargeBody(v, r)
	c.Location = a.location(v.place)
	c.Loc = &locJSON{ID: locID(v.place), Location: c.Location, Kind: "cob", Created: c.Calendar.Created}
	var err error
	if c.CopyPaste, err = a.copyPaste(c.Location); err != nil {
		return chargeJSON{}, err
	}
	for _, p := range v.payments {
		told, err := a.paymentJSON(p)
		if err != nil {
			return chargeJSON{}, err
		}
		c.Payments = append(c.Payments, *told)
	}
	return c, nil
}

// chargeBody is what receiver and payer both are told.
func (a *acquirer) chargeBody(v chargeView, r *chargeRecord) chargeJSON {
	c := chargeJSON{
		Calendar: calendarJSON{Created: timeText(v.created), Expires: r.Expires},
		TxID:     r.TxID,
		Revision: r.Revision,
		Status:   v.status.String(),
		Debtor:   r.Debtor,
		Value:    valueJSON{Original: r.amount().String()},
		Key:      a.identity.Key,
		Request:  r.Request,
		Info:     r.Info,
	}
	if r.Flexible {
		c.Value.Flexible = 1
	}
	return c
}

// locID is the number of the location of the charge at a place.
func locID(place uint32) int64 { return int64(place) + 1 }

// timeText writes a moment in milliseconds as the API has it, such as 2026-11-15T12:00:00.000Z.
func timeText(milli int64) string {
	t := time.UnixMilli(milli).UTC()
	// A layout that package time knows by heart is written much faster than one of our own.
	b := t.AppendFormat(make([]byte, 0, len(time.RFC3339)), time.RFC3339)
	b[len(b)-1] = '.' // instead of Z
	n := t.Nanosecond() / int(time.Millisecond)
	return string(append(b, byte('0'+n/100), byte('0'+n/10%10), byte('0'+n%10), 'Z'))
}

// Who is paid, as payers see it.
const (
	receiverNameHead = "Ponte Simulador "
	receiverCity     = "SAO PAULO"
)

// copyPaste returns the code that pays the charge at a location.
func (a *acquirer) copyPaste(location string) (string, error) {
	return pix.BRCode{URL: location, Name: a.receiver, City: receiverCity}.Encode()
}
