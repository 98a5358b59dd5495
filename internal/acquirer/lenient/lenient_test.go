package lenient_test

import (
	"encoding/json"
	"fmt"
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
		if json.Unmarshal([]byte(tt.body), &e) == nil {
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
