package chainworld

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/shopspring/decimal"

	"github.com/ponte-pay/ponte/internal/chain/address"
)

// Statuses of payments, as the provider writes them.
const (
	waiting       = "waiting"        // nothing has come in
	confirming    = "confirming"     // seen on the chain
	confirmed     = "confirmed"      // deep enough in the chain
	sending       = "sending"        // being settled
	finished      = "finished"       // settled
	partiallyPaid = "partially_paid" // settled, for less than was asked
	failed        = "failed"         // went wrong
	refunded      = "refunded"       // went back
	expired       = "expired"        // nothing came in time
)

const (
	paymentIDBase = 5_000_000_000
	estimateTime  = 20 * time.Minute   // that a pay_amount is good for
	paymentTime   = 7 * 24 * time.Hour // that a payment waits
	stepTime      = time.Second        // between confirmations
	feeSame       = 50                 // basis points of what comes in, in the settlement coin
	feeConverted  = 100                // and in another one
	memoBase      = 100_000
)

// payment is a payment in the books.
type payment struct {
	ID          int64           `json:"id"`
	Parent      int64           `json:"parent,omitempty"` // 0 for none
	Children    []int64         `json:"children,omitempty"`
	Order       string          `json:"order,omitempty"`
	Description string          `json:"description,omitempty"`
	Callback    string          `json:"callback,omitempty"`
	Silent      bool            `json:"silent,omitempty"` // its notifications get lost
	Price       decimal.Decimal `json:"price"`            // in USD
	PayCurrency string          `json:"pay_currency"`
	PayAmount   decimal.Decimal `json:"pay_amount"`
	Address     string          `json:"address"`
	Memo        string          `json:"memo,omitempty"`
	Status      string          `json:"status"`
	Paid        decimal.Decimal `json:"paid"`
	PaidIn      string          `json:"paid_in"` // the coin that came, if another one
	Outcome     decimal.Decimal `json:"outcome"` // in the settlement coin
	Hash        string          `json:"hash,omitempty"`
	Created     int64           `json:"created"` // in milliseconds, like all others
	Updated     int64           `json:"updated"`
	NextStep    int64           `json:"next_step,omitempty"` // when the next confirmation comes; 0 for never
}

// settles returns what of a payment is ours, in the settlement coin.
func (p *payment) settles() decimal.Decimal {
	if p.Status == finished || p.Status == partiallyPaid {
		return p.Outcome
	}
	return decimal.Decimal{}
}

// currency returns the coin that came, or is to come.
func (p *payment) currency() string {
	if p.PaidIn != "" {
		return p.PaidIn
	}
	return p.PayCurrency
}

// setPayment puts a payment into the books, or into the place of what it was before.
func (w *World) setPayment(p *payment) {
	gain := p.settles()
	if before := w.byID[p.ID]; before != nil {
		gain = gain.Sub(before.settles())
		*before = *p
	} else {
		w.payments = append(w.payments, p)
		w.byID[p.ID] = p
		if p.Parent == 0 {
			w.byPlace[place{p.Address, p.Memo}] = p
		}
	}
	w.balances[Settlement] = w.balances[Settlement].Add(gain)
	if p.NextStep != 0 {
		w.stepping[p.ID] = true
	} else {
		delete(w.stepping, p.ID)
	}
}

// change writes down what becomes of a payment, and tells.
func (w *World) change(p *payment, change func(*payment)) error {
	next := *p
	next.Children = slices.Clone(p.Children)
	next.Updated = max(p.Updated, w.now())
	change(&next)
	if err := w.write(entry{Payment: &next}); err != nil {
		return err
	}
	w.notices.ofPayment(w.byID[p.ID])
	return nil
}

// newPayment is a payment that was asked for.
type newPayment struct {
	order, description, callback string
	price                        decimal.Decimal
	currency                     string
	asked                        decimal.Decimal // of the coin; 0 means what the price is worth
}

// create makes a payment with an address of its own.
func (w *World) create(n newPayment) (*payment, error) {
	c, _ := findCoin(n.currency)
	now := w.options.Clock.Now()
	p := &payment{
		ID: paymentIDBase + int64(len(w.payments)) + 1, Order: n.order, Description: n.description, Callback: n.callback, Price: n.price,
		PayCurrency: n.currency, PayAmount: n.asked, Status: waiting, Created: now.UnixMilli(), Updated: now.UnixMilli(),
	}
	if p.PayAmount.IsZero() {
		p.PayAmount = c.inCoin(n.price.String(), now)
	}
	if c.memo {
		// One address for all, and a tag for each.
		p.Address, p.Memo = address.New(c.network, w.seed(0)), strconv.FormatInt(memoBase+p.ID-paymentIDBase, 10)
	} else {
		p.Address = address.New(c.network, w.seed(p.ID))
	}
	if err := w.write(entry{Payment: p}); err != nil {
		return nil, err
	}
	w.notices.ofPayment(w.byID[p.ID])
	return w.byID[p.ID], nil
}

// seed returns what the address of a payment is made from.
func (w *World) seed(id int64) address.Seed {
	return sha256.Sum256([]byte(w.identity.Seed + strconv.FormatInt(id, 10)))
}

// arrival is coins that come to an address.
type arrival struct {
	to       place
	amount   decimal.Decimal
	currency string // of the coins; "" means the one that was asked for
	confirm  bool   // go on by themselves
	silent   bool   // notifications get lost
}

