package main

import (
	"fmt"
	"time"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/app"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/report"
)

type statementCommand struct {
	Account  string `arg:"" help:"acc_..."`
	From     string `help:"First day, YYYY-MM-DD in UTC, or a moment in RFC 3339." required:""`
	To       string `help:"Last day, included, or a moment, excluded." required:""`
	Currency string `help:"BRL or USDT." default:"BRL"`
	Format   string `help:"csv or json." enum:"csv,json" default:"csv"`
}

// lineJSON is one movement; the CSV has the same columns.
type lineJSON struct {
	Time      string `json:"time"`
	ID        string `json:"id"`
	Kind      string `json:"kind"`
	Reference string `json:"reference"`
	Memo      string `json:"memo"`
	From      string `json:"from"`
	To        string `json:"to"`
	Amount    string `json:"amount"`
	Currency  string `json:"currency"`
	Available string `json:"available"`
	Pending   string `json:"pending"`
	Blocked   string `json:"blocked"`
	InTransit string `json:"in_transit"`
	Total     string `json:"total"` // available, pending and blocked, as the API's total_balance
}

func (c *statementCommand) Run(e *env) error {
	currency, err := money.ParseCurrency(c.Currency)
	if err != nil {
		return err
	}
	from, err := parseMoment("--from", c.From, 0)
	if err != nil {
		return err
	}
	to, err := parseMoment("--to", c.To, day)
	if err != nil {
		return err
	}
	if !from.Before(to) {
		return fmt.Errorf("--from %s is not before --to %s", c.From, c.To)
	}
	return e.withAccount(c.Account, func(core *app.Core, a account.Account) error {
		return c.write(e, core, report.Period{Account: a.ID, Currency: currency, From: from, To: to})
	})
}

func (c *statementCommand) write(e *env, core *app.Core, period report.Period) error {
	if e.json || c.Format == "json" {
		lines := []lineJSON{}
		err := report.Statement(e.ctx, core.DB, period, func(l report.Line) error {
			lines = append(lines, lineJSON(report.NewRow(l)))
			return nil
		})
		if err != nil {
			return err
		}
		return e.printJSON(lines)
	}
	return report.WriteCSV(e.ctx, core.DB, period, e.stdout, nil)
}

const day = 24 * time.Hour

// parseMoment reads a day or a moment; a day means its start, moved by the given time.
func parseMoment(flag, s string, move time.Duration) (time.Time, error) {
	if t, err := time.Parse(time.DateOnly, s); err == nil {
		return t.Add(move), nil
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || t.Before(time.UnixMicro(0)) || !t.Before(id.Max.Time()) {
		return time.Time{}, fmt.Errorf("%s %q: want YYYY-MM-DD or a moment such as 2026-11-15T10:00:00Z", flag, s)
	}
	return t, nil
}
