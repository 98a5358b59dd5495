package pix

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestParseKey(t *testing.T) {
	t.Parallel()
	const uuid = "123e4567-e89b-12d3-a456-426655440000"
	domain := "@" + strings.Repeat("d", 60) + ".com"
	tests := []struct {
		text string
		as   KeyType // empty to infer
		want Key
		err  error
	}{
		// What it can only be.
		{"52998224725", "", Key{KeyCPF, "52998224725"}, nil},
		{" 529.982.247-25\n", "", Key{KeyCPF, "52998224725"}, nil},
		{"529 982 247 25", "", Key{KeyCPF, "52998224725"}, nil},
		{"11222333000181", "", Key{KeyCNPJ, "11222333000181"}, nil},
		{"11.222.333/0001-81", "", Key{KeyCNPJ, "11222333000181"}, nil},
		{"12.abc.345/01de-35", "", Key{KeyCNPJ, "12ABC34501DE35"}, nil},
		{"Pix@BCB.gov.br", "", Key{KeyEmail, "pix@bcb.gov.br"}, nil},
		{"52998224725@cpf.example", "", Key{KeyEmail, "52998224725@cpf.example"}, nil},
		{"+5511987654321", "", Key{KeyPhone, "+5511987654321"}, nil},
		{"+55 (11) 98765-4321", "", Key{KeyPhone, "+5511987654321"}, nil},
		{"+551132654321", "", Key{KeyPhone, "+551132654321"}, nil}, // not a mobile
		{"+351912345678", "", Key{KeyPhone, "+351912345678"}, nil},
		{uuid, "", Key{KeyRandom, uuid}, nil},
		{strings.ToUpper(uuid), "", Key{KeyRandom, uuid}, nil},

		// Both a CPF and a mobile number: it is the CPF, unless it is written like the other.
		{"52 99822-4725", "", Key{}, ErrKeyUnclear},
		{"(52) 99822-4725", "", Key{}, ErrKeyUnclear},
		{"52998224725", KeyPhone, Key{KeyPhone, "+5552998224725"}, nil},
		{"52998224725", KeyCPF, Key{KeyCPF, "52998224725"}, nil},
		{"(52) 99822-4725", KeyPhone, Key{KeyPhone, "+5552998224725"}, nil},

		// What may be a phone number has to be said.
		{"11987654321", "", Key{}, ErrKeyUnclear},
		{"52998224726", "", Key{}, ErrKeyUnclear},
		{"(11) 91234-5678", "", Key{}, ErrKeyUnclear},
		{"1132654321", "", Key{}, ErrKeyUnclear},
		{"5511912345678", "", Key{}, ErrKeyUnclear},
		{"551132654321", "", Key{}, ErrKeyUnclear},
		{"11912345678", KeyPhone, Key{KeyPhone, "+5511912345678"}, nil},
		{"5511912345678", KeyPhone, Key{KeyPhone, "+5511912345678"}, nil},
		{"551132654321", KeyPhone, Key{KeyPhone, "+551132654321"}, nil},
		{"1132654321", KeyPhone, Key{KeyPhone, "+551132654321"}, nil},
		{"55987654321", KeyPhone, Key{KeyPhone, "+5555987654321"}, nil}, // area 55, country not said
		{"+12", "", Key{}, ErrKeyPhone},
		{"+123", "", Key{KeyPhone, "+123"}, nil},
		{"+1234567890123456", "", Key{KeyPhone, "+1234567890123456"}, nil},
		{"+12345678901234567", "", Key{}, ErrKeyPhone},
		{"+0123456789", "", Key{}, ErrKeyPhone},
		{"+5501987654321", "", Key{}, ErrKeyPhone}, // no area
		{"+551198765432", "", Key{}, ErrKeyPhone},  // a mobile number short of a digit
		{"+551187654321", "", Key{KeyPhone, "+551187654321"}, nil},
		{"+55118765432199", "", Key{}, ErrKeyPhone},
		{"++5511987654321", "", Key{}, ErrKeyPhone},
		{"351912345678", KeyPhone, Key{}, ErrKeyPhone}, // another country has to be said
		{"+55119876543２1", "", Key{}, ErrKeyPhone},

		// What was said is what counts.
		{"52998224725", KeyCNPJ, Key{}, ErrCNPJ},
		{"11222333000181", KeyCPF, Key{}, ErrCPF},
		{"52998224726", KeyCPF, Key{}, ErrCPF},
		{"52998224725", KeyEmail, Key{}, ErrKeyEmail},
		{"52998224725", KeyRandom, Key{}, ErrKeyRandom},
		{"pix@bcb.gov.br", KeyPhone, Key{}, ErrKeyPhone},
		{"pix@bcb.gov.br", "fax", Key{}, ErrKeyType},

		{"a.!#$&'*+/=?^_`{|}~-z@a-b.c", "", Key{KeyEmail, "a.!#$&'*+/=?^_`{|}~-z@a-b.c"}, nil},
		{strings.Repeat("a", keyMax-len(domain)) + domain, "", Key{KeyEmail, strings.Repeat("a", keyMax-len(domain)) + domain}, nil},
		{strings.Repeat("a", keyMax-len(domain)+1) + domain, "", Key{}, ErrKeyEmail},
		{"a%b@c.d", "", Key{}, ErrKeyEmail},
		{"a b@c.d", "", Key{}, ErrKeyEmail},
		{"a@b@c.d", "", Key{}, ErrKeyEmail},
		{"@c.d", "", Key{}, ErrKeyEmail},
		{"a@", "", Key{}, ErrKeyEmail},
		{"a@-c.d", "", Key{}, ErrKeyEmail},
		{"a@c-.d", "", Key{}, ErrKeyEmail},
		{"a@c..d", "", Key{}, ErrKeyEmail},
		{"a@c.d\nx", "", Key{}, ErrKeyEmail},
		{"joão@c.d", "", Key{}, ErrKeyEmail},
		{"\u212a@c.d", "", Key{}, ErrKeyEmail}, // its lower case is k

		{strings.ReplaceAll(uuid, "-", ""), "", Key{}, ErrKey},
		{"{" + uuid + "}", KeyRandom, Key{}, ErrKeyRandom},
		{strings.Replace(uuid, "e", "g", 1), "", Key{}, ErrKey},
		{"", "", Key{}, ErrKey},
		{"12345678909", "", Key{KeyCPF, "12345678909"}, nil},
		{"12345678908", "", Key{}, ErrKey},
		{"11222333000182", "", Key{}, ErrKey},
		{"hello", "", Key{}, ErrKey},
		{strings.Repeat("1", 1<<20), "", Key{}, ErrKey},
	}
	for _, tt := range tests {
		got, err := ParseKey(tt.text, tt.as)
		if got != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("ParseKey(%q, %q) = %s %q, %v, want %s %q, %v", tt.text, tt.as, got.Type, got.Value, err, tt.want.Type, tt.want.Value, tt.err)
		}
	}
}

