package callback_test

import (
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/callback"
	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/httpkit"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/testkit"
)

const secret = "the acquirer's own"

// taken is what became of a notification.
type taken struct {
	status int
	allow  string // the header
	hints  []string
	counts []string
}

// take sends one notification to a handler that has room for so many hints.
func take(method, path, body string, room int) taken {
	var got taken
	hint := func(of string) func(acquirer, endToEndID, name string) bool {
		return func(acquirer, endToEndID, name string) bool {
			if len(got.hints) == room {
				return false
			}
			got.hints = append(got.hints, of+acquirer+" "+endToEndID+" "+name)
			return true
		}
	}
	h := callback.New([]callback.Sender{{Name: "alpha", Secret: secret}, {Name: "beta", Secret: "another"}},
		callback.Receivers{
			Charge: func(acquirer, endToEndID, txid string, at time.Time) bool {
				if !at.IsZero() {
					txid += " at " + at.Format(time.RFC3339Nano)
				}
				return hint("")(acquirer, endToEndID, txid)
			},
			Payout: hint("payout "),
		}, func(acquirer, what string) { got.counts = append(got.counts, acquirer+" "+what) })
	rec := httptest.NewRecorder()
	newFrame().Wrap(h).ServeHTTP(rec, httptest.NewRequest(method, path, strings.NewReader(body)))
	got.status, got.allow = rec.Code, rec.Header().Get("Allow")
	return got
}

func newFrame() *httpkit.Frame {
	c := clock.New(nil)
	return &httpkit.Frame{
		IDs: id.NewGenerator(c.Now, rand.Reader), Clock: c, Log: slog.New(slog.DiscardHandler), Ready: func() error { return nil },
		Spelling: func(string) httpkit.Spelling { return httpkit.Lower },
	}
}

const one = `{"pix":[{"endToEndId":"E90000099202611150418Ek5ZVqnbW7s","txid":"t1","valor":"10.00"}]}`

func TestPath(t *testing.T) {
	t.Parallel()
	path := callback.Path("alpha", secret)
	if strings.Contains(path, secret) || path == callback.Path("alpha", secret+"x") || path == callback.Path("beta", secret) ||
		len(path) < len(callback.Prefix+"alpha/")+64 {
		t.Errorf("%s", path)
	}
	for _, c := range []struct {
		name, method, path string
		status             int
	}{
		{"as registered", http.MethodPost, path, 200},
		{"with what the standard appends", http.MethodPost, path + "/pix", 200},
		{"GET", http.MethodGet, path, 405},
		{"PUT", http.MethodPut, path + "/pix", 405},
		{"no secret", http.MethodPost, callback.Prefix + "alpha", 404},
		{"empty secret", http.MethodPost, callback.Prefix + "alpha/", 404},
		{"wrong secret", http.MethodPost, path[:len(path)-1] + "x", 404},
		{"part of the secret", http.MethodPost, path[:len(path)-1], 404},
		{"in upper case", http.MethodPost, strings.ToUpper(path), 404},
		{"secret of the other", http.MethodPost, callback.Path("alpha", "another"), 404},
		{"the other with this secret", http.MethodPost, callback.Path("beta", secret), 404},
		{"unknown acquirer", http.MethodPost, callback.Path("gamma", secret), 404},
		{"behind it", http.MethodPost, path + "/pix/x", 404},
		{"twice", http.MethodPost, path + "/pix/pix", 404},
		{"GET with a wrong secret", http.MethodGet, path + "x", 404}, // nothing is told about what is there
	} {
		got := take(c.method, c.path, one, 10)
		if got.status != c.status || (len(got.hints) == 1) != (c.status == http.StatusOK) || (got.allow == "POST") != (c.status == http.StatusMethodNotAllowed) {
			t.Errorf("%s: %+v, want %d", c.name, got, c.status)
		}
	}
}

