package dashboard_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
	"github.com/ponte-pay/ponte/internal/testkit"
	"github.com/ponte-pay/ponte/internal/user"
)

func credentials(email, password string) url.Values {
	return url.Values{"email": {email}, "password": {password}}
}

func TestSignIn(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *testkit.Service) {
		a := s.Account(t, "Padaria")
		home := "/accounts/" + a.ID.String()
		s.Person(t, "ana@example.com", a.ID, user.Owner)
		b := s.Browser(t)
		first := b.Get(t, home+"/charges?status=paid").Want(t, http.StatusSeeOther)
		if want := "/sign-in?next=" + url.QueryEscape(home+"/charges?status=paid"); first.Location != want {
			t.Errorf("sent to %s, want %s", first.Location, want)
		}
		b.Get(t, first.Location).Want(t, http.StatusOK, `name="next" value="`+home+`/charges?status=paid"`)

		// The same words for a wrong password and for nobody.
		wrong := b.Post(t, "/sign-in", credentials("ana@example.com", "wrong password")).Want(t, http.StatusUnprocessableEntity, "E-mail ou senha incorretos", `value="ana@example.com"`)
		nobody := b.Post(t, "/sign-in", credentials("eva@example.com", "wrong password")).Want(t, http.StatusUnprocessableEntity, "E-mail ou senha incorretos")
		if strings.ReplaceAll(wrong.Body, "ana@", "eva@") != nobody.Body {
			t.Error("the two pages differ")
		}
		if strings.Contains(wrong.Body, "wrong password") {
			t.Error("a password is shown again")
		}
		for _, next := range []string{"https://evil.example", "//evil.example", "/\\evil.example", "evil", "javascript:alert(1)", ""} {
			got := b.Post(t, "/sign-in", url.Values{"email": {"ana@example.com"}, "password": {testkit.PasswordOfAll}, "next": {next}}).Want(t, http.StatusSeeOther)
			if got.Location != "/" {
				t.Errorf("%q leads to %q", next, got.Location)
			}
		}
		cookie := b.Post(t, "/sign-in", credentials("ana@example.com", testkit.PasswordOfAll)).Want(t, http.StatusSeeOther).Header.Get("Set-Cookie")
		for _, want := range []string{"ponte=", "Path=/", "HttpOnly", "SameSite=Lax", "Max-Age=43200"} {
			if !strings.Contains(cookie, want) {
				t.Errorf("the cookie lacks %s: %s", want, cookie)
			}
		}
		if got := b.Get(t, "/"); got.Location != home {
			t.Errorf("home is %q", got.Location)
		}
		if got := b.Get(t, "/sign-in?next=/security"); got.Location != "/security" {
			t.Errorf("who is signed in is sent to %q", got.Location)
		}
		b.Get(t, home).Want(t, http.StatusOK, "Padaria", "Proprietário", "Ana Maria")
		b.Post(t, "/sign-out", nil).Want(t, http.StatusSeeOther)
		b.Get(t, home).Want(t, http.StatusSeeOther)
		// Who asks for a part of a page is sent away as a whole.
		part := b.Do(t, http.MethodGet, home, nil, http.Header{"Hx-Request": {"true"}}).Want(t, http.StatusOK)
		if to := part.Header.Get("Hx-Redirect"); !strings.HasPrefix(to, "/sign-in?next=") || part.Body != "" {
			t.Errorf("sent to %q with %q", to, part.Body)
		}

		for range 12 {
			b.Post(t, "/sign-in", credentials("eva@example.com", "wrong password"))
		}
		b.Post(t, "/sign-in", credentials("eva@example.com", "wrong password")).Want(t, http.StatusTooManyRequests, "Aguarde quinze minutos")
		if strings.Contains(s.Log(), testkit.PasswordOfAll) {
			t.Error("the log holds a password")
		}
	})
}

