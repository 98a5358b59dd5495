package httpkit

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/money"
)

// report collects what is wrong with a request, so that its caller learns everything at once.
type report struct{ issues []fault.Issue }

// Issue adds an issue of the use case's own. The path is in snake_case.
func (r *report) Issue(path, message string) {
	r.issues = append(r.issues, fault.Issue{Path: path, Message: message})
}

// Err returns nil, or a [fault.Invalid] with all issues in the order in which the fields were asked for.
func (r *report) Err() error {
	if len(r.issues) == 0 {
		return nil
	}
	return &fault.Error{Kind: fault.Invalid, Public: "some fields are not valid", Issues: r.issues}
}

const (
	messageRequired = "is required"
	messageObject   = "must be an object"
	messageString   = "must be a string"
)

// FieldReader reads the fields of a body by their rules. A broken field is an issue and comes back as its zero value;
// [FieldReader.Err] tells at the end. Null is the same as absent, and fields that nobody asks for are ignored.
//
// A path is a key in snake_case, or several with dots between them: payer.name.
type FieldReader struct {
	report
	root value
}

// Fields returns a reader of o's fields.
func Fields(o Object) *FieldReader {
	return &FieldReader{root: value{kind: kindObject, members: o.members}}
}

// Has reports whether the field is there and not null.
func (f *FieldReader) Has(path string) bool {
	v, broken := f.at(path)
	return broken == "" && v.kind != kindNull
}

// at returns the value at path, or null. If something on the way is there and is no object, its path is broken.
func (f *FieldReader) at(path string) (v value, broken string) {
	parent, rest := f.root, path
	for {
		key, below, nested := strings.Cut(rest, ".")
		v := parent.get(key)
		switch {
		case !nested || v.kind == kindNull:
			return v, ""
		case v.kind != kindObject:
			return value{}, strings.TrimSuffix(path, "."+below)
		}
		parent, rest = v, below
	}
}

// get returns the member of the object v with that key, null if there is none.
func (v value) get(key string) value {
	i, found := slices.BinarySearchFunc(v.members, key, func(m member, key string) int { return strings.Compare(m.key, key) })
	if !found {
		return value{}
	}
	return v.members[i].value
}

// find returns the value at path, or else at alt, with its path. It returns false where there is nothing to check: the
// field is broken or absent, and that was reported if it matters.
func (f *FieldReader) find(path, alt string, required bool) (value, string, bool) {
	for _, p := range []string{path, alt} {
		if p == "" {
			continue
		}
		v, broken := f.at(p)
		if broken != "" {
			f.Issue(broken, messageObject)
			return value{}, "", false
		}
		if v.kind != kindNull {
			return v, p, true
		}
	}
	if required {
		f.Issue(path, messageRequired)
	}
	return value{}, "", false
}

// BRLRule says which amounts of BRL are fit.
type BRLRule struct {
	Required bool
	Min      money.BRL // 0 means that only negative amounts are too small
}

// BRL returns an amount, which must be a JSON number.
func (f *FieldReader) BRL(path string, rule BRLRule) money.BRL {
	return amountField(f, path, amountRule[money.BRL]{rule.Required, rule.Min, money.ParseBRL})
}

// USDRule says which prices in USD are fit.
type USDRule struct {
	Required bool
	Min      money.USD // 0 means that only negative prices are too small
}

// USD returns a price, which must be a JSON number.
func (f *FieldReader) USD(path string, rule USDRule) money.USD {
	return amountField(f, path, amountRule[money.USD]{rule.Required, rule.Min, money.ParseUSD})
}

// USDTRule says which amounts of USDT are fit.
type USDTRule struct {
	Required bool
	Min      money.USDT // 0 means that only negative amounts are too small
}

// USDT returns an amount, which must be a JSON number.
func (f *FieldReader) USDT(path string, rule USDTRule) money.USDT {
	return amountField(f, path, amountRule[money.USDT]{rule.Required, rule.Min, money.ParseUSDT})
}

// amount is a type of money that the API takes.
type amount interface {
	money.BRL | money.USD | money.USDT
	String() string
}

// amountRule is what the rules of all currencies have in common.
type amountRule[T amount] struct {
	required bool
	min      T
	parse    func(string) (T, error)
}

// check returns the amount that s is, or what it must be.
func (r amountRule[T]) check(s string) (amount T, message string) {
	amount, err := r.parse(s)
	switch {
	case err != nil:
		return 0, err.Error()
	case amount < r.min:
		return 0, "must be at least " + r.min.String()
	}
	return amount, ""
}

func amountField[T amount](f *FieldReader, path string, rule amountRule[T]) T {
	v, path, ok := f.find(path, "", rule.required)
	if !ok {
		return 0
	}
	var amount T
	message := money.ErrSyntax.Error()
	if v.kind == kindNumber {
		amount, message = rule.check(v.text)
	}
	if message != "" {
		f.Issue(path, message)
	}
	return amount
}

// IntRule says which whole numbers are fit.
type IntRule struct {
	Required bool
	Min, Max int // both are fit
	Default  int // what an absent number is
}

func (r IntRule) message() string {
	return fmt.Sprintf("must be an integer from %d to %d", r.Min, r.Max)
}

