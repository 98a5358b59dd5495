package main

import (
	"github.com/ponte-pay/ponte/internal/app"
	"github.com/ponte-pay/ponte/internal/config"
)

type chargeCommands struct {
	Cancel chargeCancel `cmd:"" help:"Remove a charge that nobody has paid, at its acquirer first."`
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
