// Package callback takes what acquirers say about payments and payouts. A notification is only a hint: nothing moves before its
// sender was asked over our own connection.
package callback

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/httpkit"
	"github.com/ponte-pay/ponte/internal/pix"
)

// Prefix is where notifications arrive.
const Prefix = "/callbacks/"

const (
	bodyBytesMax = 1 << 20
	hintsMax     = 2000 // payments in one notification
)

// Path returns the secret path of an acquirer's notifications. The secret is derived from the acquirer's own, so that
// every node knows it and nothing has to be kept.
func Path(acquirer, clientSecret string) string {
	mac := hmac.New(sha256.New, []byte(clientSecret))
	mac.Write([]byte("callback " + acquirer))
	return Prefix + acquirer + "/" + hex.EncodeToString(mac.Sum(nil))
}

// Handler takes the notifications of several acquirers.
type Handler struct {
	paths map[string]string // acquirers by their paths
	to    Receivers
	count func(acquirer, what string)
}

// Receivers are who notifications are passed on to. Each notes one and reports whether it had room.
type Receivers struct {
	Charge func(acquirer, endToEndID, txid string) bool // of money that came in, or was given back
	Payout func(acquirer, endToEndID, name string) bool // of money that was sent, or came back
}

// New returns a handler that passes hints on. secrets are the acquirers' own, by name; count is told what came.
func New(secrets map[string]string, to Receivers, count func(acquirer, what string)) *Handler {
	h := &Handler{paths: map[string]string{}, to: to, count: count}
	for name, secret := range secrets {
		h.paths[Path(name, secret)] = name
	}
	return h
}

var (
	errNoRoute = fault.New(fault.NotFound, "not_found", "there is no such route")
	errMethod  = fault.New(fault.MethodNotAllowed, "", "use POST")
	errTooBig  = fault.New(fault.TooLarge, "", "a notification is at most 1 MiB")
	errBody    = fault.New(fault.Invalid, "", "the body must be a JSON object with a list named pix")
)

// ServeHTTP notes what a notification names and answers at once.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := h.take(r); err != nil {
		if errors.Is(err, errMethod) {
			w.Header().Set("Allow", http.MethodPost)
		}
		httpkit.Fail(w, httpkit.ScopeOf(r), err, httpkit.Lower)
		return
	}
	_ = httpkit.Write(w, httpkit.Answer{Body: struct{}{}}) // always encodes
}

func (h *Handler) take(r *http.Request) error {
	// The standard appends /pix to the address that was registered.
	name, ok := h.paths[strings.TrimSuffix(r.URL.Path, "/pix")]
	switch {
	case !ok:
		return errNoRoute
	case r.Method != http.MethodPost:
		return errMethod
	}
	scope := httpkit.ScopeOf(r)
	scope.Route, scope.Secret = Prefix+name, true
	body, err := io.ReadAll(io.LimitReader(r.Body, bodyBytesMax+1))
	switch {
	case err != nil:
		return err
	case len(body) > bodyBytesMax:
		h.count(name, "too_large")
		return errTooBig
	}
	notices, err := read(body)
	if err != nil {
		h.count(name, "unreadable")
		return err
	}
	for i := range notices {
		h.count(name, h.pass(name, &notices[i]))
	}
	return nil
}

// pass passes a notification on and returns what became of it. One of a payout can come without an end-to-end id, when it
// failed before it had one; one of money that came back need not say whose it was, so that both are told.
func (h *Handler) pass(name string, n *notice) string {
	known := pix.IsEndToEndID(n.EndToEndID)
	if !known {
		n.EndToEndID = ""
	}
	payout := n.payout()
	var ok bool
	switch {
	case payout != "" || (known && string(n.Type) == typePayout):
		ok = h.to.Payout(name, n.EndToEndID, payout)
	case !known:
		return "unreadable"
	default:
		ok = h.to.Charge(name, n.EndToEndID, n.TxID)
		if n.TxID == "" && n.hasReturns() {
			ok = h.to.Payout(name, n.EndToEndID, "") && ok
		}
	}
	if !ok {
		return "dropped" // the lists find it
	}
	return "hint"
}

// typePayout is what a notification says of money that we sent.
const typePayout = `"SOLICITACAO"`

// notice is what is read of a notification. Everything else is asked for.
type notice struct {
	EndToEndID string          `json:"endToEndId"`
	TxID       string          `json:"txid"`
	Type       json.RawMessage `json:"tipo"`
	Returns    json.RawMessage `json:"devolucoes"`
	Extras     json.RawMessage `json:"gnExtras"`
}

// payout returns the name that a payout was sent under, or "" when it tells none that we could have chosen.
func (n *notice) payout() string {
	var extras struct {
		Name string `json:"idEnvio"`
	}
	if json.Unmarshal(n.Extras, &extras) != nil || !pix.IsTxID(extras.Name) { // an id's rule is a txid's
		return ""
	}
	return extras.Name
}

// hasReturns reports whether it tells of money that went back.
func (n *notice) hasReturns() bool {
	var list []json.RawMessage
	return json.Unmarshal(n.Returns, &list) == nil && len(list) > 0
}

func read(body []byte) ([]notice, error) {
	var n struct {
		Pix []notice `json:"pix"`
	}
	if err := json.Unmarshal(body, &n); err != nil || len(n.Pix) > hintsMax {
		return nil, errors.Join(errBody, err)
	}
	return n.Pix, nil
}
