package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/app"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/oplog"
	"github.com/ponte-pay/ponte/internal/report"
)

type accountCommands struct {
	Create  accountCreate  `cmd:"" help:"Make an account with one key that may do everything."`
	List    accountList    `cmd:"" help:"List accounts."`
	Show    accountShow    `cmd:"" help:"Show an account's settings, balances and holds."`
	Set     accountSet     `cmd:"" help:"Change settings, such as status=under_review or cash_out_fee=0.50+0.99%."`
	Adjust  accountAdjust  `cmd:"" help:"Credit an account by hand, or debit it with a negative amount."`
	Hold    accountHold    `cmd:"" help:"Block money of an account for review."`
	Release accountRelease `cmd:"" help:"Give blocked money back."`
}

// withAccount opens the database, finds the account and calls f.
func (e *env) withAccount(text string, f func(core *app.Core, a account.Account) error) error {
	number, err := id.ParseAccount(text)
	if err != nil {
		return err
	}
	core, err := e.open()
	if err != nil {
		return err
	}
	defer core.Close()
	a, err := core.Accounts.Get(e.ctx, number)
	if err != nil {
		return err
	}
	return f(core, a)
}

type accountCreate struct {
	Name     string `help:"What people call it." required:""`
	Document string `help:"CPF or CNPJ of its owner."`
}

func (c *accountCreate) Run(e *env) error {
	core, err := app.Open(e.ctx, e.store, app.Creating)
	if err != nil {
		return err
	}
	defer core.Close()
	a, key, err := core.Accounts.Create(e.ctx, account.Params{Name: c.Name, Document: c.Document})
	if err != nil {
		return err
	}
	return e.print(struct {
		Account string `json:"account_id"`
		Key     string `json:"api_key"`
	}{a.ID.String(), key},
		"account  "+a.ID.String(), "key      "+key, "", "The key is shown only now.")
}

// accountJSON is an account as --json prints it.
type accountJSON struct {
	Account   string                 `json:"account_id"`
	Name      string                 `json:"name"`
	Document  *string                `json:"document"`
	CreatedAt string                 `json:"created_at"`
	Settings  map[string]string      `json:"settings"`
	Balances  map[string]balanceJSON `json:"balances,omitempty"`
	Holds     []holdJSON             `json:"holds,omitempty"`
}

// balanceJSON has its amounts as strings, so that no reader rounds them.
type balanceJSON struct {
	Available string `json:"available"`
	Pending   string `json:"pending"`
	Blocked   string `json:"blocked"`
	InTransit string `json:"in_transit"`
}

type holdJSON struct {
	Hold      string `json:"hold_id"`
	Amount    string `json:"amount"`
	Reason    string `json:"reason"`
	CreatedAt string `json:"created_at"`
}

func newAccountJSON(a account.Account) accountJSON {
	out := accountJSON{Account: a.ID.String(), Name: a.Name, CreatedAt: timestamp(a.CreatedAt), Settings: map[string]string{}}
	if a.Document != "" {
		out.Document = &a.Document
	}
	for _, s := range a.Settings.List() {
		out.Settings[s.Key] = s.Value
	}
	return out
}

func newBalanceJSON(c money.Currency, b ledger.Balance) balanceJSON {
	text := func(units int64) string { return money.Amount{Currency: c, Units: units}.String() }
	return balanceJSON{text(b.Available), text(b.Pending), text(b.Blocked), text(b.InTransit)}
}

type accountList struct{}

func (*accountList) Run(e *env) error {
	core, err := e.open()
	if err != nil {
		return err
	}
	defer core.Close()
	list, rows := []accountJSON{}, [][]string(nil)
	var after id.Account
	for {
		accounts, err := core.Accounts.List(e.ctx, after, account.ListMax)
		if err != nil {
			return err
		}
		for _, a := range accounts {
			after = a.ID
			list = append(list, newAccountJSON(a))
			rows = append(rows, []string{a.ID.String(), string(a.Settings.Status), timestamp(a.CreatedAt), a.Name})
		}
		if len(accounts) == 0 {
			return e.print(list, table("ACCOUNT STATUS CREATED NAME", rows))
		}
	}
}

type accountShow struct {
	Account string `arg:"" help:"acc_..."`
}

func (c *accountShow) Run(e *env) error {
	return e.withAccount(c.Account, func(core *app.Core, a account.Account) error {
		return e.show(core, a)
	})
}

