package quote

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/shopspring/decimal"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/crowd"
)

// Source tells what a dollar costs in reais.
type Source interface {
	// Name returns what operators call this source.
	Name() string

	// Rate asks for the price now. It ends when ctx does.
	Rate(ctx context.Context) (Rate, error)
}

// Rate is a price at a moment.
type Rate struct {
	Reais decimal.Decimal // for one dollar
	At    time.Time       // when it was made, as the source says; zero when it does not
}

const (
	askTimeMax = 3 * time.Second // for one answer, in real time
	ageMax     = 5 * time.Minute // of a rate that is used, in business time; also how far ahead a source's clock may be

	// agreeShare is how far two sources may be apart, of the smaller one, and still agree.
	agreeShare = "0.02"
)

// Rates asks several sources what a dollar costs in reais, and believes only those that agree with most.
type Rates struct {
	clock   *clock.Clock
	log     *slog.Logger
	sources []Source
}

// NewRates returns the rates of these sources.
func NewRates(c *clock.Clock, log *slog.Logger, sources ...Source) *Rates {
	return &Rates{clock: c, log: log, sources: sources}
}

// errNoRate says that no source is sound.
var errNoRate = errors.New("quote: no source of rates is sound")

// reais returns what a dollar costs in reais, or fails when no source is sound.
func (r *Rates) reais(ctx context.Context) (decimal.Decimal, error) {
	answers := make([]answer, len(r.sources))
	crowd.Each(len(answers), len(answers), func(i int) { answers[i] = r.ask(ctx, r.sources[i]) })
	used := sound(answers)
	var unsound []error
	for i := range answers {
		if answers[i].err != nil {
			unsound = append(unsound, fmt.Errorf("%s: %w", answers[i].source, answers[i].err))
		}
	}
	why := errors.Join(unsound...)
	if len(used) == 0 {
		return decimal.Zero, errors.Join(errNoRate, why)
	}
	if why != nil {
		r.log.LogAttrs(ctx, slog.LevelWarn, "a source of rates is not used", slog.String("error", why.Error()))
	}
	slices.SortFunc(used, func(a, b decimal.Decimal) int { return a.Cmp(b) })
	return used[(len(used)-1)/2], nil // the middle one; of two, the one that promises less
}

// answer is what a source told.
type answer struct {
	source string
	reais  decimal.Decimal
	err    error // why it is not used; nil while nothing speaks against it
}

var errStale = errors.New("is too old")

func (r *Rates) ask(ctx context.Context, source Source) answer {
	ctx, cancel := context.WithTimeout(ctx, askTimeMax)
	defer cancel()
	rate, err := source.Rate(ctx)
	a := answer{source.Name(), rate.Reais, err}
	if err == nil && !rate.Reais.IsPositive() {
		a.err = fmt.Errorf("says %s", rate.Reais)
	}
	if age := r.clock.Now().Sub(rate.At).Abs(); a.err == nil && !rate.At.IsZero() && age > ageMax {
		a.err = fmt.Errorf("%w: %s", errStale, age.Round(time.Second))
	}
	return a
}

var errAlone = errors.New("is more than 2 % off the others")

// sound returns the rates that most of those that are not ruled out agree with, themselves among them, and notes why the
// others are not used. So one source that is off is left out among three; of two that differ nobody knows which is right.
func sound(answers []answer) (used []decimal.Decimal) {
	var valid []int
	for i := range answers {
		if answers[i].err == nil {
			valid = append(valid, i)
		}
	}
	apart := decimal.RequireFromString(agreeShare)
	for _, i := range valid {
		agreeing := 0
		for _, j := range valid {
			a, b := answers[i].reais, answers[j].reais
			if a.Sub(b).Abs().LessThanOrEqual(decimal.Min(a, b).Mul(apart)) {
				agreeing++
			}
		}
		if 2*agreeing > len(valid) {
			used = append(used, answers[i].reais)
		} else {
			answers[i].err = fmt.Errorf("%s %w", answers[i].reais, errAlone)
		}
	}
	return used
}
