//go:build !race

package browsertest

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/ponte-pay/ponte/internal/testkit"
)

// commandTimeMax is how long one command of the browser may take, also on a machine that does much else.
const commandTimeMax = 30 * time.Second

// lookEvery is how often a page is looked at for what it should show. Each look costs the browser something.
const lookEvery = 30 * time.Millisecond

// browser is Chromium. Every tab of all tests is in the same one.
type browser struct {
	ctx context.Context
}

// startBrowser starts Chromium. A missing one fails the test, it does not skip it.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatalf("Chromium is missing: %v", err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.Flag("disable-gpu", true), chromedp.Flag("lang", "pt-BR"))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // as root there is none
	}
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	ctx, end := chromedp.NewContext(allocator)
	t.Cleanup(end)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start Chromium: %v", err)
	}
	return &browser{ctx}
}

// tab is a page that is open. What it complains about fails the test when it is closed.
type tab struct {
	*testing.T
	b    *browser
	ctx  context.Context
	base string // of the server
	look *looks // nil where pages are not looked at

	mu       sync.Mutex
	problems []string
}

// open returns a tab with cookies of its own, as in a private window.
func (b *browser) open(t *testing.T, base string) *tab {
	t.Helper()
	ctx, end := chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext())
	return b.newTab(ctx, t, end, base)
}

// beside opens a page in another tab of the same window, and marks it, so that loading it again shows.
func (p *tab) beside(path string) *tab {
	p.Helper()
	ctx, end := chromedp.NewContext(p.ctx)
	other := p.b.newTab(ctx, p.T, end, p.base)
	other.look = p.look
	other.visit(path)
	other.mark()
	return other
}

// mark marks the page that is open.
func (p *tab) mark() {
	p.Helper()
	evaluate[bool](p, "window.same = true")
}

// isSame reports whether the page that was marked was not loaded again.
func (p *tab) isSame() bool {
	p.Helper()
	return evaluate[bool](p, "window.same === true")
}

func (b *browser) newTab(ctx context.Context, t *testing.T, end func(), base string) *tab {
	t.Helper()
	p := &tab{T: t, b: b, ctx: ctx, base: base}
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("open a tab: %v", err)
	}
	listening, stop := context.WithCancel(ctx)
	var reading sync.WaitGroup
	messages := chromedp.Console(listening)
	reading.Go(func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			p.heard(m)
		}
	})
	t.Cleanup(func() {
		stop()
		reading.Wait()
		end()
		for _, problem := range p.problems {
			t.Errorf("the console says: %s", problem)
		}
	})
	call(p, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}) // somebody looks at every tab
	p.wide()
	p.scheme("light")
	return p
}

// in makes the tab that of a part of the test, until it is called back.
func (p *tab) in(t *testing.T) (back func()) {
	whole := p.T
	p.T = t
	return func() { p.T = whole }
}

// heard keeps what a page must not say: a script that failed, a policy that was broken.
func (p *tab) heard(m chromedp.ConsoleMessage) {
	if m.Type != "error" && m.Type != "warning" && !m.IsException() {
		return
	}
	if m.Source == "network" {
		return // a status that the test looks at itself
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.problems = append(p.problems, m.String()+" "+m.URL)
}

// do runs actions.
func (p *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, commandTimeMax)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		p.Fatalf("at %s: %v", p.path(), err)
	}
}

// call sends a command of the protocol.
func call[P, R any](p *tab, command cdp.Command[P, R], params P) R {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, commandTimeMax)
	defer cancel()
	result, err := chromedp.Call(ctx, command, params)
	if err != nil {
		p.Fatalf("%v", err)
	}
	return result
}

// evaluate returns what a script gives.
func evaluate[T any](p *tab, script string) T {
	p.Helper()
	v, err := try[T](p, script)
	if err != nil {
		p.Fatalf("%.200s: %v", script, err)
	}
	return v
}

func try[T any](p *tab, script string) (T, error) {
	ctx, cancel := context.WithTimeout(p.ctx, commandTimeMax)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
}

