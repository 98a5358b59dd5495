package dashboard_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/charge"
	"github.com/ponte-pay/ponte/internal/dashboard"
	"github.com/ponte-pay/ponte/internal/infraction"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/oplog"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
	"github.com/ponte-pay/ponte/internal/testkit"
	"github.com/ponte-pay/ponte/internal/user"
)

// shop is an account with people, and money that moved.
type shop struct {
	*testkit.Service
	account testkit.Account
	owner   *testkit.Browser
	path    string // of its pages
}

func newShop(t *testing.T, s *testkit.Service, name string) *shop {
	t.Helper()
	x := &shop{Service: s, account: s.Account(t, name)}
	x.owner = s.Person(t, strings.ToLower(name)+"@example.com", x.account.ID, user.Owner)
	x.path = "/accounts/" + x.account.ID.String()
	return x
}

var onceField = regexp.MustCompile(`name="once" value="([^"]+)"`)

// form opens a page and returns its form's hidden key.
func (x *shop) form(t *testing.T, path string) url.Values {
	t.Helper()
	shown := x.owner.Get(t, x.path+path).Want(t, http.StatusOK)
	once := onceField.FindStringSubmatch(shown.Body)
	if once == nil {
		t.Fatalf("%s has no form: %s", path, shown.Body)
	}
	return url.Values{"once": {once[1]}}
}

// with returns a form with further fields, in pairs.
func with(form url.Values, pairs ...string) url.Values {
	out := url.Values{}
	maps.Copy(out, form)
	for i := 0; i < len(pairs); i += 2 {
		out.Set(pairs[i], pairs[i+1])
	}
	return out
}

// send sends a form and returns where it leads to, which is a thing's page.
func (x *shop) send(t *testing.T, path string, form url.Values) string {
	t.Helper()
	got := x.owner.Post(t, x.path+path, form).Want(t, http.StatusSeeOther)
	if !strings.HasPrefix(got.Location, x.path+path+"/") {
		t.Fatalf("%s leads to %s", path, got.Location)
	}
	return got.Location
}

// charge makes a charge by hand.
func (x *shop) charge(t *testing.T, amount, external string) string {
	t.Helper()
	return x.send(t, "/charges", with(x.form(t, "/charges/new"), "amount", amount, "expires_in", "3600", "external_id", external, "description", "Bolo <b>de</b> fubá"))
}

var copyPaste = regexp.MustCompile(`id="copy-paste"[^>]*value="([^"]+)"`)

// pay pays the charge on a page, and returns the payment's end-to-end id.
func (x *shop) pay(t *testing.T, page string) string {
	t.Helper()
	code := copyPaste.FindStringSubmatch(x.owner.Get(t, page).Want(t, http.StatusOK, "data:image/png").Body)
	if code == nil {
		t.Fatal("the page has no code to pay")
	}
	e2e := x.World().Pay(t, testkit.Payment{CopyPaste: code[1]})
	x.Deliver(t)
	return e2e
}

// confirmation fills a form in up to its confirmation, and returns what is to be confirmed.
func (x *shop) confirmation(t *testing.T, kind string, form url.Values) url.Values {
	t.Helper()
	shown := x.owner.Post(t, x.path+"/"+kind+"/confirm", form).Want(t, http.StatusOK)
	out := url.Values{}
	for _, m := range regexp.MustCompile(`<input type="hidden" name="([a-z_]+)" value="([^"]*)">`).FindAllStringSubmatch(shown.Body, -1) {
		out.Set(m[1], strings.ReplaceAll(m[2], "&#43;", "+"))
	}
	return out
}

// payout sends a payout by hand.
func (x *shop) payout(t *testing.T, amount, key, external string) string {
	t.Helper()
	form := with(x.form(t, "/payouts/new"), "amount", amount, "pix_key", key, "external_id", external)
	return x.send(t, "/payouts", with(x.confirmation(t, "payouts", form), "code", x.owner.Code(t)))
}

