package auditor

import (
	"context"
	"fmt"

	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// ref names a row of a tenant table.
type ref struct {
	account int64
	id      id.ID
}

func (r ref) String() string { return fmt.Sprintf("%s of %d", r.id, r.account) }

// transfer is one row of the ledger.
type transfer struct {
	ref
	currency, source, target, kind, onceKey string
	amount                                  int64
	about                                   id.ID
}

// book names a balance.
type book struct {
	account        int64
	currency, name string
}

type chargeRow struct {
	ref
	txid, external, key, status, acquirer, endToEnd string
	amount, fee, refunded, held                     int64
	paidAt, expiresAt, releaseAt                    int64
}

type payoutRow struct {
	ref
	external, key, status, acquirer, endToEnd string
	amount, fee, returned, sends              int64
}

type infractionRow struct {
	ref
	acquirer, acquirerID, endToEnd, status string
	amount, debited                        int64
}

type depositRow struct {
	ref
	external, key, status, payment, parent string
	price, received, fee, refunded         int64
	detectedAt, paidAt, asks               int64
}

type withdrawalRow struct {
	ref
	external, key, status, currency, address, coins, provider, hash string
	amount, fee                                                     int64
}

type eventRow struct {
	ref
	kind  string
	about id.ID
}

type deliveryRow struct {
	ref
	endpoint id.ID
	state    string
	attempt  int64
}

// tables are all rows that matter, as they were at one moment.
type tables struct {
	transfers   map[ref]transfer
	balances    map[book]int64
	deltas      map[book]int64
	charges     map[ref]chargeRow
	payouts     map[ref]payoutRow
	infractions map[ref]infractionRow
	deposits    map[ref]depositRow
	withdrawals map[ref]withdrawalRow
	events      map[ref]eventRow
	unmatched   map[string]int64
	endpoints   map[id.ID]endpointRow
}

type endpointRow struct {
	account     int64
	url, status string
}

// watched are the tables that are read, and how.
var watched = []struct {
	name string
	read func(ctx context.Context, db *sqldb.DB, into *tables) error
}{
	{"transfer", func(ctx context.Context, db *sqldb.DB, t *tables) (err error) {
		t.transfers, err = rows(ctx, db, `SELECT account_id, id, currency, source, target, amount, kind, ref, COALESCE(once_key, '') FROM transfer`,
			func(r sqldb.Row, x *transfer) (ref, error) {
				err := r.Scan(&x.account, &x.id, &x.currency, &x.source, &x.target, &x.amount, &x.kind, &x.about, &x.onceKey)
				return x.ref, err
			})
		return err
	}},
	{"balance", func(ctx context.Context, db *sqldb.DB, t *tables) (err error) {
		t.balances, err = rows(ctx, db, `SELECT account_id, currency, book, amount FROM balance`, scanBook)
		return err
	}},
	{"delta", func(ctx context.Context, db *sqldb.DB, t *tables) (err error) {
		t.deltas, err = rows(ctx, db, `SELECT account_id, currency, book, CAST(SUM(amount) AS BIGINT) FROM delta GROUP BY account_id, currency, book`, scanBook)
		return err
	}},
	{"charge", func(ctx context.Context, db *sqldb.DB, t *tables) (err error) {
		t.charges, err = rows(ctx, db, `SELECT account_id, id, txid, COALESCE(external_id, ''), COALESCE(idem_key, ''), status, acquirer, COALESCE(end_to_end_id, ''),
amount, fee, refunded, held, COALESCE(paid_at, 0), expires_at, COALESCE(release_at, 0) FROM charge`,
			func(r sqldb.Row, x *chargeRow) (ref, error) {
				err := r.Scan(&x.account, &x.id, &x.txid, &x.external, &x.key, &x.status, &x.acquirer, &x.endToEnd,
					&x.amount, &x.fee, &x.refunded, &x.held, &x.paidAt, &x.expiresAt, &x.releaseAt)
				return x.ref, err
			})
		return err
	}},
	{"payout", func(ctx context.Context, db *sqldb.DB, t *tables) (err error) {
		t.payouts, err = rows(ctx, db, `SELECT account_id, id, external_id, COALESCE(idem_key, ''), status, acquirer, COALESCE(end_to_end_id, ''), amount, fee, returned, sends FROM payout`,
			func(r sqldb.Row, x *payoutRow) (ref, error) {
				err := r.Scan(&x.account, &x.id, &x.external, &x.key, &x.status, &x.acquirer, &x.endToEnd, &x.amount, &x.fee, &x.returned, &x.sends)
				return x.ref, err
			})
		return err
	}},
	{"infraction", func(ctx context.Context, db *sqldb.DB, t *tables) (err error) {
		t.infractions, err = rows(ctx, db, `SELECT account_id, id, acquirer, acquirer_id, end_to_end_id, status, amount, debited FROM infraction`,
			func(r sqldb.Row, x *infractionRow) (ref, error) {
				err := r.Scan(&x.account, &x.id, &x.acquirer, &x.acquirerID, &x.endToEnd, &x.status, &x.amount, &x.debited)
				return x.ref, err
			})
		return err
	}},
	{"deposit", func(ctx context.Context, db *sqldb.DB, t *tables) (err error) {
		t.deposits, err = rows(ctx, db, `SELECT account_id, id, COALESCE(external_id, ''), COALESCE(idem_key, ''), status, COALESCE(payment_id, ''), COALESCE(parent, ''),
price, received, fee, refunded, COALESCE(detected_at, 0), COALESCE(paid_at, 0), asks FROM deposit`,
			func(r sqldb.Row, x *depositRow) (ref, error) {
				err := r.Scan(&x.account, &x.id, &x.external, &x.key, &x.status, &x.payment, &x.parent,
					&x.price, &x.received, &x.fee, &x.refunded, &x.detectedAt, &x.paidAt, &x.asks)
				return x.ref, err
			})
		return err
	}},
	{"withdrawal", func(ctx context.Context, db *sqldb.DB, t *tables) (err error) {
		t.withdrawals, err = rows(ctx, db, `SELECT account_id, id, COALESCE(external_id, ''), COALESCE(idem_key, ''), status, currency, address, coins, COALESCE(provider_id, ''), COALESCE(tx_hash, ''), amount, fee FROM withdrawal`,
			func(r sqldb.Row, x *withdrawalRow) (ref, error) {
				err := r.Scan(&x.account, &x.id, &x.external, &x.key, &x.status, &x.currency, &x.address, &x.coins, &x.provider, &x.hash, &x.amount, &x.fee)
				return x.ref, err
			})
		return err
	}},
	{"event", func(ctx context.Context, db *sqldb.DB, t *tables) (err error) {
		t.events, err = rows(ctx, db, `SELECT account_id, id, type, ref FROM event`,
			func(r sqldb.Row, x *eventRow) (ref, error) {
				err := r.Scan(&x.account, &x.id, &x.kind, &x.about)
				return x.ref, err
			})
		return err
	}},
	{"unmatched", func(ctx context.Context, db *sqldb.DB, t *tables) (err error) {
		t.unmatched, err = rows(ctx, db, `SELECT end_to_end_id, amount FROM unmatched`,
			func(r sqldb.Row, x *int64) (string, error) {
				var name string
				err := r.Scan(&name, x)
				return name, err
			})
		return err
	}},
	{"endpoint", func(ctx context.Context, db *sqldb.DB, t *tables) (err error) {
		t.endpoints, err = rows(ctx, db, `SELECT id, account_id, url, status FROM endpoint`,
			func(r sqldb.Row, x *endpointRow) (name id.ID, err error) {
				err = r.Scan(&name, &x.account, &x.url, &x.status)
				return name, err
			})
		return err
	}},
}

func scanBook(r sqldb.Row, units *int64) (b book, err error) {
	err = r.Scan(&b.account, &b.currency, &b.name, units)
	return b, err
}

// rows reads a whole table: a life has few rows.
func rows[K comparable, V any](ctx context.Context, db *sqldb.DB, sql string, scan func(sqldb.Row, *V) (K, error)) (map[K]V, error) {
	out := map[K]V{}
	_, err := sqldb.All(ctx, db, func(r sqldb.Row) (struct{}, error) {
		var v V
		k, err := scan(r, &v)
		out[k] = v
		return struct{}{}, err
	}, sql)
	return out, err
}

// read reads the tables that were written to, and returns which.
func (a *Auditor) read(ctx context.Context) (changed map[string]bool, err error) {
	for _, t := range watched {
		if a.dirty[t.name] {
			if err := t.read(ctx, a.db, &a.state); err != nil {
				return nil, fmt.Errorf("auditor: read %s: %w", t.name, err)
			}
		}
	}
	changed, a.dirty = a.dirty, map[string]bool{}
	return changed, nil
}

// deliveries are read at the end only.
func (a *Auditor) deliveries(ctx context.Context) ([]deliveryRow, error) {
	return sqldb.All(ctx, a.db, func(r sqldb.Row) (d deliveryRow, err error) {
		err = r.Scan(&d.account, &d.id, &d.endpoint, &d.state, &d.attempt)
		return d, err
	}, `SELECT account_id, event_id, endpoint_id, state, attempt FROM delivery`)
}
