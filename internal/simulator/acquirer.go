package simulator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/httpkit"
	"github.com/ponte-pay/ponte/internal/id"
)

// acquirer is one of the two: the Central Bank's API Pix 2.9 in front of a book, as Efí speaks it.
type acquirer struct {
	number   int // its place in acquirerNames
	name     string
	receiver string // who is paid, as payers see it
	identity identityRecord
	tokenKey []byte
	clock    *clock.Clock
	log      *slog.Logger
	ids      *id.Generator // of correlation ids
	books    *books
	faults   *faultRules
	notices  *notices
	signer   func() (*signer, error)

	settleAfter time.Duration // of payouts, or AtOnce or Manual

	door    door
	host    atomic.Pointer[string] // host and port under which the door is reached
	refuses atomic.Bool            // the door is shut by a fault
	handler http.Handler

	lastToken atomic.Pointer[goodToken]
}

func (a *acquirer) baseURL() string { return "http://" + *a.host.Load() }

// Bounds of the acquirers' servers, in real time.
const (
	readHeaderTimeMax = 10 * time.Second
	idleTimeMax       = 2 * time.Minute
	headerBytesMax    = 64 << 10
)

// route is one operation of an acquirer.
type route struct {
	pattern string
	op      operation // which faults meet it
	answer  func(a *acquirer, r *http.Request) (httpkit.Answer, error)
}

// routes are those that need a token. A new concern adds its own.
var routes = []route{
	{"POST /v2/cob", opChargeCreate, (*acquirer).postCharge},
	{"PUT /v2/cob/{txid}", opChargeCreate, (*acquirer).putCharge},
	{"PATCH /v2/cob/{txid}", opOther, (*acquirer).patchCharge},
	{"GET /v2/cob/{txid}", opChargeGet, (*acquirer).getCharge},
	{"GET /v2/cob", opChargeGet, (*acquirer).listCharges},
	{"GET /v2/pix/{e2eid}", opChargeGet, (*acquirer).getPayment},
	{"GET /v2/pix", opChargeGet, (*acquirer).listPayments},
	{"PUT /v2/pix/{e2eid}/devolucao/{id}", opOther, (*acquirer).putRefund},
	{"GET /v2/pix/{e2eid}/devolucao/{id}", opOther, (*acquirer).getRefund},
	{"PUT /v2/webhook/{chave}", opOther, (*acquirer).putWebhook},
	{"GET /v2/webhook/{chave}", opOther, (*acquirer).getWebhook},
	{"DELETE /v2/webhook/{chave}", opOther, (*acquirer).deleteWebhook},
	{"GET /v2/webhook", opOther, (*acquirer).listWebhooks},
	{"PUT /v3/gn/pix/{idEnvio}", opPayoutSend, (*acquirer).putPayout},
	{"GET /v2/gn/pix/enviados/id-envio/{idEnvio}", opPayoutGet, (*acquirer).getPayout},
	{"GET /v2/gn/pix/enviados/{e2eid}", opPayoutGet, (*acquirer).getPayoutByEndToEnd},
	{"GET /v2/gn/pix/enviados", opPayoutGet, (*acquirer).listPayouts},
	{"GET /v2/gn/saldo", opOther, (*acquirer).getBalance},
	{"GET /v2/gn/infracoes", opMEDList, (*acquirer).listInfractions},
	{"POST /v2/gn/infracoes/{id}/defesa", opMEDDefend, (*acquirer).postDefense},
}

// prepare builds the handler and the server in front of it.
func (a *acquirer) prepare() {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /oauth/token", func(w http.ResponseWriter, r *http.Request) {
		a.execute(w, r, opToken, (*acquirer).postToken)
	})
	for _, rt := range routes {
		mux.HandleFunc(rt.pattern, func(w http.ResponseWriter, r *http.Request) {
			// A fault is for who may do the operation: a token that expired must not use it up.
			if err := a.authorize(r); err != nil {
				a.write(w, r, httpkit.Answer{}, err)
				return
			}
			a.execute(w, r, rt.op, rt.answer)
		})
	}
	// What payers' banks read has neither token nor faults.
	for pattern, answer := range map[string]func(*http.Request) (httpkit.Answer, error){
		"GET " + locationPath + "{token}": a.getLocation,
		"GET " + jwksPath:                 a.getKeys,
		"/": func(*http.Request) (httpkit.Answer, error) {
			return httpkit.Answer{}, notFound.because("Não há essa rota.")
		},
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			answer, err := answer(r)
			a.write(w, r, answer, err)
		})
	}
	a.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.refuses.Load() {
			panic(http.ErrAbortHandler)
		}
		mux.ServeHTTP(w, r)
	})
	// No bound on the whole of a request: it would end the waits that a fault orders.
	a.door.server = &http.Server{
		Handler:           a.handler,
		ReadHeaderTimeout: readHeaderTimeMax,
		IdleTimeout:       idleTimeMax,
		MaxHeaderBytes:    headerBytesMax,
		ErrorLog:          slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
	}
	unreachable := a.name + ".simulator"
	a.host.Store(&unreachable)
}

