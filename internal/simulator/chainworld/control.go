package chainworld

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/shopspring/decimal"

	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/httpkit"
	"github.com/ponte-pay/ponte/internal/wire"
)

// Controls returns the control routes, which are all under /sim.
func (w *World) Controls() map[string]func(*http.Request) (httpkit.Answer, error) {
	return map[string]func(*http.Request) (httpkit.Answer, error){
		"POST /sim/crypto/deposit":              w.controlDeposit,
		"POST /sim/crypto/charges/{id}/confirm": w.controlPayment(w.Confirm),
		"POST /sim/crypto/charges/{id}/fail":    w.controlPayment(w.Fail),
		"POST /sim/crypto/charges/{id}/expire":  w.controlPayment(w.Expire),
		"POST /sim/crypto/charges/{id}/refund":  w.controlPayment(w.Refund),
		"POST /sim/crypto/currencies/{code}":    w.controlSwitch,
		"GET /sim/crypto/books":                 w.controlBooks,
		"POST /sim/crypto/payouts/{id}/finish":  w.controlPayout(w.FinishPayout),
		"POST /sim/crypto/payouts/{id}/fail":    w.controlPayout(w.FailPayout),
		"POST /sim/crypto/payouts/{id}/reject":  w.controlPayout(w.RejectPayout),
		"GET /sim/crypto/quirks":                w.controlListQuirks,
		"POST /sim/crypto/quirks":               w.controlQuirk,
		"POST /sim/rates":                       w.controlSkew,
	}
}

// PaymentView is a payment as the books show it. Amounts are strings.
type PaymentView struct {
	ID              string `json:"id"`
	ParentID        string `json:"parent_id"` // "" for none
	ExternalID      string `json:"external_id"`
	PayAddress      string `json:"pay_address"`
	ExtraID         string `json:"extra_id"`
	PriceAmount     string `json:"price_amount"`
	PayCurrency     string `json:"pay_currency"`
	PayAmount       string `json:"pay_amount"`
	PaidCurrency    string `json:"paid_currency"` // the coin that came, or is to come
	PaidAmount      string `json:"paid_amount"`
	OutcomeAmount   string `json:"outcome_amount"`
	OutcomeCurrency string `json:"outcome_currency"`
	Settled         string `json:"settled_amount"` // what of the outcome is ours by now
	Status          string `json:"status"`
}

// PayoutView is a payout as the books show it.
type PayoutView struct {
	ID         string `json:"id"` // of its batch, by which the provider is asked
	ExternalID string `json:"external_id"`
	Currency   string `json:"currency"`
	Address    string `json:"address"`
	ExtraID    string `json:"extra_id"`
	Amount     string `json:"amount"`
	Fee        string `json:"fee"`
	Status     string `json:"status"`
	TxHash     string `json:"tx_hash"`
	Executions int    `json:"executions"` // how often coins really left
}

// Books are all that happened.
type Books struct {
	Payments []PaymentView     `json:"payments"`
	Payouts  []PayoutView      `json:"payouts"`
	Balance  map[string]string `json:"balance"` // of coins that can be sent
}

func (p *payment) view() PaymentView {
	v := PaymentView{
		ID: formatID(p.ID), ExternalID: p.Order, PayAddress: p.Address, ExtraID: p.Memo, PriceAmount: p.Price.String(), PayCurrency: p.PayCurrency,
		PayAmount: p.PayAmount.String(), PaidCurrency: p.currency(), PaidAmount: p.Paid.String(), OutcomeAmount: p.Outcome.String(),
		OutcomeCurrency: Settlement, Settled: p.settles().String(), Status: p.Status,
	}
	if p.Parent != 0 {
		v.ParentID = formatID(p.Parent)
	}
	return v
}

func formatID(id int64) string { return decimal.New(id, 0).String() }

func (p *payout) view() PayoutView {
	return PayoutView{
		ID: formatID(p.Batch), ExternalID: p.External, Currency: p.Currency, Address: p.Address, ExtraID: p.Memo, Amount: p.Amount.String(),
		Fee: p.Fee.String(), Status: p.Status, TxHash: p.Hash, Executions: p.Executions,
	}
}

// Books returns all that happened, after what time has made due.
func (w *World) Books() (Books, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := Books{Payments: []PaymentView{}, Payouts: []PayoutView{}, Balance: map[string]string{}}
	if _, err := w.move(); err != nil {
		return b, err
	}
	for _, p := range w.payments {
		b.Payments = append(b.Payments, p.view())
	}
	for _, p := range w.payouts {
		b.Payouts = append(b.Payouts, p.view())
	}
	for _, c := range coins {
		if c.payout != "" {
			b.Balance[c.code] = w.balance(c).String()
		}
	}
	return b, nil
}

func (w *World) controlBooks(*http.Request) (httpkit.Answer, error) {
	b, err := w.Books()
	return httpkit.Answer{Body: b}, err
}

