package dashboard

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ponte-pay/ponte/internal/event"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/webhook"
)

// eventRow is an event in a list or by itself.
type eventRow struct {
	event.Event
	Public   string
	At       time.Time
	Resource string       // the public id of what it happened to; "" for none
	Page     string       // of the resource; "" for none
	States   []stateCount // of its deliveries
}

// stateCount is how many deliveries are in a state.
type stateCount struct {
	State webhook.State
	Count int
}

// countStates counts equal states, in the order in which they come.
func countStates(states []webhook.State) (list []stateCount) {
	for _, s := range states {
		at := slices.IndexFunc(list, func(c stateCount) bool { return c.State == s })
		if at < 0 {
			at = len(list)
			list = append(list, stateCount{State: s})
		}
		list[at].Count++
	}
	return list
}

// newEventRow looks into an event for what it happened to.
func newEventRow(v *visit, e event.Event) eventRow {
	row := eventRow{Event: e, Public: event.Prefix.Format(e.ID), At: e.CreatedAt()}
	var data struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(e.Data, &data) == nil {
		row.Resource = data.ID
	}
	for prefix, area := range resourcePages {
		if _, err := prefix.Parse(row.Resource); err == nil {
			row.Page = accountPath(v.account, area, row.Resource)
		}
	}
	return row
}

// resourcePages are where things are shown, by the prefixes of their identifiers.
var resourcePages = map[id.Prefix]string{ //nolint:exhaustive // the others have no events, or no pages
	id.Charge: "charges", id.Payout: "payouts", id.CryptoCharge: "deposits", id.CryptoPayout: "withdrawals",
}

// eventsData is a page of events.
type eventsData struct {
	List  []eventRow
	Type  string   // that it is narrowed to; "" for all
	Types []option // that it can be
	Find  string   // what was looked for and not found; "" for nothing
	Pager pager
	Part  bool // there may be more although the page is short
}

func (d *Dashboard) listEvents(v *visit) (reply, error) {
	data := eventsData{Types: []option{{"", v.t("events.all_types")}}}
	query := event.Query{Limit: pageRows}
	asked := v.URL.Query()
	for _, t := range event.Written {
		data.Types = append(data.Types, option{string(t), string(t)})
		if asked.Get("type") == string(t) {
			query.Type, data.Type = t, string(t)
		}
	}
	if public := strings.TrimSpace(asked.Get("q")); public != "" {
		switch _, err := d.event(v, public); {
		case err == nil:
			return goTo(accountPath(v.account, "events", public))
		case !errors.Is(err, webhook.ErrNoEvent):
			return reply{}, err
		}
		data.Find = public
		return page("events", data)
	}
	if after := asked.Get("after"); after != "" {
		var err error
		if query.Before, err = event.Prefix.Parse(after); err != nil {
			return reply{}, webhook.ErrNoEvent
		}
	}
	list, next, err := event.List(v.Context(), d.DB, v.account.ID, query)
	if err != nil {
		return reply{}, err
	}
	for _, e := range list {
		row := newEventRow(v, e)
		states, err := d.Hooks.States(v.Context(), v.account.ID, e.ID)
		if err != nil {
			return reply{}, err
		}
		row.States = countStates(states)
		data.List = append(data.List, row)
	}
	data.Pager, data.Part = newPager(v, !next.IsZero(), event.Prefix.Format(next)), !next.IsZero() && len(list) < pageRows
	return page("events", data)
}

// event returns an event of the account, or [webhook.ErrNoEvent].
func (d *Dashboard) event(v *visit, public string) (event.Event, error) {
	x, err := event.Prefix.Parse(public)
	if err != nil {
		return event.Event{}, webhook.ErrNoEvent
	}
	e, err := event.Get(v.Context(), d.DB, v.account.ID, x)
	if errors.Is(err, sqldb.ErrNoRows) {
		err = webhook.ErrNoEvent
	}
	return e, err
}

// deliveryRow is what became of an event at an endpoint.
type deliveryRow struct {
	webhook.Delivery
	Public string // of the endpoint
}

// Last returns the last attempt, or nil.
func (r *deliveryRow) Last() *webhook.Attempt {
	if len(r.Attempts) == 0 {
		return nil
	}
	return &r.Attempts[len(r.Attempts)-1]
}

// eventData is an event with its deliveries.
type eventData struct {
	Event      eventRow
	JSON       string // for people to read
	Deliveries []*deliveryRow
	Others     []option // active endpoints that were not told
}

