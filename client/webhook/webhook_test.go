package webhook_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/client/webhook"
)

const (
	secret = "whsec_00112233445566778899aabbccddeeff"
	body   = `{"id":"evt_06fwbvz9ak9zv2x7qg9q8m3f4t","type":"charge.paid","created_at":"2026-11-15T12:00:00.000000Z",` +
		`"data":{"id":"chg_1","amount":25.50,"status":"paid","created_at":"2026-11-15T11:59:00.000000Z","pix":{"copy_paste":null}}}`
)

var sentAt = time.Unix(1763208000, 0)

// sign makes the header by the recipe in the documents, not by the code under test.
func sign(secret string, at time.Time, body string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "%d.%s", at.Unix(), body)
	return fmt.Sprintf("t=%d,v1=%s", at.Unix(), hex.EncodeToString(mac.Sum(nil)))
}

func TestVerify(t *testing.T) {
	t.Parallel()
	good := sign(secret, sentAt, body)
	_, v1, _ := strings.Cut(good, ",")
	for _, test := range []struct {
		name   string
		header string
		body   string
		secret string
		now    time.Time
		want   error
	}{
		{"as sent", good, body, secret, sentAt, nil},
		{"300 s late", good, body, secret, sentAt.Add(300 * time.Second), nil},
		{"300 s early", good, body, secret, sentAt.Add(-300 * time.Second), nil},
		{"301 s late", good, body, secret, sentAt.Add(301 * time.Second), webhook.ErrTooOld},
		{"301 s early", good, body, secret, sentAt.Add(-301 * time.Second), webhook.ErrTooOld},
		{"two signatures, one right", good + ",v1=" + strings.Repeat("00", 32), body, secret, sentAt, nil},
		{"a later version beside it", good + ",v2=what", body, secret, sentAt, nil},
		{"another body", good, body + " ", secret, sentAt, webhook.ErrSignature},
		{"another secret", good, body, secret + "x", sentAt, webhook.ErrSignature},
		{"secret without its prefix", good, body, strings.TrimPrefix(secret, "whsec_"), sentAt, webhook.ErrSignature},
		{"another time", fmt.Sprintf("t=%d,%s", sentAt.Unix()+1, v1), body, secret, sentAt, webhook.ErrSignature},
		{"a signature without its name", strings.Replace(good, "v1=", "", 1), body, secret, sentAt, webhook.ErrHeader},
		{"none", "", body, secret, sentAt, webhook.ErrHeader},
		{"no time", v1, body, secret, sentAt, webhook.ErrHeader},
		{"two times", "t=1," + good, body, secret, sentAt, webhook.ErrHeader},
		{"a time with a plus", strings.Replace(good, "t=", "t=+", 1), body, secret, sentAt, webhook.ErrHeader},
		{"no signature", fmt.Sprintf("t=%d", sentAt.Unix()), body, secret, sentAt, webhook.ErrHeader},
		{"half a signature", good[:len(good)-2], body, secret, sentAt, webhook.ErrHeader},
		{"nonsense", "nonsense", body, secret, sentAt, webhook.ErrHeader},
	} {
		if got := webhook.Verify(test.header, []byte(test.body), test.secret, test.now); !errors.Is(got, test.want) {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

// Whatever the header looks like: what is accepted was signed with the secret.
func FuzzVerify(f *testing.F) {
	f.Add("t=1,v1=00", []byte(body))
	f.Add(sign(secret, sentAt, body), []byte(body))
	f.Fuzz(func(t *testing.T, header string, body []byte) {
		if webhook.Verify(header, body, secret, sentAt) != nil {
			return
		}
		for offset := -webhook.Tolerance; offset <= webhook.Tolerance; offset += time.Second {
			_, v1, _ := strings.Cut(sign(secret, sentAt.Add(offset), string(body)), ",v1=")
			if strings.Contains(strings.ToLower(header), v1) {
				return
			}
		}
		t.Errorf("%q was accepted", header)
	})
}

func TestReceiver(t *testing.T) {
	t.Parallel()
	var handled []string
	seen := map[string]bool{}
	fail := errors.New("not now")
	r := &webhook.Receiver{
		Secrets: []string{"whsec_old", secret},
		On: map[string]func(context.Context, webhook.Event) error{
			"charge.paid": func(_ context.Context, e webhook.Event) error {
				if fail != nil {
					return fail
				}
				c, err := e.Charge()
				handled = append(handled, c.ID+" "+c.Amount.String())
				return err
			},
		},
		Once: func(ctx context.Context, id string, handle func(context.Context) error) error {
			if seen[id] {
				return nil
			}
			err := handle(ctx)
			seen[id] = err == nil
			return err
		},
		Now: func() time.Time { return sentAt },
	}
	send := func(method, header, body string) int {
		request := httptest.NewRequest(method, "/", strings.NewReader(body))
		request.Header.Set("x-service-signature", header)
		w := httptest.NewRecorder()
		r.ServeHTTP(w, request)
		return w.Code
	}
	other := strings.Replace(body, "charge.paid", "charge.mirrored", 1)
	for i, test := range []struct {
		method, header, body string
		want                 int
	}{
		{"POST", sign(secret, sentAt, body), body, http.StatusInternalServerError}, // handling fails
		{"POST", sign(secret, sentAt, body), body, http.StatusOK},                  // and is done when it is sent again
		{"POST", sign("whsec_old", sentAt, body), body, http.StatusOK},             // a third time changes nothing
		{"POST", sign(secret, sentAt, other), other, http.StatusOK},                // unknown types are acknowledged
		{"POST", sign(secret, sentAt, body), other, http.StatusUnauthorized},
		{"POST", sign(secret, sentAt, "{}"), "{}", http.StatusBadRequest},
		{"POST", sign(secret, sentAt, "["), "[", http.StatusBadRequest},
		{"GET", "", "", http.StatusMethodNotAllowed},
	} {
		if got := send(test.method, test.header, test.body); got != test.want {
			t.Errorf("%d: %d, want %d", i, got, test.want)
		}
		fail = nil
	}
	if len(handled) != 1 || handled[0] != "chg_1 25.50" {
		t.Errorf("handled %q", handled)
	}
}

func TestData(t *testing.T) {
	t.Parallel()
	e := webhook.Event{Type: "payout.failed", Data: []byte(`{"id":"pyt_1","amount":1.00,"fee":null,"pix":{"key":"a@b"}}`)}
	p, err := e.Payout()
	if err != nil || p.ID != "pyt_1" || p.Amount != "1.00" || p.Fee != nil || p.Pix.Key != "a@b" {
		t.Errorf("%+v %v", p, err)
	}
	if _, err := e.Charge(); err == nil {
		t.Error("a payout is no charge")
	}
	e = webhook.Event{Type: "crypto.charge.paid", Data: []byte(`{"id":"ccr_1","price_amount":10.5,"credited_amount":9.123456,"settled_amount":null}`)}
	c, err := e.CryptoCharge()
	if err != nil || c.ID != "ccr_1" || c.PriceAmount != "10.5" || *c.CreditedAmount != "9.123456" || c.SettledAmount != nil {
		t.Errorf("%+v %v", c, err)
	}
	if _, err := e.CryptoPayout(); err == nil {
		t.Error("a crypto charge is no crypto payout")
	}
}
