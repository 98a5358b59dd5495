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
