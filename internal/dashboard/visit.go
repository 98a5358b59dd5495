package dashboard

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/httpkit"
	"github.com/ponte-pay/ponte/internal/oplog"
	"github.com/ponte-pay/ponte/internal/user"
)

// visit is one request on its way through the dashboard.
type visit struct {
	*http.Request
	w       http.ResponseWriter
	scope   *httpkit.Scope
	who     *user.Visitor    // nil for nobody
	account *account.Account // of routes below an account
	role    user.Role        // there
	locale  locale
	theme   theme
	since   string // what happens after the page was begun; an event's identifier
}

// theme is how light a page is.
type theme string

const (
	themeAuto  theme = "auto" // as the system is
	themeLight theme = "light"
	themeDark  theme = "dark"
)

var themes = []theme{themeAuto, themeLight, themeDark}

func (d *Dashboard) visit(w http.ResponseWriter, r *http.Request) *visit {
	v := &visit{Request: r, w: w, scope: httpkit.ScopeOf(w), locale: localePT, theme: themeAuto, since: d.sinceNow()}
	for _, l := range locales {
		if v.preference(localeCookie) == string(l) {
			v.locale = l
		}
	}
	for _, t := range themes {
		if v.preference(themeCookie) == string(t) {
			v.theme = t
		}
	}
	return v
}

// Context returns the request's context, in which whatever is changed is the visitor's doing.
func (v *visit) Context() context.Context {
	ctx := v.Request.Context()
	if v.who == nil {
		return ctx
	}
	return oplog.As(ctx, oplog.Actor{Kind: oplog.Person, Name: v.who.Person.Email})
}

// isSafe reports whether the request only looks.
func (v *visit) isSafe() bool { return v.Method == http.MethodGet || v.Method == http.MethodHead }

// t returns a text in the visitor's language.
func (v *visit) t(key string, args ...any) string { return v.locale.text(key, args...) }

// thing returns the {id} of the path; "" for what no database can be asked for.
func (v *visit) thing() string {
	if value := v.PathValue("id"); isPlain(value) {
		return value
	}
	return ""
}

// from is where the visitor comes from.
func (v *visit) from() user.From {
	return user.From{Address: v.scope.Client, Agent: v.UserAgent()}
}

// Names of cookies.
const (
	sessionCookie = "ponte"       // proves who it is
	flashCookie   = "ponte-flash" // what the next page says once
	localeCookie  = "ponte-locale"
	themeCookie   = "ponte-theme"
)

const (
	preferenceSeconds = 365 * 24 * 3600
	flashSeconds      = 60
)

// cookieName returns the name of a cookie. By HTTPS browsers hold it to this very host.
func (v *visit) cookieName(name string) string {
	if v.scope.Secure {
		return "__Host-" + name
	}
	return name
}

