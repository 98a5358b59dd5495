package withdrawal

import (
	"context"
	"errors"

	"github.com/ponte-pay/ponte/internal/chain"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// hint is a notification: somebody says that a payout has moved.
type hint struct {
	provider   string
	providerID string
}

// From returns the provider that says so.
func (h hint) From() string { return h.provider }

// What returns what may be logged.
func (h hint) What() string { return h.providerID }

// Hint notes a notification and reports whether there was room. What is lost is found by [Service.CheckDue].
func (s *Service) Hint(provider, providerID string) bool {
	return s.hints.Add(hint{provider, providerID})
}

// FollowHints looks up the notifications that are due.
func (s *Service) FollowHints(ctx context.Context) (did bool, err error) {
	return s.hints.Follow(ctx, s.followHint)
}

func (s *Service) followHint(ctx context.Context, h hint) error {
	w, err := sqldb.One(ctx, s.DB, scanWithdrawal, findByProviderID, h.provider, h.providerID)
	if errors.Is(err, sqldb.ErrNoRows) {
		return nil // made by others, or not adopted yet: then its age finds it
	}
	if err != nil {
		return err
	}
	if h.provider != s.Provider.Name() {
		return nil // not for this one to say
	}
	err = s.look(ctx, &w)
	if errors.Is(err, chain.ErrNotFound) {
		return nil // for the sweep to find out
	}
	return err
}
