package api

import (
	"encoding/json"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/shopspring/decimal"

	"github.com/ponte-pay/ponte/internal/chain"
	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/deposit"
	"github.com/ponte-pay/ponte/internal/httpkit"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/plainjson"
)

// cryptoChargeJSON is a crypto charge.
type cryptoChargeJSON struct {
	ID                 string          `json:"id"`
	Object             string          `json:"object"`
	Status             deposit.State   `json:"status"`
	ExternalID         *string         `json:"external_id"`
	CustomerID         *string         `json:"customer_id"`
	Metadata           json.RawMessage `json:"metadata"`
	PriceAmount        money.USD       `json:"price_amount"`
	PriceCurrency      string          `json:"price_currency"`
	PayAmount          *json.Number    `json:"pay_amount"`
	PayCurrency        string          `json:"pay_currency"`
	PaidAmount         *json.Number    `json:"paid_amount"`
	AmountStatus       *string         `json:"amount_status"`
	ReceivedAmount     *money.USDT     `json:"received_amount"`
	PayAddress         *string         `json:"pay_address"`
	PayExtraID         *string         `json:"pay_extra_id"`
	Network            *string         `json:"network"`
	Fee                *money.USDT     `json:"fee"`
	NetAmount          *money.USDT     `json:"net_amount"`
	CreditedAmount     *money.USDT     `json:"credited_amount"` // the same as NetAmount
	SettlementCurrency string          `json:"settlement_currency"`
	SettledAmount      *money.USDT     `json:"settled_amount"`
	SettledCurrency    *string         `json:"settled_currency"`
	RefundedAmount     *money.USDT     `json:"refunded_amount"`
	ExpiresAt          *string         `json:"expires_at"`
	PaidAt             *string         `json:"paid_at"`
	CreatedAt          string          `json:"created_at"`
	PaymentID          *string         `json:"payment_id,omitempty"`
}

const (
	objectCryptoCharge = "crypto_charge"
	currencyUSD        = "usd"
	currencyUSDT       = "usdt"
)

func coins(d decimal.NullDecimal) *json.Number {
	if !d.Valid {
		return nil
	}
	return quantityOrNull(&d.Decimal)
}

func newCryptoCharge(d *deposit.Deposit) cryptoChargeJSON {
	out := cryptoChargeJSON{
		ID: id.CryptoCharge.Format(d.ID), Object: objectCryptoCharge, Status: d.Status, ExternalID: optional(d.ExternalID),
		CustomerID: optional(d.CustomerID), Metadata: d.Metadata, PriceAmount: d.Price, PriceCurrency: currencyUSD,
		PayAmount: coins(d.PayAmount), PayCurrency: d.PayCurrency, PaidAmount: coins(d.PaidAmount),
		AmountStatus: optional(string(d.AmountStatus)), PayAddress: optional(d.PayAddress), PayExtraID: optional(d.PayExtraID),
		SettlementCurrency: currencyUSDT, CreatedAt: clock.Timestamp(d.CreatedAt()), PaymentID: optional(d.PaymentID),
	}
	if coin, ok := chain.FindCoin(d.PayCurrency); ok {
		out.Network = &coin.Network
	}
	if d.Received > 0 {
		received, fee, net := d.Received, d.Fee, d.Net()
		out.ReceivedAmount, out.Fee, out.NetAmount, out.CreditedAmount = &received, &fee, &net, &net
		out.SettledAmount, out.SettledCurrency = &received, optional(currencyUSDT)
	}
	if refunded := d.Refunded; refunded > 0 {
		out.RefundedAmount = &refunded
	}
	if !d.ExpiresAt.IsZero() {
		out.ExpiresAt = optional(clock.Timestamp(d.ExpiresAt))
	}
	if !d.PaidAt.IsZero() {
		out.PaidAt = optional(clock.Timestamp(d.PaidAt))
	}
	return out
}

// RenderCryptoCharge returns a crypto charge as its events show it, which is as the API does.
func RenderCryptoCharge(d *deposit.Deposit) ([]byte, error) {
	return plainjson.Append(nil, newCryptoCharge(d))
}

