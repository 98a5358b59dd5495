package bcb

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/acquirer/lenient"
	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/plainjson"
	"github.com/ponte-pay/ponte/internal/wire"
)

const (
	bodyBytesMax      = 1 << 20 // of an answer
	requestBytesUsual = 256     // of what is sent, so that room is made once
	statusSpanSize    = 100
)

// What is in each request.
var (
	contentJSON = []string{"application/json"}
	userAgent   = []string{"ponte"}
)

// Call is one request to an acquirer's API. It is for drivers that add to this one.
type Call struct {
	Operation string // for errors, such as charge.create
	Method    string
	BaseURL   string      // what Path is below; "" means the acquirer's
	Path      string      // escaped
	Query     url.Values  // nil means none
	Header    http.Header // beside the usual ones; nil means none
	Body      any         // to be sent as JSON; nil means none
	Reply     any         // to be read from JSON; nil means that any answer will do

	// OwnKey is the field of Body that holds our own Pix key: a refusal of it is about us, whatever is asked for. ""
	// means chave, wherever it stands.
	OwnKey string

	// Causes are what refusals with these statuses mean beyond what they mean everywhere; nil means nothing.
	Causes map[int]error

	// MovesMoney says that only a refusal in words proves that nothing happened. Otherwise a bare 401 does too, because
	// nothing is lost when it does not.
	MovesMoney bool
}

// Do makes a call with a token. It fails with an *acquirer.Error, which is Refused when it is proven that the acquirer did
// nothing. It ends within [acquirer.TryTimeMax].
//
// A token that is not taken is replaced once, and the call is made again: to refuse a token is to do nothing.
func (c *Client) Do(ctx context.Context, call Call) error {
	if failure := c.do(ctx, call); failure != nil {
		failure.Acquirer = c.config.Name
		if failure.Operation == "" {
			failure.Operation = call.Operation
		}
		return failure
	}
	return nil
}

func (c *Client) do(ctx context.Context, call Call) *acquirer.Error {
	ctx, cancel := clock.Within(ctx, c.limits.try)
	defer cancel()
	r, err := call.request(cmp.Or(call.BaseURL, c.config.BaseURL))
	if err != nil {
		return &acquirer.Error{Outcome: acquirer.Refused, Class: acquirer.Protocol, Message: c.safe(err.Error())}
	}
	for again := false; ; again = true {
		token, err := c.tokens.get(ctx)
		if err != nil {
			return noToken(err)
		}
		r.header.Set("Authorization", "Bearer "+token)
		a, failure := c.exchange(ctx, call.Operation, r)
		if failure != nil {
			return failure
		}
		failure = c.judge(call, a)
		switch {
		case failure == nil:
			return c.read(a, call.Reply)
		case a.status == http.StatusUnauthorized || failure.Code == "invalid_token":
			c.tokens.drop(token)
			if !again && failure.Outcome == acquirer.Refused {
				continue
			}
		}
		return failure
	}
}

// noToken is why nothing was asked at all.
func noToken(err error) *acquirer.Error {
	if failure, ok := errors.AsType[*acquirer.Error](err); ok {
		shared := *failure // by everybody who waited for it
		return &shared
	}
	return &acquirer.Error{Operation: operationToken, Outcome: acquirer.Refused, Class: acquirer.Timeout, Message: err.Error(), Cause: err}
}

// request is what exchange sends.
type request struct {
	method, url string
	header      http.Header
	body        []byte
}

func (c Call) request(base string) (request, error) {
	r := request{method: c.Method, url: joinURL(base, c.Path), header: http.Header{}}
	maps.Copy(r.header, c.Header)
	if c.Query != nil {
		r.url += "?" + c.Query.Encode()
	}
	if c.Body != nil {
		body, err := plainjson.Append(make([]byte, 0, requestBytesUsual), c.Body)
		if err != nil {
			return request{}, fmt.Errorf("bcb: %s: %w", c.Operation, err)
		}
		r.body = body
		r.header["Content-Type"] = contentJSON
	}
	return r, nil
}

// answer is what came back.
type answer struct {
	status int
	body   []byte
}

// exchange sends a request and reads the whole answer.
func (c *Client) exchange(ctx context.Context, operation string, r request) (answer, *acquirer.Error) {
	if err := ctx.Err(); err != nil {
		return answer{}, &acquirer.Error{Operation: operation, Outcome: acquirer.Refused, Class: acquirer.Timeout, Message: "there was no time left to ask", Cause: err}
	}
	a, err := c.roundTrip(ctx, r)
	if err != nil {
		return answer{}, c.broken(ctx, operation, err)
	}
	return a, nil
}

