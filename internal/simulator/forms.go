package simulator

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/pix"
	"github.com/ponte-pay/ponte/internal/simulator/chainworld"
)

// pageNotices are what the page can say after a form.
var pageNotices = map[string]string{
	"devolvido": "O dinheiro foi devolvido.",
	"removida":  "A cobrança foi removida pelo adquirente.",
	"falha":     "A falha está ligada.",
	"limpo":     "Todas as falhas foram desligadas.",

	"contestado": "O pagador contestou o Pix.",
	"aceita":     "A infração foi aceita: o dinheiro voltou ao pagador.",
	"rejeitada":  "A infração foi rejeitada.",
	"cancelada":  "A infração foi cancelada.",

	"liquidado":       "O Pix enviado foi liquidado.",
	"recusado":        "O Pix enviado foi recusado.",
	"envio_devolvido": "O Pix enviado foi devolvido.",

	"moedas":            "As moedas estão a caminho.",
	"cripto_confirmada": "O depósito foi confirmado.",
	"cripto_vencida":    "O depósito venceu.",
	"cripto_falhou":     "O depósito falhou.",
	"cripto_devolvida":  "As moedas foram devolvidas.",
	"saque_concluido":   "As moedas foram enviadas.",
	"saque_falhou":      "O saque falhou.",
	"saque_rejeitado":   "O saque foi rejeitado.",

	"relogio": "O relógio foi adiantado.",
}

func done(what string) (url.Values, error) { return url.Values{"feito": {what}}, nil }

func (s *Simulator) formPay(r *http.Request) (url.Values, error) {
	o := order{copyPaste: strings.TrimSpace(r.PostForm.Get("codigo")), name: clip(strings.TrimSpace(r.PostForm.Get("nome"))), silent: r.PostForm.Get("sem_aviso") != ""}
	if o.copyPaste == "" {
		return nil, invalid("copy_paste", "is required")
	}
	if text := strings.TrimSpace(r.PostForm.Get("documento")); text != "" {
		var err error
		if o.document, err = pix.ParseDocument(text); err != nil {
			return nil, invalid("payer_document", err.Error())
		}
	}
	if text := strings.TrimSpace(r.PostForm.Get("valor")); text != "" {
		var message string
		if o.amount, message = parseReais(fromPortuguese(text)); message != "" {
			return nil, invalid("amount", message)
		}
	}
	v, err := s.pay(o)
	if err != nil {
		return nil, err
	}
	return url.Values{"pago": {v.endToEndID.String()}}, nil
}

// fromPortuguese turns 1.234,56 into 1234.56, and leaves 1234.56 as it is.
func fromPortuguese(amount string) string {
	amount = strings.TrimSpace(strings.TrimPrefix(amount, "R$"))
	if strings.Contains(amount, ",") {
		amount = strings.ReplaceAll(strings.ReplaceAll(amount, ".", ""), ",", ".")
	}
	return amount
}

func (s *Simulator) formRefund(r *http.Request) (url.Values, error) {
	if _, err := s.giveBack(r.PostForm.Get("e2e"), 0); err != nil {
		return nil, err
	}
	return done("devolvido")
}

func (s *Simulator) formRemove(r *http.Request) (url.Values, error) {
	if _, err := s.remove(r.PostForm.Get("txid"), r.PostForm.Get("adquirente")); err != nil {
		return nil, err
	}
	return done("removida")
}

// formPayout returns the form that does so with a payout, and says what was done.
func (s *Simulator) formPayout(do func(payoutOrder) (payoutView, error), what string) func(*http.Request) (url.Values, error) {
	return func(r *http.Request) (url.Values, error) {
		_, err := do(payoutOrder{
			id: r.PostForm.Get("id"), acquirer: r.PostForm.Get("adquirente"), reason: clip(r.PostForm.Get("motivo")), silent: r.PostForm.Get("sem_aviso") != "",
		})
		if err != nil {
			return nil, err
		}
		return done(what)
	}
}

func (s *Simulator) formClaim(r *http.Request) (url.Values, error) {
	if _, err := s.openInfraction(claim{e2e: r.PostForm.Get("e2e")}); err != nil {
		return nil, err
	}
	return done("contestado")
}

// formDecide returns the form that closes an infraction in that way, and says what was done.
func (s *Simulator) formDecide(status infractionStatus, what string) func(*http.Request) (url.Values, error) {
	return func(r *http.Request) (url.Values, error) {
		if _, err := s.decide(r.PostForm.Get("id"), status); err != nil {
			return nil, err
		}
		return done(what)
	}
}

