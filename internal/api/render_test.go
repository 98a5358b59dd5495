package api

import (
	"testing"

	"github.com/ponte-pay/ponte/internal/charge"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/plainjson/plainjsontest"
)

// TestChargeByHand wants that what is written by hand is what encoding/json writes, with every field and with as few as
// possible.
func TestChargeByHand(t *testing.T) {
	t.Parallel()
	text := "a\"\\\n\u2028<ção>"
	for _, c := range []chargeJSON{
		{},
		{"chg_1", text, &text, money.BRL(123456789), true, charge.Paid, &text, chargePixJSON{text, &text}, &text, &text, text, text},
	} {
		plainjsontest.Check(t, c.AppendJSON(nil), nil, c)
	}
}
