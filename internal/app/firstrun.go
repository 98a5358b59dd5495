package app

import (
	"context"
	"errors"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/user"
)

// firstLock keeps two servers that start on one empty database from making two demo accounts. The number means nothing.
const firstLock = 0x64656d6f

// First is what a new database is given.
type First struct {
	Account    account.Account // to try things with; with simulated banks only
	Key        string          // of the account; "" when there are accounts already
	Invitation string          // of the first operator; "" when there is one
}

// FirstRun makes what is missing of a new database: an account to try things with, when demo says so, and an invitation
// for the first operator. As long as nobody has accepted one, each start makes another.
func FirstRun(ctx context.Context, c *Core, demo bool) (First, error) {
	var first First
	lock, err := c.DB.TryLock(ctx, firstLock)
	if errors.Is(err, sqldb.ErrLocked) {
		return first, nil // the other server tells
	}
	if err != nil {
		return first, err
	}
	defer lock.Unlock(ctx)
	existing, err := c.Accounts.List(ctx, 0, 1)
	if err != nil {
		return first, err
	}
	if demo && len(existing) == 0 {
		if first.Account, first.Key, err = c.Accounts.Create(ctx, account.Params{Name: "demo"}); err != nil {
			return first, err
		}
	}
	if has, err := c.Users.HasOperator(ctx); err != nil || has {
		return first, err
	}
	invitation := user.Invitation{Operator: true}
	switch {
	case first.Key != "":
		invitation.Account, invitation.Role = first.Account.ID, user.Owner
	case demo && existing[0].Name == "demo":
		invitation.Account, invitation.Role = existing[0].ID, user.Owner
	}
	first.Invitation, err = c.Users.Invite(ctx, invitation)
	return first, err
}
