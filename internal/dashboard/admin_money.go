package dashboard

import (
	"encoding/json"
	"time"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/charge"
	"github.com/ponte-pay/ponte/internal/deposit"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/infraction"
	"github.com/ponte-pay/ponte/internal/payout"
	"github.com/ponte-pay/ponte/internal/withdrawal"
)

// adminAcquirersData is how acquirers do.
type adminAcquirersData struct {
	Acquirers []acquirer.Health
	Decisions []decision
	Off       *form
	OffName   string // whose form is Off
}

// decision is an acquirer that was asked or passed over.
type decision struct {
	acquirer.Decision
	Account string // "" when its name does not tell
	Why     string
	Tone    string
}

const decisionsShown = 50

// reasons are why an acquirer was asked or passed over, by the names of their texts.
var reasons = map[acquirer.Reason]string{
	acquirer.ReasonFirst:      "admin.reason_first",
	acquirer.ReasonFailover:   "admin.reason_failover",
	acquirer.ReasonTrial:      "admin.reason_trial",
	acquirer.ReasonLastResort: "admin.reason_last",
	acquirer.ReasonOpen:       "admin.reason_open",
	acquirer.ReasonTrialBusy:  "admin.reason_busy",
	acquirer.ReasonNoTime:     "admin.reason_time",
	acquirer.ReasonOff:        "admin.reason_off",
}

// outcomeTones are how outcomes look.
var outcomeTones = map[acquirer.Outcome]string{
	acquirer.Accepted: "good", acquirer.Refused: "bad", acquirer.Unknown: "wait", acquirer.Skipped: "over",
}

func (d *Dashboard) acquirersData(v *visit) adminAcquirersData {
	data := adminAcquirersData{Acquirers: d.Operator.Router.Health(), Off: newForm(v)}
	recent := d.Operator.Router.Recent()
	for _, one := range recent[:min(len(recent), decisionsShown)] {
		shown := decision{Decision: one, Why: v.t(reasons[one.Reason]), Tone: outcomeTones[one.Outcome]}
		if _, number, err := id.ParseToken(one.Name); err == nil {
			shown.Account = number.String()
		}
		data.Decisions = append(data.Decisions, shown)
	}
	return data
}

func (d *Dashboard) adminAcquirers(v *visit) (reply, error) {
	return page("admin_acquirers", d.acquirersData(v))
}

// errNoAcquirer is for a name that no acquirer has.
var errNoAcquirer = fault.New(fault.NotFound, "", "there is no such acquirer")

func (d *Dashboard) adminAcquirerOff(v *visit) (reply, error) {
	f := newForm(v)
	name, reason := f.text("acquirer", textRule{required: true}), f.reason(true)
	if _, known := d.Operator.Router.Get(name); !known {
		return reply{}, errNoAcquirer
	}
	if !f.broken() {
		err := d.Operator.Switches.Off(v.Context(), name, reason)
		if err == nil {
			return d.switched(v, "admin.acquirer_off_done")
		}
		if !f.refuse(err) {
			return reply{}, err
		}
	}
	data := d.acquirersData(v)
	data.Off, data.OffName = f, name
	return again("admin_acquirers", data)
}

func (d *Dashboard) adminAcquirerOn(v *visit) (reply, error) {
	name := v.PostFormValue("acquirer")
	if _, known := d.Operator.Router.Get(name); !known {
		return reply{}, errNoAcquirer
	}
	err := d.Operator.Switches.On(v.Context(), name)
	if err != nil && fault.As(err).Kind != fault.Conflict { // somebody was faster, and it is as it was wished
		return reply{}, err
	}
	return d.switched(v, "admin.acquirer_on_done")
}

// switched has this node follow at once; the others do within two seconds.
func (d *Dashboard) switched(v *visit, said string) (reply, error) {
	if _, err := d.Operator.Switches.Step(d.Operator.Router)(v.Context()); err != nil {
		return reply{}, err
	}
	return done(v, said, adminPath+"/acquirers")
}

// routedCharge is a charge with why it is at its acquirer.
type routedCharge struct {
	charge.Charge
	Routing []routing
}

// routing is one line of a charge's routing, as it is stored.
type routing struct {
	Acquirer string          `json:"acquirer"`
	Reason   acquirer.Reason `json:"reason"`
	Outcome  string          `json:"outcome"`
	Error    string          `json:"error"`

	Why    string `json:"-"` // as people read it
	Result string `json:"-"` // as people read it
	Tone   string `json:"-"` // of the outcome
}

