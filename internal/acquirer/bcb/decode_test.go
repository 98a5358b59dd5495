package bcb

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/pix"
)

func TestStatuses(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]acquirer.ChargeStatus{
		"ATIVA": acquirer.ChargeActive, "CONCLUIDA": acquirer.ChargePaid, "ativa": acquirer.ChargeActive,
		"REMOVIDA_PELO_USUARIO_RECEBEDOR": acquirer.ChargeRemoved, "REMOVIDO_PELO_USUARIO_RECEBEDOR": acquirer.ChargeRemoved,
		"REMOVIDA_PELO_PSP": acquirer.ChargeRemovedByAcquirer, "REMOVIDO_PELO_PSP": acquirer.ChargeRemovedByAcquirer,
		"EXPIRADA": acquirer.ChargeUnknown, "": acquirer.ChargeUnknown,
	} {
		if got := chargeStatus(s); got != want {
			t.Errorf("%s is %v, want %v", s, got, want)
		}
	}
	for s, want := range map[string]acquirer.RefundStatus{
		"EM_PROCESSAMENTO": acquirer.RefundProcessing, "DEVOLVIDO": acquirer.RefundDone, "NAO_REALIZADO": acquirer.RefundFailed,
		"EM_ANALISE": acquirer.RefundUnknown, "": acquirer.RefundUnknown,
	} {
		if got := refundStatus(s); got != want {
			t.Errorf("%s is %v, want %v", s, got, want)
		}
	}
}

// TestReadCob is about what may differ from the standard without changing what is meant, and what may not.
func TestReadCob(t *testing.T) {
	t.Parallel()
	const least = `{"txid":"abc","valor":{"original":"1.00"},"chave":"k"`
	base := acquirer.Charge{TxID: "abc", Amount: 100, Key: "k"}
	with := func(change func(*acquirer.Charge)) *acquirer.Charge {
		c := base
		change(&c)
		return &c
	}
	created := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	tests := []struct {
		name, members string
		want          *acquirer.Charge // nil when it makes no sense
	}{
		{"least", ``, &base},
		{"unknown members", `,"novo":{"a":[1,2]},"idCob":7`, &base},
		{"unknown status", `,"status":"PAUSADA"`, &base},
		{"status of another type", `,"status":7`, &base},
		{"amount as a number", `,"valor":{"original":1.5}`, with(func(c *acquirer.Charge) { c.Amount = 150 })},
		{"amount without decimals", `,"valor":{"original":"1"}`, &base},
		{"large amount", `,"valor":{"original":"9999999999.99"}`, with(func(c *acquirer.Charge) { c.Amount = 999_999_999_999 })},
		{"zero amount", `,"valor":{"original":"0.00"}`, with(func(c *acquirer.Charge) { c.Amount = 0 })},
		{"numbers as keys", `,"chave":52998224725`, with(func(c *acquirer.Charge) { c.Key = "52998224725" })},
		{"expiry as a string", `,"calendario":{"criacao":"2026-11-15T09:00:00-03:00","expiracao":"60"}`, with(func(c *acquirer.Charge) {
			c.CreatedAt, c.ExpiresAt = created, created.Add(time.Minute)
		})},
		{"expiry of all reason", `,"calendario":{"criacao":"2026-11-15T12:00:00Z","expiracao":99999999999}`, with(func(c *acquirer.Charge) { c.CreatedAt = created })},
		{"a time that is none", `,"calendario":{"criacao":"15/11/2026","expiracao":60}`, &base},
		{"a calendar that is none", `,"calendario":[]`, &base},
		{"only loc", `,"loc":{"location":"https://pix.example/v2/1"}`, with(func(c *acquirer.Charge) { c.Location = "pix.example/v2/1" })},
		{"loc that is none", `,"loc":"x","location":"pix.example/v2/1"`, with(func(c *acquirer.Charge) { c.Location = "pix.example/v2/1" })},
		{"no payments", `,"pix":[]`, &base},
		{"null payments", `,"pix":null`, &base},
		{"one payment without an array", `,"pix":{"endToEndId":"E1","valor":"1.00"}`, with(func(c *acquirer.Charge) {
			c.Payments = []acquirer.Payment{{EndToEndID: "E1", Amount: 100}}
		})},

		{"amount of three decimals", `,"valor":{"original":"1.005"}`, nil},
		{"amount with a comma", `,"valor":{"original":"1,00"}`, nil},
		{"negative amount", `,"valor":{"original":"-1.00"}`, nil},
		{"too large an amount", `,"valor":{"original":"10000000000.00"}`, nil},
		{"amount that is none", `,"valor":{"original":true}`, nil},
		{"value that is none", `,"valor":"1.00"`, nil},
		{"no key", `,"chave":null`, nil},
		{"no txid", `,"txid":""`, nil},
		{"a txid that is a path", `,"txid":"../x"`, nil},
		{"payment without amount", `,"pix":[{"endToEndId":"E1"}]`, nil},
		{"payment of zero", `,"pix":[{"endToEndId":"E1","valor":"0.00"}]`, nil},
		{"payment without id", `,"pix":[{"valor":"1.00"}]`, nil},
		{"payment that is none", `,"pix":[7]`, nil},
	}
	for _, tt := range tests {
		var c cob
		err := json.Unmarshal([]byte(least+tt.members+"}"), &c)
		got, ok := c.charge()
		if err != nil || ok != (tt.want != nil) {
			t.Errorf("%s: got %+v, %v, %v", tt.name, got, ok, err)
			continue
		}
		if ok {
			if diff := cmp.Diff(*tt.want, got); diff != "" {
				t.Errorf("%s: %s", tt.name, diff)
			}
		}
	}
}

