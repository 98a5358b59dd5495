package user

import (
	"context"
	"encoding/hex"
	"errors"
	"net/netip"
	"strings"
	"time"

	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/totp"
)

// How often somebody may try to be somebody. Tries are counted before they are looked at, so that a crowd of them gets no
// more than its share; a right one frees the person again.
const (
	triesWindow   = 15 * time.Minute
	personTries   = 10 // for one e-mail, whether it exists or not
	addressTries  = 50 // from one address, or one IPv6 network: an office has many people
	codeTries     = 10 // of a second factor: one in 30000 guesses it
	addressBits6  = 64
	recoveryCodes = 10
)

// From is where somebody comes from.
type From struct {
	Address netip.Addr
	Agent   string // what the browser calls itself
}

func (f From) source() string {
	a := f.Address.Unmap()
	if a.Is6() {
		if p, err := a.Prefix(addressBits6); err == nil {
			return "address " + p.String()
		}
	}
	return "address " + a.String()
}

// personSource names whom somebody wants to be. It is hashed, because whoever reads it should not learn what people type
// into the wrong field.
func personSource(email string) string { return "person " + hex.EncodeToString(hashOf(email)) }

func codeSource(person id.ID) string { return "code " + person.String() }

// count counts a try of each source and fails with [ErrTooMany] when one had too many.
func (s *Service) count(ctx context.Context, limits map[string]int64) error {
	now := s.Clock.Real()
	over := false
	err := s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		over = false
		for _, source := range sorted(limits) { // an address comes first: one that had too many locks nobody out
			if over {
				break
			}
			n, err := sqldb.One(ctx, tx, sqldb.Scalar[int64], countTry, source, now.UnixMicro(), now.Add(-triesWindow).UnixMicro())
			if err != nil {
				return err
			}
			over = n > limits[source]
		}
		return nil
	})
	if err == nil && over {
		err = ErrTooMany
	}
	return err
}

// SignIn opens a session for who knows the password, and returns what goes into the cookie. It is good for [Service.Verify]
// only when the person has an authenticator app. It fails with [ErrWrong], in the same time for people who do not exist, or
// with [ErrTooMany].
func (s *Service) SignIn(ctx context.Context, email, password string, from From) (token string, whole bool, err error) {
	email = strings.ToLower(strings.TrimSpace(email))
	if err := s.count(ctx, map[string]int64{personSource(email): personTries, from.source(): addressTries}); err != nil {
		return "", false, err
	}
	var who secrets
	if clean, err := cleanEmail(email); err == nil {
		who, err = sqldb.One(ctx, s.DB, scanSecrets, selectProofs, clean)
		if err != nil && !errors.Is(err, sqldb.ErrNoRows) {
			return "", false, err
		}
	}
	right, err := s.passwords.check(ctx, password, who.password)
	if err != nil {
		return "", false, err
	}
	if !right {
		return "", false, ErrWrong
	}
	token, err = s.open(ctx, who.person, Session{Whole: !who.hasTOTP}, from, func(ctx context.Context, tx *sqldb.Tx) {
		tx.Queue(ctx, forgetTries, personSource(email))
	})
	return token, !who.hasTOTP, err
}

// open stores a session. One that is not whole is good for a few minutes.
func (s *Service) open(ctx context.Context, person id.ID, kind Session, from From, also func(context.Context, *sqldb.Tx)) (string, error) {
	text, hash := s.token()
	now := s.Clock.Real()
	expires := now.Add(IdleTime)
	if !kind.Whole {
		expires = now.Add(halfTime)
	}
	x := s.IDs.New()
	agent := strings.ToValidUTF8(strings.ReplaceAll(from.Agent, "\x00", ""), "")
	agent = agent[:min(len(agent), agentMax)]
	err := s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.Queue(ctx, insertSession, x, hash, person, kind.Whole, kind.Strong, now.UnixMicro(), now.UnixMicro(), expires.UnixMicro(),
			from.Address.String(), strings.ToValidUTF8(agent, ""))
		also(ctx, tx)
		return nil
	})
	return text, err
}

// Authenticate returns whose cookie it is, also of a session that is not whole yet, and that it was used. It fails with
// [ErrNoSession].
func (s *Service) Authenticate(ctx context.Context, token string) (Visitor, error) {
	v, err := s.Look(ctx, token)
	now := s.Clock.Real()
	if err != nil || !v.Session.Whole || now.Sub(v.Session.SeenAt) < seenEvery {
		return v, err
	}
	end := v.Session.CreatedAt.Add(SessionTime)
	if idle := now.Add(IdleTime); idle.Before(end) {
		end = idle
	}
	err = s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.Queue(ctx, touchSession, now.UnixMicro(), end.UnixMicro(), v.Session.ID)
		return nil
	})
	if err != nil {
		return Visitor{}, err
	}
	return v, nil
}

