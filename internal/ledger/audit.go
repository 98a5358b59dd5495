package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// Problem is something that does not add up.
type Problem struct {
	Account id.Account
	What    string
}

// AuditResult is what an audit looked at and found.
type AuditResult struct {
	Accounts  int64
	Transfers int64
	Problems  []Problem
}

const auditTimeMax = 6 * time.Hour

// problemsMax bounds the list; a ledger with more is broken all over.
const problemsMax = 1000

// Blocker says what of an account's BRL something else than an operator's hold keeps blocked.
type Blocker func(ctx context.Context, q sqldb.Querier, account id.Account) (money.BRL, error)

// Part is what one use case has audited of every account.
type Part struct {
	// Next returns the lowest account above one of which there is something to audit, or 0.
	Next func(ctx context.Context, q sqldb.Querier, after id.Account) (id.Account, error)
	// Account audits one account at one moment of its own.
	Account func(ctx context.Context, db *sqldb.DB, account id.Account) ([]Problem, error)
}

// NextBy returns a [Part.Next] that leaps along an index: find returns the lowest account above $1.
func NextBy(find string) func(ctx context.Context, q sqldb.Querier, after id.Account) (id.Account, error) {
	return func(ctx context.Context, q sqldb.Querier, after id.Account) (id.Account, error) {
		n, err := sqldb.One(ctx, q, sqldb.Scalar[int64], find, int64(after))
		if errors.Is(err, sqldb.ErrNoRows) {
			return 0, nil
		}
		return id.Account(n), err
	}
}

// AuditAll audits every account by the parts, one account after the other, because one long snapshot would slow every debit
// down. The server may run meanwhile. done is told of each account that is; nil is nobody. It ends early when there are a
// thousand problems: then all is broken.
func AuditAll(ctx context.Context, db *sqldb.DB, done func(id.Account), parts ...Part) (problems []Problem, err error) {
	// Longer than any other read: one account can have many millions of transfers.
	ctx, cancel := context.WithTimeout(ctx, auditTimeMax)
	defer cancel()
	var account id.Account
	for len(problems) < problemsMax {
		if account, err = nextOf(ctx, db, account, parts); err != nil || account == 0 {
			return problems, err
		}
		for _, p := range parts {
			found, err := p.Account(ctx, db, account)
			if err != nil {
				return problems, err
			}
			problems = append(problems, found...)
		}
		if done != nil {
			done(account)
		}
	}
	return problems, nil
}

// nextOf returns the lowest account above after of which any part has something to audit, or 0.
func nextOf(ctx context.Context, q sqldb.Querier, after id.Account, parts []Part) (lowest id.Account, err error) {
	for _, p := range parts {
		next, err := p.Next(ctx, q, after)
		if err != nil {
			return 0, err
		}
		if next != 0 && (lowest == 0 || next < lowest) {
			lowest = next
		}
	}
	return lowest, nil
}

// Audit re-adds every account from its transfers alone and compares it with its balances, and what is blocked with what
// holds and the blockers keep so. It goes account by account, each at one moment of its own, because one long snapshot
// would slow every debit down. The server may run meanwhile.
func Audit(ctx context.Context, db *sqldb.DB, blockers ...Blocker) (AuditResult, error) {
	var result AuditResult
	problems, err := AuditAll(ctx, db, nil, result.Part(blockers...))
	result.Problems = problems
	return result, err
}

// Part returns the audit of the ledger itself, which counts what it looked at in r.
func (r *AuditResult) Part(blockers ...Blocker) Part {
	return Part{Next: nextAccount, Account: func(ctx context.Context, db *sqldb.DB, account id.Account) ([]Problem, error) {
		one := AuditResult{}
		err := db.Read(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return one.account(ctx, tx, account, blockers) })
		r.Accounts += one.Accounts
		r.Transfers += one.Transfers
		return one.Problems, err
	}}
}

// nextAccount returns the lowest account above after that has balances or transfers, or zero.
func nextAccount(ctx context.Context, q sqldb.Querier, after id.Account) (id.Account, error) {
	return nextOf(ctx, q, after, []Part{{Next: NextBy(findAccountWithBalance)}, {Next: NextBy(findAccountWithTransfers)}})
}

func (r *AuditResult) account(ctx context.Context, tx *sqldb.Tx, account id.Account, blockers []Blocker) error {
	r.Accounts++
	problem := func(format string, args ...any) {
		r.Problems = append(r.Problems, Problem{account, fmt.Sprintf(format, args...)})
	}
	totals, err := totalsBefore(ctx, tx, account, id.Max)
	if err != nil {
		return err
	}
	added := map[money.Currency]*Balance{}
	for _, c := range money.Currencies {
		added[c] = new(Balance)
	}
	for _, t := range totals {
		r.Transfers += t.count
		if added[t.currency] == nil || !t.source.isKnown() || !t.target.isKnown() {
			problem("%d transfers of %s from %q to %q: no such currency or book", t.count, t.currency, t.source, t.target)
			continue
		}
		added[t.currency].move(t.source, t.target, t.units)
	}
	for _, c := range money.Currencies {
		shown, err := Balances(ctx, tx, account, c)
		if errors.Is(err, sqldb.ErrNoRows) {
			problem("it has no %s books", c)
			continue
		}
		if err != nil {
			return err
		}
		for _, b := range guarded {
			want, got := money.Amount{Currency: c, Units: *added[c].Of(b)}, money.Amount{Currency: c, Units: *shown.Of(b)}
			if want != got {
				problem("%s %s shows %s, its transfers add up to %s", c, b, got, want)
			}
			if got.Units < 0 && b != Available {
				problem("%s %s is below zero: %s", c, b, got)
			}
		}
	}
	stray, err := sqldb.One(ctx, tx, sqldb.Scalar[int64], countStrayDeltas, int64(account))
	if err != nil {
		return err
	}
	if stray > 0 {
		problem("%d deltas belong to no transfer", stray)
	}
	return r.blocked(ctx, tx, account, added[money.CurrencyBRL].Blocked, blockers)
}

// blocked checks that what is blocked is what holds and the blockers block, and that each release belongs to one hold.
func (r *AuditResult) blocked(ctx context.Context, tx *sqldb.Tx, account id.Account, blocked int64, blockers []Blocker) error {
	open, err := Holds(ctx, tx, account)
	if err != nil {
		return err
	}
	var sum int64
	for _, h := range open {
		sum += h.Amount.Units
	}
	var others money.BRL
	for _, b := range blockers {
		amount, err := b(ctx, tx, account)
		if err != nil {
			return err
		}
		others += amount
	}
	if sum+int64(others) != blocked {
		r.Problems = append(r.Problems, Problem{account, fmt.Sprintf("blocked is %s, open holds add up to %s and infractions to %s",
			money.BRL(blocked), money.BRL(sum), others)})
	}
	return nil
}
