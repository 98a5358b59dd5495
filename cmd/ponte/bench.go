package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/ponte-pay/ponte/internal/bench"
)

type benchCommand struct {
	List     bool     `help:"List the scenarios and measure nothing."`
	Only     []string `help:"Measure only these scenarios." placeholder:"NAME"`
	On       []string `help:"Measure only on sqlite or on postgres." placeholder:"DATABASE"`
	Seconds  int      `help:"Length of each measurement." default:"5"`
	Charges  int      `help:"Whole lives over which memory is looked at." default:"20000"`
	Rows     int      `help:"Charges of the account with a long past." default:"1000000"`
	Postgres string   `help:"Make databases on this server, and drop them, instead of starting a throw-away one." placeholder:"URL"`
	Chart    string   `help:"Draw the rates into this file, SVG." placeholder:"FILE" type:"path"`
	Flame    string   `help:"Draw flame graphs of whole lives into this folder, SVG." placeholder:"FOLDER" type:"existingdir"`
	Markdown string   `help:"Write the table into this file, Markdown." placeholder:"FILE" type:"path"`
}

// Bounds of what is measured.
const (
	benchSecondsMax = 600
	benchChargesMax = 10_000_000
	benchRowsMin    = 1000
	benchRowsMax    = 100_000_000
)

func (c *benchCommand) Run(e *env) error {
	switch {
	case c.List:
		return c.list(e)
	case c.Seconds < 1 || c.Seconds > benchSecondsMax:
		return fmt.Errorf("--seconds %d: want 1 to %d", c.Seconds, benchSecondsMax)
	case c.Charges < 1 || c.Charges > benchChargesMax:
		return fmt.Errorf("--charges %d: want 1 to %d", c.Charges, benchChargesMax)
	case c.Rows < benchRowsMin || c.Rows > benchRowsMax:
		return fmt.Errorf("--rows %d: want %d to %d", c.Rows, benchRowsMin, benchRowsMax)
	}
	binary, err := os.Executable()
	if err != nil {
		return err
	}
	progress := newProgress(e)
	report, err := bench.Run(e.ctx, bench.Options{
		Length: time.Duration(c.Seconds) * time.Second, Only: c.Only, On: c.On, Rows: c.Rows, Charges: c.Charges,
		Postgres: c.Postgres, Binary: binary, Flame: c.Flame, Progress: progress.step,
	})
	progress.end()
	if len(report.Rows) == 0 {
		return err
	}
	// What was measured before a failure took its time too.
	return errors.Join(err, e.print(report, benchLines(&report)...), c.write(&report))
}

func (c *benchCommand) list(e *env) error {
	type scenario struct {
		Name     string `json:"name"`
		Measures string `json:"measures"`
	}
	var out []scenario
	var rows [][]string
	for _, s := range bench.Scenarios() {
		out = append(out, scenario{s[0], s[1]})
		rows = append(rows, s[:])
	}
	return e.print(out, table("SCENARIO MEASURES", rows))
}

// write writes what was asked for beside the table.
func (c *benchCommand) write(report *bench.Report) (err error) {
	if c.Chart != "" {
		err = os.WriteFile(c.Chart, report.Chart(), 0o644) //nolint:gosec // a picture for everybody
	}
	if c.Markdown != "" {
		err = errors.Join(err, os.WriteFile(c.Markdown, []byte(report.Markdown()), 0o644)) //nolint:gosec // a text for everybody
	}
	return err
}

func benchLines(report *bench.Report) []string {
	var rows [][]string
	for i := range report.Rows {
		text := report.Rows[i].Text()
		cells := []string{report.Rows[i].Name, report.Rows[i].Database, text.Value, "", ""}
		for more := range max(1, len(text.Ratios), len(text.Goals)) {
			if more > 0 {
				cells = make([]string, len(cells)) // the first lines say what it is
			}
			if more < len(text.Ratios) {
				cells[3] = text.Ratios[more]
			}
			if more < len(text.Goals) {
				cells[4] = text.Goals[more]
			}
			rows = append(rows, cells)
		}
	}
	lines := []string{strings.Join(report.Machine, "; "), "", table("MEASURED ON VALUE RATIO GOAL", rows)}
	for _, s := range report.Skipped {
		lines = append(lines, "", "Skipped: "+s)
	}
	return lines
}
