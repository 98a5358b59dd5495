package simulator

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ponte-pay/ponte/internal/plainjson/plainjsontest"
)

// requests are bodies that create charges, and whether they are plain.
var requests = []struct {
	body  string
	plain bool
}{
	{`{"calendario":{"expiracao":3600},"devedor":{"cpf":"52998224725","nome":"Maria da Conceição"},"valor":{"original":"30.00"},"chave":"k","solicitacaoPagador":"Pedido 42"}`, true},
	{" {\n\t\"valor\" : { \"original\" : \"1.00\" } ,\r\n \"chave\" : \"\" } ", true},
	{`{"devedor":{"cnpj":"12ABC34501DE35","nome":"<&>"},"calendario":{},"valor":{},"chave":"\u007f"}`, false},
	{`{}`, true},
	{`{"chave":"a","chave":"b"}`, true},
	{`{"devedor":{"cpf":"1","nome":"A"},"devedor":{"nome":"B"},"calendario":{"expiracao":1},"calendario":{}}`, true},
	{`{"calendario":{"expiracao":0}}`, true},
	{`{"calendario":{"expiracao":"3600"}}`, false},
	{`{"calendario":{"expiracao":-1}}`, false},
	{`{"calendario":{"expiracao":007}}`, false},
	{`{"calendario":{"expiracao":1.5}}`, false},
	{`{"calendario":{"expiracao":1e3}}`, false},
	{`{"calendario":{"expiracao":1000000000}}`, false},
	{`{"calendario":{"expiracao":}}`, false},
	{`{"calendario":{"apresentacao":1}}`, false},
	{`{"calendario":null}`, false},
	{`{"Chave":"a"}`, false},
	{`{"chave":7}`, false},
	{`{"chave":null}`, false},
	{`{"chave":"a\"b"}`, false},
	{`{"chave":"a\u2028b"}`, false},
	{"{\"chave\":\"a\nb\"}", false},
	{"{\"chave\":\"\xff\"}", false},
	{"{\"chave\":\"\u2028\"}", false},
	{`{"chave":"a",}`, false},
	{`{"chave":"a"} x`, false},
	{`{"chave":"a"}}`, false},
	{"{\"chave\":\"a\"}\x00", false},
	{`{"chave":"a`, false},
	{`{"chave" "a"}`, false},
	{`{"chave":"a" "valor":{}}`, false},
	{`{,}`, false},
	{`{`, false},
	{`[]`, false},
	{``, false},
	{`{"infoAdicionais":[{"nome":"a","valor":"b"}]}`, false},
	{`{"valor":{"original":"1.00","modalidadeAlteracao":1}}`, false},
}

func TestPlainRequest(t *testing.T) {
	t.Parallel()
	for _, tt := range requests {
		if _, plain := parsePlainRequest(tt.body); plain != tt.plain {
			t.Errorf("%q: plain is %v, want %v", tt.body, plain, tt.plain)
		}
	}
}

// FuzzPlainRequest wants that what is read by hand is what encoding/json reads.
func FuzzPlainRequest(f *testing.F) {
	for _, tt := range requests {
		f.Add(tt.body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		got, plain := parsePlainRequest(body)
		if !plain {
			return
		}
		var want chargeRequest
		if err := json.Unmarshal([]byte(body), &want); err != nil {
			t.Fatalf("%q: %v", body, err)
		}
		if diff := cmp.Diff(&want, got); diff != "" {
			t.Errorf("%q: (-want +got)\n%s", body, diff)
		}
	})
}

// TestByHand wants that what is written by hand is what encoding/json writes, with every field and with as few as possible.
func TestByHand(t *testing.T) {
	t.Parallel()
	odd := "a\"\\\n\u2028<ção>"
	byCPF, both := &debtor{CPF: "1", Name: odd}, &debtor{CPF: odd, CNPJ: odd, Name: odd}
	info := []infoItem{{odd, odd}, {}}
	refunds := []refundJSON{{odd, odd, odd, odd, odd, refundTimesJSON{odd, odd}, odd}, {}}
	payments := []paymentJSON{
		{odd, odd, odd, componentsJSON{amountJSON{odd}}, odd, odd, extrasJSON{payerJSON{odd, odd, odd, odd}}, refunds},
		{},
	}
	for _, r := range []*chargeRecord{
		{},
		{1, odd, 2, chargeRemovedByBank, 3, true, 4, 5, both, odd, info, &extentJSON{6, 7}},
		{-1, "", 65535, 0, math.MinInt64, false, math.MaxInt64, math.MinInt32, byCPF, "", []infoItem{}, &extentJSON{}},
		{Debtor: &debtor{CNPJ: "1"}},
	} {
		got, err := (&record{Charge: r}).appendJSON(nil)
		plainjsontest.Check(t, got, err, &record{Charge: r})
	}
	for _, r := range []*paymentRecord{{}, {1, odd, odd, 2, 3, odd, odd}} {
		got, err := (&record{Payment: r}).appendJSON(nil)
		plainjsontest.Check(t, got, err, &record{Payment: r})
	}
	for _, c := range []*chargeJSON{
		{},
		{calendarJSON{odd, odd, 1}, odd, 2, &locJSON{3, odd, odd, odd}, odd, odd, both, valueJSON{odd, 1}, odd, odd, info, odd, payments},
		{Loc: &locJSON{}, Debtor: byCPF, Info: []infoItem{}, Payments: []paymentJSON{}},
	} {
		plainjsontest.Check(t, c.AppendJSON(nil), nil, c)
	}
}
