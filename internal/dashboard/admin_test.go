package dashboard_test

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/ledger"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/oplog"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
	"github.com/ponte-pay/ponte/internal/testkit"
	"github.com/ponte-pay/ponte/internal/user"
	"github.com/ponte-pay/ponte/internal/webhook"
)

const operatorEmail = "op@example.com"

// newOperator signs an operator in who has a second factor.
func newOperator(t *testing.T, s *testkit.Service) *testkit.Browser {
	t.Helper()
	b := s.Person(t, operatorEmail, 0, "")
	b.AddTOTP(t, s)
	return b
}

// lastEntry fails the test unless the last thing that was done is this, by the operator.
func lastEntry(t *testing.T, s *testkit.Service, action oplog.Action, want string) {
	t.Helper()
	entries, err := oplog.List(t.Context(), s.Core.DB, oplog.Page{Limit: 1})
	if err != nil || len(entries) == 0 {
		t.Fatalf("the log: %+v, %v", entries, err)
	}
	e := entries[0]
	var b strings.Builder
	for _, f := range []oplog.Fields{e.Before, e.After} {
		for _, k := range []string{"status", "kyc", "cash_out_fee", "amount", "state", "role", "operator"} {
			if f[k] != "" {
				b.WriteString(k + "=" + f[k] + " ")
			}
		}
	}
	if got := strings.TrimSpace(b.String() + e.Reason); e.Actor.String() != operatorEmail || e.Action != action || got != want {
		t.Errorf("%s did %s: %q, want %s: %q", e.Actor, e.Action, got, action, want)
	}
}

// exec writes what no operation does.
func exec(t *testing.T, s *testkit.Service, sql string) {
	t.Helper()
	err := s.Core.DB.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, sql)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func createCharge(t *testing.T, s *testkit.Service, a testkit.Account, amount string) {
	t.Helper()
	s.Do(t, testkit.Request{
		Method: http.MethodPost, Path: "/v1/charges", Key: a.Key, Header: http.Header{"Idempotency-Key": {"charge of " + amount}}, Body: `{"amount": ` + amount + `}`,
	}).Want(t, http.StatusCreated)
}

func onceOf(t *testing.T, page *testkit.Shown) string {
	t.Helper()
	found := regexp.MustCompile(`name="once" value="([^"]+)"`).FindStringSubmatch(page.Body)
	if found == nil {
		t.Fatal("the form has no key")
	}
	return found[1]
}

