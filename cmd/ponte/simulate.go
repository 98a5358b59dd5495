package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ponte-pay/ponte/internal/bench"
	"github.com/ponte-pay/ponte/internal/sim"
)

type simulateCommand struct {
	Seed    uint64 `help:"What everything is drawn from: the same seed is the same life." required:""`
	Steps   int    `help:"Actions of a life." default:"200"`
	Minutes int    `help:"Live this and the next seeds on all cores for as long, or until one fails."`
	Story   bool   `help:"Tell on stderr all that happens."`
}

// Bounds of a simulation.
const (
	simulateStepsMax   = 100_000
	simulateMinutesMax = 7 * 24 * 60
)

func (c *simulateCommand) Run(e *env) error {
	switch {
	case c.Steps < 1 || c.Steps > simulateStepsMax:
		return fmt.Errorf("--steps %d: want 1 to %d", c.Steps, simulateStepsMax)
	case c.Minutes < 0 || c.Minutes > simulateMinutesMax:
		return fmt.Errorf("--minutes %d: want 1 to %d", c.Minutes, simulateMinutesMax)
	case c.Story && c.Minutes > 0:
		return errors.New("--story tells one life: leave --minutes away")
	}
	server, stop, err := c.server(e)
	if err != nil {
		return err
	}
	defer stop()
	var story io.Writer
	if c.Story {
		story = e.stderr
	}
	report, err := sim.Run(e.ctx, sim.Options{
		Seed: c.Seed, Steps: c.Steps, For: time.Duration(c.Minutes) * time.Minute, Server: server, Story: story,
		Told: func(r sim.Report) {
			if c.Minutes > 0 {
				fmt.Fprintf(e.stderr, "  %d lives, %d a minute ...\n", r.Lives, r.PerMinute)
			}
		},
	})
	if err != nil {
		return err
	}
	if err := e.print(report, c.lines(report, server != "")...); err != nil {
		return err
	}
	if report.Failure != nil {
		return errSilent
	}
	return nil
}

// server returns the address of the PostgreSQL that lives are lived on, "" for SQLite.
func (c *simulateCommand) server(e *env) (url string, stop func(), err error) {
	switch database := e.store.Database; {
	case database == "", database == "sqlite":
		return "", func() {}, nil
	case strings.HasPrefix(database, "postgres://"), strings.HasPrefix(database, "postgresql://"):
		return database, func() {}, nil
	case database != "postgres":
		return "", nil, fmt.Errorf("--database %s: want sqlite, postgres, or the postgres:// address of a server to make databases on", e.store.Redacted())
	}
	folder, err := os.MkdirTemp("", "ponte-simulate-")
	if err != nil {
		return "", nil, err
	}
	server, err := bench.StartPostgres(e.ctx, filepath.Join(folder, "postgres"))
	if err != nil {
		return "", nil, err
	}
	return server.URL, func() {
		_ = server.Stop()
		_ = os.RemoveAll(folder)
	}, nil
}

func (c *simulateCommand) lines(r sim.Report, onPostgres bool) []string {
	f := r.Failure
	if f == nil {
		if c.Minutes == 0 {
			return []string{fmt.Sprintf("Seed %d: a life of %d actions, and the auditor found nothing.", c.Seed, c.Steps)}
		}
		return []string{fmt.Sprintf("Seeds %d to %d: %d lives of %d actions, %d a minute, and the auditor found nothing.",
			c.Seed, c.Seed+uint64(r.Lives)-1, r.Lives, c.Steps, r.PerMinute)}
	}
	step := fmt.Sprintf("after action #%d", f.Step)
	if f.Step >= f.Steps {
		step = "at its end"
	}
	lines := []string{fmt.Sprintf("Seed %d fails %s. %d lives, %d a minute.", f.Seed, step, r.Lives, r.PerMinute)}
	if f.Point != "" {
		lines = append(lines, "The last crash was "+f.Point+".")
	}
	for _, p := range f.Problems {
		lines = append(lines, "  "+p)
	}
	lines = append(lines, "", fmt.Sprintf("It takes %d of %d actions:", len(f.Plan), f.Steps))
	for _, a := range f.Plan {
		lines = append(lines, "  "+a)
	}
	again := fmt.Sprintf("The same again: ponte simulate --seed %d --steps %d --story", f.Seed, f.Steps)
	if onPostgres {
		again += " --database postgres"
	}
	return append(lines, "", again)
}
