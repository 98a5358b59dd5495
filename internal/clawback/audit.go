package clawback

import (
	"context"
	"fmt"

	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

const (
	auditPage   = 1000 // payments read at once
	problemsMax = 1000 // the list's bound; books with more are broken all over
)

// Audit checks that each payment was debited what is owed of it, no more and no less. It goes account by account, each at
// one moment of its own.
func Audit(ctx context.Context, db *sqldb.DB) ([]ledger.Problem, error) {
	return ledger.AuditAll(ctx, db, nil, Part())
}

// Part returns [Audit] of one account.
func Part() ledger.Part {
	return ledger.Part{Next: ledger.NextBy(findAccount), Account: func(ctx context.Context, db *sqldb.DB, account id.Account) ([]ledger.Problem, error) {
		_, problems, err := add(ctx, db, account)
		return problems, err
	}}
}

// Sums are those of all payments of an account.
type Sums struct{ Claimed, Accepted, Debited money.BRL }

// Add adds up what is known of an account's payments.
func Add(ctx context.Context, q sqldb.Querier, account id.Account) (Sums, error) {
	sums, _, err := add(ctx, q, account)
	return sums, err
}

// add adds up an account's payments and returns what is wrong with them.
func add(ctx context.Context, q sqldb.Querier, account id.Account) (sums Sums, problems []ledger.Problem, err error) {
	for after := ""; ; {
		page, err := sqldb.All(ctx, q, scanPayment, listPayments, int64(account), after, auditPage)
		if err != nil {
			return sums, problems, err
		}
		for i := range page {
			p := &page[i]
			after = p.EndToEndID
			sums.Debited += p.Debited
			sums.Claimed += p.Claimed
			sums.Accepted += p.Accepted
			// While infractions are not decided, more may have been debited before they were heard of.
			if owed := p.owed(); (p.Debited < owed || (p.Claimed == 0 && p.Debited > owed)) && len(problems) < problemsMax {
				problems = append(problems, ledger.Problem{
					Account: account, What: fmt.Sprintf("payment %s: %s went back, %s is debited", p.EndToEndID, owed, p.Debited),
				})
			}
		}
		if len(page) < auditPage {
			return sums, problems, nil
		}
	}
}