// Deposit is coins that somebody sends.
type Deposit struct {
	PayAddress string
	ExtraID    string
	Amount     string // a decimal number
	Currency   string // "" means the coin that was asked for
	Hold       bool   // stop at confirming
	Silent     bool   // lose the notifications
}

// Deposit lets coins arrive at an address.
func (w *World) Deposit(d Deposit) (PaymentView, error) {
	amount, ok := parse(d.Amount)
	if !ok {
		return PaymentView{}, invalid("amount", "must be a number above 0")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := w.move(); err != nil {
		return PaymentView{}, err
	}
	p, err := w.arrive(arrival{to: place{d.PayAddress, d.ExtraID}, amount: amount, currency: d.Currency, confirm: !d.Hold, silent: d.Silent})
	if err != nil {
		return PaymentView{}, errorOf(err)
	}
	return p.view(), nil
}

func invalid(field, message string) error {
	return &fault.Error{Kind: fault.Invalid, Public: field + " " + message, Issues: []fault.Issue{{Path: field, Message: message}}}
}

func (w *World) controlDeposit(r *http.Request) (httpkit.Answer, error) {
	f, flags, err := readFields(r)
	if err != nil {
		return httpkit.Answer{}, err
	}
	d := Deposit{
		PayAddress: f.String("pay_address", httpkit.StringRule{Required: true}).Value,
		ExtraID:    f.String("extra_id", httpkit.StringRule{}).Value,
		Amount:     f.String("amount", httpkit.StringRule{Required: true}).Value,
		Currency:   f.String("currency", httpkit.StringRule{}).Value,
		Hold:       !flags.read(f, "confirm", true),
		Silent:     !flags.read(f, "callback", true),
	}
	if err := f.Err(); err != nil {
		return httpkit.Answer{}, err
	}
	v, err := w.Deposit(d)
	return httpkit.Answer{Body: v}, err
}

// Confirm settles a payment whose coins have arrived.
func (w *World) Confirm(id string) (PaymentView, error) {
	return viewed(w.orderPayment(id, orders{[]string{confirming, confirmed, sending}, []string{finished, partiallyPaid}}, func(p *payment) { p.Status = p.settledStatus() }))
}

// Fail lets a payment go wrong.
func (w *World) Fail(id string) (PaymentView, error) {
	return viewed(w.orderPayment(id, orders{[]string{waiting, confirming, confirmed, sending}, []string{failed}}, func(p *payment) { p.Status = failed }))
}

// Expire lets a payment expire that nobody has paid.
func (w *World) Expire(id string) (PaymentView, error) {
	return viewed(w.orderPayment(id, orders{[]string{waiting}, []string{expired}}, func(p *payment) { p.Status = expired }))
}

// Refund sends the coins of a payment back.
func (w *World) Refund(id string) (PaymentView, error) {
	return viewed(w.orderPayment(id, orders{[]string{confirming, confirmed, sending, finished, partiallyPaid, failed}, []string{refunded}}, func(p *payment) { p.Status = refunded }))
}

func viewed(p *payment, err error) (PaymentView, error) {
	if err != nil {
		return PaymentView{}, errorOf(err)
	}
	return p.view(), nil
}

func (w *World) controlPayment(do func(id string) (PaymentView, error)) func(*http.Request) (httpkit.Answer, error) {
	return func(r *http.Request) (httpkit.Answer, error) {
		v, err := do(r.PathValue("id"))
		return httpkit.Answer{Body: v}, err
	}
}

// FinishPayout lets the coins of a payout leave, also of one that had failed or that nobody has verified.
func (w *World) FinishPayout(id string) (PayoutView, error) {
	return viewedPayout(w.orderPayout(id, orders{[]string{payoutWaiting, payoutProcessing, payoutSending, payoutFailed}, []string{payoutFinished}}, w.finish))
}

// FailPayout lets a payout go wrong; it may still be finished or rejected.
func (w *World) FailPayout(id string) (PayoutView, error) {
	return viewedPayout(w.orderPayout(id, orders{[]string{payoutWaiting, payoutProcessing, payoutSending}, []string{payoutFailed}}, func(p *payout) {
		p.Status, p.Error = payoutFailed, "failed by order of the simulator"
	}))
}

// RejectPayout lets a payout never be sent.
func (w *World) RejectPayout(id string) (PayoutView, error) {
	return viewedPayout(w.orderPayout(id, orders{[]string{payoutWaiting, payoutProcessing, payoutSending, payoutFailed}, []string{payoutRejected}}, func(p *payout) {
		p.Status, p.Error = payoutRejected, "rejected by order of the simulator"
	}))
}

func viewedPayout(p *payout, err error) (PayoutView, error) {
	if err != nil {
		return PayoutView{}, errorOf(err)
	}
	return p.view(), nil
}

func (w *World) controlPayout(do func(id string) (PayoutView, error)) func(*http.Request) (httpkit.Answer, error) {
	return func(r *http.Request) (httpkit.Answer, error) {
		v, err := do(r.PathValue("id"))
		return httpkit.Answer{Body: v}, err
	}
}

func (w *World) controlSwitch(r *http.Request) (httpkit.Answer, error) {
	c, known := findCoin(r.PathValue("code"))
	if !known {
		return httpkit.Answer{}, fault.New(fault.NotFound, "", "the provider has no such coin")
	}
	f, flags, err := readFields(r)
	if err != nil {
		return httpkit.Answer{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	next := w.switches[c.code]
	next.Code = c.code
	next.Off = !flags.read(f, "enabled", !next.Off)
	next.MemoRequired = flags.read(f, "memo_required", next.MemoRequired)
	if err := f.Err(); err != nil {
		return httpkit.Answer{}, err
	}
	if err := w.write(entry{Switch: &next}); err != nil {
		return httpkit.Answer{}, err
	}
	return httpkit.Answer{Body: map[string]any{"code": c.code, "enabled": !next.Off, "memo_required": next.MemoRequired}}, nil
}

func (w *World) controlListQuirks(*http.Request) (httpkit.Answer, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	body := map[string]bool{}
	for _, name := range Quirks {
		body[name] = w.quirks[name]
	}
	return httpkit.Answer{Body: body}, nil
}

func (w *World) controlQuirk(r *http.Request) (httpkit.Answer, error) {
	f, flags, err := readFields(r)
	if err != nil {
		return httpkit.Answer{}, err
	}
	e := &quirkEntry{Name: f.String("name", httpkit.StringRule{Required: true, OneOf: Quirks}).Value, On: flags.read(f, "on", true)}
	if err := f.Err(); err != nil {
		return httpkit.Answer{}, err
	}
	w.mu.Lock()
	err = w.write(entry{Quirk: e})
	w.mu.Unlock()
	if err != nil {
		return httpkit.Answer{}, err
	}
	return w.controlListQuirks(r)
}

// Bounds of what can be wrong with a source.
const (
	percentMax = 90
	staleMax   = 30 * 24 * 60 * 60 // seconds
)

func (w *World) controlSkew(r *http.Request) (httpkit.Answer, error) {
	f, _, err := readFields(r)
	if err != nil {
		return httpkit.Answer{}, err
	}
	s := &skew{
		Source: f.String("source", httpkit.StringRule{Required: true, OneOf: Sources}).Value,
		Stale:  int64(f.Int("stale_seconds", httpkit.IntRule{Max: staleMax})),
	}
	if text := f.String("off_percent", httpkit.StringRule{}); text.Present {
		if s.Percent, err = decimal.NewFromString(text.Value); err != nil || s.Percent.Abs().GreaterThan(decimal.New(percentMax, 0)) {
			f.Issue("off_percent", "must be a number from -90 to 90")
		}
	}
	if err := f.Err(); err != nil {
		return httpkit.Answer{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.write(entry{Skew: s}); err != nil {
		return httpkit.Answer{}, err
	}
	return httpkit.Answer{Body: map[string]any{"source": s.Source, "off_percent": s.Percent.String(), "stale_seconds": s.Stale}}, nil
}

// flags are the fields of a body that are true or false.
type flags map[string]json.RawMessage

// read reads an optional flag.
func (b flags) read(f *httpkit.FieldReader, name string, absent bool) bool {
	switch string(b[name]) {
	case "true":
		return true
	case "false":
		return false
	case "":
		return absent
	}
	f.Issue(name, "must be true or false")
	return absent
}

// readFields reads the body of a control route.
func readFields(r *http.Request) (*httpkit.FieldReader, flags, error) {
	body, err := wire.ReadBody(r.Body, r.ContentLength, httpkit.BodyBytesMax)
	if err != nil {
		return nil, nil, fault.New(fault.Invalid, "", "the body could not be read to its end")
	}
	if len(bytes.TrimSpace(body)) == 0 {
		body = []byte("{}")
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	object, err := httpkit.ReadObject(r)
	if err != nil {
		return nil, nil, err
	}
	var b flags
	if err := json.Unmarshal(body, &b); err != nil {
		return nil, nil, fault.New(fault.Invalid, "", "the body is not a JSON object")
	}
	return httpkit.Fields(object), b, nil
}

// errorOf says what an error of the books means to who uses the control routes.
func errorOf(err error) error {
	meaning := func(kind fault.Kind, code, public string) error {
		return &fault.Error{Kind: kind, Code: code, Public: public, Cause: err}
	}
	switch {
	case errors.Is(err, ErrNoAddress):
		return meaning(fault.NotFound, "", "no payment has this address, or it needs another extra_id")
	case errors.Is(err, ErrWrongChain):
		return meaning(fault.Unprocessable, "", "coins of this currency cannot be sent to this address")
	case errors.Is(err, ErrNoPayment):
		return meaning(fault.NotFound, "", "the provider has no such payment")
	case errors.Is(err, ErrNoPayout):
		return meaning(fault.NotFound, "", "the provider has no such payout")
	case errors.Is(err, ErrState):
		return meaning(fault.Conflict, "wrong_state", "that cannot happen in its present status")
	}
	return err
}
