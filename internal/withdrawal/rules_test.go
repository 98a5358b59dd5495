package withdrawal

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ponte-pay/ponte/internal/event"
)

func TestRulesMatchDocument(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../docs/states.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(b), "\n## Crypto payout (withdrawal)\n")
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
	// The first row is no transition: it is Create.
	made := rule{"", "create", Processing, holdCrypto, event.CryptoPayoutProcessing}
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
