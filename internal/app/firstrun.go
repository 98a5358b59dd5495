package app

import (
	"context"
	"errors"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// demoLock keeps two servers that start on one empty database from making two demo accounts. The number means nothing.
const demoLock = 0x64656d6f

// FirstRun makes an account to try things with in a database that has none, and returns it with its key. The key is ""
// when there are accounts already.
func FirstRun(ctx context.Context, c *Core) (account.Account, string, error) {
	lock, err := c.DB.TryLock(ctx, demoLock)
	if errors.Is(err, sqldb.ErrLocked) {
		return account.Account{}, "", nil // the other server tells
	}
	if err != nil {
		return account.Account{}, "", err
	}
	defer lock.Unlock(ctx)
	existing, err := c.Accounts.List(ctx, 0, 1)
	if err != nil || len(existing) > 0 {
		return account.Account{}, "", err
	}
	return c.Accounts.Create(ctx, account.Params{Name: "demo"})
}
