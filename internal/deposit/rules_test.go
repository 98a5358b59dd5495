package deposit

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
	_, section, _ := strings.Cut(string(b), "\n## Crypto charge (deposit)\n")
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
	made := rule{"", "create", Processing, nothing, ""}
	if want := append([]rule{made}, rules...); !slices.Equal(told, want) {
		t.Errorf("docs/states.md and rules differ:\ntold  %v\nrules %v", told, want)
	}
}

// TestRulesAreClosed asks for every trigger in every state: what no row allows is refused, and an event is written by
// every move but those to refunded.
func TestRulesAreClosed(t *testing.T) {
	t.Parallel()
	allowed := 0
	for _, from := range []State{"", Processing, Waiting, Confirming, Paid, Failed, Expired, Refunded} {
		for _, on := range []trigger{repeat, provision, detect, confirm, fail, expire, refund} {
			r, err := from.next(on)
			if err != nil {
				if err.Error() != "deposit: cannot "+string(on)+" a deposit that is "+string(from) {
					t.Errorf("%v", err)
				}
				continue
			}
			allowed++
			if moves := r.from != r.to; (moves && r.to != Refunded) != (r.emits != "") {
				t.Errorf("%+v", r)
			}
			if !r.from.isOpen() && r.from != "" && r.from != r.to {
				t.Errorf("%s is an end, and leads to %s", r.from, r.to)
			}
		}
	}
	if allowed != len(rules) {
		t.Errorf("%d of %d rules can be reached", allowed, len(rules))
	}
}
