package main

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/ponte-pay/ponte/internal/bench"
	"github.com/ponte-pay/ponte/internal/clock"
)

const (
	barWidth   = 24
	redrawEach = 500 * time.Millisecond
	clearLine  = "\r\x1b[K"
)

// progress shows how far a run is: a bar on a terminal, a line for each step elsewhere.
type progress struct {
	e       *env
	clock   *clock.Clock
	isBar   bool
	started time.Time
	stop    chan struct{}
	drawing sync.WaitGroup

	mu  sync.Mutex
	now bench.Step
}

func newProgress(e *env) *progress {
	p := &progress{e: e, clock: clock.New(nil), stop: make(chan struct{})}
	p.started = p.clock.Real()
	if file, ok := e.stderr.(*os.File); ok {
		info, err := file.Stat()
		p.isBar = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	if p.isBar {
		p.drawing.Go(p.redraw)
	}
	return p
}

// step is told of each step as it begins.
func (p *progress) step(s bench.Step) {
	p.mu.Lock()
	p.now = s
	p.mu.Unlock()
	if p.isBar {
		p.draw()
		return
	}
	fmt.Fprintf(p.e.stderr, "  %d of %d: %s\n", s.Number, s.Total, s.What)
}

// redraw keeps the time on the bar right.
func (p *progress) redraw() {
	for p.clock.WaitOr(p.e.ctx, redrawEach, p.stop) == nil {
		select {
		case <-p.stop:
			return
		default:
			p.draw()
		}
	}
}

func (p *progress) draw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now.Total > 0 {
		fmt.Fprint(p.e.stderr, clearLine+bar(p.now, p.clock.RealSince(p.started)))
	}
}

// bar is one line: how much is done, for how long, and what is being done.
func bar(s bench.Step, passed time.Duration) string {
	done := (s.Number - 1) * barWidth / s.Total
	return fmt.Sprintf("%s%s %d/%d  %v  %s", strings.Repeat("█", done), strings.Repeat("░", barWidth-done), s.Number, s.Total, passed.Round(time.Second), s.What)
}

// end takes the bar away.
func (p *progress) end() {
	close(p.stop)
	p.drawing.Wait()
	if p.isBar {
		fmt.Fprint(p.e.stderr, clearLine)
	}
}