func TestBody(t *testing.T) {
	t.Parallel()
	path := callback.Path("alpha", secret)
	list := func(n int) string {
		return `{"pix":[` + strings.Join(slices.Repeat([]string{`{"endToEndId":"E1"}`}, n), ",") + `]}`
	}
	wide := func(n int) string { return `{"pix":[]` + strings.Repeat(" ", n-len(`{"pix":[]}`)) + `}` }
	for _, c := range []struct {
		name, body string
		status     int
		hints      int
		counts     string
	}{
		{"one", one, 200, 1, "1 hint"},
		{"several", list(3), 200, 3, "3 hint"},
		{"twice the same", `{"pix":[{"endToEndId":"E1","txid":"t"},{"endToEndId":"E1","txid":"t"}]}`, 200, 2, "2 hint"},
		{"most", list(2000), 200, 10, "10 hint,1990 dropped"},
		{"too many", list(2001), 400, 0, "1 unreadable"},
		{"none", `{"pix":[]}`, 200, 0, ""},
		{"a trial without payments", `{"evento":"teste_webhook"}`, 200, 0, ""},
		{"no id", `{"pix":[{"txid":"t"},{"endToEndId":"E1"}]}`, 200, 1, "1 hint,1 unreadable"},
		{"an id that can be none", `{"pix":[{"endToEndId":"E1' OR 1=1"},{"endToEndId":"` + strings.Repeat("E", 100) + `"}]}`, 200, 0, "2 unreadable"},
		{"one that cannot be read", `{"pix":[{"endToEndId":"E1","txid":5},"x",{"endToEndId":"E1"}]}`, 200, 1, "1 hint,2 unreadable"},
		{"unknown fields", `{"pix":[{"endToEndId":"E1","gnExtras":{"x":[1]}}],"more":1}`, 200, 1, "1 hint"},
		{"not JSON", `pix=1`, 400, 0, "1 unreadable"},
		{"nothing", ``, 400, 0, "1 unreadable"},
		{"a list", `[]`, 400, 0, "1 unreadable"},
		{"pix an object", `{"pix":{}}`, 400, 0, "1 unreadable"},
		{"half", one[:40], 400, 0, "1 unreadable"},
		{"1 MiB", wide(1 << 20), 200, 0, ""},
		{"more than 1 MiB", wide(1<<20 + 1), 413, 0, "1 too_large"},
	} {
		got := take(http.MethodPost, path+"/pix", c.body, 10)
		tally := map[string]int{}
		for _, what := range got.counts {
			tally[strings.TrimPrefix(what, "alpha ")]++
		}
		var counts []string
		for _, what := range []string{"hint", "dropped", "too_large", "unreadable"} {
			if tally[what] > 0 {
				counts = append(counts, fmt.Sprint(tally[what], " ", what))
			}
		}
		if got.status != c.status || len(got.hints) != c.hints || strings.Join(counts, ",") != c.counts {
			t.Errorf("%s: %d, %d hints, counted %v; want %d, %d, %s", c.name, got.status, len(got.hints), counts, c.status, c.hints, c.counts)
		}
	}
}

