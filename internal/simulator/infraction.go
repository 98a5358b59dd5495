package simulator

import (
	"errors"
	"fmt"
	"time"

	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/pix"
)

// infractionStatus is what an acquirer says about an infraction.
type infractionStatus uint8

const (
	infractionOpen      infractionStatus = iota // waits for a defense
	infractionDefended                          // a defense was handed in
	infractionAccepted                          // the claim holds: the money went back
	infractionRejected                          // the claim does not hold
	infractionCancelled                         // it was withdrawn
)

var infractionStatusNames = [...]string{
	infractionOpen:      "ABERTA",
	infractionDefended:  "EM_DEFESA",
	infractionAccepted:  "ACEITA",
	infractionRejected:  "REJEITADA",
	infractionCancelled: "CANCELADA_EFI",
}

func (s infractionStatus) String() string { return infractionStatusNames[s] }

// isClosed reports whether nothing more can become of it.
func (s infractionStatus) isClosed() bool { return s >= infractionAccepted }

// defenseTimeMax is how long after it was opened an infraction can be defended, its last moment included.
const defenseTimeMax = 7 * 24 * time.Hour

// infraction is a claim that a payment was fraud.
type infraction struct {
	id         string
	endToEndID string // of the payment
	amount     money.BRL
	situation  string
	reason     string
	status     infractionStatus
	opened     int64  // in milliseconds
	changed    int64  // in milliseconds
	defended   int64  // in milliseconds; 0 for never
	defense    string // empty for none
}

// infractionRecord is an infraction that was opened.
type infractionRecord struct {
	Acquirer   int    `json:"acquirer"`
	ID         string `json:"id"`
	EndToEndID string `json:"end_to_end_id"`
	Centavos   int64  `json:"centavos"`
	Situation  string `json:"situation"`
	Reason     string `json:"reason"`
	At         int64  `json:"at"` // in milliseconds
}

// defenseRecord is a defense that was handed in.
type defenseRecord struct {
	Acquirer int    `json:"acquirer"`
	ID       string `json:"id"` // of the infraction
	Text     string `json:"text"`
	At       int64  `json:"at"` // in milliseconds
}

// verdictRecord is the end of an infraction, with the return that comes of it: both happen or neither does.
type verdictRecord struct {
	Acquirer int              `json:"acquirer"`
	ID       string           `json:"id"` // of the infraction
	Status   infractionStatus `json:"status"`
	At       int64            `json:"at"` // in milliseconds
	Refund   *refundRecord    `json:"refund,omitempty"`
}

// infractionBook is the part of a book that is about infractions.
type infractionBook struct {
	infractions  slab[infraction]
	byInfraction map[string]uint32
}

func newInfractionBook() infractionBook { return infractionBook{byInfraction: map[string]uint32{}} }

func (k *book) addInfraction(r *infractionRecord) error {
	_, taken := k.byInfraction[r.ID]
	_, paid := k.byE2E[toEndToEndID(r.EndToEndID)]
	if taken || !paid {
		return fmt.Errorf("infraction %q: used before, or of no payment", r.ID)
	}
	k.byInfraction[r.ID] = k.infractions.add(infraction{
		id: r.ID, endToEndID: r.EndToEndID, amount: money.BRL(r.Centavos), situation: r.Situation, reason: r.Reason, opened: r.At, changed: r.At,
	})
	return nil
}

func (k *book) addDefense(r *defenseRecord) error {
	place, found := k.byInfraction[r.ID]
	if !found {
		return fmt.Errorf("defense of %q: no such infraction", r.ID)
	}
	f := k.infractions.at(place)
	f.status, f.changed, f.defended, f.defense = infractionDefended, r.At, r.At, r.Text
	return nil
}

func (k *book) addVerdict(r *verdictRecord) error {
	place, found := k.byInfraction[r.ID]
	if !found || !r.Status.isClosed() || int(r.Status) >= len(infractionStatusNames) {
		return fmt.Errorf("infraction %q, status %d: not the end of an infraction", r.ID, r.Status)
	}
	f := k.infractions.at(place)
	f.status, f.changed = r.Status, r.At
	if r.Refund == nil {
		return nil
	}
	return k.addRefund(r.Refund)
}

// claimed returns the sum of the infractions that are not closed.
func (k *book) claimed() (sum money.BRL) {
	for place := range k.infractions.count {
		if f := k.infractions.at(place); !f.status.isClosed() {
			sum += f.amount
		}
	}
	return sum
}

