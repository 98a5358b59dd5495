// Package fault describes what went wrong in words that a caller may see, apart from the cause that only logs may.
package fault

import (
	"errors"
	"fmt"
	"time"
)

// Kind says what went wrong by its meaning. The edges turn it into a status and a code.
type Kind int

const (
	Internal         Kind = iota // our own defect; the zero Kind, so that a forgotten one is never blamed on the caller
	Invalid                      // the request breaks a rule; see Issues
	Unauthenticated              // no key, or a wrong one
	Insufficient                 // the balance does not cover it
	Forbidden                    // known caller, not allowed
	NotFound                     // no such thing in this account
	MethodNotAllowed             // the route exists, the method does not
	Conflict                     // contradicts what is stored
	InProgress                   // the same request is being worked on; repeating it later is safe
	TooLarge                     // the body is over its limit
	Unprocessable                // well-formed, and refused by a business rule
	Locked                       // the account is under review
	RateLimited                  // too many requests; see RetryAfter
	HeadersTooLarge              // the header is over its limit
	NotAvailable                 // a reserved feature
	Provider                     // every acquirer or provider failed, and nothing happened
	Unavailable                  // we cannot serve now; nothing happened
	Ambiguous                    // it may have happened: ask before repeating
)

// Issue is one broken field.
type Issue struct {
	Path    string // in snake_case, such as payer.name
	Message string // what the field must be
}

// Error is a fault with what its caller may know.
type Error struct {
	Kind       Kind
	Code       string        // overrides the Kind's own code; "" means that one
	Public     string        // a sentence for the caller
	Issues     []Issue       // broken fields, for Invalid and Unprocessable
	Details    any           // further facts for the caller, nil for none
	RetryAfter time.Duration // 0 means no advice
	Cause      error         // for logs only, nil for none
}

// New returns a fault of that kind with a sentence for the caller.
func New(kind Kind, code, public string) *Error {
	return &Error{Kind: kind, Code: code, Public: public}
}

// Error returns the public sentence and the private cause. It is for logs, never for callers.
func (e *Error) Error() string {
	if e.Cause != nil {
		return fmt.Sprintf("%s: %v", e.Public, e.Cause)
	}
	return e.Public
}

// Unwrap returns the private cause.
func (e *Error) Unwrap() error { return e.Cause }

// As returns the fault in err's chain, or an Internal one that hides err from the caller.
func As(err error) *Error {
	var e *Error
	if errors.As(err, &e) && e != nil {
		return e
	}
	return &Error{Kind: Internal, Public: "something went wrong on our side", Cause: err}
}
