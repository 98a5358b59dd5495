package account

import (
	"fmt"

	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/money"
)

// Creation is a kind of thing that callers create.
type Creation int

const (
	CreateCharge       Creation = iota // a Pix charge
	CreatePayout                       // a Pix payout
	CreateCryptoCharge                 // a crypto deposit
	CreateCryptoPayout                 // a crypto withdrawal
)

// Refusals by the settings of an account.
var (
	errKYC             = fault.New(fault.Forbidden, "kyc_required", "the account's owner has to be identified first")
	errCashinDisabled  = fault.New(fault.Forbidden, "api_cashin_disabled", "the account may not create charges by API")
	errCashoutDisabled = fault.New(fault.Forbidden, "api_cashout_disabled", "the account may not create payouts by API")
	errPayoutDisabled  = fault.New(fault.Forbidden, "api_payout_disabled", "the account may not create crypto payouts by API")
	errCryptoDisabled  = fault.New(fault.Unprocessable, "crypto_disabled", "crypto is switched off for the account")
	errSplitDisabled   = fault.New(fault.Forbidden, "split_disabled", "split is switched off for the account")
	errSplitMissing    = fault.New(fault.Unprocessable, "split_not_available", "split is not available")
)

// Permit returns nil when the account may create such a thing by API, and otherwise the first refusal: identification,
// then direction, then crypto.
func (s Settings) Permit(c Creation) error {
	in := c == CreateCharge || c == CreateCryptoCharge
	isCrypto := c == CreateCryptoCharge || c == CreateCryptoPayout
	switch {
	case s.KYC == KYCPending:
		return errKYC
	case in && !s.APICashin:
		return errCashinDisabled
	case !in && !s.APICashout:
		return errCashoutDisabled
	case c == CreateCryptoPayout && !s.APIPayout:
		return errPayoutDisabled
	case isCrypto && !s.Crypto:
		return errCryptoDisabled
	}
	return nil
}

// Split is how a request asks to share its money.
type Split struct {
	List bool // it has a split
	Rule bool // it has a split_rule_id
}

// PermitSplit returns nil when nothing is to be split. There is no split engine, so that a permitted one is refused too.
func (s Settings) PermitSplit(split Split) error {
	switch {
	case split.List && !s.Split:
		return errSplitDisabled
	case split.List || split.Rule:
		return errSplitMissing
	}
	return nil
}

// Origin is who asked for something.
type Origin string

const (
	OriginAPI    Origin = "api"    // the account, by its key
	OriginManual Origin = "manual" // a person
)

// PermitBRL returns nil when the amount is within the account's limit for one transaction.
func (s Settings) PermitBRL(amount money.BRL) error {
	if s.APITxLimit == 0 || amount <= s.APITxLimit {
		return nil
	}
	return fault.New(fault.Unprocessable, "AMOUNT_LIMIT_EXCEEDED",
		fmt.Sprintf("the amount is above the account's limit of %s BRL a transaction", s.APITxLimit))
}

// PermitUSDT returns nil when the amount, in USDT or USD, is within the account's limit for one transaction.
func (s Settings) PermitUSDT(amount money.USDT) error {
	if s.CryptoTxLimit == 0 || amount <= s.CryptoTxLimit {
		return nil
	}
	return &fault.Error{
		Kind: fault.Unprocessable, Public: "the amount is above the account's limit",
		Issues: []fault.Issue{{Path: "amount", Message: fmt.Sprintf("must be at most %s", s.CryptoTxLimit)}},
	}
}
