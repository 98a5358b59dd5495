package deposit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/shopspring/decimal"

	"github.com/ponte-pay/ponte/internal/chain"
	"github.com/ponte-pay/ponte/internal/event"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// Check asks the provider how the deposit stands and brings it there; one that has no address is looked for. It shares
// one question with all who ask at the same time, and waits for it no longer than one may take.
func (s *Service) Check(ctx context.Context, d *Deposit) error {
	one := *d
	return s.looks.Join(ctx, d.Reference(), func() error {
		// Whoever asked first may go away; the others still want the answer.
		ctx := context.WithoutCancel(ctx)
		if one.Status == Processing {
			return s.recover(ctx, &one)
		}
		err := s.look(ctx, &one)
		if errors.Is(err, chain.ErrNotFound) {
			return nil // whatever that means, it is for the sweep to find out
		}
		return err
	})
}

// look asks the provider how the deposit stands and follows it there, with all that came to its address since. It is how
// money comes in: notifications, reads, sweeps and lists all end in a question over our own connection.
func (s *Service) look(ctx context.Context, d *Deposit) error {
	if s.Provider.Name() != d.Provider {
		return fmt.Errorf("deposit: no crypto provider %q is configured", d.Provider)
	}
	seen, err := s.get(ctx, d.PaymentID)
	if err != nil {
		return err
	}
	if err := s.matchTo(ctx, d, &seen); err != nil {
		return err
	}
	asked := 0
	for _, child := range slices.Backward(seen.Children) { // the latest are those that nobody may have told of
		if s.settled.Has(endedName(d.Provider, child)) {
			continue
		}
		if asked++; asked > childrenMax {
			break // the provider's list has them too
		}
		if err := s.lookChild(ctx, d, child); err != nil {
			return err
		}
	}
	return nil
}

// childrenMax bounds the questions that one look asks about repeated deposits: anybody can send dust to an address.
const childrenMax = 20

// endedName names a repeated deposit that is settled. What becomes of it later is told by notifications and lists.
func endedName(provider, paymentID string) string { return provider + " " + paymentID + " ended" }

