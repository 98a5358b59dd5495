package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"time"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

const (
	historyFew, historyMany = 1_000, 1_000_000 // transactions of an account
	historyRatioMax         = 2.0              // times the p99 of the small one
	historySpan             = 365 * 24 * time.Hour
	historyConnections      = 4
)

// makeHistory fills an account's past with charges, payouts and adjustments, evenly over a year. It bypasses the ledger,
// whose speed is measured elsewhere: the account does not add up.
const makeHistory = `
WITH moments AS (
    SELECT n, (lpad(to_hex(%[2]d + n * %[3]d / %[1]d), 12, '0') || '7000' || '8' || lpad(to_hex(n), 15, '0'))::uuid AS id FROM generate_series(1, %[1]d) n
), charges AS (
    INSERT INTO charge (account_id, id, txid, idem_hash, status, amount, fee, refunded, acquirer, routing, copy_paste, expires_at)
    SELECT %[4]d, id, 'h' || n, '\x00', 'paid', 1000, 0, 0, 'alpha', '[]', repeat('x', 200), 0 FROM moments WHERE n %% 10 < 5
), payouts AS (
    INSERT INTO payout (account_id, id, external_id, idem_hash, status, answer, amount, fee, returned, pix_key, acquirer, sends, sent_at, check_at, routing)
    SELECT %[4]d, id, 'h' || n, '\x00', 'completed', 'processing', 1000, 100, 0, 'maria@example.org', 'alpha', 1, 0, 0, '[]' FROM moments WHERE n %% 10 BETWEEN 5 AND 8
)
INSERT INTO transfer (account_id, id, currency, source, target, amount, kind)
SELECT %[4]d, id, 'BRL', 'adjustment', 'available', 100, 'adjustment' FROM moments WHERE n %% 10 = 9`

// transactions compares pages of GET /v1/transactions of an account with a long past and one with a short one, from
// anywhere in it.
func (r *run) transactions(ctx context.Context, psql, database string) error {
	r.Progress("GET /v1/transactions with %d transactions", historyMany)
	db, err := sqldb.Open(ctx, database)
	if err != nil {
		return err
	}
	accounts, err := newPayers(ctx, db, 2)
	db.Close()
	if err != nil {
		return err
	}
	from := clock.New(nil).Real().Add(-historySpan)
	for i, count := range []int{historyFew, historyMany} {
		sql := fmt.Sprintf(makeHistory, count, from.UnixMilli(), historySpan.Milliseconds(), int64(accounts[i].id))
		if _, err := command(ctx, psql, "-q", "-c", sql, database); err != nil {
			return err
		}
	}
	if _, err := command(ctx, psql, "-q", "-c", "VACUUM ANALYZE", database); err != nil {
		return err
	}
	folder := r.path("transactions")
	bank, bankURL, err := r.start(ctx, "simulator", folder)
	if err != nil {
		return err
	}
	defer stop(bank)
	server, base, err := r.start(ctx, "serve", folder, "--database="+database, "--simulator="+bankURL)
	if err != nil {
		return err
	}
	defer stop(server)
	var p99 [2]time.Duration
	for i := range accounts {
		address := base[len("http://"):]
		result, err := hammer(ctx, r.duration(), traffic{
			address: address, connections: historyConnections, want: "HTTP/1.1 200",
			next: func() []byte {
				at := from.Add(time.Duration(rand.Int64N(int64(historySpan)))) //nolint:gosec // a load, not a secret
				return fmt.Appendf(nil, "GET /v1/transactions?limit=50&starting_after=%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n",
					at.UTC().Format("2006-01-02T15:04:05.000Z"), address, accounts[i].key)
			},
		})
		if err != nil {
			return err
		}
		p99[i] = result.p99
	}
	row := Row{
		Name: fmt.Sprintf("PostgreSQL: p99 of GET /v1/transactions, %d rows", historyMany), Value: p99[1].Seconds() * 1000, Unit: "ms",
		Against: fmt.Sprintf("%d rows", historyFew), Ratio: p99[1].Seconds() / p99[0].Seconds(), Goal: fmt.Sprintf("at most %g times", historyRatioMax),
	}
	row.Reached = row.Ratio <= historyRatioMax
	r.report.Rows = append(r.report.Rows, row)
	return nil
}

// createDatabase makes a database beside the one at url and returns its address.
func createDatabase(ctx context.Context, psql, url, name string) (string, error) {
	if _, err := command(ctx, psql, "-q", "-c", "CREATE DATABASE "+name, url); err != nil {
		return "", err
	}
	return replaceDatabase(url, name), nil
}

// psqlBeside returns the psql that came with a pgbench.
func psqlBeside(pgbench string) string { return filepath.Join(filepath.Dir(pgbench), "psql") }