// A life of money by hand, on every page of the account, in both languages, and none of it visible to others.
func TestMoneyByHand(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		x := newShop(t, s, "Padaria")
		other := newShop(t, s, "Livraria")
		for _, browser := range []*shop{x, other} {
			browser.owner.AddTOTP(t, s)
		}
		s.Adjust(t, x.account.ID, money.CurrencyBRL, "1000.00")
		s.Adjust(t, x.account.ID, money.CurrencyUSDT, "500")

		chargePage := x.charge(t, "1.234,56", "pedido-1")
		x.owner.Get(t, chargePage).Want(t, http.StatusOK, "Aguardando", "R$\u00a01.234,56", "pedido-1", "Bolo &lt;b&gt;de&lt;/b&gt; fubá", "Manual", "Cobrança criada").Lacks(t, "<b>de</b>")
		e2e := x.pay(t, chargePage)
		x.owner.Get(t, chargePage).Want(t, http.StatusOK, "Paga", e2e, "Cobrança paga").Lacks(t, "data:image/png")

		payoutPage := x.payout(t, "20,00", "ana@example.com", "envio-1")
		x.owner.Get(t, payoutPage).Want(t, http.StatusOK, "R$\u00a020,00", "R$\u00a021,00", "ana@example.com", "alpha", "Manual")

		s.World().Do(t, http.MethodPost, "/sim/med", fmt.Sprintf(`{"end_to_end_id": %q, "reason": "Golpe"}`, e2e), nil)
		s.Advance(t, time.Minute)
		s.Step(t)
		list := x.owner.Get(t, x.path+"/infractions").Want(t, http.StatusOK, "Aberta", "restam 6 d 23 h", "Golpe")
		infractionPage := regexp.MustCompile(x.path + `/infractions/inf_[0-9a-z]{26}`).FindString(list.Body)
		x.owner.Get(t, infractionPage).Want(t, http.StatusOK, "Sua defesa", "pedido-1")

		depositPage := x.send(t, "/deposits", with(x.form(t, "/deposits/new"), "amount", "50", "pay_currency", "usdtbsc", "external_id", "dep-1"))
		x.owner.Get(t, depositPage).Want(t, http.StatusOK, "US$\u00a050,00", "USDT · BNB Smart Chain", "data:image/png")
		withdrawalForm := with(x.form(t, "/withdrawals/new"), "amount", "50", "currency", "usdtbsc", "address", "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed")
		s.Advance(t, time.Minute) // real time does not move with it: the codes stay good
		withdrawalPage := x.send(t, "/withdrawals", with(x.confirmation(t, "withdrawals", withdrawalForm), "code", x.owner.Code(t)))
		x.owner.Get(t, withdrawalPage).Want(t, http.StatusOK, "50,00\u00a0USDT", "51,00\u00a0USDT", "Manual")

		things := []string{chargePage, payoutPage, infractionPage, depositPage, withdrawalPage}
		x.tour(t, things)
		x.strangers(t, other, things)

		// The API tells who made them.
		got := s.Get(t, x.account.Key, "/v1/transactions").Want(t, http.StatusOK)
		if n := strings.Count(string(got.Body), `"origin":"manual"`); n != 3 { // the adjustment, the charge and the payout
			t.Errorf("%d transactions are manual: %s", n, got.Body)
		}
		if got := s.Get(t, x.account.Key, "/v1/crypto/payouts").Want(t, http.StatusOK); !strings.Contains(string(got.Body), `"origin":"manual"`) {
			t.Errorf("the withdrawal is not manual: %s", got.Body)
		}

		// The operator's log tells which person.
		entries, err := oplog.List(t.Context(), s.Core.DB, oplog.Page{Account: x.account.ID})
		if err != nil {
			t.Fatal(err)
		}
		for page, action := range map[string]oplog.Action{payoutPage: oplog.PayoutSend, withdrawalPage: oplog.WithdrawalSend} {
			at := slices.IndexFunc(entries, func(e oplog.Entry) bool { return e.Action == action })
			if at < 0 || entries[at].Actor.String() != x.owner.Email || !strings.HasSuffix(page, "/"+entries[at].Subject) || entries[at].After["amount"] == "" {
				t.Errorf("%s: %+v", action, entries)
			}
		}

		x.defend(t, infractionPage)
	})
}

