package chain

import (
	"context"

	"github.com/shopspring/decimal"
)

// Nobody is the provider of an installation that has none: it refuses everything.
type Nobody struct{}

var _ Payer = Nobody{}

func nobody(operation string) error {
	return &Error{Provider: "nobody", Operation: operation, Outcome: Refused, Class: Credentials, Message: "no crypto provider is configured"}
}

// Name returns nobody.
func (Nobody) Name() string { return "nobody" }

// Currencies fails.
func (Nobody) Currencies(context.Context) ([]Currency, error) { return nil, nobody("currencies") }

// Minimum fails.
func (Nobody) Minimum(context.Context, string) (decimal.Decimal, error) {
	return decimal.Zero, nobody("minimum")
}

// Estimate fails.
func (Nobody) Estimate(context.Context, Conversion) (decimal.Decimal, error) {
	return decimal.Zero, nobody("estimate")
}

// CreatePayment fails.
func (Nobody) CreatePayment(context.Context, NewPayment) (Payment, error) {
	return Payment{}, nobody("payment.create")
}

// GetPayment fails.
func (Nobody) GetPayment(context.Context, string) (Payment, error) {
	return Payment{}, nobody("payment.get")
}

// ListPayments fails.
func (Nobody) ListPayments(context.Context, Window) (Page, error) {
	return Page{}, nobody("payment.list")
}

// ReadNotice fails: nobody signs.
func (Nobody) ReadNotice(map[string][]string, []byte) (Notice, error) { return Notice{}, ErrSignature }

// ValidateAddress fails.
func (Nobody) ValidateAddress(context.Context, Destination) error { return nobody("address") }

// PayoutMinimum fails.
func (Nobody) PayoutMinimum(context.Context, string) (decimal.Decimal, error) {
	return decimal.Zero, nobody("payout.minimum")
}

// PayoutFee fails.
func (Nobody) PayoutFee(context.Context, string, decimal.Decimal) (decimal.Decimal, error) {
	return decimal.Zero, nobody("payout.fee")
}

// CreatePayout fails.
func (Nobody) CreatePayout(context.Context, NewPayout) (Payout, error) {
	return Payout{}, nobody("payout.send")
}

// VerifyPayout fails.
func (Nobody) VerifyPayout(context.Context, string) error { return nobody("payout.verify") }

// GetPayout fails.
func (Nobody) GetPayout(context.Context, string) (Payout, error) {
	return Payout{}, nobody("payout.get")
}

// FindPayout fails.
func (Nobody) FindPayout(context.Context, Search) (Payout, error) {
	return Payout{}, nobody("payout.find")
}

// Balance fails.
func (Nobody) Balance(context.Context) (map[string]decimal.Decimal, error) {
	return nil, nobody("balance")
}
