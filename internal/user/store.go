package user

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// Statements on people.
const (
	personColumns = `person.id, person.email, person.name, person.operator, person.totp IS NOT NULL, person.created_at`

	insertPerson = `INSERT INTO person (id, email, name, password, operator, totp_step, totp_for, created_at) VALUES ($1, $2, $3, $4, $5, 0, '', $6)
ON CONFLICT (email) DO NOTHING`
	selectPerson        = `SELECT ` + personColumns + ` FROM person WHERE id = $1`
	selectPersonByEmail = `SELECT ` + personColumns + ` FROM person WHERE email = $1`
	selectProofs        = `SELECT id, password, COALESCE(totp, totp_next), totp IS NOT NULL FROM person WHERE email = $1`
	selectOwnProofs     = `SELECT id, password, COALESCE(totp, totp_next), totp IS NOT NULL FROM person WHERE id = $1`
	listPeople          = `SELECT ` + personColumns + ` FROM person WHERE email > $1 ORDER BY email LIMIT $2`
	selectAnyOperator   = `SELECT 1 FROM person WHERE operator LIMIT 1`

	updatePassword = `UPDATE person SET password = $1 WHERE id = $2`
	updateOperator = `UPDATE person SET operator = $1 WHERE id = $2`
	updateReset    = `UPDATE person SET password = $1, totp = NULL, totp_next = NULL WHERE id = $2`
	deletePerson   = `DELETE FROM person WHERE id = $1`

	updateNextTOTP = `UPDATE person SET totp_next = $1 WHERE id = $2 AND totp IS NULL`
	// The secret that was confirmed, unless another one was drawn meanwhile.
	updateTOTP = `UPDATE person SET totp = totp_next, totp_next = NULL, totp_step = $1, totp_for = '' WHERE id = $2 AND totp IS NULL AND totp_next = $3`
	dropTOTP   = `UPDATE person SET totp = NULL, totp_next = NULL WHERE id = $1`
	// Each code is good once.
	// But what it was given for may be asked for twice: a form that is sent twice makes one thing.
	takeStep = `UPDATE person SET totp_step = $1, totp_for = $2 WHERE id = $3 AND (totp_step < $1 OR (totp_step = $1 AND totp_for = $2 AND totp_for <> ''))`

	insertRecovery  = `INSERT INTO recovery_code (person_id, hash) VALUES ($1, $2)`
	takeRecovery    = `DELETE FROM recovery_code WHERE person_id = $1 AND hash = $2`
	dropRecovery    = `DELETE FROM recovery_code WHERE person_id = $1`
	countRecovery   = `SELECT COUNT(*) FROM recovery_code WHERE person_id = $1 AND hash = $2`
	countRecoveries = `SELECT COUNT(*) FROM recovery_code WHERE person_id = $1`
)

// Statements on members and invitations.
const (
	upsertMember = `INSERT INTO member (account_id, person_id, role, created_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (account_id, person_id) DO UPDATE SET role = excluded.role`
	updateMember      = `UPDATE member SET role = $1 WHERE account_id = $2 AND person_id = $3`
	deleteMember      = `DELETE FROM member WHERE account_id = $1 AND person_id = $2`
	deleteMemberships = `DELETE FROM member WHERE person_id = $1`
	countSameRole     = `SELECT COUNT(*) FROM member WHERE account_id = $1 AND person_id = $2 AND role = $3`
	lockOwners        = `SELECT person_id FROM member WHERE account_id = $1 AND role = 'owner' ORDER BY person_id LIMIT $2 FOR NO KEY UPDATE`
	listMemberships   = `SELECT member.account_id, account.name, member.role FROM member JOIN account ON account.id = member.account_id
WHERE member.person_id = $1 ORDER BY account.name, account.id LIMIT $2`
	listMembers = `SELECT ` + personColumns + `, member.role, member.created_at FROM member JOIN person ON person.id = member.person_id
WHERE member.account_id = $1 ORDER BY person.email LIMIT $2`

	invitationColumns = `id, kind, email, operator, COALESCE(account_id, 0), COALESCE(role, ''), expires_at`

	insertInvitation = `INSERT INTO invitation (hash, id, kind, email, operator, account_id, role, expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (hash) DO NOTHING`
	selectInvitation = `SELECT ` + invitationColumns + ` FROM invitation WHERE hash = $1`
	takeInvitation   = `DELETE FROM invitation WHERE hash = $1 AND expires_at > $2`
	listInvitations  = `SELECT ` + invitationColumns + ` FROM invitation WHERE account_id = $1 AND expires_at > $2 ORDER BY expires_at DESC LIMIT $3`
	// Those for whoever opens them are one: they are printed where many can read them.
	replaceInvitation  = `DELETE FROM invitation WHERE email = $1 AND kind = $2 AND operator = $3 AND (COALESCE(account_id, 0) = $4 OR email = '')`
	withdrawInvitation = `DELETE FROM invitation WHERE account_id = $1 AND id = $2`
	revokeInvitations  = `DELETE FROM invitation WHERE account_id = $1 AND email = $2`
	revokeAll          = `DELETE FROM invitation WHERE email = $1`
)

