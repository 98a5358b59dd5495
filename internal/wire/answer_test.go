package wire

import (
	"bufio"
	"cmp"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// FuzzAnswer compares what is read of an answer with what net/http reads of it.
func FuzzAnswer(f *testing.F) {
	for _, text := range []string{
		"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nDate: Sun, 15 Nov 2026 12:00:00 GMT\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\ncontent-length:  2 \r\nx-a: 1\r\nX-A: 2\r\nConnection: keep-alive\r\n\r\nokmore",
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nPragma: no-cache\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: a\r\n b\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\n: 2\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 200 OK\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\n\r\nok",
		"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 304 Not Modified\r\nContent-Length: 2\r\n\r\n",
		"HTTP/1.1 100 Continue\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 +20 OK\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nX: \x00\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nUpgrade: h2c\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n",
		"",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, method := range []string{http.MethodPost, http.MethodHead} {
			r := &http.Request{Method: method}
			got, want := read(readAnswer, text, r), read(http.ReadResponse, text, r)
			if !got.equals(want) {
				t.Errorf("%s of %q\n got %+v\nwant %+v", method, text, got, want)
			}
		}
	})
}

// whole is all of an answer that can be told.
type whole struct {
	status     string
	code       int
	header     http.Header
	length     int64
	close      bool
	body, rest string
	failed     bool
	broken     bool // the body
}

func (w whole) equals(other whole) bool {
	if !maps.EqualFunc(w.header, other.header, slices.Equal) {
		return false
	}
	return w.status == other.status && w.code == other.code && w.length == other.length && w.close == other.close &&
		w.body == other.body && w.rest == other.rest && w.failed == other.failed && w.broken == other.broken
}

func read(by func(*bufio.Reader, *http.Request) (*http.Response, error), text string, r *http.Request) (w whole) {
	in := bufio.NewReader(strings.NewReader(text))
	answer, err := by(in, r)
	if err != nil {
		w.failed = true
		return w
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	rest, _ := io.ReadAll(in)
	return whole{
		status: answer.Status, code: answer.StatusCode, header: answer.Header, length: answer.ContentLength, close: answer.Close,
		body: string(body), rest: string(rest), broken: err != nil && !errors.Is(err, io.EOF),
	}
}

// TestUsualAnswer is about answers that must not take the long way.
func TestUsualAnswer(t *testing.T) {
	t.Parallel()
	for _, head := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 2",
		"HTTP/1.1 201 Created\r\nServer: x/1\r\ndate: Sun, 15 Nov 2026 12:00:00 GMT\r\nConnection: keep-alive\r\nContent-Length: 0",
		"HTTP/1.1 422 Unprocessable Entity\r\ncontent-type: application/problem+json\r\ncontent-length: 512",
	} {
		answer := readUsual(head)
		if answer == nil {
			t.Errorf("%q is read by net/http", head)
			continue
		}
		answer.Body.Close()
	}
}

// TestNoAnswer wants to be told why there is none.
func TestNoAnswer(t *testing.T) {
	t.Parallel()
	reset := errors.New("reset")
	for _, tt := range []struct{ fails, want error }{
		{reset, reset},
		{io.EOF, io.ErrUnexpectedEOF},
	} {
		in := bufio.NewReader(&broken{tt.fails})
		answer, err := readAnswer(in, &http.Request{Method: http.MethodPost})
		if err == nil {
			answer.Body.Close()
		}
		if !errors.Is(err, tt.want) {
			t.Errorf("got %v, want %v", err, tt.want)
		}
	}
}

// broken fails once and then ends, as a connection does that was reset.
type broken struct{ err error }

func (b *broken) Read([]byte) (int, error) {
	err := cmp.Or(b.err, io.EOF)
	b.err = nil
	return 0, err
}
