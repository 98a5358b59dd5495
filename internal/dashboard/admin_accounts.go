package dashboard

import (
	"errors"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/fault"
)

// adminAccountsData is the list of accounts.
type adminAccountsData struct {
	Form     *form // what is looked for
	Create   *form
	Once     string // hidden in that
	Statuses []option
	Accounts []account.Account
	Pager    pager
	Made     *account.Account // that was just created
	Key      string           // of that, shown once
}

// Words of an account's status, as its settings write them.
var statuses = []string{string(account.StatusActive), string(account.StatusUnderReview), string(account.StatusBanned)}

// statusOptions are the states of an account.
func statusOptions(v *visit) (list []option) {
	for _, s := range statuses {
		list = append(list, option{s, v.t("admin.status_" + s)})
	}
	return list
}

func (d *Dashboard) accountsData(v *visit) (adminAccountsData, error) {
	q := v.URL.Query()
	data := adminAccountsData{
		Form: newForm(v).set("q", q.Get("q")).set("status", q.Get("status")), Create: newForm(v), Once: d.once(),
		Statuses: append([]option{{"", v.t("admin.any_status")}}, statusOptions(v)...),
	}
	after, err := account.ParseCursor(q.Get("after"))
	if err != nil {
		return data, errNoRoute
	}
	found, err := d.Accounts.Search(v.Context(), account.Query{
		Text: q.Get("q"), Status: account.Status(q.Get("status")), After: after, Limit: pageRows,
	})
	if fault.As(err).Kind == fault.Invalid {
		data.Form.Errors["q"] = v.t("form.too_long", textMax)
		return data, nil
	}
	data.Accounts, data.Pager = found.Accounts, newPager(v, !found.Next.IsZero(), found.Next.String())
	return data, err
}

func (d *Dashboard) adminAccounts(v *visit) (reply, error) {
	data, err := d.accountsData(v)
	if err != nil {
		return reply{}, err
	}
	return page("admin_accounts", data)
}

// adminCreateAccount makes an account, once however often the form is sent: whoever sends it again is led to the account.
func (d *Dashboard) adminCreateAccount(v *visit) (reply, error) {
	f := newForm(v)
	once, err := f.onceKey()
	if err != nil {
		return reply{}, err
	}
	p := account.Params{Name: f.text("name", textRule{required: true}), Document: f.text("document", textRule{max: documentMax})}
	var made account.Account
	key := ""
	if !f.broken() {
		made, key, err = d.Accounts.CreateOnce(v.Context(), p, once)
		switch {
		case errors.Is(err, account.ErrMade):
			return done(v, "admin.account_made_before", adminAccountPath(made.ID))
		case err != nil && !f.refuse(err):
			return reply{}, err
		}
	}
	data, err := d.accountsData(v)
	if err != nil {
		return reply{}, err
	}
	data.Create, data.Once, data.Key = f, f.nextOnce(data.Once), key
	if key != "" {
		data.Made = &made
	}
	return showSecret("admin_accounts", f, data)
}
