// Package user knows the people who use the dashboard: how they come in, how they prove who they are, and what each may do
// in which account. Nothing that it stores lets its reader sign in.
package user

import (
	"net/mail"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/id"
)

// Role is what a person is in an account.
type Role string

const (
	Owner     Role = "owner"     // may do everything, and says who else is in
	Finance   Role = "finance"   // moves money and answers infractions
	Developer Role = "developer" // connects programs: keys, endpoints, events
	Viewer    Role = "viewer"    // looks
)

// Roles are all roles, in the order in which people see them.
var Roles = []Role{Owner, Finance, Developer, Viewer}

// ParseRole reads a role.
func ParseRole(s string) (Role, error) {
	if !slices.Contains(Roles, Role(s)) {
		return "", fault.New(fault.Invalid, "role_unknown", "a role is owner, finance, developer or viewer")
	}
	return Role(s), nil
}

// Permission is something that a role may do in its account.
type Permission string

const (
	View   Permission = "view"   // see balances, lists and details, and download statements
	Charge Permission = "charge" // ask for money: Pix and crypto charges
	Pay    Permission = "pay"    // send money: Pix payouts and crypto withdrawals, each with a code of the authenticator app
	Defend Permission = "defend" // answer an infraction
	Hooks  Permission = "hooks"  // register and change webhook endpoints, send events again
	Keys   Permission = "keys"   // make and revoke API keys, which may do whatever the API can
	Team   Permission = "team"   // invite, change and remove people
)

// Permissions are all of them, in the order in which people see them.
var Permissions = []Permission{View, Charge, Pay, Defend, Hooks, Keys, Team}

// grants is the one table of who may do what. docs/dashboard.md shows it; a test keeps them equal.
var grants = map[Permission][]Role{
	View:   {Owner, Finance, Developer, Viewer},
	Charge: {Owner, Finance, Developer},
	Pay:    {Owner, Finance},
	Defend: {Owner, Finance},
	Hooks:  {Owner, Developer},
	Keys:   {Owner, Developer},
	Team:   {Owner},
}

// May reports whether the role has a permission.
func (r Role) May(p Permission) bool { return slices.Contains(grants[p], r) }

// Person is somebody who can sign in.
type Person struct {
	ID        id.ID
	Email     string // in lower case
	Name      string
	Operator  bool // may use the operator's pages
	HasTOTP   bool // has an authenticator app
	CreatedAt time.Time
}

// Membership is a person's role in an account.
type Membership struct {
	Account id.Account
	Name    string // the account's
	Role    Role
}

// Member is a person in an account.
type Member struct {
	Person Person
	Role   Role
	Since  time.Time
}

// Session is a browser that a person has signed in with.
type Session struct {
	ID        id.ID
	Whole     bool // the second factor was given, or is not needed
	Strong    bool // the second factor was given
	CreatedAt time.Time
	SeenAt    time.Time // to the minute
	Address   string    // where it was opened from
	Agent     string    // what the browser called itself
}

// Visitor is who makes a request.
type Visitor struct {
	Session     Session
	Person      Person
	Memberships []Membership // by the names of their accounts
}

// Kind is what a one-time link is for.
type Kind string

const (
	KindInvite Kind = "invite" // to come in
	KindReset  Kind = "reset"  // to choose a new password, when the old one or the authenticator app is lost
)

// Invitation is a one-time link.
type Invitation struct {
	ID        id.ID
	Kind      Kind
	Email     string     // whom it is for; "" for whoever opens it
	Operator  bool       // it makes an operator
	Account   id.Account // it makes a member of this account; 0 for none
	Role      Role       // of that member
	ExpiresAt time.Time
}

// Real times of what is good for a while only.
const (
	InvitationTime = 72 * time.Hour
	IdleTime       = time.Hour        // of a session that nobody uses
	SessionTime    = 12 * time.Hour   // of any session
	halfTime       = 10 * time.Minute // to give the second factor
	seenEvery      = time.Minute      // how exactly it is known when a session was used
	freshTime      = 15 * time.Minute // of a session that may set up an authenticator app
)

