package chain

import (
	"errors"
	"strings"
)

// Outcome says what is known about an operation. An [Error] is either Unknown or Refused.
type Outcome int

const (
	Unknown  Outcome = iota // it may have happened; the zero Outcome, so that a forgotten one is never taken for proof
	Refused                 // it is proven not to have happened
	Accepted                // it has happened
)

// String returns the outcome as a word for operators.
func (o Outcome) String() string { return word(int(o), "unknown", "refused", "accepted") }

// Class says what kind of trouble an [Error] is.
type Class int

const (
	Protocol    Class = iota // an answer that makes no sense; the zero Class
	Down                     // no connection, a connection that broke, or a provider that says it is out of order
	Timeout                  // no answer in time
	RateLimited              // asked too often
	Business                 // the provider works, and refuses this one
	Credentials              // it does not take our key, password, code or network address, or we do not take its certificate
)

// String returns the class as a word for operators and metrics.
func (c Class) String() string {
	return word(int(c), "protocol", "down", "timeout", "rate_limited", "business", "credentials")
}

// Error is how a provider failed.
type Error struct {
	Provider  string
	Operation string // such as payment.create
	Outcome   Outcome
	Class     Class
	Code      string // the provider's own word for it; "" means none
	Message   string // the provider's own sentence, or the network's, without secrets; for operators only
	Cause     error  // one of the causes below, or a context's error; nil for none
}

// Causes by which use cases decide. Ask errors.Is.
var (
	ErrNotFound            = errors.New("not found")
	ErrBelowMinimum        = errors.New("below the minimum")
	ErrInvalidAddress      = errors.New("not an address of this currency")
	ErrCurrencyUnavailable = errors.New("the currency is switched off")
	ErrInsufficientBalance = errors.New("the provider's balance is too low")
	ErrDuplicate           = errors.New("made before under this reference")
	ErrSignature           = errors.New("the signature is not the provider's")
)

// Error returns one line for logs.
func (e *Error) Error() string {
	parts := []string{"chain: " + e.Provider, e.Operation, e.Outcome.String() + ", " + e.Class.String()}
	for _, part := range []string{e.Code, e.Message} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	if e.Cause != nil && e.Cause.Error() != e.Message {
		parts = append(parts, e.Cause.Error())
	}
	return strings.Join(parts, ": ")
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// As returns the Error in err's chain, or an unknown outcome that hides nothing of err. It returns nil for nil.
func As(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Outcome: Unknown, Class: Protocol, Message: err.Error(), Cause: err}
}

// IsRefused reports whether err proves that nothing happened. Only after that may money go back, or a payment be made
// again under the same reference.
func IsRefused(err error) bool {
	e := As(err)
	return e != nil && e.Outcome == Refused
}

// word returns the i-th word, or the first one for what has none.
func word(i int, words ...string) string {
	if i < 0 || i >= len(words) {
		return words[0]
	}
	return words[i]
}
