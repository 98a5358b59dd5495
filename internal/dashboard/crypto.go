package dashboard

import (
	"context"
	"errors"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/chain"
	"github.com/ponte-pay/ponte/internal/chain/address"
	"github.com/ponte-pay/ponte/internal/deposit"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/idempotency"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/pix"
	"github.com/ponte-pay/ponte/internal/withdrawal"
)

// coin returns a coin's name for people, such as USDT · BNB Smart Chain.
func coinName(code string) string {
	c, ok := chain.FindCoin(code)
	switch {
	case !ok:
		return code
	case c.Symbol == c.NetworkName || c.Name == c.NetworkName:
		return c.Name + " (" + c.Symbol + ")"
	}
	return c.Symbol + " · " + c.NetworkName
}

func coinOptions(fits func(chain.Coin) bool) []option {
	var list []option
	for _, c := range chain.Coins {
		if fits(c) {
			list = append(list, option{c.Code, coinName(c.Code)})
		}
	}
	return list
}

func isDeposit(c chain.Coin) bool    { return c.Deposit }
func isWithdrawal(c chain.Coin) bool { return c.Withdrawal }

// usdtAvailable returns what can be withdrawn.
func (d *Dashboard) usdtAvailable(v *visit) (money.USDT, error) {
	b, err := ledger.Balances(v.Context(), d.DB, v.account.ID, money.CurrencyUSDT)
	return money.USDT(b.Available), err
}

// depositsData is a page of deposits.
type depositsData struct {
	List    []depositRow
	Pager   pager
	Balance money.USDT
	Search  string
	Asked   bool
}

type depositRow struct {
	*deposit.Deposit
	Public string
	Coin   string
}

func newDepositRow(x *deposit.Deposit) depositRow {
	return depositRow{x, id.CryptoCharge.Format(x.ID), coinName(x.PayCurrency)}
}

func (d *Dashboard) listDeposits(v *visit) (reply, error) {
	balance, err := d.usdtAvailable(v)
	if err != nil {
		return reply{}, err
	}
	data := depositsData{Balance: balance, Asked: v.URL.RawQuery != ""}
	if text := v.search(); text != "" {
		found, err := d.Deposits.Search(v.Context(), v.account.ID, text)
		if err == nil {
			return goTo(accountPath(v.account, "deposits", id.CryptoCharge.Format(found.ID)))
		}
		if !errors.Is(err, deposit.ErrNotFound) {
			return reply{}, err
		}
		data.Search = text
		return page("deposits", data)
	}
	list, more, err := d.Deposits.List(v.Context(), v.account.ID, deposit.Page{StartingAfter: v.URL.Query().Get("after"), Limit: pageRows})
	if errors.Is(err, deposit.ErrCursor) {
		return goTo(accountPath(v.account, "deposits"))
	}
	if err != nil {
		return reply{}, err
	}
	last := ""
	for i := range list {
		row := newDepositRow(&list[i])
		last = row.Public
		data.List = append(data.List, row)
	}
	data.Pager = newPager(v, more, last)
	return page("deposits", data)
}

// depositData is a deposit by itself.
type depositData struct {
	Deposit  depositRow
	QR       string // of the address, while coins are awaited
	Timeline []moment
}

// showDeposit shows what is stored, as showCharge does.
func (d *Dashboard) showDeposit(v *visit) (reply, error) {
	found, err := d.Deposits.Search(v.Context(), v.account.ID, v.thing())
	if err != nil {
		return reply{}, err
	}
	data := depositData{Deposit: newDepositRow(&found)}
	if found.Status == deposit.Waiting {
		if data.QR, err = pix.QRImage(found.PayAddress); err != nil {
			return reply{}, err
		}
	}
	refunds, err := deposit.Refunds(v.Context(), d.DB, &found)
	if err != nil {
		return reply{}, err
	}
	if data.Timeline, err = d.timeline(v.Context(), v, found.ID, moments(v, v.t("crypto.refunded"), refunds)...); err != nil {
		return reply{}, err
	}
	return page("deposit", data)
}

// depositFormData is the form for a new deposit.
type depositFormData struct {
	Form  *form
	Once  string
	Coins []option
}

func (d *Dashboard) newDeposit(v *visit) (reply, error) {
	return page("deposit_new", depositFormData{newForm(v), d.once(), coinOptions(isDeposit)})
}

