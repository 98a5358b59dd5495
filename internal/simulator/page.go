package simulator

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/httpkit"
	"github.com/ponte-pay/ponte/internal/money"
)

//go:embed page
var pageFiles embed.FS

var pageTemplate = template.Must(template.New("").Funcs(template.FuncMap{"reais": reais}).ParseFS(pageFiles, "page/index.html"))

// pageRowsMax is how many charges, how many payouts and how many infractions the page shows.
const pageRowsMax = 50

// pagePolicy lets the page load what is its own and nothing else.
const pagePolicy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// addPage adds the page, its files and its forms, which work without a script.
func (s *Simulator) addPage(mux *http.ServeMux) {
	for _, name := range []string{"simulator.css", "simulator.js"} {
		mux.HandleFunc("GET /"+name, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Content-Type-Options", "nosniff")
			w.Header().Set("Cache-Control", "no-cache")
			http.ServeFileFS(w, r, pageFiles, "page/"+name)
		})
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { s.showPage(w, r) })
	forms := map[string]func(*http.Request) (url.Values, error){
		"POST /pagar":         s.formPay,
		"POST /devolver":      s.formRefund,
		"POST /remover":       s.formRemove,
		"POST /falhas":        s.formFault,
		"POST /falhas/limpar": s.formClear,
		"POST /relogio":       s.formClock,

		"POST /infracoes":          s.formClaim,
		"POST /infracoes/aceitar":  s.formDecide(infractionAccepted, "aceita"),
		"POST /infracoes/rejeitar": s.formDecide(infractionRejected, "rejeitada"),
		"POST /infracoes/cancelar": s.formDecide(infractionCancelled, "cancelada"),

		"POST /envios/liquidar": s.formPayout(s.settlePayout, "liquidado"),
		"POST /envios/recusar":  s.formPayout(s.failPayout, "recusado"),
		"POST /envios/devolver": s.formPayout(s.returnPayout, "envio_devolvido"),
	}
	maps.Copy(forms, s.chainForms())
	for pattern, act := range forms {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			r.Body = http.MaxBytesReader(w, r.Body, httpkit.BodyBytesMax)
			err := r.ParseForm()
			var next url.Values
			if err == nil {
				next, err = act(r)
			} else {
				err = fault.New(fault.Invalid, "", "the form could not be read")
			}
			if err != nil {
				s.failPage(w, r, err)
				return
			}
			// So that to load the page again is not to pay again.
			http.Redirect(w, r, "/?"+next.Encode(), http.StatusSeeOther)
		})
	}
}

// pageView is all that the page shows.
type pageView struct {
	Notice, Error string
	Code          string // as it was pasted
	Bill          *billRow
	Now           string
	Ahead         string // how far the clock was moved; empty if it was not
	Balances      []balanceRow
	Charges       []chargeRow
	Total         int // charges in all
	Payouts       []payoutRow
	PayoutTotal   int // payouts in all
	Failures      []choice
	Infractions   []infractionRow
	ClaimTotal    int // infractions in all
	Wallet        []walletRow
	WalletTotal   int // crypto payments in all
	Sent          []sentRow
	SentTotal     int // crypto payouts in all
	Faults        []string
	Targets       []string
	Operations    []choice
	Kinds         []choice
	Advances      []choice
}

// choice is an option of a form.
type choice struct{ Value, Label string }

type balanceRow struct {
	Name    string
	Balance money.BRL
}

// billRow is what a pasted code is to pay.
type billRow struct {
	Receiver string
	Acquirer string
	Amount   money.BRL // 0 means that the payer chooses
	TxID     string
	Request  string
	Debtor   string
	Expires  string
	Warning  string // why a real bank would not pay it; empty if it would
	Removed  bool   // nobody can pay it
}

type chargeRow struct {
	Acquirer  string
	TxID      string
	Amount    money.BRL
	Created   string
	Fate      string // in plain words
	Class     string // of its style
	CopyPaste string // empty when it cannot be paid any more
	Active    bool
	Payments  []paymentRow
}

type payoutRow struct {
	Acquirer   string
	ID         string
	Key        string
	EndToEndID string
	Amount     money.BRL
	Created    string
	Fate       string // in plain words
	Class      string // of its style
	Why        string // it failed; empty if it did not
	Open       bool   // it waits to be settled
	Returned   money.BRL
	CanReturn  bool
}

