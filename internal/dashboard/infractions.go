package dashboard

import (
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/infraction"
)

// infractionsData is a page of infractions.
type infractionsData struct {
	List   []infractionRow
	Pager  pager
	Status string
	States []option
	Asked  bool
}

// infractionRow is an infraction in a list or by itself.
type infractionRow struct {
	*infraction.Infraction
	Public string
	Left   time.Duration // to defend it; 0 when that is over
}

func (d *Dashboard) infractionRow(f *infraction.Infraction) infractionRow {
	row := infractionRow{Infraction: f, Public: id.Infraction.Format(f.ID)}
	if f.Status == infraction.Open {
		row.Left = max(0, f.DeadlineAt.Sub(d.Clock.Now()))
	}
	return row
}

func (d *Dashboard) listInfractions(v *visit) (reply, error) {
	status := stateFilter(v, infraction.States)
	data := infractionsData{States: stateOptions(v, "infraction", infraction.States), Status: string(status), Asked: v.URL.RawQuery != ""}
	list, more, err := d.Infractions.List(v.Context(), v.account.ID, infraction.Page{Status: status, StartingAfter: v.URL.Query().Get("after"), Limit: pageRows})
	if errors.Is(err, infraction.ErrCursor) {
		return goTo(accountPath(v.account, "infractions"))
	}
	if err != nil {
		return reply{}, err
	}
	last := ""
	for i := range list {
		row := d.infractionRow(&list[i])
		last = row.Public
		data.List = append(data.List, row)
	}
	data.Pager = newPager(v, more, last)
	return page("infractions", data)
}

// infractionData is an infraction by itself.
type infractionData struct {
	Infraction infractionRow
	Charge     string // its public id
	Form       *form
	Defensible bool
}

func (d *Dashboard) infractionData(v *visit, f *form) (infractionData, error) {
	found, err := d.Infractions.Get(v.Context(), v.account.ID, v.thing())
	if err != nil {
		return infractionData{}, err
	}
	row := d.infractionRow(&found)
	return infractionData{Infraction: row, Charge: id.Charge.Format(found.Charge), Form: f, Defensible: row.Left > 0}, nil
}

func (d *Dashboard) showInfraction(v *visit) (reply, error) {
	data, err := d.infractionData(v, newForm(v))
	if err != nil {
		return reply{}, err
	}
	return page("infraction", data)
}

// defend stores a defense. It can be given once, so that a second one is told that there is nothing to defend.
func (d *Dashboard) defend(v *visit) (reply, error) {
	f := newForm(v)
	data, err := d.infractionData(v, f)
	if err != nil {
		return reply{}, err
	}
	defense := infraction.Defense{
		Text:        f.text("defense_text", textRule{required: true, max: infraction.DefenseTextMax, lines: true}),
		EvidenceURL: f.text("defense_evidence_url", textRule{max: infraction.DefenseEvidenceMax}),
	}
	if defense.EvidenceURL != "" && !isHTTPS(defense.EvidenceURL) {
		f.wrong("defense_evidence_url", "infractions.evidence_wrong")
	}
	if !f.broken() {
		found, err := d.Infractions.Defensible(v.Context(), v.account.ID, v.thing())
		if err == nil {
			_, err = d.Infractions.Defend(v.Context(), found, defense)
		}
		if err == nil || errors.Is(err, infraction.ErrNotOpen) && d.said(v, defense) {
			v.flash("infractions.defended")
			return goTo(accountPath(v.account, "infractions", data.Infraction.Public))
		}
		if !f.refuse(err) {
			return reply{}, err
		}
	}
	return again("infraction", data)
}

// said reports whether this very defense is stored: whoever clicks twice has sent it once.
func (d *Dashboard) said(v *visit, defense infraction.Defense) bool {
	f, err := d.Infractions.Get(v.Context(), v.account.ID, v.thing())
	return err == nil && f.DefenseText == defense.Text && f.DefenseEvidenceURL == defense.EvidenceURL && !f.DefendedAt.IsZero()
}

func isHTTPS(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Scheme == "https" && u.Hostname() != "" && !strings.ContainsAny(text, " \t\r\n")
}
