package bcb

import (
	"bytes"
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/acquirer/lenient"
	"github.com/ponte-pay/ponte/internal/pix"
)

type (
	text         = lenient.Text
	moment       = lenient.Moment
	many[T any]  = lenient.Many[T]
	loose[T any] = lenient.Loose[T]
)

// cob is an immediate charge (cobrança imediata).
type cob struct {
	TxID     text `json:"txid"`
	Calendar loose[struct {
		CreatedAt moment `json:"criacao"`
		Seconds   text   `json:"expiracao"`
	}] `json:"calendario"`
	Value loose[struct {
		Original text `json:"original"`
	}] `json:"valor"`
	Key      text `json:"chave"`
	Status   text `json:"status"`
	Location text `json:"location"`
	Loc      loose[struct {
		Location text `json:"location"`
	}] `json:"loc"`
	CopyPaste text                 `json:"pixCopiaECola"`
	Pix       many[loose[payment]] `json:"pix"`
}

// charge returns what c says, or false when it makes no sense.
func (c cob) charge() (acquirer.Charge, bool) {
	amount, ok := c.Value.Value.Original.Amount()
	if !ok || !pix.IsTxID(string(c.TxID)) || c.Key == "" {
		return acquirer.Charge{}, false
	}
	charge := acquirer.Charge{
		TxID: string(c.TxID), Status: chargeStatus(string(c.Status)), Amount: amount, Key: string(c.Key),
		CopyPaste: string(c.CopyPaste), Location: withoutScheme(string(c.Location)), CreatedAt: c.Calendar.Value.CreatedAt.Time,
	}
	if charge.Location == "" {
		charge.Location = withoutScheme(string(c.Loc.Value.Location))
	}
	if seconds, err := strconv.ParseInt(string(c.Calendar.Value.Seconds), 10, 32); err == nil && !charge.CreatedAt.IsZero() {
		charge.ExpiresAt = charge.CreatedAt.Add(time.Duration(seconds) * time.Second)
	}
	for _, p := range c.Pix {
		paid, ok := p.Value.payment()
		if !ok {
			return acquirer.Charge{}, false // a charge that hides a payment would look unpaid
		}
		charge.Payments = append(charge.Payments, paid)
	}
	return charge, true
}

func withoutScheme(location string) string {
	_, rest, found := strings.Cut(location, "://")
	if !found {
		return location
	}
	return rest
}

// chargeStatus reads the standard's words, which once are spelled REMOVIDO.
func chargeStatus(s string) acquirer.ChargeStatus {
	switch strings.ToUpper(s) {
	case "ATIVA":
		return acquirer.ChargeActive
	case "CONCLUIDA":
		return acquirer.ChargePaid
	case statusRemoved, "REMOVIDO_PELO_USUARIO_RECEBEDOR":
		return acquirer.ChargeRemoved
	case "REMOVIDA_PELO_PSP", "REMOVIDO_PELO_PSP":
		return acquirer.ChargeRemovedByAcquirer
	default:
		return acquirer.ChargeUnknown
	}
}

const statusRemoved = "REMOVIDA_PELO_USUARIO_RECEBEDOR"

// payment is a Pix that came in.
type payment struct {
	EndToEndID text                `json:"endToEndId"`
	TxID       text                `json:"txid"`
	Value      text                `json:"valor"`
	Key        text                `json:"chave"`
	At         moment              `json:"horario"`
	Payer      loose[payer]        `json:"pagador"` // of older versions
	Refunds    many[loose[Refund]] `json:"devolucoes"`
	Extras     loose[struct {
		Payer loose[payer] `json:"pagador"`
	}] `json:"gnExtras"` // Efí's
}

type payer struct {
	Name text `json:"nome"`
	CPF  text `json:"cpf"`
	CNPJ text `json:"cnpj"`
}

