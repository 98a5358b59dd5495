package bench

import (
	"context"
	"encoding/binary"
	"strconv"
	"strings"
	"time"

	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

const (
	pastSpan      = 365 * 24 * time.Hour
	pastBatch     = 25_000 // rows a transaction
	pastBatchTime = 5 * time.Minute
)

// past is an account's: charges evenly over a year, of which one in ten has expired and the others are paid, four payouts for
// ten of them and an adjustment for one.
type past struct {
	*stage
	rows int // charges
	from time.Time
}

// The kinds of rows differ in one digit of their identifiers.
const (
	pastCharges     = 0x8
	pastPayouts     = 0x9
	pastAdjustments = 0xa
)

// pastTables make the rows n from {first} to {last}. They go around the services, whose speed is measured elsewhere: the
// account does not add up.
var pastTables = []struct {
	digit int
	sql   string
}{
	{pastCharges, `INSERT INTO charge (account_id, id, txid, external_id, idem_hash, status, amount, fee, refunded, acquirer, routing, copy_paste, end_to_end_id, paid_at, expires_at)
WITH RECURSIVE moment (n) AS (SELECT CAST({first} AS BIGINT) UNION ALL SELECT n + 1 FROM moment WHERE n < {last})
SELECT {account}, {id}, 'past' || n, 'past-' || n, {bytes}, CASE n % 10 WHEN 0 THEN 'expired' ELSE 'paid' END, 1000, 0, 0, 'alpha', '[]', '{code}',
CASE n % 10 WHEN 0 THEN NULL ELSE 'E' || n END, CASE n % 10 WHEN 0 THEN NULL ELSE ({milli}) * 1000 END, 0 FROM moment`},
	{pastPayouts, `INSERT INTO payout (account_id, id, external_id, idem_hash, status, answer, amount, fee, returned, pix_key, acquirer, sends, sent_at, check_at, routing)
WITH RECURSIVE moment (n) AS (SELECT CAST({first} AS BIGINT) UNION ALL SELECT n + 1 FROM moment WHERE n < {last})
SELECT {account}, {id}, 'past-' || n, {bytes}, 'completed', 'processing', 1000, 100, 0, 'maria@example.org', 'alpha', 1, 0, 0, '[]' FROM moment WHERE n % 10 < 4`},
	{pastAdjustments, `INSERT INTO transfer (account_id, id, currency, source, target, amount, kind)
WITH RECURSIVE moment (n) AS (SELECT CAST({first} AS BIGINT) UNION ALL SELECT n + 1 FROM moment WHERE n < {last})
SELECT {account}, {id}, 'BRL', 'adjustment', 'available', 100, 'adjustment' FROM moment WHERE n % 10 = 9`},
}

// copyPasteBytes is about how long a charge's code is.
const copyPasteBytes = 200

// fill makes the rows before the server starts.
func (p *past) fill(ctx context.Context, s *stage) error {
	makeID, bytes := `unhex(printf('%012x7000{digit}%015x', {milli}, n))`, `x'00'`
	if s.engine.isPostgres {
		makeID, bytes = `CAST(lpad(to_hex({milli}), 12, '0') || '7000{digit}' || lpad(to_hex(n), 15, '0') AS uuid)`, `'\x00'`
	}
	milli := strconv.FormatInt(p.from.UnixMilli(), 10) + " + n * " + strconv.FormatInt(pastSpan.Milliseconds(), 10) + " / " + strconv.Itoa(p.rows)
	for _, table := range pastTables {
		text := strings.ReplaceAll(table.sql, "{id}", makeID)
		for first := 1; first <= p.rows; first += pastBatch {
			sql := strings.NewReplacer(
				"{first}", strconv.Itoa(first), "{last}", strconv.Itoa(min(first+pastBatch-1, p.rows)), "{milli}", milli, "{bytes}", bytes,
				"{digit}", strconv.FormatInt(int64(table.digit), 16), "{account}", strconv.FormatInt(int64(s.accounts[0].id), 10),
				"{code}", strings.Repeat("x", copyPasteBytes),
			).Replace(text)
			err := s.db.WriteWithin(ctx, pastBatchTime, func(ctx context.Context, tx *sqldb.Tx) error { return tx.Script(ctx, sql) })
			if err != nil {
				return err
			}
		}
	}
	if !s.engine.isPostgres {
		return nil
	}
	// As it would be after a minute, and nothing left to be done while others are measured.
	return s.engine.server.psql(ctx, s.url, "VACUUM ANALYZE", "CHECKPOINT")
}

// idOf is what the statements above make.
func idOf(milli uint64, digit int, n uint64) (x id.ID) {
	binary.BigEndian.PutUint64(x[:8], milli<<16|0x7000)
	binary.BigEndian.PutUint64(x[8:], uint64(digit)<<60|n)
	return x
}