// Look is [Service.Authenticate] for what a browser does by itself: it does not keep the session from becoming idle.
func (s *Service) Look(ctx context.Context, token string) (Visitor, error) {
	if token == "" || len(token) > tokenMax {
		return Visitor{}, ErrNoSession
	}
	now := s.Clock.Real()
	v, err := sqldb.One(ctx, s.DB, scanVisitor, selectVisitor, hashOf(token), now.UnixMicro())
	if err != nil {
		return Visitor{}, found(err, ErrNoSession)
	}
	if !v.Session.Whole {
		return v, nil
	}
	if !now.Before(v.Session.CreatedAt.Add(SessionTime)) {
		return Visitor{}, ErrNoSession
	}
	v.Memberships, err = s.Memberships(ctx, v.Person.ID)
	return v, err
}

// Verify gives the second factor, a code of the app or a recovery code, and returns the cookie of a new session that is
// whole; the one that was not is gone. It fails with [ErrWrongCode] or [ErrTooMany].
func (s *Service) Verify(ctx context.Context, v Visitor, code string, from From) (string, error) {
	if err := s.CheckCode(ctx, v.Person, code, ""); err != nil {
		return "", err
	}
	return s.open(ctx, v.Person.ID, Session{Whole: true, Strong: true}, from, func(ctx context.Context, tx *sqldb.Tx) {
		tx.Queue(ctx, deleteSession, v.Person.ID, v.Session.ID)
	})
}

// CheckCode takes a code of a person's authenticator app, or a recovery code. Each is good once; a code of the app also for
// the same purpose again, which is the key of a form, or "" for none. It fails with [ErrWrongCode], [ErrTooMany] or
// [ErrNoTOTP].
func (s *Service) CheckCode(ctx context.Context, p Person, code, purpose string) error {
	if !p.HasTOTP {
		return ErrNoTOTP
	}
	if err := s.count(ctx, map[string]int64{codeSource(p.ID): codeTries}); err != nil {
		return err
	}
	code = strings.ToLower(strings.NewReplacer(" ", "", "-", "").Replace(code))
	if code == "" || len(code) > codeMax {
		return ErrWrongCode
	}
	secret, who, err := s.secret(ctx, p.ID)
	if err != nil {
		return err
	}
	if !who.hasTOTP {
		return ErrNoTOTP
	}
	step, isCode := totp.Match(secret, code, s.Clock.Real())
	if purpose == "" {
		purpose = s.IDs.New().String() // nobody else's: only a second run of this very transaction has it
	}
	return s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if isCode {
			tx.Guard(ctx, ErrWrongCode, takeStep, step, purpose, p.ID)
		} else {
			tx.Guard(ctx, ErrWrongCode, takeRecovery, p.ID, hashOf(code))
		}
		tx.Queue(ctx, forgetTries, codeSource(p.ID))
		return nil
	})
}

// secret returns the secret of a person's app, confirmed or not.
func (s *Service) secret(ctx context.Context, person id.ID) ([]byte, secrets, error) {
	who, err := sqldb.One(ctx, s.DB, scanSecrets, selectOwnProofs, person)
	if err != nil {
		return nil, who, found(err, ErrNotFound)
	}
	if who.totp == nil {
		return nil, who, ErrNoTOTP
	}
	ring, err := s.Ring(ctx)
	if err != nil {
		return nil, who, err
	}
	secret, err := ring.Open(who.totp, totpPlace(person))
	return secret, who, err
}

// totpPlace is what the secret of an app is sealed for.
func totpPlace(person id.ID) string { return "person " + person.String() + " totp" }

// SignOut ends a session of a person.
func (s *Service) SignOut(ctx context.Context, person, session id.ID) error {
	return s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.Queue(ctx, deleteSession, person, session)
		return nil
	})
}

// SignOutOthers ends every session of a person but one.
func (s *Service) SignOutOthers(ctx context.Context, person, but id.ID) error {
	return s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.Queue(ctx, deleteOthers, person, but)
		return nil
	})
}

// Sessions returns a person's sessions, the latest first.
func (s *Service) Sessions(ctx context.Context, person id.ID) ([]Session, error) {
	return sqldb.All(ctx, s.DB, scanSession, listSessions, person, s.Clock.Real().UnixMicro(), sessionsMax)
}
