package charge

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/inquiry"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/oplog"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

const unmatchedMax = 500 // that are listed

const (
	returnsEvery = time.Hour      // of business time
	returnsSpan  = 24 * time.Hour // of payments whose returns are read at once, as of all lists
)

// Reconcile reads each acquirer's list of payments since the last time and settles what is unknown here.
func (s *Service) Reconcile(ctx context.Context) (did bool, err error) {
	lists := inquiry.Lists{DB: s.DB, Clock: s.Clock}
	acquirers := s.Router.Health()
	did, err = lists.Reconcile(ctx, acquirers, func(acquirer string) (list inquiry.List, ok bool) {
		at, ok := s.Router.Get(acquirer)
		return inquiry.List{Name: acquirer, Read: s.reader(at)}, ok
	})
	return did, errors.Join(err, inquiry.Each(acquirers, func(h *acquirer.Health) error { return s.readReturns(ctx, lists, h.Acquirer) }))
}

// readReturns reads, every now and then, what an acquirer gave back of payments however old: they can be given back for
// long, and when its notification is lost nobody tells of it.
func (s *Service) readReturns(ctx context.Context, lists inquiry.Lists, name string) error {
	at, ok := s.Router.Get(name)
	if !ok {
		return nil
	}
	now := s.Clock.Now()
	list := inquiry.List{Name: name + ", returned", Read: s.reader(at)}
	return lists.Again(ctx, list, returnsEvery, func(_ context.Context, after time.Time) (acquirer.Window, bool, error) {
		if after.IsZero() {
			after = now.Add(-inquiry.ReturnTimeMax)
		}
		to := after.Add(returnsSpan)
		if to.After(now) {
			to = now
		}
		return acquirer.Window{From: after, To: to, Returned: true}, after.Before(now), nil
	})
}

// reader returns how a page of an acquirer's list is read.
func (s *Service) reader(at acquirer.Acquirer) func(context.Context, acquirer.Window) (inquiry.Read, error) {
	return func(ctx context.Context, w acquirer.Window) (inquiry.Read, error) { return s.readPage(ctx, at, w) }
}

// readPage settles what a page lists. What fails keeps nothing else from being settled.
func (s *Service) readPage(ctx context.Context, at acquirer.Acquirer, w acquirer.Window) (inquiry.Read, error) {
	page, err := s.page(ctx, at, w)
	if err != nil {
		return inquiry.Read{}, err
	}
	if page.Unreadable > 0 {
		s.Log.LogAttrs(ctx, slog.LevelError, "acquirer lists payments that make no sense",
			slog.String("acquirer", at.Name()), slog.Int("payments", page.Unreadable), slog.Time("from", w.From), slog.Time("to", w.To))
	}
	failed := inquiry.Each(page.Payments, func(p *acquirer.Payment) error {
		if w.Returned && !s.settled.Has(settledName(at.Name(), p)) {
			// What was nobody's is listed since it came, or came before we did.
			if _, err := s.byTxID(ctx, p.TxID); errors.Is(err, sqldb.ErrNoRows) {
				return nil
			}
		}
		_, err := s.match(ctx, at.Name(), p)
		if err == nil || !s.stuck.IsOver(settledName(at.Name(), p), err, s.Clock.Now()) {
			return err
		}
		s.Log.LogAttrs(ctx, slog.LevelError, "a payment cannot be followed", slog.String("acquirer", at.Name()),
			slog.String("end_to_end_id", p.EndToEndID), slog.String("error", err.Error()))
		return s.unmatched(ctx, at.Name(), p, "it could not be followed: its charge must be looked at")
	})
	return inquiry.Read{Next: page.Next, Unfollowed: failed}, nil
}

func (s *Service) page(ctx context.Context, at acquirer.Acquirer, w acquirer.Window) (acquirer.Page, error) {
	ctx, cancel := context.WithTimeout(ctx, acquirer.TryTimeMax)
	defer cancel()
	return at.ListPayments(ctx, w)
}

// match settles a payment that an acquirer has, or lists it as nobody's.
func (s *Service) match(ctx context.Context, name string, p *acquirer.Payment) (Verdict, error) {
	if s.settled.Has(settledName(name, p)) {
		return Duplicate, nil
	}
	c, err := s.byTxID(ctx, p.TxID)
	switch {
	case errors.Is(err, sqldb.ErrNoRows):
		return Foreign, s.unmatched(ctx, name, p, "it names no charge of ours")
	case err != nil:
		return "", err
	case c.Acquirer != name:
		return Foreign, s.unmatched(ctx, name, p, "its charge is at another acquirer")
	}
	if _, returned := returnedOf(p); c.EndToEndID == p.EndToEndID && c.Refunded == returned {
		s.settled.Add(settledName(name, p))
		return Duplicate, nil
	}
	// Its charge knows the key that it must have been paid to.
	return s.look(ctx, &c, p.EndToEndID)
}

// settledName names a payment as far as it has come.
func settledName(acquirer string, p *acquirer.Payment) string {
	_, returned := returnedOf(p)
	return acquirer + " " + p.EndToEndID + " " + returned.String()
}

// unmatched lists a payment as nobody's.
func (s *Service) unmatched(ctx context.Context, name string, p *acquirer.Payment, reason string) error {
	now := s.Clock.Now()
	paidAt := p.PaidAt
	if paidAt.IsZero() {
		paidAt = now
	}
	err := s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.Queue(ctx, insertUnmatched, name, p.EndToEndID, null(p.TxID), int64(p.Amount), paidAt.UnixMicro(), now.UnixMicro(), reason)
		return nil
	})
	if err == nil {
		s.settled.Add(settledName(name, p)) // until it changes, there is nothing more to say
	}
	return err
}

// Unmatched is a payment that belongs to no charge.
type Unmatched struct {
	Acquirer   string
	EndToEndID string
	TxID       string // "" for none
	Amount     money.BRL
	PaidAt     time.Time
	FoundAt    time.Time // business time
	Reason     string
}

// ErrNoUnmatched is returned for a payment that does not wait to be looked at.
var ErrNoUnmatched = fault.New(fault.NotFound, "", "no such payment waits to be looked at")

// DismissUnmatched notes why nothing more is to be done about a payment that belongs to no charge.
func DismissUnmatched(ctx context.Context, db *sqldb.DB, ids *id.Generator, endToEndID, why string) error {
	return oplog.Dismiss(ctx, db, oplog.Begin(ctx, ids, oplog.Entry{Action: oplog.ChargeDismiss, Subject: endToEndID, Reason: why}),
		ErrNoUnmatched, dismissUnmatched, why, endToEndID)
}

// ListUnmatched returns the payments that were found last, belong to no charge and wait to be looked at.
func ListUnmatched(ctx context.Context, q sqldb.Querier) ([]Unmatched, error) {
	return sqldb.All(ctx, q, func(r sqldb.Row) (u Unmatched, err error) {
		var amount, paidAt, foundAt int64
		err = r.Scan(&u.Acquirer, &u.EndToEndID, &u.TxID, &amount, &paidAt, &foundAt, &u.Reason)
		u.Amount, u.PaidAt, u.FoundAt = money.BRL(amount), moment(paidAt), moment(foundAt)
		return u, err
	}, listUnmatched, unmatchedMax)
}
