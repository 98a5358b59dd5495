package deposit

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/shopspring/decimal"

	"github.com/ponte-pay/ponte/internal/chain"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// A provider makes another address each time that it is asked. So a deposit is stored first, and asked for once; when
// nobody knows what became of that, the provider's own list is searched for it, and only after it has not been there for
// long enough is it asked for again. Of several that it may have made, the oldest is the deposit's. Nobody is ever shown
// another one.

const (
	// lookupGrace is how long after the asking it proves nothing that the provider's list does not show a payment: some take
	// three quarters of a minute to make one. Business time.
	lookupGrace = time.Minute

	usdDecimals = 2 // of a price

	waitDefault = 7 * 24 * time.Hour // that providers wait for money when they do not tell

	searchMargin  = 10 * time.Minute // around the time that is searched: clocks differ
	searchSpan    = 24 * time.Hour   // after the last asking that is searched: a clock may leap while it is under way
	searchTimeMax = 15 * time.Second // of real time
)

// begin asks for the address of a deposit that was just stored. When it returns nil, the deposit is waiting, or
// processing because nobody knows yet; a refusal leaves nothing behind.
func (s *Service) begin(ctx context.Context, d *Deposit) error {
	lock, err := s.DB.TryLock(ctx, d.lockName())
	if err != nil {
		s.warn(ctx, "address not asked for yet", d, err)
		return nil // the sweep will
	}
	defer lock.Unlock(ctx)
	made, err := s.ask(ctx, d)
	switch {
	case err == nil:
		if err := s.adopt(ctx, d, &made); err != nil {
			s.warn(ctx, "address not stored yet", d, err) // it is found in the list
			return s.reload(ctx, d)
		}
		return nil
	case chain.IsRefused(err):
		return s.withdraw(ctx, d, err)
	}
	s.warn(ctx, "it is not known whether an address was made", d, err)
	if err := s.postpone(ctx, d); err != nil {
		s.warn(ctx, "next look not noted", d, err) // then it is found by its age
	}
	return nil
}

// ask asks the provider for an address.
func (s *Service) ask(ctx context.Context, d *Deposit) (chain.Payment, error) {
	ctx, cancel := context.WithTimeout(ctx, chain.TryTimeMax)
	defer cancel()
	return s.Provider.CreatePayment(ctx, chain.NewPayment{
		Reference: d.Reference(), Price: decimal.New(int64(d.Price), -usdDecimals), PayCurrency: d.PayCurrency,
		Description: d.Description, CallbackURL: s.CallbackURL(),
	})
}

// withdraw forgets a deposit whose first asking was refused, so that its key and its external_id are free again, and
// says why. When it cannot be forgotten it is processing.
func (s *Service) withdraw(ctx context.Context, d *Deposit, refusal error) error {
	err := s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.Guard(ctx, errMoved, deleteRefused, int64(d.Account), d.ID, d.Asks)
		return nil
	})
	if err != nil {
		// Gone by a run whose COMMIT nobody answered, or still there, or moved on.
		now, findErr := get(ctx, s.DB, d.Account, d.ID)
		switch {
		case errors.Is(findErr, sqldb.ErrNoRows):
		case findErr == nil:
			*d = now
			return nil
		default:
			s.warn(ctx, "refused deposit not forgotten", d, errors.Join(err, findErr))
			return nil
		}
	}
	return refused(refusal)
}

// refused says why there is no address, to who asked for it.
func refused(err error) error {
	f := &fault.Error{Kind: fault.Provider, Public: "the crypto provider cannot make an address now; nothing was stored, please repeat the request", Cause: err}
	switch {
	case errors.Is(err, chain.ErrBelowMinimum):
		f.Kind, f.Code, f.Public = fault.Unprocessable, "below_minimum", "the amount is below what the network takes now"
		f.Issues = []fault.Issue{{Path: "amount", Message: "is below what the network takes now"}}
	case errors.Is(err, chain.ErrCurrencyUnavailable):
		f.Kind, f.Code, f.Public = errCurrency.Kind, errCurrency.Code, errCurrency.Public
	case chain.As(err).Class == chain.Business:
		f.Kind, f.Code, f.Public = fault.Unprocessable, "charge_failed", "the crypto provider refused the deposit"
	}
	return f
}

// recover finds the address of a deposit that is processing, or asks for it again. One node at a time; what it holds
// ends with the process.
func (s *Service) recover(ctx context.Context, d *Deposit) error {
	lock, err := s.DB.TryLock(ctx, d.lockName())
	if errors.Is(err, sqldb.ErrLocked) {
		return nil // somebody is at it
	}
	if err != nil {
		return err
	}
	defer lock.Unlock(ctx)
	switch err := s.reload(ctx, d); {
	case errors.Is(err, sqldb.ErrNoRows):
		return nil // refused meanwhile, and forgotten
	case err != nil || d.Status != Processing:
		return err
	}
	found, err := s.search(ctx, d)
	if err != nil {
		return errors.Join(err, s.postpone(ctx, d))
	}
	if len(found) > 0 {
		return s.recoverAs(ctx, d, found)
	}
	if s.Clock.Now().Sub(d.AskedAt) < lookupGrace {
		return s.postpone(ctx, d)
	}
	return s.askAgain(ctx, d)
}

