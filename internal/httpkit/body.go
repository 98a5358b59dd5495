package httpkit

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/wire"
)

// BodyBytesMax is the largest body that a request may have.
const BodyBytesMax = 64 << 10

const (
	depthMax          = 32   // objects and arrays inside each other, the body itself included
	valuesMax         = 4096 // members and items in all; every field and the fullest metadata need half of it
	numberBytesMax    = 128  // of one number's text
	exponentDigitsMax = 9    // of one number's exponent, so that it can be reckoned with in an int
	echoBytesMax      = 40   // of what the caller sent, in one issue
)

const (
	bodyPath       = "body"     // where an issue is that belongs to no field
	metadataKey    = "metadata" // its value belongs to the caller, keys and all
	membersTypical = 8          // of a body; more cost an allocation
)

// Object is the JSON object of a request: keys in snake_case, numbers as their digits, no key twice. The zero Object
// has no members.
type Object struct{ members []member }

// member is a named value of an object, or an item of an array, which has no key.
type member struct {
	key   string
	value value
	camel bool // the caller wrote the key in lowerCamel
}

// value is one JSON value. The zero value is null.
type value struct {
	kind    kind
	text    string   // of a string or a number
	members []member // of an object, sorted by key; of an array, in its order
}

// kind is a JSON type; true and false are two, so that no value needs a field for them.
type kind byte

const (
	kindNull   kind = iota // null, and what is absent
	kindFalse              // false
	kindTrue               // true
	kindNumber             // its text is as sent
	kindString             // its text is without escapes
	kindArray              // its members have no keys
	kindObject             // its members have different keys
)

// ReadObject reads the body of r, which must be one JSON object in UTF-8 of at most [BodyBytesMax]. Keys in lowerCamel
// come back in snake_case, except inside metadata; where both spellings are sent, snake_case wins.
//
// It fails with a [fault.TooLarge], having read no more than that, or with a [fault.Invalid] that has one issue: for
// what is no JSON object, a key given twice, a NUL character, half a surrogate pair, or a number or a tree out of all
// proportion.
func ReadObject(r *http.Request) (Object, error) {
	body, err := readBody(r)
	if err != nil {
		return Object{}, err
	}
	return parseObject(body)
}

func readBody(r *http.Request) ([]byte, error) {
	if r.ContentLength > BodyBytesMax {
		return nil, tooLarge()
	}
	if r.Body == nil {
		return nil, nil
	}
	body, err := wire.ReadBody(r.Body, r.ContentLength, BodyBytesMax)
	var overLimit *http.MaxBytesError
	if len(body) > BodyBytesMax || errors.As(err, &overLimit) {
		return nil, tooLarge()
	}
	if err != nil {
		e := invalidBody(bodyPath, "could not be read to its end")
		e.Cause = fmt.Errorf("httpkit: read body: %w", err)
		return nil, e
	}
	return body, nil
}

func tooLarge() *fault.Error {
	return fault.New(fault.TooLarge, "payload_too_large", fmt.Sprintf("the body may have at most %d bytes", BodyBytesMax))
}

func invalidBody(path, message string) *fault.Error {
	return &fault.Error{
		Kind:   fault.Invalid,
		Public: "the body is not a JSON object that can be read",
		Issues: []fault.Issue{{Path: path, Message: message}},
	}
}

// parseObject builds the tree of body. encoding/json judges the grammar, so that the parser only meets well-formed text.
func parseObject(body []byte) (Object, error) {
	if !json.Valid(body) {
		return Object{}, invalidBody(bodyPath, syntaxMessage(body))
	}
	p := parser{text: string(body)}
	if c := p.peek(); c != '{' {
		return Object{}, invalidBody(bodyPath, "must be a JSON object, not "+kindName(c))
	}
	v, problem := p.value(1, false)
	if problem != nil {
		return Object{}, invalidBody(problem.path(), problem.message)
	}
	return Object{v.members}, nil
}

func syntaxMessage(body []byte) string {
	if len(bytes.TrimSpace(body)) == 0 {
		return "must be a JSON object, not empty"
	}
	var syntax *json.SyntaxError
	var ignored json.RawMessage
	if err := json.Unmarshal(body, &ignored); errors.As(err, &syntax) {
		return fmt.Sprintf("must be valid JSON: byte %d: %v", syntax.Offset, syntax)
	}
	return "must be valid JSON"
}

// kindName names the kind of the value that begins with c.
func kindName(c byte) string {
	switch c {
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	default:
		return "a number"
	}
}

// problem is why a tree is refused, and where.
type problem struct {
	message string
	keys    []string // from the broken value up to the body
}

// in returns p as seen from the value that holds it under key.
func (p *problem) in(key string) *problem {
	p.keys = append(p.keys, clip(key))
	return p
}

func (p *problem) path() string {
	slices.Reverse(p.keys)
	return cmp.Or(clip(strings.Join(p.keys, ".")), bodyPath)
}

// clip cuts what a caller sent to a length that is fit for an issue.
func clip(s string) string {
	if len(s) <= echoBytesMax {
		return s
	}
	end := echoBytesMax
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}

// parser builds a tree from text, which is valid JSON. Its depth is bounded, so that it may recurse.
type parser struct {
	text   string
	at     int // of the next byte
	values int // members and items so far
}

// peek returns the first byte of the next token.
func (p *parser) peek() byte {
	for {
		switch c := p.text[p.at]; c {
		case ' ', '\t', '\r', '\n':
			p.at++
		default:
			return c
		}
	}
}

