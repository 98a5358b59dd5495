package simulator

import (
	"errors"
	"fmt"

	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/pix"
)

// payoutStatus is what an acquirer says about a payout.
type payoutStatus uint8

const (
	payoutProcessing payoutStatus = iota // taken: its money is set aside, and has not left
	payoutSettled                        // the money has left
	payoutFailed                         // the money is back in the balance, and will not leave
)

var payoutStatusNames = [...]string{
	payoutProcessing: "EM_PROCESSAMENTO",
	payoutSettled:    "REALIZADO",
	payoutFailed:     "NAO_REALIZADO",
}

func (s payoutStatus) String() string { return payoutStatusNames[s] }

// payout is money that somebody wants to be sent.
type payout struct {
	id         txID // whose rule it shares
	endToEndID endToEndID
	key        string // the recipient's
	amount     money.BRL
	created    int64 // in milliseconds
	ended      int64 // when it was settled or failed, in milliseconds; 0 for neither
	recordAt   int64 // of its record
	recordSize int32 // of its record
	status     payoutStatus
	executions uint8 // how often the money left
	hasText    bool  // its record has something for the recipient
}

// payoutRecord is a payout that was taken.
type payoutRecord struct {
	Acquirer   int    `json:"acquirer"`
	ID         string `json:"id"`
	EndToEndID string `json:"end_to_end_id"`
	Key        string `json:"key"`
	Document   string `json:"document,omitempty"` // that the key must belong to; empty for anybody's
	Text       string `json:"text,omitempty"`     // for the recipient
	Centavos   int64  `json:"centavos"`
	At         int64  `json:"at"` // in milliseconds
}

// payoutEndRecord is the end of a payout.
type payoutEndRecord struct {
	Acquirer int          `json:"acquirer"`
	ID       string       `json:"id"`
	Status   payoutStatus `json:"status"`
	Code     string       `json:"code,omitempty"`   // why it failed
	Reason   string       `json:"reason,omitempty"` // the same in words
	At       int64        `json:"at"`               // in milliseconds
}

// payoutReturnRecord is money of a payout that came back.
type payoutReturnRecord struct {
	Acquirer int    `json:"acquirer"`
	ID       string `json:"id"` // of the payout
	ReturnID string `json:"return_id"`
	Centavos int64  `json:"centavos"`
	At       int64  `json:"at"` // in milliseconds
}

// payoutFailure is why a payout failed.
type payoutFailure struct{ code, reason string }

// payoutBook is the part of a book that is about payouts.
type payoutBook struct {
	payouts  slab[payout]
	byID     map[txID]uint32
	bySent   map[endToEndID]uint32
	failures map[uint32]payoutFailure // by the place of their payout
	returns  map[uint32][]refund      // by the place of their payout
	waiting  uint32                   // the first place whose payout may not have ended
}

func newPayoutBook() payoutBook {
	return payoutBook{
		byID: map[txID]uint32{}, bySent: map[endToEndID]uint32{}, failures: map[uint32]payoutFailure{}, returns: map[uint32][]refund{},
	}
}

// addPayout sets money aside.
func (k *book) addPayout(where extent, r *payoutRecord) error {
	p := payout{
		id: toTxID(r.ID), endToEndID: toEndToEndID(r.EndToEndID), key: r.Key, amount: money.BRL(r.Centavos), created: r.At,
		recordAt: where.at, recordSize: where.size, hasText: r.Text != "",
	}
	_, found := k.byID[p.id]
	if found || p.id.String() != r.ID || p.endToEndID.String() != r.EndToEndID {
		return fmt.Errorf("payout %q: not an id, or used before", r.ID)
	}
	place := k.payouts.add(p)
	k.byID[p.id], k.bySent[p.endToEndID] = place, place
	k.balance -= p.amount
	return nil
}

// endPayout lets the money leave, or gives it back to the balance.
func (k *book) endPayout(r *payoutEndRecord) error {
	place, found := k.byID[toTxID(r.ID)]
	if !found || r.Status == payoutProcessing || int(r.Status) >= len(payoutStatusNames) {
		return fmt.Errorf("payout %q, status %d: not the end of a payout", r.ID, r.Status)
	}
	p := k.payouts.at(place)
	p.status, p.ended = r.Status, r.At
	if r.Status == payoutSettled {
		p.executions++
		return nil
	}
	k.failures[place] = payoutFailure{r.Code, r.Reason}
	k.balance += p.amount
	return nil
}

// returnPayout takes money back in.
func (k *book) returnPayout(r *payoutReturnRecord) error {
	place, found := k.byID[toTxID(r.ID)]
	if !found {
		return fmt.Errorf("return of %q: no such payout", r.ID)
	}
	amount := money.BRL(r.Centavos)
	k.returns[place] = append(k.returns[place], refund{id: r.ReturnID, returnID: toEndToEndID(r.ReturnID), amount: amount, at: r.At})
	k.balance += amount
	return nil
}

// payoutView is a payout as it stood at one moment.
type payoutView struct {
	payout
	acquirer int
	place    uint32
	failure  payoutFailure // empty unless it failed
	returns  []refund
}

// left returns what did not come back.
func (v *payoutView) left() money.BRL {
	left := v.amount
	for _, r := range v.returns {
		left -= r.amount
	}
	return left
}

func (v *payoutView) record() extent { return extent{v.recordAt, v.recordSize} }

// viewPayout returns the payout at a place. The caller holds the books' lock.
func (b *books) viewPayout(acquirer int, place uint32) payoutView {
	k := b.book[acquirer]
	return payoutView{payout: *k.payouts.at(place), acquirer: acquirer, place: place, failure: k.failures[place], returns: k.returns[place]}
}

