package chainworld

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/shopspring/decimal"
)

// Statuses of payouts, as the provider writes them.
const (
	payoutWaiting    = "WAITING"    // nobody has confirmed it
	payoutProcessing = "PROCESSING" // confirmed
	payoutSending    = "SENDING"    // on the chain
	payoutFinished   = "FINISHED"   // the recipient has the coins
	payoutFailed     = "FAILED"     // went wrong, and may still be sent
	payoutRejected   = "REJECTED"   // not sent, now or ever
	payoutCancelled  = "CANCELLED"  // taken back by who asked for it
)

const (
	batchIDBase      = 6_000_000_000
	withdrawalIDBase = 7_000_000_000
	verifyTime       = time.Hour // that a payout waits to be confirmed
	verifyTriesMax   = 10
	payoutPlacesMax  = 6 // decimals of an amount
)

// payout is a payout in the books. It is alone in its batch.
type payout struct {
	ID         int64           `json:"id"` // of the withdrawal
	Batch      int64           `json:"batch"`
	External   string          `json:"external,omitempty"`
	Currency   string          `json:"currency"`
	Address    string          `json:"address"`
	Memo       string          `json:"memo,omitempty"`
	Amount     decimal.Decimal `json:"amount"`
	Fee        decimal.Decimal `json:"fee"`
	Callback   string          `json:"callback,omitempty"`
	Status     string          `json:"status"`
	Error      string          `json:"error,omitempty"`
	Hash       string          `json:"hash,omitempty"`
	Tries      int             `json:"tries,omitempty"`      // wrong codes
	Executions int             `json:"executions,omitempty"` // how often coins really left
	Created    int64           `json:"created"`
	Updated    int64           `json:"updated"`
	Verified   int64           `json:"verified,omitempty"` // 0 before
}

// holds returns what a payout takes from the balance.
func (p *payout) holds() decimal.Decimal {
	if p.Status == payoutRejected || p.Status == payoutCancelled {
		return decimal.Decimal{}
	}
	return p.Amount
}

// setPayout puts a payout into the books, or into the place of what it was before.
func (w *World) setPayout(p *payout) {
	takes := p.holds()
	if before := w.byBatch[p.Batch]; before != nil {
		takes = takes.Sub(before.holds())
		*before = *p
	} else {
		w.payouts = append(w.payouts, p)
		w.byBatch[p.Batch] = p
	}
	w.balances[p.Currency] = w.balances[p.Currency].Sub(takes)
	if p.Status == payoutWaiting || p.Status == payoutProcessing || p.Status == payoutSending {
		w.open[p.Batch] = true
	} else {
		delete(w.open, p.Batch)
	}
}

// balance returns what could be sent of a coin.
func (w *World) balance(c coin) decimal.Decimal {
	opening := decimal.Decimal{}
	if c.payout != "" {
		// At the price when nothing moves, so that it is the same for ever.
		opening = decimal.New(openingUSDT, 0).Mul(decimal.RequireFromString(usdtPrice)).DivRound(decimal.RequireFromString(c.usd), c.places())
	}
	return opening.Add(w.balances[c.code])
}

// changePayout writes down what becomes of a payout, and tells.
func (w *World) changePayout(p *payout, change func(*payout)) error {
	before, next := p.Status, *p
	next.Updated = max(p.Updated, w.now())
	change(&next)
	if err := w.write(entry{Payout: &next}); err != nil {
		return err
	}
	if p.Status != before {
		w.notices.ofPayout(p)
	}
	return nil
}

// send makes a payout that nobody has confirmed yet.
func (w *World) send(p payout) (*payout, error) {
	n := int64(len(w.payouts)) + 1
	p.ID, p.Batch, p.Status, p.Created = withdrawalIDBase+n, batchIDBase+n, payoutWaiting, w.now()
	p.Updated = p.Created
	if err := w.write(entry{Payout: &p}); err != nil {
		return nil, err
	}
	w.notices.ofPayout(w.byBatch[p.Batch])
	return w.byBatch[p.Batch], nil
}

// finish lets the coins leave.
func (w *World) finish(p *payout) {
	p.Status, p.Executions, p.Hash, p.Error = payoutFinished, p.Executions+1, w.hash("out", p.ID), ""
}

// movePayouts lets payouts go on that are due.
func (w *World) movePayouts() (did bool, err error) {
	now := w.now()
	for _, batch := range slices.Sorted(maps.Keys(w.open)) {
		p := w.byBatch[batch]
		var next func(*payout)
		settle := max(0, w.options.SettleAfter.Milliseconds())
		switch {
		case p.Status == payoutWaiting && p.Created+verifyTime.Milliseconds() <= now:
			next = func(p *payout) { p.Status, p.Error = payoutRejected, "not verified in time" }
		case w.options.Manual || (p.Status != payoutProcessing && p.Status != payoutSending):
			continue
		case p.Verified+settle <= now:
			next = w.finish
		case p.Status == payoutProcessing && p.Verified+settle/2 <= now:
			next = func(p *payout) { p.Status, p.Hash = payoutSending, w.hash("out", p.ID) }
		default:
			continue
		}
		if err := w.changePayout(p, next); err != nil {
			return did, err
		}
		did = true
	}
	return did, nil
}

// payout returns a payout by the id of its batch or its withdrawal, or by its sender's id, of which the latest counts.
func (w *World) payout(id string) (*payout, error) {
	n, _ := strconv.ParseInt(id, 10, 64)
	for _, p := range slices.Backward(w.payouts) {
		if p.Batch == n || p.ID == n || (p.External != "" && p.External == id) {
			return p, nil
		}
	}
	return nil, ErrNoPayout
}

// orderPayout lets something become of a payout.
func (w *World) orderPayout(id string, o orders, change func(*payout)) (*payout, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := w.move(); err != nil {
		return nil, err
	}
	p, err := w.payout(id)
	switch {
	case err != nil:
		return nil, err
	case slices.Contains(o.done, p.Status):
	case !slices.Contains(o.from, p.Status):
		return nil, ErrState
	default:
		err = w.changePayout(p, change)
	}
	copied := *p
	return &copied, err
}
