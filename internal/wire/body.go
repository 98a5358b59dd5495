package wire

import (
	"bufio"
	"errors"
	"io"
	"slices"
)

const bodyBytesUsual = 511 // of one whose length nobody told

// ReadBody reads a body to its end, or one byte more than it may have. The length is what was said of it, negative for
// nothing: when that is true, no more room is made than it takes.
func ReadBody(in io.Reader, length, bytesMax int64) ([]byte, error) {
	if length < 0 {
		length = bodyBytesUsual
	}
	body := make([]byte, 0, min(length, bytesMax)+1) // and a byte in which it ends
	for {
		n, err := in.Read(body[len(body):min(int64(cap(body)), bytesMax+1)])
		body = body[:len(body)+n]
		switch {
		case errors.Is(err, io.EOF):
			return body, nil
		case err != nil || int64(len(body)) > bytesMax:
			return body, err
		case len(body) == cap(body):
			body = slices.Grow(body, 1)
		}
	}
}

// sized is a body of known length.
type sized struct {
	in   *bufio.Reader
	left int64
}

// Read tells the end together with the last byte.
func (s *sized) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	n, err := s.in.Read(p[:min(int64(len(p)), s.left)])
	s.left -= int64(n)
	switch {
	case errors.Is(err, io.EOF) && s.left > 0:
		err = io.ErrUnexpectedEOF
	case err == nil && s.left == 0:
		err = io.EOF
	}
	return n, err
}

// Close does nothing: what is left belongs to the connection.
func (s *sized) Close() error { return nil }
