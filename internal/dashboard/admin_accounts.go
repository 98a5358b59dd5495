package dashboard

import (
	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/fault"
)

// adminAccountsData is the list of accounts.
type adminAccountsData struct {
	Form     *form // what is looked for
	Create   *form
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
		Form: newForm(v).set("q", q.Get("q")).set("status", q.Get("status")), Create: newForm(v),
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

func (d *Dashboard) adminCreateAccount(v *visit) (reply, error) {
	data, err := d.accountsData(v)
	if err != nil {
		return reply{}, err
	}
	f := newForm(v)
	data.Create = f
	p := account.Params{Name: f.text("name", textRule{required: true}), Document: f.text("document", textRule{max: 20})}
	if f.broken() {
		return again("admin_accounts", data)
	}
	made, key, err := d.Accounts.Create(v.Context(), p)
	if err != nil {
		return reply{}, err
	}
	if data, err = d.accountsData(v); err != nil {
		return reply{}, err
	}
	data.Made, data.Key = &made, key
	return reply{page: "admin_accounts", data: data, secret: true}, nil
}
