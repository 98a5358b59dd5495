package simulator

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/simulator/chainworld"
)

// asMerchant asks the crypto provider as its account.
func (w *world) asMerchant(method, path, body, token string) answer {
	w.tb.Helper()
	a := w.CryptoAccount()
	r := request(w.tb, method, a.BaseURL+path, body)
	r.Header.Set("X-Api-Key", a.APIKey)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return send(w.tb, http.DefaultClient, r)
}

// login returns a token.
func (w *world) login() string {
	w.tb.Helper()
	a := w.CryptoAccount()
	var got struct{ Token string }
	w.asMerchant("POST", "/auth", fmt.Sprintf(`{"email":%q,"password":%q}`, a.Email, a.Password), "").into(w.tb, http.StatusOK, &got)
	return got.Token
}

// invoice is a payment as its creation tells it.
type invoice struct {
	ID      string `json:"payment_id"`
	Address string `json:"pay_address"`
	Memo    string `json:"payin_extra_id"`
	Amount  any    `json:"pay_amount"`
}

func (w *world) invoice(currency string) (i invoice) {
	w.tb.Helper()
	w.asMerchant("POST", "/payment", `{"price_amount":30,"price_currency":"usd","pay_currency":"`+currency+`","order_id":"o-1"}`, "").into(w.tb, http.StatusCreated, &i)
	return i
}

func (w *world) cryptoBooks() (b chainworld.Books) {
	w.tb.Helper()
	w.sim("GET", "/sim/crypto/books", "").into(w.tb, http.StatusOK, &b)
	return b
}

const trxAddress = "TEmGwPeRTPiLFLVfBxXkSP91yc5GMNQhfS"

