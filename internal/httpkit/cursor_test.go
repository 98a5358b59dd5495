package httpkit

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestParseCursor(t *testing.T) {
	t.Parallel()
	day := time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)
	tests := []struct {
		text string
		want Cursor
		err  error
	}{
		{"chg_01hzx5k3v8m2n4p6q8r0s2t4v6", Cursor{ID: "chg_01hzx5k3v8m2n4p6q8r0s2t4v6"}, nil},
		{"20240229-0000-7000-8000-000000000000", Cursor{ID: "20240229-0000-7000-8000-000000000000"}, nil},
		{"2024", Cursor{ID: "2024"}, nil},
		{"x", Cursor{ID: "x"}, nil},
		{strings.Repeat("x", cursorBytesMax), Cursor{ID: strings.Repeat("x", cursorBytesMax)}, nil},
		{"2024-02-29", Cursor{Before: day}, nil},
		{"2024-02-29T00:00:00Z", Cursor{Before: day}, nil},
		{"2024-02-29T12:30:00.123456Z", Cursor{Before: day.Add(12*time.Hour + 30*time.Minute + 123456*time.Microsecond)}, nil},
		{"2024-02-28T21:00:00-03:00", Cursor{Before: day}, nil},
		{"2024-02-29T14:00:00+14:00", Cursor{Before: day}, nil},
		{"", Cursor{}, ErrCursor},
		{strings.Repeat("x", cursorBytesMax+1), Cursor{}, ErrCursor},
		{"2023-02-29", Cursor{}, ErrCursor},
		{"2024-13-01", Cursor{}, ErrCursor},
		{"2024-2-29", Cursor{}, ErrCursor},
		{"2024-02", Cursor{}, ErrCursor},
		{"2024-", Cursor{}, ErrCursor},
		{"2024-02-29T00:00:00", Cursor{}, ErrCursor},
		{"2024-02-29T00:00Z", Cursor{}, ErrCursor},
		{"2024-02-29T0:00:00Z", Cursor{}, ErrCursor},
		{"2024-02-29T00:00:00,5Z", Cursor{}, ErrCursor},
		{"2024-02-29T24:00:00Z", Cursor{}, ErrCursor},
		{"2024-02-29T00:00:00+24:00", Cursor{}, ErrCursor},
		{"2024-02-29 00:00:00Z", Cursor{}, ErrCursor},
		{"2024-02-29T00:00:00Zx", Cursor{}, ErrCursor},
		{"0001-01-01", Cursor{}, ErrCursor},
	}
	for _, tt := range tests {
		if got, err := ParseCursor(tt.text); got != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%q: got %v, %v, want %v, %v", tt.text, got, err, tt.want, tt.err)
		}
	}
	if !(Cursor{}).IsZero() || (Cursor{ID: "x"}).IsZero() || (Cursor{Before: day}).IsZero() {
		t.Error("IsZero is wrong")
	}
}

func FuzzCursor(f *testing.F) {
	for _, s := range []string{"", "chg_01", "2024-02-29", "2024-02-29T12:30:00.123456789-03:00", "2024-02-29T24:00:00Z", "9999-12-31T23:59:59-23:59"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := ParseCursor(s)
		if err != nil {
			if !errors.Is(err, ErrCursor) || !c.IsZero() {
				t.Fatalf("%q: got %v, %v", s, c, err)
			}
			return
		}
		if (c.ID == "") == c.Before.IsZero() {
			t.Fatalf("%q: got %v, want one of both", s, c)
		}
		if c.ID != "" {
			if c.ID != s {
				t.Errorf("%q became %q", s, c.ID)
			}
			return
		}
		layout := time.RFC3339Nano
		if len(s) == len(time.DateOnly) {
			layout = time.DateOnly
		}
		if want, err := time.Parse(layout, s); err != nil || !want.Equal(c.Before) {
			t.Errorf("%q: got %v, want %v, %v", s, c.Before, want, err)
		}
	})
}

func TestPageJSON(t *testing.T) {
	t.Parallel()
	next := "chg_2"
	tests := []struct {
		page Page[string]
		want string
	}{
		{Page[string]{}, `{"data":[],"has_more":false,"next_starting_after":null}`},
		{Page[string]{Data: []string{"a", "&"}, HasMore: true, NextStartingAfter: &next}, `{"data":["a","\u0026"],"has_more":true,"next_starting_after":"chg_2"}`},
	}
	for _, tt := range tests {
		if got, err := json.Marshal(tt.page); string(got) != tt.want || err != nil {
			t.Errorf("got %s, %v, want %s", got, err, tt.want)
		}
	}

	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(&tests[1].page); err != nil || !strings.Contains(b.String(), `"&"`) {
		t.Errorf("without escapes: %s, %v", b.String(), err)
	}
	if _, err := json.Marshal(Page[func()]{Data: []func(){nil}}); err == nil {
		t.Error("a page of functions was written")
	}
}
