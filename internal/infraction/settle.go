package infraction

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/clawback"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// match brings an infraction that an acquirer shows to where it stands there: it is opened here first if it is new, and
// listed as nobody's if its payment is.
func (s *Service) match(ctx context.Context, name string, seen *acquirer.Infraction) error {
	if s.settled.Has(settledName(name, seen)) {
		return nil
	}
	f, err := sqldb.One(ctx, s.DB, scanInfraction, findNamed, name, seen.ID)
	if errors.Is(err, sqldb.ErrNoRows) {
		of, traceErr := s.Charges.Trace(ctx, name, seen.EndToEndID)
		if errors.Is(traceErr, clawback.ErrNobodys) {
			return s.unmatched(ctx, name, seen)
		}
		if traceErr != nil {
			return traceErr
		}
		f, err = s.open(ctx, name, of, seen)
	}
	if err != nil {
		return err
	}
	return s.follow(ctx, &f, seen)
}

// settledName names an infraction as far as it has come.
func settledName(name string, seen *acquirer.Infraction) string {
	return name + " " + seen.ID + " " + seen.Status.String()
}

// errKnown says that an infraction was opened before.
var errKnown = errors.New("infraction: it is known")

// open stores a new infraction and blocks what it claims.
func (s *Service) open(ctx context.Context, name string, of clawback.Ref, seen *acquirer.Infraction) (Infraction, error) {
	f := Infraction{
		Account: of.Account, Acquirer: name, AcquirerID: seen.ID, Charge: of.Charge, ExternalID: of.ExternalID, EndToEndID: of.EndToEndID,
		Paid: of.Amount, Amount: seen.Amount, Status: Open, Reason: seen.Reason, ReasonCode: seen.Code,
		OpenedAt: seen.OpenedAt.Truncate(time.Microsecond),
	}
	if seen.OpenedAt.IsZero() { // not every acquirer tells
		f.OpenedAt = s.Clock.Now().Truncate(time.Microsecond)
	}
	f.DeadlineAt = deadline(f.OpenedAt, seen)
	err := s.Charges.Dispute(ctx, of, clawback.Change{Opens: true, Amount: f.Amount},
		func(ctx context.Context, tx *ledger.Tx, m clawback.Moves) error {
			if f.ID.IsZero() { // made inside of the transaction, because identifiers order lists
				f.ID = s.IDs.New()
			}
			f.FromPending = m.Pending
			f.insert(ctx, tx.Tx)
			tx.Queue(ctx, deleteUnmatched, name, seen.ID)
			return tx.Post(ctx, f.blocks(m)...)
		})
	if errors.Is(err, errKnown) { // by another node, or by a COMMIT that nobody answered
		return sqldb.One(ctx, s.DB, scanInfraction, findNamed, name, seen.ID)
	}
	return f, err
}

// triggers are what an acquirer's word for a state makes happen. An infraction of which it says what is not understood
// stays as it is, or is open.
var triggers = map[acquirer.InfractionStatus]trigger{
	acquirer.InfractionUnknown:     "",
	acquirer.InfractionOpen:        "",
	acquirer.InfractionUnderReview: defend,
	acquirer.InfractionAccepted:    accept,
	acquirer.InfractionRejected:    reject,
	acquirer.InfractionCancelled:   cancel,
}

// follow brings the infraction to where its acquirer says it is.
func (s *Service) follow(ctx context.Context, f *Infraction, seen *acquirer.Infraction) error {
	if seen.Status == acquirer.InfractionUnknown {
		s.Log.LogAttrs(ctx, slog.LevelError, "an acquirer says of an infraction what is not understood",
			slog.String("infraction", prefix.Format(f.ID)), slog.String("acquirer", f.Acquirer))
		s.settled.Add(settledName(f.Acquirer, seen)) // said once is enough
		return nil
	}
	on := triggers[seen.Status]
	err := s.retry(ctx, f, func() error {
		switch {
		case on == "", on == defend && f.Status == UnderReview:
			return nil
		case on == defend && f.Status == Open:
			said := *f
			said.DefendedAt = s.Clock.Now().Truncate(time.Microsecond) // when we learned of it
			err := s.review(ctx, &said)
			if err == nil {
				*f = said
			}
			return err
		}
		return s.decide(ctx, f, on, seen)
	})
	if _, refused := errors.AsType[*TransitionError](err); refused {
		s.contradict(ctx, f, seen)
		err = nil
	}
	if err == nil && f.Status.isDecided() {
		s.settled.Add(settledName(f.Acquirer, seen))
	}
	return err
}

