package charge

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
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
		list, err := s.lookTogether(ctx, some)
		shown := func(h hint) *acquirer.Payment {
			if h.at == 0 { // it is to be asked about by itself, whatever a list shows
				return nil
			}
			return list[h.endToEndID]
		}
		follow := func(ctx context.Context, h hint) error {
			verdict, err := s.judge(ctx, h, shown(h))
			if err == nil {
				s.Heard(h.acquirer, verdict)
			}
			return err
		}
		settle := func(ctx context.Context, known []hint) (map[hint]bool, error) { return s.payShown(ctx, known, shown) }
		return inquiry.Answers[hint]{Follow: follow, IsKnown: func(h hint) bool { return shown(h) != nil }, Settle: settle}, err
	})
}

// lookTogether returns payments that hints of one acquirer speak of, as its list shows them, by their end-to-end ids: those
// that each pay a charge alone, to the key that our charges there pay to, and of which nothing was given back. When they were
// made is what the hints say, and matters no further than that the list shows them.
func (s *Service) lookTogether(ctx context.Context, some []hint) (shown map[string]*acquirer.Payment, err error) {
	var from, to int64
	wanted := map[string]string{} // the keys that they have to be paid to, by end-to-end ids
	for _, h := range some {
		key := s.keys.of(h.acquirer, h.txid)
		if h.at == 0 || key == "" {
			continue
		}
		if from == 0 || h.at < from {
			from = h.at
		}
		to = max(to, h.at)
		wanted[h.endToEndID] = key
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
			if key := wanted[p.EndToEndID]; key != "" && strings.EqualFold(p.Key, key) && len(p.Refunds) == 0 {
				shown[p.EndToEndID] = p
			}
		}
		return len(shown) - before, page.Next, err
	})
	return shown, err
}

// payMax is how many charges are paid in one transaction.
const payMax = 50

// due is a charge with the payment that a list shows of it.
type due struct {
	hint    hint
	charge  Charge
	payment *acquirer.Payment
}

// payShown pays the charges that hints speak of and this node has just made, each by the payment that a list shows of it,
// those of an account together. It returns which it paid. Whatever is not as it nearly always is, is left for [Service.judge].
func (s *Service) payShown(ctx context.Context, some []hint, shown func(hint) *acquirer.Payment) (done map[hint]bool, err error) {
	byAccount := map[id.Account][]due{}
	var accounts []id.Account
	for _, h := range some {
		p := shown(h)
		c, ok := s.madeHere(h) // once: a second hint of the same charge is left
		if !ok || c.Status != Pending || !c.isPaidBy(p, s.keys.of(h.acquirer, h.txid)) {
			continue
		}
		if byAccount[c.Account] == nil {
			accounts = append(accounts, c.Account)
		}
		byAccount[c.Account] = append(byAccount[c.Account], due{h, c, p})
	}
	var groups [][]due
	for _, a := range accounts {
		list := byAccount[a]
		// Sorted, so that two nodes never wait for each other in opposite order.
		slices.SortFunc(list, func(a, b due) int { return a.charge.ID.Compare(b.charge.ID) })
		groups = slices.AppendSeq(groups, slices.Chunk(list, payMax))
	}
	var mu sync.Mutex
	done = make(map[hint]bool, len(some))
	err = inquiry.EachKnown(groups, func(group *[]due) error {
		switch err := s.payAll(ctx, *group); {
		case errors.Is(err, errMoved), errors.Is(err, sqldb.ErrConflict): // somebody else has paid one of them
			return nil
		case err != nil:
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		for _, d := range *group {
			done[d.hint] = true
			s.settled.Add(settledName(d.hint.acquirer, d.payment))
			s.Heard(d.hint.acquirer, Settled)
		}
		return nil
	})
	return done, err
}

// judge asks the acquirer about what it is said to have, unless that is shown already.
func (s *Service) judge(ctx context.Context, h hint, shown *acquirer.Payment) (Verdict, error) {
	c, key, err := s.heardOf(ctx, h)
	switch {
	case err == nil && c.Acquirer == h.acquirer:
		if shown != nil && c.isPaidBy(shown, key) {
			seen := acquirer.Charge{Key: key, Payments: []acquirer.Payment{*shown}}
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

// heardOf returns the charge that a hint names, as it is or as this node made it: nothing moves that is not as it was read.
// It also returns the key that it pays to, "" when that has to be asked for.
func (s *Service) heardOf(ctx context.Context, h hint) (c Charge, key string, err error) {
	key = s.keys.of(h.acquirer, h.txid)
	if c, ok := s.madeHere(h); ok {
		return c, key, nil
	}
	c, err = s.byTxID(ctx, h.txid)
	return c, key, err
}

// madeHere returns the charge that a hint names as this node has just made it, once.
func (s *Service) madeHere(h hint) (Charge, bool) {
	x, owner, err := id.ParseToken(h.txid)
	if err != nil {
		return Charge{}, false
	}
	c, ok := s.recent.Take(id.Token(x, owner))
	return c, ok && c.Acquirer == h.acquirer
}

// keys are the Pix keys that our charges pay to, by acquirer, as the acquirers said when charges were made here. The zero keys
// are none.
type keys struct {
	mu   sync.Mutex
	byAt map[string]keySince // as many as there are acquirers
}

// keySince is a key, and since when charges are made for it.
type keySince struct {
	key   string
	since time.Time // business time, by the name of the first charge
}

// learn notes the key of a charge that was just made.
func (k *keys) learn(acquirer, txid, key string) {
	x, _, err := id.ParseToken(txid)
	if err != nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.byAt[acquirer].key == key {
		return
	}
	if k.byAt == nil {
		k.byAt = map[string]keySince{}
	}
	k.byAt[acquirer] = keySince{key, x.Time()}
}

// of returns the key that a charge pays to, "" when it was made before that is known: it may have been another one.
func (k *keys) of(acquirer, txid string) string {
	x, _, err := id.ParseToken(txid)
	if err != nil {
		return ""
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if one := k.byAt[acquirer]; !x.Time().Before(one.since) {
		return one.key
	}
	return ""
}

// byTxID returns the charge that an acquirer knows by a txid, or [sqldb.ErrNoRows]. The case does not matter.
func (s *Service) byTxID(ctx context.Context, txid string) (Charge, error) {
	x, owner, err := id.ParseToken(txid)
	if err != nil {
		return Charge{}, sqldb.ErrNoRows
	}
	return sqldb.One(ctx, s.DB, scanCharge, selectChargeByTxID, int64(owner), id.Token(x, owner))
}
