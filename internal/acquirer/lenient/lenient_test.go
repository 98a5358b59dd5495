package lenient_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/ponte-pay/ponte/internal/acquirer/lenient"
)

// everything has a field of every kind.
type everything struct {
	Text   lenient.Text               `json:"text"`
	At     lenient.Moment             `json:"at"`
	Many   lenient.Many[lenient.Text] `json:"many"`
	Things lenient.Many[thing]        `json:"things"`
	Loose  lenient.Loose[thing]       `json:"loose"`
	List   []thing                    `json:"list"`
	Plain  int                        `json:"plain"`
	Raw    json.RawMessage            `json:"raw"`
	Mixed  struct {
		thing
		B lenient.Text `json:"b"`
	} `json:"embedded"`
}

type thing struct {
	A lenient.Text `json:"a"`
}

func TestRead(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ body, want string }{
		{`{}`, ` zero [] [] {{} false}`},
		{`{"text":" a\u0000b\n "}`, `ab zero [] [] {{} false}`},
		{`{"text":12.30}`, `12.30 zero [] [] {{} false}`},
		{`{"text":1e2}`, `1e2 zero [] [] {{} false}`},
		{`{"text":["a"]}`, ` zero [] [] {{} false}`},
		{`{"text":true,"at":7,"loose":[]}`, ` zero [] [] {{} false}`},
		{`{"at":"2026-11-15T09:00:00-03:00"}`, ` 2026-11-15 12:00:00 [] [] {{} false}`},
		{`{"at":"2026-11-15"}`, ` zero [] [] {{} false}`},
		{`{"many":["a",7],"things":{"a":"b"}}`, ` zero [a 7] [{b}] {{} false}`},
		{`{"many":null,"things":[{"a":1},{}]}`, ` zero [] [{1} {}] {{} false}`},
		{`{"many":7}`, `error`},
		{`{"loose":{"a":7}}`, ` zero [] [] {{7} true}`},
	} {
		var e everything
		got := "error"
		if lenient.Unmarshal([]byte(tt.body), &e) == nil {
			at := "zero"
			if !e.At.IsZero() {
				at = e.At.Format("2006-01-02 15:04:05")
			}
			got = fmt.Sprint(e.Text, " ", at, " ", []lenient.Text(e.Many), " ", e.Things, " ", e.Loose)
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %s", tt.body, got, tt.want)
		}
	}
}

// FuzzUnmarshal reads whatever comes, and reads it as encoding/json does.
func FuzzUnmarshal(f *testing.F) {
	for _, body := range []string{
		`{"text":" a ","at":"2026-11-15T09:00:00-03:00","many":["a",7],"things":{"a":"b"},"loose":{"a":7},"list":[{"a":1}, {"a":2}],"plain":7,"raw":[ 1 ]}`,
		` { "text" : "a\"]}\\" , "other" : [ { "x" : "}" } , 1.5e3 , null ] , "text" : 12 } `,
		`{"TEXT":"a","\u0074ext":"b","loose":{"a":[1,{"a":"b"}],"A":"c"},"things":[{"a":1},{},null]}`,
		`{"list":{}}`, `{"list":null,"loose":null,"many":null,"at":null,"text":null,"plain":null}`, `{"list":[7]}`, `{"plain":"7"}`,
		`{"list":[{"a":1},{"a":2}],"list":[{}],"many":[1,2],"many":[3]}`, `{"text":"\u00e7\/\ud83d\ude00\u00G0"}`, `{"text":"ç\u007f","texT":1}`,
		`{"a":[-0,1.5,2e+3,1E-2,true,false,null,{}]}`, `{"a":01}`, `{"a":1.}`, `{"a":-}`, `{"a":1e}`, `{"a":tru}`, `{"a":1,}`, `{"a":[1,]}`, `{"a" 1}`,
		`{"a":1} x`, `{"a":[}`, `{1:2}`, "{\"a\":\"\t\"}", `{"\u017fext":"a","te\u0078t":"b"}`, strings.Repeat("[", 40) + strings.Repeat("]", 40),
		`[]`, `null`, `7`, `""`, `{`, ``, `{"text":"\ud800"}`, `{"list":[],"many":[]}`, `{"embedded":{"a":1,"b":2}}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var got, want everything
		gotErr, wantErr := lenient.Unmarshal(body, &got), json.Unmarshal(body, &want)
		if (gotErr == nil) != (wantErr == nil) {
			t.Fatalf("%q: %v, want %v", body, gotErr, wantErr)
		}
		if gotErr == nil && !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, want %+v", body, got, want)
		}
	})
}

// TestUnmarshalDeep goes as deep as encoding/json.
func TestUnmarshalDeep(t *testing.T) {
	t.Parallel()
	for _, depth := range []int{9_999, 10_000} {
		body := []byte(`{"other":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + `}`)
		var e everything
		got, want := lenient.Unmarshal(body, &e), json.Unmarshal(body, &e)
		if (got == nil) != (want == nil) || (got == nil) != (depth < 10_000) {
			t.Errorf("%d deep: %v, want %v", depth, got, want)
		}
	}
}

