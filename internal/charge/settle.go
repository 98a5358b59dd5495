package charge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/clawback"
	"github.com/ponte-pay/ponte/internal/event"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// Check asks the charge's acquirer how it stands and brings it there. It shares one question with all who ask at the
// same time, and waits for it no longer than one may take.
func (s *Service) Check(ctx context.Context, c *Charge) error {
	one := *c
	return s.looks.Join(ctx, c.TxID, func() error {
		// Whoever asked first may go away; the others still want the answer.
		_, err := s.look(context.WithoutCancel(ctx), &one, "")
		return err
	})
}

// look asks the charge's acquirer how it stands and follows it there. A payment that somebody spoke of is asked for by its own
// name when the acquirer does not show it with the charge, and the verdict is about that one; "" for none.
func (s *Service) look(ctx context.Context, c *Charge, endToEndID string) (Verdict, error) {
	at, ok := s.Router.Get(c.Acquirer)
	if !ok {
		return "", fmt.Errorf("charge: no acquirer %q is configured", c.Acquirer)
	}
	seen, stray, err := ask(ctx, at, c.TxID, endToEndID)
	if err != nil {
		return "", err
	}
	verdict, err := s.follow(ctx, c, &seen, endToEndID)
	if stray {
		verdict = Foreign
	}
	return verdict, err
}

// ask returns a charge as its acquirer shows it, with the payment that somebody spoke of if it is the charge's. A stray one
// exists and is another's.
func ask(ctx context.Context, at acquirer.Acquirer, txid, endToEndID string) (seen acquirer.Charge, stray bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, acquirer.TryTimeMax)
	defer cancel()
	seen, err = at.GetCharge(ctx, txid)
	if err != nil && !errors.Is(err, acquirer.ErrNotFound) { // not found is an answer: it has no payments
		return seen, false, err
	}
	shown := slices.ContainsFunc(seen.Payments, func(p acquirer.Payment) bool { return p.EndToEndID == endToEndID })
	if endToEndID == "" || shown {
		return seen, false, nil
	}
	p, err := at.GetPayment(ctx, endToEndID)
	switch {
	case errors.Is(err, acquirer.ErrNotFound): // forged, or not there yet
	case err != nil:
		return seen, false, err
	case strings.EqualFold(p.TxID, txid):
		seen.Payments = append(seen.Payments, p)
	default:
		stray = true
	}
	return seen, stray, nil
}

// follow applies what an acquirer, asked over our own connection, says about a charge: payments first, oldest first, with what
// was given back of them, then removal. It is the way money comes in: notifications, reads, sweeps and lists all end here, but for
// what [Service.payShown] pays, where there is nothing to follow but one whole payment. The verdict is about the payment that
// somebody spoke of.
func (s *Service) follow(ctx context.Context, c *Charge, seen *acquirer.Charge, spokenOf string) (Verdict, error) {
	verdict := Unknown
	slices.SortFunc(seen.Payments, func(a, b acquirer.Payment) int {
		return cmp.Or(a.PaidAt.Compare(b.PaidAt), cmp.Compare(a.EndToEndID, b.EndToEndID))
	})
	for i := range seen.Payments {
		p := &seen.Payments[i]
		why := ""
		switch {
		case p.TxID != "" && !strings.EqualFold(p.TxID, c.TxID):
			why = "it names another charge than the one it is shown with"
		case p.Key != "" && seen.Key != "" && !strings.EqualFold(p.Key, seen.Key):
			why = "it was paid to another key than its charge's"
		}
		this := Foreign
		var err error
		if why != "" {
			err = s.unmatched(ctx, c.Acquirer, p, why)
		} else {
			this, err = s.receive(ctx, c, p)
		}
		if err != nil {
			return "", err
		}
		if p.EndToEndID == spokenOf {
			verdict = this
		}
	}
	if seen.Status == acquirer.ChargeRemoved || seen.Status == acquirer.ChargeRemovedByAcquirer {
		return verdict, s.move(ctx, c, cancel)
	}
	return verdict, nil
}

// receive credits a payment once and follows what was given back of it. What it is, the charge's own or an inflow, never
// changes: a charge keeps the payment that paid it.
func (s *Service) receive(ctx context.Context, c *Charge, p *acquirer.Payment) (verdict Verdict, err error) {
	returned, sum := returnedOf(p)
	err = s.retry(ctx, c, func() (err error) {
		verdict = Settled
		switch {
		case c.EndToEndID == p.EndToEndID:
			verdict = Duplicate
			return nil
		case c.EndToEndID != "" || p.Amount < c.Amount: // a second one, or too small
			verdict, err = s.credit(ctx, c, p)
			return err
		case c.Status == Pending && sum >= p.Amount:
			return s.refundUnseen(ctx, c, p)
		case p.Amount > c.Amount:
			verdict = WrongAmount
		}
		return s.pay(ctx, c, p)
	})
	if err == nil {
		err = s.giveBack(ctx, c, p, returned)
	}
	if err == nil {
		s.settled.Add(settledName(c.Acquirer, p))
	}
	return verdict, err
}

