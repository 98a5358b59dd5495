package reference_test

import (
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/ponte-pay/ponte/internal/api"
	"github.com/ponte-pay/ponte/internal/dashboard/reference"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
	"github.com/ponte-pay/ponte/internal/testkit"
)

// Every curl line does what its operation promises when it is pasted into a shell with a key in it. The transport of
// testkit holds requests and answers against the document.
func TestCurlLinesWork(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, sqltest.SQLite(t))
	shop := s.Account(t, "shop")
	s.Adjust(t, shop.ID, money.CurrencyBRL, "1000.00")
	s.Adjust(t, shop.ID, money.CurrencyUSDT, "1000.00")
	works := []int{http.StatusOK, http.StatusCreated}
	for _, p := range load(t).Pages {
		for _, o := range p.Operations {
			line := strings.ReplaceAll(o.Curl, reference.BaseURL, s.URL+api.Prefix)
			got := s.Do(t, parse(t, s.URL, strings.ReplaceAll(line, reference.Key, shop.Key)))
			want := works
			switch {
			case o.Reserved:
				want = []int{http.StatusNotImplemented, http.StatusNotFound}
			case strings.Contains(o.Path, "{"): // the identifier of an example
				want = []int{http.StatusNotFound}
			}
			if !slices.Contains(want, got.Status) {
				t.Errorf("%s\n%d %s", line, got.Status, got.Body)
			}
		}
	}
}

// parse has a shell read a curl line, and returns the request that curl would make.
func parse(t *testing.T, base, line string) testkit.Request {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "sh", "-euc", `curl() { for argument; do printf '%s\0' "$argument"; done; }; `+line).Output()
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	r := testkit.Request{Method: http.MethodGet, Header: http.Header{}}
	arguments := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	for len(arguments) > 0 {
		used := 2
		switch arguments[0] {
		case "-X":
			r.Method = arguments[1]
		case "-H":
			name, value, _ := strings.Cut(arguments[1], ": ")
			r.Header.Set(name, value)
		case "-d":
			r.Method, r.Body = http.MethodPost, arguments[1]
		default:
			used = 1
			r.Path = strings.TrimPrefix(arguments[0], base)
		}
		arguments = arguments[used:]
	}
	return r
}
