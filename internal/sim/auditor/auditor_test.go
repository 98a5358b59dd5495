package auditor

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestMoves holds the tables of docs/states.md equal to what the auditor allows.
func TestMoves(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/states.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{
		"Charge": "charge", "Payout": "payout", "Infraction": "infraction", "Crypto charge": "deposit", "Crypto payout": "withdrawal",
	}
	row := regexp.MustCompile(`^\| ([a-z_ ]*) \| ([a-z_]+) *\| ([a-z_]+) *\|`)
	found := map[string][][2]string{}
	what := ""
	for line := range strings.Lines(string(text)) {
		if title, ok := strings.CutPrefix(line, "## "); ok {
			name, _, _ := strings.Cut(title, " (")
			what = sections[strings.TrimSpace(name)]
		}
		m := row.FindStringSubmatch(line)
		if m == nil || what == "" || m[2] == "event" {
			continue
		}
		if move := [2]string{strings.TrimSpace(m[1]), m[3]}; move[0] != move[1] && !slices.Contains(found[what], move) {
			found[what] = append(found[what], move)
		}
	}
	if len(found) != len(moves) {
		t.Fatalf("found %v", found)
	}
	for what, want := range moves {
		for _, m := range want {
			if !slices.Contains(found[what], m) {
				t.Errorf("docs/states.md has no %s from %q to %q", what, m[0], m[1])
			}
		}
		for _, m := range found[what] {
			if !slices.Contains(want, m) {
				t.Errorf("the auditor does not know %s from %q to %q", what, m[0], m[1])
			}
		}
	}
}

func TestCanMove(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what, from, to string
		want           bool
	}{
		{"charge", "", "pending", true},
		{"charge", "", "refunded", true}, // in one step
		{"charge", "expired", "paid", true},
		{"charge", "paid", "pending", false},
		{"charge", "refunded", "paid", false},
		{"payout", "failed", "completed", false},
		{"payout", "completed", "failed", false},
		{"deposit", "paid", "paid", true},
		{"deposit", "expired", "paid", false},
	} {
		if got := canMove(c.what, c.from, c.to); got != c.want {
			t.Errorf("%s from %q to %q: %v", c.what, c.from, c.to, got)
		}
	}
}

func TestAmounts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"0": 0, "1": 100, "1.5": 150, "12.34": 1234, "-0.05": -5, "7.999": 799} {
		if got := units(text, 2); got != want {
			t.Errorf("units(%s) = %d, want %d", text, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0.00", 5: "0.05", 1234: "12.34", 100_000: "1000.00"} {
		if got := format(n, 2); got != want {
			t.Errorf("format(%d) = %s, want %s", n, got, want)
		}
	}
	for _, c := range []struct {
		text         string
		amount, want int64
	}{{"0", 500, 0}, {"1.00", 500, 100}, {"0.50+0.99%", 10_000, 149}, {"0+1.5%", 33, 0}, {"0+1.5%", 34, 1}, {"0.10+3.3333%", 15, 10}, {"0.10+3.3333%", 16, 11}} {
		if got := feeOf(c.text, c.amount, 2); got != c.want {
			t.Errorf("%s of %d is %d, want %d", c.text, c.amount, got, c.want)
		}
	}
}
