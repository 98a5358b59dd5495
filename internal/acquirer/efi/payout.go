package efi

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/acquirer/bcb"
	"github.com/ponte-pay/ponte/internal/acquirer/lenient"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/pix"
)

const (
	operationSend    = "payout.send"
	operationSent    = "payout.get"
	operationList    = "payout.list"
	operationBalance = "balance.get"

	descriptionMax = 140 // characters
)

// Words of Efí's that say more than their status does.
const (
	codeNoRecipient = "chave_favorecido_nao_encontrada" // which comes as 404
	codeBlocked     = "documento_bloqueado"             // our own account
	codeNoFunds     = "saldo_insuficiente"
	wordsNoFunds    = "saldo insuficiente" // where there is no such code
)

// newPayout is what a payout is made of.
type newPayout struct {
	Value string    `json:"valor"`
	From  newSource `json:"pagador"`
	To    newTarget `json:"favorecido"`
}

type newSource struct {
	Key         string `json:"chave"`
	Description string `json:"infoPagador,omitempty"`
}

type newTarget struct {
	Key  string `json:"chave"`
	CPF  string `json:"cpf,omitempty"`
	CNPJ string `json:"cnpj,omitempty"`
}

// SendPayout sends money. See [acquirer.Payer].
//
// The request leaves once. net/http sends a PUT again by itself only when it knows that no byte of it was written, and
// package bcb only after a token was refused in words; either way Efí takes an id once.
func (c *Client) SendPayout(ctx context.Context, n acquirer.NewPayout) (acquirer.Payout, error) {
	body, ok := c.newPayout(n)
	if !ok {
		return acquirer.Payout{}, c.Refuse(operationSend, "the payout breaks a rule of the API", nil)
	}
	var reply payout
	err := c.Do(ctx, bcb.Call{
		Operation: operationSend, Method: http.MethodPut, BaseURL: c.host + "/v3", Path: "/gn/pix/" + url.PathEscape(n.ID),
		Body: body, Reply: &reply, OwnKey: "pagador.chave", MovesMoney: true,
	})
	if err != nil {
		return acquirer.Payout{}, refusalOfSend(acquirer.As(err))
	}
	sent, ok := reply.payout()
	if !ok || sent.ID != n.ID || sent.Amount != n.Amount {
		return acquirer.Payout{}, c.Nonsense(operationSend, "the payout in the answer is not the one that was asked for")
	}
	sent.Key = n.Key
	return sent, nil
}

// newPayout returns what is sent for n, or false when Efí cannot be asked for it.
func (c *Client) newPayout(n acquirer.NewPayout) (newPayout, bool) {
	if !pix.IsTxID(n.ID) || n.Amount <= 0 || n.Amount > money.BRLMax || n.Key == "" { // an id's rule is a txid's
		return newPayout{}, false
	}
	body := newPayout{Value: n.Amount.String(), From: newSource{Key: c.key, Description: clip(n.Description)}, To: newTarget{Key: n.Key}}
	if n.RecipientDocument == "" {
		return body, true
	}
	document, err := pix.ParseDocument(n.RecipientDocument)
	if err != nil {
		return newPayout{}, false // to leave it out would be to pay whoever has the key
	}
	if document.IsCPF() {
		body.To.CPF = string(document)
	} else {
		body.To.CNPJ = string(document)
	}
	return body, true
}

func clip(s string) string {
	if runes := []rune(s); len(runes) > descriptionMax {
		return string(runes[:descriptionMax])
	}
	return s
}

// refusalOfSend says what a failed send means beyond what any failed call means.
func refusalOfSend(e *acquirer.Error) *acquirer.Error {
	switch {
	case errors.Is(e, acquirer.ErrDuplicate):
		e.Outcome = acquirer.Unknown // not by this call, but the money may have left
	case errors.Is(e, acquirer.ErrNotFound) && e.Code != codeNoRecipient:
		// Nothing that a payout is made of can be missing but the recipient: the address is wrong, whatever is sent.
		e.Class, e.Cause = acquirer.Protocol, nil
	case errors.Is(e, acquirer.ErrNotFound):
		e.Cause = nil // the recipient's key, not the payout
	case e.Outcome != acquirer.Refused || e.Class != acquirer.Business:
	case e.Code == codeBlocked:
		e.Class = acquirer.Credentials
	case e.Code == codeNoFunds, strings.Contains(strings.ToLower(e.Message), wordsNoFunds):
		e.Cause = acquirer.ErrNoFunds
	}
	return e
}

// GetPayout returns a payout by its id. See [acquirer.Payer].
func (c *Client) GetPayout(ctx context.Context, id string) (acquirer.Payout, error) {
	if !pix.IsTxID(id) {
		return acquirer.Payout{}, c.Refuse(operationSent, "no id of a payout", acquirer.ErrNotFound)
	}
	return c.getPayout(ctx, "/gn/pix/enviados/id-envio/"+url.PathEscape(id), func(p acquirer.Payout) bool { return p.ID == id })
}

// GetPayoutByEndToEnd returns a payout by its end-to-end id. See [acquirer.Payer].
func (c *Client) GetPayoutByEndToEnd(ctx context.Context, endToEndID string) (acquirer.Payout, error) {
	if !pix.IsEndToEndID(endToEndID) {
		return acquirer.Payout{}, c.Refuse(operationSent, "no end-to-end id", acquirer.ErrNotFound)
	}
	return c.getPayout(ctx, "/gn/pix/enviados/"+url.PathEscape(endToEndID), func(p acquirer.Payout) bool { return p.EndToEndID == endToEndID })
}

