package dashboard_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	client "github.com/ponte-pay/ponte/client/webhook"
	"github.com/ponte-pay/ponte/internal/oplog"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
	"github.com/ponte-pay/ponte/internal/testkit"
	"github.com/ponte-pay/ponte/internal/user"
)

// hookReceiver is a shop's server that is told of events.
type hookReceiver struct {
	*httptest.Server
	mu   sync.Mutex
	got  []http.Header
	body []string
}

func receive(t *testing.T) *hookReceiver {
	t.Helper()
	r := &hookReceiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.got, r.body = append(r.got, request.Header), append(r.body, string(body))
		_, _ = io.WriteString(w, "<b>thank you</b>")
	}))
	t.Cleanup(r.Close)
	return r
}

// last returns what came last, and how often something did.
func (r *hookReceiver) last(t *testing.T, s *testkit.Service) (h http.Header, body string, n int) {
	t.Helper()
	s.Step(t)
	s.Step(t) // the second writes what came of it
	r.mu.Lock()
	defer r.mu.Unlock()
	if n = len(r.got); n == 0 {
		t.Fatal("nothing came")
	}
	return r.got[n-1], r.body[n-1], n
}

// wantSigned fails the test unless a secret has signed.
func wantSigned(t *testing.T, h http.Header, body, secret string) {
	t.Helper()
	if err := client.Verify(h.Get("X-Service-Signature"), []byte(body), secret, time.Now()); err != nil {
		t.Error(err)
	}
}

var (
	secretField = regexp.MustCompile(`value="(whsec_[0-9a-f]{64})"`)
	hookLink    = regexp.MustCompile(`/webhooks/(whk_[0-9a-z]{26})`)
	eventLink   = regexp.MustCompile(`/events/(evt_[0-9a-z]{26})`)
)

// find returns what a pattern finds on a page.
func find(t *testing.T, pattern *regexp.Regexp, shown *testkit.Shown) string {
	t.Helper()
	m := pattern.FindStringSubmatch(shown.Body)
	if m == nil {
		t.Fatalf("no %s on the page: %s", pattern, shown.Body)
	}
	return m[1]
}

