// Package bcb is a driver for every acquirer that speaks the Central Bank's API Pix, version 2; what it cannot prove it
// calls unknown.
//
// The standard is about taking money in. It knows nothing of payouts, balances and infractions: a driver for an acquirer
// that offers them adds them by [Client.Do].
package bcb

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/pix"
	"github.com/ponte-pay/ponte/internal/plainjson"
)

const (
	payerNameMax     = 200 // characters
	codeBytesMax     = 512
	operationCreate  = "charge.create"
	operationGet     = "charge.get"
	operationRemove  = "charge.remove"
	operationPayment = "payment.get"
	operationList    = "payment.list"
	operationWebhook = "webhook.set"
)

// Client is an acquirer. Make it with [New].
type Client struct {
	config    Config
	transport http.RoundTripper // follows no redirect: our secrets go nowhere else
	tokens    tokens
	limits    limits
}

// limits are real times; tests shorten them.
type limits struct {
	try    time.Duration // one operation, with all that it takes
	create time.Duration // of that, the creation of a charge, so that time is left to look a lost one up
}

const createTimeMax = acquirer.TryTimeMax * 4 / 5

var _ acquirer.Acquirer = (*Client)(nil)

// New returns the acquirer that config describes. Nothing is sent yet. It fails when config cannot work.
func New(config Config, clock *clock.Clock) (*Client, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	transport, err := config.transport()
	if err != nil {
		return nil, err
	}
	c := &Client{config: config, transport: transport, limits: limits{acquirer.TryTimeMax, createTimeMax}}
	c.tokens = tokens{clock: clock, fetch: c.fetchToken}
	return c, nil
}

// Name returns what operators call this acquirer.
func (c *Client) Name() string { return c.config.Name }

// String returns what may be logged.
func (c *Client) String() string { return c.config.String() }

// GoString returns what may be logged.
func (c *Client) GoString() string { return c.config.String() }

// newCob is what a charge is made of.
type newCob struct {
	Calendar    newCalendar `json:"calendario"`
	Payer       *newPayer   `json:"devedor,omitempty"`
	Value       newValue    `json:"valor"`
	Key         string      `json:"chave"`
	Description string      `json:"solicitacaoPagador,omitempty"`
}

type newCalendar struct {
	Seconds int64 `json:"expiracao"`
}

type newPayer struct {
	CPF  string `json:"cpf,omitempty"`
	CNPJ string `json:"cnpj,omitempty"`
	Name string `json:"nome"`
}

type newValue struct {
	Original string `json:"original"` // money is a string, by the standard
}

// AppendJSON writes it as encoding/json would.
func (n *newCob) AppendJSON(to []byte) []byte {
	to = plainjson.AppendNumber(to, `{"calendario":{"expiracao":`, n.Calendar.Seconds)
	to = append(to, '}')
	if n.Payer != nil {
		to = append(to, `,"devedor":{`...)
		to = plainjson.AppendOptional(to, `"cpf":`, n.Payer.CPF)
		to = plainjson.AppendOptional(to, `"cnpj":`, n.Payer.CNPJ) // one of them, see debtor
		to = plainjson.AppendMember(to, `,"nome":`, n.Payer.Name)
		to = append(to, '}')
	}
	to = plainjson.AppendMember(to, `,"valor":{"original":`, n.Value.Original)
	to = plainjson.AppendMember(to, `},"chave":`, n.Key)
	to = plainjson.AppendOptional(to, `,"solicitacaoPagador":`, n.Description)
	return append(to, '}')
}

// CreateCharge makes a charge. See [acquirer.Acquirer].
//
// At an acquirer that follows the standard to the letter, a second charge with another amount under a txid that is still
// payable alters the first one.
func (c *Client) CreateCharge(ctx context.Context, n acquirer.NewCharge) (acquirer.Charge, error) {
	ctx, cancel := clock.Within(ctx, c.limits.try)
	defer cancel()
	if !pix.IsChargeTxID(n.TxID) || n.Amount <= 0 || n.ExpiresIn < time.Second {
		return acquirer.Charge{}, c.Refuse(operationCreate, "the charge breaks a rule of the standard", nil)
	}
	charge, failure := c.put(ctx, n)
	if failure == nil {
		return charge, nil
	}
	if failure.Outcome == acquirer.Refused && failure.Class != acquirer.Business {
		return acquirer.Charge{}, failure
	}
	// The answer was lost, or says that there is something under that txid, in words on which acquirers do not agree.
	found, err := c.GetCharge(ctx, n.TxID)
	switch {
	case err != nil:
		return acquirer.Charge{}, failure
	case !c.isSame(found, n):
		failure.Outcome, failure.Class, failure.Cause = acquirer.Refused, acquirer.Business, acquirer.ErrDuplicate
		return acquirer.Charge{}, failure
	case found.Status == acquirer.ChargeRemoved || found.Status == acquirer.ChargeRemovedByAcquirer:
		return acquirer.Charge{}, c.Refuse(operationCreate, "the charge was removed", acquirer.ErrDuplicate)
	}
	if failure := c.complete(&found); failure != nil {
		return acquirer.Charge{}, failure
	}
	if failure.Class != acquirer.Business { // which says that it was there already
		found.Lost = failure
	}
	return found, nil
}

