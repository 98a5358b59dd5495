package dashboard

import (
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/report"
)

// overviewData is what the first page of an account shows.
type overviewData struct {
	Balance report.Balance
	USDT    ledger.Balance
}

func (d *Dashboard) overview(v *visit) (reply, error) {
	var data overviewData
	var err error
	if data.Balance, err = report.GetBalance(v.Context(), d.DB, v.account.ID); err != nil {
		return reply{}, err
	}
	if data.USDT, err = ledger.Balances(v.Context(), d.DB, v.account.ID, money.CurrencyUSDT); err != nil {
		return reply{}, err
	}
	return page("overview", data)
}