// A webhook's life by hand: registered, tried, told, looked at, told again, given a new secret, paused and deleted.
func TestWebhooksByHand(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, sqltest.SQLite(t))
	x, other := newShop(t, s, "Padaria"), newShop(t, s, "Livraria")
	r := receive(t)
	x.owner.Get(t, x.path+"/webhooks").Want(t, http.StatusOK, "Nenhum webhook ainda")
	for field, form := range map[string]url.Values{
		"url":   {"url": {"ftp://example.com"}, "scope": {"all"}},
		"event": {"url": {r.URL}, "scope": {"some"}},
	} {
		x.owner.Post(t, x.path+"/webhooks", form).Want(t, http.StatusUnprocessableEntity, `aria-describedby="e-`+field+`"`, `role="alert"`)
	}
	x.owner.Post(t, x.path+"/webhooks", url.Values{"url": {"http://10.0.0.1/"}, "scope": {"all"}}).Want(t, http.StatusUnprocessableEntity, "endereço público")
	x.owner.Post(t, x.path+"/webhooks", url.Values{"url": {r.URL}, "scope": {"some"}, "event": {"charge.paid", "charge.stolen"}}).Want(t, http.StatusUnprocessableEntity)
	form := url.Values{"url": {r.URL}, "scope": {"some"}, "event": {"charge.paid", "payout.failed"}}
	made := x.owner.Post(t, x.path+"/webhooks", form).Want(t, http.StatusOK, "Isto aparece só agora")
	if made.Header.Get("Content-Encoding") != "" || made.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("a secret with %v", made.Header)
	}
	secret, hook := find(t, secretField, made), find(t, hookLink, made)
	page := x.path + "/webhooks/" + hook
	x.owner.Post(t, x.path+"/webhooks", form).Want(t, http.StatusUnprocessableEntity, "já tem um webhook com esta URL")
	x.owner.Get(t, page).Want(t, http.StatusOK, r.URL, "charge.paid", "payout.failed", "Nenhuma entrega aqui").Lacks(t, "whsec_")

	// A test, twice by one form.
	try := x.form(t, "/webhooks/"+hook)
	delivery := x.owner.Post(t, page+"/test", try).Want(t, http.StatusSeeOther).Location
	if again := x.owner.Post(t, page+"/test", try).Want(t, http.StatusSeeOther).Location; again != delivery {
		t.Errorf("the test leads to %s and %s", delivery, again)
	}
	x.owner.Get(t, delivery).Want(t, http.StatusOK, "Aguardando", "Nenhuma tentativa ainda", `hx-trigger="every 2s"`)
	h, body, n := r.last(t, s)
	wantSigned(t, h, body, secret)
	if n != 1 || h.Get("X-Service-Event-Type") != "webhook.test" || !strings.Contains(body, `"object":"webhook_test"`) {
		t.Errorf("%d: %v %s", n, h, body)
	}
	x.owner.Get(t, delivery).Want(t, http.StatusOK, "Entregue", h.Get("X-Service-Signature"), "X-Service-Attempt: 1", "&lt;b&gt;thank you&lt;/b&gt;").Lacks(t, "hx-trigger", "<b>thank")
	x.owner.Get(t, delivery+"?attempt=2").Want(t, http.StatusNotFound)
	x.owner.Get(t, delivery+"?attempt=x").Want(t, http.StatusNotFound)

	// A payment.
	x.pay(t, x.charge(t, "10,00", "pedido-1"))
	h, body, _ = r.last(t, s)
	wantSigned(t, h, body, secret)
	x.owner.Get(t, x.path+"/events").Want(t, http.StatusOK, "charge.created", "charge.paid", "webhook.test", "ninguém")
	x.owner.Get(t, x.path+"/events?type=charge.stolen").Want(t, http.StatusOK, "charge.created")
	paid := find(t, eventLink, x.owner.Get(t, x.path+"/events?type=charge.paid").Want(t, http.StatusOK).Lacks(t, `<code>charge.created</code>`))
	event := x.path + "/events/" + paid
	if to := x.owner.Get(t, x.path+"/events?q="+paid).Want(t, http.StatusSeeOther).Location; to != event {
		t.Error(to)
	}
	x.owner.Get(t, x.path+"/events?q=evt_1").Want(t, http.StatusOK, "Nenhum evento com este identificador")
	x.owner.Get(t, event).Want(t, http.StatusOK, "Cobrança paga", "pedido-1", "Entregue", r.URL)
	x.owner.Get(t, page+"?status=parked").Want(t, http.StatusOK, "Nenhuma entrega aqui")
	x.owner.Get(t, page+"?status=delivered").Want(t, http.StatusOK, "charge.paid", "webhook.test")

	// Again: one, and a time.
	x.owner.Post(t, event+"/redeliver", url.Values{"endpoint": {hook}}).Want(t, http.StatusSeeOther)
	x.owner.Get(t, event).Want(t, http.StatusOK, "será enviado de novo")
	if h, _, _ := r.last(t, s); h.Get("X-Service-Attempt") != "2" || h.Get("X-Service-Event-Id") != paid {
		t.Errorf("%v", h)
	}
	x.owner.Get(t, event+"/deliveries/"+hook+"?attempt=1").Want(t, http.StatusOK, "X-Service-Attempt: 1")
	_, _, before := r.last(t, s)
	now := s.Core.Clock.Now().In(time.FixedZone("Brasília", -3*3600))
	moment := func(d time.Duration) string { return now.Add(d).Format("2006-01-02T15:04") }
	span := url.Values{"since": {moment(-time.Hour)}, "until": {moment(time.Hour)}, "endpoint": {hook}}
	x.owner.Get(t, x.path+"/webhooks/redeliver?endpoint="+hook).Want(t, http.StatusOK, `value="`+hook+`" selected`)
	x.owner.Post(t, x.path+"/webhooks/redeliver", with(span, "failed", "yes")).Want(t, http.StatusOK, "serão refeitas: 0.")
	x.owner.Post(t, x.path+"/webhooks/redeliver", span).Want(t, http.StatusOK, "serão refeitas: 2.")
	rest := s.Core.Clock.Now().Add(time.Second) // within a minute: the form goes on exactly where it stopped
	minute := rest.In(now.Location()).Format("2006-01-02T15:04")
	x.owner.Post(t, x.path+"/webhooks/redeliver", with(span, "since", minute, "rest", rest.Format(time.RFC3339Nano))).Want(t, http.StatusOK, "serão refeitas: 0.")
	x.owner.Post(t, x.path+"/webhooks/redeliver", with(span, "until", moment(-2*time.Hour))).Want(t, http.StatusUnprocessableEntity, `aria-describedby="e-until"`)
	x.owner.Post(t, x.path+"/webhooks/redeliver", with(span, "since", "ontem")).Want(t, http.StatusUnprocessableEntity, `aria-describedby="e-since"`)
	if _, _, n := r.last(t, s); n != before+2 {
		t.Errorf("told %d times more", n-before)
	}

	// Other events, and new secrets: one that begins tomorrow, one that begins now.
	x.owner.Post(t, page+"/events", url.Values{"scope": {"some"}}).Want(t, http.StatusUnprocessableEntity, "pelo menos um evento")
	x.owner.Post(t, page+"/events", url.Values{"scope": {"all"}}).Want(t, http.StatusSeeOther)
	x.owner.Get(t, page).Want(t, http.StatusOK, "Os eventos foram alterados", "Todos os eventos")
	entries, err := oplog.List(t.Context(), s.Core.DB, oplog.Page{Account: x.account.ID, Limit: 1})
	if err != nil || entries[0].Action != oplog.EndpointSubscribe || entries[0].Before["events"] == "all" || entries[0].After["events"] != "all" {
		t.Errorf("the log: %+v, %v", entries, err)
	}
	x.owner.Post(t, page+"/rotate", url.Values{"after": {"5s"}}).Want(t, http.StatusUnprocessableEntity, `aria-describedby="e-after"`)
	tomorrow := find(t, secretField, x.owner.Post(t, page+"/rotate", url.Values{"after": {"24h0m0s"}}).Want(t, http.StatusOK, "aceite os dois"))
	x.charge(t, "11,00", "pedido-2")
	h, body, _ = r.last(t, s)
	wantSigned(t, h, body, secret)
	s.Advance(t, 25*time.Hour)
	s.Step(t)
	x.charge(t, "12,00", "pedido-3")
	h, body, _ = r.last(t, s)
	wantSigned(t, h, body, tomorrow)
	atOnce := find(t, secretField, x.owner.Post(t, page+"/rotate", url.Values{"after": {"0s"}}).Want(t, http.StatusOK, "Ele já assina os eventos"))
	x.charge(t, "13,00", "pedido-4")
	h, body, before = r.last(t, s)
	wantSigned(t, h, body, atOnce)

	x.hides(t, other, []string{
		"GET /webhooks/" + hook, "POST /webhooks/" + hook + "/events", "POST /webhooks/" + hook + "/enable", "POST /webhooks/" + hook + "/disable",
		"POST /webhooks/" + hook + "/rotate", "POST /webhooks/" + hook + "/test", "POST /webhooks/" + hook + "/delete",
		"GET /events/" + paid, "GET /events/" + paid + "/deliveries/" + hook, "POST /events/" + paid + "/redeliver",
	})
	other.owner.Post(t, other.path+"/webhooks/redeliver", span).Want(t, http.StatusNotFound)
	foreign := find(t, hookLink, other.owner.Post(t, other.path+"/webhooks", url.Values{"url": {r.URL}, "scope": {"all"}}).Want(t, http.StatusOK))
	x.owner.Post(t, event+"/redeliver", url.Values{"endpoint": {foreign}}).Want(t, http.StatusNotFound)
	if _, _, n := r.last(t, s); n != before {
		t.Errorf("strangers had %d told", n-before)
	}

	// Paused, and gone.
	x.owner.Post(t, page+"/disable", nil).Want(t, http.StatusSeeOther)
	x.owner.Get(t, page).Want(t, http.StatusOK, "Desativado", "Ativar").Lacks(t, "Enviar teste")
	x.owner.Post(t, page+"/test", try).Want(t, http.StatusConflict, "está desativado")
	x.owner.Post(t, event+"/redeliver", url.Values{"endpoint": {hook}}).Want(t, http.StatusConflict, "está desativado")
	x.owner.Post(t, page+"/enable", nil).Want(t, http.StatusSeeOther)
	x.owner.Post(t, page+"/test", x.form(t, "/webhooks/"+hook)).Want(t, http.StatusSeeOther)
	x.owner.Post(t, page+"/test", url.Values{"once": {"short"}}).Want(t, http.StatusBadRequest)
	x.owner.Post(t, page+"/delete", nil).Want(t, http.StatusSeeOther)
	x.owner.Get(t, page).Want(t, http.StatusNotFound)
	x.owner.Get(t, event).Want(t, http.StatusOK, r.URL) // what was sent stays
	x.owner.Get(t, event+"/deliveries/"+hook).Want(t, http.StatusOK, r.URL).Lacks(t, page)
	x.owner.Post(t, event+"/redeliver", nil).Want(t, http.StatusSeeOther)
	x.owner.Get(t, event).Want(t, http.StatusOK, "Nada a reenviar")
	if log := s.Log(); strings.Contains(log, secret) || strings.Contains(log, tomorrow) || strings.Contains(log, atOnce) {
		t.Error("a secret is in the log")
	}
}

