package dashboard_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/dashboard"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
	"github.com/ponte-pay/ponte/internal/testkit"
	"github.com/ponte-pay/ponte/internal/user"
)

// What belongs to another account is not there, whatever page or form is asked for it. A route about a new kind of thing
// has to be added.
func TestThingsOfOthersAreNotFound(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, sqltest.SQLite(t))
	own, foreign := s.Account(t, "Padaria"), s.Account(t, "Livraria")
	ana := s.Person(t, "ana@example.com", own.ID, user.Owner)
	ana.AddTOTP(t, s)
	theirs := s.Stock(t, foreign, s.World(), func() {
		s.Advance(t, time.Minute)
		s.Step(t)
	})
	things := map[string]string{ // by what stands before the identifier in a path
		"charges": theirs.Charge, "payouts": theirs.Payout, "infractions": theirs.Infraction, "deposits": theirs.Deposit, "withdrawals": theirs.Withdrawal,
	}
	for _, r := range dashboard.Routes() {
		rest, below := strings.CutPrefix(r.Path, "/accounts/{account}/")
		kind, _, named := strings.Cut(rest, "/{id}")
		if !below || !named {
			continue
		}
		if things[kind] == "" {
			t.Errorf("%s %s: this test knows no %s of another account", r.Method, r.Path, kind)
			continue
		}
		for owner, want := range map[string]int{own.ID.String(): http.StatusNotFound, foreign.ID.String(): http.StatusNotFound} {
			path := strings.NewReplacer("{account}", owner, "{id}", things[kind]).Replace(r.Path)
			ana.Do(t, r.Method, path, url.Values{}, nil).Want(t, want).Lacks(t, "125,90", "maria@example.org", "stock-")
		}
	}
}
