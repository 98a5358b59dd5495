package chainworld

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"github.com/ponte-pay/ponte/internal/chain/address"
	"github.com/ponte-pay/ponte/internal/httpkit"
)

// Operations that a fault can name.
const (
	OpPaymentCreate = "payment.create" // POST /v1/payment
	OpPaymentGet    = "payment.get"    // every read of payments
	OpPayoutSend    = "payout.send"    // POST /v1/payout
	OpPayoutVerify  = "payout.verify"  // POST /v1/payout/{id}/verify
	OpPayoutGet     = "payout.get"     // every read of payouts
	OpMinimum       = "minimum"        // the smallest payment and the smallest payout
	OpEstimate      = "estimate"       // conversions, and fees of payouts
	OpCurrencies    = "currencies"     // the lists of coins
	OpToken         = "token"          // POST /v1/auth
	opOther         = ""               // what has no name of its own
)

// Quirks that can be switched on; the provider is known to have them at times.
const (
	QuirkStrings      = "amounts_as_strings"  // pay_amount and price_amount are strings
	QuirkArray        = "payouts_as_array"    // GET /v1/payout/{id} answers an array
	QuirkHTML         = "html_errors"         // errors of the server are pages
	QuirkCodesOnce    = "codes_once"          // each code of the second factor is taken once
	QuirkUnique       = "unique_external_id"  // a second payout under the same id is refused
	QuirkChildMissing = "child_not_found"     // GET does not find repeated deposits
	QuirkTokenForGet  = "payout_needs_token"  // GET /v1/payout/{id} wants a token
	QuirkNonASCII     = "notices_not_ascii"   // a description in notifications that is not ASCII
	QuirkReversed     = "notices_reversed"    // notifications come in the opposite order
	QuirkDocumented   = "coins_as_documented" // GET /v1/merchant/coins as the documentation says
)

// Quirks are all of them, in the order in which people see them.
var Quirks = []string{
	QuirkStrings, QuirkArray, QuirkHTML, QuirkCodesOnce, QuirkUnique, QuirkChildMissing, QuirkTokenForGet, QuirkNonASCII, QuirkReversed,
	QuirkDocumented,
}

// reply is an answer of the provider.
type reply struct {
	status int    // 0 means 200
	body   any    // written as JSON
	text   string // instead of a body
}

// refusal is an answer that something was not done.
type refusal struct {
	status        int
	code, message string
}

func bad(code, message string) *refusal { return &refusal{http.StatusBadRequest, code, message} }

const (
	codeParams   = "INVALID_REQUEST_PARAMS"
	codeWithdraw = "BAD_CREATE_WITHDRAWAL_REQUEST"
	codeOff      = "CURRENCY_UNAVAILABLE"
)

// route is one operation of the provider. Each is executed with the world locked, after what is due was done.
type route struct {
	pattern string
	op      string // which faults meet it
	token   bool   // needs a token
	open    bool   // needs nothing at all
	answer  func(w *World, r *http.Request) (reply, *refusal)
}

var routes = []route{
	{"GET /v1/status", opOther, false, true, (*World).getStatus},
	{"POST /v1/auth", OpToken, false, true, (*World).postAuth},
	{"GET /v1/currencies", OpCurrencies, false, false, (*World).getCurrencies},
	{"GET /v1/full-currencies", OpCurrencies, false, false, (*World).getFullCurrencies},
	{"GET /v1/merchant/coins", OpCurrencies, false, false, (*World).getOwnCurrencies},
	{"GET /v1/min-amount", OpMinimum, false, false, (*World).getMinimum},
	{"GET /v1/estimate", OpEstimate, false, false, (*World).getEstimate},
	{"GET /v1/balance", opOther, false, false, (*World).getBalance},
	{"POST /v1/payment", OpPaymentCreate, false, false, (*World).postPayment},
	{"GET /v1/payment/{id}", OpPaymentGet, false, false, (*World).getPayment},
	{"GET /v1/payment/{$}", OpPaymentGet, true, false, (*World).listPayments},
	{"POST /v1/payment/{id}/update-merchant-estimate", opOther, false, false, (*World).postNewEstimate},
	{"POST /v1/payout/validate-address", opOther, false, false, (*World).postValidate},
	{"GET /v1/payout-withdrawal/min-amount/{code}", OpMinimum, false, false, (*World).getPayoutMinimum},
	{"GET /v1/payout/fee", OpEstimate, false, false, (*World).getPayoutFee},
	{"POST /v1/payout", OpPayoutSend, true, false, (*World).postPayout},
	{"POST /v1/payout/{id}/verify", OpPayoutVerify, true, false, (*World).postVerify},
	{"POST /v1/payout/{id}/cancel", opOther, true, false, (*World).postCancel},
	{"GET /v1/payout/{id}", OpPayoutGet, false, false, (*World).getPayout},
	{"GET /v1/payout", OpPayoutGet, true, false, (*World).listPayouts},
}

