package user

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"slices"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/oplog"
	"github.com/ponte-pay/ponte/internal/seal"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// Services are what people stand on.
type Services struct {
	DB     *sqldb.DB
	Clock  *clock.Clock // real time: people's patience does not move with the simulators
	IDs    *id.Generator
	Random io.Reader
	Ring   func(context.Context) (*seal.Ring, error) // seals the secrets of authenticator apps
	Cost   Cost                                      // of a password; the zero Cost means [DefaultCost]
}

// Service knows people.
type Service struct {
	Services
	passwords *hasher
}

// New returns the service.
func New(s Services) *Service {
	if s.Cost == (Cost{}) {
		s.Cost = DefaultCost
	}
	return &Service{Services: s, passwords: newHasher(s.Cost)}
}

const tokenBytes = 32

// token draws a secret for a link or a cookie, and returns it with what is stored of it.
func (s *Service) token() (text string, hash []byte) {
	b := make([]byte, tokenBytes)
	if _, err := io.ReadFull(s.Random, b); err != nil {
		panic("user: no randomness: " + err.Error())
	}
	text = base64.RawURLEncoding.EncodeToString(b)
	return text, hashOf(text)
}

// hashOf returns what is stored of a secret. It is long and random, so that one round of SHA-256 is enough.
func hashOf(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:]
}

// Invite stores an invitation and returns what its link ends in, which is never shown again.
func (s *Service) Invite(ctx context.Context, i Invitation) (string, error) {
	var err error
	if i.Email != "" {
		if i.Email, err = cleanEmail(i.Email); err != nil {
			return "", err
		}
	}
	if i.Account != 0 {
		if i.Role, err = ParseRole(string(i.Role)); err != nil {
			return "", err
		}
		if err := s.permitInvitation(ctx, i); err != nil {
			return "", err
		}
	} else if !i.Operator {
		return "", fault.New(fault.Invalid, "invitation_empty", "an invitation is into an account, or makes an operator")
	}
	i.Kind = KindInvite
	return s.invite(ctx, i)
}

// permitInvitation refuses one into an account for somebody who is in it, and one too many.
func (s *Service) permitInvitation(ctx context.Context, i Invitation) error {
	if i.Email != "" && !i.Operator {
		members, err := s.Members(ctx, i.Account)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(members, func(m Member) bool { return m.Person.Email == i.Email }) {
			return ErrMember
		}
	}
	open, err := s.Invitations(ctx, i.Account)
	if err == nil && len(open) >= openMax {
		err = ErrTooOpen
	}
	return err
}

func (s *Service) invite(ctx context.Context, i Invitation) (string, error) {
	text, hash := s.token()
	i.ID, i.ExpiresAt = s.IDs.New(), s.Clock.Real().Add(InvitationTime)
	var account, role any
	if i.Account != 0 {
		account, role = int64(i.Account), string(i.Role)
	}
	what, after := oplog.PersonInvite, oplog.Fields{"role": string(i.Role)}
	switch {
	case i.Kind == KindReset:
		what, after = oplog.PersonReset, nil
	case i.Operator:
		after["operator"] = "yes"
	}
	entry := oplog.Begin(ctx, s.IDs, oplog.Entry{Action: what, Account: i.Account, Subject: i.Email, After: after})
	err := s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		entry.Write(ctx, tx)
		// The last one counts, so that a form that is sent twice, or a server that starts again, leaves one link that opens.
		tx.Queue(ctx, replaceInvitation, i.Email, string(i.Kind), i.Operator, int64(i.Account))
		_, err := tx.Exec(ctx, insertInvitation, hash, i.ID, string(i.Kind), i.Email, i.Operator, account, role, i.ExpiresAt.UnixMicro())
		return err
	})
	return text, err
}

// Reset returns what the link ends in by which a person chooses a new password. Their authenticator app and their sessions
// end when it is used.
func (s *Service) Reset(ctx context.Context, email string) (string, error) {
	p, err := s.Find(ctx, email)
	if err != nil {
		return "", err
	}
	return s.invite(ctx, Invitation{Kind: KindReset, Email: p.Email})
}

