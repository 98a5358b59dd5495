package dashboard

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/idempotency"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/payout"
	"github.com/ponte-pay/ponte/internal/pix"
	"github.com/ponte-pay/ponte/internal/report"
)

// payoutsData is a page of payouts.
type payoutsData struct {
	List   []payoutRow
	Pager  pager
	Status string
	States []option
	Search string
	Asked  bool
}

// payoutRow is a payout in a list or by itself.
type payoutRow struct {
	*payout.Payout
	Public string
}

func newPayoutRow(p *payout.Payout) payoutRow { return payoutRow{p, id.Payout.Format(p.ID)} }

func (d *Dashboard) listPayouts(v *visit) (reply, error) {
	data := payoutsData{States: stateOptions(v, "payout", payout.States)}
	if text := v.search(); text != "" {
		found, err := d.Payouts.Search(v.Context(), v.account.ID, text)
		if err == nil {
			return goTo(accountPath(v.account, "payouts", id.Payout.Format(found.ID)))
		}
		if !errors.Is(err, payout.ErrNotFound) {
			return reply{}, err
		}
		data.Search, data.Asked = text, true
		return page("payouts", data)
	}
	status := stateFilter(v, payout.States)
	list, next, err := d.Payouts.Browse(v.Context(), v.account.ID, payout.Filter{Status: status, After: v.URL.Query().Get("after"), Limit: pageRows})
	if err != nil {
		return reply{}, err
	}
	data.Status, data.Asked, data.Pager = string(status), v.URL.RawQuery != "", newPager(v, next != "", next)
	for i := range list {
		data.List = append(data.List, newPayoutRow(&list[i]))
	}
	return page("payouts", data)
}

// payoutData is a payout by itself.
type payoutData struct {
	Payout   payoutRow
	Attempts []attemptRow
	Timeline []moment
}

// attemptRow is an acquirer that was asked to send a payout, and what it did.
type attemptRow struct {
	Acquirer string
	State    attemptState
}

type attemptState string

const (
	attemptRefused attemptState = "refused"  // it is proven that it did not send it
	attemptUnknown attemptState = "in_doubt" // nobody knows
	attemptTaken   attemptState = "taken"    // it has it, and may be sending it
	attemptSent    attemptState = "sent"     // the recipient had it, whatever came back later
)

// lastAttempt is what the acquirer did that was asked last.
func lastAttempt(p *payout.Payout) attemptState {
	switch {
	case p.Status == payout.Failed:
		return attemptRefused
	case p.Status != payout.Processing:
		return attemptSent
	case !p.DoubtAt.IsZero():
		return attemptUnknown
	}
	return attemptTaken
}

func (d *Dashboard) showPayout(v *visit) (reply, error) {
	found, err := d.Payouts.Search(v.Context(), v.account.ID, v.thing())
	if err != nil {
		return reply{}, err
	}
	data := payoutData{Payout: newPayoutRow(&found)}
	// What an acquirer said is for operators; that it refused is for everybody.
	var refusals []struct {
		Acquirer string `json:"acquirer"`
	}
	if err := json.Unmarshal([]byte(found.Routing), &refusals); err != nil {
		return reply{}, err
	}
	for _, r := range refusals {
		data.Attempts = append(data.Attempts, attemptRow{r.Acquirer, attemptRefused})
	}
	if found.Status != payout.Failed || len(refusals) == 0 {
		data.Attempts = append(data.Attempts, attemptRow{found.Acquirer, lastAttempt(&found)})
	}
	returns, err := payout.Returns(v.Context(), d.DB, &found)
	if err != nil {
		return reply{}, err
	}
	others := append(moments(v, v.t("payouts.returned"), returns), payoutDoubt(v, &found))
	if data.Timeline, err = d.timeline(v.Context(), v, found.ID, others...); err != nil {
		return reply{}, err
	}
	return page("payout", data)
}

func payoutDoubt(v *visit, p *payout.Payout) moment {
	if p.DoubtAt.IsZero() {
		return moment{}
	}
	return moment{At: p.DoubtAt, Text: v.t("payouts.doubt"), Tone: "wait"}
}

// payoutFormData is the form for a new payout, and the page that has it confirmed.
type payoutFormData struct {
	Form      *form
	Once      string
	Available money.BRL
	KeyTypes  []option
	HasTOTP   bool

	// To be confirmed.
	Request payout.Request
	Fee     money.BRL
	Total   money.BRL
}

// Fields are what is confirmed, as it was filled in.
func (payoutFormData) Fields() []string {
	return []string{"amount", "pix_key", "pix_key_type", "recipient_name", "recipient_document", "description", "external_id"}
}

func (d *Dashboard) payoutForm(v *visit, f *form, once string) (payoutFormData, error) {
	data := payoutFormData{Form: f, Once: once, HasTOTP: v.who.Person.HasTOTP, KeyTypes: []option{{"", v.t("payouts.key_infer")}}}
	for _, k := range pix.KeyTypes {
		data.KeyTypes = append(data.KeyTypes, option{string(k), v.t("payouts.key_" + string(k))})
	}
	b, err := report.GetBalance(v.Context(), d.DB, v.account.ID)
	data.Available = b.Available
	return data, err
}

