// Package chain says what a crypto provider offers; what it calls refused is proven not to have happened.
//
// A driver turns a provider's API into a [Provider], and into a [Payer] where the provider also sends. Nothing here stores
// anything: what a provider says is believed by use cases, one by one, after they have compared it with what they know.
//
// Quantities of a coin are decimals, because coins have up to eighteen of them; they never leave this edge for a ledger.
// What was settled to us is [money.USDT], rounded down.
package chain

import (
	"context"
	"time"

	"github.com/shopspring/decimal"

	"github.com/ponte-pay/ponte/internal/money"
)

// TryTimeMax is how long one call of a method may take, in real time, whatever the other side does.
const TryTimeMax = 5 * time.Second

// Provider is an account at a crypto provider that takes coins in and settles them in USDT.
//
// Every method may be called by many goroutines at once, ends when ctx does and within [TryTimeMax], and fails with an
// [*Error]. Currency codes are lower case, such as usdttrc20.
type Provider interface {
	// Name returns what operators call this provider. It is stored with all that is made there, so it never changes.
	Name() string

	// Currencies returns the coins of [Coins] that the provider knows, as they stand now, in the order of that table. A
	// coin that is not among them can be neither paid in nor out. The answer may be some minutes old.
	Currencies(ctx context.Context) ([]Currency, error)

	// Minimum returns the smallest payment that the provider takes in a coin, in that coin, when it is settled in USDT.
	// It is a check beforehand: what CreatePayment says counts. An ErrCurrencyUnavailable is Refused.
	Minimum(ctx context.Context, currency string) (decimal.Decimal, error)

	// Estimate returns what an amount of one currency is worth in another, as the provider would convert it now. It binds
	// nobody. Either side may be usd; brl is not known to providers.
	Estimate(ctx context.Context, c Conversion) (decimal.Decimal, error)

	// CreatePayment asks for an address. Providers have no idempotency: each accepted call makes another address. So it is
	// called again under the same reference only after an error that is Refused; after any other, ask [FindPayments].
	//
	// A refusal may be ErrBelowMinimum or ErrCurrencyUnavailable.
	CreatePayment(ctx context.Context, n NewPayment) (Payment, error)

	// GetPayment returns a payment as it stands now, or ErrNotFound.
	GetPayment(ctx context.Context, id string) (Payment, error)

	// ListPayments returns a page of the payments that were made during a window, those included that the provider made by
	// itself when money came to an address again. It may return some from just outside of the window, and one payment on
	// two pages when others come in meanwhile. One that was made a moment ago may be missing.
	ListPayments(ctx context.Context, w Window) (Page, error)

	// ReadNotice returns what a notification says, after its signature was found to be the provider's; one that is not is
	// ErrSignature. header is that of its HTTP request. It asks nobody. A notification is a hint, can come twice, late and out of order: ask GetPayment or
	// GetPayout before anything moves. Only for a payment with a Parent that GetPayment does not find is it all there is.
	ReadNotice(header map[string][]string, body []byte) (Notice, error)
}

// Payer is a provider that also sends coins.
//
// What it is told about a send decides where money is, so that nothing is inferred: an error with the outcome Refused is
// proof that no coin left and none will, and every other error says nothing at all.
type Payer interface {
	Provider

	// ValidateAddress asks the provider whether it would send there. ErrInvalidAddress, which is Refused, is a no; every
	// other error says nothing about the address.
	ValidateAddress(ctx context.Context, d Destination) error

	// PayoutMinimum returns the smallest payout in a coin, in that coin, asked for now and never kept. An
	// ErrCurrencyUnavailable is Refused.
	PayoutMinimum(ctx context.Context, currency string) (decimal.Decimal, error)

	// PayoutFee returns what the network would take of a payout, in its coin, asked for now and never kept. The fee that is
	// taken at last may be another.
	PayoutFee(ctx context.Context, currency string, amount decimal.Decimal) (decimal.Decimal, error)

	// CreatePayout asks for a payout under a reference that its caller chose. It is not sent before VerifyPayout. Nothing
	// promises that a second one under the same reference is refused: it is called again only after an error that is
	// Refused, or after FindPayout has found nothing for long enough; after any other error, ask FindPayout.
	//
	// A refusal may be ErrInvalidAddress, ErrBelowMinimum, ErrInsufficientBalance or ErrCurrencyUnavailable. ErrDuplicate has
	// the outcome Unknown: ask FindPayout.
	CreatePayout(ctx context.Context, n NewPayout) (Payout, error)

	// VerifyPayout confirms a payout with the second factor. One that was confirmed before is a success. It may be repeated
	// as often as need be: it sends nothing twice. A payout that nobody confirms within an hour is rejected by the provider.
	//
	// Codes are for one use and change every half minute, so that it may be Refused with RateLimited: try again later.
	VerifyPayout(ctx context.Context, id string) error

	// GetPayout returns a payout by the provider's id, or ErrNotFound.
	GetPayout(ctx context.Context, id string) (Payout, error)

	// FindPayout returns the payout with a reference, or ErrNotFound. That it is not found proves nothing while its creation
	// may still be on the way.
	FindPayout(ctx context.Context, s Search) (Payout, error)

	// Balance returns what could be sent now of each coin; one that is not there is zero.
	Balance(ctx context.Context) (map[string]decimal.Decimal, error)
}

// Currency is a coin as it stands with a provider now.
type Currency struct {
	Coin
	CanDeposit   bool // payments can be made in it
	CanWithdraw  bool // payouts can be made in it
	HasMemo      bool // there is a memo or tag beside the address
	RequiresMemo bool // which must not be left out
	Decimals     int  // of the smallest quantity that can be sent, the provider's and the network's bounds together
}

