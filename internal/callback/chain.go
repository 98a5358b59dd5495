package callback

import (
	"errors"
	"net/http"

	"github.com/ponte-pay/ponte/internal/chain"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/httpkit"
	"github.com/ponte-pay/ponte/internal/wire"
)

// Chain takes the notifications of a crypto provider.
type Chain struct {
	provider chain.Provider
	path     string
	to       ChainReceivers
	count    func(provider, what string)
}

// ChainReceivers are who notifications of a crypto provider are passed on to. Each notes one and reports whether it had
// room.
type ChainReceivers struct {
	Payment func(provider string, p *chain.Payment) bool // of coins that came in, or went back
	Payout  func(provider, providerID string) bool       // of coins that were sent
}

// NewChain returns a handler of the notifications of a provider, whose path is made of its own secret; count is told what
// came.
func NewChain(p chain.Provider, secret string, to ChainReceivers, count func(provider, what string)) *Chain {
	return &Chain{provider: p, path: Path(p.Name(), secret), to: to, count: count}
}

// Takes reports whether a request to that path is the provider's.
func (h *Chain) Takes(path string) bool { return path == h.path }

var errSignature = fault.New(fault.Forbidden, "", "the signature is not the provider's")

// ServeHTTP notes what a notification names and answers at once. One that is not signed by the provider is refused; one
// that is about nothing of ours is not, because it would come again and again.
func (h *Chain) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := h.take(r, httpkit.ScopeOf(w)); err != nil {
		if errors.Is(err, errMethod) {
			w.Header().Set("Allow", http.MethodPost)
		}
		httpkit.Fail(w, err, httpkit.Lower)
		return
	}
	_ = httpkit.Write(w, httpkit.Answer{Body: struct{}{}}) // always encodes
}

func (h *Chain) take(r *http.Request, scope *httpkit.Scope) error {
	name := h.provider.Name()
	scope.Route = Prefix + name
	if r.Method != http.MethodPost {
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
	notice, err := h.provider.ReadNotice(r.Header, body)
	switch {
	case errors.Is(err, chain.ErrSignature):
		h.count(name, "forged")
		return errSignature
	case err != nil:
		h.count(name, "unreadable")
	default:
		h.count(name, h.pass(name, notice))
	}
	return nil
}

// pass passes a notification on and returns what became of it.
func (h *Chain) pass(name string, n chain.Notice) string {
	var room bool
	if n.Payout != nil {
		room = h.to.Payout(name, n.Payout.ID)
	} else {
		room = h.to.Payment(name, n.Payment)
	}
	if !room {
		return "dropped" // it is found by its age
	}
	return "hint"
}
