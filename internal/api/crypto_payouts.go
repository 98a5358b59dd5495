package api

import (
	"encoding/json"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/chain"
	"github.com/ponte-pay/ponte/internal/chain/address"
	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/httpkit"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/plainjson"
	"github.com/ponte-pay/ponte/internal/withdrawal"
)

// cryptoPayoutJSON is a crypto withdrawal.
type cryptoPayoutJSON struct {
	ID                 string           `json:"id"`
	Object             string           `json:"object"`
	Status             withdrawal.State `json:"status"`
	Currency           string           `json:"currency"`
	Amount             money.USDT       `json:"amount"`
	Fee                money.USDT       `json:"fee"`
	ConversionFee      money.USDT       `json:"conversion_fee"`
	NetAmount          money.USDT       `json:"net_amount"` // the same as Amount
	GrossAmount        money.USDT       `json:"gross_amount"`
	SettlementCurrency string           `json:"settlement_currency"`
	Origin             account.Origin   `json:"origin"`
	ExternalID         *string          `json:"external_id"`
	TxHash             *string          `json:"tx_hash"`
	ErrorMessage       *string          `json:"error_message"`
	CreatedAt          string           `json:"created_at"`
}

func newCryptoPayout(w *withdrawal.Withdrawal) cryptoPayoutJSON {
	return cryptoPayoutJSON{
		ID: id.CryptoPayout.Format(w.ID), Object: "crypto_payout", Status: w.Status, Currency: w.Currency, Amount: w.Amount, Fee: w.Fee,
		ConversionFee: w.ConversionFee, NetAmount: w.Amount, GrossAmount: w.Gross(), SettlementCurrency: "usdt", Origin: w.Origin,
		ExternalID: optional(w.ExternalID), TxHash: optional(w.TxHash), ErrorMessage: optional(w.ErrorMessage), CreatedAt: clock.Timestamp(w.CreatedAt()),
	}
}

// RenderCryptoPayout returns a withdrawal as its events show it, which is as the API does.
func RenderCryptoPayout(w *withdrawal.Withdrawal) ([]byte, error) {
	return plainjson.Append(nil, newCryptoPayout(w))
}

// Lengths of a withdrawal's fields.
const (
	addressMax = 128
	extraIDMax = 128
)

func (a *API) createCryptoPayout(c *call) (httpkit.Answer, error) {
	body, err := httpkit.ReadObject(c.Request)
	if err != nil {
		return httpkit.Answer{}, err
	}
	f := httpkit.Fields(body)
	request := withdrawal.Request{
		Account: c.principal.Account,
		Key:     c.Header.Get(idempotencyKeyHeader), Hash: body.Hash(),
		Amount:     f.USDT("amount", httpkit.USDTRule{Required: true, Min: 1}),
		ExtraID:    f.String("extra_id", httpkit.StringRule{Max: extraIDMax}).Value,
		ExternalID: f.String("external_id", httpkit.StringRule{Min: 1, Max: externalIDMax}).Value,
	}
	code := f.String("currency", httpkit.StringRule{Required: true}).Value
	text := f.String("address", httpkit.StringRule{Required: true, Max: addressMax}).Value
	if request.Key == "" && !f.Has("external_id") {
		f.Issue("external_id", messageIdentifier)
	}
	if err := f.Err(); err != nil {
		return httpkit.Answer{}, unprocessable(err)
	}
	if request.Coin, err = withdrawalCoin(code); err != nil {
		return httpkit.Answer{}, err
	}
	if request.Address, err = address.Check(request.Coin.Network, text); err != nil {
		return httpkit.Answer{}, fault.New(fault.Unprocessable, "invalid_address", "the address "+err.Error())
	}
	made, outcome, err := a.withdrawals.Create(c.Context(), request)
	if err != nil {
		return httpkit.Answer{}, err
	}
	return createdCrypto(outcome, newCryptoPayout(&made)), nil
}

// withdrawalCoin returns a coin that is sent.
func withdrawalCoin(code string) (chain.Coin, error) {
	coin, ok := chain.FindCoin(code)
	if !ok || !coin.Withdrawal {
		return chain.Coin{}, errUnsupportedCurrency
	}
	return coin, nil
}

