package pix

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// vectors are codes that other implementations read in the same way, and what they say.
var vectors = []struct {
	name, text string
	code       BRCode
}{
	{
		"cpf", "00020126330014br.gov.bcb.pix011152998224725520400005303986540510.005802BR5910LOJA TESTE6009SAO PAULO62140510PEDIDO000163042EAE",
		BRCode{Key: Key{KeyCPF, "52998224725"}, Amount: 1000, Name: "LOJA TESTE", City: "SAO PAULO", TxID: "PEDIDO0001"},
	},
	{
		"cnpj", "00020126360014br.gov.bcb.pix01141122233300018152040000530398654040.015802BR5910LOJA TESTE6009SAO PAULO62070503***6304221E",
		BRCode{Key: Key{KeyCNPJ, "11222333000181"}, Amount: 1, Name: "LOJA TESTE", City: "SAO PAULO"},
	},
	{
		"cnpj with letters", "00020126360014br.gov.bcb.pix011412ABC34501DE355204000053039865406123.455802BR5910LOJA TESTE6009SAO PAULO62100506ABC12363043E33",
		BRCode{Key: Key{KeyCNPJ, "12ABC34501DE35"}, Amount: 12345, Name: "LOJA TESTE", City: "SAO PAULO", TxID: "ABC123"},
	},
	{
		"email", "00020126360014br.gov.bcb.pix0114pix@bcb.gov.br5204000053039865802BR5910LOJA TESTE6009SAO PAULO62070503***630478E1",
		BRCode{Key: Key{KeyEmail, "pix@bcb.gov.br"}, Name: "LOJA TESTE", City: "SAO PAULO"},
	},
	{
		"phone", "00020126360014br.gov.bcb.pix0114+5511987654321520400005303986540566.665802BR5910LOJA TESTE6009SAO PAULO62070503***63045F62",
		BRCode{Key: Key{KeyPhone, "+5511987654321"}, Amount: 6666, Name: "LOJA TESTE", City: "SAO PAULO"},
	},
	{
		"random", "00020126710014br.gov.bcb.pix0136123e4567-e89b-12d3-a456-4266554400000209Pedido 425204000053039865802BR5910LOJA TESTE6009SAO PAULO62070503***630465AF",
		BRCode{Key: Key{KeyRandom, "123e4567-e89b-12d3-a456-426655440000"}, Info: "Pedido 42", Name: "LOJA TESTE", City: "SAO PAULO"},
	},
	{
		"dynamic", dynamicText,
		BRCode{URL: "pix.example.com/qr/v2/9d36b84fc70b478fb95c12729b90ca25", Name: "LOJA TESTE", City: "SAO PAULO"},
	},
	{
		"due date", "00020101021226810014br.gov.bcb.pix2559pix.example.com/qr/v2/cobv/2353c790eefb11eaadc10242ac1200025204000053039865802BR5910LOJA TESTE6009SAO PAULO62070503***63045279",
		BRCode{URL: "pix.example.com/qr/v2/cobv/2353c790eefb11eaadc10242ac120002", Name: "LOJA TESTE", City: "SAO PAULO"},
	},
	{
		"checksum with leading zeros", "00020126360014br.gov.bcb.pix0114pix@bcb.gov.br5204000053039865802BR5910LOJA TESTE6009SAO PAULO62080504T2676304009D",
		BRCode{Key: Key{KeyEmail, "pix@bcb.gov.br"}, Name: "LOJA TESTE", City: "SAO PAULO", TxID: "T267"},
	},
	{
		"the manual's example", "00020126580014br.gov.bcb.pix0136123e4567-e12b-12d1-a456-4266554400005204000053039865802BR5913Fulano de Tal6008BRASILIA62070503***63041D3D",
		BRCode{Key: Key{KeyRandom, "123e4567-e12b-12d1-a456-426655440000"}, Name: "Fulano de Tal", City: "BRASILIA"},
	},
}

const dynamicText = "00020101021226760014br.gov.bcb.pix2554pix.example.com/qr/v2/9d36b84fc70b478fb95c12729b90ca25" +
	"5204000053039865802BR5910LOJA TESTE6009SAO PAULO62070503***63043461"

