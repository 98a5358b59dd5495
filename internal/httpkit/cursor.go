package httpkit

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"time"
)

// Cursor says where a page of a list starts, most recent first: after the item with that ID, or with the items from
// before a moment. At most one is set. The zero Cursor means the first page.
type Cursor struct {
	ID     string    // as it was sent; "" means none
	Before time.Time // in UTC; zero means none
}

// IsZero reports whether the page is the first.
func (c Cursor) IsZero() bool { return c.ID == "" && c.Before.IsZero() }

// cursorBytesMax is twice what the longest id needs.
const cursorBytesMax = 72

// ErrCursor is returned for a text that is no cursor. Its message is fit for the person who sent it.
var ErrCursor = errors.New("must be an id, a date (YYYY-MM-DD) or a date-time with its offset (RFC 3339)")

// dateTime is RFC 3339 to the letter; time.Parse alone also takes T1:00:00, a comma for the point and offsets of days.
var dateTime = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

// ParseCursor reads an id, a date, which means that day's start in UTC, or an RFC 3339 date-time with any offset. Every
// text that does not begin like a date is taken for an id.
func ParseCursor(s string) (Cursor, error) {
	switch {
	case s == "" || len(s) > cursorBytesMax:
		return Cursor{}, ErrCursor
	case !looksLikeMoment(s):
		return Cursor{ID: s}, nil
	case len(s) == len(time.DateOnly):
		s += "T00:00:00Z"
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil || !dateTime.MatchString(s) || t.IsZero() { // the zero time would mean the first page
		return Cursor{}, ErrCursor
	}
	return Cursor{Before: t.UTC()}, nil
}

// looksLikeMoment reports whether s begins with a year and a dash, as no id does.
func looksLikeMoment(s string) bool {
	const yearDigits = len("2006")
	return len(s) > yearDigits && s[yearDigits] == '-' && strings.Trim(s[:yearDigits], "0123456789") == ""
}

// Page is a part of a list, most recent first.
type Page[T any] struct {
	Data              []T     `json:"data"`                // never null in JSON
	HasMore           bool    `json:"has_more"`            // older items exist
	NextStartingAfter *string `json:"next_starting_after"` // the cursor of the next page, nil on the last
}

// MarshalJSON writes the page, with an empty list for nil Data.
func (p Page[T]) MarshalJSON() ([]byte, error) {
	type plain Page[T] // without this method, which would call itself
	if p.Data == nil {
		p.Data = []T{}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // left to the encoder that called
	err := e.Encode(plain(p))
	return b.Bytes(), err
}
