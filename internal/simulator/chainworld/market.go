package chainworld

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

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
