package simulator

import (
	"errors"
	"fmt"
	"time"

	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/pix"
	"github.com/ponte-pay/ponte/internal/plainjson"
)

// The banks of this world, by numbers that no bank has.
const payerISPB = "90000099"

var acquirerISPB = [len(acquirerNames)]string{"90000001", "90000002"}

// endToEndID is the id of a Pix or of a return. The zero one is nobody's.
type endToEndID [32]byte

func toEndToEndID(s string) (e endToEndID) {
	if len(s) == len(e) {
		copy(e[:], s)
	}
	return e
}

func (e endToEndID) String() string { return string(e[:]) }

// payment is what is kept in memory of money that arrived; the rest is in its record. It has no pointers.
type payment struct {
	endToEndID endToEndID
	amount     money.BRL
	at         int64  // when, in milliseconds
	recordAt   int64  // of its record
	recordSize int32  // of its record
	charge     uint32 // its charge's place + 1; 0 for none
	next       uint32 // the place of its charge's next payment + 1; 0 for none
}

// paymentRecord is a Pix that arrived.
type paymentRecord struct {
	Acquirer   int    `json:"acquirer"`
	EndToEndID string `json:"end_to_end_id"`
	TxID       string `json:"txid,omitempty"` // the charge's, or what a static code carries; empty for none
	Centavos   int64  `json:"centavos"`
	At         int64  `json:"at"` // in milliseconds
	Name       string `json:"name"`
	Document   string `json:"document"`
}

// AppendJSON writes the record as encoding/json would.
func (r *paymentRecord) AppendJSON(to []byte) []byte {
	to = plainjson.AppendNumber(to, `{"acquirer":`, r.Acquirer)
	to = plainjson.AppendMember(to, `,"end_to_end_id":`, r.EndToEndID)
	to = plainjson.AppendOptional(to, `,"txid":`, r.TxID)
	to = plainjson.AppendNumber(to, `,"centavos":`, r.Centavos)
	to = plainjson.AppendNumber(to, `,"at":`, r.At)
	to = plainjson.AppendMember(to, `,"name":`, r.Name)
	to = plainjson.AppendMember(to, `,"document":`, r.Document)
	return append(to, '}')
}

// refund is money of a payment that went back.
type refund struct {
	id          string // chosen by who asked for it
	returnID    endToEndID
	amount      money.BRL
	at          int64 // in milliseconds
	description string
	nature      string // empty means the receiver's wish
}

// refundRecord is a return, in Portuguese devolução.
type refundRecord struct {
	Acquirer    int    `json:"acquirer"`
	EndToEndID  string `json:"end_to_end_id"` // of the payment
	ID          string `json:"id"`
	ReturnID    string `json:"return_id"`
	Centavos    int64  `json:"centavos"`
	At          int64  `json:"at"` // in milliseconds
	Description string `json:"description,omitempty"`
	Nature      string `json:"nature,omitempty"` // empty means the receiver's wish
}

// addPayment takes money in. What pays the whole of an active charge concludes it.
func (k *book) addPayment(where extent, r *paymentRecord) error {
	p := payment{
		endToEndID: toEndToEndID(r.EndToEndID), amount: money.BRL(r.Centavos), at: r.At,
		recordAt: where.at, recordSize: where.size,
	}
	if _, found := k.byE2E[p.endToEndID]; found || p.endToEndID.String() != r.EndToEndID {
		return fmt.Errorf("payment %q: not an id, or used before", r.EndToEndID)
	}
	chargePlace, found := k.byTxID[toTxID(r.TxID)]
	if found {
		p.charge = chargePlace + 1
	}
	place := k.payments.add(p)
	k.recent[place%recentMax] = r
	k.byE2E[p.endToEndID] = place
	k.balance += p.amount
	if !found {
		k.loose[place] = r.TxID
		return nil
	}
	c := k.charges.at(chargePlace)
	if c.first == 0 {
		c.first = place + 1
	} else {
		k.payments.at(c.last - 1).next = place + 1
	}
	c.last = place + 1
	if c.status == chargeActive && c.isPaidBy(p.amount) {
		c.status = chargeDone
	}
	return nil
}

// isPaidBy reports whether one payment of that amount pays the charge.
func (c *charge) isPaidBy(amount money.BRL) bool { return amount >= c.amount || c.flexible }

// addRefund gives money back.
func (k *book) addRefund(r *refundRecord) error {
	place, found := k.byE2E[toEndToEndID(r.EndToEndID)]
	if !found {
		return fmt.Errorf("refund of %q: no such payment", r.EndToEndID)
	}
	amount := money.BRL(r.Centavos)
	k.refunds[place] = append(k.refunds[place], refund{r.ID, toEndToEndID(r.ReturnID), amount, r.At, r.Description, r.Nature})
	k.balance -= amount
	return nil
}

// paymentView is a payment as it stood at one moment.
type paymentView struct {
	payment
	acquirer int
	place    uint32
	txid     string // empty for none
	refunds  []refund
	made     *paymentRecord // if it was not long ago; nil when it has to be read
}

// recentMax is how many payments' records stay in memory: a payment is told once or twice soon after it was made.
const recentMax = 4096

// left returns what was not given back.
func (v *paymentView) left() money.BRL {
	left := v.amount
	for _, r := range v.refunds {
		left -= r.amount
	}
	return left
}

