package chainworld

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/ponte-pay/ponte/internal/chain/address"
)

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
