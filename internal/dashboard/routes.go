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
	view, hooks, team := members(user.View), members(user.Hooks), members(user.Team)
	const acc = "/accounts/{account}"
	return []*route{
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

		// An account: what connects programs to it.
		{method: get, path: acc + "/webhooks", rule: view, answer: (*Dashboard).listHooks},
		{method: get, path: acc + "/webhooks/new", rule: hooks, answer: (*Dashboard).newHook},
		{method: post, path: acc + "/webhooks", rule: hooks, answer: (*Dashboard).createHook},
		{method: get, path: acc + "/webhooks/redeliver", rule: hooks, answer: (*Dashboard).newRedelivery},
		{method: post, path: acc + "/webhooks/redeliver", rule: hooks, answer: (*Dashboard).redeliverRange},
		{method: get, path: acc + "/webhooks/{endpoint}", rule: view, answer: (*Dashboard).showHook},
		{method: post, path: acc + "/webhooks/{endpoint}/events", rule: hooks, answer: (*Dashboard).subscribeHook},
		{method: post, path: acc + "/webhooks/{endpoint}/enable", rule: hooks, answer: (*Dashboard).enableHook},
		{method: post, path: acc + "/webhooks/{endpoint}/disable", rule: hooks, answer: (*Dashboard).disableHook},
		{method: post, path: acc + "/webhooks/{endpoint}/rotate", rule: hooks, answer: (*Dashboard).rotateHook},
		{method: post, path: acc + "/webhooks/{endpoint}/test", rule: hooks, answer: (*Dashboard).tryHook},
		{method: post, path: acc + "/webhooks/{endpoint}/delete", rule: hooks, answer: (*Dashboard).deleteHook},
		{method: get, path: acc + "/events", rule: view, answer: (*Dashboard).listEvents},
		{method: get, path: acc + "/events/{event}", rule: view, answer: (*Dashboard).showEvent},
		{method: post, path: acc + "/events/{event}/redeliver", rule: hooks, answer: (*Dashboard).redeliver},
		{method: get, path: acc + "/events/{event}/deliveries/{endpoint}", rule: view, answer: (*Dashboard).showDelivery},
		{method: get, path: acc + "/keys", rule: view, answer: (*Dashboard).listKeys},
		{method: post, path: acc + "/keys", rule: members(user.Keys), answer: (*Dashboard).createKey},
		{method: post, path: acc + "/keys/{key}/revoke", rule: members(user.Keys), answer: (*Dashboard).revokeKey},

		// An account: who is in it.
		{method: get, path: acc + "/team", rule: view, answer: (*Dashboard).listTeam},
		{method: post, path: acc + "/team/invitations", rule: team, answer: (*Dashboard).invite},
		{method: post, path: acc + "/team/invitations/{invitation}/withdraw", rule: team, answer: (*Dashboard).withdrawInvitation},
		{method: get, path: acc + "/team/{person}", rule: team, answer: (*Dashboard).showMember},
		{method: post, path: acc + "/team/{person}/role", rule: team, answer: (*Dashboard).changeRole},
		{method: post, path: acc + "/team/{person}/remove", rule: team, answer: (*Dashboard).removeMember},
	}
}

// accountPlaces is the menu of an account.
var accountPlaces = []placeGroup{
	{"", []place{
		{key: "nav.overview", icon: "home"},
	}},
	{"nav.developers", []place{
		{key: "nav.hooks", path: "/webhooks", icon: "hook"},
		{key: "nav.events", path: "/events", icon: "event"},
		{key: "nav.keys", path: "/keys", icon: "key"},
	}},
	{"nav.account", []place{
		{key: "nav.team", path: "/team", icon: "people"},
	}},
}

// adminPlaces is the menu of operators.
var adminPlaces []placeGroup