func TestAdminAccount(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		ctx, op := t.Context(), newOperator(t, s)
		open := url.Values{"name": {"Padaria São João"}, "document": {"12345678000195"}, "once": {onceOf(t, op.Get(t, "/admin/accounts"))}}
		made := op.Post(t, "/admin/accounts", open).Want(t, http.StatusOK, "bp_", "Padaria São João")
		if again := op.Post(t, "/admin/accounts", open).Want(t, http.StatusSeeOther); !strings.Contains(made.Body, again.Location) {
			t.Errorf("sent twice, it leads to %s", again.Location)
		}
		op.Post(t, "/admin/accounts", with(open, "name", "")).Want(t, http.StatusUnprocessableEntity, `id="new-name-e"`)
		op.Post(t, "/admin/accounts", with(open, "once", "")).Want(t, http.StatusBadRequest)
		if onceOf(t, made) == open.Get("once") {
			t.Error("the next account would be the same")
		}
		if made.Header.Get("Content-Encoding") != "" {
			t.Error("a page with a secret is compressed")
		}
		found := op.Get(t, "/admin/accounts?q=sao+joao&status=active").Want(t, http.StatusOK, "Padaria São João", "12345678000195")
		number := regexp.MustCompile(`/admin/accounts/(acc_[0-9a-z]{8})`).FindStringSubmatch(found.Body)[1]
		op.Get(t, "/admin/accounts?status=banned").Want(t, http.StatusOK).Lacks(t, "Padaria")
		path := "/admin/accounts/" + number
		op.Get(t, path).Want(t, http.StatusOK, "Padaria São João", "R$\u00a00,00")
		get := func() account.Account {
			t.Helper()
			list, err := s.Core.Accounts.Search(ctx, account.Query{Text: number})
			if err != nil || len(list.Accounts) != 1 {
				t.Fatalf("%+v, %v", list, err)
			}
			return list.Accounts[0]
		}

		// Locked and banned with a reason, and not without.
		op.Post(t, path+"/status", url.Values{"status": {"under_review"}}).Want(t, http.StatusUnprocessableEntity, `aria-describedby="status-reason-e"`)
		op.Post(t, path+"/status", url.Values{"status": {"under_review"}, "reason": {"chargebacks"}}).Want(t, http.StatusSeeOther)
		lastEntry(t, s, oplog.AccountSet, "status=active status=under_review chargebacks")
		op.Post(t, path+"/status", url.Values{"status": {"banned"}, "reason": {"fraud"}}).Want(t, http.StatusSeeOther)
		if got := get().Settings.Status; got != account.StatusBanned {
			t.Errorf("the account is %s", got)
		}

		// What is wrong stands beside its field; what was not touched is not set.
		wrong := url.Values{"was_rate_limit": {"600"}, "rate_limit": {"many"}, "was_cash_in_fee": {"0"}, "cash_in_fee": {"x"}, "was_api_tx_limit": {"none"}, "api_tx_limit": {"0"}}
		op.Post(t, path+"/settings", wrong).Want(t, http.StatusUnprocessableEntity, `id="e-rate_limit"`, `id="e-cash_in_fee"`, `id="e-api_tx_limit"`, `value="many"`)
		s.Set(t, get().ID, "rate_limit=77")
		op.Post(t, path+"/settings", url.Values{
			"was_kyc": {"approved"}, "kyc": {"pending"}, "was_rate_limit": {"600"}, "rate_limit": {"600"}, "was_crypto": {"on"},
			"was_cash_out_fee": {"1.00"}, "cash_out_fee": {"1.000,50"}, "cash_out_fee_rate": {"0,99"}, "was_api_tx_limit": {"none"}, "api_tx_limit": {"1.234,56"},
			"was_disabled_resources": {"none"}, "disabled_resources": {"crypto", "med"}, "reason": {"new contract"},
		}).Want(t, http.StatusSeeOther)
		lastEntry(t, s, oplog.AccountSet, "kyc=approved cash_out_fee=1.00 kyc=pending cash_out_fee=1000.50+0.99% new contract")
		settings := get().Settings
		if settings.RateLimit != 77 || settings.Crypto || settings.APITxLimit != 1234_56 || settings.Disabled.String() != "crypto,med" {
			t.Errorf("settings: %+v", settings)
		}

		// A form that is sent twice moves money once, and none without a code. A code is good for one page.
		proof := func() []string { return []string{"once", onceOf(t, op.Get(t, path)), "proof", op.Code(t)} }
		first := proof()
		adjust := with(url.Values{"currency": {"BRL"}, "amount": {"1.500,00"}, "reason": {"opening"}}, first...)
		op.Post(t, path+"/adjustments", with(adjust, "proof", "000000")).Want(t, http.StatusUnprocessableEntity, `id="adjust-code-e"`, "1.500,00")
		op.Post(t, path+"/adjustments", with(adjust, "proof", "")).Want(t, http.StatusUnprocessableEntity, `id="adjust-code-e"`)
		for range 2 {
			op.Post(t, path+"/adjustments", adjust).Want(t, http.StatusSeeOther)
		}
		lastEntry(t, s, oplog.AccountAdjust, "amount=1500.00 opening")
		op.Post(t, path+"/adjustments", with(adjust, "amount", "99,00")).Want(t, http.StatusUnprocessableEntity, "já foi enviado")
		hold := with(url.Values{"amount": {"100"}, "reason": {"review"}}, first...)
		op.Post(t, path+"/holds", with(hold, "proof", "000000")).Want(t, http.StatusUnprocessableEntity, `id="hold-code-e"`)
		for range 2 {
			op.Post(t, path+"/holds", hold).Want(t, http.StatusSeeOther)
		}
		second := proof()
		adjust = with(url.Values{"currency": {"BRL"}, "amount": {"-0,50"}, "reason": {""}}, second...)
		op.Post(t, path+"/adjustments", adjust).Want(t, http.StatusUnprocessableEntity, `id="adjust-reason-e"`)
		op.Post(t, path+"/adjustments", with(adjust, "reason", "fee")).Want(t, http.StatusSeeOther)
		page := op.Get(t, path).Want(t, http.StatusOK, "R$\u00a01.399,50", "R$\u00a0100,00", "review")
		held := regexp.MustCompile(`value="(hld_[0-9a-z]{26})"`).FindStringSubmatch(page.Body)
		if held == nil {
			t.Fatal("the hold is not shown")
		}
		release := with(url.Values{"hold": {held[1]}}, second...)
		op.Post(t, path+"/holds/release", with(release, "proof", "000000")).Want(t, http.StatusUnprocessableEntity, `id="release-code-0-e"`)
		for range 2 { // the second finds it as it was wished
			op.Post(t, path+"/holds/release", release).Want(t, http.StatusSeeOther)
		}
		lastEntry(t, s, oplog.AccountRelease, "amount=100.00")
		if b, err := ledger.Balances(ctx, s.Core.DB, get().ID, money.CurrencyBRL); err != nil || b.Available != 1499_50 || b.Blocked != 0 {
			t.Errorf("balances: %+v, %v", b, err)
		}
		other := s.Account(t, "Livraria")
		op.Post(t, "/admin/accounts/"+other.ID.String()+"/holds/release", release).Want(t, http.StatusNotFound)
		op.Post(t, path+"/holds/release", with(release, "hold", "hld_nonsense")).Want(t, http.StatusNotFound)

		// Keys and people.
		once := second[1]
		op.Post(t, path+"/keys", url.Values{"once": {once}, "proof": {"000000"}}).Want(t, http.StatusUnprocessableEntity, `id="scopes-e"`)
		op.Post(t, path+"/keys", url.Values{"scopes": {"balance:read"}, "once": {once}, "proof": {"guess"}}).Want(t, http.StatusUnprocessableEntity, `id="key-code-e"`).Lacks(t, "bp_")
		form := with(url.Values{"scopes": {"balance:read", "med:read"}}, second...)
		key := op.Post(t, path+"/keys", form).Want(t, http.StatusOK, "bp_")
		op.Post(t, path+"/keys", form).Want(t, http.StatusUnprocessableEntity, "já criou uma chave").Lacks(t, "bp_")
		prefix := regexp.MustCompile(`value="bp_([0-9a-f]{8})_`).FindStringSubmatch(key.Body)[1]
		op.Post(t, "/admin/accounts/"+other.ID.String()+"/keys/revoke", url.Values{"prefix": {prefix}}).Want(t, http.StatusNotFound)
		op.Post(t, path+"/keys/revoke", url.Values{"prefix": {prefix}}).Want(t, http.StatusSeeOther)
		lastEntry(t, s, oplog.KeyRevoke, "state=works state=revoked")
		op.Post(t, path+"/people", url.Values{"email": {"dono@example.com"}, "role": {"emperor"}, "once": {once}, "proof": {"guess"}}).Want(t, http.StatusUnprocessableEntity)
		op.Post(t, path+"/people", url.Values{"email": {"dono@example.com"}, "role": {"owner"}, "once": {once}, "proof": {"guess"}}).Want(t, http.StatusUnprocessableEntity, `id="invite-code-e"`)
		form = with(url.Values{"email": {"no address"}, "role": {"finance"}}, second...)
		op.Post(t, path+"/people", form).Want(t, http.StatusUnprocessableEntity, `id="invite-email-e"`)
		link := op.Post(t, path+"/people", with(form, "email", "dono@example.com")).Want(t, http.StatusOK, s.URL+"/invitations/")
		lastEntry(t, s, oplog.PersonInvite, "role=finance")
		invitation := regexp.MustCompile(`name="invitation" value="([^"]+)"`).FindStringSubmatch(link.Body)[1]
		op.Post(t, path+"/people/withdraw", url.Values{"invitation": {invitation}}).Want(t, http.StatusSeeOther)
		op.Get(t, path).Lacks(t, `name="invitation"`, "bp_")
		op.Get(t, "/admin/log?account="+number).Want(t, http.StatusOK, "new contract", operatorEmail, "under_review").Lacks(t, "bp_", "whsec_", "/invitations/")
	})
}

