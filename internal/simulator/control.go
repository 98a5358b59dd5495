package simulator

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"time"

	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/httpkit"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/wire"
)

// newHandler returns the control routes and the page.
func (s *Simulator) newHandler() http.Handler {
	mux := http.NewServeMux()
	controls := map[string]func(*http.Request) (httpkit.Answer, error){
		"POST /sim/pix/pay":    s.controlPay,
		"POST /sim/pix/refund": s.controlRefund,
		"POST /sim/pix/remove": s.controlRemove,
		"GET /sim/pix/books":   s.controlBooks,

		"POST /sim/pix/payouts/{id}/settle": s.controlPayout(s.settlePayout),
		"POST /sim/pix/payouts/{id}/fail":   s.controlPayout(s.failPayout),
		"POST /sim/pix/payouts/{id}/return": s.controlPayout(s.returnPayout),

		"POST /sim/med":             s.controlOpenInfraction,
		"POST /sim/med/{id}/accept": s.controlDecide(infractionAccepted),
		"POST /sim/med/{id}/reject": s.controlDecide(infractionRejected),
		"POST /sim/med/{id}/cancel": s.controlDecide(infractionCancelled),

		"GET /sim/faults":    s.controlListFaults,
		"POST /sim/faults":   s.controlAddFault,
		"DELETE /sim/faults": s.controlClearFaults,
		"GET /sim/clock":     s.controlClock,
		"POST /sim/clock":    s.controlAdvance,
		"GET /sim/acquirers": s.controlAcquirers,

		"GET /sim/crypto/account": s.controlCryptoAccount,
	}
	maps.Copy(controls, s.chain.Controls())
	for pattern, handle := range controls {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			answer, err := handle(r)
			if err == nil {
				err = httpkit.Write(w, answer)
			}
			if err != nil {
				s.refuse(w, r, err)
			}
		})
	}
	s.addPage(mux)
	// A page of somebody else's must not pay, break or move anything.
	guarded := http.NewCrossOriginProtection().Handler(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(httpkit.RequestIDHeader, id.Request.Format(s.ids.New()))
		if _, pattern := mux.Handler(r); pattern != "" {
			guarded.ServeHTTP(w, r)
			return
		}
		s.refuse(w, r, noRoute(mux, w, r))
	})
}

// noRoute says why a request has no route.
func noRoute(mux *http.ServeMux, w http.ResponseWriter, r *http.Request) error {
	// Only the mux knows the methods of a path, and tells them by answering.
	handler, _ := mux.Handler(r)
	probe := probe{http.Header{}}
	handler.ServeHTTP(&probe, r)
	allow := probe.header.Get("Allow")
	if allow == "" {
		return fault.New(fault.NotFound, "", "there is no such route")
	}
	w.Header().Set("Allow", allow)
	return fault.New(fault.MethodNotAllowed, "", r.Method+" is not allowed here: use "+allow)
}

// probe takes an answer that nobody is to see.
type probe struct{ header http.Header }

func (p *probe) Header() http.Header         { return p.header }
func (p *probe) Write(b []byte) (int, error) { return len(b), nil }
func (p *probe) WriteHeader(int)             {}

