package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/idempotency"
	"github.com/ponte-pay/ponte/internal/ratelimit"
	"github.com/ponte-pay/ponte/internal/sqldb"
)

// Refusals of the gate.
var (
	errBlockedForGood = fault.New(fault.Forbidden, "", "this address is blocked")
	errBadKey         = fault.New(fault.Unauthenticated, "", "the API key is missing or wrong; send it as Authorization: Bearer bp_...")
	errLocked         = fault.New(fault.Locked, "", "the account is under review; write to support")
	errBanned         = fault.New(fault.Forbidden, "account_banned", "the account is closed")
	errScope          = fault.New(fault.Forbidden, "", "the API key lacks the scope for this route")
	errDisabled       = fault.New(fault.Forbidden, "", "this resource is switched off for the account")
)

// admit lets a request pass or says why not, in this order: blocked address, key, state of the account, rate limit,
// scope and switched-off resource, Idempotency-Key header. What comes behind, from the body on, is the route's.
func (a *API) admit(w http.ResponseWriter, c *call, found *route) error {
	if wait, blocked := a.guard.Blocked(c.scope.Client); blocked {
		if wait == 0 {
			return errBlockedForGood
		}
		return &fault.Error{Kind: fault.Forbidden, Public: "too many wrong keys from this address; wait before the next try", RetryAfter: wait}
	}
	if found != nil && found.open {
		return nil
	}
	if err := a.authenticate(c); err != nil {
		return err
	}
	if err := a.count(w, c); err != nil {
		return err
	}
	if found == nil {
		return nil
	}
	if err := found.permits(c.principal); err != nil {
		return err
	}
	header, present := c.Header[idempotencyKeyHeader]
	if len(header) > 1 && found.key != idempotency.Unused {
		return fault.New(fault.Invalid, "invalid_idempotency_key", "send one Idempotency-Key, not several")
	}
	return idempotency.CheckKey(found.key, strings.Join(header, ""), present)
}

// authenticate finds out whose key it is and whether that account is served.
func (a *API) authenticate(c *call) error {
	presented := presentedKey(c.Header)
	if presented == "" {
		return errBadKey
	}
	principal, err := a.directory.Authenticate(c.Context(), presented)
	if errors.Is(err, account.ErrBadKey) {
		// The block counts at once; that it could not be stored yet is for the log, not for this caller.
		bad := *errBadKey
		bad.Cause = a.guard.WrongKey(c.Context(), c.scope.Client)
		return &bad
	}
	if err != nil {
		return err
	}
	c.principal, c.scope.Account = principal, principal.Account.ID
	switch principal.Account.Settings.Status {
	case account.StatusUnderReview:
		return errLocked
	case account.StatusBanned:
		return errBanned
	case account.StatusActive:
	}
	return nil
}

// presentedKey returns the key of a request, or "" when it has none: in Authorization, with or without Bearer, or in
// x-api-key. An Authorization that names another scheme, or nothing at all, is no key: proxies and libraries add such.
func presentedKey(h http.Header) string {
	value := h.Get("Authorization")
	if account.LooksLikeKey(value) {
		return value
	}
	if i := strings.IndexAny(value, " \t"); i >= 0 && strings.EqualFold(value[:i], "Bearer") {
		if key := strings.Trim(value[i:], " \t"); key != "" {
			return key
		}
	}
	return h.Get("X-Api-Key")
}

// count takes a request off the key's window and tells in the header what is left.
func (a *API) count(w http.ResponseWriter, c *call) error {
	verdict, err := a.limiter.Take(c.Context(), c.principal.KeyPrefix, c.principal.Account.Settings.RateLimit)
	if err != nil {
		return err
	}
	c.tellLimit(w.Header(), verdict)
	if !verdict.Allowed {
		return &fault.Error{
			Kind: fault.RateLimited, Public: "too many requests with this key; wait for retry-after seconds",
			RetryAfter: verdict.RetryAfter,
		}
	}
	return nil
}

func (c *call) tellLimit(h http.Header, v ratelimit.Verdict) {
	// Rounded up, as retry-after is: the window still runs at the second before.
	reset := v.Reset.Add(time.Second - 1).Unix()
	c.limit = [...]string{strconv.Itoa(v.Limit), strconv.Itoa(v.Remaining), strconv.FormatInt(reset, 10)}
	h["X-Ratelimit-Limit"], h["X-Ratelimit-Remaining"], h["X-Ratelimit-Reset"] = c.limit[0:1:1], c.limit[1:2:2], c.limit[2:3:3]
}

// permits returns nil when the key has one of the route's sets of scopes and the account has its resource.
func (r *route) permits(p *account.Principal) error {
	allowed := len(r.scopes) == 0
	for _, set := range r.scopes {
		allowed = allowed || p.Scopes.Has(set)
	}
	switch {
	case !allowed:
		return errScope
	case r.resource != 0 && p.Account.Settings.Disabled.Has(r.resource):
		return errDisabled
	}
	return nil
}

// asFault gives a failure of the database its meaning for the caller: nothing happened, or nothing that a repetition
// would do twice.
func asFault(err error) error {
	var known *fault.Error
	switch {
	case errors.As(err, &known):
		return known // whatever its cause: only who made it knows what a repetition would do
	case errors.Is(err, sqldb.ErrUnavailable), errors.Is(err, sqldb.ErrCommitUnknown), errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, context.Canceled):
		return &fault.Error{Kind: fault.Unavailable, Public: "the service is not available right now; try again", Cause: err}
	}
	return fault.As(err)
}