// An acquirer that an operator switches off is given nothing new, and the page says why.
func TestAdminAcquirers(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, sqltest.SQLite(t))
	op, shop := newOperator(t, s), s.Account(t, "Padaria")
	op.Get(t, "/admin/acquirers").Want(t, http.StatusOK, "alpha", "beta")
	op.Post(t, "/admin/acquirers/off", url.Values{"acquirer": {"alpha"}}).Want(t, http.StatusUnprocessableEntity, `id="off-alpha-e"`)
	op.Post(t, "/admin/acquirers/off", url.Values{"acquirer": {"gamma"}, "reason": {"x"}}).Want(t, http.StatusNotFound)
	op.Post(t, "/admin/acquirers/off", url.Values{"acquirer": {"alpha"}, "reason": {"perde respostas"}}).Want(t, http.StatusSeeOther)
	lastEntry(t, s, oplog.AcquirerOff, "state=on state=off perde respostas")
	op.Post(t, "/admin/acquirers/off", url.Values{"acquirer": {"alpha"}, "reason": {"de novo"}}).Want(t, http.StatusUnprocessableEntity)
	createCharge(t, s, shop, "10.00")
	op.Get(t, "/admin/acquirers").Want(t, http.StatusOK, "perde respostas", "desligado por um operador", shop.ID.String())
	op.Get(t, "/admin/accounts/"+shop.ID.String()).Want(t, http.StatusOK, "desligado por um operador")
	if books := s.World().Books(t); len(books) != 1 || books[0].Acquirer != "beta" {
		t.Errorf("the charge is at %+v", books)
	}
	s.Adjust(t, shop.ID, money.CurrencyBRL, "500")
	s.Do(t, testkit.Request{
		Method: http.MethodPost, Path: "/v1/payouts", Key: shop.Key, Body: `{"amount": 20, "pix_key": "52998224725", "pix_key_type": "cpf", "external_id": "p1"}`,
	}).Want(t, http.StatusCreated)
	routing, err := sqldb.One(t.Context(), s.Core.DB, sqldb.Scalar[string], `SELECT routing FROM payout WHERE acquirer = 'beta'`)
	if err != nil || !strings.Contains(routing, "passed over: switched off by an operator") {
		t.Errorf("the payout was routed by %s, %v", routing, err)
	}
	for range 2 {
		op.Post(t, "/admin/acquirers/on", url.Values{"acquirer": {"alpha"}}).Want(t, http.StatusSeeOther)
	}
	createCharge(t, s, shop, "11.00")
	// What another process switches counts after the next step.
	if err := s.Core.Switches.Off(t.Context(), "alpha", "by hand"); err != nil {
		t.Fatal(err)
	}
	s.Step(t)
	createCharge(t, s, shop, "12.00")
	at := map[string]string{}
	for _, b := range s.World().Books(t) {
		at[b.Amount] = b.Acquirer
	}
	if at["10.00"] != "beta" || at["11.00"] != "alpha" || at["12.00"] != "beta" {
		t.Errorf("the charges are at %v", at)
	}
}

