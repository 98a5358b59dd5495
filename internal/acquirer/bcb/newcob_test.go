package bcb

import (
	"testing"

	"github.com/ponte-pay/ponte/internal/plainjson/plainjsontest"
)

// TestNewCobByHand wants that what is written by hand is what encoding/json writes.
func TestNewCobByHand(t *testing.T) {
	t.Parallel()
	text := "a\"\\\n<ção>"
	for _, n := range []*newCob{
		{},
		{newCalendar{3600}, &newPayer{CPF: "12345678909", Name: text}, newValue{"10.50"}, text, text},
		{newCalendar{1}, &newPayer{CNPJ: "12345678000195", Name: ""}, newValue{"0.01"}, "key", ""},
	} {
		plainjsontest.Check(t, n.AppendJSON(nil), nil, n)
	}
}