func (c *Client) getPayout(ctx context.Context, path string, isAsked func(acquirer.Payout) bool) (acquirer.Payout, error) {
	var reply payout
	if err := c.Do(ctx, bcb.Call{Operation: operationSent, Method: http.MethodGet, Path: path, Reply: &reply}); err != nil {
		return acquirer.Payout{}, err
	}
	sent, ok := reply.payout()
	if !ok || !isAsked(sent) {
		return acquirer.Payout{}, c.Nonsense(operationSent, "the payout in the answer makes no sense")
	}
	return sent, nil
}

// ListPayouts returns a page of payouts. See [acquirer.Payer].
func (c *Client) ListPayouts(ctx context.Context, w acquirer.Window) (acquirer.PayoutPage, error) {
	query, number, err := c.ListQuery(operationList, w)
	if err != nil {
		return acquirer.PayoutPage{}, err
	}
	var reply struct {
		Parameters bcb.Parameters          `json:"parametros"` //nolint:misspell // Portuguese
		Pix        []lenient.Loose[payout] `json:"pix"`
	}
	call := bcb.Call{Operation: operationList, Method: http.MethodGet, Path: "/gn/pix/enviados", Query: query, Reply: &reply}
	if err := c.Do(ctx, call); err != nil {
		return acquirer.PayoutPage{}, err
	}
	if reply.Pix == nil && !reply.Parameters.OK { // an empty list may be null
		return acquirer.PayoutPage{}, c.Nonsense(operationList, "the answer is no list of payouts")
	}
	page := acquirer.PayoutPage{Next: reply.Parameters.Next(number, len(reply.Pix))}
	for _, entry := range reply.Pix {
		sent, ok := entry.Value.payout()
		if !ok {
			page.Unreadable++
			continue
		}
		page.Payouts = append(page.Payouts, sent)
	}
	return page, nil
}

// Balance returns what could be sent now. See [acquirer.Payer].
func (c *Client) Balance(ctx context.Context) (money.BRL, error) {
	var reply struct {
		Balance lenient.Text `json:"saldo"`
	}
	if err := c.Do(ctx, bcb.Call{Operation: operationBalance, Method: http.MethodGet, Path: "/gn/saldo", Reply: &reply}); err != nil {
		return 0, err
	}
	balance, err := money.ParseBRL(string(reply.Balance))
	if err != nil {
		return 0, c.Nonsense(operationBalance, "the balance in the answer makes no sense")
	}
	return balance, nil
}

// payout is a Pix that we sent. What is told right after it was sent and what is told later differ in names.
type payout struct {
	ID         lenient.Text `json:"idEnvio"`
	EndToEndID lenient.Text `json:"endToEndId"`
	E2EID      lenient.Text `json:"e2eId"`
	Value      lenient.Text `json:"valor"`
	Key        lenient.Text `json:"chave"` // the recipient's in some answers, ours in others
	Status     lenient.Text `json:"status"`
	At         lenient.Loose[struct {
		Asked   lenient.Moment `json:"solicitacao"`
		Settled lenient.Moment `json:"liquidacao"`
	}] `json:"horario"`
	To lenient.Loose[struct {
		Key    lenient.Text            `json:"chave"`
		Person lenient.Loose[identity] `json:"identificacao"`
		Bank   lenient.Loose[identity] `json:"contaBanco"`
	}] `json:"favorecido"`
	Extras lenient.Loose[struct {
		Failure lenient.Loose[failure] `json:"erro"`
	}] `json:"gnExtras"`
	Returns lenient.Many[lenient.Loose[bcb.Refund]] `json:"devolucoes"`
}

type identity struct {
	Name lenient.Text `json:"nome"`
}

type failure struct {
	Code   lenient.Text `json:"codigo"`
	Reason lenient.Text `json:"motivo"`
}

// payout returns what p says, or false when it makes no sense.
func (p payout) payout() (acquirer.Payout, bool) {
	amount, ok := p.Value.Amount()
	if !ok || amount == 0 || !pix.IsTxID(string(p.ID)) {
		return acquirer.Payout{}, false
	}
	to := p.To.Value
	sent := acquirer.Payout{
		ID: string(p.ID), EndToEndID: string(cmp.Or(p.EndToEndID, p.E2EID)), Status: payoutStatus(string(p.Status)), Amount: amount,
		Key: string(cmp.Or(to.Key, p.Key)), RecipientName: string(cmp.Or(to.Person.Value.Name, to.Bank.Value.Name)),
		AskedAt: p.At.Value.Asked.Time,
	}
	if !pix.IsEndToEndID(sent.EndToEndID) {
		sent.EndToEndID = ""
	}
	switch sent.Status {
	case acquirer.PayoutSettled:
		sent.SettledAt = p.At.Value.Settled.Time
	case acquirer.PayoutFailed:
		why := p.Extras.Value.Failure.Value
		sent.Code, sent.Reason = string(why.Code), string(why.Reason)
	case acquirer.PayoutUnknown, acquirer.PayoutProcessing:
	}
	for _, r := range p.Returns {
		back, ok := r.Value.Refund()
		if !ok {
			return acquirer.Payout{}, false // without it the payout would look whole
		}
		if r.Value.Status == "" {
			back.Status = acquirer.RefundDone // Efí tells only of what has come back
		}
		sent.Returns = append(sent.Returns, back)
	}
	return sent, true
}

func payoutStatus(s string) acquirer.PayoutStatus {
	switch strings.ToUpper(s) {
	case "EM_PROCESSAMENTO":
		return acquirer.PayoutProcessing
	case "REALIZADO":
		return acquirer.PayoutSettled
	case "NAO_REALIZADO":
		return acquirer.PayoutFailed
	default:
		return acquirer.PayoutUnknown
	}
}