func (s *Simulator) formFault(r *http.Request) (url.Values, error) {
	times, timesErr := strconv.Atoi(cmp.Or(r.PostForm.Get("vezes"), "1"))
	delay, delayErr := strconv.Atoi(cmp.Or(r.PostForm.Get("demora"), strconv.FormatInt(faultDelayDefault.Milliseconds(), 10)))
	rule := faultRule{
		target: r.PostForm.Get("alvo"), operation: operation(r.PostForm.Get("operacao")), kind: faultKind(r.PostForm.Get("tipo")),
		times: times, delay: time.Duration(delay) * time.Millisecond,
	}
	switch {
	case !slices.Contains(faultTargets, rule.target):
		return nil, invalid("target", "is unknown")
	case !slices.Contains(operations, string(rule.operation)):
		return nil, invalid("operation", "is unknown")
	case !slices.Contains(faultKinds, string(rule.kind)):
		return nil, invalid("kind", "is unknown")
	case timesErr != nil || times < 0 || times > faultTimesMax:
		return nil, invalid("times", "is no number")
	case delayErr != nil || delay < 0 || rule.delay > faultDelayMax:
		return nil, invalid("delay_ms", "is no number")
	}
	if _, err := s.addFault(rule); err != nil {
		return nil, err
	}
	return done("falha")
}

func (s *Simulator) formClear(r *http.Request) (url.Values, error) {
	if err := s.clearFaults(r.Context()); err != nil {
		return nil, err
	}
	return done("limpo")
}

func (s *Simulator) formClock(r *http.Request) (url.Values, error) {
	seconds, err := strconv.Atoi(r.PostForm.Get("segundos"))
	if err != nil || seconds < 1 || seconds > int(advanceMax/time.Second) {
		return nil, invalid("advance_seconds", "is no number of seconds")
	}
	if err := s.advance(time.Duration(seconds) * time.Second); err != nil {
		return nil, err
	}
	return done("relogio")
}

func statusOf(err error) int {
	switch fault.As(err).Kind { //nolint:exhaustive // everything else is our own defect
	case fault.Invalid, fault.Unprocessable, fault.Conflict:
		return http.StatusBadRequest
	case fault.NotFound:
		return http.StatusNotFound
	default:
		return http.StatusInternalServerError
	}
}

// fieldsInPortuguese are the names of fields as the page has them.
var fieldsInPortuguese = map[string]string{
	"copy_paste": "código Pix copia e cola", "amount": "valor", "payer_document": "CPF ou CNPJ", "target": "adquirente",
	"operation": "operação", "kind": "falha", "times": "vezes", "delay_ms": "demora", "advance_seconds": "segundos",
}

// inPortuguese says an error in plain words.
func inPortuguese(err error) string {
	for _, known := range []struct {
		err  error
		text string
	}{
		{errNoCharge, "Este código não é de nenhuma cobrança daqui."},
		{errNoPayment, "Não há Pix com esse identificador."},
		{errNoInfraction, "Não há infração com esse identificador."},
		{errInfractionClosed, "A infração já foi decidida."},
		{errNoPayout, "Não há Pix enviado com esse identificador."},
		{errPayoutEnded, "O Pix enviado já foi liquidado ou recusado."},
		{errPayoutUnsettled, "Só volta o Pix que foi liquidado."},
		{errReturnTooMuch, "Não resta nada a devolver deste Pix."},
		{errNotActive, "A cobrança já foi paga ou removida."},
		{errRemoved, "A cobrança foi removida: nenhum banco a pagaria."},
		{errRefundTooMuch, "Não resta nada a devolver deste Pix."},
		{errFaultsFull, "Há falhas demais ligadas. Desligue-as primeiro."},
		{errTooFar, "O relógio não pode ir tão longe."},
		{chainworld.ErrNoAddress, "Nenhum depósito tem esse endereço, ou o memo é outro."},
		{chainworld.ErrWrongChain, "Essa moeda não é da rede desse endereço."},
		{chainworld.ErrNoPayment, "Não há depósito com esse identificador."},
		{chainworld.ErrNoPayout, "Não há saque com esse identificador."},
		{chainworld.ErrState, "Isso já não pode acontecer: o estado é outro."},
	} {
		if errors.Is(err, known.err) {
			return known.text
		}
	}
	if issues := fault.As(err).Issues; len(issues) > 0 {
		return "Confira o campo " + cmp.Or(fieldsInPortuguese[issues[0].Path], issues[0].Path) + "."
	}
	return "Algo deu errado. Veja o registro do simulador."
}
