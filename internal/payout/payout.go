// Package payout sends money out and follows each payout until it is completed, failed or reversed. Its money is held
// before anybody is asked to send it, leaves the account once, and comes back only on proof that it was not sent.
package payout

import (
	"fmt"
	"time"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/event"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/money"
)

// State is where a payout stands. Only its rules move it.
type State string

const (
	Processing State = "processing" // its money is held, and may be under way
	Completed  State = "completed"  // the recipient has it
	Failed     State = "failed"     // it was not sent and never will be; its money is back
	Reversed   State = "reversed"   // the recipient had it, and all of it came back
)

// trigger is something that happens to a payout.
type trigger string

const (
	settleIt trigger = "settle" // its acquirer confirms that the recipient has it
	failIt   trigger = "fail"   // it is proven that it was not sent
	returnIt trigger = "return" // all of it came back after it was settled
)

// posting names what the ledger does, see docs/states.md.
type posting string

const (
	holdOut  posting = "hold_out"  // take the amount and the fee out of what is available
	sendOut  posting = "send_out"  // let the held money go: the amount to the recipient, the fee to us
	takeBack posting = "take_back" // make all that is held available again
	returnIn posting = "return_in" // make what came back available; the fee stays
)

// rule is one row of the transition table.
type rule struct {
	from  State
	on    trigger
	to    State
	posts posting
	emits event.Type // "" for none
}

// rules is the table of docs/states.md, row for row; a test keeps them equal. What is not listed is refused: what is heard
// late, twice or of something that ended otherwise changes nothing. An unknown outcome is no trigger.
var rules = []rule{
	{Processing, settleIt, Completed, sendOut, event.PayoutCompleted},
	{Processing, failIt, Failed, takeBack, event.PayoutFailed},
	{Completed, returnIt, Reversed, returnIn, ""},
}

// TransitionError reports something that cannot happen to a payout in its state.
type TransitionError struct {
	From State
	On   trigger
}

func (e *TransitionError) Error() string {
	return fmt.Sprintf("payout: cannot %s a payout that is %s", e.On, e.From)
}

// next returns the rule for a trigger, or a [*TransitionError].
func (s State) next(on trigger) (rule, error) {
	for _, r := range rules {
		if r.from == s && r.on == on {
			return r, nil
		}
	}
	return rule{}, &TransitionError{s, on}
}

// Payout sends an amount to a Pix key.
type Payout struct {
	Account           id.Account
	ID                id.ID // tells when it was created
	ExternalID        string
	Status            State
	Amount            money.BRL // what the recipient gets
	Fee               money.BRL // what the account pays on top
	Returned          money.BRL // what came back after it was completed
	Key               string    // the recipient's Pix key, as banks look it up
	RecipientName     string
	RecipientDocument string
	Description       string
	PostbackURL       string
	Origin            account.Origin
	Acquirer          string    // who was asked to send it last
	Sends             int64     // how often one was about to be asked
	SentAt            time.Time // since when the last of these may be under way
	CheckAt           time.Time // when its acquirer is asked, while it is processing
	DoubtAt           time.Time // since when nobody knows whether its money left; zero while that is known, or not asked yet
	Routing           string    // which acquirers refused it, for operators; JSON
	EndToEndID        string    // "" before it is completed
	ErrorMessage      string    // "" unless it failed
	CompletedAt       time.Time // zero before

	key    string   // the Idempotency-Key that made it; "" for none
	hash   [32]byte // of the body that made it
	answer answer   // what the request that made it was told
}

// answer is what the request that made a payout was told. A repetition with its key is told the same.
type answer string

const (
	toldProcessing answer = "processing" // 201; also one that was told nothing, because the server died
	toldFailed     answer = "failed"     // 201
	toldUnknown    answer = "unknown"    // 504: its repetition is told how it stands
)

// CreatedAt returns when the payout was created.
func (p *Payout) CreatedAt() time.Time { return p.ID.Time() }

// Gross returns what leaves the balance.
func (p *Payout) Gross() money.BRL { return p.Amount + p.Fee }

// IsTest reports whether the amount is small enough for the test marker.
func (p *Payout) IsTest() bool { return p.Amount <= testAmountMax }

// Name returns what acquirers know the payout by. It is the same at every acquirer and in every repetition, so that none
// of them can send it twice and their books can be held against ours.
func (p *Payout) Name() string { return id.Token(p.ID, p.Account) }

// AsCreated returns the payout as the request that made it was shown it.
func (p Payout) AsCreated() Payout {
	p.EndToEndID, p.CompletedAt, p.Returned = "", time.Time{}, 0
	if p.answer != toldFailed {
		p.Status, p.ErrorMessage = Processing, ""
	}
	return p
}

// Limits of a payout.
const (
	AmountMin     money.BRL = 200
	testAmountMax money.BRL = 500
)

// Kinds of transfers. Each is posted once a payout, but for returns, which may come in parts. All begin with KindHold.
const (
	KindHold   ledger.Kind = "cash_out"        // the amount and the fee, held
	kindSent   ledger.Kind = "cash_out_sent"   // the amount, gone
	kindFee    ledger.Kind = "cash_out_fee"    // the fee, charged
	kindBack   ledger.Kind = "cash_out_failed" // the amount and the fee, given back
	kindReturn ledger.Kind = "cash_out_return" // what the recipient's bank sent back
)

// hold is what the ledger posts when a payout is made.
func (p *Payout) hold() *ledger.Transfer {
	return p.transfer(KindHold, p.Gross(), ledger.Available, ledger.InTransit)
}

// sent is what the ledger posts when a payout is settled.
func (p *Payout) sent() []*ledger.Transfer {
	posts := []*ledger.Transfer{p.release(kindSent, p.Amount, ledger.Acquirer)}
	if p.Fee > 0 {
		posts = append(posts, p.release(kindFee, p.Fee, ledger.Fees))
	}
	return posts
}

// back is what the ledger posts when a payout fails.
func (p *Payout) back() *ledger.Transfer { return p.release(kindBack, p.Gross(), ledger.Available) }

// release takes from what is held for the payout. That it is there is known from its state, which the same transaction
// moves; so the ledger need not look, and fold what may not be folded yet.
func (p *Payout) release(kind ledger.Kind, amount money.BRL, target ledger.Book) *ledger.Transfer {
	t := p.transfer(kind, amount, ledger.InTransit, target)
	t.Overdraw = true
	return t
}

func (p *Payout) transfer(kind ledger.Kind, amount money.BRL, source, target ledger.Book) *ledger.Transfer {
	return &ledger.Transfer{
		Account: p.Account, Amount: amount.Amount(), Source: source, Target: target, Kind: kind, Ref: p.ID, OnceKey: p.ID.String(),
		After: p.ID, // another node's clock may be ahead
	}
}
