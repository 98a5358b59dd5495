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
	listedMax    = 10 * time.Second // that a list may cover: beyond, most of it would be about others
	listRest     = 10 * time.Minute // of real time without lists, at an acquirer whose lists are no help
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
// of them it answers. An acquirer that refuses such lists, or whose lists do not show what it told us of, is left alone with
// them for a while. It fails when the acquirer does not answer.
func (t *Together) List(
	ctx context.Context, name string, from, to time.Time, asking int, read func(context.Context, acquirer.Window) (answered int, next string, err error),
) error {
	if asking < togetherMin || to.Sub(from) > listedMax || t.rests(name) {
		return nil
	}
	w := acquirer.Window{From: from, To: to, Exact: true}
	answered := 0
	for range asking/listedPage + 2 {
		n, next, err := t.page(ctx, w, read)
		if err != nil {
			if isSilence(err) && acquirer.As(err).Class != acquirer.Credentials { // the right to lists may be one of its own
				return err
			}
			t.note(ctx, name, listsIdleMax, err)
			return nil
		}
		answered += n
		if next == "" || answered >= asking {
			break
		}
		w.Cursor = next
	}
	if 2*answered < asking {
		t.note(ctx, name, 1, nil)
	} else {
		t.note(ctx, name, 0, nil)
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

// rests reports whether an acquirer is not asked for lists now.
func (t *Together) rests(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := t.state[name]
	return at != nil && t.Clock.Real().Before(at.restsUntil)
}

// note counts a list that was no help so often; 0 is for one that was.
func (t *Together) note(ctx context.Context, name string, idle int, cause error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state == nil {
		t.state = map[string]*listing{} // as many as there are acquirers
	}
	at := t.state[name]
	if at == nil {
		at = &listing{}
		t.state[name] = at
	}
	if idle == 0 {
		at.idle = 0
		return
	}
	at.idle += idle
	if at.idle < listsIdleMax {
		return
	}
	at.idle, at.restsUntil = 0, t.Clock.Real().Add(listRest)
	why := "it does not show what it told us of"
	if cause != nil {
		why = cause.Error()
	}
	t.Log.LogAttrs(ctx, slog.LevelWarn, "an acquirer's list is no help, it is asked about each payment", slog.String("acquirer", name), slog.String("why", why))
}