// tour opens every page of the account in both languages.
func (x *shop) tour(t *testing.T, things []string) {
	t.Helper()
	pages := append([]string{}, things...)
	for _, r := range dashboard.Routes() {
		if r.Method == http.MethodGet && r.Who == "member" && strings.Count(r.Path, "{") == 1 {
			pages = append(pages, fill(r.Path, x.account.ID.String()))
		}
	}
	for _, locale := range []string{"en", "pt-BR"} {
		x.owner.Post(t, "/preferences", url.Values{"locale": {locale}, "next": {"/"}}).Want(t, http.StatusSeeOther)
		for _, p := range pages {
			shown := x.owner.Get(t, p).Want(t, http.StatusOK)
			if bytes := len(shown.Body); bytes > 100<<10 {
				t.Errorf("%s has %d bytes", p, bytes)
			}
			if strings.HasSuffix(p, "/download") || strings.HasSuffix(p, "/live") {
				continue
			}
			// A text that is missing shows its key, one with wrong arguments a sign of it.
			if found := regexp.MustCompile(`\[[a-z]+\.[a-z_.]+\]|%!`).FindString(shown.Body); found != "" {
				t.Errorf("%s in %s holds %s", p, locale, found)
			}
			shown.Want(t, http.StatusOK, `<html lang="`+locale+`"`)
		}
	}
}

// strangers holds every thing against the account of another: nothing is there, in either account's paths.
func (x *shop) strangers(t *testing.T, other *shop, things []string) {
	t.Helper()
	for _, p := range things {
		moved := strings.Replace(p, x.path, other.path, 1)
		other.owner.Get(t, moved).Want(t, http.StatusNotFound).Lacks(t, "pedido-1", "ana@example.com")
		other.owner.Get(t, p).Want(t, http.StatusNotFound)
	}
	defense := url.Values{"defense_text": {"Não foi golpe."}}
	other.owner.Post(t, strings.Replace(things[2], x.path, other.path, 1), defense).Want(t, http.StatusNotFound)
	for _, search := range []string{"/charges?q=pedido-1", "/payouts?q=envio-1", "/deposits?q=dep-1"} {
		other.owner.Get(t, other.path+search).Want(t, http.StatusOK, "Nada encontrado")
		x.owner.Get(t, x.path+search).Lacks(t, "Nada encontrado")
	}
}

func (x *shop) defend(t *testing.T, page string) {
	t.Helper()
	for field, form := range map[string]url.Values{
		"defense_text":         {"defense_text": {strings.Repeat("x", infraction.DefenseTextMax+1)}},
		"defense_evidence_url": {"defense_text": {"Não."}, "defense_evidence_url": {"http://example.com"}},
	} {
		x.owner.Post(t, page, form).Want(t, http.StatusUnprocessableEntity, `aria-invalid="true" aria-describedby="e-`+field+`"`, `role="alert"`)
	}
	form := url.Values{"defense_text": {"Entreguei.\r\nHá recibo."}, "defense_evidence_url": {"https://example.com/recibo"}}
	x.owner.Post(t, page, form).Want(t, http.StatusSeeOther)
	x.owner.Get(t, page).Want(t, http.StatusOK, "Defesa enviada.", "Em análise", "Entreguei.", "https://example.com/recibo").Lacks(t, "Sua defesa")
	x.owner.Get(t, page).Lacks(t, "Defesa enviada.")         // said once
	x.owner.Post(t, page, form).Want(t, http.StatusSeeOther) // clicked twice
	x.owner.Post(t, page, with(form, "defense_text", "Outra.")).Want(t, http.StatusUnprocessableEntity, "Só uma infração aberta pode ser defendida")
}

