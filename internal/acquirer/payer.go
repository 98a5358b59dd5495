package acquirer

import (
	"context"
	"time"

	"github.com/ponte-pay/ponte/internal/money"
)

// Payer is an acquirer that also sends Pix.
//
// What it is told about a send decides where money is, so that nothing is inferred: an error with the outcome Refused is
// proof that this call sent no money and will send none, and every other error says nothing at all. An earlier call under
// the same id is another matter: once one of them ended Unknown, only GetPayout tells.
type Payer interface {
	Acquirer

	// SendPayout sends money under an id that its caller chose, once however often it is repeated with that id. One that was
	// sent before under the id is ErrDuplicate, with the outcome Unknown: ask GetPayout. ErrNoFunds, always Refused, says
	// that our account there holds too little: another acquirer may do better.
	SendPayout(ctx context.Context, n NewPayout) (Payout, error)

	// GetPayout returns a payout by the id that it was sent under, or ErrNotFound. That it is not found proves nothing while
	// its send may still be on the way.
	GetPayout(ctx context.Context, id string) (Payout, error)

	// GetPayoutByEndToEnd returns a payout by its end-to-end id, or ErrNotFound.
	GetPayoutByEndToEnd(ctx context.Context, endToEndID string) (Payout, error)

	// ListPayouts returns a page of the payouts that were asked for during a window.
	ListPayouts(ctx context.Context, w Window) (PayoutPage, error)

	// Balance returns what could be sent now.
	Balance(ctx context.Context) (money.BRL, error)
}

// NewPayout is money to be sent.
type NewPayout struct {
	ID                string // 1 to 35 letters and digits, the same in every repetition
	Amount            money.BRL
	Key               string // the recipient's Pix key, in the form that the DICT stores
	RecipientDocument string // CPF or CNPJ that the key must belong to; "" for anybody
	Description       string // shown to the recipient; "" means none
}

// Payout is a payout as its acquirer sees it.
type Payout struct {
	ID            string
	EndToEndID    string // "" when not told
	Status        PayoutStatus
	Amount        money.BRL
	Key           string
	RecipientName string    // "" when not told
	AskedAt       time.Time // when it was asked for, as its acquirer's lists go; zero when not told
	SettledAt     time.Time // zero when not settled, or not told
	Code          string    // why it failed, the network's code such as AC03; "" for none
	Reason        string    // why it failed, in words; "" for none
	Returns       []Refund  // what came back after it was settled
}

// PayoutStatus says how far a payout has come.
type PayoutStatus int

const (
	PayoutUnknown    PayoutStatus = iota // a word that this version does not know; treat it as still under way
	PayoutProcessing                     // taken, and may still fail
	PayoutSettled                        // the recipient has the money
	PayoutFailed                         // proven not to have left, now or ever
)

// String returns the status as a word for operators.
func (s PayoutStatus) String() string {
	return word(int(s), "unknown", "processing", "settled", "failed")
}

// PayoutPage is a part of a list of payouts.
type PayoutPage struct {
	Payouts    []Payout
	Next       string // the cursor of the next page; "" on the last
	Unreadable int    // payouts that were left out because they made no sense; an operator must look
}