// hides asks for an account's things in the account of another, and from there: nothing is there.
func (x *shop) hides(t *testing.T, other *shop, routes []string) {
	t.Helper()
	form := with(other.form(t, "/keys"), "after", "0s", "scope", "all", "role", "viewer", "proof", testkit.PasswordOfAll)
	for _, r := range routes {
		method, path, _ := strings.Cut(r, " ")
		for _, base := range []string{x.path, other.path} {
			if got := other.owner.Do(t, method, base+path, form, nil); got.Status != http.StatusNotFound {
				t.Errorf("%s %s: status %d to %s", method, base+path, got.Status, got.Location)
			}
		}
	}
}

var keyField = regexp.MustCompile(`value="(bp_[0-9a-f]{8}_[0-9a-f]{48})"`)

// A key by hand: only for who proves who they are, shown once, one for each form, and gone when it is revoked.
func TestKeysByHand(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, sqltest.SQLite(t))
	x, other := newShop(t, s, "Padaria"), newShop(t, s, "Livraria")
	form := x.form(t, "/keys")
	x.owner.Post(t, x.path+"/keys", form).Want(t, http.StatusUnprocessableEntity, `aria-describedby="e-proof"`)
	x.owner.Post(t, x.path+"/keys", with(form, "proof", "wrong horse battery")).Want(t, http.StatusUnprocessableEntity, "senha atual está incorreta").Lacks(t, "wrong horse")
	x.owner.Post(t, x.path+"/keys", url.Values{"proof": {testkit.PasswordOfAll}}).Want(t, http.StatusBadRequest)
	form = with(form, "proof", testkit.PasswordOfAll)
	key := find(t, keyField, x.owner.Post(t, x.path+"/keys", form).Want(t, http.StatusOK, "Isto aparece só agora"))
	prefix := key[:11]
	x.owner.Post(t, x.path+"/keys", form).Want(t, http.StatusUnprocessableEntity, "já criou uma chave").Lacks(t, key)
	x.owner.Get(t, x.path+"/keys").Want(t, http.StatusOK, prefix, "nunca", "Total").Lacks(t, key)
	if n := strings.Count(x.owner.Get(t, x.path+"/keys").Body, "bp_"); n != 4 { // two keys, each with the question of its button
		t.Errorf("bp_ %d times", n)
	}
	for _, path := range []string{"/v1/balance", "/v1/charges", "/v1/payouts", "/v1/med", "/v1/transactions"} {
		s.Get(t, key, path).Want(t, http.StatusOK)
	}

	// With an app the password is not enough.
	x.owner.AddTOTP(t, s)
	x.owner.Post(t, x.path+"/keys", with(x.form(t, "/keys"), "proof", testkit.PasswordOfAll)).Want(t, http.StatusUnprocessableEntity, "Código incorreto")
	x.owner.Post(t, x.path+"/keys", with(x.form(t, "/keys"), "proof", x.owner.Code(t))).Want(t, http.StatusOK, "bp_")

	// Who may look sees no way to change.
	viewer := s.Person(t, "ver@example.com", x.account.ID, user.Viewer)
	viewer.Get(t, x.path+"/keys").Want(t, http.StatusOK, prefix).Lacks(t, "Revogar", "Criar chave")

	x.hides(t, other, []string{"POST /keys/" + prefix[3:] + "/revoke"})
	s.Get(t, key, "/v1/balance").Want(t, http.StatusOK)
	x.owner.Post(t, x.path+"/keys/"+key+"/revoke", nil).Want(t, http.StatusNotFound) // a whole key names none
	x.owner.Post(t, x.path+"/keys/"+prefix[3:]+"/revoke", nil).Want(t, http.StatusSeeOther)
	x.owner.Get(t, x.path+"/keys").Want(t, http.StatusOK, "A chave foi revogada", "Chaves revogadas (1)")
}

