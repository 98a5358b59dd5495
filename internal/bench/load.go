package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ponte-pay/ponte/internal/clock"
)

const (
	answerBufferBytes = 16 << 10
	paceHeadStart     = 50 * time.Millisecond // in which all connections are made before an even pace begins
	paceTick          = time.Millisecond      // what is due in one is sent at its end: to wake up for each would take the server's time
	unavailableMax    = 10 * time.Second      // that a server may ask a caller to come again
	comeAgainAfter    = 10 * time.Millisecond
)

// traffic is what a load generator sends.
type traffic struct {
	address     string
	connections int
	perSecond   float64                   // an even pace; 0 for as fast as answers come
	next        func(scrap []byte) []byte // the next request, which may use scrap's room; nil ends its connection
	want        string                    // what every answer begins with
	isLittle    bool                      // one core is enough to send it: on more the generator would look for work that is not there
	each        func(body []byte)         // looks at a body, which is used again afterwards; nil for none
}

// flow is how it went.
type flow struct {
	answers int64
	rate    float64       // answers a second
	p50     time.Duration // the time that half of the answers took longer than
	p99     time.Duration // the time that one in a hundred answers took longer than
}

// hammer sends traffic for as long as said, or until there is no more. It reads no more of an answer than it must, so that
// the machine's time goes into the server.
//
// At an even pace an answer's time counts from when its request should have been sent: a server that stalls makes later
// requests wait, and that is its time too.
func (r *run) hammer(ctx context.Context, limit time.Duration, t *traffic) (flow, error) {
	if t.isLittle {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	}
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	var sent, answers atomic.Int64
	failures := make(chan error, t.connections)
	took := make([][]time.Duration, t.connections)
	started := r.clock.Real()
	var wg sync.WaitGroup
	for i := range t.connections {
		wg.Go(func() {
			err := r.send(ctx, t, func() (time.Time, error) {
				if t.perSecond == 0 {
					return r.clock.Real(), nil
				}
				after := paceHeadStart + time.Duration(float64(sent.Add(1))/t.perSecond*float64(time.Second))
				tick := started.Add((after + paceTick - 1).Truncate(paceTick))
				if wait := -r.clock.RealSince(tick); wait > 0 {
					return started.Add(after), r.clock.Wait(ctx, wait)
				}
				return started.Add(after), nil
			}, func(d time.Duration) {
				answers.Add(1)
				took[i] = append(took[i], d)
			})
			// A connection can notice that time is up before the context says so.
			if err != nil && ctx.Err() == nil && r.clock.RealSince(started) < limit {
				failures <- err
				stop()
			}
		})
	}
	wg.Wait()
	f := flow{answers: answers.Load(), rate: float64(answers.Load()) / r.clock.RealSince(started).Seconds()}
	f.p50, f.p99 = percentiles(slices.Concat(took...))
	select {
	case err := <-failures:
		return f, err
	default:
		return f, nil
	}
}

// outcome is how something went on a stage.
type outcome struct {
	flow
	spent work    // by everybody
	taken float64 // by the host, see calmly
}

// measure returns how f went on a stage, in a calm moment if there is one.
func (r *run) measure(s *stage, f func() (flow, error)) (outcome, error) {
	o, taken, err := calmly(r, func() (o outcome, err error) {
		before := s.work()
		o.flow, err = f()
		o.spent = s.work().since(before)
		return o, err
	})
	o.taken = taken
	return o, err
}

// percentiles returns the middle one and that which one in a hundred is above; 0 of none.
func percentiles(took []time.Duration) (p50, p99 time.Duration) {
	if len(took) == 0 {
		return 0, 0
	}
	slices.Sort(took)
	return took[len(took)/2], took[len(took)*99/100]
}

// send is one connection of a load: begin says when the next request begins, end is told how long it took.
func (r *run) send(ctx context.Context, t *traffic, begin func() (time.Time, error), end func(time.Duration)) error {
	l, err := r.dial(ctx, t.address)
	if err != nil {
		return err
	}
	defer l.close()
	for {
		began, err := begin()
		if err != nil {
			return err
		}
		request := t.next(l.scrap[:0])
		if request == nil {
			return nil
		}
		l.scrap = request
		body, err := l.ask(ctx, request, t.want, t.each != nil)
		if err != nil {
			return err
		}
		end(r.clock.RealSince(began))
		if t.each != nil {
			t.each(body)
		}
	}
}

