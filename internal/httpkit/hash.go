package httpkit

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
	"strings"
)

// Hash returns the SHA-256 of what o means: two objects have one hash if their members are the same, whatever their
// order, spaces and escapes, and however their numbers are written (30 = 30.0 = 3e1). A null member is not an absent one.
//
// Hashes are stored and compared for days: a change of the encoding below is a change of the database.
func (o Object) Hash() [sha256.Size]byte {
	var room [512]byte // for what most bodies take
	return sha256.Sum256(appendValue(room[:0], value{kind: kindObject, members: o.members}))
}

// appendValue appends a form of v that no other value has: a letter for its kind, then its content, whose length comes
// first.
func appendValue(b []byte, v value) []byte {
	switch v.kind {
	case kindNull:
		return append(b, 'z')
	case kindFalse:
		return append(b, 'f')
	case kindTrue:
		return append(b, 't')
	case kindNumber:
		d := parseDecimal(v.text)
		if d.negative {
			b = append(b, '-')
		} else {
			b = append(b, '+')
		}
		b = binary.AppendVarint(b, int64(d.exponent))
		return appendText(b, d.digits)
	case kindString:
		return appendText(append(b, 's'), v.text)
	case kindArray, kindObject:
		letter := byte('a')
		if v.kind == kindObject {
			letter = 'o'
		}
		b = binary.AppendUvarint(append(b, letter), uint64(len(v.members)))
		for _, m := range v.members {
			if v.kind == kindObject {
				b = appendText(b, m.key)
			}
			b = appendValue(b, m.value)
		}
		return b
	}
	panic("httpkit: value of kind " + strconv.Itoa(int(v.kind)))
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// decimal is a number by its value, digits * 10^exponent. Two of one value are equal.
type decimal struct {
	negative bool
	digits   string // without zeros at either end; "" means zero
	exponent int    // 0 for zero
}

// parseDecimal reads a number that the parser let through.
func parseDecimal(text string) decimal {
	var d decimal
	text, d.negative = strings.CutPrefix(text, "-")
	if at := strings.IndexAny(text, "eE"); at >= 0 {
		d.exponent, _ = strconv.Atoi(text[at+1:]) // few digits, as the parser made sure
		text = text[:at]
	}
	whole, fraction, _ := strings.Cut(text, ".")
	d.exponent -= len(fraction)
	digits := strings.TrimLeft(whole+fraction, "0")
	d.digits = strings.TrimRight(digits, "0")
	if d.digits == "" {
		return decimal{}
	}
	d.exponent += len(digits) - len(d.digits)
	return d
}

// intDigitsMax is how many digits an int64 holds for sure.
const intDigitsMax = 18

// int returns d as a whole number, or false if it is none or far too large for any rule.
func (d decimal) int() (int, bool) {
	if d.exponent < 0 || len(d.digits)+d.exponent > intDigitsMax {
		return 0, false
	}
	n, err := strconv.Atoi("0" + d.digits + strings.Repeat("0", d.exponent))
	if d.negative {
		n = -n
	}
	return n, err == nil
}