// contradict tells operators when an acquirer says that an infraction ended otherwise than it had said before. Nothing
// moves by it.
func (s *Service) contradict(ctx context.Context, f *Infraction, seen *acquirer.Infraction) {
	if seen.Status.String() == string(f.Status) {
		return
	}
	s.Log.LogAttrs(ctx, slog.LevelError, "an acquirer contradicts what it said of an infraction: look at its money",
		slog.String("infraction", prefix.Format(f.ID)), slog.String("status", string(f.Status)), slog.String("acquirer", f.Acquirer),
		slog.String("says", seen.Status.String()))
}

// review moves an open infraction to under review, with the defense that f says.
func (s *Service) review(ctx context.Context, f *Infraction) error {
	r, err := f.Status.next(defend)
	if err != nil {
		return err
	}
	err = s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.Guard(ctx, errMoved, updateDefended, string(r.to), f.DefendedAt.UnixMicro(), null(f.DefenseText), null(f.DefenseEvidenceURL),
			null(string(f.Handing)), stored(f.handAt), int64(f.Account), f.ID, string(r.from))
		return nil
	})
	if err == nil {
		f.Status = r.to
	}
	return err
}

// decide ends the infraction: what the payer gets leaves, as far as it has not left already, and the rest goes back to
// where it was blocked from.
func (s *Service) decide(ctx context.Context, f *Infraction, on trigger, seen *acquirer.Infraction) error {
	r, err := f.Status.next(on)
	if err != nil {
		return err
	}
	done := *f
	done.Status, done.ResolvedAt, done.handAt = r.to, seen.ResolvedAt.Truncate(time.Microsecond), time.Time{}
	if seen.ResolvedAt.IsZero() { // not every acquirer tells
		done.ResolvedAt = s.Clock.Now().Truncate(time.Microsecond)
	}
	err = s.Charges.Dispute(ctx, f.ref(), clawback.Change{Accepted: r.posts == debit, Amount: f.Amount, FromPending: f.FromPending},
		func(ctx context.Context, tx *ledger.Tx, m clawback.Moves) error {
			done.Debited = m.Debit
			tx.Guard(ctx, errMoved, updateDecided, string(r.to), int64(done.Debited), done.ResolvedAt.UnixMicro(),
				int64(f.Account), f.ID, string(r.from))
			return tx.Post(ctx, done.ends(m)...)
		})
	if err == nil {
		*f = done
	}
	return err
}

// unmatched lists an infraction as nobody's. Nothing moves.
func (s *Service) unmatched(ctx context.Context, name string, seen *acquirer.Infraction) error {
	now := s.Clock.Now()
	openedAt := seen.OpenedAt
	if openedAt.IsZero() {
		openedAt = now
	}
	return s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.Queue(ctx, upsertUnmatched, name, seen.ID, seen.EndToEndID, int64(seen.Amount), seen.Status.String(), openedAt.UnixMicro(), now.UnixMicro(),
			"its payment was credited to nobody")
		return nil
	})
}

// errMoved says that the infraction was no longer in the state it was read in.
var errMoved = errors.New("infraction: it has moved")

const movesMax = 5 // times that an infraction may move under one decision

// retry decides about f, and again about what it has become when somebody else moved it meanwhile.
func (s *Service) retry(ctx context.Context, f *Infraction, decide func() error) error {
	for range movesMax {
		err := decide()
		if !errors.Is(err, errMoved) {
			return err
		}
		now, err := get(ctx, s.DB, f.Account, f.ID)
		if err != nil {
			return err
		}
		*f = now
	}
	return fault.New(fault.Unavailable, "", "the infraction is being changed; try again")
}
