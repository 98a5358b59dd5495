package deposit

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
	auditPage   = 1000 // deposits read at once
	problemsMax = 1000 // the list's bound; deposits with more are broken all over

	// Over all accounts, by leaps along the index.
	findAccountWithDeposits = `SELECT account_id FROM deposit WHERE account_id > $1 ORDER BY account_id LIMIT 1`

	selectPosted = `SELECT ref, id, kind, currency, amount FROM transfer WHERE account_id = $1 AND id > $2
AND kind IN ('crypto_in', 'crypto_in_fee', 'crypto_in_refund') ORDER BY id LIMIT $3`

	// Of deposits that are younger than an identifier: the events of older ones may be gone.
	countEvents = `SELECT COUNT(*) FROM event WHERE account_id = $1 AND type = $2 AND ref > $3`
)

// Audit holds every account's deposits against its transfers and its events: what was settled, charged and given back is
// what was posted in USDT, and each transition of deposits that are younger than border wrote its event. It goes account by
// account, each at one moment of its own.
func Audit(ctx context.Context, db *sqldb.DB, border id.ID) ([]ledger.Problem, error) {
	return ledger.AuditAll(ctx, db, nil, Part(border))
}

// Part returns [Audit] of one account.
func Part(border id.ID) ledger.Part {
	return ledger.Part{Next: ledger.NextBy(findAccountWithDeposits), Account: func(ctx context.Context, db *sqldb.DB, account id.Account) ([]ledger.Problem, error) {
		a := audit{account: account, border: border, posted: map[id.ID]sums{}, counts: map[event.Type]int64{}}
		err := db.Read(ctx, a.run)
		return a.problems, err
	}}
}

// sums are what was posted for a deposit, by kind.
type sums struct{ received, fee, refunded money.USDT }

// audit is one account under audit.
type audit struct {
	account  id.Account
	border   id.ID          // of the events that are kept
	posted   map[id.ID]sums // until their deposits are read
	counts   map[event.Type]int64
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
			a.deposit(&page[i])
			border = page[i].ID
		}
		if len(page) < auditPage {
			break
		}
	}
	for x := range a.posted {
		a.problem("%s was posted and does not exist", prefix.Format(x))
	}
	for _, kind := range []event.Type{
		event.CryptoChargeCreated, event.CryptoChargeConfirming, event.CryptoChargePaid, event.CryptoChargeFailed, event.CryptoChargeExpired,
	} {
		got, err := sqldb.One(ctx, tx, sqldb.Scalar[int64], countEvents, int64(a.account), string(kind), a.border)
		if err != nil {
			return err
		}
		if want := a.counts[kind]; got != want {
			a.problem("%d events %s, want %d", got, kind, want)
		}
	}
	return nil
}

// readPosted adds up what was posted for each deposit.
func (a *audit) readPosted(ctx context.Context, tx *sqldb.Tx) error {
	type row struct {
		deposit, transfer id.ID
		kind, currency    string
		amount            int64
	}
	after := id.First(time.UnixMicro(0))
	for {
		rows, err := sqldb.All(ctx, tx, func(r sqldb.Row) (x row, err error) {
			err = r.Scan(&x.deposit, &x.transfer, &x.kind, &x.currency, &x.amount)
			return x, err
		}, selectPosted, int64(a.account), after, auditPage)
		if err != nil {
			return err
		}
		for _, x := range rows {
			after = x.transfer
			if x.currency != string(money.CurrencyUSDT) {
				a.problem("%s was posted in %s", prefix.Format(x.deposit), x.currency)
			}
			s := a.posted[x.deposit]
			switch x.kind {
			case string(KindIn):
				s.received += money.USDT(x.amount)
			case string(kindFee):
				s.fee += money.USDT(x.amount)
			case string(kindRefund):
				s.refunded += money.USDT(x.amount)
			}
			a.posted[x.deposit] = s
		}
		if len(rows) < auditPage {
			return nil
		}
	}
}

// deposit holds one deposit against what was posted for it, and counts the events that it must have written.
func (a *audit) deposit(d *Deposit) {
	if got, want := a.posted[d.ID], (sums{d.Received, d.Fee, d.Refunded}); got != want {
		a.problem("%s is %s and was posted as %+v, want %+v", prefix.Format(d.ID), d.Status, got, want)
	}
	delete(a.posted, d.ID)
	ended := d.Status == Failed || d.Status == Expired // may have money that came late
	if d.Received > 0 && d.Status != Paid && !ended {
		a.problem("%s is %s and has received %s", prefix.Format(d.ID), d.Status, d.Received)
	}
	if d.Status == Paid && (d.Received == 0 || d.PaidAt.IsZero()) {
		a.problem("%s is paid without a confirmed amount", prefix.Format(d.ID))
	}
	if d.ID.Compare(a.border) <= 0 {
		return
	}
	if d.PaymentID != "" && d.Asks > 0 {
		a.counts[event.CryptoChargeCreated]++
	}
	if !d.DetectedAt.IsZero() {
		a.counts[event.CryptoChargeConfirming]++
	}
	switch d.Status {
	case Paid:
		a.counts[event.CryptoChargePaid]++
	case Failed:
		a.counts[event.CryptoChargeFailed]++
	case Expired:
		a.counts[event.CryptoChargeExpired]++
	case Processing, Waiting, Confirming, Refunded:
	}
}
