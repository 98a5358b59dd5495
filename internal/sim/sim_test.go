package sim

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
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
			o := liveOptions{}
			if testing.Verbose() && count == 1 {
				o.story = os.Stdout
			}
			folder, _ := os.MkdirTemp(p.folder, "w")
			failure, dump, err := live(t.Context(), db, folder, uint64(seed), shape, actions, o)
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
			folder, _ := os.MkdirTemp(p.folder, "w")
			failure, _, err := live(t.Context(), db, folder, uint64(seed), shape, actions, liveOptions{plant: one.new()})
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
			o := liveOptions{}
			file, _ := os.Create(fmt.Sprintf("/tmp/story%d", i))
			o.story = file
			folder, _ := os.MkdirTemp(p.folder, "w")
			failure, dump, err := live(t.Context(), db, folder, uint64(seed), shape, actions, o)
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
