package user

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/totp"
)

// ChangePassword changes the password of who knows the old one, and ends their other sessions.
func (s *Service) ChangePassword(ctx context.Context, v Visitor, old, next string) error {
	if err := s.checkOld(ctx, v.Person, old); err != nil {
		return err
	}
	if err := checkPassword(next, v.Person.Email); err != nil {
		return err
	}
	hash, err := s.passwords.create(ctx, next, s.Random)
	if err != nil {
		return err
	}
	return s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.Guard(ctx, ErrNotFound, updatePassword, hash, v.Person.ID)
		tx.Queue(ctx, deleteOthers, v.Person.ID, v.Session.ID)
		return nil
	})
}

// checkOld makes who is signed in prove once more that they know the password: a browser may have been left alone.
func (s *Service) checkOld(ctx context.Context, p Person, password string) error {
	if err := s.count(ctx, map[string]int64{personSource(p.Email): personTries}); err != nil {
		return err
	}
	who, err := sqldb.One(ctx, s.DB, scanSecrets, selectOwnProofs, p.ID)
	if err != nil {
		return found(err, ErrNotFound)
	}
	right, err := s.passwords.check(ctx, password, who.password)
	if err != nil {
		return err
	}
	if !right {
		return invalid("old", "password_old_wrong", "the present password is wrong")
	}
	return s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.Queue(ctx, forgetTries, personSource(p.Email))
		return nil
	})
}

// Prove makes who is signed in prove once more who they are, before they give power to others: by a code of the
// authenticator app, or by the password where they have none. A browser that was left alone, or a cookie that was stolen, is
// not enough then. purpose is that of [Service.CheckCode], whose errors it has, and that of a wrong password.
func (s *Service) Prove(ctx context.Context, p Person, proof, purpose string) error {
	if p.HasTOTP {
		return s.CheckCode(ctx, p, proof, purpose)
	}
	return s.checkOld(ctx, p, proof)
}

// PrepareTOTP returns a new secret for an authenticator app, good from the moment that [Service.EnableTOTP] is given a code
// of it. One that was not confirmed is shown again, so that a page that is loaded twice shows one secret.
func (s *Service) PrepareTOTP(ctx context.Context, p Person) ([]byte, error) {
	secret, who, err := s.secret(ctx, p.ID)
	switch {
	case err == nil && who.hasTOTP:
		return nil, ErrHasTOTP
	case err == nil:
		return secret, nil
	case who.totp != nil || who.person.IsZero():
		return nil, err
	}
	secret = make([]byte, totp.SecretBytes)
	if _, err := io.ReadFull(s.Random, secret); err != nil {
		return nil, err
	}
	ring, err := s.Ring(ctx)
	if err != nil {
		return nil, err
	}
	sealed, err := ring.Seal(s.Random, secret, totpPlace(p.ID))
	if err != nil {
		return nil, err
	}
	return secret, s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.Guard(ctx, ErrHasTOTP, updateNextTOTP, sealed, p.ID)
		return nil
	})
}

// IsFresh reports whether the password was given just now. Only then may a person see the secret of a new app and set it up:
// a cookie that was stolen must not be enough to get what payouts are confirmed with.
func (s *Service) IsFresh(v Visitor) bool { return s.Clock.Real().Sub(v.Session.CreatedAt) < freshTime }

// EnableTOTP turns the second factor on, once a code proves that the app has the secret, and returns recovery codes, which
// are never shown again: only the same form, named by once, is answered with the same codes, so that a form that was sent
// twice, or whose COMMIT nobody answered, does not lose them. The session, which has to be fresh, has given its second factor
// with that; the person's others end.
func (s *Service) EnableTOTP(ctx context.Context, v Visitor, code, once string) ([]string, error) {
	if !s.IsFresh(v) {
		return nil, ErrOld
	}
	if err := s.count(ctx, map[string]int64{codeSource(v.Person.ID): codeTries}); err != nil {
		return nil, err
	}
	secret, who, err := s.secret(ctx, v.Person.ID)
	if err != nil {
		return nil, err
	}
	step, ok := totp.Match(secret, strings.ReplaceAll(code, " ", ""), s.Clock.Real())
	if !ok {
		return nil, ErrWrongCode
	}
	codes := recoveryCodesOf(secret, once)
	err = s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		n, err := tx.Exec(ctx, updateTOTP, step, v.Person.ID, who.totp)
		if err != nil {
			return err
		}
		tx.Queue(ctx, forgetTries, codeSource(v.Person.ID))
		if n == 0 {
			return expectRecovery(ctx, tx, v.Person, codes)
		}
		tx.Queue(ctx, dropRecovery, v.Person.ID)
		for _, c := range codes {
			tx.Queue(ctx, insertRecovery, v.Person.ID, hashRecovery(c))
		}
		tx.Queue(ctx, strengthenSession, v.Session.ID)
		tx.Queue(ctx, deleteOthers, v.Person.ID, v.Session.ID)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return codes, nil
}

// expectRecovery returns nil when these very codes are stored, by the same form, and otherwise says that another app is.
func expectRecovery(ctx context.Context, tx *sqldb.Tx, p Person, codes []string) error {
	for _, c := range codes {
		n, err := sqldb.One(ctx, tx, sqldb.Scalar[int64], countRecovery, p.ID, hashRecovery(c))
		if err != nil {
			return err
		}
		if n == 0 {
			return ErrHasTOTP
		}
	}
	return nil
}

// DisableTOTP turns the second factor off, for who gives the password and a code.
func (s *Service) DisableTOTP(ctx context.Context, v Visitor, password, code string) error {
	if err := s.checkOld(ctx, v.Person, password); err != nil {
		return err
	}
	if err := s.CheckCode(ctx, v.Person, code, ""); err != nil {
		return err
	}
	return s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.Queue(ctx, dropTOTP, v.Person.ID)
		tx.Queue(ctx, weakenSessions, v.Person.ID) // what asks for a second factor is closed again
		tx.Queue(ctx, dropRecovery, v.Person.ID)
		return nil
	})
}

// CountRecoveryCodes returns how many recovery codes a person has left.
func (s *Service) CountRecoveryCodes(ctx context.Context, p Person) (int64, error) {
	return sqldb.One(ctx, s.DB, sqldb.Scalar[int64], countRecoveries, p.ID)
}

const recoveryBytes = 10 // 80 bits: 16 characters

// recoveryCodesOf returns codes such as abcd-efgh-ijkl-mnop. They follow from the secret of the app and the name of the form,
// which is stored nowhere: whoever has only one of them has no code.
func recoveryCodesOf(secret []byte, once string) []string {
	codes := make([]string, recoveryCodes)
	for i := range codes {
		mac := hmac.New(sha256.New, secret)
		fmt.Fprintf(mac, "recovery code %d %s", i, once)
		text := strings.ToLower(base32.StdEncoding.EncodeToString(mac.Sum(nil)[:recoveryBytes]))
		codes[i] = text[:4] + "-" + text[4:8] + "-" + text[8:12] + "-" + text[12:]
	}
	return codes
}

// hashRecovery returns what is stored of a recovery code.
func hashRecovery(code string) []byte { return hashOf(strings.ReplaceAll(code, "-", "")) }

// sorted returns the keys of a map in order, so that two transactions lock the same rows in the same order.
func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
