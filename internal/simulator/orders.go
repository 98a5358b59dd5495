package simulator

import (
	"errors"
	"net/http"
	"strings"

	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/httpkit"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/pix"
)

// copyPasteMax is the longest copy-and-paste code in characters.
const copyPasteMax = 512

// order is a payer's wish to pay: by copy-and-paste code or by txid.
type order struct {
	copyPaste string
	txid      string
	acquirer  string       // whose charge, for a txid that both have; empty means the one that was created last
	amount    money.BRL    // 0 means the charge's
	name      string       // of the payer; empty means somebody
	document  pix.Document // of the payer; empty means somebody's
	silent    bool         // the notification gets lost
}

// bill is what a payer sees of what is to be paid.
type bill struct {
	acquirer int
	txid     string    // empty for none
	amount   money.BRL // 0 means that the payer chooses
	charge   *chargeView
}

// pay lets a payer pay.
func (s *Simulator) pay(o order) (paymentView, error) {
	b, err := s.find(o)
	if err != nil {
		return paymentView{}, err
	}
	t := transfer{acquirer: b.acquirer, txid: b.txid, amount: o.amount, name: o.name, document: o.document}
	if t.amount == 0 {
		t.amount = b.amount
	}
	if t.amount == 0 {
		return paymentView{}, invalid("amount", "is required, because the code has none")
	}
	if t.name == "" {
		t.name = payerName
	}
	if t.document == "" {
		t.document = payerDocument
	}
	v, err := s.books.pay(t)
	if err != nil {
		return paymentView{}, errorOf(err)
	}
	if !o.silent {
		s.acquirers[v.acquirer].notify(v)
	}
	return v, nil
}

func invalid(path, message string) error {
	return &fault.Error{Kind: fault.Invalid, Public: "some fields are not valid", Issues: []fault.Issue{{Path: path, Message: message}}}
}

// find returns what an order is to pay.
func (s *Simulator) find(o order) (bill, error) {
	if o.copyPaste != "" {
		return s.readCode(o.copyPaste)
	}
	v, err := s.findCharge(o.txid, o.acquirer)
	if err != nil {
		return bill{}, errorOf(err)
	}
	return billOf(v), nil
}

func billOf(v chargeView) bill {
	return bill{acquirer: v.acquirer, txid: v.txID.String(), amount: v.amount, charge: &v}
}

// findCharge returns a charge by its txid. When both acquirers have one, and no name says which is meant, it is the one
// that was created last: that is the one that a receiver who tried both has shown.
func (s *Simulator) findCharge(txid, name string) (chargeView, error) {
	var found *chargeView
	for _, a := range s.acquirers {
		if name != "" && name != a.name {
			continue
		}
		v, err := s.books.chargeByTxID(a.number, txid)
		if err == nil && (found == nil || v.created >= found.created) {
			found = &v
		}
	}
	if found == nil {
		return chargeView{}, errNoCharge
	}
	return *found, nil
}

// readCode returns what a copy-and-paste code is to pay.
func (s *Simulator) readCode(text string) (bill, error) {
	code, err := pix.ParseBRCode(text)
	if err != nil {
		return bill{}, invalid("copy_paste", "must be a Pix copy-and-paste code: "+strings.TrimPrefix(err.Error(), "pix: "))
	}
	if code.IsDynamic() {
		// The host can be one of before a restart.
		_, token, ok := strings.Cut(code.URL, locationPath)
		v, err := s.books.chargeByToken(token)
		if !ok || err != nil {
			return bill{}, errorOf(errNoCharge)
		}
		return billOf(v), nil
	}
	for _, a := range s.acquirers {
		if a.identity.Key == code.Key.Value {
			return bill{acquirer: a.number, txid: code.TxID, amount: money.BRL(code.Amount)}, nil
		}
	}
	return bill{}, &fault.Error{Kind: fault.NotFound, Public: "the code's key belongs to no acquirer here", Cause: errNoCharge}
}