// Find returns a person by e-mail.
func (s *Service) Find(ctx context.Context, email string) (Person, error) {
	email, err := cleanEmail(email)
	if err != nil {
		return Person{}, err
	}
	p, err := sqldb.One(ctx, s.DB, scanPerson, selectPersonByEmail, email)
	return p, found(err, ErrNotFound)
}

// Invitation returns what a link is for, and whether whom it is for can sign in already. It fails with [ErrLink].
func (s *Service) Invitation(ctx context.Context, token string) (i Invitation, known bool, err error) {
	if len(token) > tokenMax {
		return i, false, ErrLink
	}
	i, err = sqldb.One(ctx, s.DB, scanInvitation, selectInvitation, hashOf(token))
	if err != nil {
		return i, false, found(err, ErrLink)
	}
	if !s.Clock.Real().Before(i.ExpiresAt) {
		return i, false, ErrLink
	}
	_, err = sqldb.One(ctx, s.DB, scanPerson, selectPersonByEmail, i.Email)
	known = err == nil
	if errors.Is(err, sqldb.ErrNoRows) {
		err = nil
	}
	return i, known, err
}

// Acceptance is what a person says who opens a link.
type Acceptance struct {
	Email    string // where the invitation names none
	Name     string // of somebody who is new
	Password string
}

// Accept uses a link up: somebody new comes in, or somebody known chooses a new password. Who is invited and can sign in
// already uses [Service.Join] instead.
func (s *Service) Accept(ctx context.Context, token string, a Acceptance) error {
	i, known, err := s.Invitation(ctx, token)
	if err != nil {
		return err
	}
	if i.Email == "" {
		if i.Email, err = cleanEmail(a.Email); err != nil {
			return err
		}
	}
	if err := checkPassword(a.Password, i.Email); err != nil {
		return err
	}
	name := ""
	if i.Kind == KindInvite {
		if name, err = cleanName(a.Name); err != nil {
			return err
		}
		if known {
			return ErrWrongUser // who they are is proven by signing in
		}
	}
	hash, err := s.passwords.create(ctx, a.Password, s.Random)
	if err != nil {
		return err
	}
	p := Person{ID: s.IDs.New(), Email: i.Email, Name: name, Operator: i.Operator, CreatedAt: s.Clock.Real()}
	entry := s.joined(ctx, i, p)
	return s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if i.Kind == KindReset {
			return s.reset(ctx, tx, token, i.Email, hash)
		}
		n, err := tx.Exec(ctx, insertPerson, p.ID, p.Email, p.Name, hash, p.Operator, p.CreatedAt.UnixMicro())
		switch {
		case err != nil:
			return err
		case n == 0:
			return s.expect(ctx, tx, p)
		}
		if err := s.take(ctx, tx, token); err != nil {
			return err
		}
		entry.Write(ctx, tx)
		if i.Account == 0 {
			return nil
		}
		return addMember(ctx, tx, i.Account, p.ID, i.Role, p.CreatedAt)
	})
}

// expect returns nil when the person is stored, by an earlier run, and otherwise says that the e-mail is somebody else's.
func (s *Service) expect(ctx context.Context, tx *sqldb.Tx, p Person) error {
	stored, err := sqldb.One(ctx, tx, scanPerson, selectPersonByEmail, p.Email)
	if err == nil && stored.ID != p.ID {
		err = ErrWrongUser
	}
	return err
}

// take uses a link up.
func (s *Service) take(ctx context.Context, tx *sqldb.Tx, token string) error {
	n, err := tx.Exec(ctx, takeInvitation, hashOf(token), s.Clock.Real().UnixMicro())
	if err == nil && n == 0 {
		err = ErrLink
	}
	return err
}

