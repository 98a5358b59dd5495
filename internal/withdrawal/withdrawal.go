// Package withdrawal sends coins out and follows each withdrawal until it is completed or failed. Its money is held before
// anybody is asked to send it, leaves the account once, and comes back only on proof that no coin left.
//
// A provider makes a payout first and sends it only when it is verified. So there is one moment that counts: which of its
// payouts is the withdrawal's is written once, before that one is verified, and no other ever is. One that was made twice,
// because an answer was lost, is never sent twice.
package withdrawal

import (
	"fmt"
	"time"

	"github.com/shopspring/decimal"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/event"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/money"
)

// State is where a withdrawal stands. Only its rules move it.
type State string

const (
	Processing State = "processing" // its money is held, and its coins may be under way
	Completed  State = "completed"  // its coins were sent
	Failed     State = "failed"     // they were not and never will be; its money is back
)

// trigger is something that happens to a withdrawal.
type trigger string

const (
	completeIt trigger = "complete" // its provider confirms that the coins were sent
	failIt     trigger = "fail"     // it is proven that they were not
)

// posting names what the ledger does, see docs/states.md.
type posting string

const (
	holdCrypto posting = "hold_crypto" // take the amount and the fee out of what is available
	sendCrypto posting = "send_crypto" // let the held money go: the amount to the provider, the fee to us
	takeCrypto posting = "take_crypto" // make all that is held available again
)

// rule is one row of the transition table.
type rule struct {
	from  State
	on    trigger
	to    State
	posts posting
	emits event.Type
}

// rules is the table of docs/states.md, row for row; a test keeps them equal. What is not listed is refused: what is heard
// late, twice or of something that ended otherwise changes nothing. An unknown outcome is no trigger, and what the provider
// calls failed is one of these.
var rules = []rule{
	{Processing, completeIt, Completed, sendCrypto, event.CryptoPayoutCompleted},
	{Processing, failIt, Failed, takeCrypto, event.CryptoPayoutFailed},
}

// TransitionError reports something that cannot happen to a withdrawal in its state.
type TransitionError struct {
	From State
	On   trigger
}

func (e *TransitionError) Error() string {
	return fmt.Sprintf("withdrawal: cannot %s a withdrawal that is %s", e.On, e.From)
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

// Withdrawal sends the worth of an amount of USDT to an address, in a coin.
type Withdrawal struct {
	Account       id.Account
	ID            id.ID  // tells when it was created
	ExternalID    string // "" for none
	Status        State
	Currency      string // code of the coin
	Address       string // in the form that address.Check returns
	ExtraID       string // memo or tag; "" for none
	Origin        account.Origin
	Amount        money.USDT
	Fee           money.USDT      // what the account pays on top, ConversionFee included
	ConversionFee money.USDT      // 0 when the coin is USDT
	Coins         decimal.Decimal // what the provider is asked to send, in the coin; the network's fee is taken from it
	Provider      string          // who is asked to send it
	ProviderID    string          // the payout there that is this one, and the only one that is ever verified; "" before it is known
	Sends         int64           // how often the provider was about to be asked to make it
	SentAt        time.Time       // since when the last of these may be under way; zero when that is proven not to be
	VerifiedAt    time.Time       // when it was last confirmed with the second factor; zero before
	CheckAt       time.Time       // when the provider is asked, while it is processing
	DoubtAt       time.Time       // since when nobody knows whether its coins left; zero while that is known, or not asked yet
	TxHash        string          // of the transaction on the chain; "" before it is told
	Reason        string          // what the provider last said against it, for operators; "" for nothing
	ErrorMessage  string          // "" unless it failed
	CompletedAt   time.Time       // zero before

	key  string   // the Idempotency-Key that made it; "" for none
	hash [32]byte // of the body that made it
}

// CreatedAt returns when the withdrawal was created.
func (w *Withdrawal) CreatedAt() time.Time { return w.ID.Time() }

// Gross returns what leaves the balance.
func (w *Withdrawal) Gross() money.USDT { return w.Amount + w.Fee }

// Name returns what the provider knows the withdrawal by, the same in every repetition.
func (w *Withdrawal) Name() string { return id.Token(w.ID, w.Account) }

// Kinds of transfers. Each is posted once a withdrawal. All begin with KindHold.
const (
	KindHold ledger.Kind = "crypto_out"        // the amount and the fee, held
	kindSent ledger.Kind = "crypto_out_sent"   // the amount, gone
	kindFee  ledger.Kind = "crypto_out_fee"    // the fee, charged
	kindBack ledger.Kind = "crypto_out_failed" // the amount and the fee, given back
)

// hold is what the ledger posts when a withdrawal is made.
func (w *Withdrawal) hold() *ledger.Transfer {
	return w.transfer(KindHold, w.Gross(), ledger.Available, ledger.InTransit)
}

// sent is what the ledger posts when a withdrawal is completed.
func (w *Withdrawal) sent() []*ledger.Transfer {
	posts := []*ledger.Transfer{w.transfer(kindSent, w.Amount, ledger.InTransit, ledger.Acquirer)}
	if w.Fee > 0 {
		posts = append(posts, w.transfer(kindFee, w.Fee, ledger.InTransit, ledger.Fees))
	}
	return posts
}

// back is what the ledger posts when a withdrawal fails.
func (w *Withdrawal) back() *ledger.Transfer {
	return w.transfer(kindBack, w.Gross(), ledger.InTransit, ledger.Available)
}

func (w *Withdrawal) transfer(kind ledger.Kind, amount money.USDT, source, target ledger.Book) *ledger.Transfer {
	return &ledger.Transfer{
		Account: w.Account, Amount: amount.Amount(), Source: source, Target: target, Kind: kind, Ref: w.ID, OnceKey: w.ID.String(),
		After: w.ID, // another node's clock may be ahead
	}
}
