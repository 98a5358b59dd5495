package sim

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/app"
	"github.com/ponte-pay/ponte/internal/chain/address"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/pix"
	"github.com/ponte-pay/ponte/internal/sim/auditor"
	"github.com/ponte-pay/ponte/internal/simulator/chainworld"
	"github.com/ponte-pay/ponte/internal/webhook"
)

// do does an action, with all that goes wrong in it.
func (l *life) do(a *Action) {
	l.note("%s", a)
	t := a.trait()
	if t.isOfNode && a.Kind != restart {
		if _, err := l.start(a.Node); err != nil {
			l.auditor.Fails("a node does not start: " + err.Error())
			return
		}
	}
	l.enter(a)
	defer l.leave()
	t.act(l, l.frame())
}

// boot returns the node that does an action.
func (l *life) boot(f *frame) *boot { return l.boots[f.Node] }

// control uses a control route of the worlds, which is how payers, banks and coins are moved. ok is false when it cannot be.
func (l *life) control(method, path string, body map[string]any) (answer map[string]any, ok bool) {
	var content []byte
	if body != nil {
		content, _ = json.Marshal(body) //nolint:errchkjson // of plain values
	}
	r, err := http.NewRequestWithContext(l.ctx, method, "http://world.simulator"+path, http.NoBody)
	if err != nil {
		panic(err) // of our own making
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := serve(l.world.Handler(), r, content)
	if err != nil || response.StatusCode != http.StatusOK {
		return nil, false
	}
	defer response.Body.Close()
	_ = json.NewDecoder(response.Body).Decode(&answer) // what is none is empty
	return answer, true
}

// text returns a field of an answer.
func text(answer map[string]any, names ...string) string {
	var v any = answer
	for _, name := range names {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	}
	return ""
}

// request is a creation as its caller makes it.
type request struct {
	route    string
	owner    *merchant
	key      string // "" for none
	external string // "" for none
	fields   []field
}

// field is one of a body, as JSON. Those that an external_id stands for are material.
type field struct {
	name, value string
	isMaterial  bool
}

// body writes the request. Style 0 is plain; others mean the same and have other bytes.
func (r *request) body(style int) string {
	fields := slices.Clone(r.fields)
	if r.external != "" {
		fields = append(fields, field{name: "external_id", value: fmt.Sprintf("%q", r.external)})
	}
	if style%2 == 1 {
		slices.Reverse(fields)
	}
	var parts []string
	for _, f := range fields {
		name, value := f.name, f.value
		if style >= 2 {
			value = " " + value + " "
			if strings.Contains(f.value, ".") && !strings.Contains(f.value, `"`) {
				value = f.value + "0" // 10.50 is 10.500
			}
			if head, tail, two := strings.Cut(name, "_"); two && !strings.Contains(tail, "_") {
				name = head + strings.ToUpper(tail[:1]) + tail[1:]
			}
		}
		parts = append(parts, fmt.Sprintf("%q:%s", name, value))
	}
	return "{" + strings.Join(parts, ",") + "}"
}

const bodyStyles = 4

func (r *request) meaning(material bool) string {
	var b strings.Builder
	for _, f := range r.fields {
		if !material || f.isMaterial {
			fmt.Fprintf(&b, "%s=%s ", f.name, f.value)
		}
	}
	if !material {
		b.WriteString(r.external)
	}
	return b.String()
}

// call has a node answer a request of a merchant. ok is false when there was no answer.
func (l *life) call(b *boot, m *merchant, method, path, key, body string) (status int, answer map[string]any, ok bool) {
	r, err := http.NewRequestWithContext(l.ctx, method, publicURL+"/v1"+path, http.NoBody)
	if err != nil {
		panic(err) // of our own making
	}
	r.Header.Set("Authorization", "Bearer "+m.key)
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	l.plant.request(r, body)
	response, err := serve(b.server.Handler(), r, []byte(body))
	if err != nil || b.dead {
		l.note("%s %s: no answer", method, path)
		return 0, nil, false
	}
	defer response.Body.Close()
	decoder := json.NewDecoder(response.Body)
	decoder.UseNumber()
	_ = decoder.Decode(&answer) // what is none is empty
	l.note("%s %s: %d %s %s %s", method, path, response.StatusCode, text(answer, "id"), text(answer, "status"), text(answer, "error", "code"))
	if response.StatusCode == http.StatusInternalServerError {
		l.auditor.Fails(fmt.Sprintf("%s %s is answered 500", method, path))
	}
	return response.StatusCode, answer, true
}

// create makes a creation, and has the auditor told what came of it.
func (l *life) create(b *boot, t *thing, r *request, style int) {
	status, answer, ok := l.call(b, r.owner, http.MethodPost, strings.TrimPrefix(r.route, "POST "), r.key, r.body(style))
	if !ok {
		return
	}
	told := auditor.Answer{
		Account: r.owner.id, Route: r.route, Key: r.key, External: r.external, Meaning: r.meaning(false), Material: r.meaning(true),
		Status: status, Code: text(answer, "error", "code"),
	}
	if status < http.StatusMultipleChoices {
		told.ID, told.State, told.Amount = text(answer, "id"), text(answer, "status"), text(answer, "amount")
		if r.route == auditor.RouteDeposit {
			told.Amount = text(answer, "price_amount")
		}
		t.learn(answer)
	}
	l.auditor.Answered(told)
}

// learn notes what an answer tells.
func (t *thing) learn(answer map[string]any) {
	for to, name := range map[*string]string{
		&t.id: "id", &t.txid: "txid", &t.address: "pay_address", &t.memo: "pay_extra_id", &t.coins: "pay_amount", &t.payment: "payment_id",
	} {
		if got := text(answer, name); got != "" {
			*to = got
		}
	}
	if got := text(answer, "pix", "copy_paste"); got != "" {
		t.copyPaste = got
	}
}

// centavos draws an amount in reais.
func centavos(r *rand.Rand, low, high int64) string {
	return money.BRL(low + r.Int64N(high-low)).String()
}

func (l *life) newRequest(f *frame, route string, fields ...field) *request {
	r := &request{route: route, owner: l.merchants[f.random.IntN(len(l.merchants))], fields: fields}
	name := fmt.Sprintf("%s-%d", strings.ReplaceAll(strings.TrimPrefix(route, "POST /"), "/", "-"), f.Number)
	if route == auditor.RouteCharge || f.random.IntN(2) == 0 {
		r.key = "key-" + name
	}
	if route == auditor.RoutePayout || r.key == "" || f.random.IntN(4) > 0 {
		r.external = name
	}
	return r
}

// postback has a thing's events told to one of its owner's receivers too.
func (l *life) postback(f *frame, r *request) {
	for _, host := range sortedKeys(l.receivers) {
		if at := l.receivers[host]; at.owner == r.owner && f.random.IntN(3) == 0 {
			r.fields = append(r.fields, field{name: "postback_url", value: fmt.Sprintf("%q", at.url)})
			return
		}
	}
}

func (l *life) make(f *frame, r *request) {
	t := &thing{request: *r}
	l.things[f.Number] = t
	l.create(l.boot(f), t, r, 0)
}

func (l *life) createCharge(f *frame) {
	amount := centavos(f.random, 200, 30_000)
	r := l.newRequest(f, auditor.RouteCharge, field{"amount", amount, true}, field{name: "expires_in", value: strconv.Itoa(60 + f.random.IntN(4000))})
	l.postback(f, r)
	l.make(f, r)
}

func (l *life) createPayout(f *frame) {
	amount := centavos(f.random, 200, 40_000)
	key := fmt.Sprintf(`"payee-%d@example.com"`, f.Number)
	r := l.newRequest(f, auditor.RoutePayout, field{"amount", amount, true}, field{"pix_key", key, true})
	l.postback(f, r)
	l.make(f, r)
}

// Coins that can be deposited, and those that can be withdrawn with the networks of their addresses.
var (
	depositCoins  = []string{"usdttrc20", "usdtbsc", "btc", "ltc", "trx", "xrp"}
	withdrawCoins = [][2]string{{"usdtbsc", "bsc"}, {"trx", "trx"}, {"ltc", "ltc"}, {"usdterc20", "eth"}}
)

func (l *life) createDeposit(f *frame) {
	amount := money.USD(2000 + f.random.Int64N(20_000)).String()
	coin := fmt.Sprintf("%q", depositCoins[f.random.IntN(len(depositCoins))])
	l.make(f, l.newRequest(f, auditor.RouteDeposit, field{"amount", amount, true}, field{"pay_currency", coin, true}))
}

func (l *life) createWithdrawal(f *frame) {
	amount := money.USDT(20_000_000 + f.random.Int64N(150_000_000)).String()
	coin := withdrawCoins[f.random.IntN(len(withdrawCoins))]
	to := address.New(coin[1], sha256.Sum256(fmt.Append(nil, f.Seed)))
	l.make(f, l.newRequest(f, auditor.RouteWithdrawal, field{"amount", amount, true}, field{"currency", fmt.Sprintf("%q", coin[0]), true}, field{"address", fmt.Sprintf("%q", to), true}))
}

// repeatCreation makes a creation again: as it was, in other words, or with something changed.
func (l *life) repeatCreation(f *frame) {
	t := l.things[f.Of]
	if t == nil {
		return
	}
	r, style := t.request, f.random.IntN(bodyStyles)
	switch f.random.IntN(6) {
	case 0: // another body
		r.fields = slices.Clone(r.fields)
		r.fields[0].value = "77.77"
		l.create(l.boot(f), &thing{}, &r, style)
		return
	case 1: // another key
		if r.external != "" {
			r.key = fmt.Sprintf("another-key-%d", f.Number)
		}
	}
	l.create(l.boot(f), t, &r, style)
}

var readPaths = map[string]string{
	auditor.RouteCharge: "/charges/", auditor.RoutePayout: "/payouts/", auditor.RouteDeposit: "/crypto/charges/",
}

var readLists = []string{"/balance", "/transactions", "/crypto/payouts", "/charges?limit=3", "/payouts?limit=3", "/crypto/charges?limit=3", "/med"}

func (l *life) readThing(f *frame) {
	t := l.things[f.Of]
	if t == nil {
		return
	}
	path, ok := readPaths[t.route]
	switch {
	case !ok || f.random.IntN(5) == 0:
		l.call(l.boot(f), t.owner, http.MethodGet, readLists[f.random.IntN(len(readLists))], "", "")
		return
	case t.id != "" && f.random.IntN(3) == 0:
		path += t.id
	case t.txid != "" && f.random.IntN(3) == 0:
		path += t.txid
	case t.external != "":
		path += "ext:" + url.PathEscape(t.external)
	case t.id != "":
		path += t.id
	default:
		return
	}
	t.learn(l.read(l.boot(f), t.owner, t.route, path))
}

// read has a merchant ask for a thing, and the auditor look at what it is shown.
func (l *life) read(b *boot, m *merchant, route, path string) (answer map[string]any) {
	status, answer, ok := l.call(b, m, http.MethodGet, path, "", "")
	if !ok || status != http.StatusOK {
		return nil
	}
	l.auditor.Shown(l.ctx, auditor.Answer{Account: m.id, Route: route, ID: text(answer, "id"), State: text(answer, "status")})
	return answer
}

func (l *life) defend(f *frame) {
	for _, m := range l.merchants {
		_, answer, ok := l.call(l.boot(f), m, http.MethodGet, "/med?status=open", "", "")
		list, _ := answer["data"].([]any)
		if !ok || len(list) == 0 {
			continue
		}
		one, _ := list[0].(map[string]any)
		l.call(l.boot(f), m, http.MethodPost, "/med/"+text(one, "id"), "", `{"defense_text":"the goods were delivered"}`)
	}
}

// pay lets a payer pay what a merchant has shown: the amount, more, less, or with nobody being told.
func (l *life) pay(f *frame) {
	t := l.things[f.Of]
	if t == nil || t.copyPaste == "" {
		return
	}
	asked := t.fields[0].value
	amount, _ := money.ParseBRL(asked)
	switch f.random.IntN(8) {
	case 0:
		amount += 150
	case 1:
		amount -= 99
	}
	body := map[string]any{"copy_paste": t.copyPaste, "amount": amount.String(), "callback": f.random.IntN(4) > 0}
	answer, ok := l.control(http.MethodPost, "/sim/pix/pay", body)
	if !ok {
		return
	}
	endToEnd := text(answer, "end_to_end_id")
	l.note("%s is paid %s by %s", t.txid, amount, endToEnd)
	l.auditor.Paid(endToEnd, t.txid, amount.String())
	l.things[f.Number] = &thing{request: request{owner: t.owner}, endToEnd: endToEnd, amount: amount.String(), txid: t.txid}
}

// payNobody lets a payer send money that nobody asked for.
func (l *life) payNobody(f *frame) {
	banks := l.world.Acquirers()
	key, err := pix.ParseKey(banks[f.random.IntN(len(banks))].Key, "")
	if err != nil {
		panic(err) // of the worlds' own making
	}
	code, err := pix.BRCode{Key: key, Name: "Ponte", City: "Recife", TxID: fmt.Sprintf("gift%d", f.Number)}.Encode()
	if err != nil {
		panic(err) // of our own making
	}
	amount := centavos(f.random, 100, 9000)
	answer, ok := l.control(http.MethodPost, "/sim/pix/pay", map[string]any{"copy_paste": code, "amount": amount})
	if ok {
		endToEnd := text(answer, "end_to_end_id")
		l.auditor.Paid(endToEnd, "", amount)
		l.things[f.Number] = &thing{endToEnd: endToEnd, amount: amount}
	}
}

// part draws an amount of all, or "" for the whole.
func part(f *frame, amount string) string {
	whole, _ := money.ParseBRL(amount)
	if f.random.IntN(2) == 0 {
		return ""
	}
	return (1 + money.BRL(f.random.Int64N(int64(whole)))).String()
}

func (l *life) refundPayment(f *frame) {
	if t := l.things[f.Of]; t != nil {
		if t.txid != "" {
			l.returning = t
		}
		body := map[string]any{"end_to_end_id": t.endToEnd}
		if amount := part(f, t.amount); amount != "" {
			body["amount"] = amount
		}
		l.control(http.MethodPost, "/sim/pix/refund", body)
	}
}

func (l *life) removeCharge(f *frame) {
	if t := l.things[f.Of]; t != nil && t.txid != "" {
		l.control(http.MethodPost, "/sim/pix/remove", map[string]any{"txid": t.txid})
	}
}

// nameOf returns what the worlds know a thing by, or "".
func nameOf(t *thing) string {
	if t == nil {
		return ""
	}
	_, text, _ := strings.Cut(t.id, "_")
	x, err := id.Parse(text)
	if err != nil {
		return ""
	}
	return id.Token(x, t.owner.id)
}

func (l *life) endPayout(f *frame) {
	if name := nameOf(l.things[f.Of]); name != "" {
		how := []string{"settle", "fail", "fail"}[f.random.IntN(3)]
		l.control(http.MethodPost, "/sim/pix/payouts/"+name+"/"+how, map[string]any{"callback": f.random.IntN(3) > 0})
	}
}

func (l *life) returnPayout(f *frame) {
	t := l.things[f.Of]
	if name := nameOf(t); name != "" {
		body := map[string]any{"callback": f.random.IntN(3) > 0}
		if amount := part(f, t.fields[0].value); amount != "" {
			body["amount"] = amount
		}
		l.control(http.MethodPost, "/sim/pix/payouts/"+name+"/return", body)
	}
}

func (l *life) openInfraction(f *frame) {
	t := l.things[f.Of]
	if t == nil {
		return
	}
	body := map[string]any{"end_to_end_id": t.endToEnd}
	if amount := part(f, t.amount); amount != "" {
		body["amount"] = amount
	}
	if answer, ok := l.control(http.MethodPost, "/sim/med", body); ok {
		l.things[f.Number] = &thing{claim: text(answer, "id")}
	}
}

func (l *life) decideInfraction(f *frame) {
	if t := l.things[f.Of]; t != nil {
		l.control(http.MethodPost, "/sim/med/"+t.claim+"/"+[]string{"accept", "accept", "reject", "cancel"}[f.random.IntN(4)], nil)
	}
}

// sendCoins lets coins arrive: as many as were asked for, more, fewer, again, or stuck on their way.
func (l *life) sendCoins(f *frame) {
	t := l.things[f.Of]
	if t == nil || t.address == "" {
		return
	}
	amount := t.coins
	switch f.random.IntN(5) {
	case 0:
		amount = "1" + amount
	case 1:
		amount = "0" + amount[strings.IndexByte(amount+".", '.'):] + "1"
	}
	l.control(http.MethodPost, "/sim/crypto/deposit", map[string]any{
		"pay_address": t.address, "extra_id": t.memo, "amount": amount, "confirm": f.random.IntN(5) > 0, "callback": f.random.IntN(4) > 0,
	})
}

func (l *life) endDeposit(f *frame) {
	if t := l.things[f.Of]; t != nil && t.payment != "" {
		how := []string{"confirm", "fail", "expire", "refund"}[f.random.IntN(4)]
		l.control(http.MethodPost, "/sim/crypto/charges/"+t.payment+"/"+how, nil)
	}
}

func (l *life) endWithdrawal(f *frame) {
	if name := nameOf(l.things[f.Of]); name != "" {
		l.endPayoutOfCoins(func(p map[string]any) bool { return strings.EqualFold(text(p, "external_id"), name) }, f.random)
	}
}

// endPayoutOfCoins lets the provider send, refuse or lose some of its payouts.
func (l *life) endPayoutOfCoins(which func(map[string]any) bool, random *rand.Rand) {
	books, _ := l.control(http.MethodGet, "/sim/crypto/books", nil)
	list, _ := books["payouts"].([]any)
	for _, one := range list {
		p, _ := one.(map[string]any)
		if !which(p) {
			continue
		}
		var how []string
		switch text(p, "status") {
		case "WAITING": // nobody has verified it
			how = []string{"reject"}
		case "PROCESSING", "SENDING":
			how = []string{"finish", "fail", "fail", "reject"}
		case "FAILED":
			how = []string{"finish", "finish", "reject"}
		default:
			continue
		}
		l.control(http.MethodPost, "/sim/crypto/payouts/"+text(p, "id")+"/"+how[random.IntN(len(how))], nil)
	}
}

func (l *life) worldStep(*frame) { _, _ = l.world.Step(l.ctx) } // what fails is tried again by the next

// forge tells an old notification again, or one that nobody sent.
func (l *life) forge(f *frame) {
	if len(l.noticed) == 0 {
		return
	}
	n := l.noticed[f.random.IntN(len(l.noticed))]
	body := n.body
	if f.random.IntN(2) == 0 {
		body = l.falsify(f, body)
	}
	b := l.boots[f.random.IntN(len(l.boots))]
	r, err := http.NewRequestWithContext(l.ctx, http.MethodPost, n.url, http.NoBody)
	if err != nil || b.dead {
		return
	}
	r.Header = n.header.Clone()
	deliver(b.server.Handler(), r, []byte(body)) // its sender does not care
	l.plant.forged(body)
}

// falsify makes a notification say something that did not happen.
func (l *life) falsify(f *frame, body string) string {
	var n struct {
		Pix []map[string]any `json:"pix"`
	}
	if json.Unmarshal([]byte(body), &n) != nil || len(n.Pix) == 0 {
		return strings.Replace(body, "waiting", "finished", 1)
	}
	p := n.Pix[0]
	p["endToEndId"] = fmt.Sprintf("E90000099%sforged%05d", l.clock.Now().Format("200601021504"), f.Number%100_000)
	p["valor"] = "999.99"
	if t := l.things[f.Of]; t != nil && t.txid != "" {
		p["txid"] = t.txid
	}
	changed, _ := json.Marshal(n) //nolint:errchkjson // of what was read
	return string(changed)
}

var eventSets = []string{webhook.All, webhook.All, "charge.paid,payout.completed,payout.failed", "crypto.charge.paid,charge.created"}

func (l *life) addEndpoint(f *frame) {
	b := l.boot(f)
	owner := l.merchants[f.random.IntN(len(l.merchants))]
	set := eventSets[f.random.IntN(len(eventSets))]
	events, err := webhook.ParseEvents(set)
	if err != nil {
		panic(err) // of our own making
	}
	host := fmt.Sprintf("r%d.example", f.Number)
	r := &receiver{life: l, host: host, url: "https://" + host + "/hook", owner: owner, events: set}
	l.receivers[host] = r
	e, secret, err := b.server.Hooks.Create(l.ctx, owner.id, webhook.Endpoint{URL: r.url, Events: events})
	if err == nil && !b.dead {
		r.secrets, r.isSteady = []string{secret}, true
		l.things[f.Number] = &thing{endpoint: webhook.Prefix.Format(e.ID), receiver: r, request: request{owner: owner}}
	}
}

func (l *life) changeEndpoint(f *frame) {
	t := l.things[f.Of]
	if t == nil {
		return
	}
	hooks := l.boot(f).server.Hooks
	how := f.random.IntN(5)
	if how != 4 { // whatever comes of it
		t.receiver.isSteady = false
		for _, b := range l.boots {
			b.knows = slices.DeleteFunc(slices.Clone(b.knows), func(r *receiver) bool { return r == t.receiver })
		}
	}
	switch how {
	case 0:
		_, _ = hooks.Disable(l.ctx, t.endpoint) // one that is gone is no matter
	case 1, 2:
		_, _ = hooks.Enable(l.ctx, t.endpoint)
	case 3:
		_, _ = hooks.Delete(l.ctx, t.endpoint)
	case 4:
		_, secret, err := hooks.Rotate(l.ctx, t.endpoint, time.Duration(f.random.IntN(2))*time.Hour)
		if err != nil || l.boot(f).dead {
			t.receiver.secrets = nil // it may have one now that nobody was shown
		} else if t.receiver.secrets != nil {
			t.receiver.secrets = append(t.receiver.secrets, secret)
		}
	}
}

func (l *life) redeliver(f *frame) {
	if t := l.things[f.Of]; t != nil {
		now := l.clock.Now()
		_, _ = l.boot(f).server.Hooks.RedeliverRange(l.ctx, t.owner.id, webhook.Range{Since: now.Add(-time.Hour), Until: now, Failed: f.random.IntN(2) == 0})
	}
}

func (l *life) adjust(f *frame) {
	owner := l.merchants[f.random.IntN(len(l.merchants))]
	amount := money.Amount{Currency: money.CurrencyBRL, Units: f.random.Int64N(40_000) - 15_000}
	if f.random.IntN(3) == 0 {
		amount = money.Amount{Currency: money.CurrencyUSDT, Units: f.random.Int64N(300_000_000) - 50_000_000}
	}
	if amount.Units != 0 {
		_, _ = l.boot(f).server.Ledger.Adjust(l.ctx, owner.id, amount, "by hand") // what fails is as if nobody had tried
	}
}

func (l *life) hold(f *frame) {
	owner := l.merchants[f.random.IntN(len(l.merchants))]
	t, err := l.boot(f).server.Ledger.Hold(l.ctx, owner.id, money.BRL(1+f.random.Int64N(5000)), "review")
	if err == nil && !l.boot(f).dead {
		l.things[f.Number] = &thing{hold: t.ID, request: request{owner: owner}}
	}
}

func (l *life) release(f *frame) {
	if t := l.things[f.Of]; t != nil {
		_, _ = l.boot(f).server.Ledger.Release(l.ctx, t.owner.id, t.hold)
	}
}

var (
	fees   = []string{"0", "1.00", "0.50+0.99%", "0+1.5%", "0.10+3.3333%"}
	delays = []string{"0s", "0s", "30s", "2m", "1h"}
)

func (l *life) setAccount(f *frame) {
	owner := l.merchants[f.random.IntN(len(l.merchants))]
	var set string
	switch f.random.IntN(4) {
	case 0:
		fee := fees[f.random.IntN(len(fees))]
		set = "cash_in_fee=" + fee
		l.auditor.Fee(owner.id, "cash_in", fee)
	case 1:
		fee := fees[f.random.IntN(len(fees))]
		set = "cash_out_fee=" + fee
		l.auditor.Fee(owner.id, "cash_out", fee)
	case 2:
		set = "release_delay=" + delays[f.random.IntN(len(delays))]
	case 3:
		set = "status=" + []string{"active", "active", "under_review"}[f.random.IntN(3)]
	}
	_, _ = l.boot(f).server.Accounts.Set(l.ctx, owner.id, []string{set})
}

func (l *life) cancelCharge(f *frame) {
	if t := l.things[f.Of]; t != nil && t.id != "" {
		_, _ = l.boot(f).server.CancelCharge(l.ctx, t.id)
	}
}

// stepsMax bounds what one worker does in a row.
const stepsMax = 200

// step makes one step of a worker, or as many as it takes when it is one of many.
func (l *life) step(b *boot, w app.Worker) {
	l.plant.working = w.Name
	for range stepsMax {
		did, err := w.Step(l.ctx)
		if err != nil {
			l.note("node %d: %s: %v", b.node, w.Name, err)
			if strings.Contains(err.Error(), "panic:") {
				l.auditor.Fails("a node panics in " + w.Name + ": " + err.Error())
			}
		}
		if err == nil && w.Name == endpointsWorker {
			b.learn()
		}
		if !did || err != nil || !w.Crowd || b.dead {
			break
		}
	}
	l.plant.working = ""
}

// stepNamed makes a step of some workers.
func (l *life) stepNamed(b *boot, names ...string) {
	for _, w := range b.all {
		if slices.Contains(names, w.Name) {
			l.step(b, w)
		}
	}
}

func (l *life) work(f *frame) {
	b := l.boot(f)
	w := b.all[f.random.IntN(len(b.all))]
	l.note("node %d works on %s", b.node, w.Name)
	l.step(b, w)
}

// round makes a step of every worker, while a merchant waits for money to go back: it asks before and after.
func (l *life) round(f *frame) {
	b := l.boot(f)
	l.await(b)
	l.workAll(b)
	l.await(b)
}

// await has a merchant ask for the charge whose money it waits to see go back.
func (l *life) await(b *boot) {
	if t := l.returning; t != nil {
		l.read(b, t.owner, auditor.RouteCharge, "/charges/"+t.txid)
	}
}

// workAll makes a step of every worker.
func (l *life) workAll(b *boot) {
	for _, w := range b.all {
		if !b.dead {
			l.step(b, w)
		}
	}
}

var ticks = []time.Duration{
	50 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, time.Second, time.Second, 2 * time.Second, 3 * time.Second, 4 * time.Second, 12 * time.Second,
}

func (l *life) tick(f *frame) {
	l.arrive(lateMax - 13*time.Second)
	l.pass(ticks[f.random.IntN(len(ticks))])
}

// expire lets a charge's time pass and has a node look for what has expired, while its payer may still pay.
func (l *life) expire(f *frame) {
	t := l.things[f.Of]
	if t == nil || len(t.fields) < 2 {
		return
	}
	seconds, err := strconv.Atoi(t.fields[1].value)
	if by := time.Duration(seconds+1) * time.Second; err == nil && l.jumped+by <= jumpedMax {
		l.arrive(0)
		l.jumped += by
		l.advance(by)
	}
	l.stepNamed(l.boot(f), "node", "expiry")
}

var jumps = []time.Duration{10 * time.Second, time.Minute, time.Minute, 6 * time.Minute, 11 * time.Minute, 61 * time.Minute, 5 * time.Hour}

// jumpedMax is how far business time is moved in a life, so that all of it is young enough to be looked at again.
const jumpedMax = 18 * time.Hour

func (l *life) jump(f *frame) {
	l.arrive(0)
	by := jumps[f.random.IntN(len(jumps))]
	if l.jumped+by > jumpedMax {
		return
	}
	l.jumped += by
	l.advance(by)
}

func (l *life) advance(by time.Duration) {
	l.control(http.MethodPost, "/sim/clock", map[string]any{"advance_seconds": int(by / time.Second)})
}

func (l *life) outage(f *frame) {
	targets := []string{"alpha", "beta", "crypto", "alpha", "beta", "crypto", "rates"}
	for _, host := range sortedKeys(l.receivers) {
		name := strings.TrimSuffix(host, ".example")
		targets = append(targets, name, "sick "+name, "hung "+name)
	}
	l.outages[targets[f.random.IntN(len(targets))]] = l.number + 3 + f.random.IntN(60)
}

func (l *life) quirk(f *frame) {
	name := chainworld.Quirks[f.random.IntN(len(chainworld.Quirks))]
	l.control(http.MethodPost, "/sim/crypto/quirks", map[string]any{"name": name, "on": f.random.IntN(3) > 0})
}

func (l *life) restart(f *frame) {
	l.boot(f).die()
	l.point = "between two actions"
}

// settle opens the accounts that a life begins with.
func (l *life) settle() error {
	l.enter(&Action{Number: -1, Of: -1, Seed: l.seed ^ 0x5e771e})
	defer l.leave()
	f := l.frame()
	var b *boot
	for i := range l.boots {
		var err error
		if b, err = l.start(i); err != nil {
			return err
		}
	}
	for i := range 2 {
		made, key, err := b.server.Accounts.Create(l.ctx, account.Params{Name: fmt.Sprintf("merchant %d", i)})
		if err != nil {
			return err
		}
		in, out := fees[f.random.IntN(len(fees))], fees[f.random.IntN(len(fees))]
		settings := []string{"cash_in_fee=" + in, "cash_out_fee=" + out, "release_delay=" + delays[f.random.IntN(len(delays))]}
		if _, err := b.server.Accounts.Set(l.ctx, made.ID, settings); err != nil {
			return err
		}
		l.auditor.Fee(made.ID, "cash_in", in)
		l.auditor.Fee(made.ID, "cash_out", out)
		for _, amount := range []money.Amount{{Currency: money.CurrencyBRL, Units: 100_000}, {Currency: money.CurrencyUSDT, Units: 500_000_000}} {
			if _, err := b.server.Ledger.Adjust(l.ctx, made.ID, amount, "opening"); err != nil {
				return err
			}
		}
		l.merchants = append(l.merchants, &merchant{made.ID, key})
	}
	for _, b := range l.boots {
		l.workAll(b)
	}
	return nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
