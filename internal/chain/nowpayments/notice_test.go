package nowpayments

import (
	"crypto/hmac"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/ponte-pay/ponte/internal/chain"
	"github.com/ponte-pay/ponte/internal/clock"
)

// A notification and its signature, made with Node and not with this code.
const (
	vectorSecret    = "test-ipn-secret"
	vectorCanonical = `{"actually_paid":1.2e-7,"fee":{"currency":"btc","depositFee":0.09853637216235617,"serviceFee":0,"withdrawalFee":0},"order_description":"A&B <top-up> — ção","order_id":"dep_1","outcome_amount":14.8106,"outcome_currency":"usdttrc20","pay_address":"TEmGwPeRTPiLFLVfBxXkSP91yc5GMNQhfS","pay_amount":15.5,"pay_currency":"trx","payment_extra_ids":[2,10],"payment_id":5077125051,"payment_status":"finished","price_amount":1,"price_currency":"usd","purchase_id":"6084744717"}`
	vectorSignature = "67df76d5f658bbe9a5383889fd06211f53029ce17eb65b0bf9881be74bf92ce0aac696367852b95dac2a205ef0ae5dbaac4d46866454b18216e6d5cee8b3e05f"
	// The same as it may be sent: other order, other numbers, escapes, spaces.
	vectorSent = ` {"payment_id":5077125051, "payment_status":"finished","pay_address":"TEmGwPeRTPiLFLVfBxXkSP91yc5GMNQhfS","price_amount":1.00,"price_currency":"usd",
		"pay_amount":15.50,"actually_paid":0.00000012,"pay_currency":"trx","order_id":"dep_1","order_description":"A\u0026B \u003ctop-up> — \u00e7\u00e3o","purchase_id":"6084744717",
		"outcome_amount":14.8106,"outcome_currency":"usdttrc20","payment_extra_ids":[2,10],
		"fee":{"withdrawalFee":0,"currency":"btc","serviceFee":0.0,"depositFee":0.09853637216235617}}`
)

func newClient(t *testing.T) *Client {
	t.Helper()
	c, err := New(Config{
		Name: "test", BaseURL: "https://api.example.com/v1", APIKey: "key", Email: "a@example.com", Password: "secret word",
		TOTPSecret: "JBSWY3DPEHPK3PXP", IPNSecret: " " + vectorSecret + " ", Settlement: "USDTTRC20",
	}, clock.New(nil))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func signed(signature string) http.Header { return http.Header{SignatureHeader: {signature}} }

func sign(message string) string {
	mac := hmac.New(sha512.New, []byte(vectorSecret))
	mac.Write([]byte(message))
	return hex.EncodeToString(mac.Sum(nil))
}

func TestNotice(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	for _, body := range []string{vectorCanonical, vectorSent} {
		n, err := c.ReadNotice(signed(vectorSignature), []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		p := n.Payment
		if p == nil || p.ID != "5077125051" || p.Reference != "dep_1" || p.Status != chain.PaymentFinished || p.Settled != 14_810_600 || n.Payout != nil ||
			p.Paid.String() != "0.00000012" || p.PayCurrency != "trx" || strings.Join(p.Children, " ") != "2 10" {
			t.Errorf("got %+v", n)
		}
	}
}

func TestNoticeOfPayout(t *testing.T) {
	t.Parallel()
	body := `{"id":"123456789","batch_withdrawal_id":"987654321","status":"FINISHED","error":null,"currency":"usdterc20","amount":"50","address":"0x1EBAeF7Bee7B3a7B2EEfC72e86593Bf15ED37522","fee":null,"extra_id":null,"hash":"0xabc","created_at":"2026-07-27T15:29:40.803Z"}`
	var keys map[string]any
	if err := json.Unmarshal([]byte(body), &keys); err != nil {
		t.Fatal(err)
	}
	canonical, err := json.Marshal(keys)
	if err != nil {
		t.Fatal(err)
	}
	n, err := newClient(t).ReadNotice(signed(sign(string(canonical))), []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	if n.Payment != nil || n.Payout.ID != "987654321" || n.Payout.Status != chain.PayoutFinished || n.Payout.TxHash != "0xabc" || n.Payout.Amount.String() != "50" {
		t.Errorf("got %+v", n.Payout)
	}
}

// TestNoticeSpellings are forms of one body that others sign.
func TestNoticeSpellings(t *testing.T) {
	t.Parallel()
	const rest = `"payment_id":1,"payment_status":"waiting"}`
	const body = `{"z":{"b":1.50,"a":"ç😀\u2028/"},"a":[1,{"d":1,"c":2}],"pay_currency":"trx",` + rest
	for name, canonical := range map[string]string{
		"JavaScript":     `{"a":[1,{"c":2,"d":1}],"pay_currency":"trx","payment_id":1,"payment_status":"waiting","z":{"a":"ç😀` + "\u2028" + `/","b":1.5}}`,
		"numbers kept":   `{"a":[1,{"c":2,"d":1}],"pay_currency":"trx","payment_id":1,"payment_status":"waiting","z":{"a":"ç😀` + "\u2028" + `/","b":1.50}}`,
		"escaped":        `{"a":[1,{"c":2,"d":1}],"pay_currency":"trx","payment_id":1,"payment_status":"waiting","z":{"a":"\u00e7\ud83d\ude00\u2028/","b":1.5}}`,
		"arrays as maps": `{"a":{"0":1,"1":{"c":2,"d":1}},"pay_currency":"trx","payment_id":1,"payment_status":"waiting","z":{"a":"ç😀` + "\u2028" + `/","b":1.5}}`,
	} {
		if _, err := newClient(t).ReadNotice(signed(sign(canonical)), []byte(body)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestForgedNotice are notifications that nobody may believe.
func TestForgedNotice(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	for name, test := range map[string]struct{ signature, body string }{
		"no signature":     {"", vectorCanonical},
		"not hexadecimal":  {strings.Repeat("z", 128), vectorCanonical},
		"too short":        {vectorSignature[:126], vectorCanonical},
		"another one":      {sign("something else"), vectorCanonical},
		"another amount":   {vectorSignature, strings.Replace(vectorCanonical, "14.8106", "99.8106", 1)},
		"another status":   {vectorSignature, strings.Replace(vectorCanonical, `"finished"`, `"expired"`, 1)},
		"one more field":   {vectorSignature, strings.Replace(vectorCanonical, `{"actually`, `{"x":1,"actually`, 1)},
		"two bodies":       {vectorSignature, vectorCanonical + vectorCanonical},
		"no object":        {sign(`"text"`), `"text"`},
		"no JSON":          {sign(`{`), `{`},
		"an enormous body": {vectorSignature, vectorCanonical + strings.Repeat(" ", noticeBytesMax)},
	} {
		n, err := c.ReadNotice(signed(test.signature), []byte(test.body))
		if !errors.Is(err, chain.ErrSignature) || n != (chain.Notice{}) {
			t.Errorf("%s: %+v, %v", name, n, err)
		}
	}
	// Signed, and nonsense all the same: a signature covers a number's value, not its digits.
	for _, body := range []string{`{"pay_currency":"trx","payment_id":5e3,"payment_status":"finished"}`, `{"a":1}`} {
		var value any
		if err := json.Unmarshal([]byte(body), &value); err != nil {
			t.Fatal(err)
		}
		canonical, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.ReadNotice(signed(sign(string(canonical))), []byte(body)); err == nil || errors.Is(err, chain.ErrSignature) {
			t.Errorf("%s: %v", body, err)
		}
	}
}