// Lengths of a crypto charge's fields.
const (
	customerIDMax    = 120
	customerEmailMax = 200
	metadataBytesMax = 4 << 10
)

func (a *API) createCryptoCharge(c *call) (httpkit.Answer, error) {
	body, err := httpkit.ReadObject(c.Request)
	if err != nil {
		return httpkit.Answer{}, err
	}
	f := httpkit.Fields(body)
	request := deposit.Request{
		Account: c.principal.Account,
		Key:     c.Header.Get(idempotencyKeyHeader), Hash: body.Hash(),
		Price:         f.USD("amount", httpkit.USDRule{Required: true, Min: 1}),
		PayCurrency:   f.String("pay_currency", httpkit.StringRule{Required: true}).Value,
		ExternalID:    f.String("external_id", httpkit.StringRule{Min: 1, Max: externalIDMax}).Value,
		CustomerID:    f.String("customer_id", httpkit.StringRule{Max: customerIDMax}).Value,
		Description:   f.String("description", httpkit.StringRule{Max: descriptionMax}).Value,
		CustomerEmail: f.String("customer_email", httpkit.StringRule{Max: customerEmailMax}).Value,
		Metadata:      f.Raw("metadata", httpkit.RawRule{BytesMax: metadataBytesMax}),
	}
	if request.Key == "" && !f.Has("external_id") {
		f.Issue("external_id", messageIdentifier)
	}
	if err := f.Err(); err != nil {
		return httpkit.Answer{}, unprocessable(err)
	}
	made, outcome, err := a.deposits.Create(c.Context(), request)
	if err != nil {
		return httpkit.Answer{}, err
	}
	if made.Status == deposit.Processing {
		return httpkit.Answer{Status: http.StatusAccepted, Body: newCryptoCharge(&made)}, nil
	}
	return createdCrypto(outcome, newCryptoCharge(&made)), nil
}

func (a *API) getCryptoCharge(c *call) (httpkit.Answer, error) {
	name := c.PathValue("id")
	if !utf8.ValidString(name) || strings.ContainsRune(name, 0) { // what no database can be asked for names nothing
		return httpkit.Answer{}, deposit.ErrNotFound
	}
	found, err := a.deposits.Get(c.Context(), c.principal.Account.ID, name)
	if err != nil {
		return httpkit.Answer{}, err
	}
	return httpkit.Answer{Body: newCryptoCharge(&found)}, nil
}

func (a *API) listCryptoCharges(c *call) (httpkit.Answer, error) {
	q := httpkit.Query(c.Request)
	page := deposit.Page{
		Limit:      q.Int("limit", httpkit.IntRule{Min: 1, Max: pageMax, Default: pageDefault}),
		ExternalID: q.String("external_id", httpkit.StringRule{Min: 1, Max: externalIDMax}).Value,
		CustomerID: q.String("customer_id", httpkit.StringRule{Min: 1, Max: customerIDMax}).Value,
	}
	cursor := q.Cursor("starting_after")
	page.StartingAfter, page.Before = cursor.ID, cursor.Before
	if _, err := id.CryptoCharge.Parse(cursor.ID); cursor.ID != "" && err != nil {
		q.Issue(deposit.ErrCursor.Issues[0].Path, deposit.ErrCursor.Issues[0].Message)
	}
	if err := q.Err(); err != nil {
		return httpkit.Answer{}, unprocessable(err)
	}
	list, more, err := a.deposits.List(c.Context(), c.principal.Account.ID, page)
	if err != nil {
		return httpkit.Answer{}, err
	}
	out := httpkit.Page[cryptoChargeJSON]{HasMore: more}
	for i := range list {
		out.Data = append(out.Data, newCryptoCharge(&list[i]))
	}
	if more {
		out.NextStartingAfter = &out.Data[len(out.Data)-1].ID
	}
	return httpkit.Answer{Body: out}, nil
}
