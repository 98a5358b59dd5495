package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/oplog"
)

type logCommand struct {
	Account string `help:"Only what is about this account: acc_..."`
	Limit   int    `help:"How many, up to 200." default:"50"`
	Before  string `help:"Only what is older than this entry: its id."`
}

// entryJSON is an entry of the operator log as --json prints it.
type entryJSON struct {
	ID      string       `json:"id"`
	At      string       `json:"at"`
	Who     string       `json:"who"`
	Action  string       `json:"action"`
	Account *string      `json:"account_id"`
	Subject string       `json:"subject"`
	Before  oplog.Fields `json:"before"`
	After   oplog.Fields `json:"after"`
	Reason  *string      `json:"reason"`
}

// Validate refuses what cannot be listed.
func (c *logCommand) Validate() error {
	if c.Limit < 1 || c.Limit > oplog.PageMax {
		return fmt.Errorf("--limit: must be 1 to %d", oplog.PageMax)
	}
	return nil
}

func (c *logCommand) Run(e *env) error {
	page := oplog.Page{Limit: c.Limit}
	var err error
	if c.Account != "" {
		if page.Account, err = id.ParseAccount(c.Account); err != nil {
			return err
		}
	}
	if c.Before != "" {
		if page.Before, err = id.Parse(c.Before); err != nil {
			return fmt.Errorf("--before %q: want the id of an entry", c.Before)
		}
	}
	core, err := e.open()
	if err != nil {
		return err
	}
	defer core.Close()
	entries, err := oplog.List(e.ctx, core.DB, page)
	if err != nil {
		return err
	}
	list, rows := []entryJSON{}, [][]string(nil)
	for i := range entries {
		one := &entries[i]
		out := entryJSON{
			ID: one.ID.String(), At: timestamp(one.ID.Time()), Who: one.Actor.String(), Action: string(one.Action), Subject: one.Subject,
			Before: one.Before, After: one.After,
		}
		if one.Account != 0 {
			text := one.Account.String()
			out.Account = &text
		}
		if one.Reason != "" {
			out.Reason = &one.Reason
		}
		list = append(list, out)
		rows = append(rows, []string{out.At, out.Who, out.Action, out.Subject, fieldsText(one.Before) + " -> " + fieldsText(one.After), one.Reason})
	}
	return e.print(list, table("AT WHO ACTION SUBJECT CHANGE REASON", rows))
}

// fieldsText writes fields in one line, in the order of their names.
func fieldsText(f oplog.Fields) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(f)) {
		parts = append(parts, key+"="+f[key])
	}
	return strings.Join(parts, " ")
}
