package sim

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	webhook "github.com/ponte-pay/ponte/client/webhook"
	"github.com/ponte-pay/ponte/internal/wire"
)

// tryTime is how long a caller waits for an answer, at least.
const tryTime = 5 * time.Second

// network carries what a boot sends, as a network does: or not, or twice, or too late.
type network struct {
	life *life
	boot *boot
}

// Failures of a network.
var (
	errRefused = &wire.NotSentError{Err: fmt.Errorf("sim: %w", syscall.ECONNREFUSED)}
	errReset   = fmt.Errorf("sim: %w", syscall.ECONNRESET)
	errTimeout = fmt.Errorf("sim: %w", os.ErrDeadlineExceeded)
)

// RoundTrip implements [http.RoundTripper].
func (n *network) RoundTrip(r *http.Request) (*http.Response, error) {
	l := n.life
	body := readAll(r)
	call := r.Method + " " + r.URL.Host + r.URL.Path
	l.at(n.boot, "before "+call)
	if n.boot.dead {
		return nil, errReset
	}
	fault := l.faultOf(n.boot, r)
	l.plant.send(r)
	settle := l.watchSend(r)
	response, proven, err := l.carry(r, body, fault)
	if err != nil || fault != "" {
		l.note("node %d: %s: %s %v", n.boot.node, call, fault, err)
	} else {
		l.note("node %d: %s: %d", n.boot.node, call, response.StatusCode)
	}
	if settle != nil && (proven || isRefusal(response)) {
		settle()
	}
	l.at(n.boot, "after "+call)
	if n.boot.dead {
		return nil, errReset
	}
	return l.plant.response(r, response, err)
}

func readAll(r *http.Request) []byte {
	if r.Body == nil {
		return nil
	}
	body, _ := io.ReadAll(r.Body) // of memory
	_ = r.Body.Close()
	return body
}

// faultOf returns what goes wrong with a call; "" for nothing.
func (l *life) faultOf(b *boot, r *http.Request) string {
	target, _, _ := strings.Cut(r.URL.Host, ".")
	if l.outages[target] > l.number {
		return "refuse"
	}
	if l.outages["hung "+target] > l.number {
		return "hung"
	}
	f := l.frameOf(b)
	if f == nil {
		return ""
	}
	f.calls++
	for _, one := range f.Network {
		if one.At == f.calls && one.Kind != "duplicate" {
			return one.Kind
		}
	}
	return ""
}

// watchSend tells the auditor that a bank is about to be asked to send a payout. It returns what notes that nothing came of
// it; nil for another request.
func (l *life) watchSend(r *http.Request) (dead func()) {
	const path = "/v3/gn/pix/"
	name, ok := strings.CutPrefix(r.URL.Path, path)
	if !ok || r.Method != http.MethodPut {
		return nil
	}
	bank, _, _ := strings.Cut(r.URL.Host, ".")
	return l.auditor.Send(bank, name)
}

// isRefusal reports whether an answer says that nothing was done.
func isRefusal(r *http.Response) bool {
	return r != nil && r.StatusCode >= http.StatusBadRequest && r.StatusCode < http.StatusInternalServerError && r.StatusCode != http.StatusConflict &&
		r.StatusCode != http.StatusRequestTimeout
}

// carry takes a request to whom it is for. proven means that it did not arrive, and that its sender can know.
func (l *life) carry(r *http.Request, body []byte, fault string) (response *http.Response, proven bool, err error) {
	target := l.handler(r.URL.Host)
	if target == nil || fault == "refuse" {
		return nil, true, errRefused
	}
	switch fault {
	case "lost_not_executed":
		return nil, false, errReset
	case "lost_executed":
		deliver(target, r, body)
		return nil, false, errReset
	case "hung":
		l.pass(2 * tryTime)
		return nil, false, errTimeout
	case "slow":
		deliver(target, r, body)
		l.pass(tryTime)
		return nil, false, errTimeout
	case "late":
		l.late = append(l.late, arrival{target, r, body, l.clock.Now()})
		l.pass(tryTime)
		return nil, false, errTimeout
	case "http_500", "http_429", "reject", "garbage":
		if name, _, isWorld := strings.Cut(r.URL.Host, ".simulator"); isWorld || name != r.URL.Host {
			l.control(http.MethodPost, "/sim/faults", map[string]any{"target": name, "operation": "*", "kind": fault, "times": 1, "delay_ms": 0})
			defer l.control(http.MethodDelete, "/sim/faults", nil) // one that met nothing
		}
	}
	response, err = serve(target, r, body)
	return response, false, err
}