// value reads the next value, which is depth levels deep. Keys stay as they are where verbatim is set.
func (p *parser) value(depth int, verbatim bool) (value, *problem) {
	switch p.peek() {
	case '{':
		return p.object(depth, verbatim)
	case '[':
		return p.array(depth, verbatim)
	case '"':
		s, bad := p.string()
		if bad != "" {
			return value{}, &problem{message: "must not contain " + bad}
		}
		return value{kind: kindString, text: s}, nil
	case 't':
		p.at += len("true")
		return value{kind: kindTrue}, nil
	case 'f':
		p.at += len("false")
		return value{kind: kindFalse}, nil
	case 'n':
		p.at += len("null")
		return value{kind: kindNull}, nil
	default:
		return p.number()
	}
}

func (p *parser) object(depth int, verbatim bool) (value, *problem) {
	if depth > depthMax {
		return value{}, tooDeep()
	}
	v := value{kind: kindObject}
	if depth == 1 {
		v.members = make([]member, 0, membersTypical)
	}
	p.at++
	for p.peek() != '}' {
		if p.text[p.at] == ',' {
			p.at++
			p.peek()
		}
		key, bad := p.string()
		if bad != "" {
			return value{}, &problem{message: "must not contain " + bad + " in a key"}
		}
		m := member{key: key}
		if !verbatim {
			m.key = snake(key)
			m.camel = m.key != key
		}
		p.peek()
		p.at++ // the colon
		var problem *problem
		if m.value, problem = p.element(depth, verbatim || m.key == metadataKey); problem != nil {
			return value{}, problem.in(m.key)
		}
		v.members = append(v.members, m)
	}
	p.at++
	twice, ok := v.settle()
	if !ok {
		return value{}, (&problem{message: "is given twice"}).in(twice)
	}
	return v, nil
}

func (p *parser) array(depth int, verbatim bool) (value, *problem) {
	if depth > depthMax {
		return value{}, tooDeep()
	}
	v := value{kind: kindArray}
	p.at++
	for p.peek() != ']' {
		if p.text[p.at] == ',' {
			p.at++
		}
		item, problem := p.element(depth, verbatim)
		if problem != nil {
			return value{}, problem.in(strconv.Itoa(len(v.members)))
		}
		v.members = append(v.members, member{value: item})
	}
	p.at++
	return v, nil
}

func tooDeep() *problem {
	return &problem{message: fmt.Sprintf("must not be nested deeper than %d levels", depthMax)}
}

// element reads a value of an object or array that is depth levels deep.
func (p *parser) element(depth int, verbatim bool) (value, *problem) {
	if p.values++; p.values > valuesMax {
		return value{}, &problem{message: fmt.Sprintf("must not be there: a body may have at most %d values", valuesMax)}
	}
	return p.value(depth+1, verbatim)
}

// settle sorts the members of v and keeps, of two spellings of a key, the one in snake_case. It fails with a key that
// was written twice in one spelling.
func (v *value) settle() (twice string, ok bool) {
	slices.SortFunc(v.members, func(a, b member) int {
		if c := strings.Compare(a.key, b.key); c != 0 || a.camel == b.camel {
			return c
		}
		if a.camel {
			return 1
		}
		return -1
	})
	for i := 1; i < len(v.members); i++ {
		if a, b := &v.members[i-1], &v.members[i]; a.key == b.key && a.camel == b.camel {
			return a.key, false
		}
	}
	v.members = slices.CompactFunc(v.members, func(a, b member) bool { return a.key == b.key })
	return "", true
}

func (p *parser) number() (value, *problem) {
	start := p.at
	for strings.IndexByte("+-.0123456789Ee", p.text[p.at]) >= 0 {
		p.at++
	}
	text := p.text[start:p.at]
	e := strings.IndexAny(text, "eE")
	farOut := e >= 0 && len(strings.TrimLeft(text[e+1:], "+-")) > exponentDigitsMax
	if farOut || len(text) > numberBytesMax {
		return value{}, &problem{message: fmt.Sprintf("must be a number of at most %d characters, its exponent of at most %d digits",
			numberBytesMax, exponentDigitsMax)}
	}
	return value{kind: kindNumber, text: text}, nil
}

// What no string may contain: a database cannot keep the first, and nobody can show the others.
const (
	badNUL       = "a NUL character"
	badUTF8      = "invalid UTF-8"
	badSurrogate = "half a surrogate pair"
)

// string reads a string without its quotes and escapes, or says what it must not contain.
func (p *parser) string() (s, bad string) {
	start, escaped := p.at+1, false
	for p.at = start; p.text[p.at] != '"'; p.at++ {
		if p.text[p.at] == '\\' {
			escaped = true
			p.at++
		}
	}
	s = p.text[start:p.at]
	p.at++
	if !utf8.ValidString(s) {
		return "", badUTF8
	}
	if escaped {
		return unescape(s)
	}
	return s, ""
}

func unescape(s string) (plain, bad string) {
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b = append(b, s[i])
			continue
		}
		i++
		if s[i] != 'u' {
			b = append(b, escapes[s[i]])
			continue
		}
		r := hexRune(s[i+1:])
		i += hexDigits
		if r == 0 {
			return "", badNUL
		}
		if utf16.IsSurrogate(r) {
			low := rune(0)
			if strings.HasPrefix(s[i+1:], `\u`) {
				low = hexRune(s[i+3:])
			}
			if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
				return "", badSurrogate
			}
			i += len(`\u`) + hexDigits
		}
		b = utf8.AppendRune(b, r)
	}
	return string(b), ""
}

// escapes are the characters that stand behind a backslash, and what they mean.
var escapes = [...]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

const hexDigits = 4 // of a \u escape

// hexRune reads the hexadecimal digits with which s begins.
func hexRune(s string) rune {
	n, _ := strconv.ParseInt(s[:hexDigits], 16, 32) // the grammar was checked
	return rune(n)
}