// readFields reads the body of a control route.
func readFields(r *http.Request) (fields *httpkit.FieldReader, body []byte, err error) {
	if body, err = wire.ReadBody(r.Body, r.ContentLength, httpkit.BodyBytesMax); err != nil {
		return nil, nil, fault.New(fault.Invalid, "", "the body could not be read to its end")
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	object, err := httpkit.ReadObject(r)
	if err != nil {
		return nil, nil, err
	}
	return httpkit.Fields(object), body, nil
}

// flagField reads an optional true or false from the body, which is a JSON object.
func flagField(f *httpkit.FieldReader, body []byte, name string, absent bool) bool {
	if !f.Has(name) {
		return absent
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil {
		return absent
	}
	switch string(fields[name]) {
	case "true":
		return true
	case "false":
		return false
	}
	f.Issue(name, "must be true or false")
	return absent
}

// amountField reads the optional field amount, which is above zero and a string; 0 when it is absent.
func amountField(f *httpkit.FieldReader) money.BRL {
	const name = "amount"
	text := f.String(name, httpkit.StringRule{})
	if !text.Present {
		return 0
	}
	amount, message := parseReais(text.Value)
	if message != "" {
		f.Issue(name, message)
	}
	return amount
}

// parseReais reads an amount above zero, or says what it must be.
func parseReais(s string) (amount money.BRL, message string) {
	amount, err := money.ParseBRL(s)
	switch {
	case err != nil:
		return 0, err.Error()
	case amount <= 0:
		return 0, "must be at least 0.01"
	}
	return amount, ""
}

func (s *Simulator) controlAcquirers(*http.Request) (httpkit.Answer, error) {
	return httpkit.Answer{Body: s.Acquirers(), Header: noStoreHeader}, nil
}

// advanceMax bounds one move of the clock, and offsetMax all of them, so that years keep four digits.
const (
	advanceMax = 10 * 366 * 24 * time.Hour
	offsetMax  = 100 * 366 * 24 * time.Hour
)

type clockJSON struct {
	OffsetSeconds int64  `json:"offset_seconds"`
	Now           string `json:"now"`
}

func (s *Simulator) controlClock(*http.Request) (httpkit.Answer, error) {
	return httpkit.Answer{Body: clockJSON{int64(s.clock.Offset() / time.Second), s.clock.Now().Format(time.RFC3339Nano)}}, nil
}

func (s *Simulator) controlAdvance(r *http.Request) (httpkit.Answer, error) {
	f, _, err := readFields(r)
	if err != nil {
		return httpkit.Answer{}, err
	}
	by := f.Int("advance_seconds", httpkit.IntRule{Required: true, Min: 1, Max: int(advanceMax / time.Second)})
	if err := f.Err(); err != nil {
		return httpkit.Answer{}, err
	}
	if err := s.advance(time.Duration(by) * time.Second); err != nil {
		return httpkit.Answer{}, err
	}
	return s.controlClock(r)
}

var errTooFar = fault.New(fault.Unprocessable, "", "the clock cannot be moved that far in all")

// advance moves business time forward.
func (s *Simulator) advance(by time.Duration) error {
	s.moving.Lock()
	defer s.moving.Unlock()
	offset := s.clock.Offset() + by
	if offset > offsetMax {
		return errTooFar
	}
	// The clock last: what happens after the move must find it written down.
	if s.advanced != nil {
		if err := s.advanced(offset); err != nil {
			return err
		}
	}
	if err := s.books.setOffset(offset); err != nil {
		return err
	}
	s.clock.Raise(offset)
	return nil
}

// errorOf says what an error of the books means to who uses the control routes.
func errorOf(err error) error {
	meaning := func(kind fault.Kind, code, public string) error {
		return &fault.Error{Kind: kind, Code: code, Public: public, Cause: err}
	}
	switch {
	case errors.Is(err, errNoCharge):
		return meaning(fault.NotFound, "", "no acquirer has such a charge")
	case errors.Is(err, errNoPayment):
		return meaning(fault.NotFound, "", "no acquirer has a payment with this end_to_end_id")
	case errors.Is(err, errNoPayout):
		return meaning(fault.NotFound, "", "no acquirer has a payout with this id")
	case errors.Is(err, errPayoutEnded):
		return meaning(fault.Conflict, "payout_ended", "the payout has been settled or has failed before")
	case errors.Is(err, errPayoutUnsettled):
		return meaning(fault.Conflict, "payout_not_settled", "only a payout that was settled can be returned")
	case errors.Is(err, errReturnTooMuch):
		return meaning(fault.Unprocessable, "return_too_large", "the return is more than what is left of the payout")
	case errors.Is(err, errNoInfraction):
		return meaning(fault.NotFound, "", "no acquirer has an infraction with this id")
	case errors.Is(err, errInfractionClosed):
		return meaning(fault.Conflict, "infraction_closed", "the infraction was accepted, rejected or cancelled before")
	case errors.Is(err, errClaimTooMuch):
		return meaning(fault.Unprocessable, "claim_too_large", "the amount is more than the payment")
	case errors.Is(err, errNotActive):
		return meaning(fault.Conflict, "charge_not_active", "the charge was paid or removed before")
	case errors.Is(err, errRemoved):
		return meaning(fault.Unprocessable, "charge_removed", "the charge was removed: no bank would pay it")
	case errors.Is(err, errRefundTooMuch):
		return meaning(fault.Unprocessable, "refund_too_large", "the refund is more than what is left of the payment")
	}
	return err
}

// refuse answers a control route with an error.
func (s *Simulator) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if fault.As(err).Kind == fault.Internal {
		s.log.LogAttrs(r.Context(), slog.LevelError, "control route failed", slog.String("request_id", w.Header().Get(httpkit.RequestIDHeader)),
			slog.String("path", clip(r.URL.Path)), slog.String("error", err.Error()))
	}
	httpkit.WriteError(w, err, httpkit.Lower)
}
