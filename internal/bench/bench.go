// Package bench measures Ponte against what the machine can do, both in the same run, so that a figure means something on
// any machine: it prints ratios.
package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ponte-pay/ponte/internal/clock"
)

// Options say what is measured.
type Options struct {
	Length   time.Duration // of each measurement
	Only     []string      // scenarios by name; nil for all
	On       []string      // databases by name; nil for both
	Rows     int           // charges of the account with a long past
	Charges  int           // whole lives over which memory is looked at
	Postgres string        // a server to make databases on instead of a throw-away one; "" for that
	Binary   string        // the ponte to measure
	Flame    string        // folder for flame graphs of whole lives; "" for none
	Progress func(Step)    // told of each step as it begins
}

// Step is what is being done.
type Step struct {
	Number, Total int    // of the scenario, each database on its own, from 1
	What          string // such as "POST /v1/charges on SQLite"
}

// The databases, as On names them.
const (
	SQLite   = "sqlite"
	Postgres = "postgres"
)

// scenario is something that is measured on each database.
type scenario struct {
	name  string
	about string
	run   func(*run, context.Context, engine) error
}

// scenarios are measured in this order: those that are compared with the same thing stand together.
var scenarios = []scenario{
	{"start", "size of the binary, start to ready, memory when idle", (*run).startUp},
	{"create", "POST /v1/charges: the top rate, and how long one takes then and at half of it", (*run).create},
	{"life", "whole lives: created, paid by callback, webhook received", (*run).life},
	{"payouts", "POST /v1/payouts, with their settlements", (*run).payouts},
	{"hot", "credits to one account: in the ledger alone, and of charges by callbacks", (*run).hot},
	{"deliveries", "events from their transaction to a receiver's answer", (*run).deliveries},
	{"read", "GET of paid charges and of balances", (*run).read},
	{"growth", "what a request costs with few rows and with many", (*run).growth},
	{"memory", "memory over many whole lives", (*run).memory},
}

// Scenarios returns the name of each scenario and what it measures.
func Scenarios() (list [][2]string) {
	for _, s := range scenarios {
		list = append(list, [2]string{s.name, s.about})
	}
	return list
}

// run is a measurement under way.
type run struct {
	Options
	clock      *clock.Clock
	processors func() processors
	folder     string
	server     *PostgresServer // nil until something needs it
	noServer   error           // why there is none
	databases  []string        // that were made on a server which is not ours
	baselines  []*baseline     // that something was compared with
	step       Step
	report     Report
}

// Run measures what the options ask for. A missing PostgreSQL is told in the report; any other failure ends the run, and the
// report has what was measured before.
func Run(ctx context.Context, o Options) (Report, error) {
	if address := os.Getenv(emptyVariable); address != "" {
		return Report{}, serveEmpty(ctx, address)
	}
	engines, chosen, err := o.choose()
	if err != nil {
		return Report{}, err
	}
	folder, err := os.MkdirTemp("", "ponte-bench-")
	if err != nil {
		return Report{}, err
	}
	defer os.RemoveAll(folder)
	r := &run{Options: o, clock: clock.New(nil), processors: readProcessors, folder: folder, report: Report{Machine: machine(), Seconds: o.Length.Seconds()}}
	defer r.stopPostgres(context.WithoutCancel(ctx)) // also when it was interrupted
	r.step.Total = len(chosen) * len(engines)
	for _, s := range chosen {
		for _, open := range engines {
			r.step.Number++
			e, err := open(r, ctx)
			if errors.Is(err, errNoPostgres) {
				r.skip("everything on PostgreSQL: " + err.Error())
				continue
			}
			if err == nil {
				err = s.run(r, ctx, e)
			}
			if err != nil {
				r.tellBaselines()
				return r.report, fmt.Errorf("%s: %w", s.name, err)
			}
		}
	}
	r.tellBaselines()
	return r.report, nil
}

// choose returns the databases and the scenarios that are asked for.
func (o *Options) choose() (engines []func(*run, context.Context) (engine, error), chosen []scenario, err error) {
	for _, name := range o.On {
		if name != SQLite && name != Postgres {
			return nil, nil, fmt.Errorf("bench: %q is no database: want %s or %s", name, SQLite, Postgres)
		}
	}
	if o.On == nil || slices.Contains(o.On, SQLite) {
		engines = append(engines, (*run).onSQLite)
	}
	if o.On == nil || slices.Contains(o.On, Postgres) {
		engines = append(engines, (*run).onPostgres)
	}
	var names []string
	for _, s := range scenarios {
		names = append(names, s.name)
		if o.Only == nil || slices.Contains(o.Only, s.name) {
			chosen = append(chosen, s)
		}
	}
	for _, name := range o.Only {
		if !slices.Contains(names, name) {
			return nil, nil, fmt.Errorf("bench: %q is no scenario: want some of %s", name, strings.Join(names, ", "))
		}
	}
	return engines, chosen, nil
}

// say tells what is done next.
func (r *run) say(format string, args ...any) {
	r.step.What = fmt.Sprintf(format, args...)
	r.Progress(r.step)
}

// skip notes once what could not be measured.
func (r *run) skip(what string) {
	if !slices.Contains(r.report.Skipped, what) {
		r.report.Skipped = append(r.report.Skipped, what)
	}
}

func (r *run) path(name string) string { return filepath.Join(r.folder, name) }