func (c *Client) roundTrip(ctx context.Context, r request) (answer, error) {
	request, err := http.NewRequestWithContext(ctx, r.method, r.url, bytes.NewReader(r.body))
	if err != nil {
		return answer{}, err
	}
	request.Header = r.header
	request.Header["Accept"] = contentJSON
	request.Header["User-Agent"] = userAgent
	response, err := c.transport.RoundTrip(request)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := wire.ReadBody(response.Body, response.ContentLength, bodyBytesMax)
	if err != nil {
		return answer{}, fmt.Errorf("read the answer, %s: %w", response.Status, err)
	}
	return answer{response.StatusCode, body}, nil
}

// broken is what the network's failure means.
func (c *Client) broken(ctx context.Context, operation string, err error) *acquirer.Error {
	failure := &acquirer.Error{Operation: operation, Class: acquirer.Down, Cause: ctx.Err()}
	if wire.SentNothing(err) || wire.RefusedCertificate(err) {
		failure.Outcome = acquirer.Refused
	}
	var slow net.Error
	var untrusted *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	switch {
	case ctx.Err() != nil, errors.As(err, &slow) && slow.Timeout():
		failure.Class = acquirer.Timeout
	case wire.RefusedCertificate(err), errors.As(err, &untrusted), errors.As(err, &unknown):
		failure.Class = acquirer.Credentials
	}
	failure.Message = c.safe(err.Error())
	return failure
}

// judge returns what an answer's status means, nil for success.
//
// Only an acquirer that refuses in words that can be read has refused. A bare status may be that of any box in between,
// which may have passed the request on before.
func (c *Client) judge(call Call, a answer) *acquirer.Error {
	if a.status/statusSpanSize == http.StatusOK/statusSpanSize {
		return nil
	}
	p, readable := readProblem(a.body)
	failure := &acquirer.Error{Operation: call.Operation, Code: c.told(p.code), Message: c.told(p.message)}
	if !readable {
		failure.Message = fmt.Sprintf("answered %d without a reason that can be read", a.status)
	}
	kind, known := statuses[a.status]
	switch {
	case a.status >= http.StatusInternalServerError && !known:
		kind = meaning{class: acquirer.Down}
	case kind.class == acquirer.Business && p.names(cmp.Or(call.OwnKey, "chave")):
		kind.class = acquirer.Credentials // our own Pix key is wrong, whatever is charged
	}
	if cause := call.Causes[a.status]; cause != nil {
		kind.cause = cause
	}
	failure.Class, failure.Cause = kind.class, kind.cause
	if kind.refused && (readable || a.status == http.StatusUnauthorized && !call.MovesMoney) {
		failure.Outcome = acquirer.Refused
	} else if kind.class == acquirer.Business {
		failure.Class, failure.Cause = acquirer.Protocol, nil
	}
	return failure
}

// meaning is what a status says when the answer can be read.
type meaning struct {
	class   acquirer.Class
	refused bool  // nothing was done
	cause   error // nil for none
}

// statuses are those with a meaning. Others are acquirer.Protocol, or acquirer.Down from 500 on, and prove nothing.
var statuses = map[int]meaning{
	http.StatusBadRequest:          {class: acquirer.Business, refused: true},
	http.StatusUnauthorized:        {class: acquirer.Credentials, refused: true},
	http.StatusForbidden:           {class: acquirer.Credentials, refused: true},
	http.StatusNotFound:            {class: acquirer.Business, refused: true, cause: acquirer.ErrNotFound},
	http.StatusMethodNotAllowed:    {class: acquirer.Protocol, refused: true},
	http.StatusRequestTimeout:      {class: acquirer.Timeout},
	http.StatusConflict:            {class: acquirer.Business, refused: true, cause: acquirer.ErrDuplicate},
	http.StatusGone:                {class: acquirer.Business, refused: true, cause: acquirer.ErrNotFound},
	http.StatusUnprocessableEntity: {class: acquirer.Business, refused: true},
	http.StatusTooManyRequests:     {class: acquirer.RateLimited, refused: true},
	http.StatusGatewayTimeout:      {class: acquirer.Timeout},
}

// read reads a successful answer into reply.
func (c *Client) read(a answer, reply any) *acquirer.Error {
	if reply == nil {
		return nil
	}
	var problem string
	switch err := lenient.Unmarshal(a.body, reply); {
	case len(a.body) > bodyBytesMax:
		problem = fmt.Sprintf("answered with more than %d bytes", bodyBytesMax)
	case err != nil:
		problem = c.safe(err.Error())
	default:
		return nil
	}
	return &acquirer.Error{Class: acquirer.Protocol, Message: problem}
}
