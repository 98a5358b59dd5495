package dashboard

import (
	"net/http"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/pix"
)

// form reads what somebody filled in and keeps it, with what is wrong with it, to be shown again.
type form struct {
	v      *visit
	values map[string]string
	Errors map[string]string // by field, in the visitor's language
	Error  string            // about the whole; "" for nothing
}

func newForm(v *visit) *form {
	return &form{v: v, values: map[string]string{}, Errors: map[string]string{}}
}

// Value returns what a field holds.
func (f *form) Value(field string) string { return f.values[field] }

// set gives a field a value before anybody has filled it in.
func (f *form) set(field, value string) *form {
	f.values[field] = value
	return f
}

// broken reports whether anything is wrong.
func (f *form) broken() bool { return len(f.Errors) > 0 || f.Error != "" }

// wrong says what is wrong with a field, unless something was said before.
func (f *form) wrong(field, key string, args ...any) {
	if f.Errors[field] == "" {
		f.Errors[field] = f.v.t(key, args...)
	}
}

// refuse takes what a service said. It reports false when that is not about what was filled in.
func (f *form) refuse(err error) bool {
	refusal := fault.As(err)
	if k := refusal.Kind; k == fault.Internal || k == fault.NotFound || k == fault.Unavailable {
		return false
	}
	text := f.v.explain(err)
	for _, issue := range refusal.Issues {
		if _, ours := f.values[issue.Path]; ours {
			f.Errors[issue.Path] = text
			return true
		}
	}
	f.Error = text
	return true
}

// textRule says what a text may be.
type textRule struct {
	required bool
	max      int // characters; 0 means textMax
	lines    bool
	keep     bool // spaces around it belong to it
}

const textMax = 200

// text reads a field.
func (f *form) text(field string, rule textRule) string {
	value := f.v.PostFormValue(field)
	if !rule.keep {
		value = strings.TrimSpace(value)
	}
	if rule.lines {
		value = strings.ReplaceAll(value, "\r\n", "\n")
	}
	f.values[field] = value
	if rule.max == 0 {
		rule.max = textMax
	}
	control := func(r rune) bool { return unicode.IsControl(r) && (!rule.lines || (r != '\n' && r != '\t')) }
	switch {
	case value == "" && rule.required:
		f.wrong(field, "form.required")
	case !utf8.ValidString(value) || strings.ContainsFunc(value, control):
		f.wrong(field, "form.characters")
	case utf8.RuneCountInString(value) > rule.max:
		f.wrong(field, "form.too_long", rule.max)
	}
	return value
}

// password reads a field that is never shown again.
func (f *form) password(field string) string {
	value := f.text(field, textRule{required: true, max: 1000, keep: true})
	f.values[field] = ""
	return value
}

// choice reads a field that is one of some words.
func (f *form) choice(field string, words ...string) string {
	value := f.text(field, textRule{required: true})
	if slices.Contains(words, value) {
		return value
	}
	f.wrong(field, "form.choice")
	return ""
}

// isPlain reports whether a text can be asked of a database.
func isPlain(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// document reads a CPF or CNPJ; "" for none. People write it with dots.
func (f *form) document(field string) string {
	text := f.text(field, textRule{max: documentMax})
	if text == "" {
		return ""
	}
	d, err := pix.ParseDocument(text)
	if err != nil {
		f.wrong(field, "form.document")
	}
	return string(d)
}

// brl reads an amount of reais of at least min, as people write it: 1.234,56 in Portuguese and 1,234.56 in English.
func (f *form) brl(field string, least money.BRL) money.BRL {
	value, err := money.ParseBRL(f.cents(field))
	switch {
	case f.Errors[field] != "":
	case err != nil:
		f.wrong(field, "form.amount")
	case value < least:
		f.wrong(field, "form.amount_min", f.v.locale.brl(least))
	}
	return value
}

// usdt reads an amount of Tether of more than nothing.
func (f *form) usdt(field string) money.USDT {
	value, err := money.ParseUSDT(f.number(field))
	if f.Errors[field] == "" && (err != nil || value <= 0) {
		f.wrong(field, "form.amount")
	}
	return value
}

// usd reads a price in dollars of more than nothing.
func (f *form) usd(field string) money.USD {
	value, err := money.ParseUSD(f.cents(field))
	if f.Errors[field] == "" && (err != nil || value <= 0) {
		f.wrong(field, "form.amount")
	}
	return value
}

// cents reads a number with at most two decimals. 10,000 is ten in one language and ten thousand in the other: whoever
// writes it is asked.
func (f *form) cents(field string) string {
	text := f.number(field)
	if _, fraction, _ := strings.Cut(text, "."); len(fraction) > centDigits {
		f.wrong(field, "form.amount")
	}
	return text
}

const centDigits = 2

func (f *form) number(field string) string {
	return f.v.locale.parseNumber(f.text(field, textRule{required: true}))
}

// parseNumber returns a number as the services read it, or "" when it could mean two things. Where people group thousands
// with dots, 10.50 is still ten and a half, because groups have three digits; 10,500 in English is ten thousand and a half.
func (l locale) parseNumber(s string) string {
	s = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(s), "R$"))
	group, point := ".", ","
	if l == localeEN {
		group, point = ",", "."
	}
	whole, fraction, hasPoint := strings.Cut(s, point)
	if strings.Contains(fraction, point) || strings.Contains(fraction, group) {
		return ""
	}
	if groups := strings.Split(whole, group); len(groups) > 1 {
		switch {
		case isGrouped(groups):
			whole = strings.Join(groups, "")
		case len(groups) == 2 && !hasPoint && len(groups[1]) < 3:
			whole, fraction, hasPoint = groups[0], groups[1], true
		default:
			return ""
		}
	}
	if hasPoint {
		return whole + "." + fraction
	}
	return whole
}

// isGrouped reports whether these are the thousands of a number.
func isGrouped(groups []string) bool {
	for i, g := range groups {
		if (i > 0 && len(g) != 3) || g == "" || len(g) > 3 {
			return false
		}
	}
	return true
}

// again shows a page once more, with what was wrong.
func again(name string, data any) (reply, error) {
	return reply{status: http.StatusUnprocessableEntity, page: name, data: data}, nil
}
