package bcb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ponte-pay/ponte/internal/acquirer"
)

var wantCharge = acquirer.Charge{
	TxID: testTxID, Status: acquirer.ChargeActive, Amount: 1234, Key: testKey, CopyPaste: "a code", Location: "pix.example/qr/v2/7",
	CreatedAt: time.Date(2026, 11, 15, 12, 0, 0, 500_000_000, time.UTC), ExpiresAt: time.Date(2026, 11, 15, 13, 0, 0, 500_000_000, time.UTC),
}

func TestCreateCharge(t *testing.T) {
	t.Parallel()
	b := newBank(t, nil, always(reply{201, cobBody("ATIVA")}))
	c, _ := b.client(t)
	got, err := c.CreateCharge(t.Context(), newCharge)
	if diff := cmp.Diff(wantCharge, got); diff != "" || err != nil {
		t.Fatalf("%v\n%s", err, diff)
	}
	if len(b.requests) != 1 || len(b.tokens) != 1 {
		t.Fatalf("the bank saw %v and %v", b.requests, b.tokens)
	}
	r := b.requests[0]
	want := `{"calendario":{"expiracao":3600},"valor":{"original":"12.34"},"chave":"pix@loja.example","solicitacaoPagador":"Pedido 42"}`
	if r.line != "PUT /v2/cob/"+testTxID || r.body != want {
		t.Errorf("the bank saw %s %s", r.line, r.body)
	}
	for name, value := range map[string]string{"Authorization": "Bearer token-1", "Content-Type": "application/json", "Accept": "application/json", "User-Agent": "ponte"} {
		if got := r.header.Get(name); got != value {
			t.Errorf("%s: %s, want %s", name, got, value)
		}
	}
}

func TestDebtor(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, document, want string }{
		{"Ana", "52998224725", `{"cpf":"52998224725","nome":"Ana"}`},
		{" Ana ", "529.982.247-25", `{"cpf":"52998224725","nome":"Ana"}`},
		{"Loja", "11222333000181", `{"cnpj":"11222333000181","nome":"Loja"}`},
		{"Loja", "12ABC34501DE35", `{"cnpj":"12ABC34501DE35","nome":"Loja"}`},
		{"Ana", "", "null"},
		{"", "52998224725", "null"},
		{"Ana", "52998224726", "null"},
		{"Ana", "1", "null"},
		{strings.Repeat("é", 201), "52998224725", `{"cpf":"52998224725","nome":"` + strings.Repeat("é", 200) + `"}`},
	}
	for _, tt := range tests {
		got, _ := json.Marshal(debtor(acquirer.NewCharge{PayerName: tt.name, PayerDocument: tt.document}))
		if string(got) != tt.want {
			t.Errorf("%s, %s: got %s, want %s", tt.name, tt.document, got, tt.want)
		}
	}
}