// routed reads the routing of charges. One that cannot be read is shown without.
func routed(v *visit, list []charge.Charge) []routedCharge {
	tones := map[string]string{}
	for outcome, tone := range outcomeTones {
		tones[outcome.String()] = tone
	}
	out := make([]routedCharge, len(list))
	for i, c := range list {
		out[i].Charge = c
		if json.Unmarshal([]byte(c.Routing), &out[i].Routing) != nil {
			out[i].Routing = nil
		}
		for j := range out[i].Routing {
			r := &out[i].Routing[j]
			r.Why, r.Result, r.Tone = v.t(reasons[r.Reason]), v.t("admin.outcome_"+r.Outcome), tones[r.Outcome]
		}
	}
	return out
}

// Public returns the charge's identifier.
func (c routedCharge) Public() string { return id.Charge.Format(c.ID) }

// adminDoubtData is money of which nobody knows whether it left, and coins that are worth a look.
type adminDoubtData struct {
	Doubts  few[doubt]
	Reviews few[review]
	Now     time.Time
}

// doubt is a payout or a withdrawal in doubt.
type doubt struct {
	Kind    string // payout or withdrawal
	Public  string
	Account id.Account
	Amount  string // with its fee, as people read it
	Where   string // the acquirer or the provider
	Name    string // what that one knows it by
	Sends   int64
	Since   time.Time
	CheckAt time.Time
	Reason  string // what the provider said; "" for nothing
}

// review is a deposit that an operator should look at.
type review struct {
	deposit.Deposit
	Public string
}

// reviewAgeMax is how long operators are shown what happened to a deposit after its end. Business time.
const reviewAgeMax = 7 * 24 * time.Hour

func (d *Dashboard) adminDoubt(v *visit) (reply, error) {
	data := adminDoubtData{Now: d.Clock.Now()}
	var doubts []doubt
	payouts, err := payout.ListDoubts(v.Context(), d.DB)
	if err != nil {
		return reply{}, err
	}
	for i := range payouts {
		p := &payouts[i]
		doubts = append(doubts, doubt{
			Kind: "payout", Public: id.Payout.Format(p.ID), Account: p.Account, Amount: v.locale.brl(p.Gross()), Where: p.Acquirer, Name: p.Name(),
			Sends: p.Sends, Since: p.DoubtAt, CheckAt: p.CheckAt,
		})
	}
	withdrawals, err := withdrawal.ListDoubts(v.Context(), d.DB)
	if err != nil {
		return reply{}, err
	}
	for i := range withdrawals {
		w := &withdrawals[i]
		name := w.ProviderID
		if name == "" {
			name = w.Name()
		}
		doubts = append(doubts, doubt{
			Kind: "withdrawal", Public: id.CryptoPayout.Format(w.ID), Account: w.Account, Amount: v.locale.usdt(w.Gross()), Where: w.Provider, Name: name,
			Sends: w.Sends, Since: w.DoubtAt, CheckAt: w.CheckAt, Reason: w.Reason,
		})
	}
	reviews, err := deposit.ListReviews(v.Context(), d.DB, d.Clock.Now().Add(-reviewAgeMax))
	if err != nil {
		return reply{}, err
	}
	list := make([]review, len(reviews))
	for i := range reviews {
		list[i] = review{reviews[i], id.CryptoCharge.Format(reviews[i].ID)}
	}
	data.Doubts, data.Reviews = newFew(doubts), newFew(list)
	return page("admin_doubt", data)
}

// adminAsk asks a payout's acquirer now, instead of when it is due. It changes nothing that the acquirer does not say.
func (d *Dashboard) adminAsk(v *visit) (reply, error) {
	number, err := id.ParseAccount(v.PostFormValue("account"))
	if err != nil {
		return reply{}, errForm
	}
	p, err := d.Payouts.Ask(v.Context(), number, v.PostFormValue("id"))
	if err != nil {
		return reply{}, err
	}
	if p.DoubtAt.IsZero() {
		return done(v, "admin.asked_known", adminPath+"/doubt")
	}
	return done(v, "admin.asked_still", adminPath+"/doubt")
}

// strays are why a payment or an infraction belongs to nobody, as they are stored, by the names of their texts.
var strays = map[string]string{ //nolint:gosec // names of texts, no credentials
	"it could not be followed: its charge must be looked at": "admin.stray_lost",
	"it names no charge of ours":                             "admin.stray_foreign",
	"it names no crypto charge of ours":                      "admin.stray_foreign",
	"its charge is at another acquirer":                      "admin.stray_elsewhere",
	"its crypto charge is at another provider":               "admin.stray_elsewhere",
	"it names another charge than the one it is shown with":  "admin.stray_mixed",
	"it was paid to another key than its charge's":           "admin.stray_key",
	"its payment was credited to nobody":                     "admin.stray_uncredited",
}

