package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	memoryMegabyteMax = 200
	memoryTimeMax     = time.Hour
)

// memory looks at the server's memory at the start, in the middle and at the end of many whole lives.
func (r *run) memory(ctx context.Context, e engine) error {
	l, err := r.newLives(ctx, e, "memory")
	if err != nil {
		return err
	}
	defer l.close()
	total := int64(r.Charges)
	pid := l.server.Process.Pid
	look := func(when string) error {
		now, ok := megabytes(pid, memoryNow)
		if !ok {
			return errors.New("bench: this system does not tell how much memory a process has")
		}
		row := &Row{Scenario: "memory", Database: e.name, Name: "memory " + when, Value: now, Unit: "MB"}
		row.under(memoryMegabyteMax)
		r.add(row)
		return nil
	}
	if err := look("before the first life"); err != nil {
		return err
	}
	started := r.clock.Real()
	err = l.during(ctx, total, func(ctx context.Context) error {
		for part, when := range []string{"after half of them", fmt.Sprintf("after %s whole lives", Number(float64(total)))} {
			r.say("memory over %s whole lives on %s, half %d", Number(float64(total)), e.name, part+1)
			until := total / 2 * int64(part+1)
			if part == 1 {
				until = total
			}
			err := poll(ctx, memoryTimeMax, func() bool { return l.ended.Load() >= until }, "the lives have not ended")
			if err == nil {
				err = look(when)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if peak, ok := megabytes(pid, memoryPeak); ok {
		row := &Row{Scenario: "memory", Database: e.name, Name: "memory at its highest", Value: peak, Unit: "MB"}
		row.under(memoryMegabyteMax)
		r.add(row)
	}
	r.add(e.rate("memory", "whole lives meanwhile", float64(total)/r.clock.RealSince(started).Seconds()))
	return nil
}