type infractionRow struct {
	Acquirer   string
	ID         string
	EndToEndID string
	Amount     money.BRL
	Opened     string
	Deadline   string
	Situation  string
	Reason     string
	Defense    string // empty for none
	Fate       string // in plain words
	Class      string // of its style
	Open       bool   // it can be decided
}

type paymentRow struct {
	EndToEndID string
	Amount     money.BRL
	At         string
	Returned   money.BRL
	HasLeft    bool
}

var pageOperations = append([]choice{
	{string(opAny), "tudo"},
	{string(opChargeCreate), "criar cobrança"},
	{string(opChargeGet), "consultar cobrança ou Pix"},
	{string(opPayoutSend), "enviar Pix"},
	{string(opPayoutGet), "consultar Pix enviado"},
	{string(opMEDList), "listar infrações"},
	{string(opMEDDefend), "defender-se de infração"},
	{string(opToken), "entrar (token)"},
}, chainChoices...)

var pageKinds = []choice{
	{string(faultRefuse), "recusar conexões"},
	{string(faultHTTP500), "responder erro 500"},
	{string(faultHTTP429), "responder 429, pedidos demais"},
	{string(faultReject), "recusar o pedido"},
	{string(faultLostExecuted), "executar e perder a resposta"},
	{string(faultLostNotExecuted), "não executar e cair"},
	{string(faultSlow), "responder devagar"},
	{string(faultGarbage), "responder algo ilegível"},
	{string(faultDuplicateCallback), "avisar duas vezes"},
}

var pageAdvances = []choice{
	{"60", "+1 minuto"}, {"3600", "+1 hora"}, {"86400", "+1 dia"}, {"604800", "+7 dias"}, {"2592000", "+30 dias"},
}

// showPage shows the page, with what a pasted code is to pay if there is one.
func (s *Simulator) showPage(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	view := s.pageView()
	view.Notice = pageNotices[q.Get("feito")]
	if v, err := s.paymentOf(q.Get("pago")); err == nil {
		view.Notice = fmt.Sprintf("Pago: %s. Identificador do Pix: %s", reais(v.amount), v.endToEndID)
	}
	status := http.StatusOK
	if code := strings.TrimSpace(q.Get("codigo")); code != "" {
		var err error
		view.Code = code
		if view.Bill, err = s.billRow(code); err != nil {
			view.Error, status = inPortuguese(err), statusOf(err)
		}
	}
	s.render(w, r, status, view)
}

// failPage shows the page with what went wrong, and with what was pasted.
func (s *Simulator) failPage(w http.ResponseWriter, r *http.Request, err error) {
	view := s.pageView()
	view.Error = inPortuguese(err)
	if code := strings.TrimSpace(r.PostForm.Get("codigo")); code != "" {
		view.Code = code
		view.Bill, _ = s.billRow(code) // without it the error says enough
	}
	s.render(w, r, statusOf(err), view)
}

func (s *Simulator) paymentOf(e2e string) (paymentView, error) {
	for _, a := range s.acquirers {
		if v, err := s.books.findPayment(a.number, e2e); err == nil {
			return v, nil
		}
	}
	return paymentView{}, errNoPayment
}

// pageTime is how the page writes a moment.
const pageTime = "02/01/2006 15:04:05"

// brasilia is the time of most of Brazil, which has had no summer time since 2019.
var brasilia = time.FixedZone("BRT", -3*60*60)

func inBrasilia(t time.Time) string { return t.In(brasilia).Format(pageTime) }

func (s *Simulator) pageView() pageView {
	view := pageView{
		Now: inBrasilia(s.clock.Now()), Targets: faultTargets, Operations: pageOperations, Kinds: pageKinds, Advances: pageAdvances,
	}
	if offset := s.clock.Offset(); offset > 0 {
		view.Ahead = ahead(offset)
	}
	for _, r := range s.faults.list() {
		view.Faults = append(view.Faults, r.inPortuguese())
	}
	if err := s.addWallet(&view); err != nil {
		s.log.Error("chain world stands still", slog.String("error", err.Error()))
	}
	for _, v := range s.latestCharges(&view) {
		view.Charges = append(view.Charges, s.chargeRow(v))
	}
	for _, v := range s.latestPayouts(&view) {
		view.Payouts = append(view.Payouts, newPayoutRow(v))
	}
	for _, v := range s.latestInfractions(&view) {
		view.Infractions = append(view.Infractions, newInfractionRow(v))
	}
	for _, code := range slices.Sorted(maps.Keys(failureReasons)) {
		view.Failures = append(view.Failures, choice{code, code + ", " + failureReasons[code]})
	}
	return view
}

