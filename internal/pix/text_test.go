package pix

import (
	"strings"
	"testing"
	"unicode"
)

func TestPlain(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text  string
		limit int
		want  string
	}{
		{"LOJA TESTE", 25, "LOJA TESTE"},
		{"São Paulo", 15, "Sao Paulo"},
		{"Sa\u0303o Paulo", 15, "Sao Paulo"}, // the accent is a character of its own
		{"ÁÀÂÃÄÇÉÊÍÑÓÔÕÚÜ áàâãäçéêíñóôõúü", 99, "AAAAACEEINOOOUU aaaaaceeinooouu"},
		{"Łódź, Øst, Straße", 99, "Lodz, Ost, Strase"},
		{"1ª Padaria nº 2", 25, "1a Padaria no 2"},
		{"Pão & Cia.", 25, "Pao e Cia."},
		{"a × b ÷ c", 25, "a b c"},
		{" a\t\n\u00a0b ", 25, "a b"},
		{"abcde fgh", 6, "abcde"},
		{"東京 Sushi 🍣", 25, "Sushi"},
		{"a\x00b\x7fc\xffd", 25, "abcd"},
		{"", 25, ""},
	}
	for _, tt := range tests {
		if got := plain(tt.text, tt.limit); got != tt.want {
			t.Errorf("plain(%q) = %q, want %q", tt.text, got, tt.want)
		}
	}
}

func TestPlainKeepsCase(t *testing.T) {
	t.Parallel()
	for i, c := range latin {
		r := latinFirst + rune(i)
		if c == dropped {
			if unicode.IsLetter(r) {
				t.Errorf("%c is dropped", r)
			}
			continue
		}
		// The dotless i and the long s are lower-case letters that have no other case.
		if unicode.IsUpper(r) != unicode.IsUpper(c) {
			t.Errorf("%c becomes %c", r, c)
		}
	}
}

func FuzzPlain(f *testing.F) {
	f.Add("São José & Irmãos", 15)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit = max(0, min(limit, fieldMax))
		got := plain(s, limit)
		if len(got) > limit || !isPrintable(got) || strings.TrimSpace(got) != got || strings.Contains(got, "  ") || plain(got, limit) != got {
			t.Errorf("plain(%q, %d) = %q", s, limit, got)
		}
	})
}