// returnedOf returns what was given back of a payment, and how much that is.
func returnedOf(p *acquirer.Payment) (done []acquirer.Refund, sum money.BRL) {
	for _, r := range p.Refunds {
		if r.Status == acquirer.RefundDone && r.Amount > 0 {
			done = append(done, r)
			sum += r.Amount
		}
	}
	return done, sum
}

// pay settles a charge with its payment.
func (s *Service) pay(ctx context.Context, c *Charge, p *acquirer.Payment) error {
	settings, err := s.settings(ctx, c.Account)
	if err != nil {
		return err
	}
	paid, target := s.paidBy(c, p, &settings)
	err = s.apply(ctx, &paid, pay, func(ctx context.Context, tx *ledger.Tx, r rule) error {
		paid.writePaid(ctx, tx, r)
		return tx.Post(ctx, paid.transfers(target, p.Amount-c.Amount)...)
	})
	if err == nil {
		*c = paid
	}
	return err
}

// payAll settles charges of one account, each with its payment, in one transaction. When one of them is not as it was read,
// none is settled.
func (s *Service) payAll(ctx context.Context, list []due) error {
	settings, err := s.settings(ctx, list[0].charge.Account)
	if err != nil {
		return err
	}
	paid := make([]*Charge, len(list))
	var target ledger.Book
	for i := range list {
		var one Charge
		one, target = s.paidBy(&list[i].charge, list[i].payment, &settings)
		paid[i] = &one
	}
	return s.applyAll(ctx, paid, pay, func(ctx context.Context, tx *ledger.Tx, r rule) error {
		var posts []*ledger.Transfer
		for _, c := range paid {
			c.writePaid(ctx, tx, r)
			posts = append(posts, c.transfers(target, 0)...)
		}
		return tx.Post(ctx, posts...)
	})
}

// paidBy returns a charge as its payment makes it, and the book that takes the money.
func (s *Service) paidBy(c *Charge, p *acquirer.Payment, settings *account.Settings) (paid Charge, target ledger.Book) {
	now := s.Clock.Now().Truncate(time.Microsecond)
	paid = *c
	paid.EndToEndID, paid.PaidAt = p.EndToEndID, p.PaidAt.Truncate(time.Microsecond)
	if p.PaidAt.IsZero() { // not every acquirer tells
		paid.PaidAt = now
	}
	paid.Fee = money.BRL(settings.CashInFee.Of(c.Amount.Amount()).Units)
	if settings.ReleaseDelay > 0 {
		paid.ReleaseAt = now.Add(settings.ReleaseDelay)
		return paid, ledger.Pending
	}
	return paid, ledger.Available
}

// writePaid writes what a payment makes of a charge, which must still be as it was.
func (c *Charge) writePaid(ctx context.Context, tx *ledger.Tx, r rule) {
	tx.Guard(ctx, errMoved, updatePaid, string(r.to), c.EndToEndID, c.PaidAt.UnixMicro(), int64(c.Fee), stored(c.ReleaseAt),
		int64(c.Account), c.ID, string(r.from))
}

// transfers are what the ledger posts for a charge that was paid into target, with more than was asked for.
func (c *Charge) transfers(target ledger.Book, excess money.BRL) []*ledger.Transfer {
	posts := []*ledger.Transfer{{
		Account: c.Account, Amount: c.Amount.Amount(), Source: ledger.Acquirer, Target: target,
		Kind: kindCashIn, Ref: c.ID, OnceKey: c.EndToEndID,
	}}
	if c.Fee > 0 {
		source := target
		if c.Fee > c.Amount {
			source = ledger.Available // the only book that may be below zero
		}
		posts = append(posts, &ledger.Transfer{
			Account: c.Account, Amount: c.Fee.Amount(), Source: source, Target: ledger.Fees,
			Kind: kindFee, Ref: c.ID, OnceKey: c.EndToEndID, Overdraw: true,
		})
	}
	if excess > 0 {
		posts = append(posts, inflow(c, c.EndToEndID, excess))
	}
	return posts
}

// waiting returns what of the charge's money waits for its release: what the fee left of it, and infractions.
func (c *Charge) waiting() money.BRL {
	if c.Fee > c.Amount {
		return c.Amount - c.Held
	}
	return c.Amount - c.Fee - c.Held
}

// credit posts money that the charge did not ask for as an inflow of its own.
func (s *Service) credit(ctx context.Context, c *Charge, p *acquirer.Payment) (Verdict, error) {
	if posted, err := s.Ledger.IsPosted(ctx, c.Account, ledger.KindInflow, p.EndToEndID); err != nil || posted {
		return Duplicate, err
	}
	return WrongAmount, s.Ledger.Write(ctx, func(ctx context.Context, tx *ledger.Tx) error {
		return tx.Post(ctx, inflow(c, p.EndToEndID, p.Amount))
	})
}

func inflow(c *Charge, endToEndID string, amount money.BRL) *ledger.Transfer {
	return &ledger.Transfer{
		Account: c.Account, Amount: amount.Amount(), Source: ledger.Acquirer, Target: ledger.Available,
		Kind: ledger.KindInflow, Ref: c.ID, OnceKey: endToEndID,
	}
}

