package dashboard

import (
	"encoding/base64"
	"strings"
	"time"

	"github.com/ponte-pay/ponte/internal/event"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/webhook"
)

// hookRow is an endpoint in a list or by itself.
type hookRow struct {
	*webhook.Endpoint
	Public string
}

func newHookRow(e *webhook.Endpoint) hookRow { return hookRow{e, webhook.Prefix.Format(e.ID)} }

// hooksData is the list of an account's endpoints.
type hooksData struct {
	List []hookRow
	Max  int // that an account may have
}

func (d *Dashboard) listHooks(v *visit) (reply, error) {
	endpoints, err := d.Hooks.List(v.Context(), v.account.ID)
	if err != nil {
		return reply{}, err
	}
	data := hooksData{Max: webhook.EndpointsMax}
	for _, e := range endpoints {
		data.List = append(data.List, newHookRow(e))
	}
	return page("hooks", data)
}

// typeChoice is a type of event that can be chosen.
type typeChoice struct {
	Type    event.Type
	Checked bool
}

// choiceData is the part of a form that chooses types of events.
type choiceData struct {
	Form    *form
	Sent    []typeChoice // that exist today
	Planned []typeChoice // that do not yet
}

// Words of the choice between all types and some.
const (
	scopeAll  = "all"
	scopeSome = "some"
)

// newChoice shows which types are chosen; nil means all.
func newChoice(f *form, types []event.Type, all bool) choiceData {
	data := choiceData{Form: f}
	if f.Value("scope") == "" {
		f.set("scope", scopeSome)
		if all {
			f.set("scope", scopeAll)
		}
	}
	chosen := map[event.Type]bool{}
	for _, t := range types {
		chosen[t] = true
	}
	for _, t := range event.Types {
		if one := (typeChoice{t, chosen[t]}); t.IsWritten() {
			data.Sent = append(data.Sent, one)
		} else {
			data.Planned = append(data.Planned, one)
		}
	}
	return data
}

// eventTypes reads which types were chosen; nil means all.
func (f *form) eventTypes() (types []event.Type) {
	all := f.choice("scope", scopeAll, scopeSome) == scopeAll
	named := f.v.PostForm["event"]
	if len(named) > len(event.Types) {
		f.wrong("event", "form.choice")
		return nil
	}
	if all {
		return nil
	}
	if len(named) == 0 {
		f.wrong("event", "hooks.events_none")
		return nil
	}
	types, err := webhook.ParseEvents(strings.Join(named, ","))
	if err != nil {
		f.wrong("event", "form.choice")
	}
	return types
}

// newHookData is the form for a new endpoint.
type newHookData struct {
	Form   *form
	Choice choiceData
}

func (d *Dashboard) newHook(v *visit) (reply, error) {
	f := newForm(v)
	return page("hook_new", newHookData{f, newChoice(f, nil, true)})
}

// secretData shows a secret of an endpoint, once.
type secretData struct {
	Hook   hookRow
	Secret string
}

func (d *Dashboard) createHook(v *visit) (reply, error) {
	f := newForm(v)
	url, types := f.text("url", textRule{required: true, max: webhook.URLMax}), f.eventTypes()
	if !f.broken() {
		made, secret, err := d.Hooks.Create(v.Context(), v.account.ID, webhook.Endpoint{URL: url, Events: types})
		if err == nil {
			return reply{page: "hook_secret", data: secretData{newHookRow(made), secret}, secret: true}, nil
		}
		if !f.refuse(err) {
			return reply{}, err
		}
	}
	return again("hook_new", newHookData{f, newChoice(f, types, false)})
}

// hookData is an endpoint with its log.
type hookData struct {
	Hook   hookRow
	Choice choiceData
	Rotate *form
	Afters []option // when a new secret begins to sign
	Once   string   // of the form that tries it
	Log    []toldRow
	Status string   // that the log is narrowed to; "" for all
	States []option // that it can be
	Pager  pager
	Part   bool // the log may go on although the page is short
}

// toldRow is a delivery in a log.
type toldRow struct {
	webhook.Told
	Public string // of the event
}

// afters are the delays that a new secret can have. It may be any by the command line.
var afters = []time.Duration{0, time.Hour, 24 * time.Hour, 72 * time.Hour, 7 * 24 * time.Hour}

const afterDefault = "24h0m0s"

var deliveryStates = []webhook.State{webhook.Waiting, webhook.Delivered, webhook.Parked}