func (w *World) newProvider() http.Handler {
	mux := http.NewServeMux()
	for _, rt := range routes {
		mux.HandleFunc(rt.pattern, func(rw http.ResponseWriter, r *http.Request) {
			// A fault is for who may do the operation: a token that expired must not use it up.
			w.mu.Lock()
			var refused *refusal
			if !rt.open {
				refused = w.authorize(r)
			}
			if refused == nil && (rt.token || (rt.op == OpPayoutGet && w.quirks[QuirkTokenForGet])) {
				refused = w.authorizeToken(r)
			}
			w.mu.Unlock()
			if refused != nil {
				w.refuse(rw, refused)
				return
			}
			w.execute(rw, r, TargetCrypto, rt.op, func() (reply, *refusal) { return w.locked(rt, r) })
		})
	}
	mux.HandleFunc("/", func(rw http.ResponseWriter, _ *http.Request) {
		w.refuse(rw, &refusal{http.StatusNotFound, "NOT_FOUND", "Cannot find the route"})
	})
	return mux
}

func (w *World) locked(rt route, r *http.Request) (reply, *refusal) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := w.move(); err != nil {
		return reply{}, w.internal(r.Context(), err)
	}
	return rt.answer(w, r)
}

func (w *World) internal(ctx context.Context, err error) *refusal {
	w.options.Log.LogAttrs(ctx, slog.LevelError, "chain world failed", slog.String("error", err.Error()))
	return &refusal{http.StatusInternalServerError, "INTERNAL_ERROR", "Internal error"}
}

// garbage is what a proxy might make of an answer.
const garbage = `{"payment_id":"57459`

// execute answers an operation, or does what a fault has in store for it.
func (w *World) execute(rw http.ResponseWriter, r *http.Request, target, op string, answer func() (reply, *refusal)) {
	fault, hit := w.options.Fault(target, op)
	if !hit {
		w.answer(rw, answer)
		return
	}
	w.options.Log.LogAttrs(r.Context(), slog.LevelInfo, "fault", slog.String("target", target), slog.String("kind", fault.Kind), slog.String("operation", op))
	switch fault.Kind {
	case "http_500":
		w.refuse(rw, &refusal{http.StatusInternalServerError, "INTERNAL_ERROR", "Can not get estimate"})
	case "http_429":
		rw.Header().Set("Retry-After", "1")
		w.refuse(rw, &refusal{http.StatusTooManyRequests, "TOO_MANY_REQUESTS", "Too many requests"})
	case "reject":
		w.refuse(rw, rejection(op))
	case "lost_not_executed":
		pause(r.Context(), fault.Delay)
		w.options.Reset(rw)
	case "lost_executed":
		_, _ = answer()
		pause(r.Context(), fault.Delay)
		w.options.Reset(rw)
	case "slow":
		given, refused := answer()
		pause(r.Context(), fault.Delay)
		w.answer(rw, func() (reply, *refusal) { return given, refused })
	case "garbage":
		_, _ = answer()
		w.write200(rw, garbage)
	default:
		w.answer(rw, answer)
	}
}