// lookChild follows a repeated deposit that the provider lists with its parent. Not every provider shows it by its own
// name; then its list does.
func (s *Service) lookChild(ctx context.Context, d *Deposit, paymentID string) error {
	seen, err := s.get(ctx, paymentID)
	if errors.Is(err, chain.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if seen.Parent == "" {
		seen.Parent = d.PaymentID // its parent says so
	}
	if err := s.matchTo(ctx, d, &seen); err != nil {
		return err
	}
	if seen.Status.IsSettled() {
		s.settled.Add(endedName(d.Provider, paymentID))
	}
	return nil
}

func (s *Service) get(ctx context.Context, paymentID string) (chain.Payment, error) {
	ctx, cancel := context.WithTimeout(ctx, chain.TryTimeMax)
	defer cancel()
	return s.Provider.GetPayment(ctx, paymentID)
}

// matchTo follows a payment that bears the deposit's reference: the deposit's own, or another one that came to its
// address. A deposit that has no address yet gets it from the first that has no parent.
func (s *Service) matchTo(ctx context.Context, d *Deposit, seen *chain.Payment) error {
	if d.Status == Processing && seen.Parent == "" {
		if err := s.adopt(ctx, d, seen); err != nil {
			return err
		}
	}
	if d.Status == Processing {
		return nil // its own payment has to be found first
	}
	var err error
	if seen.ID == d.PaymentID {
		err = s.follow(ctx, d, seen)
	} else {
		err = s.followOther(ctx, d, seen)
	}
	if err == nil {
		s.settled.Add(settledName(d.Provider, seen))
	}
	return err
}

// follow brings the deposit to where its provider says that it is.
func (s *Service) follow(ctx context.Context, d *Deposit, seen *chain.Payment) error {
	return s.retry(ctx, d, func() error {
		on, next, err := s.decide(ctx, d, seen)
		if err != nil || on == "" {
			return err
		}
		return s.move(ctx, d, on, next)
	})
}

// decide returns what has happened to the deposit by what its provider shows, and what it becomes; "" for nothing new.
func (s *Service) decide(ctx context.Context, d *Deposit, seen *chain.Payment) (on trigger, next Deposit, err error) {
	next = *d
	now := s.Clock.Now().Truncate(time.Microsecond)
	flag := func(r Review) { next.Review, next.ReviewAt = r, now }
	if seen.Paid.IsPositive() && seen.PayCurrency == d.PayCurrency {
		next.PaidAmount = decimal.NewNullDecimal(seen.Paid)
	}
	open := d.Status == Waiting || d.Status == Confirming
	switch seen.Status {
	case chain.PaymentFinished, chain.PaymentPartiallyPaid:
		return s.decideSettled(ctx, d, seen)
	case chain.PaymentConfirming:
		if d.Status == Waiting {
			next.DetectedAt = now
			return detect, next, nil
		}
	case chain.PaymentRefunded:
		switch {
		case d.Received > d.Refunded:
			next = *d // what came is what it was when it was credited
			next.Refunded = d.Received
			flag(ReviewRefund)
			return refund, next, nil
		case open:
			return refund, next, nil
		}
	case chain.PaymentFailed, chain.PaymentExpired:
		if !open {
			return "", next, s.flagStuck(ctx, d, seen)
		}
		if seen.Paid.IsPositive() {
			flag(ReviewStuck)
		}
		if seen.Status == chain.PaymentFailed {
			return fail, next, nil
		}
		return expire, next, nil
	case chain.PaymentWaiting, chain.PaymentUnknown:
	}
	return "", next, nil
}

// decideSettled decides about a payment that the provider has settled. Without an amount it is not paid.
func (s *Service) decideSettled(ctx context.Context, d *Deposit, seen *chain.Payment) (on trigger, next Deposit, err error) {
	next = *d
	now := s.Clock.Now().Truncate(time.Microsecond)
	switch {
	case seen.Settled == d.Received && d.Received > 0:
		return "", next, nil // nothing new
	case seen.Settled == 0:
		if d.Status == Waiting {
			next.DetectedAt, next.Review, next.ReviewAt = now, ReviewStuck, now
			return detect, next, nil
		}
		return "", next, s.flagStuck(ctx, d, seen)
	case seen.Settled < d.Received || d.Refunded > 0 || d.Status == Refunded:
		s.Log.LogAttrs(ctx, slog.LevelError, "crypto provider contradicts what is known of a deposit",
			slog.String("crypto_charge", prefix.Format(d.ID)), slog.String("status", string(d.Status)), slog.String("received", d.Received.String()),
			slog.String("says", seen.Status.String()), slog.String("settled", seen.Settled.String()))
		return "", next, nil
	}
	fee, err := s.fee(ctx, d.Account, seen.Settled)
	if err != nil {
		return "", next, err
	}
	next.Received, next.Fee = seen.Settled, max(fee, d.Fee)
	next.AmountStatus = d.compare(seen)
	next.Review, next.ReviewAt = "", time.Time{} // whatever was stuck is not any more
	why := Review("")
	switch {
	case d.Status == Paid:
		why = ReviewMore
	case !d.Status.isOpen():
		why = ReviewLate
	case seen.PayCurrency != d.PayCurrency:
		why = ReviewCoin
	}
	if why != "" {
		next.Review, next.ReviewAt = why, now
	}
	if d.Status.isOpen() {
		next.PaidAt = now
	}
	if seen.Paid.IsPositive() && seen.PayCurrency == d.PayCurrency {
		next.PaidAmount = decimal.NewNullDecimal(seen.Paid)
	}
	return confirm, next, nil
}

// compare says how the coins that came compare with those that were asked for.
func (d *Deposit) compare(seen *chain.Payment) AmountStatus {
	switch {
	case seen.Status == chain.PaymentPartiallyPaid:
		return Underpaid
	case !d.PayAmount.Valid || seen.PayCurrency != d.PayCurrency:
		return "" // there is nothing to compare
	}
	switch seen.Paid.Cmp(d.PayAmount.Decimal) {
	case -1:
		return Underpaid
	case 1:
		return Overpaid
	}
	return Exact
}

// fee returns what an account pays for what was settled.
func (s *Service) fee(ctx context.Context, owner id.Account, received money.USDT) (money.USDT, error) {
	a, err := s.Accounts.Get(ctx, owner)
	if err != nil {
		return 0, err
	}
	return money.USDT(a.Settings.CryptoInFee.Of(received.Amount()).Units), nil
}

// flagStuck has an operator look at a deposit whose provider has coins and does not settle them.
func (s *Service) flagStuck(ctx context.Context, d *Deposit, seen *chain.Payment) error {
	if d.Received > 0 || d.Review != "" || (!seen.Paid.IsPositive() && !seen.Status.IsSettled()) {
		return nil
	}
	now := s.Clock.Now()
	err := s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.Queue(ctx, updateReview, string(ReviewStuck), now.UnixMicro(), int64(d.Account), d.ID)
		return nil
	})
	if err == nil {
		d.Review, d.ReviewAt = ReviewStuck, now
	}
	return err
}

// followOther follows a payment that came to the deposit's address beside the deposit's own. Once it is settled it is a
// deposit of its own.
func (s *Service) followOther(ctx context.Context, d *Deposit, seen *chain.Payment) error {
	for range movesMax {
		own, err := sqldb.One(ctx, s.DB, scanDeposit, selectDepositByPayment, int64(d.Account), d.Provider, seen.ID)
		switch {
		case err == nil:
			return s.follow(ctx, &own, seen)
		case !errors.Is(err, sqldb.ErrNoRows):
			return err
		case !seen.Status.IsSettled() || seen.Settled == 0:
			return nil
		}
		err = s.repeat(ctx, d, seen)
		if !errors.Is(err, sqldb.ErrConflict) {
			return err
		}
	}
	return errBusy
}