func (d *Dashboard) createDeposit(v *visit) (reply, error) {
	f := newForm(v)
	key, err := f.onceKey()
	if err != nil {
		return reply{}, err
	}
	r := deposit.Request{
		Account: *v.account, Key: key,
		Price:       f.usd("amount"),
		PayCurrency: f.text("pay_currency", textRule{required: true}),
		ExternalID:  f.text("external_id", textRule{max: externalIDMax}),
		CustomerID:  f.text("customer_id", textRule{max: externalIDMax}),
		Description: f.text("description", textRule{max: descriptionMax}),
	}
	if !f.broken() {
		r.Hash = hashOf("deposit", r.Price.String(), r.PayCurrency, r.ExternalID, r.CustomerID, r.Description)
		made, err := makeOnce(v.Context(), d, func(ctx context.Context) (deposit.Deposit, idempotency.Outcome, error) {
			return d.Deposits.Create(ctx, r)
		})
		if err == nil {
			v.flash("crypto.deposit_created")
			return goTo(accountPath(v.account, "deposits", id.CryptoCharge.Format(made.ID)))
		}
		if !f.refuse(err) {
			return reply{}, err
		}
	}
	return again("deposit_new", depositFormData{f, f.Value("once"), coinOptions(isDeposit)})
}

// withdrawalsData is a page of withdrawals.
type withdrawalsData struct {
	List    []withdrawalRow
	Pager   pager
	Balance money.USDT
}

type withdrawalRow struct {
	*withdrawal.Withdrawal
	Public string
	Coin   string
}

func newWithdrawalRow(w *withdrawal.Withdrawal) withdrawalRow {
	return withdrawalRow{w, id.CryptoPayout.Format(w.ID), coinName(w.Currency)}
}

func (d *Dashboard) listWithdrawals(v *visit) (reply, error) {
	balance, err := d.usdtAvailable(v)
	if err != nil {
		return reply{}, err
	}
	data := withdrawalsData{Balance: balance}
	list, more, err := d.Withdrawals.List(v.Context(), v.account.ID, withdrawal.Page{StartingAfter: v.URL.Query().Get("after"), Limit: pageRows})
	if errors.Is(err, withdrawal.ErrCursor) {
		return goTo(accountPath(v.account, "withdrawals"))
	}
	if err != nil {
		return reply{}, err
	}
	last := ""
	for i := range list {
		row := newWithdrawalRow(&list[i])
		last = row.Public
		data.List = append(data.List, row)
	}
	data.Pager = newPager(v, more, last)
	return page("withdrawals", data)
}

// withdrawalData is a withdrawal by itself.
type withdrawalData struct {
	Withdrawal withdrawalRow
	Timeline   []moment
}

func (d *Dashboard) showWithdrawal(v *visit) (reply, error) {
	found, err := d.Withdrawals.Get(v.Context(), v.account.ID, v.thing())
	if err != nil {
		return reply{}, err
	}
	data := withdrawalData{Withdrawal: newWithdrawalRow(&found)}
	var doubt moment
	if !found.DoubtAt.IsZero() {
		doubt = moment{At: found.DoubtAt, Text: v.t("payouts.doubt"), Tone: "wait"}
	}
	if data.Timeline, err = d.timeline(v.Context(), v, found.ID, doubt); err != nil {
		return reply{}, err
	}
	return page("withdrawal", data)
}

// withdrawalFormData is the form for a new withdrawal, and the page that has it confirmed.
type withdrawalFormData struct {
	Form      *form
	Once      string
	Coins     []option
	Available money.USDT
	HasTOTP   bool

	// To be confirmed.
	Request  withdrawal.Request
	Estimate withdrawal.Estimate
	Coin     string
	Total    money.USDT
}

// Fields are what is confirmed, as it was filled in.
func (withdrawalFormData) Fields() []string {
	return []string{"amount", "currency", "address", "extra_id", "external_id"}
}

func (d *Dashboard) withdrawalForm(v *visit, f *form, once string) (data withdrawalFormData, err error) {
	data = withdrawalFormData{Form: f, Once: once, Coins: coinOptions(isWithdrawal), HasTOTP: v.who.Person.HasTOTP}
	data.Available, err = d.usdtAvailable(v)
	return data, err
}

