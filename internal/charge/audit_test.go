package charge_test

import (
	"context"
	"strings"
	"testing"

	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

// The audit finds each way in which a charge, its postings and its events can disagree.
func TestAuditFinds(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		n := newWorld(t).node(db)
		a := n.account("cash_in_fee=1.00", "release_delay=24h")
		paid, unpaid := n.create(a, 1000), n.create(a, 2000)
		n.hear(paid, n.pay(paid.TxID, 1000))
		n.audit()
		for _, test := range []struct{ breaks, mends, want string }{
			{`UPDATE charge SET amount = 1001 WHERE account_id = $1 AND id = $2`, `UPDATE charge SET amount = 1000 WHERE account_id = $1 AND id = $2`, "is paid and was not posted so"},
			{`UPDATE charge SET fee = 99 WHERE account_id = $1 AND id = $2`, `UPDATE charge SET fee = 100 WHERE account_id = $1 AND id = $2`, "has a fee that was not posted so"},
			{`UPDATE charge SET release_at = NULL WHERE account_id = $1 AND id = $2`, `UPDATE charge SET release_at = 1 WHERE account_id = $1 AND id = $2`, "pending is 9.00"},
			{`UPDATE event SET type = 'charge.paie' WHERE account_id = $1 AND ref = $2 AND type = 'charge.paid'`, `UPDATE event SET type = 'charge.paid' WHERE account_id = $1 AND ref = $2 AND type = 'charge.paie'`, "is paid and has no event charge.paid"},
			{`UPDATE event SET type = 'charge.made' WHERE account_id = $1 AND ref = $2 AND type = 'charge.created'`, `UPDATE event SET type = 'charge.created' WHERE account_id = $1 AND ref = $2 AND type = 'charge.made'`, "has no event charge.created"},
			{`UPDATE charge SET paid_at = NULL WHERE account_id = $1 AND id = $2`, `UPDATE charge SET paid_at = 1 WHERE account_id = $1 AND id = $2`, "is a posting for no charge that was paid so"},
		} {
			run := func(sql string) {
				t.Helper()
				err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
					tx.Queue(ctx, sql, int64(a.ID), paid.ID)
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			run(test.breaks)
			problems, err := n.auditCharges()
			run(test.mends)
			var found []string
			for _, p := range problems {
				found = append(found, p.What)
			}
			if err != nil || !strings.Contains(strings.Join(found, "\n"), test.want) {
				t.Errorf("%s: %q %v", test.breaks, found, err)
			}
		}
		if n.stored(unpaid).Status != "pending" {
			t.Error("the other one moved")
		}
		n.audit()
	})
}