// rejection is a clean refusal of an operation.
func rejection(op string) *refusal {
	const reason = "Refused by order of the simulator"
	switch op {
	case OpToken:
		return &refusal{http.StatusForbidden, "ACCESS_DENIED", reason}
	case OpPayoutSend, OpPayoutVerify:
		return bad(codeWithdraw, reason)
	case OpPaymentGet, OpPayoutGet:
		return &refusal{http.StatusForbidden, "ENDPOINT_NOT_ALLOWED", reason}
	}
	return bad("BAD_REQUEST", reason)
}

// pause waits for d of real time, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-ctx.Done()
}

func (w *World) answer(rw http.ResponseWriter, answer func() (reply, *refusal)) {
	given, refused := answer()
	switch {
	case refused != nil:
		w.refuse(rw, refused)
	case given.text != "":
		_ = httpkit.Write(rw, httpkit.Answer{Status: given.status, Raw: []byte(given.text), Header: http.Header{"Content-Type": {"text/html; charset=utf-8"}}})
	default:
		_ = httpkit.Write(rw, httpkit.Answer{Status: given.status, Body: given.body}) // of plain values, which can always be encoded
	}
}

func (w *World) write200(rw http.ResponseWriter, text string) {
	_ = httpkit.Write(rw, httpkit.Answer{Raw: []byte(text), Header: http.Header{"Content-Type": {"application/json; charset=utf-8"}}})
}

// errorPage is what stands before the provider when it is out of order.
const errorPage = "<html><head><title>502 Bad Gateway</title></head><body><center><h1>502 Bad Gateway</h1></center><hr><center>cloudflare</center></body></html>"

func (w *World) refuse(rw http.ResponseWriter, refused *refusal) {
	w.mu.Lock()
	html := w.quirks[QuirkHTML]
	w.mu.Unlock()
	if html && refused.status >= http.StatusInternalServerError {
		_ = httpkit.Write(rw, httpkit.Answer{Status: http.StatusBadGateway, Raw: []byte(errorPage), Header: http.Header{"Content-Type": {"text/html"}, "Cf-Ray": {"8d0000000000-GRU"}}})
		return
	}
	_ = httpkit.Write(rw, httpkit.Answer{Status: refused.status, Body: map[string]any{
		"status": false, "statusCode": refused.status, "code": refused.code, "message": refused.message,
	}})
}

// readJSON reads the body of a request.
func readJSON(r *http.Request, v any) *refusal {
	body, err := io.ReadAll(io.LimitReader(r.Body, httpkit.BodyBytesMax+1))
	if err != nil || len(body) > httpkit.BodyBytesMax || json.Unmarshal(body, v) != nil {
		return bad(codeParams, "the body is not JSON, or a field has a wrong type")
	}
	return nil
}

// number is a JSON number from the digits of a decimal.
func number(d decimal.Decimal) json.Number { return json.Number(d.String()) }

// amount is pay_amount or price_amount, which the provider writes as it likes.
func (w *World) amount(d decimal.Decimal) any {
	if w.quirks[QuirkStrings] {
		return d.String()
	}
	return number(d)
}

// moment is how the provider writes a time.
func moment(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }

// parse reads an amount above zero.
func parse(s string) (decimal.Decimal, bool) {
	const textMax, exponentMax = 64, 40
	if len(s) > textMax {
		return decimal.Decimal{}, false
	}
	d, err := decimal.NewFromString(s)
	return d, err == nil && d.IsPositive() && d.Exponent() < exponentMax && d.Exponent() > -exponentMax
}

func (w *World) getStatus(*http.Request) (reply, *refusal) {
	return reply{body: map[string]any{"message": "OK"}}, nil
}

func (w *World) getCurrencies(*http.Request) (reply, *refusal) {
	codes := []string{}
	for _, c := range coins {
		codes = append(codes, c.code)
	}
	return reply{body: map[string]any{"currencies": codes}}, nil
}

func (w *World) getOwnCurrencies(*http.Request) (reply, *refusal) {
	codes := []string{}
	for _, c := range coins {
		if !w.switches[c.code].Off {
			codes = append(codes, strings.ToUpper(c.code))
		}
	}
	if w.quirks[QuirkDocumented] {
		return reply{body: map[string]any{"currencies": codes}}, nil
	}
	return reply{body: map[string]any{"selectedCurrencies": codes}}, nil
}

