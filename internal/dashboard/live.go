package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/ponte-pay/ponte/internal/account"
	"github.com/ponte-pay/ponte/internal/dashboard/live"
	"github.com/ponte-pay/ponte/internal/event"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/money"
	"github.com/ponte-pay/ponte/internal/user"
)

// Bounds of a stream, in real time.
const (
	heartbeatEvery = 15 * time.Second // also how soon a session that ended is noticed when nothing happens
	streamWriteMax = 10 * time.Second // for one message
	reconnectAfter = 2 * time.Second

	// openWriteMax is how long an event can be under way between its identifier and its COMMIT.
	openWriteMax = 10 * time.Second
	missedMax    = 50 // events since the page was made that are told one by one; where more came, only that
)

// livePath is where the stream of an account is, below it.
const livePath = "/live"

// liveHeader marks a page that is fetched again because of news: nobody sits there who would keep the session alive.
const liveHeader = "Ponte-Live"

// Why there is no stream.
var (
	errStreams = fault.New(fault.RateLimited, "too_many_streams", "too many pages are open")
	errLeaving = fault.New(fault.Unavailable, "", "the server is stopping")
)

// follow opens the stream of what happens to an account.
func (d *Dashboard) follow(v *visit) (reply, error) {
	s, err := d.Live.Join(v.Context(), v.account.ID, v.who.Person.ID)
	switch {
	case errors.Is(err, live.ErrFull):
		return reply{}, errStreams
	case errors.Is(err, live.ErrClosed):
		return reply{}, errLeaving
	case err != nil:
		return reply{}, err
	}
	return reply{live: func() { d.stream(v, s) }}, nil
}

// stream tells a page what happens until it goes, the server stops, or the visitor may not know any more.
func (d *Dashboard) stream(v *visit, s *live.Stream) {
	defer s.Leave()
	c := http.NewResponseController(v.w)
	// The server bounds requests and answers, and this is an answer that goes on. Each message has a bound of its own.
	_ = c.SetReadDeadline(time.Time{}) // without it the stream ends early, and the page comes back
	h := v.w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // some proxies would collect it
	send := func(message string) bool {
		_ = c.SetWriteDeadline(d.Clock.Real().Add(streamWriteMax))
		_, err := v.w.Write([]byte(message)) //nolint:gosec // no browser takes an event stream for a page
		return err == nil && c.Flush() == nil
	}
	if !send(fmt.Sprintf("retry: %d\n\n", reconnectAfter.Milliseconds())) || !send(d.missed(v)) {
		return
	}
	for {
		message, ok := d.next(v, s)
		if !ok {
			return
		}
		if !d.isStillIn(v) {
			send("event: end\ndata:\n\n")
			return
		}
		if !send(message) {
			return
		}
	}
}

// heartbeat is a comment: it shows that the connection lives.
const heartbeat = ":\n\n"

// next waits for the next message; false when the stream is over.
func (d *Dashboard) next(v *visit, s *live.Stream) (string, bool) {
	beat, stop := context.WithTimeout(v.Context(), heartbeatEvery)
	defer stop()
	select {
	case n := <-s.News():
		return d.message(v, n) + d.waiting(v, s), true
	case <-s.Ended():
		return "", false
	case <-beat.Done():
		return heartbeat, v.Context().Err() == nil
	}
}

// waiting returns all that came with the last message, so that the database is asked once whether the visitor may know.
func (d *Dashboard) waiting(v *visit, s *live.Stream) string {
	var b strings.Builder
	for {
		select {
		case n := <-s.News():
			b.WriteString(d.message(v, n))
		default:
			return b.String()
		}
	}
}

// isStillIn reports whether the visitor may still know: the session has not ended and the role was not taken. When nobody
// can tell, it is not so.
func (d *Dashboard) isStillIn(v *visit) bool {
	cookie, err := v.Cookie(v.cookieName(sessionCookie))
	if err != nil {
		return false
	}
	who, err := d.Users.Look(v.Context(), cookie.Value)
	if err != nil || !who.Session.Whole {
		return false
	}
	for _, m := range who.Memberships {
		if m.Account == v.account.ID {
			return m.Role.May(user.View)
		}
	}
	return false
}

// missed returns what happened between the making of the page and now. Some of it the page may know already; it drops what
// it has told.
func (d *Dashboard) missed(v *visit) string {
	since := v.Header.Get("Last-Event-Id")
	if since == "" {
		since = v.URL.Query().Get("since")
	}
	after, err := event.Prefix.Parse(since)
	if err != nil {
		return heartbeat
	}
	found, err := event.Since(v.Context(), d.DB, v.account.ID, id.First(after.Time().Add(-openWriteMax)), missedMax)
	if err != nil || len(found) == missedMax {
		return d.message(v, live.News{Many: true})
	}
	var b strings.Builder
	b.WriteString(heartbeat)
	for _, e := range found {
		b.WriteString(d.message(v, live.News{Event: e}))
	}
	return b.String()
}

// sinceNow returns what a page that is made now asks for: everything after it.
func (d *Dashboard) sinceNow() string { return event.Prefix.Format(id.First(d.Clock.Now())) }

// news is what a page is told of an event.
type news struct {
	Type event.Type `json:"type"`
	Ref  string     `json:"ref"`           // the thing it happened to
	Say  string     `json:"say,omitempty"` // in the visitor's language
}

// message returns news as the stream carries it.
func (d *Dashboard) message(v *visit, n live.News) string {
	if n.Many {
		return "event: many\nid: " + d.sinceNow() + "\ndata:\n\n"
	}
	e := n.Event
	if of := resourceOf(e.Type); v.account.Settings.Disabled.Has(of) {
		return heartbeat // its pages are switched off
	}
	var thing struct {
		ID       string      `json:"id"`
		Amount   json.Number `json:"amount"`
		Received json.Number `json:"received_amount"`
	}
	if err := json.NewDecoder(bytes.NewReader(e.Data)).Decode(&thing); err != nil {
		return heartbeat
	}
	out := news{Type: e.Type, Ref: thing.ID}
	if key := "live." + strings.ReplaceAll(string(e.Type), ".", "_"); v.locale.has(key) {
		out.Say = v.t(key, v.locale.digits(e.Type, thing.Amount, thing.Received))
	}
	text, err := json.Marshal(out)
	if err != nil {
		return heartbeat
	}
	return fmt.Sprintf("event: news\nid: %s\ndata: %s\n\n", event.Prefix.Format(e.ID), text)
}

// digits writes the amount of an event: of Pix in reais, of crypto in USDT.
func (l locale) digits(kind event.Type, amount, received json.Number) string {
	if !isCrypto(kind) {
		if a, err := money.ParseBRL(amount.String()); err == nil {
			return l.brl(a)
		}
		return amount.String()
	}
	if received != "" {
		amount = received
	}
	if a, err := money.ParseUSDT(amount.String()); err == nil {
		return l.usdt(a)
	}
	return amount.String()
}

func isCrypto(kind event.Type) bool { return strings.HasPrefix(string(kind), "crypto.") }

// resourceOf returns what an operator can switch off, so that its events are told to nobody.
func resourceOf(kind event.Type) account.Resources {
	switch {
	case isCrypto(kind):
		return account.ResourceCrypto
	case strings.HasPrefix(string(kind), "charge."):
		return account.ResourceCharges
	}
	return account.ResourcePayouts
}
