package pix

import (
	"strings"
	"unicode"
)

// latinFirst is the first of the letters that latin gives in plain, ? for those that are no letters.
const (
	latinFirst = 'À'
	latin      = "AAAAAAACEEEEIIIIDNOOOOO?OUUUUYTsaaaaaaaceeeeiiiidnooooo?ouuuuyty" +
		"AaAaAaCcCcCcCcDdDdEeEeEeEeEeGgGgGgGgHhHhIiIiIiIiIiIiJjKkkLlLlLlLlLl" +
		"NnNnNnnNnOoOoOoOoRrRrRrSsSsSsSsTtTtTtUuUuUuUuUuUuWwYyYZzZzZzs"
	dropped = '?'
)

// plain returns s in printable ASCII: letters without their accents, runs of spaces as one, all else left out, and cut
// to limit characters.
func plain(s string, limit int) string {
	b := make([]byte, 0, min(len(s), limit))
	for _, r := range s {
		c, ok := plainRune(r)
		if !ok || (c == ' ' && (len(b) == 0 || b[len(b)-1] == ' ')) {
			continue
		}
		if len(b) == limit {
			break
		}
		b = append(b, c)
	}
	return strings.TrimRight(string(b), " ")
}

func plainRune(r rune) (c byte, ok bool) {
	switch {
	case r == '&':
		return 'e', true // strict readers stumble over it; it is "e", Portuguese for "and"
	case unicode.IsSpace(r):
		return ' ', true
	case r > ' ' && r <= '~':
		return byte(r), true
	case r == 'ª':
		return 'a', true
	case r == 'º':
		return 'o', true
	case r >= latinFirst && int(r-latinFirst) < len(latin):
		c = latin[r-latinFirst]
		return c, c != dropped
	}
	return 0, false // combining accents too, which leaves their letter
}

func isPrintable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] > unicode.MaxASCII {
			return false
		}
	}
	return true
}

// isDigits reports whether s is one digit or more, and nothing else.
func isDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// isAlphanumeric reports whether s is one ASCII letter or digit or more, and nothing else.
func isAlphanumeric(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return s != ""
}

// strip returns s without the characters in punctuation.
func strip(s, punctuation string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(punctuation, r) {
			return -1
		}
		return r
	}, s)
}
