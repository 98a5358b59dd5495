//go:build !race

package browsertest

import (
	"context"
	"encoding/base32"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"github.com/ponte-pay/ponte/client/webhook"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
	"github.com/ponte-pay/ponte/internal/testkit"
	"github.com/ponte-pay/ponte/internal/user"
)

// town is a server with its bank, and an account.
type town struct {
	*testkit.Service
	world *testkit.World
	b     *browser
	shop  testkit.Account
	look  *looks // nil where pages are used and not looked at
}

func newTown(t *testing.T, b *browser, url string) *town {
	t.Helper()
	w := testkit.NewWorld(t)
	s := testkit.Run(t, url, testkit.Simulator(w))
	t.Cleanup(func() {
		for line := range strings.Lines(s.Log()) {
			// A loop may run out of time on a machine that does much else; a page may not fail.
			if strings.Contains(line, `"level":"ERROR","msg":"request"`) || strings.Contains(line, `"msg":"panic"`) {
				t.Errorf("the server logged %s", line)
			}
		}
	})
	return &town{Service: s, world: w, b: b, shop: s.Account(t, "Padaria Aurora")}
}

// open returns a tab with cookies of its own.
func (w *town) open(t *testing.T, base string) *tab {
	t.Helper()
	p := w.b.open(t, base)
	p.look = w.look
	return p
}

// home returns a path below the account.
func (w *town) home(path string) string { return "/accounts/" + w.shop.ID.String() + path }

// stock gives the account one thing of each kind.
func (w *town) stock(t *testing.T) testkit.Things {
	t.Helper()
	return w.Stock(t, w.shop, w.world, func() { w.world.Do(t, http.MethodPost, "/sim/clock", `{"advance_seconds": 60}`, nil) })
}

// person is somebody in a tab.
type person struct {
	*tab
	email string
	phone *testkit.Phone
}

// comeIn opens an invitation, chooses a password and sets up an authenticator app.
func (w *town) comeIn(t *testing.T, i user.Invitation) *person {
	t.Helper()
	link, err := w.Core.Users.Invite(t.Context(), i)
	if err != nil {
		t.Fatal(err)
	}
	p := &person{w.open(t, w.URL), i.Email, &testkit.Phone{}}
	p.visit("/invitations/" + link)
	p.check("invitation")
	p.fill("Seu nome", "Ana Maria")
	p.fill("Nova senha", testkit.PasswordOfAll)
	p.follow("Continuar")
	if !i.Operator { // who has to have one is led there
		p.visit("/security/totp")
	}
	p.check("second-factor")
	secret := evaluate[string](p.tab, `document.getElementById("c-totp").textContent`)
	if p.phone.Secret, err = base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(strings.ReplaceAll(secret, " ", "")); err != nil {
		t.Fatal(err)
	}
	p.fill("Seis dígitos", p.phone.Code(p))
	p.follow("Ligar")
	p.check("recovery-codes")
	p.follow("Já guardei")
	return p
}

// signIn signs out and in again, with the second factor.
func (p *person) signIn() {
	p.Helper()
	p.follow("Sair")
	p.check("sign-in")
	p.fill("E-mail", p.email)
	p.fill("Senha", testkit.PasswordOfAll)
	p.follow("Entrar")
	p.check("sign-in-code")
	p.fill("Código do autenticador", p.phone.Code(p))
	p.leaving(func() { p.press("\r") })
}

// receiver is a program of the account holder's that is told what happens.
type receiver struct {
	URL    string
	secret atomic.Value // a string; what events have to be signed with
	heard  chan string  // type and attempt of each event that was
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	const heardMax = 100
	r := &receiver{heard: make(chan string, heardMax)}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		secret, ok := r.secret.Load().(string)
		if !ok { // something happened between the registration and the secret being read; it is told again
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		body, err := io.ReadAll(req.Body)
		if err == nil {
			err = webhook.Verify(req.Header.Get(webhook.SignatureHeader), body, secret, testkit.Real.Real())
		}
		if err != nil {
			t.Errorf("a delivery that cannot be trusted: %v", err)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		r.heard <- req.Header.Get("X-Service-Event-Type") + " " + req.Header.Get("X-Service-Attempt")
	}))
	t.Cleanup(s.Close)
	r.URL = s.URL + "/hooks"
	return r
}

// want waits until the receiver was told something.
func (r *receiver) want(t *testing.T, what string) {
	t.Helper()
	testkit.Wait(t, what, func() bool {
		select {
		case heard := <-r.heard:
			return heard == what
		default:
			return false
		}
	})
}

