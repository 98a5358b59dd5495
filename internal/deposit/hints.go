package deposit

import (
	"context"
	"errors"
	"slices"

	"github.com/shopspring/decimal"

	"github.com/ponte-pay/ponte/internal/chain"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// hint is a notification: somebody says that a payment has moved. All but its names matters only for a repeated deposit
// that its provider lists with its parent and does not show by its own name.
type hint struct {
	provider  string
	paymentID string
	parent    string // "" for none
	status    chain.PaymentStatus
	currency  string
	paid      string // a decimal
	settled   money.USDT
}

// From returns the provider that says so.
func (h hint) From() string { return h.provider }

// What returns what may be logged.
func (h hint) What() string { return h.paymentID }

// Verdict is what became of a notification once its provider was asked.
type Verdict string

const (
	Followed Verdict = "followed" // the deposit is where the provider says
	Foreign  Verdict = "foreign"  // it is about no deposit of ours: listed, if it brought money
	Unknown  Verdict = "unknown"  // the provider knows of no such payment: forged
)

// Hint notes a notification and reports whether there was room. What is lost is found by [Service.CheckDue] and
// [Service.Reconcile].
func (s *Service) Hint(provider string, p *chain.Payment) bool {
	h := hint{provider: provider, paymentID: p.ID, parent: p.Parent}
	if p.Parent != "" {
		h.status, h.currency, h.paid, h.settled = p.Status, p.PayCurrency, p.Paid.String(), p.Settled
	}
	return s.hints.Add(h)
}

// FollowHints looks up the notifications that are due.
func (s *Service) FollowHints(ctx context.Context) (did bool, err error) {
	return s.hints.Follow(ctx, func(ctx context.Context, h hint) error {
		verdict, err := s.judge(ctx, h)
		if err == nil {
			s.Heard(h.provider, verdict)
		}
		return err
	})
}

// judge asks the provider about what it is said to have.
func (s *Service) judge(ctx context.Context, h hint) (Verdict, error) {
	if h.provider != s.Provider.Name() {
		return Foreign, nil
	}
	seen, err := s.get(ctx, h.paymentID)
	if errors.Is(err, chain.ErrNotFound) {
		return s.judgeChild(ctx, h)
	}
	if err != nil {
		return "", err
	}
	return s.match(ctx, &seen)
}

// judgeChild believes a notification of a repeated deposit that cannot be asked for, if the payment that it says it came
// to lists it.
func (s *Service) judgeChild(ctx context.Context, h hint) (Verdict, error) {
	if h.parent == "" {
		return Unknown, nil
	}
	parent, err := s.get(ctx, h.parent)
	switch {
	case errors.Is(err, chain.ErrNotFound):
		return Unknown, nil
	case err != nil:
		return "", err
	case !slices.Contains(parent.Children, h.paymentID):
		return Unknown, nil
	}
	paid, err := decimal.NewFromString(h.paid)
	if err != nil {
		return Unknown, nil //nolint:nilerr // it was no number
	}
	return s.match(ctx, &chain.Payment{
		ID: h.paymentID, Parent: h.parent, Reference: parent.Reference, Status: h.status, PayCurrency: h.currency, Paid: paid, Settled: h.settled,
	})
}

// byReference returns the deposit that its provider knows by a reference, or [sqldb.ErrNoRows]. The case does not matter.
func (s *Service) byReference(ctx context.Context, reference string) (Deposit, error) {
	x, owner, err := id.ParseToken(reference)
	if err != nil {
		return Deposit{}, sqldb.ErrNoRows
	}
	return get(ctx, s.DB, owner, x)
}