// Int returns a whole number, which must be a JSON number that is whole by value: 3600.0 is fine.
func (f *FieldReader) Int(path string, rule IntRule) int {
	v, path, ok := f.find(path, "", rule.Required)
	if !ok {
		return rule.Default
	}
	if v.kind == kindNumber {
		if n, ok := parseDecimal(v.text).int(); ok && rule.Min <= n && n <= rule.Max {
			return n
		}
	}
	f.Issue(path, rule.message())
	return rule.Default
}

// Text is a string that may be absent, which is not the same as empty.
type Text struct {
	Value   string // "" when absent
	Present bool
}

// Pointer returns the string, nil when it is absent.
func (t Text) Pointer() *string {
	if !t.Present {
		return nil
	}
	return &t.Value
}

// StringRule says which strings are fit. An empty string is present: it is fit unless Required, Min, Digits, URL, HTTPS
// or OneOf refuses it.
type StringRule struct {
	Required bool     // it must be there, with at least one character
	Min, Max int      // in characters; a Max of 0 means 255
	Digits   bool     // only 0 to 9, at least one
	URL      bool     // an absolute URL with http or https
	HTTPS    bool     // an absolute URL with https
	OneOf    []string // empty means any
	Alt      string   // another path, read when nothing is at the first
}

// stringMaxDefault bounds strings for which nobody chose a bound.
const stringMaxDefault = 255

// String returns a string.
func (f *FieldReader) String(path string, rule StringRule) Text {
	v, path, ok := f.find(path, rule.Alt, rule.Required)
	if !ok {
		return Text{}
	}
	message := messageString
	if v.kind == kindString {
		message = rule.check(v.text)
	}
	if message != "" {
		f.Issue(path, message)
		return Text{}
	}
	return Text{Value: v.text, Present: true}
}

// check returns what s must be, or "" if it is.
func (r StringRule) check(s string) string {
	length, limit := utf8.RuneCountInString(s), cmp.Or(r.Max, stringMaxDefault)
	switch {
	case length > limit:
		return fmt.Sprintf("must have at most %d characters", limit)
	case length == 0 && (r.Required || r.Min > 0):
		return "must not be empty"
	case length < r.Min:
		return fmt.Sprintf("must have at least %d characters", r.Min)
	case r.Digits && (s == "" || strings.Trim(s, "0123456789") != ""):
		return "must have digits only"
	case r.HTTPS && !isURL(s, "https"):
		return "must be an absolute https URL"
	case r.URL && !isURL(s, "http", "https"):
		return "must be an absolute URL"
	case len(r.OneOf) > 0 && !slices.Contains(r.OneOf, s):
		return "must be one of " + strings.Join(r.OneOf, ", ")
	}
	return ""
}

// isURL reports whether s is an absolute URL with a host and one of schemes.
func isURL(s string, schemes ...string) bool {
	u, err := url.Parse(s)
	return err == nil && slices.Contains(schemes, u.Scheme) && u.Hostname() != "" && !strings.ContainsAny(s, " \t\r\n")
}

// RawRule says which objects of the caller's own shape are fit.
type RawRule struct {
	BytesMax int // of the object as Raw returns it
}

// Raw returns an object of the caller's own shape, nil when it is absent: compact JSON with its keys in order, numbers
// as they were sent and no escape that is not needed.
func (f *FieldReader) Raw(path string, rule RawRule) json.RawMessage {
	v, path, ok := f.find(path, "", false)
	if !ok {
		return nil
	}
	if v.kind != kindObject {
		f.Issue(path, messageObject)
		return nil
	}
	raw := appendJSON(nil, v)
	if len(raw) > rule.BytesMax {
		f.Issue(path, fmt.Sprintf("must have at most %d bytes", rule.BytesMax))
		return nil
	}
	return raw
}

func appendJSON(b []byte, v value) []byte {
	switch v.kind {
	case kindNull:
		return append(b, "null"...)
	case kindFalse:
		return append(b, "false"...)
	case kindTrue:
		return append(b, "true"...)
	case kindNumber:
		return append(b, v.text...)
	case kindString:
		return appendQuoted(b, v.text)
	case kindArray, kindObject:
		brackets := "[]"
		if v.kind == kindObject {
			brackets = "{}"
		}
		b = append(b, brackets[0])
		for i, m := range v.members {
			if i > 0 {
				b = append(b, ',')
			}
			if v.kind == kindObject {
				b = append(appendQuoted(b, m.key), ':')
			}
			b = appendJSON(b, m.value)
		}
		return append(b, brackets[1])
	}
	panic(fmt.Sprintf("httpkit: value of kind %d", v.kind))
}

func appendQuoted(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ':
			b = fmt.Appendf(b, `\u%04x`, c)
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

// snake returns a key in lowerCamel, such as payerName, in snake_case, and every other key as it is. No two keys in
// lowerCamel become one.
func snake(key string) string {
	upper := 0
	for i := range len(key) {
		switch c := key[i]; {
		case 'a' <= c && c <= 'z':
		case i > 0 && '0' <= c && c <= '9':
		case i > 0 && 'A' <= c && c <= 'Z':
			upper++
		default:
			return key
		}
	}
	if upper == 0 {
		return key
	}
	b := make([]byte, 0, len(key)+upper)
	for i := range len(key) {
		if c := key[i]; c <= 'Z' && c >= 'A' {
			b = append(b, '_', c+'a'-'A')
		} else {
			b = append(b, c)
		}
	}
	return string(b)
}
