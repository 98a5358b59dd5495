// Package webhook checks and reads the events that Ponte sends. It needs nothing but the standard library: import it, or
// copy this one file into your program.
//
// A receiver does three things: it verifies the signature over the bytes as they came, it handles each event once although
// it may come more than once, and it answers 2xx within ten seconds. [Receiver] does all three.
package webhook

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Headers of a delivery.
const (
	SignatureHeader = "X-Service-Signature"  // t=<unix>,v1=<hex>
	EventIDHeader   = "X-Service-Event-Id"   // the same as the body's id
	EventTypeHeader = "X-Service-Event-Type" // the same as the body's type
	AttemptHeader   = "X-Service-Attempt"    // 1, 2, 3, ...
)

// Tolerance is how far a signature's time may be from the receiver's clock.
const Tolerance = 300 * time.Second

// Why a delivery is not what it says.
var (
	ErrHeader    = errors.New("webhook: the signature header is missing or malformed")
	ErrTooOld    = errors.New("webhook: the signature was made too long ago, or in the future")
	ErrSignature = errors.New("webhook: the signature is wrong")
)

// Verify returns nil when the holder of secret signed exactly these bytes at most [Tolerance] from now. The secret is used
// as it was shown, whsec_ included; body is what arrived, never what a JSON library made of it. It takes the same time
// whatever is wrong with a signature.
func Verify(header string, body []byte, secret string, now time.Time) error {
	var stamp string
	var signatures [][]byte
	for part := range strings.SplitSeq(header, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok {
			return ErrHeader
		}
		switch name {
		case "t":
			if stamp != "" {
				return ErrHeader
			}
			stamp = value
		case "v1":
			signature, err := hex.DecodeString(value)
			if err != nil || len(signature) != sha256.Size {
				return ErrHeader
			}
			signatures = append(signatures, signature)
		}
	}
	unix, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || strconv.FormatInt(unix, 10) != stamp || len(signatures) == 0 {
		return ErrHeader
	}
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = io.WriteString(mac, stamp+".") // a hash takes everything
	_, _ = mac.Write(body)
	want := mac.Sum(nil)
	matches := false
	for _, signature := range signatures {
		matches = hmac.Equal(signature, want) || matches
	}
	switch {
	case !matches:
		return ErrSignature
	case now.Sub(time.Unix(unix, 0)).Abs() > Tolerance:
		return ErrTooOld
	}
	return nil
}

// Event is something that happened.
type Event struct {
	ID        string          `json:"id"` // evt_...; the same each time it is sent: handle it once
	Type      string          `json:"type"`
	CreatedAt time.Time       `json:"created_at"`
	Data      json.RawMessage `json:"data"` // the resource as GET answered it then
}

// Parse reads a verified body.
func Parse(body []byte) (Event, error) {
	var e Event
	if err := json.Unmarshal(body, &e); err != nil {
		return e, fmt.Errorf("webhook: %w", err)
	}
	if e.ID == "" || e.Type == "" {
		return e, errors.New("webhook: the body is no event")
	}
	return e, nil
}

// Charge is the data of charge.* events. Amounts are kept as their digits: money is no floating-point number.
type Charge struct {
	ID          string      `json:"id"`
	TxID        string      `json:"txid"`
	ExternalID  *string     `json:"external_id"`
	Amount      json.Number `json:"amount"` // BRL
	TestMode    bool        `json:"test_mode"`
	Status      string      `json:"status"`
	Description *string     `json:"description"`
	EndToEndID  *string     `json:"end_to_end_id"`
	PaidAt      *time.Time  `json:"paid_at"`
	ExpiresAt   *time.Time  `json:"expires_at"`
	CreatedAt   time.Time   `json:"created_at"`
	Pix         struct {
		CopyPaste *string `json:"copy_paste"`
	} `json:"pix"`
}

// Payout is the data of payout.* events.
type Payout struct {
	ID           string       `json:"id"`
	ExternalID   *string      `json:"external_id"`
	Amount       json.Number  `json:"amount"` // BRL that the recipient gets
	Fee          *json.Number `json:"fee"`
	NetAmount    *json.Number `json:"net_amount"`
	GrossAmount  *json.Number `json:"gross_amount"`
	TestMode     bool         `json:"test_mode"`
	Status       string       `json:"status"`
	Description  *string      `json:"description"`
	EndToEndID   *string      `json:"end_to_end_id"`
	ErrorMessage *string      `json:"error_message"`
	CreatedAt    time.Time    `json:"created_at"`
	CompletedAt  *time.Time   `json:"completed_at"`
	Pix          struct {
		Key               string  `json:"key"`
		RecipientName     *string `json:"recipient_name"`
		RecipientDocument *string `json:"recipient_document"`
	} `json:"pix"`
}

