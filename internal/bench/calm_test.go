package bench

import (
	"errors"
	"testing"
)

func TestParseProcessors(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]processors{
		"cpu  10 2 30 400 5 6 7 80 9 10\ncpu0 1 1 1 1 1 1 1 1 1 1\n": {135, 80},
		"cpu  10 2 30 400 5 6 7 80":                                  {135, 80},
		"cpu  10 2 30 400 5 6 7":                                     {}, // an old system
		"cpu  10 2 30 x 5 6 7 80 9 10":                               {},
		"intr 10 2 30 400 5 6 7 80 9 10":                             {},
		"":                                                           {},
	} {
		if got := parseProcessors(content); got != want {
			t.Errorf("%q: got %v, want %v", content, got, want)
		}
	}
}

func TestCalmly(t *testing.T) {
	t.Parallel()
	failed := errors.New("failed")
	for _, c := range []struct {
		name   string
		taken  []int64 // of 1,000 ticks, in each measurement; -1 for one that fails, nil where the system does not tell
		want   int     // which measurement is returned, from 1
		share  float64
		counts int // how many were made
		err    error
	}{
		{"calm", []int64{5}, 1, 0.005, 1, nil},
		{"calm at last", []int64{100, 6, 0}, 3, 0, 3, nil},
		{"never calm", []int64{100, 60, 6, 70}, 3, 0.006, 4, nil},
		{"nobody tells", nil, 1, 0, 1, nil},
		{"fails", []int64{100, -1}, 2, 0, 2, failed},
	} {
		now, made := processors{}, 0
		r := &run{processors: func() processors { return now }}
		got, share, err := calmly(r, func() (int, error) {
			if made++; c.taken == nil {
				return made, nil
			}
			taken := c.taken[made-1]
			if taken < 0 {
				return made, failed
			}
			now.wanted += 1000
			now.taken += taken
			return made, nil
		})
		if got != c.want || share != c.share || made != c.counts || !errors.Is(err, c.err) {
			t.Errorf("%s: got measurement %d with %v of %d, %v; want %d with %v of %d, %v", c.name, got, share, made, err, c.want, c.share, c.counts, c.err)
		}
	}
}
