package bench

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/pprof/profile"
)

func TestNumber(t *testing.T) {
	t.Parallel()
	for value, want := range map[float64]string{0: "0", 0.034: "0.03", 12.5: "12.5", 99.999: "100", 100: "100", 999.6: "1,000", 3626: "3,626", 1_000_000: "1,000,000", -1234: "-1,234"} {
		if got := Number(value); got != want {
			t.Errorf("%v: got %s, want %s", value, got, want)
		}
	}
}

func testReport() *Report {
	row := Row{Scenario: "create", Database: "SQLite", Name: "charges <created>", Value: 3000, Unit: "/s"}
	around := []bracket{{name: tpcb, before: 1000, after: 2000, taken: 0.031}}
	row.against(around, tpcb, 1.5)
	row.atLeast(3626)
	row.CPU = []Part{{"server", 310.4}}
	late := Row{Scenario: "create", Database: "PostgreSQL", Name: "p99", Value: 30, Unit: "ms"}
	late.under(25)
	return &Report{
		Machine: []string{"2 cores", "24 GB"}, Seconds: 5, Skipped: []string{"something"},
		Rows: []Row{row, late, {Scenario: "baseline", Name: tpcb, Value: 1500, Unit: "/s", Low: 1000, High: 2000}, {Scenario: "read", Name: "GET /v1/balance", Value: 9000, Unit: "/s", Database: "SQLite"}},
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	r := testReport()
	want := []Text{
		{"3,000 /s", []string{"2.00 x pgbench TPC-B (1.50 to 3.00)", "CPU of one: server 310 µs", "the host took 3.1 % of the CPU from one of these"}, []string{"1.5 times pgbench TPC-B: reached", "3,626 /s: MISSED"}},
		{"30 ms", nil, []string{"under 25 ms: MISSED"}},
		{"1,500 /s (1,000 to 2,000)", nil, nil},
		{"9,000 /s", nil, nil},
	}
	for i := range want {
		if diff := cmp.Diff(want[i], r.Rows[i].Text()); diff != "" {
			t.Error(diff)
		}
	}
	const line = "| charges <created> | SQLite | 3,000 /s | 2.00 x pgbench TPC-B (1.50 to 3.00)<br>CPU of one: server 310 µs<br>the host took 3.1 % of the CPU from one of these | 1.5 times pgbench TPC-B: reached<br>3,626 /s: **missed** |\n"
	if got := r.Markdown(); !strings.Contains(got, line) || !strings.Contains(got, "Skipped: something") {
		t.Error(got)
	}
}

// wantSVG fails the test unless the picture is XML and shows all texts.
func wantSVG(t *testing.T, picture []byte, texts ...string) {
	t.Helper()
	var shown strings.Builder
	d := xml.NewDecoder(bytes.NewReader(picture))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in %s", err, picture)
		}
		if text, ok := token.(xml.CharData); ok {
			shown.Write(text)
		}
	}
	for _, text := range texts {
		if !strings.Contains(shown.String(), text) {
			t.Errorf("%q is not shown", text)
		}
	}
}

func TestChart(t *testing.T) {
	t.Parallel()
	picture := testReport().Chart()
	wantSVG(t, picture, "charges <created>", "3,000", "goal: 3,626 /s", "Writes", "Reads", "1,500", "2 cores", "24 GB")
	if bytes.Contains(picture, []byte("p99")) {
		t.Error("a time stands among the rates")
	}
	// Nothing measured is no reason to fail.
	wantSVG(t, (&Report{}).Chart())
}

func TestFlame(t *testing.T) {
	t.Parallel()
	functions := map[string]*profile.Location{}
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}}, PeriodType: &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}}
	sample := func(count int64, stack ...string) { // the caller first
		s := &profile.Sample{Value: []int64{count}}
		for _, name := range stack {
			if functions[name] == nil {
				n := uint64(len(functions) + 1)
				f := &profile.Function{ID: n, Name: name}
				functions[name] = &profile.Location{ID: n, Line: []profile.Line{{Function: f}}}
				p.Function, p.Location = append(p.Function, f), append(p.Location, functions[name])
			}
			s.Location = append([]*profile.Location{functions[name]}, s.Location...)
		}
		p.Sample = append(p.Sample, s)
	}
	sample(600, "runtime.main", "github.com/ponte-pay/ponte/internal/sqldb.(*DB).Write", "modernc.org/sqlite/lib._step")
	sample(399, "runtime.main", "github.com/ponte-pay/ponte/internal/sqldb.All[go.shape.struct { x/y.Z }]")
	sample(1, "runtime.main", "too.thin")
	deep := make([]string, 2*flameDepthMax)
	for i := range deep {
		deep[i] = fmt.Sprintf("deep.f%d", i)
	}
	sample(100, deep...)
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	picture, err := Flame(b.Bytes(), "lives & deaths")
	if err != nil {
		t.Fatal(err)
	}
	wantSVG(t, picture, "lives & deaths", "sqldb.(*DB).Write", "lib._step", "sqldb.All", "runtime.main, 90.9 %", "modernc.org/sqlite/lib._step, 54.5 %")
	for text, class := range map[string]string{"sqldb.(*DB).Write, 54.5 %": "own", "lib._step, 54.5 %": "lite", "runtime.main, 90.9 %": "run"} {
		if want := text + `</title><rect class="` + class + `"`; !bytes.Contains(picture, []byte(want)) {
			t.Errorf("%s is not %s", text, class)
		}
	}
	if bytes.Contains(picture, []byte("too.thin")) || bytes.Contains(picture, fmt.Appendf(nil, "deep.f%d,", flameDepthMax)) {
		t.Error("what nobody can see is drawn")
	}
	again, err := Flame(b.Bytes(), "lives & deaths")
	if err != nil || !bytes.Equal(picture, again) {
		t.Errorf("the same profile is drawn otherwise: %v", err)
	}
	if _, err := Flame([]byte("no profile"), ""); err == nil {
		t.Error("anything is a profile")
	}
}
