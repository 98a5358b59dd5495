package infraction_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/charge"
	"github.com/ponte-pay/ponte/internal/clawback"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/infraction"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// TestAuditFindsWhatIsWrong breaks each book and expects its audit to tell.
func TestAuditFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, n *node) {
		blocked := func(ctx context.Context, db *sqldb.DB) ([]ledger.Problem, error) {
			result, err := ledger.Audit(ctx, db, infraction.Blocked)
			return result.Problems, err
		}
		a := n.account("release_delay=24h")
		_, e2e := n.paid(a, 1000)
		open, taken := n.claim(e2e, 300), n.claim(e2e, 500)
		n.poll()
		n.verdict(taken, "accept")
		n.poll()
		n.audit(a.ID)
		for _, test := range []struct {
			breaks, mends string
			audit         func(context.Context, *sqldb.DB) ([]ledger.Problem, error)
			want          string
		}{
			{
				`UPDATE infraction SET amount = 301 WHERE account_id = $1 AND acquirer_id = $2`,
				`UPDATE infraction SET amount = 300 WHERE account_id = $1 AND acquirer_id = $2`, blocked, "blocked is 3.00",
			},
			{
				`UPDATE infraction SET amount = 301 WHERE account_id = $1 AND acquirer_id = $2`,
				`UPDATE infraction SET amount = 300 WHERE account_id = $1 AND acquirer_id = $2`, infraction.Audit, "infractions claim 3.01",
			},
			{
				`UPDATE infraction SET status = 'rejected' WHERE account_id = $1 AND acquirer_id = $2`,
				`UPDATE infraction SET status = 'open' WHERE account_id = $1 AND acquirer_id = $2`, infraction.Audit, "is rejected and was posted as",
			},
			{
				`UPDATE clawback SET debited = 400 WHERE account_id = $1 AND $2 <> ''`,
				`UPDATE clawback SET debited = 500 WHERE account_id = $1 AND $2 <> ''`, clawback.Audit, "5.00 went back, 4.00 is debited",
			},
			{
				`UPDATE clawback SET debited = 400 WHERE account_id = $1 AND $2 <> ''`,
				`UPDATE clawback SET debited = 500 WHERE account_id = $1 AND $2 <> ''`, auditCharges, "4.00 of payments went back, 5.00 was posted",
			},
			{
				`UPDATE charge SET held = 0 WHERE account_id = $1 AND $2 <> ''`,
				`UPDATE charge SET held = 800 WHERE account_id = $1 AND $2 <> ''`, auditCharges, "pending is 2.00, 10.00 of charges waits",
			},
		} {
			n.run(test.breaks, int64(a.ID), open)
			problems, err := test.audit(t.Context(), n.db)
			n.run(test.mends, int64(a.ID), open)
			if err != nil || len(problems) == 0 {
				t.Errorf("%s: %v %v", test.breaks, problems, err)
				continue
			}
			if !slices.ContainsFunc(problems, func(p ledger.Problem) bool { return strings.Contains(p.What, test.want) }) {
				t.Errorf("%s: %v", test.breaks, problems)
			}
		}
		n.audit(a.ID)
	})
}

// run changes the database behind everybody's back.
func (n *node) run(sql string, args ...any) {
	n.t.Helper()
	err := n.db.Write(n.t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, sql, args...)
		return err
	})
	if err != nil {
		n.t.Fatal(err)
	}
}

func auditCharges(ctx context.Context, db *sqldb.DB) ([]ledger.Problem, error) {
	return charge.Audit(ctx, db, id.First(time.UnixMicro(0)))
}