func TestParseKeyType(t *testing.T) {
	t.Parallel()
	for _, want := range KeyTypes {
		for _, s := range []string{string(want), strings.ToUpper(string(want))} {
			if got, err := ParseKeyType(s); got != want || err != nil {
				t.Errorf("ParseKeyType(%q) = %q, %v", s, got, err)
			}
		}
	}
	for _, s := range []string{"", "evp", "cpf "} {
		if got, err := ParseKeyType(s); got != "" || !errors.Is(err, ErrKeyType) {
			t.Errorf("ParseKeyType(%q) = %q, %v", s, got, err)
		}
	}
}

func TestKeyPrintsMasked(t *testing.T) {
	t.Parallel()
	for key, want := range map[Key]string{
		{KeyCPF, "52998224725"}:                             "cpf ***4725",
		{KeyCNPJ, "12ABC34501DE35"}:                         "cnpj ***DE35",
		{KeyEmail, "pix@bcb.gov.br"}:                        "email p***@bcb.gov.br",
		{KeyEmail, "@bcb.gov.br"}:                           "email ***@bcb.gov.br",
		{KeyPhone, "+5511987654321"}:                        "phone ***4321",
		{KeyRandom, "123e4567-e89b-12d3-a456-426655440000"}: "random ***0000",
		{}: " ***",
	} {
		var log bytes.Buffer
		slog.New(slog.NewJSONHandler(&log, nil)).Info("paid", slog.Any("key", key))
		for _, s := range []string{key.String(), fmt.Sprintf("%+v", struct{ K Key }{key}), log.String()} {
			if !strings.Contains(s, want) || (key.Value != "" && strings.Contains(s, key.Value) && key.Value[0] != '@') {
				t.Errorf("%q is printed as %s, want %s", key.Value, s, want)
			}
		}
	}
}

func FuzzParseKey(f *testing.F) {
	for _, s := range []string{
		"529.982.247-25", "12.abc.345/01de-35", "Pix@bcb.gov.br", "+55 (11) 98765-4321", "(52) 99822-4725", "123E4567-e89b-12d3-a456-426655440000",
	} {
		f.Add(s, "")
		f.Add(s, "phone")
	}
	f.Fuzz(func(t *testing.T, s, as string) {
		k, err := ParseKey(s, KeyType(as))
		if err != nil {
			if k != (Key{}) {
				t.Errorf("%q is refused as %+v", s, k)
			}
			return
		}
		if as != "" && string(k.Type) != as {
			t.Errorf("%q is a %s, want %s", s, k.Type, as)
		}
		if k.Value == "" || len(k.Value) > keyMax || !isPrintable(k.Value) {
			t.Errorf("%q has the form %q", s, k.Value)
		}
		// The form that banks know says its type, and nothing else.
		for _, as := range []KeyType{"", k.Type} {
			if again, err := ParseKey(k.Value, as); again != k || err != nil {
				t.Errorf("%q is %q, which as %q is %s %q, %v", s, k.Value, as, again.Type, again.Value, err)
			}
		}
	})
}