// Conversion is an amount to be seen in another currency.
type Conversion struct {
	From   string // a coin's code, or usd
	To     string // a coin's code, or usd
	Amount decimal.Decimal
}

// NewPayment is a payment to be made.
type NewPayment struct {
	Reference   string          // ours, printable ASCII; the provider gives it back as it is
	Price       decimal.Decimal // in USD, at most two decimals
	PayCurrency string
	Description string // for the provider's own pages; drivers send its ASCII only; "" means none
	CallbackURL string // where notifications go; "" means that none are wanted
}

// Payment is a payment as its provider sees it.
type Payment struct {
	ID          string // the provider's, decimal digits
	Parent      string // of a repeated deposit, the id of the payment whose address it came to; "" for all others
	Reference   string // ours; of a repeated deposit that of its parent; "" when not told
	Status      PaymentStatus
	Address     string
	ExtraID     string          // memo or tag that must be sent with the coins; "" for none
	Price       decimal.Decimal // in USD
	PayAmount   decimal.Decimal // what is asked for, in PayCurrency
	PayCurrency string          // what came in, when that was another coin than the one asked for
	Paid        decimal.Decimal // what came in, in PayCurrency; not more than a claim before Status.IsSettled
	Settled     money.USDT      // what the provider has settled to us after its fees, rounded down; 0 before it has, and when it was not in USDT
	TxHash      string          // of the transaction that brought the coins; "" when not told
	Children    []string        // ids of repeated deposits to the same address
	CreatedAt   time.Time       // zero when not told
	UpdatedAt   time.Time       // zero when not told
	ExpiresAt   time.Time       // until when the provider waits; zero when not told
}

// PaymentStatus says how far a payment has come.
type PaymentStatus int

const (
	PaymentUnknown       PaymentStatus = iota // a word that this version does not know; treat it as still under way
	PaymentWaiting                            // nothing has come in
	PaymentConfirming                         // seen on the chain; confirmed and sending are this too
	PaymentFinished                           // settled; may still be refunded
	PaymentPartiallyPaid                      // settled, for less than was asked; may still become finished
	PaymentFailed                             // went wrong; if Paid is above zero, money is there and an operator must look
	PaymentRefunded                           // went back to who paid
	PaymentExpired                            // nothing came in time; money can still come
)

// String returns the status as a word for operators.
func (s PaymentStatus) String() string {
	return word(int(s), "unknown", "waiting", "confirming", "finished", "partially_paid", "failed", "refunded", "expired")
}

// IsSettled reports whether the provider has settled the payment to us. What it has settled is in Settled, which may be
// zero all the same: then there is nothing to credit.
func (s PaymentStatus) IsSettled() bool { return s == PaymentFinished || s == PaymentPartiallyPaid }

// Window is a span of time and a place in its list of payments.
type Window struct {
	From, To time.Time // both included
	Cursor   string    // as the page before told; "" means the first page
}

// Page is a part of a list of payments.
type Page struct {
	Payments   []Payment
	Next       string // the cursor of the next page; "" on the last
	Unreadable int    // payments that were left out because they made no sense; an operator must look
}

// Destination is where coins are to be sent.
type Destination struct {
	Currency string
	Address  string
	ExtraID  string // "" for none
}

// PayoutDecimalsMax is how many decimals the amount of a payout may have, whatever the coin.
const PayoutDecimalsMax = 6

// NewPayout is coins to be sent.
type NewPayout struct {
	Reference string // ours, printable ASCII, the same in every repetition
	Destination
	Amount      decimal.Decimal // in the coin, at most [PayoutDecimalsMax] decimals; the network's fee is taken from it
	Description string          // for the provider's own pages; drivers send its ASCII only; "" means none
	CallbackURL string          // where notifications go; "" means that none are wanted
}

// Payout is a payout as its provider sees it.
type Payout struct {
	ID        string // the provider's, by which it is asked for and verified
	Reference string // ours; "" when not told
	Status    PayoutStatus
	Destination
	Amount    decimal.Decimal // in the coin
	Fee       decimal.Decimal // what the network took, in the coin; 0 when not told
	TxHash    string          // "" when not told
	Reason    string          // why it failed or was rejected; "" for none
	CreatedAt time.Time       // zero when not told
	UpdatedAt time.Time       // zero when not told
}

// PayoutStatus says how far a payout has come.
type PayoutStatus int

const (
	PayoutUnknown    PayoutStatus = iota // a word that this version does not know; treat it as still under way
	PayoutWaiting                        // created; not verified, or not begun
	PayoutProcessing                     // verified, and on its way to the chain
	PayoutSending                        // on the chain
	PayoutFinished                       // the recipient has the coins; final
	PayoutFailed                         // went wrong, and may still be sent: in doubt, and never final
	PayoutRejected                       // proven not to have left, now or ever; final. cancelled is this too
)

// String returns the status as a word for operators.
func (s PayoutStatus) String() string {
	return word(int(s), "unknown", "waiting", "processing", "sending", "finished", "failed", "rejected")
}

// IsFinal reports whether the status can never change again.
func (s PayoutStatus) IsFinal() bool { return s == PayoutFinished || s == PayoutRejected }

// Search is what to look for in a provider's list, and when it was asked for.
type Search struct {
	Reference string
	From, To  time.Time // both included; as narrow as is safe, because the list can be long
}

// Notice is what a notification says: exactly one of its fields is set.
type Notice struct {
	Payment *Payment
	Payout  *Payout
}