func (e *env) show(core *app.Core, a account.Account) error {
	out := newAccountJSON(a)
	out.Balances = map[string]balanceJSON{}
	var balances [][]string
	for _, c := range money.Currencies {
		b, err := ledger.Balances(e.ctx, core.DB, a.ID, c)
		if err != nil {
			return err
		}
		j := newBalanceJSON(c, b)
		out.Balances[string(c)] = j
		balances = append(balances, []string{string(c), j.Available, j.Pending, j.Blocked, j.InTransit})
	}
	holds, err := ledger.Holds(e.ctx, core.DB, a.ID)
	if err != nil {
		return err
	}
	var holdRows [][]string
	for _, h := range holds {
		j := holdJSON{id.Hold.Format(h.ID), h.Amount.String(), h.Memo, timestamp(h.ID.Time())}
		out.Holds = append(out.Holds, j)
		holdRows = append(holdRows, []string{j.Hold, j.Amount, j.CreatedAt, j.Reason})
	}
	lines := []string{"account  " + out.Account, "name     " + a.Name, "document " + a.Document, "created  " + out.CreatedAt, ""}
	lines = append(lines, settingLines(a.Settings)...)
	lines = append(lines, "", table("CURRENCY AVAILABLE PENDING BLOCKED IN_TRANSIT", balances))
	if len(holds) > 0 {
		lines = append(lines, "", table("HOLD AMOUNT SINCE REASON", holdRows))
	}
	return e.print(out, lines...)
}

func settingLines(s account.Settings) []string {
	var lines []string
	for _, x := range s.List() {
		lines = append(lines, x.Key+"="+x.Value)
	}
	return lines
}

type accountSet struct {
	Account  string   `arg:"" help:"acc_..."`
	Settings []string `arg:"" name:"key=value" help:"What to change."`
	Reason   string   `help:"Why; it is kept."`
}

func (c *accountSet) Run(e *env) error {
	return e.withAccount(c.Account, func(core *app.Core, a account.Account) error {
		changed, err := core.Accounts.Change(e.ctx, a.ID, c.Settings, c.Reason)
		if err != nil {
			return err
		}
		return e.print(newAccountJSON(changed), settingLines(changed.Settings)...)
	})
}

type accountAdjust struct {
	Account  string `arg:"" help:"acc_..."`
	Currency string `help:"BRL or USDT." required:""`
	Amount   string `help:"Such as 100.00, or -5 to debit." required:""`
	Reason   string `help:"Why; it is kept." required:""`
}

func (c *accountAdjust) Run(e *env) error {
	currency, err := money.ParseCurrency(c.Currency)
	if err != nil {
		return err
	}
	amount, err := parseAmount(currency, c.Amount)
	if err != nil {
		return err
	}
	if err := oplog.CheckReason(c.Reason); err != nil {
		return fmt.Errorf("--%w", err)
	}
	return e.withAccount(c.Account, func(core *app.Core, a account.Account) error {
		t, err := core.Ledger.Adjust(e.ctx, a.ID, amount, c.Reason)
		if err != nil {
			return err
		}
		public := report.AdjustmentID(&t)
		return e.print(struct {
			Transaction string `json:"transaction_id"`
		}{public}, "transaction "+public, e.availableLine(core, a.ID, currency))
	})
}

func parseAmount(c money.Currency, text string) (money.Amount, error) {
	amount, err := money.ParseAmount(c, text)
	switch {
	case err != nil:
		return amount, fmt.Errorf("--amount %q %w", text, err)
	case amount.Units == 0:
		return amount, errors.New("--amount: nothing would move")
	}
	return amount, nil
}

// availableLine tells what is left. That it cannot be read does not undo what was done.
func (e *env) availableLine(core *app.Core, a id.Account, c money.Currency) string {
	b, err := ledger.Balances(context.WithoutCancel(e.ctx), core.DB, a, c)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("available   %s %s", newBalanceJSON(c, b).Available, c)
}

type accountHold struct {
	Account string `arg:"" help:"acc_..."`
	Amount  string `help:"BRL, such as 100.00." required:""`
	Reason  string `help:"Why; it is kept." required:""`
}

func (c *accountHold) Run(e *env) error {
	amount, err := parseAmount(money.CurrencyBRL, c.Amount)
	if err != nil {
		return err
	}
	if amount.Units < 0 {
		return errors.New("--amount: a hold is above zero; see ponte account release")
	}
	if err := oplog.CheckReason(c.Reason); err != nil {
		return fmt.Errorf("--%w", err)
	}
	return e.withAccount(c.Account, func(core *app.Core, a account.Account) error {
		t, err := core.Ledger.Hold(e.ctx, a.ID, money.BRL(amount.Units), c.Reason)
		if err != nil {
			return err
		}
		public := id.Hold.Format(t.ID)
		return e.print(struct {
			Hold string `json:"hold_id"`
		}{public}, "hold        "+public, e.availableLine(core, a.ID, money.CurrencyBRL))
	})
}

type accountRelease struct {
	Account string `arg:"" help:"acc_..."`
	Hold    string `arg:"" help:"hld_..."`
}

func (c *accountRelease) Run(e *env) error {
	hold, err := id.Hold.Parse(c.Hold)
	if err != nil {
		return fmt.Errorf("%q is no hold: want hld_ and 26 characters", c.Hold)
	}
	return e.withAccount(c.Account, func(core *app.Core, a account.Account) error {
		if _, err := core.Ledger.Release(e.ctx, a.ID, hold); err != nil {
			return err
		}
		return e.print(struct {
			Hold string `json:"hold_id"`
		}{c.Hold}, "released    "+c.Hold, e.availableLine(core, a.ID, money.CurrencyBRL))
	})
}
