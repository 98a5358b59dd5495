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
func (t *Text) UnmarshalJSON(b []byte) error { return unmarshal(b, t) }

func (t *Text) read(b []byte, depth int) (rest []byte, err error) {
	if inside, rest, ok := cutPlain(b); ok { // nearly all are, and to decode one costs ten times as much
		*t = Text(bytes.TrimSpace(inside))
		return rest, nil
	}
	value, rest := cut(b, depth)
	*t = ""
	switch c := first(value); {
	case c == '"':
		var s string
		_ = json.Unmarshal(value, &s) // it is a string
		*t = Text(strings.TrimSpace(strings.Map(dropControl, s)))
	case c == '-', '0' <= c && c <= '9':
		*t = Text(value)
	}
	return rest, nil
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
func (m *Moment) UnmarshalJSON(b []byte) error { return unmarshal(b, m) }

func (m *Moment) read(b []byte, depth int) (rest []byte, err error) {
	var s Text
	rest, _ = s.read(b, depth) // it never fails
	m.Time = time.Time{}
	if t, err := time.Parse(time.RFC3339, string(s)); err == nil {
		m.Time = t.UTC()
	}
	return rest, nil
}

// Many is an array, or its only item.
type Many[T any] []T

// UnmarshalJSON fails for what is neither: it must not read as none.
func (m *Many[T]) UnmarshalJSON(b []byte) error { return unmarshal(b, m) }

func (m *Many[T]) read(b []byte, depth int) (rest []byte, err error) {
	*m = nil
	if first(b) != '{' {
		return read(b, (*[]T)(m), depth)
	}
	*m = make(Many[T], 1)
	return read(b, &(*m)[0], depth)
}

// Loose is a value that may be missing or be something else altogether; then it is zero.
type Loose[T any] struct {
	Value T
	OK    bool
}

// UnmarshalJSON never fails.
func (l *Loose[T]) UnmarshalJSON(b []byte) error { return unmarshal(b, l) }

func (l *Loose[T]) read(b []byte, depth int) (rest []byte, err error) {
	*l = Loose[T]{OK: true}
	if rest, err = read(b, &l.Value, depth); err != nil {
		*l = Loose[T]{}
	}
	return rest, nil
}

// Amount reads money. Nothing that an acquirer tells of is negative.
func (t Text) Amount() (money.BRL, bool) {
	a, err := money.ParseBRL(string(t))
	return a, err == nil && a >= 0
}
