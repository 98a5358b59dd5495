package payout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ponte-pay/ponte/internal/event"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

const (
	auditPage   = 1000          // payouts read at once
	problemsMax = 1000          // the list's bound; payouts with more are broken all over
	auditTime   = 6 * time.Hour // one account can have many millions

	// Over all accounts, by leaps along the index.
	findAccountWithPayouts = `SELECT account_id FROM payout WHERE account_id > $1 ORDER BY account_id LIMIT 1`

	selectPosted = `SELECT ref, id, kind, amount FROM transfer WHERE account_id = $1 AND id > $2
AND kind IN ('cash_out', 'cash_out_sent', 'cash_out_fee', 'cash_out_failed', 'cash_out_return') ORDER BY id LIMIT $3`

	countEvents = `SELECT COUNT(*) FROM event WHERE account_id = $1 AND type = $2`
)

// Audit holds every account's payouts against its transfers and its events: what is held is the money of payouts that are
// processing, each payout was posted as its state says and no otherwise, and each transition wrote its event. It goes
// account by account, each at one moment of its own.
func Audit(ctx context.Context, db *sqldb.DB) (problems []ledger.Problem, err error) {
	ctx, cancel := context.WithTimeout(ctx, auditTime)
	defer cancel()
	var account int64
	for len(problems) < problemsMax {
		account, err = sqldb.One(ctx, db, sqldb.Scalar[int64], findAccountWithPayouts, account)
		if errors.Is(err, sqldb.ErrNoRows) {
			return problems, nil
		}
		if err != nil {
			return problems, err
		}
		a := audit{account: id.Account(account), posted: map[id.ID]sums{}}
		if err = db.Read(ctx, a.run); err != nil {
			return problems, err
		}
		problems = append(problems, a.problems...)
	}
	return problems, nil
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
	posted   map[id.ID]sums // until their payouts are read
	held     money.BRL      // by payouts that are processing
	counts   map[State]int64
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
	a.counts = map[State]int64{}
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
	a.counts[p.Status]++
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

// events counts the events of the transitions that were made.
func (a *audit) events(ctx context.Context, tx *sqldb.Tx) error {
	done := a.counts[Completed] + a.counts[Reversed]
	for _, e := range []struct {
		kind event.Type
		want int64
	}{
		{event.PayoutCreated, a.counts[Processing] + a.counts[Failed] + done},
		{event.PayoutCompleted, done},
		{event.PayoutFailed, a.counts[Failed]},
	} {
		got, err := sqldb.One(ctx, tx, sqldb.Scalar[int64], countEvents, int64(a.account), string(e.kind))
		if err != nil {
			return err
		}
		if got != e.want {
			a.problem("%d events %s, want %d", got, e.kind, e.want)
		}
	}
	return nil
}
