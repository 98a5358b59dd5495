package bench

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Report is a whole run.
type Report struct {
	Machine []string `json:"machine"`
	Seconds float64  `json:"seconds"` // of each measurement
	Rows    []Row    `json:"rows"`
	Skipped []string `json:"skipped,omitempty"` // what could not be measured, and why
}

// Row is one line of the table.
type Row struct {
	Scenario string  `json:"scenario"`           // that it belongs to; "baseline" for what others are compared with
	Database string  `json:"database,omitempty"` // SQLite or PostgreSQL; "" for neither
	Name     string  `json:"name"`
	Value    float64 `json:"value"`
	Unit     string  `json:"unit"`
	Low      float64 `json:"low,omitempty"`  // of several measurements; 0 for one
	High     float64 `json:"high,omitempty"` // of several measurements; 0 for one
	Ratios   []Ratio `json:"ratios,omitempty"`
	Goals    []Goal  `json:"goals,omitempty"`
	CPU      []Part  `json:"cpu,omitempty"`   // who worked how long for one
	Taken    float64 `json:"taken,omitempty"` // the share of the processors' work that the host took from this, or from what it is compared with
}

// Ratio is a value in units of something measured before and after it.
type Ratio struct {
	Against string  `json:"against"`
	Ratio   float64 `json:"ratio"`
	Low     float64 `json:"low"`  // to the higher of the two
	High    float64 `json:"high"` // to the lower
}

// Goal is what the product promises.
type Goal struct {
	Text    string  `json:"text"`
	Value   float64 `json:"value"` // in the row's unit
	Reached bool    `json:"reached"`
}

// Part is one process's share of the work.
type Part struct {
	Who          string  `json:"who"`
	Microseconds float64 `json:"microseconds"`
}

// add puts a row into the table.
func (r *run) add(row *Row) { r.report.Rows = append(r.report.Rows, *row) }

// rate is a row of so many a second.
func (e *engine) rate(scenario, name string, perSecond float64) *Row {
	return &Row{Scenario: scenario, Database: e.name, Name: name, Value: perSecond, Unit: "/s"}
}

// latency is a row of how long something takes.
func (e *engine) latency(scenario, name string, took time.Duration) *Row {
	return &Row{Scenario: scenario, Database: e.name, Name: name, Value: took.Seconds() * 1000, Unit: "ms"}
}

// spent tells who worked how long, and what the host took.
func (row *Row) spent(o *outcome) {
	row.CPU = o.spent.parts(o.answers)
	row.Taken = max(row.Taken, o.taken)
}

// against adds the ratio to what was measured around it. A ratioMin above zero is a goal.
func (row *Row) against(around []bracket, name string, ratioMin float64) {
	for _, b := range around {
		if b.name == name && min(b.before, b.after) > 0 { // a machine that did nothing is no measure
			row.Ratios = append(row.Ratios, b.ratio(row.Value))
			row.Taken = max(row.Taken, b.taken)
			if ratioMin > 0 {
				row.goal(fmt.Sprintf("%g times %s", ratioMin, name), ratioMin*b.mean(), row.Value >= ratioMin*b.mean())
			}
		}
	}
}

// atLeast adds the goal of a value.
func (row *Row) atLeast(least float64) {
	row.goal(Number(least)+" "+row.Unit, least, row.Value >= least)
}

// under adds the goal of a limit.
func (row *Row) under(most float64) {
	row.goal("under "+Number(most)+" "+row.Unit, most, row.Value < most)
}

func (row *Row) goal(text string, value float64, reached bool) {
	row.Goals = append(row.Goals, Goal{text, value, reached})
}

// bracket is a baseline just before and just after something else.
type bracket struct {
	name          string
	before, after float64
	taken         float64 // by the host in either
}

func (b bracket) mean() float64 { return (b.before + b.after) / 2 }

func (b bracket) ratio(value float64) Ratio {
	return Ratio{b.name, value / b.mean(), value / max(b.before, b.after), value / min(b.before, b.after)}
}

// Text is a row as people read it.
type Text struct {
	Value  string   // with its unit, and its spread if there is one
	Ratios []string // and who worked how long for one
	Goals  []string // with how each stands
}

// Text returns a row as people read it.
func (row *Row) Text() (t Text) {
	t.Value = Number(row.Value) + " " + row.Unit
	if row.High > 0 {
		t.Value += fmt.Sprintf(" (%s to %s)", Number(row.Low), Number(row.High))
	}
	for _, r := range row.Ratios {
		text := fmt.Sprintf("%.2f x %s", r.Ratio, r.Against)
		if low, high := fmt.Sprintf("%.2f", r.Low), fmt.Sprintf("%.2f", r.High); low != high {
			text += fmt.Sprintf(" (%s to %s)", low, high)
		}
		t.Ratios = append(t.Ratios, text)
	}
	for _, p := range row.CPU {
		t.Ratios = append(t.Ratios, fmt.Sprintf("CPU of one: %s %.0f µs", p.Who, p.Microseconds))
	}
	if row.Taken > takenMax {
		t.Ratios = append(t.Ratios, fmt.Sprintf("the host took %.1f %% of the CPU from one of these", 100*row.Taken))
	}
	for _, g := range row.Goals {
		verdict := ": reached"
		if !g.Reached {
			verdict = ": MISSED"
		}
		t.Goals = append(t.Goals, g.Text+verdict)
	}
	return t
}

// Number writes a figure with as many digits as mean something, and commas.
func Number(v float64) string {
	if math.Abs(v) < 100 {
		return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64)
	}
	text := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// Markdown returns the tables as docs/performance.md shows them.
func (r *Report) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s. %g seconds a measurement.\n\n", strings.Join(r.Machine, "; "), r.Seconds)
	b.WriteString("| measured | on | value | ratio | goal |\n|---|---|---|---|---|\n")
	for i := range r.Rows {
		text := r.Rows[i].Text()
		goals := strings.ReplaceAll(strings.Join(text.Goals, "<br>"), "MISSED", "**missed**")
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", r.Rows[i].Name, r.Rows[i].Database, text.Value, strings.Join(text.Ratios, "<br>"), goals)
	}
	for _, s := range r.Skipped {
		fmt.Fprintf(&b, "\nSkipped: %s\n", s)
	}
	return b.String()
}