// reset gives a person a new password, and nothing of what they had to prove themselves with before. A run that finds the
// very hash has been here.
func (s *Service) reset(ctx context.Context, tx *sqldb.Tx, token, email, hash string) error {
	who, err := sqldb.One(ctx, tx, scanSecrets, selectProofs, email)
	if err != nil {
		return found(err, ErrLink)
	}
	if who.password == hash {
		return nil
	}
	if err := s.take(ctx, tx, token); err != nil {
		return err
	}
	tx.Queue(ctx, updateReset, hash, who.person)
	tx.Queue(ctx, dropRecovery, who.person)
	tx.Queue(ctx, deleteSessions, who.person)
	tx.Queue(ctx, forgetTries, personSource(email))
	return nil
}

// joined tells that a link was used: who came in by it, and as what.
func (s *Service) joined(ctx context.Context, i Invitation, p Person) *oplog.Entry {
	after := oplog.Fields{}
	if i.Role != "" {
		after["role"] = string(i.Role)
	}
	if i.Operator {
		after["operator"] = "yes"
	}
	ctx = oplog.As(ctx, oplog.Actor{Kind: oplog.Person, Name: p.Email})
	return oplog.Begin(ctx, s.IDs, oplog.Entry{Action: oplog.PersonJoin, Account: i.Account, Subject: p.Email, After: after})
}

// Join uses an invitation up for somebody who is signed in.
func (s *Service) Join(ctx context.Context, token string, p Person) error {
	i, _, err := s.Invitation(ctx, token)
	switch {
	case err != nil:
		return err
	case i.Kind != KindInvite:
		return ErrLink
	case i.Email != "" && i.Email != p.Email:
		return ErrWrongUser
	}
	now, entry := s.Clock.Real(), s.joined(ctx, i, p)
	return s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		// The role first: after a COMMIT that nobody answered the link is gone, and the role tells that it was used for this.
		var had int64
		if i.Account != 0 {
			var err error
			had, err = sqldb.One(ctx, tx, sqldb.Scalar[int64], countSameRole, int64(i.Account), p.ID, string(i.Role))
			if err != nil {
				return err
			}
			if err := addMember(ctx, tx, i.Account, p.ID, i.Role, now); err != nil {
				return err
			}
		}
		err := s.take(ctx, tx, token)
		switch {
		case errors.Is(err, ErrLink) && had > 0:
			return nil
		case err != nil:
			return err
		}
		entry.Write(ctx, tx)
		if i.Operator {
			tx.Queue(ctx, updateOperator, true, p.ID)
		}
		return nil
	})
}

// HasOperator reports whether anybody is an operator.
func (s *Service) HasOperator(ctx context.Context) (bool, error) {
	_, err := sqldb.One(ctx, s.DB, sqldb.Scalar[int64], selectAnyOperator)
	if errors.Is(err, sqldb.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// List returns people after an e-mail, in the order of their e-mails. The list ends with an empty page.
func (s *Service) List(ctx context.Context, after string) ([]Person, error) {
	return sqldb.All(ctx, s.DB, scanPerson, listPeople, after, ListMax)
}

// Memberships returns the accounts that a person is in.
func (s *Service) Memberships(ctx context.Context, person id.ID) ([]Membership, error) {
	return sqldb.All(ctx, s.DB, scanMembership, listMemberships, person, membershipMax)
}

// Remove forgets a person, and ends their sessions and every link that is for them.
func (s *Service) Remove(ctx context.Context, email string) (Person, error) {
	p, err := s.Find(ctx, email)
	if err != nil {
		return p, err
	}
	entry := oplog.Begin(ctx, s.IDs, oplog.Entry{Action: oplog.PersonRemove, Subject: p.Email, Before: oplog.Fields{"name": p.Name}})
	return p, s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		entry.Write(ctx, tx)
		for _, sql := range []string{deletePerson, deleteMemberships, deleteSessions, dropRecovery} {
			tx.Queue(ctx, sql, p.ID)
		}
		tx.Queue(ctx, revokeAll, p.Email) // no link brings them back
		return nil
	})
}

// Members returns the people of an account.
func (s *Service) Members(ctx context.Context, account id.Account) ([]Member, error) {
	return sqldb.All(ctx, s.DB, scanMember, listMembers, int64(account), MembersMax)
}

