package browsertest

import (
	"testing"

	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
	"github.com/ponte-pay/ponte/internal/testkit"
	"github.com/ponte-pay/ponte/internal/totp"
	"github.com/ponte-pay/ponte/internal/user"
)

// town is a server with its bank, a browser and an account.
type town struct {
	*testkit.Service
	world *testkit.World
	b     *browser
	shop  testkit.Account
}

func newTown(t *testing.T) *town {
	t.Helper()
	w := testkit.NewWorld(t)
	s := testkit.Run(t, sqltest.SQLite(t), testkit.Simulator(w))
	return &town{s, w, startBrowser(t), s.Account(t, "Padaria")}
}

// app is an authenticator app.
type app struct {
	secret []byte
	step   int64 // whose code was used last
}

// code returns a code that was not used before.
func (a *app) code() string {
	a.step = max(a.step+1, totp.Step(testkit.Real.Real())-1)
	return totp.Code(a.secret, a.step)
}

// People use the dashboard.
func TestWalk(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	link, err := w.Core.Users.Invite(t.Context(), user.Invitation{Email: "ana@example.com", Account: w.shop.ID, Role: user.Owner})
	if err != nil {
		t.Fatal(err)
	}
	p := w.b.open(t, w.URL)
	known := map[string]bool{}
	p.visit("/sign-in")
	p.check("sign-in")
	p.visit("/invitations/" + link)
	p.check("invitation")
	p.fill("Seu nome", "Ana")
	p.fill("Nova senha", testkit.PasswordOfAll)
	p.leaving(func() { p.press("\r") })
	p.crawl("owner", known)
	p.visit("/docs")
	p.crawl("docs", known)
}
