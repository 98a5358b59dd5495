// Package deposit takes crypto in: it has an address made for each crypto charge, once, and follows the money that comes
// there until it is paid, failed, expired or refunded. What a provider settles for one of its charges is credited once,
// however late, however often it is heard of.
//
// The API's word for a deposit is crypto charge.
package deposit

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/shopspring/decimal"

	"github.com/ponte-pay/ponte/internal/event"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/money"
)

// State is where a deposit stands. Only its rules move it.
type State string

const (
	Processing State = "processing" // stored; its address is being made, or looked for
	Waiting    State = "waiting"    // has an address, at which nothing was seen
	Confirming State = "confirming" // coins were seen; nothing is settled
	Paid       State = "paid"       // settled and posted
	Failed     State = "failed"     // went wrong, or the provider would not make an address
	Expired    State = "expired"    // nothing came in time; late money still counts
	Refunded   State = "refunded"   // went back to who paid before it was settled
)

// trigger is something that happens to a deposit.
type trigger string

const (
	repeat    trigger = "repeat"    // money came to a used address again, and is settled
	provision trigger = "provision" // its address is known
	detect    trigger = "detect"    // coins were seen on the chain
	confirm   trigger = "confirm"   // the provider has settled an amount, or more than before
	fail      trigger = "fail"      // the provider says that it went wrong, or refuses to make an address
	expire    trigger = "expire"    // the provider waits no longer
	refund    trigger = "refund"    // the provider has given everything back
)

// posting names what the ledger does, see docs/states.md.
type posting string

const (
	nothing posting = ""
	settle  posting = "settle_crypto" // credit what was settled, charge the fee
	giveUp  posting = "give_crypto"   // debit what was given back
)

// rule is one row of the transition table.
type rule struct {
	from  State
	on    trigger
	to    State
	posts posting
	emits event.Type // "" for none
}

// rules is the table of docs/states.md, row for row; a test keeps them equal. What is not listed is refused. A row that
// leads to where it began moves the ledger and leaves the status.
var rules = []rule{
	{"", repeat, Paid, settle, event.CryptoChargePaid},
	{Processing, provision, Waiting, nothing, event.CryptoChargeCreated},
	{Processing, fail, Failed, nothing, event.CryptoChargeFailed},
	{Waiting, detect, Confirming, nothing, event.CryptoChargeConfirming},
	{Waiting, confirm, Paid, settle, event.CryptoChargePaid},
	{Waiting, fail, Failed, nothing, event.CryptoChargeFailed},
	{Waiting, expire, Expired, nothing, event.CryptoChargeExpired},
	{Waiting, refund, Refunded, nothing, ""},
	{Confirming, confirm, Paid, settle, event.CryptoChargePaid},
	{Confirming, fail, Failed, nothing, event.CryptoChargeFailed},
	{Confirming, expire, Expired, nothing, event.CryptoChargeExpired},
	{Confirming, refund, Refunded, nothing, ""},
	{Paid, confirm, Paid, settle, ""}, // more was settled
	{Paid, refund, Paid, giveUp, ""},
	{Failed, confirm, Failed, settle, ""}, // never lose it
	{Failed, refund, Failed, giveUp, ""},
	{Expired, confirm, Expired, settle, ""}, // nor this
	{Expired, refund, Expired, giveUp, ""},
}

// TransitionError reports something that cannot happen to a deposit in its state.
type TransitionError struct {
	From State
	On   trigger
}