// What is in doubt or nobody's is shown with what to do, and dismissed with a reason.
func TestAdminMoney(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, sqltest.SQLite(t))
	op, shop := newOperator(t, s), s.Account(t, "Padaria")
	for _, path := range []string{"/admin", "/admin/doubt", "/admin/unmatched", "/admin/infractions", "/admin/deliveries", "/admin/ips", "/admin/people", "/admin/audit", "/admin/log"} {
		op.Get(t, path).Want(t, http.StatusOK, `aria-current="page"`)
	}
	s.Adjust(t, shop.ID, money.CurrencyBRL, "500")
	w := s.World()
	w.Break(t, testkit.Fault{Target: "alpha", Operation: "payout.send", Kind: "lost_executed", Times: 1})
	w.Break(t, testkit.Fault{Target: "alpha", Operation: "payout.get", Kind: "http_500"})
	s.Do(t, testkit.Request{
		Method: http.MethodPost, Path: "/v1/payouts", Key: shop.Key, Body: `{"amount": 120, "pix_key": "52998224725", "pix_key_type": "cpf", "external_id": "p1"}`,
	}).WantError(t, http.StatusGatewayTimeout, "ambiguous_payout_status")
	page := op.Get(t, "/admin/doubt").Want(t, http.StatusOK, "R$\u00a0121,00", shop.ID.String(), "alpha")
	public := regexp.MustCompile(`value="(pyt_[0-9a-z]{26})"`).FindStringSubmatch(page.Body)[1]
	ask := url.Values{"account": {shop.ID.String()}, "id": {public}}
	op.Post(t, "/admin/doubt/ask", ask).Want(t, http.StatusSeeOther)
	op.Get(t, "/admin/doubt").Want(t, http.StatusOK, public, "Continua em dúvida")
	w.Mend(t)
	op.Post(t, "/admin/doubt/ask", ask).Want(t, http.StatusSeeOther)
	op.Get(t, "/admin/doubt").Want(t, http.StatusOK).Lacks(t, public)
	op.Post(t, "/admin/doubt/ask", url.Values{"account": {shop.ID.String()}, "id": {"pyt_x"}}).Want(t, http.StatusNotFound)

	exec(t, s, `INSERT INTO unmatched (acquirer, end_to_end_id, amount, paid_at, found_at, reason) VALUES ('alpha', 'E1', 4200, 1, 1, 'it names no charge of ours')`)
	exec(t, s, `INSERT INTO unmatched_infraction (acquirer, acquirer_id, end_to_end_id, amount, status, opened_at, found_at, reason) VALUES ('alpha', 'I1', 'E1', 4200, 'open', 1, 1, 'nobody''s')`)
	exec(t, s, `INSERT INTO unmatched_deposit (provider, payment_id, amount, found_at, reason) VALUES ('np', 'D1', 5000000, 1, 'nobody''s')`)
	op.Get(t, "/admin/unmatched").Want(t, http.StatusOK, "E1", "I1", "D1", "R$\u00a042,00", "5,00\u00a0USDT")
	for kind, name := range map[string]string{"payment": "E1", "infraction": "I1", "coins": "D1"} {
		op.Post(t, "/admin/unmatched/dismiss", url.Values{"kind": {kind}, "name": {name}}).Want(t, http.StatusUnprocessableEntity, `role="alert"`)
		op.Post(t, "/admin/unmatched/dismiss", url.Values{"kind": {kind}, "name": {name}, "reason": {"devolvido"}}).Want(t, http.StatusSeeOther)
		op.Post(t, "/admin/unmatched/dismiss", url.Values{"kind": {kind}, "name": {name}, "reason": {"de novo"}}).Want(t, http.StatusNotFound)
	}
	op.Post(t, "/admin/unmatched/dismiss", url.Values{"kind": {"other"}, "name": {"x"}, "reason": {"x"}}).Want(t, http.StatusBadRequest)
	op.Get(t, "/admin/unmatched").Lacks(t, ">E1<", ">I1<", ">D1<")
	for _, path := range []string{"/admin/infractions?status=none", "/admin/infractions?after=x", "/admin/log?after=x", "/admin/accounts?after=x", "/admin/deliveries?after=x"} {
		op.Get(t, path).Want(t, http.StatusNotFound)
	}
	op.Get(t, "/admin/infractions?status=open").Want(t, http.StatusOK)
}

