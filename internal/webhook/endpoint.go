// Package webhook tells account holders what happened: signed, at least once, each in its own time, and never held up by
// a receiver that is slow, broken or hostile.
package webhook

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ponte-pay/ponte/internal/event"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/id"
)

// Status is whether an endpoint is sent to.
type Status string

const (
	Active   Status = "active"   // events are sent
	Disabled Status = "disabled" // nothing is sent; what waits goes out once it is enabled
	Deleted  Status = "deleted"  // it is gone for its account; kept for the log of what was sent
)

// pace is how an endpoint keeps up. It decides where its deliveries stand in line.
type pace int64

const (
	common pace = 0 // with all others
	behind pace = 1 // it has a backlog: apart, so that nobody waits behind it
	slow   pace = 2 // it lets us wait for answers: apart, with senders that nobody else needs
)

// lane is where a delivery waits.
type lane int64

const (
	laneCommon lane = 0 // found by time, over all accounts
	laneApart  lane = 1 // found by endpoint
	laneHeld   lane = 2 // not looked for: its endpoint is disabled
)

// Prefix of an endpoint's identifier.
const Prefix = id.Endpoint

// All is how an operator asks for every type of event, those to come included.
const All = "all"

// Limits of an endpoint.
const (
	URLMax       = 500 // bytes, as of a postback_url
	EndpointsMax = 50  // of an account that are not deleted
)

// Endpoint is a receiver's address.
type Endpoint struct {
	Account      id.Account
	ID           id.ID // tells when it was registered
	URL          string
	Events       []event.Type // nil means all
	Status       Status
	NextAt       time.Time // when the secret of the last rotation begins to sign; zero for none
	FailingSince time.Time // the first failure after the last success; zero for none

	pace       pace
	settled    bool // its deliveries are in the lane that status and pace ask for
	version    int64
	secret     []byte // sealed
	nextSecret []byte // sealed; nil for none
}

// CreatedAt returns when it was registered.
func (e *Endpoint) CreatedAt() time.Time { return e.ID.Time() }

// Wants reports whether the endpoint subscribes to a type.
func (e *Endpoint) Wants(t event.Type) bool { return e.Events == nil || slices.Contains(e.Events, t) }

// lane returns where its deliveries wait.
func (e *Endpoint) lane() lane {
	switch {
	case e.Status != Active:
		return laneHeld
	case e.pace == common:
		return laneCommon
	}
	return laneApart
}

// ParseEvents reads a list of types such as charge.paid,payout.failed, or all. It names the first that is unknown.
func ParseEvents(text string) ([]event.Type, error) {
	if strings.TrimSpace(text) == All {
		return nil, nil
	}
	var types []event.Type
	for name := range strings.SplitSeq(text, ",") {
		t := event.Type(strings.TrimSpace(name))
		if !t.IsKnown() {
			return nil, invalid("events", "events_wrong", fmt.Sprintf("%q is no type of event", string(t)))
		}
		if !slices.Contains(types, t) {
			types = append(types, t)
		}
	}
	return types, nil
}

// FormatEvents writes what [ParseEvents] reads.
func FormatEvents(types []event.Type) string {
	if types == nil {
		return All
	}
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = string(t)
	}
	return strings.Join(names, ",")
}

// invalid refuses a field. By the code a page finds the words.
func invalid(path, code, message string) error {
	return &fault.Error{Kind: fault.Invalid, Code: code, Public: path + ": " + message, Issues: []fault.Issue{{Path: path, Message: message}}}
}