func TestBRCodeVectors(t *testing.T) {
	t.Parallel()
	for _, v := range vectors {
		got, err := ParseBRCode(v.text)
		if err != nil {
			t.Errorf("%s: %v", v.name, err)
		}
		if diff := cmp.Diff(v.code, got); diff != "" {
			t.Errorf("%s is read wrongly (-want +got):\n%s", v.name, diff)
		}
		if text, err := v.code.Encode(); text != v.text || err != nil {
			t.Errorf("%s is written\n%s, %v, want\n%s", v.name, text, err, v.text)
		}
		if got, want := got.IsDynamic(), strings.Contains(v.text, "example.com"); got != want {
			t.Errorf("%s: dynamic %t", v.name, got)
		}
		if got, want := got.HasDueDate(), v.name == "due date"; got != want {
			t.Errorf("%s: due date %t", v.name, got)
		}
	}
}

func TestChecksum(t *testing.T) {
	t.Parallel()
	if got := checksum("123456789"); got != "29B1" {
		t.Errorf("the check value is %s, want 29B1", got)
	}
}

// TestBRCodeTypo changes each character of each vector. A CRC of 16 bits finds every error that spans 16 bits at most,
// and so every wrong character of ASCII.
func TestBRCodeTypo(t *testing.T) {
	t.Parallel()
	for _, v := range vectors {
		for i := range len(v.text) {
			for _, c := range " *+-.0159@ABCDEFabcdefz~é" {
				typo := v.text[:i] + string(c) + v.text[i+1:]
				if typo == v.text {
					continue
				}
				if _, err := ParseBRCode(typo); err == nil {
					t.Fatalf("%s: %q in place %d is not seen", v.name, c, i)
				}
			}
		}
	}
}

// seal appends a right checksum.
func seal(body string) string { return body + checksumHead + checksum(body+checksumHead) }

// tlv writes a field whose length counts bytes.
func tlv(id, value string) string { return fmt.Sprintf("%s%02d%s", id, len(value), value) }

const (
	pixEmail = "0014br.gov.bcb.pix0114pix@bcb.gov.br"
	tail     = "5204000053039865802BR5904NOME6006CIDADE62070503***"
)

