package dashboard_test

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ponte-pay/ponte/internal/dashboard"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
	"github.com/ponte-pay/ponte/internal/testkit"
	"github.com/ponte-pay/ponte/internal/user"
)

// Every route says who may use it, in the one way that fits its path.
func TestEveryRouteHasARule(t *testing.T) {
	t.Parallel()
	for _, r := range dashboard.Routes() {
		name := r.Method + " " + r.Path
		if r.Who == "nobody" {
			t.Errorf("%s has no rule", name)
		}
		if below := strings.HasPrefix(r.Path, "/accounts/{account}"); below != (r.Who == "member") || below != (r.May != "") {
			t.Errorf("%s: what is below an account is for members with a permission, and nothing else is", name)
		}
		if below := r.Path == "/admin" || strings.HasPrefix(r.Path, "/admin/"); below != (r.Who == "operator") {
			t.Errorf("%s: what is below /admin is for operators, and nothing else is", name)
		}
		if r.May != "" && !slices.Contains(user.Permissions, r.May) {
			t.Errorf("%s: unknown permission %s", name, r.May)
		}
		if r.Method == http.MethodPost && r.May == user.View {
			t.Errorf("%s: who may look changes nothing", name)
		}
	}
}

// fill puts names into the variables of a path.
func fill(path, account string) string {
	path = strings.NewReplacer("{account}", account, "/{$}", "/").Replace(path)
	return regexp.MustCompile(`\{[a-z]+\}`).ReplaceAllString(path, "nothing")
}

// What every kind of visitor is told at every route.
func TestRulesHold(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, sqltest.SQLite(t))
	own, foreign := s.Account(t, "Padaria"), s.Account(t, "Livraria")
	operator := s.Person(t, "op@example.com", 0, "")
	operator.AddTOTP(t, s)
	weak := s.Person(t, "weak@example.com", 0, "") // an operator without a second factor
	half := s.Person(t, "half@example.com", own.ID, user.Owner)
	half.AddTOTP(t, s)
	visitors := map[string]*testkit.Browser{"": s.Browser(t), "operator": operator, "weak": weak, "half": half}
	for _, role := range user.Roles {
		visitors[string(role)] = s.Person(t, string(role)+"@example.com", own.ID, role)
	}
	visitors["stranger"] = s.Person(t, "stranger@example.com", foreign.ID, user.Owner)

	for _, r := range dashboard.Routes() {
		path := fill(r.Path, own.ID.String())
		if path == "/sign-out" || (path == "/security/sessions/end") {
			continue // ends the visit
		}
		for name, b := range visitors {
			if name == "half" && (visitors["half"] == half || r.Who == "halfway") { // anew: a wrong code may end it
				b = s.Browser(t)
				visitors["half"] = b
				b.Post(t, "/sign-in", url.Values{"email": {"half@example.com"}, "password": {testkit.PasswordOfAll}}).Want(t, http.StatusSeeOther)
			}
			got := b.Do(t, r.Method, path, nil, nil)
			what := r.Method + " " + path + " for " + name
			detour := got.Status == http.StatusSeeOther && got.Location != path
			switch {
			case r.Who == "anybody":
				if detour && strings.HasPrefix(got.Location, "/sign-in?") {
					t.Errorf("%s: sent to %s", what, got.Location)
				}
			case name == "":
				if !detour || !strings.HasPrefix(got.Location, "/sign-in") {
					t.Errorf("%s: status %d to %q", what, got.Status, got.Location)
				}
			case name == "half" && r.Who != "halfway":
				if !detour || got.Location != "/sign-in/code" {
					t.Errorf("%s: status %d to %q", what, got.Status, got.Location)
				}
			case r.Who == "member":
				wantRefusal(t, what, got, memberRefusal(name, r.May))
			case r.Who == "operator" && name == "weak":
				if !detour || got.Location != "/security/totp" {
					t.Errorf("%s: status %d to %q", what, got.Status, got.Location)
				}
			case r.Who == "operator" && name != "operator":
				wantRefusal(t, what, got, http.StatusNotFound)
			}
		}
	}
}

// memberRefusal returns what somebody is told below the account of others; 0 means that they are let in.
func memberRefusal(name string, may user.Permission) int {
	switch {
	case !slices.Contains(user.Roles, user.Role(name)):
		return http.StatusNotFound
	case !user.Role(name).May(may):
		return http.StatusForbidden
	}
	return 0
}

func wantRefusal(t *testing.T, what string, got *testkit.Shown, want int) {
	t.Helper()
	refused := got.Status == http.StatusForbidden || (got.Status == http.StatusNotFound && !strings.Contains(what, "/nothing"))
	if (want != 0 && got.Status != want) || (want == 0 && refused) {
		t.Errorf("%s: status %d, want %d", what, got.Status, want)
	}
}

// Every form refuses what comes from another site, whoever is signed in, and does nothing.
func TestFormsRefuseOtherSites(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, sqltest.SQLite(t))
	a := s.Account(t, "Padaria")
	owner := s.Person(t, "ana@example.com", a.ID, user.Owner)
	operator := s.Person(t, "op@example.com", 0, "")
	operator.AddTOTP(t, s)
	forms := 0
	for _, r := range dashboard.Routes() {
		if r.Method == http.MethodGet {
			continue
		}
		forms++
		for _, b := range []*testkit.Browser{owner, operator, s.Browser(t)} {
			for _, header := range []http.Header{
				{"Sec-Fetch-Site": {"cross-site"}},
				{"Sec-Fetch-Site": {"same-site"}},
				{"Sec-Fetch-Site": nil, "Origin": {"https://evil.example"}},
				{"Sec-Fetch-Site": nil, "Origin": {"null"}},
			} {
				got := b.Do(t, r.Method, fill(r.Path, a.ID.String()), nil, header)
				if got.Status != http.StatusForbidden || !strings.Contains(got.Body, "outro site") {
					t.Errorf("%s %s %v: status %d to %q", r.Method, r.Path, header, got.Status, got.Location)
				}
			}
		}
	}
	if forms < 5 {
		t.Errorf("only %d forms were found", forms)
	}
	owner.Get(t, "/security").Want(t, http.StatusOK) // and is still signed in
}
