package acquirer

import (
	"context"
	"time"

	"github.com/ponte-pay/ponte/internal/money"
)

// Judge is an acquirer that also tells of infractions (MED) and takes defenses against them.
type Judge interface {
	Acquirer

	// ListInfractions returns a page of the infractions that were opened or changed during a window. Some acquirers filter by
	// their opening alone: read far enough back.
	ListInfractions(ctx context.Context, w Window) (InfractionPage, error)

	// SubmitDefense hands in a defense. One that was handed in before is ErrDuplicate, one that comes too late
	// ErrTooLate; both are Refused.
	SubmitDefense(ctx context.Context, d Defense) error
}

// Infraction is a claim that a payment was fraud, as its acquirer sees it. It names the payment, not the charge.
type Infraction struct {
	ID         string
	EndToEndID string
	Amount     money.BRL // what is claimed, which can be less than the payment
	Status     InfractionStatus
	Reason     string    // in words; "" when not told
	Code       string    // the acquirer's word for the situation; "" when not told
	OpenedAt   time.Time // zero when not told
	DeadlineAt time.Time // until when a defense is taken; zero when not told
	ResolvedAt time.Time // zero when not resolved, or not told
}

// InfractionStatus says how far an infraction has come.
type InfractionStatus int

const (
	InfractionUnknown     InfractionStatus = iota // a word that this version does not know
	InfractionOpen                                // waits for a defense
	InfractionUnderReview                         // a defense is being looked at
	InfractionAccepted                            // the claim holds: the money goes back
	InfractionRejected                            // the claim does not hold
	InfractionCancelled                           // the payer, or the acquirer, withdrew it
)

// String returns the status as a word for operators.
func (s InfractionStatus) String() string {
	return word(int(s), "unknown", "open", "under_review", "accepted", "rejected", "cancelled")
}

// InfractionPage is a part of a list of infractions.
type InfractionPage struct {
	Infractions []Infraction
	Next        string // the cursor of the next page; "" on the last
	Unreadable  int    // infractions that were left out because they made no sense; an operator must look
}

// Defense is what an account says against an infraction.
type Defense struct {
	InfractionID string
	Text         string
	EvidenceURL  string // "" for none
}
