package webhook

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/event"
	"github.com/ponte-pay/ponte/internal/id"
)

// Listener forwards an account's events to a URL of a developer's own, in the order of the feed, and remembers in a file
// how far it came.
type Listener struct {
	feed    *event.Feed
	clock   *clock.Clock
	account id.Account
	url     string
	path    string // of its file
	cursor  cursor
	tried   int64 // attempts at the next event
	client  *http.Client
}

// cursor is what the file holds.
type cursor struct {
	After  string `json:"after"` // the last event that was answered; "" for none
	Secret string `json:"secret"`
}

// Forwarded is one event that was forwarded, or could not be.
type Forwarded struct {
	Event  event.Event
	Status int   // of the answer; 0 for none
	Err    error // why there was none
	Gap    bool  // events are missing before this one
}

const (
	listenPage    = 100
	listenTimeMax = 10 * time.Second
)

// NewListener returns a listener that goes on where the one before it stopped, or begins with the next event.
func NewListener(ctx context.Context, feed *event.Feed, c *clock.Clock, random io.Reader, folder string, owner id.Account, url string) (*Listener, error) {
	sum := sha256.Sum256([]byte(url))
	l := &Listener{
		feed: feed, clock: c, account: owner, url: url,
		path: filepath.Join(folder, "listen-"+owner.String()+"-"+hex.EncodeToString(sum[:4])+".json"),
		client: &http.Client{
			Timeout:       listenTimeMax,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	content, err := os.ReadFile(l.path)
	if err == nil {
		if err := json.Unmarshal(content, &l.cursor); err != nil {
			return nil, fmt.Errorf("%s: %w", l.path, err)
		}
		return l, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if l.cursor.Secret, err = newSecret(random); err != nil {
		return nil, err
	}
	last, err := feed.Last(ctx, owner)
	if err != nil {
		return nil, err
	}
	if !last.IsZero() {
		l.cursor.After = event.Prefix.Format(last)
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	return l, l.save()
}

// Secret returns what signs what is forwarded.
func (l *Listener) Secret() string { return l.cursor.Secret }

// Step forwards the events that came, and tells of each. One that nobody answers is kept and tried again.
func (l *Listener) Step(ctx context.Context, tell func(Forwarded)) (did bool, err error) {
	var after id.ID
	if l.cursor.After != "" {
		if after, err = event.Prefix.Parse(l.cursor.After); err != nil {
			return false, fmt.Errorf("%s: %w", l.path, err)
		}
	}
	page, err := l.feed.After(ctx, l.account, after, listenPage)
	gap := errors.Is(err, event.ErrUnknown)
	if gap { // it is older than events are kept: what came right behind it may be gone too
		page, err = l.feed.After(ctx, l.account, id.ID{}, listenPage)
	}
	if err != nil {
		return false, err
	}
	for i := range page {
		l.tried++
		f := Forwarded{Event: page[i], Gap: gap}
		f.Status, f.Err = l.forward(ctx, &page[i])
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		tell(f)
		if f.Err != nil {
			break
		}
		gap, l.tried = false, 0
		l.cursor.After = event.Prefix.Format(page[i].ID)
		if err := l.save(); err != nil {
			return false, err
		}
	}
	return len(page) == listenPage && l.tried == 0, nil
}

func (l *Listener) forward(ctx context.Context, e *event.Event) (status int, err error) {
	body := e.Body()
	m := Message{URL: l.url, Event: e.ID, Type: e.Type, Body: body, Attempt: l.tried, Signature: Sign(l.cursor.Secret, l.clock.Real(), body)}
	r, err := m.Request(ctx)
	if err != nil {
		return 0, err
	}
	answer, err := l.client.Do(r)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, responseBytesMax))
	return answer.StatusCode, nil
}

// save writes the cursor so that a kill leaves the old one or the new one.
func (l *Listener) save() error {
	text, err := json.Marshal(l.cursor) //nolint:gosec // the secret belongs there; only the owner reads the file
	if err != nil {
		return err
	}
	temporary := l.path + ".new"
	if err := os.WriteFile(temporary, append(text, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, l.path)
}
