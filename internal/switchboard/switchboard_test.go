package switchboard_test

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"

	"github.com/ponte-pay/ponte/internal/acquirer"
	"github.com/ponte-pay/ponte/internal/clock"
	"github.com/ponte-pay/ponte/internal/fault"
	"github.com/ponte-pay/ponte/internal/id"
	"github.com/ponte-pay/ponte/internal/oplog"
	"github.com/ponte-pay/ponte/internal/sqldb"
	"github.com/ponte-pay/ponte/internal/sqldb/sqltest"
	"github.com/ponte-pay/ponte/internal/switchboard"
)

type named struct {
	acquirer.Acquirer // nil: nothing is asked of it
	name              string
}

func (n named) Name() string { return n.name }

// What one node switches, a second one knows after its next step.
func TestSwitch(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, db *sqldb.DB) {
		c := clock.New(nil)
		s := &switchboard.Service{DB: db, Clock: c, IDs: id.NewGenerator(c.Now, rand.Reader)}
		other, err := acquirer.NewRouter(c, acquirer.Route{Acquirer: named{name: "alpha"}}, acquirer.Route{Acquirer: named{name: "beta"}})
		if err != nil {
			t.Fatal(err)
		}
		step := s.Step(other)
		offs := func() (list []string) {
			t.Helper()
			if _, err := step(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, h := range other.Health() {
				if h.Off != nil {
					list = append(list, h.Acquirer+" by "+h.Off.Who+": "+h.Off.Reason)
				}
			}
			return list
		}
		ctx := oplog.As(t.Context(), oplog.Actor{Kind: oplog.Person, Name: "ana@example.com"})
		if err := s.Off(ctx, "alpha", " "); fault.As(err).Kind != fault.Invalid {
			t.Errorf("without a reason: %v", err)
		}
		if err := s.Off(ctx, "alpha", "it loses answers"); err != nil {
			t.Fatal(err)
		}
		if err := s.Off(ctx, "alpha", "again"); !errors.Is(err, switchboard.ErrOff) {
			t.Errorf("twice: %v", err)
		}
		if got := offs(); len(got) != 1 || got[0] != "alpha by ana@example.com: it loses answers" {
			t.Errorf("off: %q", got)
		}
		if err := s.On(ctx, "alpha"); err != nil {
			t.Fatal(err)
		}
		if err := s.On(ctx, "alpha"); !errors.Is(err, switchboard.ErrOn) {
			t.Errorf("twice: %v", err)
		}
		if got := offs(); got != nil {
			t.Errorf("off: %q", got)
		}
		entries, err := oplog.List(ctx, db, oplog.Page{})
		if err != nil || len(entries) != 2 || entries[0].Action != oplog.AcquirerOn || entries[1].Reason != "it loses answers" {
			t.Errorf("the log: %+v, %v", entries, err)
		}
	})
}

// Whatever answer is lost, it is switched once and its operator is told so.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	proxy := sqltest.NewProxy(t, sqltest.Postgres(t))
	db := sqltest.Open(t, proxy.URL)
	c := clock.New(nil)
	s := &switchboard.Service{DB: db, Clock: c, IDs: id.NewGenerator(c.Now, rand.Reader)}
	const messagesMax = 6
	switches := 1
	if err := s.Off(t.Context(), "beta", "the connection is warm"); err != nil {
		t.Fatal(err)
	}
	for cut := range messagesMax {
		for _, change := range []func(context.Context) error{
			func(ctx context.Context) error { return s.Off(ctx, "alpha", "drill") },
			func(ctx context.Context) error { return s.On(ctx, "alpha") },
		} {
			proxy.CutAfterSkipping(cut)
			if err := change(t.Context()); err != nil {
				t.Errorf("cut %d: %v", cut, err)
			}
			proxy.Pass()
			switches++
		}
	}
	if entries, err := oplog.List(t.Context(), db, oplog.Page{}); err != nil || len(entries) != switches {
		t.Errorf("%d entries of %d switches, %v", len(entries), switches, err)
	}
}
