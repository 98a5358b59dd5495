package bench

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// Sizes of a chart, in pixels.
const (
	chartWidth  = 1000
	chartLabels = 345 // the column of names
	chartAxis   = 415 // where bars begin, behind the column of figures
	chartRight  = 20
	chartBar    = 16
	chartGap    = 12 // between two groups
	chartHead   = 34 // of a panel
	chartTop    = 64 // for title and legend
	chartBottom = 56 // for the machine
)

// chartGroup is what stands under one name: a bar for each database.
type chartGroup struct {
	name string
	rows []Row
}

// panel is bars on one scale.
type panel struct {
	title  string
	groups []*chartGroup
	most   float64 // the highest value or goal
}

func (p *panel) add(row *Row) {
	at := slices.IndexFunc(p.groups, func(g *chartGroup) bool { return g.name == row.Name })
	if at < 0 {
		at = len(p.groups)
		p.groups = append(p.groups, &chartGroup{name: row.Name})
	}
	p.groups[at].rows = append(p.groups[at].rows, *row)
	p.most = max(p.most, row.Value, row.High)
	for _, g := range row.Goals {
		p.most = max(p.most, g.Value)
	}
}

func (p *panel) height() (pixels int) {
	pixels = chartHead
	for _, g := range p.groups {
		pixels += len(g.rows)*(chartBar+2) + chartGap
	}
	return pixels
}

// Chart draws the rates of a report as bars, with their goals. It can be read on light and on dark.
func (r *Report) Chart() []byte {
	writes := &panel{title: "Writes, a second"}
	lives := &panel{title: "Whole lives, a second: created, paid by callback, webhook received"}
	reads := &panel{title: "Reads, a second"}
	growth := &panel{title: "Few rows and many, requests a second"}
	for i := range r.Rows {
		row := r.Rows[i]
		switch {
		case row.Unit != "/s" || row.Scenario == "memory":
		case row.Scenario == "life":
			row.Name, _, _ = strings.Cut(row.Name, ":")
			lives.add(&row)
		case row.Scenario == "growth":
			growth.add(&row)
		case row.Name == emptyHandler || strings.HasPrefix(row.Name, "GET "):
			reads.add(&row)
		default:
			writes.add(&row)
		}
	}
	panels := slices.DeleteFunc([]*panel{lives, writes, reads, growth}, func(p *panel) bool { return len(p.groups) == 0 })
	height := chartTop + chartBottom
	for _, p := range panels {
		height += p.height()
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="system-ui,-apple-system,Segoe UI,sans-serif" font-size="12.5">`+"\n", chartWidth, height)
	b.WriteString(chartStyle)
	b.WriteString(background)
	b.WriteString(`<text class="title" x="10" y="24">Ponte, measured beside what the same machine does by itself</text>` + "\n")
	x := 10
	for _, l := range [][2]string{{"lite", "SQLite"}, {"pg", "PostgreSQL"}, {"machine", "the machine without Ponte"}} {
		fmt.Fprintf(&b, `<rect class="%s" x="%d" y="38" width="12" height="12" rx="2"/><text class="faint" x="%d" y="49">%s</text>`+"\n", l[0], x, x+18, l[1])
		x += 40 + 8*len(l[1])
	}
	fmt.Fprintf(&b, `<path class="goal" d="M%d 36v16"/><text class="faint" x="%d" y="49">goal</text>`+"\n", x, x+8)
	y := chartTop
	for _, p := range panels {
		p.draw(&b, y)
		y += p.height()
	}
	for i, facts := range []string{strings.Join(r.Machine[:len(r.Machine)/2], "; "), strings.Join(r.Machine[len(r.Machine)/2:], "; ")} {
		fmt.Fprintf(&b, `<text class="faint" x="10" y="%d">%s</text>`+"\n", height-chartBottom+20+18*i, html.EscapeString(facts))
	}
	b.WriteString("</svg>\n")
	return []byte(b.String())
}

const chartStyle = `<style>
.ground { fill: #ffffff } text { fill: #1f2328 } .title { font-weight: 600; font-size: 16px } .head { font-weight: 600; font-size: 13.5px } .faint { fill: #59636e }
.lite { fill: #1f9d82 } .pg { fill: #5468d4 } .machine { fill: #8c959f } .spread { stroke: #1f2328; stroke-width: 1.2; fill: none }
.goal { stroke: #d1242f; stroke-width: 2; fill: none } .axis { stroke: #d1d9e0; stroke-width: 1; fill: none }
@media (prefers-color-scheme: dark) {
.ground { fill: #0d1117 } text { fill: #f0f6fc } .faint { fill: #9198a1 } .lite { fill: #35c2a3 } .pg { fill: #8494f5 } .machine { fill: #7d8590 }
.spread { stroke: #f0f6fc } .goal { stroke: #ff7b72 } .axis { stroke: #3d444d }
}
</style>
`

func (p *panel) draw(b *strings.Builder, y int) {
	scale := (chartWidth - chartAxis - chartRight) / niceAbove(p.most)
	fmt.Fprintf(b, `<text class="head" x="10" y="%d">%s</text>`+"\n", y+20, html.EscapeString(p.title))
	fmt.Fprintf(b, `<path class="axis" d="M%d %dv%d"/>`+"\n", chartAxis, y+chartHead-4, p.height()-chartHead-chartGap+8)
	y += chartHead
	for _, g := range p.groups {
		high := len(g.rows) * (chartBar + 2)
		fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n", chartLabels, y+high/2+4, html.EscapeString(g.name))
		for i := range g.rows {
			g.rows[i].bar(b, y+i*(chartBar+2), scale)
		}
		y += high + chartGap
	}
}

// bar draws one value with its spread and its goals.
func (row *Row) bar(b *strings.Builder, y int, scale float64) {
	class := map[string]string{"SQLite": "lite", "PostgreSQL": "pg", "": "machine"}[row.Database]
	fmt.Fprintf(b, `<text class="faint" x="%d" y="%d" text-anchor="end">%s</text>`, chartAxis-8, y+12, Number(row.Value))
	fmt.Fprintf(b, `<rect class="%s" x="%d" y="%d" width="%.1f" height="%d" rx="2"/>`, class, chartAxis, y, max(1, row.Value*scale), chartBar)
	if row.High > 0 {
		low, high := chartAxis+row.Low*scale, chartAxis+row.High*scale
		fmt.Fprintf(b, `<path class="spread" d="M%.1f %dH%.1fM%.1f %dv8M%.1f %dv8"/>`, low, y+chartBar/2, high, low, y+chartBar/2-4, high, y+chartBar/2-4)
	}
	for _, g := range row.Goals {
		fmt.Fprintf(b, `<path class="goal" d="M%.1f %dv%d"><title>goal: %s</title></path>`, chartAxis+g.Value*scale, y-2, chartBar+4, html.EscapeString(g.Text))
	}
	b.WriteString("\n")
}

// niceAbove returns 1, 2 or 5 times a power of ten that is not below v.
func niceAbove(v float64) float64 {
	if v <= 0 {
		return 1
	}
	step := math.Pow(10, math.Floor(math.Log10(v)))
	for _, times := range []float64{1, 1.5, 2, 3, 4, 5, 6, 8} {
		if step*times >= v {
			return step * times
		}
	}
	return 10 * step
}
