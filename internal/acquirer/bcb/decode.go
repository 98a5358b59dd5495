package bcb

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/pix"
)

// The standard promises new fields and new words at any time, its own examples break its schemas, and acquirers differ
// in what is a number. So reading is lenient where a mistake is harmless, and strict with amounts and identifiers.

// text is a string without control characters, or a number as its digits. Everything else reads as "".
type text string

// UnmarshalJSON never fails.
func (t *text) UnmarshalJSON(b []byte) error {
	if isPlain(b) { // nearly all are, and to decode one costs ten times as much
		*t = text(bytes.TrimSpace(b[1 : len(b)-1]))
		return nil
	}
	*t = ""
	var s string
	var n json.Number
	switch {
	case json.Unmarshal(b, &s) == nil:
		*t = text(strings.TrimSpace(strings.Map(dropControl, s)))
	case json.Unmarshal(b, &n) == nil:
		*t = text(n)
	}
	return nil
}

// isPlain reports whether b is a JSON string of printable ASCII in which nothing is escaped.
func isPlain(b []byte) bool {
	if len(b) < 2 || b[0] != '"' || b[len(b)-1] != '"' {
		return false
	}
	for _, c := range b[1 : len(b)-1] {
		if c < ' ' || c > '~' || c == '\\' || c == '"' {
			return false
		}
	}
	return true
}

// dropControl drops what no database wants to keep.
func dropControl(r rune) rune {
	if unicode.IsControl(r) {
		return -1
	}
	return r
}

// moment is an RFC 3339 time. Everything else reads as no time.
type moment struct{ time.Time }

// UnmarshalJSON never fails.
func (m *moment) UnmarshalJSON(b []byte) error {
	m.Time = time.Time{}
	var s string
	if json.Unmarshal(b, &s) != nil {
		return nil //nolint:nilerr // no time, as told above
	}
	if t, err := time.Parse(time.RFC3339, strings.TrimSpace(s)); err == nil {
		m.Time = t.UTC()
	}
	return nil
}

// many is an array, or its only item.
type many[T any] []T

// UnmarshalJSON fails for what is neither: it must not read as none.
func (m *many[T]) UnmarshalJSON(b []byte) error {
	if !bytes.HasPrefix(b, []byte("{")) {
		return json.Unmarshal(b, (*[]T)(m))
	}
	*m = make(many[T], 1)
	return json.Unmarshal(b, &(*m)[0])
}

// loose is a value that may be missing or be something else altogether; then it is zero.
type loose[T any] struct {
	value T
	ok    bool
}

// UnmarshalJSON never fails.
func (l *loose[T]) UnmarshalJSON(b []byte) error {
	*l = loose[T]{}
	var v T
	if json.Unmarshal(b, &v) == nil {
		*l = loose[T]{v, true}
	}
	return nil
}

// amount reads money. Nothing that comes in is negative.
func (t text) amount() (money.BRL, bool) {
	a, err := money.ParseBRL(string(t))
	return a, err == nil && a >= 0
}

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
	amount, ok := c.Value.value.Original.amount()
	if !ok || !pix.IsTxID(string(c.TxID)) || c.Key == "" {
		return acquirer.Charge{}, false
	}
	charge := acquirer.Charge{
		TxID: string(c.TxID), Status: chargeStatus(string(c.Status)), Amount: amount, Key: string(c.Key),
		CopyPaste: string(c.CopyPaste), Location: withoutScheme(string(c.Location)), CreatedAt: c.Calendar.value.CreatedAt.Time,
	}
	if charge.Location == "" {
		charge.Location = withoutScheme(string(c.Loc.value.Location))
	}
	if seconds, err := strconv.ParseInt(string(c.Calendar.value.Seconds), 10, 32); err == nil && !charge.CreatedAt.IsZero() {
		charge.ExpiresAt = charge.CreatedAt.Add(time.Duration(seconds) * time.Second)
	}
	for _, p := range c.Pix {
		paid, ok := p.value.payment()
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
	Refunds    many[loose[refund]] `json:"devolucoes"`
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
	amount, ok := p.Value.amount()
	if !ok || amount == 0 || !pix.IsEndToEndID(string(p.EndToEndID)) {
		return acquirer.Payment{}, false
	}
	from := p.Payer.value
	if from == (payer{}) {
		from = p.Extras.value.Payer.value
	}
	paid := acquirer.Payment{
		EndToEndID: string(p.EndToEndID), TxID: string(p.TxID), Amount: amount, Key: string(p.Key), PaidAt: p.At.Time,
		PayerName: string(from.Name), PayerDocument: string(cmp.Or(from.CPF, from.CNPJ)),
	}
	if !pix.IsTxID(paid.TxID) {
		paid.TxID = "" // such as ***, which means none
	}
	for _, r := range p.Refunds {
		back, ok := r.value.refund()
		if !ok {
			return acquirer.Payment{}, false // without it the payment would look whole
		}
		paid.Refunds = append(paid.Refunds, back)
	}
	return paid, true
}

// refund is a return of a payment (devolução).
type refund struct {
	ID       text `json:"id"`
	ReturnID text `json:"rtrId"`
	Value    text `json:"valor"`
	Status   text `json:"status"`
	At       loose[struct {
		Asked   moment `json:"solicitacao"`
		Settled moment `json:"liquidacao"`
	}] `json:"horario"`
}

func (r refund) refund() (acquirer.Refund, bool) {
	amount, ok := r.Value.amount()
	name := cmp.Or(r.ID, r.ReturnID)
	if !ok || name == "" {
		return acquirer.Refund{}, false
	}
	back := acquirer.Refund{
		ID: string(name), ReturnID: string(r.ReturnID), Amount: amount, Status: refundStatus(string(r.Status)), At: r.At.value.Settled.Time,
	}
	if back.At.IsZero() {
		back.At = r.At.value.Asked.Time
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
	Parameters loose[struct {
		Paging loose[struct {
			Pages text `json:"quantidadeDePaginas"`
		}] `json:"paginacao"`
	}] `json:"parametros"` //nolint:misspell // Portuguese
	Pix []loose[payment] `json:"pix"`
}

// page returns what l says about the page with that number, or false when it is no list.
func (l paymentList) page(number int) (acquirer.Page, bool) {
	if l.Pix == nil && !l.Parameters.ok { // an empty list may be null
		return acquirer.Page{}, false
	}
	var p acquirer.Page
	for _, entry := range l.Pix {
		paid, ok := entry.value.payment()
		if !ok {
			p.Unreadable++
			continue
		}
		p.Payments = append(p.Payments, paid)
	}
	pages, err := strconv.Atoi(string(l.Parameters.value.Paging.value.Pages))
	if err != nil && len(l.Pix) >= pageItems {
		pages = number + 2 // not told: a full page may have one behind it
	}
	// An empty page is the last, whatever it says, so that no list is endless.
	if number+1 < pages && len(l.Pix) > 0 {
		p.Next = strconv.Itoa(number + 1)
	}
	return p, true
}
