package schema_test

import (
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/schema"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

// What was given back before there were clawbacks is known afterwards, so that it is not debited again.
func TestMigrateReturns(t *testing.T) {
	t.Parallel()
	eachEmpty(t, func(t *testing.T, url string) {
		db := sqltest.Open(t, url)
		if err := schema.MigrateBefore(t.Context(), db, "infractions"); err != nil {
			t.Fatal(err)
		}
		ids := id.NewGenerator(time.Now, rand.Reader)
		e2e := func(n int) string { return fmt.Sprintf("E%031d", n) }
		charge := ids.New()
		post := func(kind, source, target, once string, amount int64) {
			t.Helper()
			run(t, db, `INSERT INTO transfer (account_id, id, currency, source, target, amount, kind, ref, once_key) VALUES (7, $1, 'BRL', $2, $3, $4, $5, $6, $7)`,
				ids.New(), source, target, amount, kind, charge, once)
		}
		post("cash_in", "acquirer", "available", e2e(1), 1000)
		post("inflow", "acquirer", "available", e2e(1), 250)
		post("refund", "available", "acquirer", e2e(1)+" a", 300)
		post("refund", "available", "acquirer", e2e(1)+" b", 400)
		post("inflow", "acquirer", "available", e2e(2), 500)
		post("refund", "available", "acquirer", e2e(2)+" a", 500)
		post("inflow", "acquirer", "available", e2e(3), 500)
		run(t, db, `INSERT INTO charge (account_id, id, txid, idem_hash, status, amount, fee, refunded, acquirer, routing, copy_paste, end_to_end_id, expires_at)
VALUES (7, $1, 'unseen', $2, 'refunded', 900, 0, 900, 'alpha', '', '', $3, 0)`, ids.New(), []byte{}, e2e(4))

		if _, err := schema.Migrate(t.Context(), db, time.Now()); err != nil {
			t.Fatal(err)
		}
		got, err := sqldb.All(t.Context(), db, func(r sqldb.Row) (text string, err error) {
			var name string
			var amount, returned, enforced, claimed, accepted, debited int64
			err = r.Scan(&name, &amount, &returned, &enforced, &claimed, &accepted, &debited)
			return fmt.Sprintln(strings.TrimLeft(name, "E0"), amount, returned, enforced, claimed, accepted, debited), err
		}, `SELECT end_to_end_id, amount, returned, enforced, claimed, accepted, debited FROM clawback WHERE account_id = 7 ORDER BY end_to_end_id`)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"1 1250 700 0 0 0 700\n", "2 500 500 0 0 0 500\n", "4 900 900 0 0 0 900\n"}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
