package dashboard

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/report"
)

// transactionsData is a page of transactions.
type transactionsData struct {
	List  []transactionRow
	Pager pager
	Type  string
	Types []option
	Asked bool
}

type transactionRow struct {
	*report.Transaction
	Link string // of what it belongs to; "" for nothing
}

var transactionTypes = []report.Type{report.CashIn, report.CashOut}

func (d *Dashboard) listTransactions(v *visit) (reply, error) {
	q := v.URL.Query()
	data := transactionsData{Types: []option{{"", v.t("common.all")}}, Asked: v.URL.RawQuery != ""}
	for _, t := range transactionTypes {
		data.Types = append(data.Types, option{string(t), v.t("transactions." + string(t))})
	}
	if t := report.Type(q.Get("type")); slices.Contains(transactionTypes, t) {
		data.Type = string(t)
	}
	p := report.Page{Type: report.Type(data.Type), Limit: pageRows, StartingAfter: q.Get("after")}
	list, more, err := report.ListTransactions(v.Context(), d.DB, v.account.ID, p)
	if errors.Is(err, report.ErrCursor) {
		return goTo(accountPath(v.account, "transactions"))
	}
	if err != nil {
		return reply{}, err
	}
	last := ""
	for i := range list {
		t := &list[i]
		last = t.PublicID()
		data.List = append(data.List, transactionRow{t, v.link(t.ResourceID)})
	}
	data.Pager = newPager(v, more, last)
	return page("transactions", data)
}

// link returns the page of a thing by its public id; "" where there is none.
func (v *visit) link(public string) string {
	for prefix, folder := range map[id.Prefix]string{ //nolint:exhaustive // the others have no page
		id.Charge: "charges", id.Payout: "payouts", id.Infraction: "infractions", id.CryptoCharge: "deposits", id.CryptoPayout: "withdrawals",
	} {
		if _, err := prefix.Parse(public); err == nil {
			return accountPath(v.account, folder, public)
		}
	}
	return ""
}

// statementData is a part of a statement.
type statementData struct {
	Form       *form
	Currencies []option
	Currency   money.Currency
	List       []statementRow
	Pager      pager
	CSV        string // where all of them are
}

type statementRow struct {
	report.Line
	Reference string
	Link      string
	Amount    money.Amount // below zero when it left the account
	Inside    bool         // it moved between the account's own books: the total stays
	Total     money.Amount
}

// own are the books that a total is made of.
var own = []ledger.Book{ledger.Available, ledger.Pending, ledger.Blocked}

// Bounds of a statement.
const (
	statementRows = 50  // that the page shows
	statementDays = 366 // that it can span
	dayTime       = 24 * time.Hour
	csvWriteTime  = 30 * time.Second // for each thousand lines
)

// period reads which part of a statement is wanted: days of Brasilia, the last included.
func (d *Dashboard) period(v *visit, f *form) report.Period {
	q := v.URL.Query()
	today := d.Clock.Now().In(brasilia)
	read := func(field string, otherwise time.Time) time.Time {
		text := q.Get(field)
		if text == "" {
			text = otherwise.Format(time.DateOnly)
		}
		f.set(field, text)
		day, err := time.ParseInLocation(time.DateOnly, text, brasilia)
		if err != nil || day.Year() < 2020 || day.Year() > 9999 {
			f.wrong(field, "statement.day_wrong")
			return otherwise
		}
		return day
	}
	p := report.Period{Account: v.account.ID, Currency: money.CurrencyBRL, From: read("from", today.AddDate(0, 0, -6)), To: read("to", today).AddDate(0, 0, 1)}
	f.set("currency", string(p.Currency))
	if text := q.Get("currency"); text != "" {
		c, err := money.ParseCurrency(text)
		if err != nil {
			f.wrong("currency", "form.choice")
		} else {
			p.Currency = c
			f.set("currency", string(c))
		}
	}
	switch days := int(p.To.Sub(p.From) / dayTime); {
	case f.broken():
	case days < 1:
		f.wrong("to", "statement.day_order")
	case days > statementDays:
		f.wrong("to", "statement.day_many", statementDays)
	}
	return p
}

func (d *Dashboard) showStatement(v *visit) (reply, error) {
	f := newForm(v)
	p := d.period(v, f)
	data := statementData{Form: f, Currency: p.Currency, CSV: pathWith(accountPath(v.account, "statement", "download"), v.URL.Query())}
	for _, c := range money.Currencies {
		data.Currencies = append(data.Currencies, option{string(c), string(c)})
	}
	if f.broken() {
		return again("statement", data)
	}
	before, err := id.Parse(v.URL.Query().Get("after"))
	if err != nil {
		before = id.ID{}
	}
	lines, more, err := report.Latest(v.Context(), d.DB, p, before, statementRows)
	if err != nil {
		return reply{}, err
	}
	last := ""
	for _, l := range lines {
		row := statementRow{Line: l, Reference: report.Reference(&l.Transfer), Amount: l.Transfer.Amount}
		row.Link = v.link(row.Reference)
		from, to := slices.Contains(own, l.Transfer.Source), slices.Contains(own, l.Transfer.Target)
		if row.Inside = from == to; from && !to {
			row.Amount.Units = -row.Amount.Units
		}
		row.Total = money.Amount{Currency: p.Currency, Units: l.Balance.Available + l.Balance.Pending + l.Balance.Blocked}
		data.List = append(data.List, row)
		last = l.Transfer.ID.String()
	}
	data.Pager = newPager(v, more, last)
	return page("statement", data)
}

func (d *Dashboard) downloadStatement(v *visit) (reply, error) {
	f := newForm(v)
	p := d.period(v, f)
	if f.broken() {
		return goTo(pathWith(accountPath(v.account, "statement"), v.URL.Query()))
	}
	name := "ponte-" + v.account.ID.String() + "-" + string(p.Currency) + "-" + f.Value("from") + "-" + f.Value("to") + ".csv"
	return reply{
		header: http.Header{"Content-Type": {"text/csv; charset=utf-8"}, "Content-Disposition": {`attachment; filename="` + name + `"`}},
		stream: func(w io.Writer) error {
			control := http.NewResponseController(v.w)
			return report.WriteCSV(v.Context(), d.DB, p, w, func() {
				_ = control.SetWriteDeadline(d.Clock.Real().Add(csvWriteTime)) // where it cannot be set, the server's own counts
			})
		},
	}, nil
}