func (w *World) getFullCurrencies(*http.Request) (reply, *refusal) {
	list := []map[string]any{}
	for i, c := range coins {
		on := !w.switches[c.code].Off
		memo := c.memo || w.switches[c.code].MemoRequired
		var contract any
		if c.contract != "" {
			contract = c.contract
		}
		list = append(list, map[string]any{
			"id": 100 + i, "code": strings.ToUpper(c.code), "name": c.name, "enable": on, "extra_id_exists": memo, "extra_id_optional": false,
			"extra_id_regex": nil, "priority": i, "logo_url": "/images/coins/" + c.code + ".svg", "track": true, "ticker": c.ticker, "network": c.network,
			"smart_contract": contract, "network_precision": strconv.Itoa(int(c.decimals)), "precision": c.precision,
			"available_for_payment": on && c.code != "usdterc20", "available_for_payout": on && c.payout != "", "is_popular": true, "is_stable": c.ticker == "usdt",
		})
	}
	return reply{body: map[string]any{"currencies": list}}, nil
}

// usable returns a coin that is switched on.
func (w *World) usable(code string) (coin, *refusal) {
	c, ok := findCoin(strings.ToLower(code))
	switch {
	case !ok:
		return coin{}, bad(codeParams, "currency "+strconv.Quote(code)+" was not found")
	case w.switches[c.code].Off:
		return coin{}, bad(codeOff, "Currency "+strings.ToUpper(c.code)+" is unavailable now")
	}
	return c, nil
}

func (w *World) getMinimum(r *http.Request) (reply, *refusal) {
	q := r.URL.Query()
	c, refused := w.usable(q.Get("currency_from"))
	if refused != nil {
		return reply{}, refused
	}
	to := strings.ToLower(q.Get("currency_to"))
	if _, ok := findCoin(to); !ok {
		return reply{}, bad(codeParams, "currency_to is required")
	}
	return reply{body: map[string]any{
		"currency_from": c.code, "currency_to": to, "min_amount": number(c.inCoin(c.minimum, w.options.Clock.Now())),
		"fiat_equivalent": json.Number(c.minimum),
	}}, nil
}

func (w *World) getEstimate(r *http.Request) (reply, *refusal) {
	q := r.URL.Query()
	from, to := strings.ToLower(q.Get("currency_from")), strings.ToLower(q.Get("currency_to"))
	amount, ok := parse(q.Get("amount"))
	if !ok {
		return reply{}, bad(codeParams, "amount must be a number")
	}
	for _, code := range []string{from, to} {
		if code == "usd" {
			continue
		}
		if _, refused := w.usable(code); refused != nil {
			return reply{}, refused
		}
	}
	value := worth(from, to, amount, w.options.Clock.Now())
	places := int32(8)
	if c, ok := findCoin(to); ok {
		places = c.places()
	}
	return reply{body: map[string]any{
		"currency_from": from, "amount_from": number(amount), "currency_to": to, "estimated_amount": w.amount(value.RoundDown(places)),
	}}, nil
}

func (w *World) getBalance(*http.Request) (reply, *refusal) {
	body := map[string]any{}
	for _, c := range coins {
		if b := w.balance(c); !b.IsZero() {
			body[c.code] = map[string]any{"amount": number(b), "pendingAmount": 0}
		}
	}
	return reply{body: body}, nil
}

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

// destination checks where a payout is to go.
func (w *World) destination(code, to, memo string) (coin, *refusal) {
	c, refused := w.usable(code)
	switch {
	case refused != nil:
		return coin{}, refused
	case c.payout == "":
		return coin{}, bad(codeOff, "Currency "+strings.ToUpper(c.code)+" is unavailable for payouts")
	}
	if _, err := address.Check(c.network, to); err != nil {
		return coin{}, bad(codeWithdraw, "Invalid payout_address: ["+c.code+"] ["+to+"]")
	}
	if w.switches[c.code].MemoRequired == (memo == "") {
		return coin{}, bad(codeWithdraw, "Invalid payout_extra_id: ["+c.code+"] ["+memo+"]")
	}
	return c, nil
}

