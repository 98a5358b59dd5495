package webhook

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/ponte-pay/ponte/internal/event"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/wire"
)

// Headers of a delivery.
const (
	headerSignature = "X-Service-Signature"
	headerEvent     = "X-Service-Event-Id"
	headerType      = "X-Service-Event-Type"
	headerAttempt   = "X-Service-Attempt"
)

// Bounds of an answer.
const (
	responseBytesMax = 16 << 10 // read and kept
	headerBytesMax   = 64 << 10
	errorBytesMax    = 500 // of what is kept when there was no answer
	idleTimeMax      = 90 * time.Second
	idleMax          = 1024 // connections kept open
)

// newDialer returns what connects, after it has looked where to.
func newDialer(s Settings) *net.Dialer {
	return &net.Dialer{Timeout: s.Timeout, Control: s.Targets.control}
}

// newTransport returns what sends: by no proxy, following nothing, and only to addresses that are permitted when the
// connection is made. It speaks HTTP/1.1, so that a receiver that hangs holds one delivery and not all of its host's.
func newTransport(s Settings) http.RoundTripper {
	if s.Transport != nil {
		return s.Transport
	}
	return &wire.Transport{
		Dial:             newDialer(s).DialContext,
		HandshakeTimeMax: s.Timeout,
		IdleConnsMax:     idleMax, // and no bound on those in use: endpoints of one host must not wait for each other
		IdleTimeMax:      idleTimeMax,
		HeaderBytesMax:   headerBytesMax,
	}
}

// Message is one sending of an event.
type Message struct {
	URL       string
	Event     id.ID
	Type      event.Type
	Body      []byte
	Attempt   int64 // 1, 2, 3, ...
	Signature string
}

// Header is one header of a message.
type Header struct{ Name, Value string }

// Headers returns what goes before the body, in the order in which people read it.
func (m *Message) Headers() []Header {
	return []Header{
		{"Content-Type", "application/json"},
		{"User-Agent", "Ponte"},
		{headerSignature, m.Signature},
		{headerEvent, event.Prefix.Format(m.Event)},
		{headerType, string(m.Type)},
		{headerAttempt, strconv.FormatInt(m.Attempt, 10)},
	}
}

// Request returns the message as HTTP.
func (m *Message) Request(ctx context.Context) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, m.URL, bytes.NewReader(m.Body))
	if err != nil {
		return nil, err
	}
	for _, h := range m.Headers() {
		r.Header.Set(h.Name, h.Value)
	}
	return r, nil
}

// Outcome is how an attempt went.
type Outcome struct {
	OK       bool          // the receiver answered 2xx
	Timeout  bool          // it let us wait for too long
	First    bool          // it was the first attempt
	Waited   time.Duration // real time between when it could be sent and when it was
	Took     time.Duration // real time
	status   int           // 0 for no answer
	err      string        // "" when there was one
	response []byte
	at       time.Time // business time of its beginning
	none     bool      // nothing was sent, and nothing counts

	signature string // "" when nothing was sent
}

// Send sends the next delivery that waits for a sender of that pool.
func (s *Service) Send(ctx context.Context, pool Pool) (did bool, err error) {
	if s.Node == nil || !s.canOwn() {
		return false, nil // another may think that this node is dead
	}
	j := s.lines.take(pool)
	if j == nil {
		return false, nil
	}
	o := s.attempt(ctx, j)
	if o.none {
		s.lines.ended(j, o)
		return true, nil
	}
	want := s.lines.ended(j, o)
	s.note(j, o, want)
	if s.Observe != nil {
		s.Observe(o)
	}
	return true, nil
}

// attempt makes one attempt. What it cannot or need not make is handed back or cancelled.
func (s *Service) attempt(ctx context.Context, j *job) Outcome {
	e := s.directory.get(j.endpoint)
	mayBeOthers := j.lapses != s.Node.Lapses() // taken over while this node was silent; if not, it is found again
	if e == nil || e.Status != Active || mayBeOthers {
		s.results.add(result{job: j, handBack: true}) // where its endpoint is now known, it is found and moved
		return Outcome{none: true}
	}
	now := s.Clock.Now()
	o := Outcome{First: j.attempt == 0, Waited: s.Clock.RealSince(j.since), at: now}
	if err := s.Settings.Targets.Check(e.URL); err != nil { // what is permitted may have changed since it was registered
		o.err = err.Error()
		return o
	}
	secret, err := s.secretAt(ctx, e, now)
	if err != nil {
		s.Log.LogAttrs(ctx, slog.LevelError, "webhook secret cannot be opened",
			slog.String("endpoint", Prefix.Format(e.ID)), slog.String("error", err.Error()))
		o.err = "the endpoint's secret cannot be opened"
		return o
	}
	started := s.Clock.Real()
	o.signature = Sign(secret, started, j.body)
	m := Message{URL: e.URL, Event: j.event, Type: j.kind, Body: j.body, Attempt: j.attempt + 1, Signature: o.signature}
	limited, cancel := context.WithTimeout(ctx, s.Settings.Timeout)
	defer cancel()
	o.status, o.response, err = s.post(limited, &m)
	o.Took = s.Clock.RealSince(started)
	switch {
	case err == nil:
		o.OK = o.status >= http.StatusOK && o.status < http.StatusMultipleChoices
	case ctx.Err() != nil: // this process ends
		s.results.add(result{job: j, handBack: true})
		return Outcome{none: true}
	default:
		var late net.Error
		o.Timeout = limited.Err() != nil || (errors.As(err, &late) && late.Timeout())
		o.err = err.Error()
		if o.Timeout {
			o.err = "no answer within " + s.Settings.Timeout.String()
		}
		o.err = o.err[:min(len(o.err), errorBytesMax)]
	}
	return o
}

// post sends a message and reads the beginning of the answer. The status counts even if the rest of the answer is lost.
func (s *Service) post(ctx context.Context, m *Message) (status int, response []byte, err error) {
	r, err := m.Request(ctx)
	if err != nil {
		return 0, nil, err
	}
	// An http.Client adds what is not wanted here, redirects and cookies, and copies all headers for them.
	answer, err := s.transport.RoundTrip(r)
	if err != nil {
		return 0, nil, &url.Error{Op: "Post", URL: m.URL, Err: err}
	}
	defer answer.Body.Close()
	response, _ = io.ReadAll(io.LimitReader(answer.Body, responseBytesMax))
	return answer.StatusCode, response, nil
}