func (d *Dashboard) newPayout(v *visit) (reply, error) {
	once := d.once()
	data, err := d.payoutForm(v, newForm(v).set("external_id", "manual-"+once[:8]), once)
	if err != nil {
		return reply{}, err
	}
	return page("payout_new", data)
}

// readPayout reads the form, which is sent twice: to be shown, and confirmed.
func (d *Dashboard) readPayout(v *visit, f *form) (payout.Request, error) {
	key, err := f.onceKey()
	if err != nil {
		return payout.Request{}, err
	}
	r := payout.Request{
		Account: *v.account, Key: key, Origin: account.OriginManual,
		Amount:            f.brl("amount", payout.AmountMin),
		RecipientName:     f.text("recipient_name", textRule{max: personNameMax}),
		RecipientDocument: f.document("recipient_document"),
		Description:       f.text("description", textRule{max: descriptionMax}),
		ExternalID:        f.text("external_id", textRule{required: true, max: externalIDMax}),
	}
	kind := pix.KeyType(f.text("pix_key_type", textRule{}))
	if kind != "" {
		if kind, err = pix.ParseKeyType(string(kind)); err != nil {
			f.wrong("pix_key_type", "form.choice")
		}
	}
	text := f.text("pix_key", textRule{required: true})
	if f.Errors["pix_key"] == "" && f.Errors["pix_key_type"] == "" {
		if r.PixKey, err = pix.ParseKey(text, kind); err != nil {
			f.wrong("pix_key", keyTexts[err])
		}
	}
	r.Hash = hashOf("payout", r.Amount.String(), r.PixKey.Value, r.RecipientName, r.RecipientDocument, r.Description, r.ExternalID)
	return r, nil
}

// keyTexts are what is wrong with a Pix key.
var keyTexts = map[error]string{
	pix.ErrKeyUnclear: "payouts.key_unclear",
	pix.ErrKey:        "payouts.key_wrong",
	pix.ErrKeyEmail:   "payouts.key_wrong",
	pix.ErrKeyPhone:   "payouts.key_wrong",
	pix.ErrKeyRandom:  "payouts.key_wrong",
}

// confirmPayout shows what would be sent. Nothing happens yet.
func (d *Dashboard) confirmPayout(v *visit) (reply, error) {
	f := newForm(v)
	r, err := d.readPayout(v, f)
	if err != nil {
		return reply{}, err
	}
	data, err := d.payoutForm(v, f, f.Value("once"))
	if err != nil {
		return reply{}, err
	}
	data.price(&r)
	if !f.broken() && data.Total > data.Available {
		f.wrong("amount", "payouts.short", v.locale.brl(data.Total), v.locale.brl(data.Available))
	}
	if f.broken() {
		return again("payout_new", data)
	}
	return page("payout_confirm", data)
}

func (p *payoutFormData) price(r *payout.Request) {
	p.Request = *r
	p.Fee = money.BRL(r.Account.Settings.CashOutFee.Of(r.Amount.Amount()).Units)
	p.Total = r.Amount + p.Fee
}

// createPayout sends it, once it is confirmed with a code. What the visitor was shown is what is sent: another fee is shown
// again.
func (d *Dashboard) createPayout(v *visit) (reply, error) {
	f := newForm(v)
	r, err := d.readPayout(v, f)
	if err != nil {
		return reply{}, err
	}
	data, err := d.payoutForm(v, f, f.Value("once"))
	if err != nil {
		return reply{}, err
	}
	data.price(&r)
	if f.broken() {
		return again("payout_new", data)
	}
	if v.PostFormValue("total") != data.Total.String() {
		f.Error = v.t("payouts.fee_changed")
		return again("payout_confirm", data)
	}
	if err := d.checkCode(v, f, r.Key); err != nil {
		return reply{}, err
	}
	if f.broken() {
		return again("payout_confirm", data)
	}
	made, err := makeOnce(v.Context(), d, func(ctx context.Context) (payout.Payout, idempotency.Outcome, error) {
		return d.Payouts.Create(ctx, r)
	})
	if fault.As(err).Kind == fault.Ambiguous && err != nil {
		// It exists, and nobody knows yet whether it was sent: it is followed, and never sent by hand again.
		v.flash("payouts.ambiguous")
		if made, err = d.Payouts.Search(v.Context(), v.account.ID, r.ExternalID); err != nil {
			return goTo(accountPath(v.account, "payouts"))
		}
		return goTo(accountPath(v.account, "payouts", id.Payout.Format(made.ID)))
	}
	if err != nil {
		if !f.refuse(err) {
			return reply{}, err
		}
		if short, ok := fault.As(err).Details.(payout.Shortage); ok {
			f.Error = v.t("payouts.short", v.locale.brl(short.Total), v.locale.brl(short.Available))
		}
		return again("payout_confirm", data)
	}
	v.flash("payouts.created")
	return goTo(accountPath(v.account, "payouts", id.Payout.Format(made.ID)))
}
