package app

import (
	"context"
	"time"

	"github.com/ponte-pay/ponte/internal/charge"
	"github.com/ponte-pay/ponte/internal/clawback"
	"github.com/ponte-pay/ponte/internal/deposit"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/infraction"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/payout"
	"github.com/ponte-pay/ponte/internal/webhook"
	"github.com/ponte-pay/ponte/internal/withdrawal"
)

// Audit adds both ledgers up again from their transfers, and holds against them what the use cases know: their states,
// what these posted and the events that they wrote. It goes account by account.
func (c *Core) Audit(ctx context.Context) (ledger.AuditResult, error) {
	result, err := ledger.Audit(ctx, c.DB, infraction.Blocked)
	if err != nil {
		return result, err
	}
	border, err := webhook.Pruned(ctx, c.DB)
	if border.IsZero() {
		border = id.First(time.UnixMicro(0)) // nothing was there yet
	}
	for _, audit := range []func() ([]ledger.Problem, error){
		func() ([]ledger.Problem, error) { return charge.Audit(ctx, c.DB, border) },
		func() ([]ledger.Problem, error) { return payout.Audit(ctx, c.DB, border) },
		func() ([]ledger.Problem, error) { return deposit.Audit(ctx, c.DB, border) },
		func() ([]ledger.Problem, error) { return withdrawal.Audit(ctx, c.DB, border) },
		func() ([]ledger.Problem, error) { return clawback.Audit(ctx, c.DB) },
		func() ([]ledger.Problem, error) { return infraction.Audit(ctx, c.DB) },
	} {
		if err != nil {
			return result, err
		}
		var more []ledger.Problem
		more, err = audit()
		result.Problems = append(result.Problems, more...)
	}
	return result, err
}