// giveBack lets the acquirer return money; an amount of 0 means all that is left.
func (s *Simulator) giveBack(e2e string, amount money.BRL) (paymentView, error) {
	for _, a := range s.acquirers {
		v, err := a.refund(restitution{acquirer: a.number, e2e: e2e, amount: amount})
		if !errors.Is(err, errNoPayment) {
			return v, errorOf(err)
		}
	}
	return paymentView{}, errorOf(errNoPayment)
}

// remove lets the acquirer take an active charge back.
func (s *Simulator) remove(txid, name string) (chargeView, error) {
	found, err := s.findCharge(txid, name)
	if err != nil {
		return chargeView{}, errorOf(err)
	}
	v, _, err := s.books.changeCharge(found.acquirer, txid, func(_ *chargeView, r *chargeRecord) (bool, error) {
		r.Status = chargeRemovedByBank
		return false, nil
	})
	return v, errorOf(err)
}

// payerNameMax is the longest name in characters.
const payerNameMax = 140

// Who pays when nobody says.
const (
	payerName     = "Maria da Simulação"
	payerDocument = pix.Document("52998224725")
)

func (s *Simulator) controlPay(r *http.Request) (httpkit.Answer, error) {
	f, body, err := readFields(r)
	if err != nil {
		return httpkit.Answer{}, err
	}
	o := order{
		copyPaste: f.String("copy_paste", httpkit.StringRule{Min: 1, Max: copyPasteMax}).Value,
		txid:      f.String("txid", httpkit.StringRule{Min: 1}).Value,
		acquirer:  f.String("acquirer", httpkit.StringRule{OneOf: acquirerNames[:]}).Value,
		amount:    amountField(f),
		name:      f.String("payer_name", httpkit.StringRule{Min: 1, Max: payerNameMax}).Value,
		silent:    !flagField(f, body, "callback", true),
	}
	switch hasCode, hasTxID := f.Has("copy_paste"), f.Has("txid"); {
	case hasCode && hasTxID:
		f.Issue("txid", "must not stand beside copy_paste")
	case !hasCode && !hasTxID:
		f.Issue("copy_paste", "is required, or txid instead of it")
	}
	if document := f.String("payer_document", httpkit.StringRule{Min: 1}); document.Present {
		if o.document, err = pix.ParseDocument(document.Value); err != nil {
			f.Issue("payer_document", err.Error())
		}
	}
	if err := f.Err(); err != nil {
		return httpkit.Answer{}, err
	}
	v, err := s.pay(o)
	if err != nil {
		return httpkit.Answer{}, err
	}
	return httpkit.Answer{Body: struct {
		EndToEndID string `json:"end_to_end_id"`
	}{v.endToEndID.String()}}, nil
}

func (s *Simulator) controlRefund(r *http.Request) (httpkit.Answer, error) {
	f, _, err := readFields(r)
	if err != nil {
		return httpkit.Answer{}, err
	}
	e2e := f.String("end_to_end_id", httpkit.StringRule{Required: true}).Value
	amount := amountField(f)
	if err := f.Err(); err != nil {
		return httpkit.Answer{}, err
	}
	v, err := s.giveBack(e2e, amount)
	if err != nil {
		return httpkit.Answer{}, err
	}
	last := v.refunds[len(v.refunds)-1]
	return httpkit.Answer{Body: struct {
		EndToEndID string `json:"end_to_end_id"`
		ReturnID   string `json:"return_id"`
		Amount     string `json:"amount"`
	}{e2e, last.returnID.String(), last.amount.String()}}, nil
}

func (s *Simulator) controlRemove(r *http.Request) (httpkit.Answer, error) {
	f, _, err := readFields(r)
	if err != nil {
		return httpkit.Answer{}, err
	}
	txid := f.String("txid", httpkit.StringRule{Required: true}).Value
	name := f.String("acquirer", httpkit.StringRule{OneOf: acquirerNames[:]}).Value
	if err := f.Err(); err != nil {
		return httpkit.Answer{}, err
	}
	v, err := s.remove(txid, name)
	if err != nil {
		return httpkit.Answer{}, err
	}
	return httpkit.Answer{Body: struct {
		Acquirer string `json:"acquirer"`
		TxID     string `json:"txid"`
		Status   string `json:"status"`
	}{acquirerNames[v.acquirer], txid, v.status.String()}}, nil
}