// execute answers an operation, or does what a fault has in store for it.
func (a *acquirer) execute(w http.ResponseWriter, r *http.Request, op operation, answer func(*acquirer, *http.Request) (httpkit.Answer, error)) {
	rule, hit := a.faults.onRequest(a.name, op)
	if !hit {
		result, err := answer(a, r)
		a.write(w, r, result, err)
		return
	}
	a.log.LogAttrs(r.Context(), slog.LevelInfo, "fault", slog.String("acquirer", a.name), slog.String("kind", string(rule.kind)),
		slog.String("method", r.Method), slog.String("path", clip(r.URL.Path)))
	switch rule.kind {
	case faultHTTP500:
		a.write(w, r, httpkit.Answer{}, internalError.because("Falha encomendada ao simulador."))
	case faultHTTP429:
		a.write(w, r, httpkit.Answer{}, errTooMany)
	case faultReject:
		a.write(w, r, httpkit.Answer{}, a.rejection(op, r))
	case faultLostNotExecuted:
		pause(r.Context(), rule.delay)
		reset(w)
	case faultLostExecuted:
		_, _ = answer(a, r)
		pause(r.Context(), rule.delay)
		reset(w)
	case faultSlow:
		result, err := answer(a, r)
		pause(r.Context(), rule.delay)
		a.write(w, r, result, err)
	case faultGarbage:
		_, _ = answer(a, r)
		_ = httpkit.Write(w, httpkit.Answer{Raw: []byte(garbage), Header: http.Header{"Content-Type": {"application/json"}}})
	case faultRefuse, faultDuplicateCallback: // onRequest gives out neither
	}
}

// garbage is what a proxy might make of an answer.
const garbage = `{"txid":"7978c0c97ea847e78e88`

var errTooMany = &refusal{
	Name: "limite_de_requisicoes", Message: "Muitas requisições. Tente de novo em instantes.",
	status: http.StatusTooManyRequests, header: http.Header{"Retry-After": {"1"}},
}

// rejection is a clean refusal of an operation.
func (a *acquirer) rejection(op operation, r *http.Request) error {
	const reason = "Recusa encomendada ao simulador."
	switch op {
	case opToken:
		return errClient
	case opChargeCreate:
		return chargeInvalid.because(reason, violation{Reason: reason, Property: "cob"})
	case opChargeGet, opPayoutGet, opMEDList:
		return accessDenied.because(reason)
	case opPayoutSend:
		if a.isUsed(r.PathValue("idEnvio")) {
			return errDuplicateSend // to refuse what was done before would be a lie
		}
		return errBadKey
	case opMEDDefend:
		return infractionInvalid.because(reason)
	case opAny, opOther:
	}
	return invalidRequest.because(reason)
}

// pause waits for d of real time, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-ctx.Done()
}

// reset closes the connection of a request without an answer.
func reset(w http.ResponseWriter) {
	hijacked, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // no connection, as in tests
	}
	if c, ok := hijacked.(*conn); ok {
		c.reset()
	}
	_ = hijacked.Close()
}

// write writes an answer or an error.
func (a *acquirer) write(w http.ResponseWriter, r *http.Request, answer httpkit.Answer, err error) {
	if err == nil {
		err = httpkit.Write(w, answer)
	}
	if err == nil {
		return
	}
	correlationID := a.ids.New().UUID()
	answer, unexpected := answerOf(err, correlationID)
	if unexpected != nil {
		a.log.LogAttrs(r.Context(), slog.LevelError, "request failed", slog.String("acquirer", a.name), slog.String("correlation_id", correlationID),
			slog.String("method", r.Method), slog.String("path", clip(r.URL.Path)), slog.String("error", unexpected.Error()))
	}
	_ = httpkit.Write(w, answer) // of plain texts, which can always be encoded
}

// body is that of a request, in memory that is used again.
type body struct {
	bytes.Buffer
	source io.LimitedReader
}

var bodies = sync.Pool{New: func() any { return new(body) }}

// readBody reads the body of a request. The caller releases it.
func readBody(r *http.Request) (*body, error) {
	b, _ := bodies.Get().(*body)
	b.source = io.LimitedReader{R: r.Body, N: httpkit.BodyBytesMax + 1}
	_, err := b.ReadFrom(&b.source)
	switch {
	case err != nil:
		err = invalidRequest.because("O corpo da requisição não chegou inteiro.")
	case b.Len() > httpkit.BodyBytesMax:
		err = invalidRequest.because(fmt.Sprintf("O corpo da requisição tem mais de %d bytes.", httpkit.BodyBytesMax))
	default:
		return b, nil
	}
	b.release()
	return nil, err
}

func (b *body) release() {
	b.Reset()
	b.source.R = nil
	bodies.Put(b)
}

// readJSON reads the body of a request into v, whose properties stand under root. What is no JSON, or of a wrong type, is
// a problem of that kind.
func readJSON(r *http.Request, v any, kind problemKind, root string) error {
	b, err := readBody(r)
	if err != nil {
		return err
	}
	defer b.release()
	return b.decode(v, kind, root)
}

// decode reads the body into v, as [readJSON] does.
func (b *body) decode(v any, kind problemKind, root string) error {
	err := json.Unmarshal(b.Bytes(), v)
	var wrongType *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrongType):
		var broken violations
		broken.schema(strings.Trim(root+"."+wrongType.Field, "."), wrongType.Value)
		return kind.because("A requisição não respeita o schema.", broken...)
	}
	return invalidRequest.because("O corpo da requisição não é JSON.")
}