func (a *API) listCryptoPayouts(c *call) (httpkit.Answer, error) {
	q := httpkit.Query(c.Request)
	page := withdrawal.Page{Limit: q.Int("limit", httpkit.IntRule{Min: 1, Max: pageMax, Default: pageDefault})}
	cursor := q.Cursor("starting_after")
	page.StartingAfter, page.Before = cursor.ID, cursor.Before
	if _, err := id.CryptoPayout.Parse(cursor.ID); cursor.ID != "" && err != nil {
		q.Issue(withdrawal.ErrCursor.Issues[0].Path, withdrawal.ErrCursor.Issues[0].Message)
	}
	if err := q.Err(); err != nil {
		return httpkit.Answer{}, unprocessable(err)
	}
	list, more, err := a.withdrawals.List(c.Context(), c.principal.Account.ID, page)
	if err != nil {
		return httpkit.Answer{}, err
	}
	out := httpkit.Page[cryptoPayoutJSON]{HasMore: more}
	for i := range list {
		out.Data = append(out.Data, newCryptoPayout(&list[i]))
	}
	if more {
		out.NextStartingAfter = &out.Data[len(out.Data)-1].ID
	}
	return httpkit.Answer{Body: out}, nil
}

// minimumJSON is the least that can be withdrawn in a coin.
type minimumJSON struct {
	Currency  string     `json:"currency"`
	Network   string     `json:"network"`
	MinAmount money.USDT `json:"min_amount"`
	UpdatedAt string     `json:"updated_at"`
}

func (a *API) getCryptoPayoutMinimum(c *call) (httpkit.Answer, error) {
	q := httpkit.Query(c.Request)
	code := q.String("currency", httpkit.StringRule{Required: true}).Value
	network := q.String("network", httpkit.StringRule{}).Value
	if err := q.Err(); err != nil {
		return httpkit.Answer{}, unprocessable(err)
	}
	coin, err := withdrawalCoin(code)
	if err != nil {
		return httpkit.Answer{}, err
	}
	if network != "" && network != coin.Network {
		return httpkit.Answer{}, errUnsupportedNetwork
	}
	m, err := a.withdrawals.Minimum(c.Context(), coin)
	if err != nil {
		return httpkit.Answer{}, err
	}
	return httpkit.Answer{Body: minimumJSON{m.Coin.Code, m.Coin.Network, m.Amount, clock.Timestamp(m.UpdatedAt)}}, nil
}

// estimateJSON is what a withdrawal would cost and deliver.
type estimateJSON struct {
	Object               string      `json:"object"`
	Currency             string      `json:"currency"`
	Network              string      `json:"network"`
	Amount               money.USDT  `json:"amount"`
	Fee                  money.USDT  `json:"fee"`
	ConversionFee        money.USDT  `json:"conversion_fee"`
	TotalDebit           money.USDT  `json:"total_debit"`
	Rate                 json.Number `json:"rate"`
	SendAmount           json.Number `json:"send_amount"`
	NetworkFeeEstimated  json.Number `json:"network_fee_estimated"`
	ReceiveEstimated     json.Number `json:"receive_estimated"`
	ReceiveEstimatedUSDT money.USDT  `json:"receive_estimated_usdt"`
}

func (a *API) getCryptoPayoutEstimate(c *call) (httpkit.Answer, error) {
	q := httpkit.Query(c.Request)
	amount := q.USDT("amount", httpkit.USDTRule{Required: true, Min: 1})
	code := q.String("currency", httpkit.StringRule{Required: true}).Value
	if err := q.Err(); err != nil {
		return httpkit.Answer{}, onlyAmount(err, c.URL.Query().Has("amount"))
	}
	coin, err := withdrawalCoin(code)
	if err != nil {
		return httpkit.Answer{}, err
	}
	e, err := a.withdrawals.Estimate(c.Context(), c.principal.Account, coin, amount)
	if err != nil {
		return httpkit.Answer{}, err
	}
	return httpkit.Answer{Body: estimateJSON{
		Object: "crypto_payout_estimate", Currency: coin.Code, Network: coin.Network, Amount: e.Amount, Fee: e.Fee, ConversionFee: e.ConversionFee,
		TotalDebit: e.Amount + e.Fee, Rate: quantity(e.Rate), SendAmount: quantity(e.Send), NetworkFeeEstimated: quantity(e.NetworkFee),
		ReceiveEstimated: quantity(e.Receive), ReceiveEstimatedUSDT: e.ReceiveUSDT,
	}}, nil
}
