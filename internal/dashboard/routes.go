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

// LinkPrefix is what the path of a one-time link begins with. The rest of it is a secret, which no log may show.
const LinkPrefix = "/invitations/"

// pageRoutes are the pages and forms of people and their accounts, each with who may use it.
func pageRoutes() []*route {
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
		{method: get, path: LinkPrefix + "{token}", rule: anyone, answer: (*Dashboard).showInvitation},
		{method: post, path: LinkPrefix + "{token}", rule: anyone, answer: (*Dashboard).acceptInvitation},
		{method: post, path: LinkPrefix + "{token}/join", rule: signedIn, answer: (*Dashboard).joinInvitation},
		{method: post, path: "/preferences", rule: anyone, answer: (*Dashboard).setPreferences},

		// One's own security.
		{method: get, path: securityPath, rule: signedIn, answer: (*Dashboard).showSecurity},
		{method: post, path: "/security/password", rule: signedIn, answer: (*Dashboard).changePassword},
		{method: get, path: totpPath, rule: signedIn, answer: (*Dashboard).showTOTP},
		{method: post, path: totpPath, rule: signedIn, answer: (*Dashboard).enableTOTP},
		{method: post, path: "/security/totp/remove", rule: signedIn, answer: (*Dashboard).disableTOTP},
		{method: post, path: "/security/sessions/end", rule: signedIn, answer: (*Dashboard).endSession},

		// The API reference, and what happens while a page is open.
		{method: get, path: docsPath, rule: anyone, answer: (*Dashboard).docs},
		{method: get, path: docsPath + "/{page}", rule: anyone, answer: (*Dashboard).docs},
		{method: get, path: acc + livePath, rule: view, answer: (*Dashboard).follow},

		// An account: its money.
		{method: get, path: acc, rule: view, answer: (*Dashboard).overview},
		{method: get, path: acc + "/charges", rule: view, resource: account.ResourceCharges, answer: (*Dashboard).listCharges},
		{method: get, path: acc + "/charges/new", rule: members(user.Charge), resource: account.ResourceCharges, answer: (*Dashboard).newCharge},
		{method: post, path: acc + "/charges", rule: members(user.Charge), resource: account.ResourceCharges, answer: (*Dashboard).createCharge},
		{method: get, path: acc + "/charges/{id}", rule: view, resource: account.ResourceCharges, answer: (*Dashboard).showCharge},
		{method: get, path: acc + "/payouts", rule: view, resource: account.ResourcePayouts, answer: (*Dashboard).listPayouts},
		{method: get, path: acc + "/payouts/new", rule: members(user.Pay), resource: account.ResourcePayouts, answer: (*Dashboard).newPayout},
		{method: post, path: acc + "/payouts/confirm", rule: members(user.Pay), resource: account.ResourcePayouts, answer: (*Dashboard).confirmPayout},
		{method: post, path: acc + "/payouts", rule: members(user.Pay), resource: account.ResourcePayouts, answer: (*Dashboard).createPayout},
		{method: get, path: acc + "/payouts/{id}", rule: view, resource: account.ResourcePayouts, answer: (*Dashboard).showPayout},
		{method: get, path: acc + "/transactions", rule: view, resource: account.ResourceTransactions, answer: (*Dashboard).listTransactions},
		{method: get, path: acc + "/statement", rule: view, resource: account.ResourceTransactions, answer: (*Dashboard).showStatement},
		{method: get, path: acc + "/statement/download", rule: view, resource: account.ResourceTransactions, answer: (*Dashboard).downloadStatement},
		{method: get, path: acc + "/infractions", rule: view, resource: account.ResourceMED, answer: (*Dashboard).listInfractions},
		{method: get, path: acc + "/infractions/{id}", rule: view, resource: account.ResourceMED, answer: (*Dashboard).showInfraction},
		{method: post, path: acc + "/infractions/{id}", rule: members(user.Defend), resource: account.ResourceMED, answer: (*Dashboard).defend},
		{method: get, path: acc + "/deposits", rule: view, resource: account.ResourceCrypto, answer: (*Dashboard).listDeposits},
		{method: get, path: acc + "/deposits/new", rule: members(user.Charge), resource: account.ResourceCrypto, answer: (*Dashboard).newDeposit},
		{method: post, path: acc + "/deposits", rule: members(user.Charge), resource: account.ResourceCrypto, answer: (*Dashboard).createDeposit},
		{method: get, path: acc + "/deposits/{id}", rule: view, resource: account.ResourceCrypto, answer: (*Dashboard).showDeposit},
		{method: get, path: acc + "/withdrawals", rule: view, resource: account.ResourceCrypto, answer: (*Dashboard).listWithdrawals},
		{method: get, path: acc + "/withdrawals/new", rule: members(user.Pay), resource: account.ResourceCrypto, answer: (*Dashboard).newWithdrawal},
		{method: post, path: acc + "/withdrawals/confirm", rule: members(user.Pay), resource: account.ResourceCrypto, answer: (*Dashboard).confirmWithdrawal},
		{method: post, path: acc + "/withdrawals", rule: members(user.Pay), resource: account.ResourceCrypto, answer: (*Dashboard).createWithdrawal},
		{method: get, path: acc + "/withdrawals/{id}", rule: view, resource: account.ResourceCrypto, answer: (*Dashboard).showWithdrawal},

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
		{key: "nav.charges", path: "/charges", icon: "in", resource: account.ResourceCharges},
		{key: "nav.payouts", path: "/payouts", icon: "out", resource: account.ResourcePayouts},
		{key: "nav.transactions", path: "/transactions", icon: "list", resource: account.ResourceTransactions},
		{key: "nav.statement", path: "/statement", icon: "book", resource: account.ResourceTransactions},
		{key: "nav.infractions", path: "/infractions", icon: "shield", resource: account.ResourceMED},
	}},
	{"nav.crypto", []place{
		{key: "nav.deposits", path: "/deposits", icon: "coin", resource: account.ResourceCrypto},
		{key: "nav.withdrawals", path: "/withdrawals", icon: "out", resource: account.ResourceCrypto},
	}},
	{"nav.developers", []place{
		{key: "nav.hooks", path: "/webhooks", icon: "hook"},
		{key: "nav.events", path: "/events", icon: "event"},
		{key: "nav.keys", path: "/keys", icon: "key"},
		{key: "nav.docs", path: docsPath, icon: "book", outside: true},
	}},
	{"nav.account", []place{
		{key: "nav.team", path: "/team", icon: "people"},
	}},
}