// A form that is sent twice, one after the other or at once, makes one thing.
func TestDoubleClick(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		x := newShop(t, s, "Padaria")
		x.owner.AddTOTP(t, s)
		s.Adjust(t, x.account.ID, money.CurrencyBRL, "1000.00")
		form := with(x.form(t, "/charges/new"), "amount", "10", "expires_in", "3600")
		if first, second := x.send(t, "/charges", form), x.send(t, "/charges", form); first != second {
			t.Errorf("two charges: %s and %s", first, second)
		}
		// The same form with something else in it is another wish, and refused.
		x.owner.Post(t, x.path+"/charges", with(form, "amount", "11")).Want(t, http.StatusUnprocessableEntity, "Abra um formulário novo")

		confirmed := with(x.confirmation(t, "payouts", with(x.form(t, "/payouts/new"), "amount", "20", "pix_key", "ana@example.com", "external_id", "e-1")), "code", x.owner.Code(t))
		var running sync.WaitGroup
		led := make([]string, 4)
		for i := range led {
			running.Go(func() {
				got, err := x.owner.Try(t.Context(), http.MethodPost, x.path+"/payouts", confirmed, nil)
				if err != nil || got.Status != http.StatusSeeOther {
					t.Errorf("%v, %+v", err, got)
					return
				}
				led[i] = got.Location
			})
		}
		running.Wait()
		for _, l := range led {
			if l != led[0] {
				t.Errorf("they lead to %q", led)
			}
		}
		sent := s.World().Payouts(t)
		if len(sent) != 1 {
			t.Errorf("the bank sent %+v", sent)
		}
		got := s.Get(t, x.account.Key, "/v1/balance").Want(t, http.StatusOK)
		if !strings.Contains(string(got.Body), `"available_balance":979.00`) {
			t.Errorf("balance %s", got.Body)
		}
	})
}

// Nobody sends money by hand without the authenticator app, a fresh code, and having seen what it costs.
func TestPayoutNeedsACode(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, sqltest.SQLite(t))
	x := newShop(t, s, "Padaria")
	s.Adjust(t, x.account.ID, money.CurrencyBRL, "100.00")
	form := with(x.form(t, "/payouts/new"), "amount", "20", "pix_key", "ana@example.com", "external_id", "e-1")
	x.owner.Post(t, x.path+"/payouts/confirm", form).Want(t, http.StatusOK, "exige um aplicativo autenticador").Lacks(t, `name="code"`)
	x.owner.Post(t, x.path+"/payouts", with(form, "total", "21.00", "code", "123456")).Want(t, http.StatusUnprocessableEntity, "autenticador")
	x.owner.AddTOTP(t, s)
	confirmed := x.confirmation(t, "payouts", form)
	if got := confirmed.Get("total"); got != "21.00" {
		t.Errorf("the total is %s", got)
	}
	x.owner.Post(t, x.path+"/payouts", confirmed).Want(t, http.StatusUnprocessableEntity, `aria-describedby="e-code"`)
	x.owner.Post(t, x.path+"/payouts", with(confirmed, "code", "000000")).Want(t, http.StatusUnprocessableEntity, "Código incorreto")
	code := x.owner.Code(t)
	x.owner.Post(t, x.path+"/payouts", with(confirmed, "code", code, "total", "20.50")).Want(t, http.StatusUnprocessableEntity, "Confira de novo")
	s.Set(t, x.account.ID, "cash_out_fee=2.00")
	x.owner.Post(t, x.path+"/payouts", with(confirmed, "code", code)).Want(t, http.StatusUnprocessableEntity, "Confira de novo", "R$\u00a022,00")
	if sent := s.World().Payouts(t); len(sent) != 0 {
		t.Errorf("the bank sent %+v", sent)
	}
	x.send(t, "/payouts", with(confirmed, "code", code, "total", "22.00"))
	// The code is used, for another form.
	again := x.confirmation(t, "payouts", with(x.form(t, "/payouts/new"), "amount", "20", "pix_key", "ana@example.com", "external_id", "e-2"))
	x.owner.Post(t, x.path+"/payouts", with(again, "code", code)).Want(t, http.StatusUnprocessableEntity, "Código incorreto")

	// More than there is.
	form = with(x.form(t, "/payouts/new"), "amount", "90", "pix_key", "ana@example.com", "external_id", "e-3")
	x.owner.Post(t, x.path+"/payouts/confirm", form).Want(t, http.StatusUnprocessableEntity, "São necessários R$\u00a092,00 e há R$\u00a078,00")
	for field, value := range map[string]string{"amount": "1,99", "pix_key": "ninguém", "external_id": "", "recipient_document": "123"} {
		x.owner.Post(t, x.path+"/payouts/confirm", with(form, "amount", "5", field, value)).Want(t, http.StatusUnprocessableEntity, `aria-describedby="e-`+field+`"`)
	}
	x.owner.Post(t, x.path+"/payouts/confirm", with(form, "once", "short")).Want(t, http.StatusBadRequest)
}