func TestParseBRCodeTolerates(t *testing.T) {
	t.Parallel()
	email := BRCode{Key: Key{KeyEmail, "pix@bcb.gov.br"}, Name: "NOME", City: "CIDADE"}
	with := func(change func(*BRCode)) BRCode {
		c := email
		change(&c)
		return c
	}
	tests := []struct {
		name, text string
		want       BRCode
	}{
		{"space around it", " \n" + seal("000201"+tlv("26", pixEmail)+tail) + "\r\n", email},
		{"GUI in upper case", seal("000201" + tlv("26", "0014BR.GOV.BCB.PIX0114pix@bcb.gov.br") + tail), email},
		{"template in 51", seal("000201" + tlv("51", pixEmail) + tail), email},
		{"GUI last in its template", seal("000201" + tlv("26", "0114pix@bcb.gov.br0014br.gov.bcb.pix") + tail), email},
		{"fields out of order", seal("000201" + tail + tlv("26", pixEmail)), email},
		{"empty fields", seal("000201" + tlv("26", pixEmail+"0200") + "6100" + tail), email},
		{"many uses", seal("000201" + "010211" + tlv("26", pixEmail) + tail), email},
		{"a static code for one use", seal("000201" + "010212" + tlv("26", pixEmail) + tail), email},
		{"amount 0.00", seal("000201" + tlv("26", pixEmail) + tlv("54", "0.00") + tail), email},
		{
			"other arrangements", seal("000201" + tlv("26", "0012BR.COM.OUTRO011001234") + tlv("27", pixEmail) + tlv("28", "anything") + tail + tlv("80", "0014br.gov.bcb.pix2509a.b/rec/1")),
			with(func(c *BRCode) {
				c.Extra = []Field{{"26", "0012BR.COM.OUTRO011001234"}, {"28", "anything"}, {"80", "0014br.gov.bcb.pix2509a.b/rec/1"}}
			}),
		},
		{
			"a category, cash and a CEP", seal("000201" + tlv("26", pixEmail+"030812345678") + strings.Replace(tail, "0000", "5411", 1) + tlv("61", "70074900")),
			with(func(c *BRCode) { c.Category, c.FSS, c.PostalCode = "5411", "12345678", "70074900" }),
		},
		{
			"accents counted as bytes", seal("000201" + tlv("26", pixEmail) + "5204000053039865802BR" + tlv("59", "João") + tlv("60", "São Paulo") + "62070503***"),
			with(func(c *BRCode) { c.Name, c.City = "João", "São Paulo" }),
		},
		{
			"accents counted as characters", seal("000201" + tlv("26", pixEmail) + "5204000053039865802BR" + "5904João" + "6009São Paulo" + "62070503***"),
			with(func(c *BRCode) { c.Name, c.City = "João", "São Paulo" }),
		},
		{
			"amount and txid of a dynamic code", seal("000201" + tlv("26", "0014br.gov.bcb.pix2509a.b/c/d/e") + tlv("54", "any") + "5204000053039865802BR5904NOME6006CIDADE" + tlv("62", tlv("05", "RP12345678-2019"))),
			BRCode{URL: "a.b/c/d/e", Name: "NOME", City: "CIDADE"},
		},
		{
			"a dynamic code without txid", seal("000201" + tlv("26", "0014br.gov.bcb.pix2509a.b/c/d/e") + "5204000053039865802BR5904NOME6006CIDADE"),
			BRCode{URL: "a.b/c/d/e", Name: "NOME", City: "CIDADE"},
		},
	}
	for _, tt := range tests {
		got, err := ParseBRCode(tt.text)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestParseBRCodeRefuses(t *testing.T) {
	t.Parallel()
	account := tlv("26", pixEmail)
	url := func(s string) string { return seal("000201" + tlv("26", "0014br.gov.bcb.pix"+tlv("25", s)) + tail) }
	without := func(field string) string { return seal("000201" + account + strings.Replace(tail, field, "", 1)) }
	tests := []struct{ name, text, want string }{
		{"nothing", "", "field 63: is not at the end"},
		{"only a checksum", seal(""), "field 00"},
		{"lower-case checksum", strings.Replace(vectors[0].text, "2EAE", "2eae", 1), `field 63: checksum is "2eae", want 2EAE`},
		{"no checksum", "000201" + account + tail, "field 63"},
		{"text behind the checksum", vectors[0].text + "x", "field 63"},
		{"length of 62 too long", seal("000201" + account + strings.Replace(tail, "6207", "6208", 1)), "field 62: length 8 goes beyond the end"},
		{"length of 62 too short", seal("000201" + account + strings.Replace(tail, "6207", "6206", 1)), `"*" begins no field`},
		{"length inside 62 wrong", seal("000201" + account + strings.Replace(tail, "0503", "0504", 1)), "field 62-05: length 4"},
		{"length inside 26 wrong", seal("000201" + tlv("26", "0014br.gov.bcb.pix0115pix@bcb.gov.br") + tail), "field 26-01: length 15"},
		{"a field that is no field", seal("000201" + account + "X1021A" + tail), `"X102" begins no field`},
		{"half a character", seal("000201" + account + strings.Replace(tail, "5904NOME", "5901\xc3", 1)), "field 59"},
		{"another version", seal("000202" + account + tail), "field 00: want 01 at the start"},
		{"version not first", seal(account + "000201" + tail), "field 00: want 01 at the start"},
		{"two versions", seal("000201" + "000201" + account + tail), "field 00: stands twice"},
		{"two amounts", seal("000201" + account + "540510.00" + "540511.00" + tail), "field 54: stands twice"},
		{"two keys", seal("000201" + tlv("26", pixEmail+"0114pax@bcb.gov.br") + tail), "field 26-01: stands twice"},
		{"two Pix templates", seal("000201" + account + tlv("27", pixEmail) + tail), "field 27: a second Pix template"},
		{"a checksum inside", seal("000201" + account + "63041234" + tail), "field 63: stands before the end"},
		{"use 13", seal("000201" + "010213" + account + tail), `field 01: "13", want 11 or 12`},
		{"no Pix template", seal("000201" + tail), "no Pix template"},
		{"another arrangement", seal("000201" + tlv("26", "0012BR.COM.OUTRO0103abc") + tail), "no Pix template"},
		{"a Pix template out of place", seal("000201" + tlv("25", pixEmail) + tail), "no Pix template"},
		{"neither key nor URL", seal("000201" + tlv("26", "0014br.gov.bcb.pix") + tail), "either a key or a URL"},
		{"key and URL", seal("000201" + tlv("26", pixEmail+"2509a.b/c/d/e") + tail), "either a key or a URL"},
		{"a key that is none", seal("000201" + tlv("26", "0014br.gov.bcb.pix0103abc") + tail), "field 26-01: must be a Pix key"},
		{"a key with a typo", seal("000201" + tlv("26", "0014br.gov.bcb.pix011112345678908") + tail), "field 26-01: must be a Pix key"},
		{"a phone without +", seal("000201" + tlv("26", "0014br.gov.bcb.pix01135511987654321") + tail), "field 26-01: may be a CPF or a phone number"},
		{"URL with a scheme", url("https://a.b/c/d"), "want no https://"},
		{"URL without a path", url("a.b"), "want a host and a path"},
		{"URL with a short path", url("a.b/c//"), "want a host and a path"},
		{"URL without a host", url("/c/d"), "want a host and a path"},
		{"URL with a space", url("a.b/c d/e"), "not a URL"},
		{"URL with an accent", url("a.b/ç/e"), "not a URL"},
		{"no category", without("52040000"), "field 52: is missing"},
		{"category ABCD", seal("000201" + account + strings.Replace(tail, "0000", "ABCD", 1)), `field 52: "ABCD", want four digits`},
		{"no currency", without("5303986"), `field 53: "", want 986`},
		{"dollars", seal("000201" + account + strings.Replace(tail, "986", "840", 1)), `field 53: "840", want 986`},
		{"no country", without("5802BR"), `field 58: "", want BR`},
		{"another country", seal("000201" + account + strings.Replace(tail, "BR", "PT", 1)), `field 58: "PT", want BR`},
		{"no name", without("5904NOME"), "field 59: is missing"},
		{"no city", without("6006CIDADE"), "field 60: is missing"},
		{"no txid", without("62070503***"), "field 62-05"},
		{"long txid", seal("000201" + account + strings.Replace(tail, "62070503***", tlv("62", tlv("05", strings.Repeat("a", 26))), 1)), "field 62-05"},
		{"txid with a hyphen", seal("000201" + account + strings.Replace(tail, "62070503***", tlv("62", "0503a-b"), 1)), `field 62-05: "a-b", want *** or 1 to 25`},
		{"too long", seal("000201" + account + tlv("80", strings.Repeat("a", 99)) + tlv("81", strings.Repeat("a", 99)) + tlv("82", strings.Repeat("a", 99)) + tlv("83", strings.Repeat("a", 99)) + tail), "512"},
	}
	for _, tt := range tests {
		c, err := ParseBRCode(tt.text)
		if err == nil || !strings.HasPrefix(err.Error(), "pix: BR Code: ") || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		if diff := cmp.Diff(BRCode{}, c); diff != "" {
			t.Errorf("%s is refused with an answer: %s", tt.name, diff)
		}
	}
}

// TestBRCodeErrorIsShort: what somebody pastes must not fill our logs.
func TestBRCodeErrorIsShort(t *testing.T) {
	t.Parallel()
	const textMax = 140
	long := strings.Repeat("x", fieldMax)
	for _, field := range []string{"5204" + "0000", "5303" + "986", "5802" + "BR", "62070503***"} {
		body := "000201" + tlv("26", pixEmail) + strings.Replace(tail, field, "", 1)
		for _, value := range []string{long, tlv("05", long[:90])} {
			if _, err := ParseBRCode(seal(body + tlv(field[:2], value))); err == nil || len(err.Error()) > textMax {
				t.Errorf("field %s: %v", field[:2], err)
			}
		}
	}
	for _, field := range []string{tlv("01", long), tlv("54", long), long} {
		if _, err := ParseBRCode(seal("000201" + tlv("26", pixEmail) + field + tail)); err == nil || len(err.Error()) > textMax {
			t.Errorf("%.4s: %v", field, err)
		}
	}
	if _, err := ParseBRCode(strings.Repeat("x", 1<<20)); err == nil || len(err.Error()) > textMax {
		t.Errorf("a megabyte: %v", err)
	}
}

func TestAmounts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"10": 1000, "10.": 1000, ".10": 10, "10.1": 1010, "10.10": 1010, "0": 0, "0.00": 0, "0.01": 1, "00010.00": 1000,
		"9999999999.99": 999_999_999_999,
	} {
		if got, ok := parseCentavos(text); got != want || !ok {
			t.Errorf("%q is %d, %t, want %d", text, got, ok, want)
		}
	}
	for _, text := range []string{
		"", ".", "10.001", "10.100", "-1", "+1", "1,00", "1 000", "1e3", "10.1.0", "10..", "R$10", "١", "99999999999.9", "9999999999999", "99999999999.99",
	} {
		if got, ok := parseCentavos(text); ok {
			t.Errorf("%q is read as %d", text, got)
		}
	}
	for n, want := range map[int64]string{1: "0.01", 10: "0.10", 1000: "10.00", centavosMax: "9999999999.99"} {
		if got := formatCentavos(n); got != want || len(got) > amountMax {
			t.Errorf("%d is written %s, want %s", n, got, want)
		}
	}
}

