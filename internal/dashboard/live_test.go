package dashboard_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
	"github.com/ponte-pay/ponte/internal/testkit"
	"github.com/ponte-pay/ponte/internal/user"
)

type madeCharge struct {
	ID  string
	Pix struct {
		CopyPaste string `json:"copy_paste"`
	}
}

// newCharge makes a charge by the API.
func newCharge(t *testing.T, s *testkit.Service, a testkit.Account, key string) (c madeCharge) {
	t.Helper()
	s.Do(t, testkit.Request{
		Method: http.MethodPost, Path: "/v1/charges", Key: a.Key, Body: `{"amount": 1234.50}`, Header: http.Header{"Idempotency-Key": {key}},
	}).Want(t, http.StatusCreated).Decode(t, &c)
	return c
}

// begin opens the stream of an account, and returns it when it has begun.
func begin(t *testing.T, b *testkit.Browser, a testkit.Account, query string) testkit.Messages {
	t.Helper()
	m := b.Follow(t, "/accounts/"+a.ID.String()+"/live"+query)
	if got := m.Next(t); got != "retry: 2000\n" {
		t.Fatalf("got %q", got)
	}
	return m
}

// What happens on one node is told to pages of another, in the language of who looks, and to nobody of another account.
func TestLiveOnTwoNodes(t *testing.T) {
	t.Parallel()
	world, database := testkit.NewWorld(t), sqltest.Postgres(t)
	one, two := testkit.Start(t, database, testkit.Simulator(world)), testkit.Start(t, database, testkit.Simulator(world))
	shop, other := one.Account(t, "Padaria"), one.Account(t, "Livraria")
	ana, eve := two.Person(t, "ana@example.com", shop.ID, user.Viewer), two.Person(t, "eve@example.com", other.ID, user.Owner)
	told, toldEve := begin(t, ana, shop, ""), begin(t, eve, other, "")
	ana.Post(t, "/preferences", url.Values{"locale": {"en"}}).Want(t, http.StatusSeeOther)
	toldInEnglish := begin(t, ana, shop, "")

	c := newCharge(t, one, shop, "two-nodes")
	world.Pay(t, testkit.Payment{CopyPaste: c.Pix.CopyPaste})
	one.Get(t, shop.Key, "/v1/charges/"+c.ID).Want(t, http.StatusOK) // asks the bank
	newCharge(t, one, other, "of-others")
	two.Step(t)
	for i, m := range []testkit.Messages{told, toldInEnglish} {
		say := []string{`Uma cobrança de R$` + "\u00a0" + `1.234,50 foi paga.`, `A charge of R$` + "\u00a0" + `1,234.50 was paid.`}[i]
		for _, want := range []string{
			fmt.Sprintf(`data: {"type":"charge.created","ref":%q}`, c.ID),
			fmt.Sprintf(`data: {"type":"charge.paid","ref":%q,"say":"%s"}`, c.ID, say),
		} {
			if got := m.Next(t); !strings.HasPrefix(got, "event: news\nid: evt_") || !strings.Contains(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		}
	}
	if got := toldEve.Next(t); !strings.Contains(got, "charge.created") || strings.Contains(got, c.ID) {
		t.Errorf("got %q", got)
	}
}

// A page that comes late, or comes back, is told what it missed.
func TestLiveCatchesUp(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, sqltest.SQLite(t))
	shop := s.Account(t, "Padaria")
	ana := s.Person(t, "ana@example.com", shop.ID, user.Viewer)
	shown := ana.Get(t, "/accounts/"+shop.ID.String()).Want(t, http.StatusOK)
	_, rest, _ := strings.Cut(shown.Body, `data-live-since="`)
	since, _, _ := strings.Cut(rest, `"`)
	c := newCharge(t, s, shop, "while-away")
	if got := begin(t, ana, shop, "?since="+since).Next(t); !strings.Contains(got, c.ID) {
		t.Errorf("got %q", got)
	}
	for i := range 60 { // more than anybody wants to hear
		newCharge(t, s, shop, fmt.Sprintf("many-charges-%d", i))
	}
	if got := begin(t, ana, shop, "?since="+since).Next(t); !strings.HasPrefix(got, "event: many\nid: evt_") {
		t.Errorf("got %q", got)
	}
}

// A stream tells nothing once its session has ended or the role was taken, and ends.
func TestLiveEnds(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, sqltest.SQLite(t))
	shop := s.Account(t, "Padaria")
	s.Person(t, "owner@example.com", shop.ID, user.Owner)
	for name, end := range map[string]func(b *testkit.Browser){
		"signed out": func(b *testkit.Browser) { b.Post(t, "/sign-out", nil).Want(t, http.StatusSeeOther) },
		"expelled": func(b *testkit.Browser) {
			p, err := s.Core.Users.Find(t.Context(), b.Email)
			if err == nil {
				err = s.Core.Users.Expel(t.Context(), shop.ID, p.ID)
			}
			if err != nil {
				t.Fatal(err)
			}
		},
	} {
		b := s.Person(t, strings.ReplaceAll(name, " ", "-")+"@example.com", shop.ID, user.Owner)
		m := begin(t, b, shop, "")
		end(b)
		newCharge(t, s, shop, name+" charge")
		s.Step(t)
		if got := m.Next(t); got != "event: end\ndata:\n" {
			t.Errorf("%s: got %q", name, got)
		}
		if got := m.Next(t); got != "" {
			t.Errorf("%s: it goes on with %q", name, got)
		}
	}
}

// A person cannot open more streams than the bound, and is told so.
func TestLiveIsBounded(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, sqltest.SQLite(t))
	shop := s.Account(t, "Padaria")
	ana := s.Person(t, "ana@example.com", shop.ID, user.Viewer)
	const personStreamsMax = 8
	for range personStreamsMax {
		begin(t, ana, shop, "")
	}
	ana.Get(t, "/accounts/"+shop.ID.String()+"/live").Want(t, http.StatusTooManyRequests)
}

// A server that stops does not wait for pages that are open, although they have been open for longer than any request.
func TestLiveStopsWithTheServer(t *testing.T) {
	t.Parallel()
	s := testkit.Run(t, sqltest.SQLite(t))
	shop := s.Account(t, "Padaria")
	m := begin(t, s.Person(t, "ana@example.com", shop.ID, user.Viewer), shop, "")
	s.Stop()
	testkit.Within(t, time.Second, "the end of the stream", func() bool {
		select {
		case got, ok := <-m:
			if ok {
				t.Errorf("got %q", got)
			}
			return !ok
		default:
			return false
		}
	})
}
