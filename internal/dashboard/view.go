package dashboard

import (
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/user"
)

//go:embed templates
var templateFiles embed.FS

// pages are the templates of one locale by their names. Each page is the layout, the parts and its own file.
type pages map[string]func() *template.Template

// shared are the templates that every page has.
const shared = "templates/shared/*.html"

// loadPages finds them all, once for all servers of a process: a simulation starts many. A page is read when it is first
// looked at, because all of them in all languages take more memory than the rest of the server.
var loadPages = sync.OnceValue(func() map[locale]pages {
	a := loadAssets()
	names, err := fs.Glob(templateFiles, "templates/*.html")
	if err != nil {
		panic("dashboard: " + err.Error())
	}
	all := map[locale]pages{}
	for _, l := range locales {
		all[l] = pages{}
		base := sync.OnceValue(func() *template.Template {
			return template.Must(template.New("").Funcs(functions(l, a)).ParseFS(templateFiles, shared))
		})
		for _, name := range names {
			all[l][strings.TrimSuffix(path.Base(name), ".html")] = sync.OnceValue(func() *template.Template {
				return template.Must(template.Must(base().Clone()).ParseFS(templateFiles, name))
			})
		}
	}
	return all
})

func (p pages) render(w io.Writer, name string, v *view) error {
	page := p[name]
	if page == nil {
		return fmt.Errorf("dashboard: no page %q", name)
	}
	return page().ExecuteTemplate(w, "layout", v)
}

// functions are what templates can call.
func functions(l locale, a assets) template.FuncMap {
	return template.FuncMap{
		"t":      l.text,
		"brl":    l.brl,
		"usdt":   l.usdt,
		"usd":    l.usd,
		"amount": l.amount,
		"when":   l.when,
		"day":    l.day,
		"left":   l.left,
		"badge":  l.badge,
		"reason": l.reason,
		"stray":  l.stray,
		"coins":  l.coins,
		"asset":  a.path,
		"args":   arguments,
		"agent":  agent,
		"icon":   icon,
		"url":    func(s string) template.URL { return template.URL(s) }, //nolint:gosec // only for images that we made
		"locale": func() string { return string(l) },
	}
}

// arguments makes a map of names and values, for templates that take several.
func arguments(pairs ...any) (map[string]any, error) {
	const two = 2
	if len(pairs)%two != 0 {
		return nil, errors.New("dashboard: args wants names and values")
	}
	m := map[string]any{}
	for i := 0; i < len(pairs); i += two {
		name, ok := pairs[i].(string)
		if !ok {
			return nil, fmt.Errorf("dashboard: args: %v is no name", pairs[i])
		}
		m[name] = pairs[i+1]
	}
	return m, nil
}

// view is all that the layout knows.
type view struct {
	Locale      locale
	Theme       theme
	Themes      []theme
	Locales     []locale
	Person      *user.Person // nil for nobody
	Memberships []user.Membership
	Account     *account.Account // nil outside an account
	Role        user.Role
	Home        string // of the account
	Nav         []navGroup
	Flash       string
	Simulated   bool
	BankPage    string
	Path        string // of this page, to come back to
	Now         time.Time
	Since       string // the page shows what happened before
	Data        any

	visit *visit
}

func (d *Dashboard) view(v *visit, r reply) *view {
	out := &view{
		Locale: v.locale, Theme: v.theme, Themes: themes, Locales: locales, Simulated: d.Simulated, BankPage: d.BankPage,
		Path: v.URL.RequestURI(), Now: d.Clock.Now(), Since: v.since, Data: r.data, Flash: v.takeFlash(), visit: v,
	}
	if v.who == nil || !v.who.Session.Whole {
		return out
	}
	out.Person, out.Memberships = &v.who.Person, v.who.Memberships
	if v.account != nil {
		out.Account, out.Role, out.Home = v.account, v.role, accountPath(v.account)
	}
	out.Nav = navigation(v)
	return out
}

// May reports whether the visitor's role in the account allows something.
func (v *view) May(p string) bool { return v.Role.May(user.Permission(p)) }

// accountPath returns a path below an account.
func accountPath(a *account.Account, parts ...string) string {
	all := []string{"/accounts", a.ID.String()}
	for _, part := range parts {
		all = append(all, url.PathEscape(part))
	}
	return strings.Join(all, "/")
}

// navGroup is a part of the menu.
type navGroup struct {
	Title string // "" for none
	Items []navItem
}

type navItem struct {
	Text    string
	Path    string
	Icon    string
	Current bool
}

// place is an entry of the menu: what is below its path is marked as being there.
type place struct {
	key      string // of its text
	path     string // below the account, or from the root for operators; "" for the account's first page
	icon     string
	outside  bool              // the path is from the root
	resource account.Resources // the entry goes when this is switched off
}

// placeGroup is a part of the menu.
type placeGroup struct {
	key    string // of its title; "" for none
	places []place
}

// navigation returns the menu of who is where.
func navigation(v *visit) []navGroup {
	if v.account == nil {
		if v.who.Person.Operator && strings.HasPrefix(v.URL.Path, adminPath) {
			return groups(v, adminPlaces, "", 0)
		}
		return nil
	}
	return groups(v, accountPlaces, accountPath(v.account), v.account.Settings.Disabled)
}

func groups(v *visit, from []placeGroup, base string, disabled account.Resources) []navGroup {
	var out []navGroup
	for _, g := range from {
		shown := navGroup{}
		if g.key != "" {
			shown.Title = v.t(g.key)
		}
		for _, p := range g.places {
			if p.resource != 0 && disabled.Has(p.resource) {
				continue
			}
			at := base + p.path
			if p.outside {
				at = p.path
			}
			here := v.URL.Path == at || (p.path != "" && at != adminPath && strings.HasPrefix(v.URL.Path, at+"/"))
			shown.Items = append(shown.Items, navItem{Text: v.t(p.key), Path: at, Icon: p.icon, Current: here})
		}
		if len(shown.Items) > 0 {
			out = append(out, shown)
		}
	}
	return out
}

// pager leads from one page of a list to the next.
type pager struct {
	First string // "" on the first page
	Next  string // "" on the last
}

// newPager returns the links of a list: the same address, going on behind the last thing that is shown.
func newPager(v *visit, more bool, last string) pager {
	q := v.URL.Query()
	var p pager
	if q.Get("after") != "" {
		q.Del("after")
		p.First = pathWith(v.URL.Path, q)
	}
	if more {
		q.Set("after", last)
		p.Next = pathWith(v.URL.Path, q)
	}
	return p
}

func pathWith(path string, q url.Values) string {
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// pageRows is how many rows a list shows.
const pageRows = 25

// fewMax is how many rows a list has that knows no pages. What is left appears when these are dealt with.
const fewMax = 30

// few is the beginning of a list.
type few[T any] struct {
	List []T
	More int // that are not shown
}

// Count returns how many there are.
func (f few[T]) Count() int { return len(f.List) + f.More }

func newFew[T any](list []T) few[T] {
	n := min(len(list), fewMax)
	return few[T]{list[:n], len(list) - n}
}