// serve has a handler answer a request inside of this process.
func serve(h http.Handler, r *http.Request, body []byte) (response *http.Response, err error) {
	in := r.Clone(r.Context())
	in.Body, in.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	in.RequestURI, in.Host, in.RemoteAddr = r.URL.RequestURI(), r.URL.Host, "203.0.113.9:4711"
	w := &writer{header: http.Header{}, status: http.StatusOK}
	defer func() {
		if p := recover(); p != nil {
			if e, ok := p.(error); !ok || !errors.Is(e, http.ErrAbortHandler) {
				panic(p)
			}
			response, err = nil, errReset
		}
	}()
	h.ServeHTTP(w, in)
	return &http.Response{
		Status: fmt.Sprintf("%d %s", w.status, http.StatusText(w.status)), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
	}, nil
}

// deliver is serve for an answer that reaches nobody.
func deliver(h http.Handler, r *http.Request, body []byte) {
	if response, err := serve(h, r, body); err == nil {
		_ = response.Body.Close() // of memory
	}
}

// writer keeps what a handler answers.
type writer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *writer) Header() http.Header         { return w.header }
func (w *writer) Write(b []byte) (int, error) { return w.body.Write(b) }
func (w *writer) WriteHeader(status int)      { w.status = status }

// arrival is a request that is still on its way.
type arrival struct {
	to   http.Handler
	r    *http.Request
	body []byte
	sent time.Time // business time
}

// lateMax is how long a request can be on its way, in business time. The service takes an answer of not found for the truth
// after a minute at the earliest.
const lateMax = 20 * time.Second

// arrive lets requests arrive that were sent longer ago than that.
func (l *life) arrive(age time.Duration) {
	var rest []arrival
	due := l.late
	l.late = nil
	for _, one := range due {
		if l.clock.Now().Sub(one.sent) < age {
			rest = append(rest, one)
			continue
		}
		l.note("late: %s %s%s", one.r.Method, one.r.URL.Host, one.r.URL.Path)
		deliver(one.to, one.r, one.body)
	}
	l.late = append(rest, l.late...)
}

// post carries the notifications of the worlds to the nodes.
type post struct{ life *life }

// notification is one that was sent.
type notification struct {
	url    string
	header http.Header
	body   string
}

const noticedMax = 200 // notifications that are remembered

// RoundTrip implements [http.RoundTripper].
func (p post) RoundTrip(r *http.Request) (*http.Response, error) {
	l := p.life
	body := readAll(r)
	if len(l.noticed) < noticedMax {
		l.noticed = append(l.noticed, notification{r.URL.String(), r.Header.Clone(), string(body)})
	}
	fault := ""
	f := l.frame()
	f.calls++
	for _, one := range f.Network {
		if one.At == f.calls {
			fault = one.Kind
		}
	}
	b := l.boots[f.random.IntN(len(l.boots))]
	l.note("notification to node %d: %s", b.node, fault)
	switch {
	case b.dead || fault == "refuse" || fault == "lost_not_executed" || fault == "reject" || fault == "http_429":
		return nil, errRefused
	case fault == "late": // it is told in the end, after others
		l.late = append(l.late, arrival{b.server.Handler(), r, body, l.clock.Now()})
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Header: http.Header{}, Request: r}, nil
	case fault == "duplicate":
		deliver(b.server.Handler(), r, body)
	case fault == "lost_executed" || fault == "slow" || fault == "http_500" || fault == "garbage":
		deliver(b.server.Handler(), r, body)
		return nil, errReset
	}
	return serve(b.server.Handler(), r, body)
}

// receiver is where a merchant is told of events.
type receiver struct {
	life    *life
	host    string
	url     string
	owner   *merchant
	secrets []string // that it accepts; nil when nobody knows it

	events   string // that it wants, as operators write it
	isSteady bool   // it is registered, and nobody has changed that since
}

// wants reports whether it is to be told of a type of event.
func (r *receiver) wants(kind string) bool {
	return r.events == webhookAll || slices.Contains(strings.Split(r.events, ","), kind)
}

const (
	webhookAll      = "all"       // every type
	endpointsWorker = "endpoints" // the loop that reads which there are
)

// ServeHTTP verifies an event and takes it, unless the receiver is out of order.
func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	l := r.life
	body, _ := io.ReadAll(request.Body) // of memory
	header := request.Header.Get(webhook.SignatureHeader)
	var err error
	for _, secret := range r.secrets {
		if err = webhook.Verify(header, body, secret, l.real); err == nil {
			break
		}
	}
	event := request.Header.Get(webhook.EventIDHeader)
	if err != nil {
		l.auditor.Fails(fmt.Sprintf("event %s to %s: %v", event, r.url, err))
	}
	took := true
	if name := strings.TrimSuffix(r.host, ".example"); l.outages["sick "+name] > l.number {
		took = false
		w.WriteHeader(http.StatusInternalServerError)
	}
	l.auditor.Received(r.url, event, string(body), took)
	l.note("event %s %s to %s: %v", request.Header.Get(webhook.EventTypeHeader), event, r.host, took)
}
