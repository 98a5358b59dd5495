package httpkit

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ponte-pay/ponte/internal/money"
)

const (
	queryBytesMax = 8 << 10 // of a query as it was sent
	queryPath     = "query" // where an issue is that belongs to no parameter
)

// QueryReader reads the parameters of a query by their rules. A broken one is an issue, never clamped, and comes back as
// its zero value or default; [QueryReader.Err] tells at the end. Names in lowerCamel are read as in bodies, and
// parameters that nobody asks for are ignored.
type QueryReader struct {
	report
	parameters []parameter
}

type parameter struct {
	name  string
	camel bool // the caller wrote the name in lowerCamel
	value string
	bad   string // what the value must be, "" if it could be decoded
}

// Query returns a reader of the query of r.
func Query(r *http.Request) *QueryReader {
	q := &QueryReader{}
	if len(r.URL.RawQuery) > queryBytesMax {
		q.Issue(queryPath, fmt.Sprintf("must have at most %d bytes", queryBytesMax))
		return q
	}
	for pair := range strings.SplitSeq(r.URL.RawQuery, "&") {
		if pair == "" {
			continue
		}
		rawName, rawValue, _ := strings.Cut(pair, "=")
		name, bad := unescapeQuery(rawName)
		if bad != "" {
			q.Issue(queryPath, bad)
			continue
		}
		p := parameter{name: snake(name)}
		p.camel = p.name != name
		p.value, p.bad = unescapeQuery(rawValue)
		q.parameters = append(q.parameters, p)
	}
	return q
}

// unescapeQuery decodes a name or a value, or says what it must be.
func unescapeQuery(s string) (plain, bad string) {
	plain, err := url.QueryUnescape(s)
	switch {
	case err != nil:
		return "", "must be percent-encoded"
	case !utf8.ValidString(plain):
		return "", "must not contain " + badUTF8
	case strings.IndexByte(plain, 0) >= 0:
		return "", "must not contain " + badNUL
	}
	return plain, ""
}

// find returns the parameter with that name. It returns false where there is nothing to check: the parameter is broken
// or absent, and that was reported if it matters.
func (q *QueryReader) find(name string, required bool) (string, bool) {
	for _, camel := range []bool{false, true} {
		var found *parameter
		for i := range q.parameters {
			p := &q.parameters[i]
			if p.name != name || p.camel != camel {
				continue
			}
			if found != nil {
				q.Issue(name, "is given more than once")
				return "", false
			}
			found = p
		}
		if found == nil {
			continue
		}
		if found.bad != "" {
			q.Issue(name, found.bad)
		}
		return found.value, found.bad == ""
	}
	if required {
		q.Issue(name, messageRequired)
	}
	return "", false
}

// Int returns a whole number in plain decimal digits.
func (q *QueryReader) Int(name string, rule IntRule) int {
	s, ok := q.find(name, rule.Required)
	if !ok {
		return rule.Default
	}
	n, err := strconv.Atoi(s)
	// The way back refuses +5, 05 and -0.
	if err != nil || n < rule.Min || n > rule.Max || strconv.Itoa(n) != s {
		q.Issue(name, rule.message())
		return rule.Default
	}
	return n
}

// String returns a text. The rule's Alt is for bodies and ignored.
func (q *QueryReader) String(name string, rule StringRule) Text {
	s, ok := q.find(name, rule.Required)
	if !ok {
		return Text{}
	}
	if message := rule.check(s); message != "" {
		q.Issue(name, message)
		return Text{}
	}
	return Text{Value: s, Present: true}
}

// OneOf returns one of the allowed words, "" when the parameter is absent.
func (q *QueryReader) OneOf(name string, allowed ...string) string {
	return q.String(name, StringRule{OneOf: allowed}).Value
}

// USDT returns an amount.
func (q *QueryReader) USDT(name string, rule USDTRule) money.USDT {
	s, ok := q.find(name, rule.Required)
	if !ok {
		return 0
	}
	amount, message := amountRule[money.USDT]{rule.Required, rule.Min, money.ParseUSDT}.check(s)
	if message != "" {
		q.Issue(name, message)
	}
	return amount
}

// Cursor returns where a page starts, the zero Cursor when the parameter is absent. That an id exists is for the use
// case to check.
func (q *QueryReader) Cursor(name string) Cursor {
	s, ok := q.find(name, false)
	if !ok {
		return Cursor{}
	}
	if looksLikeMoment(s) {
		// A plus that was not percent-encoded arrives as a space, and no moment has a space.
		s = strings.ReplaceAll(s, " ", "+")
	}
	c, err := ParseCursor(s)
	if err != nil {
		q.Issue(name, err.Error())
	}
	return c
}