// Limits of what people write.
const (
	PasswordMin   = 10
	PasswordMax   = 128
	NameMax       = 100
	EmailMax      = 200
	agentMax      = 300
	tokenMax      = 100
	codeMax       = 32
	membershipMax = 200 // accounts of one person
	MembersMax    = 200 // people of one account
	sessionsMax   = 50  // of one person that are listed
	openMax       = 100 // invitations of one account at once
	ListMax       = 200 // people that one call lists
)

// Why something is not done. Each has a code, by which the dashboard finds the words.
var (
	ErrWrong     = fault.New(fault.Unauthenticated, "sign_in_wrong", "the e-mail or the password is wrong")
	ErrWrongCode = fault.New(fault.Unauthenticated, "code_wrong", "the code is wrong or was used before; wait for the next one")
	ErrTooMany   = &fault.Error{Kind: fault.RateLimited, Code: "sign_in_too_many", Public: "too many tries; wait a quarter of an hour", RetryAfter: triesWindow}
	ErrNoSession = fault.New(fault.Unauthenticated, "signed_out", "sign in first")
	ErrLink      = fault.New(fault.NotFound, "link_unknown", "the link was used, has expired or never existed; ask for a new one")
	ErrNotFound  = fault.New(fault.NotFound, "person_unknown", "there is no such person")
	ErrLastOwner = fault.New(fault.Conflict, "last_owner", "an account needs an owner; make somebody else one first")
	ErrNoTOTP    = fault.New(fault.Forbidden, "totp_missing", "set up an authenticator app first")
	ErrHasTOTP   = fault.New(fault.Conflict, "totp_exists", "there is an authenticator app already; remove it first")
	ErrOld       = fault.New(fault.Forbidden, "session_old", "sign in again first: the app is what payouts are confirmed with")
	ErrBusy      = fault.New(fault.Unavailable, "sign_in_busy", "too many people are signing in; try again in a moment")
	ErrWrongUser = fault.New(fault.Forbidden, "link_of_another", "the link is for another e-mail; sign in with that one")
	ErrMember    = fault.New(fault.Conflict, "member_exists", "this person is in the account already: change their role there")
	ErrTooOpen   = fault.New(fault.Conflict, "invitations_many", "too many invitations are open; wait until some have expired")
)

// invalid names the field that is wrong.
func invalid(field, code, public string) error {
	return &fault.Error{Kind: fault.Invalid, Code: code, Public: public, Issues: []fault.Issue{{Path: field, Message: public}}}
}

// cleanEmail returns an address in the one form in which it is stored.
func cleanEmail(s string) (string, error) {
	s = strings.ToLower(strings.TrimSpace(s))
	parsed, err := mail.ParseAddress(s)
	if err != nil || parsed.Address != s || len(s) > EmailMax || strings.ContainsFunc(s, unicode.IsControl) {
		return "", invalid("email", "email_wrong", "write an e-mail address")
	}
	return s, nil
}

func cleanName(s string) (string, error) {
	s = strings.TrimSpace(s)
	if s == "" || utf8.RuneCountInString(s) > NameMax || strings.ContainsFunc(s, unicode.IsControl) || !utf8.ValidString(s) {
		return "", invalid("name", "name_wrong", "write a name of at most 100 characters")
	}
	return s, nil
}

// checkPassword refuses what is guessed first. Length is what counts; a mix of signs is not asked for.
func checkPassword(password, email string) error {
	local, _, _ := strings.Cut(email, "@")
	lower := strings.ToLower(password)
	switch n := utf8.RuneCountInString(password); {
	case n < PasswordMin || len(password) > PasswordMax || !utf8.ValidString(password):
		return invalid("password", "password_length", "a password has 10 to 128 characters")
	case len(local) > 2 && strings.Contains(lower, local), strings.Contains(lower, "password"), strings.Contains(lower, "1234567890"),
		strings.Count(password, password[:1]) == len(password):
		return invalid("password", "password_weak", "choose a password that is harder to guess")
	}
	return nil
}
