package nowpayments

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ponte-pay/ponte/internal/chain"
)

const (
	pageItems       = 500 // payments on a page of their list, the most that is allowed
	pageMax         = 9999
	descriptionMax  = 140
	timeOfLists     = "2006-01-02T15:04:05.000Z"
	referenceMax    = 128 // characters
	childrenMax     = 1000
	fiatOfAllPrices = "usd" // usdt is not taken
)

// newPayment is what a payment is made of.
type newPayment struct {
	Price       json.Number `json:"price_amount"`
	PriceIn     string      `json:"price_currency"`
	PayCurrency string      `json:"pay_currency"`
	CallbackURL string      `json:"ipn_callback_url,omitempty"`
	OrderID     string      `json:"order_id"`
	Description string      `json:"order_description,omitempty"`
}

// CreatePayment asks for an address. See [chain.Provider].
func (c *Client) CreatePayment(ctx context.Context, n chain.NewPayment) (chain.Payment, error) {
	if !isReference(n.Reference) || !n.Price.IsPositive() {
		return chain.Payment{}, c.impossible(operationCreate, "a payment needs a reference in printable ASCII and a price")
	}
	var reply payment
	if err := c.do(ctx, call{
		operation: operationCreate, method: http.MethodPost, path: "/payment", creates: true, reply: &reply,
		body: newPayment{
			Price: json.Number(n.Price.String()), PriceIn: fiatOfAllPrices, PayCurrency: n.PayCurrency, CallbackURL: n.CallbackURL,
			OrderID: n.Reference, Description: ascii(n.Description),
		},
	}); err != nil {
		return chain.Payment{}, err
	}
	p, ok := c.payment(reply)
	if !ok || p.Address == "" || p.Reference != n.Reference || p.PayCurrency != n.PayCurrency || !p.PayAmount.IsPositive() {
		return chain.Payment{}, c.nonsense(operationCreate, "the payment in the answer is not the one that was asked for")
	}
	return p, nil
}

// isReference reports whether the provider would give a text back as it is. Of what is not ASCII nobody knows how
// notifications spell it.
func isReference(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return s != "" && len(s) <= referenceMax
}

// ascii returns what of a text may be sent.
func ascii(s string) string {
	kept := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, s)
	return strings.TrimSpace(kept[:min(len(kept), descriptionMax)])
}

// GetPayment returns a payment. See [chain.Provider].
func (c *Client) GetPayment(ctx context.Context, id string) (chain.Payment, error) {
	if _, ok := text(id).id(); !ok {
		return chain.Payment{}, &chain.Error{
			Provider: c.config.Name, Operation: operationGet, Outcome: chain.Refused, Class: chain.Business, Message: "not an id of this provider", Cause: chain.ErrNotFound,
		}
	}
	var reply payment
	if err := c.do(ctx, call{operation: operationGet, method: http.MethodGet, path: "/payment/" + id, reply: &reply}); err != nil {
		return chain.Payment{}, err
	}
	p, ok := c.payment(reply)
	if !ok || p.ID != id {
		return chain.Payment{}, c.nonsense(operationGet, "the answer is not the payment that was asked for")
	}
	return p, nil
}

// ListPayments returns a page of payments. See [chain.Provider].
func (c *Client) ListPayments(ctx context.Context, w chain.Window) (chain.Page, error) {
	number := 0
	if w.Cursor != "" {
		var err error
		if number, err = strconv.Atoi(w.Cursor); err != nil || number < 0 || number > pageMax {
			return chain.Page{}, c.impossible(operationList, "not a cursor of this provider")
		}
	}
	query := url.Values{
		"limit": {strconv.Itoa(pageItems)}, "page": {strconv.Itoa(number)}, "sortBy": {"created_at"}, "orderBy": {"asc"},
		"dateFrom": {listTime(w.From)}, "dateTo": {listTime(w.To)},
	}
	var reply struct {
		Data  *[]loose[payment] `json:"data"`
		Pages text              `json:"pagesCount"`
	}
	if err := c.do(ctx, call{operation: operationList, method: http.MethodGet, path: "/payment/", query: query, auth: withToken, reply: &reply}); err != nil {
		return chain.Page{}, err
	}
	if reply.Data == nil {
		return chain.Page{}, c.nonsense(operationList, "the answer holds no list")
	}
	var page chain.Page
	for _, entry := range *reply.Data {
		p, ok := c.payment(entry.value)
		if !ok {
			page.Unreadable++
			continue
		}
		page.Payments = append(page.Payments, p)
	}
	pages, err := strconv.Atoi(string(reply.Pages))
	if err != nil && len(*reply.Data) >= pageItems {
		pages = number + 2 // not told: a full page may have one behind it
	}
	// An empty page is the last, whatever it says, so that no list is endless.
	if number+1 < pages && len(*reply.Data) > 0 {
		page.Next = strconv.Itoa(number + 1)
	}
	return page, nil
}