// TestUnmarshalExplains names what cannot be read.
func TestUnmarshalExplains(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"many":7}`: `"many": json: cannot unmarshal number`, `{"many":7,"text":}`: `invalid character '}'`, `{"text":""`: `unexpected end`,
	} {
		var e everything
		if err := lenient.Unmarshal([]byte(body), &e); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
}

// charge is what a driver reads of one.
type charge struct {
	TxID     lenient.Text `json:"txid"`
	Calendar lenient.Loose[struct {
		CreatedAt lenient.Moment `json:"criacao"`
		Seconds   lenient.Text   `json:"expiracao"`
	}] `json:"calendario"`
	Value lenient.Loose[struct {
		Original lenient.Text `json:"original"`
	}] `json:"valor"`
	Key      lenient.Text `json:"chave"`
	Status   lenient.Text `json:"status"`
	Location lenient.Text `json:"location"`
	Loc      lenient.Loose[struct {
		Location lenient.Text `json:"location"`
	}] `json:"loc"`
	CopyPaste lenient.Text                       `json:"pixCopiaECola"`
	Pix       lenient.Many[lenient.Loose[thing]] `json:"pix"`
}

// chargeBody is what an acquirer answers.
const chargeBody = `{"calendario":{"criacao":"2026-11-15T12:00:00.123Z","expiracao":3600},"txid":"7978c0c97ea847e78e8849634473c1f1","revisao":0,` +
	`"loc":{"id":789,"location":"pix.example.com/qr/v2/9d36b84fc70b478fb95c12729b90ca25","tipoCob":"cob","criacao":"2026-11-15T12:00:00.123Z"},` +
	`"location":"pix.example.com/qr/v2/9d36b84fc70b478fb95c12729b90ca25","status":"ATIVA","devedor":{"cpf":"52998224725","nome":"João da Silva"},` +
	`"valor":{"original":"37.00","modalidadeAlteracao":1},"chave":"7d9f0335-8dcc-4054-9bf9-0dbd61d36906","solicitacaoPagador":"Serviço realizado.",` +
	`"infoAdicionais":[{"nome":"Pedido","valor":"42"},{"nome":"Mesa","valor":"7"}],` +
	`"pixCopiaECola":"00020101021226760014br.gov.bcb.pix2554pix.example.com/qr/v2/9d36b84fc70b478fb95c12729b90ca25` +
	`5204000053039865802BR5910LOJA TESTE6009SAO PAULO62070503***63043461"}`

// BenchmarkUnmarshal reads a charge.
func BenchmarkUnmarshal(b *testing.B) {
	body := []byte(chargeBody)
	for name, unmarshal := range map[string]func([]byte, any) error{"ours": lenient.Unmarshal, "encoding": json.Unmarshal} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				var c charge
				if err := unmarshal(body, &c); err != nil || c.CopyPaste == "" {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestAmount(t *testing.T) {
	t.Parallel()
	for text, want := range map[lenient.Text]string{
		"12.34": "12.34 true", "12.3": "12.30 true", "12": "12.00 true", "0": "0.00 true", "-1": "false", "1e2": "100.00 true", "12.345": "false", "": "false",
	} {
		amount, ok := text.Amount()
		got := strconv.FormatBool(ok)
		if ok {
			got = fmt.Sprint(amount, " ", ok)
		}
		if got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
