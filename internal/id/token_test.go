package id

import (
	"strings"
	"testing"
)

func TestToken(t *testing.T) {
	t.Parallel()
	x, err := Parse("01m7ej6b8rfrcsyecvfqpc8zgt")
	if err != nil {
		t.Fatal(err)
	}
	const want = "101m7ej6b8rfrcsyecvfqpc8zgtbbc7xj2k"
	account, err := ParseAccount("acc_bbc7xj2k")
	if err != nil {
		t.Fatal(err)
	}
	if got := Token(x, account); got != want || len(got) != TokenLen || TokenLen != 35 {
		t.Errorf("token %q", got)
	}
	for _, s := range []string{want, strings.ToUpper(want)} {
		if id, a, err := ParseToken(s); err != nil || id != x || a != account {
			t.Errorf("%s: %v %v %v", s, id, a, err)
		}
	}
	for _, bad := range []string{"", want[1:], "2" + want[1:], want + "0", want[:34] + "u", "1" + "z" + want[2:], strings.Repeat("é", 20)} {
		if _, _, err := ParseToken(bad); err == nil {
			t.Errorf("%q is a token", bad)
		}
	}
}

func FuzzParseToken(f *testing.F) {
	f.Add("101m7ej6b8rfrcsyecvfqpc8zgtbbc7xj2k")
	f.Fuzz(func(t *testing.T, s string) {
		x, a, err := ParseToken(s)
		if err == nil && Token(x, a) != strings.ToLower(s) {
			t.Errorf("%q came back as %q", s, Token(x, a))
		}
	})
}
