package httpkit

import (
	"encoding/hex"
	"fmt"
	"math/big"
	"math/rand/v2"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/ponte-pay/ponte/internal/fault"
)

var (
	camelKey = regexp.MustCompile(`^[a-z][a-z0-9]*([A-Z][a-z0-9]*)+$`)
	capital  = regexp.MustCompile(`[A-Z]`)
)

// TestHashIsStable fails when the encoding changes: hashes made before would then contradict their own requests.
func TestHashIsStable(t *testing.T) {
	t.Parallel()
	const want = "6074fc7d8245fa035b25667fbedeac500f7331167a5e97f6626894f9ee0a2b9e"
	sum := mustRead(t, `{"amount":-10.50,"list":[null,true,false,"ç"],"metadata":{"aB":0}}`).Hash()
	if got := hex.EncodeToString(sum[:]); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestHashEqual(t *testing.T) {
	t.Parallel()
	classes := [][]string{
		{`{"a":30}`, `{"a":30.0}`, `{"a":3e1}`, `{"a":3E+1}`, `{"a":0.3e2}`, `{"a":300e-1}`, `{"a":30.000}`, ` { "a" : 30 } `},
		{`{"a":0}`, `{"a":-0}`, `{"a":0.00}`, `{"a":0e5}`, `{"a":-0e-999999999}`},
		{`{"a":1e400}`, `{"a":10e399}`, `{"a":0.1e401}`},
		{`{"a":1e-400}`, `{"a":0.1e-399}`},
		{`{"a":1e999999999}`, `{"a":10e999999998}`},
		{`{"a":-1.5}`, `{"a":-15e-1}`},
		{`{"a":1,"b":2}`, `{"b":2,"a":1}`, `{"b":2.0,"a":1}`},
		{`{"payer_name":"x"}`, `{"payerName":"x"}`, `{"payerName":"y","payer_name":"x"}`},
		{`{"a":"ç\n"}`, `{"a":"\u00e7\u000a"}`, `{"\u0061":"\u00E7\n"}`},
		{`{"metadata":{"aB":1,"c":2}}`, `{"metadata":{"c":2,"aB":1}}`},
	}
	for _, class := range classes {
		want := mustRead(t, class[0]).Hash()
		for _, body := range class[1:] {
			if mustRead(t, body).Hash() != want {
				t.Errorf("%s and %s differ", class[0], body)
			}
		}
	}
}

func TestHashDifferent(t *testing.T) {
	t.Parallel()
	bodies := []string{
		`{}`, `{"a":null}`, `{"a":{}}`, `{"a":[]}`, `{"a":""}`, `{"a":0}`, `{"a":false}`, `{"a":true}`, `{"a":"0"}`, `{"a":"null"}`,
		`{"a":1}`, `{"a":-1}`, `{"a":10}`, `{"a":0.1}`, `{"a":1e400}`, `{"a":1e401}`, `{"a":1e999999999}`, `{"a":1e-400}`, `{"a":12}`, `{"a":1.2}`,
		`{"a":[1,2]}`, `{"a":[2,1]}`, `{"a":[12]}`, `{"a":[[1],2]}`, `{"a":[[1,2]]}`, `{"a":[1,[2]]}`, `{"a":["1","2"]}`, `{"a":["12"]}`, `{"a":["12",""]}`,
		`{"a":1,"b":2}`, `{"a":2,"b":1}`, `{"a":{"b":2}}`, `{"a":{"b":2},"c":3}`, `{"a":{"b":2,"c":3}}`, `{"b":1}`, `{"ab":""}`, `{"a":"b"}`,
		`{"a":"x"}`, `{"a":"X"}`, `{"a":"x "}`, `{"a":"\u00e7"}`, `{"a":"c\u0327"}`,
		`{"metadata":{"aB":1}}`, `{"metadata":{"a_b":1}}`, `{"a_b":1}`,
	}
	seen := map[[32]byte]string{}
	for _, body := range bodies {
		sum := mustRead(t, body).Hash()
		if other, ok := seen[sum]; ok {
			t.Errorf("%s and %s have one hash", other, body)
		}
		seen[sum] = body
	}
}

// TestHugeNumbersCostNothing fails when a number of a few characters is written out somewhere. It is not parallel,
// because it counts all memory that is asked for.
func TestHugeNumbersCostNothing(t *testing.T) {
	const bytesMax = 1 << 20
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, number := range []string{"1e999999999", "-1e999999999", "1e-999999999"} {
		o := mustRead(t, `{"a":`+number+`}`)
		o.Hash()
		f := Fields(o)
		f.Int("a", IntRule{})
		f.BRL("a", BRLRule{})
		f.USDT("a", USDTRule{})
		if got := len(fault.As(f.Err()).Issues); got != 3 {
			t.Errorf("%s: %d issues, want 3", number, got)
		}
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > bytesMax {
		t.Errorf("asked for %d bytes, want at most %d", got, bytesMax)
	}
}

// FuzzHash writes what it read in another way, which keeps the hash, and with one value changed, which does not.
func FuzzHash(f *testing.F) {
	for i, s := range []string{`{}`, `{"a":30,"b":[1.50,-0,1e5]}`, `{"metadata":{"aB":"ç\n\"","c":{"d":[null,true]}}}`, typicalBody} {
		f.Add([]byte(s), uint64(i))
	}
	f.Fuzz(func(t *testing.T, body []byte, seed uint64) {
		o, err := parseObject(body)
		if err != nil || len(body) > 4<<10 {
			return
		}
		root := value{kind: kindObject, members: o.members}
		s := speller{rand: rand.New(rand.NewPCG(seed, 1))}
		s.write(root)
		again := mustRead(t, s.String())
		if again.Hash() != o.Hash() {
			t.Errorf("another hash:\n%s\n%s", body, s.String())
		}

		change := &changer{rand: s.rand, at: s.rand.IntN(count(root))}
		other := Object{change.value(root).members}
		if other.Hash() == o.Hash() {
			t.Errorf("one hash:\n%s\n%s", render(o), render(other))
		}
	})
}

// speller writes a tree with its members in any order, any spaces, and any spelling of numbers and strings.
type speller struct {
	strings.Builder
	rand *rand.Rand
}

func (s *speller) write(v value) {
	s.space()
	switch v.kind {
	case kindNumber:
		s.number(v.text)
	case kindString:
		s.string(v.text)
	case kindArray:
		s.WriteByte('[')
		for i, m := range v.members {
			if i > 0 {
				s.WriteByte(',')
			}
			s.write(m.value)
		}
		s.space()
		s.WriteByte(']')
	case kindObject:
		s.WriteByte('{')
		for i, at := range s.rand.Perm(len(v.members)) {
			if i > 0 {
				s.WriteByte(',')
			}
			s.space()
			s.string(v.members[at].key)
			s.space()
			s.WriteByte(':')
			s.write(v.members[at].value)
		}
		s.space()
		s.WriteByte('}')
	case kindNull, kindFalse, kindTrue:
		s.Write(appendJSON(nil, v))
	}
	s.space()
}

func (s *speller) space() { s.WriteString([]string{"", "", " ", "\n\t", "\r"}[s.rand.IntN(5)]) }

func (s *speller) string(text string) {
	s.WriteByte('"')
	for _, r := range text {
		if r < 0x10000 && s.rand.IntN(3) == 0 {
			fmt.Fprintf(s, `\u%04X`, r)
		} else {
			quoted := appendQuoted(nil, string(r))
			s.Write(quoted[1 : len(quoted)-1])
		}
	}
	s.WriteByte('"')
}

// number moves the point of a number by its exponent, unless that would pass a limit.
func (s *speller) number(text string) {
	mantissa, exponent := text, int64(0)
	if at := strings.IndexAny(text, "eE"); at >= 0 {
		mantissa = text[:at]
		n, _ := new(big.Int).SetString(strings.TrimPrefix(text[at+1:], "+"), 10)
		exponent = n.Int64()
	}
	if len(text) > 100 || exponent > 999_999_990 || exponent < -999_999_990 {
		s.WriteString(text)
		return
	}
	switch s.rand.IntN(3) {
	case 0: // more zeros behind
		if !strings.Contains(mantissa, ".") {
			mantissa += "."
		}
		mantissa += strings.Repeat("0", 1+s.rand.IntN(5))
	case 1: // ten times, at a tenth
		if strings.Trim(mantissa, "-0.") != "" && !strings.Contains(mantissa, ".") {
			mantissa += "0"
			exponent--
		}
	case 2:
		if whole, fraction, ok := strings.Cut(mantissa, "."); ok && strings.Trim(whole, "-") != "0" {
			mantissa = whole + fraction
			exponent -= int64(len(fraction))
		}
	}
	s.WriteString(mantissa)
	if exponent != 0 || s.rand.IntN(2) == 0 {
		fmt.Fprintf(s, "%s%d", []string{"e", "E"}[s.rand.IntN(2)], exponent)
	}
}

// count returns how many values v is made of.
func count(v value) int {
	n := 1
	for _, m := range v.members {
		n += count(m.value)
	}
	return n
}

// changer copies a tree and makes its value number at another one.
type changer struct {
	rand *rand.Rand
	at   int
}

func (c *changer) value(v value) value {
	if c.at--; c.at == -1 {
		return c.other(v)
	}
	copied := value{kind: v.kind, text: v.text}
	for _, m := range v.members {
		copied.members = append(copied.members, member{key: m.key, value: c.value(m.value)})
	}
	return copied
}

func (c *changer) other(v value) value {
	switch v.kind {
	case kindNull, kindFalse, kindTrue:
		return value{kind: []kind{kindNull: kindFalse, kindFalse: kindTrue, kindTrue: kindNull}[v.kind]}
	case kindNumber:
		return value{kind: kindNumber, text: "7" + strings.TrimPrefix(v.text, "-")}
	case kindString:
		return value{kind: kindString, text: v.text + "\x01"}
	case kindArray, kindObject:
		v.members = append(slices.Clip(v.members), member{key: "\U0010ffff"})
		return v
	}
	panic("unreachable")
}