// A payout whose outcome nobody knows is shown as that, and never offered to be sent again.
func TestUnknownPayout(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, sqltest.SQLite(t))
	x := newShop(t, s, "Padaria")
	x.owner.AddTOTP(t, s)
	s.Adjust(t, x.account.ID, money.CurrencyBRL, "100.00")
	s.World().Break(t, testkit.Fault{Target: "alpha", Operation: "payout.send", Kind: "lost_executed", Times: 1})
	s.World().Break(t, testkit.Fault{Target: "alpha", Operation: "payout.get", Kind: "http_500"})
	page := x.payout(t, "20,00", "ana@example.com", "e-1")
	x.owner.Get(t, page).Want(t, http.StatusOK, "Não repita", "não envie de novo", "Total debitado",
		`<strong>alpha</strong><span class="badge wait">aguardando o banco</span>`) // the attempt is what is in doubt
	x.wantTimeline(t, page, "Pagamento aceito / Sem resposta do banco")
	x.owner.Get(t, x.path).Want(t, http.StatusOK, "Envios sem confirmação do banco: 1, ao todo R$\u00a021,00")
	s.World().Mend(t)
	s.Advance(t, time.Minute)
	s.Step(t)
	s.Deliver(t)
	s.Advance(t, time.Minute)
	s.Step(t)
	x.owner.Get(t, x.path).Lacks(t, "Envios sem confirmação")
}