// put asks for the charge and checks what came of it.
func (c *Client) put(ctx context.Context, n acquirer.NewCharge) (acquirer.Charge, *acquirer.Error) {
	ctx, cancel := clock.Within(ctx, c.limits.create)
	defer cancel()
	body := &newCob{
		Calendar: newCalendar{int64(n.ExpiresIn / time.Second)}, Payer: debtor(n), Value: newValue{n.Amount.String()},
		Key: c.config.Key, Description: n.Description,
	}
	var reply cob
	err := c.Do(ctx, Call{Operation: operationCreate, Method: http.MethodPut, Path: cobPath(n.TxID), Body: body, Reply: &reply})
	if err != nil {
		failure := acquirer.As(err)
		if errors.Is(failure, acquirer.ErrNotFound) {
			// Nothing that a charge is made of can be missing: the address or our key is wrong, whatever is charged.
			failure.Class, failure.Cause = acquirer.Protocol, nil
		}
		return acquirer.Charge{}, failure
	}
	charge, ok := reply.charge()
	if !ok || !c.isSame(charge, n) {
		return acquirer.Charge{}, c.Nonsense(operationCreate, "the charge in the answer is not the one that was asked for")
	}
	if failure := c.complete(&charge); failure != nil {
		return acquirer.Charge{}, failure
	}
	return charge, nil
}

func cobPath(txID string) string { return "/cob/" + url.PathEscape(txID) }

// debtor is who is billed. The standard wants name and document or neither, and acquirers check the document; ours may
// be any number.
func debtor(n acquirer.NewCharge) *newPayer {
	document, err := pix.ParseDocument(n.PayerDocument)
	name := strings.TrimSpace(n.PayerName)
	if err != nil || name == "" {
		return nil
	}
	if runes := []rune(name); len(runes) > payerNameMax {
		name = string(runes[:payerNameMax])
	}
	if document.IsCPF() {
		return &newPayer{CPF: string(document), Name: name}
	}
	return &newPayer{CNPJ: string(document), Name: name}
}

// isSame reports whether a charge is the one that was asked for.
func (c *Client) isSame(found acquirer.Charge, n acquirer.NewCharge) bool {
	return strings.EqualFold(found.TxID, n.TxID) && found.Amount == n.Amount && strings.EqualFold(found.Key, c.config.Key)
}

// complete gives a charge the code that some acquirers leave to us, and refuses one that cannot be paid.
func (c *Client) complete(charge *acquirer.Charge) *acquirer.Error {
	if charge.CopyPaste == "" && charge.Location != "" && c.config.ReceiverName != "" && c.config.ReceiverCity != "" {
		code, err := pix.BRCode{URL: charge.Location, Name: c.config.ReceiverName, City: c.config.ReceiverCity}.Encode()
		if err != nil {
			return c.Nonsense(operationCreate, "the charge's location makes no code: "+err.Error())
		}
		charge.CopyPaste = code
	}
	if charge.CopyPaste == "" || len(charge.CopyPaste) > codeBytesMax {
		return c.Nonsense(operationCreate, "the charge has no code that can be paid")
	}
	return nil
}

// GetCharge returns a charge. See [acquirer.Acquirer].
func (c *Client) GetCharge(ctx context.Context, txID string) (acquirer.Charge, error) {
	if !pix.IsTxID(txID) {
		return acquirer.Charge{}, c.Refuse(operationGet, "no txid", acquirer.ErrNotFound)
	}
	var reply cob
	if err := c.Do(ctx, Call{Operation: operationGet, Method: http.MethodGet, Path: cobPath(txID), Reply: &reply}); err != nil {
		return acquirer.Charge{}, err
	}
	charge, ok := reply.charge()
	if !ok || !strings.EqualFold(charge.TxID, txID) {
		return acquirer.Charge{}, c.Nonsense(operationGet, "the charge in the answer makes no sense")
	}
	return charge, nil
}

