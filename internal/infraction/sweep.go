package infraction

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/inquiry"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

const (
	handMax     = 100             // defenses a step and acquirer
	handWaitMin = time.Second     // after a try that failed; business time
	handWaitMax = 1 * time.Minute // doubling up to this
)

// HandIn takes defenses to their acquirers, again and again until each is taken or refused for good. What a crash or a
// lost answer left is handed in again: an acquirer that has it says so.
func (s *Service) HandIn(ctx context.Context) (did bool, err error) {
	now := s.Clock.Now()
	for _, at := range s.Router.Judges() {
		due, findErr := sqldb.All(ctx, s.DB, scanInfraction, findHanding, at.Name(), now.UnixMicro(), handMax)
		if findErr != nil {
			err = errors.Join(err, findErr)
			continue
		}
		var silent inquiry.Silence
		handErr := inquiry.Each(due, func(f *Infraction) error {
			if silent.Has(at.Name()) {
				return nil // it is due again in the next step
			}
			err := s.handIn(ctx, at, f)
			if !inquiry.IsAcquirers(err) {
				return err
			}
			if silent.Note(at.Name(), err) {
				s.Log.LogAttrs(ctx, slog.LevelWarn, "acquirer takes no defenses", slog.String("acquirer", at.Name()), slog.String("error", err.Error()))
			}
			return nil
		})
		did, err = did || (len(due) == handMax && !silent.Has(at.Name())), errors.Join(err, handErr)
	}
	return did && err == nil, err
}

// handIn takes one defense to its acquirer and writes what became of it.
func (s *Service) handIn(ctx context.Context, at acquirer.Judge, f *Infraction) error {
	// Written before it is sent, so that one that arrived without our knowing is told from somebody else's.
	again := s.Clock.Now().Add(min(handWaitMin<<min(f.HandTries, 16), handWaitMax))
	err := s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.Guard(ctx, errMoved, updateTried, again.UnixMicro(), int64(f.Account), f.ID, f.HandTries)
		return nil
	})
	if errors.Is(err, errMoved) {
		return nil // somebody else was faster, or it is decided
	}
	if err != nil {
		return err
	}
	f.HandTries++
	sent := submit(ctx, at, f)
	f.HandError = ""
	if sent != nil {
		f.HandError = sent.Error()
	}
	switch {
	case sent == nil, errors.Is(sent, acquirer.ErrDuplicate) && f.handDoubt:
		f.Handing, f.handAt, f.HandError, sent = Taken, time.Time{}, "", nil
	case errors.Is(sent, acquirer.ErrDuplicate), errors.Is(sent, acquirer.ErrTooLate):
		s.Log.LogAttrs(ctx, slog.LevelError, "an acquirer refuses a defense", slog.String("infraction", prefix.Format(f.ID)),
			slog.String("acquirer", f.Acquirer), slog.String("error", f.HandError))
		f.Handing, f.handAt, sent = Refused, time.Time{}, nil
	default:
		f.handAt = again
		f.handDoubt = f.handDoubt || !acquirer.IsRefused(sent)
	}
	return errors.Join(sent, s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.Queue(ctx, updateHanded, string(f.Handing), stored(f.handAt), flag(f.handDoubt), null(f.HandError), int64(f.Account), f.ID, f.HandTries)
		return nil
	}))
}

func submit(ctx context.Context, at acquirer.Judge, f *Infraction) error {
	ctx, cancel := context.WithTimeout(ctx, acquirer.TryTimeMax)
	defer cancel()
	return at.SubmitDefense(ctx, acquirer.Defense{InfractionID: f.AcquirerID, Text: f.DefenseText, EvidenceURL: f.DefenseEvidenceURL})
}
