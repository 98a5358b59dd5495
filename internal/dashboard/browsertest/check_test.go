//go:build !race

package browsertest

import (
	_ "embed"
	"net/http"
	"regexp"
	"strings"
)

//go:embed testdata/axe-core/axe.min.js
var axe string

// Bounds of a page. The size is tested; the time is only told, because a machine may do much else.
const (
	pageBytesMax  = 100 << 10
	serverTimeMax = 100    // milliseconds
	shiftMax      = 0.0005 // a hair's breadth: a table finds its widths while its rows arrive
)

// check looks at the page that is open, as people of all kinds do, and keeps its pictures.
func (p *tab) check(name string) {
	p.Helper()
	if p.b.checked[name] {
		return
	}
	p.b.checked[name] = true
	p.wait("the page", `document.readyState === "complete"`)
	p.checkSize(name)
	p.checkShift(name)
	p.checkAxe(name, "light", `["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]`)
	p.shoot(name + "-light")
	p.scheme("dark")
	p.checkAxe(name, "dark", `["color-contrast"]`) // nothing else depends on colours
	p.shoot(name + "-dark")
	p.scheme("light")
	p.phone()
	p.checkWidth(name)
	p.shoot(name + "-phone")
	p.wide()
}

// checkAxe fails the test for what axe finds that keeps somebody from using the page.
func (p *tab) checkAxe(name, scheme, rules string) {
	p.Helper()
	if !evaluate[bool](p, "Boolean(window.axe)") {
		evaluate[bool](p, axe+"; true")
	}
	type violation struct {
		ID, Impact, Help string
		Nodes            []string
	}
	found := evaluate[[]violation](p, `axe.run(document, {resultTypes: ["violations"], runOnly: `+rules+`}).then((r) => r.violations.map((v) =>
		({ID: v.id, Impact: v.impact, Help: v.help, Nodes: v.nodes.map((n) => n.html.slice(0, 200) + " " + n.failureSummary)})))`)
	for _, v := range found {
		if v.Impact == "serious" || v.Impact == "critical" {
			p.Errorf("%s (%s): %s: %s\n%s", name, scheme, v.ID, v.Help, strings.Join(v.Nodes, "\n"))
			continue
		}
		p.Logf("%s (%s): %s, %s: %s", name, scheme, v.Impact, v.ID, v.Help)
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
		if m.Value > shiftMax {
			p.Errorf("%s: the page moved by %v: %s", name, m.Value, m.What)
		}
	}
}

// checkWidth fails the test when a page has to be scrolled sideways on a phone.
func (p *tab) checkWidth(name string) {
	p.Helper()
	wide := evaluate[[]string](p, `(() => {
		const root = document.documentElement;
		if (root.scrollWidth <= innerWidth) return [];
		return [...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(".scroll, pre"))
			.slice(0, 5).map((e) => e.outerHTML.slice(0, 120)).concat("is " + root.scrollWidth + " wide");
	})()`)
	if len(wide) > 0 {
		p.Errorf("%s: wider than a phone:\n%s", name, strings.Join(wide, "\n"))
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

// pagesMax bounds a crawl.
const pagesMax = 100

// crawl opens every page that links lead to, beginning with where the tab is, and checks each kind of page once. prefix
// names their pictures.
func (p *tab) crawl(prefix string, known map[string]bool) {
	p.Helper()
	queue := []string{p.path()}
	for len(queue) > 0 && len(known) < pagesMax {
		path := queue[0]
		queue = queue[1:]
		if known[pattern(path)] {
			continue
		}
		known[pattern(path)] = true
		if status := p.visit(path); status != http.StatusOK {
			p.Errorf("%s answers %d", path, status)
			continue
		}
		if at := pattern(p.path()); at != pattern(path) { // it leads somewhere else
			if known[at] {
				continue
			}
			known[at] = true
		}
		p.check(prefix + "-" + nameOf(path))
		queue = append(queue, evaluate[[]string](p, `[...document.querySelectorAll("a[href]")].filter((a) => a.origin === location.origin && !a.hasAttribute("download"))
			.map((a) => a.pathname + a.search).filter((path) => !path.startsWith("/v1/"))`)...)
	}
}
