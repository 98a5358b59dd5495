// Package api serves /v1: it decodes, calls a use case and encodes. What a caller may do is decided before, in gate.go;
// what happens is decided behind, in the use cases.
package api

import (
	"net/http"
	"path"
	"strings"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/chain"
	"github.com/ponte-pay/ponte/internal/charge"
	"github.com/ponte-pay/ponte/internal/deposit"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/httpkit"
	"github.com/ponte-pay/ponte/internal/infraction"
	"github.com/ponte-pay/ponte/internal/payout"
	"github.com/ponte-pay/ponte/internal/quote"
	"github.com/ponte-pay/ponte/internal/ratelimit"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/withdrawal"
)

// Prefix is where the API lives.
const Prefix = "/v1"

// API serves every route of [routes].
type API struct {
	db          *sqldb.DB
	directory   *account.Directory
	guard       *account.Guard
	limiter     *ratelimit.Limiter
	charges     *charge.Service
	payouts     *payout.Service
	infractions *infraction.Service
	chain       chain.Provider
	quotes      *quote.Service
	deposits    *deposit.Service
	withdrawals *withdrawal.Service

	mux    *http.ServeMux // of the routes and of the rest
	rest   http.Handler   // for what no route takes
	routes *http.ServeMux // of the routes alone, which knows the methods of each path
}

// Services are what the routes call.
type Services struct {
	DB          *sqldb.DB
	Directory   *account.Directory
	Guard       *account.Guard
	Limiter     *ratelimit.Limiter
	Charges     *charge.Service
	Payouts     *payout.Service
	Infractions *infraction.Service
	Chain       chain.Provider
	Quotes      *quote.Service
	Deposits    *deposit.Service
	Withdrawals *withdrawal.Service
}

// New returns the API.
func New(s Services) *API {
	a := &API{
		db: s.DB, directory: s.Directory, guard: s.Guard, limiter: s.Limiter, charges: s.Charges, payouts: s.Payouts,
		infractions: s.Infractions, chain: s.Chain, quotes: s.Quotes, deposits: s.Deposits, withdrawals: s.Withdrawals,
		mux: http.NewServeMux(), routes: http.NewServeMux(),
	}
	for _, r := range routes() {
		a.handle(r)
	}
	a.rest = a.by(nil)
	a.mux.Handle("/", a.rest)
	return a
}

func (a *API) handle(r *route) {
	pattern := r.method + " " + Prefix + r.path
	a.mux.Handle(pattern, a.by(r))
	a.routes.Handle(pattern, http.NotFoundHandler()) // which is never called
}

// call is one request on its way through the API.
type call struct {
	*http.Request
	scope     *httpkit.Scope
	principal *account.Principal // nil on routes without a key
	limit     [3]string          // what the header tells of the key's window
}

// ServeHTTP answers one request. It is called inside a [httpkit.Frame].
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case !strings.HasPrefix(r.URL.Path, Prefix+"/"):
		httpkit.Fail(w, errNoRoute, Spelling(r.URL.Path)) // not ours to guard
	case !isClean(r): // the mux would redirect such a path to its clean form; an API says that there is none
		a.rest.ServeHTTP(w, r)
	default:
		a.mux.ServeHTTP(w, r)
	}
}

func isClean(r *http.Request) bool {
	p := r.URL.Path
	if r.URL.RawPath == "" && !strings.Contains(p, "//") && !strings.Contains(p, "/.") && !strings.HasSuffix(p, "/") {
		return true // as most are
	}
	p = r.URL.EscapedPath()
	return path.Clean(p) == p
}

// by returns what answers requests by a route, or those that no route takes.
func (a *API) by(found *route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := &call{Request: r, scope: httpkit.ScopeOf(w)}
		answer, err := a.serve(w, c, found) //nolint:contextcheck // the call carries its context
		if err == nil {
			err = httpkit.Write(w, answer)
		}
		if err != nil {
			httpkit.Fail(w, asFault(err), Spelling(r.URL.Path))
		}
	}
}

// serve passes the gate and calls the route.
func (a *API) serve(w http.ResponseWriter, c *call, found *route) (httpkit.Answer, error) {
	if found != nil {
		c.scope.Route = found.path
	}
	if err := a.admit(w, c, found); err != nil {
		return httpkit.Answer{}, err
	}
	if found != nil {
		return found.answer(a, c)
	}
	if allow := a.allowed(c.Request); allow != "" {
		w.Header().Set("Allow", allow)
		return httpkit.Answer{}, fault.New(fault.MethodNotAllowed, "", c.Method+" is not allowed here: use "+allow)
	}
	return httpkit.Answer{}, errNoRoute
}

// errNoRoute has the lower-case code also below a family that has the other, such as /balance/x.
var errNoRoute = fault.New(fault.NotFound, "not_found", "there is no such route; GET /v1/openapi.yaml lists all")

// allowed returns the methods of a path that no route has taken; "" for none. Only a mux knows them, and tells them by
// answering.
func (a *API) allowed(r *http.Request) string {
	if !isClean(r) {
		return ""
	}
	probe := probe{header: http.Header{}}
	handler, _ := a.routes.Handler(r)
	handler.ServeHTTP(&probe, r)
	return probe.header.Get("Allow")
}

// probe takes an answer that nobody is to see.
type probe struct{ header http.Header }

func (p *probe) Header() http.Header         { return p.header }
func (p *probe) Write(b []byte) (int, error) { return len(b), nil }
func (p *probe) WriteHeader(int)             {}

// Spelling returns how error codes are spelt on a path: crypto and unknown routes use the lower case.
func Spelling(path string) httpkit.Spelling {
	rest, ok := strings.CutPrefix(path, Prefix+"/")
	if !ok {
		return httpkit.Lower
	}
	family, _, _ := strings.Cut(rest, "/")
	switch family {
	case "charges", "payouts", "balance", "transactions", "med", "boletos", "card":
		return httpkit.Upper
	}
	return httpkit.Lower
}
