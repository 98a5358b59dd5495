package dashboard

import (
	"net/http"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/user"
)

// route is one row of the dashboard.
type route struct {
	method   string
	path     string
	rule     rule
	resource account.Resources // what an operator can switch off; 0 for nothing
	secret   bool              // the path itself is a secret: the log shows the pattern instead
	answer   func(*Dashboard, *visit) (reply, error)
}

// Paths that other pages lead to.
const (
	signInPath   = "/sign-in"
	codePath     = "/sign-in/code"
	securityPath = "/security"
	totpPath     = "/security/totp"
	adminPath    = "/admin"
)

// routes are all pages and forms, each with who may use it. A test refuses one without a rule.
func routes() []*route {
	const get, post = http.MethodGet, http.MethodPost
	anyone, half, signedIn := rule{who: anybody}, rule{who: halfway}, rule{who: person}
	view := members(user.View)
	const acc = "/accounts/{account}"
	return append(adminRoutes(), []*route{
		// Getting in.
		{method: get, path: "/{$}", rule: signedIn, answer: (*Dashboard).home},
		{method: get, path: signInPath, rule: anyone, answer: (*Dashboard).showSignIn},
		{method: post, path: signInPath, rule: anyone, answer: (*Dashboard).signIn},
		{method: get, path: codePath, rule: half, answer: (*Dashboard).showCode},
		{method: post, path: codePath, rule: half, answer: (*Dashboard).giveCode},
		{method: post, path: "/sign-out", rule: half, answer: (*Dashboard).signOut},
		{method: get, path: "/invitations/{token}", rule: anyone, secret: true, answer: (*Dashboard).showInvitation},
		{method: post, path: "/invitations/{token}", rule: anyone, secret: true, answer: (*Dashboard).acceptInvitation},
		{method: post, path: "/invitations/{token}/join", rule: signedIn, secret: true, answer: (*Dashboard).joinInvitation},
		{method: post, path: "/preferences", rule: anyone, answer: (*Dashboard).setPreferences},

		// One's own security.
		{method: get, path: securityPath, rule: signedIn, answer: (*Dashboard).showSecurity},
		{method: post, path: "/security/password", rule: signedIn, answer: (*Dashboard).changePassword},
		{method: get, path: totpPath, rule: signedIn, answer: (*Dashboard).showTOTP},
		{method: post, path: totpPath, rule: signedIn, answer: (*Dashboard).enableTOTP},
		{method: post, path: "/security/totp/remove", rule: signedIn, answer: (*Dashboard).disableTOTP},
		{method: post, path: "/security/sessions/end", rule: signedIn, answer: (*Dashboard).endSession},

		// An account: what there is.
		{method: get, path: acc, rule: view, answer: (*Dashboard).overview},
	}...)
}

// accountPlaces is the menu of an account.
var accountPlaces = []placeGroup{
	{"", []place{
		{key: "nav.overview", icon: "home"},
	}},
}
