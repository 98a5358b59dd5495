package charge

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/inquiry"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// hint is a notification: somebody says that a payment was made.
type hint struct {
	acquirer   string
	endToEndID string
	txid       string // "" when it names none
	at         int64  // microseconds UTC when the payment is said to have been made; 0 when it is not said
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

// Hint notes a notification of a payment at a moment, zero when that is not said, and reports whether there was room. What
// is lost is found by [Service.Reconcile].
func (s *Service) Hint(acquirer, endToEndID, txid string, at time.Time) bool {
	return s.hints.Add(hint{acquirer, endToEndID, txid, micros(at)})
}

// FollowHints looks up the notifications that are due.
func (s *Service) FollowHints(ctx context.Context) (did bool, err error) {
	return s.hints.FollowTogether(ctx, func(ctx context.Context, some []hint) (inquiry.Answers[hint], error) {
		shown, err := s.lookTogether(ctx, some)
		follow := func(ctx context.Context, h hint) error {
			verdict, err := s.judge(ctx, h, shown)
			if err == nil {
				s.Heard(h.acquirer, verdict)
			}
			return err
		}
		return inquiry.Answers[hint]{Follow: follow, IsKnown: func(h hint) bool { return shown[h.endToEndID] != nil }}, err
	})
}

// lookTogether returns payments that hints of one acquirer speak of, as its list shows them, by their end-to-end ids: those
// that each pay a charge alone that was made here lately, so that nothing is left to be asked about it. When they were made is
// what the hints say, and matters no further than that the list shows them.
func (s *Service) lookTogether(ctx context.Context, some []hint) (shown map[string]*acquirer.Payment, err error) {
	var from, to int64
	wanted := map[string]made{}
	for _, h := range some {
		m, ok := s.recent.Get(canonical(h.txid))
		if h.at == 0 || !ok || m.Acquirer != h.acquirer {
			continue
		}
		if from == 0 || h.at < from {
			from = h.at
		}
		to = max(to, h.at)
		wanted[h.endToEndID] = m
	}
	if len(wanted) == 0 {
		return nil, nil
	}
	name := some[0].acquirer
	at, ok := s.Router.Get(name)
	if !ok {
		return nil, nil
	}
	shown = map[string]*acquirer.Payment{}
	payers := map[string]string{} // end-to-end ids by txid; "" where there are several
	err = s.together.List(ctx, name, moment(from), moment(to), len(wanted), func(ctx context.Context, w acquirer.Window) (answered int, next string, err error) {
		before := len(shown)
		page, err := at.ListPayments(ctx, w)
		for i := range page.Payments {
			p := &page.Payments[i]
			if other, ok := payers[p.TxID]; ok && other != p.EndToEndID {
				delete(shown, other)
				payers[p.TxID] = ""
				continue
			}
			payers[p.TxID] = p.EndToEndID
			if m, ok := wanted[p.EndToEndID]; ok && m.isPaidBy(p, m.key) {
				shown[p.EndToEndID] = p
			}
		}
		return len(shown) - before, page.Next, err
	})
	return shown, err
}

// judge asks the acquirer about what it is said to have, unless that is shown already.
func (s *Service) judge(ctx context.Context, h hint, shown map[string]*acquirer.Payment) (Verdict, error) {
	c, key, err := s.heardOf(ctx, h)
	switch {
	case err == nil && c.Acquirer == h.acquirer:
		if p := shown[h.endToEndID]; p != nil && c.isPaidBy(p, key) {
			seen := acquirer.Charge{Key: key, Payments: []acquirer.Payment{*p}}
			return s.follow(ctx, &c, &seen, h.endToEndID)
		}
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

// isPaidBy reports whether a payment is all that there is to know of a charge that this key was made for: no more and no less
// than was asked for, and nothing of it given back. Of all others the charge itself is looked at.
func (c *Charge) isPaidBy(p *acquirer.Payment, key string) bool {
	return key != "" && strings.EqualFold(p.Key, key) && strings.EqualFold(p.TxID, c.TxID) && p.Amount == c.Amount && len(p.Refunds) == 0
}

// made is a charge as this node made it.
type made struct {
	Charge
	key string // that its acquirer said it pays to
}

// heardOf returns the charge that a hint names, as it is or as this node made it: nothing moves that is not as it was read.
// Of the latter it also returns the key that it pays to.
func (s *Service) heardOf(ctx context.Context, h hint) (c Charge, key string, err error) {
	if m, ok := s.recent.Take(canonical(h.txid)); ok && m.Acquirer == h.acquirer {
		return m.Charge, m.key, nil
	}
	c, err = s.byTxID(ctx, h.txid)
	return c, "", err
}

// canonical returns a txid as we write it, or "" for one that is none of ours.
func canonical(txid string) string {
	x, owner, err := id.ParseToken(txid)
	if err != nil {
		return ""
	}
	return id.Token(x, owner)
}

// byTxID returns the charge that an acquirer knows by a txid, or [sqldb.ErrNoRows]. The case does not matter.
func (s *Service) byTxID(ctx context.Context, txid string) (Charge, error) {
	x, owner, err := id.ParseToken(txid)
	if err != nil {
		return Charge{}, sqldb.ErrNoRows
	}
	return sqldb.One(ctx, s.DB, scanCharge, selectChargeByTxID, int64(owner), id.Token(x, owner))
}
