package simulator

import (
	"net/http"
	"slices"
	"sort"

	"github.com/ponte-pay/ponte/internal/httpkit"
	"github.com/ponte-pay/ponte/internal/pix"
)

// listCharges tells the charges that were created in a window of time.
func (a *acquirer) listCharges(r *http.Request) (httpkit.Answer, error) {
	q := newListQuery(r)
	hasLocation := q.flag("locationPresente")
	status := q.text("status", func(s string) bool { return slices.Contains(chargeStatusNames[:], s) })
	if err := q.err(chargeQuery); err != nil {
		return httpkit.Answer{}, err
	}
	if hasLocation != nil && !*hasLocation {
		q.to = q.from - 1 // every charge has one
	}
	found := a.books.chargesWithin(a.number, q.from, q.to, func(c *charge) bool {
		return status == "" || c.status.String() == status
	})
	if q.document != "" {
		var err error
		if found, err = keep(found, func(place uint32) (bool, error) {
			_, made, err := a.readCharge(place)
			return err == nil && made.Debtor != nil && made.Debtor.CPF+made.Debtor.CNPJ == q.document, err
		}); err != nil {
			return httpkit.Answer{}, err
		}
	}
	return answerPage(q, "cobs", found, func(place uint32) (any, error) {
		v, made, err := a.readCharge(place)
		if err != nil {
			return nil, err
		}
		c, err := a.chargeJSON(v, made)
		return &c, err
	})
}

// readCharge returns the charge at a place with its record.
func (a *acquirer) readCharge(place uint32) (chargeView, *chargeRecord, error) {
	a.books.mu.Lock()
	v := a.books.view(a.number, place)
	a.books.mu.Unlock()
	made, err := a.books.readCharge(v.record())
	return v, made, err
}

// listPayments tells the Pix that arrived in a window of time.
func (a *acquirer) listPayments(r *http.Request) (httpkit.Answer, error) {
	q := newListQuery(r)
	txid := q.text("txid", pix.IsTxID)
	hasTxID, hasRefund := q.flag("txIdPresente"), q.flag("devolucaoPresente")
	if hasTxID != nil && !*hasTxID && txid != "" {
		q.broken.add("txid", "Os campos txid e txIdPresente=false não podem ser usados juntos.", txid)
	}
	if err := q.err(pixQuery); err != nil {
		return httpkit.Answer{}, err
	}
	found := a.books.paymentsWithin(a.number, q.from, q.to, txid)
	var err error
	if hasTxID != nil || hasRefund != nil || q.document != "" {
		found, err = keep(found, func(v paymentView) (bool, error) {
			if (hasTxID != nil && *hasTxID != (v.txid != "")) || (hasRefund != nil && *hasRefund != (len(v.refunds) > 0)) {
				return false, nil
			}
			if q.document == "" {
				return true, nil
			}
			made, err := a.books.readPayment(&v)
			return err == nil && made.Document == q.document, err
		})
	}
	if err != nil {
		return httpkit.Answer{}, err
	}
	return answerPage(q, "pix", found, func(v paymentView) (any, error) { return a.paymentJSON(v) })
}

// keep returns what is to be kept, in its order.
func keep[T any](all []T, isKept func(T) (bool, error)) ([]T, error) {
	kept := all[:0]
	for _, item := range all {
		ok, err := isKept(item)
		if err != nil {
			return nil, err
		}
		if ok {
			kept = append(kept, item)
		}
	}
	return kept, nil
}

// countCharges returns how many charges an acquirer has.
func (b *books) countCharges(acquirer int) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return int64(b.book[acquirer].charges.count)
}

// chargesWithin returns the places of the charges that were created in a window of time and match.
func (b *books) chargesWithin(acquirer int, from, to int64, matches func(*charge) bool) []uint32 {
	b.mu.Lock()
	defer b.mu.Unlock()
	charges := &b.book[acquirer].charges
	var found []uint32
	for place := charges.search(func(c *charge) bool { return c.created >= from }); place < charges.count; place++ {
		c := charges.at(place)
		if c.created > to {
			break
		}
		if matches(c) {
			found = append(found, place)
		}
	}
	return found
}

// paymentsWithin returns the payments that arrived in a window of time, those with a txid only if it is not empty.
func (b *books) paymentsWithin(acquirer int, from, to int64, txid string) []paymentView {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.book[acquirer]
	var found []paymentView
	if place, isCharge := k.byTxID[toTxID(txid)]; isCharge {
		for _, v := range b.view(acquirer, place).payments {
			if from <= v.at && v.at <= to {
				found = append(found, v)
			}
		}
		return found
	}
	for place := k.payments.search(func(p *payment) bool { return p.at >= from }); place < k.payments.count; place++ {
		p := k.payments.at(place)
		if p.at > to {
			break
		}
		if txid == "" || (p.charge == 0 && k.loose[place] == txid) {
			found = append(found, b.viewPayment(acquirer, place))
		}
	}
	return found
}

// search returns the first place whose thing is reached, as [sort.Search] does.
func (s *slab[T]) search(isReached func(*T) bool) uint32 {
	return uint32(sort.Search(int(s.count), func(i int) bool { return isReached(s.at(uint32(i))) }))
}
