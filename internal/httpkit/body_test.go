package httpkit

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/ponte-pay/ponte/internal/fault"
)

func post(body string) *http.Request { return postStream(strings.NewReader(body), len(body)) }

func postStream(body io.Reader, contentLength int) *http.Request {
	return &http.Request{Method: http.MethodPost, Body: io.NopCloser(body), ContentLength: int64(contentLength)}
}

func mustRead(t *testing.T, body string) Object {
	t.Helper()
	o, err := ReadObject(post(body))
	if err != nil {
		t.Fatalf("ReadObject(%.80q): %v %v", body, err, fault.As(err).Issues)
	}
	return o
}

// render writes o as compact JSON, so that a whole tree can be compared at a glance.
func render(o Object) string {
	return string(appendJSON(nil, value{kind: kindObject, members: o.members}))
}

func TestReadObject(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, body, want string }{
		{"empty", ` { } `, `{}`},
		{"sorted", `{"b":1,"a":2}`, `{"a":2,"b":1}`},
		{"every kind", `{"a":[null,true,false,1,"x",{},[]]}`, `{"a":[null,true,false,1,"x",{},[]]}`},
		{"spaces", "\t{\r\n\"a\" : [ 1 , 2 ] , \"b\" : { \"c\" : null } }\n", `{"a":[1,2],"b":{"c":null}}`},
		{"numbers keep their digits", `{"a":[10.50,1e400,-0,1E-400,1e+2,0.0]}`, `{"a":[10.50,1e400,-0,1E-400,1e+2,0.0]}`},
		{"exponent at its limit", `{"a":1e999999999}`, `{"a":1e999999999}`},
		{"camelCase", `{"payerName":"A","externalId":"x","postbackUrl":"u","expiresIn":60}`, `{"expires_in":60,"external_id":"x","payer_name":"A","postback_url":"u"}`},
		{"nested camelCase", `{"payerData":{"fullName":{"lastName":1}},"list":[{"pixKey":2}]}`, `{"list":[{"pix_key":2}],"payer_data":{"full_name":{"last_name":1}}}`},
		{"escaped camelCase", `{"pix\u004bey":1}`, `{"pix_key":1}`},
		{"both spellings, camel first", `{"payerName":"camel","payer_name":"snake"}`, `{"payer_name":"snake"}`},
		{"both spellings, snake first", `{"payer_name":"snake","payerName":"camel"}`, `{"payer_name":"snake"}`},
		{"both spellings, snake null", `{"payer_name":null,"payerName":"camel"}`, `{"payer_name":null}`},
		{"other spellings are other fields", `{"PixKey":1,"pix-Key":2,"pix_Key":3,"ç Key":4,"":5,"2Key":6}`, `{"":5,"2Key":6,"PixKey":1,"pix-Key":2,"pix_Key":3,"ç Key":4}`},
		{"metadata is untouched", `{"metadata":{"orderId":{"subId":1},"order_id":2,"orders":[{"itemId":3}]}}`, `{"metadata":{"orderId":{"subId":1},"order_id":2,"orders":[{"itemId":3}]}}`},
		{"nested metadata is untouched", `{"aB":{"metadata":{"cD":1}}}`, `{"a_b":{"metadata":{"cD":1}}}`},
		{"escapes", `{"a":"\"\\\/\b\f\n\r\t\u00e7\ud83d\ude00"}`, `{"a":"\"\\/\u0008\u000c\u000a\u000d\u0009ç😀"}`},
		{"replacement character", `{"a":"\ufffd�"}`, `{"a":"��"}`},
		{"deepest", nested(depthMax), nested(depthMax)},
		{"most values", `{"a":[` + strings.Repeat("0,", valuesMax-2) + `0]}`, `{"a":[` + strings.Repeat("0,", valuesMax-2) + `0]}`},
		{"largest", `{"a":"` + strings.Repeat("x", BodyBytesMax-8) + `"}`, `{"a":"` + strings.Repeat("x", BodyBytesMax-8) + `"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, render(mustRead(t, tt.body))); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// nested returns an object that is depth levels deep.
func nested(depth int) string {
	return `{"a":` + strings.Repeat("[", depth-1) + strings.Repeat("]", depth-1) + `}`
}

func TestReadObjectRefuses(t *testing.T) {
	t.Parallel()
	const (
		notJSON = "must be valid JSON: "
		number  = "must be a number of at most 128 characters, its exponent of at most 9 digits"
	)
	tests := []struct{ name, body, path, message string }{
		{"nothing", "", "body", "must be a JSON object, not empty"},
		{"only spaces", " \n", "body", "must be a JSON object, not empty"},
		{"not JSON", "amount=10", "body", notJSON + "byte 1: invalid character 'a' looking for beginning of value"},
		{"cut off", `{"amount":1`, "body", notJSON + "byte 11: unexpected end of JSON input"},
		{"array", `[{"amount":10}]`, "body", "must be a JSON object, not an array"},
		{"string", `"x"`, "body", "must be a JSON object, not a string"},
		{"number", ` 1`, "body", "must be a JSON object, not a number"},
		{"boolean", `true`, "body", "must be a JSON object, not a boolean"},
		{"null", `null`, "body", "must be a JSON object, not null"},
		{"trailing text", `{}x`, "body", notJSON + "byte 3: invalid character 'x' after top-level value"},
		{"second object", `{}{}`, "body", notJSON + "byte 3: invalid character '{' after top-level value"},
		{"trailing comma", `{"a":1,}`, "body", notJSON + "byte 8: invalid character '}' looking for beginning of object key string"},
		{"single quotes", `{'a':1}`, "body", notJSON + `byte 2: invalid character '\'' looking for beginning of object key string`},
		{"comment", `{/**/}`, "body", notJSON + "byte 2: invalid character '/' looking for beginning of object key string"},
		{"byte order mark", "\ufeff{}", "body", notJSON + "byte 1: invalid character 'ï' looking for beginning of value"},
		{"NaN", `{"amount":NaN}`, "body", notJSON + "byte 11: invalid character 'N' looking for beginning of value"},
		{"Infinity", `{"amount":Infinity}`, "body", notJSON + "byte 11: invalid character 'I' looking for beginning of value"},
		{"minus Infinity", `{"amount":-Infinity}`, "body", notJSON + "byte 12: invalid character 'I' in numeric literal"},
		{"leading zeros", `{"amount":010}`, "body", notJSON + "byte 12: invalid character '1' after object key:value pair"},
		{"leading plus", `{"amount":+1}`, "body", notJSON + "byte 11: invalid character '+' looking for beginning of value"},
		{"hexadecimal", `{"amount":0x10}`, "body", notJSON + "byte 12: invalid character 'x' after object key:value pair"},
		{"bare point", `{"amount":1.}`, "body", notJSON + "byte 13: invalid character '}' after decimal point in numeric literal"},
		{"raw NUL", "{\"a\":\"x\x00\"}", "body", notJSON + `byte 8: invalid character '\x00' in string literal`},
		{"raw NUL outside", "{}\x00", "body", notJSON + `byte 3: invalid character '\x00' after top-level value`},
		{"escaped NUL", `{"payerName":"x\u0000"}`, "payer_name", "must not contain a NUL character"},
		{"escaped NUL below", `{"a":[0,{"b":"\u0000"}]}`, "a.1.b", "must not contain a NUL character"},
		{"escaped NUL in a key", `{"a":{"b\u0000":1}}`, "a", "must not contain a NUL character in a key"},
		{"escaped NUL in metadata", `{"metadata":{"aB":"\u0000"}}`, "metadata.aB", "must not contain a NUL character"},
		{"invalid UTF-8", "{\"description\":\"\xff\"}", "description", "must not contain invalid UTF-8"},
		{"overlong UTF-8", "{\"description\":\"\xc0\x80\"}", "description", "must not contain invalid UTF-8"},
		{"surrogate in UTF-8", "{\"description\":\"\xed\xa0\x80\"}", "description", "must not contain invalid UTF-8"},
		{"invalid UTF-8 in a key", "{\"a\xff\":1}", "body", "must not contain invalid UTF-8 in a key"},
		{"high surrogate", `{"a":"\ud83d"}`, "a", "must not contain half a surrogate pair"},
		{"high surrogate and text", `{"a":"\ud83dxxxxxx"}`, "a", "must not contain half a surrogate pair"},
		{"two high surrogates", `{"a":"\ud83d\ud83d"}`, "a", "must not contain half a surrogate pair"},
		{"low surrogate", `{"a":"\ude00"}`, "a", "must not contain half a surrogate pair"},
		{"surrogate in a key", `{"\ude00":1}`, "body", "must not contain half a surrogate pair in a key"},
		{"key twice", `{"amount":1,"x":2,"amount":1}`, "amount", "is given twice"},
		{"key twice, escaped", `{"amount":1,"\u0061mount":1}`, "amount", "is given twice"},
		{"camel key twice", `{"pixKey":1,"pixKey":1}`, "pix_key", "is given twice"},
		{"camel key twice beside snake", `{"pixKey":1,"pixKey":1,"pix_key":1}`, "pix_key", "is given twice"},
		{"snake key twice beside camel", `{"pix_key":1,"pixKey":1,"pix_key":1}`, "pix_key", "is given twice"},
		{"key twice below", `{"payerData":{"list":[{"a":1,"a":2}]}}`, "payer_data.list.0.a", "is given twice"},
		{"key twice in metadata", `{"metadata":{"aB":1,"aB":1}}`, "metadata.aB", "is given twice"},
		{"empty key twice", `{"":1,"":1}`, "body", "is given twice"},
		{"one level too deep", nested(depthMax + 1), "a" + strings.Repeat(".0", 19) + ".…", "must not be nested deeper than 32 levels"},
		{"objects too deep", strings.Repeat(`{"a":`, depthMax+1) + "1" + strings.Repeat("}", depthMax+1), strings.Repeat("a.", 20) + "…", "must not be nested deeper than 32 levels"},
		{"10k levels", nested(9999), "a" + strings.Repeat(".0", 19) + ".…", "must not be nested deeper than 32 levels"},
		{"30k levels", nested(30_000), "body", notJSON + "byte 10005: invalid character '[' exceeded max depth"},
		{"too many values", `{"aB":[` + strings.Repeat("0,", valuesMax-1) + `0]}`, "a_b.4095", "must not be there: a body may have at most 4096 values"},
		{"exponent too long", `{"a":1e1000000000}`, "a", number},
		{"negative exponent too long", `{"a":1e-1000000000}`, "a", number},
		{"number too long", `{"a":` + strings.Repeat("1", numberBytesMax+1) + `}`, "a", number},
		{"long key", `{"` + strings.Repeat("ç", 100) + `":"\u0000"}`, strings.Repeat("ç", 20) + "…", "must not contain a NUL character"},
		{"long key off a boundary", `{"x` + strings.Repeat("ç", 100) + `":"\u0000"}`, "x" + strings.Repeat("ç", 19) + "…", "must not contain a NUL character"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o, err := ReadObject(post(tt.body))
			want := &fault.Error{
				Kind:   fault.Invalid,
				Public: "the body is not a JSON object that can be read",
				Issues: []fault.Issue{{Path: tt.path, Message: tt.message}},
			}
			if diff := cmp.Diff(error(want), err); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if o.members != nil {
				t.Errorf("also returned %s", render(o))
			}
		})
	}
}

// stream is a body that ends after left bytes and counts what was read.
type stream struct{ left, read int }

func (s *stream) Read(b []byte) (int, error) {
	n := min(len(b), s.left)
	if n == 0 {
		return 0, io.EOF
	}
	for i := range n {
		b[i] = ' '
	}
	s.left -= n
	s.read += n
	return n, nil
}

func TestReadObjectTooLarge(t *testing.T) {
	t.Parallel()
	want := error(&fault.Error{Kind: fault.TooLarge, Code: "payload_too_large", Public: "the body may have at most 65536 bytes"})
	tests := []struct {
		name          string
		bytes         int
		contentLength int
		wantRead      int
	}{
		{"100 MB, announced", 100_000_000, 100_000_000, 0},
		{"one byte more, announced", BodyBytesMax + 1, BodyBytesMax + 1, 0},
		{"100 MB, chunked", 100_000_000, -1, BodyBytesMax + 1},
		{"one byte more, chunked", BodyBytesMax + 1, -1, BodyBytesMax + 1},
		{"100 MB, announced as little", 100_000_000, 10, BodyBytesMax + 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			body := &stream{left: tt.bytes}
			_, err := ReadObject(postStream(body, tt.contentLength))
			if diff := cmp.Diff(want, err); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if body.read != tt.wantRead {
				t.Errorf("read %d bytes, want %d", body.read, tt.wantRead)
			}
		})
	}

	t.Run("at a smaller limit of the server", func(t *testing.T) {
		t.Parallel()
		r := post(`{"a":1}`)
		r.Body = http.MaxBytesReader(nil, r.Body, 3)
		if _, err := ReadObject(r); !cmp.Equal(want, err) {
			t.Errorf("got %v", err)
		}
	})
}

func TestReadObjectBrokenConnection(t *testing.T) {
	t.Parallel()
	broken := errors.New("connection reset")
	_, err := ReadObject(postStream(io.MultiReader(strings.NewReader(`{"a":1}`), iotest.ErrReader(broken)), -1))
	got := fault.As(err)
	if got.Kind != fault.Invalid || !errors.Is(err, broken) {
		t.Errorf("got kind %v, cause %v", got.Kind, got.Cause)
	}
	if diff := cmp.Diff([]fault.Issue{{Path: "body", Message: "could not be read to its end"}}, got.Issues); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}

	if _, err := ReadObject(&http.Request{}); fault.As(err).Kind != fault.Invalid {
		t.Errorf("no body at all: %v", err)
	}
}

func FuzzReadObject(f *testing.F) {
	for _, s := range []string{
		``, `{}`, `[1]`, `{"aB":1,"a_b":2}`, `{"metadata":{"aB":{"cD":[1,"x"]}}}`, `{"a":"\ud83d\ude00\n"}`, `{"a":1,"a":2}`,
		"{\"a\":\"\xff\"}", `{"a":"\u0000"}`, nested(40), `{"a":-0.10e+5,"bC":[true,false,null]}`, typicalBody,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		o, err := ReadObject(post(string(body)))
		if err != nil {
			checkRefusal(t, err)
			return
		}
		d := json.NewDecoder(bytes.NewReader(body))
		d.UseNumber()
		var want any
		if err := d.Decode(&want); err != nil {
			t.Fatalf("accepted what encoding/json refuses: %v", err)
		}
		if diff := cmp.Diff(normal(want, false), plain(value{kind: kindObject, members: o.members})); diff != "" {
			t.Errorf("(-encoding/json +ReadObject)\n%s", diff)
		}
		again, err := parseObject([]byte(render(o)))
		if err != nil {
			t.Fatalf("own rendering refused: %v", fault.As(err).Issues)
		}
		if again.Hash() != o.Hash() {
			t.Errorf("%s has another hash when read again", render(o))
		}
	})
}

func checkRefusal(t *testing.T, err error) {
	t.Helper()
	e := fault.As(err)
	if e.Kind == fault.TooLarge {
		return
	}
	if e.Kind != fault.Invalid || e.Code != "" || len(e.Issues) != 1 {
		t.Fatalf("refused with %+v", e)
	}
	if i := e.Issues[0]; i.Path == "" || len(i.Path) > echoBytesMax+len("…") || len(i.Message) > 140 || !utf8.ValidString(i.Path+i.Message) {
		t.Errorf("refused with the issue %q: %q", i.Path, i.Message)
	}
}

// plain returns v as encoding/json would.
func plain(v value) any {
	switch v.kind {
	case kindFalse, kindTrue:
		return v.kind == kindTrue
	case kindNumber:
		return json.Number(v.text)
	case kindString:
		return v.text
	case kindArray:
		list := []any{}
		for _, m := range v.members {
			list = append(list, plain(m.value))
		}
		return list
	case kindObject:
		object := map[string]any{}
		for _, m := range v.members {
			object[m.key] = plain(m.value)
		}
		return object
	case kindNull:
	}
	return nil
}

// normal does to a tree of encoding/json what ReadObject must do with keys, by other means.
func normal(v any, verbatim bool) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = normal(v[i], verbatim)
		}
	case map[string]any:
		if verbatim {
			return v
		}
		object := map[string]any{}
		for key, value := range v {
			object[key] = normal(value, key == "metadata")
		}
		for key, value := range maps.Clone(object) {
			if !camelKey.MatchString(key) {
				continue
			}
			delete(object, key)
			key = strings.ToLower(capital.ReplaceAllString(key, "_$0"))
			if _, snakeToo := object[key]; !snakeToo {
				object[key] = value
			}
		}
		return object
	}
	return v
}

const typicalBody = `{
	"amount": 150.75,
	"description": "Pedido 1234 ça va",
	"payer": {"name": "Maria José da Silva", "document": "12345678909"},
	"expiresIn": 3600,
	"external_id": "order-2024-000123",
	"postback_url": "https://merchant.example/hooks/ponte"
}`

func TestReadObjectAllocations(t *testing.T) {
	const allocsMax = 40
	body := strings.NewReader("")
	r := postStream(body, len(typicalBody))
	got := testing.AllocsPerRun(100, func() {
		body.Reset(typicalBody)
		o, err := ReadObject(r)
		if err != nil {
			t.Fatal(err)
		}
		o.Hash()
	})
	if got >= allocsMax {
		t.Errorf("%v allocations, want fewer than %d", got, allocsMax)
	}
}

func BenchmarkReadObject(b *testing.B) {
	body := strings.NewReader("")
	r := postStream(body, len(typicalBody))
	b.ReportAllocs()
	b.SetBytes(int64(len(typicalBody)))
	for b.Loop() {
		body.Reset(typicalBody)
		if _, err := ReadObject(r); err != nil {
			b.Fatal(err)
		}
	}
	ours := b.Elapsed()

	b.StopTimer()
	start := time.Now()
	for range b.N {
		body.Reset(typicalBody)
		d := json.NewDecoder(r.Body)
		d.UseNumber()
		var v map[string]any
		if err := d.Decode(&v); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(ours)/float64(time.Since(start)), "x-encoding/json")
}

func TestSnake(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"payerName": "payer_name", "pixKeyType": "pix_key_type", "amount": "amount", "payer_name": "payer_name",
		"aBC": "a_b_c", "line2Text": "line2_text", "PayerName": "PayerName", "payer_Name": "payer_Name", "çA": "çA", "": "",
	}
	for key, want := range tests {
		if got := snake(key); got != want {
			t.Errorf("snake(%s) = %s, want %s", strconv.Quote(key), got, want)
		}
	}
}
