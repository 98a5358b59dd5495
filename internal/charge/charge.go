// Package charge takes money in and follows each charge until it is paid, expired, cancelled or refunded. Money that
// reaches an acquirer for one of its charges is credited once, however late, however often it is heard of.
package charge

import (
	"fmt"
	"time"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/event"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/money"
)

// State is where a charge stands. Only its rules move it.
type State string

const (
	Pending   State = "pending"   // waits for the payer
	Paid      State = "paid"      // its money came and is posted
	Expired   State = "expired"   // the payer's time ran out; late money still counts
	Cancelled State = "cancelled" // removed at the acquirer, by it or by the operator
	Refunded  State = "refunded"  // all its money was given back
)

// trigger is something that happens to a charge.
type trigger string

const (
	pay    trigger = "pay"    // the acquirer confirms its payment
	expire trigger = "expire" // its time is over and nothing was paid
	cancel trigger = "cancel" // it was removed at the acquirer
	refund trigger = "refund" // the acquirer has given the whole amount back
)

// posting names what the ledger does, see docs/states.md.
type posting string

const (
	nothing  posting = ""
	settle   posting = "settle"    // credit the amount, charge the fee
	giveBack posting = "give_back" // debit what was given back
)

// rule is one row of the transition table.
type rule struct {
	from  State
	on    trigger
	to    State
	posts posting
	emits event.Type // "" for none
}

// rules is the table of docs/states.md, row for row; a test keeps them equal. What is not listed is refused.
var rules = []rule{
	{Pending, pay, Paid, settle, event.ChargePaid},
	{Pending, expire, Expired, nothing, ""},
	{Pending, cancel, Cancelled, nothing, ""},
	{Pending, refund, Refunded, nothing, ""},
	{Expired, pay, Paid, settle, event.ChargePaid},   // a Pix may land after expiry; never lose it
	{Cancelled, pay, Paid, settle, event.ChargePaid}, // or while it was being removed
	{Paid, refund, Refunded, giveBack, ""},
}

// TransitionError reports something that cannot happen to a charge in its state.
type TransitionError struct {
	From State
	On   trigger
}

func (e *TransitionError) Error() string {
	return fmt.Sprintf("charge: cannot %s a charge that is %s", e.On, e.From)
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

// Charge asks a payer for an amount.
type Charge struct {
	Account       id.Account
	ID            id.ID // tells when it was created
	TxID          string
	ExternalID    string // "" for none
	Status        State
	Amount        money.BRL
	Fee           money.BRL // charged when it was paid; 0 before
	Refunded      money.BRL // what was debited of its payment, because it went back to the payer
	Held          money.BRL // what of its money infractions keep from being released
	Description   string
	PayerName     string
	PayerDocument string
	PostbackURL   string
	Origin        account.Origin
	Acquirer      string
	Routing       string // why there, for operators; JSON
	CopyPaste     string
	EndToEndID    string    // "" before it is paid
	PaidAt        time.Time // zero before
	ExpiresAt     time.Time
	ReleaseAt     time.Time // when its money becomes available; zero when it need not wait

	key   string   // the Idempotency-Key that made it
	hash  [32]byte // of the body that made it
	shown string   // see Shown
}

// Shown returns the charge as [Services.Render] writes it, if that was done already: of a paid one that [Service.Get] has found.
// Otherwise "".
func (c *Charge) Shown() string { return c.shown }

// CreatedAt returns when the charge was created.
func (c *Charge) CreatedAt() time.Time { return c.ID.Time() }

// IsTest reports whether the amount is small enough for the test marker.
func (c *Charge) IsTest() bool { return c.Amount <= testAmountMax }

// AsCreated returns the charge as it was when it was created: what a repetition of that request is answered.
func (c Charge) AsCreated() Charge {
	c.Status, c.EndToEndID, c.PaidAt, c.ReleaseAt, c.Fee, c.Refunded, c.shown = Pending, "", time.Time{}, time.Time{}, 0, 0, ""
	return c
}

// Limits of a charge.
const (
	AmountMin        money.BRL = 200
	testAmountMax    money.BRL = 500
	ExpiresInMin               = 60 * time.Second
	ExpiresInMax               = 86400 * time.Second
	ExpiresInDefault           = 3600 * time.Second
)

// Kinds of transfers.
const (
	kindCashIn  ledger.Kind = "cash_in"     // the amount of a charge
	kindFee     ledger.Kind = "cash_in_fee" // what the account pays for it
	kindRefund  ledger.Kind = "refund"      // what the acquirer gave back
	kindRelease ledger.Kind = "release_in"  // pending money that became available
)
