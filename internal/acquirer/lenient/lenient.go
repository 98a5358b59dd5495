// Package lenient reads what acquirers write as JSON.
//
// The standard promises new fields and new words at any time, its own examples break its schemas, and acquirers differ
// in what is a number. So reading is lenient where a mistake is harmless; who reads is strict with amounts and
// identifiers.
package lenient

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"
	"unicode"

	"github.com/ponte-pay/ponte/internal/money"
)

// Text is a string without control characters, or a number as its digits. Everything else reads as "".
type Text string

// UnmarshalJSON never fails.
func (t *Text) UnmarshalJSON(b []byte) error {
	if isPlain(b) { // nearly all are, and to decode one costs ten times as much
		*t = Text(bytes.TrimSpace(b[1 : len(b)-1]))
		return nil
	}
	*t = ""
	var s string
	var n json.Number
	switch {
	case json.Unmarshal(b, &s) == nil:
		*t = Text(strings.TrimSpace(strings.Map(dropControl, s)))
	case json.Unmarshal(b, &n) == nil:
		*t = Text(n)
	}
	return nil
}

// isPlain reports whether b is a JSON string of printable ASCII in which nothing is escaped.
func isPlain(b []byte) bool {
	if len(b) < 2 || b[0] != '"' || b[len(b)-1] != '"' {
		return false
	}
	for _, c := range b[1 : len(b)-1] {
		if c < ' ' || c > '~' || c == '\\' || c == '"' {
			return false
		}
	}
	return true
}

// dropControl drops what no database wants to keep.
func dropControl(r rune) rune {
	if unicode.IsControl(r) {
		return -1
	}
	return r
}

// Moment is an RFC 3339 time. Everything else reads as no time.
type Moment struct{ time.Time }

// UnmarshalJSON never fails.
func (m *Moment) UnmarshalJSON(b []byte) error {
	var s Text
	_ = s.UnmarshalJSON(b) // as told there
	m.Time = time.Time{}
	if t, err := time.Parse(time.RFC3339, string(s)); err == nil {
		m.Time = t.UTC()
	}
	return nil
}

// Many is an array, or its only item.
type Many[T any] []T

// UnmarshalJSON fails for what is neither: it must not read as none.
func (m *Many[T]) UnmarshalJSON(b []byte) error {
	if b[0] != '{' {
		return read(b, (*[]T)(m))
	}
	*m = make(Many[T], 1)
	return read(b, &(*m)[0])
}

// Loose is a value that may be missing or be something else altogether; then it is zero.
type Loose[T any] struct {
	Value T
	OK    bool
}

// UnmarshalJSON never fails.
func (l *Loose[T]) UnmarshalJSON(b []byte) error {
	*l = Loose[T]{OK: true}
	if read(b, &l.Value) != nil {
		*l = Loose[T]{}
	}
	return nil
}

// Amount reads money. Nothing that an acquirer tells of is negative.
func (t Text) Amount() (money.BRL, bool) {
	a, err := money.ParseBRL(string(t))
	return a, err == nil && a >= 0
}
