package pix

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestParseDocument(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text string
		want Document // empty for none
	}{
		{"52998224725", "52998224725"},
		{"529.982.247-25", "52998224725"},
		{" 529 982 247/25 ", "52998224725"},
		{"12345678909", "12345678909"},
		{"00000000191", "00000000191"},
		{"11222333000181", "11222333000181"},
		{"11.222.333/0001-81", "11222333000181"},
		{"60746948000112", "60746948000112"},
		{"00000000000191", "00000000000191"},
		{"12ABC34501DE35", "12ABC34501DE35"},
		{"12.abc.345/01de-35", "12ABC34501DE35"},
		{"A1B2C3D4000193", "A1B2C3D4000193"},
		{"0A0B0C0D000176", "0A0B0C0D000176"},
		{"ZZZZZZZZZZZZ62", "ZZZZZZZZZZZZ62"},
		{"", ""},
		{"52998224724", ""},
		{"52998224735", ""},
		{"5299822472", ""},
		{"529982247250", ""},
		{"5299822472A", ""},
		{"11222333000182", ""},
		{"12ABC34501DE3A", ""},
		{"12ABC34501DEZ5", ""},
		{"12ABC34501D_35", ""},
		{"12ABC34501DE35X", ""},
		{"529.982.247-25" + strings.Repeat(".", documentTextMax), ""},
		{"５２９９８２２４７２５", ""}, // full-width digits
		{"12ABC34501DE\u0663\u0665", ""},
		{"S2ABC34501DE99", "S2ABC34501DE99"},
		{"ſ2ABC34501DE99", ""}, // its upper case is S
	}
	for _, tt := range tests {
		got, err := ParseDocument(tt.text)
		if got != tt.want || (err == nil) != (tt.want != "") || (err != nil && !errors.Is(err, ErrDocument)) {
			t.Errorf("ParseDocument(%q) = %q, %v, want %q", tt.text, string(got), err, string(tt.want))
		}
		cpf, err := ParseCPF(tt.text)
		if isCPF := len(tt.want) == cpfLen; (cpf != "") != isCPF || errors.Is(err, ErrCPF) == isCPF || cpf.IsCPF() != isCPF {
			t.Errorf("ParseCPF(%q) = %q, %v", tt.text, string(cpf), err)
		}
		cnpj, err := ParseCNPJ(tt.text)
		if isCNPJ := len(tt.want) == cnpjLen; (cnpj != "") != isCNPJ || errors.Is(err, ErrCNPJ) == isCNPJ || cnpj.IsCPF() {
			t.Errorf("ParseCNPJ(%q) = %q, %v", tt.text, string(cnpj), err)
		}
	}
}

func TestRepeatedDigitsAreNoDocument(t *testing.T) {
	t.Parallel()
	for c := '0'; c <= 'Z'; c++ {
		for _, n := range []int{cpfLen, cnpjLen} {
			if d, err := ParseDocument(strings.Repeat(string(c), n)); err == nil {
				t.Errorf("%s is a document", string(d))
			}
		}
	}
}

// TestDocumentTypo changes each character of random documents. The check digits find every change but two: one of eleven
// in value, such as 6 and A, and one between remainders 0 and 1, which give the same digit, 0.
func TestDocumentTypo(t *testing.T) {
	t.Parallel()
	const digits, all = "0123456789", "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	random := rand.New(rand.NewPCG(1, 2))
	for _, kind := range []struct {
		name     string
		length   int
		alphabet string
		weights  int
	}{
		{"cpf", cpfLen, digits, cpfLen},
		{"cnpj", cnpjLen, digits, cnpjWeightMax},
		{"cnpj with letters", cnpjLen, all, cnpjWeightMax},
	} {
		for range 200 {
			d := randomDocument(random, kind.length, kind.alphabet, kind.weights)
			if d[kind.length-checkDigits] == '0' {
				continue
			}
			if _, err := ParseDocument(d); err != nil {
				t.Fatalf("%s %s: %v", kind.name, d, err)
			}
			for i := range len(d) {
				for _, c := range kind.alphabet {
					typo := d[:i] + string(c) + d[i+1:]
					isDigit := i >= kind.length-checkDigits
					same := (int(c)-int(d[i]))%modulus == 0 && (!isDigit || c <= '9')
					if _, err := ParseDocument(typo); (err == nil) != same {
						t.Errorf("%s %s with %c in place %d: %v", kind.name, d, c, i, err)
					}
				}
			}
		}
	}
}

// randomDocument finds the check digits by trying all of them.
func randomDocument(random *rand.Rand, length int, alphabet string, weights int) string {
	b := make([]byte, length-checkDigits)
	for i := range b {
		b[i] = alphabet[random.IntN(len(alphabet))]
	}
	for n := range 100 {
		if d := fmt.Sprintf("%s%02d", b, n); checks(d, weights) {
			return d
		}
	}
	panic("no check digits fit " + string(b))
}

func TestDocumentPrintsMasked(t *testing.T) {
	t.Parallel()
	const whole = "52998224725"
	d := Document(whole)
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("paid", slog.Any("document", d))
	for _, s := range []string{d.String(), fmt.Sprint(d), fmt.Sprintf("%+v", struct{ D Document }{d}), log.String()} {
		if strings.Contains(s, whole) || strings.Contains(s, whole[:9]) || !strings.Contains(s, "***4725") {
			t.Errorf("printed as %s", s)
		}
	}
	if got := Document("").String(); got != "***" {
		t.Errorf("none is printed as %s", got)
	}
}

func FuzzParseDocument(f *testing.F) {
	for _, s := range []string{"52998224725", "529.982.247-25", "12ABC34501DE35", "11.222.333/0001-81", "00000000000000"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := ParseDocument(s)
		if err != nil {
			return
		}
		if again, err := ParseDocument(string(d)); again != d || err != nil {
			t.Errorf("%q is %q, which is %q, %v", s, string(d), string(again), err)
		}
		if lower, err := ParseDocument(strings.ToLower(string(d))); lower != d || err != nil {
			t.Errorf("%q in lower case is %q, %v", string(d), string(lower), err)
		}
	})
}
