package wire

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
)

const (
	protocol    = "HTTP/1.1"
	statusBytes = len(protocol + " 200 ")
	linesUsual  = 8 // of a head
)

// readAnswer reads the head of an answer. The usual one is read here, because [http.ReadResponse] takes longer over it than
// it takes to send the request; that has all others.
func readAnswer(in *bufio.Reader, r *http.Request) (*http.Response, error) {
	if _, err := in.Peek(1); err != nil { // waits for it
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF // as net/http says it
		}
		return nil, err
	}
	here, _ := in.Peek(in.Buffered())
	end := bytes.Index(here, []byte("\r\n\r\n"))
	if end < 0 || r.Method == http.MethodHead {
		return http.ReadResponse(in, r)
	}
	answer := readUsual(string(here[:end]))
	if answer == nil {
		return http.ReadResponse(in, r)
	}
	_, _ = in.Discard(end + len("\r\n\r\n")) // they are here
	answer.Request = r
	if answer.ContentLength > 0 {
		answer.Body = &sized{in, answer.ContentLength}
	}
	return answer, nil
}

// readUsual reads a head that tells a status with a body, and the length of that body. It returns nil for any other.
func readUsual(head string) *http.Response {
	line, rest, _ := strings.Cut(head, "\r\n")
	if len(line) < statusBytes || !strings.HasPrefix(line, protocol+" ") || !isText(line) {
		return nil
	}
	status := line[len(protocol+" "):]
	code, err := strconv.ParseUint(status[:3], 10, 16)
	if err != nil || status[3] != ' ' || code < http.StatusOK || code == http.StatusNoContent || code == http.StatusNotModified {
		return nil
	}
	answer := &http.Response{
		Status: status, StatusCode: int(code), Proto: protocol, ProtoMajor: 1, ProtoMinor: 1,
		Header: make(http.Header, linesUsual), ContentLength: -1, Body: http.NoBody,
	}
	room := make([]string, 0, linesUsual) // of the values
	for rest != "" {
		line, rest, _ = strings.Cut(rest, "\r\n")
		name, value, ok := strings.Cut(line, ":")
		if !ok || !isName(name) || !isText(value) {
			return nil
		}
		name, value = textproto.CanonicalMIMEHeaderKey(name), strings.Trim(value, " \t")
		switch name {
		case "Content-Length":
			length, err := strconv.ParseUint(value, 10, 63)
			if err != nil || answer.ContentLength >= 0 {
				return nil
			}
			answer.ContentLength = int64(length)
		case "Connection":
			if value != "keep-alive" {
				return nil
			}
		case "Transfer-Encoding", "Trailer", "Upgrade", "Pragma": // of which net/http makes more than a header
			return nil
		}
		if before := answer.Header[name]; before != nil {
			answer.Header[name] = append(before, value)
			continue
		}
		room = append(room, value)
		answer.Header[name] = room[len(room)-1 : len(room) : len(room)]
	}
	if answer.ContentLength < 0 {
		return nil
	}
	return answer
}

// isName reports whether a header's name is nothing but letters, digits and hyphens.
func isName(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return s != ""
}

// isText reports whether s can be read by people who read ASCII.
func isText(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c > '~' {
			return false
		}
	}
	return true
}