func (e *TransitionError) Error() string {
	return fmt.Sprintf("deposit: cannot %s a deposit that is %s", e.On, e.From)
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

// isOpen reports whether the provider still has something to say about it that nobody has to come late for.
func (s State) isOpen() bool { return s == Processing || s == Waiting || s == Confirming }

// AmountStatus is how the coins that came compare with those that were asked for.
type AmountStatus string

const (
	Underpaid AmountStatus = "underpaid" // too few came
	Exact     AmountStatus = "exact"     // as many as were asked for
	Overpaid  AmountStatus = "overpaid"  // more came
)

// Review is why an operator should look at a deposit.
type Review string

const (
	ReviewLate   Review = "late"   // money came after it had ended, and was credited
	ReviewRefund Review = "refund" // the provider gave money back that was credited, and it was debited
	ReviewMore   Review = "more"   // the provider settled more after it was paid, and that was credited too
	ReviewCoin   Review = "coin"   // another coin came than the one asked for; what it settled at was credited
	ReviewStuck  Review = "stuck"  // the provider has coins that it has not settled
)

// Deposit asks a payer for coins worth a price.
type Deposit struct {
	Account       id.Account
	ID            id.ID  // tells when it was created
	ExternalID    string // "" for none
	Status        State
	Price         money.USD
	PayCurrency   string // code of the coin asked for
	Description   string
	CustomerID    string // "" for none
	CustomerEmail string
	Metadata      json.RawMessage // nil for none
	Provider      string
	Asks          int64     // how often the provider was about to be asked for an address; 0 for one that it made by itself
	AskedAt       time.Time // since when the last of these may be under way
	CheckAt       time.Time // when the provider is asked how it stands; zero once it has ended
	PaymentID     string    // the provider's name for it; "" before it has an address
	Parent        string    // of money that came to a used address again, the payment whose address it is; "" for all others
	PayAddress    string
	PayExtraID    string              // "" for none
	PayAmount     decimal.NullDecimal // in coins; null before, and when nobody asked
	PaidAmount    decimal.NullDecimal // in coins; null when nothing came, or another coin
	AmountStatus  AmountStatus        // "" before it is settled
	Received      money.USDT          // what the provider has settled, all of it posted; 0 before
	Fee           money.USDT          // charged for it
	Refunded      money.USDT          // what the provider has given back of it
	ExpiresAt     time.Time           // zero when the provider does not tell
	DetectedAt    time.Time           // when it became confirming; zero when it never was
	PaidAt        time.Time           // when it became paid; zero when it never did
	Review        Review              // "" for no reason
	ReviewAt      time.Time           // since when; zero for no reason

	key  string   // the Idempotency-Key that made it; "" for none
	hash [32]byte // of the body that made it
}

// CreatedAt returns when the deposit was created.
func (d *Deposit) CreatedAt() time.Time { return d.ID.Time() }

// Reference returns what the provider knows the deposit by. It is the same each time it is asked for an address, so that
// what it made can be found by it.
func (d *Deposit) Reference() string { return id.Token(d.ID, d.Account) }

// Net returns what the account got.
func (d *Deposit) Net() money.USDT { return d.Received - d.Fee }

// Kinds of transfers. All begin with crypto_in.
const (
	KindIn     ledger.Kind = "crypto_in"        // what the provider settled
	kindFee    ledger.Kind = "crypto_in_fee"    // what the account pays for it
	kindRefund ledger.Kind = "crypto_in_refund" // what the provider gave back
)

// posts are what the ledger does when a deposit gets from one state to another: what is new of what was settled, charged
// and given back.
func (d *Deposit) posts(before *Deposit) (list []*ledger.Transfer) {
	add := func(kind ledger.Kind, source, target ledger.Book, total, posted money.USDT) {
		if total == posted {
			return
		}
		list = append(list, &ledger.Transfer{
			Account: d.Account, Amount: (total - posted).Amount(), Source: source, Target: target, Kind: kind, Ref: d.ID,
			// Of each payment, each total is reached once.
			OnceKey: d.Provider + " " + d.PaymentID + " " + total.String(), After: d.ID,
			Overdraw: source == ledger.Available,
		})
	}
	add(KindIn, ledger.Acquirer, ledger.Available, d.Received, before.Received)
	add(kindFee, ledger.Available, ledger.Fees, d.Fee, before.Fee)
	add(kindRefund, ledger.Available, ledger.Acquirer, d.Refunded, before.Refunded)
	return list
}
