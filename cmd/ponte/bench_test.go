package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/bench"
)

const benchVariable = "PONTE_BENCH" // all: every scenario without pgbench

// The bench runs, in short: it measures something, and what it measures adds up. The scenarios that need no pgbench are all
// run by hand, with PONTE_BENCH=all.
func TestBench(t *testing.T) {
	t.Parallel()
	binary, err := build()
	if err != nil {
		t.Fatal(err)
	}
	var steps []bench.Step
	only, length := []string{"start", "memory"}, 40*time.Millisecond
	if os.Getenv(benchVariable) == "all" {
		length = time.Second
		only = []string{"start", "hot", "deliveries", "read", "growth", "memory"}
	}
	report, err := bench.Run(t.Context(), bench.Options{
		Length: length, Only: only, On: []string{bench.SQLite}, Rows: 2000, Charges: 30, Binary: binary,
		Progress: func(s bench.Step) { steps = append(steps, s) },
	})
	if err != nil {
		t.Fatal(err)
	}
	var measured []string
	for _, row := range report.Rows {
		measured = append(measured, row.Scenario)
		if row.Value <= 0 {
			t.Errorf("%+v", row)
		}
	}
	for _, name := range only {
		if !slices.Contains(measured, name) {
			t.Errorf("%s has no row", name)
		}
	}
	if last := steps[len(steps)-1]; last.Number != len(only) || last.Total != len(only) {
		t.Errorf("the last step is %+v", last)
	}
}

func TestBenchRefuses(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--seconds 0":        "--seconds 0: want 1 to 600",
		"--charges 0":        "--charges 0: want 1 to",
		"--rows 999":         "--rows 999: want 1000 to",
		"--only create,fast": `"fast" is no scenario: want some of start, create, life`,
		"--on mysql":         `"mysql" is no database: want sqlite or postgres`,
	} {
		var stdout, stderr bytes.Buffer
		status := run(t.Context(), append([]string{"bench"}, strings.Fields(args)...), &stdout, &stderr)
		if status != exitFailed || !strings.Contains(stderr.String(), want) {
			t.Errorf("%s: status %d: %s", args, status, stderr.String())
		}
	}
}

func TestBenchList(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	if status := run(t.Context(), []string{"bench", "--list"}, &stdout, &stderr); status != 0 || !strings.Contains(stdout.String(), "whole lives") {
		t.Errorf("status %d: %s%s", status, stdout.String(), stderr.String())
	}
	performance := read(t, "docs/performance.md")
	for _, s := range bench.Scenarios() {
		if !strings.Contains(performance, "| `"+s[0]+"` |") {
			t.Errorf("docs/performance.md does not explain %s", s[0])
		}
	}
}

func TestBenchOutput(t *testing.T) {
	t.Parallel()
	row := bench.Row{
		Database: "SQLite", Name: "charges created", Value: 3000, Unit: "/s",
		Ratios: []bench.Ratio{{Against: "pgbench", Ratio: 2, Low: 1, High: 3}, {Against: "commits", Ratio: 1, Low: 1, High: 1}},
		Goals:  []bench.Goal{{Text: "1,500 /s", Value: 1500, Reached: true}},
	}
	report := bench.Report{Machine: []string{"2 cores"}, Rows: []bench.Row{row}, Skipped: []string{"the rest"}}
	want := `2 cores

MEASURED         ON      VALUE     RATIO                      GOAL
charges created  SQLite  3,000 /s  2.00 x pgbench (1.00 to 3.00)  1,500 /s: reached
                                   1.00 x commits

Skipped: the rest`
	if got := strings.Join(benchLines(&report), "\n"); strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(want), " ") {
		t.Errorf("got\n%s", got)
	}
	folder := t.TempDir()
	c := benchCommand{Chart: filepath.Join(folder, "chart.svg"), Markdown: filepath.Join(folder, "table.md")}
	if err := c.write(&report); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{c.Chart: "<svg", c.Markdown: "| charges created |"} {
		content, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(content, []byte(text)) {
			t.Errorf("%s: %s, %v", path, content, err)
		}
	}
}

func TestProgressBar(t *testing.T) {
	t.Parallel()
	got := bar(bench.Step{Number: 7, Total: 12, What: "POST /v1/charges on SQLite"}, 83*time.Second)
	if want := "████████████░░░░░░░░░░░░ 7/12  1m23s  POST /v1/charges on SQLite"; got != want {
		t.Errorf("got %s", got)
	}
	var stderr bytes.Buffer
	p := newProgress(&env{ctx: t.Context(), stderr: &stderr})
	p.step(bench.Step{Number: 1, Total: 2, What: "something"})
	p.end()
	if got := stderr.String(); got != "  1 of 2: something\n" { // no terminal, no bar
		t.Errorf("got %q", got)
	}
}