// CryptoCharge is the data of crypto.charge.* events. What the provider has not told yet is nil.
type CryptoCharge struct {
	ID                 string          `json:"id"`
	Object             string          `json:"object"`
	Status             string          `json:"status"`
	ExternalID         *string         `json:"external_id"`
	CustomerID         *string         `json:"customer_id"`
	Metadata           json.RawMessage `json:"metadata"`
	PriceAmount        json.Number     `json:"price_amount"`
	PriceCurrency      string          `json:"price_currency"`
	PayAmount          *json.Number    `json:"pay_amount"` // coins of PayCurrency
	PayCurrency        string          `json:"pay_currency"`
	PaidAmount         *json.Number    `json:"paid_amount"` // coins of PayCurrency
	AmountStatus       *string         `json:"amount_status"`
	ReceivedAmount     *json.Number    `json:"received_amount"` // USDT before the fee
	PayAddress         *string         `json:"pay_address"`
	PayExtraID         *string         `json:"pay_extra_id"`
	Network            *string         `json:"network"`
	Fee                *json.Number    `json:"fee"`             // USDT
	NetAmount          *json.Number    `json:"net_amount"`      // the same as CreditedAmount
	CreditedAmount     *json.Number    `json:"credited_amount"` // USDT
	SettlementCurrency string          `json:"settlement_currency"`
	SettledAmount      *json.Number    `json:"settled_amount"`
	SettledCurrency    *string         `json:"settled_currency"`
	RefundedAmount     *json.Number    `json:"refunded_amount"`
	ExpiresAt          *time.Time      `json:"expires_at"`
	PaidAt             *time.Time      `json:"paid_at"`
	CreatedAt          time.Time       `json:"created_at"`
	PaymentID          *string         `json:"payment_id"`
}

// CryptoPayout is the data of crypto.payout.* events.
type CryptoPayout struct {
	ID                 string      `json:"id"`
	Object             string      `json:"object"`
	Status             string      `json:"status"`
	Currency           string      `json:"currency"` // of the coins that were sent
	Amount             json.Number `json:"amount"`   // USDT that the recipient gets the worth of
	Fee                json.Number `json:"fee"`      // USDT, ConversionFee included
	ConversionFee      json.Number `json:"conversion_fee"`
	NetAmount          json.Number `json:"net_amount"`   // the same as Amount
	GrossAmount        json.Number `json:"gross_amount"` // USDT that the account pays
	SettlementCurrency string      `json:"settlement_currency"`
	Origin             string      `json:"origin"`
	ExternalID         *string     `json:"external_id"`
	TxHash             *string     `json:"tx_hash"`
	ErrorMessage       *string     `json:"error_message"`
	CreatedAt          time.Time   `json:"created_at"`
}

// Charge reads the data of a charge.* event.
func (e *Event) Charge() (c Charge, err error) { return c, e.read("charge.", &c) }

// Payout reads the data of a payout.* event.
func (e *Event) Payout() (p Payout, err error) { return p, e.read("payout.", &p) }

// CryptoCharge reads the data of a crypto.charge.* event.
func (e *Event) CryptoCharge() (c CryptoCharge, err error) { return c, e.read("crypto.charge.", &c) }

// CryptoPayout reads the data of a crypto.payout.* event.
func (e *Event) CryptoPayout() (p CryptoPayout, err error) { return p, e.read("crypto.payout.", &p) }

func (e *Event) read(prefix string, into any) error {
	if !strings.HasPrefix(e.Type, prefix) {
		return fmt.Errorf("webhook: %s is no %s event", e.Type, strings.TrimSuffix(prefix, "."))
	}
	if err := json.Unmarshal(e.Data, into); err != nil {
		return fmt.Errorf("webhook: %s: %w", e.Type, err)
	}
	return nil
}

// bodyBytesMax is far above every event.
const bodyBytesMax = 1 << 20

// Receiver is an [http.Handler] for events.
type Receiver struct {
	// Secrets are those that may have signed: one, or two while a rotation is under way.
	Secrets []string

	// On has what to do for each type. A type that is not there is acknowledged and ignored, so that new ones do no harm.
	On map[string]func(ctx context.Context, e Event) error

	// Once calls handle unless the event with that id was handled before, and remembers that it was when handle returns nil.
	// The best place to remember is the database transaction in which handle works. Nil handles every delivery.
	Once func(ctx context.Context, id string, handle func(ctx context.Context) error) error

	// Now tells the time; nil means time.Now.
	Now func() time.Time
}

// ServeHTTP verifies, reads and handles one delivery. It answers 200 when the event was handled, now or before; 400 or 401
// when it is not Ponte's; and 500 when handling failed, after which Ponte tries again.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if request.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "POST only", http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, request.Body, bodyBytesMax))
	if err != nil {
		http.Error(w, "the body could not be read", http.StatusBadRequest)
		return
	}
	if err := r.verify(request.Header.Get(SignatureHeader), body); err != nil {
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	}
	e, err := Parse(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if err := r.handle(request.Context(), e); err != nil {
		http.Error(w, "the event could not be handled", http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusOK)
}

func (r *Receiver) verify(header string, body []byte) error {
	now := time.Now
	if r.Now != nil {
		now = r.Now
	}
	err := ErrSignature // without a secret nothing is signed
	for _, secret := range r.Secrets {
		if err = Verify(header, body, secret, now()); err == nil {
			return nil
		}
	}
	return err
}

func (r *Receiver) handle(ctx context.Context, e Event) error {
	handle := r.On[e.Type]
	if handle == nil {
		return nil
	}
	if r.Once == nil {
		return handle(ctx, e)
	}
	return r.Once(ctx, e.ID, func(ctx context.Context) error { return handle(ctx, e) })
}
