package dashboard

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/charge"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/idempotency"
	"github.com/ponte-pay/ponte/internal/infraction"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/oplog"
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

// search returns what somebody looks for; "" for nothing. What no database can be asked for is replaced, and what is longer
// than anything that has a name is cut and marked, so that neither is found.
func (v *visit) search() string {
	text := strings.ToValidUTF8(strings.TrimSpace(v.URL.Query().Get("q")), string(unicode.ReplacementChar))
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
	if runes := []rune(text); len(runes) > searchMax {
		return string(runes[:searchMax]) + "…"
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
	Charge      chargeRow
	QR          string // image, while it can be paid
	Timeline    []moment
	Inflows     []ledger.Transfer // what came by it beside its amount
	Infractions []infractionRow   // about its payments
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
	if data.Inflows, err = charge.Inflows(v.Context(), d.DB, &found); err != nil {
		return reply{}, err
	}
	infractions, err := d.Infractions.OfCharge(v.Context(), v.account.ID, found.ID)
	if err != nil {
		return reply{}, err
	}
	if !v.account.Settings.Disabled.Has(account.ResourceMED) {
		for i := range infractions {
			data.Infractions = append(data.Infractions, d.infractionRow(&infractions[i]))
		}
	}
	others, err := d.chargeMoments(v, &found, infractions)
	if err != nil {
		return reply{}, err
	}
	if data.Timeline, err = d.timeline(v.Context(), v, found.ID, others...); err != nil {
		return reply{}, err
	}
	return page("charge", data)
}

// chargeMoments are what happens to a charge and emits no event.
func (d *Dashboard) chargeMoments(v *visit, c *charge.Charge, infractions []infraction.Infraction) ([]moment, error) {
	list, err := d.chargeRefunds(v, c, infractions)
	if err != nil {
		return nil, err
	}
	list = append(list, chargeRelease(v, c))
	switch c.Status {
	case charge.Expired:
		list = append(list, moment{At: c.ExpiresAt, Text: v.t("state.charge.expired")})
	case charge.Cancelled:
		at, err := d.cancelledAt(v.Context(), c)
		if err != nil {
			return nil, err
		}
		list = append(list, moment{At: at, Text: v.t("state.charge.cancelled")})
	case charge.Pending, charge.Paid, charge.Refunded:
	}
	return list, nil
}

// chargeRefunds are what was given back of a charge's payment, by its acquirer or for an infraction.
func (d *Dashboard) chargeRefunds(v *visit, c *charge.Charge, infractions []infraction.Infraction) ([]moment, error) {
	if c.Refunded == 0 {
		return nil, nil
	}
	transfers, err := charge.Refunds(v.Context(), d.DB, c)
	if err != nil {
		return nil, err
	}
	for i := range infractions {
		if infractions[i].EndToEndID != c.EndToEndID {
			continue
		}
		debits, err := d.Infractions.Debits(v.Context(), &infractions[i])
		if err != nil {
			return nil, err
		}
		transfers = append(transfers, debits...)
	}
	slices.SortFunc(transfers, func(a, b ledger.Transfer) int { return a.ID.Compare(b.ID) })
	list := moments(v, v.t("charges.refunded"), transfers)
	switch {
	case c.Status != charge.Refunded:
	case len(list) == 0: // it was given back before we saw it: no money moved, and nobody wrote down when
		list = []moment{{Text: v.t("state.charge.refunded"), Tone: "bad", Note: v.locale.brl(c.Refunded)}}
	default:
		list[len(list)-1].Text = v.t("state.charge.refunded")
	}
	return list, nil
}

// cancelledAt returns when an operator cancelled a charge; zero when its acquirer did, of which no time is kept.
func (d *Dashboard) cancelledAt(ctx context.Context, c *charge.Charge) (time.Time, error) {
	// It was pending then, so that not much else was logged since.
	entries, err := oplog.List(ctx, d.DB, oplog.Page{Account: c.Account, Before: id.First(c.ExpiresAt.Add(dayTime))})
	if err != nil {
		return time.Time{}, err
	}
	for i := range entries {
		if entries[i].Action == oplog.ChargeCancel && entries[i].Subject == id.Charge.Format(c.ID) {
			return entries[i].ID.Time(), nil
		}
	}
	return time.Time{}, nil
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