func (d *Dashboard) showHook(v *visit) (reply, error) {
	e, err := d.Hooks.GetOf(v.Context(), v.account.ID, v.PathValue("endpoint"))
	if err != nil {
		return reply{}, err
	}
	data, err := d.hookData(v, e)
	if err != nil {
		return reply{}, err
	}
	return page("hook", data)
}

func (d *Dashboard) hookData(v *visit, e *webhook.Endpoint) (hookData, error) {
	data := hookData{
		Hook: newHookRow(e), Choice: newChoice(newForm(v), e.Events, e.Events == nil), Rotate: newForm(v).set("after", afterDefault), Once: d.once(),
		States: stateOptions(v, "delivery", deliveryStates),
	}
	for _, after := range afters {
		text := v.t("hooks.at_once")
		if after > 0 {
			text = v.t("hooks.in", v.locale.left(after))
		}
		data.Afters = append(data.Afters, option{after.String(), text})
	}
	query := webhook.HistoryQuery{State: stateFilter(v, deliveryStates), Limit: pageRows}
	data.Status = string(query.State)
	if after := v.URL.Query().Get("after"); after != "" {
		var err error
		if query.Before, err = event.Prefix.Parse(after); err != nil {
			return data, webhook.ErrNoEvent
		}
	}
	told, next, err := d.Hooks.History(v.Context(), e, query)
	if err != nil {
		return data, err
	}
	for _, t := range told {
		data.Log = append(data.Log, toldRow{t, event.Prefix.Format(t.Event)})
	}
	data.Pager = newPager(v, !next.IsZero(), event.Prefix.Format(next))
	data.Part = !next.IsZero() && len(told) < pageRows
	return data, nil
}

// changeHook runs a change of an endpoint of the account, says so and shows the endpoint.
func (d *Dashboard) changeHook(v *visit, said string, change func(public string) error) (reply, error) {
	public := v.PathValue("endpoint")
	if _, err := d.Hooks.GetOf(v.Context(), v.account.ID, public); err != nil {
		return reply{}, err
	}
	if err := change(public); err != nil {
		return reply{}, err
	}
	v.flash(said)
	return goTo(accountPath(v.account, "webhooks", public))
}

func (d *Dashboard) enableHook(v *visit) (reply, error) {
	return d.changeHook(v, "hooks.enabled", func(public string) error {
		_, err := d.Hooks.Enable(v.Context(), public)
		return err
	})
}

func (d *Dashboard) disableHook(v *visit) (reply, error) {
	return d.changeHook(v, "hooks.disabled", func(public string) error {
		_, err := d.Hooks.Disable(v.Context(), public)
		return err
	})
}

func (d *Dashboard) deleteHook(v *visit) (reply, error) {
	_, err := d.changeHook(v, "hooks.deleted", func(public string) error {
		_, err := d.Hooks.Delete(v.Context(), public)
		return err
	})
	if err != nil {
		return reply{}, err
	}
	return goTo(accountPath(v.account, "webhooks"))
}

func (d *Dashboard) subscribeHook(v *visit) (reply, error) {
	f := newForm(v)
	types := f.eventTypes()
	if !f.broken() {
		return d.changeHook(v, "hooks.subscribed", func(public string) error {
			_, err := d.Hooks.Subscribe(v.Context(), public, types)
			return err
		})
	}
	return d.hookAgain(v, func(data *hookData) { data.Choice = newChoice(f, types, false) })
}

// hookAgain shows an endpoint with what was wrong with a form of its page.
func (d *Dashboard) hookAgain(v *visit, with func(*hookData)) (reply, error) {
	e, err := d.Hooks.GetOf(v.Context(), v.account.ID, v.PathValue("endpoint"))
	if err != nil {
		return reply{}, err
	}
	data, err := d.hookData(v, e)
	if err != nil {
		return reply{}, err
	}
	with(&data)
	return again("hook", data)
}

func (d *Dashboard) rotateHook(v *visit) (reply, error) {
	f := newForm(v)
	var words []string
	for _, after := range afters {
		words = append(words, after.String())
	}
	after, err := time.ParseDuration(f.choice("after", words...))
	if err != nil {
		return d.hookAgain(v, func(data *hookData) { data.Rotate = f })
	}
	e, err := d.Hooks.GetOf(v.Context(), v.account.ID, v.PathValue("endpoint"))
	if err != nil {
		return reply{}, err
	}
	e, secret, err := d.Hooks.Rotate(v.Context(), webhook.Prefix.Format(e.ID), after)
	if err != nil {
		return reply{}, err
	}
	return reply{page: "hook_secret", data: secretData{newHookRow(e), secret}, secret: true}, nil
}

