// Package acquirer says what a Pix acquirer offers and sends each charge to one that works; what it calls refused is
// proven not to have happened.
//
// A driver turns an acquirer's API into an [Acquirer]. A [Router] chooses between several. Nothing here stores anything:
// what an acquirer says is believed by use cases, one by one, after they have compared it with what they know.
package acquirer

import (
	"context"
	"time"

	"github.com/ponte-pay/ponte/internal/money"
)

// How long things may take, in real time, whatever the other side does.
const (
	TryTimeMax      = 5 * time.Second  // one call of an Acquirer's method
	CreationTimeMax = 15 * time.Second // Router.CreateCharge, all acquirers together
)

// Acquirer is an account at a bank that takes Pix payments in. What only some banks offer besides, such as paying out, is
// not its business: that is an interface of its own, which a driver may satisfy too.
//
// Every method may be called by many goroutines at once, ends when ctx does and within [TryTimeMax], and fails with an
// [*Error].
type Acquirer interface {
	// Name returns what operators call this acquirer. It is stored with all that is made there, so it never changes.
	Name() string

	// CreateCharge makes a charge under the txid that its caller chose. When the answer is lost, or the txid is taken, it
	// looks the charge up: the same amount and key are a success, so that it may be repeated; others are ErrDuplicate.
	CreateCharge(ctx context.Context, n NewCharge) (Charge, error)

	// GetCharge returns a charge with its payments, or ErrNotFound.
	GetCharge(ctx context.Context, txID string) (Charge, error)

	// RemoveCharge makes an unpaid charge unpayable. One that was removed before is a success.
	RemoveCharge(ctx context.Context, txID string) error

	// GetPayment returns a payment with its refunds, or ErrNotFound.
	GetPayment(ctx context.Context, endToEndID string) (Payment, error)

	// ListPayments returns a page of the payments that came in during a window, those without a charge included. It may
	// return some from just outside of the window, and one payment on two pages when others come in meanwhile.
	ListPayments(ctx context.Context, w Window) (Page, error)

	// SetWebhook tells the acquirer where to send notifications. Every earlier address is forgotten.
	SetWebhook(ctx context.Context, url string) error
}

// NewCharge is a charge to be made.
type NewCharge struct {
	TxID          string // 26 to 35 letters and digits, never used before
	Amount        money.BRL
	ExpiresIn     time.Duration // whole seconds
	Description   string        // shown to the payer; "" means none
	PayerName     string        // who is billed, who need not be who pays; "" means not told
	PayerDocument string        // CPF or CNPJ; drivers leave out what is none
}

// Charge is a charge as its acquirer sees it.
type Charge struct {
	TxID      string
	Status    ChargeStatus
	Amount    money.BRL
	Key       string // the Pix key that it pays
	CopyPaste string // the BR Code
	Location  string // where the payer's bank reads it, without https://; "" when not told
	CreatedAt time.Time
	ExpiresAt time.Time // zero when not told; acquirers may take payments after it
	Payments  []Payment // usually one at most

	// Lost is why CreateCharge got no answer that it could read, when it then found the charge by asking for it; nil when it
	// did, and of charges that were not just created.
	Lost *Error
}

// ChargeStatus says whether a charge can be paid. That it has expired is no status: nobody tells.
type ChargeStatus int

const (
	ChargeUnknown           ChargeStatus = iota // a word that this version does not know
	ChargeActive                                // can be paid
	ChargePaid                                  // was paid
	ChargeRemoved                               // was removed by us
	ChargeRemovedByAcquirer                     // was removed by the acquirer
)

// String returns the status as a word for operators.
func (s ChargeStatus) String() string {
	return word(int(s), "unknown", "active", "paid", "removed", "removed by the acquirer")
}

// Payment is a Pix that came in.
type Payment struct {
	EndToEndID    string
	TxID          string // "" for one that paid no charge
	Amount        money.BRL
	Key           string    // the Pix key that was paid; "" when not told
	PaidAt        time.Time // zero when not told
	PayerName     string    // "" when not told
	PayerDocument string    // CPF or CNPJ, sometimes masked; "" when not told
	Refunds       []Refund
}

// Refund is a return of a payment, all or in part, whoever asked for it.
type Refund struct {
	ID       string // unique for its payment
	ReturnID string // the end-to-end id of the return; "" when not told
	Amount   money.BRL
	Status   RefundStatus
	At       time.Time // when it was settled, or else asked for; zero when not told

	// ForInfraction says that the acquirer made it because it accepted an infraction (MED), not because the receiver wished it.
	ForInfraction bool
}

// RefundStatus says how far a refund has come.
type RefundStatus int

const (
	RefundUnknown    RefundStatus = iota // a word that this version does not know
	RefundProcessing                     // asked for, and may still fail
	RefundDone                           // the money is back with the payer
	RefundFailed                         // the money stayed
)

// String returns the status as a word for operators.
func (s RefundStatus) String() string {
	return word(int(s), "unknown", "processing", "done", "failed")
}

// Window is a span of time and a place in its list of payments.
type Window struct {
	From, To time.Time // both included
	Cursor   string    // as the page before told; "" means the first page
	Exact    bool      // to the millisecond, which not every acquirer accepts; otherwise whole seconds
	Returned bool      // only payments of which something was given back
}

// Page is a part of a list of payments.
type Page struct {
	Payments   []Payment
	Next       string // the cursor of the next page; "" on the last
	Unreadable int    // payments that were left out because they made no sense; an operator must look
}

// word returns the i-th word, or the first one for what has none.
func word(i int, words ...string) string {
	if i < 0 || i >= len(words) {
		return words[0]
	}
	return words[i]
}