// wait returns once an expression, which may use the finders, gives true. Pages may change meanwhile.
func (p *tab) wait(what, expression string) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, commandTimeMax)
	defer cancel()
	for {
		if ok, err := try[bool](p, "(() => {"+finders+"return Boolean("+expression+");})()"); err == nil && ok {
			return
		}
		if testkit.Real.Wait(ctx, lookEvery) != nil {
			p.Fatalf("at %s: waited in vain for %s. There is:\n%s", p.path(), what, p.text())
		}
	}
}

// quote returns a text as a script writes it.
func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// path returns where the tab is, without the server.
func (p *tab) path() string {
	at, _ := try[string](p, "location.pathname + location.search")
	return at
}

// visit opens a page by its address and returns its status.
func (p *tab) visit(path string) int {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, commandTimeMax)
	defer cancel()
	address := path
	if strings.HasPrefix(path, "/") {
		address = p.base + path
	}
	for {
		response, err := chromedp.Run(ctx, chromedp.NavigateResponse(address))
		if err != nil {
			p.Fatalf("open %s: %v", path, err)
		}
		// A server that is kept from its work for seconds says that it is not ready: people try again. There is no answer when
		// the page that was open went somewhere else meanwhile.
		if response != nil && response.Status != http.StatusServiceUnavailable {
			return int(response.Status)
		}
		if testkit.Real.Wait(ctx, lookEvery) != nil {
			p.Fatalf("%s could not be opened", path)
		}
	}
}

// finders are what the other scripts find things by: by what people read.
const finders = `
const shown = (e) => e.getClientRects().length > 0 && getComputedStyle(e).visibility !== "hidden";
const named = (e) => (e.getAttribute("aria-label") || e.innerText || e.textContent).replace(/[\s\u00a0]+/g, " ").trim();
const clickable = (name) => [...document.querySelectorAll("a, button, summary")].find((e) => shown(e) && named(e) === name);
const control = (name) => {
  const label = [...document.querySelectorAll("label")].find((l) => named(l) === name || named(l).startsWith(name + " "));
  return label && (label.control || document.getElementById(label.htmlFor));
};
`

// click clicks a link or a button by its name, with the mouse.
func (p *tab) click(name string) {
	p.Helper()
	p.wait("the button "+name, "clickable("+quote(name)+")")
	type point struct{ X, Y float64 }
	at := evaluate[point](p, `(() => {`+finders+`
		const e = clickable(`+quote(name)+`);
		e.scrollIntoView({block: "center", behavior: "instant"});
		const r = e.getClientRects()[0];
		return {X: r.x + r.width / 2, Y: r.y + r.height / 2};
	})()`)
	p.do(chromedp.MouseClickXY(at.X, at.Y))
}

// follow clicks and waits for the page that follows.
func (p *tab) follow(name string) {
	p.Helper()
	p.leaving(func() { p.click(name) })
}

// leaving waits for the page that follows what act does.
func (p *tab) leaving(act func()) {
	p.Helper()
	evaluate[bool](p, "window.before = true")
	act()
	p.wait("the next page", `!window.before && document.readyState === "complete"`)
}

// fill types into the control with that label. What was in it is gone.
func (p *tab) fill(label, text string) {
	p.Helper()
	p.wait("the field "+label, "control("+quote(label)+")")
	evaluate[bool](p, `(() => {`+finders+`
		const e = control(`+quote(label)+`);
		e.scrollIntoView({block: "center", behavior: "instant"});
		e.focus();
		if (e.select) e.select();
		return true;
	})()`)
	p.typeIn(text)
}

// pick chooses a radio button, or changes a check box, by its label.
func (p *tab) pick(label string) {
	p.Helper()
	p.wait("the choice "+label, "control("+quote(label)+")")
	evaluate[bool](p, `(() => {`+finders+` control(`+quote(label)+`).click(); return true; })()`)
}

