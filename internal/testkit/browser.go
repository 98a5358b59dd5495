package testkit

import (
	"bufio"
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/user"
)

// Browser keeps cookies and follows no redirect, as a test that looks at each step wants it.
type Browser struct {
	Email  string // of who is signed in; "" for nobody
	phone  Phone  // of who has an authenticator app
	url    string
	client *http.Client
}

// Shown is a page or a redirect.
type Shown struct {
	Status   int
	Location string // of a redirect
	Header   http.Header
	Body     string
}

// PasswordOfAll is the password of everybody in tests.
const PasswordOfAll = "correct horse battery"

// Browser returns a browser that nobody has signed in with.
func (s *Service) Browser(tb testing.TB) *Browser {
	tb.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		tb.Fatal(err)
	}
	return &Browser{url: s.URL, client: &http.Client{
		Jar: jar, Timeout: requestTimeMax, Transport: uncompressed,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// uncompressed does not ask for compressed pages by itself. With races being searched to pack each page and to unpack it takes
// longer than to make it; a test about that says so in its headers, and real browsers always do.
var uncompressed = &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 16}

// Person makes somebody with a role in an account, or an operator for 0, and returns a browser in which they have signed in.
func (s *Service) Person(tb testing.TB, email string, account id.Account, role user.Role) *Browser {
	tb.Helper()
	b := s.Browser(tb)
	link, err := s.Core.Users.Invite(tb.Context(), user.Invitation{Email: email, Account: account, Role: role, Operator: account == 0})
	if err != nil {
		tb.Fatalf("testkit: invite %s: %v", email, err)
	}
	b.Email = email
	b.Post(tb, "/invitations/"+link, url.Values{"name": {"Ana Maria"}, "password": {PasswordOfAll}}).Want(tb, http.StatusSeeOther)
	return b
}

// AddTOTP gives who is signed in an authenticator app.
func (b *Browser) AddTOTP(tb testing.TB, s *Service) {
	tb.Helper()
	p, err := s.Core.Users.Find(tb.Context(), b.Email)
	if err == nil {
		b.phone.Secret, err = s.Core.Users.PrepareTOTP(tb.Context(), p)
	}
	if err != nil {
		tb.Fatalf("testkit: %v", err)
	}
	b.Post(tb, "/security/totp", url.Values{"code": {b.Code(tb)}, "once": {"AAAAAAAAAAAAAAAAAAAAAA"}}).Want(tb, http.StatusOK)
}

// Code returns a code of the authenticator app that was not used before.
func (b *Browser) Code(tb testing.TB) string {
	tb.Helper()
	return b.phone.Code(tb)
}

// Get opens a page.
func (b *Browser) Get(tb testing.TB, path string) *Shown {
	tb.Helper()
	return b.Do(tb, http.MethodGet, path, nil, nil)
}

// Post sends a form.
func (b *Browser) Post(tb testing.TB, path string, form url.Values) *Shown {
	tb.Helper()
	return b.Do(tb, http.MethodPost, path, form, nil)
}

// Do sends a request with further headers, as a page of the same site does.
func (b *Browser) Do(tb testing.TB, method, path string, form url.Values, header http.Header) *Shown {
	tb.Helper()
	shown, err := b.Try(tb.Context(), method, path, form, header)
	if err != nil {
		tb.Fatalf("testkit: %s %s: %v", method, path, err)
	}
	return shown
}

// Try is [Browser.Do] for goroutines of a test, which must not end it.
func (b *Browser) Try(ctx context.Context, method, path string, form url.Values, header http.Header) (*Shown, error) {
	r, err := http.NewRequestWithContext(ctx, method, b.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "text/html")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	maps.Copy(r.Header, header)
	response, err := b.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var body []byte
	if !strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") { // which has no end
		body, err = io.ReadAll(response.Body)
	}
	return &Shown{response.StatusCode, response.Header.Get("Location"), response.Header, string(body)}, err
}

// Want fails the test unless the page has that status and holds these texts.
func (s *Shown) Want(tb testing.TB, status int, texts ...string) *Shown {
	tb.Helper()
	if s.Status != status {
		tb.Fatalf("status %d to %q, want %d: %s", s.Status, s.Location, status, s.text())
	}
	for _, text := range texts {
		if !strings.Contains(s.Body, text) {
			tb.Errorf("the page does not hold %q: %s", text, s.text())
		}
	}
	return s
}

var tags = regexp.MustCompile(`(?s)<svg.*?</svg>|<[^>]*>|\s+`)

// text returns what a person reads of a page, but for its menu.
func (s *Shown) text() string {
	_, main, ok := strings.Cut(s.Body, "<main")
	if !ok {
		main = s.Body
	}
	return strings.Join(strings.Fields(tags.ReplaceAllString(main, " ")), " ")
}

// Lacks fails the test if the page holds one of these texts.
func (s *Shown) Lacks(tb testing.TB, texts ...string) *Shown {
	tb.Helper()
	for _, text := range texts {
		if strings.Contains(s.Body, text) {
			tb.Errorf("the page holds %q: %s", text, s.text())
		}
	}
	return s
}

// Messages is a stream of server-sent events, each as its lines; it ends with the stream.
type Messages <-chan string

// Follow opens a stream, which is closed when the test ends.
func (b *Browser) Follow(tb testing.TB, path string) Messages {
	tb.Helper()
	r, err := http.NewRequestWithContext(tb.Context(), http.MethodGet, b.url+path, http.NoBody)
	if err != nil {
		tb.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	endless := *b.client
	endless.Timeout = 0
	response, err := endless.Do(r)
	if err != nil {
		tb.Fatalf("testkit: %s: %v", path, err)
	}
	if kind := response.Header.Get("Content-Type"); response.StatusCode != http.StatusOK || !strings.HasPrefix(kind, "text/event-stream") {
		tb.Fatalf("testkit: %s: %d %s", path, response.StatusCode, kind)
	}
	tb.Cleanup(func() { response.Body.Close() })
	messages := make(chan string, streamMessagesMax)
	go func() {
		defer close(messages)
		lines := bufio.NewScanner(response.Body)
		message := ""
		for lines.Scan() {
			switch text := lines.Text(); {
			case text != "":
				message += text + "\n"
			case message != ":\n": // that the stream lives
				messages <- message
				fallthrough
			default:
				message = ""
			}
		}
	}()
	return messages
}

const streamMessagesMax = 100

// Next returns the next message, or "" when the stream has ended.
func (m Messages) Next(tb testing.TB) string {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), requestTimeMax)
	defer cancel()
	select {
	case message := <-m:
		return message
	case <-ctx.Done():
		tb.Fatal("testkit: nothing was told")
		return ""
	}
}
