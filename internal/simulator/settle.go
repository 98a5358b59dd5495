package simulator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"time"

	"github.com/ponte-pay/ponte/internal/httpkit"
	"github.com/ponte-pay/ponte/internal/money"
)

// When payouts settle by themselves.
const (
	SettleAfterDefault = time.Second
	AtOnce             = time.Duration(-1) // before their sender has an answer
	Manual             = time.Duration(-2) // never: somebody has to say so

	settleAfterMax = 24 * time.Hour
)

// ParseSettleAfter reads a duration, or the word manual.
func ParseSettleAfter(s string) (time.Duration, error) {
	if s == "manual" {
		return Manual, nil
	}
	d, err := time.ParseDuration(s)
	switch {
	case err != nil || d < 0 || d > settleAfterMax:
		return 0, fmt.Errorf("simulator: settle after %q: want manual, or a duration from 0 to %v such as 1s", s, settleAfterMax)
	case d == 0:
		return AtOnce, nil
	}
	return d, nil
}

// settleDue settles the payouts whose time has come and tells their senders. It reports whether there were any.
func (a *acquirer) settleDue(ctx context.Context) (did bool) {
	if a.settleAfter == Manual {
		return false
	}
	for ctx.Err() == nil {
		due := a.clock.Now().Add(-max(0, a.settleAfter)).UnixMilli()
		id, found := a.books.due(a.number, due)
		if !found {
			return did
		}
		if err := a.settle(id); err != nil {
			a.log.LogAttrs(ctx, slog.LevelError, "payout not settled", slog.String("acquirer", a.name), slog.String("error", err.Error()))
			return did
		}
		did = true
	}
	return did
}

// settle settles a payout and tells its sender. That somebody else ended it meanwhile is no error.
func (a *acquirer) settle(id string) error {
	v, err := a.books.settle(a.number, id)
	switch {
	case errors.Is(err, errPayoutEnded):
		return nil
	case err != nil:
		return err
	}
	a.notifySent(v)
	return nil
}

// failureReasons are codes of the payment network, with what they mean.
var failureReasons = map[string]string{
	"AB03": "Liquidação interrompida por tempo esgotado no SPI",
	"AB09": "Erro no banco do usuário recebedor",
	"AC03": "Agência ou conta do usuário recebedor inexistente ou inválida",
	"AC06": "Conta do usuário recebedor bloqueada",
	"AC07": "Conta do usuário recebedor encerrada",
	"AC14": "Tipo de conta do usuário recebedor incorreto",
	"AG03": "Tipo de transação não suportado pelo usuário recebedor",
	"AM02": "Valor superior ao limite da conta do usuário recebedor",
	"BE01": "CPF ou CNPJ não é do titular da conta do usuário recebedor",
	"DS04": "Ordem rejeitada pelo banco do usuário recebedor",
	"ED05": "Erro no processamento da liquidação",
}

const (
	failureDefault   = "AC03"
	failureOther     = "ED05" // for reasons that are no code
	failureReasonMax = 140    // characters
)

var failurePattern = regexp.MustCompile(`^[A-Z]{2}[A-Z0-9]{2}$`)

// failureOf returns the failure that a code or a text in words describes.
func failureOf(reason string) payoutFailure {
	switch text, known := failureReasons[reason]; {
	case reason == "":
		return payoutFailure{failureDefault, failureReasons[failureDefault]}
	case known:
		return payoutFailure{reason, text}
	case failurePattern.MatchString(reason):
		return payoutFailure{reason, reason}
	}
	return payoutFailure{failureOther, reason}
}

// payoutOrder is what is to become of a payout.
type payoutOrder struct {
	id       string
	acquirer string    // whose payout, for an id that both have; empty means the one that was asked for last
	reason   string    // why it fails; empty means some
	amount   money.BRL // that comes back; 0 means all that is left
	silent   bool      // the notification gets lost

	end payoutStatus // that it shall have; payoutProcessing means neither
}

// findPayout returns a payout by the id that its sender chose.
func (s *Simulator) findPayout(o payoutOrder) (payoutView, error) {
	var found *payoutView
	for _, a := range s.acquirers {
		if o.acquirer != "" && o.acquirer != a.name {
			continue
		}
		v, err := s.books.payoutByID(a.number, o.id)
		if err == nil && (found == nil || v.created >= found.created) {
			found = &v
		}
	}
	if found == nil {
		return payoutView{}, errNoPayout
	}
	return *found, nil
}

// change lets something become of a payout, and tells its sender.
func (s *Simulator) change(o payoutOrder, do func(b *books, acquirer int) (payoutView, error)) (payoutView, error) {
	found, err := s.findPayout(o)
	if err != nil {
		return payoutView{}, errorOf(err)
	}
	v, err := do(s.books, found.acquirer)
	if errors.Is(err, errPayoutEnded) {
		// As it was wished, by somebody else: payouts also settle by themselves.
		if found, err := s.findPayout(o); err == nil && found.status == o.end {
			return found, nil
		}
	}
	if err != nil {
		return payoutView{}, errorOf(err)
	}
	if !o.silent {
		s.acquirers[v.acquirer].notifySent(v)
	}
	return v, nil
}

func (s *Simulator) settlePayout(o payoutOrder) (payoutView, error) {
	o.end = payoutSettled
	return s.change(o, func(b *books, acquirer int) (payoutView, error) { return b.settle(acquirer, o.id) })
}

func (s *Simulator) failPayout(o payoutOrder) (payoutView, error) {
	o.end = payoutFailed
	return s.change(o, func(b *books, acquirer int) (payoutView, error) { return b.fail(acquirer, o.id, failureOf(o.reason)) })
}

func (s *Simulator) returnPayout(o payoutOrder) (payoutView, error) {
	return s.change(o, func(b *books, acquirer int) (payoutView, error) { return b.bringBack(acquirer, o.id, o.amount) })
}

// controlPayout returns the control route that does so with a payout. A body is optional.
func (s *Simulator) controlPayout(do func(payoutOrder) (payoutView, error)) func(*http.Request) (httpkit.Answer, error) {
	return func(r *http.Request) (httpkit.Answer, error) {
		f, body, err := readOptionalFields(r)
		if err != nil {
			return httpkit.Answer{}, err
		}
		o := payoutOrder{
			id:       r.PathValue("id"),
			acquirer: f.String("acquirer", httpkit.StringRule{OneOf: acquirerNames[:]}).Value,
			reason:   f.String("reason", httpkit.StringRule{Min: 1, Max: failureReasonMax}).Value,
			amount:   amountField(f),
			silent:   !flagField(f, body, "callback", true),
		}
		if err := f.Err(); err != nil {
			return httpkit.Answer{}, err
		}
		v, err := do(o)
		if err != nil {
			return httpkit.Answer{}, err
		}
		return httpkit.Answer{Body: struct {
			Acquirer   string `json:"acquirer"`
			ID         string `json:"id"`
			Status     string `json:"status"`
			EndToEndID string `json:"end_to_end_id"`
			Returned   string `json:"returned"`
		}{acquirerNames[v.acquirer], o.id, v.status.String(), v.endToEndID.String(), (v.amount - v.left()).String()}}, nil
	}
}

// readOptionalFields is readFields for a route that needs no body.
func readOptionalFields(r *http.Request) (fields *httpkit.FieldReader, body []byte, err error) {
	first := make([]byte, 1)
	if _, err := io.ReadFull(r.Body, first); err != nil {
		first = []byte("{}")
	}
	r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(first), r.Body))
	return readFields(r)
}
