package reference_test

import (
	"encoding/json"
	"html/template"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ponte-pay/ponte/internal/api"
	"github.com/ponte-pay/ponte/internal/dashboard/reference"
	"github.com/ponte-pay/ponte/internal/testkit"
)

func load(t *testing.T) *reference.Reference {
	t.Helper()
	r, err := reference.New(api.OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func words(key string) string { return "[" + key + "]" }

// Each call and each event of the document is on one page.
func TestWhole(t *testing.T) {
	t.Parallel()
	document, err := testkit.Document()
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for path, item := range document.Paths.Map() {
		for method := range item.Operations() {
			want = append(want, method+" "+path)
		}
	}
	want = slices.AppendSeq(want, maps.Keys(document.Webhooks))
	for _, p := range load(t).Pages {
		for _, o := range p.Operations {
			got = append(got, o.Method+" "+o.Path)
		}
		for _, e := range p.Events {
			got = append(got, e.Type)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// What a field says about itself is what the document says.
func TestFields(t *testing.T) {
	t.Parallel()
	r := load(t)
	find := func(page, operation, name string) reference.Field {
		p, _ := r.Find(page)
		for _, o := range p.Operations {
			for _, f := range slices.Concat(o.Parameters, o.Body) {
				if o.ID == operation && f.Name == name {
					f.Text = ""
					return f
				}
			}
		}
		for _, o := range p.Objects {
			for _, f := range o.Fields {
				if o.Name == operation && f.Name == name {
					f.Text = ""
					return f
				}
			}
		}
		t.Fatalf("%s %s has no %s", page, operation, name)
		return reference.Field{}
	}
	for _, c := range []struct {
		page, operation string
		want            reference.Field
	}{
		{"charges", "createCharge", reference.Field{Name: "amount", Type: "number", Required: true, Min: "2", Max: "9999999999.99", Example: "125.90"}},
		{"charges", "createCharge", reference.Field{Name: "Idempotency-Key", In: "header", Type: "string", Required: true, Length: "8–255", Example: "6f1c2a8e-order-1042"}},
		{"charges", "createCharge", reference.Field{Name: "payer.name", Type: "string | null", Length: "≤ 200", Example: "Maria Silva"}},
		{"charges", "createCharge", reference.Field{Name: "expires_in", Type: "integer | null", Min: "60", Max: "86400", Default: "3600", Example: "1800"}},
		{"charges", "ChargeList", reference.Field{Name: "data", Type: "Charge[]", Object: "Charge", Required: true}},
		{"charges", "ChargeEvent", reference.Field{Name: "data", Type: "Charge", Object: "Charge", Required: true}},
		{"payouts", "createPayout", reference.Field{Name: "pix_key", Type: "string | null", OneOf: true, Length: "1–77", Example: "maria@example.org"}},
		{"payouts", "createPayout", reference.Field{Name: "pix", Type: "object | null", OneOf: true}},
		{"payouts", "createPayout", reference.Field{Name: "external_id", Type: "string | null", Required: true, Length: "1–120", Example: "refund-77"}},
		{"payouts", "InsufficientBalanceError", reference.Field{Name: "error.details", Type: "InsufficientBalanceDetails", Object: "InsufficientBalanceDetails", Required: true}},
		{"med", "submitDefense", reference.Field{Name: "defense_text", Type: "string", Required: true, Length: "1–2000", Example: "The order was delivered on 2026-11-12 and signed for by the payer."}},
		{"crypto", "createCryptoQuote", reference.Field{Name: "amount", Type: "number", Required: true, Above: "0", Max: "9999999999.99", Example: "100"}},
	} {
		if diff := cmp.Diff(c.want, find(c.page, c.operation, c.want.Name)); diff != "" {
			t.Errorf("%s %s: %s", c.page, c.operation, diff)
		}
	}
}

// pageBytesMax is how large a page may be before it is compressed, the frame around it apart.
const pageBytesMax = 90 << 10

// A tag with families of paths has a page for each of them, with its events, and one for the rest.
func TestFamilies(t *testing.T) {
	t.Parallel()
	var got []string
	for _, p := range load(t).Pages {
		if !strings.HasPrefix(p.Name, "crypto") {
			continue
		}
		for _, o := range p.Operations {
			got = append(got, p.Name+" "+o.ID)
		}
		for _, e := range p.Events {
			got = append(got, p.Name+" "+e.Type)
		}
	}
	want := []string{
		"crypto listCryptoCurrencies", "crypto createCryptoQuote",
		"crypto-charges createCryptoCharge", "crypto-charges listCryptoCharges", "crypto-charges getCryptoCharge",
		"crypto-charges crypto.charge.created", "crypto-charges crypto.charge.confirming", "crypto-charges crypto.charge.paid",
		"crypto-charges crypto.charge.failed", "crypto-charges crypto.charge.expired",
		"crypto-payouts createCryptoPayout", "crypto-payouts listCryptoPayouts", "crypto-payouts getCryptoPayoutMinimum", "crypto-payouts getCryptoPayoutEstimate",
		"crypto-payouts crypto.payout.processing", "crypto-payouts crypto.payout.completed", "crypto-payouts crypto.payout.failed",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Every page holds together: its links lead somewhere, its identifiers are its own, its Markdown was all understood, and
// it is small.
func TestPages(t *testing.T) {
	t.Parallel()
	r := load(t)
	pages := map[string]string{}
	for _, p := range r.Pages {
		content, err := r.Render(p, words)
		if err != nil {
			t.Fatal(err)
		}
		address := "/docs"
		if p.Name != "" {
			address += "/" + p.Name
		}
		pages[address] = string(content)
	}
	for address, content := range pages {
		ids := map[string]bool{}
		for _, m := range regexp.MustCompile(` id="([^"]*)"`).FindAllStringSubmatch(content, -1) {
			if ids[m[1]] {
				t.Errorf("%s has two %q", address, m[1])
			}
			ids[m[1]] = true
		}
		for _, m := range regexp.MustCompile(` href="([^"]*)"`).FindAllStringSubmatch(content, -1) {
			path, fragment, _ := strings.Cut(m[1], "#")
			target := content
			if path != "" {
				target = pages[path]
			}
			switch {
			case strings.HasPrefix(path, api.Prefix+"/openapi."):
			case target == "":
				t.Errorf("%s: %s leads nowhere", address, m[1])
			case fragment != "" && !strings.Contains(target, ` id="`+fragment+`"`):
				t.Errorf("%s: %s leads nowhere", address, m[1])
			}
		}
		text := regexp.MustCompile(`(?s)<(pre|code)[^>]*>.*?</(pre|code)>`).ReplaceAllString(content, "")
		for _, mark := range []string{"`", "**", "##", "|---", "<p>- "} {
			if at := strings.Index(text, mark); at >= 0 {
				t.Errorf("%s: Markdown is left: %.80q", address, text[at:])
			}
		}
		if n := len(content); n > pageBytesMax {
			t.Errorf("%s has %d bytes", address, n)
		}
	}
}

func TestExamplesAreJSON(t *testing.T) {
	t.Parallel()
	check := func(where string, examples ...reference.Example) {
		for _, e := range examples {
			if !json.Valid([]byte(e.JSON)) {
				t.Errorf("%s: %s", where, e.JSON)
			}
		}
	}
	for _, p := range load(t).Pages {
		for _, o := range p.Operations {
			check(o.ID, o.Bodies...)
			for _, a := range slices.Concat(o.Answers, o.Errors) {
				check(o.ID, a.Examples...)
			}
		}
		for _, e := range p.Events {
			if e.Sample.JSON != "" {
				check(e.ID, e.Sample)
			}
		}
	}
}

func TestAddress(t *testing.T) {
	t.Parallel()
	got := reference.Address("<code>curl &#39;"+reference.BaseURL+"/charges&#39;</code>", `http://x"<`)
	if want := template.HTML("<code>curl &#39;http://x&#34;&lt;/charges&#39;</code>"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A document that does not hold together makes no pages.
func TestBroken(t *testing.T) {
	t.Parallel()
	for name, change := range map[string][2]string{
		"no YAML":             {"openapi: 3.1.0", "openapi: [3.1.0"},
		"a parameter missing": {"parameters/IdempotencyKeyRequired", "parameters/Nobody"},
		"a schema missing":    {"schemas/NullableExternalId", "schemas/Nobody"},
		"an answer missing":   {"responses/ChargePage", "responses/Nobody"},
		"a header missing":    {"headers/RateLimitLimit", "headers/Nobody"},
		"an example missing":  {"examples/ChargePaid\"", "examples/Nobody\""},
		"no tags":             {"\ntags:", "\nx-tags:"},
	} {
		broken := strings.ReplaceAll(string(api.OpenAPI), change[0], change[1])
		if broken == string(api.OpenAPI) {
			t.Errorf("%s: nothing was changed", name)
		}
		if _, err := reference.New([]byte(broken)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