func TestReadPayment(t *testing.T) {
	t.Parallel()
	const least = `{"endToEndId":"E1","valor":"1.00"`
	base := acquirer.Payment{EndToEndID: "E1", Amount: 100}
	with := func(change func(*acquirer.Payment)) *acquirer.Payment {
		p := base
		change(&p)
		return &p
	}
	tests := []struct {
		name, members string
		want          *acquirer.Payment
	}{
		{"least", ``, &base},
		{"static txid", `,"txid":"PEDIDO1"`, with(func(p *acquirer.Payment) { p.TxID = "PEDIDO1" })},
		{"no txid", `,"txid":"***"`, &base},
		{"payer of older versions", `,"pagador":{"nome":"Ana","cnpj":"12ABC34501DE35"}`, with(func(p *acquirer.Payment) { p.PayerName, p.PayerDocument = "Ana", "12ABC34501DE35" })},
		{"payer of Efí", `,"gnExtras":{"pagador":{"nome":"A\u0000n\na","cpf":52998224725}}`, with(func(p *acquirer.Payment) { p.PayerName, p.PayerDocument = "Ana", "52998224725" })},
		{"payer that is none", `,"pagador":"Ana","gnExtras":7`, &base},
		{"refund without an array", `,"devolucoes":{"id":"1","valor":0.5,"status":"DEVOLVIDO"}`, with(func(p *acquirer.Payment) {
			p.Refunds = []acquirer.Refund{{ID: "1", Amount: 50, Status: acquirer.RefundDone}}
		})},
		{"refund without an id of ours", `,"devolucoes":[{"rtrId":"D1","valor":"1.00","status":"NOVO"}]`, with(func(p *acquirer.Payment) {
			p.Refunds = []acquirer.Refund{{ID: "D1", ReturnID: "D1", Amount: 100}}
		})},
		{"settled refund", `,"devolucoes":[{"id":"1","valor":"1.00","horario":{"solicitacao":"2026-11-15T12:00:00Z","liquidacao":"2026-11-15T12:00:01Z"}}]`, with(func(p *acquirer.Payment) {
			p.Refunds = []acquirer.Refund{{ID: "1", Amount: 100, At: time.Date(2026, 11, 15, 12, 0, 1, 0, time.UTC)}}
		})},
		{"refund without amount", `,"devolucoes":[{"id":"1"}]`, nil},
		{"refund that is none", `,"devolucoes":["1"]`, nil},
		{"an id that is none", `,"endToEndId":"E-1"`, nil},
	}
	for _, tt := range tests {
		var p payment
		err := json.Unmarshal([]byte(least+tt.members+"}"), &p)
		got, ok := p.payment()
		if err != nil || ok != (tt.want != nil) {
			t.Errorf("%s: got %+v, %v, %v", tt.name, got, ok, err)
			continue
		}
		if ok {
			if diff := cmp.Diff(*tt.want, got); diff != "" {
				t.Errorf("%s: %s", tt.name, diff)
			}
		}
	}
}

