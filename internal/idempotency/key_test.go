package idempotency

import (
	"strings"
	"testing"

	"github.com/ponte-pay/ponte/internal/fault"
)

func TestCheckKey(t *testing.T) {
	t.Parallel()
	const absent = "(absent)"
	for _, c := range []struct {
		header             string
		required, optional string // codes of the refusals
	}{
		{absent, "idempotency_key_required", ""},
		{"", "invalid_idempotency_key", "invalid_idempotency_key"},
		{strings.Repeat("k", 7), "invalid_idempotency_key", "invalid_idempotency_key"},
		{strings.Repeat("k", 8), "", ""},
		{strings.Repeat("k", 255), "", ""},
		{strings.Repeat("k", 256), "invalid_idempotency_key", "invalid_idempotency_key"},
		{strings.Repeat("é", 8), "", ""},
		{strings.Repeat("é", 255), "", ""},
		{strings.Repeat("é", 256), "invalid_idempotency_key", "invalid_idempotency_key"},
		{strings.Repeat("é", 7), "invalid_idempotency_key", "invalid_idempotency_key"},
		{"ordem nº 42/a:b", "", ""},
		{"order\x0042", "invalid_idempotency_key", "invalid_idempotency_key"},
		{"order\t0042", "invalid_idempotency_key", "invalid_idempotency_key"},
		{"order\u00850042", "invalid_idempotency_key", "invalid_idempotency_key"},
		{"order\xff0042", "invalid_idempotency_key", "invalid_idempotency_key"},
	} {
		header, present := c.header, c.header != absent
		if !present {
			header = ""
		}
		for _, r := range []struct {
			rule Rule
			code string
		}{{Required, c.required}, {Optional, c.optional}, {Unused, ""}} {
			err := CheckKey(r.rule, header, present)
			if r.code != "" {
				checkFault(t, err, fault.Invalid, r.code)
			} else if err != nil {
				t.Errorf("%q under rule %d: got %v", c.header, r.rule, err)
			}
		}
	}
}

func FuzzCheckKey(f *testing.F) {
	f.Add("order-0042", true)
	f.Add("", false)
	f.Fuzz(func(t *testing.T, header string, present bool) {
		if CheckKey(Required, header, present) != nil {
			return
		}
		if !present || len(header) < keyLenMin || len(header) > 4*keyLenMax || strings.ToValidUTF8(header, "") != header || strings.ContainsAny(header, "\x00\r\n") {
			t.Errorf("%q is accepted", header)
		}
	})
}