// TestCryptoAfterRestart opens the books again after each kind of change. Nothing may be missing, ports and secrets
// included.
func TestCryptoAfterRestart(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	w := openWorld(t, folder, standing())
	account := w.CryptoAccount()
	i := w.invoice("xrp")
	w.sim("POST", "/sim/crypto/deposit", fmt.Sprintf(`{"pay_address":%q,"extra_id":%q,"amount":"20"}`, i.Address, i.Memo)).want(t, http.StatusOK, `"status":"confirming"`)
	w.sim("POST", "/sim/clock", `{"advance_seconds":60}`).want(t, http.StatusOK)
	w.sim("POST", "/sim/crypto/deposit", fmt.Sprintf(`{"pay_address":%q,"extra_id":%q,"amount":"7"}`, i.Address, i.Memo)).want(t, http.StatusOK, `"parent_id":"`+i.ID)
	w.sim("POST", "/sim/crypto/currencies/btc", `{"enabled":false}`).want(t, http.StatusOK, `"enabled":false`)
	w.sim("POST", "/sim/crypto/quirks", `{"name":"payouts_as_array"}`).want(t, http.StatusOK, `"payouts_as_array":true`)
	w.sim("POST", "/sim/rates", `{"source":"awesome","off_percent":"10"}`).want(t, http.StatusOK)
	var batch struct{ ID string }
	w.asMerchant("POST", "/payout", `{"withdrawals":[{"address":"`+trxAddress+`","currency":"trx","amount":100,"unique_external_id":"e-1"}]}`, w.login()).into(t, http.StatusOK, &batch)
	w.sim("POST", "/sim/crypto/payouts/e-1/finish", "").want(t, http.StatusOK, `"executions":1`, `"FINISHED"`)
	before := w.cryptoBooks()
	if len(before.Payments) != 2 || len(before.Payouts) != 1 || before.Payouts[0].ID != batch.ID {
		t.Fatalf("the books show %+v", before)
	}
	w.Close()

	again := openWorld(t, folder, standing())
	if diff := cmp.Diff(before, again.cryptoBooks()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(account, again.CryptoAccount()); diff != "" {
		t.Error(diff)
	}
	again.sim("GET", "/sim/crypto/quirks", "").want(t, http.StatusOK, `"payouts_as_array":true`)
	again.asMerchant("GET", "/min-amount?currency_from=btc&currency_to=usdtbsc", "", "").want(t, http.StatusBadRequest, "CURRENCY_UNAVAILABLE")
	again.asMerchant("GET", "/payout/"+batch.ID, "", "").want(t, http.StatusOK, `[{`, `"FINISHED"`)
	if next := again.invoice("xrp"); next.ID == i.ID || next.Address != i.Address || next.Memo == i.Memo {
		t.Errorf("after %+v came %+v", i, next)
	}
}

func TestCryptoControls(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.invoice("btc")
	for _, test := range []struct {
		route, body string
		status      int
		text        string
	}{
		{"deposit", `{}`, 400, `"path":"pay_address"`},
		{"deposit", `{"pay_address":"x","amount":"1"}`, 404, "no payment has this address"},
		{"deposit", `{"pay_address":"` + i.Address + `","amount":"-1"}`, 400, `"path":"amount"`},
		{"deposit", `{"pay_address":"` + i.Address + `","amount":1}`, 400, `"path":"amount"`},
		{"deposit", `{"pay_address":"` + i.Address + `","amount":"1","confirm":"no"}`, 400, `"path":"confirm"`},
		{"deposit", `{"pay_address":"` + i.Address + `","amount":"1","currency":"trx"}`, 422, "cannot be sent"},
		{"charges/5000000099/confirm", ``, 404, "no such payment"},
		{"charges/" + i.ID + "/confirm", ``, 409, "wrong_state"},
		{"charges/" + i.ID + "/refund", ``, 409, "wrong_state"},
		{"payouts/none/finish", ``, 404, "no such payout"},
		{"currencies/nope", `{}`, 404, "no such coin"},
		{"currencies/btc", `{"enabled":1}`, 400, `"path":"enabled"`},
		{"quirks", `{"name":"nope"}`, 400, `"path":"name"`},
	} {
		w.sim("POST", "/sim/crypto/"+test.route, test.body).want(t, test.status, test.text)
	}
	w.sim("POST", "/sim/rates", `{"source":"nope"}`).want(t, 400, `"path":"source"`)
	w.sim("POST", "/sim/rates", `{"source":"awesome","off_percent":"much"}`).want(t, 400, `"path":"off_percent"`)
	w.sim("POST", "/sim/crypto/charges/"+i.ID+"/expire", "").want(t, 200, `"expired"`)
	w.sim("POST", "/sim/crypto/charges/"+i.ID+"/expire", "").want(t, 200, `"expired"`) // as it was wished
	w.sim("GET", "/sim/crypto/account", "").want(t, 200, w.CryptoAccount().BaseURL, `"settlement":"usdtbsc"`)
}

// TestConfirmationsStep lets a second pass at a time.
func TestConfirmationsStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	i := w.invoice("trx")
	w.sim("POST", "/sim/crypto/deposit", `{"pay_address":"`+i.Address+`","amount":"1"}`).want(t, 200)
	for _, status := range []string{"confirming", "confirmed", "sending", "partially_paid"} {
		w.asMerchant("GET", "/payment/"+i.ID, "", "").want(t, 200, `"payment_status":"`+status+`"`, `"payment_id":`+i.ID)
		w.sim("POST", "/sim/clock", `{"advance_seconds":1}`).want(t, 200)
	}
	manual := openWith(t, Options{Data: t.TempDir(), Clock: standing(), SettleAfter: Manual})
	i = manual.invoice("trx")
	manual.sim("POST", "/sim/crypto/deposit", `{"pay_address":"`+i.Address+`","amount":"1000"}`).want(t, 200)
	manual.sim("POST", "/sim/clock", `{"advance_seconds":1000}`).want(t, 200)
	manual.asMerchant("GET", "/payment/"+i.ID, "", "").want(t, 200, `"confirming"`)
	manual.sim("POST", "/sim/crypto/charges/"+i.ID+"/confirm", "").want(t, 200, `"finished"`)
}