func (d *Dashboard) newWithdrawal(v *visit) (reply, error) {
	data, err := d.withdrawalForm(v, newForm(v), d.once())
	if err != nil {
		return reply{}, err
	}
	return page("withdrawal_new", data)
}

// readWithdrawal reads the form, which is sent twice: to be shown, and confirmed.
func (d *Dashboard) readWithdrawal(v *visit, f *form) (withdrawal.Request, error) {
	key, err := f.onceKey()
	if err != nil {
		return withdrawal.Request{}, err
	}
	r := withdrawal.Request{
		Account: *v.account, Key: key, Origin: account.OriginManual,
		Amount:     f.usdt("amount"),
		ExtraID:    f.text("extra_id", textRule{max: extraIDMax}),
		ExternalID: f.text("external_id", textRule{max: externalIDMax}),
	}
	code, text := f.text("currency", textRule{required: true}), f.text("address", textRule{required: true, max: addressMax})
	coin, ok := chain.FindCoin(code)
	if !ok || !coin.Withdrawal {
		f.wrong("currency", "form.choice")
		return r, nil
	}
	r.Coin = coin
	if f.Errors["address"] == "" {
		if r.Address, err = address.Check(coin.Network, text); err != nil {
			f.wrong("address", "crypto.address_wrong", coin.NetworkName)
		}
	}
	r.Hash = hashOf("withdrawal", r.Amount.String(), code, r.Address, r.ExtraID, r.ExternalID)
	return r, nil
}

// Lengths of a withdrawal's fields, as the API has them.
const (
	addressMax = 128
	extraIDMax = 128
)

// priceWithdrawal asks what it would cost and deliver now.
func (d *Dashboard) priceWithdrawal(v *visit, data *withdrawalFormData, r *withdrawal.Request) error {
	e, err := d.Withdrawals.Estimate(v.Context(), *v.account, r.Coin, r.Amount)
	if err != nil {
		return err
	}
	data.Request, data.Estimate, data.Coin, data.Total = *r, e, coinName(r.Coin.Code), e.Amount+e.Fee
	return nil
}

// confirmWithdrawal shows what would be sent. Nothing happens yet.
func (d *Dashboard) confirmWithdrawal(v *visit) (reply, error) {
	f := newForm(v)
	r, err := d.readWithdrawal(v, f)
	if err != nil {
		return reply{}, err
	}
	data, err := d.withdrawalForm(v, f, f.Value("once"))
	if err != nil {
		return reply{}, err
	}
	if !f.broken() {
		if err := d.priceWithdrawal(v, &data, &r); err != nil {
			f.Error = v.explain(err)
		} else if data.Total > data.Available {
			f.wrong("amount", "payouts.short", v.locale.usdt(data.Total), v.locale.usdt(data.Available))
		}
	}
	if f.broken() {
		return again("withdrawal_new", data)
	}
	return page("withdrawal_confirm", data)
}

// createWithdrawal sends it, once it is confirmed with a code.
func (d *Dashboard) createWithdrawal(v *visit) (reply, error) {
	f := newForm(v)
	r, err := d.readWithdrawal(v, f)
	if err != nil {
		return reply{}, err
	}
	data, err := d.withdrawalForm(v, f, f.Value("once"))
	if err != nil {
		return reply{}, err
	}
	if f.broken() {
		return again("withdrawal_new", data)
	}
	if err := d.priceWithdrawal(v, &data, &r); err != nil {
		f.Error = v.explain(err)
		return again("withdrawal_new", data)
	}
	if v.PostFormValue("total") != data.Total.String() {
		f.Error = v.t("payouts.fee_changed")
		return again("withdrawal_confirm", data)
	}
	if err := d.checkCode(v, f, r.Key); err != nil {
		return reply{}, err
	}
	if f.broken() {
		return again("withdrawal_confirm", data)
	}
	made, err := makeOnce(v.Context(), d, func(ctx context.Context) (withdrawal.Withdrawal, idempotency.Outcome, error) {
		return d.Withdrawals.Create(ctx, r)
	})
	if err != nil {
		if fault.As(err).Kind == fault.Internal || !f.refuse(err) {
			return reply{}, err
		}
		return again("withdrawal_confirm", data)
	}
	v.flash("crypto.withdrawal_created")
	return goTo(accountPath(v.account, "withdrawals", id.CryptoPayout.Format(made.ID)))
}
