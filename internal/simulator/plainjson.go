package simulator

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The JSON of what happens most is read and written by hand, because reflection would take most of the time. Whatever is
// not plain is left to encoding/json.

// isPlain reports whether s stands in JSON as it is, with neither escapes nor anything to mend.
func isPlain(s string) bool {
	seen := byte(0)
	for i := range len(s) {
		seen |= byteKinds[s[i]] // without a branch, because there are many bytes
	}
	return seen == 0 || (seen == byteWide && utf8.ValidString(s))
}

// What bytes of a string can be, besides plain.
const (
	byteWide = 1 << iota // a part of a character of several bytes
	byteOdd              // escaped, or perhaps the first of a character that is
)

var byteKinds = func() (kinds [256]byte) {
	for c := range kinds {
		if c >= utf8.RuneSelf {
			kinds[c] = byteWide
		}
		if c < ' ' {
			kinds[c] = byteOdd
		}
	}
	kinds['"'], kinds['\\'] = byteOdd, byteOdd
	kinds["\u2028"[0]] = byteOdd // encoding/json escapes U+2028 and U+2029
	return kinds
}()

// appendText writes a string as JSON.
func appendText(to []byte, s string) []byte {
	if !isPlain(s) {
		to, _ = appendJSON(to, s) // a string can always be encoded
		return to
	}
	to = append(to, '"')
	to = append(to, s...)
	return append(to, '"')
}

// byHand is what writes itself as JSON.
type byHand interface {
	appendJSON(to []byte) []byte
}

// appendAny writes anything as JSON, by hand if it can.
func appendAny(to []byte, v any) ([]byte, error) {
	if h, ok := v.(byHand); ok {
		return h.appendJSON(to), nil
	}
	return appendJSON(to, v)
}

// appendJSON writes anything as JSON, by way of encoding/json.
func appendJSON(to []byte, v any) ([]byte, error) {
	b := bytes.NewBuffer(to)
	encoder := json.NewEncoder(b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return to, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'}), nil
}

// appendMember writes a string behind its key, which comes with all that stands before the string.
func appendMember(to []byte, key, s string) []byte { return appendText(append(to, key...), s) }

// appendOptional is appendMember for a string that is left out when it is empty.
func appendOptional(to []byte, key, s string) []byte {
	if s == "" {
		return to
	}
	return appendMember(to, key, s)
}

// appendNumber is appendMember for a whole number.
func appendNumber[T int | int32 | int64 | uint16](to []byte, key string, n T) []byte {
	return strconv.AppendInt(append(to, key...), int64(n), 10)
}

// itemBytesUsual is what an item of a list usually takes, so that room is made once.
const itemBytesUsual = 512

// appendItems writes a list of anything.
func appendItems(to []byte, items []any) ([]byte, error) {
	to = append(slices.Grow(to, (len(items)+1)*itemBytesUsual), '[')
	for i, item := range items {
		if i > 0 {
			to = append(to, ',')
		}
		var err error
		if to, err = appendAny(to, item); err != nil {
			return nil, err
		}
	}
	return append(to, ']'), nil
}

// appendList writes a list behind its key, or nothing of both when it is empty.
func appendList[T any](to []byte, key string, list []T, item func(*T, []byte) []byte) []byte {
	if len(list) == 0 {
		return to
	}
	to = append(to, key...)
	separator := byte('[')
	for i := range list {
		to = item(&list[i], append(to, separator))
		separator = ','
	}
	return append(to, ']')
}

// plainReader reads JSON in which all is plain. What it reads is a part of the text: nothing is copied.
type plainReader struct {
	text string
	at   int  // of the next byte
	odd  bool // something was met that encoding/json has to judge; what was read does not count
}

// isWhole reports whether everything was read, and was plain.
func (p *plainReader) isWhole() bool {
	p.skipSpace()
	return !p.odd && p.at == len(p.text)
}

func (p *plainReader) skipSpace() {
	for p.at < len(p.text) {
		switch p.text[p.at] {
		case ' ', '\t', '\r', '\n':
			p.at++
		default:
			return
		}
	}
}

// take passes over c if it comes next, and reports whether it did.
func (p *plainReader) take(c byte) bool {
	p.skipSpace()
	if p.at == len(p.text) || p.text[p.at] != c {
		return false
	}
	p.at++
	return true
}

// want passes over c, which has to come next.
func (p *plainReader) want(c byte) { p.odd = !p.take(c) || p.odd }

// object reads an object. member is called behind each key, and reads the value.
func (p *plainReader) object(member func(key string)) {
	p.want('{')
	if p.take('}') {
		return
	}
	for !p.odd {
		key := p.string()
		p.want(':')
		member(key)
		if p.take('}') {
			return
		}
		p.want(',')
	}
}

// string reads a string.
func (p *plainReader) string() string {
	p.want('"')
	length := strings.IndexByte(p.text[p.at:], '"')
	if length < 0 {
		p.odd = true
		return ""
	}
	s := p.text[p.at : p.at+length]
	p.at += length + 1
	p.odd = p.odd || !isPlain(s)
	return s
}

// plainDigitsMax is how long a number can be that fits anywhere.
const plainDigitsMax = 9

// number reads a whole number.
func (p *plainReader) number() int {
	p.skipSpace()
	start := p.at
	for p.at < len(p.text) && '0' <= p.text[p.at] && p.text[p.at] <= '9' {
		p.at++
	}
	digits := p.text[start:p.at]
	if digits == "" || len(digits) > plainDigitsMax || (digits[0] == '0' && digits != "0") {
		p.odd = true
		return 0
	}
	n, _ := strconv.Atoi(digits) // which are few
	return n
}
