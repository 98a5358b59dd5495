package plainjson_test

import (
	"testing"

	"github.com/ponte-pay/ponte/internal/plainjson"
	"github.com/ponte-pay/ponte/internal/plainjson/plainjsontest"
)

// pair writes itself.
type pair struct {
	A string  `json:"a"`
	B *string `json:"b"`
	C []pair  `json:"c,omitempty"`
	D string  `json:"d,omitempty"`
	E int64   `json:"e"`
}

func (p *pair) AppendJSON(to []byte) []byte {
	to = plainjson.AppendMember(to, `{"a":`, p.A)
	to = plainjson.AppendNullable(to, `,"b":`, p.B)
	to = plainjson.AppendList(to, `,"c":`, p.C, (*pair).AppendJSON)
	to = plainjson.AppendOptional(to, `,"d":`, p.D)
	to = plainjson.AppendNumber(to, `,"e":`, p.E)
	return append(to, '}')
}

// TestAppend wants that a list is written as encoding/json writes it, whoever writes its items.
func TestAppend(t *testing.T) {
	t.Parallel()
	text := "a\"b"
	full := &pair{A: text, B: &text, C: []pair{{}, {A: "x"}}, D: text, E: -7}
	for _, list := range [][]any{{}, {1}, {full, &pair{}, map[string]int{"a": 1}}} {
		got, err := plainjson.AppendItems(nil, list)
		plainjsontest.Check(t, got, err, list)
	}
	if _, err := plainjson.AppendItems(nil, []any{func() {}}); err == nil {
		t.Error("a function was written")
	}
}

// FuzzText wants that a string is written as encoding/json writes it.
func FuzzText(f *testing.F) {
	for _, s := range []string{"", "Pedido 42", "ação", "<&>", `"\`, "\n\x00\x7f", "\xff", "\u2028", "€", "😀"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) { plainjsontest.Check(t, plainjson.AppendText(nil, s), nil, s) })
}
