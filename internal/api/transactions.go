package api

import (
	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/httpkit"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/report"
)

// transactionJSON is one inflow or outflow.
type transactionJSON struct {
	ID         string         `json:"id"`
	Type       report.Type    `json:"type"`
	ResourceID *string        `json:"resource_id"`
	Amount     money.BRL      `json:"amount"`
	Fee        money.BRL      `json:"fee"`
	Net        money.BRL      `json:"net_amount"`
	Gross      money.BRL      `json:"gross_amount"`
	Status     report.Status  `json:"status"`
	Method     string         `json:"method"`
	Origin     account.Origin `json:"origin"`
	CreatedAt  string         `json:"created_at"`
}

// Sizes of a page.
const (
	pageDefault = 50
	pageMax     = 200
)

func (a *API) listTransactions(c *call) (httpkit.Answer, error) {
	q := httpkit.Query(c.Request)
	page := report.Page{
		Limit: q.Int("limit", httpkit.IntRule{Min: 1, Max: pageMax, Default: pageDefault}),
		Type:  report.Type(q.OneOf("type", string(report.CashIn), string(report.CashOut))),
	}
	cursor := q.Cursor("starting_after")
	page.StartingAfter, page.Before = cursor.ID, cursor.Before
	if cursor.ID != "" && !report.IsTransactionID(cursor.ID) {
		q.Issue(report.ErrCursor.Issues[0].Path, report.ErrCursor.Issues[0].Message)
	}
	if err := q.Err(); err != nil {
		return httpkit.Answer{}, err
	}
	list, more, err := report.ListTransactions(c.Context(), a.db, c.principal.Account.ID, page)
	if err != nil {
		return httpkit.Answer{}, err
	}
	out := httpkit.Page[transactionJSON]{HasMore: more}
	for _, t := range list {
		out.Data = append(out.Data, newTransaction(&t))
	}
	if more {
		out.NextStartingAfter = &out.Data[len(out.Data)-1].ID
	}
	return httpkit.Answer{Body: out}, nil
}

func newTransaction(t *report.Transaction) transactionJSON {
	out := transactionJSON{
		ID: t.PublicID(), Type: t.Type, Amount: t.Amount, Fee: t.Fee, Net: t.Net, Gross: t.Gross,
		Status: t.Status, Method: "pix", Origin: t.Origin, CreatedAt: clock.Timestamp(t.CreatedAt),
	}
	if t.ResourceID != "" {
		out.ResourceID = &t.ResourceID
	}
	return out
}
