// Package callback takes what acquirers say about payments and payouts. A notification is only a hint: nothing moves before its
// sender was asked over our own connection.
package callback

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/httpkit"
	"github.com/ponte-pay/ponte/internal/pix"
	"github.com/ponte-pay/ponte/internal/wire"
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

// Sender is an acquirer that may send notifications.
type Sender struct {
	Name   string
	Secret string         // its own, from which its path is made
	Roots  *x509.CertPool // who has to vouch for the certificate that it shows; nil when it need not show any
}

// Handler takes the notifications of several acquirers.
type Handler struct {
	paths map[string]Sender // by their paths
	to    Receivers
	count func(acquirer, what string)
}

// Receivers are who notifications are passed on to. Each notes one and reports whether it had room.
type Receivers struct {
	// Charge is told of money that came in, or was given back, and when it is said to have come in; zero when that is not said.
	Charge func(acquirer, endToEndID, txid string, at time.Time) bool
	Payout func(acquirer, endToEndID, name string) bool // of money that was sent, or came back
}

// New returns a handler that passes hints on; count is told what came.
func New(senders []Sender, to Receivers, count func(acquirer, what string)) *Handler {
	h := &Handler{paths: map[string]Sender{}, to: to, count: count}
	for _, s := range senders {
		h.paths[Path(s.Name, s.Secret)] = s
	}
	return h
}

var (
	errNoRoute     = fault.New(fault.NotFound, "not_found", "there is no such route")
	errMethod      = fault.New(fault.MethodNotAllowed, "", "use POST")
	errCertificate = fault.New(fault.Forbidden, "", "a certificate of the acquirer is needed here")
	errTooBig      = fault.New(fault.TooLarge, "", "a notification is at most 1 MiB")
	errTooMany     = fault.New(fault.Invalid, "", fmt.Sprintf("a notification tells of at most %d payments", hintsMax))
	errBody        = fault.New(fault.Invalid, "", "the body must be a JSON object with a list named pix")
)

// ServeHTTP notes what a notification names and answers at once.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := h.take(r, httpkit.ScopeOf(w)); err != nil {
		if errors.Is(err, errMethod) {
			w.Header().Set("Allow", http.MethodPost)
		}
		httpkit.Fail(w, err, httpkit.Lower)
		return
	}
	_ = httpkit.Write(w, httpkit.Answer{Body: struct{}{}}) // always encodes
}

func (h *Handler) take(r *http.Request, scope *httpkit.Scope) error {
	// The standard appends /pix to the address that was registered.
	sender, ok := h.paths[strings.TrimSuffix(r.URL.Path, "/pix")]
	if !ok {
		return errNoRoute
	}
	name := sender.Name
	scope.Route = Prefix + name
	switch {
	case !sender.isShown(r.TLS):
		h.count(name, "no_certificate")
		return errCertificate
	case r.Method != http.MethodPost:
		return errMethod
	}
	body, err := wire.ReadBody(r.Body, r.ContentLength, bodyBytesMax)
	switch {
	case err != nil:
		return err
	case len(body) > bodyBytesMax:
		h.count(name, "too_large")
		return errTooBig
	}
	notices, err := read(body)
	if err != nil {
		h.count(name, unreadable)
		return err
	}
	for _, one := range notices {
		h.count(name, h.pass(name, one))
	}
	return nil
}

// unreadable is what becomes of a notification, or of one item of it, that cannot be read.
const unreadable = "unreadable"

// pass passes one item of a notification on and returns what became of it. One of a payout can come without an end-to-end id,
// when it failed before it had one; one of money that came back need not say whose it was, so that both are told. One that
// cannot be read takes none of the others with it.
func (h *Handler) pass(name string, item json.RawMessage) string {
	var n notice
	if json.Unmarshal(item, &n) != nil {
		return unreadable
	}
	known := pix.IsEndToEndID(n.EndToEndID)
	if !known {
		n.EndToEndID = ""
	}
	// What is no name of ours is not kept: it may be long, and says nothing.
	if !pix.IsTxID(n.TxID) {
		n.TxID = ""
	}
	payout := n.payout()
	var ok bool
	switch {
	case payout != "" || (known && string(n.Type) == typePayout):
		ok = h.to.Payout(name, n.EndToEndID, payout)
	case !known:
		return unreadable
	default:
		ok = h.to.Charge(name, n.EndToEndID, n.TxID, n.at())
		if n.TxID == "" && n.hasReturns() {
			ok = h.to.Payout(name, n.EndToEndID, "") && ok
		}
	}
	if !ok {
		return "dropped" // the lists find it
	}
	return "hint"
}

// isShown reports whether a connection shows the certificate that the sender must have.
func (s Sender) isShown(connection *tls.ConnectionState) bool {
	if s.Roots == nil {
		return true
	}
	if connection == nil || len(connection.PeerCertificates) == 0 {
		return false
	}
	between := x509.NewCertPool()
	for _, c := range connection.PeerCertificates[1:] {
		between.AddCert(c)
	}
	_, err := connection.PeerCertificates[0].Verify(x509.VerifyOptions{
		Roots: s.Roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return err == nil
}

// typePayout is what a notification says of money that we sent.
const typePayout = `"SOLICITACAO"`

// notice is what is read of a notification. Everything else is asked for.
type notice struct {
	EndToEndID string          `json:"endToEndId"`
	TxID       string          `json:"txid"`
	At         json.RawMessage `json:"horario"`
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

// at returns when its payment is said to have been made; zero when that is not said. It is not said of one of which something
// was given back either: that is asked about by itself, because a list may be behind with what became of a payment.
func (n *notice) at() time.Time {
	if n.hasReturns() {
		return time.Time{}
	}
	text, _ := strconv.Unquote(string(n.At)) // what is no text is no moment either
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}

// hasReturns reports whether it tells of money that went back.
func (n *notice) hasReturns() bool {
	var list []json.RawMessage
	return json.Unmarshal(n.Returns, &list) == nil && len(list) > 0
}

// read returns the items of a notification.
func read(body []byte) ([]json.RawMessage, error) {
	var n struct {
		Pix []json.RawMessage `json:"pix"`
	}
	switch err := json.Unmarshal(body, &n); {
	case err != nil:
		return nil, errors.Join(errBody, err)
	case len(n.Pix) > hintsMax:
		return nil, errTooMany
	}
	return n.Pix, nil
}
