package bench

import (
	"cmp"
	"fmt"
	"html"
	"maps"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// Sizes of a flame graph, in pixels.
const (
	flameWidth     = 1200
	flameMargin    = 10
	flameLine      = 17   // a frame's height, with a pixel between two
	flameTop       = 58   // for title and legend
	flameWidthMin  = 2.5  // of a frame; thinner ones are left out
	flameDepthMax  = 80   // frames above each other
	flameTextWidth = 6.35 // of a character
	flameTextMin   = 24   // of a frame that has room for any
)

// frame is a function in the place where it was called from, and what it took.
type frame struct {
	name  string
	value int64 // samples, with those of all that it called
	calls map[string]*frame
}

func (f *frame) call(name string) *frame {
	next := f.calls[name]
	if next == nil {
		next = &frame{name: name, calls: map[string]*frame{}}
		f.calls[name] = next
	}
	return next
}

// owner is whose code a frame is, for its colour.
type owner struct {
	name   string
	class  string
	prefix []string // of its functions
}

// owners are asked in this order; the last takes all.
var owners = []owner{
	{"Ponte", "own", []string{"github.com/ponte-pay/ponte/", "main."}},
	{"SQLite", "lite", []string{"modernc.org/", "database/sql"}},
	{"PostgreSQL driver", "pg", []string{"github.com/jackc/"}},
	{"HTTP and network", "net", []string{"net/", "net.", "bufio.", "internal/poll.", "syscall.", "internal/runtime/syscall.", "golang.org/x/net/", "crypto/tls"}},
	{"Go's runtime", "run", []string{"runtime.", "internal/runtime/", "sync.", "sync/", "gcWriteBarrier", "type:"}},
	{"libraries", "lib", nil},
}

func ownerOf(function string) owner {
	for _, o := range owners {
		if o.prefix == nil || slices.ContainsFunc(o.prefix, func(p string) bool { return strings.HasPrefix(function, p) }) {
			return o
		}
	}
	return owners[len(owners)-1]
}

// Flame draws a CPU profile as a flame graph: a box is a function, as wide as the share of time in it and in all that stands
// on it, which is what it called. The picture needs no script, and can be read on light and on dark.
func Flame(content []byte, title string) ([]byte, error) {
	p, err := profile.ParseData(content)
	if err != nil {
		return nil, fmt.Errorf("bench: the profile cannot be read: %w", err)
	}
	root := &frame{name: "all", calls: map[string]*frame{}}
	for _, s := range p.Sample {
		root.add(s)
	}
	if root.value == 0 {
		return nil, fmt.Errorf("bench: the profile of %d samples is empty", len(p.Sample))
	}
	d := flameDrawing{total: root.value, scale: (flameWidth - 2*flameMargin) / float64(root.value)}
	d.draw(root, flameMargin, 0)
	height := flameTop + (d.depth+1)*flameLine + flameMargin
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="ui-monospace,Menlo,Consolas,monospace" font-size="10.5">`+"\n", flameWidth, height)
	b.WriteString(flameStyle)
	b.WriteString(background)
	fmt.Fprintf(&b, `<text class="title" x="%d" y="22">%s</text>`+"\n", flameMargin, html.EscapeString(title))
	x := flameMargin
	for _, o := range owners {
		fmt.Fprintf(&b, `<rect class="%s" x="%d" y="34" width="11" height="11"/><text class="legend" x="%d" y="43">%s</text>`+"\n", o.class, x, x+16, html.EscapeString(o.name))
		x += 40 + int(float64(len(o.name))*flameTextWidth*1.1)
	}
	for _, box := range d.boxes {
		box.write(&b, height-flameMargin)
	}
	b.WriteString("</svg>\n")
	return []byte(b.String()), nil
}

const flameStyle = `<style>
.title { font: 600 15px system-ui, sans-serif; fill: #1f2328 } .legend { font: 12px system-ui, sans-serif; fill: #59636e }
.ground { fill: #ffffff } .box text { fill: #14181d; pointer-events: none }
.own { fill: #f4a259 } .lite { fill: #6cc5b0 } .pg { fill: #97a9f5 } .net { fill: #7ec8f0 } .run { fill: #b9c0c8 } .lib { fill: #e6c86e }
@media (prefers-color-scheme: dark) { .ground { fill: #0d1117 } .title { fill: #f0f6fc } .legend { fill: #9198a1 } }
</style>
`

// background is drawn too: a page need not be as dark as its reader's other windows.
const background = `<rect class="ground" width="100%" height="100%" rx="6"/>` + "\n"

// add puts a sample's functions on each other, from the one that called all others.
func (f *frame) add(s *profile.Sample) {
	value := s.Value[0]
	f.value += value
	at, depth := f, 0
	for _, location := range slices.Backward(s.Location) {
		for _, line := range slices.Backward(location.Line) { // the last one is not inlined
			if line.Function == nil || depth == flameDepthMax {
				continue
			}
			at = at.call(line.Function.Name)
			at.value += value
			depth++
		}
	}
}

// flameBox is a frame in its place.
type flameBox struct {
	*frame
	x, width float64
	level    int
	share    float64 // of all time
}

type flameDrawing struct {
	total int64
	scale float64 // pixels a sample
	depth int
	boxes []flameBox
}

// draw places a frame and, the widest first, those that it called.
func (d *flameDrawing) draw(f *frame, x float64, level int) {
	width := float64(f.value) * d.scale
	if width < flameWidthMin {
		return
	}
	d.depth = max(d.depth, level)
	d.boxes = append(d.boxes, flameBox{f, x, width, level, float64(f.value) / float64(d.total)})
	called := slices.SortedFunc(maps.Values(f.calls), func(a, b *frame) int {
		return cmp.Or(cmp.Compare(b.value, a.value), cmp.Compare(a.name, b.name))
	})
	for _, next := range called {
		d.draw(next, x, level+1)
		x += float64(next.value) * d.scale
	}
}

// write draws a box upwards from the bottom.
func (x flameBox) write(b *strings.Builder, bottom int) {
	y := bottom - (x.level+1)*flameLine
	class := "run"
	if x.level > 0 {
		class = ownerOf(x.name).class
	}
	fmt.Fprintf(b, `<g class="box"><title>%s, %.1f %%</title><rect class="%s" x="%.1f" y="%d" width="%.1f" height="%d"/>`,
		html.EscapeString(x.name), x.share*100, class, x.x, y, x.width-0.5, flameLine-1)
	if x.width >= flameTextMin {
		text := shortName(x.name)
		room := int((x.width - 6) / flameTextWidth)
		if _, function, found := strings.Cut(text, "."); found && len(text) > room {
			text = function // its colour says where it is from
		}
		if _, method, found := strings.Cut(text, ")."); found && len(text) > room {
			text = method
		}
		if len(text) > room {
			text = text[:max(0, room-1)] + "…"
		}
		fmt.Fprintf(b, `<text x="%.1f" y="%d">%s</text>`, x.x+3, y+12, html.EscapeString(text))
	}
	b.WriteString("</g>\n")
}

// shortName leaves out where a package comes from and what a generic function is of.
func shortName(function string) string {
	if at := strings.IndexByte(function, '['); at >= 0 {
		end := strings.LastIndexByte(function, ']')
		function = function[:at] + function[max(end, at)+1:]
	}
	return function[strings.LastIndexByte(function, '/')+1:]
}