func TestEncodeMakesPlain(t *testing.T) {
	t.Parallel()
	text, err := BRCode{
		Key:        Key{KeyEmail, "pix@bcb.gov.br"},
		Info:       "pão de açúcar",
		Category:   "5411",
		FSS:        "12345678",
		Name:       "  José & Irmãos   Comércio de Pães Ltda ",
		City:       "São José dos Pinhais",
		PostalCode: "70074-900",
		Extra:      []Field{{"80", "0012BR.COM.OUTRO"}, {"26", "0012BR.COM.OUTRO"}},
	}.Encode()
	want := seal("000201" + tlv("26", "0012BR.COM.OUTRO") + tlv("27", "0014br.gov.bcb.pix0114pix@bcb.gov.br0213pao de acucar030812345678") +
		"5204541153039865802BR5925Jose e Irmaos Comercio de6015Sao Jose dos Pi610970074-90062070503***" + tlv("80", "0012BR.COM.OUTRO"))
	if text != want || err != nil {
		t.Errorf("got %s, %v, want %s", text, err, want)
	}
}

func TestEncodeRefuses(t *testing.T) {
	t.Parallel()
	static := BRCode{Key: Key{KeyEmail, "pix@bcb.gov.br"}, Name: "NOME", City: "CIDADE"}
	dynamic := BRCode{URL: "a.b/c/d", Name: "NOME", City: "CIDADE"}
	tests := []struct {
		name   string
		base   BRCode
		change func(*BRCode)
		want   string
	}{
		{"neither key nor URL", static, func(c *BRCode) { c.Key = Key{} }, "either a key or a URL"},
		{"key and URL", static, func(c *BRCode) { c.URL = "a.b/c/d" }, "either a key or a URL"},
		{"a key of another type", static, func(c *BRCode) { c.Key.Type = KeyCPF }, "field 26-01: must be a CPF"},
		{"a bad URL", dynamic, func(c *BRCode) { c.URL = "https://a.b/c/d" }, "field 26-25"},
		{"a long URL", dynamic, func(c *BRCode) { c.URL = "a.b/c/" + strings.Repeat("d", urlMax-5) }, "78 characters, at most 77"},
		{"a bad ISPB", static, func(c *BRCode) { c.FSS = "1234567" }, "field 26-03"},
		{"an amount below 0", static, func(c *BRCode) { c.Amount = -1 }, "field 54"},
		{"a huge amount", static, func(c *BRCode) { c.Amount = centavosMax + 1 }, "field 54"},
		{"a dynamic amount", dynamic, func(c *BRCode) { c.Amount = 1 }, "stand in its charge"},
		{"a dynamic txid", dynamic, func(c *BRCode) { c.TxID = "a" }, "stand in its charge"},
		{"a long txid", static, func(c *BRCode) { c.TxID = strings.Repeat("a", 26) }, "field 62-05"},
		{"a txid with a hyphen", static, func(c *BRCode) { c.TxID = "a-b" }, "field 62-05"},
		{"stars as txid", static, func(c *BRCode) { c.TxID = "***" }, "field 62-05"},
		{"a bad category", static, func(c *BRCode) { c.Category = "12" }, "field 52"},
		{"no name", static, func(c *BRCode) { c.Name = "" }, "field 59: is empty"},
		{"a name that has no plain form", static, func(c *BRCode) { c.Name = "東京" }, "field 59: is empty"},
		{"no city", static, func(c *BRCode) { c.City = " \t" }, "field 60: is empty"},
		{"long info", static, func(c *BRCode) { c.Info = strings.Repeat("a", 60) }, "field 26: 100 characters, 1 too many"},
		{"an extra field without a number", static, func(c *BRCode) { c.Extra = []Field{{"A1", "x"}} }, `no field can be called "A1"`},
		{"an extra field with a long number", static, func(c *BRCode) { c.Extra = []Field{{"123", "x"}} }, "no field can be called"},
		{"an extra checksum", static, func(c *BRCode) { c.Extra = []Field{{"63", "x"}} }, `no field can be called "63"`},
		{"an extra amount", static, func(c *BRCode) { c.Amount = 1; c.Extra = []Field{{"54", "x"}} }, "field 54: stands twice"},
		{"an extra field without a value", static, func(c *BRCode) { c.Extra = []Field{{"80", ""}} }, "field 80: is empty"},
		{"a long extra field", static, func(c *BRCode) { c.Extra = []Field{{"80", strings.Repeat("a", 100)}} }, "field 80: 100 characters"},
		{"an extra field with an accent", static, func(c *BRCode) { c.Extra = []Field{{"80", "ç"}} }, "field 80: not plain"},
		{"too much of everything", static, func(c *BRCode) {
			for _, id := range []string{"80", "81", "82", "83"} {
				c.Extra = append(c.Extra, Field{id, strings.Repeat("a", 99)})
			}
		}, "at most 512"},
	}
	for _, tt := range tests {
		tt.change(&tt.base)
		text, err := tt.base.Encode()
		if text != "" || err == nil || !strings.HasPrefix(err.Error(), "pix: BR Code: ") || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %q, %v, want %q", tt.name, text, err, tt.want)
		}
	}
	static.Key = Key{"fax", "1"}
	if _, err := static.Encode(); !errors.Is(err, ErrKeyType) {
		t.Errorf("a key of no type: %v", err)
	}
	static.Key, static.Info = Key{KeyRandom, "123e4567-e89b-12d3-a456-426655440000"}, strings.Repeat("a", 37)
	if _, err := static.Encode(); err != nil {
		t.Errorf("37 characters of info have room beside a random key: %v", err)
	}
}