// latestCharges returns the latest charges, the last one first, and fills in what else the books say.
func (s *Simulator) latestCharges(view *pageView) []chargeView {
	s.books.mu.Lock()
	defer s.books.mu.Unlock()
	var latest []chargeView
	for i, k := range s.books.book {
		view.Balances = append(view.Balances, balanceRow{acquirerNames[i], k.balance})
		view.Total += int(k.charges.count)
		for place := k.charges.count; place > 0 && k.charges.count-place < pageRowsMax; place-- {
			latest = append(latest, s.books.view(i, place-1))
		}
	}
	slices.SortStableFunc(latest, func(a, b chargeView) int { return cmp.Compare(b.created, a.created) })
	return latest[:min(len(latest), pageRowsMax)]
}

// latestPayouts returns the latest payouts, the last one first, and says how many there are.
func (s *Simulator) latestPayouts(view *pageView) []payoutView {
	s.books.mu.Lock()
	defer s.books.mu.Unlock()
	var latest []payoutView
	for i, k := range s.books.book {
		view.PayoutTotal += int(k.payouts.count)
		for place := k.payouts.count; place > 0 && k.payouts.count-place < pageRowsMax; place-- {
			latest = append(latest, s.books.viewPayout(i, place-1))
		}
	}
	slices.SortStableFunc(latest, func(a, b payoutView) int { return cmp.Compare(b.created, a.created) })
	return latest[:min(len(latest), pageRowsMax)]
}

// newPayoutRow tells a payout and its fate.
func newPayoutRow(v payoutView) payoutRow {
	row := payoutRow{
		Acquirer: acquirerNames[v.acquirer], ID: v.id.String(), Key: v.key, EndToEndID: v.endToEndID.String(), Amount: v.amount,
		Created: inBrasilia(time.UnixMilli(v.created)), Open: v.status == payoutProcessing,
		Returned: v.amount - v.left(), CanReturn: v.status == payoutSettled && v.left() > 0,
	}
	switch {
	case v.status == payoutFailed:
		row.Fate, row.Class, row.Why = "recusado", "late", v.failure.code+", "+v.failure.reason
	case v.status == payoutSettled && v.left() == 0:
		row.Fate, row.Class = "devolvido", "gone"
	case v.status == payoutSettled:
		row.Fate, row.Class = "liquidado", "paid"
	default:
		row.Fate, row.Class = "em processamento", "open"
	}
	return row
}

// latestInfractions returns the latest infractions, the last one first, and says how many there are.
func (s *Simulator) latestInfractions(view *pageView) []infractionView {
	s.books.mu.Lock()
	defer s.books.mu.Unlock()
	var latest []infractionView
	for i, k := range s.books.book {
		view.ClaimTotal += int(k.infractions.count)
		for place := k.infractions.count; place > 0 && k.infractions.count-place < pageRowsMax; place-- {
			latest = append(latest, s.books.viewInfraction(i, place-1))
		}
	}
	slices.SortStableFunc(latest, func(a, b infractionView) int { return cmp.Compare(b.opened, a.opened) })
	return latest[:min(len(latest), pageRowsMax)]
}

// newInfractionRow tells an infraction and its fate.
func newInfractionRow(v infractionView) infractionRow {
	row := infractionRow{
		Acquirer: acquirerNames[v.acquirer], ID: v.id, EndToEndID: v.endToEndID, Amount: v.amount, Situation: v.situation, Reason: v.reason,
		Opened: inBrasilia(time.UnixMilli(v.opened)), Deadline: inBrasilia(time.UnixMilli(v.opened).Add(defenseTimeMax)),
		Defense: v.defense, Open: !v.status.isClosed(),
	}
	switch v.status {
	case infractionOpen:
		row.Fate, row.Class = "aberta", "open"
	case infractionDefended:
		row.Fate, row.Class = "em defesa", "late"
	case infractionAccepted:
		row.Fate, row.Class = "aceita, dinheiro devolvido", "gone"
	case infractionRejected:
		row.Fate, row.Class = "rejeitada", "paid"
	case infractionCancelled:
		row.Fate, row.Class = "cancelada", "gone"
	}
	return row
}

// ahead writes a span of time in days, hours, minutes and seconds.
func ahead(d time.Duration) string {
	const day = 24 * time.Hour
	text := (d % day).Truncate(time.Second).String()
	if days := d / day; days > 0 {
		text = fmt.Sprintf("%d d %s", days, text)
	}
	return text
}

