package api

import (
	"net/http"

	"github.com/ponte-pay/ponte/internal/httpkit"
	"github.com/ponte-pay/ponte/internal/idempotency"
)

// Headers of creations.
const (
	idempotencyKeyHeader = "Idempotency-Key"
	replayedHeader       = "Idempotent-Replayed"
)

// creation returns what the creation that c asks for is known by. Which kind of resource it makes, and with which
// external_id, is the use case's to add.
func (c *call) creation(policy idempotency.Policy, body httpkit.Object) idempotency.Request {
	return idempotency.Request{
		Policy: policy, Account: c.principal.Account.ID,
		Route: c.Method + " " + c.scope.Route, Key: c.Header.Get(idempotencyKeyHeader), Hash: body.Hash(),
	}
}

// created answers a Pix creation: 201 for a new resource and, with a header that tells, for the repetition of the request
// that made it; 200 for one that another request with the same external_id made, and with that header for the repetition
// of the request that found it.
func created(outcome idempotency.Outcome, body any) httpkit.Answer {
	switch outcome {
	case idempotency.Replayed:
		return httpkit.Answer{Status: http.StatusCreated, Body: body, Header: http.Header{replayedHeader: {"true"}}}
	case idempotency.Existing:
		return httpkit.Answer{Body: body}
	case idempotency.Repeated:
		return httpkit.Answer{Body: body, Header: http.Header{replayedHeader: {"true"}}}
	case idempotency.Created:
	}
	return httpkit.Answer{Status: http.StatusCreated, Body: body}
}