// register registers an endpoint, and gives its secret to the receiver.
func (w *town) register(p *person, r *receiver) {
	p.Helper()
	p.visit(w.home("/webhooks"))
	p.follow("Novo webhook")
	p.fill("URL", r.URL)
	p.pick("Todos os eventos")
	p.follow("Cadastrar")
	r.secret.Store(evaluate[string](p.tab, `document.getElementById("secret-hook").value`))
	p.check("owner-webhook-secret")
	p.follow("Já guardei")
	p.see("Ativo")
	p.follow("Enviar teste")
	r.want(p.T, "webhook.test 1")
}

// redeliver has the event of the payment sent again.
func (w *town) redeliver(p *person, r *receiver) {
	p.Helper()
	p.visit(w.home("/events"))
	p.follow("charge.paid")
	p.follow("Reenviar")
	r.want(p.T, "charge.paid 2")
}

// takePayment makes a charge by hand, pays it in the bank's page, and sees it turn paid without loading the page again.
func (w *town) takePayment(p *person) {
	p.Helper()
	p.visit(w.home("/charges"))
	p.follow("Nova cobrança")
	p.fill("Valor em reais", "1.234,50")
	p.fill("Descrição", "Bolo de casamento")
	p.follow("Criar cobrança")
	p.see("Aguardando")
	p.check("owner-charges-one-waiting")
	charge := p.path()
	code := evaluate[string](p.tab, `document.getElementById("copy-paste").value`)
	p.mark()
	list, overview := p.beside(w.home("/charges")), p.beside(w.home(""))
	bank := w.open(p.T, w.world.URL)
	bank.visit("/")
	bank.check("bank")
	bank.fill("Código copia e cola", code)
	bank.follow("Ler o código")
	bank.follow("Pagar R$ 1.234,50")
	bank.see("Pago: R$ 1.234,50")

	// Whoever looks at it sees it: on the page of the charge, in the list and on the overview.
	p.see("Paga")
	p.see("Uma cobrança de R$ 1.234,50 foi paga.")
	list.see("Paga")
	overview.see("R$ 6.153,50") // 5.000,00 and this, less a payout of 80,00 with its fee
	for _, t := range []*tab{p.tab, list, overview} {
		if !t.isSame() {
			p.Errorf("%s was loaded again", t.path())
		}
		t.checkShift("paid live")
	}
	said := evaluate[bool](p.tab, `(() => { const e = document.getElementById("toast"); return e.getAttribute("aria-live") === "polite" && e.textContent.includes("foi paga"); })()`)
	if !said {
		p.Error("nothing was said to screen readers")
	}
	if p.path() != charge {
		p.Errorf("went to %s", p.path())
	}
	p.keep("owner-charges-one-paid-live")
}

// sendPayout sends money by hand, with a code of the authenticator app, and sees it arrive.
func (w *town) sendPayout(p *person) {
	p.Helper()
	p.visit(w.home("/payouts"))
	p.follow("Novo pagamento")
	p.fill("Valor que o destinatário recebe", "250,00")
	p.fill("Chave Pix", "maria@example.org")
	p.fill("external_id", "farinha-7")
	p.follow("Continuar")
	p.see("R$ 251,00") // with the fee
	p.check("owner-payout-confirm")
	p.fill("Código do autenticador", p.phone.Code(p))
	p.follow("Enviar R$ 250,00")
	p.mark()
	p.see("Concluído")
	p.see("Manual")
	if !p.isSame() {
		p.Error("the page was loaded again")
	}
}

// defend answers the infraction.
func (w *town) defend(p *person, infraction string) {
	p.Helper()
	p.visit(w.home("/infractions/" + infraction))
	p.see("Aberta")
	p.check("owner-infractions-one-open")
	p.fill("Sua defesa", "O bolo foi entregue e o cliente assinou.")
	p.fill("Link das provas", "https://padaria.example.org/provas/1042.pdf")
	p.click("Enviar defesa")
	p.follow("Confirmar")
	p.see("Em análise")
	p.see("O bolo foi entregue e o cliente assinou.")
}

// lock has the operator lock the account, and the owner see it.
func (w *town) lock(operator, owner *person) {
	operator.Helper()
	operator.visit("/admin/accounts")
	operator.follow("Padaria Aurora")
	operator.pick("Em análise")
	operator.fill("Motivo", "documentos vencidos")
	operator.click("Mudar a situação")
	operator.follow("Confirmar")
	operator.see("A situação da conta foi mudada.")
	operator.see("documentos vencidos") // in the log
	owner.visit(w.home(""))
	owner.see("Esta conta está em análise.")
	owner.keep("owner-locked")
	w.Get(operator.T, w.shop.Key, "/v1/balance").WantError(operator.T, http.StatusLocked, "ACCOUNT_LOCKED")
}

