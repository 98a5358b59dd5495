package sim

import (
	"fmt"
	"os"
	"strconv"
	"testing"
)

func number(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

func TestMany(t *testing.T) {
	p, err := newPlace(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	from, count := number("SEED", 1), number("COUNT", 1)
	kinds := map[string]int{}
	for seed := from; seed < from+count; seed++ {
		shape, actions := plan(uint64(seed), 200)
		var dumps []string
		for range 1 + number("TWICE", 0) {
			db, done, err := p.sqlite(t.Context(), "one")
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