func (v *paymentView) record() extent { return extent{v.recordAt, v.recordSize} }

// viewPayment returns the payment at a place. The caller holds the books' lock.
func (b *books) viewPayment(acquirer int, place uint32) paymentView {
	k := b.book[acquirer]
	// Refunds are only ever appended, so that nothing changes in the part that a view has.
	v := paymentView{payment: *k.payments.at(place), acquirer: acquirer, place: place, refunds: k.refunds[place]}
	if v.charge != 0 {
		v.txid = k.charges.at(v.charge - 1).txID.String()
	} else {
		v.txid = k.loose[place]
	}
	if k.payments.count-place <= recentMax {
		v.made = k.recent[place%recentMax]
	}
	return v
}

// Why money does not move.
var (
	errNoPayment     = errors.New("simulator: no such payment")
	errRemoved       = errors.New("simulator: the charge was removed")
	errRefundExists  = errors.New("simulator: there is a refund with this id")
	errRefundTooMuch = errors.New("simulator: more than what is left of the payment")
	errRefundLate    = errors.New("simulator: too late for a refund")
)

// refundTimeMax is how long a receiver can give a Pix back.
const refundTimeMax = 90 * 24 * time.Hour

// transfer is what a payer's bank sends.
type transfer struct {
	acquirer int
	txid     string // of a charge, or what a static code carries; empty for none
	amount   money.BRL
	name     string
	document pix.Document
}

// pay takes a payer's money in, whatever state the charge is in. Only a removed one is refused, with errRemoved.
func (b *books) pay(t transfer) (paymentView, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.book[t.acquirer]
	if place, found := k.byTxID[toTxID(t.txid)]; found && k.charges.at(place).status.isRemoved() {
		return paymentView{}, errRemoved
	}
	now := b.now()
	e2e, err := b.newEndToEndID(pix.EndToEndPix, payerISPB, now)
	if err != nil {
		return paymentView{}, err
	}
	err = b.write(&record{Payment: &paymentRecord{
		Acquirer: t.acquirer, EndToEndID: e2e, TxID: t.txid, Centavos: int64(t.amount), At: now, Name: t.name, Document: string(t.document),
	}})
	if err != nil {
		return paymentView{}, err
	}
	return b.viewPayment(t.acquirer, k.payments.count-1), nil
}

// newEndToEndID draws an id that no Pix has.
func (b *books) newEndToEndID(kind pix.EndToEndKind, ispb string, now int64) (string, error) {
	for {
		drawn, err := pix.NewEndToEndID(kind, ispb, time.UnixMilli(now), b.random)
		if err != nil {
			return "", err
		}
		e2e := drawn.String()
		taken := false
		for _, k := range b.book {
			_, received := k.byE2E[toEndToEndID(e2e)]
			_, sent := k.bySent[toEndToEndID(e2e)]
			taken = taken || received || sent
		}
		if !taken {
			return e2e, nil
		}
	}
}

// findPayment returns a payment of one acquirer. It fails with errNoPayment.
func (b *books) findPayment(acquirer int, e2e string) (paymentView, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	place, found := b.book[acquirer].byE2E[toEndToEndID(e2e)]
	if !found {
		return paymentView{}, errNoPayment
	}
	return b.viewPayment(acquirer, place), nil
}

// readPayment returns a payment's record.
func (b *books) readPayment(v *paymentView) (*paymentRecord, error) {
	if v.made != nil {
		return v.made, nil
	}
	r, err := b.journal.read(v.record())
	switch {
	case err != nil:
		return nil, err
	case r.Payment == nil:
		return nil, fmt.Errorf("simulator: no payment at byte %d", v.recordAt)
	}
	return r.Payment, nil
}

// restitution says what of a payment goes back.
type restitution struct {
	acquirer    int
	e2e         string
	id          string    // empty means that the acquirer chooses one, and that nothing is too late
	amount      money.BRL // 0 means all that is left
	description string
}

// refund gives money back. It fails with errNoPayment, errRefundExists, errRefundTooMuch or errRefundLate.
func (b *books) refund(o restitution) (paymentView, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	place, found := b.book[o.acquirer].byE2E[toEndToEndID(o.e2e)]
	if !found {
		return paymentView{}, errNoPayment
	}
	v, now := b.viewPayment(o.acquirer, place), b.now()
	if o.id != "" {
		for _, r := range v.refunds {
			if r.id == o.id {
				return paymentView{}, errRefundExists
			}
		}
		if now-v.at > refundTimeMax.Milliseconds() {
			return paymentView{}, errRefundLate
		}
	} else {
		o.id = b.draw(16)
	}
	if o.amount == 0 {
		o.amount = v.left()
	}
	if o.amount == 0 || o.amount > v.left() {
		return paymentView{}, errRefundTooMuch
	}
	returnID, err := b.newEndToEndID(pix.EndToEndReturn, acquirerISPB[o.acquirer], now)
	if err != nil {
		return paymentView{}, err
	}
	err = b.write(&record{Refund: &refundRecord{
		Acquirer: o.acquirer, EndToEndID: o.e2e, ID: o.id, ReturnID: returnID, Centavos: int64(o.amount), At: now, Description: o.description,
	}})
	if err != nil {
		return paymentView{}, err
	}
	return b.viewPayment(o.acquirer, place), nil
}
