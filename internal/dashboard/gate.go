package dashboard

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/httpkit"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/user"
)

// who says who may open a page.
type who int

const (
	nobody   who = iota // the zero rule: a route that forgot its rule is open to nobody
	anybody             // signed in or not
	halfway             // the password was given, the second factor may be missing
	person              // signed in
	member              // signed in and in the account that the path names, with a permission
	operator            // an operator who has given the second factor
)

// rule says who may open a route.
type rule struct {
	who who
	may user.Permission // of a member; "" otherwise
}

// members is the rule of routes below an account.
func members(may user.Permission) rule { return rule{member, may} }

// Why a page is not shown.
var (
	errForeign   = fault.New(fault.Forbidden, "cross_origin", "the form came from another site")
	errBlocked   = fault.New(fault.Forbidden, "ip_blocked", "your address is blocked")
	errForm      = fault.New(fault.Invalid, "form_broken", "the form could not be read")
	errRole      = fault.New(fault.Forbidden, "role_lacks", "your role does not allow this")
	errNoAccount = fault.New(fault.NotFound, "", "there is no such account")
	errLocked    = fault.New(fault.Locked, "account_locked", "the account is under review")
	errBanned    = fault.New(fault.Forbidden, "account_banned", "the account is closed")
	errDisabled  = fault.New(fault.Forbidden, "resource_disabled", "this is switched off for the account")
)

// detourError sends a visitor somewhere else first.
type detourError string

func (e detourError) Error() string { return "dashboard: see " + string(e) }

// serve passes the gate and calls the route.
func (d *Dashboard) serve(w http.ResponseWriter, r *http.Request, route *route) {
	v := d.visit(w, r)
	v.scope.Route = route.path
	var answer reply
	err := d.admit(v, route)
	if err == nil {
		answer, err = route.answer(d, v)
	}
	if err == nil {
		err = d.write(v, answer)
	}
	if err != nil {
		d.fail(v, err)
	}
}

// admit lets a visitor pass or says why not, in this order: an address that operators block, where the form comes from, who it is, the rule of the route, the
// state of the account, what is switched off there, and whether the form can be read.
func (d *Dashboard) admit(v *visit, route *route) error {
	if wait, blocked := d.Blocked(v.scope.Client); blocked && wait == 0 {
		return errBlocked
	}
	if d.foreign.Check(v.Request) != nil {
		return errForeign
	}
	if err := d.recognize(v); err != nil {
		return err
	}
	if err := d.allow(v, route); err != nil {
		return err
	}
	if v.isSafe() {
		return nil
	}
	v.Body = http.MaxBytesReader(v.w, v.Body, httpkit.BodyBytesMax)
	if err := v.ParseForm(); err != nil {
		return errForm
	}
	return nil
}

// recognize finds out who it is. A cookie that is none any more is nobody's.
func (d *Dashboard) recognize(v *visit) error {
	cookie, err := v.Cookie(v.cookieName(sessionCookie))
	if err != nil {
		return nil //nolint:nilerr // there is none
	}
	authenticate := d.Users.Authenticate
	if v.isSafe() && v.Header.Get(liveHeader) != "" {
		authenticate = d.Users.Look
	}
	who, err := authenticate(v.Context(), cookie.Value)
	if errors.Is(err, user.ErrNoSession) {
		v.setCookie(sessionCookie, "", -1)
		return nil
	}
	if err != nil {
		return err
	}
	v.who = &who
	return nil
}

// allow asks the rule of a route.
func (d *Dashboard) allow(v *visit, route *route) error {
	switch signedIn := v.who != nil; {
	case route.rule.who == anybody:
		return nil
	case route.rule.who == nobody:
		return errNoRoute
	case !signedIn:
		return v.signInFirst()
	case route.rule.who == halfway:
		return nil
	case !v.who.Session.Whole:
		return detourError(codePath)
	}
	switch route.rule.who {
	case member:
		return d.allowMember(v, route)
	case operator:
		if !v.who.Person.Operator {
			return errNoRoute
		}
		if !v.who.Session.Strong {
			return detourError(totpPath)
		}
	case person, nobody, anybody, halfway:
	}
	return nil
}

// allowMember finds the account and the role. An account that the visitor is not in is not there.
func (d *Dashboard) allowMember(v *visit, route *route) error {
	number, err := id.ParseAccount(v.PathValue("account"))
	if err != nil {
		return errNoAccount
	}
	for _, m := range v.who.Memberships {
		if m.Account == number {
			v.role = m.Role
		}
	}
	if v.role == "" {
		return errNoAccount
	}
	v.scope.Account = number
	found, err := d.Accounts.Get(v.Context(), number)
	if err != nil {
		return err
	}
	v.account = &found
	switch settings := found.Settings; {
	case !v.role.May(route.rule.may):
		return errRole
	case route.resource != 0 && settings.Disabled.Has(route.resource):
		return errDisabled
	case v.isSafe():
		return nil // what there is may be looked at
	case settings.Status == account.StatusUnderReview:
		return errLocked
	case settings.Status == account.StatusBanned:
		return errBanned
	}
	return nil
}

// signInFirst sends a visitor to the sign-in page, and back afterwards.
func (v *visit) signInFirst() error {
	if !v.isSafe() || v.URL.Path == "/" {
		return detourError(signInPath)
	}
	return detourError(signInPath + "?" + url.Values{"next": {v.URL.RequestURI()}}.Encode())
}

// localPath returns where a visitor wants to go on, or "/" when that is not a page of ours.
func localPath(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") || strings.ContainsAny(next, "\\\r\n") {
		return "/"
	}
	return next
}
