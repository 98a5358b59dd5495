package sim

import (
	"net/http"

	"github.com/ponte-pay/ponte/internal/sqldb"
)

// plant is a mistake that is made on purpose, to see whether it is found. The zero plant is none: outside of the tests of
// this package there is no other.
type plant struct {
	working string // the worker that is stepped

	onBegin     func(b *boot)                                      // before a transaction
	onStatement func(b *boot, s sqldb.Statement) []sqldb.Statement // instead of a statement
	onQuery     func(s sqldb.Statement) sqldb.Statement            // instead of a query outside of a transaction
	onEnd       func(b *boot, err error) error                     // after a transaction that nothing happened to, or that failed
	onCommitted func(b *boot)                                      // after a transaction, if its boot still lives
	onSend      func(r *http.Request)                              // before a call
	onResponse  func(r *http.Request, response *http.Response, err error) (*http.Response, error)
	onRequest   func(r *http.Request, body string) // before a caller's request
	onForged    func(body string)                  // after a forged notification
}

func (p *plant) begin(b *boot) {
	if p.onBegin != nil {
		p.onBegin(b)
	}
}

func (p *plant) statement(b *boot, s sqldb.Statement) []sqldb.Statement {
	if p.onStatement != nil {
		return p.onStatement(b, s)
	}
	return []sqldb.Statement{s}
}

func (p *plant) query(s sqldb.Statement) sqldb.Statement {
	if p.onQuery != nil {
		return p.onQuery(s)
	}
	return s
}

func (p *plant) end(b *boot, err error) error {
	if p.onEnd != nil {
		return p.onEnd(b, err)
	}
	return err
}

func (p *plant) committed(b *boot) {
	if p.onCommitted != nil {
		p.onCommitted(b)
	}
}

func (p *plant) send(r *http.Request) {
	if p.onSend != nil {
		p.onSend(r)
	}
}

func (p *plant) response(r *http.Request, response *http.Response, err error) (*http.Response, error) {
	if p.onResponse != nil {
		return p.onResponse(r, response, err)
	}
	return response, err
}

func (p *plant) request(r *http.Request, body string) {
	if p.onRequest != nil {
		p.onRequest(r, body)
	}
}

func (p *plant) forged(body string) {
	if p.onForged != nil {
		p.onForged(body)
	}
}
