package main

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/ponte-pay/ponte/internal/app"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/money"
)

type payoutCommands struct {
	Doubt payoutDoubt `cmd:"" help:"List the payouts of which nobody knows whether they were sent."`
}

type payoutDoubt struct{}

// doubtJSON is a payout in doubt, Pix or crypto.
type doubtJSON struct {
	Payout     string `json:"payout_id"`
	Account    string `json:"account_id"`
	ExternalID string `json:"external_id"`
	Amount     string `json:"amount"`
	Gross      string `json:"gross_amount"`
	Currency   string `json:"currency"` // of both amounts
	Acquirer   string `json:"acquirer"`
	Name       string `json:"acquirer_id"` // what the acquirer or provider knows it by
	Sends      int64  `json:"sends"`
	Since      string `json:"since"`
	CheckAt    string `json:"next_check_at"`
	AgeSeconds int64  `json:"age_seconds"`
}

func (*payoutDoubt) Run(e *env) error {
	core, err := e.open()
	if err != nil {
		return err
	}
	defer core.Close()
	doubts, err := core.ListDoubts(e.ctx)
	if err != nil {
		return err
	}
	crypto, err := core.ListCryptoDoubts(e.ctx)
	if err != nil {
		return err
	}
	now := core.Clock.Now()
	list := []doubtJSON{}
	for i := range doubts {
		p := &doubts[i]
		list = append(list, doubtJSON{
			Payout: id.Payout.Format(p.ID), Account: p.Account.String(), ExternalID: p.ExternalID, Amount: p.Amount.String(), Gross: p.Gross().String(),
			Currency: string(money.CurrencyBRL), Acquirer: p.Acquirer, Name: p.Name(), Sends: p.Sends, Since: timestamp(p.DoubtAt),
			CheckAt: timestamp(p.CheckAt), AgeSeconds: int64(now.Sub(p.DoubtAt) / time.Second),
		})
	}
	for i := range crypto {
		w := &crypto[i]
		list = append(list, doubtJSON{
			Payout: id.CryptoPayout.Format(w.ID), Account: w.Account.String(), ExternalID: w.ExternalID, Amount: w.Amount.String(), Gross: w.Gross().String(),
			Currency: string(money.CurrencyUSDT), Acquirer: w.Provider, Name: cmp.Or(w.ProviderID, w.Name()), Sends: w.Sends, Since: timestamp(w.DoubtAt),
			CheckAt: timestamp(w.CheckAt), AgeSeconds: int64(now.Sub(w.DoubtAt) / time.Second),
		})
	}
	var rows [][]string
	for _, d := range list {
		rows = append(rows, []string{d.Payout, d.Account, d.Gross, d.Currency, d.Acquirer, d.Name, strconv.FormatInt(d.Sends, 10), d.Since})
	}
	if len(list) == 0 {
		return e.print(list, "No payout is in doubt.")
	}
	text := table("PAYOUT ACCOUNT GROSS CURRENCY ACQUIRER ACQUIRER_ID SENDS SINCE", rows)
	if more, err := moreDoubts(e, core, len(list)); err != nil {
		return err
	} else if more > 0 {
		text += fmt.Sprintf("\n%d more, younger ones are not shown.", more)
	}
	return e.print(list, text)
}

// moreDoubts returns how many are in doubt beside those that are listed.
func moreDoubts(e *env, core *app.Core, listed int) (int64, error) {
	pix, err := core.CountDoubts(e.ctx)
	if err != nil {
		return 0, err
	}
	crypto, err := core.CountCryptoDoubts(e.ctx)
	return pix.Payouts + crypto.Withdrawals - int64(listed), err
}
