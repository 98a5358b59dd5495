package api

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/charge"
	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/httpkit"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/pix"
	"github.com/ponte-pay/ponte/internal/plainjson"
)

// chargeJSON is a Pix charge.
type chargeJSON struct {
	ID          string        `json:"id"`
	TxID        string        `json:"txid"`
	ExternalID  *string       `json:"external_id"`
	Amount      money.BRL     `json:"amount"`
	TestMode    bool          `json:"test_mode"`
	Status      charge.State  `json:"status"`
	Description *string       `json:"description"`
	Pix         chargePixJSON `json:"pix"`
	EndToEndID  *string       `json:"end_to_end_id"`
	PaidAt      *string       `json:"paid_at"`
	ExpiresAt   string        `json:"expires_at"`
	CreatedAt   string        `json:"created_at"`
}

type chargePixJSON struct {
	CopyPaste   string  `json:"copy_paste"`
	QRCodeImage *string `json:"qr_code_image"`
}

func newCharge(c *charge.Charge) chargeJSON {
	out := chargeJSON{
		ID: id.Charge.Format(c.ID), TxID: c.TxID, ExternalID: optional(c.ExternalID), Amount: c.Amount, TestMode: c.IsTest(),
		Status: c.Status, Description: optional(c.Description), Pix: chargePixJSON{CopyPaste: c.CopyPaste},
		EndToEndID: optional(c.EndToEndID), ExpiresAt: clock.Timestamp(c.ExpiresAt), CreatedAt: clock.Timestamp(c.CreatedAt()),
	}
	if !c.PaidAt.IsZero() {
		out.PaidAt = optional(clock.Timestamp(c.PaidAt))
	}
	return out
}

// withImage adds the QR code while the charge can be paid.
func (c chargeJSON) withImage() (chargeJSON, error) {
	if c.Status != charge.Pending {
		return c, nil
	}
	image, err := pix.QRImage(c.Pix.CopyPaste)
	if err != nil {
		return c, err
	}
	c.Pix.QRCodeImage = &image
	return c, nil
}

// AppendJSON writes the charge as encoding/json would.
func (c chargeJSON) AppendJSON(to []byte) []byte {
	to = plainjson.AppendMember(to, `{"id":`, c.ID)
	to = plainjson.AppendMember(to, `,"txid":`, c.TxID)
	to = plainjson.AppendNullable(to, `,"external_id":`, c.ExternalID)
	to = append(append(to, `,"amount":`...), c.Amount.String()...)
	to = strconv.AppendBool(append(to, `,"test_mode":`...), c.TestMode)
	to = plainjson.AppendMember(to, `,"status":`, string(c.Status))
	to = plainjson.AppendNullable(to, `,"description":`, c.Description)
	to = plainjson.AppendMember(to, `,"pix":{"copy_paste":`, c.Pix.CopyPaste)
	to = plainjson.AppendNullable(to, `,"qr_code_image":`, c.Pix.QRCodeImage)
	to = plainjson.AppendNullable(to, `},"end_to_end_id":`, c.EndToEndID)
	to = plainjson.AppendNullable(to, `,"paid_at":`, c.PaidAt)
	to = plainjson.AppendMember(to, `,"expires_at":`, c.ExpiresAt)
	to = plainjson.AppendMember(to, `,"created_at":`, c.CreatedAt)
	return append(to, '}')
}

// RenderCharge returns a charge as its events show it: as the API does, without the image. GET of a paid charge answers with it.
func RenderCharge(c *charge.Charge) ([]byte, error) {
	return newCharge(c).AppendJSON(make([]byte, 0, chargeBytesUsual)), nil
}

// chargeBytesUsual is what a charge without its image usually takes, so that room is made once.
const chargeBytesUsual = 768

// optional shows "" as null.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// Lengths of a charge's fields.
const (
	descriptionMax   = 140
	payerNameMax     = 200
	payerDocumentMax = 20
	externalIDMax    = 120
	postbackURLMax   = 500
)

func (a *API) createCharge(c *call) (httpkit.Answer, error) {
	body, err := httpkit.ReadObject(c.Request)
	if err != nil {
		return httpkit.Answer{}, err
	}
	f := httpkit.Fields(body)
	request := charge.Request{
		Account: c.principal.Account,
		Key:     c.Header.Get(idempotencyKeyHeader), Hash: body.Hash(),
		Amount:        f.BRL("amount", httpkit.BRLRule{Required: true, Min: charge.AmountMin}),
		Description:   f.String("description", httpkit.StringRule{Max: descriptionMax}).Value,
		PayerName:     f.String("payer_name", httpkit.StringRule{Max: payerNameMax, Alt: "payer.name"}).Value,
		PayerDocument: f.String("payer_document", httpkit.StringRule{Max: payerDocumentMax, Digits: true}).Value,
		ExpiresIn: time.Duration(f.Int("expires_in", httpkit.IntRule{
			Min: int(charge.ExpiresInMin / time.Second), Max: int(charge.ExpiresInMax / time.Second), Default: int(charge.ExpiresInDefault / time.Second),
		})) * time.Second,
		ExternalID:  f.String("external_id", httpkit.StringRule{Min: 1, Max: externalIDMax}).Value,
		PostbackURL: f.String("postback_url", httpkit.StringRule{Max: postbackURLMax, URL: true}).Value,
		Split:       account.Split{List: f.Has("split"), Rule: f.Has("split_rule_id")},
	}
	if err := f.Err(); err != nil {
		return httpkit.Answer{}, err
	}
	made, outcome, err := a.charges.Create(c.Context(), request)
	if err != nil {
		return httpkit.Answer{}, err
	}
	shown, err := newCharge(&made).withImage()
	return created(outcome, shown), err
}

func (a *API) getCharge(c *call) (httpkit.Answer, error) {
	name := c.PathValue("id")
	if !utf8.ValidString(name) || strings.ContainsRune(name, 0) { // what no database can be asked for names nothing
		return httpkit.Answer{}, charge.ErrNotFound
	}
	found, err := a.charges.Get(c.Context(), c.principal.Account.ID, name)
	if err != nil {
		return httpkit.Answer{}, err
	}
	if written := found.Shown(); written != "" { // paid, and so without an image
		return httpkit.Answer{Body: plainjson.Written(written)}, nil
	}
	shown, err := newCharge(found).withImage()
	return httpkit.Answer{Body: shown}, err
}

func (a *API) listCharges(c *call) (httpkit.Answer, error) {
	q := httpkit.Query(c.Request)
	page := charge.Page{Limit: q.Int("limit", httpkit.IntRule{Min: 1, Max: pageMax, Default: pageDefault})}
	cursor := q.Cursor("starting_after")
	page.StartingAfter, page.Before = cursor.ID, cursor.Before
	if _, err := id.Charge.Parse(cursor.ID); cursor.ID != "" && err != nil {
		q.Issue(charge.ErrCursor.Issues[0].Path, charge.ErrCursor.Issues[0].Message)
	}
	if err := q.Err(); err != nil {
		return httpkit.Answer{}, err
	}
	list, more, err := a.charges.List(c.Context(), c.principal.Account.ID, page)
	if err != nil {
		return httpkit.Answer{}, err
	}
	out := httpkit.Page[chargeJSON]{HasMore: more}
	for i := range list {
		shown, err := newCharge(&list[i]).withImage()
		if err != nil {
			return httpkit.Answer{}, err
		}
		out.Data = append(out.Data, shown)
	}
	if more {
		out.NextStartingAfter = &out.Data[len(out.Data)-1].ID
	}
	return httpkit.Answer{Body: out}, nil
}
