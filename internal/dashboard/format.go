package dashboard

import (
	"cmp"
	"fmt"
	"html/template"
	"regexp"
	"strings"
	"time"
	_ "time/tzdata" // machines without time zones exist

	"github.com/shopspring/decimal"

	"github.com/ponte-pay/ponte/internal/chain"
	"github.com/ponte-pay/ponte/internal/money"
)

// brasilia is the time that people see.
var brasilia = func() *time.Location {
	zone, err := time.LoadLocation("America/Sao_Paulo")
	if err != nil {
		panic("dashboard: " + err.Error()) // it is part of the binary
	}
	return zone
}()

const (
	space = "\u00a0" // that does not break
	minus = "\u2212"
)

// number writes the digits of an amount, such as -1234.50, as the locale does.
func (l locale) number(digits string) string {
	sign := ""
	if rest, negative := strings.CutPrefix(digits, "-"); negative {
		sign, digits = minus, rest
	}
	whole, fraction, _ := strings.Cut(digits, ".")
	group, point := ".", ","
	if l == localeEN {
		group, point = ",", "."
	}
	var b strings.Builder
	for i, c := range whole {
		if i > 0 && (len(whole)-i)%3 == 0 {
			b.WriteString(group)
		}
		b.WriteRune(c)
	}
	if fraction == "" {
		return sign + b.String()
	}
	return sign + b.String() + point + fraction
}

// brl writes an amount of reais, such as R$ 1.234,56.
func (l locale) brl(a money.BRL) string {
	text := l.number(a.String())
	if rest, negative := strings.CutPrefix(text, minus); negative {
		return minus + "R$" + space + rest
	}
	return "R$" + space + text
}

// scales are the units of a chart's large amounts, the largest first: from how many reais on, and as a power of ten.
var scales = []struct {
	from  int64
	power int32
	key   string
}{
	{1e12, 12, "overview.trillion"}, {1e9, 9, "overview.billion"}, {1e6, 6, "overview.million"}, {1e5, 3, "overview.thousand"},
}

// short writes an amount for the scale of a chart, without centavos. A phone has place for five figures.
func (l locale) short(a money.BRL) string {
	whole, _, _ := strings.Cut(a.String(), ".")
	text := l.number(whole)
	for _, s := range scales {
		if int64(a) >= s.from*100 {
			const digits = 2 // as in 1.25 of a million
			text = l.text(s.key, l.number(decimal.New(int64(a), -2).Shift(-s.power).Truncate(digits).String()))
			break
		}
	}
	return "R$" + space + text
}

// trim cuts zeros off the end of a fraction, but for two of its digits.
func trim(digits string) string {
	point := strings.IndexByte(digits, '.')
	const keep = 3 // the point and two digits
	for point >= 0 && len(digits) > point+keep && digits[len(digits)-1] == '0' {
		digits = digits[:len(digits)-1]
	}
	return digits
}

// usdt writes an amount of Tether, such as 1.234,50 USDT.
func (l locale) usdt(a money.USDT) string { return l.number(trim(a.String())) + space + "USDT" }

// usd writes a price in dollars.
func (l locale) usd(a money.USD) string { return "US$" + space + l.number(a.String()) }

// amount writes an amount of either ledger.
func (l locale) amount(a money.Amount) string {
	if a.Currency == money.CurrencyUSDT {
		return l.usdt(money.USDT(a.Units))
	}
	return l.brl(money.BRL(a.Units))
}

// layouts of times.
var (
	timeLayouts = map[locale]string{localePT: "02/01/2006 15:04", localeEN: "2 Jan 2006 15:04"}
	dayLayouts  = map[locale]string{localePT: "02/01/2006", localeEN: "2 Jan 2006"}
	dateLayouts = map[locale]string{localePT: "02/01", localeEN: "2 Jan"} // under a chart
)