func TestReadProblem(t *testing.T) {
	t.Parallel()
	tests := []struct {
		body, code, message string
		readable            bool
	}{
		{problemInvalid, "CobOperacaoInvalida", "Cobrança inválida.; por isso; cob.valor.original é zero", true},
		{problemKey, "CobOperacaoInvalida", "Cobrança inválida.; cob.chave não é sua", true},
		{refusalDuplicate, "txid_duplicado", "Campo txid informado já foi utilizado em outra cobrança", true},
		{denialScope, "insufficient_scope", "Access token has insufficient scope", true},
		{`{"message":"Forbidden"}`, "", "Forbidden", true},
		{`{"type":"about:blank","title":"Nope","violacoes":{"razao":"a","propriedade":"b"}}`, "about:blank", "Nope; b a", true},
		{`{"nome":7,"violacoes":"none"}`, "7", "", true},
		{`{"error":{"code":1}}`, "", "", false},
		{`{}`, "", "", false},
		{`[]`, "", "", false},
		{`null`, "", "", false},
		{html, "", "", false},
		{``, "", "", false},
	}
	for _, tt := range tests {
		p, readable := readProblem([]byte(tt.body))
		if p.code != tt.code || p.message != tt.message || readable != tt.readable {
			t.Errorf("%s: got %+v, %v", tt.body, p, readable)
		}
	}
	if p, _ := readProblem([]byte(problemKey)); !p.names("chave") || p.names("cob") || p.names("have") {
		t.Error("fields are not told apart")
	}
}

func FuzzRead(f *testing.F) {
	for _, s := range []string{
		cobBody("ATIVA"), cobBody("CONCLUIDA", `"pix":[{"endToEndId":"E1","valor":"1.00","devolucoes":{"id":"1","valor":1}}]`),
		problemInvalid, refusalDuplicate, denialScope, html, "", "{", "null", "[]", `"x"`, "7", `{"pix":{}}`, `{"pix":[null]}`, `{"violacoes":[{}]}`,
		`{` + parameters + `{"paginacao":{"quantidadeDePaginas":2}},"pix":[{"endToEndId":"E1","valor":"1.00"}]}`,
		`{"access_token":"x","expires_in":"1e9"}`, `{"access_token":7,"expires_in":-1}`,
	} {
		f.Add([]byte(s))
	}
	client, err := New(Config{
		Name: "alpha", BaseURL: "https://a.example", TokenURL: "https://a.example", ClientID: "id", ClientSecret: testSecret, Key: testKey,
	}, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var c cob
		if json.Unmarshal(body, &c) == nil {
			if charge, ok := c.charge(); ok {
				checkCharge(t, charge)
			}
		}
		var p payment
		if json.Unmarshal(body, &p) == nil {
			if paid, ok := p.payment(); ok {
				checkPayment(t, paid)
			}
		}
		var l paymentList
		if json.Unmarshal(body, &l) == nil {
			if page, ok := l.page(3); ok {
				if len(page.Payments)+page.Unreadable != len(l.Pix) || (page.Next != "" && page.Next != "4") {
					t.Errorf("got %+v", page)
				}
				for _, paid := range page.Payments {
					checkPayment(t, paid)
				}
			}
		}
		if token, life := readToken(body); token != "" && (life <= 0 || life > tokenTimeMax || strings.ContainsAny(token, " \r\n\x00")) {
			t.Errorf("token %q for %v", token, life)
		}
		for _, status := range []int{200, 201, 304, 400, 401, 403, 404, 409, 418, 422, 429, 500, 504} {
			failure := client.judge(Call{Operation: "fuzz"}, answer{status, body})
			if failure == nil {
				if status/100 != 2 {
					t.Errorf("%d is a success", status)
				}
				continue
			}
			if strings.Contains(failure.Error(), testSecret) || strings.Contains(failure.Error(), testKey) || strings.ContainsAny(failure.Error(), "\r\n\x00") {
				t.Errorf("%d: %v", status, failure)
			}
			if failure.Outcome == acquirer.Refused && (status < 400 || status > 499) || failure.Class == acquirer.Business && failure.Outcome != acquirer.Refused {
				t.Errorf("%d: %v", status, failure)
			}
		}
	})
}

func checkCharge(t *testing.T, c acquirer.Charge) {
	t.Helper()
	if !pix.IsTxID(c.TxID) || c.Key == "" || c.Amount < 0 || strings.ContainsAny(c.Key+c.CopyPaste+c.Location, "\x00\r\n") {
		t.Errorf("got %+v", c)
	}
	if !c.ExpiresAt.IsZero() && c.ExpiresAt.Sub(c.CreatedAt).Abs() > math.MaxInt32*time.Second {
		t.Errorf("lives from %v to %v", c.CreatedAt, c.ExpiresAt)
	}
	for _, p := range c.Payments {
		checkPayment(t, p)
	}
}

func checkPayment(t *testing.T, p acquirer.Payment) {
	t.Helper()
	if !pix.IsEndToEndID(p.EndToEndID) || p.Amount <= 0 || (p.TxID != "" && !pix.IsTxID(p.TxID)) || strings.ContainsAny(p.PayerName+p.Key, "\x00\r\n") {
		t.Errorf("got %+v", p)
	}
	for _, r := range p.Refunds {
		if r.ID == "" || r.Amount < 0 {
			t.Errorf("got %+v", r)
		}
	}
}
