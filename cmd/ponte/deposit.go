package main

import "github.com/ponte-pay/ponte/internal/app"

type depositCommands struct {
	Unmatched depositUnmatched `cmd:"" help:"List payments at the crypto provider that belong to no crypto charge."`
	Dismiss   depositDismiss   `cmd:"" help:"Note why nothing more is to be done about such a payment."`
}

type depositUnmatched struct{}

type unmatchedDepositJSON struct {
	Provider  string `json:"provider"`
	PaymentID string `json:"payment_id"`
	Reference string `json:"order_id"` // what it says it pays
	Amount    string `json:"amount"`   // USDT
	FoundAt   string `json:"found_at"`
	Reason    string `json:"reason"`
}

func (*depositUnmatched) Run(e *env) error {
	core, err := e.open()
	if err != nil {
		return err
	}
	defer core.Close()
	found, err := core.ListUnmatchedDeposits(e.ctx)
	if err != nil {
		return err
	}
	list := []unmatchedDepositJSON{}
	var rows [][]string
	for _, u := range found {
		list = append(list, unmatchedDepositJSON{
			Provider: u.Provider, PaymentID: u.PaymentID, Reference: u.Reference, Amount: u.Amount.String(), FoundAt: timestamp(u.FoundAt), Reason: u.Reason,
		})
		rows = append(rows, []string{u.Provider, u.PaymentID, u.Amount.String(), timestamp(u.FoundAt), u.Reason})
	}
	if len(list) == 0 {
		return e.print(list, "Every payment belongs to a crypto charge.")
	}
	return e.print(list, table("PROVIDER PAYMENT_ID USDT FOUND_AT REASON", rows))
}

type depositDismiss struct {
	Payment string `arg:"" help:"Its payment_id at the provider."`
	Reason  string `required:"" help:"What was done about it, such as paid out by hand."`
}

func (c *depositDismiss) Run(e *env) error {
	return e.dismiss("payment_id", c.Payment, c.Reason, (*app.Core).DismissUnmatchedDeposit)
}
