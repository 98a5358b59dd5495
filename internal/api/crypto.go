package api

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/shopspring/decimal"

	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/httpkit"
	"github.com/ponte-pay/ponte/internal/idempotency"
)

// What all crypto routes have in common: broken fields and query values are 422 invalid_request, quantities have as many
// decimals as they need, and a repeated creation is told how its resource stands.

// unprocessable turns broken fields into the crypto routes' refusal of them.
func unprocessable(err error) error {
	broken, ok := errors.AsType[*fault.Error](err)
	if !ok || broken.Kind != fault.Invalid {
		return err
	}
	shown := *broken
	shown.Kind = fault.Unprocessable
	return &shown
}

// quantity is a JSON number of as many digits as it needs.
func quantity(d decimal.Decimal) json.Number { return json.Number(d.String()) }

// quantityOrNull is a quantity that may be unknown.
func quantityOrNull(d *decimal.Decimal) *json.Number {
	if d == nil {
		return nil
	}
	n := quantity(*d)
	return &n
}

// createdCrypto answers a crypto creation: 201 for a new resource, and for every repetition 200 with the resource as it
// stands and a header that tells.
func createdCrypto(outcome idempotency.Outcome, body any) httpkit.Answer {
	if outcome == idempotency.Created {
		return httpkit.Answer{Status: http.StatusCreated, Body: body}
	}
	return httpkit.Answer{Body: body, Header: http.Header{replayedHeader: {"true"}}}
}

// messageIdentifier is what a creation must be known by.
const messageIdentifier = "is required unless the header Idempotency-Key is sent"

var (
	errUnsupportedCurrency = fault.New(fault.Unprocessable, "unsupported_currency", "this coin is not offered for this; GET /crypto/currencies lists those that are")
	errUnsupportedNetwork  = fault.New(fault.Unprocessable, "unsupported_network", "the coin is not on this network")
	errInvalidAmount       = fault.New(fault.Unprocessable, "invalid_amount", "the amount must be a number above zero with at most 6 decimals, and at most 9999999999.99")
)