// Invitations returns the invitations into an account that can still be used.
func (s *Service) Invitations(ctx context.Context, account id.Account) ([]Invitation, error) {
	return sqldb.All(ctx, s.DB, scanInvitation, listInvitations, int64(account), s.Clock.Real().UnixMicro(), openMax)
}

// Withdraw makes an invitation into an account useless. It fails with [ErrLink] when the account has no such one.
func (s *Service) Withdraw(ctx context.Context, account id.Account, invitation id.ID) error {
	entry := oplog.Begin(ctx, s.IDs, oplog.Entry{Action: oplog.InvitationWithdraw, Account: account, Subject: invitation.String()})
	return s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		entry.Write(ctx, tx)
		tx.Guard(ctx, ErrLink, withdrawInvitation, int64(account), invitation)
		return nil
	})
}

// SetRole changes what somebody is in an account that they are in.
func (s *Service) SetRole(ctx context.Context, account id.Account, person id.ID, role Role) error {
	m, err := s.member(ctx, account, person)
	if err != nil {
		return err
	}
	entry := oplog.Begin(ctx, s.IDs, oplog.Entry{
		Action: oplog.PersonRole, Account: account, Subject: m.Person.Email,
		Before: oplog.Fields{"role": string(m.Role)}, After: oplog.Fields{"role": string(role)},
	})
	return s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if role != Owner {
			if err := keepOwner(ctx, tx, account, person); err != nil {
				return err
			}
		}
		entry.Write(ctx, tx)
		tx.Guard(ctx, ErrNotFound, updateMember, string(role), int64(account), person) // who was taken out meanwhile stays out
		return nil
	})
}

// Expel takes somebody out of an account.
func (s *Service) Expel(ctx context.Context, account id.Account, person id.ID) error {
	m, err := s.member(ctx, account, person)
	if err != nil {
		return err
	}
	entry := oplog.Begin(ctx, s.IDs, oplog.Entry{
		Action: oplog.PersonExpel, Account: account, Subject: m.Person.Email, Before: oplog.Fields{"role": string(m.Role)},
	})
	return s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := keepOwner(ctx, tx, account, person); err != nil {
			return err
		}
		entry.Write(ctx, tx)
		tx.Queue(ctx, deleteMember, int64(account), person)
		tx.Queue(ctx, revokeInvitations, int64(account), m.Person.Email) // no link brings them back
		return nil
	})
}

// member returns somebody who is in an account.
func (s *Service) member(ctx context.Context, account id.Account, person id.ID) (Member, error) {
	members, err := s.Members(ctx, account)
	if err != nil {
		return Member{}, err
	}
	for _, m := range members {
		if m.Person.ID == person {
			return m, nil
		}
	}
	return Member{}, ErrNotFound
}

// pruneMax is how many rows of each kind one Step deletes.
const pruneMax = 200

// Step deletes what has expired. It reports whether there may be more.
func (s *Service) Step(ctx context.Context) (did bool, err error) {
	now := s.Clock.Real()
	sessions, err := sqldb.All(ctx, s.DB, sqldb.Scalar[id.ID], findOldSessions, now.UnixMicro(), pruneMax)
	if err != nil {
		return false, err
	}
	links, err := sqldb.All(ctx, s.DB, sqldb.Scalar[[]byte], findOldInvitations, now.UnixMicro(), pruneMax)
	if err != nil {
		return false, err
	}
	tries, err := sqldb.All(ctx, s.DB, sqldb.Scalar[string], findOldTries, now.Add(-triesWindow).UnixMicro(), pruneMax)
	if err != nil || len(sessions)+len(links)+len(tries) == 0 {
		return false, err
	}
	return true, s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		for _, x := range sessions {
			tx.Queue(ctx, deleteOldSession, x, now.UnixMicro())
		}
		for _, x := range links {
			tx.Queue(ctx, deleteInvitation, x, now.UnixMicro())
		}
		for _, x := range tries {
			tx.Queue(ctx, deleteTries, x, now.Add(-triesWindow).UnixMicro())
		}
		return nil
	})
}