// TestProviderDoors are who gets in where.
func TestProviderDoors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.CryptoAccount()
	send(t, http.DefaultClient, request(t, "GET", a.BaseURL+"/status", "")).want(t, 200, "OK")
	send(t, http.DefaultClient, request(t, "GET", a.BaseURL+"/balance", "")).want(t, 403, "INVALID_API_KEY")
	w.asMerchant("GET", "/payment/?limit=10", "", "").want(t, 401, "AUTH_REQUIRED")
	w.asMerchant("GET", "/payment/?limit=10", "", "a.b.c").want(t, 401, "INVALID_TOKEN")
	token := w.login()
	w.asMerchant("GET", "/payment/?limit=10", "", token).want(t, 200, `"data":[]`)
	w.asMerchant("GET", "/payment/?limit=501", "", token).want(t, 400, "limit")
	w.asMerchant("GET", "/payout?limit=10", "", token).want(t, 200, `"payouts":[]`)
	w.sim("POST", "/sim/clock", `{"advance_seconds":300}`).want(t, 200)
	w.asMerchant("GET", "/payment/?limit=10", "", token).want(t, 401, "expired")
	w.asMerchant("POST", "/auth", `{"email":"x","password":"y"}`, "").want(t, 403, "ACCESS_DENIED")
	w.asMerchant("GET", "/nothing", "", "").want(t, 404, "NOT_FOUND")
	w.asMerchant("GET", "/balance", "", "").want(t, 200, `"usdtbsc":{"amount":1000000,`, `"btc"`, `"ltc"`, `"trx"`, `"usdterc20"`)
	w.asMerchant("POST", "/payment", `{"price_amount":30,"price_currency":"usdt","pay_currency":"trx"}`, "").want(t, 500, "Can not get estimate")
}

// TestRates reads both sources, makes them wrong, and breaks them.
func TestRates(t *testing.T) {
	t.Parallel()
	w := openWorld(t, t.TempDir(), clock.New(nil))
	base := w.CryptoAccount().RatesURL
	get := func(path string) answer {
		t.Helper()
		return send(t, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, request(t, "GET", base+path, ""))
	}
	const awesome, gecko = "/awesome/json/last/USD-BRL", "/coingecko/api/v3/simple/price?ids=tether&vs_currencies=usd,brl&include_last_updated_at=true"
	get(awesome).want(t, 200, `"USDBRL":{`, `"bid":"5.4`, `"ask":"5.4`)
	get(gecko).want(t, 200, `"tether":{`, `"brl":5.4`, `"usd":0.999`)
	w.sim("POST", "/sim/rates", `{"source":"awesome","off_percent":"10"}`).want(t, 200)
	get(awesome).want(t, 200, `"bid":"5.9`)
	w.sim("POST", "/sim/rates", `{"source":"awesome","stale_seconds":100000}`).want(t, 200)
	get(awesome).want(t, 200, fmt.Sprintf(`"timestamp":"%d`, (w.clock.Now().Unix()-100000)/1000))
	w.sim("POST", "/sim/faults", `{"target":"rates","operation":"coingecko","kind":"http_500"}`).want(t, 200)
	get(awesome).want(t, 200)
	get(gecko).want(t, 500)
	get(gecko).want(t, 200)
	w.sim("POST", "/sim/faults", `{"target":"rates","kind":"refuse"}`).want(t, 200)
	if got, err := try(http.DefaultClient, request(t, "GET", base+gecko, "")); err == nil {
		t.Errorf("got %+v", got)
	}
	w.asMerchant("GET", "/status", "", "").want(t, 200) // another door
	w.sim("DELETE", "/sim/faults", "").want(t, 200)
	get(gecko).want(t, 200)
}

