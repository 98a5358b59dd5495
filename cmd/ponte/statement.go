package main

import (
	"encoding/csv"
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

var lineColumns = []string{
	"time", "id", "kind", "reference", "memo", "from", "to", "amount", "currency",
	"available", "pending", "blocked", "in_transit", "total",
}

func (l *lineJSON) record() []string {
	return []string{
		l.Time, l.ID, l.Kind, l.Reference, spreadsheetSafe(l.Memo), l.From, l.To, l.Amount, l.Currency,
		l.Available, l.Pending, l.Blocked, l.InTransit, l.Total,
	}
}

// spreadsheetSafe keeps a spreadsheet from running what an operator wrote as a formula.
func spreadsheetSafe(s string) string {
	if s != "" && (s[0] == '=' || s[0] == '+' || s[0] == '-' || s[0] == '@') {
		return "'" + s
	}
	return s
}

func newLineJSON(l report.Line) lineJSON {
	t := &l.Transfer
	c := t.Amount.Currency
	b := newBalanceJSON(c, l.Balance)
	return lineJSON{
		Time: timestamp(t.ID.Time()), ID: t.ID.String(), Kind: string(t.Kind), Reference: report.Reference(t), Memo: t.Memo,
		From: string(t.Source), To: string(t.Target), Amount: t.Amount.String(), Currency: string(c),
		Available: b.Available, Pending: b.Pending, Blocked: b.Blocked, InTransit: b.InTransit,
		Total: money.Amount{Currency: c, Units: l.Balance.Available + l.Balance.Pending + l.Balance.Blocked}.String(),
	}
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
			lines = append(lines, newLineJSON(l))
			return nil
		})
		if err != nil {
			return err
		}
		return e.printJSON(lines)
	}
	w := csv.NewWriter(e.stdout)
	if err := w.Write(lineColumns); err != nil {
		return err
	}
	err := report.Statement(e.ctx, core.DB, period, func(l report.Line) error {
		line := newLineJSON(l)
		return w.Write(line.record())
	})
	w.Flush()
	if err != nil {
		return err
	}
	return w.Error()
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
