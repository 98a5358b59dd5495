package dashboard

import (
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/charge"
	"github.com/ponte-pay/ponte/internal/infraction"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/payout"
	"github.com/ponte-pay/ponte/internal/pix"
	"github.com/ponte-pay/ponte/internal/user"
)

var (
	templateKey    = regexp.MustCompile(`\bt "([a-z_]+\.[a-z0-9_.]+)"`)
	templatePrefix = regexp.MustCompile(`\bt \(print "([a-z_]+\.[a-z0-9_.]*)"`)
	goKey          = regexp.MustCompile(`"([a-z]+\.[a-z0-9_.]+)"`)
	goPrefix       = regexp.MustCompile(`"([a-z]+\.(?:[a-z_.]+[._])?)" ?\+`)
	verbs          = regexp.MustCompile(`%[a-z]`)
)

// Every text is there in both languages, with the same arguments, and every text is used.
func TestTexts(t *testing.T) {
	t.Parallel()
	pt, en := catalogues[localePT], catalogues[localeEN]
	areas := map[string]bool{}
	for key, text := range pt {
		area, _, _ := strings.Cut(key, ".")
		areas[area] = true
		if en[key] == "" {
			t.Errorf("%s is missing in English", key)
		}
		if !slices.Equal(verbs.FindAllString(text, -1), verbs.FindAllString(en[key], -1)) {
			t.Errorf("%s has other arguments in English", key)
		}
	}
	for key := range en {
		if pt[key] == "" {
			t.Errorf("%s is missing in Portuguese", key)
		}
	}
	used, prefixes := map[string]bool{}, map[string]bool{}
	templates, err := fs.Glob(templateFiles, "templates/*.html")
	if err != nil {
		t.Fatal(err)
	}
	parts, err := fs.Glob(templateFiles, shared)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Concat(templates, parts) {
		content, err := fs.ReadFile(templateFiles, name)
		if err != nil {
			t.Fatal(err)
		}
		collect(used, templateKey, content)
		collect(prefixes, templatePrefix, content)
	}
	inner, err := fs.Glob(os.DirFS("."), "*/templates/*.html") // those of packages inside this one
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range inner {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		collect(used, templateKey, content)
	}
	sources, err := fs.Glob(os.DirFS("."), "*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range sources {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		collect(prefixes, goPrefix, content)
		found := map[string]bool{}
		collect(found, goKey, content)
		for key := range found {
			if area, _, _ := strings.Cut(key, "."); areas[area] {
				used[key] = true
			}
		}
	}
	for key := range used {
		if pt[key] == "" && !prefixes[key] {
			t.Errorf("%s is used and does not exist", key)
		}
	}
	for key := range pt {
		dynamic := slices.ContainsFunc(slices.Collect(keys(prefixes)), func(p string) bool { return strings.HasPrefix(key, p) })
		if !used[key] && !dynamic {
			t.Errorf("%s is not used", key)
		}
	}
	for _, key := range named() {
		if !localePT.has(key) {
			t.Errorf("%s is missing", key)
		}
	}
}

// named are the texts of what the code counts up.
func named() (list []string) {
	add := func(prefix string, names ...string) {
		for _, n := range names {
			list = append(list, prefix+n)
		}
	}
	add("role.", texts(user.Roles)...)
	add("state.charge.", texts(charge.States)...)
	add("state.payout.", texts(payout.States)...)
	add("state.infraction.", texts(infraction.States)...)
	add("infractions.means_", texts(infraction.States)...)
	add("payouts.key_", texts(pix.KeyTypes)...)
	add("common.theme_", texts(themes)...)
	for _, k := range kindTexts {
		list = append(list, k)
	}
	for _, g := range slices.Concat(accountPlaces, adminPlaces) {
		for _, p := range g.places {
			list = append(list, p.key)
		}
	}
	return list
}

func texts[S ~string](list []S) (out []string) {
	for _, x := range list {
		out = append(out, string(x))
	}
	return out
}

func keys(m map[string]bool) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func collect(into map[string]bool, pattern *regexp.Regexp, content []byte) {
	for _, m := range pattern.FindAllSubmatch(content, -1) {
		into[string(m[1])] = true
	}
}

