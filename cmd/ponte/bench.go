package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/ponte-pay/ponte/internal/bench"
)

type benchCommand struct {
	Seconds  int    `help:"Length of each measurement." default:"5"`
	Postgres string `help:"Measure on this empty database instead of a throw-away one." placeholder:"URL"`
}

const benchSecondsMax = 600

func (c *benchCommand) Run(e *env) error {
	if c.Seconds < 1 || c.Seconds > benchSecondsMax {
		return fmt.Errorf("--seconds %d: want 1 to %d", c.Seconds, benchSecondsMax)
	}
	binary, err := os.Executable()
	if err != nil {
		return err
	}
	report, err := bench.Run(e.ctx, bench.Options{
		Seconds: c.Seconds, Postgres: c.Postgres, Binary: binary,
		Progress: func(format string, args ...any) { fmt.Fprintf(e.stderr, "  "+format+" ...\n", args...) },
	})
	if err != nil {
		return err
	}
	return e.print(report, benchLines(report)...)
}

func benchLines(report bench.Report) []string {
	var rows [][]string
	for _, r := range report.Rows {
		ratio, goal := "", r.Goal
		if r.Against != "" {
			ratio = fmt.Sprintf("%.2f x %s", r.Ratio, r.Against)
		}
		switch {
		case goal != "" && r.Reached:
			goal += ": reached"
		case goal != "":
			goal += ": MISSED"
		}
		rows = append(rows, []string{r.Name, fmt.Sprintf("%.*f %s", precision(r.Value), r.Value, r.Unit), ratio, goal})
	}
	lines := []string{strings.Join(report.Machine, "; "), "", table("MEASURED VALUE RATIO GOAL", rows)}
	for _, s := range report.Skipped {
		lines = append(lines, "", "Skipped: "+s)
	}
	return lines
}

// precision shows small values with decimals and large ones without.
func precision(v float64) int {
	if v < 100 {
		return 2
	}
	return 0
}