// recoverAs follows what the provider's list has of the deposit. When the deposit has no address even so, it is looked for
// again later: what made no sense may make some then.
func (s *Service) recoverAs(ctx context.Context, d *Deposit, found []chain.Payment) (err error) {
	for i := range found {
		if err = s.matchTo(ctx, d, &found[i]); err != nil {
			break
		}
	}
	if d.Status == Processing {
		err = errors.Join(err, s.postpone(ctx, d))
	}
	return err
}

// search looks for the deposit in the provider's list. What is the deposit's own comes first. What was made long after the
// last asking is nothing of it: a list that grows with every day would become too long to be read.
func (s *Service) search(ctx context.Context, d *Deposit) ([]chain.Payment, error) {
	ctx, cancel := context.WithTimeout(ctx, searchTimeMax)
	defer cancel()
	to := s.Clock.Now()
	if last := d.AskedAt.Add(searchSpan); last.Before(to) {
		to = last
	}
	found, err := chain.FindPayments(ctx, s.Provider, chain.Search{
		Reference: d.Reference(), From: d.CreatedAt().Add(-searchMargin), To: to.Add(searchMargin),
	})
	slices.SortFunc(found, func(a, b chain.Payment) int {
		return cmp.Or(
			cmp.Compare(len(a.Parent), len(b.Parent)), // who has none comes first
			a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(len(a.ID), len(b.ID)), cmp.Compare(a.ID, b.ID),
		)
	})
	return found, err
}

// askAgain asks for an address again that the provider has not made.
func (s *Service) askAgain(ctx context.Context, d *Deposit) error {
	before := d.AskedAt
	// Counted first: a crash after this must wait for the list again.
	err := s.claim(ctx, d)
	if errors.Is(err, errMoved) {
		return nil // somebody else was faster, or our own COMMIT was not answered: whoever it was, the list comes first again
	}
	if err != nil {
		return err
	}
	s.Log.LogAttrs(ctx, slog.LevelWarn, "address asked for again", slog.String("crypto_charge", prefix.Format(d.ID)), slog.Int64("asks", d.Asks))
	made, err := s.ask(ctx, d)
	switch {
	case err == nil:
		return s.adopt(ctx, d, &made)
	case !chain.IsRefused(err):
		return errors.Join(err, s.postpone(ctx, d))
	case chain.As(err).Class == chain.Business:
		s.warn(ctx, "crypto provider refused an address", d, err)
		return s.move(ctx, d, fail, *d)
	}
	d.AskedAt = before // nothing was made, so that there is nothing new to wait for
	return errors.Join(err, s.postpone(ctx, d))
}

// claim writes that the provider is about to be asked for an address again.
func (s *Service) claim(ctx context.Context, d *Deposit) error {
	now := s.Clock.Now().Truncate(time.Microsecond)
	err := s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.Guard(ctx, errMoved, updateAsks, now.UnixMicro(), now.Add(firstCheck).UnixMicro(), int64(d.Account), d.ID, d.Asks)
		return nil
	})
	if err == nil {
		d.Asks, d.AskedAt, d.CheckAt = d.Asks+1, now, now.Add(firstCheck)
	}
	return err
}

// adopt gives the deposit the address that was made for it. One that has an address keeps it.
func (s *Service) adopt(ctx context.Context, d *Deposit, made *chain.Payment) error {
	if made.ID == "" || made.Address == "" {
		return &chain.Error{Provider: d.Provider, Operation: "payment.adopt", Class: chain.Protocol, Message: "a payment without an address"}
	}
	return s.retry(ctx, d, func() error {
		if d.Status != Processing {
			return nil
		}
		next := *d
		next.PaymentID, next.PayAddress, next.PayExtraID = made.ID, made.Address, made.ExtraID
		next.PayAmount = decimal.NewNullDecimal(sendable(made.PayAmount, d.PayCurrency))
		next.ExpiresAt = made.ExpiresAt.Truncate(time.Microsecond)
		if made.ExpiresAt.IsZero() { // lists do not tell
			next.ExpiresAt = d.AskedAt.Add(waitDefault)
		}
		next.Status = Waiting
		next.CheckAt = next.nextCheck(s.Clock.Now())
		return s.apply(ctx, d, provision, next, func(ctx context.Context, tx *ledger.Tx, r rule) {
			tx.Guard(ctx, errMoved, updateProvisioned, string(r.to), next.PaymentID, next.PayAddress, null(next.PayExtraID),
				coins(next.PayAmount), stored(next.ExpiresAt), stored(next.CheckAt), int64(d.Account), d.ID, string(r.from))
		})
	})
}

// sendable rounds a quantity up to what the coin's network can divide: a wallet that cuts the rest off must not be short.
func sendable(q decimal.Decimal, currency string) decimal.Decimal {
	coin, ok := chain.FindCoin(currency)
	if !ok {
		return q
	}
	return q.RoundCeil(int32(coin.NetworkDecimals))
}

// lockName is the number of the deposit's lock. Two deposits that share one by chance only cannot be provisioned at the
// same time.
func (d *Deposit) lockName() int64 {
	key := int64(0x4465706f)
	for _, b := range []byte(d.Reference()) {
		key = key*131 + int64(b)
	}
	return key
}