func FuzzBRCode(f *testing.F) {
	for _, v := range vectors {
		f.Add(strings.TrimSuffix(v.text[:len(v.text)-checksumLen], checksumHead))
	}
	f.Add("000201" + tlv("26", "0012BR.COM.OUTRO") + tlv("27", pixEmail+"0204açaí") + "5204000053039865802BR5904João6009São Paulo62070503***8003abc")
	f.Fuzz(func(t *testing.T, body string) {
		// With the right checksum, or the fuzzer would never get past it.
		c, err := ParseBRCode(seal(body))
		if err != nil {
			return
		}
		first, err := c.Encode()
		if err != nil {
			return // what is read more freely than written
		}
		if len(first) > brCodeMax || !isPrintable(first) {
			t.Fatalf("%q is written as %q", body, first)
		}
		again, err := ParseBRCode(first)
		if err != nil {
			t.Fatalf("%q cannot be read: %v", first, err)
		}
		if again.Key != c.Key || again.URL != c.URL || again.Amount != c.Amount || again.TxID != c.TxID || len(again.Extra) != len(c.Extra) {
			t.Fatalf("%q says %+v, its rewrite %q says %+v", body, c, first, again)
		}
		if second, err := again.Encode(); second != first || err != nil {
			t.Fatalf("%q is rewritten as %q, %v", first, second, err)
		}
	})
}

func FuzzParseBRCode(f *testing.F) {
	for _, v := range vectors {
		f.Add(v.text)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if _, err := ParseBRCode(s); err == nil && !strings.Contains(s, "6304") {
			t.Fatalf("%q is read without its checksum", s)
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	for name, c := range map[string]BRCode{
		"dynamic": {URL: "127.0.0.1:41234/qr/v2/9d36b84fc70b478fb95c12729b90ca25", Name: "Ponte Simulador alpha", City: "SAO PAULO"},
		"static":  {Key: Key{KeyCPF, "52998224725"}, Amount: 1000, Name: "Loja do Zé", City: "São Paulo", TxID: "PEDIDO0001"},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Encode(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
