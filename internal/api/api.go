// Package api serves /v1: it decodes, calls a use case and encodes. What a caller may do is decided before, in gate.go;
// what happens is decided behind, in the use cases.
package api

import (
	"context"
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

	mux    *http.ServeMux
	routes map[string]*route // by their patterns
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
		mux: http.NewServeMux(), routes: map[string]*route{},
	}
	for _, r := range routes() {
		a.handle(r)
	}
	return a
}

func (a *API) handle(r *route) {
	pattern := r.method + " " + Prefix + r.path
	a.routes[pattern] = r
	a.mux.HandleFunc(pattern, func(w http.ResponseWriter, req *http.Request) {
		c := callOf(req)
		c.Request = req // the one with the path's values
		c.answer, c.err = r.answer(a, c)
	})
}

// call is one request on its way through the API.
type call struct {
	*http.Request
	scope     *httpkit.Scope
	principal *account.Principal // nil on routes without a key
	answer    httpkit.Answer
	err       error
}

type callKey struct{}

func callOf(r *http.Request) *call {
	c, _ := r.Context().Value(callKey{}).(*call)
	return c
}

// ServeHTTP answers one request. It is called inside a [httpkit.Frame].
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{Request: r, scope: httpkit.ScopeOf(r)}
	answer, err := a.serve(w, c) //nolint:contextcheck // the call carries its context
	if err == nil {
		err = httpkit.Write(w, answer)
	}
	if err != nil {
		httpkit.Fail(w, c.scope, asFault(err), Spelling(r.URL.Path))
	}
}

// serve passes the gate and calls the route.
func (a *API) serve(w http.ResponseWriter, c *call) (httpkit.Answer, error) {
	if !strings.HasPrefix(c.URL.Path, Prefix+"/") {
		return httpkit.Answer{}, errNoRoute // not ours to guard
	}
	found, allow := a.find(c.Request)
	if found != nil {
		c.scope.Route = found.path
	}
	if err := a.admit(w, c, found); err != nil {
		return httpkit.Answer{}, err
	}
	switch {
	case found != nil:
		a.mux.ServeHTTP(w, c.WithContext(context.WithValue(c.Context(), callKey{}, c)))
		return c.answer, c.err
	case allow != "":
		w.Header().Set("Allow", allow)
		return httpkit.Answer{}, fault.New(fault.MethodNotAllowed, "", c.Method+" is not allowed here: use "+allow)
	}
	return httpkit.Answer{}, errNoRoute
}

// errNoRoute has the lower-case code also below a family that has the other, such as /balance/x.
var errNoRoute = fault.New(fault.NotFound, "not_found", "there is no such route; GET /v1/openapi.yaml lists all")

// find returns the route of a request, or the methods that its path would allow, or neither.
func (a *API) find(r *http.Request) (found *route, allow string) {
	// The mux would redirect such a path to its clean form; an API says that there is none.
	if p := r.URL.EscapedPath(); path.Clean(p) != p {
		return nil, ""
	}
	handler, pattern := a.mux.Handler(r)
	if found = a.routes[pattern]; found != nil {
		return found, ""
	}
	// Only the mux knows the methods of a path, and tells them by answering.
	probe := probe{header: http.Header{}}
	handler.ServeHTTP(&probe, r)
	return nil, probe.header.Get("Allow")
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
