package bench

import (
	"slices"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

// The identifiers that requests use are those that the databases made.
func TestPast(t *testing.T) {
	t.Parallel()
	sqltest.EachURL(t, func(t *testing.T, url string) {
		s := &stage{url: url, db: sqltest.Open(t, url)}
		bin, err := findPostgres()
		if err != nil {
			t.Fatal(err)
		}
		s.engine = engine{isPostgres: s.db.IsPostgres(), server: &PostgresServer{URL: url, bin: bin}}
		if s.accounts, err = newPayers(t.Context(), s.db, 1); err != nil {
			t.Fatal(err)
		}
		p := &past{rows: 30, from: time.UnixMilli(1_700_000_000_123), stage: s}
		if err := p.fill(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		var want []id.ID
		for n := range int64(p.rows) {
			want = append(want, p.chargeID(n+1))
		}
		scan := func(r sqldb.Row) (x id.ID, err error) {
			err = r.Scan(&x)
			return x, err
		}
		got, err := sqldb.All(t.Context(), s.db, scan, `SELECT id FROM charge WHERE account_id = $1 ORDER BY id LIMIT 100`, int64(s.accounts[0].id))
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("got %v, want %v: %v", got, want, err)
		}
		if last := p.chargeID(int64(p.rows)).Time(); !last.Equal(p.from.Add(pastSpan)) {
			t.Errorf("the last charge is of %v", last)
		}
		for table, count := range map[string]int64{"payout": 12, "transfer": 4} { // one transfer is the account's own money
			got, err := sqldb.One(t.Context(), s.db, sqldb.Scalar[int64], `SELECT COUNT(*) FROM `+table)
			if err != nil || got != count {
				t.Errorf("%s: %d rows, want %d: %v", table, got, count, err)
			}
		}
	})
}
