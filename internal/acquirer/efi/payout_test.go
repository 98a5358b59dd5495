package efi_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/acquirer/efi"
	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/money"
)

const token = `{"access_token":"token","token_type":"Bearer","expires_in":3600}`

// client returns Efí at an address.
func client(t *testing.T, address string) *efi.Client {
	t.Helper()
	c, err := efi.New(efi.Config{Name: "efi", Host: address, ClientID: "id", ClientSecret: "secret", Key: "pix@loja.example"}, clock.New(nil))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// answering returns Efí that answers everything but tokens in that way, and what it was asked last.
func answering(t *testing.T, status int, body string) (c *efi.Client, asked func() (n int64, last string)) {
	t.Helper()
	var count atomic.Int64
	var last atomic.Value
	last.Store("")
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/oauth/token" {
			_, _ = io.WriteString(w, token)
			return
		}
		sent, _ := io.ReadAll(r.Body)
		count.Add(1)
		last.Store(r.Method + " " + r.URL.RequestURI() + " " + string(sent))
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return client(t, s.URL), func() (int64, string) { text, _ := last.Load().(string); return count.Load(), text }
}

var newPayout = acquirer.NewPayout{ID: "1abc", Amount: 1234, Key: "52998224725"}

// outcome tells an error in words.
func outcome(err error) string {
	if err == nil {
		return ""
	}
	e := acquirer.As(err)
	words := []string{e.Outcome.String() + " " + e.Class.String()}
	for _, cause := range []error{acquirer.ErrDuplicate, acquirer.ErrNotFound, acquirer.ErrNoFunds, acquirer.ErrTooLate} {
		if errors.Is(err, cause) {
			words = append(words, cause.Error())
		}
	}
	return strings.Join(words, ", ")
}

