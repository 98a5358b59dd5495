package api

import (
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/httpkit"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/payout"
	"github.com/ponte-pay/ponte/internal/pix"
	"github.com/ponte-pay/ponte/internal/plainjson"
)

// payoutJSON is a Pix payout.
type payoutJSON struct {
	ID           string        `json:"id"`
	ExternalID   string        `json:"external_id"`
	Amount       money.BRL     `json:"amount"`
	Fee          money.BRL     `json:"fee"`
	FeeAmount    money.BRL     `json:"fee_amount"` // the same as Fee
	NetAmount    money.BRL     `json:"net_amount"` // the same as Amount
	GrossAmount  money.BRL     `json:"gross_amount"`
	TestMode     bool          `json:"test_mode"`
	Status       payout.State  `json:"status"`
	Pix          payoutPixJSON `json:"pix"`
	Description  *string       `json:"description"`
	EndToEndID   *string       `json:"end_to_end_id"`
	ErrorMessage *string       `json:"error_message"`
	CreatedAt    string        `json:"created_at"`
	CompletedAt  *string       `json:"completed_at"`
}

type payoutPixJSON struct {
	Key               string  `json:"key"`
	RecipientName     *string `json:"recipient_name"`
	RecipientDocument *string `json:"recipient_document"`
}

func newPayout(p *payout.Payout) payoutJSON {
	out := payoutJSON{
		ID: id.Payout.Format(p.ID), ExternalID: p.ExternalID, Amount: p.Amount, Fee: p.Fee, FeeAmount: p.Fee, NetAmount: p.Amount,
		GrossAmount: p.Gross(), TestMode: p.IsTest(), Status: p.Status,
		Pix:         payoutPixJSON{p.Key, optional(p.RecipientName), optional(p.RecipientDocument)},
		Description: optional(p.Description), EndToEndID: optional(p.EndToEndID), ErrorMessage: optional(p.ErrorMessage),
		CreatedAt: clock.Timestamp(p.CreatedAt()),
	}
	if !p.CompletedAt.IsZero() {
		out.CompletedAt = optional(clock.Timestamp(p.CompletedAt))
	}
	return out
}

// RenderPayout returns a payout as its events show it, which is as the API does.
func RenderPayout(p *payout.Payout) ([]byte, error) { return plainjson.Append(nil, newPayout(p)) }

// shortageJSON is the details of insufficient_balance_for_fees.
type shortageJSON struct {
	MaxWithdrawable money.BRL `json:"max_withdrawable"`
	Requested       money.BRL `json:"requested_amount"`
	Available       money.BRL `json:"available_balance"`
	Fee             money.BRL `json:"fee_amount"`
	Total           money.BRL `json:"total_required"`
	Missing         money.BRL `json:"additional_balance_needed"`
}

// showShortage gives the details of a refusal their public names.
func showShortage(err error) error {
	refusal, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return err
	}
	short, ok := refusal.Details.(payout.Shortage)
	if !ok {
		return err
	}
	shown := *refusal
	shown.Details = shortageJSON(short)
	return &shown
}

// Lengths of a payout's fields.
const (
	pixKeyMax            = 77
	recipientNameMax     = 200
	recipientDocumentMax = 20
)

func (a *API) createPayout(c *call) (httpkit.Answer, error) {
	body, err := httpkit.ReadObject(c.Request)
	if err != nil {
		return httpkit.Answer{}, err
	}
	f := httpkit.Fields(body)
	request := payout.Request{
		Account: c.principal.Account,
		Key:     c.Header.Get(idempotencyKeyHeader), Hash: body.Hash(),
		Amount:            f.BRL("amount", httpkit.BRLRule{Required: true, Min: payout.AmountMin}),
		PixKey:            readPixKey(f),
		ExternalID:        f.String("external_id", httpkit.StringRule{Required: true, Max: externalIDMax}).Value,
		RecipientName:     f.String("recipient_name", httpkit.StringRule{Max: recipientNameMax}).Value,
		RecipientDocument: readDocument(f, "recipient_document"),
		Description:       f.String("description", httpkit.StringRule{Max: descriptionMax}).Value,
		PostbackURL:       f.String("postback_url", httpkit.StringRule{Max: postbackURLMax, URL: true}).Value,
	}
	if err := f.Err(); err != nil {
		return httpkit.Answer{}, err
	}
	made, outcome, err := a.payouts.Create(c.Context(), request)
	if err != nil {
		return httpkit.Answer{}, showShortage(err)
	}
	return created(outcome, newPayout(&made)), nil
}

// readPixKey reads the recipient's key, flat or nested, of the type that is said or that it has.
func readPixKey(f *httpkit.FieldReader) pix.Key {
	path := "pix_key"
	if !f.Has(path) && f.Has("pix.key") {
		path = "pix.key"
	}
	text := f.String("pix_key", httpkit.StringRule{Required: true, Max: pixKeyMax, Alt: "pix.key"})
	named := f.String("pix_key_type", httpkit.StringRule{})
	var kind pix.KeyType
	var typeErr error
	if named.Value != "" {
		if kind, typeErr = pix.ParseKeyType(named.Value); typeErr != nil {
			f.Issue("pix_key_type", typeErr.Error())
		}
	}
	if !text.Present {
		return pix.Key{}
	}
	key, err := pix.ParseKey(text.Value, kind)
	if err != nil && (typeErr == nil || !errors.Is(err, pix.ErrKeyUnclear)) { // whose cure is the type
		f.Issue(path, err.Error())
	}
	return key
}

// readDocument reads a CPF or CNPJ; "" for none.
func readDocument(f *httpkit.FieldReader, path string) string {
	text := f.String(path, httpkit.StringRule{Max: recipientDocumentMax})
	if text.Value == "" {
		return ""
	}
	document, err := pix.ParseDocument(text.Value)
	if err != nil {
		f.Issue(path, err.Error())
	}
	return string(document)
}

func (a *API) getPayout(c *call) (httpkit.Answer, error) {
	name := c.PathValue("id")
	if !utf8.ValidString(name) || strings.ContainsRune(name, 0) { // what no database can be asked for names nothing
		return httpkit.Answer{}, payout.ErrNotFound
	}
	found, err := a.payouts.Get(c.Context(), c.principal.Account.ID, name)
	if err != nil {
		return httpkit.Answer{}, err
	}
	return httpkit.Answer{Body: newPayout(&found)}, nil
}

func (a *API) listPayouts(c *call) (httpkit.Answer, error) {
	q := httpkit.Query(c.Request)
	page := payout.Page{Limit: q.Int("limit", httpkit.IntRule{Min: 1, Max: pageMax, Default: pageDefault})}
	cursor := q.Cursor("starting_after")
	page.StartingAfter, page.Before = cursor.ID, cursor.Before
	if _, err := id.Payout.Parse(cursor.ID); cursor.ID != "" && err != nil {
		q.Issue(payout.ErrCursor.Issues[0].Path, payout.ErrCursor.Issues[0].Message)
	}
	if err := q.Err(); err != nil {
		return httpkit.Answer{}, err
	}
	list, more, err := a.payouts.List(c.Context(), c.principal.Account.ID, page)
	if err != nil {
		return httpkit.Answer{}, err
	}
	out := httpkit.Page[payoutJSON]{HasMore: more}
	for i := range list {
		out.Data = append(out.Data, newPayout(&list[i]))
	}
	if more {
		out.NextStartingAfter = &out.Data[len(out.Data)-1].ID
	}
	return httpkit.Answer{Body: out}, nil
}