func TestCreateChargeRefusesWhatIsNone(t *testing.T) {
	t.Parallel()
	b := newBank(t, nil, always(reply{201, cobBody("ATIVA")}))
	c, _ := b.client(t)
	for name, change := range map[string]func(*acquirer.NewCharge){
		"short txid": func(n *acquirer.NewCharge) { n.TxID = "short" },
		"a path":     func(n *acquirer.NewCharge) { n.TxID = "../../../../../../../../../../aaa" },
		"no amount":  func(n *acquirer.NewCharge) { n.Amount = 0 },
		"no time":    func(n *acquirer.NewCharge) { n.ExpiresIn = time.Millisecond },
	} {
		n := newCharge
		change(&n)
		if _, err := c.CreateCharge(t.Context(), n); outcome(err) != "refused business" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if lines, tokens := b.lines(); lines != nil || tokens != 0 {
		t.Errorf("the bank saw %v", lines)
	}
}

// Refusals in the shapes that acquirers mix.
const (
	problemInvalid   = `{"type":"https://pix.bcb.gov.br/api/v2/error/CobOperacaoInvalida","title":"Cobrança inválida.","status":400,"detail":"por isso","violacoes":[{"razao":"é zero","propriedade":"cob.valor.original","valor":"0.00"}]}`
	problemKey       = `{"type":"https://pix.bcb.gov.br/api/v2/error/CobOperacaoInvalida","title":"Cobrança inválida.","violacoes":[{"razao":"não é sua","propriedade":"cob.chave"}]}`
	problemNotFound  = `{"type":"https://pix.bcb.gov.br/api/v2/error/CobNaoEncontrado","title":"Não encontrada.","status":404}`
	problemDenied    = `{"type":"https://pix.bcb.gov.br/api/v2/error/AcessoNegado","title":"Acesso Negado","status":403}`
	refusalDuplicate = `{"nome":"txid_duplicado","mensagem":"Campo txid informado já foi utilizado em outra cobrança"}`
	denialScope      = `{"error":"insufficient_scope","error_description":"Access token has insufficient scope"}`
	denialToken      = `{"error":"invalid_token","error_description":"expired"}`
	html             = `<html><body><h1>Bad Gateway</h1></body></html>`
)

// TestCreateChargeOutcomes says what each pair of answers means: that of the creation, and that of the look that follows
// if the first is no proof or may mean that the txid is taken.
func TestCreateChargeOutcomes(t *testing.T) {
	t.Parallel()
	same, other := cobBody("ATIVA"), strings.Replace(cobBody("ATIVA"), "12.34", "12.35", 1)
	otherKey := strings.Replace(cobBody("ATIVA"), testKey, "other@loja.example", 1)
	notFound := reply{404, problemNotFound}
	down := reply{503, html}
	lost := reply{}
	tests := []struct {
		name     string
		put, get reply
		want     string // outcome and class, "" for success
		code     string
		cause    error
		looked   bool
	}{
		{"accepted", reply{201, same}, lost, "", "", nil, false},
		{"accepted with 200", reply{200, same}, lost, "", "", nil, false},

		{"refused", reply{400, problemInvalid}, notFound, "refused business", "CobOperacaoInvalida", nil, true},
		{"refused, and the look fails", reply{400, problemInvalid}, down, "refused business", "CobOperacaoInvalida", nil, true},
		{"refused with 422", reply{422, `{"nome":"valor_invalido"}`}, notFound, "refused business", "valor_invalido", nil, true},
		{"our key is refused", reply{400, problemKey}, lost, "refused credentials", "CobOperacaoInvalida", nil, false},
		{"denied", reply{403, problemDenied}, lost, "refused credentials", "AcessoNegado", nil, false},
		{"scope", reply{403, denialScope}, lost, "refused credentials", "insufficient_scope", nil, false},
		{"unauthorized", reply{401, ""}, lost, "refused credentials", "", nil, false},
		{"expired by another status", reply{403, denialToken}, lost, "refused credentials", "invalid_token", nil, false},
		{"too often", reply{429, `{"nome":"limite"}`}, lost, "refused rate_limited", "limite", nil, false},
		{"wrong address", reply{404, problemNotFound}, lost, "refused protocol", "CobNaoEncontrado", nil, false},
		{"method", reply{405, `{"message":"Method not allowed"}`}, lost, "refused protocol", "", nil, false},

		{"duplicate of the same", reply{409, refusalDuplicate}, reply{200, same}, "", "", nil, true},
		{"duplicate in other words", reply{400, problemInvalid}, reply{200, same}, "", "", nil, true},
		{"duplicate of another amount", reply{409, refusalDuplicate}, reply{200, other}, "refused business", "txid_duplicado", acquirer.ErrDuplicate, true},
		{"duplicate of another key", reply{409, refusalDuplicate}, reply{200, otherKey}, "refused business", "txid_duplicado", acquirer.ErrDuplicate, true},
		{"duplicate of one that was paid", reply{409, refusalDuplicate}, reply{200, cobBody("CONCLUIDA")}, "", "", nil, true},
		{"duplicate of one that was removed", reply{409, refusalDuplicate}, reply{200, cobBody("REMOVIDO_PELO_PSP")}, "refused business", "", acquirer.ErrDuplicate, true},
		{"duplicate that cannot be found", reply{409, refusalDuplicate}, notFound, "refused business", "txid_duplicado", acquirer.ErrDuplicate, true},
		{"duplicate that cannot be looked at", reply{409, refusalDuplicate}, lost, "refused business", "txid_duplicado", acquirer.ErrDuplicate, true},

		{"500 and executed", reply{500, html}, reply{200, same}, "", "", nil, true},
		{"500 and not there", reply{500, problemInvalid}, notFound, "unknown down", "CobOperacaoInvalida", nil, true},
		{"500 and another is there", reply{500, html}, reply{200, other}, "refused business", "", acquirer.ErrDuplicate, true},
		{"503", down, down, "unknown down", "", nil, true},
		{"504", reply{504, html}, notFound, "unknown timeout", "", nil, true},
		{"408", reply{408, `{"error":"timeout"}`}, notFound, "unknown timeout", "timeout", nil, true},
		{"lost and executed", lost, reply{200, same}, "", "", nil, true},
		{"lost and not there", lost, notFound, "unknown down", "", nil, true},
		{"lost and lost again", lost, lost, "unknown down", "", nil, true},
		{"garbage and executed", reply{200, "}{"}, reply{200, same}, "", "", nil, true},
		{"garbage and garbage", reply{200, "}{"}, reply{200, "}{"}, "unknown protocol", "", nil, true},
		{"empty and executed", reply{201, ""}, reply{200, same}, "", "", nil, true},
		{"another amount in the answer", reply{201, other}, notFound, "unknown protocol", "", nil, true},
		{"another charge in the answer", reply{201, strings.Replace(same, testTxID, "2"+testTxID[1:], 1)}, notFound, "unknown protocol", "", nil, true},
		{"no code to pay", reply{201, strings.Replace(same, "a code", "", 1)}, notFound, "unknown protocol", "", nil, true},
		{"no code at all", reply{201, strings.Replace(same, "a code", "", 1)}, reply{200, strings.Replace(same, "a code", "", 1)}, "unknown protocol", "", nil, true},
		{"too long a code", reply{201, strings.Replace(same, "a code", strings.Repeat("x", 513), 1)}, notFound, "unknown protocol", "", nil, true},

		// Without words that can be read it may be anybody's status.
		{"bare 400", reply{400, html}, notFound, "unknown protocol", "", nil, true},
		{"bare 400 and executed", reply{400, ""}, reply{200, same}, "", "", nil, true},
		{"bare 403", reply{403, html}, notFound, "unknown credentials", "", nil, true},
		{"bare 409", reply{409, "[]"}, notFound, "unknown protocol", "", nil, true},
		{"bare 429", reply{429, "slow down"}, notFound, "unknown rate_limited", "", nil, true},
		{"a bare 404 finds nothing out", lost, reply{404, html}, "unknown down", "", nil, true},
		{"teapot", reply{418, problemInvalid}, notFound, "unknown protocol", "CobOperacaoInvalida", nil, true},
		{"not modified", reply{304, ""}, notFound, "unknown protocol", "", nil, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBank(t, nil, func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					tt.get.write(w)
					return
				}
				tt.put.write(w)
			})
			c, _ := b.client(t)
			got, err := c.CreateCharge(t.Context(), newCharge)
			if outcome(err) != tt.want {
				t.Fatalf("got %q, want %q: %v", outcome(err), tt.want, err)
			}
			if err == nil && (got.TxID != testTxID || got.Amount != 1234 || got.CopyPaste != "a code") {
				t.Errorf("got %+v", got)
			}
			if err != nil {
				e := acquirer.As(err)
				if e.Acquirer != "alpha" || e.Operation != "charge.create" || e.Code != tt.code {
					t.Errorf("got %+v", e)
				}
				for _, cause := range []error{acquirer.ErrDuplicate, acquirer.ErrNotFound} {
					if errors.Is(err, cause) != errors.Is(tt.cause, cause) {
						t.Errorf("%v: is %q: %v", err, cause, errors.Is(err, cause))
					}
				}
			}
			lines, _ := b.lines()
			if looked := strings.HasPrefix(lines[len(lines)-1], "GET /v2/cob/"+testTxID); looked != tt.looked {
				t.Errorf("the bank saw %v", lines)
			}
		})
	}
}