func (r faultRule) inPortuguese() string {
	label := func(choices []choice, value string) string {
		i := slices.IndexFunc(choices, func(c choice) bool { return c.Value == value })
		return choices[i].Label
	}
	text := r.target + ": " + label(pageKinds, string(r.kind))
	if r.kind != faultRefuse && r.kind != faultDuplicateCallback {
		text += " em " + label(pageOperations, string(r.operation))
	}
	switch r.times {
	case 0:
		return text + ", até desligar"
	case 1:
		return text + ", mais 1 vez"
	}
	return fmt.Sprintf("%s, mais %d vezes", text, r.times)
}

// chargeRow tells a charge and its fate.
func (s *Simulator) chargeRow(v chargeView) chargeRow {
	row := chargeRow{
		Acquirer: acquirerNames[v.acquirer], TxID: v.txID.String(), Amount: v.amount,
		Created: inBrasilia(time.UnixMilli(v.created)), Active: v.status == chargeActive,
	}
	left := money.BRL(0)
	for _, p := range v.payments {
		left += p.left()
		row.Payments = append(row.Payments, paymentRow{
			EndToEndID: p.endToEndID.String(), Amount: p.amount, At: inBrasilia(time.UnixMilli(p.at)),
			Returned: p.amount - p.left(), HasLeft: p.left() > 0,
		})
	}
	switch {
	case v.status.isRemoved():
		row.Fate, row.Class = "removida", "gone"
	case v.status == chargeDone && left == 0:
		row.Fate, row.Class = "devolvida", "gone"
	case v.status == chargeDone && len(v.payments) > 1:
		row.Fate, row.Class = fmt.Sprintf("paga %d vezes", len(v.payments)), "paid"
	case v.status == chargeDone:
		row.Fate, row.Class = "paga", "paid"
	case !s.clock.Now().Before(v.expiresAt()):
		row.Fate, row.Class = "vencida", "late"
	default:
		row.Fate, row.Class = "à espera", "open"
	}
	if !v.status.isRemoved() {
		a := s.acquirers[v.acquirer]
		row.CopyPaste, _ = a.copyPaste(a.location(v.place)) // without it there is no link
	}
	return row
}

// billRow tells what a pasted code is to pay.
func (s *Simulator) billRow(code string) (*billRow, error) {
	b, err := s.readCode(code)
	if err != nil {
		return nil, err
	}
	a := s.acquirers[b.acquirer]
	row := &billRow{Receiver: a.receiver, Acquirer: a.name, Amount: b.amount, TxID: b.txid}
	if b.charge == nil {
		return row, nil
	}
	made, err := s.books.readCharge(b.charge.record())
	if err != nil {
		return nil, err
	}
	row.Request = made.Request
	if made.Debtor != nil {
		row.Debtor = made.Debtor.Name
	}
	row.Expires = inBrasilia(b.charge.expiresAt())
	switch {
	case b.charge.status.isRemoved():
		row.Warning, row.Removed = "Esta cobrança foi removida e não pode mais ser paga.", true
	case b.charge.status == chargeDone:
		row.Warning = "Esta cobrança já foi paga. Se pagar de novo, o dinheiro chega mesmo assim."
	case !s.clock.Now().Before(b.charge.expiresAt()):
		row.Warning = "Esta cobrança já venceu. Se pagar, o dinheiro chega mesmo assim."
	}
	return row, nil
}

// reais writes an amount as people in Brazil do: R$ 1.234,56.
func reais(amount money.BRL) string {
	whole, cents, _ := strings.Cut(amount.String(), ".")
	digits := strings.TrimPrefix(whole, "-")
	var b strings.Builder
	for i := range len(digits) {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte('.')
		}
		b.WriteByte(digits[i])
	}
	return "R$ " + whole[:len(whole)-len(digits)] + b.String() + "," + cents
}

func (s *Simulator) render(w http.ResponseWriter, r *http.Request, status int, view pageView) {
	var body bytes.Buffer
	if err := pageTemplate.ExecuteTemplate(&body, "index.html", view); err != nil {
		s.refuse(w, r, fmt.Errorf("simulator: page: %w", err))
		return
	}
	_ = httpkit.Write(w, httpkit.Answer{Status: status, Raw: body.Bytes(), Header: http.Header{
		"Content-Type": {"text/html; charset=utf-8"}, "Content-Security-Policy": {pagePolicy}, "Cache-Control": {"no-store"},
		"X-Content-Type-Options": {"nosniff"}, "Referrer-Policy": {"no-referrer"},
	}})
}
