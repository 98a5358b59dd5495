package payout

import (
	"context"
	"errors"
	"time"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/inquiry"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// hint is a notification: somebody says that a payout was settled, failed or came back.
type hint struct {
	acquirer   string
	endToEndID string // "" when it names none
	name       string // what the acquirer knows it by; "" when it does not tell
}

// From returns the acquirer that says so.
func (h hint) From() string { return h.acquirer }

// What returns what may be logged.
func (h hint) What() string { return h.name + " " + h.endToEndID }

// Hint notes a notification and reports whether there was room. What is lost is found by [Service.CheckDue] and
// [Service.Reconcile].
func (s *Service) Hint(acquirer, endToEndID, name string) bool {
	return s.hints.Add(hint{acquirer, endToEndID, name})
}

// FollowHints looks up the notifications that are due.
func (s *Service) FollowHints(ctx context.Context) (did bool, err error) {
	return s.hints.FollowTogether(ctx, func(ctx context.Context, some []hint) (inquiry.Answers[hint], error) {
		shown, err := s.lookTogether(ctx, some)
		follow := func(ctx context.Context, h hint) error { return s.followHint(ctx, h, shown[h.name]) }
		return inquiry.Answers[hint]{Follow: follow, IsKnown: func(h hint) bool { return shown[h.name] != nil }}, err
	})
}

// sent is a payout as this node sent it.
type sent struct {
	Payout
	asked time.Time // when its acquirer says that it was asked; zero when it does not tell
}

// lookTogether returns payouts that hints of one acquirer speak of, as its list shows them, by their names: those that were sent
// from here lately and are settled as they were ordered. Of all others the payout itself is asked for.
func (s *Service) lookTogether(ctx context.Context, some []hint) (shown map[string]*acquirer.Payout, err error) {
	var from, to time.Time
	wanted := map[string]sent{}
	for _, h := range some {
		p, ok := s.recent.Get(h.name)
		if !ok || p.Acquirer != h.acquirer || p.asked.IsZero() {
			continue
		}
		if from.IsZero() || p.asked.Before(from) {
			from = p.asked
		}
		if p.asked.After(to) {
			to = p.asked
		}
		wanted[h.name] = p
	}
	if len(wanted) == 0 {
		return nil, nil
	}
	name := some[0].acquirer
	at, ok := s.Router.Payer(name)
	if !ok {
		return nil, nil
	}
	shown = map[string]*acquirer.Payout{}
	err = s.together.List(ctx, name, from, to, len(wanted), func(ctx context.Context, w acquirer.Window) (answered int, next string, err error) {
		before := len(shown)
		page, err := at.ListPayouts(ctx, w)
		for i := range page.Payouts {
			p := &page.Payouts[i]
			ordered, ok := wanted[p.ID]
			if ok && p.Status == acquirer.PayoutSettled && len(p.Returns) == 0 && ordered.compare(p) == nil {
				shown[p.ID] = p
			}
		}
		return len(shown) - before, page.Next, err
	})
	return shown, err
}

// followHint asks the acquirer about what it is said to have sent, unless that is shown already.
func (s *Service) followHint(ctx context.Context, h hint, shown *acquirer.Payout) error {
	p, err := s.heardOf(ctx, h)
	switch {
	case err == nil && p.Acquirer == h.acquirer && shown != nil:
		return s.follow(ctx, &p, shown)
	case err == nil && p.Acquirer == h.acquirer:
		err = s.look(ctx, &p)
		if errors.Is(err, acquirer.ErrNotFound) {
			return nil // forged
		}
		return err
	case err == nil:
		return nil // not for this acquirer to say; its list shows what it really did
	case !errors.Is(err, sqldb.ErrNoRows):
		return err
	}
	at, ok := s.Router.Payer(h.acquirer)
	if !ok || h.endToEndID == "" {
		return nil
	}
	asking, cancel := context.WithTimeout(ctx, acquirer.TryTimeMax)
	defer cancel()
	seen, err := at.GetPayoutByEndToEnd(asking, h.endToEndID)
	if errors.Is(err, acquirer.ErrNotFound) {
		return nil // forged, or not a payout
	}
	if err != nil {
		return err
	}
	return s.match(ctx, h.acquirer, &seen)
}

// heardOf returns the payout that a hint names, as it is or as this node made it: nothing moves that is not as it was read.
func (s *Service) heardOf(ctx context.Context, h hint) (Payout, error) {
	if p, ok := s.recent.Take(h.name); ok && p.Acquirer == h.acquirer {
		return p.Payout, nil
	}
	return s.byName(ctx, h.name)
}

// byName returns the payout that acquirers know by a name, or [sqldb.ErrNoRows]. The case does not matter.
func (s *Service) byName(ctx context.Context, name string) (Payout, error) {
	x, owner, err := id.ParseToken(name)
	if err != nil {
		return Payout{}, sqldb.ErrNoRows
	}
	return get(ctx, s.DB, owner, x)
}
