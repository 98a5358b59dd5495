package main

import (
	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/app"
)

type keyCommands struct {
	Create keyCreate `cmd:"" help:"Make a key. It is shown only then."`
	List   keyList   `cmd:"" help:"List an account's keys."`
	Revoke keyRevoke `cmd:"" help:"Make a key useless, within 2 seconds on every node."`
}

// keyJSON is a key as --json prints it.
type keyJSON struct {
	Key       string   `json:"api_key,omitempty"` // only when it was just made
	Prefix    string   `json:"prefix"`
	Scopes    []string `json:"scopes"`
	CreatedAt string   `json:"created_at"`
	RevokedAt *string  `json:"revoked_at"`
	UsedAt    *string  `json:"last_used_at"` // to the minute
}

func newKeyJSON(k account.Key, secret string) keyJSON {
	return keyJSON{
		Key: secret, Prefix: k.Prefix, Scopes: k.Scopes.Names(), CreatedAt: timestamp(k.CreatedAt),
		RevokedAt: optionalTime(k.RevokedAt), UsedAt: optionalTime(k.UsedAt),
	}
}

type keyCreate struct {
	Account string  `arg:"" help:"acc_..."`
	Scopes  *string `help:"Such as charges:read,charges:write. Default: all." placeholder:"NAME,..."`
}

func (c *keyCreate) Run(e *env) error {
	scopes := account.AllScopes
	if c.Scopes != nil { // an empty list is a slip, not a wish for all
		var err error
		if scopes, err = account.ParseScopes(*c.Scopes); err != nil {
			return err
		}
	}
	return e.withAccount(c.Account, func(core *app.Core, a account.Account) error {
		k, secret, err := core.Accounts.CreateKey(e.ctx, a.ID, scopes)
		if err != nil {
			return err
		}
		return e.print(newKeyJSON(k, secret), "key     "+secret, "scopes  "+k.Scopes.String(), "", "The key is shown only now.")
	})
}

type keyList struct {
	Account string `arg:"" help:"acc_..."`
}

func (c *keyList) Run(e *env) error {
	return e.withAccount(c.Account, func(core *app.Core, a account.Account) error {
		keys, err := core.Accounts.ListKeys(e.ctx, a.ID)
		if err != nil {
			return err
		}
		list, rows := []keyJSON{}, [][]string(nil)
		for _, k := range keys {
			list = append(list, newKeyJSON(k, ""))
			state := "works"
			if !k.RevokedAt.IsZero() {
				state = "revoked"
			}
			used := "never"
			if !k.UsedAt.IsZero() {
				used = timestamp(k.UsedAt)
			}
			rows = append(rows, []string{k.Prefix, state, timestamp(k.CreatedAt), used, k.Scopes.String()})
		}
		return e.print(list, table("PREFIX STATE CREATED LAST_USED SCOPES", rows))
	})
}

type keyRevoke struct {
	Prefix string `arg:"" help:"The 8 hex digits between bp_ and the next _."`
}

func (c *keyRevoke) Run(e *env) error {
	core, err := e.open()
	if err != nil {
		return err
	}
	defer core.Close()
	if err := core.Accounts.RevokeKey(e.ctx, c.Prefix); err != nil {
		return err
	}
	return e.print(struct {
		Prefix string `json:"prefix"`
	}{c.Prefix}, "revoked "+c.Prefix)
}
