package ledger

import (
	"context"
	"time"

	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// epoch is before every transfer.
var epoch = time.UnixMicro(0)

const (
	insertBalance = `INSERT INTO balance (account_id, currency, book, amount, last_id) VALUES ($1, $2, $3, 0, $4)`

	insertTransfer = `INSERT INTO transfer (account_id, id, currency, source, target, amount, kind, ref, once_key, memo)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`

	insertDelta = `INSERT INTO delta (account_id, currency, book, id, amount) VALUES ($1, $2, $3, $4, $5)`

	// A debit without a lock beforehand. The identifiers are compared because another node's clock may be ahead: below the
	// latest credit that is folded, the debit would show in a statement before the money it took. Below another debit it may
	// stand, so that last_id is left as it is: two debits of one account need not come in the order of their identifiers.
	takeBalance = `UPDATE balance SET amount = amount - $1
WHERE account_id = $3 AND currency = $4 AND book = $5 AND amount >= $6 AND last_id < $2`

	setBalance = `UPDATE balance SET amount = $1, last_id = $2 WHERE account_id = $3 AND currency = $4 AND book = $5`

	// What is folded, added to a balance that is locked and has room for it.
	addBalance = `UPDATE balance SET amount = amount + $1, last_id = CASE WHEN last_id < $2 THEN $2 ELSE last_id END
WHERE account_id = $3 AND currency = $4 AND book = $5 AND amount <= $6`

	lockBalance = `SELECT amount, last_id FROM balance
WHERE account_id = $1 AND currency = $2 AND book = $3 FOR NO KEY UPDATE`

	// A statement of its own after lockBalance, never part of it: only a new statement sees what was committed while the
	// lock was waited for.
	foldDeltas = `DELETE FROM delta WHERE account_id = $1 AND currency = $2 AND book = $3 RETURNING id, amount`

	// Up to the end of a slice, which is looked for before: one statement with a subquery reads the whole table as long as
	// PostgreSQL has no statistics of it, and it never has any worth the name of one whose rows live for a second.
	selectSliceEnd = `SELECT id FROM delta WHERE account_id = $1 AND currency = $2 AND book = $3 ORDER BY id LIMIT 1 OFFSET $4`
	foldDeltasUpTo = `DELETE FROM delta WHERE account_id = $1 AND currency = $2 AND book = $3 AND id <= $4 RETURNING id, amount`

	// One statement: two would see two moments, and between them money is in neither place or in both.
	selectBalances = `SELECT b.book, b.amount + COALESCE((SELECT CAST(SUM(d.amount) AS BIGINT) FROM delta d
WHERE d.account_id = b.account_id AND d.currency = b.currency AND d.book = b.book), 0)
FROM balance b WHERE b.account_id = $1 AND b.currency = $2`

	transferColumns = `account_id, id, currency, source, target, amount, kind, ref, COALESCE(once_key, ''), COALESCE(memo, '')`

	selectTransfer = `SELECT ` + transferColumns + ` FROM transfer WHERE account_id = $1 AND id = $2`

	selectTransferOnce = `SELECT ` + transferColumns + ` FROM transfer WHERE account_id = $1 AND kind = $2 AND once_key = $3`

	// Oldest first, from one identifier to below another.
	selectTransfers = `SELECT ` + transferColumns + ` FROM transfer
WHERE account_id = $1 AND currency = $2 AND id > $3 AND id < $4 ORDER BY id LIMIT $5`

	// The same, newest first.
	selectLatestTransfers = `SELECT ` + transferColumns + ` FROM transfer
WHERE account_id = $1 AND currency = $2 AND id > $3 AND id < $4 ORDER BY id DESC LIMIT $5`

	// Newest first; the literal lets the partial index serve it. An empty target means any.
	selectAdjustments = `SELECT ` + transferColumns + ` FROM transfer
WHERE account_id = $1 AND kind = 'adjustment' AND currency = $2 AND id < $3 AND ($4 = '' OR target = $4)
ORDER BY id DESC LIMIT $5`

	selectInflows = `SELECT ` + transferColumns + ` FROM transfer
WHERE account_id = $1 AND kind = 'inflow' AND currency = $2 AND id < $3 ORDER BY id DESC LIMIT $4`

	// What came for one thing, among the first that came since it was made.
	selectInflowsFor = `SELECT ` + transferColumns + ` FROM (SELECT * FROM transfer
WHERE account_id = $1 AND kind = 'inflow' AND currency = $2 AND id > $3 ORDER BY id LIMIT $4) t WHERE t.ref = $5 ORDER BY t.id LIMIT $6`

	// By the keys that begin alike, which is how the index is ordered.
	selectPostedFor = `SELECT ` + transferColumns + ` FROM transfer
WHERE account_id = $1 AND kind = $2 AND once_key > $3 AND once_key < $4 ORDER BY once_key LIMIT $5`

	selectHolds = `SELECT ` + transferColumns + ` FROM transfer
WHERE account_id = $1 AND kind IN ('hold', 'release') AND id > $2 ORDER BY id LIMIT $3`

	sumTransfers = `SELECT currency, source, target, COUNT(*), CAST(SUM(amount) AS BIGINT) FROM transfer
WHERE account_id = $1 AND id < $2 GROUP BY currency, source, target`

	sumTransfersSince = `SELECT currency, source, target, COUNT(*), CAST(SUM(amount) AS BIGINT) FROM transfer
WHERE account_id = $1 AND id >= $2 GROUP BY currency, source, target`

	countStrayDeltas = `SELECT COUNT(*) FROM delta d WHERE d.account_id = $1 AND NOT EXISTS (
SELECT 1 FROM transfer t WHERE t.account_id = d.account_id AND t.id = d.id
AND t.currency = d.currency AND (t.target = d.book OR t.source = d.book))`

	// Over all accounts, by leaps along the index.
	findWaitingBook = `SELECT account_id, currency, book FROM delta
WHERE (account_id, currency, book) > ($1, $2, $3) ORDER BY account_id, currency, book LIMIT 1`

	findAccountWithBalance   = `SELECT account_id FROM balance WHERE account_id > $1 ORDER BY account_id LIMIT 1`
	findAccountWithTransfers = `SELECT account_id FROM transfer WHERE account_id > $1 ORDER BY account_id LIMIT 1`
)

// null stores "" as NULL.
func null(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func scanTransfer(r sqldb.Row) (Transfer, error) {
	var t Transfer
	var account int64
	var currency, source, target, kind string
	err := r.Scan(&account, &t.ID, &currency, &source, &target, &t.Amount.Units, &kind, &t.Ref, &t.OnceKey, &t.Memo)
	t.Account, t.Amount.Currency = id.Account(account), money.Currency(currency)
	t.Source, t.Target, t.Kind = Book(source), Book(target), Kind(kind)
	return t, err
}

// waiting is a delta.
type waiting struct {
	id    id.ID
	units int64
}

func scanWaiting(r sqldb.Row) (w waiting, err error) {
	err = r.Scan(&w.id, &w.units)
	return w, err
}

func scanPlace(r sqldb.Row) (place, error) {
	var account int64
	var currency, book string
	err := r.Scan(&account, &currency, &book)
	return place{id.Account(account), money.Currency(currency), Book(book)}, err
}

// total is what went from one book to another.
type total struct {
	currency       money.Currency
	source, target Book
	count, units   int64
}

func scanTotal(r sqldb.Row) (total, error) {
	var t total
	var currency, source, target string
	err := r.Scan(&currency, &source, &target, &t.count, &t.units)
	t.currency, t.source, t.target = money.Currency(currency), Book(source), Book(target)
	return t, err
}

func totalsBefore(ctx context.Context, q sqldb.Querier, account id.Account, before id.ID) ([]total, error) {
	return sqldb.All(ctx, q, scanTotal, sumTransfers, int64(account), before)
}
