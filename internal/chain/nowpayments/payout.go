package nowpayments

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"github.com/shopspring/decimal"

	"github.com/ponte-pay/ponte/internal/chain"
)

const (
	payoutPageItems = 100
	payoutPagesMax  = 20
)

// ValidateAddress asks whether the provider would send there. See [chain.Payer].
func (c *Client) ValidateAddress(ctx context.Context, d chain.Destination) error {
	return c.do(ctx, call{
		operation: operationValidate, method: http.MethodPost, path: "/payout/validate-address",
		body: struct {
			Address  string  `json:"address"`
			Currency string  `json:"currency"`
			ExtraID  *string `json:"extra_id"`
		}{d.Address, d.Currency, orNull(d.ExtraID)},
	})
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// PayoutMinimum returns the smallest payout. See [chain.Payer].
func (c *Client) PayoutMinimum(ctx context.Context, currency string) (decimal.Decimal, error) {
	var reply struct {
		Result text `json:"result"`
	}
	if err := c.do(ctx, call{
		operation: operationPayMinimum, method: http.MethodGet, path: "/payout-withdrawal/min-amount/" + url.PathEscape(currency), reply: &reply,
	}); err != nil {
		return decimal.Decimal{}, err
	}
	return c.positive(operationPayMinimum, reply.Result, true)
}

// PayoutFee returns what the network would take. See [chain.Payer].
func (c *Client) PayoutFee(ctx context.Context, currency string, amount decimal.Decimal) (decimal.Decimal, error) {
	var reply struct {
		Currency text `json:"currency"`
		Fee      text `json:"fee"`
	}
	if err := c.do(ctx, call{
		operation: operationPayFee, method: http.MethodGet, path: "/payout/fee", reply: &reply,
		query: url.Values{"currency": {currency}, "amount": {amount.String()}},
	}); err != nil {
		return decimal.Decimal{}, err
	}
	fee, ok := reply.Fee.amount()
	if !ok || reply.Fee == "" || (reply.Currency != "" && reply.Currency.lower() != currency) {
		return decimal.Decimal{}, c.nonsense(operationPayFee, "the answer holds no fee, or one of another coin")
	}
	return fee, nil
}

// newPayouts is a batch, which always holds one.
type newPayouts struct {
	Withdrawals [1]newPayout `json:"withdrawals"`
}

type newPayout struct {
	Address     string      `json:"address"`
	Currency    string      `json:"currency"`
	Amount      json.Number `json:"amount"`
	ExtraID     string      `json:"extra_id,omitempty"`
	CallbackURL string      `json:"ipn_callback_url,omitempty"`
	Reference   string      `json:"unique_external_id"`
	Description string      `json:"payout_description,omitempty"`
}

// CreatePayout asks for a payout. See [chain.Payer].
func (c *Client) CreatePayout(ctx context.Context, n chain.NewPayout) (chain.Payout, error) {
	if !isReference(n.Reference) || !n.Amount.IsPositive() || n.Amount.Exponent() < -chain.PayoutDecimalsMax && !n.Amount.Equal(n.Amount.Truncate(chain.PayoutDecimalsMax)) {
		return chain.Payout{}, c.impossible(operationPay, "a payout needs a reference in printable ASCII and an amount of at most six decimals")
	}
	one := newPayout{
		Address: n.Address, Currency: n.Currency, Amount: json.Number(n.Amount.String()), ExtraID: n.ExtraID, CallbackURL: n.CallbackURL,
		Reference: n.Reference, Description: ascii(n.Description),
	}
	var reply payouts
	err := c.do(ctx, call{
		operation: operationPay, method: http.MethodPost, path: "/payout", auth: withToken, creates: true, reply: &reply,
		body: newPayouts{[1]newPayout{one}},
	})
	if errors.Is(err, chain.ErrDuplicate) {
		// It proves that there is one, and not that this one is refused.
		chain.As(err).Outcome = chain.Unknown
	}
	if err != nil {
		return chain.Payout{}, err
	}
	p, ok := reply.only()
	if !ok || p.Currency != n.Currency || p.Address != n.Address || !p.Amount.Equal(n.Amount) {
		return chain.Payout{}, c.nonsense(operationPay, "the payout in the answer is not the one that was asked for")
	}
	p.Reference = n.Reference
	return p, nil
}

// VerifyPayout confirms a payout with a code of the second factor. See [chain.Payer].
//
// The provider may take each code once. Whether it does is learnt from it, so that payouts do not wait for half a minute each
// where they need not; it allows ten wrong codes for a payout.
func (c *Client) VerifyPayout(ctx context.Context, id string) error {
	if _, ok := text(id).id(); !ok {
		return c.impossible(operationVerify, "not an id of this provider")
	}
	now := c.clock.Real() // as the second factor of people does
	code, step, ok := c.codes.take(c.totpKey, now)
	if !ok {
		return &chain.Error{
			Provider: c.config.Name, Operation: operationVerify, Outcome: chain.Refused, Class: chain.RateLimited, Message: "the code of this half minute is used up",
		}
	}
	err := c.do(ctx, call{
		operation: operationVerify, method: http.MethodPost, path: "/payout/" + id + "/verify", auth: withToken,
		body: struct {
			Code string `json:"verification_code"`
		}{code},
	})
	if err == nil {
		c.codes.taken(step)
		return nil
	}
	if !chain.IsRefused(err) || errors.Is(err, chain.ErrNotFound) || chain.As(err).Class != chain.Business {
		return err
	}
	// It may have been confirmed before, by an answer that was lost.
	if p, getErr := c.GetPayout(ctx, id); getErr == nil && p.Status != chain.PayoutUnknown && p.Status != chain.PayoutWaiting && p.Status != chain.PayoutRejected {
		return nil
	}
	failure := chain.As(err)
	failure.Class = chain.Credentials
	if c.codes.refused(step) {
		failure.Class = chain.RateLimited
	}
	return failure
}

// GetPayout returns a payout. See [chain.Payer].
func (c *Client) GetPayout(ctx context.Context, id string) (chain.Payout, error) {
	if _, ok := text(id).id(); !ok {
		return chain.Payout{}, c.notFound(operationPayGet, "not an id of this provider")
	}
	var reply payouts
	if err := c.do(ctx, call{operation: operationPayGet, method: http.MethodGet, path: "/payout/" + id, reply: &reply}); err != nil {
		return chain.Payout{}, err
	}
	p, ok := reply.only()
	if !ok || p.ID != id {
		return chain.Payout{}, c.nonsense(operationPayGet, "the answer is not the payout that was asked for")
	}
	return p, nil
}

func (c *Client) notFound(operation, message string) error {
	return &chain.Error{
		Provider: c.config.Name, Operation: operation, Outcome: chain.Refused, Class: chain.Business, Message: message, Cause: chain.ErrNotFound,
	}
}

// FindPayout returns the payout with a reference. See [chain.Payer].
func (c *Client) FindPayout(ctx context.Context, s chain.Search) (chain.Payout, error) {
	ctx, cancel := context.WithTimeout(ctx, chain.TryTimeMax)
	defer cancel()
	for number := range payoutPagesMax {
		query := url.Values{
			"limit": {strconv.Itoa(payoutPageItems)}, "page": {strconv.Itoa(number)}, "order_by": {"dateCreated"}, "order": {"asc"},
			"date_from": {listTime(s.From)}, "date_to": {listTime(s.To)},
		}
		var reply struct {
			Payouts *[]payoutRow `json:"payouts"`
		}
		if err := c.do(ctx, call{operation: operationPayFind, method: http.MethodGet, path: "/payout", query: query, auth: withToken, reply: &reply}); err != nil {
			return chain.Payout{}, err
		}
		if reply.Payouts == nil {
			return chain.Payout{}, c.nonsense(operationPayFind, "the answer holds no list")
		}
		for _, row := range *reply.Payouts {
			if string(row.Reference) != s.Reference {
				continue
			}
			p, ok := row.payout("")
			if !ok {
				return chain.Payout{}, c.nonsense(operationPayFind, "the payout in the list makes no sense")
			}
			return p, nil
		}
		if len(*reply.Payouts) < payoutPageItems {
			return chain.Payout{}, c.notFound(operationPayFind, "no payout has this reference")
		}
	}
	return chain.Payout{}, c.nonsense(operationPayFind, "the list was too long to be read to its end")
}

// Balance returns what could be sent. See [chain.Payer].
func (c *Client) Balance(ctx context.Context) (map[string]decimal.Decimal, error) {
	var reply map[string]loose[struct {
		Amount text `json:"amount"`
	}]
	if err := c.do(ctx, call{operation: operationBalance, method: http.MethodGet, path: "/balance", reply: &reply}); err != nil {
		return nil, err
	}
	balance := map[string]decimal.Decimal{}
	for code, entry := range reply {
		if amount, ok := entry.value.Amount.amount(); ok {
			balance[text(code).lower()] = amount
		}
	}
	return balance, nil
}

// payouts are a batch, in whichever of its three shapes: an array of rows, an object that holds one, or a bare row. What
// stands beside the rows says nothing: the status is theirs.
type payouts struct {
	batch text
	rows  []payoutRow
}

// UnmarshalJSON fails for what is none of the three.
func (p *payouts) UnmarshalJSON(b []byte) error {
	*p = payouts{}
	if bytes.HasPrefix(bytes.TrimSpace(b), []byte("[")) {
		return json.Unmarshal(b, &p.rows)
	}
	var object struct {
		ID          text         `json:"id"`
		Withdrawals *[]payoutRow `json:"withdrawals"`
	}
	if err := json.Unmarshal(b, &object); err != nil {
		return err
	}
	if object.Withdrawals != nil {
		p.batch, p.rows = object.ID, *object.Withdrawals
		return nil
	}
	p.rows = make([]payoutRow, 1)
	return json.Unmarshal(b, &p.rows[0])
}

// only returns the one payout of a batch of ours.
func (p payouts) only() (chain.Payout, bool) {
	if len(p.rows) != 1 {
		return chain.Payout{}, false
	}
	return p.rows[0].payout(p.batch)
}

// payoutRow is a payout as the provider writes it in answers, lists and notifications. It spells times in two ways.
type payoutRow struct {
	ID         text   `json:"id"`
	Batch      text   `json:"batch_withdrawal_id"`
	Address    text   `json:"address"`
	Currency   text   `json:"currency"`
	Amount     text   `json:"amount"`
	Status     text   `json:"status"`
	ExtraID    text   `json:"extra_id"`
	Hash       text   `json:"hash"`
	Error      text   `json:"error"`
	Fee        text   `json:"fee"`
	Reference  text   `json:"unique_external_id"`
	CreatedAt  moment `json:"created_at"`
	CreatedAt2 moment `json:"createdAt"`
	UpdatedAt  moment `json:"updated_at"`
	UpdatedAt2 moment `json:"updatedAt"`
}

// payout returns what r says, or false when it makes no sense. It is known by its batch, whose id may stand beside it.
func (r payoutRow) payout(batch text) (chain.Payout, bool) {
	if r.Batch != "" {
		batch = r.Batch
	}
	id, okID := batch.id()
	amount, okAmount := r.Amount.amount()
	fee, okFee := r.Fee.amount()
	if !okID || !okAmount || !okFee || !amount.IsPositive() || r.Address == "" || r.Currency == "" {
		return chain.Payout{}, false
	}
	return chain.Payout{
		ID: id, Reference: string(r.Reference), Status: payoutStatus(r.Status.lower()),
		Destination: chain.Destination{Currency: r.Currency.lower(), Address: string(r.Address), ExtraID: string(r.ExtraID)},
		Amount:      amount, Fee: fee, TxHash: string(r.Hash), Reason: string(r.Error),
		CreatedAt: r.CreatedAt.or(r.CreatedAt2), UpdatedAt: r.UpdatedAt.or(r.UpdatedAt2),
	}, true
}

func payoutStatus(s string) chain.PayoutStatus {
	switch s {
	case "creating", "waiting":
		return chain.PayoutWaiting
	case "processing":
		return chain.PayoutProcessing
	case "sending":
		return chain.PayoutSending
	case "finished":
		return chain.PayoutFinished
	case "failed":
		return chain.PayoutFailed
	case "rejected", "cancelled":
		return chain.PayoutRejected
	default:
		return chain.PayoutUnknown
	}
}