// TestCreateChargeTimeout shows that time is left to look up what hangs.
func TestCreateChargeTimeout(t *testing.T) {
	t.Parallel()
	wait := hanging(t)
	for name, get := range map[string]reply{"": {200, cobBody("ATIVA")}, "unknown timeout": {404, problemNotFound}} {
		b := newBank(t, nil, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPut {
				wait(w, r)
				return
			}
			get.write(w)
		})
		c, _ := b.client(t)
		if c.limits != (limits{5 * time.Second, 4 * time.Second}) {
			t.Errorf("the limits are %v", c.limits)
		}
		c.limits.create = time.Second // enough to send it, on a machine that does much else
		haveToken(t, c)
		if _, err := c.CreateCharge(t.Context(), newCharge); outcome(err) != name {
			t.Errorf("got %q, want %q: %v", outcome(err), name, err)
		}
	}
}

// TestTryTimeMax shows that no operation outlives its time, whichever part of it hangs.
func TestTryTimeMax(t *testing.T) {
	t.Parallel()
	operations := map[string]func(context.Context, *Client) error{
		"create": func(ctx context.Context, c *Client) error { _, err := c.CreateCharge(ctx, newCharge); return err },
		"get":    func(ctx context.Context, c *Client) error { _, err := c.GetCharge(ctx, testTxID); return err },
		"remove": func(ctx context.Context, c *Client) error { return c.RemoveCharge(ctx, testTxID) },
		"pix":    func(ctx context.Context, c *Client) error { _, err := c.GetPayment(ctx, testE2E); return err },
		"list": func(ctx context.Context, c *Client) error {
			_, err := c.ListPayments(ctx, acquirer.Window{})
			return err
		},
		"hook": func(ctx context.Context, c *Client) error { return c.SetWebhook(ctx, "https://ponte.example/hook") },
	}
	slowBody := func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_, _ = fmt.Fprint(w, `{"txid":`)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	banks := map[string]struct {
		token, api http.HandlerFunc
		want       string
	}{
		"the API hangs":   {nil, hanging(t), "unknown timeout"},
		"its body hangs":  {nil, slowBody, "unknown timeout"},
		"the tokens hang": {hanging(t), nil, "refused timeout"},
		"half a token":    {slowBody, nil, "refused timeout"},
	}
	for place, side := range banks {
		for name, operation := range operations {
			t.Run(place+" "+name, func(t *testing.T) {
				t.Parallel()
				c, k := newBank(t, side.token, side.api).client(t)
				if side.token == nil {
					haveToken(t, c)
				}
				c.limits = limits{try: 250 * time.Millisecond, create: 200 * time.Millisecond}
				began := k.Real()
				err := operation(background(t), c)
				if took := k.RealSince(began); outcome(err) != side.want || took > 5*time.Second {
					t.Errorf("after %v: %v", took, err)
				}
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v does not come from the limit", err)
				}
			})
		}
	}
}

