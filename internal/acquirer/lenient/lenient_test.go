package lenient_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
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
		`{"text":" a ","at":"2026-11-15T09:00:00-03:00","many":["a",7],"things":{"a":"b"},"loose":{"a":7},"list":[{"a":1}, {"a":2}],"plain":7}`,
		` { "text" : "a\"]}\\" , "other" : [ { "x" : "}" } , 1.5e3 , null ] , "text" : 12 } `,
		`{"TEXT":"a","\u0074ext":"b","loose":{"a":[1,{"a":"b"}],"A":"c"},"things":[{"a":1},{},null]}`,
		`{"list":{}}`, `{"list":null,"loose":null,"many":null,"at":null,"text":null,"plain":null}`, `{"list":[7]}`, `{"plain":"7"}`,
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

// BenchmarkUnmarshal reads a charge.
func BenchmarkUnmarshal(b *testing.B) {
	body := []byte(`{"text":"7978c0c97ea847e78e8849634473c1f1","at":"2026-11-15T09:00:00-03:00","revisao":0,"other":{"id":1,"location":"pix.example.com/qr/v2/9d36b84f","tipoCob":"cob"},
"things":[{"a":"E12345678202611150900abcdefghijk"}],"loose":{"a":"37.00"},"solicitacaoPagador":"Serviço realizado.","list":[{"a":"00020101021226760014br.gov.bcb.pix2554pix.example.com"}]}`)
	for name, unmarshal := range map[string]func([]byte, any) error{"ours": lenient.Unmarshal, "encoding": json.Unmarshal} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var e everything
				if err := unmarshal(body, &e); err != nil {
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
