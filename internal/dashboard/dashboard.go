// Package dashboard serves the pages for the people of an account and for operators: it decodes, calls a use case and
// renders. Who may open a page is said in one table, routes.go, and asked in one place, gate.go.
package dashboard

import (
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"path"
	"strings"
	"time"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/activity"
	"github.com/ponte-pay/ponte/internal/charge"
	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/dashboard/live"
	"github.com/ponte-pay/ponte/internal/deposit"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/httpkit"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/infraction"
	"github.com/ponte-pay/ponte/internal/payout"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/user"
	"github.com/ponte-pay/ponte/internal/webhook"
	"github.com/ponte-pay/ponte/internal/withdrawal"
)

// Services are what the pages call: the same that the API does.
type Services struct {
	DB       *sqldb.DB
	Clock    *clock.Clock
	IDs      *id.Generator
	Random   io.Reader
	Log      *slog.Logger
	Users    *user.Service
	Accounts *account.Service
	Charges  *charge.Service
	Live     *live.Hub // tells pages that are open what happens
	OpenAPI  []byte    // the document that the API reference is made of
	Payouts  *payout.Service
	Hooks    *webhook.Service
	Activity *activity.Service

	Infractions *infraction.Service
	Deposits    *deposit.Service
	Withdrawals *withdrawal.Service

	Operator OperatorServices

	// Blocked reports whether an address is refused, for how long; 0 is for good. Only that counts here: what API keys do
	// wrong locks no person out.
	Blocked func(netip.Addr) (wait time.Duration, blocked bool)

	Simulated bool   // no money is real: every page says so
	BankPage  string // where simulated charges are paid; "" for nowhere
	PublicURL string // where people reach this server; "" when only the request knows
}

// Dashboard serves every route of [routes].
type Dashboard struct {
	Services
	mux     *http.ServeMux
	routes  map[string]*route // by their patterns
	assets  assets
	pages   map[locale]pages
	foreign *http.CrossOriginProtection
	manual  func() (*manual, error)
}

// New returns the dashboard. Its templates and texts are part of the binary, so that a fault in them is a defect, and a
// panic.
func New(s Services) *Dashboard {
	d := &Dashboard{
		Services: s, mux: http.NewServeMux(), routes: map[string]*route{}, assets: loadAssets(), foreign: http.NewCrossOriginProtection(),
		manual: loadManual(s.OpenAPI), pages: loadPages(),
	}
	if s.PublicURL != "" {
		// A proxy may change Host; what the browser saw is this.
		if err := d.foreign.AddTrustedOrigin(strings.TrimSuffix(s.PublicURL, "/")); err != nil {
			s.Log.Warn("the dashboard cannot use the public URL", slog.String("error", err.Error()))
		}
	}
	for _, r := range routes() {
		pattern := r.method + " " + r.path
		d.routes[pattern] = r
		d.mux.HandleFunc(pattern, func(w http.ResponseWriter, req *http.Request) { d.serve(w, req, r) }) //nolint:contextcheck // the visit carries its context
	}
	return d
}

// policy lets pages load what is our own and nothing else, and run no script that is not a file of ours.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// safety is on every answer to a browser.
var safety = map[string]string{
	"Content-Security-Policy":      policy,
	"X-Content-Type-Options":       "nosniff",
	"X-Frame-Options":              "DENY",
	"Referrer-Policy":              "same-origin",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Permissions-Policy":           "camera=(), geolocation=(), microphone=(), payment=()",
}

// errNoRoute tells a program that it has left the API, and a person that there is no such page.
var errNoRoute = fault.New(fault.NotFound, "not_found", "there is no such route; GET /v1/openapi.yaml lists all")

// ServeHTTP answers one request. It is called inside a [httpkit.Frame].
func (d *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if name, ok := strings.CutPrefix(r.URL.Path, assetsPath); ok && r.Method == http.MethodGet {
		httpkit.ScopeOf(w).Route = assetsPath
		beSafe(w)
		if d.assets.serve(w, r, name) {
			return
		}
	}
	_, pattern := d.mux.Handler(r)
	// The mux would redirect such a path to its clean form; it names nothing.
	if p := r.URL.EscapedPath(); d.routes[pattern] == nil || path.Clean(p) != p {
		d.refuse(w, r)
		return
	}
	beSafe(w)
	d.mux.ServeHTTP(w, r)
}

func beSafe(w http.ResponseWriter) {
	for name, value := range safety {
		w.Header().Set(name, value)
	}
}

// refuse answers what no route takes.
func (d *Dashboard) refuse(w http.ResponseWriter, r *http.Request) {
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		httpkit.Fail(w, errNoRoute, httpkit.Lower)
		return
	}
	beSafe(w)
	v := d.visit(w, r)
	if err := d.recognize(v); err != nil { //nolint:contextcheck // the visit carries its context
		d.fail(v, err)
		return
	}
	d.fail(v, errNoRoute)
}

// Zone is the time that people see, and whose days are added up.
func Zone() *time.Location { return brasilia }