// line is one connection to a server.
type line struct {
	clock *clock.Clock
	conn  net.Conn
	in    *bufio.Reader
	scrap []byte // room for the next request
	body  []byte // room for the next answer
	quit  func() bool
}

// dial connects; the connection ends with ctx.
func (r *run) dial(ctx context.Context, address string) (*line, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	quit := context.AfterFunc(ctx, func() { _ = conn.Close() })
	return &line{clock: r.clock, conn: conn, in: bufio.NewReaderSize(conn, answerBufferBytes), quit: quit}, nil
}

func (l *line) close() {
	l.quit()
	_ = l.conn.Close()
}

// errUnavailable is what a caller may try again.
var errUnavailable = errors.New("bench: answered 503")

// ask sends a request and reads its answer, which must begin as wanted. Its body is nil unless it is needed, and good until
// the next question. A server that says it is not available is asked again, as any caller would: the time is the
// server's.
func (l *line) ask(ctx context.Context, request []byte, want string, needsBody bool) ([]byte, error) {
	began := l.clock.Real()
	for {
		body, err := l.exchange(request, want, needsBody)
		if !errors.Is(err, errUnavailable) || l.clock.RealSince(began) > unavailableMax {
			return body, err
		}
		if err := l.clock.Wait(ctx, comeAgainAfter); err != nil {
			return nil, err
		}
	}
}

// exchange is ask, once.
func (l *line) exchange(request []byte, want string, needsBody bool) ([]byte, error) {
	if _, err := l.conn.Write(request); err != nil {
		return nil, err
	}
	status, length, err := readHead(l.in)
	if err != nil {
		return nil, err
	}
	isWanted := strings.HasPrefix(status, want)
	if isWanted && !needsBody {
		_, err = l.in.Discard(length)
		return nil, err
	}
	l.body = slices.Grow(l.body[:0], length)[:length]
	if _, err := io.ReadFull(l.in, l.body); err != nil {
		return nil, err
	}
	switch {
	case isWanted:
		return l.body, nil
	case strings.HasPrefix(status, "HTTP/1.1 503"):
		return nil, fmt.Errorf("%w: %.300s", errUnavailable, l.body)
	default:
		return nil, fmt.Errorf("bench: answered %s: %.300s", status, l.body)
	}
}

// readHead reads the first line of a message and its headers, and returns how long its body is.
func readHead(in *bufio.Reader) (first string, length int, err error) {
	text, err := in.ReadSlice('\n')
	if err != nil {
		return "", 0, err
	}
	first = string(bytes.TrimSpace(text))
	length = -1
	for {
		header, err := in.ReadSlice('\n')
		if err != nil {
			return "", 0, err
		}
		header = bytes.TrimSpace(header)
		if len(header) == 0 {
			break
		}
		if value, ok := bytes.CutPrefix(header, []byte("Content-Length: ")); ok {
			if length, err = strconv.Atoi(string(value)); err != nil {
				return "", 0, err
			}
		}
	}
	if length < 0 {
		return "", 0, errors.New("bench: a message without Content-Length")
	}
	return first, length, nil
}

// call is a request.
type call struct {
	address string
	path    string
	key     string // of the API; "" for none
	once    string // Idempotency-Key; "" for none
	body    string // JSON; "" for none
}

// write puts the request into scrap's room.
func (c *call) write(scrap []byte) []byte {
	method := "POST "
	if c.body == "" {
		method = "GET "
	}
	scrap = append(append(scrap, method...), c.path...)
	scrap = append(append(scrap, " HTTP/1.1\r\nHost: "...), c.address...)
	if c.key != "" {
		scrap = append(append(scrap, "\r\nAuthorization: Bearer "...), c.key...)
	}
	if c.once != "" {
		scrap = append(append(scrap, "\r\nIdempotency-Key: "...), c.once...)
	}
	if c.body != "" {
		scrap = append(scrap, "\r\nContent-Type: application/json\r\nContent-Length: "...)
		scrap = strconv.AppendInt(scrap, int64(len(c.body)), 10)
	}
	return append(append(scrap, "\r\n\r\n"...), c.body...)
}

// valueOf returns the first string under a name in a JSON text; "" for none. It is good while the text is.
func valueOf(text []byte, name string) []byte {
	_, rest, _ := bytes.Cut(text, []byte(`"`+name+`":"`))
	value, _, _ := bytes.Cut(rest, []byte(`"`))
	return value
}