// typeIn types into what has the focus.
func (p *tab) typeIn(text string) {
	p.Helper()
	call(p, input.InsertText, input.InsertTextParams{Text: text})
}

// press presses keys, one after the other.
func (p *tab) press(keys ...string) {
	p.Helper()
	for _, key := range keys {
		p.do(chromedp.KeyEvent(key))
	}
}

// tabTo presses Tab until the link, button or field with that name has the focus, as people without a mouse do. The focus
// has to be visible all the way.
func (p *tab) tabTo(name string) {
	p.Helper()
	const most = 200
	for range most {
		p.press(kb.Tab)
		type focus struct {
			Name    string
			Visible bool
		}
		f := evaluate[focus](p, `(() => {`+finders+`
			const e = document.activeElement;
			const style = getComputedStyle(e);
			const label = e.labels && e.labels[0];
			return {Name: label ? named(label) : named(e), Visible: e === document.body || style.outlineStyle !== "none" || style.boxShadow !== "none"};
		})()`)
		if !f.Visible {
			p.Errorf("%s: nobody sees that %q has the focus", p.path(), f.Name)
		}
		if f.Name == name || strings.HasPrefix(f.Name, name+" ") {
			return
		}
	}
	p.Fatalf("%s: no way to %q by keyboard", p.path(), name)
}

// text returns what people read in the page.
func (p *tab) text() string {
	text, _ := try[string](p, "document.body.innerText")
	return text
}

// see waits until the page shows a text.
func (p *tab) see(text string) {
	p.Helper()
	p.wait(text, `document.body.innerText.replaceAll("\u00a0", " ").includes(`+quote(text)+")")
}

// Sizes of windows.
const (
	wideX, wideY   = 1280, 800
	phoneX, phoneY = 360, 740
)

func (p *tab) wide() {
	p.Helper()
	p.do(chromedp.EmulateViewport(wideX, wideY))
}

func (p *tab) phone() {
	p.Helper()
	p.do(chromedp.EmulateViewport(phoneX, phoneY, chromedp.EmulateMobile))
}

// scheme makes the system of the visitor light or dark. Nothing moves there, so that pictures are the same each time.
func (p *tab) scheme(name string) {
	p.Helper()
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}, {Name: "prefers-reduced-motion", Value: "reduce"}},
	})
}

// pictureHeightMax is how much of a long page a picture shows.
const pictureHeightMax = 1600

// pictureQuality is good enough to look at, and JPEG a third of the work of PNG.
const pictureQuality = 85

// shoot keeps a picture of the page.
func (p *tab) shoot(name string) {
	p.Helper()
	size := evaluate[[2]float64](p, "[document.documentElement.clientWidth, document.documentElement.scrollHeight]")
	clip := &page.Viewport{Width: size[0], Height: min(size[1], pictureHeightMax), Scale: 1}
	picture := call(p, page.CaptureScreenshot, page.CaptureScreenshotParams{
		Format: page.CaptureScreenshotFormatJpeg, Quality: new(int64(pictureQuality)), Clip: clip, CaptureBeyondViewport: new(true), OptimizeForSpeed: new(true),
	})
	folder, err := pictures()
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, name+".jpg"), picture.Data, 0o600)
	}
	if err != nil {
		p.Fatal(err)
	}
}

// keep keeps a picture of the page as it is, where pages are looked at.
func (p *tab) keep(name string) {
	p.Helper()
	if p.look != nil {
		p.shoot(name)
	}
}

// pictures returns the folder that pictures are kept in, empty the first time. CI keeps it.
var pictures = sync.OnceValues(func() (folder string, err error) {
	folder = os.Getenv("PONTE_SCREENSHOTS")
	if folder == "" {
		folder = filepath.Join("..", "..", "..", "dist", "screenshots")
	}
	old, err := filepath.Glob(filepath.Join(folder, "*.jpg"))
	for _, name := range old { // pages that are gone leave none
		err = errors.Join(err, os.Remove(name))
	}
	return folder, errors.Join(err, os.MkdirAll(folder, 0o750))
})