// stray says why something belongs to nobody; one that has no text of ours as it is stored.
func (l locale) stray(reason string) string {
	if key := strays[reason]; key != "" {
		return l.text(key)
	}
	return reason
}

// adminUnmatchedData is what belongs to nobody.
type adminUnmatchedData struct {
	Payments    few[charge.Unmatched]
	Infractions few[infraction.Unmatched]
	Coins       few[deposit.Unmatched]
	Form        *form
	Name        string // what Form is about
}

func (d *Dashboard) unmatchedData(v *visit) (data adminUnmatchedData, err error) {
	data.Form = newForm(v)
	payments, err := charge.ListUnmatched(v.Context(), d.DB)
	if err != nil {
		return data, err
	}
	infractions, err := infraction.ListUnmatched(v.Context(), d.DB)
	if err != nil {
		return data, err
	}
	coins, err := deposit.ListUnmatched(v.Context(), d.DB)
	data.Payments, data.Infractions, data.Coins = newFew(payments), newFew(infractions), newFew(coins)
	return data, err
}

func (d *Dashboard) adminUnmatched(v *visit) (reply, error) {
	data, err := d.unmatchedData(v)
	if err != nil {
		return reply{}, err
	}
	return page("admin_unmatched", data)
}

func (d *Dashboard) adminDismiss(v *visit) (reply, error) {
	f := newForm(v)
	name, reason := f.text("name", textRule{required: true}), f.reason(true)
	dismiss := map[string]func() error{
		"payment":    func() error { return charge.DismissUnmatched(v.Context(), d.DB, d.IDs, name, reason) },
		"infraction": func() error { return infraction.DismissUnmatched(v.Context(), d.DB, d.IDs, name, reason) },
		"coins":      func() error { return deposit.DismissUnmatched(v.Context(), d.DB, d.IDs, name, reason) },
	}[v.PostFormValue("kind")]
	if dismiss == nil {
		return reply{}, errForm
	}
	if !f.broken() {
		err := dismiss()
		if err == nil {
			return done(v, "admin.dismissed", adminPath+"/unmatched")
		}
		if !f.refuse(err) {
			return reply{}, err
		}
	}
	data, err := d.unmatchedData(v)
	if err != nil {
		return reply{}, err
	}
	data.Form, data.Name = f, name
	return again("admin_unmatched", data)
}

// adminInfractionsData are infractions of all accounts.
type adminInfractionsData struct {
	Form        *form
	States      []option
	Infractions []claim
	Pager       pager
	Concern     infraction.Concern
	Now         time.Time
}

// claim is an infraction in a list.
type claim struct {
	infraction.Infraction
	Public string
	Left   time.Duration // until a defense is too late; 0 when none is awaited
}

func (d *Dashboard) adminInfractions(v *visit) (reply, error) {
	q := v.URL.Query()
	data := adminInfractionsData{Form: newForm(v).set("status", q.Get("status")), States: []option{{"", v.t("admin.any_status")}}, Now: d.Clock.Now()}
	known := q.Get("status") == ""
	for _, s := range infraction.States {
		known = known || q.Get("status") == string(s)
		data.States = append(data.States, option{string(s), v.t("admin.infraction_" + string(s))})
	}
	var border id.ID
	if after := q.Get("after"); after != "" {
		var err error
		if border, err = id.Infraction.Parse(after); err != nil {
			return reply{}, errNoRoute
		}
	}
	if !known {
		return reply{}, errNoRoute
	}
	list, err := infraction.Latest(v.Context(), d.DB, infraction.State(q.Get("status")), border, pageRows+1)
	if err != nil {
		return reply{}, err
	}
	more := len(list) > pageRows
	for _, f := range list[:min(len(list), pageRows)] {
		one := claim{Infraction: f, Public: id.Infraction.Format(f.ID)}
		if f.Status == infraction.Open {
			one.Left = f.DeadlineAt.Sub(data.Now)
		}
		data.Infractions = append(data.Infractions, one)
	}
	if more {
		data.Pager = newPager(v, true, data.Infractions[pageRows-1].Public)
	} else {
		data.Pager = newPager(v, false, "")
	}
	data.Concern, err = infraction.CountConcerns(v.Context(), d.DB, data.Now)
	if err != nil {
		return reply{}, err
	}
	return page("admin_infractions", data)
}
