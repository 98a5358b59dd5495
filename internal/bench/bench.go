// Package bench measures Ponte against what the machine can do, both in the same run, so that a figure means something on
// any machine: it prints ratios.
package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Options say what is measured.
type Options struct {
	Seconds  int    // of each measurement
	Postgres string // a database to use instead of a throw-away one; "" for that
	Binary   string // the ponte to measure
	Progress func(format string, args ...any)
}

// Row is one line of the table.
type Row struct {
	Name    string  `json:"name"`
	Value   float64 `json:"value"`
	Unit    string  `json:"unit"`
	Against string  `json:"against,omitempty"` // what it is compared with, "" for nothing
	Ratio   float64 `json:"ratio,omitempty"`   // Value in units of what it is compared with
	Goal    string  `json:"goal,omitempty"`    // what the product promises, "" for nothing
	Reached bool    `json:"reached"`           // the promise holds; true without one
}

// Report is a whole run.
type Report struct {
	Machine []string `json:"machine"`
	Rows    []Row    `json:"rows"`
	Skipped []string `json:"skipped,omitempty"` // what could not be measured, and why
}

// The promises.
const (
	creditsRatioMin   = 3    // grouped or beside the balance, against one at a time or the locked row
	balanceRateMin    = 8000 // GET /balance a second
	binaryMegabyteMax = 40
	idleMegabyteMax   = 60
	readySecondsMax   = 1
	creditors         = 32
)

// run is a measurement under way.
type run struct {
	Options
	folder string
	report Report
}

// Run measures everything. A missing PostgreSQL is told in the report; any other failure ends the run.
func Run(ctx context.Context, o Options) (Report, error) {
	folder, err := os.MkdirTemp("", "ponte-bench-")
	if err != nil {
		return Report{}, err
	}
	defer os.RemoveAll(folder)
	r := &run{Options: o, folder: folder, report: Report{Machine: machine()}}
	steps := []func(context.Context) error{r.liteCredits, r.postgres, r.liteDeliveries, r.serve}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return r.report, err
		}
	}
	return r.report, nil
}

func (r *run) duration() time.Duration { return time.Duration(r.Seconds) * time.Second }

// compare adds a rate with its ratio to another.
func (r *run) compare(name string, rate float64, against string, other, ratioMin float64) {
	row := Row{Name: name, Value: rate, Unit: "/s", Against: against, Ratio: rate / other, Reached: true}
	if ratioMin > 0 {
		row.Goal = fmt.Sprintf("at least %g times", ratioMin)
		row.Reached = row.Ratio >= ratioMin
	}
	r.report.Rows = append(r.report.Rows, row)
}

// plain adds a rate that is compared with nothing.
func (r *run) plain(name string, rate float64) {
	r.report.Rows = append(r.report.Rows, Row{Name: name, Value: rate, Unit: "/s", Reached: true})
}

// plainUnit adds a value that is compared with nothing.
func (r *run) plainUnit(name string, value float64, unit string) {
	r.report.Rows = append(r.report.Rows, Row{Name: name, Value: value, Unit: unit, Reached: true})
}

// limit adds a row that may not be above a promise.
func (r *run) limit(name string, value float64, unit string, most float64) {
	r.report.Rows = append(r.report.Rows, Row{
		Name: name, Value: value, Unit: unit,
		Goal: fmt.Sprintf("under %g", most), Reached: value < most,
	})
}

func (r *run) path(name string) string { return filepath.Join(r.folder, name) }
