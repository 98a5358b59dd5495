package sim

import "net/http"

// plant is a mistake that is made on purpose, to see whether it is found. The zero plant is none: outside of the tests of
// this package there is no other.
type plant struct {
	working string // the worker that is stepped

	onStatement func(b *boot, sql string, args []any) (string, []any)
	onResponse  func(b *boot, r *http.Request, response *http.Response, err error) (*http.Response, error)
	onRequest   func(r *http.Request, body string)
	onHeard     func(body string)
}

// statement returns what is run instead of a statement.
func (p *plant) statement(b *boot, sql string, args []any) (string, []any) {
	if p.onStatement == nil {
		return sql, args
	}
	return p.onStatement(b, sql, args)
}

// response returns what a node is told instead of an answer.
func (p *plant) response(b *boot, r *http.Request, response *http.Response, err error) (*http.Response, error) {
	if p.onResponse == nil {
		return response, err
	}
	return p.onResponse(b, r, response, err)
}

// request changes what a caller asks.
func (p *plant) request(r *http.Request, body string) {
	if p.onRequest != nil {
		p.onRequest(r, body)
	}
}

// heard is told of forged notifications.
func (p *plant) heard(body string) {
	if p.onHeard != nil {
		p.onHeard(body)
	}
}
