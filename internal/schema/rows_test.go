package schema_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/schema"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

// Charges and events are what they were after their tables were made again, and what must be there once still must.
func TestMigrateRows(t *testing.T) {
	t.Parallel()
	eachEmpty(t, func(t *testing.T, url string) {
		db := sqltest.Open(t, url)
		if err := schema.MigrateBefore(t.Context(), db, "rows"); err != nil {
			t.Fatal(err)
		}
		ids := id.NewGenerator(time.Now, rand.Reader)
		const insertCharge = `INSERT INTO charge (account_id, id, txid, external_id, idem_key, idem_hash, status, amount, fee, refunded, description, payer_name,
payer_document, postback_url, acquirer, routing, copy_paste, end_to_end_id, paid_at, expires_at, release_at, held, origin)
VALUES ($1, $2, $3, $4, $5, $6, 'paid', 11, 12, 13, 'd', 'n', 'p', 'u', 'a', 'r', 'c', 'e', 14, 15, 16, 17, 'manual')`
		const insertEvent = `INSERT INTO event (account_id, id, type, data, ref) VALUES ($1, $2, 'charge.paid', $3, $4)`
		charges, events := []id.ID{ids.New(), ids.New()}, []id.ID{ids.New(), ids.New()}
		for i, account := range []int64{9, 7} { // so that the order of accounts is not that of time
			run(t, db, insertCharge, account, charges[i], "txid", "external", "key", []byte{1, 2})
			run(t, db, insertEvent, account, events[i], []byte("{}"), charges[i])
		}
		look := func() (all []string) {
			t.Helper()
			for _, sql := range []string{
				`SELECT account_id || txid || external_id || idem_key || status || amount || fee || refunded || description || payer_name || payer_document
|| postback_url || acquirer || routing || copy_paste || end_to_end_id || paid_at || expires_at || release_at || held || origin, id, idem_hash
FROM charge ORDER BY account_id`,
				`SELECT account_id || type, id, data FROM event WHERE ref IS NOT NULL ORDER BY account_id`,
			} {
				list, err := sqldb.All(t.Context(), db, func(r sqldb.Row) (text string, err error) {
					var x id.ID
					var content []byte
					err = r.Scan(&text, &x, &content)
					return fmt.Sprintf("%s %s %x", text, id.Charge.Format(x), content), err
				}, sql)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, list...)
			}
			return all
		}
		before := look()
		if len(before) != 4 {
			t.Fatalf("nothing to compare: %q", before)
		}
		if _, err := schema.Migrate(t.Context(), db, time.Now()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, look()); diff != "" {
			t.Errorf("(-before +after):\n%s", diff)
		}
		twice := func(what, sql string, args ...any) {
			t.Helper()
			err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
				_, err := tx.Exec(ctx, sql, args...)
				return err
			})
			if !errors.Is(err, sqldb.ErrConflict) {
				t.Errorf("%s twice: %v", what, err)
			}
		}
		twice("a charge", insertCharge, int64(7), charges[1], "x", "x", "x", []byte{})
		twice("a txid", insertCharge, int64(7), ids.New(), "txid", "x", "x", []byte{})
		twice("an external_id", insertCharge, int64(7), ids.New(), "x", "external", "x", []byte{})
		twice("a key", insertCharge, int64(7), ids.New(), "x", "x", "key", []byte{})
		twice("an event", insertEvent, int64(7), events[1], []byte("{}"), ids.New())
		twice("an event of a thing", insertEvent, int64(7), ids.New(), []byte("{}"), charges[1])
	})
}