// payment returns what p says, or false when it makes no sense.
func (p payment) payment() (acquirer.Payment, bool) {
	amount, ok := p.Value.Amount()
	if !ok || amount == 0 || !pix.IsEndToEndID(string(p.EndToEndID)) {
		return acquirer.Payment{}, false
	}
	from := p.Payer.Value
	if from == (payer{}) {
		from = p.Extras.Value.Payer.Value
	}
	paid := acquirer.Payment{
		EndToEndID: string(p.EndToEndID), TxID: string(p.TxID), Amount: amount, Key: string(p.Key), PaidAt: p.At.Time,
		PayerName: string(from.Name), PayerDocument: string(cmp.Or(from.CPF, from.CNPJ)),
	}
	if !pix.IsTxID(paid.TxID) {
		paid.TxID = "" // such as ***, which means none
	}
	for _, r := range p.Refunds {
		back, ok := r.Value.Refund()
		if !ok {
			return acquirer.Payment{}, false // without it the payment would look whole
		}
		paid.Refunds = append(paid.Refunds, back)
	}
	return paid, true
}

// Refund is a return of a Pix (devolução) as acquirers write it. It is for drivers that add to this one.
type Refund struct {
	ID       text  `json:"id"`
	ReturnID text  `json:"rtrId"`
	Value    text  `json:"valor"`
	Status   text  `json:"status"`
	Nature   text  `json:"natureza"`
	At       times `json:"horario"`
}

// natureInfraction is how all natures of returns for infractions begin.
const natureInfraction = "MED_"

// times are when a refund was asked for and settled, or only one moment.
type times struct {
	Asked   moment `json:"solicitacao"`
	Settled moment `json:"liquidacao"`
}

// UnmarshalJSON never fails.
func (t *times) UnmarshalJSON(b []byte) error {
	*t = times{}
	if bytes.HasPrefix(b, []byte(`"`)) {
		return t.Settled.UnmarshalJSON(b)
	}
	type plain times
	var both loose[plain]
	_ = both.UnmarshalJSON(b) // as told there
	*t = times(both.Value)
	return nil
}

// Refund returns what r says, or false when it makes no sense.
func (r Refund) Refund() (acquirer.Refund, bool) {
	amount, ok := r.Value.Amount()
	name := cmp.Or(r.ID, r.ReturnID)
	if !ok || name == "" {
		return acquirer.Refund{}, false
	}
	back := acquirer.Refund{
		ID: string(name), ReturnID: string(r.ReturnID), Amount: amount, Status: refundStatus(string(r.Status)), At: r.At.Settled.Time,
		ForInfraction: strings.HasPrefix(strings.ToUpper(string(r.Nature)), natureInfraction),
	}
	if back.At.IsZero() {
		back.At = r.At.Asked.Time
	}
	return back, true
}

func refundStatus(s string) acquirer.RefundStatus {
	switch strings.ToUpper(s) {
	case "EM_PROCESSAMENTO":
		return acquirer.RefundProcessing
	case "DEVOLVIDO":
		return acquirer.RefundDone
	case "NAO_REALIZADO":
		return acquirer.RefundFailed
	default:
		return acquirer.RefundUnknown
	}
}

// paymentList is a page of payments.
type paymentList struct {
	Parameters Parameters       `json:"parametros"` //nolint:misspell // Portuguese
	Pix        []loose[payment] `json:"pix"`
}

// page returns what l says about the page with that number, or false when it is no list.
func (l paymentList) page(number int) (acquirer.Page, bool) {
	if l.Pix == nil && !l.Parameters.OK { // an empty list may be null
		return acquirer.Page{}, false
	}
	p := acquirer.Page{Next: l.Parameters.Next(number, len(l.Pix))}
	for _, entry := range l.Pix {
		paid, ok := entry.Value.payment()
		if !ok {
			p.Unreadable++
			continue
		}
		p.Payments = append(p.Payments, paid)
	}
	return p, true
}
