package nowpayments

import (
	"encoding/json"
	"strings"
	"time"
	"unicode"

	"github.com/shopspring/decimal"
)

// The provider writes one field as a number here and as a string there, leaves fields out, and adds new ones. So reading
// is lenient where a mistake is harmless, and strict with amounts and identifiers.

// text is a string without control characters, or a number as it was written. Everything else reads as "", and so does
// the word null, which the provider writes in quotes at times.
type text string

// UnmarshalJSON never fails.
func (t *text) UnmarshalJSON(b []byte) error {
	*t = ""
	var s string
	var n json.Number
	switch {
	case json.Unmarshal(b, &s) == nil:
		if s = strings.TrimSpace(strings.Map(dropControl, s)); s != "null" {
			*t = text(s)
		}
	case json.Unmarshal(b, &n) == nil:
		*t = text(n)
	}
	return nil
}

// dropControl drops what no database wants to keep.
func dropControl(r rune) rune {
	if unicode.IsControl(r) {
		return -1
	}
	return r
}

// lower returns a code or a word in the case that we use.
func (t text) lower() string { return strings.ToLower(string(t)) }

// Bounds of numbers. 10^18 of the smallest unit of a coin with eighteen decimals is written with 36 digits.
const (
	numberBytesMax    = 80
	numberExponentMax = 40
)

// amount reads a quantity; what is not told is 0. Nothing that comes in is negative.
func (t text) amount() (decimal.Decimal, bool) {
	if t == "" {
		return decimal.Decimal{}, true
	}
	if len(t) > numberBytesMax {
		return decimal.Decimal{}, false
	}
	d, err := decimal.NewFromString(string(t))
	if err != nil || d.IsNegative() || d.Exponent() > numberExponentMax || d.Exponent() < -numberExponentMax {
		return decimal.Decimal{}, false
	}
	return d, true
}

const idBytesMax = 32

// id reads an identifier of the provider. One that is no row of digits is none: a signature covers a number's value, not
// how it is written, so that 5e3 and 5000 would be two payments.
func (t text) id() (string, bool) {
	for i := range len(t) {
		if t[i] < '0' || t[i] > '9' {
			return "", false
		}
	}
	return string(t), t != "" && len(t) <= idBytesMax
}

// flag is true or false, in quotes or not. Everything else reads as false.
type flag bool

// UnmarshalJSON never fails.
func (f *flag) UnmarshalJSON(b []byte) error {
	*f = flag(strings.EqualFold(strings.Trim(string(b), `"`), "true"))
	return nil
}

// moment is an RFC 3339 time. Everything else reads as no time.
type moment struct{ time.Time }

// UnmarshalJSON never fails.
func (m *moment) UnmarshalJSON(b []byte) error {
	m.Time = time.Time{}
	var s string
	if json.Unmarshal(b, &s) != nil {
		return nil //nolint:nilerr // no time, as told above
	}
	if t, err := time.Parse(time.RFC3339, strings.TrimSpace(s)); err == nil {
		m.Time = t.UTC()
	}
	return nil
}

// or returns the first of two times that is told: the provider spells some fields in two ways.
func (m moment) or(other moment) time.Time {
	if m.IsZero() {
		return other.Time
	}
	return m.Time
}

// loose is a value that may be something else altogether; then it is zero.
type loose[T any] struct{ value T }

// UnmarshalJSON never fails.
func (l *loose[T]) UnmarshalJSON(b []byte) error {
	l.value = *new(T)
	if json.Unmarshal(b, &l.value) != nil {
		l.value = *new(T)
	}
	return nil
}
