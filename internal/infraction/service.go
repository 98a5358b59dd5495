package infraction

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/clawback"
	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/inquiry"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// Charges are what infractions need of the payments that they are about.
type Charges interface {
	// Trace returns whose a payment at an acquirer is, once it is credited, or [clawback.ErrNobodys].
	Trace(ctx context.Context, acquirer, endToEndID string) (clawback.Ref, error)

	// Dispute changes what is claimed of a payment, in one transaction with what write adds to it and posts. What write
	// fails with, it returns.
	Dispute(ctx context.Context, of clawback.Ref, change clawback.Change, write func(context.Context, *ledger.Tx, clawback.Moves) error) error
}

// Services are what infractions stand on.
type Services struct {
	DB      *sqldb.DB
	Clock   *clock.Clock
	IDs     *id.Generator
	Charges Charges
	Router  *acquirer.Router
	Log     *slog.Logger
}

// Service follows infractions.
type Service struct {
	Services
	settled inquiry.Memory // infractions that need no second look
}

// New returns the service.
func New(s Services) *Service { return &Service{Services: s} }

// ErrNotFound is returned for an infraction that the account does not have.
var ErrNotFound = fault.New(fault.NotFound, "", "there is no such infraction")

// Prefix of an infraction's identifier.
const prefix = id.Infraction

// Get returns an infraction by inf_....
func (s *Service) Get(ctx context.Context, owner id.Account, ref string) (Infraction, error) {
	x, err := prefix.Parse(ref)
	if err != nil {
		return Infraction{}, ErrNotFound
	}
	f, err := get(ctx, s.DB, owner, x)
	if errors.Is(err, sqldb.ErrNoRows) {
		err = ErrNotFound
	}
	return f, err
}

// ErrCursor is returned for a page that starts after an infraction that the account does not have.
var ErrCursor = &fault.Error{
	Kind: fault.Invalid, Public: "starting_after names no infraction of this account",
	Issues: []fault.Issue{{Path: "starting_after", Message: "must be the id of an infraction of this account, or a date"}},
}

// Page says which infractions are wanted.
type Page struct {
	Status        State     // "" for any
	StartingAfter string    // the id of the last one seen; "" for none
	Before        time.Time // only older ones; zero for none
	Limit         int
}

// List returns an account's infractions, newest first, and whether there are more.
func (s *Service) List(ctx context.Context, owner id.Account, p Page) (list []Infraction, more bool, err error) {
	border := id.Max
	switch {
	case !p.Before.IsZero():
		border = id.First(p.Before)
	case p.StartingAfter != "":
		f, err := s.Get(ctx, owner, p.StartingAfter)
		if errors.Is(err, ErrNotFound) {
			return nil, false, ErrCursor
		}
		if err != nil {
			return nil, false, err
		}
		border = f.ID
	}
	list, err = sqldb.All(ctx, s.DB, scanInfraction, listInfractions, int64(owner), border, string(p.Status), p.Limit+1)
	if err != nil {
		return nil, false, err
	}
	return list[:min(len(list), p.Limit)], len(list) > p.Limit, nil
}

// Bounds of what is looked for about one charge.
const (
	laterMax    = 2000 // infractions of the account, that those about the charge are looked for in
	ofChargeMax = 30   // that are returned
)

// OfCharge returns the first infractions about payments of a charge, oldest first. Where an account had very many since the
// charge was made, later ones are not seen.
func (s *Service) OfCharge(ctx context.Context, owner id.Account, charge id.ID) ([]Infraction, error) {
	return sqldb.All(ctx, s.DB, scanInfraction, listOfCharge, int64(owner), charge, laterMax, charge, ofChargeMax)
}

// Debits returns what was taken because the infraction was accepted.
func (s *Service) Debits(ctx context.Context, f *Infraction) ([]ledger.Transfer, error) {
	return ledger.PostedFor(ctx, s.DB, f.Account, kindDebit, f.ID.String())
}

// Why a defense is not taken.
var (
	ErrNotOpen      = fault.New(fault.Conflict, "infraction_not_open", "only an open infraction can be defended, and only once")
	ErrWindowClosed = fault.New(fault.Unprocessable, "defense_window_closed", "the time for a defense is over, see deadline_at")
)

// Defense is what an account says against an infraction.
type Defense struct {
	Text        string
	EvidenceURL string // "" for none
}

// Defensible returns an infraction that can be defended now; otherwise it fails with [ErrNotFound], [ErrNotOpen] or
// [ErrWindowClosed].
func (s *Service) Defensible(ctx context.Context, owner id.Account, ref string) (Infraction, error) {
	f, err := s.Get(ctx, owner, ref)
	if err != nil {
		return f, err
	}
	return f, s.defensible(&f)
}

func (s *Service) defensible(f *Infraction) error {
	switch {
	case f.Status != Open:
		return ErrNotOpen
	case s.Clock.Now().After(f.DeadlineAt):
		return ErrWindowClosed
	}
	return nil
}

// Defend stores a defense, once, and moves the infraction to under review. [Service.HandIn] takes it to the acquirer.
func (s *Service) Defend(ctx context.Context, f Infraction, d Defense) (Infraction, error) {
	now := s.Clock.Now().Truncate(time.Microsecond)
	for range movesMax {
		if err := s.defensible(&f); err != nil {
			return f, err
		}
		said := f
		said.DefendedAt, said.DefenseText, said.DefenseEvidenceURL, said.Handing, said.handAt = now, d.Text, d.EvidenceURL, Waiting, now
		err := s.review(ctx, &said)
		if err == nil {
			return said, nil
		}
		if !errors.Is(err, errMoved) {
			return f, err
		}
		if f, err = get(ctx, s.DB, f.Account, f.ID); err != nil {
			return f, err
		}
		if f.DefendedAt.Equal(now) && f.DefenseText == d.Text && f.DefenseEvidenceURL == d.EvidenceURL {
			return f, nil // it was this one, by a COMMIT that nobody answered
		}
	}
	return f, fault.New(fault.Unavailable, "", "the infraction is being changed; try again")
}