var invitationField = regexp.MustCompile(`value="https?://[^"/]+(/invitations/[^"]+)"`)

// Who is in an account is its owner's to say, and it always has one.
func TestTeam(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, sqltest.SQLite(t))
	x, other := newShop(t, s, "Padaria"), newShop(t, s, "Livraria")
	invite := func(email, role string) *testkit.Shown {
		t.Helper()
		return x.owner.Post(t, x.path+"/team/invitations", with(x.form(t, "/team"), "email", email, "role", role, "proof", testkit.PasswordOfAll))
	}
	for field, form := range map[string]url.Values{
		"email": {"email": {"nobody"}, "role": {"viewer"}, "proof": {testkit.PasswordOfAll}},
		"role":  {"email": {"bia@example.com"}, "role": {"king"}, "proof": {testkit.PasswordOfAll}},
		"proof": {"email": {"bia@example.com"}, "role": {"viewer"}, "proof": {"guess"}},
	} {
		form.Set("once", x.form(t, "/team").Get("once"))
		x.owner.Post(t, x.path+"/team/invitations", form).Want(t, http.StatusUnprocessableEntity, `aria-describedby="e-`+field+`"`)
	}
	first := find(t, invitationField, invite("bia@example.com", "viewer").Want(t, http.StatusOK, "Isto aparece só agora"))
	second := find(t, invitationField, invite("bia@example.com", "finance").Want(t, http.StatusOK))
	bia := s.Browser(t)
	bia.Get(t, first).Want(t, http.StatusNotFound)
	bia.Post(t, second, url.Values{"name": {"Bia"}, "password": {testkit.PasswordOfAll}}).Want(t, http.StatusSeeOther)
	bia.Get(t, x.path+"/team").Want(t, http.StatusOK, "bia@example.com", "Financeiro", "padaria@example.com").Lacks(t, "Convidar", "Alterar")
	invite("bia@example.com", "owner").Want(t, http.StatusUnprocessableEntity, "já está na equipe")
	invite("caio@example.com", "developer").Want(t, http.StatusOK)
	list := x.owner.Get(t, x.path+"/team").Want(t, http.StatusOK, "caio@example.com", "Convites em aberto")
	withdraw := find(t, regexp.MustCompile(`action="(/[^"]+/withdraw)"`), list)
	x.hides(t, other, []string{"POST " + strings.TrimPrefix(withdraw, x.path)})
	x.owner.Get(t, x.path+"/team").Want(t, http.StatusOK, "caio@example.com")
	x.owner.Post(t, withdraw, nil).Want(t, http.StatusSeeOther)
	x.owner.Get(t, x.path+"/team").Want(t, http.StatusOK, "O convite foi cancelado").Lacks(t, "caio@example.com")

	// The row of each has a link to a page of their own.
	person := func(email string) string {
		t.Helper()
		p, err := s.Core.Users.Find(t.Context(), email)
		if err != nil {
			t.Fatal(err)
		}
		return "/team/" + p.ID.String()
	}
	self, her := person("padaria@example.com"), person("bia@example.com")
	role := func(path, role string) *testkit.Shown {
		t.Helper()
		return x.owner.Post(t, x.path+path+"/role", with(x.form(t, path), "role", role, "proof", testkit.PasswordOfAll))
	}
	x.owner.Get(t, x.path+her).Want(t, http.StatusOK, "Bia", `value="finance" selected`, "Remover da equipe")
	role(self, "viewer").Want(t, http.StatusUnprocessableEntity, "precisa de um proprietário")
	x.owner.Post(t, x.path+self+"/remove", nil).Want(t, http.StatusUnprocessableEntity, "precisa de um proprietário")
	x.owner.Post(t, x.path+her+"/role", with(x.form(t, her), "role", "owner", "proof", "guess")).Want(t, http.StatusUnprocessableEntity, `aria-describedby="e-proof"`)
	x.hides(t, other, []string{"GET " + her, "POST " + her + "/role", "POST " + her + "/remove"})
	role(her, "owner").Want(t, http.StatusSeeOther)
	bia.Get(t, x.path+self).Want(t, http.StatusOK) // an owner now

	// Two owners who remove each other at once leave one.
	var running sync.WaitGroup
	left := make(chan string, 2)
	for _, one := range []struct {
		by *testkit.Browser
		of string
	}{{bia, self}, {x.owner, her}} {
		running.Go(func() {
			got, err := one.by.Try(t.Context(), http.MethodPost, x.path+one.of+"/remove", nil, nil)
			if err != nil {
				t.Error(err)
				return
			}
			left <- strconv.Itoa(got.Status)
		})
	}
	running.Wait()
	account := x.account.ID
	members, err := s.Core.Users.Members(t.Context(), account)
	if err != nil || len(members) != 1 || members[0].Role != user.Owner {
		t.Errorf("members %+v, %v: %s %s", members, err, <-left, <-left)
	}
}

// A session whose password was given long ago is not shown the secret of a new app.
func TestOldSessionSeesNoSecret(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, sqltest.SQLite(t))
	x := newShop(t, s, "Padaria")
	x.owner.Get(t, "/security/totp").Want(t, http.StatusOK, "data:image/png")
	err := s.Core.DB.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE session SET created_at = created_at - $1`, (20 * time.Minute).Microseconds())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	x.owner.Get(t, "/security/totp").Want(t, http.StatusOK, "Entrar de novo").Lacks(t, "data:image/png")
	x.owner.Post(t, "/security/totp", url.Values{"code": {"000000"}, "once": {"AAAAAAAAAAAAAAAAAAAAAA"}}).Want(t, http.StatusSeeOther)
}