func (w *World) postValidate(r *http.Request) (reply, *refusal) {
	var asked struct {
		Address  string  `json:"address"`
		Currency string  `json:"currency"`
		Memo     *string `json:"extra_id"`
	}
	if refused := readJSON(r, &asked); refused != nil {
		return reply{}, refused
	}
	memo := ""
	if asked.Memo != nil {
		memo = *asked.Memo
	}
	if _, refused := w.destination(asked.Currency, asked.Address, memo); refused != nil {
		return reply{}, refused
	}
	return reply{text: "OK"}, nil
}

// payable returns a coin that can be sent.
func (w *World) payable(code string) (coin, *refusal) {
	c, refused := w.usable(code)
	if refused == nil && c.payout == "" {
		refused = bad(codeOff, "Currency "+strings.ToUpper(c.code)+" is unavailable for payouts")
	}
	return c, refused
}

func (w *World) getPayoutMinimum(r *http.Request) (reply, *refusal) {
	c, refused := w.payable(r.PathValue("code"))
	if refused != nil {
		return reply{}, refused
	}
	return reply{body: map[string]any{"success": true, "result": number(c.inCoin(c.payout, w.options.Clock.Now()))}}, nil
}

func (w *World) getPayoutFee(r *http.Request) (reply, *refusal) {
	c, refused := w.payable(r.URL.Query().Get("currency"))
	if refused != nil {
		return reply{}, refused
	}
	return reply{body: map[string]any{"currency": strings.ToUpper(c.code), "fee": number(c.inCoin(c.fee, w.options.Clock.Now()))}}, nil
}

func (w *World) postPayout(r *http.Request) (reply, *refusal) {
	var asked struct {
		Callback    string `json:"ipn_callback_url"`
		Withdrawals []struct {
			Address  string      `json:"address"`
			Currency string      `json:"currency"`
			Amount   json.Number `json:"amount"`
			Memo     string      `json:"extra_id"`
			Callback string      `json:"ipn_callback_url"`
			External string      `json:"unique_external_id"`
		} `json:"withdrawals"`
	}
	if refused := readJSON(r, &asked); refused != nil {
		return reply{}, refused
	}
	if len(asked.Withdrawals) != 1 {
		return reply{}, bad(codeParams, "withdrawals must hold one: the simulator knows no larger batches")
	}
	one := asked.Withdrawals[0]
	c, refused := w.destination(one.Currency, one.Address, one.Memo)
	if refused != nil {
		return reply{}, refused
	}
	amount, ok := parse(one.Amount.String())
	now := w.options.Clock.Now()
	minimum := c.inCoin(c.payout, now)
	switch {
	case !ok || !amount.Equal(amount.Truncate(payoutPlacesMax)):
		return reply{}, bad(codeParams, "amount must be a number above 0 with at most 6 decimals")
	case amount.LessThan(minimum):
		return reply{}, bad(codeWithdraw, "Withdrawal amount is too low, min amount is "+minimum.String())
	case amount.GreaterThan(w.balance(c)):
		return reply{}, bad(codeWithdraw, "Insufficient balance")
	}
	if w.quirks[QuirkUnique] {
		for _, p := range w.payouts {
			if one.External != "" && p.External == one.External {
				return reply{}, bad(codeWithdraw, "unique_external_id is taken")
			}
		}
	}
	callback := one.Callback
	if callback == "" {
		callback = asked.Callback
	}
	p, err := w.send(payout{
		External: one.External, Currency: c.code, Address: one.Address, Memo: one.Memo, Amount: amount, Fee: c.inCoin(c.fee, now), Callback: callback,
	})
	if err != nil {
		return reply{}, w.internal(r.Context(), err)
	}
	return reply{body: map[string]any{"id": strconv.FormatInt(p.Batch, 10), "withdrawals": []any{payoutJSON(p)}}}, nil
}

