package app

import (
	"context"

	"github.com/ponte-pay/ponte/internal/audit"
	"github.com/ponte-pay/ponte/internal/ledger"
)

// Audit adds both ledgers up again and holds against them what the use cases know.
func (c *Core) Audit(ctx context.Context) (ledger.AuditResult, error) {
	return audit.Run(ctx, c.DB, nil)
}
