package inquiry

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/clock"
)

const (
	togetherMin  = 8                // hints that are worth a list instead of a question each
	togetherMax  = 200              // hints that are looked up by one list
	listedPage   = 100              // things that a page of a list is sure to have room for
	listedSpare  = 2                // pages beyond those: a list is about others too
	listedMax    = 10 * time.Second // that a list may cover: beyond, most of it would be about others
	listRest     = 10 * time.Minute // of real time without lists, at an acquirer whose lists are no help
	listPause    = 30 * time.Second // of real time without lists, at an acquirer that did not answer with one
	listsIdleMax = 3                // lists in a row that answered less than half
	writersMax   = 64               // of what is known already
)

// Together looks up many hints of an acquirer by one list of what happened in a short time, to the millisecond, instead of
// by a question each. What a list shows, the acquirer says over our own connection, as much as in an answer about one thing.
// What it does not show is asked about by itself. The zero Together is ready; its Clock and Log must be set.
type Together struct {
	Clock *clock.Clock
	Log   *slog.Logger

	mu    sync.Mutex
	state map[string]*listing // by acquirer
}

// listing is how an acquirer's lists have helped so far.
type listing struct {
	restsUntil time.Time // real time
	idle       int       // lists in a row that answered too little
}

// List reads what happened at an acquirer between two moments, for so many who ask. read reads a page and returns how many
// of them it answers. An acquirer that refuses such lists, or whose lists are slow or do not show what it told us of, is left
// alone with them for a while. It fails when the acquirer does not answer; the next questions are single ones then, because it
// may be only its lists that do not work.
func (t *Together) List(
	ctx context.Context, name string, from, to time.Time, asking int, read func(context.Context, acquirer.Window) (answered int, next string, err error),
) error {
	if asking < togetherMin || to.Sub(from) > listedMax || t.rests(name) {
		return nil
	}
	w := acquirer.Window{From: from, To: to, Exact: true}
	answered, began := 0, t.Clock.Real()
	for range asking/listedPage + listedSpare {
		n, next, err := t.page(ctx, w, read)
		if err != nil {
			if isSilence(err) && acquirer.As(err).Class != acquirer.Credentials { // the right to lists may be one of its own
				t.rest(ctx, name, listPause, err.Error())
				return err
			}
			t.rest(ctx, name, listRest, err.Error())
			return nil
		}
		answered += n
		if next == "" || answered >= asking || t.isSlow(began) {
			break
		}
		w.Cursor = next
	}
	switch {
	case t.isSlow(began):
		t.noHelp(ctx, name, "it is slow")
	case 2*answered < asking:
		t.noHelp(ctx, name, "it does not show what it told us of")
	default:
		t.help(name)
	}
	return nil
}

func (t *Together) page(
	ctx context.Context, w acquirer.Window, read func(context.Context, acquirer.Window) (int, string, error),
) (answered int, next string, err error) {
	ctx, cancel := context.WithTimeout(ctx, acquirer.TryTimeMax)
	defer cancel()
	err = guarded(func() (err error) {
		answered, next, err = read(ctx, w)
		return err
	})
	return answered, next, err
}

// isSlow reports whether a list that began then has taken all the time that a step has for its acquirer.
func (t *Together) isSlow(began time.Time) bool { return t.Clock.RealSince(began) > shareTimeMax }

// rests reports whether an acquirer is not asked for lists now.
func (t *Together) rests(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.Clock.Real().Before(t.at(name).restsUntil)
}

// help notes that a list was one.
func (t *Together) help(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.at(name).idle = 0
}

// noHelp notes that a list was none.
func (t *Together) noHelp(ctx context.Context, name, why string) {
	t.mu.Lock()
	at := t.at(name)
	at.idle++
	idle := at.idle
	t.mu.Unlock()
	if idle >= listsIdleMax {
		t.rest(ctx, name, listRest, why)
	}
}

// rest leaves an acquirer alone with lists.
func (t *Together) rest(ctx context.Context, name string, d time.Duration, why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*t.at(name) = listing{restsUntil: t.Clock.Real().Add(d)}
	t.Log.LogAttrs(ctx, slog.LevelWarn, "an acquirer's list is no help, it is asked about each payment",
		slog.String("acquirer", name), slog.Duration("for", d), slog.String("why", why))
}

// at returns how an acquirer's lists have helped. The lock must be held.
func (t *Together) at(name string) *listing {
	if t.state == nil {
		t.state = map[string]*listing{} // as many as there are acquirers
	}
	if t.state[name] == nil {
		t.state[name] = &listing{}
	}
	return t.state[name]
}