func TestSendPayout(t *testing.T) {
	t.Parallel()
	const good = `{"idEnvio":"1abc","e2eId":"E09089356202011251226APIff82f2e5","valor":"12.34","horario":{"solicitacao":"2021-11-25T12:26:42.905Z"},"status":"EM_PROCESSAMENTO"}`
	problem := func(kind, field string) string {
		return `{"type":"https://pix.bcb.gov.br/api/v2/error/` + kind + `","title":"x","violacoes":[{"razao":"x","propriedade":"` + field + `"}]}`
	}
	named := func(name string) string { return `{"nome":"` + name + `","mensagem":"x"}` }
	for _, tt := range []struct {
		status int
		body   string
		want   string
	}{
		{201, good, ""},
		{200, good, ""},
		{201, strings.Replace(good, "e2eId", "endToEndId", 1), ""},
		{201, strings.Replace(good, `"12.34"`, `12.34`, 1), ""},
		{201, strings.Replace(good, `"E09089356202011251226APIff82f2e5"`, `null`, 1), ""},
		{201, strings.Replace(good, "EM_PROCESSAMENTO", "REALIZADO", 1), ""},
		{201, strings.Replace(good, "12.34", "12.35", 1), "unknown protocol"},
		{201, strings.Replace(good, "1abc", "1abd", 1), "unknown protocol"},
		{201, strings.Replace(good, `"1abc"`, `null`, 1), "unknown protocol"},
		{201, "", "unknown protocol"},
		{201, "{", "unknown protocol"},
		{201, "[]", "unknown protocol"},
		{204, "", "unknown protocol"},
		{302, "", "unknown protocol"},
		{400, named("chave_invalida"), "refused business"},
		{400, named("chave_nao_pertence_ao_documento"), "refused business"},
		{400, named("documento_bloqueado"), "refused credentials"},
		{400, named("saldo_insuficiente"), "refused business, not enough money at the acquirer"},
		{400, `{"nome":"valor_invalido","mensagem":"Saldo insuficiente para realizar o pagamento"}`, "refused business, not enough money at the acquirer"},
		{400, problem("PixOperacaoInvalida", "favorecido.chave"), "refused business"},
		{400, problem("PixOperacaoInvalida", "pix.favorecido.chave"), "refused business"},
		{400, problem("PixOperacaoInvalida", "pagador.chave"), "refused credentials"},
		{400, problem("PixOperacaoInvalida", "pix.pagador.chave"), "refused credentials"},
		{400, "<html>", "unknown protocol"},
		{401, `{"error":"invalid_token","error_description":"x"}`, "refused credentials"},
		{401, "<html>", "unknown credentials"},
		{403, `{"error":"insufficient_scope","error_description":"x"}`, "refused credentials"},
		{403, "<html>", "unknown credentials"},
		{404, named("chave_favorecido_nao_encontrada"), "refused business"},
		{404, named("rota_inexistente"), "refused protocol"},
		{404, "", "unknown protocol"},
		{405, named("x"), "refused protocol"},
		{408, named("x"), "unknown timeout"},
		{409, named("id_envio_duplicado"), "unknown business, taken by something else"},
		{409, "", "unknown protocol"},
		{418, named("x"), "unknown protocol"},
		{422, named("pagamento_negado"), "refused business"},
		{422, "", "unknown protocol"},
		{429, problem("BaldeFichasVazio", ""), "refused rate_limited"},
		{429, "", "unknown rate_limited"},
		{500, named("erro_aplicacao"), "unknown down"},
		{502, "<html>", "unknown down"},
		{503, problem("ServicoIndisponivel", ""), "unknown down"},
		{504, "", "unknown timeout"},
	} {
		c, asked := answering(t, tt.status, tt.body)
		p, err := c.SendPayout(t.Context(), newPayout)
		if got := outcome(err); got != tt.want {
			t.Errorf("%d %s: %s, want %s: %v", tt.status, tt.body, got, tt.want, err)
		}
		if err == nil && (p.ID != "1abc" || p.Amount != 1234 || p.Key != newPayout.Key || p.Status == acquirer.PayoutUnknown) {
			t.Errorf("%s: got %+v", tt.body, p)
		}
		n, last := asked()
		want := int64(1)
		if tt.status == http.StatusUnauthorized && strings.HasPrefix(tt.body, "{") {
			want = 2 // with another token
		}
		const sent = `PUT /v3/gn/pix/1abc {"valor":"12.34","pagador":{"chave":"pix@loja.example"},"favorecido":{"chave":"52998224725"}}`
		if n != want || last != sent {
			t.Errorf("%d %s: asked %d times, at last by %s", tt.status, tt.body, n, last)
		}
	}
}

// TestSendPayoutOnce closes connections at the worst moments. However a request is lost, it arrives once at most, and is
// never called refused after it has arrived.
func TestSendPayoutOnce(t *testing.T) {
	t.Parallel()
	for name, drop := range map[string]func(c net.Conn){
		"closed":         func(c net.Conn) { _ = c.Close() },
		"reset":          func(c net.Conn) { tcp, _ := c.(*net.TCPConn); _ = tcp.SetLinger(0); _ = c.Close() },
		"half an answer": func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 201 Created\r\nContent-Len"); _ = c.Close() },
		"half a body": func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 201 Created\r\nContent-Length: 99\r\n\r\n{")
			_ = c.Close()
		},
		"no HTTP": func(c net.Conn) { _, _ = io.WriteString(c, "hello\r\n\r\n"); _ = c.Close() },
		"told to come back": func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
			_ = c.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var arrived atomic.Int64
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.URL.Path == "/oauth/token":
					_, _ = io.WriteString(w, token)
				case r.Method == http.MethodGet:
					w.WriteHeader(http.StatusNotFound)
					_, _ = io.WriteString(w, `{"nome":"x"}`)
				default:
					arrived.Add(1)
					_, _ = io.ReadAll(r.Body)
					conn, _, err := http.NewResponseController(w).Hijack()
					if err != nil {
						t.Error(err)
						return
					}
					drop(conn)
				}
			}))
			t.Cleanup(s.Close)
			c := client(t, s.URL)
			for i := range 10 {
				// So that the connection is one that was used before.
				if _, err := c.GetPayout(t.Context(), "1abc"); outcome(err) != "refused business, not found" {
					t.Fatal(err)
				}
				_, err := c.SendPayout(t.Context(), newPayout)
				if err == nil || acquirer.IsRefused(err) || arrived.Load() != int64(i+1) {
					t.Errorf("arrived %d times after %d sends: %v", arrived.Load(), i+1, err)
				}
			}
		})
	}
}

