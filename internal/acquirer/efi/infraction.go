package efi

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/acquirer/bcb"
	"github.com/ponte-pay/ponte/internal/acquirer/lenient"
	"github.com/ponte-pay/ponte/internal/pix"
)

const (
	operationInfractions = "med.list"
	operationDefend      = "med.defend"

	// verdictRejected is what we ask for: that the claim does not hold.
	verdictRejected = "rejeitado"
)

// infractionID is a UUID so far.
var infractionID = regexp.MustCompile(`^[0-9A-Za-z-]{1,64}$`)

// ListInfractions returns a page of the infractions that were opened during a window, as they stand. Efí pushes none, and
// does not list by when they changed. See [acquirer.Judge].
func (c *Client) ListInfractions(ctx context.Context, w acquirer.Window) (acquirer.InfractionPage, error) {
	query, number, err := c.ListQuery(operationInfractions, w)
	if err != nil {
		return acquirer.InfractionPage{}, err
	}
	var reply struct {
		Parameters  bcb.Parameters              `json:"parametros"` //nolint:misspell // Portuguese
		Infractions []lenient.Loose[infraction] `json:"infracoes"`
	}
	call := bcb.Call{Operation: operationInfractions, Method: http.MethodGet, Path: "/gn/infracoes", Query: query, Reply: &reply}
	if err := c.Do(ctx, call); err != nil {
		return acquirer.InfractionPage{}, err
	}
	if reply.Infractions == nil && !reply.Parameters.OK { // an empty list may be null
		return acquirer.InfractionPage{}, c.Nonsense(operationInfractions, "the answer is no list of infractions")
	}
	page := acquirer.InfractionPage{Next: reply.Parameters.Next(number, len(reply.Infractions))}
	for _, entry := range reply.Infractions {
		told, ok := entry.Value.infraction()
		if !ok {
			page.Unreadable++
			continue
		}
		page.Infractions = append(page.Infractions, told)
	}
	return page, nil
}

// SubmitDefense hands in a defense. See [acquirer.Judge].
func (c *Client) SubmitDefense(ctx context.Context, d acquirer.Defense) error {
	if !infractionID.MatchString(d.InfractionID) {
		return c.Refuse(operationDefend, "no id of an infraction", acquirer.ErrNotFound)
	}
	text := d.Text
	if d.EvidenceURL != "" {
		text += "\n\n" + d.EvidenceURL // there is no field for it
	}
	body := struct {
		Verdict string `json:"analise"`
		Text    string `json:"justificativa"`
	}{verdictRejected, text}
	return c.Do(ctx, bcb.Call{
		Operation: operationDefend, Method: http.MethodPost, Path: "/gn/infracoes/" + url.PathEscape(d.InfractionID) + "/defesa", Body: body,
		Causes: map[int]error{http.StatusUnprocessableEntity: acquirer.ErrTooLate},
	})
}

// infraction is an infraction as Efí tells it. What is a number in one of its documents is a string in another.
type infraction struct {
	ID         lenient.Text `json:"idInfracao"`
	EndToEndID lenient.Text `json:"endToEndId"`
	Value      lenient.Text `json:"valor"`
	Status     lenient.Text `json:"status"`
	Request    lenient.Text `json:"razao"`
	Situation  lenient.Text `json:"tipoSituacao"`
	Comment    lenient.Text `json:"comentario"`
	Analysis   lenient.Loose[struct {
		Opened   lenient.Moment `json:"abertura"`
		Deadline lenient.Moment `json:"prazoFinalizacao"`
		Closed   lenient.Moment `json:"finalizacao"`
	}] `json:"dadosAnalise"`
	Created lenient.Moment `json:"criadoEm"`
	Changed lenient.Moment `json:"atualizadoEm"`
}

// infraction returns what f says, or false when it makes no sense.
func (f infraction) infraction() (acquirer.Infraction, bool) {
	amount, ok := f.Value.Amount()
	if !ok || amount == 0 || !infractionID.MatchString(string(f.ID)) || !pix.IsEndToEndID(string(f.EndToEndID)) {
		return acquirer.Infraction{}, false
	}
	times := f.Analysis.Value
	told := acquirer.Infraction{
		ID: string(f.ID), EndToEndID: string(f.EndToEndID), Amount: amount, Status: infractionStatus(string(f.Status)),
		Reason: string(cmp.Or(f.Comment, f.Request)), Code: string(f.Situation),
		OpenedAt: times.Opened.Time, DeadlineAt: times.Deadline.Time,
	}
	if told.OpenedAt.IsZero() {
		told.OpenedAt = f.Created.Time
	}
	switch told.Status {
	case acquirer.InfractionAccepted, acquirer.InfractionRejected, acquirer.InfractionCancelled:
		if told.ResolvedAt = times.Closed.Time; told.ResolvedAt.IsZero() {
			told.ResolvedAt = f.Changed.Time
		}
	case acquirer.InfractionUnknown, acquirer.InfractionOpen, acquirer.InfractionUnderReview:
	}
	return told, true
}

func infractionStatus(s string) acquirer.InfractionStatus {
	switch s = strings.ToUpper(s); {
	case s == "ABERTA":
		return acquirer.InfractionOpen
	case s == "EM_DEFESA":
		return acquirer.InfractionUnderReview
	case s == "ACEITA":
		return acquirer.InfractionAccepted
	case s == "REJEITADA":
		return acquirer.InfractionRejected
	case strings.HasPrefix(s, "CANCELADA"): // by whom does not matter here
		return acquirer.InfractionCancelled
	default:
		return acquirer.InfractionUnknown
	}
}
