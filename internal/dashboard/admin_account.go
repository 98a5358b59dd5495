package dashboard

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/charge"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/oplog"
	"github.com/ponte-pay/ponte/internal/user"
)

// adminAccountData is all that operators see of an account.
type adminAccountData struct {
	Account     account.Account
	BRL, USDT   shownBalance
	Holds       few[ledger.Transfer]
	Keys        few[account.Key]
	Members     []user.Member
	Invitations []user.Invitation
	Charges     []routedCharge // the latest
	Log         []logEntry     // the latest

	Settings []settingField
	Set      *form
	Status   *form
	Adjust   *form
	Hold     *form
	Release  *form
	Key      *form
	Invite   *form
	Once     string // hidden in the forms that move money or give power

	Statuses, Currencies, Scopes, Roles []option
	MadeKey, MadeLink                   string // shown once
}

const (
	recentCharges = 8
	recentEntries = 10
)

// find returns the account that the path names.
func (d *Dashboard) find(v *visit) (account.Account, error) {
	number, err := id.ParseAccount(v.PathValue("account"))
	if err != nil {
		return account.Account{}, errNoAccount
	}
	v.scope.Account = number
	return d.Accounts.Get(v.Context(), number)
}

// ReleaseForm returns the form that releases a hold.
func (d adminAccountData) ReleaseForm(hold id.ID) *form {
	if d.Release.Value("hold") == id.Hold.Format(hold) {
		return d.Release
	}
	return newForm(d.Release.v)
}

// accountData reads an account and what belongs to it.
func (d *Dashboard) accountData(v *visit) (data adminAccountData, err error) {
	if data.Account, err = d.find(v); err != nil {
		return data, err
	}
	ctx, number := v.Context(), data.Account.ID
	for _, f := range []**form{&data.Set, &data.Status, &data.Adjust, &data.Hold, &data.Release, &data.Key, &data.Invite} {
		*f = newForm(v)
	}
	data.Adjust.set("currency", string(money.CurrencyBRL))
	data.Invite.set("role", string(user.Owner))
	data.Settings, data.Once = settingFields(v, data.Account.Settings, data.Set, nil), d.once()
	data.Statuses = statusOptions(v)
	for _, c := range money.Currencies {
		data.Currencies = append(data.Currencies, option{string(c), string(c)})
	}
	for _, name := range account.AllScopes.Names() {
		data.Scopes = append(data.Scopes, option{name, name})
	}
	for _, r := range user.Roles {
		data.Roles = append(data.Roles, option{string(r), v.t("role." + string(r))})
	}
	for _, look := range []func() error{
		func() error { data.BRL, err = d.balance(v, number, money.CurrencyBRL); return err },
		func() error { data.USDT, err = d.balance(v, number, money.CurrencyUSDT); return err },
		func() error {
			holds, err := ledger.Holds(ctx, d.DB, number)
			data.Holds = newFew(holds)
			return err
		},
		func() error {
			keys, err := d.Accounts.ListKeys(ctx, number)
			// Those that work come first, then what has ended, the latest of each before the rest.
			working, revoked := split(keys)
			data.Keys = newFew(slices.Concat(working, revoked))
			return err
		},
		func() error { data.Members, err = d.Users.Members(ctx, number); return err },
		func() error { data.Invitations, err = d.Users.Invitations(ctx, number); return err },
		func() error {
			list, err := charge.Before(ctx, d.DB, number, id.Max, recentCharges)
			data.Charges = routed(v, list)
			return err
		},
		func() error {
			data.Log, err = d.entries(v, oplog.Page{Account: number, Limit: recentEntries})
			return err
		},
	} {
		if err := look(); err != nil {
			return data, err
		}
	}
	return data, nil
}

// shownBalance is a balance as people read it.
type shownBalance struct{ Available, Pending, Blocked, InTransit string }

