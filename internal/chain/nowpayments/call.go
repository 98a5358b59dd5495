package nowpayments

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"unicode"

	"github.com/ponte-pay/ponte/internal/chain"
	"github.com/ponte-pay/ponte/internal/wire"
)

const (
	bodyBytesMax   = 4 << 20 // of an answer; the list of all currencies is the longest
	contentJSON    = "application/json"
	userAgent      = "ponte"
	statusSpanSize = 100
	messageMax     = 200 // characters of a provider's sentence that are kept
)

// auth is how a call shows who asks.
type auth int

const (
	byKey     auth = iota // with the API key, and only if that is not enough with a token too
	withToken             // with the API key and a token
	nobody                // not at all
)

// call is one request to the provider.
type call struct {
	operation string // for errors, such as payment.create
	method    string
	path      string // below the base URL, escaped
	query     url.Values
	auth      auth
	creates   bool   // a second one would make a second thing: it is counted against the bound
	body      any    // to be sent as JSON; nil means none
	reply     any    // to be read from JSON; nil means that any answer will do
	token     string // set by ask
}

// do makes a call. It fails with a *chain.Error, which is Refused when it is proven that the provider did nothing. It ends
// within [chain.TryTimeMax].
//
// A token that is not taken is replaced once.
func (c *Client) do(ctx context.Context, call call) error {
	ctx, cancel := context.WithTimeout(ctx, chain.TryTimeMax)
	defer cancel()
	failure := c.ask(ctx, call)
	if failure == nil {
		return nil
	}
	failure.Provider = c.config.Name
	if failure.Operation == "" {
		failure.Operation = call.operation
	}
	return failure
}

func (c *Client) ask(ctx context.Context, call call) *chain.Error {
	if call.auth != withToken {
		failure := c.try(ctx, call)
		if failure == nil || failure.Class != chain.Credentials || failure.Code != codeUnauthorized {
			return failure
		}
		call.auth = withToken
	}
	for again := false; ; again = true {
		token, err := c.tokens.get(ctx)
		if err != nil {
			return noToken(err)
		}
		call.token = token
		failure := c.try(ctx, call)
		if failure == nil || failure.Class != chain.Credentials || failure.Code != codeUnauthorized {
			return failure
		}
		c.tokens.drop(token)
		if again {
			return failure
		}
	}
}

// noToken is why nothing was asked at all.
func noToken(err error) *chain.Error {
	if failure, ok := errors.AsType[*chain.Error](err); ok {
		shared := *failure // by everybody who waited for it
		return &shared
	}
	return &chain.Error{Operation: operationToken, Outcome: chain.Refused, Class: chain.Timeout, Message: err.Error(), Cause: err}
}