// audit has the operator add up all books.
func (w *town) audit(operator *person) {
	operator.Helper()
	operator.visit("/admin")
	operator.check("operator-admin-unaudited")
	operator.follow("Auditoria")
	operator.follow("Auditar agora")
	operator.see("Tudo fecha.")
}

// unlock opens the account again.
func (w *town) unlock(operator, owner *person) {
	operator.Helper()
	operator.visit("/admin/accounts")
	operator.follow("Padaria Aurora")
	operator.pick("Ativa")
	operator.fill("Motivo", "documentos conferidos")
	operator.click("Mudar a situação")
	operator.follow("Confirmar")
	operator.see("A situação da conta foi mudada.")
	owner.visit(w.home(""))
	owner.see("Nova cobrança")
}

// The dashboard in a browser, on both databases. One browser and one server for each are enough: they cost more than what is
// done with them. Pages look the same on both, so that they are looked at on one, and used without a mouse on the other.
func TestDashboard(t *testing.T) {
	t.Parallel()
	b := startBrowser(t)
	sqltest.EachURL(t, func(t *testing.T, url string) {
		w := newTown(t, b, url)
		if strings.HasPrefix(url, "sqlite:") {
			w.look = &looks{done: map[string]bool{}}
		} else {
			t.Run("keyboard", w.keyboard)
		}
		w.walk(t)
	})
}

// People use the dashboard: an owner takes and sends money, connects a program and defends the account, and an operator
// looks after it.
func (w *town) walk(t *testing.T) {
	owner := w.comeIn(t, user.Invitation{Email: "ana@example.com", Account: w.shop.ID, Role: user.Owner})
	owner.signIn()
	things := w.stock(t)
	program := newReceiver(t)
	w.register(owner, program)
	w.takePayment(owner)
	program.want(t, "charge.paid 1")
	w.redeliver(owner, program)
	w.sendPayout(owner)
	w.defend(owner, things.Infraction)
	operator := w.comeIn(t, user.Invitation{Email: "op@example.com", Operator: true})
	w.lock(operator, owner)
	w.audit(operator)
	w.unlock(operator, owner)
	if w.look != nil {
		w.wonders(t)
		t.Run("pages", func(t *testing.T) { w.pages(t, owner, operator) })
	}
}

