package acquirer

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
	Skipped                 // it was not tried
)

// String returns the outcome as a word for operators.
func (o Outcome) String() string { return word(int(o), "unknown", "refused", "accepted", "skipped") }

// Class says what kind of trouble an [Error] is, and with that whether another acquirer may do better.
type Class int

const (
	Protocol    Class = iota // an answer that makes no sense; the zero Class
	Down                     // no connection, a connection that broke, or an acquirer that says it is out of order
	Timeout                  // no answer in time
	RateLimited              // asked too often
	Business                 // the acquirer works, and refuses this one; others may well refuse it too
	Credentials              // it does not take our certificate, password, scope or Pix key, or we do not take its certificate
)

// String returns the class as a word for operators and metrics.
func (c Class) String() string {
	return word(int(c), "protocol", "down", "timeout", "rate_limited", "business", "credentials")
}

// Error is how an acquirer failed.
type Error struct {
	Acquirer  string
	Operation string // such as charge.create
	Outcome   Outcome
	Class     Class
	Code      string // the acquirer's own word for it; "" means none
	Message   string // the acquirer's own sentence, or the network's, without secrets; for operators only
	Cause     error  // one of those below, or a context's error; nil for none
}

// Causes by which use cases decide. Ask errors.Is.
var (
	ErrNotFound  = errors.New("not found")
	ErrDuplicate = errors.New("taken by something else")
	ErrTooLate   = errors.New("too late")
	ErrNoFunds   = errors.New("not enough money at the acquirer") // ours there, which another acquirer may have
)

// Error returns one line for logs.
func (e *Error) Error() string {
	parts := []string{"acquirer: " + e.Acquirer, e.Operation, e.Outcome.String() + ", " + e.Class.String()}
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

// IsRefused reports whether err proves that nothing happened. Only after that may something that moves money be asked of
// another acquirer, or be asked again in other words.
func IsRefused(err error) bool {
	e := As(err)
	return e != nil && e.Outcome == Refused
}