// Lists page, filter and search.
func TestLists(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		x := newShop(t, s, "Padaria")
		x.owner.Get(t, x.path+"/charges").Want(t, http.StatusOK, "Nenhuma cobrança ainda")
		var pages []string
		for i := range 27 {
			pages = append(pages, x.charge(t, "10", fmt.Sprintf("pedido-%02d", i)))
		}
		e2e := x.pay(t, pages[3])
		first := x.owner.Get(t, x.path+"/charges").Want(t, http.StatusOK, "pedido-26", "pedido-02").Lacks(t, "pedido-01")
		next := regexp.MustCompile(`href="([^"]+)" rel="next"`).FindStringSubmatch(first.Body)
		if next == nil {
			t.Fatal("there is no second page")
		}
		x.owner.Get(t, strings.ReplaceAll(next[1], "&amp;", "&")).Want(t, http.StatusOK, "pedido-01", "pedido-00", "Início da lista").Lacks(t, "pedido-02", `rel="next"`)
		x.owner.Get(t, x.path+"/charges?status=paid").Want(t, http.StatusOK, "pedido-03").Lacks(t, "pedido-04", `rel="next"`)
		x.owner.Get(t, x.path+"/charges?status=refunded").Want(t, http.StatusOK, "Nada aqui")
		x.owner.Get(t, x.path+"/charges?status=nonsense&after=nonsense").Want(t, http.StatusOK, "pedido-26")
		public := pages[3][strings.LastIndex(pages[3], "/")+1:]
		txid := regexp.MustCompile(`id="c-txid">([^<]+)<`).FindStringSubmatch(x.owner.Get(t, pages[3]).Body)[1]
		for _, q := range []string{public, txid, strings.ToUpper(txid), "pedido-03", " pedido-03\t", e2e} {
			if got := x.owner.Get(t, x.path+"/charges?q="+url.QueryEscape(q)); got.Location != pages[3] {
				t.Errorf("%s leads to %q, status %d", q, got.Location, got.Status)
			}
		}
		x.owner.AddTOTP(t, s)
		s.Adjust(t, x.account.ID, money.CurrencyBRL, "100.00")
		payout := x.payout(t, "20,00", "ana@example.com", "envio-1")
		s.Advance(t, time.Minute)
		s.Step(t)
		s.Deliver(t)
		sent := s.World().Payouts(t)[0]
		if sent.EndToEndID == "" {
			t.Fatalf("the bank has not sent it: %+v", sent)
		}
		for _, q := range []string{payout[strings.LastIndex(payout, "/")+1:], "envio-1", sent.EndToEndID, sent.ID, strings.ToUpper(sent.ID)} {
			if got := x.owner.Get(t, x.path+"/payouts?q="+url.QueryEscape(q)); got.Location != payout {
				t.Errorf("%s leads to %q, status %d", q, got.Location, got.Status)
			}
		}
		x.owner.Get(t, x.path+"/payouts?q="+e2e).Want(t, http.StatusOK, "Nada encontrado") // money that came in is no payout
		for _, list := range []string{"charges", "payouts", "deposits"} {
			for _, q := range []string{"nothing", "a\x00", "\xff", strings.Repeat("x", 3000), "ext:", "chg_"} {
				x.owner.Get(t, x.path+"/"+list+"?q="+url.QueryEscape(q)).Want(t, http.StatusOK, "Nada encontrado")
			}
		}
		x.owner.Get(t, x.path+"/charges?q=+").Want(t, http.StatusOK, "pedido-26") // nothing is looked for
		for _, list := range []string{"transactions", "infractions", "deposits", "withdrawals"} {
			x.owner.Get(t, x.path+"/"+list+"?after=nonsense").Want(t, http.StatusSeeOther)
		}
	})
}

// A statement is what the ledger says, and its CSV is the command's.
func TestStatement(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, sqltest.SQLite(t))
	x := newShop(t, s, "Padaria")
	s.Set(t, x.account.ID, "cash_in_fee=1.00")
	s.Adjust(t, x.account.ID, money.CurrencyBRL, "100.00")
	x.pay(t, x.charge(t, "50", "pedido-1"))
	x.owner.Get(t, x.path+"/statement").Want(t, http.StatusOK, "Ajuste manual", "by hand", "Cobrança recebida", "\u2212R$\u00a01,00", "R$\u00a0149,00")
	csv := x.owner.Get(t, x.path+"/statement/download").Want(t, http.StatusOK, "time,id,kind,reference,memo,from,to,amount,currency,available,pending,blocked,in_transit,total\n", "cash_in_fee", ",149.00,0.00,0.00,0.00,149.00\n")
	if got := csv.Header.Get("Content-Disposition"); !strings.HasPrefix(got, `attachment; filename="ponte-`+x.account.ID.String()+"-BRL-") {
		t.Errorf("it is called %s", got)
	}
	if lines := strings.Count(csv.Body, "\n"); lines != 4 {
		t.Errorf("%d lines", lines)
	}
	x.owner.Get(t, x.path+"/statement?currency=USDT").Want(t, http.StatusOK, "Nenhum movimento")
	for query, text := range map[string]string{
		"from=2024-01-01&to=2026-12-31": "No máximo 366 dias", "from=2026-02-01&to=2026-01-01": "antes da inicial", "from=x": "Escreva uma data", "from=1066-01-01": "Escreva uma data",
		"currency=EUR": "Escolha",
	} {
		x.owner.Get(t, x.path+"/statement?"+query).Want(t, http.StatusUnprocessableEntity, text)
	}
	x.owner.Get(t, x.path+"/statement/download?from=2020-01-01&to=2026-12-31").Want(t, http.StatusSeeOther)
}