// TestReceivers shows who is told of what.
func TestReceivers(t *testing.T) {
	t.Parallel()
	const name = "101m7evk3wff4hvp94t5j2x2jsjkx0v7g2q"
	for body, want := range map[string]string{
		`{"endToEndId":"E1","txid":"t","horario":"2026-11-15T09:01:02.345-03:00"}`:                  "alpha E1 t at 2026-11-15T12:01:02.345Z",
		`{"endToEndId":"E1","txid":"t","horario":"2026-11-15T12:01:02Z","devolucoes":[{"id":"1"}]}`: "alpha E1 t",
		`{"endToEndId":"E1","txid":"t","horario":"yesterday"}`:                                      "alpha E1 t",
		`{"endToEndId":"E1","txid":"t","horario":{"liquidacao":"2026-11-15T09:01:02Z"}}`:            "alpha E1 t",
		`{"endToEndId":"E1","txid":"t"}`:                                                            "alpha E1 t",
		`{"endToEndId":"E1","txid":"t","devolucoes":[{"id":"1"}]}`:                                  "alpha E1 t",
		`{"endToEndId":"E1","tipo":"SOLICITACAO","gnExtras":{"idEnvio":"` + name + `"}}`:            "payout alpha E1 " + name,
		`{"endToEndId":null,"tipo":"SOLICITACAO","gnExtras":{"idEnvio":"` + name + `"}}`:            "payout alpha  " + name, // failed before it had one
		`{"endToEndId":"E1","gnExtras":{"idEnvio":"` + name + `"},"devolucoes":[{"id":"1"}]}`:       "payout alpha E1 " + name,
		`{"endToEndId":"E1","tipo":"SOLICITACAO"}`:                                                  "payout alpha E1 ",
		`{"endToEndId":"E1","devolucoes":[{"rtrId":"D1"}]}`:                                         "alpha E1 ,payout alpha E1 ",
		`{"endToEndId":"E1","devolucoes":"x","gnExtras":7,"tipo":{}}`:                               "alpha E1 ",
		`{"tipo":"SOLICITACAO","gnExtras":{"idEnvio":"` + strings.Repeat("a", 36) + `"}}`:           "",
	} {
		got := take(http.MethodPost, callback.Path("alpha", secret), `{"pix":[`+body+`]}`, 10)
		if hints := strings.Join(got.hints, ","); got.status != http.StatusOK || hints != want {
			t.Errorf("%s: %d %q, want %q", body, got.status, hints, want)
		}
	}
}

// FuzzBody sends anything to a handler: it never fails otherwise than by refusing.
func FuzzBody(f *testing.F) {
	f.Add(one)
	f.Add(`{"pix":[{"endToEndId":5}]}`)
	f.Add(`{"pix":null}`)
	path := callback.Path("alpha", secret)
	f.Fuzz(func(t *testing.T, body string) {
		got := take(http.MethodPost, path, body, 10)
		if got.status != http.StatusOK && (got.status != http.StatusBadRequest || len(got.hints) > 0) {
			t.Errorf("%q: %+v", body, got)
		}
	})
}

// An acquirer that has to show a certificate is heard only with one that its own authority vouches for.
func TestCertificate(t *testing.T) {
	t.Parallel()
	until := testkit.Real.Real().Add(time.Hour)
	own, stranger, site := testkit.NewCertificate(t, t.TempDir(), until), testkit.NewCertificate(t, t.TempDir(), until), testkit.NewCertificate(t, t.TempDir(), until)
	var counts []string
	h := callback.New([]callback.Sender{{Name: "alpha", Secret: secret, Roots: own.Pool}, {Name: "beta", Secret: secret}},
		callback.Receivers{Charge: func(string, string, string, time.Time) bool { return true }},
		func(acquirer, what string) { counts = append(counts, acquirer+" "+what) })
	server := httptest.NewUnstartedServer(newFrame().Wrap(h))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair(t, site)}, ClientAuth: tls.RequestClientCert}
	server.StartTLS()
	defer server.Close()
	for _, c := range []struct {
		name, acquirer string
		shown          []tls.Certificate
		status         int
	}{
		{"none", "alpha", nil, 403},
		{"a stranger's", "alpha", []tls.Certificate{pair(t, stranger)}, 403},
		{"its own", "alpha", []tls.Certificate{pair(t, own)}, 200},
		{"none, and none is asked for", "beta", nil, 200},
		{"a stranger's, and none is asked for", "beta", []tls.Certificate{pair(t, stranger)}, 200},
	} {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: site.Pool, Certificates: c.shown}}}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+callback.Path(c.acquirer, secret), strings.NewReader(one))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		client.CloseIdleConnections()
		if answer.StatusCode != c.status {
			t.Errorf("%s: answered %d, want %d", c.name, answer.StatusCode, c.status)
		}
	}
	if want := []string{"alpha no_certificate", "alpha no_certificate", "alpha hint", "beta hint", "beta hint"}; !slices.Equal(counts, want) {
		t.Errorf("counted %q", counts)
	}
}

func pair(t *testing.T, c testkit.Certificate) tls.Certificate {
	t.Helper()
	p, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