func (d *Dashboard) eventData(v *visit) (eventData, error) {
	e, err := d.event(v, v.PathValue("event"))
	if err != nil {
		return eventData{}, err
	}
	data := eventData{Event: newEventRow(v, e)}
	var b bytes.Buffer
	if json.Indent(&b, e.Body(), "", "  ") == nil {
		data.JSON = b.String()
	}
	deliveries, err := d.Hooks.Deliveries(v.Context(), v.account.ID, e.ID)
	for _, one := range deliveries {
		data.Deliveries = append(data.Deliveries, &deliveryRow{one, webhook.Prefix.Format(one.Endpoint)})
	}
	return data, err
}

func (d *Dashboard) showEvent(v *visit) (reply, error) {
	data, err := d.eventData(v)
	if err != nil {
		return reply{}, err
	}
	endpoints, err := d.Hooks.List(v.Context(), v.account.ID)
	if err != nil {
		return reply{}, err
	}
	for _, e := range endpoints {
		told := slices.ContainsFunc(data.Deliveries, func(r *deliveryRow) bool { return r.Endpoint == e.ID })
		if !told && e.Status == webhook.Active {
			data.Others = append(data.Others, option{webhook.Prefix.Format(e.ID), e.URL})
		}
	}
	return page("event", data)
}

// redeliver sends an event again, to one endpoint or to all that were told.
func (d *Dashboard) redeliver(v *visit) (reply, error) {
	e, err := d.event(v, v.PathValue("event"))
	if err != nil {
		return reply{}, err
	}
	n, err := d.Hooks.Redeliver(v.Context(), e, v.PostFormValue("endpoint"))
	if err != nil {
		return reply{}, err
	}
	if n > 0 {
		v.flash("events.redelivered")
	} else {
		v.flash("events.redelivered_none")
	}
	return goTo(accountPath(v.account, "events", event.Prefix.Format(e.ID)))
}

// deliveryData is one delivery with one of its attempts in full.
type deliveryData struct {
	Event    eventRow
	Delivery *deliveryRow
	Shown    *webhook.Attempt // nil when none was made yet
	Request  string           // what it sent; "" when nothing was
	Response string
	Latest   []webhook.Attempt // the last ones, the latest first
	Moving   bool              // it is about to change
}

const (
	attemptsShown = 20
	// A delivery whose next attempt is due that soon is looked at again by the page itself.
	movingSeconds = 30
)

func (d *Dashboard) showDelivery(v *visit) (reply, error) {
	all, err := d.eventData(v)
	if err != nil {
		return reply{}, err
	}
	data := deliveryData{Event: all.Event}
	for _, one := range all.Deliveries {
		if one.Public == v.PathValue("endpoint") {
			data.Delivery = one
		}
	}
	if data.Delivery == nil {
		return reply{}, webhook.ErrNotFound
	}
	data.Shown = data.Delivery.Last()
	if asked := v.URL.Query().Get("attempt"); asked != "" {
		n, _ := strconv.ParseInt(asked, 10, 64) // 0 is no attempt
		at := slices.IndexFunc(data.Delivery.Attempts, func(a webhook.Attempt) bool { return a.Number == n })
		if at < 0 {
			return reply{}, webhook.ErrNotFound
		}
		data.Shown = &data.Delivery.Attempts[at]
	}
	data.Latest = slices.Clone(data.Delivery.Attempts[max(0, len(data.Delivery.Attempts)-attemptsShown):])
	slices.Reverse(data.Latest)
	data.Moving = data.Delivery.State == webhook.Waiting && data.Delivery.DueAt.Sub(d.Clock.Now()).Seconds() < movingSeconds
	if data.Shown != nil {
		data.Response = strings.ToValidUTF8(string(data.Shown.Response), "\ufffd")
		if data.Shown.Signature != "" {
			data.Request = requestText(data.Delivery.Sent(&all.Event.Event, data.Shown))
		}
	}
	return page("delivery", data)
}

// requestText writes a message as it is sent.
func requestText(m webhook.Message) string {
	var b strings.Builder
	if u, err := url.Parse(m.URL); err == nil {
		b.WriteString("POST " + u.RequestURI() + " HTTP/1.1\nHost: " + u.Host + "\n")
	}
	for _, h := range m.Headers() {
		b.WriteString(h.Name + ": " + h.Value + "\n")
	}
	b.WriteString("\n")
	b.Write(m.Body)
	return b.String()
}
