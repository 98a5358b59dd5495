package main

import "github.com/ponte-pay/ponte/internal/app"

type infractionCommands struct {
	Unmatched infractionUnmatched `cmd:"" help:"List infractions of payments that were credited to nobody."`
	Dismiss   infractionDismiss   `cmd:"" help:"Note why nothing more is to be done about such an infraction."`
}

type infractionUnmatched struct{}

type unmatchedInfractionJSON struct {
	Acquirer   string `json:"acquirer"`
	AcquirerID string `json:"acquirer_id"` // what the acquirer knows it by
	EndToEndID string `json:"end_to_end_id"`
	Amount     string `json:"amount"`
	Status     string `json:"status"` // where it stood when it was last listed
	OpenedAt   string `json:"opened_at"`
	FoundAt    string `json:"found_at"`
	Reason     string `json:"reason"`
}

func (*infractionUnmatched) Run(e *env) error {
	core, err := e.open()
	if err != nil {
		return err
	}
	defer core.Close()
	found, err := core.ListUnmatchedInfractions(e.ctx)
	if err != nil {
		return err
	}
	list := []unmatchedInfractionJSON{}
	var rows [][]string
	for _, u := range found {
		list = append(list, unmatchedInfractionJSON{
			Acquirer: u.Acquirer, AcquirerID: u.AcquirerID, EndToEndID: u.EndToEndID, Amount: u.Amount.String(), Status: u.Status,
			OpenedAt: timestamp(u.OpenedAt), FoundAt: timestamp(u.FoundAt), Reason: u.Reason,
		})
		rows = append(rows, []string{u.Acquirer, u.AcquirerID, u.EndToEndID, u.Amount.String(), timestamp(u.OpenedAt), u.Reason})
	}
	if len(list) == 0 {
		return e.print(list, "Every infraction is about a payment of a charge.")
	}
	return e.print(list, table("ACQUIRER ACQUIRER_ID END_TO_END_ID AMOUNT OPENED_AT REASON", rows))
}

type infractionDismiss struct {
	Infraction string `arg:"" help:"What its acquirer knows it by."`
	Reason     string `required:"" help:"What was done about it, such as settled with the bank."`
}

func (c *infractionDismiss) Run(e *env) error {
	return e.dismiss("acquirer_id", c.Infraction, c.Reason, (*app.Core).DismissUnmatchedInfraction)
}
