package httpkit

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/money"
)

// issues returns what err tells its caller, one line per issue.
func issues(err error) string {
	if err == nil {
		return ""
	}
	e := fault.As(err)
	if e.Kind != fault.Invalid || e.Code != "" || e.Public == "" {
		return "not a fault of the caller: " + e.Error()
	}
	var lines []string
	for _, i := range e.Issues {
		lines = append(lines, i.Path+" "+i.Message)
	}
	return strings.Join(lines, "\n")
}

func TestFieldBRL(t *testing.T) {
	t.Parallel()
	const tooMuch = "amount must be at most 9999999999.99"
	rule := BRLRule{Required: true, Min: 200}
	tests := []struct {
		amount string
		want   money.BRL
		issues string
	}{
		{`2`, 200, ""},
		{`10.5`, 1050, ""},
		{`10.500`, 1050, ""},
		{`1.05e1`, 1050, ""},
		{`9999999999.99`, money.BRLMax, ""},
		{`1.99`, 0, "amount must be at least 2.00"},
		{`0`, 0, "amount must be at least 2.00"},
		{`-0`, 0, "amount must be at least 2.00"},
		{`-10`, 0, "amount must be at least 2.00"},
		{`10.999`, 0, "amount has too many decimals"},
		{`1e-400`, 0, "amount has too many decimals"},
		{`1e-999999999`, 0, "amount has too many decimals"},
		{`10000000000`, 0, tooMuch},
		{`1e400`, 0, tooMuch},
		{`1e999999999`, 0, tooMuch},
		{`1.` + strings.Repeat("0", 100), 0, "amount must be a number of at most 64 characters"},
		{`"10"`, 0, "amount must be a number"},
		{`""`, 0, "amount must be a number"},
		{`true`, 0, "amount must be a number"},
		{`[10]`, 0, "amount must be a number"},
		{`{}`, 0, "amount must be a number"},
		{`null`, 0, "amount is required"},
	}
	for _, tt := range tests {
		f := Fields(mustRead(t, `{"amount":`+tt.amount+`}`))
		if got := f.BRL("amount", rule); got != tt.want || issues(f.Err()) != tt.issues {
			t.Errorf("%s: got %v and %q, want %v and %q", tt.amount, got, issues(f.Err()), tt.want, tt.issues)
		}
	}

	f := Fields(mustRead(t, `{"negative":-0.01}`))
	if got := f.BRL("amount", BRLRule{}); got != 0 || f.Err() != nil {
		t.Errorf("absent: got %v, %v", got, f.Err())
	}
	f.BRL("negative", BRLRule{})
	if got := issues(f.Err()); got != "negative must be at least 0.00" {
		t.Errorf("negative: got %q", got)
	}
}