// What an operator decides about an account holds by hand too.
func TestSettingsHold(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, sqltest.SQLite(t))
	x := newShop(t, s, "Padaria")
	form := with(x.form(t, "/charges/new"), "amount", "10", "expires_in", "3600")
	for setting, c := range map[string]struct {
		status int
		text   string
	}{
		"status=under_review":        {http.StatusLocked, "em análise"},
		"status=banned":              {http.StatusForbidden, "encerrada"},
		"kyc=pending":                {http.StatusUnprocessableEntity, "identidade"},
		"api_cashin=off":             {http.StatusUnprocessableEntity, "não pode criar cobranças"},
		"api_tx_limit=9.99":          {http.StatusUnprocessableEntity, "limite por transação"},
		"disabled_resources=charges": {http.StatusForbidden, "desligado"},
	} {
		s.Set(t, x.account.ID, setting)
		x.owner.Post(t, x.path+"/charges", form).Want(t, c.status, c.text)
		if strings.HasPrefix(setting, "status=") {
			x.owner.Get(t, x.path+"/charges").Want(t, http.StatusOK, "Nada pode ser criado") // looking is fine
		}
		if strings.HasPrefix(setting, "disabled") {
			x.owner.Get(t, x.path).Want(t, http.StatusOK).Lacks(t, `href="`+x.path+`/charges"`)
		}
		s.Set(t, x.account.ID, "status=active", "kyc=approved", "api_cashin=on", "api_tx_limit=none", "disabled_resources=none")
	}
	x.send(t, "/charges", form)
	for field, value := range map[string]string{
		"amount": "10,000", "description": strings.Repeat("x", 141), "payer_document": "11111111111", "external_id": strings.Repeat("x", 121), "expires_in": "5",
	} {
		x.owner.Post(t, x.path+"/charges", with(x.form(t, "/charges/new"), "amount", "10", "expires_in", "3600", field, value)).
			Want(t, http.StatusUnprocessableEntity, `aria-describedby="e-`+field+`"`, `role="alert"`)
	}
}

// The overview tells how charges went.
func TestOverview(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, sqltest.SQLite(t))
	x := newShop(t, s, "Padaria")
	x.owner.Get(t, x.path).Want(t, http.StatusOK, "Nenhuma cobrança em 30 dias", "Nenhum dinheiro entrou", "Nenhuma infração aberta", `href="/docs"`)
	pages := []string{x.charge(t, "10", ""), x.charge(t, "30", ""), x.charge(t, "40", "")}
	x.pay(t, pages[1])
	x.owner.Get(t, x.path).Want(t, http.StatusOK, "33 %", "1 pagas de 3 em 30 dias; 2 ainda aguardam", "<svg class=\"chart wide\"", "<svg class=\"chart narrow\"", "Entradas R$\u00a030,00", "entraram R$\u00a030,00 e saíram R$\u00a00,00")
	s.Advance(t, 2*charge.ExpiresInMax)
	s.Step(t)
	x.owner.Get(t, pages[0]).Want(t, http.StatusOK, "Vencida")
	x.owner.Get(t, x.path).Want(t, http.StatusOK, "0 ainda aguardam")
}
