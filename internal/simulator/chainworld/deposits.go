package chainworld

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/shopspring/decimal"
)

func (w *World) postPayment(r *http.Request) (reply, *refusal) {
	var asked struct {
		Price       json.Number `json:"price_amount"`
		PriceIn     string      `json:"price_currency"`
		PayAmount   json.Number `json:"pay_amount"`
		PayCurrency string      `json:"pay_currency"`
		Callback    string      `json:"ipn_callback_url"`
		Order       string      `json:"order_id"`
		Description string      `json:"order_description"`
	}
	if refused := readJSON(r, &asked); refused != nil {
		return reply{}, refused
	}
	price, ok := parse(asked.Price.String())
	if !ok {
		return reply{}, bad(codeParams, "price_amount must be a number above 0")
	}
	if !strings.EqualFold(asked.PriceIn, "usd") {
		return reply{}, &refusal{http.StatusInternalServerError, "INTERNAL_ERROR", "Can not get estimate from " + strings.ToUpper(asked.PriceIn)}
	}
	c, refused := w.usable(asked.PayCurrency)
	switch {
	case refused != nil:
		return reply{}, refused
	case c.code == "usdterc20":
		return reply{}, bad(codeOff, "Currency USDTERC20 is unavailable now")
	}
	n := newPayment{order: asked.Order, description: asked.Description, callback: asked.Callback, price: price, currency: c.code}
	if asked.PayAmount != "" {
		if n.asked, ok = parse(asked.PayAmount.String()); !ok {
			return reply{}, bad(codeParams, "pay_amount must be a number above 0")
		}
	}
	if minimum := decimal.RequireFromString(c.minimum); price.LessThan(minimum) {
		return reply{}, bad("AMOUNT_MINIMAL_ERROR", "Crypto amount is less than minimal")
	}
	p, err := w.create(n)
	if err != nil {
		return reply{}, w.internal(r.Context(), err)
	}
	body := w.paymentJSON(p)
	body["payment_id"] = strconv.FormatInt(p.ID, 10)
	body["amount_received"] = nil
	body["network"], body["network_precision"] = c.network, c.decimals
	body["is_fixed_rate"], body["is_fee_paid_by_user"], body["time_limit"] = false, false, "null"
	body["expiration_estimate_date"], body["valid_until"] = moment(p.Created+estimateTime.Milliseconds()), moment(p.Created+paymentTime.Milliseconds())
	return reply{status: http.StatusCreated, body: body}, nil
}

// paymentJSON is a payment as GET and notifications tell it.
func (w *World) paymentJSON(p *payment) map[string]any {
	orNull := func(s string) any {
		if s == "" {
			return nil
		}
		return s
	}
	body := map[string]any{
		"payment_id": p.ID, "payment_status": p.Status, "pay_address": p.Address, "payin_extra_id": orNull(p.Memo), "invoice_id": nil,
		"price_amount": w.amount(p.Price), "price_currency": "usd", "pay_amount": w.amount(p.PayAmount), "actually_paid": number(p.Paid),
		"pay_currency": p.currency(), "order_id": orNull(p.Order), "order_description": orNull(p.Description), "purchase_id": strconv.FormatInt(p.ID+1_000_000, 10),
		"created_at": moment(p.Created), "updated_at": moment(p.Updated), "type": "crypto2crypto", "burning_percent": "null",
		"outcome_amount": number(p.Outcome), "outcome_currency": Settlement, "payin_hash": orNull(p.Hash), "payment_extra_ids": nil,
		"expiration_estimate_date": moment(p.Created + estimateTime.Milliseconds()), "valid_until": moment(p.Created + paymentTime.Milliseconds()),
	}
	if len(p.Children) > 0 {
		body["payment_extra_ids"] = p.Children
	}
	if p.Parent != 0 {
		body["parent_payment_id"], body["origin_type"] = p.Parent, "REPEATED"
	}
	return body
}

var errNotFound = &refusal{http.StatusNotFound, "NOT_FOUND", "Payment not found"}

func (w *World) getPayment(r *http.Request) (reply, *refusal) {
	p, err := w.payment(r.PathValue("id"))
	if err != nil || (p.Parent != 0 && w.quirks[QuirkChildMissing]) {
		return reply{}, errNotFound
	}
	return reply{body: w.paymentJSON(p)}, nil
}

// page reads where in a list a request is.
func page(r *http.Request, limitMax int) (from, limit, number int, refused *refusal) {
	q := r.URL.Query()
	limit, number = 10, 0
	var err error
	if s := q.Get("limit"); s != "" {
		if limit, err = strconv.Atoi(s); err != nil || limit < 1 || limit > limitMax {
			return 0, 0, 0, bad(codeParams, "limit must be from 1 to "+strconv.Itoa(limitMax))
		}
	}
	if s := q.Get("page"); s != "" {
		if number, err = strconv.Atoi(s); err != nil || number < 0 {
			return 0, 0, 0, bad(codeParams, "page must be 0 or more")
		}
	}
	return number * limit, limit, number, nil
}

// during reads a span of time, both ends included, in milliseconds.
func during(from, to string) (since, until int64, refused *refusal) {
	since, until = 0, 1<<62
	for _, end := range []struct {
		text string
		set  *int64
	}{{from, &since}, {to, &until}} {
		if end.text == "" {
			continue
		}
		t, err := time.Parse(time.RFC3339, end.text)
		if err != nil {
			return 0, 0, bad(codeParams, "a date is not in ISO 8601")
		}
		*end.set = t.UnixMilli()
	}
	return since, until, nil
}

func (w *World) listPayments(r *http.Request) (reply, *refusal) {
	q := r.URL.Query()
	from, limit, number, refused := page(r, 500)
	if refused != nil {
		return reply{}, refused
	}
	since, until, refused := during(q.Get("dateFrom"), q.Get("dateTo"))
	if refused != nil {
		return reply{}, refused
	}
	data, total := []any{}, 0
	for i := range w.payments {
		p := w.payments[i]
		if q.Get("orderBy") != "asc" {
			p = w.payments[len(w.payments)-1-i]
		}
		if p.Created < since || p.Created > until {
			continue
		}
		if total >= from && len(data) < limit {
			data = append(data, w.paymentJSON(p))
		}
		total++
	}
	return reply{body: map[string]any{"data": data, "limit": limit, "page": number, "pagesCount": (total + limit - 1) / limit, "total": total}}, nil
}

func (w *World) postNewEstimate(r *http.Request) (reply, *refusal) {
	p, err := w.payment(r.PathValue("id"))
	if err != nil {
		return reply{}, errNotFound
	}
	return reply{body: map[string]any{
		"id": strconv.FormatInt(p.ID, 10), "token_id": "1", "pay_amount": number(p.PayAmount), "expiration_estimate_date": moment(p.Created + estimateTime.Milliseconds()),
	}}, nil
}