// infractionView is an infraction as it stood at one moment, with the payment that it is about.
type infractionView struct {
	infraction
	acquirer int
	place    uint32
	payment  paymentView
}

// viewInfraction returns the infraction at a place. The caller holds the books' lock.
func (b *books) viewInfraction(acquirer int, place uint32) infractionView {
	k := b.book[acquirer]
	f := *k.infractions.at(place)
	return infractionView{f, acquirer, place, b.viewPayment(acquirer, k.byE2E[toEndToEndID(f.endToEndID)])}
}

// Why an infraction is not opened or does not change.
var (
	errNoInfraction     = errors.New("simulator: no such infraction")
	errClaimTooMuch     = errors.New("simulator: more than the payment")
	errDefended         = errors.New("simulator: the infraction was defended before")
	errDefenseLate      = errors.New("simulator: too late for a defense")
	errInfractionClosed = errors.New("simulator: the infraction is closed")
)

// openInfraction opens an infraction; an amount of 0 means the whole payment. It fails with errNoPayment or
// errClaimTooMuch.
func (b *books) openInfraction(r *infractionRecord) (infractionView, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.book[r.Acquirer]
	place, found := k.byE2E[toEndToEndID(r.EndToEndID)]
	if !found {
		return infractionView{}, errNoPayment
	}
	amount := k.payments.at(place).amount
	if r.Centavos == 0 {
		r.Centavos = int64(amount)
	}
	if money.BRL(r.Centavos) > amount {
		return infractionView{}, errClaimTooMuch
	}
	r.ID, r.At = b.drawUUID(), b.now()
	if err := b.write(&record{Infraction: r}); err != nil {
		return infractionView{}, err
	}
	return b.viewInfraction(r.Acquirer, k.infractions.count-1), nil
}

// drawUUID returns a random UUID. The caller holds mu, or is alone.
func (b *books) drawUUID() string {
	var drawn id.ID
	b.fill(drawn[:])
	drawn[6], drawn[8] = drawn[6]&0x0f|0x40, drawn[8]&0x3f|0x80
	return drawn.UUID()
}

// defend takes a defense. It fails with errNoInfraction, errDefended, errInfractionClosed or errDefenseLate.
func (b *books) defend(r *defenseRecord) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.book[r.Acquirer]
	place, found := k.byInfraction[r.ID]
	if !found {
		return errNoInfraction
	}
	f := k.infractions.at(place)
	r.At = b.now()
	switch {
	case f.defended != 0:
		return errDefended
	case f.status.isClosed():
		return errInfractionClosed
	case r.At-f.opened > defenseTimeMax.Milliseconds():
		return errDefenseLate
	}
	return b.write(&record{Defense: r})
}

// decide closes an infraction. When it is accepted, the payer gets back what is claimed, as far as the payment has it
// left; returned reports whether it was anything. It fails with errNoInfraction or errInfractionClosed.
func (b *books) decide(acquirer int, name string, status infractionStatus) (v infractionView, returned bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.book[acquirer]
	place, found := k.byInfraction[name]
	if !found {
		return infractionView{}, false, errNoInfraction
	}
	v = b.viewInfraction(acquirer, place)
	if v.status.isClosed() {
		return infractionView{}, false, errInfractionClosed
	}
	r := &verdictRecord{Acquirer: acquirer, ID: name, Status: status, At: b.now()}
	if amount := min(v.amount, v.payment.left()); status == infractionAccepted && amount > 0 {
		returnID, err := b.newEndToEndID(pix.EndToEndReturn, acquirerISPB[acquirer], r.At)
		if err != nil {
			return infractionView{}, false, err
		}
		r.Refund = &refundRecord{
			Acquirer: acquirer, EndToEndID: v.endToEndID, ID: b.draw(16), ReturnID: returnID, Centavos: int64(amount), At: r.At, Nature: natureFraud,
		}
	}
	if err := b.write(&record{Verdict: r}); err != nil {
		return infractionView{}, false, err
	}
	return b.viewInfraction(acquirer, place), r.Refund != nil, nil
}

// infractionsWithin returns the infractions that were opened in a window of time.
func (b *books) infractionsWithin(acquirer int, from, to int64) []infractionView {
	b.mu.Lock()
	defer b.mu.Unlock()
	infractions := &b.book[acquirer].infractions
	var found []infractionView
	for place := infractions.search(func(f *infraction) bool { return f.opened >= from }); place < infractions.count; place++ {
		if infractions.at(place).opened > to {
			break
		}
		found = append(found, b.viewInfraction(acquirer, place))
	}
	return found
}