// TestCodeFromLocation is for acquirers that leave the code to us.
func TestCodeFromLocation(t *testing.T) {
	t.Parallel()
	without := strings.Replace(cobBody("ATIVA"), `"pixCopiaECola":"a code"`, `"pixCopiaECola":null`, 1)
	b := newBank(t, nil, always(reply{201, without}))
	c, _ := b.client(t, func(c *Config) { c.ReceiverName, c.ReceiverCity = "Loja do Zé", "São Paulo" })
	got, err := c.CreateCharge(t.Context(), newCharge)
	want := "00020101021226410014br.gov.bcb.pix2519pix.example/qr/v2/75204000053039865802BR5910Loja do Ze6009Sao Paulo62070503***6304"
	if err != nil || !strings.HasPrefix(got.CopyPaste, want) {
		t.Errorf("got %s, %v", got.CopyPaste, err)
	}
	// What cannot be a code's address.
	b = newBank(t, nil, always(reply{201, strings.ReplaceAll(without, "pix.example/qr/v2/7", "nowhere")}))
	c, _ = b.client(t, func(c *Config) { c.ReceiverName, c.ReceiverCity = "Loja", "SP" })
	if got, err := c.CreateCharge(t.Context(), newCharge); outcome(err) != "unknown protocol" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestGetCharge(t *testing.T) {
	t.Parallel()
	paid := cobBody("CONCLUIDA", `"pix":[{"endToEndId":"`+testE2E+`","txid":"`+testTxID+`","valor":"12.34","horario":"2026-11-15T09:01:02.345-03:00","chave":"pix@loja.example",
		"gnExtras":{"pagador":{"nome":"Ana","cpf":"***982247**"}},
		"devolucoes":{"id":"r1","rtrId":"D9000000120261115120000000000001","valor":2.3,"horario":{"solicitacao":"2026-11-15T12:05:00Z"},"status":"EM_PROCESSAMENTO"}}]`)
	b := newBank(t, nil, always(reply{200, paid}))
	c, _ := b.client(t)
	got, err := c.GetCharge(t.Context(), testTxID)
	want := wantCharge
	want.Status = acquirer.ChargePaid
	want.Payments = []acquirer.Payment{{
		EndToEndID: testE2E, TxID: testTxID, Amount: 1234, Key: testKey, PaidAt: time.Date(2026, 11, 15, 12, 1, 2, 345_000_000, time.UTC),
		PayerName: "Ana", PayerDocument: "***982247**",
		Refunds: []acquirer.Refund{{
			ID: "r1", ReturnID: "D9000000120261115120000000000001", Amount: 230, Status: acquirer.RefundProcessing, At: time.Date(2026, 11, 15, 12, 5, 0, 0, time.UTC),
		}},
	}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestReads(t *testing.T) {
	t.Parallel()
	pixBody := `{"endToEndId":"` + testE2E + `","valor":"12.34"}`
	charge := func(ctx context.Context, c *Client) error { _, err := c.GetCharge(ctx, testTxID); return err }
	payment := func(ctx context.Context, c *Client) error { _, err := c.GetPayment(ctx, testE2E); return err }
	list := func(ctx context.Context, c *Client) error {
		_, err := c.ListPayments(ctx, acquirer.Window{})
		return err
	}
	tests := []struct {
		name  string
		read  func(context.Context, *Client) error
		reply reply
		want  string
		found bool // false where the error must be ErrNotFound
	}{
		{"charge", charge, reply{200, cobBody("ATIVA")}, "", true},
		{"charge not found", charge, reply{404, problemNotFound}, "refused business", false},
		{"charge gone", charge, reply{410, problemNotFound}, "refused business", false},
		{"charge nowhere", charge, reply{404, html}, "unknown protocol", true},
		{"another charge", charge, reply{200, strings.Replace(cobBody("ATIVA"), testTxID, "2"+testTxID[1:], 1)}, "unknown protocol", true},
		{"the same in capitals", charge, reply{200, strings.Replace(cobBody("ATIVA"), testTxID, strings.ToUpper(testTxID), 1)}, "", true},
		{"charge without amount", charge, reply{200, strings.Replace(cobBody("ATIVA"), "12.34", "12.345", 1)}, "unknown protocol", true},
		{"negative charge", charge, reply{200, strings.Replace(cobBody("ATIVA"), "12.34", "-12.34", 1)}, "unknown protocol", true},
		{"charge with a payment that makes no sense", charge, reply{200, cobBody("CONCLUIDA", `"pix":[{"endToEndId":"E1","valor":"x"}]`)}, "unknown protocol", true},
		{"charge with payments that are none", charge, reply{200, cobBody("CONCLUIDA", `"pix":"one"`)}, "unknown protocol", true},
		{"payment", payment, reply{200, pixBody}, "", true},
		{"payment not found", payment, reply{404, `{"nome":"pix_nao_encontrado"}`}, "refused business", false},
		{"another payment", payment, reply{200, strings.Replace(pixBody, testE2E, "E1", 1)}, "unknown protocol", true},
		{"payment with half a refund", payment, reply{200, strings.Replace(pixBody, `}`, `,"devolucoes":[{"id":"r1"}]}`, 1)}, "unknown protocol", true},
		{"payment with refunds that are none", payment, reply{200, strings.Replace(pixBody, `}`, `,"devolucoes":7}`, 1)}, "unknown protocol", true},
		{"list", list, reply{200, `{` + parameters + `{},"pix":[]}`}, "", true},
		{"list without items", list, reply{200, `{` + parameters + `{}}`}, "", true},
		{"no list", list, reply{200, `{}`}, "unknown protocol", true},
		{"list that is none", list, reply{200, `{` + parameters + `{},"pix":{"endToEndId":"E1"}}`}, "unknown protocol", true},
		{"list refused", list, reply{400, `{"type":"x/PixConsultaInvalida"}`}, "refused business", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, _ := newBank(t, nil, always(tt.reply)).client(t)
			err := tt.read(t.Context(), c)
			if outcome(err) != tt.want || errors.Is(err, acquirer.ErrNotFound) == tt.found {
				t.Errorf("got %q, want %q: %v", outcome(err), tt.want, err)
			}
		})
	}
	b := newBank(t, nil, always(reply{200, pixBody}))
	c, _ := b.client(t)
	for _, id := range []string{"", "../cob", "E1/devolucao/1", strings.Repeat("a", 100)} {
		_, chargeErr := c.GetCharge(t.Context(), id)
		_, paymentErr := c.GetPayment(t.Context(), id)
		removeErr := c.RemoveCharge(t.Context(), id)
		for _, err := range []error{chargeErr, paymentErr, removeErr} {
			if !errors.Is(err, acquirer.ErrNotFound) || !acquirer.IsRefused(err) {
				t.Errorf("%q: %v", id, err)
			}
		}
	}
	if _, err := c.ListPayments(t.Context(), acquirer.Window{Cursor: "x"}); outcome(err) != "refused business" {
		t.Errorf("a cursor of somebody else: %v", err)
	}
	if lines, _ := b.lines(); lines != nil {
		t.Errorf("the bank saw %v", lines)
	}
}

func TestRemoveCharge(t *testing.T) {
	t.Parallel()
	removed := reply{200, cobBody("REMOVIDA_PELO_USUARIO_RECEBEDOR")}
	tests := []struct {
		name       string
		patch, get reply
		want       string
	}{
		{"removed", removed, reply{}, ""},
		{"removed before", reply{400, problemInvalid}, removed, ""},
		{"paid before", reply{400, problemInvalid}, reply{200, cobBody("CONCLUIDA")}, "refused business"},
		{"not found", reply{404, problemNotFound}, removed, "refused business"},
		{"lost and executed", reply{}, removed, ""},
		{"lost and not executed", reply{}, reply{200, cobBody("ATIVA")}, "unknown down"},
		{"denied", reply{403, problemDenied}, removed, "refused credentials"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBank(t, nil, func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPatch {
					tt.patch.write(w)
					return
				}
				tt.get.write(w)
			})
			c, _ := b.client(t)
			if err := c.RemoveCharge(t.Context(), testTxID); outcome(err) != tt.want {
				t.Errorf("got %q, want %q: %v", outcome(err), tt.want, err)
			}
			if r := b.requests[0]; r.line != "PATCH /v2/cob/"+testTxID || r.body != `{"status":"REMOVIDA_PELO_USUARIO_RECEBEDOR"}` {
				t.Errorf("the bank saw %s %s", r.line, r.body)
			}
		})
	}
}

