package dashboard

import (
	"cmp"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/audit"
	"github.com/ponte-pay/ponte/internal/event"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/oplog"
	"github.com/ponte-pay/ponte/internal/user"
	"github.com/ponte-pay/ponte/internal/webhook"
)

// adminDeliveriesData is how events reach their receivers.
type adminDeliveriesData struct {
	Lag     string
	Count   int // of parked deliveries, up to ten thousand
	Parked  []parked
	Failing []*webhook.Endpoint
	Pager   pager
}

// parked is a delivery that has failed for good.
type parked struct {
	webhook.ParkedDelivery
	Event    string
	Endpoint string
	URL      string
}

func (d *Dashboard) adminDeliveries(v *visit) (reply, error) {
	ctx := v.Context()
	var data adminDeliveriesData
	after, err := parseParked(v.URL.Query().Get("after"))
	if err != nil {
		return reply{}, errNoRoute
	}
	list, err := d.Hooks.ListParked(ctx, after, pageRows+1)
	if err != nil {
		return reply{}, err
	}
	for _, one := range list[:min(len(list), pageRows)] {
		data.Parked = append(data.Parked, parked{one, event.Prefix.Format(one.Event), webhook.Prefix.Format(one.Endpoint.ID), one.Endpoint.URL})
	}
	last := ""
	if len(list) > pageRows {
		last = data.Parked[pageRows-1].place()
	}
	data.Pager = newPager(v, last != "", last)
	if data.Lag, err = d.lag(v); err != nil {
		return reply{}, err
	}
	if data.Count, err = d.Hooks.CountParked(ctx); err != nil {
		return reply{}, err
	}
	if data.Failing, err = d.Hooks.FailingLong(ctx); err != nil {
		return reply{}, err
	}
	return page("admin_deliveries", data)
}

// place writes where a list of parked deliveries goes on.
func (p parked) place() string {
	return p.Account.String() + "." + p.ParkedDelivery.Event.String() + "." + p.ParkedDelivery.Endpoint.ID.String()
}

// parseParked reads what place wrote; "" is the beginning.
func parseParked(text string) (*webhook.ParkedDelivery, error) {
	if text == "" {
		return nil, nil
	}
	parts := strings.Split(text, ".")
	const three = 3
	if len(parts) != three {
		return nil, id.ErrSyntax
	}
	p := &webhook.ParkedDelivery{Endpoint: new(webhook.Endpoint)}
	var err error
	if p.Account, err = id.ParseAccount(parts[0]); err != nil {
		return nil, err
	}
	if p.Event, err = id.Parse(parts[1]); err != nil {
		return nil, err
	}
	p.Endpoint.ID, err = id.Parse(parts[2])
	return p, err
}

func (d *Dashboard) adminRedeliver(v *visit) (reply, error) {
	e, err := d.Hooks.GetEvent(v.Context(), v.PostFormValue("event"))
	if err != nil {
		return reply{}, err
	}
	if _, err := d.Hooks.Redeliver(v.Context(), e, v.PostFormValue("endpoint")); err != nil {
		return reply{}, err
	}
	return done(v, "admin.redelivered", adminPath+"/deliveries")
}

// adminEndpoint switches an endpoint that fails off.
func (d *Dashboard) adminEndpoint(v *visit) (reply, error) {
	if _, err := d.Hooks.Disable(v.Context(), v.PostFormValue("endpoint")); err != nil {
		return reply{}, err
	}
	return done(v, "admin.endpoint_disabled", adminPath+"/deliveries")
}

// adminIPsData is the list of blocked networks.
type adminIPsData struct {
	Form   *form
	Blocks []account.Block
}

func (d *Dashboard) adminIPs(v *visit) (reply, error) {
	blocks, err := d.Accounts.ListBlocks(v.Context())
	if err != nil {
		return reply{}, err
	}
	return page("admin_ips", adminIPsData{newForm(v), blocks})
}

func (d *Dashboard) adminBlockIP(v *visit) (reply, error) {
	f := newForm(v)
	network := f.text("network", textRule{required: true, max: 50})
	if holds(network, v.scope.Client) {
		f.wrong("network", "admin.ip_own")
	}
	if !f.broken() {
		_, err := d.Accounts.Block(v.Context(), network)
		switch {
		case err == nil:
			return done(v, "admin.ip_blocked", adminPath+"/ips")
		case fault.As(err).Kind == fault.Invalid:
			f.wrong("network", "admin.ip_wrong")
		default:
			return reply{}, err
		}
	}
	blocks, err := d.Accounts.ListBlocks(v.Context())
	if err != nil {
		return reply{}, err
	}
	return again("admin_ips", adminIPsData{f, blocks})
}

