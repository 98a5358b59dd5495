package callback_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/ponte-pay/ponte/internal/callback"
	"github.com/ponte-pay/ponte/internal/chain"
)

// signer is a provider that reads the word in its header as its signature.
type signer struct{ chain.Nobody }

func (signer) Name() string { return "coins" }

func (signer) ReadNotice(header http.Header, body []byte) (chain.Notice, error) {
	switch {
	case header.Get("Signature") != "right":
		return chain.Notice{}, &chain.Error{Cause: chain.ErrSignature}
	case strings.HasPrefix(string(body), "payment "):
		return chain.Notice{Payment: &chain.Payment{ID: strings.TrimPrefix(string(body), "payment ")}}, nil
	case strings.HasPrefix(string(body), "payout "):
		return chain.Notice{Payout: &chain.Payout{ID: strings.TrimPrefix(string(body), "payout ")}}, nil
	}
	return chain.Notice{}, errors.New("about neither")
}

func TestChainNotices(t *testing.T) {
	t.Parallel()
	path := callback.Path("coins", secret)
	for _, c := range []struct {
		name, method, path, signature, body string
		full                                bool // nobody has room
		status                              int
		hint, count                         string
	}{
		{"a payment", http.MethodPost, path, "right", "payment 7", false, 200, "payment 7", "hint"},
		{"a payout", http.MethodPost, path, "right", "payout 8", false, 200, "payout 8", "hint"},
		{"no room", http.MethodPost, path, "right", "payment 7", true, 200, "", "dropped"},
		{"forged", http.MethodPost, path, "wrong", "payment 7", false, 403, "", "forged"},
		{"not signed", http.MethodPost, path, "", "payment 7", false, 403, "", "forged"},
		{"signed, and about nothing of ours", http.MethodPost, path, "right", "weather", false, 200, "", "unreadable"},
		{"too large", http.MethodPost, path, "right", "payment " + strings.Repeat("7", 1<<20), false, 413, "", "too_large"},
		{"GET", http.MethodGet, path, "right", "", false, 405, "", ""},
	} {
		var hints, counts []string
		take := func(hint string) bool {
			if !c.full {
				hints = append(hints, hint)
			}
			return !c.full
		}
		h := callback.NewChain(signer{}, secret, callback.ChainReceivers{
			Payment: func(provider string, p *chain.Payment) bool { return provider == "coins" && take("payment "+p.ID) },
			Payout:  func(provider, providerID string) bool { return provider == "coins" && take("payout "+providerID) },
		}, func(provider, what string) { counts = append(counts, strings.TrimPrefix(provider+" "+what, "coins ")) })
		for _, other := range []string{path + "x", path[:len(path)-1], callback.Prefix + "coins/", callback.Path("coins", "another")} {
			if h.Takes(other) {
				t.Errorf("it takes %s", other)
			}
		}
		if !h.Takes(c.path) {
			t.Errorf("it does not take %s", c.path)
		}
		r := httptest.NewRequest(c.method, c.path, strings.NewReader(c.body))
		r.Header.Set("Signature", c.signature)
		rec := httptest.NewRecorder()
		newFrame().Wrap(h).ServeHTTP(rec, r)
		if rec.Code != c.status || strings.Join(hints, ",") != c.hint || strings.Join(counts, ",") != c.count {
			t.Errorf("%s: %d, hints %v, counts %v", c.name, rec.Code, hints, counts)
		}
		if (rec.Header().Get("Allow") == http.MethodPost) != (c.status == http.StatusMethodNotAllowed) {
			t.Errorf("%s: Allow %s", c.name, slices.Sorted(strings.SplitSeq(rec.Header().Get("Allow"), ",")))
		}
	}
}
