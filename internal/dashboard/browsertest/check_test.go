//go:build !race

package browsertest

import (
	_ "embed"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

//go:embed testdata/axe-core/axe.min.js
var axe string

// Bounds of a page. The size is tested; the time is only told, because a machine may do much else.
const (
	pageBytesMax  = 100 << 10
	serverTimeMax = 100 // milliseconds
)

// looks is which pages were looked at: once is enough.
type looks struct {
	mu   sync.Mutex
	done map[string]bool
}

// first reports whether nobody has asked for that name before.
func (l *looks) first(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.done[name]
	l.done[name] = true
	return !was
}

// check looks at the page that is open, as people of all kinds do, and keeps its pictures.
func (p *tab) check(name string) {
	p.Helper()
	if p.look == nil || !p.look.first("page "+name) {
		return
	}
	p.wait("the page", `document.readyState === "complete"`)
	p.checkSize(name)
	p.checkShift(name)
	p.checkWidth(name, wideX)
	p.checkAxe(name, "light", `["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]`)
	p.shoot(name + "-light")
	p.scheme("dark")
	p.checkAxe(name, "dark", `["color-contrast", "link-in-text-block"]`) // nothing else depends on colours
	p.shoot(name + "-dark")
	p.scheme("light")
	p.phone()
	p.checkWidth(name, phoneX)
	p.shoot(name + "-phone")
	p.wide()
}

// checkAxe fails the test for what axe finds, but for trifles. The menu is the same on many pages, so that it is looked at on
// the first that has it.
func (p *tab) checkAxe(name, scheme, rules string) {
	p.Helper()
	if !evaluate[bool](p, "Boolean(window.axe)") {
		evaluate[bool](p, axe+"; true")
	}
	menu := evaluate[string](p, `[...document.querySelectorAll(".side nav a")].map((a) => a.pathname.split("/").pop()).join(" ")`)
	exclude := ""
	if menu != "" && !p.look.first("menu "+scheme+" "+menu) {
		exclude = `.side`
	}
	type violation struct {
		ID, Impact, Help string
		Nodes            []string
	}
	// Nothing is fetched for it, and nothing is worked out that is not asked for: it takes half of the time of all that is done here.
	found := evaluate[[]violation](p, `axe.run(`+quote(exclude)+` ? {exclude: [`+quote(exclude)+`]} : document,
		{resultTypes: ["violations"], runOnly: `+rules+`, rules: {"css-orientation-lock": {enabled: false}}, preload: false, iframes: false, selectors: false}).then((r) => r.violations.map((v) =>
		({ID: v.id, Impact: v.impact, Help: v.help, Nodes: v.nodes.map((n) => n.html.slice(0, 200) + " " + n.failureSummary)})))`)
	for _, v := range found {
		p.Errorf("%s (%s): %s, %s: %s\n%s", name, scheme, v.Impact, v.ID, v.Help, strings.Join(v.Nodes, "\n"))
	}
}

// checkShift fails the test when something in the page moved after it was shown.
func (p *tab) checkShift(name string) {
	p.Helper()
	type shift struct {
		Value float64
		What  string
	}
	moved := evaluate[[]shift](p, `new Promise((done) => {
		const entries = [];
		const observer = new PerformanceObserver((list) => entries.push(...list.getEntries()));
		observer.observe({type: "layout-shift", buffered: true});
		setTimeout(() => done(entries.filter((e) => !e.hadRecentInput).map((e) => ({Value: e.value, What:
			e.sources.map((s) => s.node && (s.node.outerHTML || s.node.textContent).slice(0, 80)).join(" | ")}))), 0);
	})`)
	for _, m := range moved {
		p.Errorf("%s: the page moved by %v: %s", name, m.Value, m.What)
	}
}

// checkWidth fails the test when anything has to be scrolled sideways in a window of that width, or is cut there, or a sum of
// money is broken into two lines. Code is another thing: its lines are as long as they are.
func (p *tab) checkWidth(name string, width int) {
	p.Helper()
	wide := evaluate[[]string](p, `(() => {
		const width = `+strconv.Itoa(width)+`;
		const shown = (e) => e.getClientRects().length > 0 && !e.closest("pre, .hidden, .skip, thead, svg");
		const all = [...document.querySelectorAll("body *")].filter(shown);
		const outside = all.filter((e) => e.getBoundingClientRect().right > width + 1 && !e.parentElement.closest(".clip, .clip-text")); // innerWidth grows with what is too wide
		const cut = all.filter((e) => e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0 && e.tagName !== "INPUT" &&
			(getComputedStyle(e).overflowX !== "visible" || e.matches(".money, .figure")) && !e.matches(".clip, .clip-text, .where, .switcher-name"));
		const before = [...document.querySelectorAll("svg text")].filter((e) => e.getClientRects().length > 0 &&
			e.getBoundingClientRect().left < e.ownerSVGElement.getBoundingClientRect().left);
		const broken = [...document.querySelectorAll(".tile .figure")].filter((e) => e.clientHeight > 2 * parseFloat(getComputedStyle(e).fontSize));
		return [...outside, ...cut, ...before, ...broken].slice(0, 5).map((e) => e.outerHTML.slice(0, 160));
	})()`)
	if len(wide) > 0 {
		p.Errorf("%s: wider than %d:\n%s", name, width, strings.Join(wide, "\n"))
	}
}

// checkSize fails the test when a page is too large, and tells how long the server took.
func (p *tab) checkSize(name string) {
	p.Helper()
	type timing struct {
		Bytes, Files, Time float64
	}
	t := evaluate[timing](p, `(() => {
		const page = performance.getEntriesByType("navigation")[0];
		const files = performance.getEntriesByType("resource").filter((r) => r.name.includes("/assets/"));
		return {Bytes: page.transferSize, Files: files.reduce((sum, f) => sum + f.encodedBodySize, 0), Time: page.responseStart - page.requestStart};
	})()`)
	if t.Bytes > pageBytesMax || t.Bytes+t.Files > pageBytesMax {
		p.Errorf("%s has %v bytes and files of %v", name, t.Bytes, t.Files)
	}
	slow := ""
	if t.Time > serverTimeMax {
		slow = ", which is slow"
	}
	p.Logf("%s: %.1f KiB, files %.1f KiB, server %.0f ms%s", name, t.Bytes/1024, t.Files/1024, t.Time, slow)
}

var (
	identifier = regexp.MustCompile(`\b([a-z]+(_[a-z]+)*_[0-9a-z]{8,26}|[0-9a-z]{26})\b`)
	notInName  = regexp.MustCompile(`[^a-z0-9]+`)
)

// pattern returns the path of a page without what is of one thing only.
func pattern(path string) string {
	path, _, _ = strings.Cut(path, "?")
	if strings.HasPrefix(path, "/docs/") {
		return "/docs/*" // all are made by one template
	}
	return identifier.ReplaceAllString(path, "*")
}

// nameOf returns the name of a page's pictures.
func nameOf(path string) string {
	path = strings.TrimPrefix(pattern(path), "/accounts/*")
	if path == "" || path == "/" {
		return "home"
	}
	return strings.Trim(notInName.ReplaceAllString(strings.ReplaceAll(path, "*", "one"), "-"), "-")
}

// pagesMax bounds a crawl: how many links it looks at.
const pagesMax = 5000

// crawl opens every page that links lead to, beginning with where the tab is, and checks each kind of page once. prefix
// names their pictures.
func (p *tab) crawl(prefix string) {
	p.Helper()
	queue := []string{p.path()}
	for range pagesMax {
		if len(queue) == 0 {
			return
		}
		path := queue[0]
		queue = queue[1:]
		if !p.look.first("path " + pattern(path)) {
			continue
		}
		if status := p.visit(path); status != http.StatusOK {
			p.Errorf("%s answers %d", path, status)
			continue
		}
		if at := pattern(p.path()); at != pattern(path) { // it leads somewhere else
			if !p.look.first("path " + at) {
				continue
			}
		}
		p.check(prefix + "-" + nameOf(path))
		queue = append(queue, evaluate[[]string](p, `[...document.querySelectorAll("a[href]")].filter((a) => a.origin === location.origin && !a.hasAttribute("download"))
			.map((a) => a.pathname + a.search).filter((path) => !path.startsWith("/v1/"))`)...)
	}
	p.Errorf("there are more than %d links", pagesMax)
}