// payoutJSON is a payout as answers and notifications tell it.
func payoutJSON(p *payout) map[string]any {
	orNull := func(s string) any {
		if s == "" {
			return nil
		}
		return s
	}
	return map[string]any{
		"id": strconv.FormatInt(p.ID, 10), "batch_withdrawal_id": strconv.FormatInt(p.Batch, 10), "address": p.Address, "currency": p.Currency,
		"amount": p.Amount.String(), "status": p.Status, "extra_id": orNull(p.Memo), "hash": orNull(p.Hash), "error": orNull(p.Error),
		"fee": p.Fee.String(), "fee_paid_by": "receiver", "is_request_payouts": false, "ipn_callback_url": orNull(p.Callback),
		"unique_external_id": orNull(p.External), "created_at": moment(p.Created), "requested_at": moment(p.Created), "updated_at": moment(p.Updated),
	}
}

var errNoPayoutHere = &refusal{http.StatusNotFound, "NOT_FOUND", "Payout not found"}

// batch returns the payout of a batch, which alone the provider's routes know.
func (w *World) batch(r *http.Request) (*payout, *refusal) {
	n, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	p := w.byBatch[n]
	if err != nil || p == nil {
		return nil, errNoPayoutHere
	}
	return p, nil
}

func (w *World) postVerify(r *http.Request) (reply, *refusal) {
	var asked struct {
		Code string `json:"verification_code"`
	}
	if refused := readJSON(r, &asked); refused != nil {
		return reply{}, refused
	}
	p, refused := w.batch(r)
	if refused != nil {
		return reply{}, refused
	}
	if p.Status != payoutWaiting {
		return reply{}, bad("BAD_REQUEST", "The withdrawal is already verified or closed")
	}
	if p.Tries >= verifyTriesMax {
		return reply{}, bad("BAD_REQUEST", "Too many attempts")
	}
	step, ok := w.isCode(asked.Code)
	if ok && w.quirks[QuirkCodesOnce] && w.usedCode == step {
		ok = false
	}
	if !ok {
		if err := w.changePayout(p, func(p *payout) { p.Tries++ }); err != nil {
			return reply{}, w.internal(r.Context(), err)
		}
		return reply{}, bad("BAD_REQUEST", "Wrong verification code")
	}
	w.usedCode = step
	now := w.now()
	err := w.changePayout(p, func(p *payout) {
		p.Status, p.Verified = payoutProcessing, now
	})
	if err == nil {
		_, err = w.move()
	}
	if err != nil {
		return reply{}, w.internal(r.Context(), err)
	}
	return reply{text: "OK"}, nil
}

func (w *World) postCancel(r *http.Request) (reply, *refusal) {
	if _, refused := w.batch(r); refused != nil {
		return reply{}, refused
	}
	return reply{}, bad("BAD_REQUEST", "Only scheduled payouts can be cancelled")
}

func (w *World) getPayout(r *http.Request) (reply, *refusal) {
	p, refused := w.batch(r)
	if refused != nil {
		return reply{}, refused
	}
	if w.quirks[QuirkArray] {
		return reply{body: []any{payoutJSON(p)}}, nil
	}
	return reply{body: map[string]any{"id": strconv.FormatInt(p.Batch, 10), "createdAt": moment(p.Created), "withdrawals": []any{payoutJSON(p)}}}, nil
}

func (w *World) listPayouts(r *http.Request) (reply, *refusal) {
	q := r.URL.Query()
	from, limit, _, refused := page(r, 100)
	if refused != nil {
		return reply{}, refused
	}
	since, until, refused := during(q.Get("date_from"), q.Get("date_to"))
	if refused != nil {
		return reply{}, refused
	}
	list, total := []any{}, 0
	for i := range w.payouts {
		p := w.payouts[i]
		if q.Get("order") != "asc" {
			p = w.payouts[len(w.payouts)-1-i]
		}
		if p.Created < since || p.Created > until || (q.Has("batch_id") && q.Get("batch_id") != strconv.FormatInt(p.Batch, 10)) ||
			(q.Has("status") && !strings.EqualFold(q.Get("status"), p.Status)) {
			continue
		}
		if total >= from && len(list) < limit {
			list = append(list, payoutJSON(p))
		}
		total++
	}
	return reply{body: map[string]any{"payouts": list}}, nil
}
