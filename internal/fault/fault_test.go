package fault

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

func TestAs(t *testing.T) {
	t.Parallel()
	e := New(NotFound, "not_found", "no such charge")
	for _, err := range []error{e, fmt.Errorf("api: %w", e), errors.Join(io.EOF, e)} {
		if got := As(err); got != e {
			t.Errorf("As(%v) = %+v", err, got)
		}
	}
}

func TestAsHidesOthers(t *testing.T) {
	t.Parallel()
	var none *Error
	for _, err := range []error{io.ErrUnexpectedEOF, fmt.Errorf("password %q: %w", "hunter2", io.EOF), none} {
		got := As(err)
		if got == nil {
			t.Fatalf("As(%T) is nil", err)
		}
		if got.Kind != Internal || got.Public == "" || strings.Contains(got.Public, "hunter2") || got.Code != "" {
			t.Errorf("As(%v) shows %+v", err, got)
		}
		if !errors.Is(got, err) {
			t.Errorf("As(%v) lost its cause", err)
		}
	}
}

func TestError(t *testing.T) {
	t.Parallel()
	e := New(Unavailable, "", "try again later")
	if got := e.Error(); got != "try again later" || e.Unwrap() != nil || e.Kind != Unavailable {
		t.Errorf("got %q, %v, %v", got, e.Unwrap(), e.Kind)
	}
	e.Cause = io.EOF
	if got := e.Error(); got != "try again later: EOF" || !errors.Is(e, io.EOF) {
		t.Errorf("got %q", got)
	}
	if (&Error{}).Kind != Internal {
		t.Error("a forgotten kind is not Internal")
	}
}