// tryHook sends a test event and shows what became of it.
func (d *Dashboard) tryHook(v *visit) (reply, error) {
	once, err := v.onceID()
	if err != nil {
		return reply{}, err
	}
	public := v.PathValue("endpoint")
	e, err := d.Hooks.Try(v.Context(), v.account.ID, public, once)
	if err != nil {
		return reply{}, err
	}
	return goTo(accountPath(v.account, "events", event.Prefix.Format(e.ID), "deliveries", public))
}

// onceID returns the hidden key of a form as an identifier.
func (v *visit) onceID() (id.ID, error) {
	b, err := base64.RawURLEncoding.DecodeString(v.PostFormValue("once"))
	if err != nil || len(b) != len(id.ID{}) {
		return id.ID{}, errForm
	}
	return id.ID(b), nil
}

// redeliverData is the form that sends the events of a time again.
type redeliverData struct {
	Form   *form
	Hooks  []option
	Failed bool
	Done   *webhook.Redelivered // nil before
	Rest   string               // where exactly to go on, which a form that knows minutes cannot say; "" for nowhere
}

// momentLayout is how browsers write a moment in a form.
const momentLayout = "2006-01-02T15:04"

// rangeEventsMax is how many events one form looks at, so that it is answered soon. The form then offers to go on.
const rangeEventsMax = 2000

func (d *Dashboard) redeliverData(v *visit, f *form) (redeliverData, error) {
	data := redeliverData{Form: f, Hooks: []option{{"", v.t("hooks.all_hooks")}}}
	endpoints, err := d.Hooks.List(v.Context(), v.account.ID)
	for _, e := range endpoints {
		data.Hooks = append(data.Hooks, option{webhook.Prefix.Format(e.ID), e.URL})
	}
	return data, err
}

func (d *Dashboard) newRedelivery(v *visit) (reply, error) {
	now := d.Clock.Now().In(brasilia)
	f := newForm(v).set("endpoint", v.URL.Query().Get("endpoint")).
		set("since", now.Add(-24*time.Hour).Format(momentLayout)).set("until", now.Add(time.Minute).Format(momentLayout))
	data, err := d.redeliverData(v, f)
	if err != nil {
		return reply{}, err
	}
	data.Failed = true
	return page("redeliver", data)
}

// moment reads a moment in Brasilia's time.
func (f *form) moment(field string) time.Time {
	text := f.text(field, textRule{required: true})
	t, err := time.ParseInLocation(momentLayout, text, brasilia)
	if err != nil {
		f.wrong(field, "form.moment")
	}
	return t
}

func (d *Dashboard) redeliverRange(v *visit) (reply, error) {
	f := newForm(v)
	r := webhook.Range{Since: f.moment("since"), Until: f.moment("until"), Failed: v.PostFormValue("failed") != "", EventsMax: rangeEventsMax}
	// A minute may have more events than one form looks at.
	if rest, err := time.Parse(time.RFC3339Nano, v.PostFormValue("rest")); err == nil && rest.In(brasilia).Format(momentLayout) == f.Value("since") {
		r.Since = rest
	}
	if public := f.text("endpoint", textRule{}); public != "" {
		e, err := d.Hooks.GetOf(v.Context(), v.account.ID, public)
		if err != nil {
			return reply{}, err
		}
		r.Endpoint = e.ID
	}
	var done *webhook.Redelivered
	if !f.broken() {
		made, err := d.Hooks.RedeliverRange(v.Context(), v.account.ID, r)
		if err == nil {
			done = &made
		} else if !f.refuse(err) {
			return reply{}, err
		}
	}
	if done != nil && !done.Next.IsZero() {
		f.set("since", done.Next.In(brasilia).Format(momentLayout))
	}
	data, err := d.redeliverData(v, f)
	if err != nil {
		return reply{}, err
	}
	data.Failed, data.Done = r.Failed, done
	if done != nil && !done.Next.IsZero() {
		data.Rest = done.Next.Format(time.RFC3339Nano)
	}
	if done == nil {
		return again("redeliver", data)
	}
	return page("redeliver", data)
}
