package api

import (
	"time"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/httpkit"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/infraction"
	"github.com/ponte-pay/ponte/internal/money"
)

// infractionJSON is an infraction in a list.
type infractionJSON struct {
	ID                 string           `json:"id"`
	ExternalID         *string          `json:"external_id"`
	EndToEndID         *string          `json:"end_to_end_id"`
	Reason             *string          `json:"reason"`
	ReasonCode         *string          `json:"reason_code"`
	Amount             money.BRL        `json:"amount"`
	Status             infraction.State `json:"status"`
	OpenedAt           *string          `json:"opened_at"`
	DeadlineAt         *string          `json:"deadline_at"`
	ResolvedAt         *string          `json:"resolved_at"`
	DefenseSubmittedAt *string          `json:"defense_submitted_at"`
}

// infractionDetailJSON is an infraction by itself.
type infractionDetailJSON struct {
	infractionJSON
	DefenseText        *string `json:"defense_text"`
	DefenseEvidenceURL *string `json:"defense_evidence_url"`
}

func newInfraction(f *infraction.Infraction) infractionJSON {
	return infractionJSON{
		ID: id.Infraction.Format(f.ID), ExternalID: optional(f.ExternalID), EndToEndID: optional(f.EndToEndID),
		Reason: optional(f.Reason), ReasonCode: optional(f.ReasonCode), Amount: f.Amount, Status: f.Status,
		OpenedAt: optionalTime(f.OpenedAt), DeadlineAt: optionalTime(f.DeadlineAt), ResolvedAt: optionalTime(f.ResolvedAt),
		DefenseSubmittedAt: optionalTime(f.DefendedAt),
	}
}

func newInfractionDetail(f *infraction.Infraction) infractionDetailJSON {
	return infractionDetailJSON{newInfraction(f), optional(f.DefenseText), optional(f.DefenseEvidenceURL)}
}

// optionalTime shows a time, null for none.
func optionalTime(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	return optional(clock.Timestamp(t))
}

// Sizes of a page of infractions, which are smaller than elsewhere.
const (
	infractionPageMax     = 100
	infractionPageDefault = 20
)

func (a *API) listInfractions(c *call) (httpkit.Answer, error) {
	q := httpkit.Query(c.Request)
	var states []string
	for _, s := range infraction.States {
		states = append(states, string(s))
	}
	page := infraction.Page{
		Status: infraction.State(q.OneOf("status", states...)),
		Limit:  q.Int("limit", httpkit.IntRule{Min: 1, Max: infractionPageMax, Default: infractionPageDefault}),
	}
	cursor := q.Cursor("starting_after")
	page.StartingAfter, page.Before = cursor.ID, cursor.Before
	if _, err := id.Infraction.Parse(cursor.ID); cursor.ID != "" && err != nil {
		q.Issue(infraction.ErrCursor.Issues[0].Path, infraction.ErrCursor.Issues[0].Message)
	}
	if err := q.Err(); err != nil {
		return httpkit.Answer{}, err
	}
	list, more, err := a.infractions.List(c.Context(), c.principal.Account.ID, page)
	if err != nil {
		return httpkit.Answer{}, err
	}
	out := httpkit.Page[infractionJSON]{HasMore: more}
	for i := range list {
		out.Data = append(out.Data, newInfraction(&list[i]))
	}
	if more {
		out.NextStartingAfter = &out.Data[len(out.Data)-1].ID
	}
	return httpkit.Answer{Body: out}, nil
}

func (a *API) getInfraction(c *call) (httpkit.Answer, error) {
	found, err := a.infractions.Get(c.Context(), c.principal.Account.ID, c.PathValue("id"))
	if err != nil {
		return httpkit.Answer{}, err
	}
	return httpkit.Answer{Body: newInfractionDetail(&found)}, nil
}

// submitDefense looks at the infraction before it reads the body: a repetition is told that there is nothing to defend,
// whatever it says.
func (a *API) submitDefense(c *call) (httpkit.Answer, error) {
	found, err := a.infractions.Defensible(c.Context(), c.principal.Account.ID, c.PathValue("id"))
	if err != nil {
		return httpkit.Answer{}, err
	}
	body, err := httpkit.ReadObject(c.Request)
	if err != nil {
		return httpkit.Answer{}, err
	}
	f := httpkit.Fields(body)
	defense := infraction.Defense{
		Text:        f.String("defense_text", httpkit.StringRule{Required: true, Max: infraction.DefenseTextMax}).Value,
		EvidenceURL: f.String("defense_evidence_url", httpkit.StringRule{Max: infraction.DefenseEvidenceMax, HTTPS: true}).Value,
	}
	if err := f.Err(); err != nil {
		return httpkit.Answer{}, err
	}
	defended, err := a.infractions.Defend(c.Context(), found, defense)
	if err != nil {
		return httpkit.Answer{}, err
	}
	return httpkit.Answer{Body: newInfractionDetail(&defended)}, nil
}
