package main

import (
	"context"
	"encoding/json"

	"github.com/ponte-pay/ponte/internal/app"
	"github.com/ponte-pay/ponte/internal/config"
)

type chargeCommands struct {
	Show      chargeShow      `cmd:"" help:"Show a charge, and why it is at its acquirer."`
	Cancel    chargeCancel    `cmd:"" help:"Remove a charge that nobody has paid, at its acquirer first."`
	Unmatched chargeUnmatched `cmd:"" help:"List payments that belong to no charge."`
	Dismiss   chargeDismiss   `cmd:"" help:"Note why nothing more is to be done about such a payment."`
}

type chargeShow struct {
	Charge string `arg:"" help:"chg_..."`
}

type shownChargeJSON struct {
	Charge     string          `json:"charge_id"`
	Account    string          `json:"account_id"`
	ExternalID string          `json:"external_id"`
	TxID       string          `json:"txid"`
	Status     string          `json:"status"`
	Amount     string          `json:"amount"`
	Fee        string          `json:"fee"`
	Refunded   string          `json:"refunded"`
	EndToEndID string          `json:"end_to_end_id"`
	CreatedAt  string          `json:"created_at"`
	ExpiresAt  string          `json:"expires_at"`
	PaidAt     string          `json:"paid_at"`
	ReleaseAt  string          `json:"release_at"` // of money that still waits
	Acquirer   string          `json:"acquirer"`
	Routing    json.RawMessage `json:"routing"` // which acquirers were asked, why, and what came of it
}

func (c *chargeShow) Run(e *env) error {
	core, err := e.open()
	if err != nil {
		return err
	}
	defer core.Close()
	found, err := core.FindCharge(e.ctx, c.Charge)
	if err != nil {
		return err
	}
	shown := shownChargeJSON{
		Charge: c.Charge, Account: found.Account.String(), ExternalID: found.ExternalID, TxID: found.TxID, Status: string(found.Status),
		Amount: found.Amount.String(), Fee: found.Fee.String(), Refunded: found.Refunded.String(), EndToEndID: found.EndToEndID,
		CreatedAt: timestamp(found.CreatedAt()), ExpiresAt: timestamp(found.ExpiresAt), PaidAt: timestamp(found.PaidAt),
		ReleaseAt: timestamp(found.ReleaseAt), Acquirer: found.Acquirer, Routing: json.RawMessage(found.Routing),
	}
	return e.print(shown, table("FIELD VALUE", [][]string{
		{"charge", shown.Charge},
		{"account", shown.Account},
		{"external_id", shown.ExternalID},
		{"status", shown.Status},
		{"amount", shown.Amount},
		{"fee", shown.Fee},
		{"refunded", shown.Refunded},
		{"end_to_end_id", shown.EndToEndID},
		{"created_at", shown.CreatedAt},
		{"expires_at", shown.ExpiresAt},
		{"paid_at", shown.PaidAt},
		{"release_at", shown.ReleaseAt},
		{"acquirer", shown.Acquirer + ", which knows it as " + shown.TxID},
		{"routing", found.Routing},
	}))
}

type chargeUnmatched struct{}

type unmatchedJSON struct {
	Acquirer   string `json:"acquirer"`
	EndToEndID string `json:"end_to_end_id"`
	TxID       string `json:"txid"`
	Amount     string `json:"amount"`
	PaidAt     string `json:"paid_at"`
	FoundAt    string `json:"found_at"`
	Reason     string `json:"reason"`
}

func (*chargeUnmatched) Run(e *env) error {
	core, err := e.open()
	if err != nil {
		return err
	}
	defer core.Close()
	found, err := core.ListUnmatched(e.ctx)
	if err != nil {
		return err
	}
	list := []unmatchedJSON{}
	var rows [][]string
	for _, u := range found {
		list = append(list, unmatchedJSON{
			Acquirer: u.Acquirer, EndToEndID: u.EndToEndID, TxID: u.TxID, Amount: u.Amount.String(),
			PaidAt: timestamp(u.PaidAt), FoundAt: timestamp(u.FoundAt), Reason: u.Reason,
		})
		rows = append(rows, []string{u.Acquirer, u.EndToEndID, u.Amount.String(), timestamp(u.PaidAt), u.Reason})
	}
	if len(list) == 0 {
		return e.print(list, "Every payment belongs to a charge.")
	}
	return e.print(list, table("ACQUIRER END_TO_END_ID AMOUNT PAID_AT REASON", rows))
}

type chargeDismiss struct {
	Payment string `arg:"" help:"Its end-to-end id."`
	Reason  string `required:"" help:"What was done about it, such as given back by hand."`
}

func (c *chargeDismiss) Run(e *env) error {
	return e.dismiss("end_to_end_id", c.Payment, c.Reason, (*app.Core).DismissUnmatched)
}

// dismiss notes why nothing more is to be done about something; field is how --json calls its name.
func (e *env) dismiss(field, name, reason string, how func(core *app.Core, ctx context.Context, name, reason string) error) error {
	core, err := e.open()
	if err != nil {
		return err
	}
	defer core.Close()
	if err := how(core, e.ctx, name, reason); err != nil {
		return err
	}
	return e.print(map[string]string{field: name, "reason": reason}, name+" needs nothing more")
}

type chargeCancel struct {
	config.Serve `embed:""`

	Charge string `arg:"" help:"chg_..."`
}

// Validate leaves the listeners alone: nothing is served.
func (*chargeCancel) Validate() error { return nil }

func (c *chargeCancel) Run(e *env) error {
	core, err := e.open()
	if err != nil {
		return err
	}
	defer core.Close()
	status, err := app.CancelCharge(e.ctx, core, e.store, c.Serve, newLog(e.stderr, c.Serve), c.Charge)
	if err != nil {
		return err
	}
	return e.print(struct {
		Charge string `json:"charge_id"`
		Status string `json:"status"`
	}{c.Charge, status}, c.Charge+" is "+status)
}
