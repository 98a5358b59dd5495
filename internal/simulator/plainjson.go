package simulator

import (
	"strconv"
	"strings"

	"github.com/ponte-pay/ponte/internal/plainjson"
)

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
	p.odd = p.odd || !plainjson.IsPlain(s)
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