// repeat makes a deposit of a payment that nobody asked for. It keeps whose it is, and has no external_id: that serves
// one deposit only.
func (s *Service) repeat(ctx context.Context, d *Deposit, seen *chain.Payment) error {
	r, err := State("").next(repeat)
	if err != nil {
		return err
	}
	fee, err := s.fee(ctx, d.Account, seen.Settled)
	if err != nil {
		return err
	}
	now := s.Clock.Now().Truncate(time.Microsecond)
	again := Deposit{
		Account: d.Account, Status: r.to, Price: d.Price, PayCurrency: d.PayCurrency, Description: d.Description,
		CustomerID: d.CustomerID, CustomerEmail: d.CustomerEmail, Metadata: d.Metadata, Provider: d.Provider, AskedAt: now,
		PaymentID: seen.ID, Parent: d.PaymentID, PayAddress: d.PayAddress, PayExtraID: d.PayExtraID,
		Received: seen.Settled, Fee: fee, PaidAt: now,
	}
	if seen.PayCurrency != d.PayCurrency {
		again.Review, again.ReviewAt = ReviewCoin, now
	} else {
		again.PaidAmount = decimal.NewNullDecimal(seen.Paid)
	}
	return s.Ledger.Write(ctx, func(ctx context.Context, tx *ledger.Tx) error {
		if again.ID.IsZero() {
			again.ID = s.IDs.New()
		}
		data, err := s.Render(&again)
		if err != nil {
			return err
		}
		again.insert(ctx, tx.Tx)
		err = s.Events.Write(ctx, tx.Tx, event.Event{Account: d.Account, ID: s.IDs.New(), Type: r.emits, Ref: again.ID, Data: data})
		if err != nil {
			return err
		}
		return tx.Post(ctx, again.posts(&Deposit{})...)
	})
}

// move brings the deposit to next by a trigger; one that its state does not allow is nothing new.
func (s *Service) move(ctx context.Context, d *Deposit, on trigger, next Deposit) error {
	if r, err := d.Status.next(on); err == nil {
		next.Status = r.to
		next.CheckAt = next.nextCheck(s.Clock.Now())
	}
	err := s.apply(ctx, d, on, next, func(ctx context.Context, tx *ledger.Tx, _ rule) { next.update(ctx, tx.Tx, d) })
	if _, refused := errors.AsType[*TransitionError](err); refused {
		return nil
	}
	return err
}

// apply is the only door between states: it looks the rule up, lets write make the guarded update, writes the rule's
// event and posts what is new, all in one transaction. Then d is next. The update is what a second run after a lost
// COMMIT meets the first by.
func (s *Service) apply(ctx context.Context, d *Deposit, on trigger, next Deposit, write func(context.Context, *ledger.Tx, rule)) error {
	r, err := d.Status.next(on)
	if err != nil {
		return err
	}
	posts := next.posts(d)
	if (len(posts) > 0) != (r.posts != nothing) {
		return fmt.Errorf("deposit: %s to %s posts %d transfers", prefix.Format(d.ID), on, len(posts))
	}
	err = s.Ledger.Write(ctx, func(ctx context.Context, tx *ledger.Tx) error {
		if r.emits != "" {
			data, err := s.Render(&next)
			if err != nil {
				return err
			}
			err = s.Events.Write(ctx, tx.Tx, event.Event{Account: d.Account, ID: s.IDs.New(), Type: r.emits, Ref: d.ID, Data: data})
			if err != nil {
				return err
			}
		}
		write(ctx, tx, r)
		if len(posts) == 0 {
			return nil
		}
		return tx.Post(ctx, posts...)
	})
	if err == nil {
		*d = next
	}
	return err
}

// errMoved says that the deposit was no longer as it was read.
var errMoved = errors.New("deposit: it has moved")

// errBusy says that others keep changing the deposit.
var errBusy = fault.New(fault.Unavailable, "", "the crypto charge is being changed; try again")

const movesMax = 5 // times that a deposit may move under one decision

// retry decides about d, and again about what it has become when somebody else moved it meanwhile or had posted the same
// already.
func (s *Service) retry(ctx context.Context, d *Deposit, decide func() error) error {
	for range movesMax {
		err := decide()
		// A conflict is our own posting of a run whose COMMIT was answered by nobody, or another node's.
		if !errors.Is(err, errMoved) && !errors.Is(err, sqldb.ErrConflict) {
			return err
		}
		if err := s.reload(ctx, d); err != nil {
			return err
		}
	}
	return errBusy
}

// reload reads d again.
func (s *Service) reload(ctx context.Context, d *Deposit) error {
	now, err := get(ctx, s.DB, d.Account, d.ID)
	if err == nil {
		*d = now
	}
	return err
}
