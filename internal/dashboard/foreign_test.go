package dashboard_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/dashboard"
	"github.com/ponte-pay/ponte/internal/event"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
	"github.com/ponte-pay/ponte/internal/testkit"
	"github.com/ponte-pay/ponte/internal/user"
	"github.com/ponte-pay/ponte/internal/webhook"
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
	things := map[string]string{
		"charges/{id}": theirs.Charge, "payouts/{id}": theirs.Payout, "infractions/{id}": theirs.Infraction,
		"deposits/{id}": theirs.Deposit, "withdrawals/{id}": theirs.Withdrawal,
		"{event}": lastEvent(t, s, foreign), "{endpoint}": newEndpoint(t, s, foreign), "{key}": strings.Split(foreign.Key, "_")[1],
		"{invitation}": newInvitation(t, s, foreign), "{person}": newMember(t, s, foreign),
	}
	var pairs []string
	for name, value := range things {
		kind, _, _ := strings.Cut(name, "{")
		pairs = append(pairs, name, kind+value)
	}
	put := strings.NewReplacer(pairs...)
	for _, r := range dashboard.Routes() {
		rest, below := strings.CutPrefix(r.Path, "/accounts/{account}/")
		if !below || !strings.Contains(rest, "{") {
			continue
		}
		filled := put.Replace(rest)
		if strings.Contains(filled, "{") {
			t.Errorf("%s %s: this test knows no such thing of another account", r.Method, r.Path)
			continue
		}
		for _, owner := range []testkit.Account{own, foreign} {
			got := ana.Do(t, r.Method, "/accounts/"+owner.ID.String()+"/"+filled, url.Values{"role": {"viewer"}, "events": {"all"}, "type": {"charge.paid"}, "once": {"AAAAAAAAAAAAAAAAAAAAAA"}}, nil)
			if got.Status != http.StatusNotFound {
				t.Errorf("%s %s in the account %s: %d to %q", r.Method, filled, owner.ID, got.Status, got.Location)
			}
			got.Lacks(t, "125,90", "maria@example.org", "stock-", "shop.example.org", "zoe@")
		}
	}
}

// What is asked for behind the question mark is not found either.
func TestThingsOfOthersAreNotSearched(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, sqltest.SQLite(t))
	own, foreign := s.Account(t, "Padaria"), s.Account(t, "Livraria")
	ana := s.Person(t, "ana@example.com", own.ID, user.Owner)
	theirs := s.Stock(t, foreign, s.World(), func() {
		s.Advance(t, time.Minute)
		s.Step(t)
	})
	book, sent := s.World().Books(t)[0], s.World().Payouts(t)[0]
	endpoint, last := newEndpoint(t, s, foreign), lastEvent(t, s, foreign)
	home := "/accounts/" + own.ID.String()
	for _, path := range []string{
		"/charges?q=" + theirs.Charge, "/charges?q=" + book.TxID, "/charges?q=" + book.EndToEndID, "/charges?q=stock-order", "/charges?after=" + theirs.Charge,
		"/payouts?q=" + theirs.Payout, "/payouts?q=" + sent.ID, "/payouts?q=" + sent.EndToEndID, "/payouts?q=stock-refund", "/payouts?after=" + theirs.Payout,
		"/deposits?q=" + theirs.Deposit, "/deposits?q=stock-topup", "/deposits?after=" + theirs.Deposit, "/withdrawals?after=" + theirs.Withdrawal,
		"/infractions?after=" + theirs.Infraction, "/transactions?after=txn_in_" + strings.TrimPrefix(theirs.Charge, "chg_"),
		"/events?q=" + last, "/events?after=" + last, "/webhooks/redeliver?endpoint=" + endpoint,
	} {
		got := ana.Get(t, home+path)
		if got.Status != http.StatusOK && got.Status != http.StatusNotFound && (got.Status != http.StatusSeeOther || strings.Contains(strings.TrimPrefix(got.Location, home), "_0")) {
			t.Errorf("%s: %d to %q", path, got.Status, got.Location)
		}
		got.Lacks(t, "125,90", "maria@example.org", "shop.example.org", "Pedido 1042")
	}
	form := url.Values{"endpoint": {endpoint}, "since": {"2020-01-01T00:00"}, "until": {"2020-01-02T00:00"}}
	ana.Post(t, home+"/webhooks/redeliver", form).Want(t, http.StatusNotFound)
}

func lastEvent(t *testing.T, s *testkit.Service, a testkit.Account) string {
	t.Helper()
	x, err := event.NewFeed(s.Core.DB).Last(t.Context(), a.ID)
	if err != nil || x.IsZero() {
		t.Fatal(x, err)
	}
	return event.Prefix.Format(x)
}

func newEndpoint(t testing.TB, s *testkit.Service, a testkit.Account) string {
	t.Helper()
	hooks, err := s.Core.Webhooks(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	e, _, err := hooks.Create(t.Context(), a.ID, webhook.Endpoint{URL: "https://shop.example.org/hooks"})
	if err != nil {
		t.Fatal(err)
	}
	return id.Endpoint.Format(e.ID)
}

func newInvitation(t *testing.T, s *testkit.Service, a testkit.Account) string {
	t.Helper()
	if _, err := s.Core.Users.Invite(t.Context(), user.Invitation{Email: "zoe@example.com", Account: a.ID, Role: user.Viewer}); err != nil {
		t.Fatal(err)
	}
	open, err := s.Core.Users.Invitations(t.Context(), a.ID)
	if err != nil || len(open) != 1 {
		t.Fatal(open, err)
	}
	return open[0].ID.String()
}

func newMember(t testing.TB, s *testkit.Service, a testkit.Account) string {
	t.Helper()
	b := s.Person(t, "zoe@example.org", a.ID, user.Owner)
	p, err := s.Core.Users.Find(t.Context(), b.Email)
	if err != nil {
		t.Fatal(err)
	}
	return p.ID.String()
}