// try sends a request once, in its turn.
func (c *Client) try(ctx context.Context, call call) *chain.Error {
	var body []byte
	if call.body != nil {
		var err error
		if body, err = json.Marshal(call.body); err != nil {
			return &chain.Error{Outcome: chain.Refused, Class: chain.Protocol, Message: c.safe(err.Error())}
		}
	}
	if failure := c.pace.wait(ctx, call.creates); failure != nil {
		return failure
	}
	a, failure := c.exchange(ctx, call, body)
	if failure != nil {
		return failure
	}
	if a.status == http.StatusTooManyRequests {
		c.pace.hold(a.header.Get("Retry-After"))
	}
	if failure := c.judge(call, a); failure != nil {
		return failure
	}
	return c.read(a, call.reply)
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// exchange sends a request and reads the whole answer.
func (c *Client) exchange(ctx context.Context, call call, body []byte) (answer, *chain.Error) {
	a, err := c.roundTrip(ctx, call, body)
	if err != nil {
		return answer{}, c.broken(ctx, err)
	}
	return a, nil
}

func (c *Client) roundTrip(ctx context.Context, call call, body []byte) (answer, error) {
	address := strings.TrimSuffix(c.config.BaseURL, "/") + call.path
	if call.query != nil {
		address += "?" + call.query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, call.method, address, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	request.Header.Set("Accept", contentJSON)
	request.Header.Set("User-Agent", userAgent)
	if body != nil {
		request.Header.Set("Content-Type", contentJSON)
	}
	if call.auth != nobody {
		request.Header.Set("X-Api-Key", c.config.APIKey)
	}
	if call.auth == withToken {
		request.Header.Set("Authorization", "Bearer "+call.token)
	}
	response, err := c.transport.RoundTrip(request)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = response.Body.Close() }()
	read, err := wire.ReadBody(response.Body, response.ContentLength, bodyBytesMax)
	if err != nil {
		return answer{}, fmt.Errorf("read the answer, %s: %w", response.Status, err)
	}
	return answer{response.StatusCode, response.Header, read}, nil
}

// broken is what the network's failure means.
func (c *Client) broken(ctx context.Context, err error) *chain.Error {
	failure := &chain.Error{Class: chain.Down, Cause: ctx.Err()}
	if wire.SentNothing(err) || wire.RefusedCertificate(err) {
		failure.Outcome = chain.Refused
	}
	var slow net.Error
	var untrusted *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	switch {
	case ctx.Err() != nil, errors.As(err, &slow) && slow.Timeout():
		failure.Class = chain.Timeout
	case errors.As(err, &untrusted), errors.As(err, &unknown):
		failure.Class = chain.Credentials
	}
	failure.Message = c.safe(err.Error())
	return failure
}

// codeUnauthorized stands in for the code of a 401, whatever that is.
const codeUnauthorized = "UNAUTHORIZED"

// judge returns what an answer's status means, nil for success.
//
// Only a provider that refuses in words that can be read has refused. A bare status, or a page of HTML, is that of some box
// in between, which may have passed the request on before.
func (c *Client) judge(call call, a answer) *chain.Error {
	if a.status/statusSpanSize == http.StatusOK/statusSpanSize {
		return nil
	}
	var problem struct {
		Code    text `json:"code"`
		Message text `json:"message"`
	}
	readable := json.Unmarshal(a.body, &problem) == nil && (problem.Code != "" || problem.Message != "")
	failure := &chain.Error{Code: c.safe(string(problem.Code)), Message: c.safe(string(problem.Message))}
	if !readable {
		failure.Message = fmt.Sprintf("answered %d without a reason that can be read", a.status)
	}
	if ray := a.header.Get("Cf-Ray"); ray != "" {
		failure.Message += ", cf-ray " + c.safe(ray) // what the provider's support asks for
	}
	kind, known := statuses[a.status]
	if !known && a.status >= http.StatusInternalServerError {
		kind = meaning{class: chain.Down}
	}
	failure.Class, failure.Cause = kind.class, kind.cause
	switch {
	case a.status == http.StatusUnauthorized:
		failure.Outcome, failure.Code = chain.Refused, codeUnauthorized
	case kind.refused && readable:
		failure.Outcome = chain.Refused
	case kind.class == chain.Business:
		failure.Class, failure.Cause = chain.Protocol, nil
	}
	if failure.Outcome == chain.Refused && failure.Class == chain.Business && failure.Cause == nil {
		failure.Cause = causeOf(call, string(problem.Code), string(problem.Message))
	}
	return failure
}

// meaning is what a status says when the answer can be read.
type meaning struct {
	class   chain.Class
	refused bool  // nothing was done
	cause   error // nil for none
}

// statuses are those with a meaning. Others are chain.Protocol, or chain.Down from 500 on, and prove nothing.
var statuses = map[int]meaning{
	http.StatusBadRequest:          {class: chain.Business, refused: true},
	http.StatusUnauthorized:        {class: chain.Credentials, refused: true},
	http.StatusForbidden:           {class: chain.Credentials, refused: true},
	http.StatusNotFound:            {class: chain.Business, refused: true, cause: chain.ErrNotFound},
	http.StatusMethodNotAllowed:    {class: chain.Protocol, refused: true},
	http.StatusRequestTimeout:      {class: chain.Timeout},
	http.StatusConflict:            {class: chain.Business, refused: true},
	http.StatusUnprocessableEntity: {class: chain.Business, refused: true},
	http.StatusTooManyRequests:     {class: chain.RateLimited, refused: true},
	http.StatusGatewayTimeout:      {class: chain.Timeout},
}

// causeOf tells refusals apart. One code stands for several reasons, so that the sentence has to be read.
func causeOf(call call, code, message string) error {
	message = strings.ToLower(message)
	has := func(words ...string) bool {
		for _, word := range words {
			if strings.Contains(message, word) {
				return true
			}
		}
		return false
	}
	switch {
	case code == "CURRENCY_UNAVAILABLE", has("currency is unavailable", "currency is not available", "temporarily unavailable"):
		return chain.ErrCurrencyUnavailable
	case code == "AMOUNT_MINIMAL_ERROR", has("less than minimal", "min amount", "too small", "less than minimum"):
		return chain.ErrBelowMinimum
	case has("insufficient balance"):
		return chain.ErrInsufficientBalance
	case has("unique_external_id", "external id already"):
		return chain.ErrDuplicate
	case has("invalid payout_address", "invalid address", "invalid payout_extra_id"):
		return chain.ErrInvalidAddress
	case code == "BAD_CREATE_WITHDRAWAL_REQUEST" && call.operation == operationValidate:
		return chain.ErrInvalidAddress
	}
	return nil
}

// read reads a successful answer into reply.
func (c *Client) read(a answer, reply any) *chain.Error {
	if reply == nil {
		return nil
	}
	var problem string
	switch err := json.Unmarshal(a.body, reply); {
	case len(a.body) > bodyBytesMax:
		problem = fmt.Sprintf("answered with more than %d bytes", bodyBytesMax)
	case err != nil:
		problem = c.safe(err.Error())
	default:
		return nil
	}
	return &chain.Error{Class: chain.Protocol, Message: problem}
}

// nonsense is an answer that can be read and makes no sense.
func (c *Client) nonsense(operation, message string) error {
	return &chain.Error{Provider: c.config.Name, Operation: operation, Class: chain.Protocol, Message: message}
}

// impossible is a request that is not worth sending.
func (c *Client) impossible(operation, message string) error {
	return &chain.Error{Provider: c.config.Name, Operation: operation, Outcome: chain.Refused, Class: chain.Protocol, Message: message}
}

// safe makes a text fit for a log: short, on one line, without our secrets.
func (c *Client) safe(s string) string {
	for _, secret := range []string{c.config.APIKey, c.config.Password, c.config.TOTPSecret, c.config.IPNSecret, c.tokens.current()} {
		if secret != "" {
			s = strings.ReplaceAll(s, secret, secretShown)
		}
	}
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) }), " ")
	if runes := []rune(s); len(runes) > messageMax {
		s = string(runes[:messageMax]) + "…"
	}
	return s
}
