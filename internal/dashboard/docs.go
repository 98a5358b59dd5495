package dashboard

import (
	"fmt"
	"html/template"
	"net/url"
	"regexp"
	"strings"
	"sync"

	"github.com/ponte-pay/ponte/internal/dashboard/reference"
)

// docsPath is where the API reference is.
const docsPath = "/docs"

// manual is the API reference in every language. It is made when somebody first wants to read it.
type manual struct {
	reference *reference.Reference
	contents  map[locale]map[string]template.HTML // by the names of pages
}

func newManual(openapi []byte) (*manual, error) {
	r, err := reference.New(openapi)
	if err != nil {
		return nil, err
	}
	m := &manual{r, map[locale]map[string]template.HTML{}}
	for _, l := range locales {
		m.contents[l] = map[string]template.HTML{}
		for _, p := range r.Pages {
			content, err := r.Render(p, func(key string) string { return l.text(key) })
			if err != nil {
				return nil, err
			}
			m.contents[l][p.Name] = content
		}
	}
	return m, nil
}

// loadManual returns how the reference is made, once.
func loadManual(openapi []byte) func() (*manual, error) {
	return sync.OnceValues(func() (*manual, error) { return newManual(openapi) })
}

// docsData is what a page of the reference shows.
type docsData struct {
	Title   string
	Content template.HTML
}

// docs shows a page of the API reference, the guide if none is named.
func (d *Dashboard) docs(v *visit) (reply, error) {
	m, err := d.manual()
	if err != nil {
		return reply{}, fmt.Errorf("dashboard: %w", err)
	}
	p, ok := m.reference.Find(v.PathValue("page"))
	if !ok {
		return reply{}, errNoRoute
	}
	data := docsData{Title: p.Name, Content: reference.Address(m.contents[v.locale][p.Name], d.origin(v)+m.reference.Prefix)}
	return page("docs", data)
}

// hostName is what a Host header may be to be shown.
var hostName = regexp.MustCompile(`^[A-Za-z0-9.:\[\]-]{1,255}$`)

// origin returns where the visitor reaches this server, as far as that is known.
func (d *Dashboard) origin(v *visit) string {
	if d.PublicURL != "" {
		return strings.TrimSuffix(d.PublicURL, "/")
	}
	u := url.URL{Scheme: "http", Host: v.Host}
	if v.scope.Secure {
		u.Scheme = "https"
	}
	if !hostName.MatchString(v.Host) {
		u.Host = "localhost"
	}
	return u.String()
}
