package sim

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
)

// What every change is tried with. A longer run is `ponte simulate --seed 1 --minutes 10`.
const (
	seedsTried    = 50
	seedsCompared = 2  // lived on both databases, and twice on one
	stepsTried    = 30 // of each of the first, because the race detector costs
	stepsCompared = 60 // of each of the second
)

// newRunner returns what lives lives, on a PostgreSQL or on SQLite.
func newRunner(t *testing.T, server string) *runner {
	t.Helper()
	p, err := newPlace(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.close(t.Context()) })
	return &runner{place: p, clock: clock.New(nil)}
}

// TestSeeds lives some lives, in which the auditor finds nothing.
func TestSeeds(t *testing.T) {
	t.Parallel()
	r := newRunner(t, "")
	for seed := range uint64(seedsTried) {
		shape, actions := plan(seed+1, stepsTried)
		failure, err := r.live(t.Context(), seed+1, shape, actions, nil)
		if err != nil {
			t.Fatalf("seed %d: %v", seed+1, err)
		}
		if failure != nil {
			t.Errorf("seed %d fails after #%d, %s: %s\nponte simulate --seed %d --steps %d --story", failure.Seed, failure.Step, failure.Point,
				strings.Join(failure.Problems, "; "), failure.Seed, stepsTried)
		}
	}
}

// TestSameSeedIsSameLife lives the same lives twice on SQLite and once on PostgreSQL. Everything that is in the database
// then is the same, to the last bit.
func TestSameSeedIsSameLife(t *testing.T) {
	t.Parallel()
	lite, postgres := newRunner(t, ""), newRunner(t, os.Getenv(sqltest.Variable))
	if postgres.place.server == "" {
		t.Fatalf("%s names no PostgreSQL", sqltest.Variable)
	}
	for seed := uint64(1); seed <= seedsCompared; seed++ {
		shape, actions := plan(seed, stepsCompared)
		var first string
		for i, r := range []*runner{lite, lite, postgres} {
			db, done, err := r.place.open(t.Context(), fmt.Sprintf("life%d_%d", seed, i))
			if err != nil {
				t.Fatal(err)
			}
			failure, dump, err := live(t.Context(), db, life{seed: seed, shape: shape, folder: r.place.path()}, actions)
			done()
			if err != nil || failure != nil {
				t.Fatalf("seed %d: %+v, %v", seed, failure, err)
			}
			if i == 0 {
				first = dump
			} else if dump != first {
				t.Errorf("seed %d, life %d: %s", seed, i+1, firstDifference(first, dump))
			}
		}
		if strings.Count(first, "\n") < stepsCompared {
			t.Errorf("seed %d: hardly anything happened:\n%s", seed, first)
		}
	}
}

func firstDifference(a, b string) string {
	other := strings.Split(b, "\n")
	for i, line := range strings.Split(a, "\n") {
		if i >= len(other) || other[i] != line {
			return fmt.Sprintf("line %d is\n%s\nand\n%s", i+1, line, other[min(i, len(other)-1)])
		}
	}
	return "one ends before the other"
}

// TestPlanted makes each planted mistake in the life that is known to show it, and in which nothing is wrong without it.
func TestPlanted(t *testing.T) {
	t.Parallel()
	r := newRunner(t, "")
	lived := map[uint64]bool{}
	for i, one := range planted {
		if how := r.finds(t, i, one.seed); !strings.Contains(how, one.shows) {
			t.Errorf("%s: seed %d finds %q", one.name, one.seed, how)
		}
		if lived[one.seed] {
			continue
		}
		lived[one.seed] = true
		if how := r.finds(t, -1, one.seed); how != "" {
			t.Errorf("seed %d finds %q where nothing is planted", one.seed, how)
		}
	}
}

// finds returns what a seed finds with a planted mistake, of which -1 is none.
func (r *runner) finds(t *testing.T, i int, seed uint64) (how string) {
	t.Helper()
	r.plant = nil
	if i >= 0 {
		r.plant = planted[i].new
	}
	shape, actions := plan(seed, StepsDefault)
	failure, err := r.live(t.Context(), seed, shape, actions, nil)
	if err != nil {
		t.Fatal(err)
	}
	if failure == nil {
		return ""
	}
	return fmt.Sprintf("after #%d: %s", failure.Step, strings.Join(failure.Problems, "; "))
}

// TestPlantedTable holds the table of docs/reliability.md equal to what is planted.
func TestPlantedTable(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/reliability.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range planted {
		if line := fmt.Sprintf("| %s | %d |", one.name, one.seed); !strings.Contains(string(text), line) {
			t.Errorf("docs/reliability.md lacks %q", line)
		}
	}
}

// TestSearch looks for the seeds that find what is planted, or a part of it. It is for who plants:
// PONTE_PLANT_SEEDS=500 PONTE_PLANT=expires go test -run Search -v ./internal/sim.
func TestSearch(t *testing.T) {
	var seeds uint64
	if _, err := fmt.Sscan(os.Getenv("PONTE_PLANT_SEEDS"), &seeds); err != nil {
		t.Skip("takes minutes")
	}
	r := newRunner(t, "")
	for i, one := range planted {
		if !strings.Contains(one.name, os.Getenv("PONTE_PLANT")) {
			continue
		}
		how := "" // to find something else is not to find it
		seed := uint64(0)
		for seed < seeds && !strings.Contains(how, one.shows) {
			seed++
			how = r.finds(t, i, seed)
		}
		if !strings.Contains(how, one.shows) {
			t.Errorf("%s: not found by %d seeds", one.name, seeds)
		}
		t.Logf("%s: seed %d, %s", one.name, seed, how)
	}
}

// TestShrink takes a failure apart until only what it takes is left.
func TestShrink(t *testing.T) {
	t.Parallel()
	r := newRunner(t, "")
	const seed = 1 // finds it early
	r.plant = idempotencyByBytes
	shape, actions := plan(seed, StepsDefault)
	failure, err := r.live(t.Context(), seed, shape, actions, nil)
	if err != nil || failure == nil {
		t.Fatal(failure, err)
	}
	want := classes(failure.Problems)
	r.shrink(t.Context(), failure)
	if len(failure.Plan) == 0 || len(failure.Plan) > 10 {
		t.Errorf("it takes %d actions: %s", len(failure.Plan), strings.Join(failure.Plan, "\n"))
	}
	again, err := r.live(t.Context(), seed, shape, failure.actions, nil)
	if err != nil || again == nil || !slices.Equal(classes(again.Problems), want) {
		t.Errorf("what is left fails with %+v, %v, not with %q", again, err, want)
	}
}