// Statements on sessions and tries.
const (
	sessionColumns = `session.id, session.whole, session.strong, session.created_at, session.seen_at, session.address, session.agent`

	insertSession = `INSERT INTO session (id, hash, person_id, whole, strong, created_at, seen_at, expires_at, address, agent)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (hash) DO NOTHING`
	selectVisitor = `SELECT ` + sessionColumns + `, ` + personColumns + ` FROM session JOIN person ON person.id = session.person_id
WHERE session.hash = $1 AND session.expires_at > $2`
	touchSession       = `UPDATE session SET seen_at = $1, expires_at = $2 WHERE id = $3 AND seen_at < $1`
	strengthenSession  = `UPDATE session SET whole = TRUE, strong = TRUE WHERE id = $1`
	weakenSessions     = `UPDATE session SET strong = FALSE WHERE person_id = $1`
	listSessions       = `SELECT ` + sessionColumns + ` FROM session WHERE person_id = $1 AND whole AND expires_at > $2 ORDER BY id DESC LIMIT $3`
	deleteSession      = `DELETE FROM session WHERE person_id = $1 AND id = $2`
	deleteSessions     = `DELETE FROM session WHERE person_id = $1`
	deleteOthers       = `DELETE FROM session WHERE person_id = $1 AND id <> $2`
	findOldSessions    = `SELECT id FROM session WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2`
	deleteOldSession   = `DELETE FROM session WHERE id = $1 AND expires_at <= $2`
	findOldInvitations = `SELECT hash FROM invitation WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2`
	deleteInvitation   = `DELETE FROM invitation WHERE hash = $1 AND expires_at <= $2`

	// A window that is over begins anew.
	countTry = `INSERT INTO sign_in_try (source, tries, since_at) VALUES ($1, 1, $2)
ON CONFLICT (source) DO UPDATE SET tries = CASE WHEN sign_in_try.since_at <= $3 THEN 1 ELSE sign_in_try.tries + 1 END,
since_at = CASE WHEN sign_in_try.since_at <= $3 THEN excluded.since_at ELSE sign_in_try.since_at END RETURNING tries`
	forgetTries  = `DELETE FROM sign_in_try WHERE source = $1`
	findOldTries = `SELECT source FROM sign_in_try WHERE since_at <= $1 ORDER BY since_at LIMIT $2`
	deleteTries  = `DELETE FROM sign_in_try WHERE source = $1 AND since_at <= $2`
)

// scanInto scans into p the columns of a person, behind some others.
func scanInto(r sqldb.Row, p *Person, before []any, after ...any) error {
	var created int64
	dest := slices.Concat(before, []any{&p.ID, &p.Email, &p.Name, &p.Operator, &p.HasTOTP, &created})
	err := r.Scan(append(dest, after...)...)
	p.CreatedAt = time.UnixMicro(created).UTC()
	return err
}

func scanPerson(r sqldb.Row) (p Person, err error) {
	err = scanInto(r, &p, nil)
	return p, err
}

func scanMember(r sqldb.Row) (m Member, err error) {
	var role string
	var since int64
	err = scanInto(r, &m.Person, nil, &role, &since)
	m.Role, m.Since = Role(role), time.UnixMicro(since).UTC()
	return m, err
}

func scanMembership(r sqldb.Row) (m Membership, err error) {
	var account int64
	var role string
	err = r.Scan(&account, &m.Name, &role)
	m.Account, m.Role = id.Account(account), Role(role)
	return m, err
}

// secrets are what a person proves themselves with.
type secrets struct {
	person   id.ID
	password string
	totp     []byte // sealed; not confirmed yet unless hasTOTP
	hasTOTP  bool
}

func scanSecrets(r sqldb.Row) (s secrets, err error) {
	err = r.Scan(&s.person, &s.password, &s.totp, &s.hasTOTP)
	return s, err
}

func scanSession(r sqldb.Row) (s Session, err error) {
	var created, seen int64
	err = r.Scan(&s.ID, &s.Whole, &s.Strong, &created, &seen, &s.Address, &s.Agent)
	s.CreatedAt, s.SeenAt = time.UnixMicro(created).UTC(), time.UnixMicro(seen).UTC()
	return s, err
}

func scanVisitor(r sqldb.Row) (v Visitor, err error) {
	var created, seen int64
	s := &v.Session
	err = scanInto(r, &v.Person, []any{&s.ID, &s.Whole, &s.Strong, &created, &seen, &s.Address, &s.Agent})
	s.CreatedAt, s.SeenAt = time.UnixMicro(created).UTC(), time.UnixMicro(seen).UTC()
	return v, err
}

func scanInvitation(r sqldb.Row) (i Invitation, err error) {
	var kind, role string
	var account, expires int64
	err = r.Scan(&i.ID, &kind, &i.Email, &i.Operator, &account, &role, &expires)
	i.Kind, i.Role, i.Account, i.ExpiresAt = Kind(kind), Role(role), id.Account(account), time.UnixMicro(expires).UTC()
	return i, err
}

// found returns err, with missing for no rows.
func found(err, missing error) error {
	if errors.Is(err, sqldb.ErrNoRows) {
		return missing
	}
	return err
}

// addMember stores a role, or changes it. The last owner stays one.
func addMember(ctx context.Context, tx *sqldb.Tx, account id.Account, person id.ID, role Role, now time.Time) error {
	if role != Owner {
		if err := keepOwner(ctx, tx, account, person); err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, upsertMember, int64(account), person, string(role), now.UnixMicro())
	return err
}

// keepOwner refuses to let the last owner go. Owners are locked, so that two of them cannot remove each other.
func keepOwner(ctx context.Context, tx *sqldb.Tx, account id.Account, leaving id.ID) error {
	owners, err := sqldb.All(ctx, tx, sqldb.Scalar[id.ID], lockOwners, int64(account), MembersMax)
	if err != nil {
		return err
	}
	if len(owners) == 1 && owners[0] == leaving {
		return ErrLastOwner
	}
	return nil
}