// wonders gives operators something to look at: what should not be, and what they did about it.
func (w *town) wonders(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	var withdrawals struct {
		Payouts []struct {
			ID string `json:"id"`
		} `json:"payouts"`
	}
	w.Do(t, testkit.Request{
		Method: http.MethodPost, Path: "/v1/crypto/payouts", Key: w.shop.Key,
		Body: `{"amount": 40, "currency": "usdtbsc", "address": "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "external_id": "em-duvida"}`,
	}).Want(t, http.StatusCreated)
	w.world.Do(t, http.MethodGet, "/sim/crypto/books", "", &withdrawals)
	w.world.Do(t, http.MethodPost, "/sim/crypto/payouts/"+withdrawals.Payouts[len(withdrawals.Payouts)-1].ID+"/fail", `{}`, nil)
	now := w.Core.Clock.Now().UnixMicro()
	err := w.Core.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.Queue(ctx, `INSERT INTO unmatched (acquirer, end_to_end_id, txid, amount, paid_at, found_at, reason)
VALUES ('alpha', 'E9000000120261115114099999999999', 'outro-sistema-000000000000000001', 123456789, $1, $1, 'it names no charge of ours')`, now)
		tx.Queue(ctx, `INSERT INTO unmatched_infraction (acquirer, acquirer_id, end_to_end_id, amount, status, opened_at, found_at, reason)
VALUES ('beta', '3f0c9a52-0000-4000-8000-4b1d6f3c2a10', 'E9000000220261115114099999999998', 4200, 'open', $1, $1, 'its payment was credited to nobody')`, now)
		tx.Queue(ctx, `INSERT INTO unmatched_deposit (provider, payment_id, reference, amount, found_at, reason)
VALUES ('nowpayments', '4522625843', 'order-7', 5250000, $1, 'it names no crypto charge of ours')`, now)
		// The oldest deliveries have failed for good, and their endpoint for days.
		tx.Queue(ctx, `UPDATE delivery SET state = 'parked', owner = NULL, attempt = 6 WHERE event_id IN (SELECT event_id FROM delivery ORDER BY event_id LIMIT 2)`)
		tx.Queue(ctx, `UPDATE bookmark SET number = number + 1 WHERE name = 'endpoints'`)
		tx.Queue(ctx, `UPDATE endpoint SET failing_since = $1, version = version + 1`, now-(96*time.Hour).Microseconds())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Core.Accounts.Block(ctx, "203.0.113.0/24"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Core.Ledger.Hold(ctx, w.shop.ID, 1_500_00, "análise 17: documentos do pedido 1042"); err != nil {
		t.Fatal(err)
	}
	w.Revoke(t, w.Key(t, w.shop.ID, "charges:read,balance:read"))
	// A day of six figures, a name without a place to break it, and a charge that was paid twice.
	var made struct {
		ID  string `json:"id"`
		Pix struct {
			CopyPaste string `json:"copy_paste"`
		} `json:"pix"`
	}
	w.Do(t, testkit.Request{
		Method: http.MethodPost, Path: "/v1/charges", Key: w.shop.Key, Header: http.Header{"Idempotency-Key": {"a-long-name"}},
		Body: fmt.Sprintf(`{"amount": 543210, "external_id": %q, "description": "Encomenda com entrega na porta"}`, strings.Repeat("pedido", 20)),
	}).Want(t, http.StatusCreated).Decode(t, &made)
	for _, amount := range []string{"", "10.00"} {
		w.world.Pay(t, testkit.Payment{CopyPaste: made.Pix.CopyPaste, Amount: amount})
	}
	w.Get(t, w.shop.Key, "/v1/charges/"+made.ID).Want(t, http.StatusOK) // asks the bank
	if _, err := w.Core.Users.Invite(ctx, user.Invitation{Email: "contabilidade@padaria-aurora.example.com.br", Account: w.shop.ID, Role: user.Finance}); err != nil {
		t.Fatal(err)
	}
}

// pages opens every page that there is, in two tabs at once.
func (w *town) pages(t *testing.T, owner, operator *person) {
	t.Run("owner", func(t *testing.T) {
		t.Parallel()
		defer owner.in(t)()
		owner.visit(w.home(""))
		owner.crawl("owner")
		w.forms(owner)
	})
	t.Run("operator", func(t *testing.T) {
		t.Parallel()
		defer operator.in(t)()
		operator.visit("/admin")
		operator.crawl("operator")
		operator.visit("/admin/accounts")
		operator.fill("Nome", "Livraria Horizonte")
		operator.follow("Criar")
		operator.see("A conta Livraria Horizonte foi criada")
		operator.check("operator-admin-accounts-made")
		operator.visit("/docs")
		operator.crawl("docs")
		operator.visit("/docs/crypto-payouts") // the largest
		operator.check("docs-crypto")
	})
}

// forms looks at pages that only a form leads to.
func (w *town) forms(p *person) {
	p.Helper()
	p.visit(w.home("/withdrawals/new"))
	p.fill("Valor em USDT", "30")
	p.fill("Endereço", "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed")
	p.follow("Continuar")
	p.check("owner-withdrawals-confirm")
	p.visit(w.home("/payouts/new"))
	p.fill("Valor que o destinatário recebe", "1,00")
	p.fill("Chave Pix", "ninguém")
	p.follow("Continuar")
	p.check("owner-payouts-new-wrong")
	p.visit(w.home("/keys"))
	p.fill("Código do autenticador", p.phone.Code(p))
	p.follow("Criar chave")
	p.check("owner-keys-made")
	p.visit(w.home("/charges?q=nada"))
	p.check("owner-charges-not-found")
	if status := p.visit(w.home("/nowhere")); status != http.StatusNotFound {
		p.Errorf("what is not there answers %d", status)
	}
	p.check("not-found")
}

// The main things can be done without a mouse: come in, make a charge, find it again, go out.
func (w *town) keyboard(t *testing.T) {
	w.Person(t, "bia@example.com", w.shop.ID, user.Owner)
	p := w.open(t, w.URL)
	p.visit("/sign-in")
	p.tabTo("E-mail")
	p.typeIn("bia@example.com")
	p.tabTo("Senha")
	p.typeIn(testkit.PasswordOfAll)
	p.leaving(func() { p.press(kb.Enter) })

	p.press(kb.Tab) // the first thing on every page
	p.press(kb.Enter)
	p.wait("the focus in the page itself", `document.activeElement.id === "main"`)
	p.tabTo("Nova cobrança")
	p.leaving(func() { p.press(kb.Enter) })
	p.tabTo("Descrição")
	p.typeIn("Bolo")
	p.fill("Valor em reais", "30") // it has the focus from the start
	p.leaving(func() { p.press(kb.Enter) })
	p.see("R$ 30,00")
	p.see("Aguardando")
	p.tabTo("Cobranças")
	p.leaving(func() { p.press(kb.Enter) })
	p.see("Bolo")
	p.tabTo("Sair")
	p.leaving(func() { p.press(kb.Enter) })
	p.see("Entrar")
}