// Why something cannot happen.
var (
	ErrNoAddress  = errors.New("chainworld: no payment has this address")
	ErrWrongChain = errors.New("chainworld: coins of this currency cannot be sent to this address")
	ErrNoPayment  = errors.New("chainworld: no such payment")
	ErrNoPayout   = errors.New("chainworld: no such payout")
	ErrState      = errors.New("chainworld: not in this state")
)

// find returns the payment that an address was made for. Addresses without mixed case are the same in any case.
func (w *World) find(to place) *payment {
	if p := w.byPlace[to]; p != nil {
		return p
	}
	for _, c := range coins {
		if canonical, err := address.Check(c.network, to.address); err == nil {
			if p := w.byPlace[place{canonical, to.memo}]; p != nil {
				return p
			}
		}
	}
	return nil
}

// arrive lets coins arrive.
func (w *World) arrive(a arrival) (*payment, error) {
	p := w.find(a.to)
	if p == nil {
		return nil, ErrNoAddress
	}
	asked, _ := findCoin(p.PayCurrency)
	c := asked
	if a.currency != "" {
		var ok bool
		if c, ok = findCoin(a.currency); !ok || c.network != asked.network {
			return nil, ErrWrongChain
		}
	}
	now := w.options.Clock.Now()
	come := func(p *payment) {
		p.Status, p.Silent, p.Paid, p.Outcome, p.NextStep = confirming, p.Silent || a.silent, a.amount, outcome(c, a.amount, now), 0
		if p.PaidIn = ""; c.code != p.PayCurrency {
			p.PaidIn = c.code
		}
		p.Hash = w.hash("in", p.ID)
		if a.confirm && !w.options.Manual {
			p.NextStep = now.Add(stepTime).UnixMilli()
		}
	}
	// What comes late is still for this payment; what comes again is a payment of its own.
	if p.Status == waiting || p.Status == expired {
		return p, w.change(p, come)
	}
	child := &payment{
		ID: paymentIDBase + int64(len(w.payments)) + 1, Parent: p.ID, Order: p.Order, Description: p.Description, Callback: p.Callback, Price: p.Price,
		PayCurrency: p.PayCurrency, PayAmount: a.amount, Address: p.Address, Memo: p.Memo, Created: now.UnixMilli(), Updated: now.UnixMilli(),
	}
	come(child)
	if err := w.write(entry{Payment: child}); err != nil {
		return nil, err
	}
	child = w.byID[child.ID]
	w.notices.ofPayment(child)
	grown := *p
	grown.Children = append(slices.Clone(p.Children), child.ID)
	return child, w.write(entry{Payment: &grown})
}

// outcome returns what the provider settles of an amount, after its fee.
func outcome(c coin, amount decimal.Decimal, at time.Time) decimal.Decimal {
	fee := int64(feeConverted)
	value := amount
	if c.code == Settlement {
		fee = feeSame
	} else {
		value = worth(c.code, Settlement, amount, at)
	}
	settlement, _ := findCoin(Settlement)
	return value.Mul(decimal.New(basisPoints-fee, 0)).Div(decimal.New(basisPoints, 0)).RoundDown(settlement.places())
}

// hash makes up a transaction's hash.
func (w *World) hash(kind string, id int64) string {
	sum := sha256.Sum256([]byte(w.identity.Seed + kind + strconv.FormatInt(id, 10)))
	return hex.EncodeToString(sum[:])
}

// settledStatus is how a payment ends that is settled.
func (p *payment) settledStatus() string {
	if p.Parent == 0 && p.PaidIn == "" && p.Paid.LessThan(p.PayAmount) {
		return partiallyPaid
	}
	return finished
}

// movePayments lets confirmations come that are due, and payments expire.
func (w *World) movePayments() (did bool, err error) {
	now := w.now()
	for _, id := range slices.Sorted(maps.Keys(w.stepping)) {
		for p := w.byID[id]; p.NextStep != 0 && p.NextStep <= now; did = true {
			if err := w.change(p, func(p *payment) { p.step() }); err != nil {
				return did, err
			}
		}
	}
	// All wait equally long, so that the oldest expires first.
	for ; w.expiring < len(w.payments) && w.payments[w.expiring].Created+paymentTime.Milliseconds() <= now; w.expiring++ {
		p := w.payments[w.expiring]
		if p.Status != waiting {
			continue
		}
		if err := w.change(p, func(p *payment) { p.Status = expired }); err != nil {
			return did, err
		}
		did = true
	}
	return did, nil
}

// step moves a payment by one confirmation.
func (p *payment) step() {
	p.NextStep += stepTime.Milliseconds()
	switch p.Status {
	case confirming:
		p.Status = confirmed
	case confirmed:
		p.Status = sending
	default:
		p.Status, p.NextStep = p.settledStatus(), 0
	}
}

// payment returns a payment by its id.
func (w *World) payment(id string) (*payment, error) {
	n, err := strconv.ParseInt(id, 10, 64)
	if p := w.byID[n]; err == nil && p != nil {
		return p, nil
	}
	return nil, ErrNoPayment
}

// orders say from which states something may become of a thing, and in which ones it has become of it: such an order is
// no error, because things also move by themselves.
type orders struct{ from, done []string }

// orderPayment lets something become of a payment.
func (w *World) orderPayment(id string, o orders, change func(*payment)) (*payment, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := w.move(); err != nil {
		return nil, err
	}
	p, err := w.payment(id)
	switch {
	case err != nil:
		return nil, err
	case slices.Contains(o.done, p.Status):
	case !slices.Contains(o.from, p.Status):
		return nil, ErrState
	default:
		err = w.change(p, func(p *payment) {
			p.NextStep = 0
			change(p)
		})
	}
	copied := *p
	return &copied, err
}