// setCookie sets a cookie for so many seconds; below zero deletes it. It is Secure wherever the browser came by HTTPS:
// plain HTTP works on loopback only, where there is no wire to listen on.
func (v *visit) setCookie(name, value string, seconds int) {
	http.SetCookie(v.w, &http.Cookie{ //nolint:gosec // Secure is decided by how the browser came
		Name: v.cookieName(name), Value: value, Path: "/", MaxAge: seconds,
		Secure: v.scope.Secure, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
}

func (v *visit) preference(name string) string {
	c, err := v.Cookie(v.cookieName(name))
	if err != nil {
		return ""
	}
	return c.Value
}

// flash makes the next page say something once. The key is of a text without arguments.
func (v *visit) flash(key string) { v.setCookie(flashCookie, key, flashSeconds) }

// takeFlash returns what the page before wanted said; "" for nothing.
func (v *visit) takeFlash() string {
	key := v.preference(flashCookie)
	if key == "" {
		return ""
	}
	v.setCookie(flashCookie, "", -1)
	if !v.locale.has(key) {
		return ""
	}
	return v.t(key)
}

// reply is what a route gives back.
type reply struct {
	status int    // 0 means 200
	page   string // the template
	data   any    // what the template shows
	secret bool   // shows a secret once: it is neither compressed nor kept
	to     string // a path of ours to go to instead
	header http.Header
	live   func()                // writes the answer itself, for as long as it takes
	stream func(io.Writer) error // writes a file instead of a page, under header
}

// page shows a template.
func page(name string, data any) (reply, error) { return reply{page: name, data: data}, nil }

// goTo sends the visitor to another page, so that to load it again does not send the form again.
func goTo(path string) (reply, error) { return reply{to: path}, nil }

// gzipMin is the least that is worth compressing: about what one packet holds.
const gzipMin = 1400

// write sends a reply. It fails, with nothing written, when the page cannot be built.
func (d *Dashboard) write(v *visit, r reply) error {
	if r.live != nil {
		r.live()
		return nil
	}
	h := v.w.Header()
	h.Set("Cache-Control", "no-store") // money and names; the next who sits down here must not see them
	if r.to != "" {
		h.Set("Location", r.to)
		return httpkit.Write(v.w, httpkit.Answer{Status: http.StatusSeeOther, Raw: []byte{}})
	}
	if r.stream != nil {
		return d.send(v, r)
	}
	var b bytes.Buffer
	if err := d.pages[v.locale].render(&b, r.page, d.view(v, r)); err != nil {
		return err
	}
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Language", string(v.locale))
	body := b.Bytes()
	if !r.secret && len(body) >= gzipMin && acceptsGzip(v.Request) {
		var err error
		if body, err = compress(body, gzip.BestSpeed); err != nil {
			return err
		}
		h.Set("Content-Encoding", "gzip")
	}
	return httpkit.Write(v.w, httpkit.Answer{Status: r.status, Raw: body})
}

// send streams a file. One that breaks off is cut, so that nobody takes half of it for all.
func (d *Dashboard) send(v *visit, r reply) error {
	maps.Copy(v.w.Header(), r.header)
	v.w.WriteHeader(http.StatusOK)
	if err := r.stream(v.w); err != nil {
		v.scope.Err = err
		panic(http.ErrAbortHandler)
	}
	return nil
}

func acceptsGzip(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")
}

func compress(body []byte, level int) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, level)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(body); err != nil {
		return nil, err
	}
	err = w.Close()
	return b.Bytes(), err
}

// fail shows what went wrong, or goes where the visitor has to go first. The cause is for the log.
func (d *Dashboard) fail(v *visit, err error) {
	if to, ok := errors.AsType[detourError](err); ok {
		if v.Header.Get("Hx-Request") != "" {
			// A part of a page was asked for; the whole browser has to go.
			v.w.Header().Set("Hx-Redirect", string(to))
			_ = httpkit.Write(v.w, httpkit.Answer{Raw: []byte{}}) // it has nothing to encode
			return
		}
		_ = d.write(v, reply{to: string(to)}) // it has nothing to build
		return
	}
	v.scope.Err = err
	f := fault.As(err)
	shown := reply{status: httpkit.StatusOf(f.Kind), page: "error", data: errorData{Status: httpkit.StatusOf(f.Kind), Message: v.explain(err)}}
	if err := d.write(v, shown); err != nil {
		httpkit.Fail(v.w, err, httpkit.Lower)
	}
}

// errorData is what the error page shows.
type errorData struct {
	Status  int
	Message string
}

// explain says what went wrong in the visitor's language: by its code, by its kind, or in the words of the service.
func (v *visit) explain(err error) string {
	f := fault.As(err)
	for _, key := range []string{"fault." + strings.ToLower(f.Code), kindTexts[f.Kind]} {
		if v.locale.has(key) {
			return v.t(key)
		}
	}
	return f.Public
}

// kindTexts are what kinds of faults are called where no code says more.
var kindTexts = map[fault.Kind]string{ //nolint:exhaustive // the others speak for themselves
	fault.Internal:    "fault.internal",
	fault.NotFound:    "fault.not_found",
	fault.Provider:    "fault.provider",
	fault.Unavailable: "fault.unavailable",
	fault.Ambiguous:   "fault.ambiguous",
	fault.InProgress:  "fault.in_progress",
	fault.Forbidden:   "fault.forbidden",
	fault.Conflict:    "fault.conflict",
}

const onceBytes = 16

// once draws the hidden key of a form, by which it makes one thing however often it is sent.
func (d *Dashboard) once() string {
	b := make([]byte, onceBytes)
	if _, err := io.ReadFull(d.Random, b); err != nil {
		panic("dashboard: no randomness: " + err.Error())
	}
	return base64.RawURLEncoding.EncodeToString(b)
}
