package api

import (
	"github.com/ponte-pay/ponte/internal/httpkit"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/report"
)

// balanceJSON is an account's balance in reais.
type balanceJSON struct {
	Available money.BRL      `json:"available_balance"`
	Pending   money.BRL      `json:"pending_balance"`
	Blocked   money.BRL      `json:"blocked_balance"`
	Total     money.BRL      `json:"total_balance"`
	Currency  money.Currency `json:"currency"`
}

func (a *API) getBalance(c *call) (httpkit.Answer, error) {
	b, err := report.GetBalance(c.Context(), a.db, c.principal.Account.ID)
	if err != nil {
		return httpkit.Answer{}, err
	}
	return httpkit.Answer{Body: balanceJSON{b.Available, b.Pending, b.Blocked, b.Total, money.CurrencyBRL}}, nil
}
