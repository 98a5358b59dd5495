package chainworld

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	"github.com/shopspring/decimal"

	"github.com/ponte-pay/ponte/internal/httpkit"
	"github.com/ponte-pay/ponte/internal/wire"
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
	body, err := wire.ReadBody(r.Body, r.ContentLength, httpkit.BodyBytesMax)
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
