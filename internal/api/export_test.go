package api

import (
	"net/http"

	"github.com/ponte-pay/ponte/internal/httpkit"
	"github.com/ponte-pay/ponte/internal/idempotency"
)

// Served returns every route that is served, such as GET /balance.
func Served() []string {
	var list []string
	for _, r := range routes() {
		list = append(list, r.method+" "+r.path)
	}
	return list
}

// Mount serves one more route, which any key may call.
func (a *API) Mount(method, path string, answer func(*http.Request) (httpkit.Answer, error)) {
	a.handle(&route{
		method: method, path: path, key: idempotency.Unused,
		answer: func(_ *API, c *call) (httpkit.Answer, error) { return answer(c.Request) },
	})
}