func listTime(t time.Time) string { return t.UTC().Format(timeOfLists) }

// payment is a payment as the provider writes it in answers, lists and notifications.
type payment struct {
	ID              text          `json:"payment_id"`
	Parent          text          `json:"parent_payment_id"`
	Status          text          `json:"payment_status"`
	Address         text          `json:"pay_address"`
	ExtraID         text          `json:"payin_extra_id"`
	Price           text          `json:"price_amount"`
	PriceIn         text          `json:"price_currency"`
	PayAmount       text          `json:"pay_amount"`
	PayCurrency     text          `json:"pay_currency"`
	Paid            text          `json:"actually_paid"`
	OrderID         text          `json:"order_id"`
	OutcomeAmount   text          `json:"outcome_amount"`
	OutcomeCurrency text          `json:"outcome_currency"`
	Hash            text          `json:"payin_hash"`
	Children        loose[[]text] `json:"payment_extra_ids"`
	CreatedAt       moment        `json:"created_at"`
	UpdatedAt       moment        `json:"updated_at"`
	ValidUntil      moment        `json:"valid_until"`
	ExpiresAt       moment        `json:"expiration_estimate_date"`
}

// payment returns what p says, or false when it makes no sense.
func (c *Client) payment(p payment) (chain.Payment, bool) {
	id, okID := p.ID.id()
	price, okPrice := p.Price.amount()
	asked, okAsked := p.PayAmount.amount()
	paid, okPaid := p.Paid.amount()
	outcome, okOutcome := p.OutcomeAmount.amount()
	if !okID || !okPrice || !okAsked || !okPaid || !okOutcome || p.PayCurrency == "" {
		return chain.Payment{}, false
	}
	told := chain.Payment{
		ID: id, Reference: string(p.OrderID), Status: paymentStatus(p.Status.lower()), Address: string(p.Address), ExtraID: string(p.ExtraID),
		Price: price, PayAmount: asked, PayCurrency: p.PayCurrency.lower(), Paid: paid, TxHash: string(p.Hash),
		CreatedAt: p.CreatedAt.Time, UpdatedAt: p.UpdatedAt.Time, ExpiresAt: p.ValidUntil.or(p.ExpiresAt),
	}
	if p.Parent != "" && p.Parent != "0" {
		if told.Parent, okID = p.Parent.id(); !okID {
			return chain.Payment{}, false // without it the payment would look like one of ours
		}
	}
	// Before it is settled, the outcome is an estimate; in another coin it is nothing that we could credit.
	if told.Status.IsSettled() && paid.IsPositive() && p.OutcomeCurrency.lower() == c.config.Settlement {
		var ok bool
		if told.Settled, ok = chain.FloorUSDT(outcome); !ok {
			return chain.Payment{}, false
		}
	}
	for _, child := range p.Children.value[:min(len(p.Children.value), childrenMax)] {
		if id, ok := child.id(); ok && !slices.Contains(told.Children, id) {
			told.Children = append(told.Children, id)
		}
	}
	return told, true
}

func paymentStatus(s string) chain.PaymentStatus {
	switch s {
	case "waiting":
		return chain.PaymentWaiting
	case "confirming", "confirmed", "sending":
		return chain.PaymentConfirming
	case "finished":
		return chain.PaymentFinished
	case "partially_paid":
		return chain.PaymentPartiallyPaid
	case "failed":
		return chain.PaymentFailed
	case "refunded":
		return chain.PaymentRefunded
	case "expired":
		return chain.PaymentExpired
	default:
		return chain.PaymentUnknown
	}
}
