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