// RemoveCharge makes a charge unpayable. See [acquirer.Acquirer].
func (c *Client) RemoveCharge(ctx context.Context, txID string) error {
	ctx, cancel := clock.Within(ctx, c.limits.try)
	defer cancel()
	if !pix.IsTxID(txID) {
		return c.Refuse(operationRemove, "no txid", acquirer.ErrNotFound)
	}
	body := struct {
		Status string `json:"status"`
	}{statusRemoved}
	err := c.Do(ctx, Call{Operation: operationRemove, Method: http.MethodPatch, Path: cobPath(txID), Body: body})
	if err == nil {
		return nil
	}
	if failure := acquirer.As(err); failure.Outcome == acquirer.Unknown || failure.Class == acquirer.Business && failure.Cause == nil {
		found, lookup := c.GetCharge(ctx, txID)
		if lookup == nil && (found.Status == acquirer.ChargeRemoved || found.Status == acquirer.ChargeRemovedByAcquirer) {
			return nil
		}
	}
	return err
}

// GetPayment returns a payment. See [acquirer.Acquirer].
func (c *Client) GetPayment(ctx context.Context, endToEndID string) (acquirer.Payment, error) {
	if !pix.IsEndToEndID(endToEndID) {
		return acquirer.Payment{}, c.Refuse(operationPayment, "no end-to-end id", acquirer.ErrNotFound)
	}
	var reply payment
	call := Call{Operation: operationPayment, Method: http.MethodGet, Path: "/pix/" + url.PathEscape(endToEndID), Reply: &reply}
	if err := c.Do(ctx, call); err != nil {
		return acquirer.Payment{}, err
	}
	paid, ok := reply.payment()
	if !ok || paid.EndToEndID != endToEndID {
		return acquirer.Payment{}, c.Nonsense(operationPayment, "the payment in the answer makes no sense")
	}
	return paid, nil
}

// ListPayments returns a page of payments. See [acquirer.Acquirer].
func (c *Client) ListPayments(ctx context.Context, w acquirer.Window) (acquirer.Page, error) {
	query, number, err := c.ListQuery(operationList, w)
	if err != nil {
		return acquirer.Page{}, err
	}
	if w.Returned {
		query.Set("devolucaoPresente", "true")
	}
	var reply paymentList
	if err := c.Do(ctx, Call{Operation: operationList, Method: http.MethodGet, Path: "/pix", Query: query, Reply: &reply}); err != nil {
		return acquirer.Page{}, err
	}
	page, ok := reply.page(number)
	if !ok {
		return acquirer.Page{}, c.Nonsense(operationList, "the answer is no list of payments")
	}
	return page, nil
}

// SetWebhook tells the acquirer where to send notifications. It appends /pix to the address. See [acquirer.Acquirer].
func (c *Client) SetWebhook(ctx context.Context, address string) error {
	return c.RegisterWebhook(ctx, address, nil)
}

// RegisterWebhook is SetWebhook with further headers, for drivers whose acquirer wants some.
func (c *Client) RegisterWebhook(ctx context.Context, address string, header http.Header) error {
	body := struct {
		URL string `json:"webhookUrl"`
	}{address}
	err := c.Do(ctx, Call{
		Operation: operationWebhook, Method: http.MethodPut, Path: "/webhook/" + url.PathEscape(c.config.Key), Header: header, Body: body,
	})
	if err == nil {
		return nil
	}
	// An acquirer may repeat the address, which may hold the secret that keeps strangers out.
	failure := acquirer.As(err)
	if before, _, found := strings.Cut(failure.Message, "://"); found {
		failure.Message = before + "://" + secretShown
	}
	return failure
}

// Refuse is an error for what was not even asked.
func (c *Client) Refuse(operation, why string, cause error) *acquirer.Error {
	return &acquirer.Error{
		Acquirer: c.config.Name, Operation: operation, Outcome: acquirer.Refused, Class: acquirer.Business, Message: why, Cause: cause,
	}
}

// Nonsense is an error for an answer that cannot be meant. What was asked for may have happened.
func (c *Client) Nonsense(operation, why string) *acquirer.Error {
	return &acquirer.Error{Acquirer: c.config.Name, Operation: operation, Class: acquirer.Protocol, Message: why}
}