func (d *Dashboard) balance(v *visit, number id.Account, c money.Currency) (shownBalance, error) {
	b, err := ledger.Balances(v.Context(), d.DB, number, c)
	text := func(units int64) string { return v.locale.amount(money.Amount{Currency: c, Units: units}) }
	return shownBalance{text(b.Available), text(b.Pending), text(b.Blocked), text(b.InTransit)}, err
}

func (d *Dashboard) adminAccount(v *visit) (reply, error) {
	data, err := d.accountData(v)
	if err != nil {
		return reply{}, err
	}
	return page("admin_account", data)
}

// onAccount does something to the account of the path by a form of its page. What is wrong with it is shown beside it.
func (d *Dashboard) onAccount(v *visit, said string, do func(a account.Account, f *form) error, place func(*adminAccountData) **form) (reply, error) {
	a, err := d.find(v)
	if err != nil {
		return reply{}, err
	}
	f := newForm(v)
	err = do(a, f)
	if err == nil && !f.broken() {
		return done(v, said, adminAccountPath(a.ID))
	}
	if err != nil && !f.refuse(err) {
		return reply{}, err
	}
	data, err := d.accountData(v)
	if err != nil {
		return reply{}, err
	}
	*place(&data) = f
	data.Once = cmp.Or(f.Value("once"), data.Once)
	data.Settings = settingFields(v, data.Account.Settings, data.Set, v.PostForm)
	return again("admin_account", data)
}

func adminAccountPath(number id.Account) string { return adminPath + "/accounts/" + number.String() }

// reason reads why something is done.
func (f *form) reason(required bool) string {
	return f.text("reason", textRule{required: required, max: oplog.ReasonCharsMax})
}

func (d *Dashboard) adminStatus(v *visit) (reply, error) {
	return d.onAccount(v, "admin.status_changed", func(a account.Account, f *form) error {
		status, reason := f.choice("status", statuses...), f.reason(true)
		if f.broken() {
			return nil
		}
		_, err := d.Accounts.Change(v.Context(), a.ID, []string{"status=" + status}, reason)
		return err
	}, func(data *adminAccountData) **form { return &data.Status })
}

func (d *Dashboard) adminSettings(v *visit) (reply, error) {
	return d.onAccount(v, "admin.settings_changed", func(a account.Account, f *form) error {
		assignments := readSettings(v, f)
		reason := f.reason(false)
		switch {
		case f.broken():
			return nil
		case len(assignments) == 0:
			f.Error = v.t("admin.nothing_changed")
			return nil
		}
		_, err := d.Accounts.Change(v.Context(), a.ID, assignments, reason)
		return err
	}, func(data *adminAccountData) **form { return &data.Set })
}

// errKey is for a form that was sent twice with other contents: the page was used in two windows.
var errKey = fault.New(fault.Conflict, "form_used", "this form was sent before; load the page again")

// byHand moves money of the account by a form of its page, once the operator has proven who they are, and once however often
// the form is sent. read reads the form and returns what then moves the money.
func (d *Dashboard) byHand(v *visit, said string, read func(f *form, account id.Account) func(key string) error, place func(*adminAccountData) **form) (reply, error) {
	return d.onAccount(v, said, func(a account.Account, f *form) error {
		move := read(f, a.ID)
		if err := d.prove(v, f); err != nil || f.broken() {
			return err
		}
		err := move("form " + f.Value("once"))
		switch {
		case errors.Is(err, ledger.ErrAnother):
			return errKey
		case errors.Is(err, ledger.ErrNoHold):
			return errNoRoute
		}
		return err
	}, place)
}

func (d *Dashboard) adminAdjust(v *visit) (reply, error) {
	return d.byHand(v, "admin.adjusted", func(f *form, number id.Account) func(string) error {
		currency := money.Currency(f.choice("currency", string(money.CurrencyBRL), string(money.CurrencyUSDT)))
		amount, err := money.ParseAmount(currency, f.number("amount"))
		if err != nil || amount.Units == 0 {
			f.wrong("amount", "form.amount")
		}
		reason := f.reason(true)
		return func(key string) error {
			_, err := d.Operator.Ledger.AdjustOnce(v.Context(), key, number, amount, reason)
			return err
		}
	}, func(data *adminAccountData) **form { return &data.Adjust })
}

