package charge

import (
	"context"
	"errors"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/clawback"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// ref names a payment of the charge.
func (c *Charge) ref(endToEndID string, amount money.BRL) clawback.Ref {
	return clawback.Ref{Account: c.Account, EndToEndID: endToEndID, Charge: c.ID, ExternalID: c.ExternalID, Amount: amount}
}

// giveBack debits what an acquirer gave back, once, also below zero. When all of the charge's payment is given back, the
// charge is refunded. What was given back for an infraction is debited by that one: here only if none is known.
func (s *Service) giveBack(ctx context.Context, c *Charge, p *acquirer.Payment, done []acquirer.Refund) error {
	var returned, enforced money.BRL
	for i := range done {
		if done[i].ForInfraction {
			enforced += done[i].Amount
		} else {
			returned += done[i].Amount
		}
		last := i == len(done)-1
		err := s.retry(ctx, c, func() error {
			was, err := clawback.Get(ctx, s.DB, c.ref(p.EndToEndID, p.Amount))
			if err != nil || (!last && returned+enforced <= was.Returned+was.Enforced) {
				return err // known
			}
			now := was
			debit := now.Return(returned, enforced)
			if now == was {
				return nil
			}
			return s.restate(ctx, c, &was, &now, c.Held, func(ctx context.Context, tx *ledger.Tx) error {
				if debit == 0 {
					return nil
				}
				return tx.Post(ctx, &ledger.Transfer{
					Account: c.Account, Amount: debit.Amount(), Source: ledger.Available, Target: ledger.Acquirer,
					Kind: kindRefund, Ref: c.ID, OnceKey: p.EndToEndID + " " + now.Debited.String(), Overdraw: true,
				})
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// restate writes what a payment has become, what that makes of its charge, and whatever write posts, in one transaction.
// held is what infractions keep from the charge's release.
func (s *Service) restate(
	ctx context.Context, c *Charge, was, now *clawback.Payment, held money.BRL, write func(context.Context, *ledger.Tx) error,
) error {
	own := c.EndToEndID == now.EndToEndID // and not an inflow of its own
	all := func(ctx context.Context, tx *ledger.Tx, to State) error {
		clawback.Write(ctx, tx.Tx, was, now, errMoved)
		if own {
			tx.Guard(ctx, errMoved, updateRefunded, string(to), int64(now.Debited), int64(held),
				int64(c.Account), c.ID, string(c.Status), int64(c.Refunded), int64(c.Held), micros(c.ReleaseAt))
		}
		return write(ctx, tx)
	}
	var err error
	if own && now.Debited == now.Amount && c.Status != Refunded {
		err = s.apply(ctx, c, refund, func(ctx context.Context, tx *ledger.Tx, r rule) error { return all(ctx, tx, r.to) })
	} else {
		err = s.Ledger.Write(ctx, func(ctx context.Context, tx *ledger.Tx) error { return all(ctx, tx, c.Status) })
	}
	if err == nil && own {
		c.Refunded, c.Held = now.Debited, held
	}
	return err
}

// Trace returns whose a payment at an acquirer is, after it was credited and what was given back of it debited. A payment
// that belongs to no charge is [clawback.ErrNobodys].
func (s *Service) Trace(ctx context.Context, name, endToEndID string) (clawback.Ref, error) {
	at, ok := s.Router.Get(name)
	if !ok {
		return clawback.Ref{}, clawback.ErrNobodys
	}
	asking, cancel := context.WithTimeout(ctx, acquirer.TryTimeMax)
	defer cancel()
	p, err := at.GetPayment(asking, endToEndID)
	if errors.Is(err, acquirer.ErrNotFound) {
		return clawback.Ref{}, clawback.ErrNobodys
	}
	if err != nil {
		return clawback.Ref{}, err
	}
	c, err := s.byTxID(ctx, p.TxID)
	if errors.Is(err, sqldb.ErrNoRows) || (err == nil && c.Acquirer != name) {
		return clawback.Ref{}, clawback.ErrNobodys
	}
	if err != nil {
		return clawback.Ref{}, err
	}
	if _, err := s.look(ctx, &c, endToEndID); err != nil {
		return clawback.Ref{}, err
	}
	of := c.ref(endToEndID, p.Amount)
	if c.EndToEndID == endToEndID {
		return of, nil
	}
	posted, err := s.Ledger.IsPosted(ctx, c.Account, ledger.KindInflow, endToEndID)
	if err == nil && !posted {
		err = clawback.ErrNobodys // paid to another key, or shown with another charge
	}
	return of, err
}

// Dispute changes what is claimed of a payment, in one transaction with what write adds to it and posts. An infraction
// that opens blocks what of the charge's money is not released yet first; what an end does not debit goes back there as
// long as that is so. When all of the payment is debited, its charge is refunded.
func (s *Service) Dispute(
	ctx context.Context, of clawback.Ref, change clawback.Change, write func(context.Context, *ledger.Tx, clawback.Moves) error,
) error {
	c, err := get(ctx, s.DB, of.Account, of.Charge)
	if err != nil {
		return err
	}
	return s.retry(ctx, &c, func() error {
		was, err := clawback.Get(ctx, s.DB, of)
		if err != nil {
			return err
		}
		waits := c.EndToEndID == of.EndToEndID && !c.ReleaseAt.IsZero()
		now, held := was, c.Held
		var moves clawback.Moves
		switch {
		case change.Opens:
			now.Claim(change.Amount)
			if waits {
				moves.Pending = min(change.Amount, c.waiting())
				held += moves.Pending
			}
		default:
			moves.Debit = now.Decide(change.Amount, change.Accepted)
			if waits {
				moves.Pending = min(change.Amount-moves.Debit, change.FromPending)
				held -= moves.Pending
			}
		}
		moves.Available = change.Amount - moves.Pending - moves.Debit
		return s.restate(ctx, &c, &was, &now, held, func(ctx context.Context, tx *ledger.Tx) error { return write(ctx, tx, moves) })
	})
}