// Deliveries that have failed for good are shown and sent again; an endpoint that fails for days is named.
func TestAdminDeliveries(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, sqltest.SQLite(t))
	op, shop := newOperator(t, s), s.Account(t, "Padaria")
	hooks, err := s.Core.Webhooks(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	endpoint, _, err := hooks.Create(t.Context(), shop.ID, webhook.Endpoint{URL: "http://127.0.0.1:1024/hook"})
	if err != nil {
		t.Fatal(err)
	}
	s.Step(t)
	createCharge(t, s, shop, "10.00")
	exec(t, s, `UPDATE delivery SET state = 'parked', owner = NULL, attempt = 6`)
	exec(t, s, `INSERT INTO delivery_attempt (account_id, event_id, endpoint_id, number, at, took, status)
SELECT account_id, event_id, endpoint_id, 6, 1700000000000000, 1000, 503 FROM delivery`)
	exec(t, s, `UPDATE endpoint SET failing_since = 1, version = version + 1`)
	exec(t, s, `UPDATE bookmark SET number = number + 1 WHERE name = 'endpoints'`)
	page := op.Get(t, "/admin/deliveries").Want(t, http.StatusOK, "http://127.0.0.1:1024/hook", shop.ID.String(), "14/11/2023", "#6", "503")
	event := regexp.MustCompile(`value="(evt_[0-9a-z]{26})"`).FindStringSubmatch(page.Body)
	if event == nil {
		t.Fatalf("no delivery is parked: %s", page.Body)
	}
	public := webhook.Prefix.Format(endpoint.ID)
	op.Post(t, "/admin/deliveries/redeliver", url.Values{"event": event[1:], "endpoint": {public}}).Want(t, http.StatusSeeOther)
	op.Get(t, "/admin/deliveries").Lacks(t, event[1])
	op.Post(t, "/admin/deliveries/endpoint", url.Values{"endpoint": {public}}).Want(t, http.StatusSeeOther)
	lastEntry(t, s, oplog.EndpointDisable, "status=active status=disabled")
	op.Post(t, "/admin/deliveries/endpoint", url.Values{"endpoint": {"whk_x"}}).Want(t, http.StatusNotFound)
}