// No template holds a script or a style of its own: the policy would stop it.
func TestTemplatesObeyThePolicy(t *testing.T) {
	t.Parallel()
	inline := regexp.MustCompile(`(?i)<style|\sstyle=|\son[a-z]+=|<script(?:[^s>]|s[^r])*>|javascript:|hx-on|hx-vals=.js`)
	err := fs.WalkDir(templateFiles, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(templateFiles, path)
		if found := inline.Find(content); found != nil {
			t.Errorf("%s holds %q", path, found)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAmountsAsPeopleReadThem(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		centavos money.BRL
		pt, en   string
	}{
		{0, "R$ 0,00", "R$ 0.00"},
		{5, "R$ 0,05", "R$ 0.05"},
		{123456, "R$ 1.234,56", "R$ 1,234.56"},
		{100000000, "R$ 1.000.000,00", "R$ 1,000,000.00"},
		{-99900, "−R$ 999,00", "−R$ 999.00"},
	} {
		plain := strings.NewReplacer(space, " ")
		if pt, en := plain.Replace(localePT.brl(c.centavos)), plain.Replace(localeEN.brl(c.centavos)); pt != c.pt || en != c.en {
			t.Errorf("%d: %s and %s, want %s and %s", c.centavos, pt, en, c.pt, c.en)
		}
	}
	if got := localePT.usdt(1234567890); got != "1.234,56789"+space+"USDT" {
		t.Error(got)
	}
	if got := localeEN.usdt(20_000000); got != "20.00"+space+"USDT" {
		t.Error(got)
	}
}

// The scale of a chart has place for few characters.
func TestAmountsOfCharts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		reais  int64
		pt, en string
	}{
		{0, "R$ 0", "R$ 0"},
		{1500, "R$ 1.500", "R$ 1,500"},
		{75_000, "R$ 75.000", "R$ 75,000"},
		{100_000, "R$ 100 mil", "R$ 100k"},
		{375_000, "R$ 375 mil", "R$ 375k"},
		{3_750_000, "R$ 3,75 mi", "R$ 3.75M"},
		{12_500_000, "R$ 12,5 mi", "R$ 12.5M"},
		{500_000_000, "R$ 500 mi", "R$ 500M"},
		{20_000_000_000, "R$ 20 bi", "R$ 20B"},
		{20_000_000_000_000, "R$ 20 tri", "R$ 20T"},
	} {
		plain := strings.NewReplacer(space, " ")
		if pt, en := plain.Replace(localePT.short(money.BRL(c.reais*100))), plain.Replace(localeEN.short(money.BRL(c.reais*100))); pt != c.pt || en != c.en {
			t.Errorf("%d: %s and %s, want %s and %s", c.reais, pt, en, c.pt, c.en)
		}
	}
}

func TestTimeLeft(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		left time.Duration
		want string
	}{
		{0, "encerrado"},
		{15 * time.Minute, "15 min"},
		{time.Hour, "1 h"},
		{90 * time.Minute, "1 h 30 min"},
		{4*time.Hour + time.Second, "4 h"},
		{24 * time.Hour, "1 d"},
		{25 * time.Hour, "1 d 1 h"},
		{7*24*time.Hour - time.Second, "6 d 23 h"},
	} {
		if got := localePT.left(c.left); got != c.want {
			t.Errorf("%s is %q, want %q", c.left, got, c.want)
		}
	}
}

func TestAmountsAsPeopleWriteThem(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, pt, en string }{
		{"10", "10", "10"},
		{"R$ 10", "10", "10"},
		{" 1234.5 ", "1234.5", "1234.5"},
		{"1234,5", "1234.5", "1234.5"}, // no group has one digit
		{"10.50", "10.50", "10.50"},
		{"10,50", "10.50", "10.50"},
		{"1.234", "1234", "1.234"},
		{"1,234", "1.234", "1234"},
		{"1.234,56", "1234.56", ""},
		{"1,234.56", "", "1234.56"},
		{"1.234.567,8", "1234567.8", ""},
		{"1.23.4", "", ""},
		{"12.34.567", "", ""},
		{"1.2345", "", "1.2345"},
		{",5", ".5", ".5"},
		{"", "", ""},
		{"1,2,3", "", ""},
		{"-5", "-5", "-5"},
	} {
		if pt, en := localePT.parseNumber(c.text), localeEN.parseNumber(c.text); pt != c.pt || en != c.en {
			t.Errorf("%q is %q and %q, want %q and %q", c.text, pt, en, c.pt, c.en)
		}
	}
}

func TestReasons(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		"": "",
		"the Pix key does not exist (chave_invalida)":             "A chave Pix não existe (chave_invalida)",
		"the recipient's account is closed (AC07)":                "A conta do destinatário foi encerrada (AC07)",
		"the payment network refused it (ZZ99)":                   "A rede de pagamentos recusou (ZZ99)",
		"no bank could send it; the money is back in the balance": "Ninguém pôde enviar; o dinheiro voltou ao saldo.",
	} {
		if got := localePT.reason(message); got != want {
			t.Errorf("%q is %q, want %q", message, got, want)
		}
	}
}

func TestAgents(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36":                                   "Chrome · Linux",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36 Edg/130.0.0.0":           "Edge · Windows",
		"Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Mobile/15E148 Safari/604.1": "Safari · iPhone",
		"Mozilla/5.0 (Linux; Android 15; Pixel 9) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Mobile Safari/537.36":                   "Chrome · Android",
		"Mozilla/5.0 (X11; Ubuntu; Linux x86_64; rv:132.0) Gecko/20100101 Firefox/132.0":                                                          "Firefox · Linux",
		"curl/8.5.0": "curl/8.5.0",
		"":           "",
	} {
		if got := agent(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}