func TestSecondFactor(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, sqltest.SQLite(t))
	a := s.Account(t, "Padaria")
	home := "/accounts/" + a.ID.String()
	b := s.Person(t, "ana@example.com", a.ID, user.Owner)
	shown := b.Get(t, "/security/totp").Want(t, http.StatusOK, "data:image/png")
	if shown.Header.Get("Content-Encoding") != "" || shown.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("a secret is compressed or kept: %v", shown.Header)
	}
	b.Post(t, "/security/totp", url.Values{"code": {"000000"}, "once": {"AAAAAAAAAAAAAAAAAAAAAA"}}).Want(t, http.StatusUnprocessableEntity, "Código incorreto")
	b.AddTOTP(t, s)
	b.Get(t, "/security").Want(t, http.StatusOK, "Ligado", "10 códigos de recuperação")
	if got := b.Get(t, "/security/totp"); got.Location != "/security" {
		t.Errorf("a second app is offered: %d %q", got.Status, got.Location)
	}

	other := s.Browser(t)
	if got := other.Post(t, "/sign-in", credentials("ana@example.com", testkit.PasswordOfAll)).Want(t, http.StatusSeeOther); got.Location != "/sign-in/code?next=%2F" {
		t.Errorf("the password alone leads to %q", got.Location)
	}
	if got := other.Get(t, home); got.Location != "/sign-in/code" {
		t.Errorf("the password alone opens: %d %q", got.Status, got.Location)
	}
	other.Post(t, "/sign-in/code", url.Values{"code": {"000000"}}).Want(t, http.StatusUnprocessableEntity, "Código incorreto")
	other.Post(t, "/sign-in/code", url.Values{"code": {b.Code(t)}}).Want(t, http.StatusSeeOther)
	other.Get(t, home).Want(t, http.StatusOK)

	// One session ends the other, and the app is removed with both secrets only.
	listed := b.Get(t, "/security").Want(t, http.StatusOK, "Esta sessão", "Encerrar todas as outras")
	session := regexp.MustCompile(`name="session" value="([0-9a-z]{26})"`).FindStringSubmatch(listed.Body)
	b.Post(t, "/security/sessions/end", url.Values{"session": {session[1]}}).Want(t, http.StatusSeeOther)
	other.Get(t, home).Want(t, http.StatusSeeOther)
	b.Post(t, "/security/sessions/end", url.Values{"session": {"nonsense"}}).Want(t, http.StatusBadRequest)
	b.Post(t, "/security/sessions/end", url.Values{"session": {"others"}}).Want(t, http.StatusSeeOther)
	b.Post(t, "/security/totp/remove", url.Values{"old": {"wrong"}, "code": {b.Code(t)}}).Want(t, http.StatusUnprocessableEntity, "senha atual está incorreta")
	b.Get(t, home).Want(t, http.StatusOK)

	b.Post(t, "/security/password", url.Values{"old": {testkit.PasswordOfAll}, "password": {"short"}}).Want(t, http.StatusUnprocessableEntity, "de 10 a 128")
	b.Post(t, "/security/password", url.Values{"old": {testkit.PasswordOfAll}, "password": {"a whole new phrase"}}).Want(t, http.StatusSeeOther)
	b.Get(t, "/security").Want(t, http.StatusOK, "A senha foi trocada")
}

