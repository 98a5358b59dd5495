package simulator

import (
	"net/http"
	"strconv"

	"github.com/ponte-pay/ponte/internal/httpkit"
	"github.com/ponte-pay/ponte/internal/money"
)

// controlBooks tells everything: it is what tests compare with.
func (s *Simulator) controlBooks(r *http.Request) (httpkit.Answer, error) {
	q := httpkit.Query(r)
	name := q.OneOf("acquirer", acquirerNames[:]...)
	if err := q.Err(); err != nil {
		return httpkit.Answer{}, err
	}
	return httpkit.Answer{Raw: s.books.tell(name), Header: http.Header{"Content-Type": {"application/json; charset=utf-8"}, "Cache-Control": {"no-store"}}}, nil
}

// tell writes the books of one acquirer, or of both if name is empty, as JSON. They are of one moment, and there may be
// hundreds of thousands of them, so that they are written by hand: nothing in them needs an escape.
func (b *books) tell(name string) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	var balance money.BRL
	charges, payments, payouts := []byte(`{"charges":[`), []byte(`"payments":[`), []byte(`"payouts":[`)
	infractions := []byte(`"infractions":[`)
	for i, k := range b.book {
		if name != "" && name != acquirerNames[i] {
			continue
		}
		balance += k.balance
		for place := range k.charges.count {
			charges = append(k.tellCharge(separate(charges), acquirerNames[i], place), '}')
		}
		for place := range k.payments.count {
			v := b.viewPayment(i, place)
			payments = append(separate(payments), `{"acquirer":"`+acquirerNames[i]+`","end_to_end_id":"`+v.endToEndID.String()+`","txid":`+
				quoteOrNull(v.txid)+`,"amount":"`+v.amount.String()+`","returned":"`+(v.amount-v.left()).String()+`"}`...)
		}
		for place := range k.payouts.count {
			v := b.viewPayout(i, place)
			payouts = append(separate(payouts), `{"acquirer":"`+acquirerNames[i]+`","id":"`+v.id.String()+`","key":`+strconv.Quote(v.key)+
				`,"amount":"`+v.amount.String()+`","status":"`+v.status.String()+`","end_to_end_id":"`+v.endToEndID.String()+
				`","executions":`+strconv.Itoa(int(v.executions))+`,"returned":"`+(v.amount-v.left()).String()+`"}`...)
		}
		for place := range k.infractions.count {
			f := k.infractions.at(place)
			infractions = append(separate(infractions), `{"acquirer":"`+acquirerNames[i]+`","id":"`+f.id+`","end_to_end_id":"`+f.endToEndID+
				`","amount":"`+f.amount.String()+`","status":"`+f.status.String()+`"}`...)
		}
	}
	charges = append(append(charges, `],`...), payments...)
	charges = append(append(charges, `],`...), payouts...)
	charges = append(append(charges, `],`...), infractions...)
	return append(charges, `],"balance":"`+balance.String()+`"}`...)
}

func separate(list []byte) []byte {
	if list[len(list)-1] == '[' {
		return list
	}
	return append(list, ',')
}

func quoteOrNull(s string) string {
	if s == "" {
		return "null"
	}
	return strconv.Quote(s)
}

// tellCharge writes a charge without its last brace. Its end_to_end_id is that of the payment that paid it, else of the
// first that tried.
func (k *book) tellCharge(to []byte, acquirer string, place uint32) []byte {
	c := k.charges.at(place)
	e2e := ""
	for next := c.first; next != 0; {
		p := k.payments.at(next - 1)
		if c.isPaidBy(p.amount) || e2e == "" {
			e2e = p.endToEndID.String()
		}
		if c.isPaidBy(p.amount) {
			break
		}
		next = p.next
	}
	return append(to, `{"acquirer":"`+acquirer+`","txid":"`+c.txID.String()+`","amount":"`+c.amount.String()+
		`","status":"`+c.status.String()+`","end_to_end_id":`+quoteOrNull(e2e)...)
}