func TestFieldUSD(t *testing.T) {
	t.Parallel()
	f := Fields(mustRead(t, `{"a":20.010,"b":20.001,"c":0,"d":"20"}`))
	rule := USDRule{Required: true, Min: 1}
	if got := f.USD("a", rule); got != 20_01 {
		t.Errorf("a = %v", got)
	}
	for _, path := range []string{"b", "c", "d", "e"} {
		if got := f.USD(path, rule); got != 0 {
			t.Errorf("%s = %v, want 0", path, got)
		}
	}
	want := "b has too many decimals\nc must be at least 0.01\nd must be a number\ne is required"
	if diff := cmp.Diff(want, issues(f.Err())); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestFieldUSDT(t *testing.T) {
	t.Parallel()
	f := Fields(mustRead(t, `{"a":20.000001,"b":20.0000001,"c":19.999999,"d":"20"}`))
	rule := USDTRule{Required: true, Min: 20_000_000}
	if got := f.USDT("a", rule); got != 20_000_001 {
		t.Errorf("a = %v", got)
	}
	for _, path := range []string{"b", "c", "d", "e"} {
		if got := f.USDT(path, rule); got != 0 {
			t.Errorf("%s = %v, want 0", path, got)
		}
	}
	want := "b has too many decimals\nc must be at least 20.000000\nd must be a number\ne is required"
	if diff := cmp.Diff(want, issues(f.Err())); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestFieldInt(t *testing.T) {
	t.Parallel()
	const message = "expires_in must be an integer from 60 to 86400"
	rule := IntRule{Min: 60, Max: 86400, Default: 3600}
	tests := []struct {
		number string
		want   int
		issues string
	}{
		{`60`, 60, ""},
		{`86400`, 86400, ""},
		{`3600.0`, 3600, ""},
		{`3.6e3`, 3600, ""},
		{`36000e-1`, 3600, ""},
		{`null`, 3600, ""},
		{`59`, 3600, message},
		{`86401`, 3600, message},
		{`0`, 3600, message},
		{`-0`, 3600, message},
		{`-60`, 3600, message},
		{`60.5`, 3600, message},
		{`1e400`, 3600, message},
		{`1e-400`, 3600, message},
		{`1e999999999`, 3600, message},
		{`18446744073709551676`, 3600, message}, // 2^64 + 60
		{`"3600"`, 3600, message},
		{`true`, 3600, message},
		{`[]`, 3600, message},
	}
	for _, tt := range tests {
		f := Fields(mustRead(t, `{"expiresIn":`+tt.number+`}`))
		if got := f.Int("expires_in", rule); got != tt.want || issues(f.Err()) != tt.issues {
			t.Errorf("%s: got %v and %q, want %v and %q", tt.number, got, issues(f.Err()), tt.want, tt.issues)
		}
	}

	f := Fields(mustRead(t, `{"zero":-0.0,"low":-7}`))
	if zero, low := f.Int("zero", IntRule{Max: 1}), f.Int("low", IntRule{Min: -9}); zero != 0 || low != -7 || f.Err() != nil {
		t.Errorf("got %d, %d, %v", zero, low, f.Err())
	}
	f.Int("absent", IntRule{Required: true})
	if got := issues(f.Err()); got != "absent is required" {
		t.Errorf("absent: got %q", got)
	}
}

func TestFieldString(t *testing.T) {
	t.Parallel()
	given := func(s string) Text { return Text{Value: s, Present: true} }
	tests := []struct {
		name   string
		body   string
		rule   StringRule
		want   Text
		issues string
	}{
		{"given", `{"name":"x"}`, StringRule{}, given("x"), ""},
		{"absent", `{}`, StringRule{Min: 1, Digits: true, URL: true, OneOf: []string{"a"}}, Text{}, ""},
		{"null", `{"name":null}`, StringRule{Min: 1}, Text{}, ""},
		{"empty", `{"name":""}`, StringRule{}, given(""), ""},
		{"empty, at least one", `{"name":""}`, StringRule{Min: 1}, Text{}, "name must not be empty"},
		{"empty, required", `{"name":""}`, StringRule{Required: true}, Text{}, "name must not be empty"},
		{"absent, required", `{}`, StringRule{Required: true}, Text{}, "name is required"},
		{"null, required", `{"name":null}`, StringRule{Required: true}, Text{}, "name is required"},
		{"number", `{"name":1}`, StringRule{}, Text{}, "name must be a string"},
		{"object", `{"name":{}}`, StringRule{}, Text{}, "name must be a string"},
		{"longest", `{"name":"çççç"}`, StringRule{Max: 4}, given("çççç"), ""},
		{"too long", `{"name":"ççççç"}`, StringRule{Max: 4}, Text{}, "name must have at most 4 characters"},
		{"longest by default", `{"name":"` + strings.Repeat("x", 255) + `"}`, StringRule{}, given(strings.Repeat("x", 255)), ""},
		{"too long by default", `{"name":"` + strings.Repeat("x", 256) + `"}`, StringRule{}, Text{}, "name must have at most 255 characters"},
		{"too short", `{"name":"çç"}`, StringRule{Min: 3}, Text{}, "name must have at least 3 characters"},
		{"digits", `{"name":"0123456789"}`, StringRule{Digits: true}, given("0123456789"), ""},
		{"point between digits", `{"name":"1.2"}`, StringRule{Digits: true}, Text{}, "name must have digits only"},
		{"foreign digits", `{"name":"١"}`, StringRule{Digits: true}, Text{}, "name must have digits only"},
		{"no digits", `{"name":""}`, StringRule{Digits: true}, Text{}, "name must have digits only"},
		{"one of", `{"name":"cpf"}`, StringRule{OneOf: []string{"cpf", "cnpj"}}, given("cpf"), ""},
		{"none of", `{"name":"CPF"}`, StringRule{OneOf: []string{"cpf", "cnpj"}}, Text{}, "name must be one of cpf, cnpj"},
		{"alternative", `{"payer":{"name":"x"}}`, StringRule{Alt: "payer.name"}, given("x"), ""},
		{"alternative in camelCase", `{"payerData":{"fullName":"x"}}`, StringRule{Alt: "payer_data.full_name"}, given("x"), ""},
		{"top level wins", `{"name":"top","payer":{"name":"x"}}`, StringRule{Alt: "payer.name"}, given("top"), ""},
		{"broken top level wins", `{"name":1,"payer":{"name":"x"}}`, StringRule{Alt: "payer.name"}, Text{}, "name must be a string"},
		{"top level null", `{"name":null,"payer":{"name":"x"}}`, StringRule{Alt: "payer.name"}, given("x"), ""},
		{"broken alternative", `{"payer":{"name":1}}`, StringRule{Alt: "payer.name"}, Text{}, "payer.name must be a string"},
		{"alternative in no object", `{"payer":"x"}`, StringRule{Alt: "payer.name", Required: true}, Text{}, "payer must be an object"},
		{"alternative in an array", `{"payer":[{"name":"x"}]}`, StringRule{Alt: "payer.name"}, Text{}, "payer must be an object"},
		{"alternative in null", `{"payer":null}`, StringRule{Alt: "payer.name"}, Text{}, ""},
		{"alternative absent, required", `{"payer":{}}`, StringRule{Alt: "payer.name", Required: true}, Text{}, "name is required"},
		{"alternative in no object, not needed", `{"name":"x","payer":1}`, StringRule{Alt: "payer.name"}, given("x"), ""},
		{"alternative deep in no object", `{"a":{"b":1}}`, StringRule{Alt: "a.b.c.d"}, Text{}, "a.b must be an object"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := Fields(mustRead(t, tt.body))
			if got := f.String("name", tt.rule); got != tt.want || issues(f.Err()) != tt.issues {
				t.Errorf("got %v and %q, want %v and %q", got, issues(f.Err()), tt.want, tt.issues)
			}
		})
	}
}

func TestFieldURL(t *testing.T) {
	t.Parallel()
	tests := []struct {
		url         string
		http, https bool
	}{
		{"https://a.example/x?y=z", true, true},
		{"http://127.0.0.1:80/", true, false},
		{"https://[::1]:443", true, true},
		{"HTTPS://a.example", true, true},
		{"", false, false},
		{"a.example/x", false, false},
		{"/x", false, false},
		{"//a.example/x", false, false},
		{"https://", false, false},
		{"https://:443/", false, false},
		{"https:a.example", false, false},
		{"https://a.example/%zz", false, false},
		{"https://a.example/x y", false, false},
		{"https://a.example/\n", false, false},
		{"javascript:alert(1)", false, false},
		{"ftp://a.example/", false, false},
	}
	for _, tt := range tests {
		if got := (StringRule{URL: true}).check(tt.url); (got == "") != tt.http {
			t.Errorf("URL %q: %q", tt.url, got)
		}
		if got := (StringRule{HTTPS: true}).check(tt.url); (got == "") != tt.https {
			t.Errorf("HTTPS %q: %q", tt.url, got)
		}
	}
}

func TestFieldRaw(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, body, want, issues string
		bytesMax                 int
	}{
		{"object", `{"metadata": {"b" : [1.50, "<\u0001\u00e7\/>"], "aB": null}}`, `{"aB":null,"b":[1.50,"<\u0001ç/>"]}`, "", 99},
		{"empty", `{"metadata":{}}`, `{}`, "", 2},
		{"absent", `{}`, "", "", 9},
		{"null", `{"metadata":null}`, "", "", 9},
		{"array", `{"metadata":[]}`, "", "metadata must be an object", 9},
		{"string", `{"metadata":"{}"}`, "", "metadata must be an object", 9},
		{"largest", `{"metadata": { "a" : 1 } }`, `{"a":1}`, "", 7},
		{"too large", `{"metadata":{"a":10}}`, "", "metadata must have at most 7 bytes", 7},
	}
	for _, tt := range tests {
		f := Fields(mustRead(t, tt.body))
		raw := f.Raw("metadata", RawRule{BytesMax: tt.bytesMax})
		if string(raw) != tt.want || issues(f.Err()) != tt.issues {
			t.Errorf("%s: got %s and %q, want %s and %q", tt.name, raw, issues(f.Err()), tt.want, tt.issues)
		}
	}
}

