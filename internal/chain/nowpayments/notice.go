package nowpayments

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ponte-pay/ponte/internal/chain"
)

// SignatureHeader is where the signature of a notification stands.
const SignatureHeader = "X-Nowpayments-Sig"

const noticeBytesMax = 64 << 10

// ReadNotice returns what a notification says. See [chain.Provider].
func (c *Client) ReadNotice(header map[string][]string, body []byte) (chain.Notice, error) {
	signature := http.Header(header).Get(SignatureHeader)
	if len(body) > noticeBytesMax || !isSigned([]byte(strings.TrimSpace(c.config.IPNSecret)), signature, body) {
		return chain.Notice{}, &chain.Error{
			Provider: c.config.Name, Operation: operationNotice, Outcome: chain.Refused, Class: chain.Credentials, Cause: chain.ErrSignature,
		}
	}
	var in payment
	var out payoutRow
	if json.Unmarshal(body, &in) == nil && in.ID != "" {
		if p, ok := c.payment(in); ok {
			return chain.Notice{Payment: &p}, nil
		}
	} else if json.Unmarshal(body, &out) == nil {
		if p, ok := out.payout(""); ok {
			return chain.Notice{Payout: &p}, nil
		}
	}
	return chain.Notice{}, c.nonsense(operationNotice, "signed by the provider, and about neither a payment nor a payout")
}

// isSigned reports whether the signature is one of the body. What is signed is not the body as it was sent but the body as
// JavaScript writes it again with its keys in order, and there are several tales of how exactly. Each is the HMAC of the
// whole body under the secret, so that to take all of them loosens nothing.
func isSigned(secret []byte, signature string, body []byte) bool {
	sum, err := hex.DecodeString(signature)
	if err != nil || len(sum) != sha512.Size {
		return false
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil || decoder.More() {
		return false
	}
	if _, isObject := value.(map[string]any); !isObject {
		return false
	}
	for form := range spellings {
		mac := hmac.New(sha512.New, secret)
		mac.Write(form.append(nil, value))
		if hmac.Equal(mac.Sum(nil), sum) {
			return true
		}
	}
	return false
}

// spelling is a way to write JSON again: a set of the bits below. The zero spelling is the provider's own library.
type spelling int

const (
	asSent       spelling = 1 << iota // numbers as they were sent, not as JavaScript writes them
	escaped                           // \u for all that is not ASCII, as Python and PHP write it
	arraysAsMaps                      // arrays as objects, as the documentation's sample makes them
	spellings                         // how many there are
)

// append writes a value without a space, the keys of objects in order.
func (s spelling) append(b []byte, value any) []byte {
	switch v := value.(type) {
	case map[string]any:
		b = append(b, '{')
		for i, key := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(s.quote(b, key), ':')
			b = s.append(b, v[key])
		}
		return append(b, '}')
	case []any:
		return s.appendArray(b, v)
	case json.Number:
		return s.number(b, v)
	case string:
		return s.quote(b, v)
	case bool:
		return strconv.AppendBool(b, v)
	default:
		return append(b, "null"...)
	}
}

func (s spelling) appendArray(b []byte, array []any) []byte {
	open, closing := byte('['), byte(']')
	if s&arraysAsMaps != 0 {
		open, closing = '{', '}'
	}
	b = append(b, open)
	for i, item := range array {
		if i > 0 {
			b = append(b, ',')
		}
		if s&arraysAsMaps != 0 {
			b = append(s.quote(b, strconv.Itoa(i)), ':')
		}
		b = s.append(b, item)
	}
	return append(b, closing)
}

// number writes a number. The form of JavaScript is that of encoding/json for a float64; it is for signatures alone, money is
// read from the number as it was sent.
func (s spelling) number(b []byte, n json.Number) []byte {
	if s&asSent != 0 {
		return append(b, n...)
	}
	f, err := n.Float64()
	if err != nil {
		return append(b, "null"...) // as JavaScript writes what is infinite
	}
	if f == 0 {
		return append(b, '0') // also for -0
	}
	written, err := json.Marshal(f)
	if err != nil {
		return append(b, "null"...)
	}
	return append(b, written...)
}

// quote writes a string as JSON.stringify does: < and > and & as they are.
func (s spelling) quote(b []byte, text string) []byte {
	b = append(b, '"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\b':
			b = append(b, `\b`...)
		case r == '\f':
			b = append(b, `\f`...)
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r == '\t':
			b = append(b, `\t`...)
		case r < ' ':
			b = fmt.Appendf(b, `\u%04x`, r)
		case s&escaped != 0 && r >= utf8.RuneSelf && r > 0xffff:
			r -= 0x10000
			b = fmt.Appendf(b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		case s&escaped != 0 && r >= utf8.RuneSelf:
			b = fmt.Appendf(b, `\u%04x`, r)
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}
