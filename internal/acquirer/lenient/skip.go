package lenient

import (
	"bytes"
	"encoding/hex"
	"strings"
)

// These functions take a text from where something of JSON should begin, and return the rest that follows it. They check
// all of the grammar on the way. What is malformed has no rest, that is nil, and nothing follows from that.

// depthMax is how many objects and arrays may stand inside of each other, as in encoding/json.
const depthMax = 10_000

// cut returns a value, too.
func cut(b []byte, depth int) (value, rest []byte) {
	rest = skipValue(b, depth)
	if rest == nil {
		return nil, nil
	}
	return b[:len(b)-len(rest)], rest
}

func skipValue(b []byte, depth int) []byte {
	switch first(b) {
	case '"':
		return skipString(b)
	case '{':
		return skipObject(b, depth)
	case '[':
		return skipArray(b, depth)
	case 't':
		return skipWord(b, "true")
	case 'f':
		return skipWord(b, "false")
	case 'n':
		return skipWord(b, "null")
	default:
		return skipNumber(b)
	}
}

func skipObject(b []byte, depth int) []byte {
	rest := skipOpening(b, depth)
	for hasMore(rest, '}') {
		_, rest = cutKey(rest)
		rest = skipComma(skipValue(rest, depth-1), '}')
	}
	return skipMark(rest, '}')
}

func skipArray(b []byte, depth int) []byte {
	rest := skipOpening(b, depth)
	for hasMore(rest, ']') {
		rest = skipComma(skipValue(rest, depth-1), ']')
	}
	return skipMark(rest, ']')
}

// skipOpening skips the bracket that b begins with, and space.
func skipOpening(b []byte, depth int) []byte {
	if depth == 0 {
		return nil
	}
	return trim(b[1:])
}

// hasMore reports whether there is something before the closing bracket.
func hasMore(b []byte, closing byte) bool { return len(b) > 0 && b[0] != closing }

// cutKey returns a key, with its quotes, and skips its colon and space.
func cutKey(b []byte) (key, rest []byte) {
	if first(b) != '"' {
		return nil, nil
	}
	key, rest = cut(b, 0)
	return key, trim(skipMark(trim(rest), ':'))
}

// skipComma skips a comma, behind which there must be something, and space. There is none before the closing bracket.
func skipComma(b []byte, closing byte) []byte {
	b = trim(b)
	if first(b) == closing {
		return b
	}
	b = trim(skipMark(b, ','))
	if first(b) == closing {
		return nil
	}
	return b
}

func skipMark(b []byte, mark byte) []byte {
	if first(b) != mark {
		return nil
	}
	return b[1:]
}

func skipWord(b []byte, word string) []byte {
	if !bytes.HasPrefix(b, []byte(word)) {
		return nil
	}
	return b[len(word):]
}

func skipNumber(b []byte) []byte {
	if first(b) == '-' {
		b = b[1:]
	}
	if first(b) == '0' {
		b = b[1:]
	} else {
		b = skipDigits(b)
	}
	if first(b) == '.' {
		b = skipDigits(b[1:])
	}
	if c := first(b); c == 'e' || c == 'E' {
		b = b[1:]
		if c := first(b); c == '+' || c == '-' {
			b = b[1:]
		}
		b = skipDigits(b)
	}
	return b
}

// skipDigits skips at least one.
func skipDigits(b []byte) []byte {
	n := 0
	for n < len(b) && '0' <= b[n] && b[n] <= '9' {
		n++
	}
	if n == 0 {
		return nil
	}
	return b[n:]
}

func skipString(b []byte) []byte {
	for b = b[1:]; len(b) > 0; {
		b = b[plainLen(b):]
		switch c := first(b); {
		case c == '"':
			return b[1:]
		case c == '\\':
			b = skipEscape(b)
		case c < ' ':
			return nil
		default:
			b = b[1:]
		}
	}
	return nil
}

// skipEscape skips a backslash and what it makes special.
func skipEscape(b []byte) []byte {
	const length, unicodeLength = 2, 6
	if len(b) >= length && strings.IndexByte(`"\/bfnrt`, b[1]) >= 0 {
		return b[length:]
	}
	var char [2]byte
	if len(b) < unicodeLength || b[1] != 'u' {
		return nil
	}
	if _, err := hex.Decode(char[:], b[length:unicodeLength]); err != nil {
		return nil
	}
	return b[unicodeLength:]
}

// cutPlain returns what is between the quotes of a string of printable ASCII in which nothing is escaped.
func cutPlain(b []byte) (inside, rest []byte, ok bool) {
	if first(b) != '"' {
		return nil, nil, false
	}
	end := 1 + plainLen(b[1:])
	if first(b[end:]) != '"' {
		return nil, nil, false
	}
	return b[1:end], b[end+1:], true
}

// plainLen returns how many characters b begins with that are printable ASCII and stand for themselves in a string.
func plainLen(b []byte) int {
	for n, c := range b {
		if !plain[c] {
			return n
		}
	}
	return len(b)
}

var plain = func() (all [256]bool) {
	for c := ' '; c <= '~'; c++ {
		all[c] = c != '"' && c != '\\'
	}
	return all
}()

// first returns the byte that b begins with, 0 when there is none.
func first(b []byte) byte {
	if len(b) == 0 {
		return 0
	}
	return b[0]
}

// trim skips space, if there is any.
func trim(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t' || b[0] == '\r' || b[0] == '\n') {
		b = b[1:]
	}
	return b
}