func TestListPayments(t *testing.T) {
	t.Parallel()
	paging := func(pages string) string {
		return `{` + parameters + `{"paginacao":{"quantidadeDePaginas":` + pages + `}},"pix":[`
	}
	one := `{"endToEndId":"E1","valor":"1.00","txid":"***"}`
	full := strings.Repeat(one+",", pageItems-1) + one
	tests := []struct {
		name, cursor, body string
		payments, bad      int
		next               string
	}{
		{"empty", "", paging("0") + "]}", 0, 0, ""},
		{"only page", "", paging("1") + one + "]}", 1, 0, ""},
		{"first of two", "", paging("2") + one + "]}", 1, 0, "1"},
		{"second of two", "1", paging(`"2"`) + one + "]}", 1, 0, ""},
		{"endless", "7", paging("99") + "]}", 0, 0, ""},
		{"one that makes no sense", "", paging("1") + one + `,{"endToEndId":"E2","valor":"x"},7,` + one + "]}", 2, 2, ""},
		{"pages not told", "3", `{"pix":[` + full + "]}", pageItems, 0, "4"},
		{"pages not told, not full", "3", `{"pix":[` + one + "]}", 1, 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBank(t, nil, always(reply{200, tt.body}))
			c, _ := b.client(t)
			from := time.Date(2026, 11, 15, 9, 0, 0, 999_000_000, time.FixedZone("", -3*3600))
			got, err := c.ListPayments(t.Context(), acquirer.Window{From: from, To: from.Add(time.Hour), Cursor: tt.cursor})
			if err != nil || len(got.Payments) != tt.payments || got.Unreadable != tt.bad || got.Next != tt.next {
				t.Fatalf("got %+v, %v", got, err)
			}
			if tt.payments > 0 && got.Payments[0].TxID != "" {
				t.Errorf("*** is the txid %q", got.Payments[0].TxID)
			}
			number := tt.cursor
			if number == "" {
				number = "0"
			}
			// Whole seconds that hold the whole window.
			want := "GET /v2/pix?fim=2026-11-15T13%3A00%3A01Z&inicio=2026-11-15T12%3A00%3A00Z&paginacao.itensPorPagina=100&paginacao.paginaAtual=" + number
			if lines, _ := b.lines(); lines[0] != want {
				t.Errorf("the bank saw %s", lines[0])
			}
		})
	}
}