// TestPricesMove is about prices that differ from one moment to the next, by little, and are the same at the same moment.
func TestPricesMove(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const path = "/estimate?amount=1000&currency_from=usd&currency_to=btc"
	seen := map[string]bool{}
	for range 20 {
		first := w.asMerchant("GET", path, "", "")
		if again := w.asMerchant("GET", path, "", ""); again.body != first.body {
			t.Errorf("%s, and then %s", first.body, again.body)
		}
		first.want(t, 200, `"estimated_amount":0.0105`)
		seen[first.body] = true
		w.sim("POST", "/sim/clock", `{"advance_seconds":10}`).want(t, 200)
	}
	if len(seen) < 5 {
		t.Errorf("%d prices in 200 seconds", len(seen))
	}
}

func TestWalletOfThePage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sim("GET", "/", "").want(t, 200, "Carteira de criptomoedas", "Ainda não há depósitos", "Ainda não há saques", "<option>crypto</option>", "<option>rates</option>")
	i := w.invoice("ltc")
	w.sim("GET", "/", "").want(t, 200, i.Address, "à espera", "ltc")
	w.follow("/carteira", url.Values{"endereco": {" " + i.Address + " "}, "quantia": {"0,5"}}).want(t, 200, "As moedas estão a caminho.", "confirmando")
	w.sim("POST", "/sim/clock", `{"advance_seconds":10}`).want(t, 200)
	w.sim("GET", "/", "").want(t, 200, "paga", "Chegaram 0.5 ltc")
	w.follow("/carteira/devolver", url.Values{"id": {i.ID}}).want(t, 200, "devolvida")
	w.form("/carteira", url.Values{"endereco": {"nope"}, "quantia": {"1"}}).want(t, 404, "Nenhum depósito tem esse endereço")
	w.form("/carteira", url.Values{"endereco": {i.Address}, "quantia": {"x"}}).want(t, 400, "Confira o campo valor")

	w.asMerchant("POST", "/payout", `{"withdrawals":[{"address":"`+trxAddress+`","currency":"trx","amount":100,"unique_external_id":"e-1"}]}`, w.login()).want(t, 200)
	w.sim("GET", "/", "").want(t, 200, "à espera do código", trxAddress, "Concluir")
	w.follow("/carteira/saques/falhar", url.Values{"id": {"e-1"}}).want(t, 200, "em dúvida")
	w.follow("/carteira/saques/concluir", url.Values{"id": {"e-1"}}).want(t, 200, "As moedas foram enviadas.")
	w.form("/carteira/saques/rejeitar", url.Values{"id": {"e-1"}}).want(t, 400, "já não pode")
	w.follow("/falhas", url.Values{"alvo": {"crypto"}, "operacao": {"payment.create"}, "tipo": {"http_500"}}).want(t, 200, "crypto: responder erro 500 em criar depósito cripto")
}

// TestServeChain lets the world run by itself: coins are confirmed and a receiver is told.
func TestServeChain(t *testing.T) {
	t.Parallel()
	w := openWorld(t, t.TempDir(), clock.New(nil))
	got := make(chan string, 100)
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		got <- r.Header.Get("X-Nowpayments-Sig")
		rw.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(server.Close)
	go func() { _ = w.Serve(t.Context()) }()
	var i invoice
	w.asMerchant("POST", "/payment", `{"price_amount":30,"price_currency":"usd","pay_currency":"trx","ipn_callback_url":"`+server.URL+`"}`, "").into(t, 201, &i)
	w.sim("POST", "/sim/crypto/deposit", `{"pay_address":"`+i.Address+`","amount":"500"}`).want(t, 200)
	w.sim("POST", "/sim/clock", `{"advance_seconds":10}`).want(t, 200)
	for range 5 {
		select {
		case signature := <-got:
			if len(signature) != 128 || strings.ToLower(signature) != signature {
				t.Errorf("signed with %q", signature)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("a notification is missing")
		}
	}
}