// Why a payout is not taken or does not change.
var (
	errPayoutExists    = errors.New("simulator: there is a payout with this id")
	errNoFunds         = errors.New("simulator: not enough money for the payout")
	errNoPayout        = errors.New("simulator: no such payout")
	errPayoutEnded     = errors.New("simulator: the payout has been settled or has failed")
	errPayoutUnsettled = errors.New("simulator: the payout has not been settled")
	errReturnTooMuch   = errors.New("simulator: more than what is left of the payout")
)

// send takes a payout. It fails with errPayoutExists, whatever else is wrong, or errNoFunds.
func (b *books) send(r *payoutRecord) (payoutView, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.book[r.Acquirer]
	if _, found := k.byID[toTxID(r.ID)]; found {
		return payoutView{}, errPayoutExists
	}
	if money.BRL(r.Centavos) > k.balance {
		return payoutView{}, errNoFunds
	}
	r.At = b.now()
	var err error
	if r.EndToEndID, err = b.newEndToEndID(pix.EndToEndPix, acquirerISPB[r.Acquirer], r.At); err != nil {
		return payoutView{}, err
	}
	if err := b.write(&record{Payout: r}); err != nil {
		return payoutView{}, err
	}
	return b.viewPayout(r.Acquirer, k.payouts.count-1), nil
}

// payoutByID returns a payout by the id that its sender chose. It fails with errNoPayout.
func (b *books) payoutByID(acquirer int, id string) (payoutView, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	place, found := b.book[acquirer].byID[toTxID(id)]
	if !found {
		return payoutView{}, errNoPayout
	}
	return b.viewPayout(acquirer, place), nil
}

// payoutByEndToEnd returns a payout by its end-to-end id. It fails with errNoPayout.
func (b *books) payoutByEndToEnd(acquirer int, e2e string) (payoutView, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	place, found := b.book[acquirer].bySent[toEndToEndID(e2e)]
	if !found {
		return payoutView{}, errNoPayout
	}
	return b.viewPayout(acquirer, place), nil
}

// readPayout reads a payout's record.
func (b *books) readPayout(where extent) (*payoutRecord, error) {
	r, err := b.journal.read(where)
	switch {
	case err != nil:
		return nil, err
	case r.Payout == nil:
		return nil, fmt.Errorf("simulator: no payout at byte %d", where.at)
	}
	return r.Payout, nil
}

// payoutsWithin returns the payouts that were asked for in a window of time and match.
func (b *books) payoutsWithin(acquirer int, from, to int64, matches func(*payout) bool) []payoutView {
	b.mu.Lock()
	defer b.mu.Unlock()
	payouts := &b.book[acquirer].payouts
	var found []payoutView
	for place := payouts.search(func(p *payout) bool { return p.created >= from }); place < payouts.count; place++ {
		p := payouts.at(place)
		if p.created > to {
			break
		}
		if matches(p) {
			found = append(found, b.viewPayout(acquirer, place))
		}
	}
	return found
}

// settle lets the money of a payout leave. It fails with errNoPayout or errPayoutEnded.
func (b *books) settle(acquirer int, id string) (payoutView, error) {
	return b.end(&payoutEndRecord{Acquirer: acquirer, ID: id, Status: payoutSettled})
}

// fail gives the money of a payout back to the balance. It fails with errNoPayout or errPayoutEnded.
func (b *books) fail(acquirer int, id string, why payoutFailure) (payoutView, error) {
	return b.end(&payoutEndRecord{Acquirer: acquirer, ID: id, Status: payoutFailed, Code: why.code, Reason: why.reason})
}

func (b *books) end(r *payoutEndRecord) (payoutView, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.book[r.Acquirer]
	place, found := k.byID[toTxID(r.ID)]
	switch {
	case !found:
		return payoutView{}, errNoPayout
	case k.payouts.at(place).status != payoutProcessing:
		return payoutView{}, errPayoutEnded
	}
	r.At = b.now()
	if err := b.write(&record{PayoutEnd: r}); err != nil {
		return payoutView{}, err
	}
	return b.viewPayout(r.Acquirer, place), nil
}

// due returns the id of the payout that has waited longest, if it was asked for at that moment or before.
func (b *books) due(acquirer int, at int64) (id string, found bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.book[acquirer]
	for ; k.waiting < k.payouts.count; k.waiting++ {
		if p := k.payouts.at(k.waiting); p.status == payoutProcessing {
			return p.id.String(), p.created <= at
		}
	}
	return "", false
}

// bringBack returns money of a payout that was settled; an amount of 0 means all that is left. It fails with errNoPayout,
// errPayoutUnsettled or errReturnTooMuch.
func (b *books) bringBack(acquirer int, id string, amount money.BRL) (payoutView, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	place, found := b.book[acquirer].byID[toTxID(id)]
	if !found {
		return payoutView{}, errNoPayout
	}
	v := b.viewPayout(acquirer, place)
	if v.status != payoutSettled {
		return payoutView{}, errPayoutUnsettled
	}
	if amount == 0 {
		amount = v.left()
	}
	if amount == 0 || amount > v.left() {
		return payoutView{}, errReturnTooMuch
	}
	now := b.now()
	returnID, err := b.newEndToEndID(pix.EndToEndReturn, payerISPB, now)
	if err != nil {
		return payoutView{}, err
	}
	err = b.write(&record{PayoutReturn: &payoutReturnRecord{Acquirer: acquirer, ID: id, ReturnID: returnID, Centavos: int64(amount), At: now}})
	if err != nil {
		return payoutView{}, err
	}
	return b.viewPayout(acquirer, place), nil
}