func TestFieldHas(t *testing.T) {
	t.Parallel()
	f := Fields(mustRead(t, `{"split":[],"splitRuleId":"","no":null,"a":{"b":0,"c":null}}`))
	for path, want := range map[string]bool{
		"split": true, "split_rule_id": true, "no": false, "absent": false, "a.b": true, "a.c": false, "split.0": false, "": false,
	} {
		if got := f.Has(path); got != want {
			t.Errorf("Has(%q) = %v, want %v", path, got, want)
		}
	}
	if err := f.Err(); err != nil {
		t.Errorf("asking made an issue: %v", err)
	}
}

func TestFieldIssuesInOrder(t *testing.T) {
	t.Parallel()
	f := Fields(mustRead(t, `{"unknown":{"x":[1]},"externalId":"","expiresIn":"1","amount":"10","payer":{"name":7}}`))
	f.BRL("amount", BRLRule{Required: true})
	f.String("payer_name", StringRule{Alt: "payer.name"})
	f.Int("expires_in", IntRule{Min: 60, Max: 61})
	f.Issue("pix_key", "is no e-mail address")
	f.String("external_id", StringRule{Min: 1})
	want := error(&fault.Error{Kind: fault.Invalid, Public: "some fields are not valid", Issues: []fault.Issue{
		{Path: "amount", Message: "must be a number"},
		{Path: "payer.name", Message: "must be a string"},
		{Path: "expires_in", Message: "must be an integer from 60 to 61"},
		{Path: "pix_key", Message: "is no e-mail address"},
		{Path: "external_id", Message: "must not be empty"},
	}})
	if diff := cmp.Diff(want, f.Err()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if err := Fields(Object{}).Err(); err != nil {
		t.Errorf("no issue: %v", err)
	}
}

func TestTextPointer(t *testing.T) {
	t.Parallel()
	if got := (Text{}).Pointer(); got != nil {
		t.Errorf("absent: %q", *got)
	}
	if got := (Text{Present: true}).Pointer(); got == nil || *got != "" {
		t.Errorf("empty: %v", got)
	}
}