// TestSendPayoutNeverSent has no time to send, or nobody to send to: that is proof.
func TestSendPayoutNeverSent(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, token) }))
	c := client(t, s.URL)
	_, _ = c.GetPayout(t.Context(), "1abc") // so that there is a token
	over, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	if _, err := c.SendPayout(over, newPayout); outcome(err) != "refused timeout" {
		t.Errorf("got %v", err)
	}
	s.Close()
	if _, err := c.SendPayout(t.Context(), newPayout); outcome(err) != "refused down" {
		t.Errorf("got %v", err)
	}
	secure := httptest.NewTLSServer(http.NotFoundHandler()) // whose certificate nobody knows
	t.Cleanup(secure.Close)
	if _, err := client(t, secure.URL).SendPayout(t.Context(), newPayout); outcome(err) != "refused credentials" {
		t.Errorf("got %v", err)
	}
}

func TestGetPayout(t *testing.T) {
	t.Parallel()
	const e2e = "E09089356202210251208APIcdbe38b4"
	documented := fmt.Sprintf(`{"endToEndId":%q,"idEnvio":"1abc","valor":"0.01","chave":"19974764017","status":"REALIZADO",
		"infoPagador":"x","horario":{"solicitacao":"2022-10-26T09:05:32.000Z","liquidacao":"2022-10-26T09:05:31.000Z"},
		"favorecido":{"chave":"francisco@meuemail.com","identificacao":{"nome":"Francisco da Silva","cpf":"***.456.789-**"}}}`, e2e)
	settled := acquirer.Payout{
		ID: "1abc", EndToEndID: e2e, Status: acquirer.PayoutSettled, Amount: 1, Key: "francisco@meuemail.com",
		RecipientName: "Francisco da Silva", AskedAt: time.Date(2022, 10, 26, 9, 5, 32, 0, time.UTC), SettledAt: time.Date(2022, 10, 26, 9, 5, 31, 0, time.UTC),
	}
	change := func(f func(p *acquirer.Payout)) acquirer.Payout {
		p := settled
		f(&p)
		return p
	}
	with := func(old, text string) string { return strings.Replace(documented, old, text, 1) }
	back := time.Date(2022, 10, 27, 9, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name, body string
		want       acquirer.Payout // zero for nonsense
	}{
		{"as documented", documented, settled},
		{"numbers", with(`"0.01"`, `0.01`), settled},
		{"in processing", with("REALIZADO", "EM_PROCESSAMENTO"), change(func(p *acquirer.Payout) { p.Status, p.SettledAt = acquirer.PayoutProcessing, time.Time{} })},
		{"a new word", with("REALIZADO", "AGENDADO"), change(func(p *acquirer.Payout) { p.Status, p.SettledAt = acquirer.PayoutUnknown, time.Time{} })},
		{"failed", with(`"REALIZADO"`, `"NAO_REALIZADO","gnExtras":{"erro":{"codigo":"AC03","origem":"x","motivo":"conta"}}`), change(func(p *acquirer.Payout) {
			p.Status, p.SettledAt, p.Code, p.Reason = acquirer.PayoutFailed, time.Time{}, "AC03", "conta"
		})},
		{"failed without a word", with("REALIZADO", "NAO_REALIZADO"), change(func(p *acquirer.Payout) { p.Status, p.SettledAt = acquirer.PayoutFailed, time.Time{} })},
		{"returned", with(`"infoPagador"`, `"devolucoes":[{"rtrId":"D1","valor":"0.01","horario":"2022-10-27T09:00:00Z"}],"infoPagador"`), change(func(p *acquirer.Payout) {
			p.Returns = []acquirer.Refund{{ID: "D1", ReturnID: "D1", Amount: 1, Status: acquirer.RefundDone, At: back}}
		})},
		{"being returned", with(`"infoPagador"`, `"devolucoes":{"id":"a","rtrId":"D1","valor":0.01,"status":"EM_PROCESSAMENTO","horario":{"solicitacao":"2022-10-27T09:00:00Z"}},"infoPagador"`), change(func(p *acquirer.Payout) {
			p.Returns = []acquirer.Refund{{ID: "a", ReturnID: "D1", Amount: 1, Status: acquirer.RefundProcessing, At: back}}
		})},
		{"to a bank account", with(`"chave":"francisco@meuemail.com","identificacao"`, `"contaBanco"`), change(func(p *acquirer.Payout) { p.Key = "19974764017" })},
		{"a return that makes no sense", with(`"infoPagador"`, `"devolucoes":[{"rtrId":"D1"}],"infoPagador"`), acquirer.Payout{}},
		{"no amount", with(`"0.01"`, `"x"`), acquirer.Payout{}},
		{"less than nothing", with(`"0.01"`, `"-0.01"`), acquirer.Payout{}},
		{"another", with(`"1abc"`, `"1abd"`), acquirer.Payout{}},
		{"none", "{}", acquirer.Payout{}},
	} {
		c, asked := answering(t, http.StatusOK, tt.body)
		got, err := c.GetPayout(t.Context(), "1abc")
		if diff := cmp.Diff(tt.want, got); diff != "" || (tt.want.ID == "") != (outcome(err) == "unknown protocol") {
			t.Errorf("%s: %v\n%s", tt.name, err, diff)
		}
		if _, last := asked(); last != "GET /v2/gn/pix/enviados/id-envio/1abc " {
			t.Errorf("asked by %s", last)
		}
	}
	c, asked := answering(t, http.StatusOK, documented)
	if got, err := c.GetPayoutByEndToEnd(t.Context(), e2e); !cmp.Equal(got, settled) || err != nil {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, last := asked(); last != "GET /v2/gn/pix/enviados/"+e2e+" " {
		t.Errorf("asked by %s", last)
	}
	if _, err := c.GetPayoutByEndToEnd(t.Context(), "E1"); outcome(err) != "unknown protocol" {
		t.Errorf("another end-to-end id: %v", err)
	}
}

func TestListPayoutsAndBalance(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"parametros":{"paginacao":{"quantidadeDePaginas":"2"}},"pix":[{"idEnvio":"a","valor":1},{"idEnvio":"b"},7]}`: "1 2 1 ", //nolint:misspell // Portuguese
		`{"parametros":{},"pix":null}`: "0 0  ", //nolint:misspell // Portuguese
		`{"pix":[]}`:                   "0 0  ",
		`{}`:                           "0 0  unknown protocol",
		`{"pix":7}`:                    "0 0  unknown protocol",
	} {
		c, _ := answering(t, http.StatusOK, body)
		page, err := c.ListPayouts(t.Context(), acquirer.Window{})
		if got := fmt.Sprint(len(page.Payouts), page.Unreadable, page.Next, outcome(err)); strings.ReplaceAll(got, " ", "") != strings.ReplaceAll(want, " ", "") {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
	for body, want := range map[string]money.BRL{
		`{"saldo":"100.00","bloqueios":{"total":"1.00"}}`: 10000, `{"saldo":100}`: 10000, `{"saldo":"-0.01"}`: -1, `{}`: 0, `{"saldo":"x"}`: 0,
	} {
		c, _ := answering(t, http.StatusOK, body)
		if got, err := c.Balance(t.Context()); got != want || (err == nil) != (want != 0) {
			t.Errorf("%s: %v, %v", body, got, err)
		}
	}
}
