package payout

import (
	"context"
	"fmt"
	"time"

	"github.com/ponte-pay/ponte/internal/event"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

const (
	auditPage   = 1000 // payouts read at once
	problemsMax = 1000 // the list's bound; payouts with more are broken all over

	// Over all accounts, by leaps along the index.
	findAccountWithPayouts = `SELECT account_id FROM payout WHERE account_id > $1 ORDER BY account_id LIMIT 1`

	selectPosted = `SELECT ref, id, kind, amount FROM transfer WHERE account_id = $1 AND id > $2
AND kind IN ('cash_out', 'cash_out_sent', 'cash_out_fee', 'cash_out_failed', 'cash_out_return') ORDER BY id LIMIT $3`

	// Of payouts and events after a border: what is older may be gone.
	listUncreated = `SELECT p.id FROM payout p WHERE p.account_id = $1 AND p.id > $2 AND NOT EXISTS
(SELECT 1 FROM event e WHERE e.account_id = p.account_id AND e.ref = p.id AND e.type = 'payout.created') LIMIT $3`
	listUncompleted = `SELECT p.id FROM payout p WHERE p.account_id = $1 AND p.id > $2 AND p.status IN ('completed', 'reversed') AND NOT EXISTS
(SELECT 1 FROM event e WHERE e.account_id = p.account_id AND e.ref = p.id AND e.type = 'payout.completed') LIMIT $3`
	listUnfailed = `SELECT p.id FROM payout p WHERE p.account_id = $1 AND p.id > $2 AND p.status = 'failed' AND NOT EXISTS
(SELECT 1 FROM event e WHERE e.account_id = p.account_id AND e.ref = p.id AND e.type = 'payout.failed') LIMIT $3`
	listUnexplained = `SELECT e.id FROM event e WHERE e.account_id = $1 AND e.id > $2
AND e.type IN ('payout.created', 'payout.completed', 'payout.failed') AND NOT EXISTS
(SELECT 1 FROM payout p WHERE p.account_id = e.account_id AND p.id = e.ref AND (e.type = 'payout.created'
OR (e.type = 'payout.completed' AND p.status IN ('completed', 'reversed')) OR (e.type = 'payout.failed' AND p.status = 'failed'))) LIMIT $3`
)

// Audit holds every account's payouts against its transfers and its events: what is held is the money of payouts that are
// processing, each payout was posted as its state says and no otherwise, and each transition after border wrote its event,
// of which no two can be: the database sees to that. It goes account by account, each at one moment of its own.
func Audit(ctx context.Context, db *sqldb.DB, border id.ID) ([]ledger.Problem, error) {
	return ledger.AuditAll(ctx, db, nil, Part(border))
}

// Part returns [Audit] of one account.
func Part(border id.ID) ledger.Part {
	return ledger.Part{Next: ledger.NextBy(findAccountWithPayouts), Account: func(ctx context.Context, db *sqldb.DB, account id.Account) ([]ledger.Problem, error) {
		a := audit{account: account, border: border, posted: map[id.ID]sums{}}
		err := db.Read(ctx, a.run)
		return a.problems, err
	}}
}

// sums are what was posted for a payout, by kind.
type sums struct{ held, sent, fee, back, returned money.BRL }

// of returns the sum of one kind; every other kind is not read.
func (s *sums) of(kind ledger.Kind) *money.BRL {
	return map[ledger.Kind]*money.BRL{KindHold: &s.held, kindSent: &s.sent, kindFee: &s.fee, kindBack: &s.back, kindReturn: &s.returned}[kind] //nolint:exhaustive // those of payouts
}

// audit is one account under audit.
type audit struct {
	account  id.Account
	border   id.ID          // of the events that are kept
	posted   map[id.ID]sums // until their payouts are read
	held     money.BRL      // by payouts that are processing
	problems []ledger.Problem
}

func (a *audit) problem(format string, args ...any) {
	if len(a.problems) < problemsMax {
		a.problems = append(a.problems, ledger.Problem{Account: a.account, What: fmt.Sprintf(format, args...)})
	}
}

func (a *audit) run(ctx context.Context, tx *sqldb.Tx) error {
	if err := a.readPosted(ctx, tx); err != nil {
		return err
	}
	for border := id.Max; ; {
		page, err := Before(ctx, tx, a.account, border, auditPage)
		if err != nil {
			return err
		}
		for i := range page {
			a.payout(&page[i])
			border = page[i].ID
		}
		if len(page) < auditPage {
			break
		}
	}
	for x := range a.posted {
		a.problem("%s was posted and does not exist", prefix.Format(x))
	}
	balance, err := ledger.Balances(ctx, tx, a.account, money.CurrencyBRL)
	if err != nil {
		return err
	}
	if shown := money.BRL(balance.InTransit); shown != a.held {
		a.problem("in_transit is %s, payouts that are processing hold %s", shown, a.held)
	}
	return a.events(ctx, tx)
}

// readPosted adds up what was posted for each payout.
func (a *audit) readPosted(ctx context.Context, tx *sqldb.Tx) error {
	type row struct {
		payout, transfer id.ID
		kind             string
		amount           int64
	}
	after := id.First(time.UnixMicro(0))
	for {
		rows, err := sqldb.All(ctx, tx, func(r sqldb.Row) (x row, err error) {
			err = r.Scan(&x.payout, &x.transfer, &x.kind, &x.amount)
			return x, err
		}, selectPosted, int64(a.account), after, auditPage)
		if err != nil {
			return err
		}
		for _, x := range rows {
			s := a.posted[x.payout]
			*s.of(ledger.Kind(x.kind)) += money.BRL(x.amount)
			a.posted[x.payout] = s
			after = x.transfer
		}
		if len(rows) < auditPage {
			return nil
		}
	}
}

// payout holds one payout against what was posted for it.
func (a *audit) payout(p *Payout) {
	want := sums{held: p.Gross(), returned: p.Returned}
	switch p.Status {
	case Processing:
		a.held += p.Gross()
	case Completed, Reversed:
		want.sent, want.fee = p.Amount, p.Fee
	case Failed:
		want.back = p.Gross()
	}
	if got := a.posted[p.ID]; got != want {
		a.problem("%s is %s and was posted as %+v, want %+v", prefix.Format(p.ID), p.Status, got, want)
	}
	delete(a.posted, p.ID)
	if whole := p.Returned == p.Amount; whole != (p.Status == Reversed) || p.Returned > p.Amount {
		a.problem("%s is %s and %s of %s came back", prefix.Format(p.ID), p.Status, p.Returned, p.Amount)
	}
}

// events looks for transitions without an event, and for events without a transition.
func (a *audit) events(ctx context.Context, tx *sqldb.Tx) error {
	for _, look := range []struct {
		sql    string
		prefix id.Prefix
		what   string
	}{
		{listUncreated, prefix, "has no event payout.created"},
		{listUncompleted, prefix, "is completed and has no event payout.completed"},
		{listUnfailed, prefix, "failed and has no event payout.failed"},
		{listUnexplained, event.Prefix, "belongs to no payout that it could have happened to"},
	} {
		found, err := sqldb.All(ctx, tx, sqldb.Scalar[id.ID], look.sql, int64(a.account), a.border, auditPage)
		if err != nil {
			return err
		}
		for _, x := range found {
			a.problem("%s %s", look.prefix.Format(x), look.what)
		}
	}
	return nil
}
