// Package audit holds both ledgers and everything that posted to them against each other, account by account, while the
// service runs.
package audit

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
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/webhook"
	"github.com/ponte-pay/ponte/internal/withdrawal"
)

// Run adds both ledgers up again from their transfers, and holds against them what the use cases know: their states, what
// these posted and the events that they wrote. done is told of every account that is audited; nil is nobody.
func Run(ctx context.Context, db *sqldb.DB, done func(id.Account)) (ledger.AuditResult, error) {
	var result ledger.AuditResult
	border, err := webhook.Pruned(ctx, db)
	if err != nil {
		return result, err
	}
	if border.IsZero() {
		border = id.First(time.UnixMicro(0)) // nothing was there yet
	}
	result.Problems, err = ledger.AuditAll(ctx, db, done, result.Part(infraction.Blocked),
		charge.Part(border), payout.Part(border), deposit.Part(border), withdrawal.Part(border), clawback.Part(), infraction.Part())
	return result, err
}
