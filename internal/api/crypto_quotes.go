package api

import (
	"encoding/json"
	"errors"
	"slices"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/chain"
	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/httpkit"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/quote"
)

// quoteJSON is what an amount was worth at a moment.
type quoteJSON struct {
	Object          string          `json:"object"`
	QuoteID         string          `json:"quote_id"`
	Operation       quote.Operation `json:"operation"`
	From            string          `json:"from"`
	To              string          `json:"to"`
	Network         *string         `json:"network"`
	Amount          json.Number     `json:"amount"`
	EstimatedAmount json.Number     `json:"estimated_amount"`
	Rate            json.Number     `json:"rate"`
	Minimum         *json.Number    `json:"minimum"`
	MinimumCurrency *string         `json:"minimum_currency"`
	PriceLocked     bool            `json:"price_locked"` // never
	ExpiresAt       string          `json:"expires_at"`
	CreatedAt       string          `json:"created_at"`
}

func newQuote(q *quote.Quote) quoteJSON {
	out := quoteJSON{
		Object: "crypto_quote", QuoteID: id.CryptoQuote.Format(q.ID), Operation: q.Operation, From: q.From, To: q.To, Network: optional(q.Network),
		Amount: quantity(chain.FromUSDT(q.Amount)), EstimatedAmount: quantity(q.Estimated), Rate: quantity(q.Rate),
		Minimum:   quantityOrNull(q.Minimum),
		ExpiresAt: clock.Timestamp(q.ExpiresAt()), CreatedAt: clock.Timestamp(q.CreatedAt()),
	}
	if q.Minimum != nil {
		out.MinimumCurrency = &out.From
	}
	return out
}

// quoteScopes are what each operation needs beside what the route does.
var quoteScopes = map[quote.Operation][]account.Scopes{
	quote.Deposit:    {account.ScopeChargesRead},
	quote.Withdrawal: {account.ScopePayoutsRead},
	quote.Conversion: {account.ScopeChargesRead, account.ScopePayoutsRead},
}

const currencyCodeMax = 32

func (a *API) createCryptoQuote(c *call) (httpkit.Answer, error) {
	body, err := httpkit.ReadObject(c.Request)
	if err != nil {
		return httpkit.Answer{}, err
	}
	f := httpkit.Fields(body)
	operation := quote.Operation(f.String("operation", httpkit.StringRule{Required: true, Max: currencyCodeMax}).Value)
	// The body names the operation, so that only now it is known which scope it needs.
	if scopes := quoteScopes[operation]; scopes != nil {
		if err := (&route{scopes: scopes}).permits(c.principal); err != nil {
			return httpkit.Answer{}, err
		}
	}
	request := quote.Request{
		Operation: operation,
		From:      f.String("from", httpkit.StringRule{Required: true, Max: currencyCodeMax}).Value,
		To:        f.String("to", httpkit.StringRule{Required: true, Max: currencyCodeMax}).Value,
		Network:   f.String("network", httpkit.StringRule{Max: currencyCodeMax}).Value,
		Amount:    f.USDT("amount", httpkit.USDTRule{Required: true, Min: 1}),
	}
	if err := f.Err(); err != nil {
		return httpkit.Answer{}, onlyAmount(err, f.Has("amount"), money.ErrSyntax.Error())
	}
	if !slices.Contains(quote.Operations, operation) {
		return httpkit.Answer{}, fault.New(fault.Unprocessable, "unsupported_route", "operation must be deposit, withdrawal or conversion")
	}
	made, err := a.quotes.Create(c.Context(), request)
	if err != nil {
		return httpkit.Answer{}, err
	}
	return httpkit.Answer{Body: newQuote(&made)}, nil
}

// onlyAmount turns broken fields into invalid_amount when they are one amount that is there, and otherwise into
// invalid_request. So is an amount with one of these messages: what is no number in JSON is a field of the wrong type.
func onlyAmount(err error, present bool, except ...string) error {
	broken, ok := errors.AsType[*fault.Error](err)
	if ok && present && len(broken.Issues) == 1 && broken.Issues[0].Path == "amount" && !slices.Contains(except, broken.Issues[0].Message) {
		return errInvalidAmount
	}
	return unprocessable(err)
}
