package sim

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/ponte-pay/ponte/internal/clock"
)

func number(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

func TestMany(t *testing.T) {
	p, err := newPlace(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer p.close(t.Context())
	from, count := number("SEED", 1), number("COUNT", 1)
	kinds := map[string]int{}
	for seed := from; seed < from+count; seed++ {
		shape, actions := plan(uint64(seed), 200)
		var dumps []string
		for range 1 + number("TWICE", 0) {
			db, done, err := p.open(t.Context(), "one")
			if err != nil {
				t.Fatal(err)
			}
			l := life{seed: uint64(seed), shape: shape, folder: p.path()}
			if testing.Verbose() && count == 1 {
				l.story = os.Stdout
			}
			failure, dump, err := live(t.Context(), db, l, actions)
			if err != nil {
				t.Fatal(err)
			}
			done()
			if failure != nil {
				fmt.Printf("seed %d step %d: %v\n", seed, failure.Step, failure.Problems[:min(3, len(failure.Problems))])
				kinds["failed"]++
			}
			dumps = append(dumps, dump)
		}
		if len(dumps) > 1 && dumps[0] != dumps[1] {
			os.WriteFile("/tmp/dump0", []byte(dumps[0]), 0o600)
			os.WriteFile("/tmp/dump1", []byte(dumps[1]), 0o600)
			t.Errorf("seed %d: dumps differ", seed)
		}
	}
	fmt.Println(kinds)
}

func TestSearchPlanted(t *testing.T) {
	p, err := newPlace(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer p.close(t.Context())
	only := os.Getenv("PLANT")
	for _, one := range planted {
		if only != "" && !strings.Contains(one.name, only) {
			continue
		}
		found := false
		for seed := 1; seed <= number("COUNT", 60); seed++ {
			shape, actions := plan(uint64(seed), 200)
			db, done, err := p.open(t.Context(), "one")
			if err != nil {
				t.Fatal(err)
			}
			failure, _, err := live(t.Context(), db, life{seed: uint64(seed), shape: shape, folder: p.path(), plant: one.new()}, actions)
			done()
			if err != nil {
				fmt.Println(one.name, seed, err)
				continue
			}
			if failure != nil {
				fmt.Printf("%-60s seed %d step %d: %v\n", one.name, seed, failure.Step, failure.Problems[:min(2, len(failure.Problems))])
				found = true
				break
			}
		}
		if !found {
			fmt.Printf("%-60s NOT FOUND\n", one.name)
		}
	}
}

func TestBoth(t *testing.T) {
	lite, err := newPlace(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer lite.close(t.Context())
	pg, err := newPlace(t.Context(), os.Getenv("PONTE_TEST_POSTGRES"))
	if err != nil {
		t.Fatal(err)
	}
	defer pg.close(t.Context())
	for seed := number("SEED", 1); seed < number("SEED", 1)+number("COUNT", 3); seed++ {
		shape, actions := plan(uint64(seed), 200)
		var dumps []string
		for i, p := range []*place{lite, pg} {
			db, done, err := p.open(t.Context(), fmt.Sprint("life", seed))
			if err != nil {
				t.Fatal(err)
			}
			file, _ := os.Create(fmt.Sprintf("/tmp/story%d", i))
			failure, dump, err := live(t.Context(), db, life{seed: uint64(seed), shape: shape, folder: p.path(), story: file}, actions)
			if err != nil {
				t.Fatal(err)
			}
			if failure != nil {
				fmt.Println(seed, i, failure.Problems)
			}
			done()
			dumps = append(dumps, dump)
		}
		if dumps[0] != dumps[1] {
			os.WriteFile("/tmp/dump0", []byte(dumps[0]), 0o600)
			os.WriteFile("/tmp/dump1", []byte(dumps[1]), 0o600)
			t.Fatalf("seed %d: dumps differ", seed)
		}
	}
}

func TestShrinkOne(t *testing.T) {
	p, err := newPlace(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer p.close(t.Context())
	r := &runner{place: p, clock: clock.New(nil), plant: failoverOnUnknown}
	for seed := uint64(1); seed < 50; seed++ {
		shape, actions := plan(seed, 200)
		failure, err := r.live(t.Context(), seed, shape, actions, nil)
		if err != nil {
			t.Fatal(err)
		}
		if failure == nil {
			continue
		}
		fmt.Println(failure.Seed, failure.Step, failure.Problems)
		if err := r.shrink(t.Context(), failure); err != nil {
			t.Fatal(err)
		}
		fmt.Println(strings.Join(failure.Plan, "\n"))
		return
	}
}
