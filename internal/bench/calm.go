package bench

import (
	"os"
	"strconv"
	"strings"
)

// A virtual machine shares its processors. While its host gives them to others, nothing runs here: a tenth taken for a few
// seconds makes the slowest answers take a hundred times as long. That says nothing about what is measured, so it is measured
// again.
const (
	takenMax  = 0.005 // of the time in which there was work; in quiet times it is a fifth of that
	calmTries = 4
)

// processors is how long, in the system's ticks, there was work for them so far, and how long of that the host had given them
// to others.
type processors struct{ wanted, taken int64 }

// takenSince returns the share that was taken since before; 0 where the system does not tell.
func (p processors) takenSince(before processors) float64 {
	if p.wanted <= before.wanted {
		return 0
	}
	return float64(p.taken-before.taken) / float64(p.wanted-before.wanted)
}

// Where the first line of /proc/stat has them, behind its name. Behind these stand parts of them.
const (
	ticksIdle    = 3
	ticksWaiting = 4 // for the disk
	ticksTaken   = 7
	ticksEnd     = ticksTaken + 1
)

func readProcessors() processors {
	content, err := os.ReadFile("/proc/stat")
	if err != nil {
		return processors{}
	}
	return parseProcessors(string(content))
}

func parseProcessors(content string) (p processors) {
	first, _, _ := strings.Cut(content, "\n")
	fields := strings.Fields(first)
	if len(fields) <= ticksEnd || fields[0] != "cpu" {
		return processors{}
	}
	for i, text := range fields[1 : ticksEnd+1] {
		ticks, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return processors{}
		}
		if i != ticksIdle && i != ticksWaiting {
			p.wanted += ticks
		}
		if i == ticksTaken {
			p.taken = ticks
		}
	}
	return p
}

// calmly measures, and again as long as the host takes too much, up to a limit. It returns the calmest measurement and what
// was taken in it. One that fails ends it: whatever was measured before, something is wrong.
func calmly[T any](r *run, measure func() (T, error)) (calmest T, taken float64, err error) {
	for try := range calmTries {
		before := r.processors()
		got, err := measure()
		if err != nil {
			return got, 0, err
		}
		now := r.processors().takenSince(before)
		if try == 0 || now < taken {
			calmest, taken = got, now
		}
		if taken <= takenMax {
			break
		}
	}
	return calmest, taken, nil
}
