package main

import (
	"strconv"
	"time"

	"github.com/ponte-pay/ponte/internal/id"
)

type payoutCommands struct {
	Doubt payoutDoubt `cmd:"" help:"List the payouts of which nobody knows whether they were sent."`
}

type payoutDoubt struct{}

// doubtJSON is a payout in doubt.
type doubtJSON struct {
	Payout     string `json:"payout_id"`
	Account    string `json:"account_id"`
	ExternalID string `json:"external_id"`
	Amount     string `json:"amount"`
	Gross      string `json:"gross_amount"`
	Acquirer   string `json:"acquirer"`
	Name       string `json:"acquirer_id"` // what the acquirer knows it by
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
	now := core.Clock.Now()
	list := []doubtJSON{}
	var rows [][]string
	for i := range doubts {
		p := &doubts[i]
		d := doubtJSON{
			Payout: id.Payout.Format(p.ID), Account: p.Account.String(), ExternalID: p.ExternalID, Amount: p.Amount.String(), Gross: p.Gross().String(),
			Acquirer: p.Acquirer, Name: p.Name(), Sends: p.Sends, Since: timestamp(p.DoubtAt), CheckAt: timestamp(p.CheckAt),
			AgeSeconds: int64(now.Sub(p.DoubtAt) / time.Second),
		}
		list = append(list, d)
		rows = append(rows, []string{d.Payout, d.Account, d.Gross, d.Acquirer, d.Name, strconv.FormatInt(d.Sends, 10), d.Since})
	}
	if len(list) == 0 {
		return e.print(list, "No payout is in doubt.")
	}
	return e.print(list, table("PAYOUT ACCOUNT GROSS ACQUIRER ACQUIRER_ID SENDS SINCE", rows))
}