// holds reports whether a network, or an address, is that of addr. It keeps operators from locking themselves out.
func holds(network string, addr netip.Addr) bool {
	if p, err := netip.ParsePrefix(network); err == nil {
		return p.Contains(addr.Unmap())
	}
	a, err := netip.ParseAddr(network)
	return err == nil && a.Unmap() == addr.Unmap()
}

func (d *Dashboard) adminUnblockIP(v *visit) (reply, error) {
	network, err := netip.ParsePrefix(v.PostFormValue("network"))
	if err != nil {
		return reply{}, errForm
	}
	_, err = d.Accounts.Unblock(v.Context(), network.String())
	if err != nil && fault.As(err).Kind != fault.NotFound { // somebody was faster, and it is as it was wished
		return reply{}, err
	}
	return done(v, "admin.ip_unblocked", adminPath+"/ips")
}

// adminPeopleData is everybody who can sign in.
type adminPeopleData struct {
	Form    *form
	Once    string
	People  []user.Person
	Pager   pager
	Link    string // shown once
	Of      string // whom the link is for
	Reset   *form
	ResetOf string // whose form Reset is
}

// ResetForm returns the form that resets somebody.
func (p adminPeopleData) ResetForm(email string) *form {
	if email == p.ResetOf {
		return p.Reset
	}
	return newForm(p.Reset.v)
}

func (d *Dashboard) peopleData(v *visit) (adminPeopleData, error) {
	data := adminPeopleData{Form: newForm(v), Reset: newForm(v), Once: d.once()}
	after := v.URL.Query().Get("after")
	if !isPlain(after) {
		return data, errNoRoute
	}
	people, err := d.Users.List(v.Context(), after)
	if err != nil {
		return data, err
	}
	data.People = people[:min(len(people), peopleRows)]
	last := ""
	if len(people) > peopleRows {
		last = data.People[peopleRows-1].Email
	}
	data.Pager = newPager(v, last != "", last)
	return data, nil
}

// peopleRows is how many people a page shows; one call lists more.
const peopleRows = 50

func (d *Dashboard) adminPeople(v *visit) (reply, error) {
	data, err := d.peopleData(v)
	if err != nil {
		return reply{}, err
	}
	return page("admin_people", data)
}

// inviteBy makes an invitation for whom the form names, once the operator has proven who they are, and returns its link; ""
// when something is wrong with the form.
func (d *Dashboard) inviteBy(v *visit, f *form, i user.Invitation) (link string, err error) {
	i.Email = f.text("email", textRule{required: true, max: user.EmailMax})
	if err := d.prove(v, f); err != nil || f.broken() {
		return "", err
	}
	token, err := d.Users.Invite(v.Context(), i)
	if err != nil {
		if !f.refuse(err) {
			f.Error = v.explain(err)
		}
		return "", nil
	}
	return d.link(v, token), nil
}

// link returns the address of a one-time link.
func (d *Dashboard) link(v *visit, token string) string { return d.origin(v) + LinkPrefix + token }

func (d *Dashboard) adminInviteOperator(v *visit) (reply, error) {
	f := newForm(v)
	link, err := d.inviteBy(v, f, user.Invitation{Operator: true})
	if err != nil {
		return reply{}, err
	}
	data, err := d.peopleData(v)
	if err != nil {
		return reply{}, err
	}
	data.Form, data.Link, data.Of, data.Once = f, link, f.Value("email"), f.nextOnce(data.Once)
	return showSecret("admin_people", f, data)
}

// nextOnce returns the key of the form on the page that is shown then: the same where something was wrong with it.
func (f *form) nextOnce(next string) string {
	if f.broken() {
		return cmp.Or(f.Value("once"), next)
	}
	return next
}

// showSecret shows a page with a secret, or with what is wrong with the form that asks for it.
func showSecret(page string, f *form, data any) (reply, error) {
	shown := reply{page: page, data: data, secret: true}
	if f.broken() {
		shown.status = http.StatusUnprocessableEntity
	} else {
		f.values = map[string]string{} // the next one is another
	}
	return shown, nil
}

