package api_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/client/webhook"
	"github.com/ponte-pay/ponte/internal/api"
	"github.com/ponte-pay/ponte/internal/deposit"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/withdrawal"
)

// TestReceiversKnowEveryField reads the data of crypto events as receivers do, and strictly.
func TestReceiversKnowEveryField(t *testing.T) {
	t.Parallel()
	made := id.First(time.Unix(1_790_000_000, 0))
	charge, err := api.RenderCryptoCharge(&deposit.Deposit{ID: made})
	if err != nil {
		t.Fatal(err)
	}
	payout, err := api.RenderCryptoPayout(&withdrawal.Withdrawal{ID: made})
	if err != nil {
		t.Fatal(err)
	}
	for data, into := range map[string]any{string(charge): &webhook.CryptoCharge{}, string(payout): &webhook.CryptoPayout{}} {
		d := json.NewDecoder(bytes.NewReader([]byte(data)))
		d.DisallowUnknownFields()
		if err := d.Decode(into); err != nil {
			t.Errorf("%v: %s", err, data)
		}
	}
}
