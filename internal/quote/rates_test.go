package quote

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/ponte-pay/ponte/internal/clock"
)

// told is a source of a test: a price, or a word for what is wrong with it.
type told struct {
	text  string
	clock *clock.Clock
}

func (s told) Name() string { return s.text }

var errSilent = errors.New("does not answer")

func (s told) Rate(context.Context) (Rate, error) {
	price, age, _ := strings.Cut(s.text, " ")
	if price == "silent" {
		return Rate{}, errSilent
	}
	r := Rate{Reais: decimal.RequireFromString(price), At: s.clock.Now()}
	switch age {
	case "undated":
		r.At = time.Time{}
	case "":
	default:
		old, err := time.ParseDuration(age)
		if err != nil {
			return Rate{}, err
		}
		r.At = r.At.Add(-old)
	}
	return r, nil
}

func TestRatesBelieveOnlyWhoAgrees(t *testing.T) {
	t.Parallel()
	for sources, want := range map[string]string{
		"5.40, 5.41":                   "5.40", // of two the one that promises less
		"5.41, 5.40":                   "5.40",
		"5.40, 5.41, 5.42":             "5.41",
		"5.00, 5.10":                   "5.00", // exactly 2 %
		"5.00, 5.1001":                 "none", // nobody knows which is right
		"5.40, 5.41, 6.00":             "5.40",
		"6.00, 5.41, 5.40":             "5.40",
		"4.00, 5.00, 6.00":             "none",
		"5.00, 5.00, 6.00, 6.00":       "none",
		"5.00, 5.05, 5.00, 6.00":       "5.00",
		"5.40":                         "5.40",
		"5.40, silent":                 "5.40",
		"5.40 5m1s, 5.50":              "5.50",
		"5.40 4m59s, 5.41":             "5.40",
		"5.40 6m, 5.50 6m":             "none",
		"5.40 -6m, 5.50":               "5.50", // from the future
		"5.40 undated, 5.41":           "5.40",
		"0, 5.41":                      "5.41",
		"-5.41, silent":                "none",
		"silent, silent":               "none",
		"":                             "none",
		"5.40 1h, 9.99, 5.41 5s, 5.42": "5.41", // 9.99 is alone among the fresh
	} {
		c := clock.New(nil)
		var list []Source
		for text := range strings.SplitSeq(sources, ", ") {
			if text != "" {
				list = append(list, told{text, c})
			}
		}
		got, err := NewRates(c, slog.New(slog.DiscardHandler), list...).reais(t.Context())
		shown := got.StringFixed(2)
		if errors.Is(err, errNoRate) {
			shown = "none"
		} else if err != nil {
			t.Fatal(err)
		}
		if shown != want {
			t.Errorf("%q: %s, want %s (%v)", sources, shown, want, err)
		}
	}
}
