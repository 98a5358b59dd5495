package withdrawal

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
	auditPage   = 1000          // withdrawals read at once
	problemsMax = 1000          // the list's bound; withdrawals with more are broken all over
	auditTime   = 6 * time.Hour // one account can have many millions

	// Over all accounts, by leaps along the index.
	findAccount = `SELECT account_id FROM withdrawal WHERE account_id > $1 ORDER BY account_id LIMIT 1`

	selectPosted = `SELECT ref, id, kind, amount FROM transfer WHERE account_id = $1 AND id > $2
AND kind IN ('crypto_out', 'crypto_out_sent', 'crypto_out_fee', 'crypto_out_failed') ORDER BY id LIMIT $3`

	countEvents = `SELECT COUNT(*) FROM event WHERE account_id = $1 AND type = $2`
)

// Audit holds every account's withdrawals against its transfers and its events: what is held in USDT is the money of
// withdrawals that are processing, each was posted as its state says and no otherwise, and each transition wrote its
// event. It goes account by account, each at one moment of its own.
func Audit(ctx context.Context, db *sqldb.DB) (problems []ledger.Problem, err error) {
	ctx, cancel := context.WithTimeout(ctx, auditTime)
	defer cancel()
	var account int64
	for len(problems) < problemsMax {
		account, err = sqldb.One(ctx, db, sqldb.Scalar[int64], findAccount, account)
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

// sums are what was posted for a withdrawal, by kind.
type sums struct{ held, sent, fee, back money.USDT }

// of returns the sum of one kind; every other kind is not read.
func (s *sums) of(kind ledger.Kind) *money.USDT {
	return map[ledger.Kind]*money.USDT{KindHold: &s.held, kindSent: &s.sent, kindFee: &s.fee, kindBack: &s.back}[kind] //nolint:exhaustive // those of withdrawals
}

// audit is one account under audit.
type audit struct {
	account  id.Account
	posted   map[id.ID]sums // until their withdrawals are read
	held     money.USDT     // by withdrawals that are processing
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
	a.counts[w.Status]++
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

// events counts the events of the transitions that were made.
func (a *audit) events(ctx context.Context, tx *sqldb.Tx) error {
	for _, e := range []struct {
		kind event.Type
		want int64
	}{
		{event.CryptoPayoutProcessing, a.counts[Processing] + a.counts[Failed] + a.counts[Completed]},
		{event.CryptoPayoutCompleted, a.counts[Completed]},
		{event.CryptoPayoutFailed, a.counts[Failed]},
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