// routes are all pages and forms, each with who may use it. A test refuses one without a rule.
func routes() []*route { return append(pageRoutes(), adminRoutes()...) }

// adminRoutes are the operator's pages and forms.
func adminRoutes() []*route {
	const get, post = http.MethodGet, http.MethodPost
	const acc = adminPath + "/accounts/{account}"
	list := []*route{
		{method: get, path: adminPath, answer: (*Dashboard).adminHome},

		{method: get, path: adminPath + "/accounts", answer: (*Dashboard).adminAccounts},
		{method: post, path: adminPath + "/accounts", answer: (*Dashboard).adminCreateAccount},
		{method: get, path: acc, answer: (*Dashboard).adminAccount},
		{method: post, path: acc + "/settings", answer: (*Dashboard).adminSettings},
		{method: post, path: acc + "/status", answer: (*Dashboard).adminStatus},
		{method: post, path: acc + "/adjustments", answer: (*Dashboard).adminAdjust},
		{method: post, path: acc + "/holds", answer: (*Dashboard).adminHold},
		{method: post, path: acc + "/holds/release", answer: (*Dashboard).adminRelease},
		{method: post, path: acc + "/keys", answer: (*Dashboard).adminCreateKey},
		{method: post, path: acc + "/keys/revoke", answer: (*Dashboard).adminRevokeKey},
		{method: post, path: acc + "/people", answer: (*Dashboard).adminInvite},
		{method: post, path: acc + "/people/withdraw", answer: (*Dashboard).adminWithdraw},

		{method: get, path: adminPath + "/acquirers", answer: (*Dashboard).adminAcquirers},
		{method: post, path: adminPath + "/acquirers/off", answer: (*Dashboard).adminAcquirerOff},
		{method: post, path: adminPath + "/acquirers/on", answer: (*Dashboard).adminAcquirerOn},

		{method: get, path: adminPath + "/doubt", answer: (*Dashboard).adminDoubt},
		{method: post, path: adminPath + "/doubt/ask", answer: (*Dashboard).adminAsk},
		{method: get, path: adminPath + "/unmatched", answer: (*Dashboard).adminUnmatched},
		{method: post, path: adminPath + "/unmatched/dismiss", answer: (*Dashboard).adminDismiss},
		{method: get, path: adminPath + "/infractions", answer: (*Dashboard).adminInfractions},

		{method: get, path: adminPath + "/deliveries", answer: (*Dashboard).adminDeliveries},
		{method: post, path: adminPath + "/deliveries/redeliver", answer: (*Dashboard).adminRedeliver},
		{method: post, path: adminPath + "/deliveries/endpoint", answer: (*Dashboard).adminEndpoint},

		{method: get, path: adminPath + "/ips", answer: (*Dashboard).adminIPs},
		{method: post, path: adminPath + "/ips", answer: (*Dashboard).adminBlockIP},
		{method: post, path: adminPath + "/ips/unblock", answer: (*Dashboard).adminUnblockIP},

		{method: get, path: adminPath + "/people", answer: (*Dashboard).adminPeople},
		{method: post, path: adminPath + "/people", answer: (*Dashboard).adminInviteOperator},
		{method: post, path: adminPath + "/people/reset", answer: (*Dashboard).adminReset},
		{method: post, path: adminPath + "/people/remove", answer: (*Dashboard).adminRemovePerson},

		{method: get, path: adminPath + "/audit", answer: (*Dashboard).adminAudit},
		{method: post, path: adminPath + "/audit", answer: (*Dashboard).adminStartAudit},
		{method: post, path: adminPath + "/audit/cancel", answer: (*Dashboard).adminCancelAudit},
		{method: get, path: adminPath + "/log", answer: (*Dashboard).adminLog},
	}
	for _, r := range list {
		r.rule = rule{who: operator}
	}
	return list
}

// adminPlaces is the menu of operators.
var adminPlaces = []placeGroup{
	{"", []place{
		{key: "admin.home", path: adminPath, icon: "home"},
		{key: "admin.accounts", path: adminPath + "/accounts", icon: "building"},
	}},
	{"admin.nav_money", []place{
		{key: "admin.acquirers", path: adminPath + "/acquirers", icon: "pulse"},
		{key: "admin.doubt", path: adminPath + "/doubt", icon: "question"},
		{key: "admin.unmatched", path: adminPath + "/unmatched", icon: "list"},
		{key: "admin.infractions", path: adminPath + "/infractions", icon: "shield"},
		{key: "admin.audit", path: adminPath + "/audit", icon: "book"},
	}},
	{"admin.nav_system", []place{
		{key: "admin.deliveries", path: adminPath + "/deliveries", icon: "hook"},
		{key: "admin.ips", path: adminPath + "/ips", icon: "gear"},
		{key: "admin.people", path: adminPath + "/people", icon: "people"},
		{key: "admin.log", path: adminPath + "/log", icon: "log"},
	}},
}
