package idempotency

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ponte-pay/ponte/internal/fault"
)

// Rule says what a route does with the header Idempotency-Key.
type Rule int

const (
	Required Rule = iota // a request without it is refused; the zero Rule, so that a forgotten one is the strict one
	Optional             // it counts when it is sent
	Unused               // it is not even looked at
)

// Characters of an Idempotency-Key.
const (
	keyLenMin = 8
	keyLenMax = 255
)

// CheckKey returns a fault when the header breaks the rule: when it is absent and required, when it has fewer than 8 or
// more than 255 characters, or when one of them is a control character or not UTF-8, which no database would keep as it
// is.
func CheckKey(rule Rule, header string, present bool) error {
	switch {
	case rule == Unused:
		return nil
	case !present && rule == Required:
		return fault.New(fault.Invalid, "idempotency_key_required",
			"this request needs the header Idempotency-Key, such as a UUID that you keep with your order")
	case !present:
		return nil
	}
	if n := utf8.RuneCountInString(header); n < keyLenMin || n > keyLenMax {
		return fault.New(fault.Invalid, "invalid_idempotency_key",
			fmt.Sprintf("Idempotency-Key must have %d to %d characters", keyLenMin, keyLenMax))
	}
	if !utf8.ValidString(header) || strings.ContainsFunc(header, unicode.IsControl) {
		return fault.New(fault.Invalid, "invalid_idempotency_key",
			"Idempotency-Key must be text in UTF-8 without control characters")
	}
	return nil
}