// A window to the millisecond is asked for as it is.
func TestListPaymentsExactly(t *testing.T) {
	t.Parallel()
	b := newBank(t, nil, always(reply{200, `{"pix":[]}`}))
	c, _ := b.client(t)
	from := time.Date(2026, 11, 15, 12, 0, 0, 1_500_000, time.UTC)
	if _, err := c.ListPayments(t.Context(), acquirer.Window{From: from, To: from.Add(time.Second), Exact: true}); err != nil {
		t.Fatal(err)
	}
	want := "GET /v2/pix?fim=2026-11-15T12%3A00%3A01.002Z&inicio=2026-11-15T12%3A00%3A00.001Z&paginacao.itensPorPagina=100&paginacao.paginaAtual=0"
	if lines, _ := b.lines(); lines[0] != want {
		t.Errorf("the bank saw %s", lines[0])
	}
}

func TestSetWebhook(t *testing.T) {
	t.Parallel()
	b := newBank(t, nil, inTurn(reply{200, ""}, reply{400, `{"nome":"webhook_invalido","mensagem":"a URL https://ponte.example/hook?hmac=hidden não responde"}`}))
	c, _ := b.client(t)
	if err := c.SetWebhook(t.Context(), "https://ponte.example/hook?hmac=hidden"); err != nil {
		t.Fatal(err)
	}
	if r := b.requests[0]; r.line != "PUT /v2/webhook/pix@loja.example" || r.body != `{"webhookUrl":"https://ponte.example/hook?hmac=hidden"}` {
		t.Errorf("the bank saw %s %s", r.line, r.body)
	}
	err := c.SetWebhook(t.Context(), "https://ponte.example/hook?hmac=hidden")
	if outcome(err) != "refused business" || !strings.Contains(err.Error(), "a URL https://***") || strings.Contains(err.Error(), "hidden") {
		t.Errorf("got %v", err)
	}
}
