package charge

import (
	"context"
	"errors"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// hint is a notification: somebody says that a payment was made.
type hint struct {
	acquirer   string
	endToEndID string
	txid       string // "" when it names none
}

// From returns the acquirer that says so.
func (h hint) From() string { return h.acquirer }

// What returns what may be logged.
func (h hint) What() string { return h.endToEndID }

// Verdict is what became of a notification once its acquirer was asked about the payment.
type Verdict string

const (
	Settled     Verdict = "settled"      // it paid its charge
	Duplicate   Verdict = "duplicate"    // it was credited before
	WrongAmount Verdict = "wrong_amount" // it was credited, and is not what the charge asked for
	Foreign     Verdict = "foreign"      // it is not for this acquirer, this key, the charge it names or any of ours
	Unknown     Verdict = "unknown"      // its acquirer knows of no such payment: forged
)

// Hint notes a notification and reports whether there was room. What is lost is found by [Service.Reconcile].
func (s *Service) Hint(acquirer, endToEndID, txid string) bool {
	return s.hints.Add(hint{acquirer, endToEndID, txid})
}

// FollowHints looks up the notifications that are due.
func (s *Service) FollowHints(ctx context.Context) (did bool, err error) {
	return s.hints.Follow(ctx, func(ctx context.Context, h hint) error {
		verdict, err := s.judge(ctx, h)
		if err == nil {
			s.Heard(h.acquirer, verdict)
		}
		return err
	})
}

// judge asks the acquirer about what it is said to have.
func (s *Service) judge(ctx context.Context, h hint) (Verdict, error) {
	c, err := s.heardOf(ctx, h)
	switch {
	case err == nil && c.Acquirer == h.acquirer:
		return s.look(ctx, &c, h.endToEndID)
	case err == nil:
		return Foreign, nil // not for this acquirer to say
	case !errors.Is(err, sqldb.ErrNoRows):
		return "", err
	}
	at, ok := s.Router.Get(h.acquirer)
	if !ok {
		return Foreign, nil
	}
	asking, cancel := context.WithTimeout(ctx, acquirer.TryTimeMax)
	defer cancel()
	p, err := at.GetPayment(asking, h.endToEndID)
	if errors.Is(err, acquirer.ErrNotFound) {
		return Unknown, nil
	}
	if err != nil {
		return "", err
	}
	return s.match(ctx, h.acquirer, &p)
}

// heardOf returns the charge that a hint names, as it is or as this node made it: nothing moves that is not as it was read.
func (s *Service) heardOf(ctx context.Context, h hint) (Charge, error) {
	if x, owner, err := id.ParseToken(h.txid); err == nil {
		if c, ok := s.recent.Take(id.Token(x, owner)); ok && c.Acquirer == h.acquirer {
			return c, nil
		}
	}
	return s.byTxID(ctx, h.txid)
}

// byTxID returns the charge that an acquirer knows by a txid, or [sqldb.ErrNoRows]. The case does not matter.
func (s *Service) byTxID(ctx context.Context, txid string) (Charge, error) {
	x, owner, err := id.ParseToken(txid)
	if err != nil {
		return Charge{}, sqldb.ErrNoRows
	}
	return sqldb.One(ctx, s.DB, scanCharge, selectChargeByTxID, int64(owner), id.Token(x, owner))
}
