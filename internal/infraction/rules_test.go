package infraction

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/event"
)

func TestRulesMatchDocument(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../docs/states.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(b), "\n## Infraction (MED)\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var told []rule
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(line, "|\n"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if len(cells) != 5 || cells[0] == "from" || strings.HasPrefix(cells[0], "---") {
			continue
		}
		told = append(told, rule{State(cells[0]), trigger(cells[1]), State(cells[2]), posting(cells[3]), event.Type(cells[4])})
	}
	// The first row is no transition: it is what makes it.
	made := rule{"", "open", Open, block, ""}
	if want := append([]rule{made}, rules...); !slices.Equal(told, want) {
		t.Errorf("docs/states.md and rules differ:\ntold  %v\nrules %v", told, want)
	}
}

func TestRulesAreDeterministic(t *testing.T) {
	t.Parallel()
	for i, a := range rules {
		for _, b := range rules[i+1:] {
			if a.from == b.from && a.on == b.on {
				t.Errorf("two rules for %s in %s", a.on, a.from)
			}
		}
	}
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	opened := time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)
	week := opened.Add(7 * 24 * time.Hour)
	for _, test := range []struct{ told, want time.Time }{
		{time.Time{}, week},
		{week.Add(time.Hour), week},
		{week, week},
		{opened.Add(5 * 24 * time.Hour), opened.Add(5 * 24 * time.Hour)},
	} {
		if got := deadline(opened, &acquirer.Infraction{DeadlineAt: test.told}); !got.Equal(test.want) {
			t.Errorf("told %v: %v, want %v", test.told, got, test.want)
		}
	}
}
