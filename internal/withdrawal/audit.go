package withdrawal

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
	auditPage   = 1000 // withdrawals read at once
	problemsMax = 1000 // the list's bound; withdrawals with more are broken all over

	// Over all accounts, by leaps along the index.
	findAccount = `SELECT account_id FROM withdrawal WHERE account_id > $1 ORDER BY account_id LIMIT 1`

	selectPosted = `SELECT ref, id, kind, amount FROM transfer WHERE account_id = $1 AND id > $2
AND kind IN ('crypto_out', 'crypto_out_sent', 'crypto_out_fee', 'crypto_out_failed') ORDER BY id LIMIT $3`

	// Of withdrawals and events after a border: what is older may be gone.
	listUnaccepted = `SELECT w.id FROM withdrawal w WHERE w.account_id = $1 AND w.id > $2 AND NOT EXISTS
(SELECT 1 FROM event e WHERE e.account_id = w.account_id AND e.ref = w.id AND e.type = 'crypto.payout.processing') LIMIT $3`
	listUncompleted = `SELECT w.id FROM withdrawal w WHERE w.account_id = $1 AND w.id > $2 AND w.status = 'completed' AND NOT EXISTS
(SELECT 1 FROM event e WHERE e.account_id = w.account_id AND e.ref = w.id AND e.type = 'crypto.payout.completed') LIMIT $3`
	listUnfailed = `SELECT w.id FROM withdrawal w WHERE w.account_id = $1 AND w.id > $2 AND w.status = 'failed' AND NOT EXISTS
(SELECT 1 FROM event e WHERE e.account_id = w.account_id AND e.ref = w.id AND e.type = 'crypto.payout.failed') LIMIT $3`
	listUnexplained = `SELECT e.id FROM event e WHERE e.account_id = $1 AND e.id > $2
AND e.type IN ('crypto.payout.processing', 'crypto.payout.completed', 'crypto.payout.failed') AND NOT EXISTS
(SELECT 1 FROM withdrawal w WHERE w.account_id = e.account_id AND w.id = e.ref AND (e.type = 'crypto.payout.processing'
OR (e.type = 'crypto.payout.completed' AND w.status = 'completed') OR (e.type = 'crypto.payout.failed' AND w.status = 'failed'))) LIMIT $3`
)

// Audit holds every account's withdrawals against its transfers and its events: what is held in USDT is the money of
// withdrawals that are processing, each was posted as its state says and no otherwise, and each transition after border
// wrote its event. It goes account by account, each at one moment of its own.
func Audit(ctx context.Context, db *sqldb.DB, border id.ID) ([]ledger.Problem, error) {
	return ledger.AuditAll(ctx, db, nil, Part(border))
}

// Part returns [Audit] of one account.
func Part(border id.ID) ledger.Part {
	return ledger.Part{Next: ledger.NextBy(findAccount), Account: func(ctx context.Context, db *sqldb.DB, account id.Account) ([]ledger.Problem, error) {
		a := audit{account: account, border: border, posted: map[id.ID]sums{}}
		err := db.Read(ctx, a.run)
		return a.problems, err
	}}
}

// sums are what was posted for a withdrawal, by kind.
type sums struct{ held, sent, fee, back money.USDT }

// of returns the sum of one kind; every other kind is not read.
func (s *sums) of(kind ledger.Kind) *money.USDT {
	return map[ledger.Kind]*money.USDT{KindHold: &s.held, kindSent: &s.sent, kindFee: &s.fee, kindBack: &s.back}[kind] //nolint:exhaustive // those of withdrawals
}

// audit is one account under audit.
type audit struct {
	account  id.Account
	border   id.ID          // of the events that are kept
	posted   map[id.ID]sums // until their withdrawals are read
	held     money.USDT     // by withdrawals that are processing
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
		page, err := before(ctx, tx, a.account, border, auditPage)
		if err != nil {
			return err
		}
		for i := range page {
			a.withdrawal(&page[i])
			border = page[i].ID
		}
		if len(page) < auditPage {
			break
		}
	}
	for x := range a.posted {
		a.problem("%s was posted and does not exist", prefix.Format(x))
	}
	balance, err := ledger.Balances(ctx, tx, a.account, money.CurrencyUSDT)
	if err != nil {
		return err
	}
	if shown := money.USDT(balance.InTransit); shown != a.held {
		a.problem("USDT in_transit is %s, withdrawals that are processing hold %s", shown, a.held)
	}
	return a.events(ctx, tx)
}

// readPosted adds up what was posted for each withdrawal.
func (a *audit) readPosted(ctx context.Context, tx *sqldb.Tx) error {
	type row struct {
		withdrawal, transfer id.ID
		kind                 string
		amount               int64
	}
	after := id.First(time.UnixMicro(0))
	for {
		rows, err := sqldb.All(ctx, tx, func(r sqldb.Row) (x row, err error) {
			err = r.Scan(&x.withdrawal, &x.transfer, &x.kind, &x.amount)
			return x, err
		}, selectPosted, int64(a.account), after, auditPage)
		if err != nil {
			return err
		}
		for _, x := range rows {
			s := a.posted[x.withdrawal]
			*s.of(ledger.Kind(x.kind)) += money.USDT(x.amount)
			a.posted[x.withdrawal] = s
			after = x.transfer
		}
		if len(rows) < auditPage {
			return nil
		}
	}
}

// withdrawal holds one withdrawal against what was posted for it.
func (a *audit) withdrawal(w *Withdrawal) {
	want := sums{held: w.Gross()}
	switch w.Status {
	case Processing:
		a.held += w.Gross()
	case Completed:
		want.sent, want.fee = w.Amount, w.Fee
	case Failed:
		want.back = w.Gross()
	}
	if got := a.posted[w.ID]; got != want {
		a.problem("%s is %s and was posted as %+v, want %+v", prefix.Format(w.ID), w.Status, got, want)
	}
	delete(a.posted, w.ID)
	if w.Status == Completed && w.ProviderID == "" {
		a.problem("%s is %s, and nobody has sent it", prefix.Format(w.ID), w.Status)
	}
}

// events looks for transitions without an event, and for events without a transition.
func (a *audit) events(ctx context.Context, tx *sqldb.Tx) error {
	for _, look := range []struct {
		sql    string
		prefix id.Prefix
		what   string
	}{
		{listUnaccepted, prefix, "has no event crypto.payout.processing"},
		{listUncompleted, prefix, "is completed and has no event crypto.payout.completed"},
		{listUnfailed, prefix, "failed and has no event crypto.payout.failed"},
		{listUnexplained, event.Prefix, "belongs to no withdrawal that it could have happened to"},
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