func TestInvitations(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, sqltest.SQLite(t))
	a, other := s.Account(t, "Padaria"), s.Account(t, "Livraria")
	invite := func(i user.Invitation) string {
		token, err := s.Core.Users.Invite(t.Context(), i)
		if err != nil {
			t.Fatal(err)
		}
		return "/invitations/" + token
	}
	b := s.Browser(t)
	link := invite(user.Invitation{Email: "ana@example.com", Account: a.ID, Role: user.Finance})
	b.Get(t, link).Want(t, http.StatusOK, "Padaria", "Financeiro", "ana@example.com")
	b.Post(t, link, url.Values{"name": {""}, "password": {"short"}}).Want(t, http.StatusUnprocessableEntity, `aria-describedby="e-name"`)
	b.Post(t, link, url.Values{"name": {"Ana"}, "password": {"short"}}).Want(t, http.StatusUnprocessableEntity, `aria-describedby="e-password"`, "de 10 a 128")
	b.Post(t, link, url.Values{"name": {"Ana"}, "password": {testkit.PasswordOfAll}}).Want(t, http.StatusSeeOther)
	b.Get(t, "/accounts/"+a.ID.String()).Want(t, http.StatusOK, "Bem-vindo", "Financeiro")
	b.Get(t, link).Want(t, http.StatusNotFound, "já foi usado")
	// No link is in the log, however badly it was copied.
	token := strings.TrimPrefix(link, "/invitations/")
	for _, path := range []string{link + "/", link + "/join/", link + "/more", "/" + link, "/Invitations/" + token, "/x/.." + link, "/accounts" + link, "/%69nvitations/" + token} {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut} {
			b.Do(t, method, path, nil, nil)
		}
		s.Browser(t).Do(t, http.MethodGet, path, nil, http.Header{"Accept": {"*/*"}})
	}
	if strings.Contains(s.Log(), token) {
		t.Error("the log holds a link")
	}

	// Who is known signs in and joins.
	link = invite(user.Invitation{Email: "ana@example.com", Account: other.ID, Role: user.Viewer})
	s.Browser(t).Get(t, link).Want(t, http.StatusOK, "Entre como ana@example.com").Lacks(t, `name="password"`)
	stranger := s.Person(t, "eva@example.com", other.ID, user.Owner)
	stranger.Post(t, link+"/join", nil).Want(t, http.StatusForbidden, "outro e-mail")
	b.Get(t, link).Want(t, http.StatusOK, "Aceitar o convite")
	b.Post(t, link+"/join", nil).Want(t, http.StatusSeeOther)
	b.Get(t, "/").Want(t, http.StatusOK, "Padaria", "Livraria", "Leitor") // there is a choice now

	reset, err := s.Core.Users.Reset(t.Context(), "ana@example.com")
	if err != nil {
		t.Fatal(err)
	}
	s.Browser(t).Post(t, "/invitations/"+reset, url.Values{"password": {"a whole new phrase"}}).Want(t, http.StatusSeeOther)
	b.Get(t, "/security").Want(t, http.StatusSeeOther)
	b.Get(t, "/invitations/nonsense").Want(t, http.StatusNotFound)
	b.Get(t, "/invitations/"+strings.Repeat("x", 5000)).Want(t, http.StatusNotFound)
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, sqltest.SQLite(t), testkit.TrustProxies("127.0.0.1/32"))
	a := s.Account(t, "Padaria")
	b := s.Person(t, "ana@example.com", a.ID, user.Owner)
	page := b.Get(t, "/accounts/"+a.ID.String()).Want(t, http.StatusOK)
	for name, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'; script-src 'self'", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
		"Referrer-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin", "Cache-Control": "no-store", "Content-Language": "pt-BR",
		"X-Request-Id": "req_",
	} {
		if got := page.Header.Get(name); !strings.HasPrefix(got, want) {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if strings.Contains(page.Header.Get("Content-Security-Policy"), "unsafe") {
		t.Error("the policy is unsafe")
	}

	// By HTTPS the cookie is held to this host, and to HTTPS.
	secure := http.Header{"X-Forwarded-Proto": {"https"}, "X-Forwarded-For": {"203.0.113.9"}}
	cookie := s.Browser(t).Do(t, http.MethodPost, "/sign-in", credentials("ana@example.com", testkit.PasswordOfAll), secure).Want(t, http.StatusSeeOther).Header.Get("Set-Cookie")
	if !strings.HasPrefix(cookie, "__Host-ponte=") || !strings.Contains(cookie, "; Secure") {
		t.Errorf("the cookie is %s", cookie)
	}

	// Files have their content in their names, and are kept; old names are gone.
	css := regexp.MustCompile(`/assets/ponte\.[0-9a-f]{12}\.css`).FindString(page.Body)
	got := b.Get(t, css).Want(t, http.StatusOK, ":root")
	if got.Header.Get("Cache-Control") != "public, max-age=31536000, immutable" || got.Header.Get("Content-Type") != "text/css; charset=utf-8" {
		t.Errorf("got %v", got.Header)
	}
	packed := b.Do(t, http.MethodGet, css, nil, http.Header{"Accept-Encoding": {"gzip"}}).Want(t, http.StatusOK)
	if packed.Header.Get("Content-Encoding") != "gzip" || len(packed.Body) >= len(got.Body) {
		t.Errorf("%d bytes are packed into %d, %v", len(got.Body), len(packed.Body), packed.Header)
	}
	if zipped := b.Do(t, http.MethodGet, "/accounts/"+a.ID.String(), nil, http.Header{"Accept-Encoding": {"gzip"}}); zipped.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("a page is not packed: %v", zipped.Header)
	}
	for _, name := range []string{"/assets/ponte.css", "/assets/", "/assets/../dashboard.go", "/assets/ponte.000000000000.css"} {
		b.Get(t, name).Want(t, http.StatusNotFound)
	}
	// A program that lost its way is told so in its own words.
	api := b.Do(t, http.MethodGet, "/charges", nil, http.Header{"Accept": {"*/*"}})
	if api.Status != http.StatusNotFound || !strings.HasPrefix(api.Body, `{"success":false`) {
		t.Errorf("got %d %s", api.Status, api.Body)
	}
	b.Get(t, "/charges").Want(t, http.StatusNotFound, "Esta página não existe")
	b.Post(t, "/preferences", url.Values{"locale": {"en"}, "theme": {"dark"}, "next": {"/security"}}).Want(t, http.StatusSeeOther)
	b.Get(t, "/security").Want(t, http.StatusOK, `<html lang="en" data-theme="dark">`, "Authenticator app")
	// Too large a form is refused.
	b.Post(t, "/sign-in", url.Values{"email": {strings.Repeat("x", 100<<10)}}).Want(t, http.StatusBadRequest)
}