func (d *Dashboard) adminHold(v *visit) (reply, error) {
	return d.byHand(v, "admin.held", func(f *form, number id.Account) func(string) error {
		amount, reason := f.brl("amount", 1), f.reason(true)
		return func(key string) error {
			_, err := d.Operator.Ledger.HoldOnce(v.Context(), key, number, amount, reason)
			return err
		}
	}, func(data *adminAccountData) **form { return &data.Hold })
}

func (d *Dashboard) adminRelease(v *visit) (reply, error) {
	return d.byHand(v, "admin.released", func(f *form, number id.Account) func(string) error {
		hold, err := id.Hold.Parse(f.text("hold", textRule{required: true}))
		return func(string) error {
			if err != nil {
				return ledger.ErrNoHold
			}
			_, err := d.Operator.Ledger.Release(v.Context(), number, hold)
			if errors.Is(err, ledger.ErrReleased) { // somebody was faster, and it is as it was wished
				return nil
			}
			return err
		}
	}, func(data *adminAccountData) **form { return &data.Release })
}

func (d *Dashboard) adminCreateKey(v *visit) (reply, error) {
	a, err := d.find(v)
	if err != nil {
		return reply{}, err
	}
	f := newForm(v)
	scopes, err := account.ParseScopes(strings.Join(v.PostForm["scopes"], ","))
	if err != nil {
		f.Errors["scopes"] = v.t("admin.scopes_wrong")
	}
	if err := d.prove(v, f); err != nil {
		return reply{}, err
	}
	made := ""
	if !f.broken() {
		_, made, err = d.Accounts.CreateKeyOnce(v.Context(), a.ID, scopes, f.Value("once"))
		if err != nil && !f.refuse(err) {
			return reply{}, err
		}
		if f.broken() {
			f.set("once", "") // what comes next is another wish
		}
	}
	data, err := d.accountData(v)
	if err != nil {
		return reply{}, err
	}
	data.Key, data.MadeKey, data.Once = f, made, f.nextOnce(data.Once)
	return showSecret("admin_account", f, data)
}

func (d *Dashboard) adminRevokeKey(v *visit) (reply, error) {
	a, err := d.find(v)
	if err != nil {
		return reply{}, err
	}
	keys, err := d.Accounts.ListKeys(v.Context(), a.ID)
	if err != nil {
		return reply{}, err
	}
	for _, k := range keys { // of this account, which the log names
		if k.Prefix == v.PostFormValue("prefix") {
			if err := d.Accounts.RevokeKey(v.Context(), k.Prefix); err != nil {
				return reply{}, err
			}
			return done(v, "admin.key_revoked", adminAccountPath(a.ID))
		}
	}
	return reply{}, errNoRoute
}

func (d *Dashboard) adminInvite(v *visit) (reply, error) {
	a, err := d.find(v)
	if err != nil {
		return reply{}, err
	}
	f := newForm(v)
	link, err := d.inviteBy(v, f, user.Invitation{Account: a.ID, Role: f.role()})
	if err != nil {
		return reply{}, err
	}
	data, err := d.accountData(v)
	if err != nil {
		return reply{}, err
	}
	data.Invite, data.MadeLink, data.Once = f, link, f.nextOnce(data.Once)
	return showSecret("admin_account", f, data)
}

func (d *Dashboard) adminWithdraw(v *visit) (reply, error) {
	a, err := d.find(v)
	if err != nil {
		return reply{}, err
	}
	invitation, err := id.Parse(v.PostFormValue("invitation"))
	if err != nil {
		return reply{}, errForm
	}
	if err := d.Users.Withdraw(v.Context(), a.ID, invitation); err != nil {
		return reply{}, err
	}
	return done(v, "admin.invitation_withdrawn", adminAccountPath(a.ID))
}