func (d *Dashboard) adminReset(v *visit) (reply, error) {
	f := newForm(v)
	email := f.text("email", textRule{required: true, max: user.EmailMax})
	if err := d.prove(v, f); err != nil {
		return reply{}, err
	}
	link := ""
	if !f.broken() {
		token, err := d.Users.Reset(v.Context(), email)
		if err != nil {
			return reply{}, err
		}
		link = d.link(v, token)
	}
	data, err := d.peopleData(v)
	if err != nil {
		return reply{}, err
	}
	data.Reset, data.ResetOf, data.Link, data.Of, data.Once = f, email, link, email, f.nextOnce(data.Once)
	return showSecret("admin_people", f, data)
}

// errOneself keeps operators from locking themselves out.
var errOneself = fault.New(fault.Conflict, "person_oneself", "you cannot remove yourself")

func (d *Dashboard) adminRemovePerson(v *visit) (reply, error) {
	p, err := d.Users.Find(v.Context(), v.PostFormValue("email"))
	if err != nil {
		return reply{}, err
	}
	if p.ID == v.who.Person.ID {
		return reply{}, errOneself
	}
	if _, err := d.Users.Remove(v.Context(), p.Email); err != nil {
		return reply{}, err
	}
	return done(v, "admin.person_removed", adminPath+"/people")
}

// adminAuditData is the audit on demand.
type adminAuditData struct {
	audit.Progress
	Shown   few[ledger.Problem] // of the problems
	Percent int
	Running bool
}

func (d *Dashboard) adminAudit(v *visit) (reply, error) {
	data := adminAuditData{Progress: d.Operator.Audits.Look()}
	data.Shown = newFew(data.Problems)
	data.Running = data.State == audit.Waiting || data.State == audit.Running
	if !data.Running && v.Header.Get("HX-Request") != "" {
		// Its end changes more than what is polled: what was found, and what can be done next.
		v.w.Header().Set("HX-Refresh", "true")
	}
	const whole = 100
	switch {
	case data.State == audit.Done:
		data.Percent = whole
	case data.Of > 0:
		data.Percent = int(min(whole, whole*data.Accounts/data.Of))
	}
	return page("admin_audit", data)
}

func (d *Dashboard) adminStartAudit(v *visit) (reply, error) {
	err := d.Operator.Audits.Start(v.Context())
	if err != nil && fault.As(err).Kind != fault.Conflict { // the one that runs is shown
		return reply{}, err
	}
	return goTo(adminPath + "/audit")
}

func (d *Dashboard) adminCancelAudit(*visit) (reply, error) {
	d.Operator.Audits.Cancel()
	return goTo(adminPath + "/audit")
}

// logEntry is an entry of the operator log in a table.
type logEntry struct {
	oplog.Entry
	Who     string
	Changes []change
}

// change is a field before and after.
type change struct{ Field, Before, After string }

// entries returns entries of the operator log as they are shown.
func (d *Dashboard) entries(v *visit, p oplog.Page) ([]logEntry, error) {
	list, err := oplog.List(v.Context(), d.DB, p)
	if err != nil {
		return nil, err
	}
	var shown []logEntry
	for _, e := range list {
		one := logEntry{Entry: e, Who: e.Actor.String()}
		fields := maps.Clone(e.Before)
		maps.Copy(fields, e.After)
		for _, field := range slices.Sorted(maps.Keys(fields)) {
			if e.Before[field] != "" || e.After[field] != "" {
				one.Changes = append(one.Changes, change{field, e.Before[field], e.After[field]})
			}
		}
		shown = append(shown, one)
	}
	return shown, nil
}

// adminLogData is a page of the operator log.
type adminLogData struct {
	Form    *form
	Account string // only what is about it; "" for all
	Entries []logEntry
	Pager   pager
}

func (d *Dashboard) adminLog(v *visit) (reply, error) {
	q := v.URL.Query()
	data := adminLogData{Form: newForm(v).set("account", strings.TrimSpace(q.Get("account"))), Account: q.Get("account")}
	p := oplog.Page{Limit: pageRows + 1}
	var err error
	if after := q.Get("after"); after != "" {
		if p.Before, err = id.Parse(after); err != nil {
			return reply{}, errNoRoute
		}
	}
	if text := data.Form.Value("account"); text != "" {
		if p.Account, err = id.ParseAccount(text); err != nil {
			data.Form.wrong("account", "admin.account_wrong")
			return again("admin_log", data)
		}
	}
	entries, err := d.entries(v, p)
	if err != nil {
		return reply{}, err
	}
	data.Entries = entries[:min(len(entries), pageRows)]
	last := ""
	if len(entries) > pageRows {
		last = data.Entries[pageRows-1].ID.String()
	}
	data.Pager = newPager(v, last != "", last)
	return page("admin_log", data)
}