// refundUnseen notes a payment that was given back before we saw it. No money moves, and it has no paid_at.
func (s *Service) refundUnseen(ctx context.Context, c *Charge, p *acquirer.Payment) error {
	was, err := clawback.Get(ctx, s.DB, c.ref(p.EndToEndID, p.Amount))
	if err != nil {
		return err
	}
	now := was
	now.Forgo()
	err = s.apply(ctx, c, refund, func(ctx context.Context, tx *ledger.Tx, r rule) error {
		clawback.Write(ctx, tx.Tx, &was, &now, errMoved)
		tx.Guard(ctx, errMoved, updateRefundedUnseen, string(r.to), int64(p.Amount), p.EndToEndID, int64(c.Account), c.ID, string(r.from))
		return nil
	})
	if err == nil {
		c.EndToEndID, c.Refunded = p.EndToEndID, p.Amount
	}
	return err
}

// move applies a trigger that moves no money; one that the state does not allow is nothing new.
func (s *Service) move(ctx context.Context, c *Charge, on trigger) error {
	err := s.retry(ctx, c, func() error {
		return s.apply(ctx, c, on, func(ctx context.Context, tx *ledger.Tx, r rule) error {
			tx.Guard(ctx, errMoved, updateStatus, string(r.to), int64(c.Account), c.ID, string(r.from))
			return nil
		})
	})
	if _, refused := errors.AsType[*TransitionError](err); refused {
		return nil
	}
	return err
}

// apply is [Service.applyAll] for one charge.
func (s *Service) apply(ctx context.Context, c *Charge, on trigger, write func(context.Context, *ledger.Tx, rule) error) error {
	return s.applyAll(ctx, []*Charge{c}, on, write)
}

// applyAll is the only door between states, for charges of one account that are in the same one: it looks the rule up, lets
// write make the guarded updates and the posting, and writes the rule's events, all in one transaction. Then all of them have
// moved. Events and updates are what a second run after a lost COMMIT meets the first by.
func (s *Service) applyAll(ctx context.Context, list []*Charge, on trigger, write func(context.Context, *ledger.Tx, rule) error) error {
	r, err := list[0].Status.next(on)
	if err != nil {
		return err
	}
	err = s.Ledger.Write(ctx, func(ctx context.Context, tx *ledger.Tx) error {
		for _, c := range list {
			if err := s.emit(ctx, tx, c, r); err != nil {
				return err
			}
		}
		return write(ctx, tx, r)
	})
	if err == nil {
		for _, c := range list {
			c.Status = r.to
		}
	}
	return err
}

// emit writes the event of a rule, if it has one: the charge as it will be.
func (s *Service) emit(ctx context.Context, tx *ledger.Tx, c *Charge, r rule) error {
	if r.emits == "" {
		return nil
	}
	moved := *c
	moved.Status = r.to
	data, err := s.Render(&moved)
	if err != nil {
		return err
	}
	return s.Events.Write(ctx, tx.Tx, event.Event{
		Account: c.Account, ID: s.IDs.New(), Type: r.emits, Ref: c.ID, Data: data, Postback: c.PostbackURL,
	})
}

// errMoved says that the charge was no longer in the state it was read in.
var errMoved = errors.New("charge: it has moved")

const movesMax = 5 // times that a charge may move under one decision

// retry decides about c, and again about what it has become when somebody else moved it meanwhile or had posted the same
// already.
func (s *Service) retry(ctx context.Context, c *Charge, decide func() error) error {
	for range movesMax {
		err := decide()
		// A conflict is our own posting of a run whose COMMIT was answered by nobody, or another node's.
		if !errors.Is(err, errMoved) && !errors.Is(err, sqldb.ErrConflict) {
			return err
		}
		if err := s.reload(ctx, c); err != nil {
			return err
		}
	}
	return fault.New(fault.Unavailable, "", "the charge is being changed; try again")
}

// reload reads c again.
func (s *Service) reload(ctx context.Context, c *Charge) error {
	now, err := get(ctx, s.DB, c.Account, c.ID)
	if err == nil {
		*c = now
	}
	return err
}

const (
	settingsAgeMax = time.Second // of real time
	settingsMax    = 10_000      // accounts whose settings are kept
)

// kept are settings as they were read.
type kept struct {
	account.Settings
	readAt time.Time // real time
}

// settings returns an account's settings as they are or were a second ago, so that a payment of a busy account costs no
// read.
func (s *Service) settings(ctx context.Context, owner id.Account) (account.Settings, error) {
	now := s.Clock.Real()
	s.mu.Lock()
	k, ok := s.kept[owner]
	s.mu.Unlock()
	if ok && now.Sub(k.readAt) < settingsAgeMax {
		return k.Settings, nil
	}
	a, err := s.Accounts.Get(ctx, owner)
	if err != nil {
		return account.Settings{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept == nil || len(s.kept) >= settingsMax {
		s.kept = map[id.Account]kept{}
	}
	s.kept[owner] = kept{a.Settings, now}
	return a.Settings, nil
}
