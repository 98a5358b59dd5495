// Package plainjson writes by hand the JSON of what happens most, because reflection would take most of the time. Whatever
// is not plain is left to encoding/json, and what it writes is what that would write, with <, > and & as they are.
package plainjson

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"unicode/utf8"
)

// IsPlain reports whether s stands in JSON as it is, with neither escapes nor anything to mend.
func IsPlain(s string) bool {
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

// AppendText writes a string as JSON.
func AppendText(to []byte, s string) []byte {
	if !IsPlain(s) {
		to, _ = encode(to, s) // a string can always be encoded
		return to
	}
	to = append(to, '"')
	to = append(to, s...)
	return append(to, '"')
}

// ByHand is what writes itself as JSON.
type ByHand interface {
	AppendJSON(to []byte) []byte
}

// Written is what was written as JSON before.
type Written string

// AppendJSON writes it again.
func (w Written) AppendJSON(to []byte) []byte { return append(to, w...) }

// Append writes anything as JSON, by hand if it can.
func Append(to []byte, v any) ([]byte, error) {
	if h, ok := v.(ByHand); ok {
		return h.AppendJSON(to), nil
	}
	return encode(to, v)
}

// encode writes anything as JSON, by way of encoding/json.
func encode(to []byte, v any) ([]byte, error) {
	b := bytes.NewBuffer(to)
	encoder := json.NewEncoder(b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return to, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'}), nil
}

// AppendMember writes a string behind its key, which comes with all that stands before the string.
func AppendMember(to []byte, key, s string) []byte { return AppendText(append(to, key...), s) }

// AppendOptional is AppendMember for a string that is left out when it is empty.
func AppendOptional(to []byte, key, s string) []byte {
	if s == "" {
		return to
	}
	return AppendMember(to, key, s)
}

// AppendNullable is AppendMember for a string that may be null.
func AppendNullable(to []byte, key string, s *string) []byte {
	if s == nil {
		return append(append(to, key...), "null"...)
	}
	return AppendMember(to, key, *s)
}

// AppendNumber is AppendMember for a whole number.
func AppendNumber[T int | int32 | int64 | uint16](to []byte, key string, n T) []byte {
	return strconv.AppendInt(append(to, key...), int64(n), 10)
}

// itemBytesUsual is what an item of a list usually takes, so that room is made once.
const itemBytesUsual = 512

// AppendItems writes a list of anything.
func AppendItems(to []byte, items []any) ([]byte, error) {
	to = append(slices.Grow(to, (len(items)+1)*itemBytesUsual), '[')
	for i, item := range items {
		if i > 0 {
			to = append(to, ',')
		}
		var err error
		if to, err = Append(to, item); err != nil {
			return nil, err
		}
	}
	return append(to, ']'), nil
}

// AppendList writes a list behind its key, or nothing of both when it is empty.
func AppendList[T any](to []byte, key string, list []T, item func(*T, []byte) []byte) []byte {
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