func TestAdminInstallation(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, sqltest.SQLite(t))
	op := newOperator(t, s)
	op.Post(t, "/admin/ips", url.Values{"network": {"everything"}}).Want(t, http.StatusUnprocessableEntity, `id="network-e"`)
	op.Post(t, "/admin/ips", url.Values{"network": {"203.0.113.7/24"}}).Want(t, http.StatusSeeOther)
	op.Get(t, "/admin/ips").Want(t, http.StatusOK, "203.0.113.0/24")
	for range 2 {
		op.Post(t, "/admin/ips/unblock", url.Values{"network": {"203.0.113.0/24"}}).Want(t, http.StatusSeeOther)
	}
	lastEntry(t, s, oplog.IPUnblock, "state=blocked")

	// Nobody locks themselves out here; who is blocked for good sees no page.
	for _, own := range []string{"127.0.0.1", "127.0.0.0/8"} {
		op.Post(t, "/admin/ips", url.Values{"network": {own}}).Want(t, http.StatusUnprocessableEntity, `id="network-e"`)
	}
	block := func(change func(context.Context, string) (netip.Prefix, error)) {
		t.Helper()
		if _, err := change(t.Context(), "127.0.0.1"); err != nil {
			t.Fatal(err)
		}
		s.Step(t)
	}
	block(s.Core.Accounts.Block)
	for _, path := range []string{"/sign-in", "/admin"} {
		op.Get(t, path).Want(t, http.StatusForbidden, "está bloqueado")
	}
	block(s.Core.Accounts.Unblock)

	shop := s.Account(t, "Padaria")
	s.Person(t, "ana@example.com", shop.ID, user.Owner)
	op.Get(t, "/admin/people").Want(t, http.StatusOK, "ana@example.com", operatorEmail)
	// Who has only a cookie gives no power to anybody.
	once := onceOf(t, op.Get(t, "/admin/people"))
	for path, field := range map[string]string{"/admin/people": "invite-code-e", "/admin/people/reset": `reset-code-0-e`} {
		op.Post(t, path, url.Values{"email": {"ana@example.com"}, "once": {once}, "proof": {"guess"}}).
			Want(t, http.StatusUnprocessableEntity, `id="`+field+`"`).Lacks(t, "/invitations/")
	}
	op.Post(t, "/admin/people", url.Values{"email": {"new@example.com"}, "once": {once}, "proof": {op.Code(t)}}).Want(t, http.StatusOK, "/invitations/")
	lastEntry(t, s, oplog.PersonInvite, "operator=yes")
	once = onceOf(t, op.Get(t, "/admin/people"))
	op.Post(t, "/admin/people/reset", url.Values{"email": {"ana@example.com"}, "once": {once}, "proof": {op.Code(t)}}).Want(t, http.StatusOK, "/invitations/")
	for _, oneself := range []string{operatorEmail, " OP@example.com"} {
		op.Post(t, "/admin/people/remove", url.Values{"email": {oneself}}).Want(t, http.StatusConflict)
	}
	op.Get(t, "/admin/people?after=%00").Want(t, http.StatusNotFound)
	op.Post(t, "/admin/people/remove", url.Values{"email": {"ana@example.com"}}).Want(t, http.StatusSeeOther)
	lastEntry(t, s, oplog.PersonRemove, "")
	op.Get(t, "/admin/people").Lacks(t, "ana@example.com")

	s.Adjust(t, shop.ID, money.CurrencyBRL, "5")
	op.Post(t, "/admin/audit", nil).Want(t, http.StatusSeeOther)
	op.Post(t, "/admin/audit", nil).Want(t, http.StatusSeeOther) // the one that waits is shown
	op.Get(t, "/admin/audit").Want(t, http.StatusOK, `hx-trigger="every 1s"`, "começando")
	polled := http.Header{"Hx-Request": {"true"}}
	if again := op.Do(t, http.MethodGet, "/admin/audit", nil, polled).Want(t, http.StatusOK).Header.Get("HX-Refresh"); again != "" {
		t.Errorf("a page is loaded again while the audit runs: %s", again)
	}
	s.Step(t)
	if again := op.Do(t, http.MethodGet, "/admin/audit", nil, polled).Want(t, http.StatusOK).Header.Get("HX-Refresh"); again != "true" {
		t.Error("the page does not learn of the end")
	}
	op.Get(t, "/admin/audit").Want(t, http.StatusOK, "1 de 1", "Tudo fecha").Lacks(t, "hx-trigger")
	exec(t, s, `UPDATE balance SET amount = amount + 1 WHERE currency = 'BRL' AND book = 'available'`)
	op.Post(t, "/admin/audit", nil).Want(t, http.StatusSeeOther)
	s.Step(t)
	op.Get(t, "/admin/audit").Want(t, http.StatusOK, shop.ID.String(), "5.01")
	op.Post(t, "/admin/audit", nil).Want(t, http.StatusSeeOther)
	op.Post(t, "/admin/audit/cancel", nil).Want(t, http.StatusSeeOther)
	op.Get(t, "/admin/audit").Want(t, http.StatusOK, "interrompida")
	lastEntry(t, s, oplog.AuditRun, "")
	op.Get(t, "/admin").Want(t, http.StatusOK, "interrompida")

	began := time.Now()
	page := op.Get(t, "/admin/accounts/"+shop.ID.String())
	if took := time.Since(began); took > time.Second || len(page.Body) > 100_000 {
		t.Errorf("the page of an account has %d bytes and took %v", len(page.Body), took)
	}
}

// Of many keys those that work come first, then what was revoked last, and it is said how many are not shown.
func TestManyKeys(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, sqltest.SQLite(t))
	op, a := newOperator(t, s), s.Account(t, "Padaria")
	var prefixes []string
	for range 31 {
		key := s.Key(t, a.ID, "balance:read")
		prefixes = append(prefixes, strings.Split(key, "_")[1])
		s.Revoke(t, key)
	}
	page := op.Get(t, "/admin/accounts/"+a.ID.String())
	page.Want(t, http.StatusOK, strings.Split(a.Key, "_")[1], prefixes[30], "Mais 2, que são mais antigas, não são mostradas.").Lacks(t, `<span class="mono">`+prefixes[0])
}
