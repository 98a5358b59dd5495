package activity

import (
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

const (
	insertMark = `INSERT INTO activity_mark (account_id, up_to) VALUES ($1, $2) ON CONFLICT (account_id) DO NOTHING`
	selectMark = `SELECT up_to FROM activity_mark WHERE account_id = $1`
	updateMark = `UPDATE activity_mark SET up_to = $1 WHERE account_id = $2 AND up_to = $3`

	addDay = `INSERT INTO activity (account_id, currency, day, inflow, outflow, fees) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (account_id, currency, day) DO UPDATE SET inflow = activity.inflow + excluded.inflow,
outflow = activity.outflow + excluded.outflow, fees = activity.fees + excluded.fees`

	listDays = `SELECT day, inflow, outflow, fees FROM activity WHERE account_id = $1 AND currency = $2 AND day > $3 ORDER BY day LIMIT $4`

	// Both ledgers, in the order of their identifiers.
	listTransfers = `SELECT id, currency, source, target, amount FROM transfer WHERE account_id = $1 AND id > $2 AND id < $3 ORDER BY id LIMIT $4`
)

// sum is a stored day.
type sum struct {
	day int64
	Day
}

func scanSum(r sqldb.Row) (s sum, err error) {
	err = r.Scan(&s.day, &s.Inflow, &s.Outflow, &s.Fees)
	return s, err
}

func scanTransfer(r sqldb.Row) (t ledger.Transfer, err error) {
	var currency, source, target string
	err = r.Scan(&t.ID, &currency, &source, &target, &t.Amount.Units)
	t.Amount.Currency, t.Source, t.Target = money.Currency(currency), ledger.Book(source), ledger.Book(target)
	return t, err
}
