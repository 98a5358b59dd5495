package payout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ponte-pay/ponte/internal/acquirer"
)

// dispatch has one new payout sent, by one acquirer after the other, as long as each is proven not to have sent it.
type dispatch struct {
	*Service
	payout *Payout
	plan   *acquirer.Plan
	turn   *acquirer.Turn
	asked  time.Time // when the acquirer that has it says that it was asked; zero when it does not tell
}

// run sends the payout, whose money is held for the acquirer whose turn it is. When it returns nil the payout is
// processing or failed. Acquirers are asked no longer than sending lasts; what they answer is written whatever it takes.
func (d *dispatch) run(ctx, sending context.Context) error {
	for {
		seen, err := d.turn.Send(sending, d.payout.order())
		switch {
		case err == nil:
			return d.accepted(ctx, &seen)
		case !acquirer.IsRefused(err) && !failsOverFromUnknown:
			return d.unknown(ctx, sending, err)
		case isAboutThePayout(err):
			return d.refused(ctx, explain(acquirer.As(err).Code), err)
		}
		turn, ok := d.plan.Next()
		if !ok || sending.Err() != nil {
			return d.refused(ctx, messageNobody, err)
		}
		if moved := d.passOn(ctx, turn.Acquirer, err); moved != nil {
			return d.overtaken(ctx, moved)
		}
		d.turn = turn
	}
}

// order is the payout as an acquirer is asked to send it.
func (p *Payout) order() acquirer.NewPayout {
	return acquirer.NewPayout{
		ID: p.Name(), Amount: p.Amount, Key: p.Key, RecipientDocument: p.RecipientDocument, Description: p.Description,
	}
}

// isAboutThePayout reports whether a refusal has its reason in the payout, so that no acquirer would send it.
func isAboutThePayout(err error) bool {
	return acquirer.As(err).Class == acquirer.Business && !errors.Is(err, acquirer.ErrNoFunds)
}

// accepted needs nothing to be written: the payout is processing since its money is held.
func (d *dispatch) accepted(ctx context.Context, seen *acquirer.Payout) error {
	d.asked = seen.AskedAt
	switch seen.Status {
	case acquirer.PayoutFailed:
		return d.refused(ctx, explain(seen.Code), nil)
	case acquirer.PayoutSettled: // so fast that nobody may be told of it here
		d.Hint(d.payout.Acquirer, seen.EndToEndID, d.payout.Name())
	case acquirer.PayoutProcessing, acquirer.PayoutUnknown:
	}
	return nil
}

// refused gives the money back: every acquirer that was asked is proven not to have sent it.
func (d *dispatch) refused(ctx context.Context, message string, cause error) error {
	err := d.payout.note(cause)
	if err == nil {
		err = d.fail(ctx, d.payout, message, toldFailed)
	}
	if err != nil {
		return d.overtaken(ctx, err)
	}
	return nil
}

// passOn writes that another acquirer is about to be asked, because this one is proven not to have sent it. It comes
// before the asking: whoever finds the payout after a crash has to know whom to ask.
func (d *dispatch) passOn(ctx context.Context, next string, refusal error) error {
	p := *d.payout
	if err := p.note(refusal); err != nil {
		return err
	}
	p.Acquirer = next
	if err := d.claim(ctx, &p); err != nil {
		return err
	}
	*d.payout = p
	return nil
}

// unknown asks the same acquirer once whether it has the payout. If that does not tell, nobody can tell now, and nobody
// else may be asked to send it.
func (d *dispatch) unknown(ctx, sending context.Context, cause error) error {
	p := d.payout
	at, ok := d.Router.Payer(p.Acquirer)
	if ok {
		seen, err := ask(sending, at, p.Name())
		if err == nil {
			err = p.compare(&seen)
		}
		if err == nil {
			return d.accepted(ctx, &seen)
		}
		cause = errors.Join(cause, err)
	}
	p.DoubtAt = p.SentAt
	if err := d.writeKnown(ctx, p, toldUnknown); err != nil { // then it is found by its age
		d.Log.LogAttrs(ctx, slog.LevelError, "a doubt could not be noted", slog.String("payout", prefix.Format(p.ID)), slog.String("error", err.Error()))
	}
	return ambiguous(p, cause)
}

// overtaken is for a payout that somebody else has moved or sent meanwhile, or that could not be written: what we have
// heard no longer decides anything.
func (d *dispatch) overtaken(ctx context.Context, cause error) error {
	now, err := get(ctx, d.DB, d.payout.Account, d.payout.ID)
	if err != nil || now.Status == Processing {
		return ambiguous(d.payout, errors.Join(cause, err))
	}
	if now.Status != Failed {
		now = now.AsCreated() // a creation is never told more
	}
	*d.payout = now
	return nil
}

// refusal is an acquirer that was passed over, or was asked and is proven not to have sent, as operators read it.
type refusal struct {
	Acquirer string `json:"acquirer"`
	Error    string `json:"error"`
}

// note adds a refusal of the payout's acquirer to its routing; nil adds nothing.
func (p *Payout) note(cause error) error {
	if cause == nil {
		return nil
	}
	return p.route(refusal{p.Acquirer, cause.Error()})
}

// pass adds the acquirers that were passed over to the payout's routing.
func (p *Payout) pass(over []acquirer.Attempt) error {
	for _, a := range over {
		if err := p.route(refusal{a.Acquirer, "passed over: " + string(a.Reason)}); err != nil {
			return err
		}
	}
	return nil
}

func (p *Payout) route(r refusal) error {
	var list []refusal
	if err := json.Unmarshal([]byte(p.Routing), &list); err != nil {
		return fmt.Errorf("payout: routing of %s: %w", prefix.Format(p.ID), err)
	}
	b, err := json.Marshal(append(list, r))
	if err != nil {
		return err
	}
	p.Routing = string(b)
	return nil
}

const messageNobody = "no bank could send it; the money is back in the balance"

// explanations are what callers are told about an acquirer's or the network's code. Their own sentences are not for
// callers: they may name what is none of theirs.
var explanations = map[string]string{
	"chave_invalida":                  "the Pix key does not exist",
	"chave_nao_pertence_ao_documento": "the Pix key does not belong to the recipient's document",
	"documento_bloqueado":             "the recipient's document is blocked",
	"valor_invalido":                  "the amount was refused",
	"pagamento_negado":                "the payment was refused",
	"AC03":                            "the recipient's account does not exist",
	"AC06":                            "the recipient's account is blocked",
	"AC07":                            "the recipient's account is closed",
	"AC14":                            "the recipient's account cannot receive it",
	"AG03":                            "the recipient's bank does not take this kind of payment",
	"AM02":                            "the amount is above the recipient's limit",
	"BE01":                            "the recipient is not who was named",
	"BE17":                            "the recipient's bank refused the QR code",
	"DS04":                            "the recipient's bank refused it",
	"ED05":                            "the payment network could not settle it",
	"AB03":                            "the payment network gave up waiting for the recipient's bank",
	"AB09":                            "the recipient's bank failed",
	"RR04":                            "the payment network refused it for regulatory reasons",
}

// explain returns why a payout failed, for its caller.
func explain(code string) string {
	known := explanations[code]
	switch {
	case known != "":
		return known + " (" + code + ")"
	case code != "":
		return "the payment network refused it (" + code + ")"
	}
	return "the payment network refused it"
}
