package infraction

import (
	"context"
	"fmt"
	"time"

	"github.com/ponte-pay/ponte/internal/clawback"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

const (
	auditPage   = 1000 // infractions read at once
	problemsMax = 1000 // the list's bound; infractions with more are broken all over

	// Over all accounts, by leaps along the index.
	findAccount = `SELECT account_id FROM infraction WHERE account_id > $1 ORDER BY account_id LIMIT 1`

	selectPosted = `SELECT ref, id, kind, source, amount FROM transfer WHERE account_id = $1 AND id > $2
AND kind IN ('med_block', 'med_unblock', 'med_debit') ORDER BY id LIMIT $3`

	sumAccepted = `SELECT COALESCE(CAST(SUM(amount) AS BIGINT), 0) FROM infraction WHERE account_id = $1 AND status = 'accepted'`

	sumBlocked = `SELECT COALESCE(CAST(SUM(amount) AS BIGINT), 0) FROM infraction
WHERE account_id = $1 AND status IN ('open', 'under_review')`
)

// Blocked returns what infractions keep blocked of an account's money. It is a [ledger.Blocker].
func Blocked(ctx context.Context, q sqldb.Querier, account id.Account) (money.BRL, error) {
	sum, err := sqldb.One(ctx, q, sqldb.Scalar[int64], sumBlocked, int64(account))
	return money.BRL(sum), err
}

// Audit holds every account's infractions against its transfers and against what is known of its payments: each blocked
// what it claims, and was posted as its state says and no otherwise. It goes account by account, each at one moment of its
// own.
func Audit(ctx context.Context, db *sqldb.DB) ([]ledger.Problem, error) {
	return ledger.AuditAll(ctx, db, nil, Part())
}

// Part returns [Audit] of one account.
func Part() ledger.Part {
	return ledger.Part{Next: ledger.NextBy(findAccount), Account: func(ctx context.Context, db *sqldb.DB, account id.Account) ([]ledger.Problem, error) {
		a := audit{account: account, posted: map[id.ID]sums{}}
		err := db.Read(ctx, a.run)
		return a.problems, err
	}}
}

// sums are what was posted for an infraction.
type sums struct{ blocked, fromPending, unblocked, debited money.BRL }

// audit is one account under audit.
type audit struct {
	account  id.Account
	posted   map[id.ID]sums // until their infractions are read
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
		page, err := sqldb.All(ctx, tx, scanInfraction, listInfractions, int64(a.account), border, "", auditPage)
		if err != nil {
			return err
		}
		for i := range page {
			a.infraction(&page[i])
			border = page[i].ID
		}
		if len(page) < auditPage {
			break
		}
	}
	for x := range a.posted {
		a.problem("%s was posted and does not exist", prefix.Format(x))
	}
	return a.claims(ctx, tx)
}

// claims holds what infractions claim against what is known to be claimed of payments.
func (a *audit) claims(ctx context.Context, tx *sqldb.Tx) error {
	sums, err := clawback.Add(ctx, tx, a.account)
	if err != nil {
		return err
	}
	claimed, err := Blocked(ctx, tx, a.account)
	if err != nil {
		return err
	}
	accepted, err := sqldb.One(ctx, tx, sqldb.Scalar[int64], sumAccepted, int64(a.account))
	if err == nil && (claimed != sums.Claimed || money.BRL(accepted) != sums.Accepted) {
		a.problem("infractions claim %s and were accepted for %s, payments say %s and %s", claimed, money.BRL(accepted), sums.Claimed, sums.Accepted)
	}
	return err
}

// readPosted adds up what was posted for each infraction.
func (a *audit) readPosted(ctx context.Context, tx *sqldb.Tx) error {
	type row struct {
		infraction, transfer id.ID
		kind, source         string
		amount               int64
	}
	after := id.First(time.UnixMicro(0))
	for {
		rows, err := sqldb.All(ctx, tx, func(r sqldb.Row) (x row, err error) {
			err = r.Scan(&x.infraction, &x.transfer, &x.kind, &x.source, &x.amount)
			return x, err
		}, selectPosted, int64(a.account), after, auditPage)
		if err != nil {
			return err
		}
		for _, x := range rows {
			s := a.posted[x.infraction]
			amount := money.BRL(x.amount)
			switch x.kind {
			case string(kindBlock):
				s.blocked += amount
				if ledger.Book(x.source) == ledger.Pending {
					s.fromPending += amount
				}
			case string(kindUnblock):
				s.unblocked += amount
			case string(kindDebit):
				s.debited += amount
			}
			a.posted[x.infraction] = s
			after = x.transfer
		}
		if len(rows) < auditPage {
			return nil
		}
	}
}

// infraction holds one infraction against what was posted for it.
func (a *audit) infraction(f *Infraction) {
	want := sums{blocked: f.Amount, fromPending: f.FromPending}
	if f.Status.isDecided() {
		want.debited, want.unblocked = f.Debited, f.Amount-f.Debited
	}
	if got := a.posted[f.ID]; got != want {
		a.problem("%s is %s and was posted as %+v, want %+v", prefix.Format(f.ID), f.Status, got, want)
	}
	delete(a.posted, f.ID)
}
