// Package infraction follows claims that a payment was fraud (MED): what is claimed is blocked until the claim is
// decided, a defense reaches the acquirer once, and money that goes back is debited once.
package infraction

import (
	"fmt"
	"time"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/clawback"
	"github.com/ponte-pay/ponte/internal/event"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/money"
)

// State is where an infraction stands. Only its rules move it.
type State string

const (
	Open        State = "open"         // waits for a defense
	UnderReview State = "under_review" // was defended, waits for a decision
	Accepted    State = "accepted"     // the claim holds: the money is the payer's
	Rejected    State = "rejected"     // the claim does not hold: the money is the account's again
	Cancelled   State = "cancelled"    // the claim was withdrawn: the same
)

// States are all states.
var States = []State{Open, UnderReview, Accepted, Rejected, Cancelled}

// isDecided reports whether nothing is blocked any more.
func (s State) isDecided() bool { return s == Accepted || s == Rejected || s == Cancelled }

// trigger is something that happens to an infraction.
type trigger string

const (
	defend trigger = "defend" // a defense was submitted, here or at the acquirer
	accept trigger = "accept" // the acquirer decides for the payer
	reject trigger = "reject" // the acquirer decides for the account
	cancel trigger = "cancel" // the payer, or the acquirer, withdraws
)

// posting names what the ledger does, see docs/states.md.
type posting string

const (
	nothing posting = ""
	block   posting = "block"   // take what is claimed out of what is pending or available
	unblock posting = "unblock" // give it back
	debit   posting = "debit"   // let it go to the payer, as far as it has not gone back already; give back the rest
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
	{Open, defend, UnderReview, nothing, ""},
	{Open, accept, Accepted, debit, ""}, // nobody has to defend
	{Open, reject, Rejected, unblock, ""},
	{Open, cancel, Cancelled, unblock, ""},
	{UnderReview, accept, Accepted, debit, ""},
	{UnderReview, reject, Rejected, unblock, ""},
	{UnderReview, cancel, Cancelled, unblock, ""},
}

// TransitionError reports something that cannot happen to an infraction in its state.
type TransitionError struct {
	From State
	On   trigger
}

func (e *TransitionError) Error() string {
	return fmt.Sprintf("infraction: cannot %s an infraction that is %s", e.On, e.From)
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

// Infraction is a claim that a payment was fraud.
type Infraction struct {
	Account     id.Account
	ID          id.ID // tells when we learned of it
	Acquirer    string
	AcquirerID  string // what the acquirer knows it by
	Charge      id.ID  // what the payment paid, or came in for
	ExternalID  string // the charge's; "" for none
	EndToEndID  string // of the payment
	Paid        money.BRL
	Amount      money.BRL // what is claimed, which can be less than what was paid
	FromPending money.BRL // what of it was blocked before its release
	Debited     money.BRL // what its end took; 0 before
	Status      State
	Reason      string // in words; "" when not told
	ReasonCode  string // the acquirer's word for the situation; "" when not told
	OpenedAt    time.Time
	DeadlineAt  time.Time // the last moment for a defense
	ResolvedAt  time.Time // zero before

	DefenseText        string    // "" for none of ours
	DefenseEvidenceURL string    // "" for none
	DefendedAt         time.Time // zero for never
	Handing            Handing   // what became of the defense
	HandTries          int64     // how often it was about to be handed in
	HandError          string    // why the last of them failed, for operators; "" for none

	handAt    time.Time // when it is handed in next; zero when it need not be
	handDoubt bool      // one of the tries may have arrived
}

// Handing is what became of a defense at the acquirer.
type Handing string

const (
	Undefended Handing = ""        // there is none of ours
	Waiting    Handing = "waiting" // the acquirer has not taken it yet
	Taken      Handing = "taken"   // the acquirer has it
	Refused    Handing = "refused" // it came too late, or another was there: an operator must know
)

// ref names the payment.
func (f *Infraction) ref() clawback.Ref {
	return clawback.Ref{Account: f.Account, EndToEndID: f.EndToEndID, Charge: f.Charge, ExternalID: f.ExternalID, Amount: f.Paid}
}

// Limits of a defense.
const (
	DefenseTime        = 7 * 24 * time.Hour // after the opening, its last moment included; or less, if the acquirer says so
	DefenseTextMax     = 2000
	DefenseEvidenceMax = 500
)

// deadline returns the last moment for a defense.
func deadline(openedAt time.Time, seen *acquirer.Infraction) time.Time {
	last := openedAt.Add(DefenseTime)
	if told := seen.DeadlineAt.Truncate(time.Microsecond); !seen.DeadlineAt.IsZero() && told.Before(last) {
		return told
	}
	return last
}

// KindPrefix is what all kinds of transfers begin with whose reference is an infraction.
const KindPrefix = "med_"

// Kinds of transfers.
const (
	kindBlock   ledger.Kind = KindPrefix + "block"   // what is claimed
	kindUnblock ledger.Kind = KindPrefix + "unblock" // what is not the payer's
	kindDebit   ledger.Kind = KindPrefix + "debit"   // what is
)

// blocks are what the ledger posts when the infraction is opened.
func (f *Infraction) blocks(m clawback.Moves) (posts []*ledger.Transfer) {
	f.transfer(&posts, kindBlock, m.Pending, ledger.Pending, ledger.Blocked)
	f.transfer(&posts, kindBlock, m.Available, ledger.Available, ledger.Blocked)
	return posts
}

// ends are what the ledger posts when it is decided.
func (f *Infraction) ends(m clawback.Moves) (posts []*ledger.Transfer) {
	f.transfer(&posts, kindDebit, m.Debit, ledger.Blocked, ledger.Acquirer)
	f.transfer(&posts, kindUnblock, m.Pending, ledger.Blocked, ledger.Pending)
	f.transfer(&posts, kindUnblock, m.Available, ledger.Blocked, ledger.Available)
	return posts
}

// transfer adds a transfer of the infraction, once for its kind and books.
func (f *Infraction) transfer(posts *[]*ledger.Transfer, kind ledger.Kind, amount money.BRL, source, target ledger.Book) {
	if amount == 0 {
		return
	}
	*posts = append(*posts, &ledger.Transfer{
		Account: f.Account, Amount: amount.Amount(), Source: source, Target: target,
		Kind: kind, Ref: f.ID, OnceKey: fmt.Sprintf("%s %s %s", f.ID, source, target), Overdraw: source == ledger.Available,
	})
}
