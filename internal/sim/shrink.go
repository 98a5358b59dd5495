package sim

import (
	"context"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Bounds of finding out what a failure takes.
const (
	triesMax      = 400
	shrinkTimeMax = time.Minute // of real time
)

// shrink takes actions, and what goes wrong in them, out of a failure's plan for as long as it still fails alike, and
// describes what is left.
func (r *runner) shrink(ctx context.Context, f *Failure) {
	until := r.clock.Real().Add(shrinkTimeMax)
	tries := 0
	class := classes(f.Problems)
	fails := func(actions []*Action) bool {
		if tries++; tries > triesMax || r.clock.Real().After(until) || ctx.Err() != nil {
			return false
		}
		again, err := r.live(ctx, f.Seed, f.shape, actions, nil)
		return err == nil && again != nil && slices.ContainsFunc(classes(again.Problems), func(c string) bool { return slices.Contains(class, c) })
	}
	left := f.actions
	if i := slices.IndexFunc(left, func(a *Action) bool { return a.Number == f.Step }); i >= 0 {
		left = left[:i+1]
	}
	if fails(left) { // otherwise it is not to be had again, and all of it is told
		left = shorten(left, fails)
		left = simplify(left, fails)
	}
	f.actions, f.Plan = left, nil
	for _, a := range left {
		f.Plan = append(f.Plan, a.String())
	}
}

// shorten takes out as many actions as it can: first large parts, then single ones.
func shorten(actions []*Action, fails func([]*Action) bool) []*Action {
	for size := len(actions) / 2; size > 0; {
		removed := false
		for at := len(actions) - size; at >= 0; at -= size {
			if rest := slices.Concat(actions[:at], actions[at+size:]); fails(rest) {
				actions, removed = rest, true
			}
		}
		if !removed || size > 1 {
			size /= 2
		}
	}
	return actions
}

// simplify takes out what goes wrong in the actions that are left.
func simplify(actions []*Action, fails func([]*Action) bool) []*Action {
	for i := range actions {
		for _, without := range []func(*Action){
			func(a *Action) { a.Inner = nil },
			func(a *Action) { a.Crash = 0 },
			func(a *Action) { a.Store = nil },
			func(a *Action) { a.Network = nil },
		} {
			simpler := *actions[i]
			without(&simpler)
			if simpler.String() == actions[i].String() {
				continue
			}
			changed := slices.Clone(actions)
			changed[i] = &simpler
			if fails(changed) {
				actions = changed
			}
		}
	}
	return actions
}

// classes are problems without names and numbers, which are others in another life.
func classes(problems []string) (list []string) {
	for _, p := range problems {
		var words []string
		for word := range strings.FieldsSeq(p) {
			if !strings.ContainsFunc(word, unicode.IsDigit) {
				words = append(words, word)
			}
		}
		list = append(list, strings.Join(words, " "))
	}
	return list
}
