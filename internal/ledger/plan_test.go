package ledger

import (
	"strings"
	"testing"

	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

// TestListsHaveAnIndex shows that SQLite, which has no statistics, reads a list by the index that was made for it.
func TestListsHaveAnIndex(t *testing.T) {
	t.Parallel()
	db := sqltest.Open(t, sqltest.SQLite(t))
	for query, index := range map[string]string{
		selectAdjustments: "transfer_adjustment", selectInflows: "transfer_inflow",
		selectInflowsFor: "transfer_inflow", selectPostedFor: "transfer_once",
	} {
		args := make([]any, strings.Count(query, "$"))
		steps, err := sqldb.All(t.Context(), db, func(r sqldb.Row) (step string, err error) {
			var a, b, c int64
			return step, r.Scan(&a, &b, &c, &step)
		}, `EXPLAIN QUERY PLAN `+query, args...)
		if err != nil || !strings.Contains(strings.Join(steps, "; "), index) {
			t.Errorf("%s: %v %q", query, err, steps)
		}
	}
}
