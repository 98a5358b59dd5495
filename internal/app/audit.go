package app

import (
	"context"
	"time"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/charge"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/payout"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/webhook"
	"github.com/ponte-pay/ponte/internal/withdrawal"
)

// Audit adds both ledgers up again from their transfers, and holds against them what the use cases know: their states,
// what these posted and the events that they wrote. It goes account by account.
func (c *Core) Audit(ctx context.Context) (ledger.AuditResult, error) {
	result, err := ledger.Audit(ctx, c.DB)
	if err != nil {
		return result, err
	}
	border, err := webhook.Pruned(ctx, c.DB)
	if err != nil {
		return result, err
	}
	if border.IsZero() {
		border = id.First(time.UnixMicro(0)) // nothing was there yet
	}
	charges, err := c.auditCharges(ctx, border)
	if err != nil {
		return result, err
	}
	result.Problems = append(result.Problems, charges...)
	for _, audit := range []func(context.Context, *sqldb.DB, id.ID) ([]ledger.Problem, error){payout.Audit, withdrawal.Audit} {
		found, err := audit(ctx, c.DB, border)
		result.Problems = append(result.Problems, found...)
		if err != nil {
			return result, err
		}
	}
	return result, nil
}

func (c *Core) auditCharges(ctx context.Context, border id.ID) (problems []ledger.Problem, err error) {
	var after id.Account
	for {
		accounts, err := c.Accounts.List(ctx, after, account.ListMax)
		if err != nil || len(accounts) == 0 {
			return problems, err
		}
		for _, a := range accounts {
			found, err := charge.AuditEvents(ctx, c.DB, a.ID, border)
			if err != nil {
				return problems, err
			}
			for _, what := range found {
				problems = append(problems, ledger.Problem{Account: a.ID, What: what})
			}
			after = a.ID
		}
	}
}
