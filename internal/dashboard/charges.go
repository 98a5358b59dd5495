package dashboard

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/charge"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/idempotency"
	"github.com/ponte-pay/ponte/internal/pix"
)

// Limits of what people write about charges and payouts, as the API has them.
const (
	descriptionMax = 140
	externalIDMax  = 120
	personNameMax  = 200
	documentMax    = 20
	searchMax      = 120
)

// chargesData is a page of charges.
type chargesData struct {
	List   []chargeRow
	Pager  pager
	Status string
	States []option
	Search string // what was looked for and not found; "" for nothing
	Asked  bool   // something was asked for: an empty list is no beginning
}

// chargeRow is a charge in a list or by itself.
type chargeRow struct {
	*charge.Charge
	Public string
}

func newChargeRow(c *charge.Charge) chargeRow { return chargeRow{c, id.Charge.Format(c.ID)} }

// search returns what somebody looks for; "" for nothing that could be there.
func (v *visit) search() string {
	text := v.URL.Query().Get("q")
	if len(text) > searchMax*4 || !isPlain(text) {
		return ""
	}
	return text
}

// stateOptions are the states of a kind of thing, to filter by.
func stateOptions[S ~string](v *visit, kind string, states []S) []option {
	list := []option{{"", v.t("common.all")}}
	for _, s := range states {
		list = append(list, option{string(s), v.t("state." + kind + "." + string(s))})
	}
	return list
}

// stateFilter returns the state that somebody filters by; "" for none that exists.
func stateFilter[S ~string](v *visit, states []S) S {
	s := S(v.URL.Query().Get("status"))
	if !slices.Contains(states, s) {
		return ""
	}
	return s
}

func (d *Dashboard) listCharges(v *visit) (reply, error) {
	data := chargesData{States: stateOptions(v, "charge", charge.States)}
	if text := v.search(); text != "" {
		found, err := d.Charges.Search(v.Context(), v.account.ID, text)
		if err == nil {
			return goTo(accountPath(v.account, "charges", id.Charge.Format(found.ID)))
		}
		if !errors.Is(err, charge.ErrNotFound) {
			return reply{}, err
		}
		data.Search, data.Asked = text, true
		return page("charges", data)
	}
	status := stateFilter(v, charge.States)
	list, next, err := d.Charges.Browse(v.Context(), v.account.ID, charge.Filter{Status: status, After: v.URL.Query().Get("after"), Limit: pageRows})
	if err != nil {
		return reply{}, err
	}
	data.Status, data.Asked, data.Pager = string(status), v.URL.RawQuery != "", newPager(v, next != "", next)
	for i := range list {
		data.List = append(data.List, newChargeRow(&list[i]))
	}
	return page("charges", data)
}

// chargeData is a charge by itself.
type chargeData struct {
	Charge   chargeRow
	QR       string // image, while it can be paid
	Timeline []moment
}

// showCharge shows what is stored: whatever an acquirer knows is asked by notifications and sweeps, and a page does not wait
// for a bank.
func (d *Dashboard) showCharge(v *visit) (reply, error) {
	found, err := d.Charges.Search(v.Context(), v.account.ID, v.thing())
	if err != nil {
		return reply{}, err
	}
	data := chargeData{Charge: newChargeRow(&found)}
	if found.Status == charge.Pending {
		if data.QR, err = pix.QRImage(found.CopyPaste); err != nil {
			return reply{}, err
		}
	}
	data.Timeline, err = d.timeline(v.Context(), v, found.ID, chargeEnd(v, &found), chargeRelease(v, &found))
	if err != nil {
		return reply{}, err
	}
	return page("charge", data)
}

// chargeEnd is an end that emits no event.
func chargeEnd(v *visit, c *charge.Charge) moment {
	switch c.Status {
	case charge.Expired:
		return moment{At: c.ExpiresAt, Text: v.t("state.charge.expired")}
	case charge.Cancelled:
		return moment{Text: v.t("state.charge.cancelled")}
	case charge.Refunded:
		return moment{Text: v.t("state.charge.refunded"), Tone: "bad", Note: v.locale.brl(c.Refunded)}
	case charge.Pending, charge.Paid:
	}
	return moment{}
}

// chargeRelease is when its money can be paid out, where it waits.
func chargeRelease(v *visit, c *charge.Charge) moment {
	if c.ReleaseAt.IsZero() {
		return moment{}
	}
	return moment{At: c.ReleaseAt, Text: v.t("charges.release"), Tone: "wait"}
}

// chargeFormData is the form for a new charge.
type chargeFormData struct {
	Form    *form
	Once    string
	Expires []option
}

// expiries are how long a payer may have, in seconds.
var expiries = []time.Duration{15 * time.Minute, time.Hour, 4 * time.Hour, charge.ExpiresInMax}

func (d *Dashboard) chargeForm(v *visit, f *form, once string) chargeFormData {
	data := chargeFormData{Form: f, Once: once}
	for _, e := range expiries {
		data.Expires = append(data.Expires, option{seconds(e), v.locale.left(e)})
	}
	return data
}

func seconds(d time.Duration) string { return strconv.FormatInt(int64(d/time.Second), 10) }

func (d *Dashboard) newCharge(v *visit) (reply, error) {
	return page("charge_new", d.chargeForm(v, newForm(v).set("expires_in", seconds(charge.ExpiresInDefault)), d.once()))
}

func (d *Dashboard) createCharge(v *visit) (reply, error) {
	f := newForm(v)
	key, err := f.onceKey()
	if err != nil {
		return reply{}, err
	}
	request := charge.Request{
		Account: *v.account, Key: key, Origin: account.OriginManual,
		Amount:        f.brl("amount", charge.AmountMin),
		Description:   f.text("description", textRule{max: descriptionMax}),
		PayerName:     f.text("payer_name", textRule{max: personNameMax}),
		PayerDocument: f.document("payer_document"),
		ExternalID:    f.text("external_id", textRule{max: externalIDMax}),
	}
	if strings.Trim(request.PayerDocument, "0123456789") != "" { // as the API has it, although a CNPJ may have letters now
		f.wrong("payer_document", "form.document")
	}
	var words []string
	for _, e := range expiries {
		words = append(words, seconds(e))
	}
	chosen := f.choice("expires_in", words...)
	if at := slices.Index(words, chosen); at >= 0 {
		request.ExpiresIn = expiries[at]
	}
	if !f.broken() {
		request.Hash = hashOf("charge", request.Amount.String(), request.Description, request.PayerName, request.PayerDocument, request.ExternalID, chosen)
		made, err := makeOnce(v.Context(), d, func(ctx context.Context) (charge.Charge, idempotency.Outcome, error) {
			return d.Charges.Create(ctx, request)
		})
		if err == nil {
			v.flash("charges.created")
			return goTo(accountPath(v.account, "charges", id.Charge.Format(made.ID)))
		}
		if !f.refuse(err) {
			return reply{}, err
		}
	}
	return again("charge_new", d.chargeForm(v, f, f.Value("once")))
}