// when shows a moment in Brasilia's time, and in UTC to who points at it.
func (l locale) when(t time.Time) template.HTML {
	if t.IsZero() {
		return "–"
	}
	return element(`<time datetime="%s" title="%s">%s</time>`,
		t.UTC().Format(time.RFC3339), t.UTC().Format("2006-01-02 15:04:05")+" UTC", t.In(brasilia).Format(timeLayouts[l]))
}

// day shows a day in Brasilia's time.
func (l locale) day(t time.Time) string { return t.In(brasilia).Format(dayLayouts[l]) }

// element builds HTML from a constant and escaped arguments.
func element(format string, args ...string) template.HTML {
	escaped := make([]any, len(args))
	for i, a := range args {
		escaped[i] = template.HTMLEscapeString(a)
	}
	return template.HTML(fmt.Sprintf(format, escaped...)) //nolint:gosec // every argument is escaped
}

// left says how much time is left of something, in its two largest units, or in one where there is nothing of the second.
func (l locale) left(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d <= 0:
		return l.text("common.over")
	case d >= day && d%day < time.Hour:
		return l.text("common.days", int(d/day))
	case d >= day:
		return l.text("common.days_hours", int(d/day), int(d%day/time.Hour))
	case d >= time.Hour && d%time.Hour < time.Minute:
		return l.text("common.hours", int(d/time.Hour))
	case d >= time.Hour:
		return l.text("common.hours_minutes", int(d/time.Hour), int(d%time.Hour/time.Minute))
	}
	return l.text("common.minutes", int(d/time.Minute))
}

var codeAtEnd = regexp.MustCompile(` \(([A-Za-z0-9_]+)\)$`)

// reason says why money was not sent: by the network's code, which the API's sentence ends in.
func (l locale) reason(message string) string {
	code := codeAtEnd.FindStringSubmatch(message)
	switch {
	case message == "":
		return ""
	case code == nil:
		return l.text("reason.unsent")
	case l.has("reason." + strings.ToLower(code[1])):
		return l.text("reason."+strings.ToLower(code[1])) + code[0]
	}
	return l.text("reason.refused") + code[0]
}

// coins writes a quantity of a coin.
func (l locale) coins(quantity decimal.Decimal, code string) string {
	symbol := code
	if c, ok := chain.FindCoin(code); ok {
		symbol = c.Symbol
	}
	return l.number(quantity.String()) + space + symbol
}

// browsers and systems are looked for in this order: each names those before it too.
var (
	browsers = []string{"Edg", "OPR", "Firefox", "Chrome", "Safari"}
	systems  = []string{"Android", "iPhone", "iPad", "Windows", "Mac OS", "Linux"}

	browserNames = map[string]string{"Edg": "Edge", "OPR": "Opera"}
)

// agent shortens what a browser calls itself to what people call it; others are shown as they are.
func agent(text string) string {
	find := func(names []string) string {
		for _, n := range names {
			if strings.Contains(text, n) {
				return cmp.Or(browserNames[n], n)
			}
		}
		return ""
	}
	browser, system := find(browsers), find(systems)
	if browser == "" || system == "" {
		return text
	}
	return browser + " · " + system
}

// tones are how states look: what is good, what waits, what is bad, and what is over.
var tones = map[string]string{
	"paid": "good", "completed": "good", "rejected": "good", "delivered": "good", "active": "good", "approved": "good",
	"pending": "wait", "processing": "wait", "waiting": "wait", "confirming": "wait", "requested": "wait", "under_review": "wait",
	"open": "bad", "failed": "bad", "accepted": "bad", "parked": "bad", "banned": "bad",
}

// badge shows a state of a kind of thing, such as charge. For infractions accepted is the payer's win.
func (l locale) badge(kind string, state any) template.HTML {
	name := fmt.Sprint(state)
	tone := tones[name]
	if tone == "" {
		tone = "over"
	}
	return element(`<span class="badge %s">%s</span>`, tone, l.text("state."+kind+"."+name))
}
