package dashboard

import (
	"strconv"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/audit"
	"github.com/ponte-pay/ponte/internal/charge"
	"github.com/ponte-pay/ponte/internal/deposit"
	"github.com/ponte-pay/ponte/internal/infraction"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/payout"
	"github.com/ponte-pay/ponte/internal/switchboard"
	"github.com/ponte-pay/ponte/internal/withdrawal"
)

// OperatorServices are what only the operator's pages call.
type OperatorServices struct {
	Ledger   *ledger.Ledger
	Router   *acquirer.Router
	Switches *switchboard.Service
	Audits   *audit.Job
}

// routes are all pages and forms, each with who may use it. A test refuses one without a rule.
func routes() []*route { return append(pageRoutes(), adminRoutes()...) }

// adminRoutes are the operator's pages and forms.
func adminRoutes() []*route {
	const get, post = "GET", "POST"
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

// adminHomeData is how the installation does.
type adminHomeData struct {
	Accounts     int64
	Doubt        payout.Doubt
	CryptoDoubt  withdrawal.Doubt
	Unmatched    int64 // Pix payments
	UnmatchedUSD int64 // payments at the crypto provider
	Stuck        int64
	Concern      infraction.Concern
	Lag          string // of deliveries
	Parked       int
	Failing      int // endpoints, for days
	Acquirers    []acquirer.Health
	Audit        audit.Progress
}

func (d *Dashboard) adminHome(v *visit) (reply, error) {
	ctx := v.Context()
	data := adminHomeData{Acquirers: d.Operator.Router.Health(), Audit: d.Operator.Audits.Look()}
	for _, look := range []func() error{
		func() (err error) { data.Accounts, err = account.Count(ctx, d.DB); return err },
		func() (err error) { data.Doubt, err = payout.CountDoubts(ctx, d.DB); return err },
		func() (err error) { data.CryptoDoubt, err = withdrawal.CountDoubts(ctx, d.DB); return err },
		func() (err error) { data.Unmatched, err = charge.CountUnmatched(ctx, d.DB); return err },
		func() (err error) { data.UnmatchedUSD, err = deposit.CountUnmatched(ctx, d.DB); return err },
		func() (err error) { data.Stuck, err = deposit.CountStuck(ctx, d.DB); return err },
		func() (err error) { data.Concern, err = infraction.CountConcerns(ctx, d.DB, d.Clock.Now()); return err },
		func() (err error) { data.Lag, err = d.lag(v); return err },
		func() (err error) { data.Parked, err = d.Hooks.CountParked(ctx); return err },
		func() error {
			failing, err := d.Hooks.FailingLong(ctx)
			data.Failing = len(failing)
			return err
		},
	} {
		if err := look(); err != nil {
			return reply{}, err
		}
	}
	return page("admin_home", data)
}

// lag says how late deliveries are.
func (d *Dashboard) lag(v *visit) (string, error) {
	lag, err := d.Hooks.Lag(v.Context())
	return v.locale.number(strconv.FormatFloat(max(0, lag.Seconds()), 'f', 1, 64)) + space + "s", err
}

// done says that something was done, on the page that shows it.
func done(v *visit, key, path string) (reply, error) {
	v.flash(key)
	return goTo(path)
}
