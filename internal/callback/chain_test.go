package callback_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ponte-pay/ponte/internal/callback"
	"github.com/ponte-pay/ponte/internal/chain"
)

// signer is a provider whose notifications are words: what it is about, or nothing that it signed.
type signer struct{ chain.Nobody }

var errNonsense = errors.New("neither a payment nor a payout")

func (signer) Name() string { return "coins" }

func (signer) ReadNotice(header map[string][]string, body []byte) (chain.Notice, error) {
	if http.Header(header).Get("X-Sig") != "good" {
		return chain.Notice{}, &chain.Error{Cause: chain.ErrSignature}
	}
	switch kind, id, _ := strings.Cut(string(body), " "); kind {
	case "payout":
		return chain.Notice{Payout: &chain.Payout{ID: id}}, nil
	case "payment":
		return chain.Notice{Payment: &chain.Payment{ID: id}}, nil
	}
	return chain.Notice{}, errNonsense
}

func TestChain(t *testing.T) {
	t.Parallel()
	var heard, counted []string
	room := true
	to := callback.ChainReceivers{
		Payout:  func(provider, id string) bool { heard = append(heard, provider+" out "+id); return room },
		Payment: func(provider string, p *chain.Payment) bool { heard = append(heard, provider+" in "+p.ID); return room },
	}
	count := func(provider, what string) { counted = append(counted, provider+" "+what) }
	h := callback.NewChain(signer{}, "secret", to, count)
	path := callback.Path("coins", "secret")
	for _, other := range []string{"", "/callbacks/coins", path + "/", path + "/pix", callback.Path("coins", "other"), callback.Path("other", "secret")} {
		if h.Takes(other) {
			t.Errorf("%q is taken", other)
		}
	}
	if !h.Takes(path) {
		t.Errorf("%q is not taken", path)
	}
	for _, c := range []struct {
		method, sig, body string
		full              bool
		status            int
		heard, counted    string
	}{
		{"POST", "good", "payout 7", false, 200, "coins out 7", "coins hint"},
		{"POST", "good", "payment 8", false, 200, "coins in 8", "coins hint"},
		{"POST", "good", "payout 9", true, 200, "coins out 9", "coins dropped"},
		{"POST", "good", "nonsense", false, 200, "", "coins unreadable"},
		{"POST", "bad", "payout 7", false, 403, "", "coins forged"},
		{"POST", "", "payout 7", false, 403, "", "coins forged"},
		{"POST", "good", strings.Repeat("x", 1<<20+1), false, 413, "", "coins too_large"},
		{"GET", "good", "", false, 405, "", ""},
	} {
		heard, counted, room = nil, nil, !c.full
		r := httptest.NewRequestWithContext(t.Context(), c.method, path, strings.NewReader(c.body))
		r.Header.Set("X-Sig", c.sig)
		w := httptest.NewRecorder()
		newFrame().Wrap(h).ServeHTTP(w, r)
		if w.Code != c.status || strings.Join(heard, ",") != c.heard || strings.Join(counted, ",") != c.counted {
			t.Errorf("%s %.20q signed %q: %d, heard %v, counted %v", c.method, c.body, c.sig, w.Code, heard, counted)
		}
	}
}
