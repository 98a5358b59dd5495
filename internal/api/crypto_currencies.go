package api

import (
	"github.com/ponte-pay/ponte/internal/chain"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/httpkit"
)

// currencyJSON is a coin on a network.
type currencyJSON struct {
	Code         string `json:"code"`
	Symbol       string `json:"symbol"`
	Name         string `json:"name"`
	Network      string `json:"network"`
	NetworkName  string `json:"network_name"`
	CanDeposit   bool   `json:"can_deposit"`
	CanWithdraw  bool   `json:"can_withdraw"`
	RequiresMemo bool   `json:"requires_memo"`
}

func newCurrency(c chain.Currency) currencyJSON {
	return currencyJSON{c.Code, c.Symbol, c.Name, c.Network, c.NetworkName, c.CanDeposit, c.CanWithdraw, c.RequiresMemo}
}

// currencyListJSON is all of them.
type currencyListJSON struct {
	Object string         `json:"object"`
	Data   []currencyJSON `json:"data"`
}

// Flows that the list can be cut down to.
const (
	flowDeposit    = "deposit"
	flowWithdrawal = "withdrawal"
)

func (a *API) listCryptoCurrencies(c *call) (httpkit.Answer, error) {
	q := httpkit.Query(c.Request)
	flow := q.OneOf("flow", flowDeposit, flowWithdrawal)
	if err := q.Err(); err != nil {
		return httpkit.Answer{}, unprocessable(err)
	}
	list, err := a.chain.Currencies(c.Context())
	if err != nil {
		return httpkit.Answer{}, &fault.Error{Kind: fault.Provider, Public: "the crypto provider cannot be reached; try again", Cause: err}
	}
	out := currencyListJSON{Object: "list", Data: []currencyJSON{}}
	for _, one := range list {
		if (flow == flowDeposit && !one.CanDeposit) || (flow == flowWithdrawal && !one.CanWithdraw) {
			continue
		}
		out.Data = append(out.Data, newCurrency(one))
	}
	return httpkit.Answer{Body: out}, nil
}
